"""SQuAD as a fine-tuning task: its JSON to sliding windows, its settings, answers and scores.

``SQuAD/`` holds ``dict.txt``, the tokenizer's files, ``info.json``, and for each split its :class:`SquadFeatures`,
such as ``train.npz``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.tokenizer import PretrainedVocabulary
from ..errors import TrueNegError
from ..files import write_json
from ..results.result import Metric
from ..vocabulary import UNKNOWN
from ..workers import Progress
from . import PredictOptions
from .squad_features import SPECIAL_TOKENS, SquadFeatures, answer_questions, score_answers
from .squad_files import Question, SquadData, exact_match_and_f1, read_squad, scorer_of
from .task import LARGE_WIDTH, FinetuningTask, Recipe, answer_all, electra_layer_lr_decay

if TYPE_CHECKING:
    from ..convert.architecture import ModelConfig

ANSWERS_NAME = "predictions.json"
MAX_QUERY_LENGTH, DOC_STRIDE = 64, 128
"""BERT's: tokens of the longest question, and between the starts of two windows."""
_SPLITS = {"train": ("train",), "valid": ("dev", "valid")}
"""By split, the words in the names of its files."""
_SUFFIXES = (".json", ".jsonl", ".parquet")
_SHOWN = {"exact_match": Metric("EM", True), "f1": Metric("F1", True)}


class Squad(FinetuningTask):
    """Questions that a span of a text answers, SQuAD 1.1 or 2.0."""

    name = "SQuAD"
    counted = "windows"
    max_length = 384

    def find_files(self, places: Sequence[Path]) -> dict[str, Path]:
        named = [path for place in places for path in ([place] if place.is_file() else sorted(place.glob("*")))]
        files = [path for path in named if path.suffix in _SUFFIXES]
        by_split = {
            split: [p for p in files if any(word in p.name for word in words)] for split, words in _SPLITS.items()
        }
        found = {split: paths[0] for split, paths in by_split.items() if paths}
        unknown = {place for place in places if place.is_file()} - set(found.values())
        if unknown or not found or any(len(paths) > 1 for paths in by_split.values()):
            raise TrueNegError(
                f"--task SQuAD={places[0]}: has {', '.join(path.name for path in named)}; expected one file with train "
                "and one with dev in its name: name them, as SQuAD=train-v1.1.json SQuAD=dev-v1.1.json ('truneg "
                "predict' reads files of any name)"
            )
        return found

    def write(
        self, folder: Path, files: Mapping[str, Path], vocabulary: PretrainedVocabulary, chosen: Mapping[str, Any]
    ) -> dict[str, Any]:
        counts = {}
        for split, data in [(split, read_squad(path)) for split, path in files.items()]:
            features, counts[split] = build_features(data, vocabulary, **chosen, split=split)
            features.save(folder / f"{split}.npz")
        return counts

    def shown(self, info: Mapping[str, Any]) -> tuple[str, str, dict[str, Metric]]:
        if any(split["impossible"] for split in info["splits"].values()):
            return "SQuAD 2.0", "SQuAD 2.0", _SHOWN
        return self.name, "SQuAD 1.1", _SHOWN

    def recipe(self, config: ModelConfig, info: Mapping[str, Any]) -> Recipe:
        """The settings of ELECTRA's code, which has 1e-4 for small models too where table 7 of its paper has 3e-4."""
        return Recipe(
            lr=1e-4 if config.hidden_size < LARGE_WIDTH else 5e-5,
            layer_lr_decay=electra_layer_lr_decay(config.hidden_size),
            epochs=2,
        )

    def flags(self, config: ModelConfig) -> list[object]:
        return ["--task", "squad", "--criterion", "squad"]

    def evaluate(self, model: Any, task: Any, prepared: Path, folder: Path) -> dict[str, Any]:
        features = SquadFeatures.load(prepared / "valid.npz")
        texts, _ = answer(model, task, features)
        write_json(folder / ANSWERS_NAME, texts)
        scores = score_answers(features, texts, unanswerable=task.unanswerable)
        examples = {
            "exact_match": [float(score.exact) for score in scores.values()],
            "f1": [score.f1 for score in scores.values()],
        }
        metrics = {name: math.fsum(each) / len(each) for name, each in examples.items()}
        return {"metrics": metrics, "examples": examples, "example_ids": list(scores)}

    def predict(self, model: Any, task: Any, prepared: Path, options: PredictOptions) -> dict[str, float]:
        features = SquadFeatures.load(prepared / "test.npz")
        texts, probabilities = answer(model, task, features, options.threshold)
        if options.na_prob_file is not None:  # in the official format of SQuAD 2.0
            write_json(options.na_prob_file, probabilities)
        if options.output is not None:
            write_json(options.output, texts)
        unanswerable = bool(features.impossible.any())
        scores = score_answers(features, texts, unanswerable=unanswerable)
        return {"examples": len(texts), **(exact_match_and_f1(scores, unanswerable=unanswerable) if scores else {})}

    def scorer(self, file: Path) -> str | None:
        return scorer_of(read_squad(file))


def answer(
    model: Any, task: Any, features: SquadFeatures, threshold: float = 0.5
) -> tuple[dict[str, str], dict[str, float]]:
    """The answers to all questions as :func:`answer_questions` gives them."""
    from .fairseq_tasks import SquadDataset, answer_logits, decode

    dataset = SquadDataset(features, "predict", task.source_dictionary.pad(), shuffle=False)
    spans = answer_all(model, dataset, lambda batch: decode(answer_logits(model, batch), batch).numpy(), -dataset.sizes)
    return answer_questions(features, np.concatenate(spans), unanswerable=task.unanswerable, threshold=threshold)


def build_features(
    data: SquadData, vocabulary: PretrainedVocabulary, *, max_length: int, split: str
) -> tuple[SquadFeatures, dict[str, Any]]:
    """Windows for all questions of a file, and how much there is of what.

    In training a question whose answer is not in its context is left out and counted; other splits keep it, as the
    answers to all are scored.
    """
    contexts = list(dict.fromkeys(question.context for question in data.questions))
    encoded = [
        (ids, close_gaps(text, spans))
        for text in Progress(contexts, desc=f"SQuAD {split} contexts", unit="")
        for ids, spans in [vocabulary.encode_with_offsets(text)]
    ]
    number_of = {text: number for number, text in enumerate(contexts)}
    kept: list[tuple[Question, int, tuple[int, int] | None]] = []  # with its context, and its answer's tokens
    not_found: dict[str, list[str]] = {}
    for question in data.questions:
        context = number_of[question.context]
        tokens, reason = _find_answer(question, encoded[context][1])
        if reason:
            not_found.setdefault(reason, []).append(question.id)
        if not (reason and split == "train"):
            kept.append((question, context, tokens))
    questions, context_of = [question for question, *_ in kept], [context for _, context, _ in kept]
    queries = vocabulary.encode_batch([question.text for question in questions])
    whole = [len(encoded[context][0]) for context in context_of]
    longest = min(MAX_QUERY_LENGTH, max_length // 2)
    cut = [query[:longest] for query in queries]
    lengths = np.array([len(query) for query in cut], dtype=np.int64)
    of_questions = [
        window_bounds(tokens, max_length - length - SPECIAL_TOKENS, DOC_STRIDE)
        for tokens, length in zip(whole, lengths.tolist(), strict=True)
    ]
    bounds = np.concatenate([np.zeros((0, 2), np.int32), *of_questions])
    owner = np.repeat(np.arange(len(kept), dtype=np.int32), list(map(len, of_questions)))
    answers = np.array([tokens or (-1, -1) for *_, tokens in kept], dtype=np.int32).reshape(-1, 2)[owner]
    inside = (bounds[:, :1] <= answers[:, :1]) & (answers[:, 1:] < bounds[:, 1:])  # the whole answer
    positions = answers - bounds[:, :1] + (lengths[owner] + 2)[:, None]  # the context begins after <s> question </s>
    features = SquadFeatures(
        context_tokens=np.concatenate([ids for ids, _ in encoded]).astype(np.int32),
        context_offsets=_offsets([len(ids) for ids, _ in encoded]),
        context_spans=np.concatenate([spans for _, spans in encoded]),
        question_tokens=np.concatenate([np.zeros(0, np.int64), *cut]).astype(np.int32),
        question_offsets=_offsets(lengths),
        question_context=np.array(context_of, dtype=np.int32),
        impossible=np.array([question.impossible for question in questions], dtype=np.bool_),
        window_question=owner,
        window_bounds=bounds,
        window_answer=np.where(inside, positions, 0).astype(np.int32),
        ids=[question.id for question in questions],
        questions=[question.text for question in questions],
        contexts=contexts,
        answers=[[] if question.impossible else question.answer_texts for question in questions],
    )
    counts = {
        "questions": len(questions),
        "impossible": int(features.impossible.sum()),
        "contexts": len(contexts),
        "windows": len(features),
        "windows without the answer": int((features.window_answer[:, 0] == 0).sum()),
        "tokens": int(features.lengths.sum()),
        "unknown": int((features.context_tokens == UNKNOWN).sum() + (features.question_tokens == UNKNOWN).sum()),
        "questions cut": sum(len(query) > longest for query in queries),
        "not found": not_found,
    }
    return features, counts


def _find_answer(question: Question, spans: NDArray[np.int32]) -> tuple[tuple[int, int] | None, str | None]:
    """First and last token of the first good answer, or the reason for having no answer."""
    if question.impossible:
        return None, None
    if not question.answers:
        return None, "no answer given"
    there = [answer for answer in question.answers if answer.text and answer.stands_in(question.context)]
    for answer in there:
        has_characters = (spans[:, 1] > answer.start) & (spans[:, 0] < answer.end) & (spans[:, 1] > spans[:, 0])
        if len(tokens := np.flatnonzero(has_characters)):
            return (int(tokens[0]), int(tokens[-1])), None
    return None, "answer without a token" if there else "answer not at its place in the context"


def _offsets(lengths: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


# The arithmetic of windows


def window_bounds(tokens: int, room: int, stride: int) -> NDArray[np.int32]:
    """The windows over a context: first token and one past the last one, shape (W, 2), W >= 1.

    They begin every min(stride, room) tokens, and the first that reaches the end of the context is the last; ``room``
    tokens fit a window.
    """
    step = min(stride, room)
    count = 1 + max(0, -(-(tokens - room) // step))
    begin = np.arange(count, dtype=np.int32) * step
    return np.stack([begin, np.minimum(begin + room, tokens)], axis=1).astype(np.int32)


def close_gaps(text: str, spans: NDArray[np.int32]) -> NDArray[np.int32]:
    """Tokens' ``spans``, shape (N, 2), widened over characters that belong to no token, as the tokenizer drops them.

    A dropped accent, control character or joiner goes to the token it touches, first to the one before it, so that an
    answer is cut from the text with all its characters. White space, and what is dropped in it, stays between tokens.
    """
    closed = spans.copy()
    if not len(spans):
        return closed
    # Several tokens may spell one character together: what counts is the furthest end so far.
    ends = np.concatenate([[0], np.maximum.accumulate(spans[:, 1])])
    begins = np.append(spans[:, 0], len(text))
    for token in np.flatnonzero(begins > ends):
        gap = text[ends[token] : begins[token]]
        if gap.isspace():
            continue
        before = len(gap.split(maxsplit=1)[0]) if token > 0 and not gap[0].isspace() else 0
        if before:
            closed[token - 1, 1] = ends[token] + before
        if token < len(spans) and not gap[-1].isspace() and before < len(gap):
            closed[token, 0] -= len(gap.rsplit(maxsplit=1)[-1])
    return closed
