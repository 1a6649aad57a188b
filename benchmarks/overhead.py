"""How long the host is busy with an update of ELECTRA-small, whatever the device computes.

    python benchmarks/overhead.py [--updates 100]

The model has the depth of ELECTRA-small, 12 layers a side, but every width is 8 and the batch one example of 16 tokens:
what is left is Python, fairseq's trainer, and torch's calls, the same on every device. A GPU cannot be faster than that
unless its kernels are recorded and replayed. Run by fairseq's trainer, and with the same model, criterion and optimizer
in a bare loop.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from fairseq.trainer import Trainer
from steps import Step, build_trainer, first_batches, print_table, step_of, take_turns, where, write_data

import truneg_fairseq

ELECTRA = """
--task electra_pretraining --criterion electra --optimizer electra_adam --arch electra_small
--encoder-embed-dim 8 --encoder-ffn-embed-dim 8 --encoder-attention-heads 1 --embedding-dim 8
--generator-embed-dim 8 --generator-ffn-embed-dim 8 --generator-attention-heads 1
""".split()


def bare_step(trainer: Trainer) -> Step:
    """One update without the trainer."""
    model, criterion, optimizer = trainer.model, trainer.criterion, trainer.optimizer

    def step(sample: dict[str, Any]) -> None:
        loss, sample_size, _ = criterion(model.train(), sample)
        (loss / sample_size).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=100, metavar="N", help="timed updates of each (default: 100)")
    own = parser.parse_args()
    args = argparse.Namespace(
        device="cpu", precision="fp32", batch_size=1, tokens_per_sample=16, updates=own.updates, warmup=5
    )
    torch.set_num_threads(1)
    truneg_fairseq.register()
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name))
        plain, loop, objectives = (
            build_trainer(Path(name), args, *ELECTRA, *flags)
            for flags in ((), (), ("--hc-weight", "1", "--sr-word-weight", "1"))
        )
        samples = first_batches(plain, args.warmup + args.updates)
        steps = {
            "bare loop": bare_step(loop),
            "fairseq's trainer": step_of(plain),
            "with HC + SR-word": step_of(objectives),
        }
        times = take_turns(steps, samples, args)
    print(where(args.device))
    print_table(times, "bare loop")


if __name__ == "__main__":
    main()
