"""Time and peak memory of building synonym tables of WordNet from a cold start.

    python benchmarks/synonym_build.py --vocabulary vocab.txt

Each build is a new process, timed from its start to its end (imports included). The vocabulary is a file of one token a
line (BERT's vocab.txt) or a fairseq dict.txt.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_SPECIAL = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}  # fairseq adds its own


def write_dictionary(vocabulary: Path, folder: Path) -> list[str]:
    """Writes the tokens as a fairseq dict.txt; returns them."""
    lines = vocabulary.read_text(encoding="utf-8").splitlines()
    tokens = [token for line in lines if line and (token := line.split(" ")[0]) not in _SPECIAL]
    (folder / "dict.txt").write_text("".join(f"{token} 1\n" for token in tokens), encoding="utf-8")
    return tokens


def measure(*arguments: object) -> tuple[float, float, str]:
    """Seconds and peak MB of ``truneg synonyms build`` in a process of its own, and the last line it prints."""
    program = "from truneg_fairseq.commands.main import main; main()"
    command = [sys.executable, "-c", program, "synonyms", "build", *map(str, arguments)]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status != 0:
        sys.exit(f"{' '.join(command)}: failed; run it to see why")
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is bytes there, kilobytes elsewhere
    return seconds, usage.ru_maxrss * unit / 1e6, output.splitlines()[-1]


def main() -> None:
    """Prints one row a build."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=Path, required=True, help="file with one token per line")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="builds of each source; the median is shown")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokens = write_dictionary(args.vocabulary, folder)
        print(f"{len(tokens):,} tokens, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        print(f"{'source':<28}{'seconds':>9}{'peak MB':>9}")
        for title in ("wordnet", "inflected"):
            runs = [
                measure("--data", folder, "--output", folder / "table.npz", "--source", title)
                for _ in range(args.repeat)
            ]
            seconds, megabytes, line = sorted(runs)[len(runs) // 2]
            print(f"{title:<28}{seconds:>9.1f}{megabytes:>9.0f}  {line}", flush=True)


if __name__ == "__main__":
    main()
