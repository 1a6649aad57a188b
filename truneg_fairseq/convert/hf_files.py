"""Reading and writing the files of a Hugging Face model folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import TrueNegError, reason
from ..files import is_new, new_folder
from ..schema import read_json

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PICKLED_WEIGHTS = "pytorch_model.bin"
HUB = "hub:"
"""How the name of a model on the Hugging Face hub begins; everything else is a local folder."""


def local_folder(source: str, *, allow_pickle: bool = False) -> Path:
    """The folder itself, or where the files of ``hub:NAME`` were downloaded to."""
    if not source:
        raise TrueNegError("found an empty name of a model, expected a folder or hub:NAME")
    if not source.startswith(HUB):
        return Path(source)
    name = source.removeprefix(HUB)
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise TrueNegError(f"{source}: needs the package huggingface_hub; install it, or give a local folder") from None
    wanted = ["*.json", "*.txt", "*.safetensors", *([PICKLED_WEIGHTS] if allow_pickle else [])]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # of many kinds, from httpx's to the hub's own
        raise TrueNegError(f"{source}: cannot be downloaded ({reason(error)}); give a local folder") from None


def read_weights(folder: Path, *, allow_pickle: bool = False) -> tuple[dict[str, Tensor], Path]:
    """The tensors of model.safetensors, whole or in shards, and the file that names them.

    Args:
        folder: the model's.
        allow_pickle: where there is no safetensors file, read pytorch_model.bin, with torch's weights_only.
    """
    path, index, pickled = folder / WEIGHTS, folder / f"{WEIGHTS}.index.json", folder / PICKLED_WEIGHTS
    if path.exists():
        return _load(path, load_file), path
    if index.exists():
        return _read_shards(index), index
    if pickled.exists():
        if not allow_pickle:
            raise TrueNegError(
                f"{pickled}: is a pickle, which can run code when it is read; convert it to safetensors (transformers' "
                f"save_pretrained, where you trust the file), or add --allow-pickle to read tensors alone from it"
            )
        return _load(pickled, _load_pickle), pickled
    if (sharded := folder / f"{PICKLED_WEIGHTS}.index.json").exists():
        raise TrueNegError(f"{sharded}: names shards that are pickles; convert them to safetensors")
    also = "" if allow_pickle else f" (--allow-pickle also takes {PICKLED_WEIGHTS})"
    raise TrueNegError(f"{path}: no such file; expected a model's weights in safetensors{also}")


def write_folder(folder: Path, tensors: Mapping[str, Tensor], write_files: Callable[[Path], None]) -> None:
    """Makes a model's folder, whole or not at all.

    Args:
        folder: must be empty or not be there.
        tensors: what model.safetensors holds.
        write_files: writes the other files into the folder that it is given.
    """
    check_folder(folder)
    try:
        with new_folder(folder.absolute()) as beside:
            weights = {name: tensor.contiguous() for name, tensor in tensors.items()}
            save_file(weights, beside / WEIGHTS, {"format": "pt"})
            write_files(beside)
            shutil.copymode(beside / CONFIG, beside / WEIGHTS)  # safetensors gives it to the user alone
    except (OSError, SafetensorError) as error:
        raise TrueNegError(f"{folder}: cannot be written ({reason(error)}); choose another folder") from None


def check_folder(folder: Path) -> None:
    """Reports mistakes before the work starts."""
    if not is_new(folder):
        raise TrueNegError(f"{folder}: is there already; expected a new or an empty folder")
    if not folder.absolute().parent.is_dir():
        raise TrueNegError(f"{folder}: {folder.parent} is not a folder; create it first")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON object."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_shards(index: Path) -> dict[str, Tensor]:
    files = read_json(index, dict[str, Any], expected="the names of the shards").get("weight_map")
    names = sorted({str(name) for name in files.values()}) if isinstance(files, dict) else []
    if not names or any(not name or Path(name).name != name for name in names):
        raise TrueNegError(f"{index}: no weight_map of tensors to files beside it; expected the names of the shards")
    tensors: dict[str, Tensor] = {}
    for name in names:
        tensors |= _load(index.with_name(name), load_file)
    return tensors


def _load(path: Path, load: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
    try:
        return load(path)
    except TrueNegError:
        raise
    except Exception as error:  # other files fail to unpickle in many ways
        raise TrueNegError(f"{path}: cannot be read ({reason(error)}); expected a model's weights") from None


def _load_pickle(path: Path) -> dict[str, Tensor]:
    content = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(content, dict) or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise TrueNegError(f"{path}: holds something else than tensors; expected a model's weights")
    return content
