"""The memory of an update of pre-training at its peak, by a formula. Imports neither torch nor fairseq.

Counted are the bytes of tensors on a CPU, for BERT and ELECTRA with dropout and GELU, as :mod:`.encoder`,
:mod:`.dropout` and :mod:`.heads` compute them; Python, the libraries and their scratch space come on top. The peak is
what is held when an update begins (:func:`held_bytes`) and the most that the update adds to it, at one of four moments
(:class:`Peak`); ``benchmarks/memory.py`` compares it with what is measured.

On a GPU attention is fused: its weights and their masks, A T of either a token and layer, are not kept. Masks of
other dropouts take a byte an element there too. That has not been measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

BYTES = {"fp32": 4, "bf16": 2}
"""Of an element of parameters, gradients and activations."""

_FP32 = 4
_MASK = 1
_SEGMENTS = 2
_MOMENTS = 2


@dataclass(frozen=True)
class StackSize:
    """A stack of layers."""

    layers: int  # L
    hidden: int  # width H
    ffn: int  # width F of the feed-forward layers
    heads: int  # A


@dataclass(frozen=True)
class ModelSize:
    """A model as it is pre-trained."""

    encoder: StackSize  # BERT's layers, or those of ELECTRA's discriminator
    embedding: int  # width E of the embeddings
    vocabulary: int  # V, with the special symbols
    positions: int  # the longest sequence
    generator: StackSize | None = None  # ELECTRA's; None for BERT

    @classmethod
    def from_arguments(cls, args: Any, vocabulary: int, *, detection: bool) -> ModelSize:
        """The size of a model of this package.

        Args:
            args: the model's, complete, as its ``args`` has them.
            vocabulary: the dictionary's size.
            detection: whether it is pre-trained with a generator, as the criterion ``electra`` does.
        """
        generator = _stack_size(args, "generator") if detection else None
        return cls(_stack_size(args, "encoder"), args.embedding_dim, vocabulary, args.max_positions, generator)

    def with_fused_attention(self) -> ModelSize:
        """The same model whose attention keeps no weights: no head has any."""
        generator = self.generator and replace(self.generator, heads=0)
        return replace(self, encoder=replace(self.encoder, heads=0), generator=generator)


def _stack_size(args: Any, side: str) -> StackSize:
    names = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    return StackSize(*(getattr(args, f"{side}_{name}") for name in names))


@dataclass(frozen=True)
class BatchSize:
    """A batch."""

    sequences: int  # B
    length: int  # T, with padding
    masked: int  # N, the positions that are projected to the vocabulary, of all sequences

    @property
    def places(self) -> int:
        """B T."""
        return self.sequences * self.length


@dataclass(frozen=True)
class Peak:
    """The memory of an update, in bytes: what is held, and what comes on top at each moment."""

    held: int  # when an update begins; see :func:`held_bytes`
    loss: int  # when the backward pass is at the logits
    layer: int  # when the last layer works, forward or backward
    sentences: int  # when sentence-level regularization encodes the original sentences; 0 without it
    gradients: int  # when the backward pass has made nearly all of them

    @property
    def moment(self) -> str:
        """The one at which most is there."""
        return max(("loss", "layer", "sentences", "gradients"), key=lambda moment: getattr(self, moment))

    @property
    def total(self) -> int:
        """The most bytes at a time."""
        added: int = getattr(self, self.moment)
        return self.held + added


def parameter_count(model: ModelSize) -> int:
    """P, the number of parameters; those that ELECTRA's two halves share count once."""
    width, hidden = model.embedding, model.encoder.hidden
    embeddings = (model.vocabulary + model.positions + _SEGMENTS + 2) * width
    count = embeddings + _stack_parameters(model.encoder, width)
    masked_lm = model.generator or model.encoder
    count += masked_lm.hidden * width + 3 * width + model.vocabulary
    if model.generator is not None:
        count += _stack_parameters(model.generator, width) + hidden * hidden + 2 * hidden + 1
    return count


def _stack_parameters(stack: StackSize, embedding: int) -> int:
    hidden, ffn = stack.hidden, stack.ffn
    layer = 4 * hidden * (hidden + 1) + 2 * hidden * ffn + ffn + hidden + 4 * hidden
    projection = (embedding + 1) * hidden if embedding != hidden else 0
    return stack.layers * layer + projection


def held_bytes(parameters: int, precision: str) -> int:
    """What is there when an update begins: parameters and Adam's two moments, which are fp32.

    Until then the gradients of the update before are there too: fairseq frees them at the start of the next one.

    In bf16 fairseq holds fp32 copies of the parameters and of the gradients beside: 18 bytes a parameter, fp32 has 12.

    Args:
        parameters: P.
        precision: fp32 or bf16 (fairseq's, not memory-efficient).
    """
    size = BYTES[precision]
    copies = 0 if precision == "fp32" else 2 * _FP32
    return parameters * (size + _MOMENTS * _FP32 + copies)


def layer_bytes(stack: StackSize, batch: BatchSize, precision: str, rows: int | None = None) -> int:
    """What the backward pass needs of a layer.

    Of each token 4 H elements (the input; query, key and value), and A T attention weights with a byte of mask each; of
    each token that the layer answers for, 4 H more (context; the first LayerNorm's input and output; the second's
    input), two masks of H bytes, F elements of fp32 in any precision that go into GELU, and F that come out of it.

    Args:
        stack: the layer's sizes.
        batch: the batch's.
        precision: see :func:`held_bytes`.
        rows: the number of positions that the layer answers for; None for all.
    """
    size = BYTES[precision]
    attention = 4 * stack.hidden * size + stack.heads * batch.length * (size + _MASK)
    return batch.places * attention + _behind_attention(stack, batch.places if rows is None else rows, size)


def _behind_attention(stack: StackSize, rows: int, size: int) -> int:
    return rows * (4 * stack.hidden * size + 2 * stack.hidden * _MASK + stack.ffn * (_FP32 + size))


def predict_peak(
    model: ModelSize,
    batch: BatchSize,
    precision: str = "fp32",
    *,
    sr_word: bool = False,
    sr_sent: bool = False,
    update_freq: int = 1,
) -> Peak:
    """The peak of an update in masked-LM or ELECTRA pre-training, with ``electra_adam``.

    Hard correction adds only its table, 8 bytes per pair.

    Args:
        model: its size.
        batch: its size.
        precision: see :func:`held_bytes`.
        sr_word: with word-level regularization.
        sr_sent: with sentence-level regularization, the original sentences without gradient.
        update_freq: batches an update; from the second on, the gradients of those before are there.
    """
    terms = _Terms(model, batch, BYTES[precision], precision, sr_word, sr_sent)
    before = terms.every_gradient if update_freq > 1 else 0
    return Peak(
        held=held_bytes(parameter_count(model), precision),
        loss=terms.loss() + before,
        layer=terms.layer() + before,
        sentences=terms.sentences() + before if sr_sent else 0,
        gradients=terms.gradients(),
    )


@dataclass(frozen=True)
class _Terms:
    """What an update adds at each moment; ``size`` is the bytes of an element."""

    model: ModelSize
    batch: BatchSize
    size: int
    precision: str
    sr_word: bool
    sr_sent: bool

    @property
    def electra(self) -> bool:
        return self.model.generator is not None

    @property
    def masked_lm(self) -> StackSize:
        return self.model.generator or self.model.encoder

    @property
    def logits(self) -> int:
        """Elements: N V."""
        return self.batch.masked * self.model.vocabulary

    @property
    def table(self) -> int:
        """Bytes of a gradient of the word embeddings: V E elements."""
        return self.model.vocabulary * self.model.embedding * self.size

    @property
    def every_gradient(self) -> int:
        """Bytes of one gradient of every parameter."""
        return parameter_count(self.model) * self.size

    def loss(self) -> int:
        """When the backward pass is at the logits.

        With what is kept: three fp32 tensors of N V elements (log-probabilities, their gradient, the logits'
        gradient), or the logits' gradient, the projection's (V E elements) and that of its input (N E). In BERT
        word-level regularization adds its own to the latter, of 2 N rows of E elements, out of place. The backward pass
        of ELECTRA's discriminator comes later; that of BERT's filled sentences, for sentence-level regularization,
        comes before and has left gradients.
        """
        kept = self._masked_lm_kept()
        if self.electra:
            kept += self._encoder_kept() + self._detector_kept() + (self._states() if self.sr_sent else 0)
        elif self.sr_sent:
            kept += self.every_gradient
        states = self.batch.masked * self.model.embedding * self.size
        projection = self.logits * self.size + self.table + states
        if self.sr_word and not self.electra:
            projection = 2 * (self.table + states)
        return kept + max(3 * _FP32 * self.logits, projection)

    def layer(self) -> int:
        """When the last layer works, with what is kept, at the worst of three points.

        Of each token, in its attention: forward 3 A T elements (scores, the mask as numbers, its product with the
        weights), 3 H (query, key, value as they come from the projections) and the word embeddings; backward 2 A T and
        6 H. What comes behind the attention is not there at either. In GELU backward: F fp32 elements, in bf16 half as
        many more, and 2 H.
        """
        stack, size, places = self.model.encoder, self.size, self.batch.places
        wide, hidden = stack.heads * self.batch.length, stack.hidden
        if self.electra or self.sr_sent:
            kept, rows, made = self._masked_lm_kept() + self._encoder_kept() + self._waiting_logits(), places, 0
        else:  # the head comes later, and in the backward pass has come before
            rows, made = self.batch.masked, self.table + self._last_gradients()
            kept = self._pass(stack, rows)
        behind = _behind_attention(stack, rows, size)
        forward = places * size * (3 * wide + 3 * hidden + self.model.embedding) - behind
        backward = places * size * (2 * wide + 6 * hidden) + made - behind
        gelu = rows * (stack.ffn * (2 * _FP32 - size) + 2 * hidden * size)
        return kept + max(forward, backward, gelu)

    def sentences(self) -> int:
        """When the original sentences are encoded, without gradient, with what is kept and the filled ones' states.

        BERT's logits are still there beside their log-probabilities.
        Of each token the word embeddings and the inputs of L layers; in attention 6 H elements (query, key and value
        twice) and 4 A T with a byte of mask each; in the feed-forward layer 2 H and F, and GELU's F twice in fp32.
        """
        stack, size = self.model.encoder, self.size
        wide = stack.heads * self.batch.length
        attention = 6 * stack.hidden * size + wide * (4 * size + _MASK)
        feed_forward = 2 * stack.hidden * size + stack.ffn * (2 * _FP32 + (0 if size == _FP32 else size))
        work = (self.model.embedding + stack.layers * stack.hidden) * size + max(attention, feed_forward)
        kept = self._masked_lm_kept() + self._encoder_kept() + self._waiting_logits()
        judged = 0 if self.electra else self.logits * size
        return kept + self._states() + judged + self.batch.places * work

    def gradients(self) -> int:
        """When the backward pass has come to the word embeddings of the input, or in ELECTRA of the generator's output.

        BERT's gradient of the embeddings from their use in the projection waits for the one from the input, and the sum
        is a third; with word-level regularization it is made in place. In ELECTRA the discriminator's waits for the
        generator's, of whose layers there are no gradients yet but all that its forward pass has kept.
        """
        if not self.electra:
            return self.every_gradient + (1 if self.sr_word else 2) * self.table
        own = _stack_parameters(self.masked_lm, self.model.embedding) * self.size
        return self.every_gradient + self.table + max(0, self._masked_lm_kept() + self.logits * self.size - own)

    def _masked_lm_kept(self) -> int:
        """BERT's pass or the generator's. Its head: H elements, E of fp32 into GELU, E into and out of LayerNorm."""
        rows, width = self.batch.masked, self.model.embedding
        head = rows * (self.masked_lm.hidden * self.size + width * (_FP32 + 2 * self.size))
        return self._pass(self.masked_lm, rows) + head

    def _encoder_kept(self) -> int:
        """The discriminator's pass, or BERT's second one."""
        return self._pass(self.model.encoder, self.batch.places)

    def _detector_kept(self) -> int:
        """The discriminator's head: H elements, H of fp32 into GELU, and H out of it."""
        return self._states() * 2 + self.batch.places * self.model.encoder.hidden * _FP32

    def _states(self) -> int:
        return self.batch.places * self.model.encoder.hidden * self.size

    def _waiting_logits(self) -> int:
        """While another pass follows: the generator's logits, or BERT's log-probabilities."""
        return self.logits * (self.size if self.electra else _FP32)

    def _last_gradients(self) -> int:
        """Of the parameters behind the last attention."""
        stack = self.masked_lm
        return (2 * stack.ffn + stack.hidden + self.model.embedding) * stack.hidden * self.size

    def _pass(self, stack: StackSize, rows: int) -> int:
        """Embeddings (LayerNorm's input, a mask, what is projected where E != H) and layers, the last for some rows."""
        width = self.model.embedding
        embeddings = width * (self.size + _MASK) + (width * self.size if width != stack.hidden else 0)
        layers = (stack.layers - 1) * layer_bytes(stack, self.batch, self.precision)
        return self.batch.places * embeddings + layers + layer_bytes(stack, self.batch, self.precision, rows)
