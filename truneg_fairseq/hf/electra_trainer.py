"""ELECTRA pre-training with the true-negative objectives in transformers' Trainer."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import ElectraForMaskedLM, ElectraForPreTraining
from transformers.modeling_outputs import ModelOutput
from transformers.models.electra.modeling_electra import ElectraPreTrainedModel

from ..objectives import MaskedPredictions, Outcome, UpdateSize, fill, sample_tokens
from ..objectives.build import BITS
from ..objectives.loop import encode_layers
from ..objectives.loss import IGNORED
from ..objectives.options import ElectraOptions
from ..objectives.passes import unwrap
from ..objectives.replaced_tokens import ELECTRA_RATES, add_discriminator
from .collator import seeded
from .masked_lm_trainer import TrueNegativeTrainer
from .projection import masked_positions, select_rows

_SHARED = ("embedding_size", "vocab_size", "max_position_embeddings", "type_vocab_size", "tie_word_embeddings")
_OWN = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_act", "layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob"),
)

_SAMPLES = 1  # tells the random numbers of the samples from those of the masks


@dataclass
class ElectraOutput(ModelOutput):
    """What one step computes."""

    tokens: Tensor | None = None  # int64, shape (B, T), what the discriminator read
    logits: Tensor | None = None  # shape (B, T), the discriminator's
    # shape (B, T, H) each, of the last layer, or of every layer where they were asked for
    states: tuple[Tensor, ...] | None = None
    # the generator's logits while it trains: DDP takes a parameter that no output leads to as unused
    generator_logits: Tensor | None = None


class ElectraForReplacedTokens(ElectraPreTrainedModel):
    """Generator and discriminator, which share all embeddings; ``discriminator`` is what fine-tuning takes.

    Args:
        config: of the discriminator; its attribute ``generator_settings`` has what differs in the generator.
    """

    _tied_weights_keys: ClassVar[dict[str, str]] = {
        r"generator\.electra\.embeddings\..+\.(weight|bias)": r"discriminator\.electra\.embeddings\..+\.(weight|bias)",
        "generator.generator_lm_head.weight": "discriminator.electra.embeddings.word_embeddings.weight",
    }

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        if not config.tie_word_embeddings:
            raise ValueError("tie_word_embeddings: found false, expected true; both halves share their embeddings")
        self.discriminator = ElectraForPreTraining(config)
        sizes = copy.deepcopy(config)
        sizes.update(config.generator_settings)
        self.generator = ElectraForMaskedLM(sizes)
        self.post_init()

    @classmethod
    def of(cls, discriminator: ElectraForPreTraining, generator: ElectraForMaskedLM) -> ElectraForReplacedTokens:
        """Both halves as one model, with the embeddings of the discriminator."""
        config, smaller = copy.deepcopy(discriminator.config), generator.config
        for name in _SHARED:
            ours, theirs = getattr(config, name), getattr(smaller, name)
            if ours != theirs:
                raise ValueError(f"generator: {name} is {theirs}, expected {ours}, the discriminator's; it is shared")
        config.generator_settings = {name: getattr(smaller, name) for name in _OWN}
        model = cls(config)
        model.generator.load_state_dict(generator.state_dict())
        model.discriminator.load_state_dict(discriminator.state_dict())  # last: the embeddings are one
        return model

    def get_input_embeddings(self) -> Any:
        """The shared word embeddings."""
        return self.discriminator.get_input_embeddings()

    def resize_token_embeddings(self, *args: Any, **options: Any) -> Any:
        """Grows or shrinks the shared word embeddings and the generator's output; arguments as in transformers."""
        self.generator.resize_token_embeddings(*args, **options)
        embeddings = self.discriminator.resize_token_embeddings(*args, **options)
        self.config.vocab_size = self.discriminator.config.vocab_size
        self.tie_weights()  # new rows are drawn at random, in each half its own
        return embeddings

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        replace: Callable[[Tensor], Tensor],
        with_layers: bool = False,
    ) -> ElectraOutput:
        """One pre-training step.

        Args:
            input_ids: int64, shape (B, T), masked.
            attention_mask: shape (B, T), 1 where there is no padding; None for no padding.
            token_type_ids: int64, shape (B, T), None for 0.
            replace: takes the generator's logits, shape (B, T, V) or of some positions (N, V), and gives what the
                discriminator reads.
            with_layers: give the states of all the discriminator's layers.
        """
        inputs = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        predicted = self.generator(input_ids=input_ids, **inputs).logits
        tokens = replace(predicted)
        states = encode_layers(self.discriminator.electra, {"input_ids": tokens, **inputs}, with_layers)
        logits = self.discriminator.discriminator_predictions(states[-1])
        return ElectraOutput(
            tokens=tokens, logits=logits, states=states, generator_logits=predicted if self.training else None
        )


class ElectraTrainer(TrueNegativeTrainer):
    """:class:`TrueNegativeTrainer` for :class:`ElectraForReplacedTokens`: the criterion ``electra``.

    Logged are the criterion's rates; ``plain_loss`` and ``eval_loss`` are L_mlm + 50 L_disc, uncorrected.
    """

    true_negatives: ElectraOptions
    plain_loss = "plain_loss"
    rates = tuple(
        rate._replace(scale=1.0) if rate.scale == BITS else rate for rate in ELECTRA_RATES if rate.name != "objective"
    )

    def check_model(self) -> None:
        """Refuses another model."""
        model = unwrap(self.model)
        if not isinstance(model, ElectraForReplacedTokens) or not isinstance(self.true_negatives, ElectraOptions):
            found = f"{type(model).__name__} with {type(self.true_negatives).__name__}"
            raise TypeError(f"found {found}, expected ElectraForReplacedTokens with ElectraArguments")

    def outcome(
        self, model: Any, inputs: dict[str, Any], labels: Tensor, update: UpdateSize | None = None
    ) -> tuple[Outcome, Any]:
        """The loss of a batch, of this update, and the model's outputs."""
        positions = masked_positions(labels)
        self._batch = inputs, labels, positions
        with self.projection.at(positions):
            outputs = model(**inputs, replace=self._replace, with_layers="states" in self.true_negative_loss.reads)
        predicted = self._predicted
        del self._batch, self._predicted
        halves, loss, filled = unwrap(model), self.true_negative_loss, (outputs.tokens, outputs.states)
        with self.accelerator.autocast():
            passes = loss.passes(predicted, halves, inputs, encoder=halves.discriminator.electra, filled=filled)
        found, scored = loss.step(predicted, passes, update)
        read = {"tokens": outputs.tokens, "logits": outputs.logits}
        return add_discriminator(loss, scored, found, passes, **read, update=update), outputs

    @cached_property
    def _replace(self) -> Callable[[Tensor], Tensor]:
        """Makes what the discriminator reads of the generator's logits; one function for all steps, not compiled."""

        def replace(logits: Tensor) -> Tensor:
            inputs, labels, positions = self._batch
            rows = select_rows(logits, positions)
            self._predicted = self.true_negative_loss.predict(rows, labels, inputs["input_ids"], positions, IGNORED)
            return fill(self._predicted, self._samples(self._predicted))

        return torch.compiler.disable(replace)

    def _samples(self, predicted: MaskedPredictions) -> Tensor:
        """Samples of the generator, int64, shape (N,): of a training by their place in it, else by each sentence."""
        logits, sentences = predicted.logits.detach(), predicted.original
        if self.model.training:
            return sample_tokens(logits, seeded([*self._place(self._micro_batch), _SAMPLES], logits.device))
        samples = torch.empty(len(logits), dtype=torch.long, device=logits.device)
        numbers = predicted.positions.div(sentences.size(1), rounding_mode="floor").bincount(minlength=len(sentences))
        start = 0
        for sentence, number in zip(sentences.cpu(), numbers.tolist(), strict=True):
            words = sentence[sentence.ne(self.true_negative_loss.padding)].numpy()
            generator = seeded([zlib.crc32(words.tobytes()), _SAMPLES], logits.device)
            samples[start : start + number] = sample_tokens(logits[start : start + number], generator)
            start += number
        return samples

    def sums(self, training: bool) -> dict[str, float]:
        """The counts of all processes; the plain loss has both halves' means over all batches."""
        sums = super().sums(training)
        if sums.get("disc_size"):
            mean = sums["disc_loss"] / sums["disc_size"]
            sums["loss"] = sums["gen_loss"] + self.true_negatives.discriminator_weight * mean * sums["sample_size"]
        return sums
