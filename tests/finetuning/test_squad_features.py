"""SQuAD's windows: their arithmetic against loops, their offsets on wild texts, the real script on real JSON."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import tokenizers_made
from support.commands import shared_file
from support.glue_files import save_data

from truneg_fairseq.commands.main import main
from truneg_fairseq.data.tokenizer import BERT_SPECIALS, PretrainedVocabulary, read_vocabulary, wordpiece_tokenizer
from truneg_fairseq.finetuning import squad
from truneg_fairseq.finetuning.squad import build_features, close_gaps, window_bounds
from truneg_fairseq.finetuning.squad_features import SquadFeatures, best_windows
from truneg_fairseq.finetuning.squad_files import Answer, Question, SquadData, read_squad
from truneg_fairseq.vocabulary import fingerprint, read_symbols

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDPIECES = [*BERT_SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "cat", "sat", *"?!.,-()0123日"]


def prepare(*arguments: object) -> None:
    """The real command, in this process."""
    main(["data", "prepare", *map(str, arguments)])


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory) -> dict[str, PretrainedVocabulary]:
    folder = tmp_path_factory.mktemp("data")
    tokenizers = (wordpiece_tokenizer(WORDPIECES), tokenizers_made.sentencepiece(), tokenizers_made.gpt2())
    return {t.tokenization: PretrainedVocabulary.load(save_data(folder / t.tokenization, t)) for t in tokenizers}


@pytest.fixture(scope="module")
def data(vocabularies) -> Path:
    return vocabularies["wordpiece"].folder


# -- arithmetic


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


def test_gaps_are_closed_to_the_token_they_touch():
    text = "\u0301a\u200b b\u0301c \u200d d\0"
    spans = np.array([[1, 2], [4, 5], [6, 7], [10, 11]], dtype=np.int32)
    assert close_gaps(text, spans).tolist() == [[0, 3], [4, 6], [6, 7], [10, 12]]
    assert close_gaps("\u200b", np.zeros((0, 2), np.int32)).shape == (0, 2)
    # Two tokens spell the last character together.
    shared = np.array([[0, 1], [0, 1], [3, 4]], dtype=np.int32)
    assert close_gaps("é\u200b d", shared).tolist() == [[0, 1], [0, 2], [3, 4]]
    within = np.array([[0, 3], [1, 2], [4, 5]], dtype=np.int32)
    assert close_gaps("abc d", within).tolist() == within.tolist()


# -- features

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
    made, counts = build_features(file, vocabulary, 12, training=True)
    made.save(tmp_path)
    features = SquadFeatures.load(tmp_path)
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
    assert features.context_mask(2).tolist() == [False] * 4 + [True] * 6 + [False]
    # Of "( the cat" and "sat . 日", which two windows show, each goes to where it has more around it.
    assert [features.max_context(w)[4:-1].tolist() for w in range(3)] == [
        [True] * 6 + [False],
        [False] * 2 + [True] * 4 + [False],
        [False] * 2 + [True] * 4,
    ]
    assert [CONTEXT[a:b] for a, b in features.spans(2)[4:-1]] == ["sat", ".", "日", "本", "cat", "!"]
    assert features.spans(2)[[0, 3, -1]].tolist() == [[-1, -1]] * 3
    assert list(features.windows_of(0)) == [0, 1, 2]
    assert (counts["windows"], counts["windows without the answer"], counts["tokens"]) == (3, 1, 35)
    assert (counts["unknown"], counts["questions cut"], counts["longer than 128"]) == (1, 1, 0)


def test_which_answer_is_the_label(vocabularies):
    second = CONTEXT.index("cat)")

    def build(*answers: tuple[str, int], training: bool, **changes: object) -> tuple:
        file = one_question(CONTEXT, tuple(Answer(*a) for a in answers), **changes)
        features, counts = build_features(file, vocabularies["wordpiece"], 80, training=training)
        label = features.window_answer.tolist()
        return [features.answer_text(0, *row) for row in label if row[0]], len(features.ids), counts["not found"]

    # The first that is at its place.
    assert build(("sat", 4), ("cat", second), ("The", 0), training=True) == (["cat"], 1, {})
    wrong = {"answer not at its place in the context": ["q"]}
    assert build(("cat", 5), training=True) == ([], 0, wrong)
    assert build(("cat", 5), training=False) == ([], 1, wrong)
    assert build(("cat", -4), training=True)[2] == build(("", 4), training=True)[2] == wrong
    assert build((" ", 3), training=True) == ([], 0, {"answer without a token": ["q"]})
    assert build(training=True) == ([], 0, {"no answer given": ["q"]})
    assert build(training=True, impossible=True) == ([], 1, {})


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
    features, counts = build_features(file, vocabulary, 24, training=False)
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
    pytest.importorskip("fairseq")
    from truneg_fairseq.finetuning.fairseq_tasks import SquadDataset

    vocabulary = vocabularies[kind]
    file = one_question("日本 t 🙂 t", (Answer("t", 3),))
    features, _ = build_features(file, vocabulary, 96, training=False)
    (begins,) = SquadDataset(features, "valid", 1, shuffle=False).collater([0])["begins"].numpy()
    spans = features.spans(0)
    empty = features.context_mask(0) & (spans[:, 1] == spans[:, 0])
    assert empty.any() == (kind != "wordpiece")
    assert begins.tolist() == (features.context_mask(0) & ~empty).tolist()


def test_real_answers_are_cut_whole(tmp_path):
    vocab = shared_file("bert/vocab.txt")
    vocabulary = PretrainedVocabulary.load(save_data(tmp_path, wordpiece_tokenizer(read_vocabulary(vocab))))
    file = read_squad(shared_file("squad/articles-train.json"))
    features, counts = build_features(file, vocabulary, 384, training=True)
    assert (counts["questions"], counts["contexts"], counts["not found"]) == (8157, 1689, {})
    assert counts["windows"] == len(features) == 8241
    answered = np.zeros(len(features.ids), dtype=bool)
    exact = 0
    for window in np.flatnonzero(features.window_answer[:, 0]):
        question = features.window_question[window]
        text = features.answers[question][0]
        cut = features.answer_text(window, *features.window_answer[window])
        assert text.strip() in cut
        exact += cut == text
        answered[question] = True
    assert answered.all()
    # The others end inside a word ("century" in "centuries").
    assert exact / len(answered) > 0.99


# -- files


def squad_json(*questions: dict, context: str = CONTEXT) -> str:
    return json.dumps(
        {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": questions}]}]}
    )


def question(number: int, text: str = "cat", begin: object = 4, **more: object) -> dict:
    return {"id": f"q{number}", "question": "Cat?", "answers": [{"text": text, "answer_start": begin}], **more}


IMPOSSIBLE = {
    **question(9, is_impossible=True),
    **{"answers": [], "plausible_answers": [{"text": "cat", "answer_start": 4}]},
}


@pytest.fixture
def files(tmp_path) -> str:
    """The same questions to train on and to validate, as an option."""
    (tmp_path / "files").mkdir()
    for name in ("train-v2.0", "dev-v2.0"):
        text = "\ufeff" + squad_json(question(1), question(2, begin=5), IMPOSSIBLE)
        (tmp_path / "files" / f"{name}.json").write_text(text, encoding="utf-8")
    return f"SQuAD={tmp_path / 'files'}"


def test_script(files, data, tmp_path, capsys):
    arguments = ("--task", files, "--data", data, "--output-dir", tmp_path / "out")
    prepare(*arguments)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"{tmp_path / 'out' / 'SQuAD'}: made",
        "train: 2 questions, 1 impossible, 1 contexts, 2 windows, 1 windows without the answer, 38 tokens, 1 unknown, "
        "0 questions cut, 0 longer than 128, 0 longer than 512",
        "train: left out 1, answer not at its place in the context (q2)",
        "valid: 3 questions, 1 impossible, 1 contexts, 3 windows, 2 windows without the answer, 57 tokens, 1 unknown, "
        "0 questions cut, 0 longer than 128, 0 longer than 512",
        "valid: kept 1, answer not at its place in the context (q2)",
    ]
    info = json.loads((tmp_path / "out" / "SQuAD" / "info.json").read_text())
    assert info["vocabulary"] == fingerprint(read_symbols(tmp_path / "out" / "SQuAD"))
    assert info["max_length"] == 384
    features = SquadFeatures.load(tmp_path / "out" / "SQuAD" / "train")
    assert features.ids == ["q1", "q9"]
    assert features.impossible.tolist() == [False, True]
    assert features.answers == [["cat"], []]
    assert features.answer_text(0, *features.window_answer[0]) == "cat"
    prepare(*arguments)
    again = capsys.readouterr().out.splitlines()
    assert again == [f"{tmp_path / 'out' / 'SQuAD'}: is already there; remove it to make it again", *printed[1:]]
    with pytest.raises(SystemExit, match="was made with another max_length; remove it"):
        prepare(*arguments, "--max-length", 512)
    shutil.copytree(data, cased := tmp_path / "cased")
    tokenizer = (cased / "tokenizer.json").read_text(encoding="utf-8")
    (cased / "tokenizer.json").write_text(re.sub('"lowercase": true', '"lowercase": false', tokenizer))
    with pytest.raises(SystemExit, match="was made with another tokenizer_sha256; remove it"):
        prepare(*arguments[:-4], "--data", cased, *arguments[-2:])


def test_half_a_file_is_one_line(data, tmp_path):
    path = tmp_path / "train-bad.json"
    path.write_text(squad_json(question(1))[:-30], encoding="utf-8")
    with pytest.raises(SystemExit, match=r"not JSON in UTF-8 \(.*\); expected SQuAD's JSON, whole") as caught:
        prepare("--task", f"SQuAD={path}", "--data", data, "--output-dir", tmp_path / "out")
    assert "train-bad.json: " in str(caught.value) and "\n" not in str(caught.value)
    assert not list((tmp_path / "out").glob("*"))


def test_two_files_of_a_split_are_told_apart_by_name(files, data, tmp_path):
    folder = Path(files.removeprefix("SQuAD="))
    shutil.copy(folder / "dev-v2.0.json", folder / "dev-v1.1.json")
    with pytest.raises(SystemExit, match=r"has dev-v1\.1\.json, dev-v2\.0\.json, .*; expected one file with"):
        prepare("--task", files, "--data", data, "--output-dir", tmp_path / "out")
    named = [f"SQuAD={folder / name}.json" for name in ("train-v2.0", "dev-v2.0")]
    prepare("--task", *named, "--data", data, "--output-dir", tmp_path / "out")
    info = json.loads((tmp_path / "out" / "SQuAD" / "info.json").read_text())
    assert {split: source["file"] for split, source in info["sources"].items()} == {
        "train": "train-v2.0.json",
        "valid": "dev-v2.0.json",
    }
    shutil.copy(folder / "dev-v2.0.json", tmp_path / "questions.json")
    named.append(f"SQuAD={tmp_path / 'questions.json'}")
    with pytest.raises(SystemExit, match=r"has .*questions\.json; expected one file with train"):
        prepare("--task", *named, "--data", data, "--output-dir", tmp_path / "o")
