"""transformers' Trainer with the true-negative objectives."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DataCollatorForLanguageModeling, Trainer
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import TrainOutput, default_compute_objective

from ..errors import refuse
from ..objectives import Alternatives, Outcome, TrueNegativeLoss, TrueNegativeOptions, UpdateSize
from ..objectives.build import setting_of_tokenizer
from ..objectives.call import EXPECTED_LABELS, check_masked
from ..objectives.hidden import Hidden
from ..objectives.loop import add_counts, at_least_one, no_logits, of_all_processes, rates_of
from ..objectives.loss import ACCURACY, CORRECTION_RATES, IGNORED, Rate
from ..objectives.passes import embeddings_in_use, sharded_around, unwrap
from . import projection
from .collator import DataCollatorForTrueNegatives
from .record import differences, is_finished, newest_checkpoint, read_record, record_of, write_record

logger = logging.getLogger(__name__)


class TrueNegativeTrainer(Trainer):
    """Trains a masked LM with any combination of hard correction, soft targets and regularization.

    It takes what Trainer takes and works with transformers' ``DataCollatorForLanguageModeling``, whose labels hold the
    original tokens at masked positions, and with :class:`~.collator.DataCollatorForTrueNegatives`. With every weight 0
    the loss is the model's own.

    ``loss`` and ``train_loss`` are Trainer's own, of what is minimised. Added are ``mlm_loss`` (uncorrected, at
    temperature 1, in nats), ``accuracy``, ``hc_pred``, ``hc_iter``, ``hc_acceptance``, ``smoothed``, ``smoothed_mass``,
    ``sr`` and ``kl`` as in the criterion (docs/explain/method.md), over the tokens of all processes since the last log.
    A metric of the same name from ``compute_metrics`` takes their place. An evaluation's ``eval_loss`` is ``mlm_loss``,
    so that runs compare; it is NaN where no token is masked.

    The vocabulary is projected at the masked positions only (:class:`~.projection.MaskedProjection`); choosing them
    takes one host-device sync a batch. Outputs that are asked for have the logits of every position.

    Args:
        model: a masked LM of transformers.
        args: transformers' ``TrainingArguments``.
        true_negatives: what is minimised; None for plain masked-LM training.
        ideas: sources of alternatives that are made already, by the names that ``true_negatives`` has.
        others: as of Trainer; ``processing_class`` must be the model's tokenizer. Without a ``data_collator``
            :class:`~.collator.DataCollatorForTrueNegatives` masks 15 % of the tokens.
    """

    data_collator: Any
    compute_metrics: Any
    plain_loss = "mlm_loss"
    """The name of the uncorrected loss in the log."""

    rates: tuple[Rate, ...] = (ACCURACY, *CORRECTION_RATES)
    """What is logged beside both losses, in nats where it is one, as transformers logs them."""

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *,
        true_negatives: TrueNegativeOptions | None = None,
        ideas: Mapping[str, Alternatives] | None = None,
        **others: Any,
    ) -> None:
        if others.get("data_collator") is None and (tokenizer := others.get("processing_class")) is not None:
            others["data_collator"] = DataCollatorForTrueNegatives(tokenizer)
        super().__init__(model, args, **others)
        self.true_negatives = true_negatives or TrueNegativeOptions()
        self.true_negatives.check()
        self._check_arguments()
        self.check_model()
        if self.args.label_names is None:  # Trainer does not find them in a compiled model, nor in ELECTRA's
            self.label_names = ["labels"]
        self.model_accepts_loss_kwargs = True  # the loss is divided by the masked tokens of the whole update
        tokenizer = self.processing_class or getattr(self.data_collator, "tokenizer", None)
        if tokenizer is None:
            raise ValueError("processing_class: found none, expected the model's tokenizer")
        # PEFT's embeddings have no num_embeddings.
        size = len(unwrap(self.model).get_input_embeddings().weight)
        setting = setting_of_tokenizer(tokenizer, self.true_negatives, size)
        setting.log_expected()
        self.true_negative_loss = TrueNegativeLoss(self.true_negatives, setting, ideas=ideas).to(self.args.device)
        self.projection = projection.MaskedProjection(unwrap(self.model))
        self._loss_only = False
        self._counts: dict[bool, dict[str, Tensor]] = {True: {}, False: {}}  # by whether the model trains
        self._labels_seen = False
        self._update_tokens: Tensor | None = None  # int64 scalar
        self._micro_batch = 0  # of the update
        self._continued: dict[str, Any] = {}  # what the record of a training that resumes has from the one before

    def call_model_init(self, trial: Any = None) -> Any:
        """As of Trainer, which makes a new model at the start of each training."""
        model = super().call_model_init(trial)
        self.projection = projection.MaskedProjection(unwrap(model))
        return model

    def _check_arguments(self) -> None:
        """Refuses arguments of Trainer's that would have no effect, or a wrong one."""
        args, smoothing = self.args, self.args.label_smoothing_factor
        shared = self.get_tp_size() * self.get_cp_size() * self.get_sp_size()
        has_labels = "labels" in (args.label_names or ["labels"])
        refuse(
            (args.n_gpu > 1, f"found {args.n_gpu} GPUs for one process, expected a process per GPU; use torchrun"),
            (shared > 1, "found tensor, context or sequence parallelism, expected data parallelism alone"),
            (
                smoothing,
                f"label_smoothing_factor {smoothing}: expected 0; use soft_targets='uniform=...'",
            ),
            (self.compute_loss_func, "compute_loss_func: expected none; the loss is that of TrueNegativeArguments"),
            (not has_labels, f"label_names {args.label_names}: expected 'labels' too"),
        )

    def check_model(self) -> None:
        """Refuses a model that the objective cannot train."""
        model, kinds = unwrap(self.model), set(MODEL_FOR_MASKED_LM_MAPPING_NAMES.values())
        name, weight = type(model).__name__, self.true_negatives.sr_word_weight
        has_head = any(kind.__name__ in kinds for kind in type(model).__mro__)
        is_argmax = self.true_negatives.sr_word_form == "argmax"
        refuse(
            (not has_head, f"model: {name} has no masked-LM head; expected a model of AutoModelForMaskedLM"),
            (
                getattr(model.config, "is_encoder_decoder", False),
                f"model: {name} has a decoder; expected an encoder with a masked-LM head",
            ),
            (
                weight and is_argmax and not embeddings_in_use(model).requires_grad,
                f"--sr-word-weight {weight}: has no effect on input embeddings that are not trained (frozen, or beside "
                "adapters); expected embeddings that are trained, or --sr-word-weight 0",
            ),
            (
                weight and not projection.is_tied(model),
                f"--sr-word-weight {weight}: {name} does not tie its MLM head to the input embeddings; expected tied "
                "embeddings (the config's tie_word_embeddings), or --sr-word-weight 0",
            ),
        )

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The loss of a batch as a mean over the masked tokens, of the whole update where its number is given."""
        labels = self._labels_of(inputs)
        others = {name: value for name, value in inputs.items() if name not in ("labels", "special_tokens_mask")}
        examples = len(labels)
        if not model.training and (examples := self._new_examples(examples)) < len(labels):
            labels, others["input_ids"] = labels.clone(), others["input_ids"].clone()
            # Without a padding token any other does: nothing of these examples is predicted.
            labels[examples:], others["input_ids"][examples:] = IGNORED, max(0, self.true_negative_loss.padding)
        # An update may have no masked token, and 0 / 0 would make every weight NaN.
        masked = None if num_items_in_batch is None else at_least_one(num_items_in_batch)
        update = None
        if model.training and self.is_in_train and masked is not None and self._update_tokens is not None:
            update = UpdateSize(masked, self._update_tokens)
        self.projection.everywhere = return_outputs and not self._loss_only
        outcome, outputs = self.outcome(model, others, labels, update)
        self._micro_batch += model.training and self.is_in_train
        self._count(model.training, {**outcome.counts, "nsentences": outcome.loss.new_full((), examples)}, outcome.loss)
        if not model.training:
            loss = outcome.counts["loss"] / outcome.counts["sample_size"]  # NaN where no token is masked, as stock's
        elif masked is None:
            loss = outcome.loss / outcome.sample_size.clamp(min=1)
        else:
            loss = outcome.loss / masked
            if self.args.average_tokens_across_devices:  # the items are those of all processes
                loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> tuple[list[Any], Any]:
        """The micro-batches of an update and its masked tokens; counts all its tokens beside them."""
        batches, items = super().get_batch_samples(
            (self._mask_anew(batch, index) for index, batch in enumerate(epoch_iterator)), num_batches, device
        )
        self._update_tokens, self._micro_batch = None, 0
        self.true_negative_loss.progress = min(1.0, self.state.global_step / max(1, self.state.max_steps))
        if items is not None:
            originals = (torch.where(each["labels"].eq(IGNORED), each["input_ids"], each["labels"]) for each in batches)
            counts = [each.ne(self.true_negative_loss.padding).sum() for each in originals]
            tokens = torch.stack(counts).sum().to(device)
            if self.args.average_tokens_across_devices:
                tokens = self.accelerator.reduce(tokens, "sum")
            self._update_tokens = tokens
        return batches, items

    def _mask_anew(self, batch: Any, index: int) -> Any:
        """A batch with the masks of its place in the training, where the collator knows how."""
        collator = self.data_collator
        if isinstance(collator, DataCollatorForTrueNegatives) and not collator.is_overridden:
            state, labels = self.state, batch["labels"]
            tokens = torch.where(labels.eq(IGNORED), batch["input_ids"], labels)
            progress, protected = state.global_step / max(1, state.max_steps), batch.pop("special_tokens_mask", None)
            batch["input_ids"], batch["labels"] = collator.mask(tokens, self._place(index), progress, protected)
        return batch

    def _place(self, micro_batch: int) -> list[int]:
        """What random numbers of a training follow from, so that a run that resumes draws those of an unbroken one."""
        return [self.args.seed, self.state.global_step, micro_batch, self.args.process_index]

    def _get_dataloader(self, *args: Any, **options: Any) -> Any:
        """As of Trainer, with masks by sample; a training masks its batches anew."""
        collator = self.data_collator
        # Trainer would look at a compiled model's forward, which has *args and **kwargs.
        taken = inspect.signature(unwrap(self.model).forward).parameters
        self._signature_columns = [*taken, *self.label_names]
        if isinstance(collator, DataCollatorForLanguageModeling):
            self._signature_columns.append("special_tokens_mask")
        if isinstance(collator, DataCollatorForTrueNegatives):
            self.data_collator = collator.by_sample()
        try:
            return super()._get_dataloader(*args, **options)
        finally:
            self.data_collator = collator

    def outcome(
        self, model: Any, inputs: dict[str, Any], labels: Tensor, update: UpdateSize | None = None
    ) -> tuple[Outcome, Any]:
        """The loss of a batch, of this update, and the model's outputs."""
        positions, loss = projection.masked_positions(labels), self.true_negative_loss
        # A wrapper may know nothing of a weight that is used outside its forward pass, or keep a part of it.
        wrapped = model is not unwrap(model) or sharded_around(model, self.projection.head)
        whole = wrapped or loss.needs_logits or self.projection.everywhere
        head = None if whole else self.projection.head
        with self.projection.at(positions, with_states=head is not None):
            outputs = model(**inputs)
        rows = projection.select_rows(outputs.logits, positions)
        logits = rows if head is None else no_logits(rows, head.weight)
        predicted = loss.predict(logits, labels, inputs["input_ids"], positions, IGNORED)
        with self.accelerator.autocast():  # which the unwrapped model's passes have not of accelerate's wrapper
            passes = loss.passes(predicted, unwrap(model), inputs)
            if head is not None:
                hidden = Hidden(rows, head.weight, head.bias)
                return loss.step_of_hidden(hidden, predicted, passes, update)[0], outputs
        return loss.step(predicted, passes, update)[1], outputs

    def _new_examples(self, batch: int) -> int:
        """How many examples of a batch, its first ones, were not evaluated before.

        With several processes accelerate fills the last batches with examples of the first ones.
        """
        state = self.accelerator.gradient_state
        if not state.in_dataloader or not state.end_of_dataloader or state.remainder <= 0:
            return batch
        return max(0, min(batch, state.remainder - batch * self.args.process_index))

    def _labels_of(self, inputs: Mapping[str, Any]) -> Tensor:
        """The labels of a batch; to look at the first ones waits for the device."""
        if "labels" not in inputs:
            raise ValueError(f"labels: found none in a batch, {EXPECTED_LABELS.format(IGNORED)}")
        labels: Tensor = inputs["labels"]
        if not self._labels_seen:
            self._labels_seen = True
            check_masked(labels, inputs["input_ids"], self.true_negative_loss.padding, IGNORED)
        return labels

    def _count(self, training: bool, counts: dict[str, Tensor], loss: Tensor) -> None:
        """Adds the counts of a batch; with ``logging_nan_inf_filter`` not those of one without a finite loss."""
        if self.args.logging_nan_inf_filter:
            kept = loss.detach().isfinite() & counts["loss"].isfinite()
            counts = {name: torch.where(kept, value, 0) for name, value in counts.items()}
        add_counts(self._counts[training], counts)

    def sums(self, training: bool) -> dict[str, float]:
        """The counts of all processes since they were asked for last."""
        sums, self._counts[training] = of_all_processes(self._counts[training]), {}
        return sums

    def _rates(self, training: bool) -> dict[str, float]:
        """The uncorrected loss, NaN where no token is masked, and the rates; {} where no batch was counted."""
        if not (sums := self.sums(training)):
            return {}
        loss = sums["loss"] / sums["sample_size"] if sums["sample_size"] else math.nan
        return {self.plain_loss: loss, **rates_of(sums, self.rates)}

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the uncorrected loss and the rates to what Trainer logs while it trains."""
        if {"loss", "learning_rate"} <= logs.keys():
            rates = self._rates(training=True)
            logs.update({name: value for name, value in rates.items() if name not in logs and not math.isnan(value)})
        super().log(logs, start_time)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **options: Any) -> Any:
        """As of Trainer; says in a line each what differs from the training that it continues.

        It continues from the newest whole checkpoint. Of one that is finished already Trainer makes an update more.
        """
        self._continued, last = {}, resume_from_checkpoint
        if last is True and (newest := newest_checkpoint(Path(self.args.output_dir))) is not None:
            last = resume_from_checkpoint = str(newest)
        if isinstance(last, str) and (before := read_record(Path(last))):
            now = self._record()
            if now["base_model"] and Path(self.args.output_dir).resolve() in Path(now["base_model"]).resolve().parents:
                now["base_model"] = before["base_model"]  # the model was loaded from a checkpoint of this training
            if self.args.auto_find_batch_size:
                del now["training"]["sequences_in_an_update"]
            changed = differences(before, now)
            for line in changed:
                logger.warning("%s: the training continues with another %s", last, line)
            earlier = [*before.get("changes", []), *(f"from {Path(last).name} on: {line}" for line in changed)]
            self._continued = {"base_model": before["base_model"], "changes": earlier}
        if isinstance(last, str) and is_finished(Path(last), self.args):
            self._load_from_checkpoint(last)
            self.state = TrainerState.load_from_json(str(Path(last) / TRAINER_STATE_NAME))
            return TrainOutput(self.state.global_step, 0.0, {})
        return super().train(resume_from_checkpoint, *args, **options)

    def _inner_training_loop(self, *args: Any, **options: Any) -> Any:
        """As of Trainer; forgets what a training counted that was broken off: by Ctrl-C, or for a smaller batch."""
        self._counts[True], self._update_tokens = {}, None
        return super()._inner_training_loop(*args, **options)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Saves the model, and beside it how it was trained."""
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            write_record(Path(output_dir or self.args.output_dir), {**self._record(), **self._continued})

    def _record(self) -> dict[str, Any]:
        return record_of(self, unwrap(self.model))

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        """Adds the uncorrected loss and the rates, over all masked tokens, to the metrics that the user has not.

        In a search for hyperparameters not the rates: its default objective is the sum of the metrics.
        """
        self._counts[False] = {}
        # Trainer asks for the outputs even where it looks at the loss alone.
        self._loss_only = self.args.prediction_loss_only if prediction_loss_only is None else prediction_loss_only
        try:
            with projection.weights_kept(self.model, self.args.fp16_full_eval or self.args.bf16_full_eval):
                output = super().evaluation_loop(
                    dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
                )
        finally:
            self._loss_only = False
        if rates := self._rates(training=False):
            loss = rates.pop(self.plain_loss)
            if math.isnan(loss):
                logger.warning("%s: no token is masked; its loss is NaN, which is never the best", metric_key_prefix)
            output.metrics[f"{metric_key_prefix}_loss"] = loss
            if self.hp_search_backend is None or self.compute_objective is not default_compute_objective:
                for name, value in rates.items():
                    output.metrics.setdefault(f"{metric_key_prefix}_{name}", value)
        return output
