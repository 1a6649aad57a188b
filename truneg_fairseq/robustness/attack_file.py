"""An attack on a file of SQuAD's format: the transformed questions, and the pairs of original and transformed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..files import require_different, require_writable
from ..options import option

if TYPE_CHECKING:
    from .attacks.transform import Attack, Transform

_EXAMPLES = 3  # pairs to show
_SWAP = "swap-syn-wordnet"
TRANSFORMS = ("add-sentence-diverse", _SWAP)
"""The transformations of the paper's Table 5, as the command names them."""


@dataclass(kw_only=True)
class AttackOptions:
    data: Path = option(help="questions in SQuAD's format, 1.1 or 2.0", metavar="IN.json", positional=True)
    output: Path = option(
        help="the transformed questions, in the same format and version", metavar="OUT.json", positional=True
    )
    transform: str = option(help="attack of the paper's Table 5", choices=TRANSFORMS)
    seed: int = option(1, "of the random choices of swap-syn-wordnet")
    vectors: Path | None = option(
        None, "for add-sentence-diverse: word vectors (GloVe ...) for nearby words", metavar="FILE"
    )

    @property
    def pairs(self) -> Path:
        """Where the pairs lie, beside the transformed questions."""
        return self.output.with_name(f"{self.output.name.removesuffix('.json')}.pairs.json")


def attack_file(options: AttackOptions) -> Attack:
    """Writes the questions that a transformation applies to, transformed, and their pairs."""
    from ..finetuning.squad_files import read_squad, write_squad
    from ..workers import Progress
    from .attacks.add_sentence import AddSentenceDiverse
    from .attacks.swap_synonyms import SwapSynWordNet
    from .attacks.transform import attack, write_pairs

    data, pairs = options.data, options.pairs
    require_different(IN=data, OUT=options.output, PAIRS=pairs, vectors=options.vectors)
    for path in (options.output, pairs):
        require_writable(path, "OUT.json")
    source = read_squad(data)
    questions = [question.require_legal(str(data)) for question in source.questions]
    swaps = options.transform == _SWAP
    transform: Transform = SwapSynWordNet() if swaps else AddSentenceDiverse(options.vectors, questions)
    result = attack(
        Progress(questions, desc="attacking", unit=" questions", leave=False, disable=None),
        transform,
        options.seed,
        version=source.version,
        unanswerable=source.unanswerable,
    )
    if not result.pairs:
        raise TrueNegError(f"{data}: {result.transform} applies to none of its {result.questions} questions")
    write_pairs(pairs, result)
    write_squad(options.output, result.transformed())
    return result


def describe(result: Attack) -> list[str]:
    """Lines on an attack: to how many questions it applies, why not to the others, and some pairs."""
    share = 100 * len(result.pairs) / result.questions
    lines = [f"{result.transform} applies to {len(result.pairs)} of {result.questions} questions ({share:.1f} %)"]
    lines += [f"  {name}: {value}" for name, value in result.options.items()]
    lines += [f"  not applied to {count}: {reason}" for reason, count in result.skipped.items()]
    step = max(1, len(result.pairs) // _EXAMPLES)
    for pair in result.pairs[::step][:_EXAMPLES]:
        answer = pair.original.answer_texts[0] if pair.original.answers else "no answer"
        lines += ["", f"{pair.original.text}  [{answer}]"]
        lines += [f"  {name}: {json.dumps(value, ensure_ascii=False)}" for name, value in pair.details.items()]
    return lines
