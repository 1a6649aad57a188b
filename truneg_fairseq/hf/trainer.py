"""transformers' Trainer with the true-negative objectives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, Trainer
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from ..errors import TrueNegError
from ..objective_factory import (
    lexicon_settings,
    load_corpus_targets,
    load_pairs,
    looks_at_words,
    make_objective,
    teacher_path,
    with_preset,
)
from ..objectives import EncoderPasses, MaskedPredictions, Outcome, TrueNegativeObjective, fill
from ..objectives.passes import dropout_off
from ..objectives.predictions import at_positions
from ..objectives.rates import CORRECTION_RATES, Rate
from ..synonyms.provision import cache_path
from ..synonyms.sources import parse_source
from .arguments import TrueNegativeArguments
from .tokenizer import vocabulary_of

NOT_MASKED = -100
"""The label of a token that is not predicted."""


class TrueNegativeTrainer(Trainer):
    """Trains a masked LM with any combination of hard correction, soft targets and regularization.

    It takes what Trainer takes and works with transformers' ``DataCollatorForLanguageModeling``, whose labels hold the
    original tokens at masked positions. With every weight 0 the loss is the model's own.

    Logged besides: ``mlm_loss`` (uncorrected, at temperature 1, in nats), ``accuracy``, ``hc_pred``, ``hc_iter``,
    ``hc_acceptance``, ``sr`` and ``kl`` as in the criterion (docs/criterions.md), summed over all processes since the
    last log. An evaluation's ``eval_loss`` is the uncorrected one, so that runs compare.

    The vocabulary is projected at every position, as transformers' models do, and the objective is computed at the
    masked ones; choosing them takes one host-device sync a batch.

    Args:
        model: a masked LM of transformers.
        args: transformers' ``TrainingArguments``.
        true_negatives: what is minimised; None for plain masked-LM training.
        others: as of Trainer; ``processing_class`` must be the model's tokenizer.
    """

    rates: tuple[Rate, ...] = (
        Rate("mlm_loss", "loss", "sample_size"),
        Rate("accuracy", "correct", "sample_size", scale=100.0),
        *CORRECTION_RATES,
    )
    """What is logged beside the loss, the uncorrected one first; losses in nats, as transformers logs them."""

    def __init__(
        self, model: Any = None, args: Any = None, *, true_negatives: TrueNegativeArguments | None = None, **others: Any
    ) -> None:
        super().__init__(model, args, **others)
        self.settings = with_preset(true_negatives or TrueNegativeArguments())
        self.settings.check()
        if self.args.n_gpu > 1:
            raise TrueNegError(f"found {self.args.n_gpu} GPUs for one process, expected a process a GPU; use torchrun")
        self.check_model()
        self.label_names = ["labels"]
        self.model_accepts_loss_kwargs = True  # the loss is divided by the masked tokens of the whole update
        self.objective = _objective(self.settings, self.processing_class, self.model).to(self.args.device)
        self._counts: dict[bool, dict[str, Tensor]] = {True: {}, False: {}}  # by whether the model trains
        self._labels_seen = False

    def check_model(self) -> None:
        """Refuses a model that the objective cannot train."""
        kinds = set(MODEL_FOR_MASKED_LM_MAPPING_NAMES.values())
        if not any(kind.__name__ in kinds for kind in type(self.model).__mro__):
            raise TrueNegError(
                f"model: {type(self.model).__name__} has no masked-LM head; expected a model of AutoModelForMaskedLM"
            )
        head = self.model.get_output_embeddings()
        if self.settings.sr_word_weight and (
            head is None or head.weight is not self.model.get_input_embeddings().weight
        ):
            raise TrueNegError(
                f"--sr-word-weight {self.settings.sr_word_weight}: {type(self.model).__name__} does not tie its MLM "
                "head to the input embeddings; expected tied embeddings (the config's tie_word_embeddings), or "
                "--sr-word-weight 0"
            )

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The loss of a batch as a mean over the masked tokens, of the whole update where its number is given."""
        labels = inputs["labels"]
        self._check_labels(labels, inputs["input_ids"])
        others, examples = {name: value for name, value in inputs.items() if name != "labels"}, len(labels)
        if not model.training and (examples := self._new_examples(examples)) < len(labels):
            labels, others["input_ids"] = labels.clone(), others["input_ids"].clone()
            labels[examples:], others["input_ids"][examples:] = NOT_MASKED, self.objective.padding
        # Passes that do not go through accelerate's wrapper need its autocast too.
        with self.accelerator.autocast():
            outcome, outputs = self.outcome(model, others, labels)
        self._count(model.training, {**outcome.counts, "nsentences": outcome.loss.new_tensor(examples)})
        if not model.training:
            loss = outcome.counts["loss"] / outcome.counts["sample_size"].clamp(min=1)
        elif num_items_in_batch is None:
            loss = outcome.loss / outcome.sample_size.clamp(min=1)
        else:
            # 0 where an update has no masked token; then the loss is 0, and 0 / 0 would make every weight NaN.
            loss = outcome.loss / torch.as_tensor(num_items_in_batch).clamp(min=1)
            if self.args.average_tokens_across_devices:  # the items are those of all processes
                loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss

    def outcome(self, model: Any, inputs: dict[str, Any], labels: Tensor) -> tuple[Outcome, Any]:
        """The loss of a batch and the model's outputs."""
        outputs = model(**inputs)
        predicted = self.predict_masked(outputs.logits, inputs, labels)
        passes = _passes(self.accelerator.unwrap_model(model), inputs, predicted, self.settings)
        return self.objective.score(self.objective.judge(predicted, passes), passes), outputs

    def predict_masked(self, logits: Tensor, inputs: dict[str, Any], labels: Tensor) -> MaskedPredictions:
        """The predictions at the masked positions, of logits of shape (B, T, V)."""
        target = labels.masked_fill(labels.eq(NOT_MASKED), self.objective.padding)
        positions = labels.reshape(-1).ne(NOT_MASKED).nonzero().squeeze(1)
        chosen = logits.flatten(0, 1).index_select(0, positions)
        return self.objective.predict(chosen, target, inputs["input_ids"], positions)

    def _new_examples(self, batch: int) -> int:
        """How many examples of a batch, its first ones, were not evaluated before.

        With several processes accelerate fills the last batches with examples of the first ones.
        """
        state = self.accelerator.gradient_state
        if not state.in_dataloader or not state.end_of_dataloader or state.remainder <= 0:
            return batch
        return max(0, min(batch, state.remainder - batch * self.args.process_index))

    def _check_labels(self, labels: Tensor, tokens: Tensor) -> None:
        if self._labels_seen:
            return
        self._labels_seen = True  # once: it waits for the device
        if bool(labels.ne(NOT_MASKED).eq(tokens.ne(self.objective.padding)).all()):
            raise TrueNegError(
                "labels: found one at every token (a causal LM's?), expected the original tokens at masked positions "
                "and -100 elsewhere, as DataCollatorForLanguageModeling gives them (mlm=True)"
            )

    def _count(self, training: bool, counts: dict[str, Tensor]) -> None:
        sums = self._counts[training]
        for name, value in counts.items():
            added = value.detach().double()
            sums[name] = sums[name] + added if name in sums else added

    def _rates(self, training: bool) -> dict[str, float]:
        """The rates of all processes since they were asked for last."""
        sums, self._counts[training] = self._counts[training], {}
        if not sums:
            return {}
        names = sorted(sums)
        summed = self.accelerator.reduce(torch.stack([sums[name] for name in names]), "sum").tolist()
        values = defaultdict(float, zip(names, summed, strict=True))
        return {rate.name: rate.of(values) for rate in self.rates if set(rate.counts) <= sums.keys()}

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the rates to what Trainer logs while it trains."""
        if "loss" in logs:
            logs.update(self._rates(True))
        super().log(logs, start_time)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Adds the rates to an evaluation's metrics; its loss is the mean over all masked tokens."""
        self._counts[False] = {}
        output = super().evaluation_loop(*args, **kwargs)
        prefix = kwargs.get("metric_key_prefix", "eval")
        rates = self._rates(False)
        if rates:
            output.metrics[f"{prefix}_loss"] = rates.pop(self.rates[0].name)
            output.metrics.update({f"{prefix}_{name}": value for name, value in rates.items()})
        return output


def _passes(
    model: Any, inputs: dict[str, Any], predicted: MaskedPredictions, settings: TrueNegativeArguments
) -> EncoderPasses:
    """What else the objective asks of the model: through the unwrapped one, as in the criterion."""
    visible: list[Tensor] = []
    with_layers = settings.uses_context

    def read(tokens: Tensor, gradient: bool, dropout: bool) -> tuple[Tensor, ...]:
        given = {**inputs, "input_ids": tokens}
        with torch.set_grad_enabled(gradient and torch.is_grad_enabled()), dropout_off(model, not dropout):
            if not (settings.uses_visible and tokens is predicted.original):
                return encode(model.base_model, given, with_layers)
            with _outputs(model.base_model) as seen:
                logits = model(**given, output_hidden_states=with_layers).logits
            visible.append(at_positions(logits.detach(), predicted))
            return _states(seen[0], with_layers)

    def predict(original: Callable[[], Tensor]) -> Tensor:
        original()  # the head's place differs with the model: its logits are those of the pass
        return visible[0]

    return EncoderPasses(
        predicted,
        settings,
        embeddings=lambda: model.get_input_embeddings().weight,
        encode=read,
        predict=predict,
        with_layers=with_layers,
    )


@contextmanager
def _outputs(encoder: nn.Module) -> Iterator[list[Any]]:
    """Collects what an encoder gives in its passes."""
    seen: list[Any] = []
    handle = encoder.register_forward_hook(lambda module, arguments, output: seen.append(output))
    try:
        yield seen
    finally:
        handle.remove()


def encode(encoder: nn.Module, inputs: dict[str, Any], with_layers: bool) -> tuple[Tensor, ...]:
    """The states of an encoder's every layer, or of the last alone, shape (B, T, H) each."""
    return _states(encoder(**inputs, output_hidden_states=with_layers), with_layers)


def _states(output: Any, with_layers: bool) -> tuple[Tensor, ...]:
    return tuple(output.hidden_states[1:]) if with_layers else (output[0],)  # the first are the embeddings


def _teacher(path: Path, padding: int, mask: int) -> Callable[[MaskedPredictions], Tensor]:
    """What :class:`~truneg_fairseq.criterions.teacher.Teacher` is, of a model of transformers."""
    model = AutoModelForMaskedLM.from_pretrained(str(path)).eval().requires_grad_(False)

    @torch.no_grad()
    def logits(predicted: MaskedPredictions) -> Tensor:
        tokens = fill(predicted, torch.full_like(predicted.gold, mask))
        found = model.to(tokens.device)(input_ids=tokens, attention_mask=tokens.ne(padding).long()).logits
        return at_positions(found, predicted)

    return logits


def _objective(settings: TrueNegativeArguments, tokenizer: Any, model: Any) -> TrueNegativeObjective:
    vocabulary = vocabulary_of(tokenizer, settings.tokenization, model.get_input_embeddings().num_embeddings)
    padding = tokenizer.pad_token_id
    corpus = load_corpus_targets(settings, settings, vocabulary.symbols, Path())
    teacher = None
    if settings.target_smoothing_teacher:
        teacher = _teacher(teacher_path(settings), padding, tokenizer.mask_token_id)
    if not looks_at_words(settings, settings):
        return TrueNegativeObjective(settings, padding, corpus=corpus, teacher=teacher)
    # A folder of the cache for each tokenizer and source.
    options = lexicon_settings(settings)
    record = options.record(parse_source(settings.synonym_source, options).names)
    folder: Path = cache_path(vocabulary, settings.synonym_source, record).with_suffix("")
    pairs = load_pairs(settings, settings, vocabulary, folder)
    objective = make_objective(
        settings,
        settings,
        padding=padding,
        vocabulary=vocabulary,
        data=folder,
        pairs=pairs,
        corpus=corpus,
        teacher=teacher,
    )
    if pairs is not None:
        objective.add_module("pairs", pairs)  # its buffer follows the objective to the device
    return objective
