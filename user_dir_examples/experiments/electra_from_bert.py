r"""Makes an ELECTRA out of a BERT: both sides begin with its embeddings and its first layers.

    python electra_from_bert.py BERT-DIR ELECTRA-DIR [--generator-layers 2] [--discriminator-layers 4]
    truneg convert ELECTRA-DIR/discriminator electra.pt --generator ELECTRA-DIR/generator --data DATA-BIN

BERT-DIR and the output are Hugging Face folders; needs pip install '.[hf]'. The head of the generator starts as the
identity, as convert starts a missing one, and the head of the discriminator at random, with the same values each time.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import torch
from torch import nn
from transformers import BertModel, ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining, ElectraPreTrainedModel


def main() -> None:
    """Reads the BERT and writes both folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bert", type=Path, metavar="BERT-DIR")
    parser.add_argument("electra", type=Path, metavar="ELECTRA-DIR")
    parser.add_argument("--generator-layers", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--discriminator-layers", type=int, default=4, metavar="N", help="default: 4")
    args = parser.parse_args()
    bert = BertModel.from_pretrained(args.bert, add_pooling_layer=False)
    most = bert.config.num_hidden_layers
    for flag in ("generator_layers", "discriminator_layers"):
        if not 1 <= getattr(args, flag) <= most:
            sys.exit(f"--{flag.replace('_', '-')}: found {getattr(args, flag)}, expected 1 to {most}, as the BERT has")
    torch.manual_seed(1)
    generator = begin_with(bert, ElectraForMaskedLM, args.generator_layers)
    nn.init.eye_(generator.generator_predictions.dense.weight)
    nn.init.zeros_(generator.generator_predictions.dense.bias)
    discriminator = begin_with(bert, ElectraForPreTraining, args.discriminator_layers)
    for model, name in ((generator, "generator"), (discriminator, "discriminator")):
        model.save_pretrained(args.electra / name)
        shutil.copy(args.bert / "vocab.txt", args.electra / name)


def begin_with(bert: BertModel, kind: type[ElectraPreTrainedModel], layers: int) -> ElectraPreTrainedModel:
    """A model of a kind with BERT's embeddings and its first layers; what it has beyond them is new."""
    config = bert.config
    model = kind(
        ElectraConfig(
            vocab_size=config.vocab_size,
            embedding_size=config.hidden_size,
            hidden_size=config.hidden_size,
            num_hidden_layers=layers,
            num_attention_heads=config.num_attention_heads,
            intermediate_size=config.intermediate_size,
            max_position_embeddings=config.max_position_embeddings,
        )
    )
    wanted = model.electra.state_dict()
    model.electra.load_state_dict({name: value for name, value in bert.state_dict().items() if name in wanted})
    return model


if __name__ == "__main__":
    main()
