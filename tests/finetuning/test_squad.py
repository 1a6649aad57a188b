"""SQuAD's windows, answers, task and criterion: against loops, formulas and BERT's rules, on wild and real texts."""

from __future__ import annotations

import argparse
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attack import write_squad
from fairseq.data import data_utils
from fairseq.logging import metrics
from fairseq.models import ARCH_CONFIG_REGISTRY
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import tokenizers_made
from support.commands import truneg_data
from support.glue_files import save_data
from support.squad_examples import SIZES, one_line, prepare, write_data

import truneg_fairseq
from truneg_fairseq.data.tokenizer import BERT_SPECIALS, PretrainedVocabulary, wordpiece_tokenizer
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.finetuning import squad
from truneg_fairseq.finetuning.squad import build_features, window_bounds
from truneg_fairseq.finetuning.squad_features import (
    SquadFeatures,
    answer_questions,
    best_spans,
    best_windows,
    score_answers,
)
from truneg_fairseq.finetuning.squad_files import Answer, Question, SquadData, exact_match_and_f1

truneg_fairseq.register()

from truneg_fairseq.finetuning.fairseq_tasks import (  # noqa: E402
    SquadCriterion,
    SquadDataset,
    SquadTask,
    SquadTaskConfig,
    answer_logits,
    decode,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDPIECES = [*BERT_SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "cat", "sat", *"?!.,-()0123日"]
SEEDS, SMALL = st.integers(0, 10**6), st.integers(1, 9)


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory) -> dict[str, PretrainedVocabulary]:
    folder = tmp_path_factory.mktemp("data")
    tokenizers = (wordpiece_tokenizer(WORDPIECES), tokenizers_made.sentencepiece(), tokenizers_made.gpt2())
    return {t.tokenization: PretrainedVocabulary.load(save_data(folder / t.tokenization, t)) for t in tokenizers}


@pytest.fixture(scope="module")
def data(vocabularies) -> Path:
    return vocabularies["wordpiece"].folder


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> dict[bool, Path]:
    """Learnable data with up to three windows a question, by whether questions may have no answer."""
    folder = tmp_path_factory.mktemp("squad")
    small = write_data(folder / "data-bin")
    return {may: prepare(folder / str(may), small, unanswerable=may) for may in (False, True)}


# -- windows


@given(tokens=st.integers(0, 60), room=st.integers(1, 20), stride=st.integers(1, 25))
def test_windows_are_berts(tokens, room, stride):
    expected, start = [], 0
    while start < tokens or not expected:
        length = min(tokens - start, room)
        expected.append((start, start + length))
        if start + length == tokens:
            break
        start += min(length, stride)
    bounds = window_bounds(tokens, room, stride)
    assert bounds.dtype == np.int32
    assert [tuple(row) for row in bounds.tolist()] == expected


@given(tokens=st.integers(1, 60), room=st.integers(1, 20), stride=st.integers(1, 25))
def test_best_windows_are_berts(tokens, room, stride):
    bounds = window_bounds(tokens, room, stride)

    def best(position: int) -> int:
        scores = [
            (min(position - begin, end - 1 - position) * 100 + (end - begin)) if begin <= position < end else -1
            for begin, end in bounds.tolist()
        ]
        return scores.index(max(scores))

    assert best_windows(bounds, tokens).tolist() == [best(position) for position in range(tokens)]


CONTEXT = "The cat sat, (the cat) sat. 日本 cat!"


def one_question(context: str, answers: tuple[Answer, ...], **changes: object) -> SquadData:
    return SquadData((Question(**{"id": "q", "text": "Cat sat?", "context": context, "answers": answers, **changes}),))


def test_windows_as_tokens(vocabularies, tmp_path, monkeypatch):
    """Saved and loaded, they are the same."""
    vocabulary = vocabularies["wordpiece"]
    begin = CONTEXT.index("sat.")
    file = one_question(CONTEXT, (Answer("sat. 日", begin),))
    monkeypatch.setattr(squad, "DOC_STRIDE", 4)
    monkeypatch.setattr(squad, "MAX_QUERY_LENGTH", 2)
    made, counts = build_features(file, vocabulary, max_length=12, split="train")
    made.save(tmp_path / "train.npz")
    features = SquadFeatures.load(tmp_path / "train.npz")
    np.testing.assert_equal(vars(features), vars(made))
    shown = [" ".join(vocabulary.symbols[i] for i in features.tokens(w)) for w in range(len(features))]
    assert shown == [
        "<s> cat sat </s> the cat sat , ( the cat </s>",
        "<s> cat sat </s> ( the cat ) sat . 日 </s>",
        "<s> cat sat </s> sat . 日 <unk> cat ! </s>",
    ]
    assert features.lengths.tolist() == [12, 12, 11]
    assert features.window_answer.tolist() == [[0, 0], [8, 10], [4, 6]]
    assert [features.answer_text(w, *features.window_answer[w]) for w in (1, 2)] == ["sat. 日"] * 2
    # Of "( the cat" and "sat . 日", which two windows show, each goes to where it has more around it.
    assert [features.max_context(w)[4:-1].tolist() for w in range(3)] == [
        [True] * 6 + [False],
        [False] * 2 + [True] * 4 + [False],
        [False] * 2 + [True] * 4,
    ]
    assert [CONTEXT[a:b] for a, b in features.spans(2)[4:-1]] == ["sat", ".", "日", "本", "cat", "!"]
    assert features.spans(2)[[0, 3, -1]].tolist() == [[-1, -1]] * 3
    assert (counts["windows"], counts["windows without the answer"], counts["questions cut"]) == (3, 1, 1)
    content = (tmp_path / "train.npz").read_bytes()
    (tmp_path / "train.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(TrueNegError, match=r"train.npz: cannot be read .*; expected the windows .*prepare it again"):
        SquadFeatures.load(tmp_path / "train.npz")


def test_which_answer_is_the_label(vocabularies):
    second = CONTEXT.index("cat)")

    def build(*answers: tuple[str, int], split: str = "train", **changes: object) -> tuple:
        file = one_question(CONTEXT, tuple(Answer(*a) for a in answers), **changes)
        features, counts = build_features(file, vocabularies["wordpiece"], max_length=80, split=split)
        label = features.window_answer.tolist()
        return [features.answer_text(0, *row) for row in label if row[0]], len(features.ids), counts["not found"]

    # The first that is at its place.
    assert build(("sat", 4), ("cat", second), ("The", 0)) == (["cat"], 1, {})
    wrong = {"answer not at its place in the context": ["q"]}
    assert build(("cat", 5)) == ([], 0, wrong)
    assert build(("cat", 5), split="valid") == ([], 1, wrong)
    assert build(("cat", -4))[2] == build(("", 4))[2] == wrong
    assert build((" ", 3)) == ([], 0, {"answer without a token": ["q"]})
    assert build() == ([], 0, {"no answer given": ["q"]})
    assert build(impossible=True) == ([], 1, {})


# Words, white space, and what tokenizers drop, join or spell with several tokens.
WILD = st.text(
    st.sampled_from([*"aétTSs日本!, .\n\u00a0", "\u0301", "\u200b", "\0", "ﬁ", "İ", "ß", "🙂", "\u3000"]), max_size=40
)


@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece", "gpt2"])
@given(context=WILD, where=st.tuples(st.integers(0, 40), st.integers(1, 12)))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(context="sacre\u0301 t", where=(0, 6))
@example(context="t\u200b \u0301s\0", where=(3, 3))
@example(context="🙂🙂 t", where=(1, 1))
@example(context="S \0", where=(0, 3))
@example(context="S\u200b \u200bS", where=(0, 2))
def test_the_answer_is_cut_whole_from_any_text(kind, vocabularies, context, where, monkeypatch):
    monkeypatch.setattr(squad, "DOC_STRIDE", 5)
    vocabulary = vocabularies[kind]
    start = min(where[0], len(context))
    text = context[start : start + where[1]].strip()
    begin = context.find(text, start)
    file = one_question(context, (Answer(text, begin),) if text else ())
    features, counts = build_features(file, vocabulary, max_length=24, split="valid")
    cuts = [features.answer_text(w, *row) for w, row in enumerate(features.window_answer) if row[0]]
    words = [m for m in re.finditer(r"\S+", context) if m.start() < begin + len(text) and m.end() > begin]
    # Not of dropped characters alone.
    spelt = [m for m in words if (np.diff(vocabulary.encode_with_offsets(m[0])[1]) > 0).any()]
    assert not counts["not found"] if spelt else not any(map(str.isalnum, text))
    for cut in cuts:
        assert not spelt or context[max(spelt[0].start(), begin) : min(spelt[-1].end(), begin + len(text))] in cut
        assert cut in context[words[0].start() : words[-1].end()]
    if spelt and len(features.context_tokens) <= 24 - 12 - 3:
        assert len(cuts) == 1


@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece", "gpt2"])
def test_no_answer_begins_on_a_token_of_no_characters(kind, vocabularies):
    """SentencePiece and GPT-2 spell the space before an unknown letter as a token of its own."""
    vocabulary = vocabularies[kind]
    file = one_question("日本 t 🙂 t", (Answer("t", 3),))
    features, _ = build_features(file, vocabulary, max_length=96, split="valid")
    (begins,) = SquadDataset(features, "valid", 1, shuffle=False).collater([0])["begins"].numpy()
    spans = features.spans(0)
    empty = (spans[:, 0] >= 0) & (spans[:, 1] == spans[:, 0])
    assert empty.any() == (kind != "wordpiece")
    assert begins.tolist() == ((spans[:, 0] >= 0) & ~empty).tolist()


# -- files


def test_prepare(data, tmp_path, capsys):
    """What is printed; the second question has its answer at a wrong place."""
    folder, output = tmp_path / "files", tmp_path / "out"
    folder.mkdir()
    answers = {"q1": (Answer("cat", 4),), "q2": (Answer("cat", 5),), "q9": ()}
    questions = [Question(name, "Cat?", CONTEXT, known, impossible=not known) for name, known in answers.items()]
    for name in ("train-v2.0", "dev-v2.0"):
        write_squad(folder / f"{name}.json", SquadData(tuple(questions), "v2.0", unanswerable=True))
        (folder / f"{name}.json").write_bytes(b"\xef\xbb\xbf" + (folder / f"{name}.json").read_bytes())
    arguments = ("--task", f"SQuAD={folder}", "--data", data, "--output-dir", output)
    truneg_data("prepare", *arguments)
    assert capsys.readouterr().out.splitlines() == [
        f"{output / 'SQuAD'}: made",
        "train: 2 questions, 1 impossible, 1 contexts, 2 windows, 1 windows without the answer, 38 tokens, 1 unknown, "
        "0 questions cut",
        "train: left out 1, answer not at its place in the context (q2)",
        "valid: 3 questions, 1 impossible, 1 contexts, 3 windows, 2 windows without the answer, 57 tokens, 1 unknown, "
        "0 questions cut",
        "valid: kept 1, answer not at its place in the context (q2)",
    ]
    features = SquadFeatures.load(output / "SQuAD" / "train.npz")
    assert (features.ids, features.answers) == (["q1", "q9"], [["cat"], []])
    assert features.impossible.tolist() == [False, True]
    shutil.copytree(data, cased := tmp_path / "cased")
    tokenizer = (cased / "tokenizer.json").read_text(encoding="utf-8")
    (cased / "tokenizer.json").write_text(re.sub('"lowercase": true', '"lowercase": false', tokenizer))
    shutil.copy(folder / "dev-v2.0.json", folder / "dev-v1.1.json")
    named = [f"SQuAD={folder / name}.json" for name in ("train-v2.0", "dev-v2.0")]
    for words, message in (
        (arguments, r"has dev-v1\.1\.json, dev-v2\.0\.json, .*; expected one file with"),
        (("--task", *named, "--data", cased, *arguments[4:]), "was made with another tokenizer_sha256; remove it"),
    ):
        with pytest.raises(TrueNegError, match=message):
            truneg_data("prepare", *words)


# -- answers


def random_case(seed: int, rows: int, size: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    starts, ends = torch.randn(2, rows, size, generator=generator)
    context = torch.rand(rows, size, generator=generator) < 0.7
    begins = context & (torch.rand(rows, size, generator=generator) < 0.7)
    return starts, ends, begins, context


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rows=SMALL, size=st.integers(1, 12), longest=st.integers(1, 14))
def test_the_best_span_is_the_best_of_all(seed, rows, size, longest):
    starts, ends, begins, context = random_case(seed, rows, size)
    if seed % 2:  # of equal spans it is the first
        starts, ends = torch.zeros_like(starts), torch.zeros_like(ends)
    found = best_spans(starts, ends, begins, context, max_length=longest)
    for row in range(rows):
        spans = [
            (float(starts[row, first] + ends[row, last]), first, last)
            for first in range(size)
            for last in range(first, min(first + longest, size))
            if begins[row, first] and context[row, last]
        ]
        first, last, score = (field[row].item() for field in found)
        best = max(spans, key=lambda span: span[0], default=None)
        assert (score, first, last) == best if spans else score == -math.inf


def random_answers(prepared: Path, seed: int) -> tuple[SquadFeatures, np.ndarray]:
    """Features, and a random span of every window with random scores."""
    features, generator = SquadFeatures.load(prepared / "valid.npz"), np.random.default_rng(seed)
    answers = np.zeros((len(features), 5))
    for window in range(len(features)):
        span = np.sort(generator.choice(np.flatnonzero(features.spans(window)[:, 0] >= 0), 2))
        answers[window] = [window, *span, *generator.normal(size=2).astype(np.float32)]
    return features, answers


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_a_questions_answer_is_the_best_of_its_windows(seed, prepared):
    """In whatever order batches and workers had them."""
    features, answers = random_answers(prepared[False], seed)
    if seed % 2:  # of equal scores it is that of the first window
        answers[:, 3] = 0
    order = np.random.default_rng(seed).permutation(len(answers))
    texts, probabilities = answer_questions(features, answers[order], unanswerable=False)
    assert list(texts) == list(probabilities) == features.ids
    for question, name in enumerate(features.ids):
        rows = np.flatnonzero(features.window_question == question).tolist()
        best = max(rows, key=lambda row: answers[row, 3])
        assert texts[name] == features.answer_text(best, int(answers[best, 1]), int(answers[best, 2]))
        against = min(answers[rows, 4]) - answers[best, 3]
        assert probabilities[name] == pytest.approx(1 / (1 + math.exp(-against)))


def test_a_question_without_any_span_is_answered_with_nothing(prepared):
    """Its place may be a position of the padding, behind the last token of all contexts."""
    features, answers = random_answers(prepared[False], 1)
    answers[features.window_question == 1, 1:4] = [90, 90, -np.inf]
    texts, _ = answer_questions(features, answers, unanswerable=False)
    assert [name for name, text in texts.items() if not text] == [features.ids[1]]


# -- task, criterion and head


def make_task(folder: Path) -> SquadTask:
    task = SquadTask.setup_task(SquadTaskConfig(data=str(folder), seed=1))
    for split in ("train", "valid"):
        task.load_dataset(split)
    return task


def make_model(task: SquadTask) -> Any:
    args = argparse.Namespace(arch="electra_tiny", _name="electra_tiny", **SIZES)
    ARCH_CONFIG_REGISTRY["electra_tiny"](args)
    torch.manual_seed(0)
    model = task.build_model(args)
    with torch.no_grad():  # the initial head is too near to 0
        for parameter in model.question_answering_head.parameters():
            parameter.normal_(std=0.2)
    return model


def test_batches_are_the_features_in_another_order_each_epoch(prepared):
    task = make_task(prepared[False])
    dataset = task.dataset("valid")
    known, windows = dataset.features, [3, 0, len(dataset) - 1]
    batch = dataset.collater(windows)
    tokens, width = batch["net_input"]["src_tokens"], max(known.lengths[windows])
    assert (batch["id"].tolist(), batch["split"], tokens.size(1)) == (windows, "valid", width)
    for row, window in enumerate(windows):
        tail = width - known.lengths[window]
        assert tokens[row].tolist() == [*known.tokens(window), *[1] * tail]
        assert batch["context"][row].tolist() == [*(known.spans(window)[:, 0] >= 0), *[False] * tail]
        assert batch["begins"][row].tolist() == [*known.max_context(window), *[False] * tail]
        assert batch["target"][row].tolist() == known.window_answer[window].tolist()
    assert batch["net_input"]["padded"] and not dataset.collater([0, 0])["net_input"]["padded"]
    assert not batch["begins"].equal(batch["context"])  # windows overlap

    def order(epoch: int) -> list[int]:
        iterator = task.get_batch_iterator(task.dataset("train"), max_sentences=4, seed=1, epoch=epoch)
        return torch.cat([batch["id"] for batch in iterator.next_epoch_itr(shuffle=True)]).tolist()

    first, second = order(1), order(2)
    assert sorted(first) == sorted(second) == list(range(len(task.dataset("train"))))
    assert first != second == order(2)


def test_the_loss_is_over_the_context_and_none(prepared):
    task = make_task(prepared[False])
    model = make_model(task).eval()
    with data_utils.numpy_seed(1):
        sample = task.dataset("train").collater(task.dataset("train").ordered_indices()[:7].tolist())
    hidden = model(**sample["net_input"], features_only=True)[0]
    logits = model.question_answering_head.out_proj(hidden).detach()
    expected, right = 0.0, 0
    for row, (first, last) in enumerate(sample["target"].tolist()):
        places = [0, *np.flatnonzero(sample["context"][row])]
        for side, target in ((0, first), (1, last)):
            scores = logits[row, places, side]
            expected += float(scores.logsumexp(0) - logits[row, target, side]) / 2
        right += all(places[int(logits[row, places, side].argmax())] == (first, last)[side] for side in (0, 1))
    criterion = SquadCriterion.build_criterion(argparse.Namespace(), task).train()
    loss, size, log = criterion(model, sample)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert (size, log["sample_size"], int(log["correct"])) == (7, 7, right)
    assert "answers" not in log
    half, _, _ = criterion(model.bfloat16().train(), sample)
    assert half.dtype == torch.float32 and torch.isfinite(half)


def test_a_checkpoint_of_another_vocabulary_is_one_line(prepared):
    task = make_task(prepared[False])
    task.load_state_dict({})
    task.load_state_dict({"vocabulary": task.info["vocabulary"], "unanswerable": True})
    assert not task.unanswerable
    message = one_line(lambda: task.load_state_dict({"vocabulary": "0" * 64}))
    assert f"fingerprint {task.info['vocabulary'][:12]}, the checkpoint is of 000000000000" in message


def test_validation_scores_whole_questions_from_any_worker(prepared):
    """Batches of one window, dealt to three workers: the windows of a question are never together."""
    task = make_task(prepared[True])
    model, criterion = make_model(task), SquadCriterion.build_criterion(argparse.Namespace(), task)
    dataset = task.dataset("valid")

    def validate(steps: list[list[list[int]]]) -> dict[str, float]:
        with metrics.aggregate(new_root=True) as aggregated:
            for step in steps:
                logs = [task.valid_step(dataset.collater(windows), model, criterion.eval())[2] for windows in step]
                task.reduce_metrics(logs, criterion)
        return aggregated.get_smoothed_values()

    count = len(dataset)
    whole = validate([[list(range(count))]])
    dealt = validate(
        [[[window] for window in range(count)[first :: -(-count // 3)]] for first in range(-(-count // 3))]
    )
    for name in ("exact_match", "f1", "loss", "accuracy"):
        assert whole[name] == pytest.approx(dealt[name], abs=1e-3), name
    sample = dataset.collater(list(range(count)))
    answers = decode(answer_logits(model, sample), sample).numpy()
    texts, _ = answer_questions(dataset.features, answers, unanswerable=True)
    scores = score_answers(dataset.features, texts, unanswerable=True)
    assert exact_match_and_f1(scores, unanswerable=True) == {name: whole[name] for name in ("exact_match", "f1")}
    assert 0 < whole["f1"] < 100
    assert not criterion.eval().logging_outputs_can_be_summed()
    assert criterion.train().logging_outputs_can_be_summed()
