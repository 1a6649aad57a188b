"""Stop words, which get no synonyms: WordNet reads them as chemical symbols, letters and abbreviations.

The English set is the one that NLTK distributes (it goes back to the Snowball stemmer's list), written down by
grammatical class so that no download is needed. Contractions stand both whole and as tokenizers split them.
"""

from __future__ import annotations

import logging
import unicodedata

logger = logging.getLogger(__name__)

_PRONOUNS = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves what which who whom this that these those
"""
_VERBS = """
am is are was were be been being have has had having do does did doing can will should just don now
"""
_FUNCTION_WORDS = """
a an the and but if or because as until while of at by for with about against between into through during before
after above below to from up down in out on off over under again further then once here there when where why how
all any both each few more most other some such no nor not only own same so than too very
"""
_CONTRACTIONS = """
you're you've you'll you'd she's it's that'll don't should've aren't couldn't didn't doesn't hadn't hasn't haven't
isn't mightn't mustn't needn't shan't shouldn't wasn't weren't won't wouldn't
"""
_CONTRACTION_PIECES = """
s t d ll m o re ve y ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren
won wouldn
"""

ENGLISH_STOP_WORDS: frozenset[str] = frozenset(
    (_PRONOUNS + _VERBS + _FUNCTION_WORDS + _CONTRACTIONS + _CONTRACTION_PIECES).split()
)
"""The 179 English stop words."""

# NLTK's corpus "stopwords" names its files in English; codes are ISO 639-3 as in the Open Multilingual Wordnet.
_CODES = """
als:albanian arb:arabic bel:belarusian cat:catalan cmn:chinese dan:danish deu:german ell:greek eus:basque fin:finnish
fra:french heb:hebrew hun:hungarian ind:indonesian ita:italian nld:dutch nno:norwegian nob:norwegian por:portuguese
ron:romanian rus:russian slv:slovene spa:spanish swe:swedish tur:turkish
"""
_NLTK_NAMES = dict(pair.split(":") for pair in _CODES.split())


def read_stop_words(language: str) -> tuple[frozenset[str], str]:
    """A language's stop words: the built-in ones for English, else those of NLTK's corpus ``stopwords``.

    Args:
        language: ISO 639-3 code; what follows an underscore (``ita_iwn``) is passed over.

    Returns:
        The stop words in lower case, and what they are in one word for a table's options: "built-in", the name of
        NLTK's file, or "none", which the log explains.
    """
    language = language.partition("_")[0]
    if language == "eng":
        return ENGLISH_STOP_WORDS, "built-in"
    if language not in _NLTK_NAMES:
        logger.warning("stop words: NLTK has none for %s; every word that is known gets synonyms", language)
        return frozenset(), "none"
    name = _NLTK_NAMES[language]
    import nltk.data
    from nltk.corpus.reader import WordListCorpusReader

    for resource in ("corpora/stopwords", "corpora/stopwords.zip/stopwords/"):
        try:
            reader = WordListCorpusReader(nltk.data.find(resource), [name], encoding="utf-8")
            return frozenset(map(str.lower, reader.words(name))), name
        except (LookupError, OSError):
            continue
    logger.warning(
        "stop words: NLTK's stopwords corpus has no %r in its data folders; every word that is known gets synonyms; "
        "get it with python -m nltk.downloader stopwords",
        name,
    )
    return frozenset(), "none"


def is_content_word(word: str) -> bool:
    """Whether a word takes part: two or more letters, none of the English stop words.

    Numbers, dates and punctuation are nearest to each other and mean different things; single letters are symbols,
    whose embeddings hardly train. Combining marks count as letters, as many scripts write vowels with them.
    """
    letters = len(word) > 1 and all(unicodedata.category(character)[0] in "LM" for character in word)
    return letters and word.lower() not in ENGLISH_STOP_WORDS
