"""What several test files need: real WordNet, small binarized data, fairseq's real commands."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PLUGIN = REPOSITORY / "truneg_fairseq"

# fairseq requires torchaudio and never needs it here. One built for CUDA does not load beside a CPU torch, and
# transformers would import it; without the package it does without.
try:
    import torchaudio  # noqa: F401
except (ImportError, OSError):
    sys.modules["torchaudio"] = None  # type: ignore[assignment]

# Words with synonyms among them, words without, function words and pieces: every case of hard correction occurs.
WORDS = """
primary main principal chief stay remain stop halt continue picture film movie big large great small little begin start
commence end finish car automobile auto buy purchase child kid quick fast rapid happy glad the of and to in walk walked
table seven qqq zzz , .
""".split()
PIECES = ("##s", "##ing", "##ly")

TINY_MODEL = """
--arch roberta_base --encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 48 --encoder-attention-heads 4
--max-positions 64
""".split()
TINY_TRAINING = """
--task masked_lm --tokens-per-sample 24 --sample-break-mode none --batch-size 4 --optimizer adam --adam-betas (0.9,0.98)
--lr 0.01 --lr-scheduler fixed --seed 1 --num-workers 0 --log-format json --log-interval 1 --cpu --mask-prob 0.3
--required-batch-size-multiple 1
""".split()


def shared_file(name: str) -> Path:
    """A file of the real data for measuring that may lie beside the checkout; skips the test where it does not."""
    path = REPOSITORY.parent / "shared" / "data" / name
    if not path.exists():
        pytest.skip(f"the data for measuring has no {name} beside this checkout")
    return path


def command_environment(**extra: str) -> dict[str, str]:
    """For a command that a test starts: one thread (two on a busy core are 10 times slower), no warnings."""
    quiet = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(REPOSITORY)}
    return {**os.environ, **quiet, **extra}


def run_command(arguments: Sequence[object], *, check: bool = True, **options) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; with ``check`` a failure shows what it printed."""
    environment = command_environment(**options.pop("env", {}))
    result = subprocess.run(
        [str(a) for a in arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
    )
    if check and result.returncode != 0:
        pytest.fail(f"{arguments} exited {result.returncode}\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}")
    return result


def fairseq_train(*arguments: object) -> list[object]:
    """The real fairseq-train."""
    return [sys.executable, "-m", "fairseq_cli.train", *arguments]


def truneg(*arguments: object) -> list[object]:
    """The real truneg command."""
    return [sys.executable, "-c", "from truneg_fairseq.commands.main import main; main()", *arguments]


@pytest.fixture(scope="session")
def wordnet() -> Path:
    """Real WordNet 3.0, installed where it is missing."""
    from truneg_fairseq.synonyms.wordnet_data import install_wordnet

    return install_wordnet()


def write_sentences(path: Path, count: int, seed: int) -> None:
    """Random sentences over WORDS and PIECES; a piece always follows a word."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        tokens: list[str] = []
        for _ in range(rng.randint(5, 15)):
            tokens.append(rng.choice(WORDS))
            if rng.random() < 0.15:
                tokens.append(rng.choice(PIECES))
        lines.append(" ".join(tokens))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def binarize_sentences(folder: Path) -> Path:
    """Binarizes random sentences with the real fairseq-preprocess; returns the folder of binarized data."""
    folder.mkdir(parents=True, exist_ok=True)
    write_sentences(folder / "train.txt", 150, seed=1)
    write_sentences(folder / "valid.txt", 30, seed=2)
    (folder / "words.txt").write_text("".join(f"{t} 1\n" for t in (*WORDS, *PIECES)), encoding="utf-8")
    run_command(
        [
            *(sys.executable, "-m", "fairseq_cli.preprocess", "--only-source", "--srcdict", folder / "words.txt"),
            *("--trainpref", folder / "train.txt", "--validpref", folder / "valid.txt"),
            *("--destdir", folder / "data-bin", "--workers", 1),
        ]
    )
    return folder / "data-bin"


@pytest.fixture(scope="session")
def binarized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Binarized random sentences without a synonym table. Read only: :func:`data_bin` gives a copy."""
    return binarize_sentences(tmp_path_factory.mktemp("sentences"))


@pytest.fixture(scope="session")
def data_bin(binarized: Path, wordnet: Path) -> Path:
    """The same with the table that the real command builds."""
    run_command(truneg("synonyms", "build", "--data", binarized, "--tokenization", "wordpiece"))
    return binarized
