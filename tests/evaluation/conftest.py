"""Data with their tokenizer, judgements, and checkpoints of real trainings."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.commands import ELECTRA_MODEL, ELECTRA_TRAINING, PLUGIN, TINY_MODEL, fairseq_train, run_command
from support.convert_models import write_dictionary
from support.judgements import write
from support.masked_lms import TOKENS, hugging_face_bert

from truneg_fairseq import register
from truneg_fairseq.commands.main import main
from truneg_fairseq.data.tokenizer import wordpiece_tokenizer
from truneg_fairseq.evaluation.scorer import DataTokens


@pytest.fixture(scope="session")
def folder(binarized, wordnet, tmp_path_factory) -> Path:
    """data-bin, swords.json.gz."""
    made = tmp_path_factory.mktemp("lexsub")
    shutil.copytree(binarized, made / "data-bin")
    wordpiece_tokenizer(TOKENS).save(made / "data-bin")
    write(made / "swords.json.gz")
    return made


@pytest.fixture(scope="session")
def tokens(folder) -> DataTokens:
    return DataTokens(folder / "data-bin")


@pytest.fixture(scope="session")
def bert(tmp_path_factory) -> Path:
    """A folder of Hugging Face's."""
    return hugging_face_bert(tmp_path_factory.mktemp("hugging_face") / "bert")


@pytest.fixture(scope="session")
def other(tmp_path_factory) -> Path:
    """The same with other weights."""
    return hugging_face_bert(tmp_path_factory.mktemp("hugging_face") / "other", seed=1)


@pytest.fixture(scope="session")
def theirs(bert) -> tuple[Any, Any]:
    """transformers' own model and tokenizer."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    return AutoModelForMaskedLM.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)


@pytest.fixture(scope="session")
def converted(bert, wordnet, tmp_path_factory) -> tuple[Path, Path]:
    """A checkpoint of fairseq with the same weights, and its data."""
    register()
    made = tmp_path_factory.mktemp("converted")
    data = write_dictionary(made / "data-bin", TOKENS)
    wordpiece_tokenizer(TOKENS).save(data)
    main(["convert", str(bert), str(made / "bert.pt"), "--data", str(data)])
    return made / "bert.pt", data


@pytest.fixture(scope="session")
def checkpoints(folder) -> dict[str, Path]:
    """By architecture: bert, roberta, electra."""
    trainings = {
        "bert": ["--arch", "truneg_bert_tiny", "--criterion", "masked_lm", "--task", "masked_lm"],
        "roberta": [*TINY_MODEL, "--criterion", "masked_lm", "--task", "masked_lm"],
        "electra": ELECTRA_MODEL,
    }
    for name, arguments in trainings.items():
        save = ("--save-dir", folder / name, "--max-update", 2)
        run_command(fairseq_train(folder / "data-bin", "--user-dir", PLUGIN, *ELECTRA_TRAINING, *arguments, *save))
    return {name: folder / name / "checkpoint_last.pt" for name in trainings}
