"""Task ``squad``: answers to questions as spans of a text, SQuAD 1.1 and 2.0.

fairseq reads the options' types at run time: no ``from __future__ import annotations`` here.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import meters, metrics
from fairseq.logging.meters import Meter
from fairseq.tasks import register_task
from numpy.typing import NDArray
from omegaconf import II, MISSING

from ..errors import TrueNegError, one_line_errors
from ..finetuning.model import check_fingerprint, read_info
from ..finetuning.validation import WholeValidation
from ..options import check, option
from ..vocabulary import MASK_SYMBOL
from .decoding import (
    Prediction,
    WindowPredictions,
    answer_questions,
    exact_match_and_f1,
    score_answers,
)
from .features import SquadFeatures
from .options import HEADS

logger = logging.getLogger(__name__)


@dataclass
class SquadTaskConfig(FairseqDataclass):
    """Options of the task; every field is a flag of fairseq-train and a key of hydra's ``task`` group."""

    data: str = field(default=MISSING, metadata={"help": "folder of features, made by 'truneg data prepare-squad'"})
    squad_head: str = option(
        "linear",
        "linear (start and end independently, as BERT's) or joint (the end given the start, ELECTRA's)",
        choices=HEADS,
    )
    no_answer_threshold: float = option(
        0.5, "SQuAD 2.0: the answer is empty above this probability of no answer", ge=0, le=1
    )
    seed: int = II("common.seed")


@register_task("squad", dataclass=SquadTaskConfig)
class SquadTask(WholeValidation):
    """Question answering on the features of 'truneg data prepare-squad', with the package's bert and electra models.

    EM and F1 of a validation are those of its whole subset: see :class:`AnswersMeter`.
    """

    cfg: SquadTaskConfig

    def __init__(
        self, cfg: SquadTaskConfig, dictionary: Dictionary, info: dict[str, Any], from_checkpoint: bool = False
    ) -> None:
        super().__init__(cfg)
        self.dictionary = dictionary
        self.info = info
        self._from_checkpoint = from_checkpoint
        impossible = any(split["impossible"] for split in info["splits"].values())
        self.state.merge_state_dict({"vocabulary": info["vocabulary"], "unanswerable": impossible})

    @classmethod
    def setup_task(cls, cfg: SquadTaskConfig, from_checkpoint: bool = False, **kwargs: Any) -> "SquadTask":
        """Loads the dictionary; for a checkpoint's own data or, with ``from_checkpoint``, for others of its kind."""
        with one_line_errors():
            check(SquadTaskConfig(squad_head=cfg.squad_head, no_answer_threshold=cfg.no_answer_threshold))
            info = read_info(Path(cfg.data))
        dictionary = Dictionary.load(str(Path(cfg.data) / "dict.txt"))
        dictionary.add_symbol(MASK_SYMBOL)
        return cls(cfg, dictionary, info, from_checkpoint)

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
        with one_line_errors():
            if split not in self.info["splits"]:
                known = ", ".join(self.info["splits"])
                raise TrueNegError(
                    f"{self.cfg.data}: has no split {split}, only {known}; expected one: give "
                    "'truneg data prepare-squad' --train and --valid, or train with --disable-validation"
                )
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
        model.register_question_answering_head(joint=self.cfg.squad_head == "joint", answerability=self.unanswerable)
        return model

    def max_positions(self) -> int:
        longest: int = self.info["max_length"]
        return longest

    def reduce_metrics(self, logging_outputs: Sequence[dict[str, Any]], criterion: Any) -> None:
        """Logs what the criterion does, and in validation EM and F1."""
        super().reduce_metrics(logging_outputs, criterion)
        for log in logging_outputs:
            if "answers" in log:
                metrics.log_custom(lambda split=log["split"]: self._answers_meter(split), "_answers", log["answers"])
        if any("answers" in log for log in logging_outputs):
            metrics.log_derived("exact_match", lambda logged: logged["_answers"].score()["exact_match"])
            metrics.log_derived("f1", lambda logged: logged["_answers"].score()["f1"])

    def _answers_meter(self, split: str) -> "AnswersMeter":
        return AnswersMeter(self.dataset(split).features, self.unanswerable, self.cfg.no_answer_threshold)

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        return self.dictionary


class AnswersMeter(Meter):
    """Collects the answers of a validation, batch by batch and from all workers, and scores them when asked.

    The windows of a question may lie in several batches and on several workers, so that no batch can be scored alone.
    fairseq keeps a meter for the length of a validation pass and asks it once at the end, before it selects the best
    checkpoint; every worker has been given the answers of all.

    A checkpoint from within an epoch names the meters of the last validation, and fairseq makes them again when the
    training goes on: such a meter is empty and stays so.

    Args:
        features: of the subset; None of a meter that fairseq makes.
        unanswerable, threshold: see :func:`~truneg_fairseq.squad.decoding.answer_questions`.
    """

    def __init__(
        self, features: SquadFeatures | None = None, unanswerable: bool = False, threshold: float = 0.5
    ) -> None:
        self._features = features
        self._unanswerable = unanswerable
        self._threshold = threshold
        self.reset()

    def reset(self) -> None:
        self._parts: list[WindowPredictions] = []
        self._score: dict[str, float] | None = None

    def update(self, answers: WindowPredictions) -> None:
        if self._features is not None:
            self._parts.append(answers)
        self._score = None

    def predictions(self) -> dict[str, Prediction]:
        """The answers to the questions so far, by id."""
        if self._features is None:
            return {}
        with one_line_errors():
            return answer_questions(
                self._features, self._parts, unanswerable=self._unanswerable, threshold=self._threshold, n_best=1
            )

    def score(self) -> dict[str, float]:
        """``exact_match`` and ``f1`` in percent of the questions so far."""
        if self._features is None:
            return exact_match_and_f1({}, unanswerable=self._unanswerable)
        if self._score is None:
            texts = {name: prediction.text for name, prediction in self.predictions().items()}
            scores = score_answers(self._features, texts, unanswerable=self._unanswerable)
            self._score = exact_match_and_f1(scores, unanswerable=self._unanswerable)
        return self._score

    @property
    def smoothed_value(self) -> float:
        return self.score()["f1"]


# fairseq looks for a checkpoint's meters by name among its own.
meters.AnswersMeter = AnswersMeter


class SquadDataset(FairseqDataset):
    """The windows of a split; an item is the number of a window, :meth:`collater` makes the batch.

    Args:
        features: the windows.
        split: its name, which every batch carries.
        pad: the id of padding.
        shuffle: whether an epoch has an order of its own; else the longest windows come first.
    """

    def __init__(self, features: SquadFeatures, split: str, pad: int, *, shuffle: bool) -> None:
        super().__init__()
        self.features = features
        self.sizes: NDArray[np.int64] = features.lengths
        self._split = split
        self._pad = pad
        self._shuffle = shuffle

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> int:
        return index

    def size(self, index: int) -> int:
        return int(self.sizes[index])

    def num_tokens(self, index: int) -> int:
        return self.size(index)

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

        Returns:
            ``id`` (int64, shape (B,): the windows' numbers); ``split``; ``net_input`` with ``src_tokens`` (int64,
            shape (B, T)), ``src_lengths`` (int64, shape (B,)) and ``padded`` (bool, on the host); ``target`` (int64,
            shape (B, 2): first and last position of the answer, 0 where the window has none); ``context`` and
            ``begins`` (bool, shape (B, T): the context's positions, and those of them that have characters and the most
            context in this window); ``nsentences``; ``ntokens``.
        """
        if len(samples) == 0:
            return {}
        index = np.asarray(samples, dtype=np.int64)
        lengths = self.sizes[index]
        shape = (len(index), int(lengths.max()))
        context, begins = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        for row, window in enumerate(index.tolist()):
            context[row, : lengths[row]] = self.features.context_mask(window)
            # A space of its own is a token of no characters: an answer that is one would be empty.
            spans = self.features.spans(window)
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
