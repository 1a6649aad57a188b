"""What the loss alone costs: time and peak memory of forward and backward, as ratios to nn.CrossEntropyLoss.

    python benchmarks/loss.py [--device cuda] [--positions 2000] [--vocabulary 30522 256000]

The contenders take turns, so that what else the machine does meets all of them; the median of each one's ratios is
printed. Logits are random, every word has eight synonyms, and a share of the predictions are synonyms of the gold
words. On a CPU the memory is not measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from truneg_fairseq import TrueNegativeLoss
from truneg_fairseq.data.tokenizer import vocabulary_of
from truneg_fairseq.synonyms import SynonymTable
from truneg_fairseq.vocabulary import read_symbols

SYNONYMS, WIDTH = 8, 128  # of each word; of the embeddings that measure how near two words are
OBJECTIVES: dict[str, dict[str, Any]] = {
    "every weight 0": {},
    "hard correction": {"hc_weight": 1.0},
    "uniform": {"soft_targets": "uniform=0.1"},
    "synonym": {"soft_targets": "table=0.1"},
    "nearest": {"soft_targets": "embedding=0.1"},
}


def write_dictionary(folder: Path, vocabulary: int) -> Path:
    """A dict.txt of made-up words, the special symbols included in their number; beside it ``synonyms.npz``."""
    path = folder / "dict.txt"
    path.write_text("".join(f"word{_letters(row)} 1\n" for row in range(vocabulary - 5)), encoding="utf-8")
    symbols = read_symbols(path)
    gold = torch.arange(4, vocabulary - 1).repeat_interleave(SYNONYMS)
    offset = torch.arange(1, SYNONYMS + 1).repeat(vocabulary - 5)
    synonym = 4 + (gold - 4 + offset) % (vocabulary - 5)
    order = (gold * vocabulary + synonym).argsort()
    words = vocabulary_of(symbols, folder, tokenization="words")
    SynonymTable(
        gold=gold[order].int().numpy(),
        synonym=synonym[order].int().numpy(),
        vocabulary_size=len(symbols),
        fingerprint=words.fingerprint,
        tokenization="words",
        source="wordnet",
    ).save(folder / "synonyms.npz")
    return path


def _letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def contenders(dictionary: Path, embeddings: Tensor) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """The losses by name, the yardstick first."""
    found: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"nn.CrossEntropyLoss": nn.CrossEntropyLoss()}
    for name, options in OBJECTIVES.items():
        if not options:
            found[name] = TrueNegativeLoss()
            continue
        table = str(dictionary.with_name("synonyms.npz")) if "hc_weight" in options or "table" in str(options) else None
        loss_fn = TrueNegativeLoss.for_dictionary(dictionary, tokenization="words", synonym_table=table, **options)
        loss_fn = loss_fn.to(embeddings.device)
        found[name] = lambda logits, labels, loss_fn=loss_fn: loss_fn(logits, labels, embeddings=embeddings)
    return found


def measure(loss_fn: Callable[[Tensor, Tensor], Tensor], logits: Tensor, labels: Tensor) -> tuple[float, int]:
    """Seconds, and bytes that were allocated at most beside the logits (0 on a CPU), of forward and backward."""
    leaf, on_gpu = logits.detach().requires_grad_(), logits.is_cuda
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    before, start = torch.cuda.memory_allocated() if on_gpu else 0, time.perf_counter()
    loss_fn(leaf, labels).backward()
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return seconds, torch.cuda.max_memory_allocated() - before if on_gpu else 0


def compare(args: argparse.Namespace, vocabulary: int) -> None:
    """Prints a row for each loss."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(args.positions, vocabulary, generator=generator)
    labels = torch.randint(4, vocabulary - 1, (args.positions,), generator=generator)
    excused = torch.arange(0, args.positions, 10)  # a tenth of the predictions: the first synonym
    logits[excused, 4 + (labels[excused] - 4 + 1) % (vocabulary - 5)] = 20.0
    logits, labels = logits.to(args.device), labels.to(args.device)
    embeddings = torch.randn(vocabulary, WIDTH, generator=generator).to(args.device)
    with tempfile.TemporaryDirectory() as folder:
        losses = contenders(write_dictionary(Path(folder), vocabulary), embeddings)
        measured: dict[str, list[tuple[float, int]]] = {name: [] for name in losses}
        for turn in range(args.repeat + 1):  # the first is a warm-up
            for name, loss_fn in losses.items():
                each = measure(loss_fn, logits, labels)
                if turn:
                    measured[name].append(each)
    (base, *_) = measured.values()
    print(
        f"{args.positions:,} masked positions, {vocabulary:,} words, {args.device}, {torch.get_num_threads()} threads"
    )
    print(f"{'':22}{'milliseconds':>14}{'ratio':>8}{'memory, ratio':>15}")
    for name, each in measured.items():
        ratio = statistics.median(one[0] / other[0] for one, other in zip(each, base, strict=True))
        memory = f"{each[-1][1] / base[-1][1]:.2f}" if base[-1][1] else "-"
        print(f"{name:22}{1000 * statistics.median(one[0] for one in each):14.1f}{ratio:8.2f}{memory:>15}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--positions", type=int, default=2000)
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[30_522, 256_000])
    parser.add_argument("--repeat", type=int, default=10)
    args = parser.parse_args()
    for vocabulary in args.vocabulary:
        compare(args, vocabulary)


if __name__ == "__main__":
    main()
