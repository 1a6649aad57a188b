"""SQuAD's JSON to sliding-window features: arrays and text, no pickles.

``OUT/`` holds ``dict.txt``, the tokenizer's files, ``info.json``, and for each split a folder with ``features.npz``
(the arrays of :class:`SquadFeatures`) and ``texts.json`` (its strings). A window is ``<s> question </s> context </s>``
and is put together when it is asked for; contexts are tokenized and stored once however many windows share them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from ..files import new_folder, replacing_file, replacing_text
from ..finetuning.data import (
    PretrainedVocabulary,
    count_longer,
    describe_sources,
    find_made,
    write_info,
)
from ..progress import Progress
from ..schema import ArrayType, read_arrays, read_json
from ..vocabulary import BOS, EOS, UNKNOWN
from .data import Question, SquadData, read_squad
from .features_check import find_wrong
from .windows import (
    SPECIAL_TOKENS,
    best_windows,
    close_gaps,
    find_tokens,
    labels_in_windows,
    window_bounds,
)

FEATURES_FILE = "features.npz"
TEXTS_FILE = "texts.json"
_LARGEST_TEXTS = 256 << 20  # bytes
_ARRAYS = {
    **dict.fromkeys(("context_tokens", "question_tokens", "question_context"), ArrayType(np.int32)),
    **dict.fromkeys(("context_offsets", "question_offsets"), ArrayType(np.int64)),
    **dict.fromkeys(("context_spans", "window_bounds", "window_answer"), ArrayType(np.int32, 2)),
    "impossible": ArrayType(np.bool_),
    "window_question": ArrayType(np.int32),
}


@dataclass(frozen=True, kw_only=True)
class _Texts:
    """What :data:`TEXTS_FILE` holds."""

    ids: list[str]
    questions: list[str]
    contexts: list[str]
    answers: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """How contexts are cut into windows; BERT's values, in tokens."""

    max_length: int = 384  # of a window, special tokens included
    doc_stride: int = 128  # from the begin of one window to the next
    max_query_length: int = 64  # the question is cut after that many

    def __post_init__(self) -> None:
        if self.doc_stride < 1 or self.max_query_length < 1:
            flag = "--doc-stride" if self.doc_stride < 1 else "--max-query-length"
            raise TrueNegError(f"{flag} {min(self.doc_stride, self.max_query_length)}: expected 1 or more")
        least = self.max_query_length + SPECIAL_TOKENS + 1
        if self.max_length < least:
            raise TrueNegError(
                f"--max-length {self.max_length}: expected at least {least}, for --max-query-length "
                f"{self.max_query_length}, <s>, two </s> and a token of the context"
            )


@dataclass(frozen=True, kw_only=True)
class SquadFeatures:
    """The windows of a split.

    C contexts of T tokens in all, Q questions of R tokens in all, W windows, those of a question in a row and in the
    order of the context. Ids are fairseq's.
    """

    context_tokens: NDArray[np.int32]  # int32, shape (T,): ids of the contexts' tokens, one context after the other
    # int64, shape (C + 1,): the tokens of context c are ``context_tokens[context_offsets[c] : context_offsets[c + 1]]``
    context_offsets: NDArray[np.int64]
    # int32, shape (T, 2): the characters of its context that a token stands for, begin and end
    context_spans: NDArray[np.int32]
    question_tokens: NDArray[np.int32]  # int32, shape (R,): ids of the questions' tokens, cut to the longest allowed
    question_offsets: NDArray[np.int64]  # int64, shape (Q + 1,): as ``context_offsets``
    question_context: NDArray[np.int32]  # int32, shape (Q,): the number of the question's context
    impossible: NDArray[np.bool_]  # bool, shape (Q,): version 2.0: the context has no answer
    window_question: NDArray[np.int32]  # int32, shape (W,): the number of the window's question
    # int32, shape (W, 2): first and one past the last of the context's tokens in the window
    window_bounds: NDArray[np.int32]
    # int32, shape (W, 2): positions in the window of the first and the last token of the first answer that was found;
    # (0, 0), ``<s>``, where the window does not hold it or there is none
    window_answer: NDArray[np.int32]
    ids: list[str] = field(default_factory=list)  # Q ids of SQuAD
    questions: list[str] = field(default_factory=list)  # Q questions
    contexts: list[str] = field(default_factory=list)  # C contexts
    # the texts of the annotators' answers to each of the Q questions
    answers: list[list[str]] = field(default_factory=list)

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.window_question)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The windows' tokens, special tokens included, shape (W,)."""
        queries = np.diff(self.question_offsets)[self.window_question]
        return queries + np.diff(self.window_bounds, axis=1)[:, 0] + SPECIAL_TOKENS

    def tokens(self, window: int) -> NDArray[np.int64]:
        """The ids of a window, ``<s> question </s> context </s>``, shape (length,)."""
        first, last = self._token_range(window)
        query = self._query(self.window_question[window])
        return np.concatenate([[BOS], query, [EOS], self.context_tokens[first:last], [EOS]]).astype(np.int64)

    def context_begin(self, window: int) -> int:
        """The position in a window of its first context token."""
        return len(self._query(self.window_question[window])) + 2

    def context_mask(self, window: int) -> NDArray[np.bool_]:
        """Which positions of a window hold context, shape (length,)."""
        mask = np.zeros(self._length(window), dtype=np.bool_)
        mask[self.context_begin(window) : -1] = True
        return mask

    def max_context(self, window: int) -> NDArray[np.bool_]:
        """Which positions of a window hold context that no other window shows with more around it, shape (length,).

        An answer is decoded only from the window in which its first token has this (BERT's rule,
        :func:`~truneg_fairseq.squad.windows.best_windows`).
        """
        windows = self.windows_of(int(self.window_question[window]))
        bounds = self.window_bounds[windows.start : windows.stop]
        begin, end = bounds[window - windows.start]
        # Of a long context only the windows that share tokens with this one, and those that touch it.
        first, last = np.searchsorted(bounds[:, 1], begin), np.searchsorted(bounds[:, 0], end, "right")
        best = best_windows(bounds[first:last] - begin, int(end - begin)) == window - windows.start - first
        mask = self.context_mask(window)
        mask[mask] = best
        return mask

    def spans(self, window: int) -> NDArray[np.int32]:
        """The characters of the context that every position stands for, shape (length, 2); -1 outside the context."""
        first, last = self._token_range(window)
        spans = np.full((self._length(window), 2), -1, dtype=np.int32)
        spans[self.context_begin(window) : -1] = self.context_spans[first:last]
        return spans

    def answer_text(self, window: int, first: int, last: int) -> str:
        """What the positions ``first`` to ``last`` of a window stand for, cut from the original context.

        Raises:
            ValueError: they are not positions of the context in their order.
        """
        mask = self.context_mask(window)
        if not (0 <= first <= last < len(mask) and mask[first] and mask[last]):
            raise ValueError(f"positions {first} to {last} of window {window} are not positions of its context")
        spans = self.spans(window)
        context = self.contexts[self.question_context[self.window_question[window]]]
        return context[spans[first, 0] : spans[last, 1]]

    def windows_of(self, question: int) -> range:
        """The windows of a question, at least one."""
        return range(*np.searchsorted(self.window_question, [question, question + 1]).tolist())

    def save(self, folder: Path) -> None:
        """Writes :data:`FEATURES_FILE` and :data:`TEXTS_FILE`."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        with replacing_file(folder / FEATURES_FILE) as stream:
            np.savez(stream, **arrays)
        with replacing_text(folder / TEXTS_FILE) as stream:
            json.dump({part.name: getattr(self, part.name) for part in fields(_Texts)}, stream)

    @classmethod
    def load(cls, folder: Path) -> SquadFeatures:
        """Reads what :meth:`save` wrote."""
        path, expected = folder / FEATURES_FILE, "what 'truneg data prepare-squad' wrote"
        arrays: dict[str, Any] = read_arrays(path, _ARRAYS, expected=expected)
        texts = read_json(folder / TEXTS_FILE, _Texts, expected=expected, limit=_LARGEST_TEXTS)
        features = cls(**arrays, **vars(texts))
        if not len(features.ids) == len(features.question_context) == len(features.question_offsets) - 1:
            raise TrueNegError(f"{path}: has another number of questions than {TEXTS_FILE}; prepare it again")
        if wrong := find_wrong(features):
            raise TrueNegError(f"{path}: its {wrong}; expected {expected}; prepare it again")
        return features

    def _length(self, window: int) -> int:
        begin, end = self.window_bounds[window]
        return len(self._query(self.window_question[window])) + int(end - begin) + SPECIAL_TOKENS

    def _query(self, question: int) -> NDArray[np.int32]:
        return self.question_tokens[self.question_offsets[question] : self.question_offsets[question + 1]]

    def _token_range(self, window: int) -> tuple[int, int]:
        base = self.context_offsets[self.question_context[self.window_question[window]]]
        begin, end = self.window_bounds[window]
        return int(base + begin), int(base + end)


@dataclass(frozen=True, kw_only=True)
class SquadCounts:
    """What a split holds."""

    contexts: int  # SQuAD's paragraphs, equal ones once
    questions: int  # the questions with windows
    impossible: int  # those among them that the context does not answer
    windows: int  # their number
    without_answer: int  # the windows whose label is ``<s>``
    tokens: int  # of all windows
    unknown: int  # the tokens of contexts and questions, counted once, that are ``<unk>``
    cut_queries: int  # the questions that are longer than the settings allow
    # by length, the questions that have more tokens than that in one window with the whole context
    longer_than: dict[str, int]
    # by reason, the ids of the questions without a usable answer; left out of a training split
    not_found: dict[str, list[str]]


def prepare_squad(
    files: Mapping[str, Path], data: Path, output: Path, settings: WindowSettings
) -> tuple[dict[str, Any], bool]:
    """Prepares splits; the folder appears whole or not at all, and one that is there already is kept.

    Args:
        files: SQuAD's JSON by split, "train" or "valid". A question of "train" whose answer is not in its context is
            left out and counted; "valid" keeps it, as predictions for all questions are scored.
        data: binarized data of the pre-trained model, for their ``dict.txt`` and tokenizer.
        output: the folder to make.
        settings: how to cut windows.

    Returns:
        The description (``info.json``), and whether the folder was made now.
    """
    if not files:
        raise TrueNegError("--train, --valid: neither is given; expected one or both of SQuAD's JSON files")
    vocabulary = PretrainedVocabulary.load(data)
    info: dict[str, Any] = {
        "task": "squad",
        "vocabulary": vocabulary.fingerprint,
        "tokenizer": vocabulary.tokenizer.kind,
        **asdict(settings),
        "sources": describe_sources(files),
    }
    made = find_made(output, info)
    if made is not None:
        return made, False
    parsed = {split: read_squad(path) for split, path in files.items()}
    for split, file in parsed.items():
        _require_agreement(file, files[split])
    with new_folder(output) as folder:
        vocabulary.save(folder)
        info["splits"] = {}
        for split, file in parsed.items():
            features, counts = build_features(file, vocabulary, settings, training=split == "train", name=split)
            if not len(features):
                raise TrueNegError(
                    f"{files[split]}: none of its {len(file.questions):,} questions has its answer at the place given"
                )
            (folder / split).mkdir()
            features.save(folder / split)
            info["splits"][split] = asdict(counts)
        write_info(folder, info)
    return info, True


def _require_agreement(data: SquadData, path: Path) -> None:
    """Refuses a question whose answers are given and which is said to have none: it could be scored as either."""
    for question in data.questions:
        if question.impossible and question.answers:
            raise TrueNegError(
                f"{path}: question {question.id}: is_impossible is true, but answers has {question.answer_texts[0]!r}; "
                "expected an empty list (SQuAD 2.0 has plausible_answers for such); correct the file"
            )


def build_features(
    data: SquadData, vocabulary: PretrainedVocabulary, settings: WindowSettings, *, training: bool, name: str = "squad"
) -> tuple[SquadFeatures, SquadCounts]:
    """Windows for all questions of a file.

    Args:
        data: the questions; a paragraph that several share is encoded once.
        vocabulary: makes tokens of them.
        settings: how to cut windows.
        training: leave questions out whose answer cannot be found.
        name: what the progress bar says.
    """
    number_of: dict[str, int] = {}  # contexts in the order of the file
    for question in data.questions:
        number_of.setdefault(question.context, len(number_of))
    encoded = [
        (ids, close_gaps(text, spans))
        for text in Progress(number_of, desc=f"{name} contexts", unit="")
        for ids, spans in [vocabulary.encode_with_offsets(text)]
    ]
    context_of = [number_of[question.context] for question in data.questions]
    found, not_found = _find_answers(data.questions, [encoded[context][1] for context in context_of])
    left_out = {identifier for ids in not_found.values() for identifier in ids} if training else set()
    rows = [row for row, question in enumerate(data.questions) if question.id not in left_out]
    questions = [data.questions[row] for row in rows]
    queries = vocabulary.encode_batch([question.text for question in questions])
    whole = [len(encoded[context_of[row]][0]) for row in rows]
    cut = [query[: settings.max_query_length] for query in queries]
    windows = [
        _windows(found[row], tokens, len(query), settings) for row, tokens, query in zip(rows, whole, cut, strict=True)
    ]
    features = SquadFeatures(
        context_tokens=_join([ids for ids, _ in encoded]),
        context_offsets=_offsets([len(ids) for ids, _ in encoded]),
        context_spans=np.concatenate([spans for _, spans in encoded]),
        question_tokens=_join(cut),
        question_offsets=_offsets([len(query) for query in cut]),
        question_context=np.array([context_of[row] for row in rows], dtype=np.int32),
        impossible=np.array([question.impossible for question in questions], dtype=np.bool_),
        window_question=np.repeat(np.arange(len(rows), dtype=np.int32), [len(bounds) for bounds, _ in windows]),
        window_bounds=np.concatenate([np.zeros((0, 2), np.int32), *(bounds for bounds, _ in windows)]),
        window_answer=np.concatenate([np.zeros((0, 2), np.int32), *(labels for _, labels in windows)]),
        ids=[question.id for question in questions],
        questions=[question.text for question in questions],
        contexts=list(number_of),
        answers=[[] if question.impossible else question.answer_texts for question in questions],
    )
    lengths = np.array([len(query) + tokens + SPECIAL_TOKENS for query, tokens in zip(cut, whole, strict=True)])
    counts = SquadCounts(
        contexts=len(number_of),
        questions=len(questions),
        impossible=int(features.impossible.sum()),
        windows=len(features),
        without_answer=int((features.window_answer[:, 0] == 0).sum()),
        tokens=int(features.lengths.sum()),
        unknown=int((features.context_tokens == UNKNOWN).sum() + (features.question_tokens == UNKNOWN).sum()),
        cut_queries=sum(len(query) > settings.max_query_length for query in queries),
        longer_than=count_longer(lengths),
        not_found=not_found,
    )
    return features, counts


def _find_answers(
    questions: Sequence[Question], spans: Sequence[NDArray[np.int32]]
) -> tuple[list[tuple[int, int] | None], dict[str, list[str]]]:
    """First and last token of every question's first good answer, and the ids of those without one by reason.

    Args:
        questions: Q questions.
        spans: of the tokens of each question's context.
    """
    found: list[tuple[int, int] | None] = []
    not_found: dict[str, list[str]] = {}
    for question, characters in zip(questions, spans, strict=True):
        tokens, reason = _find_answer(question, characters)
        found.append(tokens)
        if reason:
            not_found.setdefault(reason, []).append(question.id)
    return found, not_found


def _find_answer(question: Question, spans: NDArray[np.int32]) -> tuple[tuple[int, int] | None, str | None]:
    if question.impossible:
        return None, None
    if not question.answers:
        return None, "no answer given"
    there = [answer for answer in question.answers if answer.text and answer.stands_in(question.context)]
    if not there:
        return None, "answer not at its place in the context"
    tokens = next((t for answer in there if (t := find_tokens(spans, answer.start, answer.end))), None)
    return tokens, None if tokens else "answer without a token"


def _windows(
    answer: tuple[int, int] | None, tokens: int, query: int, settings: WindowSettings
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Bounds and labels of a question's windows."""
    bounds = window_bounds(tokens, settings.max_length - query - SPECIAL_TOKENS, settings.doc_stride)
    if answer is None:
        return bounds, np.zeros_like(bounds)
    return bounds, labels_in_windows(bounds, *answer, offset=query + 2)


def _join(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int32]:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int32)


def _offsets(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
