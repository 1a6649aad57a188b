"""fairseq's tasks ``glue`` and ``squad``, and the criterion ``squad``: answers as spans of a text, SQuAD 1.1 and 2.0.

fairseq reads the options' types at run time: no ``from __future__ import annotations`` here.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.data import (
    Dictionary,
    FairseqDataset,
    NumelDataset,
    RightPadDataset,
    data_utils,
)
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask, register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from numpy.typing import NDArray
from omegaconf import II, MISSING
from torch import Tensor

from ..criterions.masked_lm_true_neg import log_rates
from ..errors import TrueNegError, one_line_errors
from ..flags import check, option
from ..models.checkpoints import check_fingerprint
from ..models.encoder import AnswerLogits
from ..objectives.build import BITS
from ..objectives.loss import Rate
from ..vocabulary import MASK_SYMBOL
from .squad_features import SquadFeatures, answer_questions, best_spans, score_answers
from .squad_files import exact_match_and_f1
from .task import read_info

_COLLECTED = "_answers"  # fairseq shows no meter whose name begins with an underscore
_RATES = (Rate("accuracy", "correct", "sample_size", scale=100.0),)

logger = logging.getLogger(__name__)


class WholeValidation(FairseqTask):
    """A task whose validation covers every example.

    fairseq leaves out the last batch where its size is not a multiple of ``--required-batch-size-multiple``: of 81
    validation examples 80 would be scored.
    """

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        if dataset is not self.datasets.get("train"):
            kwargs["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, *args, **kwargs)


class _Sized(FairseqDataset):
    """A dataset whose ``sizes``, in tokens, shape (N,), are known."""

    sizes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sizes)

    def size(self, index: int) -> int:
        return int(self.sizes[index])

    num_tokens = size


# GLUE


@dataclass
class GlueConfig(SentencePredictionConfig):
    """Options of the task: fairseq's, and its own, which cuts the longer sentence of a pair."""

    max_length: int = option(
        128, "tokens of an example; of longer ones the longer sentence is cut, as in BERT and ELECTRA", ge=8
    )


@register_task("glue", dataclass=GlueConfig)
class GlueTask(WholeValidation, SentencePredictionTask):
    """A sentence or a pair of sentences to classify or to score.

    It differs from fairseq's task in the length: there the end of a joined pair is cut off, so that nothing may be left
    of the second sentence; and the model's positions need not be the length of the data.
    """

    cfg: GlueConfig

    @classmethod
    def setup_task(cls, cfg: GlueConfig, **kwargs: Any) -> "GlueTask":
        with one_line_errors():
            check(GlueConfig(max_length=cfg.max_length))
        task: GlueTask = super().setup_task(cfg, **kwargs)
        return task

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> FairseqDataset:
        """Loads a split; a test split need not have labels."""
        dataset = super().load_dataset(split, combine, **kwargs)
        paths = [Path(self.cfg.data, name, split) for name in ("input0", "input1")]
        sentences = [
            data_utils.load_indexed_dataset(str(path), self.dictionary) for path in paths if path.parent.is_dir()
        ]
        tokens = SentencesDataset(
            sentences, begin=self.dictionary.bos(), separator=self.cfg.separator_token, max_length=self.cfg.max_length
        )
        nested = getattr(dataset, "dataset", dataset)  # itself with --no-shuffle
        nested.sizes = [tokens.sizes]
        nested.defn |= {
            "net_input.src_tokens": RightPadDataset(tokens, pad_idx=self.dictionary.pad()),
            "net_input.src_lengths": NumelDataset(tokens, reduce=False),
            "ntokens": NumelDataset(tokens, reduce=True),
        }
        return dataset

    def max_positions(self) -> int:
        return self.cfg.max_length


def shared_lengths(
    first: NDArray[np.int64], second: NDArray[np.int64], budget: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How much of two sentences is kept, shape (N,) each: the longer one gives a token until both have the budget."""
    kept = np.minimum(first, np.maximum(budget - second, (budget + 1) // 2))
    return kept, np.minimum(second, budget - kept)


class SentencesDataset(_Sized):
    """``<s> A </s>`` or ``<s> A </s> B </s>``, the sentences cut at their ends to ``max_length`` tokens in all.

    An item of the one or two datasets is a sentence and ``</s>``; ``begin`` is the id of ``<s>``, ``separator`` one
    before the second sentence (RoBERTa has ``</s>`` there).
    """

    def __init__(self, sentences: Sequence[Any], *, begin: int, separator: int | None, max_length: int) -> None:
        super().__init__()
        self._sentences = sentences
        self._begin = begin
        self._separator = [] if separator is None or len(sentences) == 1 else [separator]
        lengths = [np.asarray(part.sizes, dtype=np.int64) - 1 for part in sentences]
        fixed = 1 + len(sentences) + len(self._separator)
        budget = max_length - fixed
        self._kept = (
            shared_lengths(lengths[0], lengths[1], budget) if len(lengths) == 2 else (np.minimum(lengths[0], budget),)
        )
        self.sizes = fixed + np.sum(self._kept, axis=0)

    def __getitem__(self, index: int) -> Tensor:
        parts = [torch.tensor([self._begin])]
        for number, (sentences, kept) in enumerate(zip(self._sentences, self._kept, strict=True)):
            sentence = sentences[index]
            if number:
                parts.append(torch.tensor(self._separator, dtype=torch.long))
            parts += [sentence[: kept[index]], sentence[-1:]]
        return torch.cat(parts)


# SQuAD


@dataclass
class SquadTaskConfig(FairseqDataclass):
    """Options of the task; every field is a flag of fairseq-train and a key of hydra's ``task`` group."""

    data: str = field(default=MISSING, metadata={"help": "the folder SQuAD that 'truneg data prepare' made"})
    seed: int = II("common.seed")


@register_task("squad", dataclass=SquadTaskConfig)
class SquadTask(WholeValidation):
    """Question answering on the features of 'truneg data prepare', with the package's bert and electra models.

    It is for a checkpoint's own data or, with ``from_checkpoint``, for others of their kind.
    """

    cfg: SquadTaskConfig

    def __init__(self, cfg: SquadTaskConfig, from_checkpoint: bool = False, **kwargs: Any) -> None:
        super().__init__(cfg)
        with one_line_errors():
            self.info = read_info(Path(cfg.data))
        self.dictionary = Dictionary.load(str(Path(cfg.data) / "dict.txt"))
        self.dictionary.add_symbol(MASK_SYMBOL)
        self._from_checkpoint = from_checkpoint
        impossible = any(split["impossible"] for split in self.info["splits"].values())
        self.state.merge_state_dict({"vocabulary": self.info["vocabulary"], "unanswerable": impossible})

    @property
    def unanswerable(self) -> bool:
        """Whether the data, or those of the loaded model, are SQuAD 2.0: questions may have no answer."""
        return bool(self.state.state_dict["unanswerable"])

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What a checkpoint has of this task: its vocabulary, and whether it may answer nothing."""
        with one_line_errors():
            check_fingerprint(state_dict.get("vocabulary"), self.info["vocabulary"], self.cfg.data)
        if self._from_checkpoint:
            super().load_state_dict(state_dict)

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> None:
        features = SquadFeatures.load(Path(self.cfg.data) / split)
        self.datasets[split] = SquadDataset(features, split, self.dictionary.pad(), shuffle=split == "train")
        logger.info(f"{self.cfg.data}/{split}: {len(features.ids):,} questions, {len(features):,} windows")

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """The model with its head."""
        model = super().build_model(cfg, from_checkpoint)
        with one_line_errors():
            if self.info["max_length"] > model.max_positions():
                raise TrueNegError(
                    f"{self.cfg.data}: has windows of {self.info['max_length']} tokens, the model has "
                    f"{model.max_positions()} positions; prepare the data with --max-length {model.max_positions()}"
                )
        model.register_question_answering_head()
        return model

    def max_positions(self) -> int:
        return int(self.info["max_length"])

    def reduce_metrics(self, logging_outputs: Sequence[dict[str, Any]], criterion: Any) -> None:
        """Logs what the criterion does, and in validation EM and F1 of the whole subset.

        The windows of a question may lie in several batches and on several workers: all answers are kept to the end.
        """
        super().reduce_metrics(logging_outputs, criterion)
        found = [log for log in logging_outputs if "answers" in log]
        if found:
            metrics.log_concat_tensor(_COLLECTED, torch.cat([log["answers"] for log in found]))
            features = self.dataset(found[0]["split"]).features
            for name in ("exact_match", "f1"):
                metrics.log_derived(name, partial(self._score, features, name))

    def _score(self, features: SquadFeatures, name: str, meters: Any) -> float:
        texts, _ = answer_questions(features, meters[_COLLECTED].tensor.numpy(), unanswerable=self.unanswerable)
        scores = score_answers(features, texts, unanswerable=self.unanswerable)
        return exact_match_and_f1(scores, unanswerable=self.unanswerable)[name]

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary

    target_dictionary = source_dictionary


class SquadDataset(_Sized):
    """The windows of a split; an item is the number of a window, :meth:`collater` makes the batch.

    Every batch carries the split's name; without ``shuffle``, which orders each epoch anew, the longest come first.
    """

    def __init__(self, features: SquadFeatures, split: str, pad: int, *, shuffle: bool) -> None:
        super().__init__()
        self.features = features
        self.sizes = features.lengths
        self._split = split
        self._pad = pad
        self._shuffle = shuffle

    def __getitem__(self, index: int) -> int:
        return index

    def num_tokens_vec(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.sizes[indices]

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether the batches stay: where windows are shuffled, fairseq makes new ones each epoch."""
        return not self._shuffle

    def ordered_indices(self) -> NDArray[np.int64]:
        """The order of the windows; fairseq has seeded numpy with seed and epoch."""
        if self._shuffle:
            return np.random.permutation(len(self))
        return np.argsort(-self.sizes, kind="stable")

    def collater(self, samples: Sequence[int]) -> dict[str, Any]:
        """Makes a batch of B windows, T positions wide; empty without samples.

        ``id``, the windows' numbers, shape (B,); ``target``, first and last position of the answer, 0 where the window
        has none, shape (B, 2); ``context`` and ``begins``, bool, shape (B, T): the context's positions, and those of
        them that have characters and the most context in this window.
        """
        if len(samples) == 0:
            return {}
        index = np.asarray(samples, dtype=np.int64)
        lengths = self.sizes[index]
        shape = (len(index), int(lengths.max()))
        context, begins = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        for row, window in enumerate(index.tolist()):
            spans = self.features.spans(window)
            context[row, : lengths[row]] = spans[:, 0] >= 0
            # A space of its own is a token of no characters: an answer that is one would be empty.
            begins[row, : lengths[row]] = self.features.max_context(window) & (spans[:, 1] > spans[:, 0])
        tokens = [torch.from_numpy(self.features.tokens(window)) for window in index.tolist()]
        return {
            "id": torch.from_numpy(index),
            "split": self._split,
            "net_input": {
                "src_tokens": data_utils.collate_tokens(tokens, self._pad),
                "src_lengths": torch.from_numpy(lengths),
                "padded": bool((lengths < shape[1]).any()),
            },
            "target": torch.from_numpy(self.features.window_answer[index].astype(np.int64)),
            "context": torch.from_numpy(context),
            "begins": torch.from_numpy(begins),
            "nsentences": len(index),
            "ntokens": int(lengths.sum()),
        }


@register_criterion("squad", dataclass=FairseqDataclass)
class SquadCriterion(FairseqCriterion):
    """The mean of the cross-entropies of start and end, each over ``<s>`` (no answer) and the window's context.

    Logged: ``loss`` (bits per window), ``accuracy`` (% of the windows whose start and end are both the most likely).
    """

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """The loss (fp32, a sum over the windows), the number of windows, and what to log."""
        logits = answer_logits(model, sample)
        start, end = sample["target"].unbind(1)
        loss = F.cross_entropy(logits.starts, start, reduction="sum")
        loss = (loss + F.cross_entropy(logits.ends, end, reduction="sum")) / 2
        size = len(start)
        correct = logits.starts.argmax(1).eq(start) & logits.ends.argmax(1).eq(end)
        log: dict[str, Any] = {
            "loss": loss.detach(),
            "correct": correct.sum(),
            "sample_size": size,
            "nsentences": size,
            "ntokens": sample["ntokens"],
        }
        if not self.training:
            log["split"], log["answers"] = sample["split"], decode(logits, sample)
        return loss, size, log

    def logging_outputs_can_be_summed(self) -> bool:
        return bool(self.training)

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        loss, size = (sum(log[key] for log in logging_outputs) for key in ("loss", "sample_size"))
        metrics.log_scalar("loss", loss * BITS / size if size else 0.0, size, round=3)
        log_rates(logging_outputs, _RATES)


def answer_logits(model: Any, sample: dict[str, Any]) -> AnswerLogits:
    """A model's logits for a batch; answers may stand in the context and, for "none", at ``<s>``."""
    allowed = sample["context"].clone()
    allowed[:, 0] = True
    logits: AnswerLogits = model(**sample["net_input"], answers_allowed=allowed)[0]
    return logits


def decode(logits: AnswerLogits, sample: dict[str, Any]) -> Tensor:
    """The best answer of every window of a batch, as :func:`answer_questions` takes them: float64, on the host."""
    first, last, score = best_spans(logits.starts, logits.ends, sample["begins"], sample["context"])
    columns = (sample["id"], first, last, score, logits.starts[:, 0] + logits.ends[:, 0])
    return torch.stack([column.detach().double() for column in columns], dim=1).cpu()
