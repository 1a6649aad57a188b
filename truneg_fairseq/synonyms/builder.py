"""Turns a lexicon and a vocabulary into a synonym table."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np

from ..progress import Progress
from ..record import VERSION
from ..vocabulary import Vocabulary, without_accents
from .embeddings import pair_cosines
from .lexicon import Lexicon
from .table import SynonymTable


def build_table(
    lexicon: Lexicon,
    vocabulary: Vocabulary,
    *,
    other_cases: bool = False,
    vectors: Path | None = None,
    show_progress: bool = False,
) -> SynonymTable:
    """Looks every whole word of the vocabulary up.

    Only names that are single whole-word tokens of the vocabulary enter the table: no other can ever be predicted. The
    word itself is left out. Stop words get no synonyms. In a vocabulary without accents (BERT's uncased ones) a word
    stands for every spelling that the lexicon lists: "cote" for "cote", "côte", "côté" and "coté".

    With ``other_cases``, another case of the word itself may enter too. With a file of word vectors the table has the
    cosine of each pair. Its ``known_words`` counts the vocabulary's words that the lexicon lists, stop words included:
    62.5 % of BERT's words in WordNet (Section 3.2).
    """
    ids_of = _token_ids(vocabulary)
    stop_words = {*lexicon.stop_words, *map(vocabulary.spelled, lexicon.stop_words)}
    gold_ids: list[int] = []
    synonym_ids: list[int] = []
    known_words = 0
    words = dict.fromkeys(word for word in vocabulary.words if word is not None)
    spellings: dict[str, set[str]] = {}  # with accents, as the lexicon lists them, by the word without
    for accented in lexicon.accented(words) if vocabulary.strips_accents else ():
        spellings.setdefault(without_accents(accented).lower(), set()).add(accented)
    lexicon.prepare({**words, **dict.fromkeys(chain(*spellings.values()))}, show_progress=show_progress)
    title = f"synonyms from {lexicon.source}"
    for gold, word in enumerate(Progress(vocabulary.words, desc=title, unit=" tokens", disable=not show_progress)):
        if word is None:
            continue
        spelled = [word, *sorted(spellings.get(word, ()))]
        names = [name for each in spelled for name in lexicon.synonyms(each)]
        if not names:
            continue
        known_words += 1
        if word.lower() in stop_words:
            continue
        others = names if other_cases else [name for name in names if name.lower() != word.lower()]
        forms = (form for name in others for form in _forms(name, word, vocabulary))
        synonyms = {token for form in forms for token in ids_of.get(form, ())}
        synonyms.difference_update(ids_of[word])
        gold_ids.extend([gold] * len(synonyms))
        synonym_ids.extend(sorted(synonyms))
    gold_tokens, synonym_tokens = (np.asarray(ids, dtype=np.int32) for ids in (gold_ids, synonym_ids))
    return SynonymTable(
        gold=gold_tokens,
        synonym=synonym_tokens,
        cosine=None if vectors is None else pair_cosines(vectors, vocabulary.words, gold_tokens, synonym_tokens),
        vocabulary_size=len(vocabulary),
        fingerprint=vocabulary.fingerprint,
        tokenization=vocabulary.tokenization,
        source=lexicon.source,
        options=dict(lexicon.options),
        known_words=known_words,
        version=VERSION,
    )


def predictable_names(names: Iterable[str], word: str, vocabulary: Vocabulary) -> list[str]:
    """The names of a word that are single whole-word tokens of a vocabulary, without the word itself."""
    ids_of = _token_ids(vocabulary)
    own = vocabulary.spelled(word)
    others = (name for name in names if name.lower() != word.lower())
    return [name for name in others if any(form in ids_of and form != own for form in _forms(name, word, vocabulary))]


def _token_ids(vocabulary: Vocabulary) -> dict[str, list[int]]:
    ids: dict[str, list[int]] = {}
    for token, word in enumerate(vocabulary.words):
        if word is not None:
            ids.setdefault(word, []).append(token)
    return ids


def _forms(name: str, word: str, vocabulary: Vocabulary) -> list[str]:
    """How a listed name can be written in this vocabulary, given the gold word it stands for."""
    if vocabulary.lower_case:
        return [vocabulary.spelled(name)]
    if word.isupper() and len(word) > 1:
        return [name, name.upper()]
    return [name, name[:1].upper() + name[1:]] if word[:1].isupper() else [name]
