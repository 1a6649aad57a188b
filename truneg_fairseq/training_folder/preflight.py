"""A training's options and inputs, checked together before anything is built."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import TrueNegError, reason
from ..parallel import MOST_PROCESSES
from ..paths import require_checkpoint, require_unsplit
from .checkpoints import LAST, damage, read_lazily

MASKED = ("masked_lm", "electra_pretraining")
"""The tasks that pre-train by masking."""

_FINDS_UNUSED = ("c10d", "pytorch_ddp")  # one backend: it looks for parameters without gradient in the first pass
_HIGHER_IS_BETTER = ("accuracy", "gen_accuracy", "disc_accuracy", "disc_precision", "disc_recall")
_LOWER_IS_BETTER = ("loss", "ppl", "objective", "gen_loss", "disc_loss")
_SPLIT_FILES = (".idx", "1.idx", "")  # mmap and cached; continued; raw text


class _Range(NamedTuple):
    group: str
    names: tuple[str, ...]
    holds: Callable[[float], bool]
    expected: str


_RANGES = (
    _Range(
        "model",
        (
            *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
            *("generator_layers", "generator_embed_dim", "generator_ffn_embed_dim", "generator_attention_heads"),
            *("embedding_dim", "max_positions"),
        ),
        lambda value: value >= 1,
        "1 or more",
    ),
    _Range("model", ("layer_norm_eps",), lambda value: 0 <= value < math.inf, "finite and 0 or more"),
    _Range(
        "model",
        ("dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop"),
        lambda value: 0 <= value < 1,
        "[0, 1)",
    ),
    _Range("task", ("tokens_per_sample",), lambda value: value >= 2, "2 or more"),
    _Range("task", ("leave_unmasked_prob", "random_token_prob"), lambda value: 0 <= value <= 1, "[0, 1]"),
    _Range("task", ("mask_multiple_length",), lambda value: value >= 1, "1 or more"),
    _Range("task", ("mask_stdev",), lambda value: 0 <= value < math.inf, "finite and 0 or more"),
    _Range("task", ("mask_prob",), lambda value: 0 < value < 1, "between 0 and 1"),
    _Range(
        "dataset",
        ("batch_size", "batch_size_valid", "max_tokens", "max_tokens_valid", "required_batch_size_multiple"),
        lambda value: value >= 1,
        "1 or more",
    ),
    _Range("dataset", ("num_workers",), lambda value: 0 <= value <= MOST_PROCESSES, f"0 to {MOST_PROCESSES}"),
    _Range("dataset", ("data_buffer_size",), lambda value: value >= 0, "0 or more"),
    _Range("common", ("log_interval",), lambda value: value >= 1, "1 or more"),
    _Range("common", ("seed",), lambda value: 0 <= value < 2**32, "0 to 4294967295"),
    _Range("checkpoint", ("save_interval",), lambda value: value >= 1, "1 or more"),
    _Range("checkpoint", ("save_interval_updates",), lambda value: value >= 0, "0 or more"),
    _Range("checkpoint", ("keep_interval_updates_pattern",), lambda value: value != 0, "a number other than 0"),
    _Range("dataset", ("validate_interval",), lambda value: value >= 1, "1 or more"),
    _Range("dataset", ("validate_interval_updates",), lambda value: value >= 0, "0 or more"),
    _Range("lr_scheduler", ("warmup_updates",), lambda value: value >= 0, "0 or more"),
    _Range("optimization", ("lr",), lambda value: 0 <= value < math.inf, "finite and 0 or more"),
    _Range("optimization", ("update_freq",), lambda value: value >= 1, "1 or more"),
    _Range("optimization", ("clip_norm", "max_update", "max_epoch"), lambda value: value >= 0, "0 or more"),
    _Range("distributed_training", ("distributed_world_size",), lambda value: value >= 1, "1 or more"),
)


def check(cfg: Any) -> None:
    """Refuses what fairseq would end with a traceback, or accept and train nonsense.

    Args:
        cfg: fairseq's whole configuration, from either command line.
    """
    _check_ranges(cfg)
    _check_batches(cfg)
    _check_precision(cfg)
    _check_schedule(cfg)
    _check_combination(cfg)
    _check_data(cfg)
    _check_start(cfg)
    _check_outputs(cfg)


def value_of(group: Any, name: str) -> Any:
    """A field of a configuration's group; None where it has none, or no value yet."""
    try:
        return getattr(group, name, None)
    except Exception:  # omegaconf's, for "???"
        return None


def name_of(cfg: Any, group: str) -> str | None:
    """What a group of the configuration has chosen: the name of its task, model, criterion or optimizer."""
    chosen = value_of(cfg, group)
    if isinstance(chosen, str):
        return chosen
    name = value_of(chosen, "_name") or value_of(chosen, "arch" if group == "model" else group)
    return None if name is None else str(name)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _check_ranges(cfg: Any) -> None:
    for group, names, holds, expected in _RANGES:
        for name in names:
            for value in _numbers(value_of(value_of(cfg, group), name)):
                if not holds(value):
                    raise TrueNegError(f"{_flag(name)} {value}: expected {expected}")


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield value
    elif value is not None and not isinstance(value, str | bool):
        yield from (entry for entry in value if isinstance(entry, int | float))


def _check_batches(cfg: Any) -> None:
    model, task, dataset = (value_of(cfg, group) for group in ("model", "task", "dataset"))
    batch, tokens = value_of(dataset, "batch_size"), value_of(dataset, "max_tokens")
    if batch is None and tokens is None:
        raise TrueNegError("--batch-size, --max-tokens: found none; give one of them, such as --batch-size 32")
    width, heads = value_of(model, "encoder_embed_dim"), value_of(model, "encoder_attention_heads")
    if width is not None and heads is not None and width % heads:
        raise TrueNegError(
            f"--encoder-attention-heads {heads}: does not divide --encoder-embed-dim {width}; expected a divisor"
        )
    if name_of(cfg, "task") not in MASKED:
        return
    length, positions = value_of(task, "tokens_per_sample"), _positions(cfg)
    if length is not None and positions is not None and length > positions:
        raise TrueNegError(
            f"--tokens-per-sample {length}: the model has {positions} positions, and fairseq drops longer samples; "
            f"give --tokens-per-sample {positions} or less, or --max-positions {length}"
        )
    limits = ["max_tokens"] if value_of(dataset, "disable_validation") else ["max_tokens", "max_tokens_valid"]
    for name in limits:
        tokens = value_of(dataset, name)
        if tokens is not None and length is not None and tokens < length:
            raise TrueNegError(
                f"{_flag(name)} {tokens}: less than one sample of --tokens-per-sample {length}; "
                f"expected {length} or more"
            )


def _positions(cfg: Any) -> int | None:
    """The model's positions: given, or its architecture's, which hydra's configuration does not have."""
    from fairseq.models import ARCH_CONFIG_REGISTRY

    model, complete = value_of(cfg, "model"), ARCH_CONFIG_REGISTRY.get(name_of(cfg, "model"))
    found: int | None = value_of(model, "max_positions")
    if found is not None or complete is None:
        return found
    arguments = argparse.Namespace()
    complete(arguments)
    return getattr(arguments, "max_positions", None)


def _check_precision(cfg: Any) -> None:
    import torch

    common = value_of(cfg, "common")
    if value_of(common, "tpu") and importlib.util.find_spec("torch_xla") is None:
        flag = "--bf16" if value_of(common, "bf16") else "--tpu"
        advice = "; for bf16 on a GPU or CPU use fairseq-hydra-train with common.bf16=true" if flag == "--bf16" else ""
        raise TrueNegError(f"{flag}: fairseq-train needs a TPU and torch_xla for it, which is not installed{advice}")
    # With --cpu fp16 does run, for tests, where parameters are not joined, and until a gradient overflows: fairseq's
    # scaler then wants a GPU.
    apart = value_of(common, "fp16_no_flatten_grads") or value_of(common, "memory_efficient_fp16")
    runs = value_of(common, "cpu") and apart
    if value_of(common, "fp16") and not runs and not torch.cuda.is_available():
        raise TrueNegError("--fp16: found no GPU; expected one; leave --fp16 out, or train in bf16")
    if value_of(common, "amp") and (value_of(common, "cpu") or not torch.cuda.is_available()):
        found = "--cpu" if value_of(common, "cpu") else "no GPU"
        raise TrueNegError(f"--amp: found {found}, where it has no effect; expected a GPU; leave --amp out")


def _check_schedule(cfg: Any) -> None:
    betas = value_of(value_of(cfg, "optimizer"), "adam_betas")
    if betas is not None:
        read_betas(betas)
    updates = value_of(value_of(cfg, "lr_scheduler"), "total_num_update")
    if name_of(cfg, "lr_scheduler") == "polynomial_decay" and updates is not None and updates <= 0:
        raise TrueNegError(
            f"--total-num-update {updates:g}: expected 1 or more, or --max-update in its place (--lr-scheduler "
            "polynomial_decay)"
        )


def read_betas(value: Any) -> tuple[float, float]:
    """Adam's two decays.

    Args:
        value: a sequence of two (YAML) or the text of one (command line).
    """
    error = TrueNegError(f"--adam-betas: found {value}, expected two numbers in [0, 1) such as (0.9,0.999)")
    try:
        first, second = (float(x) for x in (ast.literal_eval(value) if isinstance(value, str) else value))
    except (ValueError, TypeError, SyntaxError):
        raise error from None
    if not (0 <= first < 1 and 0 <= second < 1):
        raise error
    return first, second


def _check_combination(cfg: Any) -> None:
    criterion, task, model = (name_of(cfg, group) for group in ("criterion", "task", "model"))
    if criterion == "electra" and model is not None and not model.startswith("electra"):
        raise TrueNegError(
            f"--criterion electra: found --arch {model}, which has no generator and discriminator; expected electra, "
            "electra_small, electra_base or electra_large"
        )
    if task == "masked_lm" and value_of(value_of(cfg, "task"), "mask_whole_words"):
        raise TrueNegError(
            "--mask-whole-words: fairseq's task masked_lm fails with it; expected --task electra_pretraining, or none"
        )
    shares = [value_of(value_of(cfg, "task"), name) for name in ("leave_unmasked_prob", "random_token_prob")]
    if None not in shares:
        check_mask_shares(*shares)
    masked_lm = criterion is not None and criterion.startswith("masked_lm")
    if masked_lm and task == "electra_pretraining" and model is not None and model.startswith("electra"):
        # The generator would predict, and the discriminator encode.
        raise TrueNegError(
            f"--criterion {criterion}: found --task {task} with --arch {model}, whose masked LM is the generator; "
            "expected --criterion electra, --task masked_lm, or --arch bert_*"
        )
    objective, layerdrop = value_of(cfg, "criterion"), value_of(value_of(cfg, "model"), "encoder_layerdrop")
    detector = value_of(objective, "hc_detector")
    if "context" in str(detector).split("+") and layerdrop:
        raise TrueNegError(
            f"--hc-detector {detector}: compares two passes layer by layer; expected one without --encoder-layerdrop"
        )
    workers = value_of(cfg, "distributed_training")
    several = (value_of(workers, "distributed_world_size") or 1) > 1
    weight, backend = value_of(objective, "sr_sent_weight"), value_of(workers, "ddp_backend")
    if masked_lm and weight and layerdrop and several and backend in _FINDS_UNUSED:  # ELECTRA's passes are one forward
        raise TrueNegError(
            f"--ddp-backend {backend}: cannot follow two passes whose --encoder-layerdrop {layerdrop} differs, as "
            f"--sr-sent-weight {weight} has them; expected --ddp-backend legacy_ddp, or no --encoder-layerdrop"
        )
    ours = criterion is not None and (criterion == "electra" or criterion.startswith("masked_lm_"))
    if ours and task not in (None, *MASKED):
        raise TrueNegError(f"--criterion {criterion}: found --task {task}, expected --task {' or '.join(MASKED)}")


def data_folders(cfg: Any) -> list[Path]:
    """The folders of binarized data of a task; [] where it has none."""
    data = value_of(value_of(cfg, "task"), "data")
    return [Path(part) for part in str(data).split(":") if part] if data else []


def _where(folder: Path) -> str:
    """Where a relative folder was looked for: hydra changes the working folder to one of the run's own."""
    from hydra.core.hydra_config import HydraConfig

    if folder.is_absolute() or not HydraConfig.initialized():
        return ""
    return f" in {Path.cwd()}, to which hydra has changed; give an absolute path"


def _check_data(cfg: Any) -> None:
    data = str(value_of(value_of(cfg, "task"), "data"))
    if ":" in data and Path(data).is_dir():
        require_unsplit(Path(data), "task.data")
    if name_of(cfg, "task") not in MASKED:
        return
    folders = data_folders(cfg)
    for folder in folders:
        if not folder.is_dir():
            raise TrueNegError(
                f"{folder}: no such folder{_where(folder)}; expected binarized data (fairseq-preprocess --only-source)"
            )
    if not folders:
        raise TrueNegError("task.data: found none, expected a folder of binarized data")
    dictionary = folders[0] / "dict.txt"
    if not dictionary.is_file():
        raise TrueNegError(f"{dictionary}: no such file; expected fairseq's dictionary, written by fairseq-preprocess")
    dataset = value_of(cfg, "dataset")
    splits = [value_of(dataset, "train_subset")]
    if not value_of(dataset, "disable_validation"):
        splits += str(value_of(dataset, "valid_subset")).split(",")
    # Each epoch trains on the next folder; validation reads the first.
    needed = [(folder, splits[0], "") for folder in folders]
    needed += [(folders[0], split, "; --disable-validation goes without") for split in splits[1:]]
    for folder, split, hint in needed:
        if split and not any((folder / f"{split}{suffix}").exists() for suffix in _SPLIT_FILES):
            raise TrueNegError(f"{folder / split}.idx: no such file; expected the split {split}, binarized{hint}")


def check_mask_shares(leave_unmasked: float, random_token: float) -> None:
    """Refuses shares of the chosen tokens, unchanged and random ones, that are more than all of them together."""
    if leave_unmasked + random_token > 1:
        raise TrueNegError(
            f"--leave-unmasked-prob {leave_unmasked}: with --random-token-prob {random_token} it exceeds 1; expected a "
            "sum of at most 1"
        )


def check_samples(split: str, sizes: Any, most: int) -> None:
    """Refuses samples longer than --tokens-per-sample. fairseq leaves them out of training, and nowhere else.

    Args:
        split: its name.
        sizes: tokens of each sample, specials included, shape (N,) or (1, N).
        most: tokens of a sample, at most.
    """
    longest = int(np.max(sizes, initial=0))
    if longest > most:
        raise TrueNegError(
            f"--tokens-per-sample {most}: {split} has a sample of {longest:,} tokens, as --sample-break-mode keeps its "
            "lines whole; give --skip-invalid-size-inputs-valid-test to leave longer ones out, as training does, or "
            "--sample-break-mode none"
        )


def _check_start(cfg: Any) -> None:
    checkpoint = value_of(cfg, "checkpoint")
    given = value_of(checkpoint, "finetune_from_model")
    if given and not (Path(value_of(checkpoint, "save_dir")) / LAST).exists():
        _check_readable("--finetune-from-model", Path(given))
    once = value_of(checkpoint, "continue_once")
    if once and not (Path(value_of(checkpoint, "save_dir")) / LAST).exists():
        _check_readable("--continue-once", Path(once))
    restored = value_of(checkpoint, "restore_file")
    if restored and restored != LAST:
        _check_readable("--restore-file", Path(restored))
        if given:
            raise TrueNegError("--finetune-from-model: excludes --restore-file; give one of them")


def _check_outputs(cfg: Any) -> None:
    checkpoint = value_of(cfg, "checkpoint")
    metric, maximize = (value_of(checkpoint, f"{name}best_checkpoint_metric") for name in ("", "maximize_"))
    if metric in _HIGHER_IS_BETTER and not maximize:
        raise TrueNegError(
            f"--best-checkpoint-metric {metric}: found no --maximize-best-checkpoint-metric, so checkpoint_best.pt "
            "would be the worst; give both"
        )
    if metric in _LOWER_IS_BETTER and maximize:
        raise TrueNegError(
            f"--maximize-best-checkpoint-metric: with --best-checkpoint-metric {metric} checkpoint_best.pt would be "
            "the worst; leave it out"
        )
    save_dir = value_of(checkpoint, "save_dir")
    if save_dir is not None and not value_of(checkpoint, "no_save"):
        if not str(save_dir):
            raise TrueNegError("--save-dir: found an empty name, expected a folder for the checkpoints")
        for folder in (Path(save_dir), *Path(save_dir).parents):
            if folder.exists() and not folder.is_dir():
                raise TrueNegError(f"--save-dir {save_dir}: {folder} is not a folder; choose another one")
    log = value_of(value_of(cfg, "common"), "log_file")
    if log and not Path(log).parent.is_dir():
        raise TrueNegError(f"--log-file {log}: found no folder {Path(log).parent}{_where(Path(log))}; make it")


def _check_readable(flag: str, path: Path) -> None:
    require_checkpoint(path)
    if not path.is_file():
        raise TrueNegError(f"{flag} {path}: no such file; expected a checkpoint of fairseq")
    problem = damage(path)
    if problem is not None:
        raise TrueNegError(f"{flag} {path}: {problem}; expected a whole checkpoint of fairseq")
    try:
        state = read_lazily(path)
    except Exception as error:
        raise TrueNegError(
            f"{flag} {path}: cannot be loaded ({reason(error)}); expected a checkpoint of fairseq"
        ) from None
    if not isinstance(state, dict) or "model" not in state or "optimizer_history" not in state:
        raise TrueNegError(f"{flag} {path}: is not a checkpoint of fairseq; expected one")
