"""What fairseq's logs say, in each of their forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.report.logs import Log, configuration_facts, read_log
from truneg_fairseq.report.run import Run, differing_facts, fact_names

INNER = {"epoch": 1, "update": 0.1, "loss": "5.5", "hc_pred": "0.25", "wps": "100", "num_updates": "10", "lr": "0.01"}
VALID = {"epoch": 1, "valid_loss": "5.25", "valid_hc_pred": "0.5", "valid_num_updates": "10", "valid_best_loss": "5.25"}
EPOCH = {"epoch": 1, "train_loss": "5.75", "train_num_updates": "12"}
BEFORE = {
    "printed": "2026-01-01 00:00:00 | INFO | {name} | ",
    "hydra": "[2026-01-01 00:00:00,123][{name}][INFO] - ",
    "file": "",
}


def read(tmp_path, *lines: str, end: str = "\n") -> Log:
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return read_log(path)


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_json_wherever_it_was_printed(before, tmp_path):
    stages = {"train_inner": INNER, "valid": VALID, "train": EPOCH}
    log = read(tmp_path, *(before.format(name=name) + json.dumps(content) for name, content in stages.items()))
    assert log.series["train_inner", "loss"] == {10: 5.5}
    assert log.series["train_inner", "hc_pred"] == {10: 0.25}
    assert log.series["valid", "hc_pred"] == {10: 0.5}
    assert log.series["train", "loss"] == {12: 5.75}
    assert log.validations == ["valid"]
    assert (log.updates, log.unread, log.finished) == (12, 0, False)


def test_the_simple_format(tmp_path):
    log = read(
        tmp_path,
        "2026-01-01 | INFO | train_inner | epoch 001:     10 / 47 loss=5.5, ppl=45, wps=0, num_updates=10, lr=0.01",
        "2026-01-01 | INFO | valid1 | epoch 001 | valid on 'valid1' subset | loss 5.25 | sr 0.9 | num_updates 10",
        "epoch 001 | loss 5.75 | ppl 53 | num_updates 47",
        "2026-01-01 | INFO | fairseq_cli.train | done training in 23.4 seconds",
    )
    assert log.series["train_inner", "loss"] == {10: 5.5}
    assert log.series["valid1", "sr"] == {10: 0.9}
    assert log.series["train", "loss"] == {47: 5.75}
    assert log.finished
    assert log.facts["seconds"] == "23.4"


@given(cut=st.integers(min_value=0, max_value=len(json.dumps(INNER))))
def test_a_line_that_is_cut_anywhere_never_counts(cut):
    import tempfile
    from pathlib import Path

    text = json.dumps(INNER)
    with tempfile.TemporaryDirectory() as folder:
        log = read(Path(folder), json.dumps(VALID), text[:cut], end="")
    assert log.series["valid", "loss"] == {10: 5.25}
    assert (("train_inner", "loss") in log.series) == (cut == len(text))
    assert log.unread == (0 if cut == len(text) or not text[:cut].startswith('{"epoch": ') else 1)


def test_what_is_not_finite_is_counted_and_left_out(tmp_path):
    log = read(tmp_path, json.dumps({**INNER, "loss": "nan", "hc_pred": "inf"}))
    assert log.not_finite == 2
    assert ("train_inner", "loss") not in log.series


def test_a_continued_training_overwrites_what_it_repeats(tmp_path):
    log = read(tmp_path, json.dumps(VALID), json.dumps({**VALID, "valid_loss": "4"}))
    assert log.series["valid", "loss"] == {10: 4.0}


def test_a_run_that_goes_on_is_not_finished(tmp_path):
    start = "2026 | INFO | fairseq_cli.train | {'_name': None, 'common': {'_name': None, 'seed': 7}}"
    done = "2026 | INFO | fairseq_cli.train | done training in 23.4 seconds"
    assert read(tmp_path, start, json.dumps(VALID), done).finished
    assert not read(tmp_path, start, json.dumps(VALID), done, start, json.dumps(VALID)).finished


def test_a_log_with_a_second_training_has_the_second_alone(tmp_path):
    """--log-file adds to its file; the checkpoints of the first were removed."""
    start = "2026 | INFO | fairseq_cli.train | {'_name': None, 'common': {'_name': None, 'seed': 7}}"
    first = [json.dumps({**INNER, "num_updates": str(update)}) for update in (1, 2, 3)]
    log = read(tmp_path, start, *first, json.dumps(VALID), start, *first[:2])
    assert log.series["train_inner", "loss"] == {1: 5.5, 2: 5.5}
    assert log.validations == [] or not log.series["valid", "loss"]
    continued = read(tmp_path, start, *first, json.dumps(VALID), start, first[2])
    assert continued.series["train_inner", "loss"] == {1: 5.5, 2: 5.5, 3: 5.5}


@pytest.mark.parametrize(
    "line",
    [
        '{"epoch": 1, "loss": ' + "9" * 400 + ', "num_updates": "10"}',
        json.dumps({**INNER, "num_updates": "9" * 24}),
        json.dumps({**INNER, "num_updates": "9" * 5_000}),
        "2026 | INFO | train_inner | epoch 001:     10 / 47 loss=5.5, num_updates=1e308",
        "2026 | INFO | train_inner | epoch 001:     10 / 47 loss=5.5, num_updates=-1",
    ],
    ids=["a huge number", "too many updates", "far too many", "in the simple format", "negative"],
)
def test_damaged_numbers_count_as_cut(line, tmp_path):
    log = read(tmp_path, json.dumps(VALID), line)
    assert log.updates == 10
    assert log.unread == 1 or ("train_inner", "loss") not in log.series


def test_a_damaged_configuration_leaves_the_rest():
    text = "{'_name': None, 'common': {'seed': 7}, 'task': {'data': '\\xZZ'}, 'max_update': " + "1" * 5_000 + "}"
    assert configuration_facts(text) == {"seed": "7"}


def test_the_configuration_may_hold_objects(tmp_path):
    text = (
        "{'_name': None, 'common': {'_name': None, 'seed': 7}, 'optimization': {'max_update': 50, 'lr': [0.01]}, "
        "'model': Namespace(arch='roberta_base', inf=inf), 'task': {'data': '/it\\'s/here'}, "
        "'criterion': {'_name': 'masked_lm_hc'}}"
    )
    facts = configuration_facts(text)
    assert facts == {"seed": "7", "data": "/it's/here", "max_update": "50", "lr": "[0.01]", "criterion": "masked_lm_hc"}
    log = read(tmp_path, f"2026 | INFO | fairseq_cli.train | {text}", "criterion: MaskedLmHardCorrection")
    assert log.facts["criterion"] == "masked_lm_hc", "the name to write, not the class"


def test_the_options_of_the_criterion_are_facts():
    """Runs of one criterion differ in them alone; a row that no run has set is left out."""
    runs = []
    for smoothing in ("none", "synonyms"):
        options = {"hc_weight": 0.0, "hc_detector": "table", "target_smoothing": smoothing, "synonym_source": None}
        text = str({"_name": None, "common": {"seed": 7}, "criterion": {"tpu": "${common.tpu}", **options}})
        runs.append(Run(smoothing, Path(smoothing), Log(), facts=configuration_facts(text)))
    assert runs[1].facts["target_smoothing"] == "synonyms"
    assert fact_names(runs) == ["seed", "hc_detector", "target_smoothing"]
    assert differing_facts(runs, fact_names(runs)) == {"target_smoothing": ["none", "synonyms"]}


def test_a_log_that_cannot_be_read(tmp_path):
    with pytest.raises(TrueNegError, match=r"none.log: cannot be read \(No such file"):
        read_log(tmp_path / "none.log")


def test_the_millionth_update(tmp_path):
    """fairseq's JSON has six digits of a number."""
    log = read(tmp_path, json.dumps({**INNER, "num_updates": "999999"}), json.dumps({**INNER, "num_updates": "1e+06"}))
    assert log.series["train_inner", "loss"] == {999_999: 5.5, 1_000_000: 5.5}
    assert log.unread == 0
