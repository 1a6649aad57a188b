"""An attack on a file of SQuAD's format: the transformed questions, and the pairs of original and transformed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..paths import require_writable

if TYPE_CHECKING:
    from ..squad.data import Question
    from .attacks.transform import Attack, Transform

_ADD, _SWAP = TRANSFORMS = ("add-sentence-diverse", "swap-syn-wordnet")
"""The transformations of the paper's Table 5, as the command names them."""


def pairs_file(output: Path) -> Path:
    """Where the pairs lie, beside the transformed questions."""
    return output.with_name(f"{output.name.removesuffix('.json')}.pairs.json")


def attack_file(transform: str, data: Path, output: Path, *, seed: int = 1, vectors: Path | None = None) -> Attack:
    """Writes the questions that a transformation applies to, transformed, and :func:`pairs_file`.

    Args:
        transform: one of :data:`TRANSFORMS`.
        data: in SQuAD's format, 1.1 or 2.0.
        output: gets the transformed questions, in the same format and version.
        seed: of random choices.
        vectors: of add-sentence-diverse: word vectors for nearby words.

    Returns:
        What was written.
    """
    from ..squad.data import read_squad, write_squad
    from .attacks.transform import attack, write_pairs

    if vectors is not None and transform != _ADD:
        raise TrueNegError(f"--vectors: --transform {transform} uses none; expected {_ADD}")
    pairs = pairs_file(output)
    files = [data, output, pairs, *([] if vectors is None else [vectors])]
    if len({path.resolve() for path in files}) < len(files):
        raise TrueNegError(f"{', '.join(map(str, files))}: expected different files")
    for path in (output, pairs):
        require_writable(path, "OUT.json")
    source = read_squad(data)
    questions = [question.require_legal(str(data)) for question in source.questions]
    result = attack(
        _with_progress(questions),
        _transform(transform, vectors, questions),
        seed,
        version=source.version,
        unanswerable=source.unanswerable,
    )
    if not result.pairs:
        raise TrueNegError(f"{data}: {result.transform} applies to none of its {result.questions} questions")
    write_pairs(pairs, result)
    write_squad(output, result.transformed())
    return result


def describe(result: Attack, examples: int) -> list[str]:
    """Lines on an attack: to how many questions it applies, why not to the others, and some pairs."""
    share = 100 * len(result.pairs) / result.questions
    lines = [f"{result.transform} applies to {len(result.pairs)} of {result.questions} questions ({share:.1f} %)"]
    lines += [f"  {name}: {value}" for name, value in result.options.items()]
    lines += [f"  not applied to {count}: {reason}" for reason, count in result.skipped.items()]
    step = max(1, len(result.pairs) // max(1, examples))
    for pair in result.pairs[::step][:examples]:
        answer = pair.original.answer_texts[0] if pair.original.answers else "no answer"
        lines += ["", f"{pair.original.text}  [{answer}]"]
        lines += [f"  {name}: {json.dumps(value, ensure_ascii=False)}" for name, value in pair.details.items()]
    return lines


def _transform(name: str, vectors: Path | None, questions: Sequence[Question]) -> Transform:
    if name == _SWAP:
        from .attacks.swap_synonyms import SwapSynWordNet

        return SwapSynWordNet()
    from .attacks.add_sentence import AddSentenceDiverse

    return AddSentenceDiverse(vectors, questions)


def _with_progress(questions: Sequence[Question]) -> Iterator[Question]:
    from ..progress import Progress

    yield from Progress(questions, desc="attacking", unit=" questions", leave=False, disable=None)
