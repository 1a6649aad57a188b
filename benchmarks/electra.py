"""An update of ELECTRA-small's pre-training, against the same step composed of Hugging Face transformers' models.

    python benchmarks/electra.py [--precision bf16] [--device cuda --batch-size 128] [--updates 20]

The other step is what a user would write: ElectraForMaskedLM's and ElectraForPreTraining's parts with shared
embeddings, logits at the masked positions only, replacements drawn with torch.multinomial, clipping and a fused AdamW;
in bf16 under autocast. Sizes, data, batches, dropout and loss are the same (tests/convert/test_parity.py has the two
steps agree). Speed is in real tokens, padding not counted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from steps import (
    Step,
    add_arguments,
    build_trainer,
    first_batches,
    floors,
    print_table,
    step_of,
    take_turns,
    where,
    write_data,
)
from torch import Tensor, nn
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

import truneg_fairseq

VOCABULARY, PADDING, DISCRIMINATOR_WEIGHT = 30_522, 1, 50.0
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "embedding_size": 128,
    "num_hidden_layers": 12,
    "pad_token_id": PADDING,
    "max_position_embeddings": 512,
}
TASK = ("--task", "electra_pretraining", "--arch", "electra_small", "--optimizer", "electra_adam")
VARIANTS: dict[str, tuple[str, ...]] = {
    "truneg_fairseq": (),
    "truneg_fairseq, HC": ("--hc-weight", "1"),
    "truneg_fairseq, HC + SR-word": ("--hc-weight", "1", "--sr-word-weight", "1"),
    "truneg_fairseq, SR-sent": ("--sr-sent-weight", "1"),
}
RECORDED = {f"{name}, recorded": (*flags, "--cuda-graphs") for name, flags in VARIANTS.items()}  # on a GPU


class Composed(nn.Module):
    """transformers' generator and discriminator."""

    def __init__(self) -> None:
        super().__init__()
        generator = ElectraConfig(**SMALL, hidden_size=64, intermediate_size=256, num_attention_heads=1)
        discriminator = ElectraConfig(**SMALL, hidden_size=256, intermediate_size=1024, num_attention_heads=4)
        self.generator = ElectraForMaskedLM(generator)
        self.discriminator = ElectraForPreTraining(discriminator)
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.generator_lm_head.weight = self.discriminator.electra.embeddings.word_embeddings.weight

    def forward(self, tokens: Tensor, target: Tensor, attended: Tensor | None) -> Tensor:
        """The loss of a batch: tokens and target of shape (B, T), as masked_lm has them."""
        masked = target.ne(PADDING)
        hidden = self.generator.electra(tokens, attention_mask=attended).last_hidden_state[masked]
        logits = self.generator.generator_lm_head(self.generator.generator_predictions(hidden))
        loss = F.cross_entropy(logits.float(), target[masked])
        sampled = torch.multinomial(logits.detach().float().softmax(-1), 1).squeeze(1)
        original = torch.where(masked, target, tokens)
        replaced = original.masked_scatter(masked, sampled)
        scores = self.discriminator(replaced, attention_mask=attended).logits.float()
        real = original.ne(PADDING)
        detection = F.binary_cross_entropy_with_logits(scores[real], replaced.ne(original)[real].float())
        return loss + DISCRIMINATOR_WEIGHT * detection


def composed_step(device: str, precision: str) -> Step:
    """One update of the composed models."""
    torch.manual_seed(1)
    model = Composed().to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, eps=1e-6, weight_decay=0.01, fused=True)

    def step(sample: dict[str, Any]) -> float:
        tokens, target = (part.to(device) for part in (sample["net_input"]["src_tokens"], sample["target"]))
        attended = tokens.ne(PADDING).long() if sample["net_input"]["padded"] else None
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            loss = model(tokens, target, attended)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss)

    return step


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, batch_size=16, precisions=("fp32", "bf16"))
    args = parser.parse_args()
    truneg_fairseq.register()
    base = "transformers, composed"
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name))
        trainers = {
            variant: build_trainer(Path(name), args, *TASK, "--criterion", "electra", *flags)
            for variant, flags in (VARIANTS | RECORDED if args.device == "cuda" else VARIANTS).items()
        }
        samples = first_batches(next(iter(trainers.values())), args.warmup + args.updates)
        steps = {base: composed_step(args.device, args.precision)}
        steps |= {variant: step_of(trainer) for variant, trainer in trainers.items()}
        times = take_turns(steps, samples, args)
        floor = floors(steps, samples[0], args)
    print(where(args.device))
    tokens = statistics.mean(sample["ntokens"] for sample in samples)
    places = statistics.mean(sample["target"].numel() for sample in samples)
    print(f"{tokens:.0f} tokens a batch, {100 * (1 - tokens / places):.1f} % of its places are padding")
    speed = {
        name: f"{tokens / statistics.median(one.seconds for one in measured):,.0f}" for name, measured in times.items()
    }
    print_table(times, base, {"tokens/s": speed, "floor, ms": floor}, faster=True)


if __name__ == "__main__":
    main()
