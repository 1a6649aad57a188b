"""Hand-written judgements over :data:`support.commands.WORDS`: a file of SWORDS's format, and cloze answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
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

ANSWERS = [
    {"context": "the large", "word": "car", "answers": {"car": 12, "film": 6, "Movie": 1, "of course": 1}},
    {"context": "the large car", "word": "of", "answers": {"of": 3, "and": 2, "walked": 2}},
    {"context": "kids walked to the", "word": None, "answers": {"end": 1, "car": 1}},
    {"context": "glad kids", "word": "hurray", "answers": {"hurray": 5}},
]
"""What people write next, 34 answers."""


def content(items: Sequence[tuple[str, str, dict]] = ITEMS) -> dict:
    """The file's JSON."""
    made: dict = {name: {} for name in ("contexts", "targets", "substitutes", "substitute_labels")}
    made["substitutes_lemmatized"] = True
    for number, (marked, pos, candidates) in enumerate(items):
        start = marked.index("[")
        word = marked[start + 1 : marked.index("]")]
        made["contexts"][f"c:{number}"] = {"context": marked.replace("[", "").replace("]", "")}
        made["targets"][f"t:{number}"] = {"context_id": f"c:{number}", "target": word, "offset": start, "pos": pos}
        for other, (substitute, (votes, asked, sources)) in enumerate(candidates.items()):
            name = f"s:{number}-{other}"
            extra = {"sources": sources}
            made["substitutes"][name] = {"target_id": f"t:{number}", "substitute": substitute, "extra": extra}
            labels = ["TRUE"] * votes + ["FALSE"] * (asked - votes - 1) + ["UNSURE"] * (asked > votes)
            made["substitute_labels"][name] = labels
    return made


def write(path: Path, made: dict | None = None) -> Path:
    """The file, gzipped where its name says so."""
    text = json.dumps(made or content()).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def many(words: Sequence[str]) -> dict:
    """The JSON of a larger file: a target for each word, its neighbours in the list accepted and all others refused."""
    items = []
    for number, word in enumerate(words):
        votes = {other: 3 * (abs(place - number) == 1) for place, other in enumerate(words) if place != number}
        candidates = {other: (found, 3, PEOPLE) for other, found in votes.items()}
        items.append((f"The [{word}] of the kids.", "NOUN", candidates))
    return content(items)
