"""Trains a masked LM in a plain PyTorch loop, from a text file to a curve of the loss: the whole method on one page.

    python user_dir_examples/own_loop/train.py train.txt --folder out --hc-weight 1

Words are split at spaces and punctuation. ``out`` gets the dictionary, the synonym table (from WordNet, unless
``--synonym-table`` names another) and ``loss.csv``. The two lines that differ from plain training are marked.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor, nn

from truneg_fairseq import TrueNegativeLoss
from truneg_fairseq.data.text import read_lines
from truneg_fairseq.errors import one_line_errors
from truneg_fairseq.vocabulary import read_symbols

LENGTH, BATCH, WIDTH = 32, 16, 64  # words of an example, examples of an update, size of the hidden states
MASK_PROBABILITY = 0.15


class MaskedLM(nn.Module):
    """A small Transformer encoder whose output layer has the weights of its input embeddings."""

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        for table in (self.words, self.positions):  # neither may drown the other
            nn.init.normal_(table.weight, std=0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def forward(self, tokens: Tensor, masked: Tensor) -> Tensor:
        """Logits of shape (N, V), at the N positions where ``masked``, shape (B, T), is true."""
        states = self.layers(self.words(tokens) + self.positions.weight[: tokens.size(1)])
        return states[masked] @ self.words.weight.T + self.bias


def read_words(text: Path, folder: Path, rarest: int = 2) -> tuple[Tensor, list[str]]:
    """The text as token ids, int64, shape (T,), and the symbols; writes the dictionary in fairseq's format."""
    words = re.findall(r"\w+|[^\w\s]", "\n".join(read_lines(text)).lower())
    counts = [(word, count) for word, count in Counter(words).most_common() if count >= rarest]
    dictionary = folder / "dict.txt"
    dictionary.write_text("".join(f"{word} {count}\n" for word, count in counts), encoding="utf-8")
    symbols = read_symbols(dictionary)
    number = {symbol: index for index, symbol in enumerate(symbols)}
    return torch.tensor([number.get(word, number["<unk>"]) for word in words]), symbols


def entropy_of(tokens: Tensor) -> float:
    """The loss of a model that knows the frequencies of the words and nothing else, in nats."""
    frequencies = tokens.bincount().double() / len(tokens)
    return float(torch.special.entr(frequencies).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("own_loop"))
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--hc-weight", type=float, default=0.0)
    parser.add_argument("--soft-targets", help="such as table=0.1")
    parser.add_argument("--synonym-table", default=None)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    args.folder.mkdir(parents=True, exist_ok=True)
    tokens, symbols = read_words(args.text, args.folder)
    if len(tokens) <= LENGTH:
        parser.error(f"{args.text}: found {len(tokens)} words, expected more than {LENGTH}")
    print(f"expect a loss of {math.log(len(symbols)):.2f} at first (the logarithm of {len(symbols):,} words)", end="")
    print(f", {entropy_of(tokens):.2f} once the model knows how frequent each word is, then less")

    model = MaskedLM(len(symbols))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = TrueNegativeLoss.for_dictionary(  # in place of nn.CrossEntropyLoss()
        args.folder / "dict.txt",
        tokenization="words",
        hc_weight=args.hc_weight,
        soft_targets=args.soft_targets,
        synonym_table=args.synonym_table,
    )
    with (args.folder / "loss.csv").open("w", newline="", encoding="utf-8") as stream:
        curve = csv.writer(stream)
        for update in range(1, args.updates + 1):
            starts = torch.randint(len(tokens) - LENGTH, (BATCH, 1))
            original = tokens[starts + torch.arange(LENGTH)]
            masked = torch.rand(original.shape) < MASK_PROBABILITY
            logits = model(original.masked_fill(masked, symbols.index("<mask>")), masked)
            loss = loss_fn(logits, original[masked], embeddings=model.words.weight)  # for synonyms: near ones get more
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if update == 1 or update % 20 == 0 or update == args.updates:
                measured = {"update": float(update), **loss_fn.metrics()}
                if update == 1:
                    curve.writerow(measured)
                curve.writerow(measured.values())
                print("  ".join(f"{name} {value:.4g}" for name, value in measured.items()), flush=True)


if __name__ == "__main__":
    with one_line_errors():
        main()
