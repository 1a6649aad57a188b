"""Explains what models that generate predict from the source and the tokens before (teacher forcing); needs fairseq."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import checkpoint_utils
from torch import Tensor
from typing_extensions import override

from ..convert.generation import frame_of
from ..corpus_counts import counts_beside
from ..data.tokenizer import has_tokenizer, load_tokenizer, vocabulary_of
from ..errors import TrueNegError
from ..files import require_unsplit
from ..models.checkpoints import Checkpoint, read_checkpoint
from ..objective_factory import ObjectiveOptions, load_corpus_targets
from ..objectives import CorpusTargets, MaskedPredictions
from ..objectives.acceptance import embedding_cosine
from ..objectives.settings import check_detector
from ..vocabulary import SPECIAL_SYMBOLS
from ..workers import choose_device
from .explain import Explainer
from .explanations import PLAUSIBLE, WRONG, ExplainedSentence, MaskedWord
from .inspection_options import ExplanationOptions
from .judging import judge_of, table_shown

BETWEEN = "\t"
"""What stands between a source and its target."""


def generates(checkpoint: Path) -> bool:
    """Whether a checkpoint of fairseq's predicts one token after the other."""
    return any(name.startswith("decoder.layers.") for name in read_checkpoint(checkpoint).state)


class TeacherForcedExplainer(Explainer):
    """Explains each token of a translation (``SOURCE<TAB>TARGET``), or of a text that a causal LM reads."""

    plausible, wrong = PLAUSIBLE, WRONG

    def __init__(self, options: ExplanationOptions) -> None:
        check_detector(options.detector, "--detector")
        if "context" in options.detector.split("+"):
            raise TrueNegError(
                f"--detector {options.detector}: found a model that generates, whose states see no later token; "
                "expected table, embedding or table+embedding"
            )
        if options.data is None:
            raise TrueNegError(f"{options.checkpoint}: a fairseq checkpoint needs --data, the binarized data")
        require_unsplit(options.data, "--data")
        self._options, self._data = options, options.data
        read = read_checkpoint(options.checkpoint)
        overrides = {"data": str(options.data)}
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(options.checkpoint)], overrides)
        self._device = choose_device(cpu=options.cpu)
        self._network: Any = model.float().eval().to(self._device)
        self._task: Any = task
        self._frame = frame_of(read.task)
        self._reads = hasattr(model, "encoder")
        self._tokenizer = load_tokenizer(options.data) if has_tokenizer(options.data) else None
        symbols = task.target_dictionary.symbols
        self._vocabulary = vocabulary_of(symbols, options.data, tokenization=options.tokenization)
        tokens: Any = SimpleNamespace(vocabulary=self._vocabulary, folder=options.data)
        self._objective, pairs = judge_of(tokens, task.target_dictionary.pad(), options, detector=options.detector)
        self._objective.to(self._device)
        self._table = table_shown(pairs, tokens, options)
        self._corpus = _corpus_of(read, options.data, symbols)
        if self._corpus is not None:
            self._corpus.to(self._device)
        self._seen: list[int] = []

    @override
    def explain(self, text: str) -> ExplainedSentence | None:
        source, tab, target = text.partition(BETWEEN)
        if bool(tab) != self._reads:
            expected = "SOURCE, a tab and TARGET" if self._reads else "a text without a tab"
            raise TrueNegError(f"TEXT {text!r}: found {'a' if tab else 'no'} tab; expected {expected}")
        if not tab:
            source, target = "", text
        ids, places = self._encoded(target, self._task.target_dictionary)
        if not ids:
            return None
        judged = self._judged(source, ids)
        embeddings = self._network.decoder.embed_tokens.weight
        scores = {"embedding": embedding_cosine(embeddings, judged.gold, judged.prediction).tolist()}
        self._seen = [0] * len(ids)
        if self._corpus is not None:
            self._seen = self._corpus.seen(judged, self._objective.padding).tolist()
        parts: list[tuple[str, MaskedWord | None]] = []
        last = 0
        for word, (start, end) in zip(self._described(judged, scores), places, strict=True):
            parts.append((target[last : max(end, last)] if end > start else "", word))
            last = max(end, last)
        return ExplainedSentence([*parts, (target[last:], None)], source)

    def _encoded(self, text: str, dictionary: Any) -> tuple[list[int], list[tuple[int, int]]]:
        """The tokens of a text with the characters that they stand for; pieces between spaces without a tokenizer."""
        if self._tokenizer is not None:
            found = self._tokenizer.encode_with_offsets(text)
        else:
            found = [(each[0], *each.span()) for each in re.finditer(r"\S+", text)]
        return [dictionary.index(symbol) for symbol, _, _ in found], [(start, end) for _, start, end in found]

    @torch.no_grad()
    def _judged(self, source: str, ids: list[int]) -> MaskedPredictions:
        """What is predicted in place of each of a sentence's tokens."""
        frame, dictionary = self._frame, self._task.target_dictionary
        before = [dictionary.index(symbol) for symbol in frame.before] if self._reads else []
        start = dictionary.index(frame.start) if self._reads else dictionary.eos()
        previous = self._tensor([start, *before, *ids])
        if self._reads:
            own = self._task.source_dictionary
            around = [[own.index(symbol) for symbol in part] for part in (frame.before, frame.after)]
            given = self._tensor([*around[0], *self._encoded(source, own)[0], *around[1]])
            lengths = torch.tensor([given.size(1)], device=self._device)
            logits = self._network(given, lengths, previous)[0]
        else:
            logits = self._network(previous)[0]
        first = len(before)
        target = self._tensor([*before, *ids, dictionary.eos()])
        positions = torch.arange(first, first + len(ids), device=self._device)
        predicted = self._objective.predict(logits[0, positions].float(), target, target, positions)
        passes: Any = SimpleNamespace(embeddings=lambda: self._network.decoder.embed_tokens.weight)
        return self._objective.judge(predicted, passes)

    def _tensor(self, ids: list[int]) -> Tensor:
        return torch.tensor([ids], device=self._device)

    @override
    def _verdict(
        self, judged: MaskedPredictions, row: int, gold: int, prediction: int, listed: Any
    ) -> tuple[str, str, float | None]:
        verdict, reason, acceptance = super()._verdict(judged, row, gold, prediction, listed)
        ends = self._vocabulary.tokens[prediction] in SPECIAL_SYMBOLS  # the counts have ends of lines, too
        if verdict == self.wrong and self._seen[row] and not ends:
            times = f"{self._seen[row]} time{'s' if self._seen[row] > 1 else ''}"
            return (
                self.plausible,
                f"the corpus has {self._word(prediction)!r} {times} between the same two tokens",
                None,
            )
        return verdict, reason, acceptance


def _corpus_of(read: Checkpoint, data: Path, symbols: list[str]) -> CorpusTargets | None:
    """The counts that the model was trained with, or those beside the data; None without any."""
    given = read.criterion.get("alternatives")
    path = Path(given) if given and Path(given).is_file() else counts_beside(data)
    if not path.is_file():
        return None
    options = ObjectiveOptions(target_smoothing_corpus=1.0, alternatives=str(path))
    return load_corpus_targets(options, options, symbols, data)
