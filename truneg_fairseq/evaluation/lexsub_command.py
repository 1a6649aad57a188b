"""``truneg lexsub``: do checkpoints put the words first that people accept?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..options import option
from .model_options import (
    ModelsOptions,
    NamedModel,
    add_results,
    load_table,
    named_models,
    open_common_tokens,
    open_each,
    require_mask,
)

if TYPE_CHECKING:
    from ..synonyms import SynonymTable
    from .tokens import Tokens


@dataclass(frozen=True, kw_only=True)
class LexsubOptions(ModelsOptions):
    judgements: Path = option(
        help="SWORDS's JSON, CoInCo's XML or SemEval-2007's XML; plain or gzipped", metavar="FILE"
    )
    gold: Path | None = option(None, help="of SemEval-2007's XML: its gold file", metavar="FILE")
    held_out_table: Path | None = option(
        None,
        help="synonym table: targets and words that it lists are reported apart, also in --results (default: the "
        "tables that the checkpoints were trained with, not in --results)",
        metavar="NPZ",
    )


def lexsub(options: LexsubOptions) -> None:
    """Measure masked LMs by lexical substitution: do they put the words first that people accept?

    Prints the metrics with controls that need no training (chance, the cosine of the first model's input embeddings, a
    synonym table looked up) and the vocabulary's ceiling, and the differences to the first model.
    """
    models = named_models(options)
    from ..results.tables import terminal
    from .lexsub import ANY, Benchmark, Scores
    from .lexsub_controls import Chance, EmbeddingCosine, LookUp, Trained
    from .lexsub_places import require_some
    from .lexsub_reading import read_any
    from .lexsub_report import NOTES, NOTES_OF_TABLES, tables

    judgements = read_any(options.judgements, options.gold)
    tokens = open_common_tokens(options)
    require_mask(tokens, options.checkpoints[0])
    listing = _tables(options, models, tokens)
    benchmark = Benchmark(judgements, tokens, listing)
    require_some(benchmark.places, options.judgements)
    print(benchmark.described(options.judgements.name))
    listed = benchmark.listed if listing else None
    scores: dict[str, Scores] = {}
    controls: dict[str, Scores] = {}
    results = []
    for named, model in open_each(options, models):
        found = scores[named.title] = benchmark.evaluate(Trained(model))
        if not controls:
            controls["cosine"] = benchmark.evaluate(EmbeddingCosine(model.embeddings), ["kept"])
            if listing:
                controls["with the table"] = benchmark.evaluate(LookUp(model, listing[0]), ["kept"])
        about = {"judgements": options.judgements.name, "sha256": judgements.sha256, "checkpoint": str(named.path)}
        results += found.results(named.name, named.seed, about, None if options.held_out_table is None else listed)
    controls["chance"] = benchmark.evaluate(Chance(len(tokens.vocabulary)), [ANY])
    controls["ceiling"] = benchmark.ceiling()
    for table in tables({**scores, **controls}, listed):
        print("\n".join(["", *terminal(table)]))
    print("\n" + "\n".join([*NOTES, *(NOTES_OF_TABLES if listing else ())]), flush=True)
    add_results(options, results)


def _tables(options: LexsubOptions, models: Sequence[NamedModel], tokens: Tokens) -> list[SynonymTable]:
    """The table of ``--held-out-table``, else those that the checkpoints were trained with."""
    dictionary = options.data or options.checkpoints[0]
    if options.held_out_table is not None:
        return [load_table(options.held_out_table, tokens, dictionary)]
    from .models import is_hugging_face
    from .taught import recorded_table

    found: dict[Path, SynonymTable] = {}
    for named in models:
        path = None if is_hugging_face(named.path) else recorded_table(named.path)
        if path is None or path in found:
            continue
        if not path.exists():
            print(f"{named.title}: its synonym table {path} is not there; give it with --held-out-table")
            continue
        found[path] = load_table(path, tokens, dictionary)
        print(f"{named.title}: was trained with the synonym table {path}, which is reported apart")
    return list(found.values())
