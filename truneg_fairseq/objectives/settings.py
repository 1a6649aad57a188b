"""The options of the objective, whatever trains with it.

fairseq reads the fields' types: no ``from __future__ import annotations`` here, and built-in types only.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

from .. import options
from ..errors import TrueNegError
from ..options import option
from .acceptance import FEATURES

S = TypeVar("S", bound="ObjectiveSettings")

TABLE = "table"
"""The detector that takes every pair of the table."""


@dataclass(kw_only=True)
class ObjectiveSettings:
    """What is minimised; every weight 0 is plain masked-LM training."""

    hc_weight: float = option(
        0.0,
        "hard correction (Eq. 2): share of the loss that is dropped where the prediction is a synonym of the original "
        "word, in [0, 1]",
        ge=0,
        le=1,
    )
    hc_detector: str = option(
        TABLE,
        "which mistakes are false negatives: 'table' (pairs of the synonym table); or those that people would accept, "
        "judged by 'embedding' (cosine of the input embeddings) or 'context' (cosine of the states in the sentence, "
        "mean over the layers), joined by '+'; with table among them only its pairs are judged: table+embedding",
    )
    hc_threshold: float = option(
        0.5,
        "smallest probability of acceptance that a detector other than table corrects, in [0, 1]",
        ge=0,
        le=1,
    )
    hc_graded: bool = option(
        False, "drop of a corrected position's loss the probability of acceptance in place of everything"
    )
    sr_word_weight: float = option(
        0.0,
        "lambda of word-level soft regularization (Eq. 3): 1 - cosine of the embeddings of prediction and original "
        "word",
        ge=0,
    )
    sr_word_form: str = option(
        "argmax",
        "of --sr-word-weight: the distance of the 'argmax' (the paper's), or the one that is 'expected' under the "
        "model's distribution, whose gradient reaches the predictions (EMO)",
        choices=("argmax", "expected"),
    )
    sr_sent_weight: float = option(
        0.0,
        "lambda of sentence-level soft regularization: KL divergence of the encoder's states for the sentence with the "
        "predictions filled in from those for the original sentence (two more encoder passes, one in ELECTRA)",
        ge=0,
    )
    softmax_temperature: float = option(1.0, "softmax temperature of the trained cross-entropy (footnote 11)", gt=0)
    loss_truncation: float = option(
        0.0,
        "drop the loss of this share of a batch's masked positions, where the original word is least likely: the "
        "control for every other way to drop some, in [0, 1]",
        ge=0,
        le=1,
    )
    target_smoothing: str = option(
        "none",
        "soft targets: give a share of the target to other words: 'uniform' (all of the vocabulary: label smoothing), "
        "'synonyms' (those of the table) or 'self' (what the model itself predicts where it reads the unmasked "
        "sentence: one more encoder pass)",
        choices=("none", "uniform", "synonyms", "self"),
    )
    target_smoothing_weight: float = option(
        0.1, "the share of the target that --target-smoothing takes, in [0, 1]", ge=0, le=1
    )
    target_smoothing_shape: str = option(
        "cosine",
        "of --target-smoothing synonyms: 'cosine' (by exp(cosine of the model's embeddings / temperature)), 'uniform' "
        "(all alike), or by the cosines of a table that was built with --vectors: 'vectors' (as cosine) or 'rank' (a "
        "Gaussian of the rank: D2GPo)",
        choices=("uniform", "cosine", "vectors", "rank"),
    )
    target_smoothing_temperature: float = option(
        0.1, "of --target-smoothing-shape cosine, vectors and --target-smoothing-embedding: the temperature", gt=0
    )
    target_smoothing_threshold: float = option(
        0.3, "of --target-smoothing-shape cosine and vectors: smallest cosine of a synonym, in [-1, 1]", ge=-1, le=1
    )
    target_smoothing_corpus: float = option(
        0.0,
        "a share of the target, beside that of --target-smoothing, for what else a corpus has between the same two "
        "neighbours (counted by 'truneg data counts'), in [0, 1]",
        ge=0,
        le=1,
    )
    target_smoothing_embedding: float = option(
        0.0,
        "a share of the target, beside the others, for the ten words with the nearest input embeddings, by exp(cosine "
        "/ temperature), in [0, 1]",
        ge=0,
        le=1,
    )
    target_smoothing_teacher: float = option(
        0.0,
        "a share of the target, beside the others, for the 64 words that another model (--teacher) finds most "
        "probable, in [0, 1]",
        ge=0,
        le=1,
    )

    discriminator_false_negatives = "keep"  # no field: a masked LM has no discriminator
    label_smoothing = 0.0  # no field: a masked LM has target_smoothing "uniform"

    @classmethod
    def of(cls: type[S], given: Any) -> S:
        """The settings among the attributes of any object of options; those it lacks have their defaults."""
        return options.select(cls, given)

    @property
    def features(self) -> frozenset[str]:
        """What the detector looks at, of :data:`~.acceptance.FEATURES`."""
        return frozenset(self.hc_detector.split("+"))

    @property
    def scores(self) -> bool:
        """Whether the detector gives probabilities of acceptance."""
        return self.features != {TABLE}

    @property
    def finds_false_negatives(self) -> bool:
        """Whether the loss depends on the detector."""
        return self.hc_weight != 0 or self.discriminator_false_negatives != "keep"

    @property
    def smoothing(self) -> str:
        """The smoothing that makes a difference: "none" where its weight is 0."""
        return self.target_smoothing if self.target_smoothing_weight else "none"

    @property
    def needs_table(self) -> bool:
        """Whether synonyms are needed."""
        return (self.finds_false_negatives and TABLE in self.features) or self.smoothing == "synonyms"

    @property
    def uses_visible(self) -> bool:
        """Whether the model's distribution on the unmasked sentence is needed."""
        return self.smoothing == "self"

    @property
    def uses_context(self) -> bool:
        """Whether the detector compares states in context."""
        return self.finds_false_negatives and "context" in self.features

    @property
    def reads_original(self) -> bool:
        """Whether anything but sentence-level regularization reads the states of the original sentences."""
        return self.uses_visible or self.uses_context

    def check(self) -> None:
        """Refuses values out of range and options that contradict each other."""
        options.check(self)
        check_detector(self.hc_detector, "--hc-detector")
        shares = {
            "--label-smoothing": self.label_smoothing,
            "--target-smoothing-weight": 0.0 if self.smoothing == "none" else self.target_smoothing_weight,
            "--target-smoothing-corpus": self.target_smoothing_corpus,
            "--target-smoothing-embedding": self.target_smoothing_embedding,
            "--target-smoothing-teacher": self.target_smoothing_teacher,
        }
        if sum(shares.values()) > 1:
            told = ", ".join(f"{flag} {share}" for flag, share in shares.items() if share)
            raise TrueNegError(f"{told}: the shares are more than the whole target; expected at most 1 together")


@dataclass(kw_only=True)
class GenerationSettings(ObjectiveSettings):
    """What a model that generates minimises: fairseq's label smoothing beside the other soft targets."""

    label_smoothing: float = option(0.0, "epsilon for label smoothing, 0 means no label smoothing", ge=0, le=1)

    @property
    def changes_loss(self) -> bool:
        """Whether anything but fairseq's own label smoothing is in use."""
        weights = self.hc_weight, self.sr_word_weight, self.loss_truncation, self.target_smoothing_corpus
        return any(weights) or self.smoothing != "none"


@dataclass(kw_only=True)
class ElectraSettings(ObjectiveSettings):
    """What ELECTRA minimises: the objective on the generator, and the discriminator's loss."""

    discriminator_weight: float = option(
        50.0, "weight of the discriminator loss; the generator loss has weight 1", ge=0
    )
    discriminator_false_negatives: str = option(
        "keep",
        "a sampled synonym of the original word is for the discriminator: 'keep' a replaced token like any other, "
        "'ignore' no part of the loss, 'relabel' an original token, 'soft' replaced with 1 - the probability of "
        "acceptance (--hc-detector says which and how)",
        choices=("keep", "ignore", "relabel", "soft"),
    )

    def check(self) -> None:
        super().check()
        if self.discriminator_false_negatives == "soft" and not self.scores:
            raise TrueNegError(
                f"--discriminator-false-negatives soft: found --hc-detector {self.hc_detector}, which gives no "
                "probabilities; expected a detector that does, such as table+embedding"
            )


def check_detector(detector: str, flag: str) -> None:
    """Refuses an unknown detector; ``flag`` is what it was given with."""
    names = detector.split("+")
    if not set(names) <= set(FEATURES) or len(set(names)) < len(names):
        raise TrueNegError(
            f"{flag}: found {detector!r}, expected some of {', '.join(FEATURES)}, each once, with + between them"
        )
