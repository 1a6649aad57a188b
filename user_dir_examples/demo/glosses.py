"""WordNet's glosses and examples as plain text: a small corpus that needs no download of its own.

python user_dir_examples/demo/glosses.py FOLDER
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from truneg_fairseq.errors import one_line_errors
from truneg_fairseq.files import replacing_text
from truneg_fairseq.synonyms.wordnet import SYNSETS, require_wordnet, verify_wordnet
from truneg_fairseq.workers import Progress


def gloss_line(lemmas: Sequence[str], definition: str, examples: Sequence[str]) -> str:
    """One synset as a line: ``dog , domestic dog : a member of the genus Canis ; "the dog barked all night"``.

    White space is collapsed, and so are the separators that NLTK leaves where it cuts examples out of a gloss.
    """
    heads = " , ".join(lemma.replace("_", " ") for lemma in lemmas)
    clauses = (" ".join(clause.split()) for clause in definition.split(";"))
    meaning = "; ".join(clause for clause in clauses if clause)
    return " ; ".join([f"{heads} : {meaning}", *(f'"{" ".join(example.split())}"' for example in examples)])


def write_glosses(folder: Path) -> None:
    """Writes every synset of WordNet 3.0 as a line of ``train.txt`` or, one in 100, ``valid.txt``."""
    from nltk.corpus import wordnet

    verify_wordnet(require_wordnet())
    folder.mkdir(parents=True, exist_ok=True)
    with replacing_text(folder / "train.txt") as train, replacing_text(folder / "valid.txt") as valid:
        for synset in Progress(wordnet.all_synsets(), total=sum(SYNSETS.values()), desc="glosses", unit=" synsets"):
            # A checksum decides, so the split depends on the synset alone.
            held_out = zlib.crc32(f"{synset.pos()}{synset.offset():08d}".encode("ascii")) % 100 == 0
            line = gloss_line(synset.lemma_names(), synset.definition(), synset.examples())
            (valid if held_out else train).write(f"{line}\n")


if __name__ == "__main__":
    with one_line_errors():
        write_glosses(Path(sys.argv[1]))
