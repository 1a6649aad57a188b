"""Synonyms from the model itself: neighbours in its input embeddings, refreshed while it trains.

``--synonym-source model`` has no table on disk. From update ``--model-synonyms-warmup`` on every update computes the
nearest words of one shard of the vocabulary; after ``--model-synonyms-every`` updates all words are done, the pairs
that are mutual become the table in use, and the next round begins. Everything is a function of the parameters and the
update number, which all workers share, so that all of them have the same table without talking to each other.

What fairseq offers for that, and why it is used as it is:

- A criterion is not told the update number. The task's ``train_step`` is, before every micro-batch on every worker
  (dummy batches included), and never while validating: the *instance's* ``train_step`` is extended by one call. A
  module inside the model would be told too (``set_num_updates``), but a criterion first sees the model in its first
  forward pass, when that update has been announced already, and would miss one update after every resume.
- What a checkpoint says of the task beside its class goes through ``get_checkpoint_dict`` and ``set_checkpoint_dict``,
  which fairseq calls where a task has them: the instance gets the two.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq.logging import metrics
from torch import Tensor, nn

from ..errors import TrueNegError, one_line_errors
from ..objectives.neighbours import count_pairs, mutual_keys, nearest_words
from ..synonyms.lists import is_content_word
from ..vocabulary import Vocabulary
from .config import MaskedLmTrueNegConfig
from .task_hooks import before_each_epoch, before_each_step

logger = logging.getLogger(__name__)

_STATE = "model_synonyms"
_NEVER = -1


class ModelSynonyms(nn.Module):
    """A synonym table that is computed from embeddings, a shard of the vocabulary an update.

    W is the number of words that take part (:func:`~truneg_fairseq.synonyms.lists.is_content_word`), K the
    neighbours kept for each.
    """

    words: Tensor  # int64, shape (W,), token ids, ascending
    # int64, shape (W * K + 1,), the table in use, for :func:`truneg_fairseq.objectives.corrected_predictions`
    keys: Tensor
    _is_word: Tensor
    _neighbours: Tensor
    _last_update: int
    _done: int

    def __init__(self, vocabulary: Vocabulary, cfg: MaskedLmTrueNegConfig, neighbours: int = 10) -> None:
        super().__init__()
        if cfg.synonym_table is not None:
            raise TrueNegError(
                f"--synonym-table {cfg.synonym_table}: excludes --synonym-source model, which computes its own; leave "
                "one of them out"
            )
        self.every = cfg.model_synonyms_every
        self.warmup = cfg.model_synonyms_warmup
        self.neighbours = neighbours
        self.threshold = cfg.model_synonyms_threshold
        is_word = torch.tensor([word is not None and is_content_word(word) for word in vocabulary.words])
        words = is_word.nonzero().squeeze(1)
        if self.neighbours >= len(words):
            raise TrueNegError(
                f"--synonym-source model: the dictionary has {len(words)} words (read as {vocabulary.tokenization}), "
                f"expected more than {neighbours}; set --tokenization"
            )
        self._is_followed = False  # advanced or restored: what the table holds is what it should
        self._origin = {"dictionary": vocabulary.fingerprint, "tokenization": vocabulary.tokenization}
        # Buffers follow the criterion to its device; integers and booleans stay what they are under fp16.
        self.register_buffer("words", words, persistent=False)
        self.register_buffer("_is_word", is_word, persistent=False)
        nothing = torch.full((len(words), self.neighbours), -1, dtype=torch.int32)
        self.register_buffer("_neighbours", nothing, persistent=False)
        self.register_buffer("keys", mutual_keys(words, nothing), persistent=False)
        self._restart()

    def pairs(self) -> Tensor:
        """Number of ordered pairs in use, int64 scalar on the device."""
        return count_pairs(self.keys)

    def advance(self, update: int, embeddings: Tensor) -> None:
        """Does an update's share of the work, after ``update`` updates; nothing where it is done (micro-batches).

        ``embeddings`` is the input embedding matrix, shape (V, E), any floating dtype.
        """
        self._is_followed = True
        if update < self._last_update:
            self._restart()  # the run counts from 0 again: --reset-optimizer
        if update < self.warmup or update == self._last_update:
            return
        self._last_update = update
        shard_size = -(-len(self.words) // self.every)
        part = slice(self._done * shard_size, (self._done + 1) * shard_size)
        if len(shard := self.words[part]):
            found = nearest_words(embeddings, self._is_word, shard, self.neighbours, self.threshold)
            self._neighbours[part] = found
        self._done += 1
        if self._done == self.every:
            self.keys.copy_(mutual_keys(self.words, self._neighbours))
            self._done = 0

    def state(self) -> dict[str, Any]:
        """The table in use and the one in progress, as tensors on the host and plain values."""
        progress = {"last_update": self._last_update, "done": self._done}
        return {**self._settings(), **progress, "neighbours": self._neighbours.cpu(), "keys": self.keys.cpu()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from :meth:`state`."""
        for name, expected in self._settings().items():
            if state.get(name) != expected:
                raise TrueNegError(
                    f"checkpoint: its synonyms from the model have {name} {state.get(name)}, but found {expected}; "
                    "expected the same to resume; set it back, or start a new run with --finetune-from-model"
                )
        self._is_followed = True
        self._last_update, self._done = state["last_update"], state["done"]
        self._neighbours.copy_(state["neighbours"])
        self.keys.copy_(state["keys"])

    def warn_where_unknown(self) -> None:
        """Says once that the table is empty because nothing fills it: fairseq-validate reads no state of a task."""
        if not self._is_followed:
            self._is_followed = True
            logger.warning(
                "--synonym-source model: the table is empty, as only fairseq-train computes it or reads it from a "
                "checkpoint; nothing is corrected here: see the training's log for objective, hc_pred, hc_iter, disc_fn"
            )

    def attach(self, task: Any, embeddings_of: Callable[[Any], Tensor]) -> None:
        """Makes a task's training steps advance the table and its checkpoints carry it."""
        before_each_epoch(task, embeddings_of)
        before_each_step(task, lambda sample, model, criterion, update: self.advance(update, embeddings_of(model)))

        def set_checkpoint_dict(states: dict[str, Any]) -> None:
            with one_line_errors():
                self.restore(states[_STATE])

        task.get_checkpoint_dict = lambda: {type(task).__name__: {_STATE: self.state()}}
        task.set_checkpoint_dict = set_checkpoint_dict

    def _settings(self) -> dict[str, Any]:
        return {
            **self._origin,
            "--model-synonyms-every": self.every,
            "--model-synonyms-neighbours": self.neighbours,
            "--model-synonyms-threshold": self.threshold,
        }

    def _restart(self) -> None:
        """Forgets the table in use and the one in progress."""
        self._last_update = _NEVER
        self._done = 0
        self._neighbours.fill_(-1)
        self.keys.copy_(mutual_keys(self.words, self._neighbours))


def log_model_pairs(logging_outputs: Sequence[dict[str, Any]]) -> None:
    """Logs ``model_pairs``, the number of pairs in use, where it was counted.

    The latest number: every worker and micro-batch says the same.
    """
    if logging_outputs and "model_pairs" in logging_outputs[0]:
        pairs, size = (sum(log[key] for log in logging_outputs) for key in ("model_pairs", "model_pairs_size"))
        metrics.log_scalar("model_pairs", pairs / size, weight=0, round=0)
