"""label_smoothed_true_neg in fairseq's tasks that generate: decoding without this package, and the scripts."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
import torch
from support.commands import PLUGIN, REPOSITORY, run_command, truneg, write_sentences
from support.stand_ins import run_bash
from support.trainings import batches, make, parse
from support.translations import ENGLISH, MODEL, TRAINING, write_translations

from truneg_fairseq.corpus_counts import count_tokens
from truneg_fairseq.data.indexed import read_tokens
from truneg_fairseq.vocabulary import read_symbols

CRITERION = ("--criterion", "label_smoothed_true_neg", "--label-smoothing", 0.1)
CORPUS = (*CRITERION, "--soft-targets", "corpus=0.2")
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


SCRIPTS = REPOSITORY / "user_dir_examples" / "translation"


@pytest.mark.slow
def test_an_arm_of_the_comparison_ends_with_a_line_that_compare_reads(wordnet, tmp_path):
    text, pairs, run = tmp_path / "text", tmp_path / "pairs", tmp_path / "both-3"
    text.mkdir()
    for seed, (split, count) in enumerate({"train": 120, "valid": 20, "test": 6, "test1": 5}.items()):
        for language in ("de", "en"):  # each sentence is its own translation
            write_sentences(text / f"{split}.{language}", count, seed)
    broken = (text / "train.de").read_text(encoding="utf-8").replace(" ", "\u2028", 1)  # no end of a line
    (text / "train.de").write_text(broken, encoding="utf-8")
    run_bash(SCRIPTS / "prepare.sh", text, "de", "en", pairs, 200, cwd=tmp_path)
    assert len((pairs / "text" / "train.de").read_text(encoding="utf-8").split("\n")) == 121
    assert sorted(path.name for path in pairs.glob("test*.en.bin")) == ["test.de-en.en.bin", "test1.de-en.en.bin"]
    run_command(truneg("synonyms", "build", "--data", pairs / "dict.en.txt", "--output", pairs / "synonyms.npz"))
    run_command(truneg("data", "counts", "--data", pairs / "dict.en.txt"))
    flags = ("--cpu", "--num-workers", 0, "--max-epoch", 1)
    run_bash(SCRIPTS / "multi30k.sh", pairs, "both", 3, run, *flags, cwd=tmp_path)
    assert len((run / "test.H").read_text().splitlines()) == 6
    others = [tmp_path / "other.1", tmp_path / "other.2"]
    for path in others:
        path.write_text((run / "test.H").read_text())  # each translation is what others say
    printed = run_command([sys.executable, SCRIPTS / "scores.py", pairs, run, "--others", *others]).stdout
    lines = {line["task"]: line for line in map(json.loads, printed.splitlines()[-4:])}
    held_out = lines["held-out text, generated"]
    assert (held_out["model"], held_out["seed"]) == ("both", 3)
    valid = [json.loads(row)["values"] for row in (run / "metrics.jsonl").read_text().splitlines() if '"valid"' in row]
    assert held_out["metrics"]["bits"] == pytest.approx(float(valid[-1]["nll_loss"]), abs=2e-3)
    assert held_out["metrics"].keys() >= {"ece", "smoothed"}
    for split, name in (("test", "test2016"), ("test1", "test2017")):
        for score, own in zip(json.loads((run / f"scores.{split}.json").read_text()), ("bleu", "chrf"), strict=True):
            assert lines[f"translation {name}"]["metrics"][own] == pytest.approx(score["score"] / 100, abs=1e-6)
    assert lines["translation test2016, 3 references"]["metrics"]["chrf"] == pytest.approx(1)
    (tmp_path / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines.values()))
    assert "translation test2016, 3 references" in run_command(truneg("compare", tmp_path / "scores.jsonl")).stdout
