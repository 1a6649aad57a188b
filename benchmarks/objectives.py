"""What the true-negative objectives cost: time of an update and peak memory, as ratios to stock masked_lm.

    python benchmarks/objectives.py [--device cuda] [--precision fp16] [--batch-size 128] [--updates 30]

One process, the same model, data and seed for each criterion; the criterions take turns update by update (A B C A B C),
so that a noisy machine disturbs all alike; the figures are medians over the updates, with quartiles. The model has
ELECTRA-small's width and depth on stock RoBERTa code, the vocabulary 30,522 tokens, the table 60,000 random pairs, the
text random tokens: none of them changes the amount of work.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

import truneg_fairseq
from truneg_fairseq.synonyms import SynonymTable
from truneg_fairseq.vocabulary import Vocabulary, read_symbols

WORDS, PAIRS, SENTENCES = 30_517, 60_000, 4_000
MODEL = """
--arch roberta_base --encoder-layers 12 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024
--encoder-attention-heads 4 --max-positions 512
""".split()
VARIANTS: dict[str, tuple[str, ...]] = {
    "masked_lm (stock)": ("masked_lm",),
    "HC": ("masked_lm_hc",),
    "SR-word": ("masked_lm_sr_word",),
    "HC + SR-word": ("masked_lm_true_neg", "--hc-weight", "1", "--sr-word-weight", "1"),
    "SR-sent": ("masked_lm_sr_sent",),
}


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--batch-size", type=int, default=16, metavar="N", help="sequences a batch (default: 16)")
    parser.add_argument("--tokens-per-sample", type=int, default=128, metavar="N", help="default: 128")
    parser.add_argument("--updates", type=int, default=10, metavar="N", help="timed updates of each (default: 10)")
    parser.add_argument("--warmup", type=int, default=2, metavar="N", help="untimed updates of each (default: 2)")
    return parser.parse_args()


def write_data(folder: Path) -> None:
    """Random binarized text, its dictionary and a random synonym table."""
    rng = np.random.default_rng(1)
    (folder / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(WORDS)), encoding="utf-8")
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    builder = MMapIndexedDatasetBuilder(str(folder / "train.bin"), dtype=np.uint16)
    for _ in range(SENTENCES):
        tokens = rng.integers(dictionary.nspecial, len(dictionary), size=600)
        builder.add_item(torch.tensor([*tokens, dictionary.eos()]))
    builder.finalize(str(folder / "train.idx"))
    vocabulary = Vocabulary.from_symbols(read_symbols(folder), "words")
    keys = np.unique(rng.integers(4, 4 + WORDS, size=(PAIRS, 2)), axis=0).astype(np.int32)
    SynonymTable(
        gold=np.ascontiguousarray(keys[:, 0]),
        synonym=np.ascontiguousarray(keys[:, 1]),
        vocabulary_size=len(vocabulary),
        fingerprint=vocabulary.fingerprint,
        tokenization="words",
        source="random",
    ).save(folder / "synonyms.npz")


def build(data: Path, args: argparse.Namespace, criterion: tuple[str, ...]) -> Trainer:
    """A trainer with its own model, from fairseq-train's own options."""
    command = [str(data), "--user-dir", str(Path(truneg_fairseq.__file__).parent), "--task", "masked_lm", *MODEL]
    command += ["--criterion", *criterion, "--tokens-per-sample", str(args.tokens_per_sample), "--seed", "1"]
    command += ["--batch-size", str(args.batch_size), "--optimizer", "adam", "--lr", "1e-4", "--clip-norm", "1.0"]
    command += {"cpu": ["--cpu"], "cuda": []}[args.device] + {"fp16": ["--fp16"], "fp32": []}[args.precision]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), input_args=command))
    torch.manual_seed(1)
    task = tasks.setup_task(cfg.task)
    return Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))


def batches(trainer: Trainer, count: int) -> list[dict[str, Any]]:
    """The first batches of the training data, masked."""
    iterator = trainer.get_train_iterator(epoch=1).next_epoch_itr(shuffle=False)
    return [sample for sample, _ in zip(iterator, range(count), strict=False)]


def timed_update(trainer: Trainer, sample: dict[str, Any], device: str) -> tuple[float, int]:
    """Seconds of one update, and the most bytes it had allocated (0 on a CPU)."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
    started = time.perf_counter()
    trainer.train_step([sample])
    if device == "cpu":
        return time.perf_counter() - started, 0
    torch.cuda.synchronize()
    return time.perf_counter() - started, torch.cuda.max_memory_allocated() - held


def main() -> None:
    """Measures and prints the table."""
    args = parse()
    truneg_fairseq.register()
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name))
        trainers = {variant: build(Path(name), args, criterion) for variant, criterion in VARIANTS.items()}
        samples = batches(next(iter(trainers.values())), args.warmup + args.updates)
        times: dict[str, list[float]] = {variant: [] for variant in trainers}
        memory = dict.fromkeys(trainers, 0)
        for index, sample in enumerate(samples):
            for variant, trainer in trainers.items():
                seconds, peak = timed_update(trainer, sample, args.device)
                if index >= args.warmup:
                    times[variant].append(seconds)
                    memory[variant] = max(memory[variant], peak)
    where = (
        torch.cuda.get_device_name()
        if args.device == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    print(f"{where}; torch {torch.__version__}; Python {platform.python_version()}; {' '.join(sys.argv)}")
    stock = next(iter(VARIANTS))
    print(f"{'':20}{'ms/update':>10}{'ratio':>8}{'quartiles':>16}{'activations':>13}")
    for variant, seconds in times.items():
        # The ratio of neighbours in time, update by update: what slows the machine down slows both.
        ratios = sorted(own / base for own, base in zip(seconds, times[stock], strict=True))
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        peak = f"{memory[variant] / max(1, memory[stock]):.3f}" if args.device == "cuda" else "-"
        print(
            f"{variant:20}{1000 * statistics.median(seconds):10.1f}{statistics.median(ratios):8.3f}"
            f"{f'{low:.3f}-{high:.3f}':>16}{peak:>13}"
        )


if __name__ == "__main__":
    main()
