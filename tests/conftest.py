"""What several test files need: real WordNet, small binarized data, fairseq's real commands."""

from __future__ import annotations

import runpy
import shutil
import signal
import sys
from pathlib import Path

import pytest
from support.commands import REPOSITORY, binarize_sentences, run_command, truneg

# fairseq requires torchaudio and never needs it here. One built for CUDA does not load beside a CPU torch, and
# transformers would import it; without the package it does without.
try:
    import torchaudio  # noqa: F401
except (ImportError, OSError):
    sys.modules["torchaudio"] = None  # type: ignore[assignment]

# A shell starts what runs in its background with SIGINT ignored, and the commands of the tests would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def wordnet() -> Path:
    """Real WordNet 3.0, installed where it is missing."""
    return runpy.run_path(str(REPOSITORY / "data-bin-scripts" / "get_wordnet.py"))["main"]()


@pytest.fixture(scope="session")
def binarized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Binarized random sentences without a synonym table. Read only: :func:`without_table` is a copy."""
    return binarize_sentences(tmp_path_factory.mktemp("sentences"))


@pytest.fixture
def without_table(binarized: Path, tmp_path: Path) -> Path:
    """A copy of one's own."""
    return shutil.copytree(binarized, tmp_path / "data-bin", ignore=shutil.ignore_patterns("*synonyms*"))


@pytest.fixture(scope="session")
def data_bin(binarized: Path, wordnet: Path) -> Path:
    """Binarized random sentences with the table that the real command builds."""
    run_command(truneg("synonyms", "build", "--data", binarized, "--tokenization", "wordpiece"))
    return binarized
