"""Small SQuAD data that can be learnt: a question is on the colour of the animal that is very something."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from truneg_fairseq.commands.main import main
from truneg_fairseq.data.tokenizer import BERT_SPECIALS
from truneg_fairseq.finetuning import squad
from truneg_fairseq.finetuning.squad_files import Answer, Question, SquadData

from . import glue_files

ANIMALS = "cat dog cow hen fox owl bee ant".split()
COLOURS = "red blue green black white brown pink grey".split()
TOKENS = [*BERT_SPECIALS, *ANIMALS, *COLOURS, "the", "is", "very", "what", "about", "##s", "?", "."]
STRIDE = 8  # of windows of 24 tokens
_NAMES = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
SIZES = {**{f"encoder_{name}": size for name, size in zip(_NAMES, (2, 32, 48, 4), strict=True)}, "embedding_dim": 16}
SIZES["max_positions"] = 24
"""Of a small electra, by fairseq's arguments."""

PANTHERS = (
    "Super Bowl 50 decided the champion of 2015. The Denver Broncos defeated the Carolina Panthers at a large stadium "
    "in Santa Clara, California. The Broncos beat them quickly."
)


def question(text: str, *answers: str, context: str = PANTHERS, name: str = "q1") -> Question:
    """A question on a context, with answers at their first places in it."""
    spans = tuple(Answer(answer, context.index(answer)) for answer in answers)
    return Question(name, text, context, spans, "Title")


WHO = question("Which NFL team represented the AFC in 2015?", "Denver Broncos", "The Denver Broncos")


def write_data(folder: Path, tokens: list[str] = TOKENS) -> Path:
    """What binarized data have of a tokenizer and a dictionary."""
    return glue_files.write_data(folder, tokens[len(BERT_SPECIALS) :])


def write_squad(path: Path, contexts: int, seed: int, *, unanswerable: bool = False) -> Path:
    """Contexts of 2 to 6 animals (one to three windows), two questions each; of 2.0 every second has no answer."""
    rng = random.Random(seed)
    paragraphs = []
    for number in range(contexts):
        animals = rng.sample(ANIMALS, rng.randint(2, 6))
        chosen = rng.randrange(len(animals))
        sentences = [f"The {animal} is {rng.choice(COLOURS)}." for animal in animals]
        sentences[chosen] = sentences[chosen].replace(" is ", " is very ")
        context, questions = " ".join(sentences), []
        begin = context.index(" very ") + len(" very ")
        answer = {"text": context[begin : context.index(".", begin)], "answer_start": begin}
        for which in range(2):
            impossible = unanswerable and which == 1
            animal = rng.choice([a for a in ANIMALS if a not in animals]) if impossible else animals[chosen]
            entry: dict[str, Any] = {"id": f"{path.stem}-{number}-{which}", "question": f"what about the {animal}?"}
            entry["answers"] = [] if impossible else [answer]
            questions.append({**entry, "is_impossible": impossible} if unanswerable else entry)
        paragraphs.append({"context": context, "qas": questions})
    version = "v2.0" if unanswerable else "1.1"
    path.write_text(json.dumps({"version": version, "data": [{"title": "animals", "paragraphs": paragraphs}]}))
    return path


def prepare(folder: Path, data: Path, train: int = 48, valid: int = 12, **options: bool) -> Path:
    """Features by the real command: ``folder/features/SQuAD``, of ``folder/train.json`` and ``folder/valid.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_squad(folder / "train.json", train, 1, **options)
    write_squad(folder / "valid.json", valid, 2, **options)
    given = ("--task", f"SQuAD={folder}", "--data", data, "--output-dir", folder / "features", "--max-length", 24)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(squad, "DOC_STRIDE", STRIDE)
        main(["data", "prepare", *map(str, given)])
    return folder / "features" / "SQuAD"


def one_line(call: Callable[[], object]) -> str:
    """The error line that a call ends in."""
    with pytest.raises(SystemExit) as caught:
        call()
    message = str(caught.value)
    assert message.startswith("truneg_fairseq: error: ")
    assert "\n" not in message
    return message


def mixed_predictions(data: SquadData) -> dict[str, str]:
    """Right ones, shifted ones, cut ones, shouted ones, and every sixth missing."""
    predictions = {}
    for place, asked in enumerate(data.questions):
        answer = asked.answers[-1]
        kinds = [
            answer.text,
            asked.context[max(0, answer.start - 9) : answer.end],
            asked.context[answer.start : answer.end + 15],
            answer.text[:-4],
            f"The {answer.text.upper()}!",
        ]
        if place % 6 < 5:
            predictions[asked.id] = kinds[place % 6]
    return predictions
