"""A training's options and inputs, checked together before anything is built: what would train nonsense silently, and
paths that are not there.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from ..data.indexed import require_whole_split
from ..errors import TrueNegError
from ..files import require_checkpoint, require_writable
from ..flags import flag_of
from ..vocabulary import fingerprint, read_symbols
from .saving import LAST, require_whole

_MASKED = ("masked_lm", "electra_pretraining")  # the tasks that pre-train by masking
_HIGHER_IS_BETTER = (
    *("accuracy", "gen_accuracy", "disc_accuracy", "disc_precision", "disc_recall"),
    *("f1", "exact_match", "matthews", "pearson", "spearman"),
)
_LOWER_IS_BETTER = ("loss", "nll_loss", "ppl", "objective", "gen_loss", "disc_loss")
_SPLIT_FILES = (".idx", "1.idx", "")  # mmap and cached; continued; raw text


def check(cfg: Any) -> None:
    """Refuses a training, by fairseq's whole configuration, from either command line."""
    checkpoint = cfg.checkpoint
    for problem in chain(_best_checkpoint(cfg), _precision(cfg), _combination(cfg), _data(cfg)):
        raise TrueNegError(problem)
    if not checkpoint.no_save:
        require_writable(Path(checkpoint.save_dir) / LAST, "--save-dir", makes_folders=True)
    # With a file that does not exist fairseq starts from scratch, and says so.
    names = ["restore_file"] if checkpoint.restore_file != LAST and Path(checkpoint.restore_file).exists() else []
    if not (Path(checkpoint.save_dir or ".") / LAST).exists():
        names += ["finetune_from_model", "continue_once"]
    for name in names:
        if path := getattr(checkpoint, name):
            require_checkpoint(Path(path))
            require_whole(Path(path), flag_of(name))


def value_of(cfg: Any, *names: str) -> Any:
    """A value of a configuration by its group and name; None where it has none, or none yet."""
    try:
        for name in names:
            cfg = getattr(cfg, name, None)
    except Exception:  # of omegaconf, for "???"
        return None
    return cfg


def items_of(group: Any) -> dict[str, Any]:
    """The options of a group of the configuration; {} where it has none of its own.

    What fairseq registers without a dataclass gets a Namespace with the options of all groups.
    """
    return dict(group) if isinstance(group, Mapping) else {}


def name_of(cfg: Any, group: str) -> str | None:
    """What a group of the configuration has chosen: the name of its task, model, criterion or optimizer."""
    chosen = value_of(cfg, group)
    if isinstance(chosen, str):
        return chosen
    name = value_of(chosen, "_name") or value_of(chosen, "arch" if group == "model" else group)
    return None if name is None else str(name)


def data_folders(cfg: Any) -> list[Path]:
    """The folders of binarized data of a task; [] where it has none."""
    return [Path(part) for part in str(value_of(cfg, "task", "data") or "").split(":") if part]


def _best_checkpoint(cfg: Any) -> Iterator[str]:
    metric, maximize = cfg.checkpoint.best_checkpoint_metric, cfg.checkpoint.maximize_best_checkpoint_metric
    if metric in (_LOWER_IS_BETTER if maximize else _HIGHER_IS_BETTER):
        found, remedy = ("", "leave it out") if maximize else ("no ", "give both")
        yield (
            f"--best-checkpoint-metric {metric}: found {found}--maximize-best-checkpoint-metric, so checkpoint_best.pt "
            f"would be the worst; {remedy}"
        )


def _precision(cfg: Any) -> Iterator[str]:
    import torch

    common = value_of(cfg, "common")
    if value_of(common, "bf16") and value_of(common, "tpu") and importlib.util.find_spec("torch_xla") is None:
        yield "--bf16: is for TPUs; on a GPU or CPU use fairseq-hydra-train with common.bf16=true"
    # With --cpu fp16 does run, for tests, where parameters are not joined, and until a gradient overflows.
    apart = value_of(common, "fp16_no_flatten_grads") or value_of(common, "memory_efficient_fp16")
    if value_of(common, "fp16") and not torch.cuda.is_available() and not (value_of(common, "cpu") and apart):
        yield "--fp16: found no GPU; expected one; leave --fp16 out, or train in bf16"


def _combination(cfg: Any) -> Iterator[str]:
    criterion, task, model = (name_of(cfg, group) or "" for group in ("criterion", "task", "model"))
    if criterion == "electra" or criterion.startswith("masked_lm_"):
        tasks = _MASKED[1:] if criterion == "electra" else _MASKED
        if task not in ("", *tasks):
            yield f"--criterion {criterion}: found --task {task}, expected --task {' or '.join(tasks)}"
    if criterion == "label_smoothed_true_neg" and task in _MASKED:
        yield (
            f"--criterion {criterion}: found --task {task}, expected one whose model generates, such as translation; "
            "label smoothing of a masked LM: --criterion masked_lm_true_neg --soft-targets uniform=0.1"
        )
    if criterion == "electra" and model and not model.startswith("electra"):
        yield f"--criterion electra: found --arch {model}, which has no generator; expected electra_*"
    if criterion.startswith("masked_lm") and task == "electra_pretraining" and model.startswith("electra"):
        # The generator would predict, and the discriminator encode.
        yield (
            f"--criterion {criterion}: found --task {task} with --arch {model}, whose masked LM is the generator; "
            "expected --criterion electra, --task masked_lm, or --arch truneg_bert_*"
        )
    if task == "masked_lm":
        yield from _masking(cfg.task)
    soft_targets = str(value_of(cfg, "criterion", "soft_targets"))
    if ".." in soft_targets and (value_of(cfg, "optimization", "max_update") or 0) <= 0:
        yield f"--soft-targets {soft_targets}: a share that falls ends with the training; expected --max-update too"
    layerdrop, detector = value_of(cfg, "model", "encoder_layerdrop"), value_of(cfg, "criterion", "hc_detector")
    if layerdrop and "context" in str(detector).split("+"):
        yield f"--hc-detector {detector}: compares two passes layer by layer; expected one without --encoder-layerdrop"


def _masking(task: Any) -> Iterator[str]:
    """fairseq has assertions without a message, and --skip-masking for data2vec alone."""
    if task.mask_whole_words:
        yield "--mask-whole-words: found --task masked_lm, expected electra_pretraining, for any model"
    if task.skip_masking:
        yield "--skip-masking: masks no token, and all would be predicted: a model of copies; leave it out"
    if not 0 < task.mask_prob < 1:
        yield f"--mask-prob {task.mask_prob}: expected a number between 0 and 1"
    kept, random = task.leave_unmasked_prob, task.random_token_prob
    if min(kept, random) < 0 or kept + random > 1:
        yield f"--leave-unmasked-prob {kept} --random-token-prob {random}: expected shares of at most 1 together"


def _data(cfg: Any) -> Iterator[str]:
    folders, train = data_folders(cfg), str(value_of(cfg, "dataset", "train_subset"))
    # Each epoch trains on the next folder; validation reads the first.
    needed = [(folder, train, "") for folder in folders]
    if folders and not value_of(cfg, "dataset", "disable_validation"):
        hint = "; --disable-validation goes without"
        needed += [(folders[0], each, hint) for each in str(value_of(cfg, "dataset", "valid_subset")).split(",")]
    for folder in folders[1:]:  # fairseq reads the dictionary of the first one alone
        known = [fingerprint(read_symbols(part)) for part in (folders[0], folder) if (part / "dict.txt").is_file()]
        if len(set(known)) > 1:
            yield f"{folder}: has another dictionary than {folders[0]}; binarize all parts with one"
    for folder, split, hint in needed:
        for prefix in (folder / split, *(part.with_suffix("") for part in folder.glob(f"*/{split}.idx"))):
            require_whole_split(prefix)
        if name_of(cfg, "task") not in _MASKED:
            continue
        if not (folder / "dict.txt").is_file():
            yield f"{folder.absolute()}/dict.txt: no such file; expected binarized data (fairseq-preprocess)"
        if not any((folder / f"{split}{suffix}").exists() for suffix in _SPLIT_FILES):
            yield f"{folder / split}.idx: no such file; expected the split {split}, binarized{hint}"
