"""The synonyms of a wordnet of the package wn, as the TSV that `truneg synonyms build --source tsv` takes.

pip install 'wn>=0.13' && python -m wn download oewn:2024
python data-bin-scripts/wn_to_tsv.py oewn:2024 oewn.tsv --data DATA-BIN
truneg synonyms build --data DATA-BIN --source tsv --tsv oewn.tsv --output oewn.npz
"""

from dataclasses import dataclass
from pathlib import Path

import wn
from wn.morphy import Morphy

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.data.tokenizer import vocabulary_of
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.files import replacing_text
from truneg_fairseq.flags import option
from truneg_fairseq.synonyms.lists import ENGLISH_STOP_WORDS, find_corpus
from truneg_fairseq.vocabulary import read_symbols


@dataclass(kw_only=True)
class Options:
    wordnet: str = option(help="an installed wordnet, such as oewn:2024", positional=True, metavar="NAME")
    output: Path = option(help="file to write", positional=True, metavar="TSV")
    data: Path = option(help="binarized data, whose words are looked up too: inflected forms", metavar="DATA-BIN")
    stop_words: str | None = option(
        None, "words without synonyms: a file of NLTK's corpus stopwords, such as french (English: built in)"
    )


def write(options: Options) -> None:
    """Write all lemmas of all synsets of each word. English words are found in their inflected forms too."""
    found = wn.lexicons(lexicon=options.wordnet)
    if len(found) != 1:
        installed = ", ".join(each.specifier() for each in wn.lexicons()) or "none"
        raise TrueNegError(f"{options.wordnet}: names {len(found)} wordnets, expected one of {installed}")
    wordnet = wn.Wordnet(found[0].specifier())
    listed = {form for word in wordnet.words() for form in word.forms()}
    stop_words = frozenset[str]()
    if found[0].language.partition("-")[0] == "en":
        wordnet = wn.Wordnet(found[0].specifier(), lemmatizer=Morphy(wordnet))
        stop_words = ENGLISH_STOP_WORDS
    elif options.stop_words is not None:
        if (corpus := find_corpus("stopwords")) is None:
            raise TrueNegError("--stop-words: NLTK's are not there; run python -m nltk.downloader stopwords")
        stop_words = frozenset(corpus.join(options.stop_words).open(encoding="utf-8").read().lower().split())
    listed |= {word for word in vocabulary_of(read_symbols(options.data), options.data).words if word}
    with replacing_text(options.output) as stream:
        for word in sorted(listed):
            # wn also gives words that differ by accents, as "schön" for "schon".
            base = wordnet.lemmatizer(word).values() if wordnet.lemmatizer else ()
            spelled = {form.lower() for form in {word}.union(*base)}
            same = [each for each in wordnet.words(word) if any(form.lower() in spelled for form in each.forms())]
            synsets = [synset for each in same for synset in each.synsets()]
            lemmas = {lemma for synset in synsets for lemma in synset.lemmas() if "," not in lemma}
            if lemmas - {word} and word.lower() not in stop_words:
                stream.write("\t".join((word, *sorted(lemmas))) + "\n")
    print(f"wrote {options.output}; next: truneg synonyms build --source tsv --tsv {options.output} ...")


if __name__ == "__main__":
    run_as_script(write)
