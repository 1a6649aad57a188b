"""What a fine-tuning task is (its files, its data for fairseq, its recipe, its scores), and its prepared folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..data.tokenizer import PretrainedVocabulary
from ..files import file_digest, is_new, new_folder, read_json, require_same, write_json
from ..registry import TASKS
from ..results.result import Metric
from ..workers import Progress
from . import PredictOptions, PrepareOptions

if TYPE_CHECKING:
    from ..convert.architecture import ModelConfig

T = TypeVar("T")

BASE_WIDTH, LARGE_WIDTH = 768, 1024  # from these on a model has the learning rates of ELECTRA's base and large ones
_INFO_FILE = "info.json"
_EXAMPLES = 32  # that are answered together


@dataclass(frozen=True)
class Recipe:
    """The settings of a fine-tuning with ELECTRA's Adam, whose learning rate rises and falls linearly."""

    lr: float  # the highest, of the head
    layer_lr_decay: float  # of the learning rate from layer to layer, downwards
    epochs: int
    batch_size: int = 32  # examples an update
    weight_decay: float = 0.01  # decoupled
    updates: int = 0  # of the learning rate's schedule, after which training stops


def electra_layer_lr_decay(width: int) -> float:
    """The factor of the learning rate from layer to layer in ELECTRA's fine-tuning (its paper, table 7)."""
    return 0.8 if width < LARGE_WIDTH else 0.9


class FinetuningTask(ABC):
    """One of GLUE's tasks, SQuAD, or a user's under :func:`truneg_fairseq.register_task`, made without arguments."""

    name: str  # of ``--tasks``, and of the prepared folder
    counted: ClassVar[str]  # what an example of fairseq's is called in ``info.json``
    max_length: ClassVar[int]  # tokens of an example, unless ``truneg data prepare --max-length`` says another

    @property
    def chosen(self) -> Sequence[str]:
        """The options of ``truneg data prepare`` that the data depend on."""
        return ("max_length",)

    @abstractmethod
    def find_files(self, places: Sequence[Path]) -> dict[str, Path]:
        """The official files by fairseq's split, in folders or named themselves."""

    def choose(self, options: PrepareOptions) -> dict[str, Any]:
        """The values of :attr:`chosen`."""
        values = {name: getattr(options, name) for name in self.chosen}
        return values | {"max_length": options.max_length or self.max_length}

    @abstractmethod
    def write(
        self, folder: Path, files: Mapping[str, Path], vocabulary: PretrainedVocabulary, chosen: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Writes the data of all splits, and gives for each how much there is of what, for ``info.json``."""

    @abstractmethod
    def shown(self, info: Mapping[str, Any]) -> tuple[str, str, dict[str, Metric]]:
        """The task's name in results, and the title of their table with the metrics that it shows."""

    @abstractmethod
    def recipe(self, config: ModelConfig, info: Mapping[str, Any]) -> Recipe:
        """The settings for a model; ``updates`` follow from the others."""

    @abstractmethod
    def flags(self, config: ModelConfig) -> list[object]:
        """fairseq-train's for task, criterion and validation."""

    @abstractmethod
    def evaluate(self, model: Any, task: Any, prepared: Path, folder: Path) -> dict[str, Any]:
        """The scores of a model and its fairseq task on the validation sets, by the names of :class:`Result`'s fields.

        The answers may go into the run's folder.
        """

    @abstractmethod
    def predict(self, model: Any, task: Any, prepared: Path, options: PredictOptions) -> dict[str, float]:
        """Answers the split "test" and writes the answers; gives the scores in percent where labels are known."""

    def scorer(self, file: Path) -> str | None:
        """The command that scores written answers to a file; it takes the file and the answers."""
        return None

    def prepare(
        self, files: Mapping[str, Path], vocabulary: PretrainedVocabulary, output: Path, chosen: Mapping[str, Any]
    ) -> tuple[dict[str, Any], bool]:
        """Prepares the data; gives its description (``info.json``), and whether it was made now or is there already."""
        info: dict[str, Any] = {
            "task": self.name,
            "vocabulary": vocabulary.fingerprint,
            "tokenizer": vocabulary.tokenizer.tokenization,
            "tokenizer_sha256": vocabulary.tokenizer.digest,
            **chosen,
            **TASKS.digests([self.name]),
            "sources": {split: {"file": path.name, "sha256": file_digest(path)} for split, path in files.items()},
        }
        if not is_new(output):
            made = read_info(output)
            require_same(str(output), {**info, **made}, info)
            return made, False
        with new_folder(output) as folder:
            vocabulary.save(folder)
            info["splits"] = self.write(folder, files, vocabulary, chosen)
            write_json(folder / _INFO_FILE, info)
        return info, True


def read_info(folder: Path) -> dict[str, Any]:
    """The description of a prepared folder; its ``vocabulary`` is :func:`truneg_fairseq.vocabulary.fingerprint`."""
    return read_json(folder / _INFO_FILE, dict[str, Any], expected="a task's folder, made by 'truneg data prepare'")


def describe(info: Mapping[str, Any]) -> list[str]:
    """How much there is of what in a prepared folder, in lines for a person."""
    lines = []
    for split, counts in info["splits"].items():
        numbers = [f"{count:,} {what}" for what, count in counts.items() if isinstance(count, int)]
        lines.append(f"{split}: {', '.join(numbers)}")
        kept = "left out" if split == "train" else "kept"
        missing = counts.get("not found", {}).items()
        lines += [f"{split}: {kept} {len(ids):,}, {reason} ({ids[0]})" for reason, ids in missing]
    return lines


def answer_all(model: Any, dataset: Any, answer: Callable[[dict[str, Any]], T], order: NDArray[np.int64]) -> list[T]:
    """What ``answer`` gives for batches of all examples of a fairseq dataset, those of the least ``order`` first."""
    import torch
    from fairseq import utils

    device, places = next(model.parameters()).device, np.argsort(order, kind="stable").tolist()
    answers = []
    with torch.inference_mode():
        for begin in Progress(range(0, len(places), _EXAMPLES), desc="batches", unit=""):
            batch = dataset.collater([dataset[place] for place in places[begin : begin + _EXAMPLES]])
            answers.append(answer(utils.apply_to_sample(lambda tensor: tensor.to(device), batch)))
    return answers
