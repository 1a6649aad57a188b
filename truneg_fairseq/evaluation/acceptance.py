"""What people say of synonym tables and of detectors: precision, rankings, and the fit of the acceptance models."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from .. import __version__
from ..errors import TrueNegError
from ..objectives import Alternatives, MaskedPredictions
from ..objectives.false_negatives import AcceptanceModel, acceptance_model
from ..objectives.options import TABLE
from ..results.intervals import Interval, Ratio
from ..results.tables import Table
from ..synonyms.table import SynonymTable
from ..workers import Progress
from .lexsub import Place, lemma_of, places_of
from .people import Judgements, is_accepted, is_conceivable
from .scorer import Scorer, Tokens
from .yardstick import ratios_of

FOLDS = 5
SAMPLES = 500  # resamples of targets for a ranking: each is sorted anew


@dataclass(frozen=True)
class JudgedPairs:
    """The N pairs of a target and a candidate that are one token each, in the order of the targets."""

    places: list[Place]  # the targets that are one token
    target: NDArray[np.int64]  # int64, shape (N,), the index of each pair's place
    gold: NDArray[np.int64]  # int64, shape (N,), tokens
    candidate: NDArray[np.int64]  # int64, shape (N,), tokens
    share: NDArray[np.float64]  # float64, shape (N,), of the votes that accept the candidate

    @classmethod
    def of(cls, judgements: Judgements, tokens: Tokens) -> JudgedPairs:
        places = places_of(judgements, tokens)
        rows = [
            (index, place.gold, token, candidate.share)
            for index, place in enumerate(places)
            for token, candidate in place.single
        ]
        target, gold, candidate, share = map(np.array, zip(*rows, strict=True))
        return cls(places, target, gold, candidate, share.astype(np.float64))

    def __len__(self) -> int:
        return len(self.target)

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """Shape (N,)."""
        return np.asarray(is_accepted(self.share))

    def listed(self, table: SynonymTable) -> NDArray[np.bool_]:
        """Which pairs a table lists, shape (N,)."""
        return np.isin(self.gold * table.vocabulary_size + self.candidate, table.pair_keys)

    def by_target(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """How many of the chosen pairs each target has."""
        return np.bincount(self.target[chosen], minlength=len(self.places)).astype(np.float64)


@torch.inference_mode()
def scores(pairs: JudgedPairs, sources: Mapping[str, Alternatives], scorer: Scorer | None) -> dict[str, Tensor]:
    """What a regression sees of each source for every pair, in its sentence, fp32, shape (N,), on the CPU.

    Without a model only sources are asked that look at no model.
    """
    device = torch.device("cpu") if scorer is None else scorer.embeddings.device
    found = {name: torch.empty(len(pairs)) for name in sources}
    for index in Progress(np.unique(pairs.target).tolist(), desc="pairs", unit=" targets", leave=False):
        place, mine = pairs.places[index], np.flatnonzero(pairs.target == index)
        width = len(place.tokens)
        size = len(mine) if scorer is None else max(1, scorer.batch_tokens // width)
        for chosen in np.split(mine, range(size, len(mine), size)):
            tokens = torch.from_numpy(place.tokens).to(device).repeat(len(chosen), 1)
            positions = torch.arange(len(chosen), device=device) * width + place.position
            candidate, every = torch.from_numpy(pairs.candidate[chosen]).to(device), torch.ones_like(positions).bool()
            none = torch.empty(len(chosen), 0, device=device)  # no logits: nothing is predicted
            gold, lengths = torch.full_like(positions, place.gold), torch.full_like(positions, width)
            batch = MaskedPredictions(none, tokens, positions, gold, candidate, every, every)
            passes: Any = None if scorer is None else scorer.passes(batch, lengths, with_layers=True)
            for name, source in sources.items():
                found[name][chosen] = source.to(device).feature(batch, candidate, passes).float().cpu()
    return found


def joint(
    sources: Mapping[str, Alternatives], found: Mapping[str, Tensor], path: Path | None
) -> tuple[NDArray[np.float64], AcceptanceModel | None]:
    """How acceptable a detector of these sources finds each pair, shape (N,), with the regression that it asks."""
    is_fitted = path is not None or any(source.is_fitted for source in sources.values())
    together = [name for name, source in sources.items() if is_fitted and (source.is_fitted or name == TABLE)]
    model = acceptance_model(together, path, among=sources) if is_fitted else None
    chances = [found[name] for name in sources if model is None or name not in model.coefficients]
    chances += [] if model is None else [model.probability(found)]
    return torch.stack(chances).amin(0).double().numpy(), model


def score_table(table: SynonymTable, pairs: JudgedPairs, tokens: Tokens) -> dict[str, Ratio]:
    """Of a table's pairs at the targets of a file, by the lemma of the synonym, the shares with the target's own lemma,
    without votes, accepted, conceivable, and accepted among those with votes; and of the accepted one-token candidates
    the share that some pair has.
    """
    items = list[dict[str, tuple[float, float]]]()
    for place in pairs.places:
        target, single = place.target, {candidate.word: token for token, candidate in place.single}
        shares = {candidate.word: candidate.share for candidate in target.candidates}
        listed, own, judged = table.synonyms(place.gold), lemma_of(target.word, target.pos), list[float]()
        of_own, recalled = 0, set[int]()
        for word in (tokens.vocabulary.words[synonym] or "" for synonym in listed):
            lemma = lemma_of(word, target.pos)
            known = lemma if lemma in shares else word.lower()
            if lemma == own:
                of_own += 1
            elif known in shares:
                judged.append(shares[known])
                recalled |= {single[known]} if is_accepted(shares[known]) and known in single else set()
        accepted = sum(map(is_accepted, judged))
        parts = {
            "own lemma": (of_own, len(listed)),
            "unjudged": (len(listed) - of_own - len(judged), len(listed)),
            "accepted": (accepted, len(listed)),
            "conceivable": (sum(map(is_conceivable, judged)), len(listed)),
            "accepted of judged": (accepted, len(judged)),
            "recall": (len(recalled), sum(is_accepted(candidate.share) for _, candidate in place.single)),
        }
        items.append(parts)
    return ratios_of(items, items[0])


def score_ranking(
    pairs: JudgedPairs, score: NDArray[np.float64], cuts: Sequence[int], *, samples: int = SAMPLES
) -> list[Interval | None]:
    """How a score, shape (N,), ranks the pairs, with 95 % bootstrap intervals over targets: average precision of the
    accepted ones, area under the ROC curve, then by number of pairs (in resamples by their share) the accepted and the
    conceivable share of the highest scores. None where it is not defined, or of a single target.
    """
    accepted, conceivable = pairs.accepted, is_conceivable(pairs.share)
    of_target = np.split(np.arange(len(pairs)), np.flatnonzero(np.diff(pairs.target)) + 1)

    def measured(drawn: NDArray[np.int64]) -> list[float]:
        chosen = np.concatenate([of_target[index] for index in drawn])
        order = chosen[np.argsort(-score[chosen], kind="stable")]
        tops = [order[: max(1, round(cut * len(order) / len(pairs)))] for cut in cuts]
        good, both = accepted[chosen], 0 < accepted[chosen].sum() < len(chosen)
        return [
            float(average_precision_score(good, score[chosen])) if both else float("nan"),
            float(roc_auc_score(good, score[chosen])) if both else float("nan"),
            *(float(kind[top].mean()) for kind in (accepted, conceivable) for top in tops),
        ]

    values, targets = measured(np.arange(len(of_target))), len(of_target)
    drawn = np.random.default_rng(1).integers(targets, size=(samples, targets))
    by_sample = np.array([measured(sample) for sample in drawn]).T
    return [
        Interval(value, *np.nanpercentile(resampled, [2.5, 97.5])) if targets > 1 and np.isfinite(value) else None
        for value, resampled in zip(values, by_sample, strict=True)
    ]


def tables(named: Mapping[str, SynonymTable], pairs: JudgedPairs, tokens: Tokens) -> Table:
    """What people say of tables' pairs, and of the judged candidates that tables list."""
    rows, head = list[tuple[str, ...]](), dict[str, Ratio]()
    for name, table in named.items():
        head = score_table(table, pairs, tokens)
        count = f"{head['accepted'].denominators.sum():,.0f}"
        rows.append(
            (name, count, *(_percent(ratio.interval()) for ratio in head.values()), f"{pairs.listed(table).sum():,}")
        )
    return Table("Pairs of tables, in %", ("", "pairs", *head, "listed"), tuple(rows))


def rankings(named: Mapping[str, NDArray[np.float64]], pairs: JudgedPairs, cut: int) -> Table:
    """How detectors rank; their highest scores are cut at so many pairs, at a quarter and at four times as many."""
    cuts = sorted({max(1, min(len(pairs), round(cut * factor))) for factor in (0.25, 1, 4)})
    rows = [(name, *map(_percent, score_ranking(pairs, score, cuts))) for name, score in named.items()]
    head = ("", "AP", "AUC", *(f"{what} at {cut:,}" for what in ("accepted", "conceivable") for cut in cuts))
    return Table("Detectors, and the accepted and conceivable shares of their highest scores, in %", head, tuple(rows))


def thresholds(named: Mapping[str, NDArray[np.float64]], pairs: JudgedPairs, chosen: Sequence[float]) -> Table:
    """What detectors accept at some probabilities: how many pairs, the accepted share, the recall of accepted ones."""
    rows = []
    for name, score in named.items():
        for threshold in chosen:
            over = score >= threshold
            right = pairs.by_target(over & pairs.accepted)
            ratios = (Ratio(right, pairs.by_target(over)), Ratio(right, pairs.by_target(pairs.accepted)))
            cells = (_percent(ratio.interval()) for ratio in ratios)
            rows.append((f"{name} >= {threshold:g}", f"{over.sum():,}", *cells))
    return Table("Thresholds, in %", ("", "pairs", "accepted", "recall"), tuple(rows))


def _percent(interval: Interval | None) -> str:
    return "-" if interval is None else "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * value for value in interval))


def folds_by_target(pairs: JudgedPairs) -> NDArray[np.int64]:
    """The fold of every pair, int64, shape (N,); a gold word is in one fold only, in all its sentences."""
    words, number = np.unique(pairs.gold, return_inverse=True)
    return (np.random.default_rng(1).permutation(len(words)) % FOLDS)[number]


def fit_acceptance(
    pairs: JudgedPairs, features: Mapping[str, Tensor], provenance: Mapping[str, Any]
) -> tuple[AcceptanceModel, NDArray[np.float64]]:
    """A logistic regression on the N pairs, of features of shape (N,), and each pair's probability by the model of the
    folds (five, by target word) that its target is not in, float64, shape (N,).

    The provenance, of data and checkpoint, goes into the model's file beside what is added here.
    """
    columns = np.stack([feature.double().numpy() for feature in features.values()], axis=1)
    accepted, fold = pairs.accepted, folds_by_target(pairs)
    parts = [fold == number for number in range(FOLDS)]
    if any(len(np.unique(accepted[part])) < 2 for part in parts):
        words = len(np.unique(pairs.gold))
        raise TrueNegError(
            f"--fit: found {words} target words, of which one of {FOLDS} parts has no accepted candidate or only such; "
            "expected judgements of more words"
        )
    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    split = PredefinedSplit(fold)
    out_of_fold = cross_val_predict(regression, columns, accepted, cv=split, method="predict_proba")[:, 1]
    scaler, fitted = regression.fit(columns, accepted)
    coefficients = fitted.coef_[0] / scaler.scale_  # of the features as they are: the regression sees standardised ones
    intercept = float(fitted.intercept_[0] - (coefficients * scaler.mean_).sum())
    precision = [average_precision_score(accepted[part], out_of_fold[part]) for part in parts]
    facts = {
        **provenance,
        "pairs": len(pairs),
        "targets": len(pairs.places),
        "accepted": round(float(accepted.mean()), 4),
        "folds_average_precision": [round(float(each), 4) for each in precision],
        "command": shlex.join(["truneg", *(Path(word).name for word in sys.argv[1:])]),  # files without their folders
        "versions": {"truneg_fairseq": __version__, "scikit-learn": sklearn.__version__, "torch": torch.__version__},
    }
    return AcceptanceModel(dict(zip(features, map(float, coefficients), strict=True)), intercept, facts), out_of_fold
