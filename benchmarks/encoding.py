"""Encoding and binarizing a corpus, against `tokenizers` alone on the same text with the same cores; peak memory.

    python benchmarks/encoding.py --text corpus.txt --vocab vocab.txt --sizes 100 1000 5000

The text is repeated to each size (MB). `tokenizers` alone reads the lines, encodes a thousand at a time with as many
threads as binarize.py has processes, and forgets what it made; binarize.py does all of its work. Both are timed from
the start of a new process to its end, taking turns, and also by the CPU time of all their processes, which a busy
machine changes less. Memory is the sum of all processes' private and shared pages (PSS), sampled.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "data-bin-scripts" / "binarize.py"
_BATCH_LINES = 1_000
_SAMPLE_SECONDS = 1.0  # ten times as often, the look at every page's owner made the runs a third slower


@dataclass(frozen=True)
class Measured:
    """One run: seconds from start to end, seconds of CPU, and peak memory."""

    seconds: float
    cpu_seconds: float
    megabytes: float


def encode_alone(text: Path, vocab: Path) -> None:
    """What `tokenizers` does when it is called plainly."""
    from truneg_fairseq.data.tokenizer import bert_tokenizer, read_vocabulary

    tokenizer = bert_tokenizer(read_vocabulary(vocab))
    with text.open(encoding="utf-8", newline="\n") as stream:
        while batch := list(islice(stream, _BATCH_LINES)):
            tokenizer.encode_batch_fast(batch, add_special_tokens=False)


def write_text(source: Path, target: Path, size: int) -> None:
    """Repeats a text to ``size`` bytes, cut behind a line."""
    content = source.read_bytes()
    content = content[: content.rindex(b"\n") + 1]
    with target.open("wb") as stream:
        while size > 0:
            part = content if len(content) <= size else content[: content.find(b"\n", size) + 1]
            stream.write(part)
            size -= len(part)


def processes_of(pid: int) -> list[int]:
    """A process and all that come from it."""
    found = [pid]
    for process in found:
        try:
            for thread in Path(f"/proc/{process}/task").iterdir():
                found += [int(child) for child in (thread / "children").read_text().split()]
        except OSError:
            continue
    return found


def memory_of(pid: int) -> float:
    """MB of a process: its own pages, and its share of those that it shares."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measure(command: list[str], environment: dict[str, str]) -> Measured:
    """Runs a command to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:  # nobody would read a pipe, and progress bars fill it
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=said, stderr=said)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, sum(map(memory_of, processes_of(process.pid))))
            time.sleep(_SAMPLE_SECONDS)
        seconds = time.perf_counter() - started
        if process.returncode != 0:
            said.seek(0)
            sys.exit(f"{' '.join(command)}: {said.read().splitlines()[-1]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(seconds, cpu, peak)


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else math.nan


def main() -> None:
    """Prints one row a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, metavar="FILE", help="UTF-8, of a few MB at least")
    parser.add_argument("--vocab", type=Path, required=True, metavar="FILE", help="BERT's vocab.txt")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 5_000], metavar="MB")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs of each; medians are shown")
    parser.add_argument("--memory-only", action="store_true", help="leave out the runs of `tokenizers` alone")
    parser.add_argument("--alone", action="store_true", help="only encode --text, as one of the two that are measured")
    args = parser.parse_args()
    if args.alone:
        encode_alone(args.text, args.vocab)
        return
    print(f"{args.workers} processes or threads, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    heads = ("MB", "alone s", "ours s", "ratio", "alone CPU", "ours CPU", "ratio", "ours MB/s", "peak MB")
    print("".join(f"{head:>10}" for head in heads))
    for size in args.sizes:
        with tempfile.TemporaryDirectory() as name:
            text, data = Path(name) / "train.txt", Path(name) / "data"
            write_text(args.text, text, size * 10**6)
            flags = ["--tokenizer", str(args.vocab)]
            alone_command = [sys.executable, __file__, "--alone", "--text", str(text), *flags]
            command = [sys.executable, str(SCRIPT), "--train", str(text), "--output-dir", str(data), *flags]
            alone, ours = [], []
            for _ in range(args.repeat):
                if not args.memory_only:
                    alone.append(measure(alone_command, {"RAYON_NUM_THREADS": str(args.workers)}))
                shutil.rmtree(data, ignore_errors=True)
                ours.append(measure([*command, "--workers", str(args.workers)], {}))
            seconds = [_median([run.seconds for run in runs]) for runs in (alone, ours)]
            cpu = [_median([run.cpu_seconds for run in runs]) for runs in (alone, ours)]
            peak = max(run.megabytes for run in ours)
            values = (*seconds, seconds[1] / seconds[0], *cpu, cpu[1] / cpu[0], size / seconds[1])
            print(f"{size:>10}" + "".join(f"{value:>10.2f}" for value in values) + f"{peak:>10.0f}", flush=True)


if __name__ == "__main__":
    main()
