"""What a lexicon is, English stop words, and the lexicon that is the user's own list."""

from __future__ import annotations

import unicodedata
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..data.text import read_lines
from ..errors import TrueNegError
from ..vocabulary import without_accents


class Lexicon(ABC):
    """Answers "synonyms of this word"."""

    source: str  # its name
    options: dict[str, Any]  # what else decides its answers (versions, limits), JSON-able; recorded in every table
    stop_words: frozenset[str] = frozenset()  # in lower case; they have no synonyms whatever the lexicon lists
    other_cases = False  # whether another case of the word itself counts as one of its names

    @abstractmethod
    def synonyms(self, word: str) -> Sequence[str]:
        """The names listed for a word, the word itself included where listed; spaces in names as ``_``.

        Empty where the word is not known. A lexicon that tells cases apart looks the exact spelling up first.
        """

    def accented(self, words: Collection[str]) -> Iterable[str]:
        """The spellings with accents, as listed, of words in lower case without them."""
        return ()


ENGLISH_STOP_WORDS: frozenset[str] = frozenset(
    """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves what which who whom this that these those
am is are was were be been being have has had having do does did doing can will should just don now
a an the and but if or because as until while of at by for with about against between into through during before
after above below to from up down in out on off over under again further then once here there when where why how
all any both each few more most other some such no nor not only own same so than too very
you're you've you'll you'd she's it's that'll don't should've aren't couldn't didn't doesn't hadn't hasn't haven't
isn't mightn't mustn't needn't shan't shouldn't wasn't weren't won't wouldn't
s t d ll m o re ve y ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren
won wouldn
""".split()
)
"""The 179 English stop words, which get no synonyms: WordNet reads them as chemical symbols and abbreviations.

The set is the one that NLTK distributes (it goes back to the Snowball stemmer's list), by grammatical class.
Contractions stand both whole and as tokenizers split them.
"""


def is_content_word(word: str) -> bool:
    """Whether a word takes part: two or more letters, none of the English stop words.

    Numbers, dates and punctuation are nearest to each other and mean different things; single letters are symbols,
    whose embeddings hardly train. Combining marks count as letters, as many scripts write vowels with them.
    """
    letters = len(word) > 1 and all(unicodedata.category(character)[0] in "LM" for character in word)
    return letters and word.lower() not in ENGLISH_STOP_WORDS


def find_corpus(name: str) -> Any | None:
    """NLTK's pointer to one of its corpora, a folder or inside a zip archive; None where NLTK finds none."""
    import nltk.data

    for resource in (f"corpora/{name}", f"corpora/{name}.zip/{name}/"):
        try:
            return nltk.data.find(resource)
        except (LookupError, OSError):
            continue
        except zipfile.BadZipFile:  # half a download
            archives = (Path(str(folder), "corpora", f"{name}.zip") for folder in nltk.data.path)
            archive = next(path for path in archives if path.exists())
            command = "truneg wordnet" if name == "wordnet" else f"python -m nltk.downloader {name}"
            raise TrueNegError(f"{archive}: is not a whole zip archive; remove it and run '{command}'") from None
    return None


class TsvLexicon(Lexicon):
    """The synonyms of a UTF-8 file of lines ``word<TAB>synonym,synonym`` (or tabs between the synonyms as well).

    A line holds in its own direction only. Several lines of one word add up; empty lines are passed over. A word
    that the file lacks in its own spelling is looked up in any. There are no stop words: the list is what its author
    wants.
    """

    source = "tsv"

    def __init__(self, path: Path) -> None:
        self.options: dict[str, Any] = {}
        self._names: dict[str, list[str]] = {}
        self._in_any_case: dict[str, list[str]] = {}
        for number, line in enumerate(read_lines(path), start=1):
            if not line.strip():
                continue
            word, tab, rest = line.partition("\t")
            word = word.strip()
            names = [name.strip().replace(" ", "_") for name in rest.replace("\t", ",").split(",") if name.strip()]
            if not (tab and word and names):
                raise TrueNegError(
                    f"{path}: line {number} is {line[:80].rstrip()!r}, expected 'word<TAB>synonym,synonym'"
                )
            self._names.setdefault(word, []).extend([word, *names])
            self._in_any_case.setdefault(word.lower(), []).extend([word, *names])

    def synonyms(self, word: str) -> list[str]:
        """The word and its synonyms in the order of the file."""
        return list(dict.fromkeys(self._names.get(word) or self._in_any_case.get(word.lower(), [])))

    def accented(self, words: Collection[str]) -> Iterator[str]:
        listed = (each for each in self._in_any_case if not each.isascii())
        return (each for each in listed if without_accents(each).lower() in words)
