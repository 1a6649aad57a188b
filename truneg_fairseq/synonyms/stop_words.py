"""Stop words, which get no synonyms: WordNet reads them as chemical symbols, letters and abbreviations.

The English set is the one that NLTK distributes (it goes back to the Snowball stemmer's list), written down by
grammatical class so that no download is needed. Contractions stand both whole and as tokenizers split them.
"""

from __future__ import annotations

import logging
import unicodedata

from .wordnet_data import find_corpus

logger = logging.getLogger(__name__)

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
"""The 179 English stop words: pronouns, verbs, function words, contractions and the pieces of these."""

# The files of NLTK's corpus "stopwords", which have English names, by the codes that wordnets have.
_CODES = """
sq:albanian ar:arabic arb:arabic az:azerbaijani eu:basque be:belarusian bn:bengali ca:catalan zh:chinese cmn:chinese
da:danish nl:dutch fi:finnish fr:french de:german el:greek he:hebrew hu:hungarian id:indonesian it:italian kk:kazakh
ne:nepali nb:norwegian nn:norwegian no:norwegian pt:portuguese ro:romanian ru:russian sl:slovene es:spanish sv:swedish
tg:tajik ta:tamil tr:turkish
"""
_NLTK_NAMES = dict(pair.split(":") for pair in _CODES.split())


def read_stop_words(language: str) -> tuple[frozenset[str], str]:
    """Stop words of a language (fr, fr-CA) in lower case, and what they are: "built-in", the name of a file of NLTK's
    corpus ``stopwords``, or "none", which the log explains.
    """
    language = language.partition("-")[0]
    if language == "en":
        return ENGLISH_STOP_WORDS, "built-in"
    name, pointer = _NLTK_NAMES.get(language), find_corpus("stopwords")
    if name is None or pointer is None:
        logger.warning(
            "stop words: none for the language %s, so every word that is known gets synonyms; NLTK has those of some "
            "languages: python -m nltk.downloader stopwords",
            language,
        )
        return frozenset(), "none"
    return frozenset(pointer.join(name).open(encoding="utf-8").read().lower().split()), name


def is_content_word(word: str) -> bool:
    """Whether a word takes part: two or more letters, none of the English stop words.

    Numbers, dates and punctuation are nearest to each other and mean different things; single letters are symbols,
    whose embeddings hardly train. Combining marks count as letters, as many scripts write vowels with them.
    """
    letters = len(word) > 1 and all(unicodedata.category(character)[0] in "LM" for character in word)
    return letters and word.lower() not in ENGLISH_STOP_WORDS
