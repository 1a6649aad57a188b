"""``truneg synonyms judge`` and ``fit``: synonym tables and detectors against what people say of words in context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..evaluation.model_options import load_table
from ..options import option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from ..evaluation.judged_pairs import JudgedPairs
    from ..evaluation.swords import Judgements
    from ..evaluation.tokens import Tokens
    from ..synonyms import SynonymTable

_DETECTOR = (
    "table, embedding, context, or several joined by +; their probability of acceptance is a logistic regression"
)


@dataclass(frozen=True, kw_only=True)
class DetectorOptions:
    data: Path | None = option(
        None,
        help="folder of binarized data with its tokenizer; not needed for a folder of Hugging Face's",
        metavar="DATA-BIN",
    )
    judgements: Path = option(
        help="SWORDS's JSON, CoInCo's or SemEval-2007's XML, or cloze answers, plain or gzipped", metavar="FILE"
    )
    gold: Path | None = option(None, help="of SemEval-2007: its gold file", metavar="FILE")
    cpu: bool = option(False, help="use the CPU only")
    checkpoint: Path | None = option(
        None,
        help="that the detectors ask: a fairseq checkpoint, or the folder of a Hugging Face masked LM (hub:NAME loads "
        "one); not needed for table",
        metavar="MODEL",
    )


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(DetectorOptions):
    tables: list[Path] = option(
        help="tables; the first is the detectors' own", default_factory=list, positional=True, metavar="NPZ"
    )
    detector: list[str] = option(help=_DETECTOR, default_factory=list, metavar="NAME")
    hc_acceptance_model: Path | None = option(
        None, help="of one --detector (default: the package's own of its scores)", metavar="JSON"
    )
    hc_threshold: list[float] = option(
        help="also show what these probabilities accept", default_factory=list, ge=0, le=1, metavar="P"
    )


@dataclass(frozen=True, kw_only=True)
class FitOptions(DetectorOptions):
    synonym_table: Path = option(
        help="the table of the feature table, and the number of pairs", positional=True, metavar="NPZ"
    )
    detector: list[str] = option(help=_DETECTOR, metavar="NAME")
    output_dir: Path = option(help="folder for a JSON file of each detector", metavar="DIR")


def judge(options: JudgeOptions) -> None:
    """Show how many of a table's pairs people accept, and how well detectors rank one-token candidates. Intervals are
    95 % bootstrap over targets.
    """
    detectors = {name: _features(name) for name in options.detector}
    path = options.hc_acceptance_model
    if path is not None and len(detectors) != 1:
        raise TrueNegError(f"--hc-acceptance-model: found {len(detectors)} detectors, expected one --detector")
    from ..objectives.acceptance import AcceptanceModel, model_of

    table_alone = AcceptanceModel({"table": 1.0}, 0.0)
    models = {name: table_alone if name == "table" else model_of(each, path) for name, each in detectors.items()}
    judgements, tokens, pairs = _pairs(options)
    tables = [load_table(path, tokens, _dictionary(options)) for path in options.tables]
    from ..evaluation.lexsub_report import rankings, table_judgements, thresholds

    lines: list[str] = []
    if tables:
        named_tables = [(path.name, table) for path, table in zip(options.tables, tables, strict=True)]
        lines += ["", *table_judgements(named_tables, pairs, tokens.vocabulary)]
    if detectors:
        found = _scores(options, set().union(*detectors.values()), pairs, tables[0] if tables else None)
        named: dict[str, NDArray[np.float64]] = {}
        for name, model in models.items():
            named[name] = model.probability(found).double().numpy()
            if model.provenance.get("sha256") == judgements.sha256:
                print(f"note: {name} was fitted on these judgements; for other targets see 'truneg synonyms fit'")
        cut = int((pairs.listed(tables[0]) if tables else pairs.accepted).sum())
        lines += ["", *rankings(named, pairs, cut), "", *thresholds(named, pairs, options.hc_threshold)]
    print("\n".join(lines).rstrip())


def fit(options: FitOptions) -> None:
    """Fit detectors' probability of acceptance on judged one-token candidates, and write a model for each. Prints how
    well the folds left out are ranked, with five folds by target word.
    """
    detectors = {name: _features(name) for name in options.detector}
    judgements, tokens, pairs = _pairs(options)
    table = load_table(options.synonym_table, tokens, _dictionary(options))
    from ..evaluation.acceptance_fit import fit_acceptance
    from ..evaluation.lexsub_report import rankings
    from ..files import make_output_folder
    from ..objectives.acceptance import model_name

    make_output_folder(options.output_dir)
    found = _scores(options, set().union(*detectors.values()), pairs, table)
    provenance = {
        "data": options.judgements.name,
        "sha256": judgements.sha256,
        "checkpoint": None if options.checkpoint is None else options.checkpoint.name,
        "dictionary": tokens.vocabulary.fingerprint,
        "table": {"source": table.source, "options": table.options},
    }
    ranked = {"table": pairs.listed(table).astype("float64")}
    lines = []
    for name, features in detectors.items():
        fitted = fit_acceptance(pairs, {each: found[each] for each in features}, provenance)
        ranked[name] = fitted.out_of_fold
        path = options.output_dir / model_name(features)
        fitted.model.save(path)
        terms = "".join(f" {value:+.4f} {each}" for each, value in fitted.model.coefficients.items())
        folds = ", ".join(f"{value:.3f}" for value in fitted.average_precision)
        lines += [f"{path}: logit {fitted.model.intercept:.4f}{terms}", f"  average precision by fold {folds}"]
    print("\n".join(["", *rankings(ranked, pairs, int(pairs.listed(table).sum())), "", *lines]))


def _features(name: str) -> tuple[str, ...]:
    """The features of a detector, in the order of :data:`~truneg_fairseq.objectives.acceptance.FEATURES`."""
    from ..objectives.acceptance import FEATURES
    from ..objectives.settings import check_detector

    check_detector(name, "--detector")
    return tuple(each for each in FEATURES if each in name.split("+"))


def _pairs(options: DetectorOptions) -> tuple[Judgements, Tokens, JudgedPairs]:
    from ..evaluation.cloze_judgements import read_people
    from ..evaluation.judged_pairs import JudgedPairs
    from ..evaluation.models import open_tokens
    from ..evaluation.tokens import DataTokens

    judgements, path = read_people(options.judgements, options.gold), _dictionary(options)
    tokens = DataTokens(path) if path == options.data else open_tokens(path, None)
    pairs = JudgedPairs.of(judgements, tokens)
    print(
        f"{options.judgements.name}: {len(pairs.places)} targets, {pairs.unknown} others are not one token of the "
        f"dictionary;\n{len(pairs):,} of {judgements.candidates:,} candidates are one token, "
        f"{100 * pairs.accepted.mean():.1f} % of them accepted and {100 * pairs.conceivable.mean():.1f} % conceivable"
    )
    return judgements, tokens, pairs


def _dictionary(options: DetectorOptions) -> Path:
    """Where the tokens are from: the model's folder, or the data."""
    from ..evaluation.models import is_hugging_face

    if options.checkpoint is not None and is_hugging_face(options.checkpoint):
        return options.checkpoint
    if options.data is None:
        raise TrueNegError("--data: found none; expected the binarized data of the tables, or a folder as --checkpoint")
    return options.data


def _scores(
    options: DetectorOptions, features: set[str], pairs: JudgedPairs, table: SynonymTable | None
) -> Mapping[str, Tensor]:
    from ..evaluation.judged_pairs import scores

    if "table" in features and table is None:
        raise TrueNegError("--detector: 'table' needs a table; give its file first")
    if features == {"table"}:
        return scores(pairs, features, model=None, table=table)
    if options.checkpoint is None:
        raise TrueNegError(f"--detector: {'+'.join(sorted(features))} needs --checkpoint")
    from ..evaluation.model_options import prepare
    from ..evaluation.models import open_model

    prepare(options.checkpoint)
    model = open_model(options.checkpoint, options.data, cpu=options.cpu)
    return scores(pairs, features, model=model, table=table)
