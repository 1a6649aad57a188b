"""Held-out text: loss, accuracy, calibration and false negatives (Table 2) of a masked LM, the same masks for each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from ..data.indexed import require_whole_split
from ..data.text import read_lines
from ..errors import TrueNegError
from ..files import file_digest
from ..objectives import MaskedPredictions, Objective, TrueNegativeOptions
from ..objectives.build import BITS as NATS_TO_BITS
from ..objectives.false_negatives import acceptance_model
from ..objectives.options import TABLE
from ..objectives.soft_targets import embedding_cosine
from ..results.intervals import Ratio
from ..results.result import BITS, HELD_OUT, Example, Metric
from ..results.tables import HELD_OUT_NOTE
from ..synonyms import SynonymTable
from ..synonyms.building import provide_exclusions
from ..workers import Progress
from .models import OpenedModel
from .scorer import Scorer, Tokens
from .yardstick import Measured, Scores, Task, Yardstick

BINS = 15  # of confidence, of equal width, as in Guo et al. (ICML 2017)
EXAMPLES = 10
_LONGEST = 512  # tokens of a sample of a text, where the models have so many positions
_FIT_EVERY = 4  # samples, of which the last chooses the share of counts
_PARAGRAPHS = 1000  # encoded at a time

Batch = tuple[Tensor, Tensor, Tensor]
"""Masked samples: tokens and target as :meth:`.scorer.Scorer.judge` takes them, int64, (B, T), and lengths, (B,)."""


class HeldOut(Yardstick):
    """A split of ``--data``, cut and masked as the task of the last checkpoint says (a converted checkpoint has
    no sample length), or for Hugging Face's folders the running text of a file, in which a blank line ends a sample.
    """

    _longest = 0  # tokens of a sample of a text, the same for all models
    _samples = 0  # of a split, as many for all models
    metrics: ClassVar[Mapping[str, Metric]] = {
        BITS: Metric("bits", False, BITS),
        "accuracy": Metric("accuracy", True),
        "ece": Metric("ECE", False),
        "hc_pred": Metric("Pred."),
        "hc_iter": Metric("Iter."),
    }
    notes = HELD_OUT_NOTE

    def __init__(self, task: Task, tokens: Tokens, last: OpenedModel) -> None:
        super().__init__(task, tokens, last)
        self._source = str(self._file)
        self.described = f"{HELD_OUT}: {(tokens.folder or Path()) / self._source}"
        if tokens.folder is None:
            if not Path(self._source).is_file():
                raise TrueNegError(
                    f"--task held-out={self._source}: no such file; expected the text for Hugging Face's models"
                )
            self.sha256 = file_digest(Path(self._source))
        self._judge = judge_of(tokens, task.synonym_table)
        self._excluded = exclusions(tokens)

    def score(self, scorer: Scorer) -> dict[str, Scores]:
        parts, confidences, found = list[Tensor](), list[Tensor](), FalseNegatives(self._tokens, self._excluded)
        for batch in Progress(self._batches(scorer), desc=scorer.path.name, unit="batch", leave=False):
            judged, _ = scorer.judge(self._judge, *batch)
            counts, bins = count(judged)
            parts.append(counts)
            confidences.append(bins)
            found.add(judged, batch[2], scorer)
        self._require(parts, "a longer text: no sample is left to judge")
        masked, correct, corrected, loss = torch.cat(parts, dim=1).numpy()
        ratios = {
            BITS: Ratio(loss * NATS_TO_BITS, masked),
            "accuracy": Ratio(correct, masked),
            "ece": calibration_error(torch.cat(confidences).numpy(), masked),
            "hc_pred": Ratio(corrected, masked - correct),
            "hc_iter": Ratio((corrected > 0).astype(np.float64), np.ones(len(masked))),
        }
        facts = {"masked": int(masked.sum()), "sequences": len(masked), "updates": scorer.updates}
        return {HELD_OUT: Scores(ratios, (), {**facts, **found.facts()})}

    def samples_to_fit(self, scorer: Scorer) -> Iterable[Batch]:
        return self._batches(scorer, judged=False) if self._task.fits else ()

    def _batches(self, scorer: Scorer, *, judged: bool = True) -> Iterator[Batch]:
        """All samples, or if some choose the share of counts, these or the others."""
        first = 0
        folder = self._tokens.folder
        for batch in self._of_text(scorer) if folder is None else self._of_split(folder, scorer):
            numbers, first = torch.arange(first, first + len(batch[0])), first + len(batch[0])
            chosen = numbers.remainder(_FIT_EVERY).eq(_FIT_EVERY - 1).ne(judged) if self._task.fits else numbers.ge(0)
            if chosen.any():
                tokens, target, lengths = (part[chosen] for part in batch)
                yield tokens, target, lengths

    def _of_split(self, data: Path, scorer: Scorer) -> Iterator[Batch]:
        from fairseq import utils

        from ..models.loading import load_task

        split, read = self._source, self._last.checkpoint
        assert read is not None
        require_whole_split(data / split)
        task = load_task(read, data, self._task.mask_seed)
        try:
            task.load_dataset(split)
        except FileNotFoundError:
            raise TrueNegError(
                f"--task held-out={split}: {data} has no such split; expected one that was binarized, such as valid"
            ) from None
        batches = task.get_batch_iterator(
            dataset=task.dataset(split),
            max_sentences=self._task.batch_size,
            max_positions=utils.resolve_max_positions(task.max_positions(), scorer.longest),
            ignore_invalid_inputs=True,
        )
        samples = sum(map(len, batches.frozen_batches))
        self._require(range(samples), f"samples of at most {scorer.longest} tokens")
        self._samples = self._samples or samples
        if samples != self._samples:
            raise TrueNegError(
                f"{scorer.path}: reads {scorer.longest} tokens and so {samples:,} samples of {split}, the model before "
                f"{self._samples:,}; name the model that reads the fewest tokens last: samples are then cut for it"
            )
        for sample in batches.next_epoch_itr(shuffle=False):
            tokens = sample["net_input"]["src_tokens"]
            largest, size = max(int(tokens.max()), int(sample["target"].max())), len(self._tokens.vocabulary)
            if largest >= size:  # an index error otherwise, on a GPU one of CUDA's
                raise TrueNegError(
                    f"{data / split}.bin: has the id {largest:,}, but the dictionary {size:,} symbols; the data are "
                    "damaged or of another dictionary; binarize them again"
                )
            yield tokens, sample["target"], tokens.ne(self._tokens.padding).sum(1)

    def _of_text(self, scorer: Scorer) -> Iterator[Batch]:
        """The masks of a sample depend on the seed and on its place in the text, whatever the size of a batch."""
        from ..hf.collator import DataCollatorForTrueNegatives
        from .hf_scorer import HuggingFaceTokens

        assert isinstance(self._tokens, HuggingFaceTokens)
        longest = self._longest = self._longest or min(_LONGEST, scorer.longest)
        if scorer.longest < longest:
            raise TrueNegError(f"{scorer.path}: reads {scorer.longest} tokens, others more; name it first")
        padding, size = self._tokens.padding, self._task.batch_size
        collator = DataCollatorForTrueNegatives(self._tokens.tokenizer)
        seed = 1 if self._task.mask_seed is None else self._task.mask_seed
        samples = list[Tensor]()
        for text in documents(read_lines(Path(self._source))):
            (tokens,) = self._tokens.encode_batch([text])
            cuts = range(0, len(tokens), longest - 2)
            samples += [torch.from_numpy(self._tokens.framed(tokens[at : at + longest - 2])) for at in cuts]
        for start in range(0, len(samples), size):
            batch = enumerate(samples[start : start + size], start)
            masked = [collator.mask(sample[None], [seed, number], progress=1.0) for number, sample in batch]
            sources, labels = ([row[0] for row in rows] for rows in zip(*masked, strict=True))
            target = pad_sequence(labels, batch_first=True, padding_value=-100)
            yield (
                pad_sequence(sources, batch_first=True, padding_value=max(padding, 0)),
                target.masked_fill(target.lt(0), padding),
                torch.tensor([len(row) for row in sources]),
            )


def documents(lines: Iterable[str]) -> Iterator[str]:
    """The text between blank lines; a long document in several parts."""
    for full, document in itertools.groupby(map(str.strip, lines), key=bool):
        paragraphs = list(document) if full else []
        for start in range(0, len(paragraphs), _PARAGRAPHS):
            yield " ".join(paragraphs[start : start + _PARAGRAPHS])


def judge_of(tokens: Tokens, synonym_table: Path | None, detector: str = TABLE) -> Objective:
    """Hard correction with a detector; its ``table`` is None where it needs none."""
    given = str(synonym_table) if synonym_table and TABLE in detector.split("+") else None
    options = TrueNegativeOptions(hc_weight=1.0, hc_detector=detector, synonym_table=given)
    return Objective(options, tokens.setting(options))


def exclusions(tokens: Tokens) -> SynonymTable | None:
    """Other forms of the same word, antonyms and the like, which are no examples; None without WordNet."""
    try:
        return provide_exclusions(tokens.vocabulary, tokens.tables)
    except TrueNegError:
        return None


def flaw_of(gold: int, prediction: int, tokens: Tokens, excluded: SynonymTable | None) -> str:
    """Why people would not accept a prediction that an objective marks; "" for one that they may accept."""
    if not tokens.is_word[[gold, prediction]].all():
        return "not a word for another word"
    if excluded is not None and prediction in excluded.synonyms(gold):
        return f"{tokens.vocabulary.name_of(prediction)!r} is another form of the same word, or its opposite"
    return ""


def count(judged: MaskedPredictions) -> tuple[Tensor, Tensor]:
    """Of each sequence, float64: masked tokens, right ones, corrected ones and the loss in nats, shape (4, B); and by
    bin of confidence the sum of confidence - rightness, shape (B, BINS).
    """
    assert judged.is_false_negative is not None
    rows, width = judged.original.size()
    right = judged.prediction.eq(judged.gold) & judged.counted
    loss = functional.cross_entropy(judged.logits.float(), judged.gold, reduction="none") * judged.counted
    columns = torch.stack([part.double() for part in (judged.counted, right, judged.is_false_negative, loss)])
    place = torch.div(judged.positions, width, rounding_mode="floor")
    confidence = judged.logits.float().softmax(-1).amax(-1) if len(judged.gold) else judged.gold.float()
    bins = bin_of(confidence)
    over = confidence.new_zeros(rows * BINS, dtype=torch.float64)
    over.index_add_(0, place * BINS + bins, (confidence.double() - right.double()) * judged.counted)
    return columns.new_zeros(len(columns), rows).index_add_(1, place, columns).cpu(), over.view(rows, BINS).cpu()


def bin_of(confidence: Tensor) -> Tensor:
    """The bin ((i - 1) / BINS, i / BINS] of each probability, int64, shape (N,)."""
    return (confidence.double() * BINS).ceil().long().sub(1).clamp(0, BINS - 1)


def calibration_error(over: NDArray[np.float64], masked: NDArray[np.float64]) -> Ratio:
    """The mean over predictions of the distance of confidence and accuracy of their bin, in [0, 1]; ``over`` has the
    shape (S, BINS), see :func:`count`, and ``masked`` (S,).
    """
    return Ratio(over @ np.sign(over.sum(axis=0)), masked)


@dataclass
class FalseNegatives:
    """Those of a text: how often each pair, and an example of each that people could accept."""

    tokens: Tokens
    excluded: SynonymTable | None
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    examples: list[Example] = field(default_factory=list)

    def add(self, judged: MaskedPredictions, lengths: Tensor, scorer: Scorer) -> None:
        """Those of a batch. Examples are of two words, neither forms of one word nor opposites."""
        assert judged.is_false_negative is not None
        rows = judged.is_false_negative.nonzero().squeeze(1)
        gold, prediction, positions = judged.gold[rows], judged.prediction[rows], judged.positions[rows].tolist()
        chances = acceptance(scorer.embeddings, gold, prediction).tolist()
        probabilities = judged.logits[rows].float().softmax(-1)
        for index, pair in enumerate(zip(gold.tolist(), prediction.tolist(), strict=True)):
            self.pairs[pair] += 1
            if self.pairs[pair] > 1 or flaw_of(*pair, self.tokens, self.excluded):
                continue
            row, place = divmod(positions[index], judged.original.size(1))
            before, after = self.tokens.in_sentence(judged.original[row, : int(lengths[row])].tolist(), place)
            word, predicted = map(self.tokens.vocabulary.name_of, pair)
            one, other = probabilities[index, list(pair)].tolist()
            self.examples.append(Example(before, word, predicted, after, one, other, chances[index]))

    def facts(self) -> dict[str, Any]:
        """For a result line: the most frequent pairs, and the examples that people would accept most."""
        pairs = [
            (*map(self.tokens.vocabulary.name_of, pair), times) for pair, times in self.pairs.most_common(EXAMPLES)
        ]
        best = sorted(self.examples, key=lambda example: -example.acceptance)[:EXAMPLES]
        return {"false_negatives": self.pairs.total(), "pairs": pairs, "examples": [*map(asdict, best)]}


def acceptance(embeddings: Tensor, gold: Tensor, prediction: Tensor) -> Tensor:
    """The probability that people accept each word for another, by the cosine of their input embeddings, shape (N,)."""
    return acceptance_model(["embedding"]).probability({"embedding": embedding_cosine(embeddings, gold, prediction)})


def examples_of(found: Measured) -> list[str]:
    """False negatives in their sentences, each as one line for a terminal."""
    facts = found.scores[HELD_OUT].facts if HELD_OUT in found.scores else {"examples": []}
    lines = []
    for each in (Example(**values) for values in facts["examples"]):
        text = " ".join(filter(None, (each.before, f"[{each.gold} -> {each.prediction}]", each.after)))
        chances = f"p = {each.gold_probability:.2f} -> {each.prediction_probability:.2f}"
        lines.append(f"  {text}  ({chances}; people accept it with a probability of {each.acceptance:.2f})")
    head = f"{len(lines)} of {facts.get('false_negatives', 0):,} false negatives of {found.model.name}, best first:"
    return ["", head, *lines] if lines else []
