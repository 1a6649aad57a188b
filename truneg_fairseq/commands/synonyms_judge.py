"""``truneg synonyms judge``: synonym tables and detectors against what people say of words in context."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from ..evaluation.models import OpenedModel, OpeningOptions, is_hugging_face, load_table, prepare
from ..options import option


@dataclass(kw_only=True)
class JudgeOptions(OpeningOptions):
    tables: list[Path] = option(
        help="tables; the first is the detectors' own", default_factory=list, positional=True, metavar="NPZ"
    )
    judgements: list[Path] = option(
        help="SWORDS's JSON, CoInCo's XML, SemEval-2007's XML and its gold file, or cloze answers, plain or packed",
        metavar="FILE",
    )
    checkpoint: Path | None = option(
        None,
        "the masked LM that the detectors ask: a fairseq checkpoint, or a folder of Hugging Face's",
        metavar="MODEL",
    )
    detector: list[str] = option(
        help="table, embedding, context, or several joined by +, of which a logistic regression makes a probability",
        default_factory=list,
        metavar="NAME",
    )
    hc_acceptance_model: Path | None = option(
        None, "of one --detector (default: the package's own of its scores)", metavar="JSON"
    )
    hc_threshold: list[float] = option(
        help="also show what these probabilities accept", default_factory=list, ge=0, le=1, metavar="P"
    )
    fit: Path | None = option(
        None,
        "fit the detectors' probability on these judgements, five folds by target word, and write a model for each "
        "here",
        metavar="DIR",
    )


def judge(options: JudgeOptions) -> None:  # noqa: PLR0915
    """Show how many of a table's pairs people accept, and how well detectors rank words in context.

    Intervals are 95 % bootstrap over targets. With --fit detectors are fitted, and ranked on the folds left out.
    """
    from ..objectives.false_negatives import AcceptanceModel, acceptance_file, acceptance_model
    from ..objectives.options import FEATURES, check_detector

    detectors = {}
    for name in options.detector:
        check_detector(name, "--detector")
        detectors[name] = tuple(each for each in FEATURES if each in name.split("+"))
    wanted = {feature for features in detectors.values() for feature in features}
    path = options.hc_acceptance_model
    if path is not None and len(detectors) != 1:
        raise TrueNegError(f"--hc-acceptance-model: found {len(detectors)} detectors, expected one --detector")
    if "table" in wanted and not options.tables:
        raise TrueNegError("--detector: 'table' needs a table; give its file first")
    if wanted - {"table"} and options.checkpoint is None:
        raise TrueNegError(f"--detector: {'+'.join(sorted(wanted))} needs --checkpoint")
    from ..evaluation import acceptance
    from ..evaluation.people import read_people
    from ..evaluation.scorer import DataTokens
    from ..results.tables import terminal

    opened = None
    if options.checkpoint is not None and (wanted - {"table"} or is_hugging_face(options.checkpoint)):
        prepare([options.checkpoint])
        opened = OpenedModel(options.checkpoint, options)
    if opened is None and options.data is None:
        raise TrueNegError("--data: found none; expected the binarized data of the tables, or a folder as --checkpoint")
    tokens = DataTokens(options.data, options.tokenization) if opened is None and options.data else opened.tokens()  # type: ignore[union-attr]
    judgements = read_people(options.judgements)
    pairs = acceptance.JudgedPairs.of(judgements, tokens)
    print(
        f"{judgements.path.name}: {len(pairs.places)} targets, {len(judgements.targets) - len(pairs.places)} others "
        f"are not one token of the dictionary;\n{len(pairs):,} of {judgements.candidates:,} candidates are one token, "
        f"{100 * pairs.accepted.mean():.1f} % of them accepted and {100 * pairs.conceivable.mean():.1f} % conceivable"
    )
    dictionary = options.data or options.checkpoint or Path()
    tables = {path.name: load_table(path, tokens, dictionary) for path in options.tables}
    first = next(iter(tables.values()), None)
    made = [acceptance.tables(tables, pairs, tokens)] if tables else []
    scorer = opened.scorer(tokens) if opened is not None and wanted - {"table"} else None
    found = acceptance.scores(pairs, wanted, scorer=scorer, table=first)
    named, lines = {}, list[str]()
    for name, features in detectors.items():
        if options.fit is None:
            model = AcceptanceModel({"table": 1.0}, 0.0) if name == "table" else acceptance_model(features, path)
            named[name] = model.probability(found).double().numpy()
            if model.provenance.get("sha256") == judgements.sha256:
                lines.append(f"{name} was fitted on these judgements; --fit ranks it on other targets")
            continue
        options.fit.mkdir(parents=True, exist_ok=True)
        provenance = {
            "data": judgements.path.name,
            "sha256": judgements.sha256,
            "checkpoint": None if options.checkpoint is None else options.checkpoint.name,
            "dictionary": tokens.vocabulary.fingerprint,
            "table": None if first is None else {"source": first.source, "options": first.options},
        }
        fitted = acceptance.fit_acceptance(pairs, {each: found[each] for each in features}, provenance)
        named[name] = fitted.out_of_fold
        fitted.model.save(options.fit / acceptance_file(features))
        terms = "".join(f" {value:+.4f} {each}" for each, value in fitted.model.coefficients.items())
        folds = ", ".join(f"{value:.3f}" for value in fitted.average_precision)
        lines += [
            f"{options.fit / acceptance_file(features)}: logit {fitted.model.intercept:.4f}{terms}; AP by fold {folds}"
        ]
    if named:
        cut = int((pairs.accepted if first is None else pairs.listed(first)).sum())
        made.append(acceptance.rankings(named, pairs, cut))
        made += [acceptance.thresholds(named, pairs, options.hc_threshold)] if options.hc_threshold else []
    print("\n".join(["", *(line for table in made for line in (*terminal(table), "")), *lines]).rstrip())
