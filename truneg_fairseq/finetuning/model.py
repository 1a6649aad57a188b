"""What is fine-tuned: a checkpoint of a bert, electra or roberta model; and what has been: its predictor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..device import choose_device
from ..errors import TrueNegError

if TYPE_CHECKING:
    from ..convert.config import ModelConfig
    from ..models.checkpoints import Checkpoint


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


def load_finetuned(checkpoint: Path, data: Path, *, cpu: bool) -> tuple[Any, Any, Any, Any]:
    """A fine-tuned model in fp32 on its device, to predict with: model, configuration, task, device."""
    from fairseq import checkpoint_utils

    (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], arg_overrides={"data": str(data)}
    )
    device = choose_device(cpu=cpu)
    return model.float().eval().to(device), cfg, task, device
