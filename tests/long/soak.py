"""A training that goes on for hours with a checkpoint about every minute: are memory and file handles flat?

    python tests/long/soak.py --minutes 120

Reads memory, file handles and threads of the training and of its reading process every ten seconds. Memory is what is
not backed by files, shared pages by their share: a library's part would change with other programs that use it. Prints
what they were in the second and in the last quarter of the time, and exits with 1 where the last is higher by more
than the tolerance. The first quarter is left out: caches fill there.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.commands import binarize_sentences, command_environment, run_command, truneg
from support.kills import OBJECTIVES, training

EVERY = 10  # seconds
MEMORY_TOLERANCE, HANDLES_TOLERANCE = 1.02, 0  # a ratio; a number


@dataclass(frozen=True)
class Reading:
    """All processes of the training at one moment: minutes, MiB, and how many."""

    minutes: float
    memory: float
    handles: int
    threads: int
    checkpoints: int


def anonymous_memory(pid: int) -> int:
    """Bytes of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:"))


def read_now(process: psutil.Process, started: float, folder: Path, seen: set[tuple[str, int]]) -> Reading:
    # A reading process may end while it is looked at: it is counted the next time.
    memory = handles = threads = 0
    for one in (process, *process.children(recursive=True)):
        try:
            numbers = anonymous_memory(one.pid), one.num_fds(), one.num_threads()
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            continue
        memory, handles, threads = memory + numbers[0], handles + numbers[1], threads + numbers[2]
    seen |= {(path.name, path.stat().st_ino) for path in folder.glob("checkpoint_[0-9]*_*.pt")}
    return Reading((time.monotonic() - started) / 60, memory / 2**20, handles, threads, len(seen))


def watch(child: Popen[bytes], folder: Path, minutes: float) -> list[Reading]:
    process, started, readings = psutil.Process(child.pid), time.monotonic(), []
    seen: set[tuple[str, int]] = set()
    while child.poll() is None and time.monotonic() < started + 60 * minutes:
        time.sleep(EVERY)
        readings.append(read_now(process, started, folder, seen))
    return readings


def compare_quarters(readings: list[Reading]) -> bool:
    """Prints the medians of the second and of the last quarter; whether they are the same."""
    quarter = len(readings) // 4
    early, late = readings[quarter : 2 * quarter], readings[-quarter:]
    flat = True
    for name, most in (("memory", MEMORY_TOLERANCE), ("handles", None), ("threads", None)):
        before, after = (statistics.median(getattr(one, name) for one in part) for part in (early, late))
        flat &= after <= (before * most if most else before + HANDLES_TOLERANCE)
        print(f"{name}: {before:.1f} in the second quarter, {after:.1f} in the last")
    return flat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120, help="default: 120")
    parser.add_argument("--updates-a-checkpoint", type=int, default=1000, help="default: 1000")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, log = binarize_sentences(folder), folder / "log"
        run_command(truneg("synonyms", "build", "--data", data, "--tokenization", "wordpiece"))
        saving = ("--save-interval-updates", args.updates_a_checkpoint, "--keep-interval-updates", 2)
        reading = ("--num-workers", 1, "--log-format", "json", "--log-interval", 100, "--no-epoch-checkpoints")
        command = training(
            data, folder / "run", *OBJECTIVES["hc_sr_word_sr_sent"], *saving, *reading, "--max-update", 10**9
        )
        with log.open("wb") as stream:
            child = Popen(
                list(map(str, command)), stdout=stream, stderr=stream, env=command_environment(), start_new_session=True
            )
        readings = watch(child, folder / "run", args.minutes)
        ended = child.poll()
        if ended is not None:
            sys.exit(f"the training ended with exit code {ended}:\n{log.read_text()[-3000:]}")
        child.terminate()
        print(f"{readings[-1].minutes:.0f} minutes, {readings[-1].checkpoints} checkpoints, exit code {child.wait()}")
    flat = compare_quarters(readings)
    sys.exit(not flat)


if __name__ == "__main__":
    main()
