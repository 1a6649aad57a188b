"""Time of a training step in transformers with the vocabulary projected at the masked positions, against all positions.

    python benchmarks/projection.py [--steps 7] [--only MiniLM]

Forward and backward of TrueNegativeTrainer's loss (plain masked LM) on random models and random tokens, 15 % of them
masked; both kinds of step take turns on the same batches. No optimizer.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    TrainingArguments,
    default_data_collator,
)

from truneg_fairseq.hf import TrueNegativeTrainer

MASK = 103
# The configuration, and sequences and tokens of a batch.
SHAPES: dict[str, tuple[Any, tuple[int, int]]] = {
    "MiniLM, 24 x 64": (BertConfig(hidden_size=384, num_hidden_layers=6, intermediate_size=1536), (24, 64)),
    "BERT-base, 4 x 128": (BertConfig(), (4, 128)),
    "mmBERT-small, 2 x 128": (
        ModernBertConfig(
            vocab_size=256_000, hidden_size=384, num_hidden_layers=22, num_attention_heads=6, intermediate_size=1152
        ),
        (2, 128),
    ),
}


class Tokenizer:
    """What the trainer asks of a tokenizer."""

    name_or_path, pad_token_id, all_special_tokens, is_fast = "random", 0, ("[PAD]",), False

    def __init__(self, size: int) -> None:
        self._size = size

    def get_vocab(self) -> dict[str, int]:
        return {"[PAD]": 0, **{f"word{index}": index for index in range(1, self._size)}}

    def get_added_vocab(self) -> dict[str, int]:
        return {}


def batch_of(size: tuple[int, int], vocabulary: int, seed: int) -> dict[str, torch.Tensor]:
    """Random tokens, 15 % of them masked."""
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1000, vocabulary, size, generator=random)
    masked = torch.rand(size, generator=random) < 0.15
    return {"input_ids": tokens.masked_fill(masked, MASK), "labels": tokens.masked_fill(~masked, -100)}


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=7, metavar="N", help="default: 7")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--only", default="", metavar="NAME", help="models whose name has this in it (default: all)")
    args = parser.parse_args()
    # On a CPU the time of the process: other work on the machine counts for nothing.
    clock = time.process_time if args.device == "cpu" else time.perf_counter
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {args.device}")
    print(f"{'':22} {'all, ms':>10} {'masked, ms':>10} {'ratio':>7}   largest difference of gradients")
    for name, (config, size) in SHAPES.items():
        if args.only not in name:
            continue
        torch.manual_seed(1)
        config.pad_token_id = 0
        config.architectures = None
        kind = ModernBertForMaskedLM if isinstance(config, ModernBertConfig) else BertForMaskedLM
        for option in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            setattr(config, option, 0.0)
        with tempfile.TemporaryDirectory() as folder:
            settings = TrainingArguments(folder, report_to="none", use_cpu=args.device == "cpu")
            model = kind(config).train()
            words = Tokenizer(config.vocab_size)
            trainer = TrueNegativeTrainer(model, settings, processing_class=words, data_collator=default_data_collator)
        times: dict[bool, list[float]] = {True: [], False: []}
        difference = 0.0
        for step in range(args.steps + 1):
            batch = {key: value.to(args.device) for key, value in batch_of(size, config.vocab_size, step).items()}
            gradients = {}
            for everywhere, measured in times.items():
                model.zero_grad()
                start = clock()
                loss = trainer.compute_loss(model, dict(batch), return_outputs=everywhere)
                (loss[0] if everywhere else loss).backward()
                if args.device != "cpu":
                    torch.cuda.synchronize()
                if step:  # the first warms up
                    measured.append(1000 * (clock() - start))
                else:
                    gradients[everywhere] = [p.grad.clone() for p in model.parameters() if p.grad is not None]
            if gradients:
                pairs = zip(gradients[True], gradients[False], strict=True)
                difference = max(float((one - other).abs().max()) for one, other in pairs)
        every, masked = (statistics.median(times[everywhere]) for everywhere in (True, False))
        print(f"{name:22} {every:10.0f} {masked:10.0f} {every / masked:7.2f}   {difference:.1e}", flush=True)


if __name__ == "__main__":
    main()
