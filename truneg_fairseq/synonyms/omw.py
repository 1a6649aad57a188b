"""The Open Multilingual Wordnet as a lexicon."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath
from typing import Any

from ..errors import TrueNegError
from .lexicon import with_accents
from .stop_words import read_stop_words

CORPUS = "omw-1.4"
_FIELDS = 3  # synset, language and kind of entry, value


class OmwLexicon:
    """All lemma names of all synsets of a word in one language.

    The data is NLTK's corpus ``omw-1.4``, found by NLTK. Its files give a language's words by WordNet's synsets, and
    two words of one synset are synonyms; the English database is not read. There is no morphology: a word is found in
    the form in which the language's wordnet lists it. Stop words are those of NLTK's corpus ``stopwords``; where it is
    not installed, or has none for the language, there are none, and the log says so.

    Args:
        language: ISO 639-3 code such as ``fra``.
        flags: how the user's flags begin, for messages.
    """

    source = "omw"

    def __init__(self, language: str, flags: str = "--") -> None:
        self._synsets: dict[str, list[str]] = defaultdict(list)
        self._names: dict[str, list[str]] = defaultdict(list)
        for synset, name in _read_lemmas(language, flags):
            self._synsets[name.lower()].append(synset)
            self._names[synset].append(name)
        self.stop_words, described = read_stop_words(language)
        self.options: dict[str, Any] = {"omw": CORPUS, "lang": language, "stop_words": described}

    def synonyms(self, word: str) -> list[str]:
        """The lemma names, sorted; empty where the language's wordnet does not know the word."""
        # .get: a defaultdict would keep every word that was ever asked for.
        return sorted({name for synset in self._synsets.get(word.lower(), ()) for name in self._names[synset]})

    def accented(self, words: Collection[str]) -> Iterator[str]:
        """See :class:`~.lexicon.AccentedLexicon`."""
        return with_accents(self._synsets, words)


def _read_lemmas(language: str, flags: str) -> list[tuple[str, str]]:
    """(synset, name) pairs, spaces in names as ``_``."""
    import nltk.data
    from nltk.corpus.reader import CorpusReader

    try:
        root = nltk.data.find(f"corpora/{CORPUS}")
    except LookupError:
        try:
            root = nltk.data.find(f"corpora/{CORPUS}.zip/{CORPUS}/")
        except LookupError:
            raise TrueNegError(
                f"Open Multilingual Wordnet: not found in NLTK's data folders; get it with python -m nltk.downloader "
                f"{CORPUS} (or set NLTK_DATA to a folder that holds corpora/{CORPUS})"
            ) from None
    reader = CorpusReader(root, r".*/wn-data-.*\.tab", encoding="utf-8")
    files = _files_by_language(reader.fileids())
    if language not in files:
        raise TrueNegError(
            f"{flags}lang: found {language!r}, expected one of the languages of {CORPUS}: {', '.join(sorted(files))}"
        )
    try:
        with reader.open(files[language]) as file:
            lines = file.read().splitlines()
    except UnicodeDecodeError as error:
        raise TrueNegError(f"{root}: {files[language]} is not UTF-8 ({error.reason}); get {CORPUS} again") from None
    return [entry for line in lines if (entry := _lemma(line, language[:3])) is not None]


def _files_by_language(fileids: list[str]) -> dict[str, str]:
    """File by language; the second file of a language is told apart by its folder, as NLTK does (ita, ita_iwn)."""
    files: dict[str, str] = {}
    for fileid in sorted(fileids):
        path = PurePosixPath(fileid)
        language = path.stem.rpartition("-")[2]
        files[f"{language}_{path.parent.name}" if language in files else language] = fileid
    return files


def _lemma(line: str, language: str) -> tuple[str, str] | None:
    fields = line.strip().split("\t")
    if line.startswith("#") or len(fields) < _FIELDS:
        return None
    of_language, _, kind = fields[1].rpartition(":")
    if kind != "lemma" or of_language not in ("", language):
        return None
    synset = fields[0].lower()
    if synset.endswith("-s"):  # an adjective that two of the languages mark as a satellite
        synset = synset[:-1] + "a"
    return synset, fields[-1].strip().replace(" ", "_")
