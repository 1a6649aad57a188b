"""Bag-of-words baselines of GLUE's tasks: TF-IDF features of words and pairs of words with a linear model.

A pair of sentences has the features of both, those that they share, and the cosine of the two. They are trained on
the official training sets and scored on the official dev sets, with the metrics of ``truneg finetune``:

    python docs/results/glue_bag_of_words.py --glue-dir GLUE --tasks CoLA SST-2 MRPC STS-B RTE
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.finetuning.glue import TASKS, Glue, GlueSplit, read_split
from truneg_fairseq.flags import option


@dataclass(frozen=True, kw_only=True)
class Options:
    glue_dir: Path = option(help="official files, a folder per task", metavar="DIR")
    tasks: list[str] = option(default_factory=lambda: list(TASKS), help="all eight", metavar="TASK")


def bag_of_words(options: Options) -> None:
    """Print the metrics of each task in percent, of the baseline and of the constant prediction."""
    print(f"{'task':8}{'metric':12}{'bag of words':>14}{'constant':>10}")
    for task in (TASKS[name] for name in options.tasks):
        name = task.name
        splits = {
            split: read_split(task, split, path) for split, path in task.find_files([options.glue_dir / name]).items()
        }
        for metric, (found, constant) in measure(task, splits["train"], splits["valid"]).items():
            print(f"{name:8}{metric:12}{100 * found:14.2f}{100 * constant:10.2f}", flush=True)


def measure(task: Glue, train: GlueSplit, valid: GlueSplit) -> dict[str, tuple[float, float]]:
    """By metric, the baseline's value on ``valid`` and that of the most frequent class (or the mean score)."""
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    vectorizer.fit([text for texts in train.texts for text in texts])
    features, unseen = _features(vectorizer, train), _features(vectorizer, valid)
    if task.regression:
        scores, expected = (np.array(split.labels, dtype=float) for split in (train, valid))
        answers, constant = Ridge().fit(features, scores).predict(unseen), scores.mean()
    else:
        labels, expected = (np.array([task.labels.index(x) for x in split.labels or ()]) for split in (train, valid))
        answers = LogisticRegression(max_iter=2_000).fit(features, labels).predict(unseen)
        constant = np.bincount(labels).argmax()
    found, least = (task.score(each, expected)["metrics"] for each in (answers, np.full(len(valid), constant)))
    return {metric: (found[metric], least[metric]) for metric in found}


def _features(vectorizer: TfidfVectorizer, split: GlueSplit) -> Any:
    sides = [vectorizer.transform(texts) for texts in split.texts]
    if len(sides) == 1:
        return sides[0]
    shared = sides[0].minimum(sides[1])
    cosine = sparse.csr_matrix(sides[0].multiply(sides[1]).sum(axis=1))
    return sparse.hstack([*sides, shared, cosine]).tocsr()


if __name__ == "__main__":
    run_as_script(bag_of_words)
