"""Seconds from the start of fairseq-train to the end of its first update, with and without a synonym table to build.

    python benchmarks/start_up.py --data DATA-BIN [--runs 5]

ELECTRA-small with HC and SR-word, 16 x 128 tokens, on the CPU. DATA-BIN is text that data-bin-scripts/binarize.py has
binarized, such as WikiText-2's; it is copied, and the runs with and without a table take turns.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from steps import where

import truneg_fairseq

OPTIONS = """
--task electra_pretraining --criterion electra --arch electra_small --hc-weight 1 --sr-word-weight 1
--optimizer electra_adam --lr 5e-4 --lr-scheduler electra_linear --max-update 1 --clip-norm 1.0 --tokens-per-sample 128
--batch-size 16 --cpu --no-save --disable-validation --log-format json --log-interval 1
""".split()
TABLE = "synonyms.npz"


def seconds_to_first_update(data: Path) -> tuple[float, float]:
    """Until the first batch is asked for, and until its update is logged."""
    command = [sys.executable, "-m", "fairseq_cli.train", str(data), *OPTIONS]
    command += ["--user-dir", str(Path(truneg_fairseq.__file__).parent), "--save-dir", str(data / "checkpoints")]
    begin, ready = time.perf_counter(), 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            now = time.perf_counter() - begin
            if "Start iterating over samples" in line:
                ready = now
            elif "| train_inner |" in line:
                process.terminate()
                return ready, now
    raise SystemExit(f"{' '.join(command)}: no update; its output:\n{''.join(lines)}")


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DATA-BIN", help="binarized text")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each (default: 5)")
    args = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"first run, builds the table": [], "later runs": []}
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        shutil.copytree(args.data, data)
        for _ in range(args.runs):
            (data / TABLE).unlink(missing_ok=True)
            for runs in found.values():
                runs.append(seconds_to_first_update(data))
    print(where("cpu"))
    print(f"{'':30}{'first batch':>24}{'first update':>24}   seconds: median (range)")
    for kind, runs in found.items():
        cells = (
            f"{statistics.median(times):.1f} ({min(times):.1f}-{max(times):.1f})" for times in zip(*runs, strict=True)
        )
        print(f"{kind:30}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
