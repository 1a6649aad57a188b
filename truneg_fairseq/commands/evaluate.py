"""``truneg evaluate``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..evaluation.models import OpeningOptions
from ..files import require_writable
from ..options import option
from ..results.result import named_models


@dataclass(kw_only=True)
class EvaluateOptions(OpeningOptions):
    models: list[str] = option(
        help="checkpoints of masked LMs or ELECTRAs, or folders of Hugging Face's (hub:NAME downloads one); the "
        "others are compared with the first",
        positional=True,
        metavar="[NAME=]MODEL",
    )
    task: list[str] = option(
        help="held-out=SPLIT or TXT, lexsub=FILE, cloze=FILE, blimp=DIR, zorro=DIR, sts=FILE, reading=FILE: see "
        "docs/start/evaluate.md",
        metavar="NAME=FILE",
    )
    results: Path | None = option(None, help="add all scores to this result file of truneg compare", metavar="JSONL")
    seed: int | None = option(
        None, "of --results: the seed of the models' training (default: seed-N of the path, or 1)"
    )
    synonym_table: Path | None = option(
        None,
        "held-out: what is a false negative (default: synonyms.npz beside the data, else in the cache folder, built "
        "when missing); lexsub, cloze: words that it lists are also reported apart",
        metavar="NPZ",
    )
    mask_seed: int | None = option(
        None, "held-out: of the masked positions (default: that of the last model's training; of a text 1)"
    )
    batch_size: int = option(32, "held-out: sequences per batch", ge=1)
    limit: int | None = option(None, "blimp, zorro: only the first N pairs of each paradigm", ge=1)


def evaluate(options: EvaluateOptions) -> None:
    """Measure models: held-out text, lexical substitution, cloze answers, grammar, similarity, reading times.

    Prints one table, with controls that need no training and differences to the first model, and one sentence.
    """
    models = named_models(options.models, options.seed)
    if options.corpus_counts is not None:
        models = [each for one in models for each in (one, one._replace(name=f"{one.name}+counts", counts=True))]
    if options.results is not None:
        require_writable(options.results, "--results", makes_folders=True)
    from ..evaluation import yardstick
    from ..evaluation.held_out import examples_of
    from ..results.result import append_result
    from ..results.tables import terminal, wrapped

    tasks = yardstick.parse_tasks(
        options.task,
        synonym_table=options.synonym_table,
        mask_seed=options.mask_seed,
        batch_size=options.batch_size,
        limit=options.limit,
    )
    found = []
    for each in yardstick.evaluate(models, tasks, options, with_controls=True, say=partial(print, flush=True)):
        found.append(each)
        if options.results is not None:
            for result in each.results():
                append_result(options.results, result)
    notes = dict.fromkeys(each.yardstick.notes for each in found if each.yardstick.notes)
    shown = yardstick.table(found)
    print("\n".join(["", *terminal(shown), "", *wrapped([*notes, _NOTE]), *examples_of(found[-1])]))
    print(f"\n{yardstick.verdict(found)}", flush=True)
    if options.results is not None:
        print(f"next: truneg compare {options.results}")


_NOTE = (
    "Percent where no unit is given; ↑ higher is better, ↓ lower. [..]: 95 % bootstrap over items, differences paired "
    "by item; ~ not significant. One training each says nothing of other seeds: truneg experiment compares seeds."
)
