"""What the benchmarks of training steps share: random data, trainers of fairseq-train's own options, taking turns.

Contenders take turns update by update (A B C A B C), so that a noisy machine disturbs all alike; a ratio is that of
neighbours in time, and the figures are medians over the updates, with quartiles.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

import truneg_fairseq
from truneg_fairseq.synonyms import SynonymTable
from truneg_fairseq.vocabulary import Vocabulary, read_symbols

WORDS, PAIRS, LINES = 30_517, 60_000, 60_000
"""With fairseq's four special symbols and ``<mask>`` BERT's 30,522; none of them changes the amount of work much."""
LONGEST = 55
"""The most synonyms of a word, as in WordNet's table of BERT's vocabulary: so wide are the lists of soft targets."""

Step = Callable[[Any], Any]
_PRODUCTS = {f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm")}


@dataclass(frozen=True)
class Measured:
    """One update: wall-clock seconds, and seconds of CPU over all threads."""

    seconds: float
    cpu_seconds: float


def add_arguments(parser: argparse.ArgumentParser, *, batch_size: int, precisions: Sequence[str]) -> None:
    """Adds what all of these benchmarks can be told."""
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=precisions, default="fp32")
    parser.add_argument(
        "--batch-size", type=int, default=batch_size, metavar="N", help=f"sequences per batch (default: {batch_size})"
    )
    parser.add_argument("--tokens-per-sample", type=int, default=128, metavar="N", help="default: 128")
    parser.add_argument("--updates", type=int, default=10, metavar="N", help="timed updates of each (default: 10)")
    parser.add_argument("--warmup", type=int, default=2, metavar="N", help="untimed updates of each (default: 2)")


def write_data(folder: Path, words: int = WORDS, lines: int = LINES) -> None:
    """Random binarized text in lines of 5 to 44 tokens and documents of some 300 lines, and a random synonym table."""
    rng = np.random.default_rng(1)
    (folder / "dict.txt").write_text("".join(f"{_word(i)} 1\n" for i in range(words)), encoding="utf-8")
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    builder = MMapIndexedDatasetBuilder(str(folder / "train.bin"), dtype=np.uint16)
    for size in np.where(rng.random(lines) < 1 / 300, 0, rng.integers(5, 45, size=lines)):
        tokens = rng.integers(dictionary.nspecial, len(dictionary), size=size)
        builder.add_item(torch.from_numpy(np.append(tokens, dictionary.eos())))
    builder.finalize(str(folder / "train.idx"))
    vocabulary = Vocabulary.from_symbols(read_symbols(folder), "words")
    longest = np.stack([np.full(LONGEST, 4), 5 + np.arange(LONGEST)], axis=1)
    keys = np.unique(np.concatenate([rng.integers(4, 4 + words, size=(PAIRS, 2)), longest]), axis=0).astype(np.int32)
    SynonymTable(
        gold=np.ascontiguousarray(keys[:, 0]),
        synonym=np.ascontiguousarray(keys[:, 1]),
        vocabulary_size=len(vocabulary),
        fingerprint=vocabulary.fingerprint,
        tokenization="words",
        source="random",
    ).save(folder / "synonyms.npz")


def _word(number: int) -> str:
    """A word of its own for each number, of letters alone: a detector judges no other words."""
    return "q" + "".join(chr(ord("a") + number // 26**place % 26) for place in range(4))


def build_trainer(data: Path, args: argparse.Namespace, *flags: str) -> Trainer:
    """A trainer with its own model, from fairseq-train's options.

    Args:
        data: the folder of :func:`write_data`.
        args: of :func:`add_arguments`.
        flags: task, architecture, criterion, optimizer and what else is not the same for all.
    """
    command = [str(data), "--user-dir", str(Path(truneg_fairseq.__file__).parent), "--seed", "1"]
    command += ["--tokens-per-sample", str(args.tokens_per_sample), "--batch-size", str(args.batch_size)]
    command += ["--lr", "1e-4", "--clip-norm", "1.0", *flags]
    command += ["--distributed-world-size", "1"]  # fairseq would take every GPU there is
    command += ["--num-workers", "0"]  # batches are read before they are timed; from a reader each holds open files
    command += ["--fp16", "--fp16-no-flatten-grads"] if args.precision == "fp16" else []
    command += ["--cpu"] if args.device == "cpu" else []
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), input_args=command))
    cfg.common.bf16 = args.precision == "bf16"  # its own flag asks for a TPU
    torch.manual_seed(1)
    task = tasks.setup_task(cfg.task)
    trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    trainer.cuda_env = None  # or each step ends with a reset of the peak that peak_bytes reads
    return trainer


def first_batches(trainer: Trainer, count: int) -> list[dict[str, Any]]:
    """The first batches of the training data, masked.

    Raises:
        SystemExit: there are fewer.
    """
    iterator = trainer.get_train_iterator(epoch=1).next_epoch_itr(shuffle=True)
    found = [sample for sample, _ in zip(iterator, range(count), strict=False)]
    if len(found) < count:
        sys.exit(f"the data have {len(found)} batches, expected {count}; fewer --updates, or a smaller batch")
    return found


def step_of(trainer: Trainer) -> Step:
    """One update with one batch."""
    return lambda sample: trainer.train_step([sample])


def take_turns(
    steps: Mapping[str, Step], samples: Sequence[Any], args: argparse.Namespace
) -> dict[str, list[Measured]]:
    """Every step on every sample; the first ``args.warmup`` ones are not measured."""
    times: dict[str, list[Measured]] = {name: [] for name in steps}
    for index, sample in enumerate(samples):
        for name, step in steps.items():
            measured = _timed(step, sample, args.device)
            if index >= args.warmup:
                times[name].append(measured)
    return times


def _timed(step: Step, sample: Any, device: str) -> Measured:
    _wait(device)
    wall, cpu = time.perf_counter(), time.process_time()
    step(sample)
    _wait(device)
    return Measured(time.perf_counter() - wall, time.process_time() - cpu)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def peak_bytes(step: Step, sample: Any, device: str) -> int:
    """The most bytes of tensors that one step allocates at a time, beyond those that are there before it."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        step(sample)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - held
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(sample)
    results = profiler.profiler.kineto_results  # type: ignore[union-attr]  (torch has no public way to the allocations)
    events = [event for event in results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def floors(steps: Mapping[str, Step], sample: Any, args: argparse.Namespace) -> dict[str, str]:
    """The milliseconds that each contender's matrix products take at the rate at which this machine multiplies."""
    rows = args.batch_size * args.tokens_per_sample
    rate, found = _products_a_second(rows, args.device, args.precision), {}
    for name, step in steps.items():
        with torch.profiler.profile(with_flops=True) as profiler:
            step(sample)
        operations = sum(event.flops for event in profiler.events() if event.name in _PRODUCTS)
        found[name] = f"{1000 * operations / rate:,.1f}" if operations else ""  # a replay tells none
    left_out = "; the floor is without those inside fused attention" if args.device == "cuda" else ""
    print(f"matrix products: {rate / 1e9:,.0f} GFLOP/s, {rows:,} x 256 times 256 x 1,024{left_out}", flush=True)
    return found


def _products_a_second(rows: int, device: str, precision: str) -> float:
    """Floating-point operations a second, the median of several products, of ELECTRA-small's feed-forward layer."""
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]
    left, right = torch.randn(rows, 256, device=device, dtype=dtype), torch.randn(256, 1024, device=device, dtype=dtype)
    operations, repeats, seconds = 2 * rows * 256 * 1024, 20, []
    for _ in range(12):
        _wait(device)
        begin = time.perf_counter()
        for _ in range(repeats):
            left @ right
        _wait(device)
        seconds.append((time.perf_counter() - begin) / repeats)
    return operations / statistics.median(seconds[2:])


def ratios(times: Mapping[str, Sequence[Measured]], base: str, clock: str) -> dict[str, list[float]]:
    """Sorted ratios of each contender's updates to the base's own update on the same sample."""
    return {
        name: sorted(
            getattr(own, clock) / getattr(other, clock) for own, other in zip(measured, times[base], strict=True)
        )
        for name, measured in times.items()
    }


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile; of a single value three times itself."""
    if len(values) == 1:
        return (values[0],) * 3
    low, _, high = statistics.quantiles(values, n=4)
    return low, statistics.median(values), high


def where(device: str) -> str:
    """Hardware, versions and command, in a line."""
    hardware = (
        torch.cuda.get_device_name() if device == "cuda" else f"{processor()}, {torch.get_num_threads()} of its cores"
    )
    return f"{hardware}; torch {torch.__version__}; Python {platform.python_version()}; {' '.join(sys.argv)}"


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def print_table(
    times: Mapping[str, Sequence[Measured]],
    base: str,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    *,
    faster: bool = False,
) -> None:
    """A row a contender.

    Args:
        times: of :func:`take_turns`.
        base: the contender that the ratios refer to.
        columns: more columns: a text by contender, by heading.
        faster: ratios of speed (base's time over the contender's) instead of time.
    """
    columns = columns or {}
    width = max(map(len, times)) + 2
    heads = ("ms/update", "ratio", "quartiles", "CPU ratio", *columns)
    print(f"{'':{width}}" + "".join(f"{head:>16}" for head in heads))
    wall, cpu = (ratios(times, base, clock) for clock in ("seconds", "cpu_seconds"))
    for name, measured in times.items():
        if faster:
            wall[name], cpu[name] = (sorted(1 / value for value in found[name]) for found in (wall, cpu))
        low, median, high = quartiles(wall[name])
        cells = [
            f"{1000 * statistics.median(one.seconds for one in measured):.1f}",
            f"{median:.3f}",
            f"{low:.3f}-{high:.3f}",
            f"{statistics.median(cpu[name]):.3f}",
            *(column.get(name, "") for column in columns.values()),
        ]
        print(f"{name:{width}}" + "".join(f"{cell:>16}" for cell in cells), flush=True)
