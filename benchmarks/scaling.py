"""How ELECTRA's training scales: time of an update over data-parallel workers, and over the tokens of a batch.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py [--only workers|tokens] [--workers 2 4] [--bandwidth-gb-s 10]

Workers: the real fairseq-train over gloo on CPUs (Linux), legacy_ddp, one thread a worker and the same batch for each,
in fp32. Runs take turns (``--rounds``). Seconds are those of fairseq's JSON log, an update a line (``wpb / wps``). The
bytes that a worker sends are the growth of the loopback interface's counter in /proc/net/dev between two such lines,
headers and acknowledgements included, over the number of workers; the run of one worker shows what others send
meanwhile. Jobs beside each other that send nothing show what the workers' shared memory and caches cost.

More workers, each on a machine of its own, are estimated and not measured: one worker's time plus the sending of the
measured bytes, as a ring all-reduce of that many workers has them. legacy_ddp begins to send after the backward pass,
so that nothing overlaps; latency is left out.

Tokens: batches of several sizes take turns in one process (:mod:`steps`); ``--only tokens --device cuda`` on a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from fairseq.trainer import Trainer
from steps import Measured, add_arguments, build_trainer, first_batches, quartiles, take_turns, where, write_data

import truneg_fairseq

TRAINING = "--task electra_pretraining --criterion electra --optimizer electra_adam".split()
# Nothing reads ahead: on as many cores as workers it would take its time from an update.
WORKER = """
--cpu --ddp-backend legacy_ddp --lr 1e-4 --clip-norm 1.0 --seed 1 --num-workers 0 --data-buffer-size 0
--no-save --disable-validation --log-format json --log-interval 1
""".split()
GRADIENT_BYTES = 4
ESTIMATED_WORKERS = (2, 4, 8)
NETWORK = Path("/proc/net/dev")


@dataclass(frozen=True)
class Launch:
    """Jobs that run beside each other, each of some data-parallel workers."""

    jobs: int
    workers: int

    def __str__(self) -> str:
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        return workers if self.jobs == 1 else f"{self.jobs} jobs of {workers}"


class Update(NamedTuple):
    """An update of the first job's: wall-clock seconds, and bytes on the loopback a worker."""

    seconds: float
    sent: float


class Line(NamedTuple):
    """``constant + slope * x``, and how much of the variance of y it explains."""

    constant: float
    slope: float
    r_squared: float


def ring_bytes(size: float, workers: int) -> float:
    """What each worker sends in a ring all-reduce of ``size`` bytes: 2 (n - 1) / n of them."""
    return 2 * (workers - 1) / workers * size


def reduced_bytes(sent: float, workers: int) -> float:
    """The inverse of :func:`ring_bytes`, for two workers and more."""
    return sent * workers / (2 * (workers - 1))


def estimate_seconds(compute: float, size: float, workers: int, bandwidth: float) -> float:
    """An update's time where ``size`` bytes are reduced after one worker's ``compute`` seconds.

    Args:
        compute: seconds of an update without sending.
        size: bytes that are reduced an update.
        workers: how many reduce them, in a ring.
        bandwidth: bytes a second that each can send.
    """
    return compute + ring_bytes(size, workers) / bandwidth


def fit_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """Least squares; at least two different x, and y that are not all equal."""
    slope, constant = statistics.linear_regression(x, y)
    return Line(constant, slope, statistics.correlation(x, y) ** 2)


def logged_seconds(line: str) -> float | None:
    """Seconds of the update that fairseq logged in this line; None if it is no such line.

    Both figures cover all workers. fairseq starts its clock in the first update: its speed is 0, and None here.
    """
    found = re.search(r"\| train_inner \| (\{.*\})", line)
    stats = json.loads(found[1]) if found else {}
    return float(stats["wpb"]) / float(stats["wps"]) if float(stats.get("wps", 0)) else None


def logged_parameters(line: str) -> int | None:
    """The number of trained parameters, from the line that has it."""
    found = re.search(r"num\. shared model params: .*\(num\. trained: ([\d,]+)\)", line)
    return int(found[1].replace(",", "")) if found else None


def loopback_bytes() -> int:
    """What the loopback interface has carried so far."""
    received = re.search(r"^\s*lo:\s*(\d+)", NETWORK.read_text(), re.MULTILINE)
    if received is None:
        raise SystemExit(f"scaling.py: {NETWORK} has no loopback interface 'lo'")
    return int(received[1])


def train(data: Path, args: argparse.Namespace, launch: Launch) -> tuple[list[Update], int]:
    """Runs fairseq-train.

    Returns:
        The timed updates of the first job, and its number of trained parameters.

    Raises:
        SystemExit: a job failed; with the end of what it printed.
    """
    command = [sys.executable, "-m", "fairseq_cli.train", str(data), *TRAINING, *WORKER, "--arch", args.arch]
    command += ["--user-dir", str(Path(truneg_fairseq.__file__).parent)]
    command += ["--tokens-per-sample", str(args.tokens_per_sample), "--batch-size", str(args.batch_size)]
    command += ["--max-update", str(1 + args.warmup + args.updates), "--distributed-world-size", str(launch.workers)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with contextlib.ExitStack() as stack:
        # Not a pipe: nobody would read it while the first job is followed.
        beside = stack.enter_context(tempfile.TemporaryFile("w+"))
        outputs: list[int | IO[str]] = [subprocess.PIPE, *[beside] * (launch.jobs - 1)]
        processes = []
        for out in outputs:
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT, text=True)
            stack.callback(process.kill)
            processes.append(process)
        updates, parameters, output = _follow(processes[0], launch)
        codes = [process.wait() for process in processes]
        beside.seek(0)
        others = beside.readlines()
    if any(codes) or parameters is None or len(updates) != args.warmup + args.updates:
        printed = "".join((output if codes[0] else others or output)[-30:])
        raise SystemExit(f"{printed}scaling.py: {launch}: {' '.join(command)} exited with {codes}")
    return updates[args.warmup :], parameters


def _follow(process: subprocess.Popen[str], launch: Launch) -> tuple[list[Update], int | None, list[str]]:
    """Updates, number of parameters and all lines of what a job prints, to its end."""
    updates, parameters, output = [], None, []
    carried = loopback_bytes()
    for line in process.stdout or ():
        output.append(line)
        parameters = parameters or logged_parameters(line)
        if "| train_inner |" in line:
            before, carried = carried, loopback_bytes()
            seconds = logged_seconds(line)
            if seconds is not None:
                updates.append(Update(seconds, (carried - before) / (launch.jobs * launch.workers)))
    return updates, parameters, output


def measure_workers(data: Path, args: argparse.Namespace) -> None:
    """Measures and prints the tables of workers."""
    several = [launch for n in args.workers for launch in (Launch(jobs=n, workers=1), Launch(jobs=1, workers=n))]
    one = Launch(jobs=1, workers=1)
    rounds: dict[Launch, list[list[Update]]] = {launch: [] for launch in (one, *several)}
    for _ in range(args.rounds):
        for launch, runs in rounds.items():
            updates, parameters = train(data, args, launch)
            runs.append(updates)
    gradients = parameters * GRADIENT_BYTES
    print(
        f"{args.arch}, {args.batch_size} x {args.tokens_per_sample} tokens and a thread a worker, "
        f"cores: {len(os.sched_getaffinity(0))}; {args.rounds} runs of {args.updates} timed updates each; "
        f"{parameters:,} parameters, {gradients / 1e6:.1f} MB of gradients"
    )
    print_workers(rounds, one, gradients)
    most = Launch(jobs=1, workers=max(args.workers))
    sent = statistics.median(update.sent for run in rounds[most] for update in run)
    compute = statistics.median(update.seconds for run in rounds[one] for update in run)
    print_estimate(compute, reduced_bytes(sent, most.workers), args.bandwidth_gb_s)


def print_workers(rounds: Mapping[Launch, Sequence[Sequence[Update]]], one: Launch, gradients: int) -> None:
    """A row a launch; ratios are those of the medians of runs that were neighbours in time."""
    heads = ("ms/update", "quartiles", "ratio", "speed-up", "MB sent", "ring's MB")
    print(f"{'':20}" + "".join(f"{head:>16}" for head in heads))
    medians = {name: [statistics.median(update.seconds for update in run) for run in rounds[name]] for name in rounds}
    for launch, runs in rounds.items():
        low, median, high = quartiles([1000 * update.seconds for run in runs for update in run])
        ratio = statistics.median(own / base for own, base in zip(medians[launch], medians[one], strict=True))
        cells = (
            f"{median:,.1f}",
            f"{low:,.1f}-{high:,.1f}",
            f"{ratio:.3f}",
            f"{launch.jobs * launch.workers / ratio:.2f}",
            f"{statistics.median(update.sent for run in runs for update in run) / 1e6:.2f}",
            f"{ring_bytes(gradients, launch.workers) / 1e6:.2f}",
        )
        print(f"{launch!s:20}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


def print_estimate(compute: float, size: float, bandwidth: float) -> None:
    """A row a number of workers.

    Args:
        compute: seconds of one worker's update.
        size: bytes that are reduced an update.
        bandwidth: of the network, in GB/s.
    """
    print()
    print(f"ESTIMATE, not measured: workers on machines of their own, {bandwidth:g} GB/s, nothing overlaps, no latency")
    print(f"{'':20}" + "".join(f"{head:>16}" for head in ("ms/update", "ratio", "speed-up", "MB sent", "sending, ms")))
    for workers in ESTIMATED_WORKERS:
        seconds = estimate_seconds(compute, size, workers, bandwidth * 1e9)
        ratio = seconds / compute
        cells = (
            f"{1000 * seconds:,.1f}",
            f"{ratio:.3f}",
            f"{workers / ratio:.2f}",
            f"{ring_bytes(size, workers) / 1e6:.2f}",
            f"{1000 * (seconds - compute):.2f}",
        )
        print(f"{f'{workers} workers':20}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


def measure_tokens(data: Path, args: argparse.Namespace) -> None:
    """Measures and prints the table of batch sizes, and the line through its medians."""
    truneg_fairseq.register()
    steps, tokens = {}, {}
    for size in args.batch_sizes:
        sized = argparse.Namespace(**{**vars(args), "batch_size": size})
        trainer = build_trainer(data, sized, *TRAINING, "--arch", args.arch)
        batches = first_batches(trainer, args.warmup + args.updates)
        name = f"{size} x {args.tokens_per_sample}"
        steps[name] = _indexed_step(trainer, batches)
        tokens[name] = [batch["ntokens"] for batch in batches[args.warmup :]]
    times = take_turns(steps, range(args.warmup + args.updates), args)
    print(f"\n{args.arch}, {args.precision}, one process; {args.updates} timed updates each")
    print_tokens(times, tokens)


def _indexed_step(trainer: Trainer, batches: Sequence[dict[str, Any]]) -> Callable[[int], Any]:
    """One update with the batch of that number: every contender has batches of its own."""
    return lambda index: trainer.train_step([batches[index]])


def print_tokens(times: Mapping[str, Sequence[Measured]], tokens: Mapping[str, Sequence[int]]) -> None:
    """A row a batch size; ratios are those of a token's time to the row before, at the same turn."""
    heads = ("tokens", "ms/update", "quartiles", "us/token", "ratio")
    print(f"{'':20}" + "".join(f"{head:>16}" for head in heads))
    previous: list[float] = []
    for name, measured in times.items():
        low, median, high = quartiles([1000 * one.seconds for one in measured])
        token = [1e6 * one.seconds / count for one, count in zip(measured, tokens[name], strict=True)]
        ratio = statistics.median(own / base for own, base in zip(token, previous or token, strict=True))
        cells = (
            f"{statistics.median(tokens[name]):,.0f}",
            f"{median:,.1f}",
            f"{low:,.1f}-{high:,.1f}",
            f"{statistics.median(token):.1f}",
            f"{ratio:.3f}" if previous else "",
        )
        print(f"{name:20}" + "".join(f"{cell:>16}" for cell in cells), flush=True)
        previous = token
    line = fit_line(
        [statistics.median(tokens[name]) for name in times],
        [statistics.median(one.seconds for one in times[name]) for name in times],
    )
    print(
        f"least squares of the medians: {1000 * line.constant:.1f} ms + {1e6 * line.slope:.2f} us a token, "
        f"R^2 {line.r_squared:.5f}"
    )


def main() -> None:
    """Measures and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, batch_size=16, precisions=("fp32", "bf16"))
    parser.add_argument("--arch", default="electra_small", metavar="NAME", help="electra_* (default: electra_small)")
    parser.add_argument("--only", choices=("workers", "tokens"), help="default: both")
    parser.add_argument("--workers", type=int, nargs="+", default=[2], metavar="N", help="beside 1 (default: 2)")
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="runs of each number of workers (default: 3)"
    )
    parser.add_argument(
        "--bandwidth-gb-s",
        type=float,
        default=10.0,
        metavar="GB/S",
        help="for the estimate, what a worker sends a second (default: 10, a 100 Gbit/s network at 80 %%)",
    )
    parser.add_argument(
        "--batch-sizes", type=int, nargs="+", default=[4, 8, 16, 32], metavar="N", help="default: 4 8 16 32"
    )
    args = parser.parse_args()
    if args.only != "tokens":
        if (args.device, args.precision) != ("cpu", "fp32"):
            parser.error("workers are measured on CPUs in fp32: add --device cpu, or --only tokens")
        if not NETWORK.exists():
            parser.error(f"there is no {NETWORK}, where Linux counts the workers' bytes: use --only tokens")
        if min(args.workers) < 2 or args.rounds < 1:
            parser.error("--workers are two and more, --rounds one and more")
    if args.only != "workers" and len(set(args.batch_sizes)) < 2:
        parser.error("--batch-sizes: a line takes two sizes")
    print(where(args.device))
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name))
        if args.only != "tokens":
            measure_workers(Path(name), args)
        if args.only != "workers":
            measure_tokens(Path(name), args)


if __name__ == "__main__":
    main()
