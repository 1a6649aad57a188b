"""Measures a checkpoint's masked-LM loss and false negatives on a binarized split (Table 2), and collects examples."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from fairseq.logging import metrics
from torch import Tensor
from tqdm import tqdm

from ..criterions.masked_lm_true_neg import Judgement, MaskedLmTrueNeg, MaskedLmTrueNegConfig
from ..errors import TrueNegError, reason
from ..vocabulary import Vocabulary


@dataclass(frozen=True)
class FalseNegative:
    """A prediction that masked-LM training penalises although it is a synonym of the original word.

    Attributes:
        tokens: ids of the original sequence, without padding.
        place: index of the gold token in ``tokens``.
        prediction: id of the predicted token.
        gold_probability: the model's, in [0, 1].
        prediction_probability: the model's, in [0, 1]; the largest of the vocabulary.
    """

    tokens: tuple[int, ...]
    place: int
    prediction: int
    gold_probability: float
    prediction_probability: float

    @property
    def pair(self) -> tuple[int, int]:
        """The ids of gold and prediction."""
        return self.tokens[self.place], self.prediction


@dataclass(frozen=True)
class Inspection:
    """One checkpoint on one split.

    Attributes:
        checkpoint: its file.
        updates: number of training updates.
        values: ``loss`` (bits), ``ppl``, ``accuracy`` (%), ``hc_pred`` and ``hc_iter`` (%, Table 2).
        examples: the false negatives found, in the order of the data.
    """

    checkpoint: Path
    updates: int
    values: dict[str, float]
    examples: list[FalseNegative] = field(default_factory=list)

    def sample(self, count: int, seed: int = 1) -> list[FalseNegative]:
        """A random sample of false negatives of different (gold, prediction) pairs, in the order of the data."""
        distinct = list({example.pair: example for example in reversed(self.examples)}.values())[::-1]
        chosen = set(random.Random(seed).sample(range(len(distinct)), min(count, len(distinct))))
        return [example for index, example in enumerate(distinct) if index in chosen]


class Inspector:
    """Inspects checkpoints on one split, with the same samples and masked positions for each.

    The task of the first checkpoint that is loaded decides on both (its sample length, masking and seed); call
    :meth:`prepare` to let another one decide.

    Args:
        data: folder of binarized data.
        split: "valid", "test", "train", ...
        batch_size: sequences a batch.
        synonym_table: a table, None for the one beside the data (built when missing).
        tokenization: see :class:`truneg_fairseq.vocabulary.Vocabulary`.
    """

    def __init__(
        self,
        data: Path,
        split: str = "valid",
        *,
        batch_size: int = 32,
        synonym_table: Path | None = None,
        tokenization: str = "auto",
    ) -> None:
        self._data = data
        self._split = split
        self._batch_size = batch_size
        self._config = MaskedLmTrueNegConfig(
            tpu=False,
            hc_weight=1.0,
            synonym_table=str(synonym_table) if synonym_table else None,
            tokenization=tokenization,
        )
        self._criterion: MaskedLmTrueNeg | None = None
        self._task: Any = None

    def prepare(self, checkpoint: Path) -> None:
        """Takes the samples and the masked positions from this checkpoint's task.

        Raises:
            TrueNegError: the checkpoint cannot be loaded.
        """
        self._task = self._load(checkpoint)[1]

    def inspect(self, checkpoint: Path, *, collect: bool = False) -> Inspection:
        """Runs the checkpoint's model over the split, without dropout or gradients; on a GPU where there is one.

        Args:
            checkpoint: fairseq's, of a masked-LM model.
            collect: also collect the false negatives.

        Raises:
            TrueNegError: the checkpoint or the split cannot be loaded.
        """
        model, own_task, updates = self._load(checkpoint)
        task = self._task = self._task or own_task
        criterion = self._criterion_of(task)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model.to(device).eval()
        criterion.to(device).eval()
        logs, examples = [], []
        with torch.no_grad():
            for sample in tqdm(self._batches(task, model), desc=checkpoint.name, unit=" batches", leave=False):
                batch = utils.move_to_cuda(sample) if device.type == "cuda" else sample
                judged = criterion.judge(model, batch)
                logs.append(criterion.score(model, batch, judged)[2])
                if collect:
                    examples.extend(_false_negatives(judged, criterion.padding_idx))
        with metrics.aggregate(new_root=True) as aggregate:
            criterion.reduce_metrics(logs)
            values = aggregate.get_smoothed_values()
        names = ("loss", "ppl", "accuracy", "hc_pred", "hc_iter")
        return Inspection(checkpoint, updates, {name: float(values[name]) for name in names}, examples)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the checkpoints' task; set by the first inspection."""
        assert self._criterion is not None
        return self._criterion.vocabulary

    def _load(self, checkpoint: Path) -> tuple[Any, Any, int]:
        try:
            overrides = {"data": str(self._data), "compile_layers": False}  # there may be no compiler here
            state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint), overrides)
            models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], overrides, state=state)
        except FileNotFoundError as error:
            raise TrueNegError(f"{error.filename or checkpoint}: no such file; expected a fairseq checkpoint") from None
        except Exception as error:  # other files fail to load in many ways
            raise TrueNegError(
                f"{checkpoint}: cannot be loaded ({reason(error)}); expected fairseq's checkpoint of a masked-LM "
                f"model whose dictionary is that of {self._data}"
            ) from None
        if not hasattr(task, "mask_idx"):
            raise TrueNegError(
                f"{checkpoint}: is of task {type(task).__name__}; expected a masked-LM task such as masked_lm"
            )
        return models[0], task, int(state["optimizer_history"][-1]["num_updates"])

    def _criterion_of(self, task: Any) -> MaskedLmTrueNeg:
        if self._criterion is None:
            self._criterion = MaskedLmTrueNeg(self._config, task)
        return self._criterion

    def _batches(self, task: Any, model: Any) -> Any:
        try:
            task.load_dataset(self._split)
        except FileNotFoundError:
            raise TrueNegError(
                f"--split {self._split}: {self._data} has no such split; expected {self._split}.bin and "
                f"{self._split}.idx, written by fairseq-preprocess"
            ) from None
        return task.get_batch_iterator(
            dataset=task.dataset(self._split),
            max_sentences=self._batch_size,
            max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
            ignore_invalid_inputs=True,
        ).next_epoch_itr(shuffle=False)


def _false_negatives(judged: Judgement, padding: int) -> list[FalseNegative]:
    assert judged.corrected is not None
    chosen = judged.corrected.nonzero().squeeze(1)
    if not len(chosen):
        return []
    probabilities = judged.logits[chosen].float().softmax(-1)
    gold, prediction = judged.gold[chosen], judged.prediction[chosen]
    of_gold = probabilities.gather(1, gold.unsqueeze(1)).squeeze(1).tolist()
    of_prediction = probabilities.gather(1, prediction.unsqueeze(1)).squeeze(1).tolist()
    width = judged.original.size(1)
    return [
        FalseNegative(_tokens(judged.original[position // width], padding), position % width, *rest)
        for position, *rest in zip(
            judged.positions[chosen].tolist(), prediction.tolist(), of_gold, of_prediction, strict=True
        )
    ]


def _tokens(row: Tensor, padding: int) -> tuple[int, ...]:
    return tuple(row[row.ne(padding)].tolist())
