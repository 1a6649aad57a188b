"""``truneg cloze``: how probable does a model find what people write?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from ..options import option
from .model_options import ModelsOptions, add_results, load_table, named_models, open_common_tokens, open_each


@dataclass(frozen=True, kw_only=True)
class ClozeOptions(ModelsOptions):
    answers: Path = option(help="people's answers, see docs/start/cloze.md, plain or gzipped", metavar="FILE")
    table: Path | None = option(
        None, help="synonym table: how many of the answers it lists, and their probability", metavar="NPZ"
    )


def cloze(options: ClozeOptions) -> None:
    """Measure LMs by cloze answers: how probable do they find what people write after a sentence's beginning?

    Prints the metrics with intervals over contexts, beside chance, word frequency and the people themselves, and the
    differences to the first model.
    """
    models = named_models(options)
    from ..results.intervals import Ratio
    from ..results.paired import difference_table, interval_table, value_table
    from ..results.tables import terminal
    from .cloze import COLUMNS, Benchmark
    from .cloze_answers import read_answers

    answers = read_answers(options.answers)
    tokens = open_common_tokens(options)
    table = None
    if options.table is not None:
        table = load_table(options.table, tokens, options.data or options.checkpoints[0])
    benchmark = Benchmark(answers, tokens, table)
    if not benchmark.items:
        raise TrueNegError(f"{options.answers}: no answer is a token of the model; expected the model's language")
    print("\n".join(benchmark.described(options.answers.name)))
    scores: dict[str, dict[str, Ratio]] = {}
    results = []
    for named, model in open_each(options, models, causal=tokens.mask is None):
        found = scores[named.title] = benchmark.evaluate(model)
        about = {"answers": options.answers.name, "sha256": answers.sha256, "checkpoint": str(named.path)}
        results += benchmark.results(found, named.name, named.seed, about)
    columns = [column for column in COLUMNS if column.name in next(iter(scores.values()))]
    made = [
        value_table("Cloze answers", {**scores, **benchmark.controls()}, columns, items="contexts"),
        interval_table("Cloze answers, 95 % intervals", scores, columns),
    ]
    if len(scores) > 1:
        made.append(difference_table(f"Differences to {next(iter(scores))}: cloze answers", scores, columns))
    for each in made:
        print("\n".join(["", *terminal(each)]))
    print("\n" + "\n".join(_NOTES), flush=True)
    add_results(options, results)


_NOTES = (
    "bits: cross-entropy of the people's distribution. p(said): the probability of all that they say; p(others): of",
    "all but the corpus's word; p(common): of those that at least 5 % say; p(listed): of those that the table lists.",
    "replaced: of what an ELECTRA generator puts in the place of the corpus's word, the share that people say.",
    "Spearman: of counts and probabilities, mean over contexts. best said, best 10 said: the share of the model's best",
    "word and ten best words that somebody said. corpus bits: loss of the corpus's word. Percent where it is not bits.",
    "half of the people: their shares (0.9, the rest uniform), measured by the other half. people: their own shares,",
    "the best possible bits. (contexts): how many each metric is of. [..]: 95 % bootstrap over contexts, differences",
    "paired by context.",
)
