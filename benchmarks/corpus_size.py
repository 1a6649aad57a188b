"""What a training's process takes to open a corpus, by the corpus's size: seconds and memory until the first batch.

    python benchmarks/corpus_size.py [--lines 500000 5000000]

The data are random, of 70 tokens a line, as novels have. Each size is opened in a process of its own, with the batches
of one of 64 workers.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TOKENS_A_LINE = 70
FLAGS = """
--task electra_pretraining --criterion electra --arch electra_tiny --optimizer electra_adam --lr 1e-4 --batch-size 4
--tokens-per-sample 512 --max-positions 512 --cpu --num-workers 0
""".split()


def write_corpus(folder: Path, lines: int) -> None:
    """Random binarized text."""
    from steps import write_data

    from truneg_fairseq.data.indexed import write_index

    write_data(folder)
    rng = np.random.default_rng(1)
    with (folder / "train.bin").open("wb") as stream:
        for start in range(0, lines, 100_000):
            count = min(100_000, lines - start)
            tokens = rng.integers(4, 30_000, size=(count, TOKENS_A_LINE), dtype=np.uint16)
            tokens[:, -1] = 2
            stream.write(tokens.tobytes())
    sizes = np.full(lines, TOKENS_A_LINE, dtype=np.int32)
    write_index(folder / "train.idx", lambda: iter([sizes]), np.uint16)


def open_corpus(folder: Path) -> None:
    """Opens the data as a training does, up to its first batch; prints the peak of memory before and after."""
    import truneg_fairseq

    truneg_fairseq.register()
    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    args = options.parse_args_and_arch(options.get_training_parser(), [str(folder), *FLAGS])
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    task.load_dataset("train", epoch=1)
    batches = task.get_batch_iterator(
        task.dataset("train"), max_sentences=4, max_positions=512, num_shards=64, shard_id=0, num_workers=0, epoch=1
    )
    next(iter(batches.next_epoch_itr(shuffle=True)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{cpu:.1f} {time.perf_counter() - started:.1f} {before.ru_maxrss / 1e6:.2f} {after.ru_maxrss / 1e6:.2f}")


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[500_000, 5_000_000])
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        open_corpus(options.open)
        return
    print("lines, tokens: CPU seconds, seconds, GB before, GB at the peak")
    for lines in options.lines:
        with tempfile.TemporaryDirectory() as name:
            write_corpus(Path(name), lines)
            done = subprocess.run(
                [sys.executable, __file__, "--open", name], check=True, capture_output=True, text=True
            )
        print(f"{lines:,}, {lines * TOKENS_A_LINE:,}: {done.stdout.strip().splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    main()
