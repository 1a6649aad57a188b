"""What the loss alone costs: time and peak memory of forward and backward, as ratios to torch's cross-entropy.

    python benchmarks/loss.py [--device cuda] [--only hidden] [--repeat 10]

The first tables are of logits that are there already; the last ones are of hidden states, where the yardstick is the
product with the head and torch's cross-entropy, and ``of_hidden`` makes no logits. Contenders take turns, so that what
else the machine does meets all of them; the median of each one's ratios is printed, and the range. On a CPU the time is
that of the process, and the peak is its resident memory's (Linux). Every word has eight synonyms, a share of the
predictions are synonyms of the gold words, and the gold words of hidden states are as frequent as 1 / rank.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from truneg_fairseq import TrueNegativeLoss

SYNONYMS, WIDTH = 8, 128  # of each word; of the embeddings that measure how near two words are
OBJECTIVES: dict[str, dict[str, Any]] = {
    "every weight 0": {},
    "hard correction": {"hc_weight": 1.0},
    "uniform": {"soft_targets": "uniform=0.1"},
    "synonym": {"soft_targets": "table=0.1"},
    "nearest": {"soft_targets": "embedding=0.1"},
}
# Positions, words, and the share of the positions that have a label.
LOGITS = {"all rows have a label": (2000, 30_522, 1.0), "one row in six has one": (4096, 50_000, 1 / 6)}
# Positions, width, words; the share, and the objectives.
HIDDEN = {
    "hidden, BERT": (1000, 384, 30_522, (1.0, ("every weight 0", "hard correction", "uniform", "nearest"))),
    "hidden, a large vocabulary": (512, 512, 128_000, (1.0, ("every weight 0",))),
    "hidden, one row in six": (4096, 256, 50_000, (1 / 6, ("every weight 0", "hard correction"))),
}
Step = Callable[[], Tensor]


def loss_of(name: str, words: int) -> TrueNegativeLoss:
    """The loss with an objective's options."""
    pairs = ((gold, (gold + step) % words) for gold in range(words) for step in range(1, SYNONYMS + 1))
    options = OBJECTIVES[name]
    uses_pairs = "hc_weight" in options or "table" in str(options)
    return TrueNegativeLoss.for_symbols(range(words), pairs if uses_pairs else (), **options)


def labels_of(positions: int, words: int, share: float, frequencies: Tensor | None = None) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    even = torch.ones(words) if frequencies is None else frequencies
    labels = torch.multinomial(even, positions, replacement=True, generator=generator)
    return labels.masked_fill(torch.rand(positions, generator=generator).ge(share), -100)


def of_logits(device: str, positions: int, words: int, share: float) -> tuple[list[Tensor], dict[str, Step]]:
    """The inputs with a gradient; the steps by name, first the yardstick: cross-entropy of the labelled rows."""
    generator, labels = torch.Generator().manual_seed(2), labels_of(positions, words, share)
    logits = torch.randn(positions, words, generator=generator)
    excused = torch.arange(0, positions, 10)  # a tenth of the predictions: the first synonym
    logits[excused, (labels[excused] + 1) % words] = 20.0
    leaf, labels = logits.to(device).requires_grad_(), labels.to(device)
    embeddings = torch.randn(words, WIDTH, generator=generator).to(device)
    counted = labels.ne(-100)

    def stock() -> Tensor:
        return F.cross_entropy(leaf, labels) if share == 1 else F.cross_entropy(leaf[counted], labels[counted])

    steps: dict[str, Step] = {"F.cross_entropy": stock}
    for name in OBJECTIVES:
        loss_fn = loss_of(name, words)
        steps[name] = partial(loss_fn, leaf, labels, embeddings=embeddings)
    return [leaf], steps


def of_hidden(
    device: str, positions: int, width: int, words: int, others: tuple[float, tuple[str, ...]]
) -> tuple[list[Tensor], dict[str, Step]]:
    """As :func:`of_logits`; the yardstick is the product for every row, then cross-entropy."""
    share, names = others
    generator = torch.Generator().manual_seed(2)
    labels = labels_of(positions, words, share, 1 / torch.arange(1.0, words + 1)).to(device)
    inputs = [torch.randn(*shape, generator=generator) for shape in ((positions, width), (words, width), (words,))]
    hidden, weight, bias = leaves = [(0.1 * each).to(device).requires_grad_() for each in inputs]
    counted, given = labels.ne(-100), {"bias": bias, "embeddings": weight}
    steps: dict[str, Step] = {
        "product, F.cross_entropy": lambda: F.cross_entropy(F.linear(hidden, weight, bias), labels)
    }
    if share < 1:
        steps["of the labelled rows"] = lambda: F.cross_entropy(
            F.linear(hidden[counted], weight, bias), labels[counted]
        )
    for name in names:
        loss_fn = loss_of(name, words)
        steps[name] = partial(loss_fn.of_hidden, hidden, weight, labels, **given)
    return list(leaves), steps


def measure(step: Step, leaves: list[Tensor], on_gpu: bool) -> tuple[float, float]:
    """Seconds and the peak of the memory beside the inputs, in bytes, of forward and backward."""
    status, clock = Path("/proc/self/status"), time.perf_counter if on_gpu else time.process_time
    for leaf in leaves:
        leaf.grad = None
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before: float = torch.cuda.memory_allocated()
    elif status.exists():
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # VmHWM begins anew
        before = _kilobytes(status, "VmRSS")
    start = clock()
    step().backward()
    if on_gpu:
        torch.cuda.synchronize()
        return clock() - start, torch.cuda.max_memory_allocated() - before
    seconds = clock() - start
    return seconds, 1024 * (_kilobytes(status, "VmHWM") - before) if status.exists() else 0


def _kilobytes(status: Path, name: str) -> float:
    return float(next(line.split()[1] for line in status.read_text(encoding="ascii").splitlines() if name in line))


def compare(title: str, leaves: list[Tensor], steps: dict[str, Step], args: argparse.Namespace) -> None:
    """Prints a row for each step."""
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for turn in range(args.repeat + 1):  # the first is a warm-up
        for name, step in steps.items():
            one = measure(step, leaves, args.device == "cuda")
            if turn:
                measured[name].append(one)
    base = next(iter(measured.values()))
    print(f"\n{title}, {args.device}, {torch.get_num_threads()} threads")
    print(f"{'':26}{'milliseconds':>14}{'ratio':>8}{'range':>14}{'memory, MB':>13}{'ratio':>8}")
    for name, each in measured.items():
        ratios = sorted(one[0] / other[0] for one, other in zip(each, base, strict=True))
        time_of, peak = (statistics.median(one[part] for one in each) for part in (0, 1))
        share = peak / max(1, statistics.median(one[1] for one in base))
        spread = f"{ratios[0]:.2f}-{ratios[-1]:.2f}"
        numbers = f"{1000 * time_of:14.1f}{statistics.median(ratios):8.3f}{spread:>14}{peak / 1e6:13.0f}{share:8.2f}"
        print(f"{name:26}{numbers}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", metavar="TITLE", help="tables whose title has this in it")
    parser.add_argument("--repeat", type=int, default=10)
    args = parser.parse_args()
    for kind, shapes in ((of_logits, LOGITS), (of_hidden, HIDDEN)):
        for title, shape in shapes.items():
            if args.only in title:
                sizes = " x ".join(f"{size:,}" for size in shape if isinstance(size, int))
                compare(f"{title}: {sizes}", *kind(args.device, *shape), args)  # type: ignore[operator]


if __name__ == "__main__":
    main()
