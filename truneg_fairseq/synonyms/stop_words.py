"""English stop words, which get no synonyms: WordNet reads them as chemical symbols, letters and abbreviations.

The set is the one that NLTK distributes for English (it goes back to the Snowball stemmer's list), written down by
grammatical class so that no download is needed. Contractions stand both whole and as tokenizers split them.
"""

from __future__ import annotations

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
