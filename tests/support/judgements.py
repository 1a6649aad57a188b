"""A hand-written file of SWORDS's format over the words of :data:`support.commands.WORDS`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

PEOPLE, THESAURUS = ["coinco"], ["roget"]

# context with [target], part of speech, candidates: word -> (votes TRUE, asked, sources)
ITEMS = [
    (
        "The picture was [large] and quick.",
        "ADJ",
        {
            "big": (8, 10, PEOPLE),
            "great": (5, 10, ["coinco", "roget"]),
            "huge": (6, 10, THESAURUS),  # no token
            "small": (0, 3, THESAURUS),
            "rapid": (0, 3, THESAURUS),
            "of great size": (7, 10, PEOPLE),
            "main": (1, 10, THESAURUS),
        },
    ),
    (
        "Kids [walked] to the car.",
        "VERB",
        {"stay": (2, 10, PEOPLE), "go": (9, 10, PEOPLE), "stop": (0, 3, THESAURUS), "walk": (3, 3, THESAURUS)},
    ),
    (
        "They stop at the [film], of the child.",
        "NOUN",
        {"movie": (10, 10, PEOPLE), "picture": (10, 10, THESAURUS), "table": (0, 3, THESAURUS), "end": (0, 3, PEOPLE)},
    ),
    ("We [begin] and end.", "VERB", {"start": (9, 10, PEOPLE), "commence": (6, 10, THESAURUS), "buy": (0, 3, PEOPLE)}),
    ("A [slithering] snake.", "ADJ", {"quick": (1, 10, PEOPLE)}),  # the target is no token
    ("It is [seven].", "NOUN", {"table": (0, 3, THESAURUS), "of it": (3, 3, PEOPLE)}),  # nobody accepts a token
]


def content() -> dict:
    """The file's JSON."""
    made: dict = {"contexts": {}, "targets": {}, "substitutes": {}, "substitutes_lemmatized": True}
    made["substitute_labels"] = {}
    for number, (marked, pos, candidates) in enumerate(ITEMS):
        start = marked.index("[")
        word = marked[start + 1 : marked.index("]")]
        made["contexts"][f"c:{number}"] = {"context": marked.replace("[", "").replace("]", "")}
        made["targets"][f"t:{number}"] = {"context_id": f"c:{number}", "target": word, "offset": start, "pos": pos}
        for other, (substitute, (votes, asked, sources)) in enumerate(candidates.items()):
            name = f"s:{number}-{other}"
            made["substitutes"][name] = {
                "target_id": f"t:{number}",
                "substitute": substitute,
                "extra": {"sources": sources},
            }
            made["substitute_labels"][name] = (
                ["TRUE"] * votes + ["FALSE"] * (asked - votes - 1) + ["UNSURE"] * (asked > votes)
            )
    return made


def write(path: Path, made: dict | None = None) -> Path:
    """The file, gzipped where its name says so."""
    text = json.dumps(made or content()).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
