"""Opens models and their tokens, whoever made them."""

from __future__ import annotations

from pathlib import Path

from ..convert.hf_model import HUB, local_folder
from ..errors import TrueNegError
from ..models.checkpoints import read_checkpoint
from .scorer import MaskedLm
from .tokens import DataTokens, Tokens


def is_hugging_face(path: Path) -> bool:
    """Whether a model is a Hugging Face folder, or ``hub:NAME``."""
    return str(path).startswith(HUB) or (path / "config.json").is_file()


def open_tokens(path: Path, data: Path | None, tokenization: str = "auto") -> Tokens:
    """The tokens of a model: of Hugging Face's folder itself, of a fairseq checkpoint those of its data."""
    if is_hugging_face(path):
        from .hf_scorer import HuggingFaceTokens

        return HuggingFaceTokens(local_folder(str(path)), tokenization)
    return DataTokens(_required(data, path), tokenization, causal=is_causal(path))


def open_model(path: Path, data: Path | None, *, cpu: bool = False, causal: bool = False) -> MaskedLm:
    """A fairseq checkpoint with its data, or Hugging Face's folder; ``causal`` where its tokens have no mask."""
    if is_hugging_face(path):
        from .hf_scorer import HuggingFaceMaskedLm

        return HuggingFaceMaskedLm(local_folder(str(path)), cpu=cpu, causal=causal)
    from .fairseq_scorer import FairseqCausalLm, FairseqMaskedLm

    return (FairseqCausalLm if causal else FairseqMaskedLm)(path, _required(data, path), cpu=cpu)


def is_causal(checkpoint: Path) -> bool:
    """Whether a fairseq checkpoint is a causal LM: a decoder without an encoder."""
    names = list(read_checkpoint(checkpoint).state)
    return any(name.startswith("decoder.layers.") for name in names) and not any(
        n.startswith("encoder.") for n in names
    )


def _required(data: Path | None, path: Path) -> Path:
    if not path.exists():
        raise TrueNegError(f"{path}: no such file or folder; expected a checkpoint of fairseq, a folder or hub:NAME")
    if data is None:
        raise TrueNegError(f"{path}: a fairseq checkpoint needs --data, the binarized data with its tokenizer")
    return data
