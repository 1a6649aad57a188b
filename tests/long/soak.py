"""A training that goes on for hours with a checkpoint about every minute: are memory and file handles flat?

    python tests/long/soak.py --minutes 120

Reads memory, file handles and threads of the training and of its reading process every ten seconds. Memory is what is
not backed by files, shared pages by their share: a library's part would change with other programs that use it. Prints
what they were in the second and in the last quarter of the time, and exits with 1 where the last is higher by more
than the tolerance. The first quarter is left out: caches fill there.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from subprocess import Popen

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.commands import binarize_sentences, command_environment, run_command, truneg
from support.kills import OBJECTIVES, training

EVERY = 10  # seconds
MOST = {"memory": 1.02, "handles": 1.0, "threads": 1.0}  # of the last quarter, to the second


def anonymous_memory(pid: int) -> int:
    """Bytes of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:"))


def read_now(process: psutil.Process) -> dict[str, float]:
    """All processes of the training at one moment: memory in MiB, and how many handles and threads."""
    found = dict.fromkeys(MOST, 0.0)
    for one in (process, *process.children(recursive=True)):
        # A reading process may end while it is looked at: it is counted the next time.
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            numbers = anonymous_memory(one.pid) / 2**20, one.num_fds(), one.num_threads()
            found = {name: found[name] + number for name, number in zip(MOST, numbers, strict=True)}
    return found


def watch(child: Popen[bytes], minutes: float) -> list[dict[str, float]]:
    process, end, readings = psutil.Process(child.pid), time.monotonic() + 60 * minutes, []
    while child.poll() is None and time.monotonic() < end:
        time.sleep(EVERY)
        readings.append(read_now(process))
    return readings


def is_flat(readings: list[dict[str, float]]) -> bool:
    """Prints the medians of the second and of the last quarter; whether they are the same."""
    quarter, flat = len(readings) // 4, True
    for name, most in MOST.items():
        parts = readings[quarter : 2 * quarter], readings[-quarter:]
        before, after = (statistics.median(one[name] for one in part) for part in parts)
        flat &= after <= before * most
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
        readings = watch(child, args.minutes)
        ended = child.poll()
        if ended is not None:
            sys.exit(f"the training ended with exit code {ended}:\n{log.read_text()[-3000:]}")
        child.terminate()
        print(f"{args.minutes:.0f} minutes, exit code {child.wait()}")
    sys.exit(not is_flat(readings))


if __name__ == "__main__":
    main()
