"""label_smoothed_true_neg in each of fairseq's tasks that generate; decoding needs nothing of this package."""

from __future__ import annotations

import shutil
import sys

import pytest
import torch
from support.commands import PLUGIN, run_command
from support.trainings import batches, make, parse
from support.translations import ENGLISH, MODEL, TRAINING, write_translations

from truneg_fairseq.corpus_counts import count_tokens
from truneg_fairseq.data.indexed import read_tokens
from truneg_fairseq.vocabulary import read_symbols

CRITERION = ("--criterion", "label_smoothed_true_neg", "--label-smoothing", 0.1)
CORPUS = (*CRITERION, "--corpus-targets", 0.2)
SMALL = [
    part
    for side in ("encoder", "decoder")
    for name, value in (("layers", 1), ("embed-dim", 16), ("ffn-embed-dim", 16), ("attention-heads", 2))
    for part in (f"--{side}-{name}", value)
]
MASKS = "--mask 0.3 --mask-length subword --replace-length 1 --tokens-per-sample 32 --rotate 0".split()
TASKS = {
    "denoising": ("--arch", "bart_base", *SMALL, *MASKS),
    "multilingual_denoising": ("--arch", "mbart_base", *SMALL, *MASKS, "--langs", "en_XX,de_DE", "--add-lang-token"),
    "translation_from_pretrained_bart": (*MODEL, "--langs", "en,de", "-s", "de", "-t", "en"),
    "language_modeling": ("--arch", "transformer_lm", *SMALL[8:], "--tokens-per-sample", 32),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Translations, and the English side as text of one language and of two."""
    folder = write_translations(tmp_path_factory.mktemp("generation"))
    shutil.copy(folder / "dict.en.txt", folder / "dict.txt")
    for split in ("train", "valid"):
        for end in ("bin", "idx"):
            for place in (".", "en_XX", "de_DE"):
                (folder / place).mkdir(exist_ok=True)
                shutil.copy(folder / f"{split}.de-en.en.{end}", folder / place / f"{split}.{end}")
    count_tokens(read_tokens(folder / "train"), read_symbols(folder)).save(folder / "corpus_counts.npz")
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_every_task_that_generates(data, task):
    """A batch's loss falls, and some of its target tokens have alternatives."""
    cfg = parse([data, "--user-dir", PLUGIN, "--task", task, *TASKS[task], *TRAINING, *CORPUS])
    task, model, criterion = make(cfg)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    (sample,) = batches(task, 1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss, _, log = criterion(model, sample)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    assert 0 < int(log["smoothed"]) < int(log["positions"])
    criterion.reduce_metrics([log])


@pytest.mark.slow
def test_a_checkpoint_is_decoded_by_fairseq_alone(data, tmp_path):
    """fairseq-train by its command line and by hydra's; fairseq-generate and -interactive where there is no plugin."""
    command = [data, "--user-dir", PLUGIN, "--task", "translation", *MODEL, *TRAINING, *CORPUS, "--max-epoch", 1]
    saving = ("--save-dir", tmp_path, "--no-epoch-checkpoints", "--log-format", "json", "--log-interval", 1)
    trained = run_command([sys.executable, "-m", "fairseq_cli.train", *command, *saving])
    assert '"train_smoothed": ' in trained.stdout + trained.stderr
    alone = "import sys; sys.modules['truneg_fairseq'] = None; import fairseq_cli.{0} as c; c.cli_main()"
    decoding = [data, "--path", tmp_path / "checkpoint_last.pt", "--beam", 2, "--cpu", "-s", "de", "-t", "en"]
    decoding += ["--required-batch-size-multiple", 1]  # or fairseq leaves out the rest, up to 7 sentences
    texts = tmp_path / "de.txt"
    texts.write_text("ein mann läuft\nhund am strand\n")
    environment = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}  # fairseq's own loading, as its users have it
    for name, more in (("generate", ("--gen-subset", "test")), ("interactive", ("--input", texts))):
        result = run_command([sys.executable, "-c", alone.format(name), *decoding, *more], env=environment)
        answers = [line.split("\t")[2] for line in result.stdout.splitlines() if line.startswith("H-")]
        assert len(answers) == {"generate": 4, "interactive": 2}[name]
        assert {word for answer in answers for word in answer.split()} <= set(ENGLISH)
