"""Does a gain of --target-smoothing-embedding in lexical substitution go beyond the neighbours that it taught?

    python docs/results/taught_neighbours.py minilm.pt --data DATA-BIN --judgements swords-v1.1_dev.json.gz \\
        --arm baseline 1/model.pt 2/model.pt --arm uniform 1/model.pt 2/model.pt --arm embedding 1/model.pt 2/model.pt

The first checkpoint is the one that was continued: what is taught are its ten nearest input embeddings of each token.
R@10 with the target kept, the people's candidates, as a sum of two parts: by taught words and by others. Mean over the
seeds of an arm; differences to the first two arms with 95 % intervals over targets. The figures are in
docs/results/alternatives.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import truneg_fairseq
from truneg_fairseq.evaluation.fairseq_scorer import FairseqMaskedLm
from truneg_fairseq.evaluation.lexsub import Benchmark
from truneg_fairseq.evaluation.lexsub_controls import EmbeddingCosine, Predictor, Trained
from truneg_fairseq.evaluation.swords import read_judgements
from truneg_fairseq.evaluation.tokens import DataTokens
from truneg_fairseq.objectives.soft_targets import embedding_targets
from truneg_fairseq.results.intervals import Ratio
from truneg_fairseq.synonyms import SynonymTable

METRICS = ("recall_at_10", "recall_at_10_listed", "recall_at_10_others")


def taught_table(embeddings: Tensor, fingerprint: str) -> SynonymTable:
    """The words that the objective gives a share to, of each token; embeddings have the shape (V, E)."""
    gold = torch.arange(len(embeddings))
    words = embedding_targets(embeddings, gold, torch.ones_like(gold, dtype=torch.bool), 0.1).tokens.sort().values
    return SynonymTable(
        gold=gold.repeat_interleave(words.size(1)).int().numpy(),
        synonym=words.flatten().int().numpy(),
        vocabulary_size=len(words),
        fingerprint=fingerprint,
        tokenization="auto",
        source="nearest input embeddings",
    )


def measured(benchmark: Benchmark, predictor: Predictor) -> list[Ratio]:
    """METRICS of one model, over targets."""
    metrics = benchmark.evaluate(predictor, ["kept"]).metrics["kept", "people"]
    return [metrics[name] for name in METRICS]


def mean_over_seeds(seeds: list[list[Ratio]]) -> list[Ratio]:
    """Of each metric; what it is defined on depends on no model."""
    return [Ratio(np.mean([r.numerators for r in of], 0), of[0].denominators) for of in zip(*seeds, strict=True)]


def main() -> None:
    """Measures all arms and prints a line for each, and its differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=Path, help="the fairseq checkpoint that all arms continue")
    parser.add_argument("--data", type=Path, required=True, help="folder of binarized data")
    parser.add_argument("--judgements", type=Path, required=True, help="SWORDS")
    parser.add_argument("--arm", nargs="+", action="append", required=True, metavar="WORD", help="name, checkpoints")
    args = parser.parse_args()
    truneg_fairseq.register()
    tokens = DataTokens(args.data)
    start = FairseqMaskedLm(args.start, args.data, cpu=True)
    table = taught_table(start.embeddings, tokens.vocabulary.fingerprint)
    benchmark = Benchmark(read_judgements(args.judgements), tokens, [table])
    found = {}
    for name, *paths in args.arm:
        models = (FairseqMaskedLm(Path(path), args.data, cpu=True) for path in paths)
        found[name] = mean_over_seeds([measured(benchmark, Trained(model)) for model in models])
    found["cosine at the start"] = measured(benchmark, EmbeddingCosine(start.embeddings))
    for name, ratios in found.items():
        print(name, *(f"{100 * ratio.value:.2f}" for ratio in ratios))
        for other in list(found)[:2]:
            gains = [ratio.interval(base) for ratio, base in zip(ratios, found[other], strict=True)]
            print("  to", other, *(f"{100 * i.mean:+.2f} [{100 * i.low:+.2f}, {100 * i.high:+.2f}]" for i in gains))


if __name__ == "__main__":
    main()
