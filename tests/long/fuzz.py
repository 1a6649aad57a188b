"""Every reader of the package with damaged files, for as many cases as asked; prints what was found.

    python tests/long/fuzz.py --cases 1000000 [--seconds 3600] [--seed 1] [--readers "synonym table" SQuAD]

A case damages a valid file (tests/support/fuzz.py) and reads it. It passes where the reader reads the file all the same
or raises a TrueNegError of one line that names the file, within 10 s of the processor and with less than 1 GB more
than before. All readers get the same time, so that a fast one tries more cases than a slow one.
"""

import argparse
import logging
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.fuzz import READERS, make_valid, memory_limit, run_case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000, metavar="N", help="of all readers (default: 100000)")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="S", help="end earlier (default: no)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--readers", nargs="+", metavar="NAME", help="default: all")
    args = parser.parse_args()
    logging.disable(logging.WARNING)  # what a reader warns of is no finding
    readers = [reader for reader in READERS if args.readers is None or reader.name in args.readers]
    begin, done, found = time.monotonic(), Counter(), {}
    with tempfile.TemporaryDirectory() as temporary:
        folders = [make_valid(reader, Path(temporary) / str(n) / "valid") for n, reader in enumerate(readers)]
        spent = [0.0] * len(readers)
        for case in range(args.cases):
            if time.monotonic() - begin > args.seconds:
                break
            turn = spent.index(min(spent))
            reader, valid, started = readers[turn], folders[turn], time.monotonic()
            try:
                with memory_limit():
                    run_case(reader, valid, valid.with_name("work"), random.Random(f"{args.seed}/{case}"))
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                kind = (reader.name, type(error).__name__, f"{Path(last.filename).name}:{last.lineno}")
                if kind not in found:
                    print(f"case {case}: {kind}: {str(error)[:200]}", flush=True)
                found[kind] = found.get(kind, 0) + 1
            done[reader.name] += 1
            spent[turn] += time.monotonic() - started
    seconds = time.monotonic() - begin
    print(f"{sum(done.values()):,} cases of {len(readers)} readers in {seconds:.0f} s, {len(found)} kinds of findings")
    print(", ".join(f"{name} {count:,}" for name, count in done.most_common()))
    for kind, count in found.items():
        print(count, *kind)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
