"""fairseq's task and criterion ``squad``: answers as spans of a text, SQuAD 1.1 and 2.0.

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
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask, register_task
from numpy.typing import NDArray
from omegaconf import II, MISSING
from torch import Tensor

from ..criterions.masked_lm_true_neg import log_rates
from ..errors import one_line_errors
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


@dataclass
class SquadTaskConfig(FairseqDataclass):
    """Options of the task; every field is a flag of fairseq-train and a key of hydra's ``task`` group."""

    data: str = field(default=MISSING, metadata={"help": "the folder SQuAD that 'truneg data prepare' made"})
    seed: int = II("common.seed")


@register_task("squad", dataclass=SquadTaskConfig)
class SquadTask(FairseqTask):
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
        with one_line_errors():
            features = SquadFeatures.load(Path(self.cfg.data, f"{split}.npz"))
        self.datasets[split] = SquadDataset(features, split, self.dictionary.pad(), shuffle=split == "train")
        logger.info(f"{self.cfg.data}/{split}: {len(features.ids):,} questions, {len(features):,} windows")

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """Validation covers every window; fairseq leaves out a batch of less than --required-batch-size-multiple."""
        if dataset is not self.datasets.get("train"):
            kwargs["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, *args, **kwargs)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """The model with its head."""
        model = super().build_model(cfg, from_checkpoint)
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


class SquadDataset(FairseqDataset):
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

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> int:
        return index

    def size(self, index: int) -> int:
        return int(self.sizes[index])

    num_tokens = size

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
