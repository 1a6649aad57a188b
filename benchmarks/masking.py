"""How fast masked batches are made: electra_pretraining against fairseq's stock masked_lm, examples a second.

    python benchmarks/masking.py [--batch-size 128] [--tokens-per-sample 128] [--batches 40] [--rounds 7]
        [--data DATA-BIN]

Both tasks read the same binarized text, random unless --data names other, through fairseq's own iterator with one
worker process, whose time this is: nothing is trained. They take turns round by round (A B C A B C), so that a noisy
machine disturbs all alike; the figures are medians over the rounds, the ratios those of neighbours in time, with
quartiles. A GPU that makes 100 updates a second of 128 examples needs 12,800 examples/s.

The last lines say which shapes the batches of an epoch have: what a GPU records as a graph can be replayed for the same
shapes only.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fairseq  # noqa: F401  (before the plugin, which then registers itself)
import numpy as np
import torch
from fairseq import tasks
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from truneg_fairseq.tasks.electra_pretraining import ElectraPretrainingConfig, ElectraPretrainingTask

WORDS, LINES = 30_517, 200_000
READ_AHEAD = 3  # batches that wait ready-made while another task has its turn


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=128, metavar="N", help="examples per batch (default: 128)")
    parser.add_argument("--tokens-per-sample", type=int, default=128, metavar="N", help="default: 128")
    parser.add_argument("--batches", type=int, default=40, metavar="N", help="batches a round (default: 40)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds of each (default: 7)")
    parser.add_argument("--data", type=Path, metavar="DATA-BIN", help="binarized text, in place of random text")
    return parser.parse_args()


def write_data(folder: Path) -> None:
    """Random text of 5 million tokens, a third of them pieces, in lines of 5 to 45 and documents of some 30 lines."""
    rng = np.random.default_rng(1)
    (folder / "dict.txt").write_text(
        "".join(f"{'' if i % 3 else '##'}w{i} 1\n" for i in range(WORDS)), encoding="utf-8"
    )
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    builder = MMapIndexedDatasetBuilder(str(folder / "train.bin"), dtype=np.uint16)
    for size in np.where(rng.random(LINES) < 0.03, 0, rng.integers(5, 46, size=LINES)):
        tokens = rng.integers(dictionary.nspecial, len(dictionary), size=size)
        builder.add_item(torch.from_numpy(np.append(tokens, dictionary.eos())))
    builder.finalize(str(folder / "train.idx"))


def build(data: Path, tokens_per_sample: int) -> dict[str, tasks.FairseqTask]:
    """The tasks, their data loaded."""
    same: dict[str, Any] = {"data": str(data), "tokens_per_sample": tokens_per_sample, "seed": 1}
    pieces = {"mask_whole_words": True, "tokenization": "wordpiece"}
    built = {
        "masked_lm (stock)": MaskedLMTask.setup_task(MaskedLMConfig(**same)),
        "electra_pretraining": ElectraPretrainingTask.setup_task(ElectraPretrainingConfig(**same)),
        "  whole words": ElectraPretrainingTask.setup_task(ElectraPretrainingConfig(**same, **pieces)),
    }
    for task in built.values():
        task.load_dataset("train")
    return built


def endless(task: tasks.FairseqTask, batch_size: int) -> Iterator[Any]:
    """Batches of epoch after epoch, from one worker."""
    epochs = task.get_batch_iterator(task.dataset("train"), max_sentences=batch_size, num_workers=1)
    while True:
        yield from epochs.next_epoch_itr()


def shapes(task: tasks.FairseqTask, batch_size: int) -> Counter[tuple[int, int, int, bool]]:
    """How many batches of an epoch have each shape: examples, tokens, predicted tokens, whether there is padding."""
    epoch = task.get_batch_iterator(task.dataset("train"), max_sentences=batch_size).next_epoch_itr(shuffle=False)
    return Counter(
        (
            *batch["net_input"]["src_tokens"].shape,
            len(batch["net_input"]["masked_positions"]),
            batch["net_input"]["padded"],
        )
        for batch in epoch
    )


def seconds_a_round(iterator: Iterator[Any], batches: int) -> float:
    """Time of a number of batches, after those that were made while others had their turn."""
    for _ in range(READ_AHEAD):
        next(iterator)
    started = time.perf_counter()
    for _ in range(batches):
        next(iterator)
    return time.perf_counter() - started


def main() -> None:
    """Measures and prints the table."""
    args = parse()
    with tempfile.TemporaryDirectory() as name:
        if args.data is None:
            write_data(Path(name))
        built = build(args.data or Path(name), args.tokens_per_sample)
        found = shapes(built["electra_pretraining"], args.batch_size)
        iterators = {name: endless(task, args.batch_size) for name, task in built.items()}
        times: dict[str, list[float]] = {task: [] for task in iterators}
        for _ in range(args.rounds):
            for task, iterator in iterators.items():
                times[task].append(seconds_a_round(iterator, args.batches))
    print(
        f"{platform.machine()}, {os.cpu_count()} cores; torch {torch.__version__}; numpy {np.__version__}; "
        f"Python {platform.python_version()}; {' '.join(sys.argv)}"
    )
    print(f"{'':22}{'examples/s':>12}{'ms/batch':>10}{'ratio':>8}{'quartiles':>16}")
    stock = next(iter(times))
    for task, seconds in times.items():
        ratios = [base / own for own, base in zip(seconds, times[stock], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        batch = statistics.median(seconds) / args.batches
        print(
            f"{task:22}{args.batch_size / batch:12,.0f}{1000 * batch:10.2f}{statistics.median(ratios):8.2f}"
            f"{f'{low:.2f}-{high:.2f}':>16}"
        )
    print(f"electra_pretraining: {found.total()} batches of {len(found)} shapes, most often")
    for (examples, tokens, predicted, padded), count in found.most_common(3):
        padding = "with" if padded else "no"
        print(f"  {count:6} of {examples} x {tokens}, {predicted} tokens predicted, {padding} padding")


if __name__ == "__main__":
    main()
