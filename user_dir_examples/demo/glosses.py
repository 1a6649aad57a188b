"""WordNet's glosses and examples as plain text: a small corpus that needs no download of its own.

python user_dir_examples/demo/glosses.py FOLDER [POS [N]]

POS takes one part of speech (noun, verb, adj or adv) in place of all. One synset in N is held out, one in 100 by
default.
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

POS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}


def gloss_line(lemmas: Sequence[str], definition: str, examples: Sequence[str]) -> str:
    """One synset as a line: ``dog , domestic dog : a member of the genus Canis ; "the dog barked all night"``.

    White space is collapsed, and so are the separators that NLTK leaves where it cuts examples out of a gloss.
    """
    heads = " , ".join(lemma.replace("_", " ") for lemma in lemmas)
    clauses = (" ".join(clause.split()) for clause in definition.split(";"))
    meaning = "; ".join(clause for clause in clauses if clause)
    return " ; ".join([f"{heads} : {meaning}", *(f'"{" ".join(example.split())}"' for example in examples)])


def write_glosses(folder: Path, pos: str | None = None, held_out: int = 100) -> None:
    """Writes the synsets of WordNet 3.0 as lines of ``train.txt`` or, one in ``held_out``, ``valid.txt``."""
    from nltk.corpus import wordnet

    verify_wordnet(require_wordnet())
    folder.mkdir(parents=True, exist_ok=True)
    with replacing_text(folder / "train.txt") as train, replacing_text(folder / "valid.txt") as valid:
        total = SYNSETS[pos] if pos else sum(SYNSETS.values())
        synsets = wordnet.all_synsets(POS[pos] if pos else None)
        for synset in Progress(synsets, total=total, desc="glosses", unit=" synsets"):
            # A checksum decides, so the split depends on the synset alone.
            checksum = zlib.crc32(f"{synset.pos()}{synset.offset():08d}".encode("ascii"))
            line = gloss_line(synset.lemma_names(), synset.definition(), synset.examples())
            (train if checksum % held_out else valid).write(f"{line}\n")


if __name__ == "__main__":
    with one_line_errors():
        folder, *others = sys.argv[1:]
        write_glosses(Path(folder), others[0] if others else None, int(others[1]) if others[1:] else 100)
