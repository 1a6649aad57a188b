"""The texts, the controls and the teacher of little_text.yaml.

    python little_text.py text articles-train.json articles-dev.json --output TEXT
    python little_text.py captions train.en val.en test_2016_flickr.en --output TEXT
    python little_text.py controls DATA-BIN
    python little_text.py teacher SEED-8/model.pt SEED-9/model.pt --output teacher.pt

``text`` takes passages of SQuAD's articles: the files are of different articles, so what is held out has other topics.
``captions`` takes lines of Multi30k's English files: what is held out is of the same kind.
``controls`` writes counts that do not know the context, for ``--corpus-counts``, beside the data.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from truneg_fairseq.corpus_counts import CorpusCounts, Counted, count_tokens
from truneg_fairseq.data.indexed import read_tokens
from truneg_fairseq.data.text import read_lines
from truneg_fairseq.vocabulary import read_symbols

MOST = 64  # words of the controls that know frequencies alone


def passages(file: Path, articles: slice = slice(None)) -> list[str]:
    data = json.loads(file.read_text(encoding="utf-8"))["data"][articles]
    return [" ".join(passage["context"].split()) for article in data for passage in article["paragraphs"]]


def evenly(found: Sequence[str], most: int) -> list[str]:
    """That many, at equal distances."""
    return [found[index * len(found) // most] for index in range(most)]


def write_text(args: argparse.Namespace) -> None:
    """Passages to train on; of every second article of the others to choose the epoch with, and of the rest to test."""
    even, odd = (passages(args.held_out, slice(start, None, 2)) for start in (0, 1))
    write_splits(args.output, {"train": (passages(args.train), args.passages), "valid": (even, 40), "test": (odd, 60)})


def write_captions(args: argparse.Namespace) -> None:
    """Captions of one kind in all splits."""
    sizes = {"train": args.captions, "valid": 320, "test": 640}
    write_splits(args.output, {name: (list(read_lines(getattr(args, name))), size) for name, size in sizes.items()})


def write_splits(output: Path, splits: Mapping[str, tuple[Sequence[str], int]]) -> None:
    """So many of the texts of each split, a blank line behind each."""
    output.mkdir(parents=True, exist_ok=True)
    for split, (found, most) in splits.items():
        chosen = evenly(found, most)
        (output / f"{split}.txt").write_text("".join(f"{text}\n\n" for text in chosen), encoding="utf-8")
        print(f"{split}: {most} texts, {sum(len(text.split()) for text in chosen):,} words")


def shuffled(tokens: NDArray[np.int64], symbols: Sequence[str]) -> CorpusCounts:
    """The counts of the same text with its tokens in random order: as sharp, of no place."""
    return count_tokens([np.random.default_rng(1).permutation(tokens)], symbols)


def frequencies(tokens: NDArray[np.int64], symbols: Sequence[str]) -> CorpusCounts:
    """After each token the most frequent ones, as often as in the whole text."""
    return _anywhere(count_tokens([tokens], symbols), lambda counts: counts)


def alike(tokens: NDArray[np.int64], symbols: Sequence[str]) -> CorpusCounts:
    """After each token the most frequent ones, all alike."""
    many = 1_000_000  # so that neither the discount nor the occurrence left out counts
    return replace(_anywhere(count_tokens([tokens], symbols), lambda counts: np.full_like(counts, many)), discount=1e-3)


def _anywhere(counts: CorpusCounts, of: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> CorpusCounts:
    size = len(counts.words)
    frequent = np.sort(np.argsort(-counts.words, kind="stable")[:MOST])
    there = np.flatnonzero(counts.words)
    keys = (there[:, None] * size + frequent).reshape(-1)
    repeated = np.tile(of(counts.words[frequent]), len(there)).astype(np.int32)
    nothing = Counted(np.empty(0, np.int64), np.empty(0, np.int32))
    return replace(counts, pairs=Counted(keys, repeated), triples=nothing)


CONTROLS = {"shuffled": shuffled, "frequencies": frequencies, "alike": alike}


def write_controls(args: argparse.Namespace) -> None:
    tokens = np.concatenate(list(read_tokens(args.data / "train"))).astype(np.int64)
    for name, control in CONTROLS.items():
        found = control(tokens, read_symbols(args.data))
        found.save(args.data / f"{name}.npz")
        print(f"{args.data / name}.npz: {found.summary}")


def write_teacher(args: argparse.Namespace) -> None:
    """The mean of the weights of models that started from the same one."""
    read = [torch.load(path, map_location="cpu", weights_only=True) for path in args.models]
    mean: dict[str, Any] = read[0]
    for name, tensor in mean["model"].items():
        if tensor.is_floating_point():
            mean["model"][name] = torch.stack([each["model"][name] for each in read]).mean(0)
    torch.save(mean, args.output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("text")
    command.add_argument("train", type=Path, help="SQuAD's JSON of the articles to train on")
    command.add_argument("held_out", type=Path, help="SQuAD's JSON of other articles")
    command.add_argument("--passages", type=int, default=25, help="to train on")
    command.add_argument("--output", type=Path, required=True)
    command.set_defaults(run=write_text)
    command = commands.add_parser("captions")
    for name in ("train", "valid", "test"):
        command.add_argument(name, type=Path, help="lines of Multi30k, unpacked")
    command.add_argument("--captions", type=int, default=320, help="to train on")
    command.add_argument("--output", type=Path, required=True)
    command.set_defaults(run=write_captions)
    command = commands.add_parser("controls")
    command.add_argument("data", type=Path)
    command.set_defaults(run=write_controls)
    command = commands.add_parser("teacher")
    command.add_argument("models", type=Path, nargs="+")
    command.add_argument("--output", type=Path, required=True)
    command.set_defaults(run=write_teacher)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
