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
import re
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.commands import binarize_sentences, run_command, start_command, truneg
from support.kills import OBJECTIVES, training

EVERY = 10  # seconds
MOST = {"memory": 1.02, "handles": 1.0, "threads": 1.0}  # of the last quarter, to the second


def read_now(process: psutil.Process) -> dict[str, float]:
    """All processes of the training at one moment: memory in MiB, and how many handles and threads."""
    found = dict.fromkeys(MOST, 0.0)
    for one in (process, *process.children(recursive=True)):
        # A reading process may end while it is looked at: it is counted the next time.
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            memory = re.search(r"^Pss_Anon: +(\d+) kB", Path(f"/proc/{one.pid}/smaps_rollup").read_text(), re.MULTILINE)
            numbers = int(memory[1]) / 1024, one.num_fds(), one.num_threads()
            found = {name: found[name] + number for name, number in zip(MOST, numbers, strict=True)}
    return found


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
        child = start_command(command, log, log, fresh=True)
        process, end, readings = psutil.Process(child.pid), time.monotonic() + 60 * args.minutes, []
        while child.poll() is None and time.monotonic() < end:
            time.sleep(EVERY)
            readings.append(read_now(process))
        ended = child.poll()
        if ended is not None:
            sys.exit(f"the training ended with exit code {ended}:\n{log.read_text()[-3000:]}")
        child.send_signal(signal.SIGTERM)
        print(f"{args.minutes:.0f} minutes, exit code {child.wait()}")
    sys.exit(not is_flat(readings))


if __name__ == "__main__":
    main()
