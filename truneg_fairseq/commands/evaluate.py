"""``truneg evaluate``, ``explain`` and ``score``."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..corpus_counts import FIT, CountsShare
from ..data.text import lines_of, read_lines
from ..errors import refuse
from ..evaluation.models import CountsOptions, OpeningOptions, is_hugging_face
from ..files import require_writable
from ..flags import option
from ..results.result import named_models
from .parser import JsonOutput, next_step, print_unless_json, write_json_lines


@dataclass(kw_only=True)
class EvaluateOptions(OpeningOptions, CountsOptions):
    models: list[str] = option(
        help="masked LMs or ELECTRAs: fairseq checkpoints, or Hugging Face folders (hub:NAME downloads one); the first "
        "is the baseline",
        positional=True,
        metavar="[NAME=]MODEL",
    )
    task: list[str] = option(
        help="held-out=SPLIT or TXT, lexsub=FILE, cloze=FILE, blimp=DIR, zorro=DIR, or a yardstick of --user-dir: see "
        "docs/start/evaluate.md",
        metavar="NAME=FILE",
    )
    results: Path | None = option(None, help="append all scores to this file, for truneg compare", metavar="JSONL")
    seed: int | None = option(
        None, "for --results: the seed of the models' training (default: seed-N in the path, else 1)"
    )
    synonym_table: Path | None = option(
        None,
        "held-out: the pairs that count as false negatives (default: synonyms.npz beside the data, else in the cache "
        "folder, built when missing); lexsub, cloze: report the words of this table separately",
        metavar="NPZ",
    )
    mask_seed: int | None = option(
        None, "held-out: seed of the masked positions (default: that of the last model's training; for a text 1)"
    )
    batch_size: int = option(32, "held-out: sequences per batch", ge=1)
    limit: int | None = option(None, "blimp, zorro: only the first N pairs of each paradigm", ge=1)
    html: Path | None = option(None, "also write one page, with charts and examples", metavar="PAGE")


def evaluate(options: EvaluateOptions) -> None:
    """Measure masked LMs: loss on held-out text, lexical substitution, people's next words, grammar.

    Prints tables, with controls that need no training and the differences to the first model, and one sentence.
    """
    models = named_models(options.models, options.seed)
    if options.corpus_counts is not None:
        counts = options.corpus_counts
        pairs = [(one, one._replace(name=f"{one.name}+counts", counts=counts)) for one in models]
        models = [each for pair in pairs for each in pair]
    if options.results is not None:
        require_writable(options.results, "--results", makes_folders=True)
    from ..evaluation import yardstick
    from ..evaluation.held_out import examples_of
    from ..results.page import report_page
    from ..results.result import append_result, examples_in
    from ..results.tables import as_text, verdict_over_items

    settings = {name: getattr(options, name) for name in ("synonym_table", "mask_seed", "batch_size", "limit")}
    tasks = yardstick.parse_tasks(options.task, fits=options.counts_share == FIT, **settings)
    lacking = options.corpus_counts is None or all(task.name != "held-out" for task in tasks)
    expected = "expected --corpus-counts, and --task held-out=... to fit it to"
    refuse((options.counts_share == FIT and lacking, f"--counts-share fit: {expected}"))
    found, measure = [], partial(yardstick.evaluate, counts_share=options.counts_share, with_controls=True)
    for each in measure(models, tasks, options, say=partial(print, flush=True)):
        found.append(each)
        if options.results is not None and not each.is_control:
            for result in each.results():
                append_result(options.results, result)
    comparison, models_alone = yardstick.compared(found), [each for each in found if not each.is_control]
    verdict = verdict_over_items(comparison)
    print("\n".join(["", *as_text(comparison), *examples_of(models_alone[-1]), "", verdict]), flush=True)
    if options.html is not None:
        lines = [(each.model.name, line) for each in models_alone for line in each.results()]
        examples = {name: examples_in(line) for name, line in lines if "examples" in line.settings}
        title = f"Evaluation of {', '.join(dict.fromkeys(each.model.name for each in models_alone))}"
        report_page(comparison, title=title, verdict=[verdict], examples=examples).write(options.html)
        print(f"wrote {options.html}; next: open it in a browser")
    elif options.results is not None:
        print(next_step("truneg", "compare", options.results))


@dataclass(kw_only=True)
class ExplainOptions(OpeningOptions, CountsOptions, JsonOutput):
    checkpoint: Path = option(
        help="a masked LM or ELECTRA: a fairseq checkpoint, or a folder of Hugging Face's (hub:NAME downloads one)",
        metavar="MODEL",
    )
    text: list[str] = option(
        default_factory=list, help="sentences; without any, the lines of stdin", metavar="TEXT", positional=True
    )
    file: Path | None = option(None, "explain its lines", metavar="TXT")
    html: Path | None = option(None, "also write one page", metavar="HTML")
    synonym_table: Path | None = option(
        None,
        "default: that of the checkpoint's training, else synonyms.npz beside the data or in the cache folder, built "
        "when missing",
        metavar="NPZ",
    )
    detector: str = option(
        "table",
        "which mistakes are false negatives: table, or judged in the sentence as --hc-detector does: table+embedding, "
        "embedding+context ...",
    )


def explain(options: ExplainOptions) -> None:
    """Mask each word of a sentence in turn: which mistakes of a masked LM are false negatives, and why.

    Prints every sentence, in colour on a terminal, and some lines for each masked word.
    """
    lines = options.text or (read_lines(options.file) if options.file else lines_of(sys.stdin.buffer, Path("stdin")))
    texts = [line for line in lines if line.strip()]
    source = options.file or ("TEXT" if options.text else "stdin")
    refuse(
        (options.text and options.file, "explain: found TEXT and --file; expected one of them"),
        (not texts, f"{source}: found no text; expected a sentence"),
    )
    from ..evaluation.explain import Explainer, explanation_page

    explainer = Explainer(
        options.checkpoint,
        options,
        counts=options.corpus_counts,
        share=CountsShare.parse(options.counts_share, "--counts-share"),
        synonym_table=options.synonym_table,
        detector=options.detector,
    )
    sentences, say = [], print_unless_json(options)
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for sentence in filter(None, map(explainer.explain, texts)):
        sentences.append(sentence)
        say("\n".join([*sentence.lines(color=color), ""]))
    if len(sentences) < len(texts):
        passed = f"{len(texts) - len(sentences)} of {len(texts)} texts"
        print(f"passed over {passed}, in which nothing is to be masked", file=sys.stderr)
    given = [options.checkpoint, *([] if options.data is None else ["--data", options.data])]
    text = "TEXT.txt" if is_hugging_face(options.checkpoint) else "valid"
    say(next_step("truneg", "evaluate", *given, "--task", f"held-out={text}"))
    write_json_lines(options, [sentence.record() for sentence in sentences])
    if options.html is not None:
        title = f"What {'/'.join(options.checkpoint.parts[-2:])} predicts"
        explanation_page(sentences, title).write(options.html)


@dataclass(kw_only=True)
class ScoreOptions:
    data: Path = option(help="questions in SQuAD's format", metavar="FILE.json", positional=True)
    answers: Path = option(help="answer texts by question id", metavar="ANSWERS.json", positional=True)
    na_prob_file: Path | None = option(None, "SQuAD 2.0: the probability of no answer by question id", metavar="JSON")


def score(options: ScoreOptions) -> None:
    """Score answers to SQuAD's questions as the official scripts do.

    Prints exact match and F1 in percent as JSON in full precision: exact_match and f1 for SQuAD 1.1, exact, f1,
    HasAns_*, NoAns_* and best_* for 2.0.
    """
    from ..finetuning.squad_files import read_squad, score_files, scorer_of

    scorer = scorer_of(read_squad(options.data))
    refuse((scorer != "truneg score", f"{options.data}: is a file of Jia and Liang; score it with {scorer}"))
    report, unanswered = score_files(options.data, options.answers, na_prob_file=options.na_prob_file)
    if unanswered:
        print(unanswered, file=sys.stderr)
    print(json.dumps(report, indent=2 if "exact" in report else None))
