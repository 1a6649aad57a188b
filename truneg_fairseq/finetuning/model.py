"""What a fine-tuning starts from, a checkpoint and data of its vocabulary; and what it ends with, loaded to predict."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..device import choose_device
from ..errors import TrueNegError
from ..schema import read_json
from ..vocabulary import fingerprint, read_symbols

if TYPE_CHECKING:
    from ..convert.config import ModelConfig
    from ..models.checkpoints import Checkpoint

INFO_FILE = "info.json"
"""Describes a folder of data for fine-tuning; its ``vocabulary`` is :func:`truneg_fairseq.vocabulary.fingerprint`."""

_SAME_VOCABULARY = "expected the same: prepare the data with the dictionary and tokenizer of the model"


@dataclass(frozen=True)
class StartingModel:
    """A pre-trained model."""

    name: str  # in the results
    checkpoint: Checkpoint  # its weights and arguments
    config: ModelConfig  # of its architecture

    @classmethod
    def load(cls, path: Path, name: str | None = None) -> StartingModel:
        """Reads a checkpoint.

        Args:
            path: its file.
            name: in the results; None for the file's, or that of its folder where fairseq chose the file's name.
        """
        from ..convert.config import config_of_arguments
        from ..models.checkpoints import read_checkpoint

        checkpoint = read_checkpoint(path)
        weight = checkpoint.state.get("encoder.sentence_encoder.embed_tokens.weight")
        if weight is None:
            raise TrueNegError(f"{path}: has no encoder; expected a bert, electra or roberta model")
        config = config_of_arguments(checkpoint.model, len(weight), path)
        return cls(default_name(path) if name is None else name, checkpoint, config)

    @property
    def path(self) -> Path:
        return self.checkpoint.path.resolve()

    @property
    def is_roberta(self) -> bool:
        return self.config.family.name == "roberta"

    @property
    def flags(self) -> tuple[str, ...]:
        """Architecture flags for fine-tuning."""
        from ..convert.config import architecture_flags

        return architecture_flags(self.config)

    @property
    def has_generator(self) -> bool:
        """Whether it is both halves of an ELECTRA."""
        return any(key.startswith("generator.") for key in self.checkpoint.state)

    @property
    def pretraining_flags(self) -> tuple[str, ...]:
        """Flags to continue pre-training, with its dropout rates and ELECTRA's generator."""
        from ..convert.config import architecture_flags, config_of_arguments, generator_arguments

        arguments, generator = self.checkpoint.model, None
        if self.has_generator:
            generator = config_of_arguments(generator_arguments(arguments), self.config.vocab_size, self.path)
        flags = architecture_flags(self.config, generator)
        for name in ("activation_dropout", "encoder_layerdrop"):  # Hugging Face's models have none
            if arguments.get(name):
                flags += (f"--{name.replace('_', '-')}", str(arguments[name]))
        return flags

    @cached_property
    def sha256(self) -> str:
        from ..files import file_digest

        return file_digest(self.checkpoint.path)


def default_name(checkpoint: Path) -> str:
    """The name of a model in the tables: its file's, or that of its folder where fairseq chose the file's name."""
    path = checkpoint.resolve()
    return path.parent.name if path.stem.startswith("checkpoint") else path.stem


def quiet_fairseq() -> None:
    """Keeps fairseq from logging every step of loading a checkpoint."""
    logging.getLogger("fairseq").setLevel(logging.WARNING)


def read_info(folder: Path) -> dict[str, Any]:
    """The description of a folder of data for fine-tuning."""
    expected = "data of 'truneg data prepare-glue' or 'truneg data prepare-squad'"
    return read_json(folder / INFO_FILE, dict[str, Any], expected=expected)


def check_vocabulary(checkpoint: Checkpoint, expected: str, data: Path) -> None:
    """Refuses a checkpoint of another vocabulary: of another size or, where its own data are here, other symbols."""
    pretrained = Path(str(checkpoint.task.get("data", "")).split(":")[0])
    dictionary = _dictionary(pretrained) if checkpoint.task.get("data") else None
    if dictionary is not None:
        check_fingerprint(fingerprint(read_symbols(dictionary)), expected, str(data))
    own, weight = _dictionary(data), checkpoint.state.get("encoder.sentence_encoder.embed_tokens.weight")
    if own is not None and weight is not None and len(weight) != (size := len(read_symbols(own))):
        raise TrueNegError(
            f"{checkpoint.path}: has {len(weight):,} embeddings, the dictionary of {data} has {size:,} symbols; "
            f"{_SAME_VOCABULARY}"
        )


def check_fingerprint(found: str | None, expected: str, data: str) -> None:
    """Refuses a model whose dictionary has another fingerprint than the data's; None where it is not known."""
    if found is not None and found != expected:
        raise TrueNegError(
            f"{data}: was made with a vocabulary of fingerprint {expected[:12]}, the checkpoint is of {found[:12]}; "
            f"{_SAME_VOCABULARY}"
        )


def _dictionary(folder: Path) -> Path | None:
    """Of binarized data, of SQuAD's features, or of a GLUE task."""
    return next((path for path in (folder / "dict.txt", folder / "input0" / "dict.txt") if path.is_file()), None)


def read_finetuned(path: Path, task: str, prepared: Path | None = None) -> tuple[Checkpoint, Path]:
    """A fine-tuned model, and its prepared data: those that are given, or those it was trained on."""
    from .. import register
    from ..models.checkpoints import read_checkpoint

    register()
    checkpoint = read_checkpoint(path)
    trained_on = checkpoint.task.get("_name", checkpoint.task.get("task"))
    if trained_on != task:
        raise TrueNegError(f"{path}: was trained on --task {trained_on}; expected a checkpoint of truneg {task} train")
    folder = prepared or Path(str(checkpoint.task["data"]))
    if not folder.is_dir():
        raise TrueNegError(f"{path}: was trained on {folder}, which is not a folder here; name it with --prepared")
    return checkpoint, folder


def load_finetuned(checkpoint: Path, data: Path, *, cpu: bool) -> tuple[Any, Any, Any, Any]:
    """A fine-tuned model in fp32 on its device, to predict with: model, configuration, task, device."""
    quiet_fairseq()
    from fairseq import checkpoint_utils

    (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], arg_overrides={"data": str(data)}
    )
    device = choose_device(cpu=cpu)
    return model.float().eval().to(device), cfg, task, device
