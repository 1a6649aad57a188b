"""WordNet's glosses and examples as plain text: a small corpus that needs no download of its own."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

from ..files import make_output_folder, replacing_text
from ..options import check, option
from ..workers import Progress
from .wordnet import SYNSETS, require_wordnet, verify_wordnet


def gloss_line(lemmas: list[str], definition: str, examples: list[str]) -> str:
    """One synset as a line: ``dog , domestic dog : a member of the genus Canis ; "the dog barked all night"``.

    White space is collapsed, and so are the separators that NLTK leaves where it cuts examples out of a gloss.
    """
    heads = " , ".join(lemma.replace("_", " ") for lemma in lemmas)
    clauses = (" ".join(clause.split()) for clause in definition.split(";"))
    meaning = "; ".join(clause for clause in clauses if clause)
    return " ; ".join([f"{heads} : {meaning}", *(f'"{" ".join(example.split())}"' for example in examples)])


@dataclass(kw_only=True)
class ExtractGlossesOptions:
    """Where to write the glosses."""

    output_dir: Path = option(help="folder for the two files; made where it is missing", metavar="DIR")


def extract_glosses(options: ExtractGlossesOptions) -> tuple[int, int]:
    """Writes every synset of WordNet 3.0 as a line of ``train.txt`` or, one in 100, ``valid.txt``; counts both."""
    from nltk.corpus import wordnet

    check(options)
    output_dir = options.output_dir
    verify_wordnet(require_wordnet())
    make_output_folder(output_dir)
    lines = {False: 0, True: 0}
    with replacing_text(output_dir / "train.txt") as train, replacing_text(output_dir / "valid.txt") as valid:
        for synset in Progress(wordnet.all_synsets(), total=sum(SYNSETS.values()), desc="glosses", unit=" synsets"):
            # A checksum decides, so the split depends on the synset alone.
            held_out = zlib.crc32(f"{synset.pos()}{synset.offset():08d}".encode("ascii")) % 100 == 0
            line = gloss_line(synset.lemma_names(), synset.definition(), synset.examples())
            (valid if held_out else train).write(f"{line}\n")
            lines[held_out] += 1
    return lines[False], lines[True]
