"""``truneg synonyms``: build, show and judge synonym tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrueNegError, refuse
from ..evaluation.models import OpenedModel, OpeningOptions, is_hugging_face, load_table
from ..files import require_different, require_writable
from ..flags import option, select
from ..synonyms.building import SourceOptions
from .parser import next_step

if TYPE_CHECKING:
    from ..vocabulary import Vocabulary

_SOURCES = (
    "wordnet, inflected or tsv, or an expression: a+b what either lists, a&b what both list, a-antonyms (WordNet's)"
)
_DATA = (
    "folder of binarized data, its dict.txt (for translation: dict.LANGUAGE.txt), or Hugging Face's masked LM: a "
    "folder or hub:NAME"
)
_TOKENIZATION = (
    "how the dictionary marks whole words: auto (detected), wordpiece, sentencepiece, gpt2, subword-nmt or words"
)
_EXAMPLES, _SEED = 10, 1


@dataclass(frozen=True, kw_only=True)
class BuildOptions(SourceOptions):
    data: Path = option(help=_DATA, metavar="DATA-BIN")
    tokenization: str = option("auto", _TOKENIZATION)
    source: str = option("wordnet", _SOURCES, metavar="EXPR")
    output: Path | None = option(
        None, "default: synonyms.npz beside the dictionary; of others than wordnet, synonyms.SOURCE.npz", metavar="NPZ"
    )


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    what: list[str] = option(help="a word, or two tables of one dictionary to compare", positional=True)
    tsv: Path | None = option(None, "a list to show too: lines 'word<TAB>synonym,synonym'")
    data: Path | None = option(None, _DATA, metavar="DATA-BIN")


def build(options: BuildOptions) -> None:
    """Build the table of a dictionary: looks every word up in a lexicon and writes what the criterions use."""
    from ..synonyms import SynonymTable
    from ..synonyms.building import new_table, normal_form, table_beside

    if options.output is None and not options.data.exists():
        raise TrueNegError(f"--data {options.data}: no such file or folder; for a name on the hub give --output too")
    output = options.output or table_beside(_folder(options.data), normal_form(options.source))
    inputs = {name: getattr(options, name) for name in ("tsv", "exclude")}
    require_different(data=_folder(options.data) / "dict.txt", **inputs, output=output)
    require_writable(output, "--output", makes_folders=True)
    before = SynonymTable.load(output) if output.is_file() else None
    vocabulary = _vocabulary(options.data, options.tokenization)
    table = new_table(vocabulary, options.source, options)
    table.save(output)
    print(f"wrote {output} ({output.stat().st_size / 1e6:.2f} MB)")
    if before is not None and (before.options, before.summary) != (table.options, table.summary):
        print(f"in place of another table: {before.summary}; {before.options}")
    print(table.summary)
    print(next_step("truneg", "train", "DATA-BIN", "--criterion", "masked_lm_hc", "--synonym-table", output, "..."))


def show(options: ShowOptions) -> None:
    """Show a word's names in each source that has data, x where a source lists a name; or compare two tables.

    With --data the column "token" marks the names that a model with that dictionary can predict, and some of the pairs
    that the tables share and do not share are spelled out.
    """
    vocabulary = None if options.data is None else _vocabulary(options.data)
    match options.what:
        case [left, right] if left.endswith(".npz") and right.endswith(".npz"):
            _compare(Path(left), Path(right), vocabulary)
        case [word]:
            _show_word(word, options, vocabulary)
        case _:
            raise TrueNegError(f"{' '.join(options.what)}: expected a word, or two tables A.npz and B.npz")


def _show_word(word: str, options: ShowOptions, vocabulary: Vocabulary | None) -> None:
    from ..synonyms import SOURCES, open_lexicon
    from ..synonyms.building import predictable_names

    lexicons, unavailable = [], []
    for name in SOURCES:
        try:
            lexicons.append(open_lexicon(name, select(SourceOptions, options)))
        except TrueNegError as error:
            if name == "tsv" and options.tsv is not None:  # asked for: it must not fail in passing
                raise
            unavailable.append(f"not shown: {error}")
    listed = {lexicon.source: list(lexicon.synonyms(word)) for lexicon in lexicons}
    names = list(dict.fromkeys(name for names in listed.values() for name in names))
    if not names:
        raise TrueNegError(f"{word!r}: not listed in {', '.join(listed)}; expected a word that is: try 'primary'")
    for lexicon in lexicons:
        stop = "; a stop word, which gets none in a table" if word.lower() in lexicon.stop_words else ""
        print(f"{word}: {len(listed[lexicon.source])} names in {lexicon.source}{stop}")
    columns: dict[str, Collection[str]] = dict(listed)
    if vocabulary is not None:
        columns["token"] = predictable_names(names, word, vocabulary)
        print(f"{len(columns['token'])} are single tokens of {options.data}, so that they can be predicted")
        if vocabulary.spelled(word) not in vocabulary.words:
            print(f"{word} is not a whole-word token of {options.data}: it is never corrected")
    width = max(map(len, names))
    print(" ".join([" " * width, *columns]))
    for name in names:
        marks = (f"{'x' if name in column else '':^{len(heading)}}" for heading, column in columns.items())
        print(f"{name:<{width}} {' '.join(marks)}".rstrip())
    print(*unavailable, sep="\n", end="\n" if unavailable else "")


def _compare(left: Path, right: Path, vocabulary: Vocabulary | None) -> None:
    """The pairs and keys that two tables share and do not share."""
    from ..synonyms import SynonymTable
    from ..synonyms.table import compare_tables, sample_pairs

    tables = SynonymTable.load(left), SynonymTable.load(right)
    tables[1].check_dictionary(tables[0].fingerprint, right, str(left))
    if vocabulary is not None:
        tables[0].check_dictionary(vocabulary.fingerprint, left, "--data")
    for name, path, table in zip("AB", (left, right), tables, strict=True):
        print(f"{name}: {path}, {table.options}: {table.summary}")
    for title, pairs in zip(("in both", "only in A", "only in B"), compare_tables(*tables), strict=True):
        print(f"{title}: {len(pairs)} pairs over {len(np.unique(pairs[:, 0]))} keys")
        if vocabulary is not None:
            for gold, synonym in sample_pairs(pairs, _EXAMPLES, _SEED):
                print(f"  {vocabulary.words[gold]} -> {vocabulary.words[synonym]}")


def _vocabulary(data: Path, tokenization: str = "auto") -> Vocabulary:
    from ..data.tokenizer import vocabulary_of
    from ..vocabulary import read_symbols

    if is_hugging_face(data):
        return OpenedModel(data, OpeningOptions()).tokens(tokenization).vocabulary
    return vocabulary_of(read_symbols(data), _folder(data), tokenization=tokenization)


def _folder(data: Path) -> Path:
    return data if data.is_dir() else data.parent


@dataclass(kw_only=True)
class JudgeOptions(OpeningOptions):
    tables: list[Path] = option(
        help="tables; the first is the detectors' own", default_factory=list, positional=True, metavar="NPZ"
    )
    judgements: Path = option(help="SWORDS's JSON, or cloze answers, plain or packed", metavar="FILE")
    checkpoint: Path | None = option(
        None,
        "the masked LM that the detectors ask: a fairseq checkpoint, or a folder of Hugging Face's",
        metavar="MODEL",
    )
    detector: list[str] = option(
        help="table, embedding, context, or several joined by +, of which a logistic regression makes a probability; "
        "or another source of alternatives, as --hc-detector takes them",
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


def judge(options: JudgeOptions) -> None:
    """Show how many of a table's pairs people accept, and how well detectors rank words in context.

    Intervals are 95 % bootstrap over targets. With --fit detectors are fitted, and ranked on the folds left out.
    """
    from ..objectives import TrueNegativeOptions
    from ..objectives.false_negatives import acceptance_file, in_order
    from ..objectives.options import named_sources
    from ..registry import ALTERNATIVES

    detectors = {name: in_order(named_sources(None, name)) for name in options.detector}
    kinds = {name: ALTERNATIVES.look_up(name, "--detector") for each in detectors.values() for name in each}
    wanted = {*kinds}
    path, checkpoint = options.hc_acceptance_model, options.checkpoint
    refuse(
        (
            path is not None and len(detectors) != 1,
            f"--hc-acceptance-model: found {len(detectors)} detectors, expected one --detector",
        ),
        ("table" in wanted and not options.tables, "--detector: 'table' needs a table; give its file first"),
        (
            wanted - {"table"} and checkpoint is None,
            f"--detector: {'+'.join(sorted(wanted))} needs --checkpoint",
        ),
        (
            checkpoint is None and options.data is None,
            "--data: found none; expected the binarized data of the tables, or --checkpoint",
        ),
    )
    from ..evaluation import acceptance
    from ..evaluation.people import is_conceivable, read_people
    from ..evaluation.scorer import DataTokens
    from ..results.tables import terminal

    opened = None if checkpoint is None else OpenedModel(checkpoint, options)
    tokens = DataTokens(options.data or Path()) if opened is None else opened.tokens()
    judgements = read_people(options.judgements)
    pairs = acceptance.JudgedPairs.of(judgements, tokens)
    accepted, conceivable = 100 * pairs.accepted.mean(), 100 * is_conceivable(pairs.share).mean()
    print(
        f"{judgements.path.name}: {len(pairs.places)} targets, {len(judgements.targets) - len(pairs.places)} others "
        f"are not one token of the dictionary;\n{len(pairs):,} of {judgements.candidates:,} candidates are one token, "
        f"{accepted:.1f} % of them accepted and {conceivable:.1f} % conceivable"
    )
    dictionary = options.data or checkpoint or Path()
    tables = {path.name: load_table(path, tokens, dictionary) for path in options.tables}
    first = next(iter(tables.values()), None)
    made = [acceptance.tables(tables, pairs, tokens)] if tables else []
    scorer = opened.scorer(tokens) if opened is not None and wanted - {"table"} else None
    given = TrueNegativeOptions(synonym_table=str(options.tables[0]) if options.tables else None)
    sources = {name: kind(tokens.setting(given)) for name, kind in kinds.items()}
    found = acceptance.scores(pairs, sources, scorer)
    named, lines = {}, list[str]()
    for name, features in detectors.items():
        if options.fit is None:
            named[name], model = acceptance.joint({each: sources[each] for each in features}, found, path)
            if model is not None and model.provenance.get("sha256") == judgements.sha256:
                lines.append(f"{name} was fitted on these judgements; --fit ranks it on other targets")
            continue
        options.fit.mkdir(parents=True, exist_ok=True)
        provenance = {
            "data": judgements.path.name,
            "sha256": judgements.sha256,
            "checkpoint": None if checkpoint is None else checkpoint.name,
            "dictionary": tokens.vocabulary.fingerprint,
            "table": None if first is None else {"source": first.source, "options": first.options},
        }
        chosen = {each: found[each] for each in features}
        fitted, named[name] = acceptance.fit_acceptance(pairs, chosen, provenance)
        terms = "".join(f" {value:+.4f} {each}" for each, value in fitted.coefficients.items())
        folds = ", ".join(f"{value:.3f}" for value in fitted.provenance["folds_average_precision"])
        written = options.fit / acceptance_file(features)
        fitted.save(written)
        lines.append(f"{written}: logit {fitted.intercept:.4f}{terms}; AP by fold {folds}")
    if named:
        cut = int((pairs.accepted if first is None else pairs.listed(first)).sum())
        made.append(acceptance.rankings(named, pairs, cut))
        made += [acceptance.thresholds(named, pairs, options.hc_threshold)] if options.hc_threshold else []
    print("\n".join(["", *(line for table in made for line in (*terminal(table), "")), *lines]).rstrip())


COMMANDS: Mapping[str, Any] = {
    "": "Build, show, compare and judge synonym tables.",
    "build": build,
    "show": show,
    "judge": judge,
}
