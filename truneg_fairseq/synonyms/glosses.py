"""WordNet's glosses and examples as plain text: a small corpus that needs no download of its own."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

from ..files import make_output_folder, replacing_text
from ..options import check, option
from ..progress import Progress
from .wordnet_data import SYNSETS, require_wordnet, verify_wordnet


def gloss_line(lemmas: list[str], definition: str, examples: list[str]) -> str:
    """One synset as a line: ``dog , domestic dog : a member of the genus Canis ; "the dog barked all night"``.

    White space is collapsed, and so are the separators that NLTK leaves where it cuts examples out of a gloss.
    """
    heads = " , ".join(lemma.replace("_", " ") for lemma in lemmas)
    clauses = (" ".join(clause.split()) for clause in definition.split(";"))
    meaning = "; ".join(clause for clause in clauses if clause)
    return " ; ".join([f"{heads} : {meaning}", *(f'"{" ".join(example.split())}"' for example in examples)])


def is_valid_split(pos: str, offset: int, valid_every: int) -> bool:
    """Whether a synset (part of speech, byte offset in its file) is held out for validation: one in ``valid_every``.

    A checksum of the synset decides, so that the split depends on nothing else and is spread evenly.
    """
    return zlib.crc32(f"{pos}{offset:08d}".encode("ascii")) % valid_every == 0


@dataclass(kw_only=True)
class ExtractGlossesOptions:
    """Where to write the glosses."""

    output_dir: Path = option(help="folder for the two files; made where it is missing", metavar="DIR")
    valid_every: int = option(100, help="about one synset in N goes to valid.txt", ge=2)


def extract_glosses(options: ExtractGlossesOptions) -> tuple[int, int]:
    """Writes every synset of WordNet 3.0 as a line of ``train.txt`` or ``valid.txt``; counts the lines of both."""
    from nltk.corpus import wordnet

    check(options)
    output_dir, valid_every = options.output_dir, options.valid_every
    verify_wordnet(require_wordnet())
    make_output_folder(output_dir)
    lines = {False: 0, True: 0}
    with replacing_text(output_dir / "train.txt") as train, replacing_text(output_dir / "valid.txt") as valid:
        for synset in Progress(wordnet.all_synsets(), total=sum(SYNSETS.values()), desc="glosses", unit=" synsets"):
            held_out = is_valid_split(synset.pos(), synset.offset(), valid_every)
            line = gloss_line(synset.lemma_names(), synset.definition(), synset.examples())
            (valid if held_out else train).write(f"{line}\n")
            lines[held_out] += 1
    return lines[False], lines[True]
