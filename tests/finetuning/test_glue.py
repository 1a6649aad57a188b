"""GLUE's official files, which stock fairseq's task reads once prepared; metrics, and BERT's way to shorten pairs."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import fairseq
import numpy as np
import pyarrow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet
from support.commands import PLUGIN, run_command, shared_file, truneg_data
from support.glue_files import write_data, write_model, write_tsv

import truneg_fairseq
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.finetuning.glue import TASKS, read_split, shared_lengths
from truneg_fairseq.vocabulary import fingerprint, read_symbols

truneg_fairseq.register()

WORDS = "the cat dog sat ran quick ##ly \" ' . , ? cafe".split()

PAIRS = [("the cat sat.", "the dog ran?"), ('"the quickly', "Café, 'cat"), ("dog", "the the the")]
ENTAILMENT = ["not_entailment", "entailment", "entailment"]
MNLI_LABELS = ["neutral", "contradiction", "entailment"]
SENTENCES = ["index", "sentence1", "sentence2"]
ORDER = {"valid1": [2, 1], "test1": [0, 1]}  # of the pairs; all three in the others
TRAIN_LABELS = {
    **{"CoLA": ["1", "0", "1"], "SST-2": ["1", "0", "1"], "MRPC": ["1", "0", "1"], "QQP": ["1", "0", "0"]},
    **{"STS-B": [1.0, 0.76, 0.0], "MNLI": MNLI_LABELS, "QNLI": ENTAILMENT, "RTE": ENTAILMENT},
}


def prepare(places: list[str], data: Path, output: Path, *flags: str) -> None:
    """The real command, in this process."""
    truneg_data("prepare", "--task", *places, "--data", data, "--output-dir", output, *flags)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data") / "bin", WORDS)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, data) -> Path:
    """All eight tasks, of the files in the folder "glue" beside it. Read only."""
    folder = tmp_path_factory.mktemp("glue")
    for task, labels in TRAIN_LABELS.items():
        (folder / "glue" / task).mkdir(parents=True)
        written = [f"{5 * label:g}" for label in labels] if task == "STS-B" else labels
        for split, name in TASKS[task].files:
            order = ORDER.get(split, [0, 1, 2])
            known = None if split.startswith("test") else [written[place] for place in order]
            write_tsv(folder / "glue" / task / name, task, [PAIRS[place] for place in order], known, first=7)
    prepare([f"GLUE={folder / 'glue'}"], data, folder / "out")
    return folder / "out"


@pytest.fixture
def glue(prepared, tmp_path) -> Path:
    return Path(shutil.copytree(prepared.parent / "glue", tmp_path / "glue"))


def load(folder: Path, split: str) -> tuple[list[str], list[object] | None]:
    """Sentences and labels of a split as stock fairseq reads them."""
    from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

    names = TASKS[json.loads((folder / "info.json").read_text())["task"]].labels
    cfg = SentencePredictionConfig(
        data=str(folder), num_classes=max(1, len(names)), init_token=0, no_shuffle=True, seed=1
    )
    cfg.regression_target, cfg.classification_head_name = not names, "head"
    task = SentencePredictionTask.setup_task(cfg)
    items = list(task.load_dataset(split))
    texts = [" ".join(task.dictionary[i] for i in item["net_input.src_tokens"]) for item in items]
    if "target" not in items[0]:
        return texts, None
    specials = task.label_dictionary.nspecial
    targets = [np.ravel(item["target"]).item() for item in items]
    return texts, [task.label_dictionary[target + specials] if names else target for target in targets]


def tokens_of(text: str) -> str:
    pieces = text.lower().replace("é", "e").replace("quickly", "quick ##ly")
    for mark in "\"'.,?":
        pieces = pieces.replace(mark, f" {mark} ")
    return " ".join(pieces.split())


@pytest.mark.parametrize("task", TRAIN_LABELS)
def test_stock_fairseq_reads_it(task, prepared, data):
    folder = prepared / task
    texts, labels = load(folder, "train")
    assert texts == [
        f"<s> {' '.join(f'{tokens_of(each)} </s>' for each in pair[: len(TASKS[task].texts)])}" for pair in PAIRS
    ]
    assert labels == (pytest.approx(TRAIN_LABELS[task]) if task == "STS-B" else TRAIN_LABELS[task])
    if task != "STS-B":
        names = [line.split()[0] for line in (folder / "label" / "dict.txt").read_text().splitlines()]
        assert names == sorted(set(TASKS[task].labels))
    assert load(folder, "test")[1] is None
    assert len(load(folder, "valid")[0]) == len(load(folder, "valid")[1])
    info = json.loads((folder / "info.json").read_text())
    assert info["vocabulary"] == fingerprint(read_symbols(data))
    assert info["splits"]["train"]["tokens"] == sum(len(text.split()) - 1 for text in texts)
    for name in ("dict.txt", "tokenizer_config.json", "tokenizer.json"):
        assert (folder / name).read_bytes() == (data / name).read_bytes()


# What nyu-mll/glue has of the same training pairs: the folder, the columns of the texts, and the numbers of the labels.
PARQUET = {
    "CoLA": ("cola", ["sentence"], [1, 0, 1]),
    "MRPC": ("mrpc", ["sentence1", "sentence2"], [1, 0, 1]),
    "STS-B": ("stsb", ["sentence1", "sentence2"], np.array([5, 3.8, 0], dtype=np.float32)),
    "MNLI": ("mnli", ["premise", "hypothesis"], [1, 2, 0]),
    "RTE": ("rte", ["sentence1", "sentence2"], [1, 0, 0]),
}


FORMS = {
    "{}-00000-of-00001.parquet": parquet.write_table,
    "{}/0000.parquet": parquet.write_table,
    "{}.csv": csv.write_csv,
    "{}.jsonl": lambda table, path: path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist())),
}


@pytest.mark.parametrize("form", FORMS)
def test_hugging_faces_files_give_the_same(form, prepared, data, tmp_path):
    for task, (folder, columns, labels) in PARQUET.items():
        place = tmp_path / "hub" / (task if form.endswith("csv") else folder)
        texts = dict(zip(columns, zip(*PAIRS, strict=True)))  # noqa: B905  (CoLA has one)
        for split, file in TASKS[task].files:
            known = np.full(3, -1) if split.startswith("test") else labels
            path = place / form.format(Path(file).stem.replace("dev", "validation"))
            path.parent.mkdir(parents=True, exist_ok=True)
            FORMS[form](pyarrow.table({**texts, "label": known, "idx": np.arange(3, dtype=np.int32)}), path)
    places = [f"{task}={tmp_path / 'hub' / task}" for task in PARQUET]
    for task in PARQUET:
        (tmp_path / "hub" / task).mkdir(exist_ok=True)
    prepare(places, data, tmp_path)
    for task in PARQUET:
        (label,) = (prepared / task / "label").glob("train.[bl]*")
        whole = form.endswith("parquet") or task != "STS-B"  # text has other digits of float32
        for part in ("input0/train.bin", "input0/train.idx", *([f"label/{label.name}"] if whole else [])):
            assert (tmp_path / task / part).read_bytes() == (prepared / task / part).read_bytes()
        assert (tmp_path / task / "ids/train.txt").read_text() == "0\n1\n2\n"
        assert load(tmp_path / task, "test")[1] is None
    with pytest.raises(TrueNegError, match=r"(?i)cola.*train.*: line 1 has no column 'sentence'"):
        FORMS[form](pyarrow.table({"x": [1]}), next((tmp_path / "hub").glob("[cC]o*/")) / form.format("train"))
        prepare([places[0]], data, tmp_path / "o")


def test_labels_of_hugging_face_are_whole_and_may_be_names(tmp_path):
    path = tmp_path / "train.jsonl"

    def labels(split: str, *values: object) -> list[str] | None:
        path.write_text("".join(json.dumps({"sentence": "A cat.", "label": value}) + "\n" for value in values))
        return read_split(TASKS["CoLA"], split, path).labels

    assert labels("train", "1", "0") == ["1", "0"]
    assert labels("test", None) is None
    for wrong in (None, -1):
        with pytest.raises(TrueNegError, match=f"line 2 has the label '{wrong}', expected one of 0, 1"):
            labels("train", 1, wrong)


def test_mnli_has_both_sets_and_ids_are_those_of_the_files(prepared):
    assert load(prepared / "MNLI", "valid")[1] == MNLI_LABELS
    texts, labels = load(prepared / "MNLI", "valid1")
    assert labels == MNLI_LABELS[:0:-1]
    assert texts[0] == "<s> dog </s> the the the </s>"
    assert [len(load(prepared / "MNLI", name)[0]) for name in ("test", "test1")] == [3, 2]

    def ids(task: str, split: str) -> list[str]:
        return (prepared / task / "ids" / f"{split}.txt").read_text().splitlines()

    assert ids("CoLA", "train") == ids("SST-2", "train") == ["0", "1", "2"]
    assert ids("MRPC", "train") == ["7 x", "8 x", "9 x"]
    assert ids("MRPC", "test") == ids("RTE", "test") == ["7", "8", "9"]
    assert ids("MNLI", "valid1") == ["7", "8"]


def test_longer_examples_are_cut_and_counted(glue, data, tmp_path, capsys):
    (glue / "RTE" / "test.tsv").unlink()
    rows = [[*SENTENCES, "label"], ["0", "the " * 600, "Cat zebra", "entailment"]]
    rows += [["1", " ", "the " * 126, "entailment"], ["2", "the " * 125, "", "entailment"]]
    (glue / "RTE" / "train.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    prepare([f"RTE={glue / 'RTE'}"], data, tmp_path / "out")
    printed = capsys.readouterr().out.splitlines()
    # With <s> and two </s> they have 605, 129 and 128 tokens.
    counts = "859 tokens, 1 unknown, 2 cut, 2 with an empty sentence, 0 broken lines skipped"
    assert printed[:2] == [f"{tmp_path / 'out' / 'RTE'}: made", f"train: 3 examples, {counts}"]
    texts, _ = load(tmp_path / "out" / "RTE", "train")
    assert texts[0] == " ".join(["<s>", *["the"] * 123, "</s> cat <unk> </s>"])
    assert [len(text.split()) for text in texts] == [128, 128, 128]
    prepare([f"RTE={glue / 'RTE'}"], data, tmp_path / "out")
    again = capsys.readouterr().out.splitlines()
    assert again == [f"{tmp_path / 'out' / 'RTE'}: is already there; remove it to make it again", *printed[1:]]
    with pytest.raises(TrueNegError, match=r"was made with max_length 128 \(now 64\)"):
        prepare([f"RTE={glue / 'RTE'}"], data, tmp_path / "out", "--max-length", "64")


def test_broken_lines_of_qqp_are_skipped_and_counted(glue, data, tmp_path, capsys):
    path = glue / "QQP" / "train.tsv"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:2], '9\t1\t2\t"the', 'cat"\tdog\t1', *lines[2:]]) + "\n", encoding="utf-8")
    prepare([f"QQP={glue / 'QQP'}"], data, tmp_path / "out")
    assert "train: 3 examples" in (printed := capsys.readouterr().out)
    assert "2 broken lines skipped" in printed
    assert load(tmp_path / "out" / "QQP", "train")[1] == TRAIN_LABELS["QQP"]


def test_marks_and_line_ends_of_windows(glue, data, tmp_path, prepared):
    for task in ("CoLA", "MRPC"):
        for path in (glue / task).iterdir():
            text = path.read_text(encoding="utf-8").replace("\n", "\r\n")
            if path.name == "train.tsv" and task == "CoLA":  # a file that was made like it may have a header
                text = f"source\tlabel\tmark\tsentence\r\n{text}"
            path.write_bytes(("\ufeff" + text + "\r\n").encode())
    places = [f"{task}={glue / task}" for task in ("CoLA", "MRPC")]
    prepare(places, data, tmp_path / "out")
    for task in ("CoLA", "MRPC"):
        for part in ("input0/train.bin", "label/train.bin", "input0/test.bin", "ids/train.txt"):
            assert (tmp_path / "out" / task / part).read_bytes() == (prepared / task / part).read_bytes()


@pytest.mark.parametrize("task", ["MRPC", "STS-B"])
def test_swapped_pairs_double_the_training_set_only(task, glue, data, tmp_path, prepared):
    places = [f"{name}={glue / name}" for name in ("RTE", task)]
    prepare(places, data, tmp_path, "--swap-pairs")
    (once, labels), (twice, labels2) = load(prepared / task, "train"), load(tmp_path / task, "train")
    assert twice == once + [f"<s> {tokens_of(other)} </s> {tokens_of(one)} </s>" for one, other in PAIRS]
    assert [str(label) for label in labels2] == [str(label) for label in labels * 2]
    assert load(tmp_path / task, "valid")[0] == load(prepared / task, "valid")[0]
    assert load(tmp_path / "RTE", "train")[0] == load(prepared / "RTE", "train")[0]
    with pytest.raises(TrueNegError, match="was made with swap_pairs "):
        prepare([places[1]], data, tmp_path)


RTE = "index\tsentence1\tsentence2\tlabel\n0\tthe\tcat\tentailment\n"
BAD = {
    "columns": ("RTE", "train.tsv", RTE + "1\tthe cat\tentailment\n", "line 3 has 3 columns, expected 4"),
    "label": ("RTE", "dev.tsv", RTE + "1\tthe\tcat\tmaybe\n", "line 3 has the label 'maybe', expected one of entail"),
    "no score": ("STS-B", "dev.tsv", "sentence1\tsentence2\tscore\na\tb\tnan\n", "line 2 has the label 'nan'"),
    "no number": ("STS-B", "dev.tsv", "sentence1\tsentence2\tscore\na\tb\tfive\n", "line 2 has the label 'five'"),
    "header": ("RTE", "train.tsv", "0\tthe\tcat\tentailment\n", "line 1 has no column 'sentence1', 'sentence2', 'la"),
    "no example": ("SST-2", "dev.tsv", "sentence\tlabel\n", "dev.tsv: has no example; expected a line for each"),
    "missing file": ("MNLI", "dev_mismatched.tsv", None, "dev_mismatched.tsv missing; expected the official files"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_input_is_one_line(name, glue, data, tmp_path, capsys):
    task, file, text, message = BAD[name]
    path = glue / task / file
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(TrueNegError, match=task) as raised:
        prepare([f"{task}={glue / task}"], data, tmp_path / "out")
    assert message in str(raised.value)
    assert not list((tmp_path / "out").glob("*"))


def test_real_files():
    for task, sizes in {"CoLA": (8551, 1043), "MRPC": (3668, 408), "STS-B": (5749, 1500), "RTE": (2490, 277)}.items():
        files = TASKS[task].find_files([shared_file(f"glue/{task}")])
        splits = [read_split(TASKS[task], split, files[split]) for split in ("train", "valid")]
        assert [(len(split), split.skipped, split.empty) for split in splits] == [(size, 0, 0) for size in sizes]
        assert all(len(set(split.ids)) == len(split) for split in splits)


def test_fairseqs_recipe_runs(prepared, data, tmp_path):
    """As docs/start/finetune.md has it: sizes of the model, 8 positions and so shortened pairs."""
    start = write_model(tmp_path, data, "RobertaForMaskedLM", max_position_embeddings=8)
    pretrained = torch.load(start, weights_only=True)["model"]
    result = run_command(
        [
            *(sys.executable, "-m", "fairseq_cli.hydra_train", "--config-name", "rte", "--config-dir"),
            Path(fairseq.__file__).parent / "examples" / "roberta" / "config" / "finetuning",
            *(f"common.user_dir={PLUGIN}", f"task.data={prepared / 'RTE'}", "common.fp16=false", "common.cpu=true"),
            *("+model.encoder_layers=2", "+model.encoder_embed_dim=32", "+model.encoder_ffn_embed_dim=48"),
            *("+model.encoder_attention_heads=4", "task.max_positions=8", "+task.shorten_method=truncate"),
            *(f"checkpoint.restore_file={start}", f"checkpoint.save_dir={tmp_path / 'saved'}"),
            *("optimization.max_update=2", "dataset.num_workers=0", "dataset.data_buffer_size=0"),
            f"hydra.run.dir={tmp_path / 'hydra'}",
        ]
    )
    said = result.stdout + result.stderr
    assert "Loaded checkpoint" in said
    assert '"valid_accuracy"' in said
    tuned = torch.load(tmp_path / "saved" / "checkpoint_best.pt", weights_only=False)["model"]
    name = "encoder.sentence_encoder.embed_tokens.weight"
    # A learning rate of 1.6e-7 a step in the warm-up: nearly what it was, and not a new model.
    assert torch.allclose(tuned[name], pretrained[name], atol=1e-5)
    assert any(key.startswith("classification_heads") for key in tuned)


def test_metrics_of_constants_are_zero():
    """Correlations, which nothing defines there; F1 where class 1 is never predicted."""
    constant, labels = np.zeros(4), np.array([0, 1, 1, 0])
    metrics = {
        "CoLA": {"matthews": 0.0, "accuracy": 0.5},
        "QQP": {"accuracy": 0.5, "f1": 0.0},
        "STS-B": {"pearson": 0, "spearman": 0},
    }
    for task, expected in metrics.items():
        assert TASKS[task].score(constant, labels)["metrics"] == expected
    assert TASKS["STS-B"].score(labels, constant)["metrics"] == metrics["STS-B"]


def shortened(first: int, second: int, budget: int) -> tuple[int, int]:
    """BERT's loop: the longer one loses its last token, the second where both are as long."""
    while first + second > budget:
        first, second = (first - 1, second) if first > second else (first, second - 1)
    return first, second


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 50))
def test_pairs_are_shortened_as_in_bert(first, second, budget):
    kept = shared_lengths(np.array([first]), np.array([second]), budget)
    assert tuple(int(part[0]) for part in kept) == shortened(first, second, budget)
