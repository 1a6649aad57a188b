"""``truneg similarity``: do the states of a model, not trained for it, say how similar two sentences are to people?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..options import option
from .model_options import ModelsOptions, add_results, named_models, open_each, open_masked_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..results.intervals import Interval
    from .scorer import MaskedLm
    from .tokens import Tokens

_SAMPLES = 2_000
_EMBEDDINGS = "input embeddings of "


@dataclass(frozen=True, kw_only=True)
class SimilarityOptions(ModelsOptions):
    judgements: Path = option(help="STS-B's dev.tsv of GLUE, or Hugging Face's file of a split", metavar="FILE")


def similarity(options: SimilarityOptions) -> None:
    """Measure masked LMs by sentence similarity: do their states, not trained for it, order pairs as people do?

    Prints Spearman's correlation with people's scores, in percent, with intervals over pairs.
    """
    models = named_models(options)
    from ..files import file_digest
    from ..glue.files import TASKS, read_split
    from ..results.result import Result
    from ..results.tables import Table, terminal

    pairs = read_split(TASKS["STS-B"], "valid", options.judgements)
    assert pairs.labels is not None, "the split 'valid' has them, or is refused"
    people, sentences = [float(label) for label in pairs.labels], [*pairs.texts[0], *pairs.texts[1]]
    cosines: dict[str, NDArray[np.float64]] = {}
    controls: dict[str, NDArray[np.float64]] = {}
    tokens_of = open_masked_tokens(options, models)
    for named, model in open_each(options, models):
        scores = _cosines(model, tokens_of[named.title], sentences)
        cosines[named.title], controls[f"{_EMBEDDINGS}{named.title}"] = scores
    every = cosines | controls
    first = next(iter(cosines))
    found, differences = _correlations(people, list(every.values()))
    shown = dict(zip(every, found, strict=True))
    rows = [
        (name, _text(shown[name]), "" if name == first else _text(difference, "+"))
        for name, difference in zip(every, differences, strict=True)
    ]
    made = Table("Sentence similarity (STS-B), without training for it", ("", "Spearman", f"Δ {first}"), tuple(rows))
    print("\n".join(["", *terminal(made)]))
    print(
        f"\n{len(people):,} pairs; cosine of the means of the last layer's states, first and last token\n"
        "included. Input embeddings: of the words alone. Percent; [..]: 95 % bootstrap over pairs, paired. Chance 0.",
        flush=True,
    )
    about = {"judgements": options.judgements.name, "sha256": file_digest(options.judgements)}
    add_results(
        options,
        [
            Result(
                model=named.name,
                task="STS-B without training",
                seed=named.seed,
                metrics={"spearman": shown[named.title].mean},
                settings={**about, "checkpoint": str(named.path)},
            )
            for named in models
        ],
    )


def _cosines(model: MaskedLm, tokens: Tokens, sentences: list[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the first half of the sentences with the second, (N,): by states, and by input embeddings."""
    import torch

    longest = model.longest - 2
    encoded = [tokens.framed(each[:longest]) for each in tokens.encode_batch(sentences)]
    embeddings = model.embeddings.float()
    words = [embeddings[torch.from_numpy(each[1:-1]).to(embeddings.device)].sum(0) for each in encoded]
    both = (model.mean_states(encoded), torch.stack(words).cpu())
    halves = [each.double().chunk(2) for each in both]
    states, alone = (torch.cosine_similarity(first, second, dim=-1).numpy() for first, second in halves)
    return states, alone


def _correlations(people: list[float], scores: list[NDArray[np.float64]]) -> tuple[list[Interval], list[Interval]]:
    """Spearman's correlations with intervals, and their differences to that of the first scores."""
    import numpy as np
    from scipy import stats

    from ..results.intervals import Interval

    table, random = np.stack([np.asarray(people), *scores]), np.random.default_rng(1)

    def of(chosen: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.nan_to_num(np.corrcoef(stats.rankdata(chosen, axis=1))[0, 1:])

    def intervals(means: NDArray[np.float64], drawn: NDArray[np.float64]) -> list[Interval]:
        low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
        return [Interval(*map(float, each)) for each in zip(means, low, high, strict=True)]

    means = of(table)
    drawn = np.stack([of(table[:, random.integers(len(people), size=len(people))]) for _ in range(_SAMPLES)])
    return intervals(means, drawn), intervals(means - means[0], drawn - drawn[:, :1])


def _text(interval: Interval, sign: str = "") -> str:
    mean, low, high = (f"{100 * value:{sign}.2f}" for value in interval)
    return f"{mean} [{low}, {high}]"
