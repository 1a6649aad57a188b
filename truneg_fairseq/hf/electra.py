"""ELECTRA pre-training with the true-negative objectives in transformers' Trainer."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import ElectraForMaskedLM, ElectraForPreTraining
from transformers.modeling_outputs import ModelOutput
from transformers.models.electra.modeling_electra import ElectraPreTrainedModel

from ..errors import TrueNegError
from ..objectives import Judgement, Outcome, fill, sample_tokens
from ..objectives.electra import Replaced, add_discriminator
from ..objectives.passes import Encoded, dropout_off
from ..objectives.rates import BITS, ELECTRA_RATES, Rate
from .arguments import TrueNegativeArguments
from .trainer import TrueNegativeTrainer, encoder_outputs, layer_states

_SHARED = ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm")
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


@dataclass
class ElectraOutput(ModelOutput):
    """What one step computes.

    Attributes:
        tokens: int64, shape (B, T), what the discriminator read.
        logits: shape (B, T), the discriminator's.
        states: shape (B, T, H) each, its last layer's, or every layer's where they were asked for.
    """

    tokens: Tensor | None = None
    logits: Tensor | None = None
    states: tuple[Tensor, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ElectraArguments(TrueNegativeArguments):
    """As of a masked LM, with the discriminator's.

    Attributes:
        discriminator_weight: of its loss.
    """

    has_discriminator: ClassVar[bool] = True
    discriminator_weight: float = 50.0

    def check(self) -> None:
        """Refuses values out of range and options that exclude each other.

        Raises:
            TrueNegError: naming the flag.
        """
        super().check()
        if not (math.isfinite(self.discriminator_weight) and self.discriminator_weight >= 0):
            raise TrueNegError(
                f"--discriminator-weight: found {self.discriminator_weight}, expected a finite number >= 0"
            )


class ElectraForReplacedTokens(ElectraPreTrainedModel):
    """Generator and discriminator, which share all embeddings; ``discriminator`` is what fine-tuning takes.

    Args:
        config: the discriminator's; its attribute ``generator_sizes`` has the generator's by name.
    """

    _tied_weights_keys = {
        f"generator.electra.embeddings.{part}.{kind}": f"discriminator.electra.embeddings.{part}.{kind}"
        for part in _SHARED
        for kind in (("weight", "bias") if part == "LayerNorm" else ("weight",))
    } | {"generator.generator_lm_head.weight": "discriminator.electra.embeddings.word_embeddings.weight"}

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.discriminator = ElectraForPreTraining(config)
        sizes = copy.deepcopy(config)
        for name, value in config.generator_sizes.items():
            setattr(sizes, name, value)
        self.generator = ElectraForMaskedLM(sizes)
        self.post_init()

    @classmethod
    def of(cls, discriminator: ElectraForPreTraining, generator: ElectraForMaskedLM) -> ElectraForReplacedTokens:
        """Both halves as one model; the embeddings are the discriminator's.

        Raises:
            TrueNegError: embeddings of different sizes.
        """
        config, smaller = copy.deepcopy(discriminator.config), generator.config
        for name in ("embedding_size", "vocab_size", "max_position_embeddings", "type_vocab_size"):
            ours, theirs = getattr(config, name), getattr(smaller, name)
            if ours != theirs:
                raise TrueNegError(f"generator: {name} is {theirs}, expected {ours}, the discriminator's; it is shared")
        config.generator_sizes = {name: getattr(smaller, name) for name in _SIZES}
        model = cls(config)
        model.generator.load_state_dict(generator.state_dict())
        model.discriminator.load_state_dict(discriminator.state_dict())  # last: the embeddings are one
        return model

    def get_input_embeddings(self) -> Any:
        """The shared word embeddings."""
        return self.discriminator.get_input_embeddings()

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
            replace: takes the generator's logits, shape (B, T, V), and gives what the discriminator reads.
            with_layers: give the states of all the discriminator's layers.
        """
        inputs = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        tokens = replace(self.generator(input_ids=input_ids, **inputs).logits)
        with encoder_outputs(self.discriminator.electra) as seen:
            logits = self.discriminator(input_ids=tokens, output_hidden_states=with_layers, **inputs).logits
        return ElectraOutput(tokens=tokens, logits=logits, states=layer_states(seen[0], with_layers))


class ElectraTrainer(TrueNegativeTrainer):
    """:class:`TrueNegativeTrainer` for :class:`ElectraForReplacedTokens`: the criterion ``electra``.

    Logged are the criterion's rates; ``plain_loss`` and ``eval_loss`` are L_mlm + 50 L_disc, uncorrected.
    """

    settings: ElectraArguments
    rates = (
        Rate("plain_loss", "loss", "sample_size"),
        *(
            rate._replace(scale=1.0) if rate.scale == BITS else rate
            for rate in ELECTRA_RATES
            if rate.name != "objective"
        ),
    )

    def check_model(self) -> None:
        """Refuses another model.

        Raises:
            TrueNegError: it is one, or the options are no :class:`ElectraArguments`.
        """
        if not isinstance(self.model, ElectraForReplacedTokens) or not isinstance(self.settings, ElectraArguments):
            found = f"{type(self.model).__name__} with {type(self.settings).__name__}"
            raise TrueNegError(f"found {found}, expected ElectraForReplacedTokens with ElectraArguments")

    def sample(self, judged: Judgement) -> Tensor:
        """The tokens that the generator puts in place of the masked ones, int64, shape (N,), sampled."""
        return sample_tokens(judged.logits.detach())

    def outcome(self, model: Any, inputs: dict[str, Any], labels: Tensor) -> tuple[Outcome, Any]:
        """The loss of a batch and the model's outputs."""
        judged: list[Judgement] = []
        samples: list[Tensor] = []

        def replace(logits: Tensor) -> Tensor:
            judged.append(self.predict(logits, inputs, labels))
            samples.append(self.sample(judged[0]))
            return fill(judged[0], samples[0])

        outputs = model(**inputs, replace=replace, with_layers=self.settings.uses_context)
        passes = _ElectraPasses(self.accelerator.unwrap_model(model), inputs, judged[0], outputs, self.settings)
        found = self.objective.judge(judged[0], passes)
        scored = self.objective.score(found, passes)
        replaced = Replaced(outputs.tokens, samples[0], outputs.logits)
        weight = self.settings.discriminator_weight
        return add_discriminator(self.objective, scored, found, passes, replaced, weight=weight), outputs


class _ElectraPasses:
    """The discriminator's states, and the generator's logits; see :class:`~truneg_fairseq.objectives.Passes`."""

    def __init__(
        self, model: Any, inputs: dict[str, Any], judged: Judgement, outputs: ElectraOutput, settings: ElectraArguments
    ) -> None:
        self._model, self._judged, self._outputs, self._settings = model, judged, outputs, settings
        self._inputs = {**inputs, "input_ids": judged.original}
        assert outputs.states is not None
        self._filled = Encoded.of(outputs.states, judged, with_layers=settings.uses_context)
        self._original: Encoded | None = None

    def embeddings(self) -> Tensor:
        """The shared word embeddings."""
        weight: Tensor = self._model.get_input_embeddings().weight
        return weight

    def original(self) -> Tensor:
        """The discriminator's states of the original sentences."""
        return self._read_original().last

    def filled(self) -> tuple[Tensor, Tensor]:
        """The sentences with the samples, and the discriminator's states."""
        assert self._outputs.tokens is not None
        return self._outputs.tokens, self._filled.last

    def layers(self) -> tuple[Tensor, Tensor]:
        """The states of all the discriminator's layers."""
        original, filled = self._read_original().layers, self._filled.layers
        assert original is not None
        assert filled is not None
        return original, filled

    def visible(self) -> Tensor:
        """The generator's logits on the original sentences."""
        with torch.no_grad(), dropout_off(self._model.generator):
            logits: Tensor = self._model.generator(**self._inputs).logits
        return logits.flatten(0, 1).index_select(0, self._judged.positions)

    def _read_original(self) -> Encoded:
        if self._original is None:
            encoder, settings = self._model.discriminator.electra, self._settings
            gradient = settings.sr_sent_gold_gradient and torch.is_grad_enabled()
            with torch.set_grad_enabled(gradient), dropout_off(encoder, settings.uses_context):
                output = encoder(**self._inputs, output_hidden_states=settings.uses_context)
            states = layer_states(output, settings.uses_context)
            self._original = Encoded.of(states, self._judged, with_layers=settings.uses_context)
        return self._original
