"""Corpus counts: how often tokens, pairs and triples of neighbouring tokens occur in a text; their file, and their
share in a mixture with a model's predictions.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import files
from .data.indexed import read_tokens
from .data.text import read_lines
from .errors import TrueNegError, refuse, require
from .flags import option
from .vocabulary import ends_of, fingerprint, load_transformers_tokenizer, read_symbols, symbols_of_tokenizer
from .workers import Progress

FILE_NAME = "corpus_counts.npz"
_MEMBERS = ("words", "pair_steps", "pair_n", "triple_steps", "triple_n", "metadata")
_EXPECTED = "an npz of 'truneg data counts', with --data DATA-BIN, or --text TXT --tokenizer MODEL --output NPZ"
_SPLIT = "train"
_DISCOUNT, _MOST = 0.6, 64  # of docs/explain/method.md
_LINES = 1000  # that are tokenized at once
_BLOCK = 1 << 20  # tokens that are counted at once


@dataclass(frozen=True)
class Counted:
    """How often each of some things occurs."""

    keys: NDArray[np.int64]  # shape (P,), ascending
    counts: NDArray[np.int32]  # shape (P,), above 0

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, kw_only=True)
class _Metadata:
    """What the file says beside its counts."""

    fingerprint: str  # of the dictionary (:attr:`truneg_fairseq.vocabulary.Vocabulary.fingerprint`)
    discount: float  # what is taken from each count for what was never seen, in [0, 1]
    most: int  # the longest list of tokens beside or between neighbours
    source: dict[str, Any] = field(default_factory=dict)  # the text (folder, tokens, SHA-256), the version; JSON-able


@dataclass(frozen=True, kw_only=True)
class CorpusCounts(_Metadata):
    """Counts of a text as one sequence of tokens, ends of lines (``</s>``) included; V is the size of the dictionary.

    A key is a number with the ids as digits of base V: of a pair (first, second), of a triple (left, right, middle), so
    that what stands between the same two neighbours lies side by side.
    """

    words: NDArray[np.int64]  # shape (V,), how often each token occurs
    pairs: Counted
    triples: Counted  # of each two neighbours the ``most`` most frequent tokens between them

    @property
    def summary(self) -> str:
        """The sizes as a line."""
        places = len(np.unique(self.triples.keys // len(self.words)))
        return (
            f"{self.words.sum():,} tokens, {len(self.pairs):,} pairs, {len(self.triples):,} triples over {places:,} "
            "pairs of neighbours"
        )

    def save(self, path: Path) -> None:
        """Writes the counts as an npz."""
        if not len(self.pairs):
            names = ", ".join(map(str, self.source.get("text") or [self.source.get("data")]))
            raise TrueNegError(f"{names}: has no two tokens to count; expected a text")
        arrays: dict[str, Any] = {"words": self.words}
        for kind, counted in (("pair", self.pairs), ("triple", self.triples)):
            # The steps between ascending keys are small, and compress to a third of them.
            arrays |= {f"{kind}_steps": np.diff(counted.keys, prepend=0), f"{kind}_n": counted.counts}
        files.save_arrays(path, {each.name: getattr(self, each.name) for each in fields(_Metadata)}, **arrays)

    @classmethod
    def load(cls, path: Path, symbols: Sequence[str]) -> CorpusCounts:
        """Reads counts of the dictionary with these symbols; nothing in the file is ever unpickled."""
        arrays = files.read_arrays(path, _MEMBERS, expected=_EXPECTED)
        known = files.parse_json(str(arrays["metadata"]), f"{path}: metadata", _Metadata, expected=_EXPECTED)
        if known.fingerprint != (wanted := fingerprint(symbols)):
            raise TrueNegError(
                f"{path}: belongs to another dictionary (fingerprint {known.fingerprint[:12]}, expected "
                f"{wanted[:12]}); count the text of this one with 'truneg data counts'"
            )
        pairs, triples = (Counted(arrays[f"{kind}_steps"].cumsum(), arrays[f"{kind}_n"]) for kind in ("pair", "triple"))
        size = len(arrays["words"])  # of a dictionary with or without its ``<mask>``, and tags of languages
        for keys, counts, places in ((pairs.keys, pairs.counts, size), (triples.keys, triples.counts, size**2)):
            ascends = keys.shape == counts.shape and (np.diff(keys, prepend=-1) > 0).all()
            # Ids are digits of base V; the last one, and the first of a pair, are words that a soft target may have.
            tokens = [*(keys % size)[:1], (keys % size).max(initial=0)] if ascends and size else [len(symbols)]
            if max(*tokens, keys[-1:].max(initial=0) // places) >= len(symbols):
                raise TrueNegError(f"{path}: its counts are not of {len(symbols)} tokens; expected {_EXPECTED}")
        return cls(words=arrays["words"], pairs=pairs, triples=triples, **asdict(known))


def counts_beside(data: Path) -> Path:
    """The counts in a folder of binarized data."""
    return data / FILE_NAME


@dataclass(frozen=True, kw_only=True)
class CountOptions:
    """What to count."""

    data: Path | None = option(
        None,
        help="folder of binarized data, or of a translation's the dictionary of one side, dict.LANGUAGE.txt",
        metavar="DATA-BIN",
    )
    text: list[Path] = option(
        default_factory=list, help="for transformers, in place of --data: the text itself", metavar="TXT"
    )
    tokenizer: str | None = option(None, "of --text: the model's folder", metavar="MODEL")
    output: Path | None = option(None, f"default: {FILE_NAME} in the folder of the data", metavar="NPZ")


def count_corpus(options: CountOptions) -> tuple[Path, CorpusCounts]:
    """Counts the training text of binarized data, or a text, and writes the counts; returns their file too."""
    if options.text and options.tokenizer and options.output and options.data is None:
        files.require_different(**{f"text {path}": path for path in options.text}, output=options.output)
        files.require_writable(options.output, "--output", makes_folders=True)
        counts = _count_text(options.text, options.tokenizer)
        counts.save(options.output)
        return options.output, counts
    if options.data is None or options.text:
        raise TrueNegError("counts: expected --data DATA-BIN, or --text TXT --tokenizer MODEL --output NPZ")
    data, split = options.data, _SPLIT
    if not data.is_dir():
        language = data.name.removeprefix("dict").removesuffix("txt").strip(".")
        found = sorted(data.parent.glob(f"{_SPLIT}.*-*.{language}.idx"))
        data, split = data.parent, found[0].stem if found else _SPLIT
    output = options.output or data / FILE_NAME
    files.require_different(data=data / "dict.txt", output=output)
    files.require_writable(output, "--output", makes_folders=True)
    source = {"data": str(data), "split": split, "truneg_fairseq": files.VERSION}
    symbols, tokens = read_symbols(options.data), read_tokens(data / split)
    counts = count_tokens(tokens, symbols, source=source)
    counts.save(output)
    return output, counts


def _count_text(texts: Sequence[Path], name: str) -> CorpusCounts:
    """Counts lines in the ids of a tokenizer of transformers; each ends with the token that ends its sentences."""
    require("transformers", extra="hf")
    tokenizer = load_transformers_tokenizer(name)
    _, end = ends_of(tokenizer)

    def parts() -> Iterator[NDArray[np.int64]]:
        lines = (line for text in texts for line in read_lines(text) if line.strip())
        while block := list(itertools.islice(lines, _LINES)):
            found = tokenizer(block, add_special_tokens=False, verbose=False)["input_ids"]
            yield np.array([token for ids in found for token in (*ids, end)], dtype=np.int64)

    source = {"text": [str(path) for path in texts], "truneg_fairseq": files.VERSION}
    return count_tokens(parts(), symbols_of_tokenizer(tokenizer), source=source)


def count_tokens(
    parts: Iterable[NDArray[np.integer[Any]]],
    symbols: Sequence[str],
    *,
    discount: float = _DISCOUNT,
    most: int = _MOST,
    source: Mapping[str, Any] | None = None,
) -> CorpusCounts:
    """Counts a text, given as parts of one sequence of ids, in memory that grows with the different triples alone."""
    size = len(symbols)
    largest = 1 << 21  # three ids are one key of 63 bits
    refuse((size > largest, f"counts: found a dictionary of {size:,} tokens, expected {largest:,} at most"))
    words = np.zeros(size, dtype=np.int64)
    pairs, triples = _Tally(), _Tally()
    digest = hashlib.sha256()
    for block in _blocks(parts):
        new = block[2:]  # the first two belong to the block before
        beyond = (
            f"counts: found the id {new.max(initial=0):,}, but a dictionary of {size:,} tokens; binarize the text again"
        )
        refuse((new.max(initial=0) >= size, beyond))
        digest.update(new.astype("<i8").tobytes())
        words += np.bincount(new, minlength=size)
        left, middle, right = block[:-2], block[1:-1], block[2:]
        pairs.add((middle * size + right)[middle >= 0])
        triples.add(((left * size + right) * size + middle)[left >= 0])
    found = triples.total()
    kept = most_frequent(found.keys, found.counts, size, most)
    return CorpusCounts(
        words=words,
        pairs=pairs.total(),
        triples=Counted(found.keys[kept], found.counts[kept]),
        fingerprint=fingerprint(symbols),
        discount=discount,
        most=most,
        source={**(source or {}), "tokens": int(words.sum()), "sha256": digest.hexdigest()},
    )


def _blocks(parts: Iterable[NDArray[np.integer[Any]]]) -> Iterator[NDArray[np.int64]]:
    """The tokens in blocks; each begins with the two tokens before it, -1 at the start of the text."""
    before = np.full(2, -1, dtype=np.int64)
    with Progress(desc="counting", unit=" tokens", unit_scale=True) as bar:
        for part in parts:
            for start in range(0, len(part), _BLOCK):
                block = np.concatenate([before, part[start : start + _BLOCK].astype(np.int64)])
                yield block
                before = block[-2:]
                bar.update(len(block) - 2)


class _Tally:
    """Sums the counts of keys that arrive in blocks."""

    def __init__(self) -> None:
        self._sum = Counted(np.empty(0, np.int64), np.empty(0, np.int32))
        self._waiting: list[Counted] = []

    def add(self, keys: NDArray[np.int64]) -> None:
        found, counts = np.unique(keys, return_counts=True)
        self._waiting.append(Counted(found, counts.astype(np.int32)))
        if sum(map(len, self._waiting)) > max(4 * _BLOCK, len(self._sum)):  # so that each key is moved log n times
            self.total()

    def total(self) -> Counted:
        """The sum of all blocks so far."""
        parts, self._waiting = [self._sum, *self._waiting], []
        keys, place = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([part.counts for part in parts]), minlength=len(keys))
        self._sum = Counted(keys, counts.astype(np.int32))
        return self._sum


def most_frequent(keys: NDArray[np.int64], counts: NDArray[np.integer[Any]], size: int, most: int) -> NDArray[np.bool_]:
    """Which keys, ``row * size + token``, ascending, have one of the most frequent tokens of their row, of equally
    frequent ones the first; shape (P,).
    """
    _, row, lengths = np.unique(keys // size, return_inverse=True, return_counts=True)
    long = np.flatnonzero(lengths[row] > most)
    order = long[np.lexsort((keys[long], -counts[long], row[long]))]
    starts = np.flatnonzero(np.diff(row[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    kept = np.ones(len(keys), dtype=np.bool_)
    kept[order[rank >= most]] = False
    return kept


# --- How much of the counts to mix into a model's predictions ---

_DOUBTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
_STEPS = 100  # of expectation and maximisation


class CountsShare(NamedTuple):
    """Of a place that a text has n times, with so many different words (types): ``seen * n / (n + doubt * types)``."""

    seen: float
    doubt: float  # 0 for the same share of every place that was counted
    unseen: float  # the share of a place that was never counted, whose q is backed off

    @classmethod
    def parse(cls, value: object, where: str = "share") -> CountsShare:
        """One number, or the three in their order, also as text with commas."""
        parts = value.split(",") if isinstance(value, str) else value if isinstance(value, tuple) else (value,)
        try:
            seen, doubt, unseen = map(float, parts if len(parts) == 3 else (*parts, 0.0, *parts))
        except (TypeError, ValueError):
            seen = doubt = unseen = -1.0
        if not (0 <= seen <= 1 and 0 <= unseen <= 1 and doubt >= 0):
            raise TrueNegError(f"{where} {value}: expected a number in [0, 1], or three: seen,doubt,unseen")
        return cls(seen, doubt, unseen)

    def of(self, count: Any, types: Any) -> Any:
        """The share at places that were counted so often, tensors of shape (N,)."""
        return (self.seen * count / (count + self.doubt * types).clamp(min=1)).where(count > 0, self.unseen)

    def __str__(self) -> str:
        return f"{self.seen:.3g},{self.doubt:g},{self.unseen:.3g}"


FIT = "fit"
DEFAULT_SHARE = CountsShare(0.2, 0.0, 0.2)


def fit_counts_share(evidence: NDArray[np.float64]) -> CountsShare:
    """The share with the lowest loss on a text that is not judged.

    The two shares by expectation and maximisation (whether a word came from the counts or from the model is not known),
    ``doubt`` as the best of a few values.

    Args:
        evidence: shape (4, N): at N places the probability of the word by the model, that by the counts, how often the
            place was counted, and with how many different words.
    """
    model, counts, count, types = evidence
    there = count > 0
    if not there.any():
        raise TrueNegError("--counts-share fit: the counts have no place of the text; expected more text of that kind")
    unseen = _fitted(model[~there], counts[~there], np.ones((~there).sum()))
    found = []
    for doubt in _DOUBTS:
        weight = count[there] / (count[there] + doubt * types[there])
        seen = _fitted(model[there], counts[there], weight)
        share = seen * weight
        found.append((-np.log((1 - share) * model[there] + share * counts[there]).sum(), doubt, seen))
    _, doubt, seen = min(found)
    return CountsShare(seen, doubt, unseen)


def _fitted(model: NDArray[np.float64], counts: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """a in ``(1 - a w) p + a w q``: with the probability w a place asks the counts, which then answer with a."""
    share = 0.5
    for _ in range(_STEPS if len(model) else 0):
        mixed = (1 - share * weight) * model + share * weight * counts
        by_counts, by_model = (float((weight * part / mixed).sum()) for part in (share * counts, (1 - share) * model))
        share = by_counts / (by_counts + by_model)
    return share if len(model) else 0.0
