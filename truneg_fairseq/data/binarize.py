"""Word pieces to fairseq's binary format, through fairseq-preprocess itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from .files import make_output_folder
from .wordpiece import PIECES_SUFFIX

REQUIRED_SPLITS = ("train", "valid")
OPTIONAL_SPLITS = ("test",)


@dataclass(frozen=True)
class BinarizedSplit:
    """One binarized split, counted in the binary file.

    Attributes:
        name: "train", "valid" or "test".
        lines: fairseq's items; a blank line of the text is one.
        blank: the items that hold only ``</s>``.
        tokens: all tokens, the ``</s>`` of every line included.
        unknown: the tokens that are ``<unk>``.
    """

    name: str
    lines: int
    blank: int
    tokens: int
    unknown: int


def binarize(pieces_dir: Path, output_dir: Path, workers: int = 1) -> tuple[list[BinarizedSplit], bool]:
    """Binarizes ``train.pieces``, ``valid.pieces`` and, where there is one, ``test.pieces`` with their ``dict.txt``.

    Args:
        pieces_dir: the folder of encode_wordpiece.py; its ``vocab.txt`` is copied beside the binary files.
        output_dir: the folder to make. It appears whole or not at all. One that is there already is kept.
        workers: processes of fairseq-preprocess.

    Returns:
        The splits, and whether ``output_dir`` was made now (False: it was there, whole and with the same dictionary).

    Raises:
        TrueNegError: a file of ``pieces_dir`` is missing, ``output_dir`` is incomplete or of another dictionary,
            or fairseq-preprocess fails or loses lines.
    """
    if workers < 1:
        raise TrueNegError(f"--workers {workers}: expected 1 or more")
    pieces_dir, output_dir = pieces_dir.absolute(), output_dir.absolute()
    splits = _find_splits(pieces_dir)
    if output_dir.exists():
        _check_finished(pieces_dir, output_dir, splits)
        return [_count(output_dir, split) for split in splits], False
    make_output_folder(output_dir.parent)
    with tempfile.TemporaryDirectory(dir=output_dir.parent, prefix=f".{output_dir.name}-") as staging:
        made = Path(staging) / output_dir.name
        _preprocess(pieces_dir, made, splits, workers)
        (made / "vocab.txt").write_bytes((pieces_dir / "vocab.txt").read_bytes())
        counts = [_count(made, split) for split in splits]
        for split in counts:
            _check_lines(pieces_dir / f"{split.name}{PIECES_SUFFIX}", split)
        try:
            made.rename(output_dir)
        except OSError as error:
            raise TrueNegError(f"{output_dir}: cannot be put into place ({error.strerror}); run again") from None
    return counts, True


def _find_splits(pieces_dir: Path) -> list[str]:
    required = ("dict.txt", "vocab.txt", *(f"{split}{PIECES_SUFFIX}" for split in REQUIRED_SPLITS))
    missing = [name for name in required if not (pieces_dir / name).is_file()]
    if missing:
        raise TrueNegError(
            f"--pieces-dir {pieces_dir}: {', '.join(missing)} missing; run encode_wordpiece.py --inputs train.txt "
            "valid.txt with this folder as its --output-dir"
        )
    if "," in str(pieces_dir):
        raise TrueNegError(f"--pieces-dir {pieces_dir}: fairseq-preprocess splits paths at commas; rename the folder")
    return [
        split for split in (*REQUIRED_SPLITS, *OPTIONAL_SPLITS) if (pieces_dir / f"{split}{PIECES_SUFFIX}").is_file()
    ]


def _check_finished(pieces_dir: Path, output_dir: Path, splits: list[str]) -> None:
    expected = ["dict.txt", "vocab.txt", *(f"{split}.{end}" for split in splits for end in ("bin", "idx"))]
    missing = [name for name in expected if not (output_dir / name).is_file()]
    if missing:
        raise TrueNegError(
            f"--output-dir {output_dir}: is there without {', '.join(missing)}; remove it or choose another folder"
        )
    if (output_dir / "dict.txt").read_bytes() != (pieces_dir / "dict.txt").read_bytes():
        raise TrueNegError(
            f"--output-dir {output_dir}: its dict.txt differs from {pieces_dir / 'dict.txt'}; remove it or choose "
            "another folder"
        )


def _preprocess(pieces_dir: Path, destination: Path, splits: list[str], workers: int) -> None:
    command = [
        sys.executable,
        "-m",
        "fairseq_cli.preprocess",
        "--only-source",
        "--srcdict",
        str(pieces_dir / "dict.txt"),
    ]
    for split in splits:
        command += [f"--{split}pref", str(pieces_dir / f"{split}{PIECES_SUFFIX}")]
    command += ["--destdir", str(destination), "--workers", str(workers)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise TrueNegError(f"--pieces-dir {pieces_dir}: fairseq-preprocess failed with {done.returncode}: {said}")


def _count(folder: Path, split: str) -> BinarizedSplit:
    from fairseq.data import Dictionary, data_utils

    dictionary = Dictionary.load(str(folder / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(folder / split), dictionary)
    if dataset is None:
        raise TrueNegError(f"{folder / split}: fairseq cannot read this binarized split; remove {folder}")
    unknown = sum(int((dataset[index] == dictionary.unk()).sum()) for index in range(len(dataset)))
    sizes = dataset.sizes
    return BinarizedSplit(split, len(dataset), int((sizes == 1).sum()), int(sizes.sum()), unknown)


def _check_lines(pieces: Path, split: BinarizedSplit) -> None:
    with pieces.open("rb") as stream:
        lines = sum(1 for _ in stream)
    if lines != split.lines:
        raise TrueNegError(
            f"{pieces}: fairseq-preprocess made {split.lines:,} items of {lines:,} lines; run again with --workers 1"
        )
