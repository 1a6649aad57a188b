"""The words nearest to each word of a dictionary in a file of word vectors, as the TSV of `truneg synonyms build`.

    pip install gensim                            # its KeyedVectors reads the file
    python data-bin-scripts/vectors_to_tsv.py glove.6B.50d.txt glove.tsv --data DATA-BIN
    truneg synonyms build --data DATA-BIN --source tsv-antonyms --tsv glove.tsv --output glove.npz

Neighbours are searched among all words of the file, as in the paper (footnote 9: the 10 most similar of GloVe's "whole
vocabulary"), so that a word whose nearest words are no tokens gets few synonyms instead of distant ones.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gensim.models import KeyedVectors

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.data.tokenizer import vocabulary_of
from truneg_fairseq.files import replacing_text
from truneg_fairseq.flags import option
from truneg_fairseq.synonyms.lists import ENGLISH_STOP_WORDS
from truneg_fairseq.vocabulary import read_symbols, without_accents
from truneg_fairseq.workers import Progress

_AT_ONCE = 1 << 24  # cosines


@dataclass(kw_only=True)
class Options:
    vectors: Path = option(
        help="GloVe's text or word2vec's (fastText's .vec), also .gz, .bz2, .xz", positional=True, metavar="VECTORS"
    )
    output: Path = option(help="file to write", positional=True, metavar="TSV")
    data: Path = option(help="binarized data whose words get synonyms", metavar="DATA-BIN")
    neighbours: int = option(10, "of each word", ge=1)
    threshold: float | None = option(None, "smallest cosine (default: none)", ge=-1, le=1)


def write(options: Options) -> None:
    """Write the nearest words by cosine of each word of a dictionary. Stop words get none."""
    vectors = read_vectors(options.vectors)
    wanted = {word.lower() for word in vocabulary_of(read_symbols(options.data), options.data).words if word}
    words = [word for word in vectors.index_to_key if {word.lower(), without_accents(word).lower()} & wanted]
    words = [word for word in words if word.lower() not in ENGLISH_STOP_WORDS]
    units = vectors.get_normed_vectors()
    step = max(1, _AT_ONCE // len(units))
    smallest = -np.inf if options.threshold is None else options.threshold
    with replacing_text(options.output) as stream:
        for start in Progress(range(0, len(words), step), desc="nearest words", disable=None):
            chunk = words[start : start + step]
            rows = np.array([vectors.key_to_index[word] for word in chunk])
            cosines = units[rows] @ units.T
            cosines[np.arange(len(rows)), rows] = -np.inf
            nearest = np.argpartition(-cosines, min(options.neighbours, len(units) - 1) - 1)[:, : options.neighbours]
            for word, row, columns in zip(chunk, cosines, nearest, strict=True):
                near = [vectors.index_to_key[each] for each in columns if row[each] >= smallest]
                if names := [name for name in near if "," not in name]:
                    stream.write("\t".join((word, *names)) + "\n")
    print(f"wrote {options.output}; next: truneg synonyms build --source tsv --tsv {options.output} ...")


def read_vectors(path: Path) -> KeyedVectors:
    """Vectors as text, with word2vec's header of two numbers or, as GloVe's, without."""
    from smart_open import open as smart_open

    with smart_open(str(path), "rb") as stream:
        has_header = len(stream.readline().split()) == 2
    return KeyedVectors.load_word2vec_format(str(path), no_header=not has_header, unicode_errors="ignore")


if __name__ == "__main__":
    run_as_script(write)
