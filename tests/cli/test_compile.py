"""--compile-layers through fairseq-train."""

from __future__ import annotations

import pytest
import torch
from support.cli_runs import NO_DROPOUT, assert_one_line, logged, parameters, training
from support.commands import run_command

pytestmark = pytest.mark.slow

# Blocks of one length, so that one compilation serves all updates.
BERT = ("--arch", "bert_tiny", "--encoder-layers", 1, "--criterion", "masked_lm_sr_word", "--max-update", 3)


def test_compiled_layers_train_alike(data_bin, tmp_path):
    runs = {name: tmp_path / name for name in ("plain", "compiled")}
    losses = {}
    for name, save in runs.items():
        flags = ("--compile-layers",) if name == "compiled" else ()
        result = run_command(training(data_bin, save, *BERT, *NO_DROPOUT, "--disable-validation", *flags))
        losses[name] = [float(step["loss"]) for step in logged(result.stdout + result.stderr, "train_inner")]
    assert len(losses["plain"]) == 3
    assert losses["compiled"] == pytest.approx(losses["plain"], abs=2e-3)
    plain, compiled = (parameters(save / "checkpoint_last.pt") for save in runs.values())
    assert list(plain) == list(compiled)  # names of a compiled model are those of the plain one
    for name, parameter in plain.items():
        torch.testing.assert_close(compiled[name], parameter, atol=1e-4, rtol=1e-4)


def test_without_a_compiler_one_line_says_so(data_bin, tmp_path):
    result = run_command(
        training(data_bin, tmp_path, *BERT, "--compile-layers"),
        check=False,
        env={"CXX": "/nowhere/c++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert_one_line(result, "--compile-layers: torch.compile does not work here (InvalidCxxCompiler")
