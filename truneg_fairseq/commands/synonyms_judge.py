"""``truneg synonyms judge`` and ``fit``: synonym tables and detectors against what people say of words in context."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from .parser import add_cpu

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from ..comparison.statistics import Interval
    from ..comparison.tables import Table
    from ..lexsub.judge import RankingJudgement
    from ..lexsub.pairs import JudgedPairs
    from ..lexsub.places import Placer
    from ..lexsub.swords import Judgements
    from ..objectives.acceptance import AcceptanceModel
    from ..synonyms import SynonymTable

_DETECTOR_HELP = (
    "table, embedding, context, or several joined by +; their probability of acceptance is a logistic regression"
)


def add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the actions judge and fit."""
    judge = actions.add_parser("judge", help="what people say of tables and detectors", description=_judge.__doc__)
    judge.add_argument("tables", type=Path, nargs="*", metavar="NPZ", help="tables; the first is the detectors' own")
    _add_judgements(judge)
    judge.add_argument("--detector", nargs="+", action="extend", default=[], metavar="NAME", help=_DETECTOR_HELP)
    judge.add_argument(
        "--acceptance-model",
        type=Path,
        metavar="JSON",
        help="of one --detector (default: the package's own of its scores)",
    )
    judge.add_argument(
        "--threshold",
        type=float,
        nargs="+",
        action="extend",
        default=[],
        metavar="P",
        help="also show what these probabilities excuse",
    )
    judge.set_defaults(act=_judge)

    fit = actions.add_parser("fit", help="fit a detector's probability of acceptance", description=_fit.__doc__)
    fit.add_argument("table", type=Path, metavar="NPZ", help="the table of the feature table, and the number of pairs")
    _add_judgements(fit)
    fit.add_argument("--detector", nargs="+", action="extend", required=True, metavar="NAME", help=_DETECTOR_HELP)
    fit.add_argument(
        "--output-dir", type=Path, required=True, metavar="DIR", help="folder for a JSON file of each detector"
    )
    fit.set_defaults(act=_fit)


def _add_judgements(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DATA-BIN", help="folder of binarized data with its tokenizer"
    )
    parser.add_argument(
        "--judgements", type=Path, required=True, metavar="JSON", help="file of SWORDS's format, plain or gzipped"
    )
    parser.add_argument("--checkpoint", type=Path, metavar="PT", help="that the detectors ask; not needed for table")
    add_cpu(parser)


def _judge(args: argparse.Namespace) -> None:
    """Prints what people say of the pairs that tables list for the words of a file of judgements, and how well
    detectors rank its one-token candidates. Intervals are 95 % bootstrap over targets.
    """
    detectors = [_features(name) for name in args.detector]
    if not args.tables and not detectors:
        raise TrueNegError("judge: found neither a table nor a --detector; expected at least one")
    if args.acceptance_model is not None and len(detectors) != 1:
        raise TrueNegError(f"--acceptance-model: found {len(detectors)} detectors, expected one --detector")
    if bad := [value for value in args.threshold if not 0 <= value <= 1]:
        raise TrueNegError(f"--threshold {bad[0]}: expected a probability from 0 to 1")
    if args.threshold and not detectors:
        raise TrueNegError("--threshold: has no effect without --detector; leave it out")
    models = [_acceptance_model(features, args.acceptance_model) for features in detectors]
    judgements, placer, pairs = _pairs(args)
    tables = [_load_table(path, placer, args.data) for path in args.tables]
    lines: list[str] = []
    cut = 0
    if tables:
        made, cut = _judge_tables(args.tables, tables, pairs, placer)
        lines += made
    if detectors:
        found = _scores(args, set().union(*detectors), pairs, tables[0] if tables else None)
        cut = cut or int(pairs.accepted.sum())
        named = {}
        for name, model in zip(args.detector, models, strict=True):
            named[name] = model.probability({each: found[each] for each in model.features}).double().numpy()
            if model.provenance.get("sha256") == judgements.sha256:
                print(f"note: {name} was fitted on these judgements; for other targets see 'truneg synonyms fit'")
        lines += ["", *_rankings(named, pairs, cut), "", *_thresholds(named, pairs, args.threshold)]
    print("\n".join(lines).rstrip())


def _fit(args: argparse.Namespace) -> None:
    """Fits the probability of acceptance of detectors' scores on the judged one-token candidates of a file, with five
    folds by target word, prints how well the folds left out are ranked, and writes a model for each detector.
    """
    detectors = {name: _features(name) for name in args.detector}
    judgements, placer, pairs = _pairs(args)
    table = _load_table(args.table, placer, args.data)
    from ..files import make_output_folder
    from ..lexsub.fit import fit_acceptance
    from ..objectives.acceptance import model_name

    make_output_folder(args.output_dir)
    found = _scores(args, set().union(*detectors.values()), pairs, table)
    provenance = {
        "data": args.judgements.name,
        "sha256": judgements.sha256,
        "checkpoint": None if args.checkpoint is None else args.checkpoint.name,
        "dictionary": placer.vocabulary.fingerprint,
        "table": {"source": table.source, "options": table.options},
    }
    ranked = {"table": pairs.listed(table).astype("float64")}
    lines = []
    for name, features in detectors.items():
        fit = fit_acceptance(pairs, {each: found[each] for each in features}, provenance)
        ranked[name] = fit.out_of_fold
        path = args.output_dir / model_name(features)
        fit.model.save(path)
        terms = "".join(f" {value:+.4f} {each}" for each, value in fit.model.coefficients.items())
        folds = ", ".join(f"{value:.3f}" for value in fit.average_precision)
        lines.append(f"{path}: logit {fit.model.intercept:.4f}{terms}; average precision by fold {folds}")
    print("\n".join([*_rankings(ranked, pairs, int(pairs.listed(table).sum())), "", *lines]))


def _features(name: str) -> tuple[str, ...]:
    """The features of a detector, in the order of :data:`~truneg_fairseq.objectives.acceptance.FEATURES`."""
    from ..objectives.acceptance import FEATURES

    parts = name.split("+")
    if len(set(parts)) < len(parts) or not set(parts) <= set(FEATURES):
        raise TrueNegError(f"--detector {name}: expected {', '.join(FEATURES)}, or several of them joined by +")
    return tuple(each for each in FEATURES if each in parts)


def _acceptance_model(features: Sequence[str], path: Path | None) -> AcceptanceModel:
    from ..objectives.acceptance import AcceptanceModel, packaged_model

    if tuple(features) == ("table",):
        if path is not None:
            raise TrueNegError(f"--acceptance-model {path}: has no effect with --detector table; leave it out")
        return AcceptanceModel({"table": 1.0}, 0.0)
    if path is None:
        return packaged_model(frozenset(features))
    model = AcceptanceModel.load(path)
    if set(model.features) != set(features):
        raise TrueNegError(
            f"--acceptance-model {path}: is of {'+'.join(model.features)}, expected {'+'.join(features)}"
        )
    return model


def _pairs(args: argparse.Namespace) -> tuple[Judgements, Placer, JudgedPairs]:
    from ..lexsub.pairs import JudgedPairs
    from ..lexsub.places import Placer
    from ..lexsub.swords import read_judgements

    judgements, placer = read_judgements(args.judgements), Placer(args.data)
    pairs = JudgedPairs.of(judgements, placer)
    print(
        f"{args.judgements.name}: {len(pairs.places)} targets, {pairs.unknown} others are not one token of the "
        f"dictionary; {len(pairs):,} of {judgements.candidates:,} candidates are one token, "
        f"{100 * pairs.accepted.mean():.1f} % of them accepted and {100 * pairs.conceivable.mean():.1f} % conceivable"
    )
    return judgements, placer, pairs


def _load_table(path: Path, placer: Placer, data: Path) -> SynonymTable:
    from ..synonyms import SynonymTable

    table = SynonymTable.load(path)
    table.check_dictionary(placer.vocabulary.fingerprint, path, str(data))
    return table


def _scores(
    args: argparse.Namespace, features: set[str] | tuple[str, ...], pairs: JudgedPairs, table: SynonymTable | None
) -> dict[str, Tensor]:
    from ..lexsub.pairs import scores

    if "table" in features and table is None:
        raise TrueNegError("--detector: 'table' needs a table; give its file first")
    if set(features) == {"table"}:
        return scores(pairs, features, model=None, table=table)
    if args.checkpoint is None:
        raise TrueNegError(f"--detector: {'+'.join(sorted(features))} needs --checkpoint")
    from ..finetuning.training import quiet_fairseq, start_fairseq

    start_fairseq()
    from ..lexsub.model import MaskedLm

    quiet_fairseq()
    return scores(pairs, features, model=MaskedLm(args.checkpoint, args.data, cpu=args.cpu), table=table)


def _judge_tables(
    paths: Sequence[Path], tables: Sequence[SynonymTable], pairs: JudgedPairs, placer: Placer
) -> tuple[list[str], int]:
    """The lines, and how many judged candidates the first table lists."""
    from ..comparison.tables import Table, terminal
    from ..lexsub.judge import judge_table
    from ..lexsub.lemmas import Lemmatizer

    lemmatizer = Lemmatizer()
    found = [judge_table(table, pairs, placer.vocabulary, lemmatizer) for table in tables]
    rows = [
        (
            f"{path.name} ({table.source})",
            f"{judged.pairs:,}",
            *(
                _percent(ratio.interval())
                for ratio in (
                    judged.own,
                    judged.unjudged,
                    judged.accepted,
                    judged.conceivable,
                    judged.judged,
                    judged.recall,
                )
            ),
            f"{judged.listed:,}",
        )
        for path, table, judged in zip(paths, tables, found, strict=True)
    ]
    head = (
        "",
        "pairs",
        "own lemma",
        "unjudged",
        "accepted",
        "conceivable",
        "accepted of judged",
        "recall",
        "candidates",
    )
    return ["", *terminal(Table("Tables, in %", head, tuple(rows)))], found[0].listed


def _rankings(scores: dict[str, NDArray[np.float64]], pairs: JudgedPairs, cut: int) -> list[str]:
    from ..comparison.tables import Table, terminal
    from ..lexsub.judge import judge_scores

    cuts = (max(1, cut), max(1, cut // 2))
    found: dict[str, RankingJudgement] = {name: judge_scores(pairs, score, cuts) for name, score in scores.items()}
    rows = [
        (
            name,
            *(_percent(interval) for interval in (judged.average_precision, judged.area)),
            *(_percent(judged.precision[cut]) for cut in cuts),
            *(_percent(judged.conceivable[cut]) for cut in cuts),
        )
        for name, judged in found.items()
    ]
    head = ("", "AP", "AUC", *(f"accepted at {cut:,}" for cut in cuts), *(f"conceivable at {cut:,}" for cut in cuts))
    table: Table = Table("Detectors, in %", head, tuple(rows))
    return terminal(table)


def _thresholds(scores: dict[str, NDArray[np.float64]], pairs: JudgedPairs, thresholds: Sequence[float]) -> list[str]:
    from ..comparison.tables import Table, terminal
    from ..lexsub.judge import above

    rows = []
    for name, score in scores.items():
        for threshold in thresholds:
            count, precision, recall = above(pairs, score, threshold)
            cells = (f"{count:,}", _percent(precision.interval()), _percent(recall.interval()))
            rows.append((f"{name} >= {threshold:g}", *cells))
    return terminal(Table("Thresholds, in %", ("", "pairs", "accepted", "recall"), tuple(rows))) if rows else []


def _percent(interval: Interval) -> str:
    return f"{100 * interval.mean:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"
