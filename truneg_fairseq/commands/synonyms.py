"""``truneg synonyms``: build, show, compare and judge synonym tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrueNegError
from ..files import require_different, require_writable
from ..options import option
from ..synonyms.lists import LexiconSettings, SourceOptions
from . import synonyms_judge

if TYPE_CHECKING:
    from ..vocabulary import Vocabulary

_SOURCES = (
    "wordnet, inflected, wn, embeddings, tsv or model, or an expression: a+b what either lists, a&b what both list, "
    "a-antonyms (WordNet's)"
)
_DATA = (
    "folder of binarized data, its dict.txt (for translation: dict.LANGUAGE.txt), or Hugging Face's masked LM: a "
    "folder or hub:NAME"
)
_EXAMPLES, _SEED = 10, 1


@dataclass(frozen=True, kw_only=True)
class DictionaryOptions:
    data: Path | None = option(None, _DATA, metavar="DATA-BIN")
    tokenization: str = option(
        "auto",
        "how the dictionary marks whole words: auto (detected), wordpiece, sentencepiece, gpt2, subword-nmt or words",
    )


@dataclass(frozen=True, kw_only=True)
class LexiconOptions(DictionaryOptions, SourceOptions):
    checkpoint: Path | None = option(None, "for model: a fairseq checkpoint trained with the dictionary")


@dataclass(frozen=True, kw_only=True)
class BuildOptions(LexiconOptions):
    data: Path = option(help=_DATA, metavar="DATA-BIN")
    source: str = option("wordnet", _SOURCES, metavar="EXPR")
    output: Path | None = option(
        None, "default: synonyms.npz beside the dictionary; of others than wordnet, synonyms.SOURCE.npz", metavar="NPZ"
    )


@dataclass(frozen=True, kw_only=True)
class ShowOptions(LexiconOptions):
    word: str = option(positional=True)
    source: list[str] | None = option(None, f"{_SOURCES} (default: each source there is data for)", metavar="EXPR")


@dataclass(frozen=True, kw_only=True)
class CompareOptions(DictionaryOptions):
    left: Path = option(positional=True, metavar="A.npz")
    right: Path = option(positional=True, metavar="B.npz")


def build(options: BuildOptions) -> None:
    """Build the table of a dictionary: looks every word up in a lexicon and writes what the criterions use."""
    from ..synonyms import SynonymTable
    from ..synonyms.build import new_table, parse_source, table_beside

    settings = _settings(options)
    if options.output is None and not options.data.exists():
        raise TrueNegError(f"--data {options.data}: no such file or folder; for a name on the hub give --output too")
    output = options.output or table_beside(_folder(options.data), str(parse_source(options.source)))
    inputs = {name: getattr(options, name) for name in ("tsv", "vectors", "exclude", "checkpoint")}
    require_different(data=_folder(options.data) / "dict.txt", **inputs, output=output)
    require_writable(output, "--output", makes_folders=True)
    before = SynonymTable.load(output) if output.is_file() else None
    table = new_table(_vocabulary(options, options.data), options.source, settings)
    table.save(output)
    print(f"wrote {output} ({output.stat().st_size / 1e6:.2f} MB)")
    if before is not None and (before.options, before.summary) != (table.options, table.summary):
        print(f"in place of another table: {before.summary}; {before.options}")
    print(table.summary)


def show(options: ShowOptions) -> None:
    """Show a word's names in each source side by side, x where a source lists a name. With --data the column "token"
    marks those that a model with that dictionary can predict.
    """
    from ..synonyms.build import open_lexicons, predictable_names

    word, vocabulary = options.word, None if options.data is None else _vocabulary(options, options.data)
    lexicons, unavailable = open_lexicons(options.source, _settings(options))
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


def compare(options: CompareOptions) -> None:
    """Compare two tables of one dictionary: the pairs and keys that they share and do not share. With --data some
    pairs of each kind are spelled out.
    """
    from ..synonyms import SynonymTable
    from ..synonyms.table import compare_tables, sample_pairs

    left, right = SynonymTable.load(options.left), SynonymTable.load(options.right)
    right.check_dictionary(left.fingerprint, options.right, str(options.left))
    vocabulary = None if options.data is None else _vocabulary(options, options.data)
    if vocabulary is not None:
        left.check_dictionary(vocabulary.fingerprint, options.left, str(options.data))
    for name, path, table in (("A", options.left, left), ("B", options.right, right)):
        print(f"{name}: {path}, {table.options}: {table.summary}")
    for title, pairs in zip(("in both", "only in A", "only in B"), compare_tables(left, right), strict=True):
        print(f"{title}: {len(pairs)} pairs over {len(np.unique(pairs[:, 0]))} keys")
        if vocabulary is not None:
            for gold, synonym in sample_pairs(pairs, _EXAMPLES, _SEED):
                print(f"  {vocabulary.words[gold]} -> {vocabulary.words[synonym]}")


def _settings(options: LexiconOptions) -> LexiconSettings:
    given = {each.name: getattr(options, each.name) for each in fields(SourceOptions)}
    if (path := options.checkpoint) is None:
        return LexiconSettings(**given)
    if options.data is None:
        raise TrueNegError(f"--checkpoint {path}: needs --data, the dictionary it was trained with")
    from ..models.checkpoints import read_embeddings
    from ..synonyms.lists import CheckpointEmbeddings

    embeddings = CheckpointEmbeddings(path, read_embeddings(path), _vocabulary(options, options.data))
    return LexiconSettings(**given, checkpoint=embeddings)


def _vocabulary(options: DictionaryOptions, data: Path) -> Vocabulary:
    from ..data.tokenizer import vocabulary_of
    from ..evaluation.models import is_hugging_face, open_tokens
    from ..vocabulary import read_symbols

    if is_hugging_face(data):
        return open_tokens(data, None, options.tokenization).vocabulary
    return vocabulary_of(read_symbols(data), _folder(data), tokenization=options.tokenization)


def _folder(data: Path) -> Path:
    return data if data.is_dir() else data.parent


COMMANDS: Mapping[str, Any] = {
    "": "Build, show, compare and judge synonym tables.",
    "build": build,
    "show": show,
    "compare": compare,
    "judge": synonyms_judge.judge,
    "fit": synonyms_judge.fit,
}
