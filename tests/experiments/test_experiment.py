"""truneg experiment: trained, evaluated, interrupted, continued, extended and refused, all by the real commands."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support import commands
from support.commands import PIECES, WORDS
from support.convert_models import random_model, save
from support.convert_models import run_command as convert
from support.finetunings import Trainings, count_trainings
from support.judgements import write
from torch.nn import functional

import truneg_fairseq
from truneg_fairseq.commands.main import main
from truneg_fairseq.corpus_counts import count_tokens
from truneg_fairseq.data.indexed import read_tokens
from truneg_fairseq.data.tokenizer import BERT_SPECIALS, wordpiece_tokenizer
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.experiments import ExperimentOptions, evaluation
from truneg_fairseq.experiments.allowed_options import check_flags
from truneg_fairseq.experiments.evaluation import _mean_of
from truneg_fairseq.experiments.run_experiment import Runner
from truneg_fairseq.experiments.settings import Experiment, flags_of, read_experiment
from truneg_fairseq.fairseq_runs.folder import keep_lines
from truneg_fairseq.files import hold_lock
from truneg_fairseq.launch import process
from truneg_fairseq.models.checkpoints import read_checkpoint
from truneg_fairseq.registry import import_user_dir
from truneg_fairseq.results.result import Result, append_result, read_results
from truneg_fairseq.vocabulary import read_symbols

truneg_fairseq.register()
EXAMPLES = commands.REPOSITORY / "user_dir_examples" / "experiments"
UPDATES = 6
FILE = """
paths:
  data: ???
  judgements: ???
data: ${paths.data}
model:
  arch: truneg_bert_tiny
  options: {encoder-layers: 1, max_positions: 64}
training:
  task: masked_lm
  criterion: masked_lm_true_neg
  tokens-per-sample: 24
  batch-size: 4
  mask-prob: 0.3
  optimizer: adam
  lr: [0.01]
  lr-scheduler: fixed
  log-interval: 1
  data-buffer-size: 0
updates: 6
seeds: 2
arms:
  baseline: {}
  same: {options: {soft-targets: uniform=0}}
evaluations:
  held-out: {files: valid, batch-size: 7}
  lexsub: ${paths.judgements}
"""


@pytest.fixture(scope="module")
def folder(binarized, wordnet, tmp_path_factory) -> Path:
    """data-bin, swords.json.gz, file.yaml."""
    made = tmp_path_factory.mktemp("experiment")
    shutil.copytree(binarized, made / "data-bin")
    wordpiece_tokenizer((*BERT_SPECIALS, *WORDS, *PIECES)).save(made / "data-bin")
    write(made / "swords.json.gz")
    (made / "file.yaml").write_text(FILE, encoding="utf-8")
    return made


@pytest.fixture
def started(monkeypatch) -> Trainings:
    return count_trainings(monkeypatch)


@pytest.fixture
def evaluated(monkeypatch) -> list[str]:
    """The calls of evaluations."""
    made, call_logged = list[str](), evaluation.call_logged

    def counted(call, **options):
        made.append(str(call))
        return call_logged(call, **options)

    monkeypatch.setattr(evaluation, "call_logged", counted)
    return made


def trained(started: Trainings) -> list[str]:
    """The arms and seeds of the trainings that were started since the last call."""
    found = [str(Path(*folder.parts[-3:-1])) for folder in started.folders]
    started.lines.clear()
    return found


def experiment(folder: Path, output: Path, *arguments: str, values: tuple[str, ...] = ()) -> None:
    """With measurements over the training, one of which is where an epoch ends, so that fairseq saves none there."""
    named = (f"paths.data={folder / 'data-bin'}", f"paths.judgements={folder / 'swords.json.gz'}", "seeds=1")
    named += ("evaluations.held-out.every=2", "precision=bf16", "training.batch-size=88")
    file, output = map(str, (folder / "file.yaml", output))
    main(["experiment", file, "--output", output, "--cpu", *arguments, "--set", *named, *values])


def metrics(output: Path, task: str) -> dict[tuple[str, int], dict[str, float]]:
    return {(r.model, r.seed): r.metrics for r in read_results([output / "results.jsonl"]) if r.task == task}


def independent(checkpoint: Path, data: Path) -> tuple[Any, Any, dict[str, float]]:
    """A checkpoint's model and task, and its loss in bits and accuracy on ``valid``; mask seed 1, as in the file."""
    from fairseq import checkpoint_utils

    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data), "seed": 1})
    task.load_dataset("valid")
    logits, gold = [], []
    for batch in task.get_batch_iterator(task.dataset("valid"), max_sentences=3).next_epoch_itr(shuffle=False):
        counted = batch["target"] != task.source_dictionary.pad()
        gold.append(batch["target"][counted])
        with torch.no_grad():
            logits.append(model.eval()(**batch["net_input"])[0][counted].double())
    bits = functional.cross_entropy(torch.cat(logits), torch.cat(gold)).item() / math.log(2)
    return (
        model,
        task,
        {"bits": bits, "accuracy": (torch.cat(logits).argmax(1) == torch.cat(gold)).double().mean().item()},
    )


@pytest.mark.slow
def test_an_experiment_from_a_signal_to_its_tables_and_on(folder, tmp_path, started, evaluated, monkeypatch, capsys):
    output, updates_of = tmp_path / "out", process.updates_in

    def interrupted(log):
        found = updates_of(log)
        if "same" in str(log) and found >= 2:  # not 2 alone: a quick training may have made its next update
            os.kill(os.getpid(), signal.SIGUSR1)  # as a scheduler that takes the machine away
        return found

    monkeypatch.setattr(process, "updates_in", interrupted)
    with pytest.raises(SystemExit) as stopped:
        experiment(folder, output)
    assert stopped.value.code == 75
    told = capsys.readouterr().err
    assert f"stopped; the same command continues; results so far: {output / 'results.jsonl'}" in told
    assert trained(started) == ["baseline/seed-1", "same/seed-1"]
    assert (output / "runs/same/seed-1/train/checkpoint_last.pt").exists(), "it was told to save itself"
    assert set(metrics(output, "held-out text")) == {("baseline", 1)}

    monkeypatch.setattr(process, "updates_in", updates_of)
    # How often to validate may change: it has no effect on the bits.
    experiment(folder, output, values=("training.validate-interval-updates=4",))
    assert all("--cpu" in line for line in started.lines), "trainings keep off the GPU"
    assert trained(started) == ["same/seed-1"]
    assert len(evaluated) == 2, "one process a model"
    assert all("cpu=True" in call for call in evaluated), "evaluations too"
    train = output / "runs/same/seed-1/train"
    log = (train / "train.log").read_text()
    assert re.search(rf"Loaded checkpoint .*checkpoint_last.pt \(epoch \d @ [2-{UPDATES - 1}] updates\)", log)
    assert not list(output.rglob("checkpoint*.pt"))
    models = [torch.load(train / name, weights_only=True) for name in ("model-2.pt", "model-4.pt", "model.pt")]
    assert [model["optimizer_history"][-1]["num_updates"] for model in models] == [2, 4, UPDATES]
    assert all(model["last_optimizer_state"] is None for model in models)
    logged = map(json.loads, (train / "metrics.jsonl").read_text().splitlines())
    assert {line["num_updates"] for line in logged if line["kind"] == "epoch"} & {2, 4}, "or the test is of nothing"
    held_out = metrics(output, "held-out text")
    # The same batches, masks and dropout: the same objective ends in the same bits.
    assert held_out["same", 1] == held_out["baseline", 1]
    for name, after in (("model-2.pt", " after 33.33 %"), ("model-4.pt", " after 66.67 %"), ("model.pt", "")):
        found = metrics(output, f"held-out text{after}")["same", 1]
        _, _, expected = independent(train / name, folder / "data-bin")
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    tables = (output / "comparison.md").read_text()
    shown = dict(re.findall(r"^\| (\w+\.) 100 % +\| +([\d.]+) \|", tables, re.MULTILINE))
    rates = {"Iter.": found["hc_iter"], "Pred.": found["hc_pred"]}
    assert shown == {title: f"{100 * rate:.2f}" for title, rate in rates.items()}
    for task in ("lexsub masked", "lexsub kept", "lexsub masked (people)", "lexsub kept (people)"):
        assert len(metrics(output, task)) == 2
    assert "**lexsub kept**" in tables
    assert "Table 2" in (output / "report.html").read_text()

    # done: nothing is started again; more may be asked for
    experiment(folder, output)
    assert not trained(started) and len(evaluated) == 2
    more = ("arms.third.options.hc-weight=1", "arms.baseline.seeds=2")
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"1 failed, the first: broken seed 1: training failed .*train\.log"):
        experiment(folder, output, values=(*more, "arms.broken.options.encoder-attention-heads=3"))
    assert trained(started) == ["third/seed-1", "broken/seed-1", "baseline/seed-2"], "a failing arm keeps nobody"
    out = capsys.readouterr().out
    assert re.search(r"broken seed 1 +begun +0 of 2", out) and re.search(r"third seed 1 +done +2 of 2", out)
    assert len(metrics(output, "lexsub kept")) == 4
    assert metrics(output, "held-out text")["baseline", 2] != held_out["baseline", 1]

    # a job that exists is what it is
    for value, line in [
        (
            "training.lr=[0.02]",
            r"baseline/seed-1/train: was made with --lr 0\.01 \(now 0\.02\); give the same options",
        ),
        ("evaluations.held-out.every=3", r"baseline/seed-1/train: was made with .*every 2 \(now 3\)"),
        ("updates=7", r"baseline/seed-1/train: was made with updates 6 \(now 7\)"),
        ("training.weight-decay=0.1", r"was made with --weight-decay None \(now 0\.1\)"),
        (
            "arms.same.options.soft-targets=uniform=0.1",
            r"same/seed-1/train: was made with --soft-targets uniform=0 \(now uniform=0\.1\)",
        ),
    ]:
        with pytest.raises(SystemExit, match=line) as refused:
            experiment(folder, output, values=(value,))
        assert "\n" not in str(refused.value)
    # an evaluation with other options is done again, and so is one of a model that was trained again
    evaluated.clear()
    shutil.rmtree(output / "runs/third/seed-1/train")
    changed = (*more, "first_seed=1", "evaluations.held-out.mask-seed=2", "arms.third.options.hc-weight=0.5")
    before = metrics(output, "lexsub kept")["third", 1]
    experiment(folder, output, "--only", "same", "third", values=changed)
    assert trained(started) == ["third/seed-1"] and len(evaluated) == 2
    assert metrics(output, "held-out text")["same", 1] != held_out["same", 1]
    assert metrics(output, "lexsub kept")["third", 1] != before

    # results that are lost keep nobody
    (output / "runs/same/seed-1/train/measured.jsonl").unlink()
    lost = r"1 failed, the first: held-out, same seed 1: .*measured.jsonl.*; remove .*/evaluated.json to evaluate"
    with pytest.raises(SystemExit, match=lost):
        experiment(folder, output, values=changed)
    assert ("same", 1) not in metrics(output, "held-out text") and len(metrics(output, "lexsub kept")) == 4
    (output / "runs/same/seed-1/held-out/evaluated.json").unlink()
    experiment(folder, output, values=changed)
    assert ("same", 1) in metrics(output, "held-out text")


def test_a_checkpoint_of_another_dictionary_is_refused_before_the_first_training(folder, tmp_path, started):
    tokens = [*BERT_SPECIALS, *WORDS, *PIECES]
    save(random_model("BertModel", tokens=tokens), tmp_path / "bert", tokens)
    convert(tmp_path / "bert", tmp_path / "bert.pt", "--data", folder / "data-bin")
    lines = (folder / "data-bin" / "dict.txt").read_text().splitlines(keepends=True)
    for name, changed, line in (
        ("short", lines[1:], "embeddings, the dictionary of"),
        ("turned", lines[::-1], "finger"),
    ):
        data = shutil.copytree(folder / "data-bin", tmp_path / name)
        (data / "dict.txt").write_text("".join(changed))
        values = (f"model.checkpoint={tmp_path / 'bert.pt'}", "model.arch=null", f"paths.data={data}")
        with pytest.raises(SystemExit, match=line):
            experiment(folder, tmp_path / "out", values=values)
    assert not started.lines


def test_init_asks_for_what_it_needs(tmp_path):
    (tmp_path / "model.pt").touch()
    for flags, line in [
        (("--init", tmp_path / "model.pt", "--data", "d", "--model", "bert"), "model.pt: is there already; remove it"),
        ((), "experiment: found no FILE.yaml; --init FILE.yaml writes one"),
        (("--init", "a.yaml"), "--init: expected --data and --model, and no other FILE.yaml"),
        (("--init", "a.yaml", "--data", "d", "--model", "bert"), "--model bert: no such file or folder; hub:b"),
        (("--init", "a.yaml", "--data", "d", "--model", tmp_path / "model.pt"), r"d/dict\.txt: no such file"),
    ]:
        with pytest.raises(SystemExit, match=line):
            main(["experiment", *map(str, flags)])


@pytest.mark.slow
def test_electra_that_begins_as_a_bert_and_is_judged_by_its_last_validation(folder, tmp_path, started):
    """Both halves go on from the BERT's weights, in the sizes of the checkpoint: nothing starts anew."""
    tokens = [*BERT_SPECIALS, *WORDS, *PIECES]
    bert = random_model("BertModel", tokens=tokens, num_hidden_layers=4)
    save(bert, tmp_path / "bert", tokens)
    electra, script = tmp_path / "electra", EXAMPLES / "electra_from_bert.py"
    sizes = ("--generator-layers", 1, "--discriminator-layers", 3)
    commands.run_command([sys.executable, script, tmp_path / "bert", electra, *sizes])
    halves = (electra / "discriminator", "--generator", electra / "generator")
    convert(*halves, tmp_path / "electra.pt", "--data", folder / "data-bin")
    values = (
        *("model.arch=null", "model.options={encoder-layers: null, max_positions: null}", "updates=2"),
        *(f"model.checkpoint={tmp_path / 'electra.pt'}", "training.lr=1e-4", "precision=fp32"),
        *("training.task=electra_pretraining", "training.criterion=electra", "training.validate-interval-updates=1"),
        *("training.required-batch-size-multiple=1", "training.batch-size=4"),
        *("arms.same.options={discriminator-weight: 20}", "evaluations={electra: {}, held-out: valid}"),
    )
    experiment(folder, tmp_path / "out", "--only", "same", values=values)
    train = tmp_path / "out" / "runs" / "same" / "seed-1" / "train"
    log = (train / "train.log").read_text()
    assert "starts anew" not in log
    line = r"electra\.pt has a generator, and the task of arm baseline is masked_lm; expected electra_pretraining"
    with pytest.raises(SystemExit, match=line):
        experiment(folder, tmp_path / "other", values=(*values, "training.task=masked_lm"))
    trained = read_checkpoint(train / "model.pt").state
    for half, layers in (("generator", 1), ("encoder", 3)):
        assert not any(f"{half}.sentence_encoder.layers.{layers}." in key for key in trained)
        for key, name in {"fc1.weight": "intermediate.dense.weight", "fc2.bias": "output.dense.bias"}.items():
            found = trained[f"{half}.sentence_encoder.layers.{layers - 1}.{key}"]
            expected = bert.get_parameter(f"encoder.layer.{layers - 1}.{name}")
            torch.testing.assert_close(found, expected, atol=3e-4, rtol=0)  # as far as two updates go

    # What the last validation has logged; an update earlier it was another loss.
    first, last = (json.loads(line) for line in re.findall(r"\| valid \| (\{.*\})", log))
    assert (first["valid_num_updates"], last["valid_num_updates"]) == ("1", "2")
    for part, task in (("gen", "ELECTRA generator"), ("disc", "ELECTRA discriminator")):
        found = metrics(tmp_path / "out", task)["same", 1]
        assert found["bits"] == float(last[f"valid_{part}_loss"]) != float(first[f"valid_{part}_loss"])
        assert found["accuracy"] == pytest.approx(float(last[f"valid_{part}_accuracy"]) / 100)
        assert f"**{task}**" in (tmp_path / "out" / "comparison.md").read_text()
    # With the training's seed, truneg evaluate masks the same tokens; it measures the generator.
    generator, inspected = (metrics(tmp_path / "out", task) for task in ("ELECTRA generator", "held-out text"))
    assert inspected["same", 1]["bits"] == pytest.approx(generator["same", 1]["bits"], abs=1e-3)
    keep_lines(train, until=1)
    with pytest.raises(SystemExit, match=r"has no validation on valid after update 2; was it interrupted\? Remove"):
        experiment(folder, tmp_path / "out", "--only", "same", values=values)


def finetuned(options: str) -> tuple[str, str]:
    """In place of the held-out text; an empty folder stands for the task's."""
    return "held-out: {files: valid, batch-size: 7}", (
        f"finetune: {{glue: {{prepared: '${{paths.data}}/..', tasks: [RTE], options: {{{options}}}}}}}"
    )


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("updates: 6", "updates: 0", r"file.yaml: updates: Expected int >= 1; expected an experiment"),
        ("seeds: 2", "seeds: [1, 2", r"file.yaml: while parsing .* line 21, .*; expected an experiment"),
        ("baseline: {}", "baseline: {options: {seed: 3}}", r"baseline.options: has 'seed', which the experiment sets"),
        ("baseline: {}", "baseline: {synonym_table: no.npz}", r"arms.baseline.synonym_table: no.npz: no such file"),
        ("  arch: truneg_bert_tiny\n", "", r"file.yaml: model: has neither arch nor checkpoint"),
        ("data: ${paths.data}", "data: /nowhere", r"file.yaml: data: /nowhere: no such file"),
        ("  data: ???", "  data: ???\n  other: ???", r"file.yaml: paths.other has no value; give it with --set"),
        ("  held-out:", "  electra: {}\n  held-out:", r"evaluations.electra: arm baseline has the criterion masked"),
        ("baseline: {}", "baseline: {options: {hc-acceptance-model: no.json}}", r"model: /.*/no.json: no such file"),
        (*finetuned("epoch: 1"), r"evaluations.finetune.glue.options: has 'epoch'; expected only batch_size, "),
        (*finetuned("epochs: 0"), r"evaluations.finetune.glue.options: epochs 0: expected a number >= 1"),
        (*finetuned("lr: high"), r"evaluations.finetune.glue.options: lr: Expected float"),
        (*finetuned("output: x"), r"evaluations.finetune.glue.options: has 'output', which the experiment sets"),
        ("lr: [0.01]", "user_dir: /dir", r"training: has 'user-dir', which the experiment sets; expected other"),
        ("lr: [0.01]", "user-d: /dir", r"file.yaml: arm baseline: unrecognized arguments: --user-d=/dir; 'truneg tr"),
        ("lr: [0.01]", "user-dir=/dir: true", r"key in training: Expected str matching regex"),
        ("lr: [0.01]", "adam-betas: __import__('os').system('x')", r"--adam-betas=__import__.* read as code"),
        ("same: {", "same: {options: {sed: 3}}\n  other: {", r"arm same: unrecognized arguments: --sed=3"),
        ("lr: [0.01]", "lr: high", r"arm baseline: argument --lr: invalid .* value: 'high'"),
        ("lr: [0.01]", "aim-repo: here", r"training: has 'aim-repo', which the experiment sets"),
        ("lr: [0.01]", "ema-seed-model: x", r"ema-seed-model: takes any text, also a file or address"),
        (
            "updates: 6",
            "updates: 6\ntitle: a ${oc.env:HOME}",
            r"a \$\{oc.env:HOME\}: expected \$\{paths.NAME",
        ),
        ("updates: 6", 'updates: 6\ntitle: "\\x24{${paths.data}:HOME}"', r":HOME\}: expected \$\{paths.NAME\}"),
        ("valid, batch-size: 7", "vaild", r"evaluations.held-out vaild: .*/data-bin/vaild.idx: no such file"),
        ("batch-size: 7", "batch: 7", r"evaluations.held-out: has 'batch'; expected only batch_size, "),
        (
            "  lexsub:",
            "  lexsubs:",
            r"file.yaml: evaluations: lexsubs: found no yardstick .* did you mean lexsub",
        ),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(folder, tmp_path, old, new, line):
    (folder / "RTE").mkdir(exist_ok=True)
    with pytest.raises(TrueNegError, match=line) as refused:
        found = read(folder, tmp_path, old, new)
        runner = Runner(found, ExperimentOptions(cpu=True))
        check_flags(tmp_path / "file.yaml", found, runner.trainings)
    assert "\n" not in str(refused.value)


def test_a_fine_tuning_is_for_the_arms_that_it_names_and_waits_for_all_trainings(folder, tmp_path):
    (folder / "RTE").mkdir(exist_ok=True)
    asked = "finetune: {glue: {prepared: '${paths.data}/..', tasks: [RTE], seeds: 2, arms: [same]}}"
    found = read(folder, tmp_path, "held-out: {files: valid, batch-size: 7}", asked)
    first, second = Runner(found, ExperimentOptions(output=tmp_path)).trials[:2]
    named = [[each.name.partition(",")[0] for each in trial.evaluations] for trial in (first, second)]
    assert named == [["lexsub"], ["lexsub", "RTE 1", "RTE 2"]]
    assert (second.steps(slow=False), second.steps(slow=True)) == (2, 0)
    second.training.folder.mkdir(parents=True)
    second.training.model_path.touch()
    assert (second.steps(slow=False), second.steps(slow=True)) == (1, 2)


def read(folder: Path, place: Path, old: str, new: str, *values: str, only: tuple[str, ...] = ()) -> Experiment:
    path = place / "file.yaml"
    path.write_text(FILE.replace(old, new), encoding="utf-8")
    named = (f"paths.data={folder / 'data-bin'}", f"paths.judgements={folder / 'swords.json.gz'}")
    return read_experiment(path, [*named, *values], only)


def test_only_the_files_of_the_wanted_arms_have_to_be_there(folder, tmp_path):
    changed = (folder, tmp_path, "baseline: {}", "baseline: {synonym_table: no.npz}")
    assert list(read(*changed, only=("same",)).arms) == ["baseline", "same"]
    with pytest.raises(TrueNegError, match="--only nobody: expected some of baseline, same"):
        read(*changed, only=("nobody",))
    with pytest.raises(TrueNegError, match=r"while parsing .*; expected an experiment .*, with --set NAME=VALUE"):
        read(*changed, "updates=[3")


def test_one_command_at_a_time_for_a_run(folder, tmp_path):
    run = tmp_path / "out" / "runs" / "baseline" / "seed-1"
    run.mkdir(parents=True)
    with (
        hold_lock(run / ".lock", "held"),
        pytest.raises(SystemExit, match="another command is at work there"),
    ):
        experiment(folder, tmp_path / "out")


def test_options_as_flags():
    options = {"mask-whole-words": True, "lr": [0.1, 0.2], "fp16": False, "gone": None, "adam-betas": "(0.9, 0.98)"}
    assert flags_of(options) == ["--mask-whole-words", "--lr=0.1,0.2", "--adam-betas=(0.9, 0.98)"]


def test_the_mean_over_fine_tunings_is_one_result(tmp_path):
    for seed in (1, 2):
        scores = {"accuracy": [1.0, float(seed == 1)]}
        mean = {"accuracy": sum(scores["accuracy"]) / 2}
        append_result(
            tmp_path / "results.jsonl", Result(model="a", task="RTE", seed=seed, metrics=mean, examples=scores)
        )
    trial = SimpleNamespace(seed=7, arm="a")
    (mean,) = _mean_of([tmp_path / "results.jsonl"], trial)()
    assert (mean.seed, mean.metrics, mean.examples) == (7, {"accuracy": 0.75}, {"accuracy": [1.0, 0.5]})
    assert _mean_of([tmp_path / "results.jsonl", tmp_path / "not there"], trial)() == []


def test_the_examples_are_experiments(folder, tmp_path, monkeypatch):
    """Their names are those of the format, and the options of their evaluations those of the functions."""
    (tmp_path / "judgements").touch()
    monkeypatch.setattr("truneg_fairseq.experiments.settings._check_files", lambda *_: None)
    starting = (("--arch", "bert"), False)
    monkeypatch.setattr("truneg_fairseq.experiments.arm_training._starting_point", lambda *_: starting)
    import_user_dir(EXAMPLES.parent / "yardsticks")
    files = [*EXAMPLES.glob("*.yaml"), *(commands.PLUGIN / "experiments").glob("*.yaml")]
    assert len(files) >= 7
    for file in files:
        named = re.findall(r"^  (\w+): \?\?\?", file.read_text(), re.MULTILINE)
        found = read_experiment(file, [f"paths.{name}={tmp_path / name}" for name in named])
        runner = Runner(found, ExperimentOptions(file=file, output=tmp_path / "out", cpu=True))
        check_flags(file, found, runner.trainings)
        assert len(runner.trials) == sum(len(found.seeds_of(arm)) for arm in found.arms)
        for trial in runner.trials:
            assert "--max-update" in trial.training.flags
            assert trial.evaluations


def test_files_in_options_are_relative_to_the_command_and_compared_by_content(folder, tmp_path, monkeypatch):
    """Counts beside the data, which no option names, too."""
    data = shutil.copytree(folder / "data-bin", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    Path("file.yaml").write_text(FILE.replace("baseline: {}", "baseline: {options: {soft-targets: corpus=0.1}}"))
    values = [f"paths.data={data}", f"paths.judgements={folder / 'swords.json.gz'}"]
    values += ["training.hc-detector=embedding", "training.hc-acceptance-model=fitted.json"]
    settings = []
    for content in ("few", "many words"):
        Path("data/corpus_counts.npz").write_text(content)
        Path("fitted.json").write_text(content)
        found = read_experiment(Path("file.yaml"), values)
        training = Runner(found, ExperimentOptions(file=Path("file.yaml"), output=Path("out"))).trials[0].training
        assert f"--hc-acceptance-model={tmp_path / 'fitted.json'}" in training.flags
        settings.append(training.settings)
    assert all(settings[0][name] != settings[1][name] for name in ("--corpus-counts", "--hc-acceptance-model"))


def test_an_evaluation_is_done_again_where_a_file_of_its_folders_has_changed(folder, tmp_path):
    """Also below a linked folder, and where files of two folders have one name."""
    here, there, linked = (tmp_path / name for name in ("here", "there", "linked"))
    for file in (here / "a.jsonl", here / "deep" / "a.jsonl", there / "a.jsonl", linked / "b.jsonl"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    (there / "link").symlink_to(linked)

    def settings() -> dict[str, Any]:
        found = read(folder, tmp_path, "lexsub: ${paths.judgements}", f"blimp: [{here}, {there}]")
        (blimp,) = Runner(found, ExperimentOptions(output=tmp_path)).trials[0].evaluations[1:]
        return blimp.settings

    seen = [settings()]
    for file in sorted(tmp_path.rglob("*.jsonl")):
        file.write_text('{"changed": true}')
        seen.append(settings())
    assert len(seen) == 5 and all(one != other for one, other in itertools.pairwise(seen))


@pytest.mark.slow
def test_a_causal_lm_as_the_example_trains_it_to_its_verdict(folder, tmp_path, started, capsys):
    data, counts, answers = folder / "data-bin", tmp_path / "counts.npz", tmp_path / "answers.json"
    count_tokens(read_tokens(data / "train"), read_symbols(data)[:-1]).save(counts)
    answers.write_text(json.dumps([{"context": "The large", "word": "car", "answers": {"car": 2, "film": 1}}]))
    values = [f"paths.data={data}", f"paths.counts={counts}", f"paths.answers={answers}", "updates=3", "seeds=1"]
    values += [f"model.options.decoder-{name}" for name in ("layers=1", "embed-dim=16", "ffn-embed-dim=16")]
    values += ["training.tokens-per-sample=24", "training.batch-size=4", "training.warmup-updates=1"]
    main(["experiment", str(EXAMPLES / "causal_lm.yaml"), "--output", str(tmp_path / "out"), "--cpu", "--set", *values])
    held_out, cloze = metrics(tmp_path / "out", "held-out text, generated"), metrics(tmp_path / "out", "cloze")
    assert held_out.keys() == cloze.keys() == {("baseline", 1), ("uniform", 1), ("corpus", 1)}
    for arm in ("baseline", "corpus"):
        model, task, expected = independent(tmp_path / "out" / "runs" / arm / "seed-1" / "train" / "model.pt", data)
        assert held_out[arm, 1]["bits"] == pytest.approx(expected["bits"], abs=2e-3)  # logged with three digits
        begin, *words = [task.source_dictionary.index(word) for word in ("</s>", "the", "large", "car", "film")]
        with torch.no_grad():
            row = model(torch.tensor([[begin, *words[:2]]]))[0][0, -1].log_softmax(-1)[words[2:]] / math.log(2)
        assert cloze[arm, 1]["bits"] == pytest.approx(-float(row @ torch.tensor([2 / 3, 1 / 3])), abs=1e-4)
    shown = capsys.readouterr().out
    assert "\ncorpus against uniform: held-out loss " in shown
    assert max(map(len, shown.splitlines())) <= 100 + len(str(tmp_path))
    for text in (shown, *((tmp_path / "out" / name).read_text() for name in ("comparison.md", "report.html"))):
        assert "1 seed is no evidence, at least 3 are needed" in " ".join(text.split())
