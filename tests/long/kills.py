"""Kills trainings and other commands many times and compares the end with an undisturbed run, bit for bit.

    python tests/long/kills.py --kills 50

fairseq-train with each objective: SIGKILL comes at the start, between updates and while a checkpoint is written.
Compared are the parameters, the optimizer's state and the place in the data. GLUE and SQuAD: SIGKILL comes at any
moment; compared are the metrics and the parameters. Exits with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.commands import binarize_sentences, run_command, truneg
from support.kills import FINE_TUNINGS, OBJECTIVES, kill_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="SIGKILLs of each (default: 50)")
    everything = [*OBJECTIVES, *FINE_TUNINGS]
    parser.add_argument("--only", nargs="+", choices=everything, default=everything, help="default: all")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data = binarize_sentences(Path(name))
        run_command(truneg("synonyms", "build", "--data", data, "--tokenization", "wordpiece"))
        outcomes = kill_all(data, Path(name), args.only, args.kills)
    sys.exit(any(outcome.differences for outcome in outcomes.values()))


if __name__ == "__main__":
    main()
