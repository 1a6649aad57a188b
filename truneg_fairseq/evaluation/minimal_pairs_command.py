"""``truneg pairs``: does a model find the grammatical sentence of a minimal pair more probable?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..options import option
from .model_options import ModelsOptions, add_results, named_models, open_each, open_masked_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..results.tables import Table
    from .minimal_pairs import Pair

WITHIN_WORD, ORIGINAL = "within_word_l2r", "original"


@dataclass(frozen=True, kw_only=True)
class PairsOptions(ModelsOptions):
    pairs: list[Path] = option(help="files of BLiMP's JSON lines, or folders of them", metavar="PATH")
    score: str = option(
        WITHIN_WORD,
        help="within_word_l2r masks the rest of a word with each of its tokens; original masks the token alone",
        choices=(WITHIN_WORD, ORIGINAL),
    )
    most: int | None = option(None, help="only the first N pairs of each paradigm", ge=1)


def pairs(options: PairsOptions) -> None:
    """Measure masked LMs by minimal pairs: do they find the grammatical sentence more probable?

    Prints the accuracy of each paradigm and of all pairs with intervals over pairs; chance is 50 %.
    """
    models = named_models(options)
    from ..results.tables import terminal
    from .minimal_pairs import read_pairs
    from .minimal_pairs_scores import correct, pseudo_log_likelihoods, results

    read, sha256 = read_pairs(options.pairs, options.most)
    texts = [pair.good for pair in read] + [pair.bad for pair in read]
    right: dict[str, NDArray[np.float64]] = {}
    lines = []
    tokens_of = open_masked_tokens(options, models)
    for named, model in open_each(options, models):
        within_word = options.score == WITHIN_WORD
        scores = pseudo_log_likelihoods(model, tokens_of[named.title], texts, within_word=within_word)
        found = right[named.title] = correct(scores)
        about = {"sha256": sha256, "score": options.score, "most": options.most, "checkpoint": str(named.path)}
        lines += results(read, found, named.name, named.seed, about)
    print("\n".join(["", *terminal(_table(read, right))]))
    print(
        f"\nPercent of pairs whose grammatical sentence has the higher pseudo-log-likelihood ({options.score}); chance "
        "50.\n[..]: 95 % bootstrap over pairs; Δ: the difference to the first model, paired.",
        flush=True,
    )
    add_results(options, lines)


def _table(pairs: list[Pair], right: dict[str, NDArray[np.float64]]) -> Table:
    """A row for each paradigm, and for all."""
    import numpy as np

    from ..results.intervals import Interval, Ratio
    from ..results.paired import Column, shown_interval
    from ..results.tables import Table
    from .minimal_pairs_scores import groups

    accuracy, first = Column("accuracy", "accuracy"), next(iter(right))

    def interval(values: NDArray[np.float64]) -> Interval:
        found = Ratio(values, np.ones_like(values)).interval()
        return found or Interval(float(values[0]), float(values[0]), float(values[0]))

    def cells(indices: NDArray[np.int64]) -> list[str]:
        found = []
        for name, values in right.items():
            mean, low, high = (100 * value for value in interval(values[indices]))
            found.append(f"{mean:.2f} [{low:.2f}, {high:.2f}]")
            if name != first:
                found.append(shown_interval(interval(values[indices] - right[first][indices]), accuracy))
        return found

    chosen = {**groups(pairs), "all": np.arange(len(pairs))}
    rows = [(name, str(len(indices)), *cells(indices)) for name, indices in chosen.items()]
    head = ["", "pairs"]
    for name in right:
        head += [name] if name == first else [name, f"Δ {name}"]
    return Table("Minimal pairs", tuple(head), tuple(rows))
