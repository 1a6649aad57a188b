"""What scores are worth that did not become detectors, by the judgements of ``truneg synonyms fit``.

    python docs/results/detectors.py wordnet.npz --data DATA-BIN --judgements swords-v1.1_dev.json.gz --checkpoint PT

A single score ranks the pairs as it is. Several joined by + are the probability that a logistic regression gives the
folds left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from truneg_fairseq import register
from truneg_fairseq.finetuning.run import quiet_fairseq
from truneg_fairseq.results.tables import Table, terminal
from truneg_fairseq.synonyms import SynonymTable

register()

from truneg_fairseq.evaluation.acceptance import judge_scores  # noqa: E402
from truneg_fairseq.evaluation.acceptance_fit import fit_acceptance  # noqa: E402
from truneg_fairseq.evaluation.fairseq_scorer import FairseqMaskedLm  # noqa: E402
from truneg_fairseq.evaluation.judged_pairs import JudgedPairs, scores, states_in_context  # noqa: E402
from truneg_fairseq.evaluation.lexsub_controls import Trained  # noqa: E402
from truneg_fairseq.evaluation.scorer import MaskedLm  # noqa: E402
from truneg_fairseq.evaluation.swords import read_judgements  # noqa: E402
from truneg_fairseq.evaluation.tokens import DataTokens  # noqa: E402

Features = dict[str, Tensor]
NEIGHBOURS = 10
"""Of CSLS."""


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """Shape (N,) of two of shape (N, H)."""
    return functional.cosine_similarity(left.double(), right.double(), dim=-1)


def of_embeddings(pairs: JudgedPairs, model: MaskedLm) -> Iterator[tuple[str, Features]]:
    """Other functions of the input embeddings than their cosine."""
    table = model.embeddings.double()
    gold, candidate = torch.from_numpy(pairs.gold), torch.from_numpy(pairs.candidate)
    yield "dot product", {"dot": (table[gold] * table[candidate]).sum(1)}
    centred = table - table.mean(0)
    yield "centred", {"centred": cosine(centred[gold], centred[candidate])}
    directions = torch.linalg.svd(centred, full_matrices=False).Vh
    for count in (1, 2, 4, 8):
        first = directions[:count]
        rest = centred - centred @ first.T @ first
        yield f"centred, without {count} first directions", {"rest": cosine(rest[gold], rest[candidate])}
    words = functional.normalize(table.float(), dim=1)
    used, where = torch.cat([gold, candidate]).unique(return_inverse=True)
    near = torch.cat([(words[part] @ words.T).topk(NEIGHBOURS + 1).values[:, 1:].mean(1) for part in used.split(512)])
    hubs = near[where].double()
    yield "CSLS", {"csls": 2 * cosine(table[gold], table[candidate]) - hubs[: len(gold)] - hubs[len(gold) :]}


def of_layers(pairs: JudgedPairs, model: MaskedLm, more: Features) -> Iterator[tuple[str, Features]]:
    """Other functions of the states in context than the mean of their cosines."""
    rows: list[Tensor] = []
    distances: list[Tensor] = []
    for _, gold, states in states_in_context(pairs, model):  # in the order of the pairs
        rows.append(functional.cosine_similarity(gold, states, dim=-1).T)
        distances.append((gold[-1] - states[-1]).norm(dim=-1))
    by_layer = torch.cat(rows).double()
    for number, column in enumerate(by_layer.T, 1):
        yield f"layer {number}", {"layer": column}
    mean = by_layer.mean(1)
    yield "all layers (context)", {"context": mean}
    yield "last layer, Euclidean", {"distance": -torch.cat(distances)}
    yield "layer 1 + ... + layer L", {f"layer {number}": column for number, column in enumerate(by_layer.T, 1)}
    yield "embedding+last layer", {"embedding": more["embedding"], "last": by_layer[:, -1]}
    yield "embedding+context", {"embedding": more["embedding"], "context": mean}
    yield "table+embedding+context", {**more, "context": mean}
    share = np.bincount(pairs.target, pairs.accepted) / np.bincount(pairs.target)
    yield "context+the target's true rate", {"context": mean, "rate": torch.from_numpy(share[pairs.target])}


def of_head(pairs: JudgedPairs, model: MaskedLm, more: Features) -> Iterator[tuple[str, Features]]:
    """What the prediction head gives the candidate where the model reads the gold word."""
    visible = torch.empty(len(pairs), dtype=torch.double)
    for index, row in Trained(model).rows(pairs.places, None):
        mine = np.flatnonzero(pairs.target == index)
        visible[torch.from_numpy(mine)] = torch.from_numpy(row[pairs.candidate[mine]]).double()
    yield "visible", {"visible": visible}
    yield "embedding+visible", {"embedding": more["embedding"], "visible": visible}


def row_of(name: str, features: Mapping[str, Tensor], pairs: JudgedPairs, cuts: tuple[int, int]) -> tuple[str, ...]:
    """A line of the table."""
    only = next(iter(features.values())).numpy()
    score = only if len(features) == 1 else fit_acceptance(pairs, features, {}).out_of_fold
    judged = judge_scores(pairs, score, cuts, samples=0)
    return (
        name,
        *(
            f"{100 * each.mean:.1f}"
            for each in (judged.average_precision, judged.area, *(judged.precision[cut] for cut in cuts))
        ),
    )


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, metavar="NPZ")
    parser.add_argument("--data", type=Path, required=True, metavar="DATA-BIN")
    parser.add_argument("--judgements", type=Path, required=True, metavar="JSON")
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="PT")
    groups = ("embeddings", "layers", "head")
    parser.add_argument("--groups", nargs="+", choices=groups, default=groups, help="default: all")
    args = parser.parse_args()
    pairs = JudgedPairs.of(read_judgements(args.judgements), DataTokens(args.data))
    quiet_fairseq()
    model, table = FairseqMaskedLm(args.checkpoint, args.data, cpu=True), SynonymTable.load(args.table)
    more = scores(pairs, ("table", "embedding"), model=model, table=table)
    listed = int(pairs.listed(table).sum())
    cuts = (listed, listed // 2)
    found: list[tuple[str, Features]] = [("embedding", {"embedding": more["embedding"]})]
    if "embeddings" in args.groups:
        found += of_embeddings(pairs, model)
    if "layers" in args.groups:
        found += of_layers(pairs, model, more)
    if "head" in args.groups:
        found += of_head(pairs, model, more)
    head = ("", "AP", "AUC", *(f"accepted at {cut:,}" for cut in cuts))
    rows = tuple(row_of(name, features, pairs, cuts) for name, features in found)
    print("\n".join(terminal(Table("Scores, in %", head, rows))))


if __name__ == "__main__":
    main()
