"""``truneg synonyms``: build, show and judge synonym tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrueNegError
from ..files import require_different, require_writable
from ..options import option
from ..synonyms import SourceOptions
from . import synonyms_judge

if TYPE_CHECKING:
    from ..vocabulary import Vocabulary

_SOURCES = (
    "wordnet, inflected, wn, embeddings or tsv, or an expression: a+b what either lists, a&b what both list, "
    "a-antonyms (WordNet's)"
)
_DATA = (
    "folder of binarized data, its dict.txt (for translation: dict.LANGUAGE.txt), or Hugging Face's masked LM: a "
    "folder or hub:NAME"
)
_EXAMPLES, _SEED = 10, 1


@dataclass(frozen=True, kw_only=True)
class LexiconOptions(SourceOptions):
    data: Path | None = option(None, _DATA, metavar="DATA-BIN")
    tokenization: str = option(
        "auto",
        "how the dictionary marks whole words: auto (detected), wordpiece, sentencepiece, gpt2, subword-nmt or words",
    )


@dataclass(frozen=True, kw_only=True)
class BuildOptions(LexiconOptions):
    data: Path = option(help=_DATA, metavar="DATA-BIN")
    source: str = option("wordnet", _SOURCES, metavar="EXPR")
    output: Path | None = option(
        None, "default: synonyms.npz beside the dictionary; of others than wordnet, synonyms.SOURCE.npz", metavar="NPZ"
    )


@dataclass(frozen=True, kw_only=True)
class ShowOptions(LexiconOptions):
    what: list[str] = option(help="a word, or two tables of one dictionary to compare", positional=True)


def build(options: BuildOptions) -> None:
    """Build the table of a dictionary: looks every word up in a lexicon and writes what the criterions use."""
    from ..synonyms import SynonymTable
    from ..synonyms.build import new_table, normal_form, table_beside

    if options.output is None and not options.data.exists():
        raise TrueNegError(f"--data {options.data}: no such file or folder; for a name on the hub give --output too")
    output = options.output or table_beside(_folder(options.data), normal_form(options.source))
    inputs = {name: getattr(options, name) for name in ("tsv", "vectors", "exclude")}
    require_different(data=_folder(options.data) / "dict.txt", **inputs, output=output)
    require_writable(output, "--output", makes_folders=True)
    before = SynonymTable.load(output) if output.is_file() else None
    vocabulary = _vocabulary(options)
    table = new_table(vocabulary, options.source, options)
    table.save(output)
    print(f"wrote {output} ({output.stat().st_size / 1e6:.2f} MB)")
    if before is not None and (before.options, before.summary) != (table.options, table.summary):
        print(f"in place of another table: {before.summary}; {before.options}")
    print(table.summary)
    print(f"next: a training with --criterion masked_lm_hc --synonym-table {output}")


def show(options: ShowOptions) -> None:
    """Show a word's names in each source that has data, x where a source lists a name; or compare two tables.

    With --data the column "token" marks the names that a model with that dictionary can predict, and some of the pairs
    that the tables share and do not share are spelled out.
    """
    vocabulary = None if options.data is None else _vocabulary(options)
    match options.what:
        case [left, right] if left.endswith(".npz") and right.endswith(".npz"):
            _compare(Path(left), Path(right), vocabulary)
        case [word]:
            _show_word(word, options, vocabulary)
        case _:
            raise TrueNegError(f"{' '.join(options.what)}: expected a word, or two tables A.npz and B.npz")


def _show_word(word: str, options: ShowOptions, vocabulary: Vocabulary | None) -> None:
    from ..synonyms import SOURCES, open_lexicon
    from ..synonyms.build import NEEDS, predictable_names

    lexicons, unavailable = [], []
    given = options
    for name in SOURCES:
        try:
            lexicons.append(open_lexicon(name, given))
        except TrueNegError as error:
            if getattr(options, NEEDS.get(name, ""), None) is not None:  # asked for: it must not fail in passing
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


def _vocabulary(options: LexiconOptions) -> Vocabulary:
    from ..data.tokenizer import vocabulary_of
    from ..evaluation.models import OpenedModel, OpeningOptions, is_hugging_face
    from ..vocabulary import read_symbols

    data = options.data
    assert data is not None
    if is_hugging_face(data):
        return OpenedModel(data, OpeningOptions(tokenization=options.tokenization)).tokens().vocabulary
    return vocabulary_of(read_symbols(data), _folder(data), tokenization=options.tokenization)


def _folder(data: Path) -> Path:
    return data if data.is_dir() else data.parent


COMMANDS: Mapping[str, Any] = {
    "": "Build, show, compare and judge synonym tables.",
    "build": build,
    "show": show,
    "judge": synonyms_judge.judge,
}
