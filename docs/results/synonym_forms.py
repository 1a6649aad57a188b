"""What the source "inflected" drops from WordNet's table and adds to it, in numbers and in random examples.

    python docs/results/synonym_forms.py --vocabulary vocab.txt

The vocabulary is a file of one token a line (BERT's vocab.txt). docs/start/synonyms.md judges the examples of seed 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from truneg_fairseq.synonyms import build_table, open_lexicon
from truneg_fairseq.synonyms.table import compare_tables, sample_pairs
from truneg_fairseq.synonyms.wordnet import PARTS_OF_SPEECH, WordNetDatabase, open_database
from truneg_fairseq.vocabulary import Vocabulary


def read_vocabulary(path: Path) -> Vocabulary:
    """The tokens of the file."""
    return Vocabulary.from_symbols([line for line in path.read_text(encoding="utf-8").splitlines() if line])


def describe(
    title: str, pairs: NDArray[np.int32], words: list[str], database: WordNetDatabase, args: argparse.Namespace
) -> None:
    """Prints the number of pairs and keys, how many have a gold word that is an inflected form only, and examples."""
    inflected = sum(not any(database.synsets(words[gold], pos) for pos in PARTS_OF_SPEECH) for gold in pairs[:, 0])
    keys = len(np.unique(pairs[:, 0]))
    print(f"{title}: {len(pairs)} pairs over {keys} keys, {inflected} of a gold word that is not a lemma")
    for gold, synonym in sample_pairs(pairs, args.examples, args.seed):
        print(f"  {words[gold]} -> {words[synonym]}")


def main() -> None:
    """Builds both tables and prints where they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=Path, required=True, help="file with one token per line")
    parser.add_argument("--examples", type=int, default=50, metavar="N", help="pairs of each kind")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    vocabulary = read_vocabulary(args.vocabulary)
    words = [word or "" for word in vocabulary.words]
    tables = {source: build_table(open_lexicon(source), vocabulary) for source in ("wordnet", "inflected")}
    for source, table in tables.items():
        print(f"{source}: {len(table)} pairs over {len(set(table.gold.tolist()))} keys")
    both, dropped, added = compare_tables(tables["wordnet"], tables["inflected"])
    database = open_database()
    describe("kept", both, words, database, argparse.Namespace(examples=0, seed=args.seed))
    describe("dropped", dropped, words, database, args)
    describe("added", added, words, database, args)


if __name__ == "__main__":
    main()
