"""The options of the whole objective, whatever trains with it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from ..errors import TrueNegError
from .acceptance import FEATURES

TABLE = "table"
"""The detector that takes every pair of the table."""

SMOOTHINGS = ("none", "uniform", "synonyms", "self")
SHAPES = ("uniform", "cosine")
DISCRIMINATOR_FALSE_NEGATIVES = ("keep", "ignore", "relabel", "soft")
_SMOOTHING_USERS = {"shape": "synonyms", "temperature": "synonyms", "threshold": "synonyms", "drop_gold": "self"}
_COSINE = ("temperature", "threshold")


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """What is minimised; every weight 0 is plain masked-LM training."""

    hc_weight: float = 0.0  # share of the loss that is dropped at corrected positions, in [0, 1] (Eq. 2).
    hc_denominator: str = "masked"  # "masked" or "kept": what the loss is averaged over
    hc_detector: str = TABLE  # names of :data:`~.acceptance.FEATURES` joined by "+": which mistakes are false negatives
    hc_threshold: float = 0.5  # the smallest probability of acceptance that a scoring detector corrects, in [0, 1]
    hc_graded: bool = False  # drop the probability of acceptance instead of everything
    sr_word_weight: float = 0.0  # lambda of word-level soft regularization (Eq. 3).
    sr_sent_weight: float = 0.0  # lambda of sentence-level soft regularization
    sr_sent_gold_gradient: bool = False  # let the divergence train through the original sentence too
    softmax_temperature: float = 1.0  # of the trained cross-entropy (footnote 11)
    target_smoothing: str = "none"  # one of :data:`SMOOTHINGS`, see :mod:`~.soft_targets`
    target_smoothing_weight: float = 0.1  # the share a of the target, in [0, 1]
    target_smoothing_shape: str = "cosine"  # of "synonyms", one of :data:`SHAPES`
    target_smoothing_temperature: float = 0.1  # of the shape "cosine"
    target_smoothing_threshold: float = 0.3  # of the shape "cosine", the smallest cosine
    target_smoothing_drop_gold: bool = False  # of "self", leave the gold word out
    discriminator_false_negatives: str = "keep"  # one of :data:`DISCRIMINATOR_FALSE_NEGATIVES`; of ELECTRA only

    @classmethod
    def of(cls, options: Any) -> ObjectiveSettings:
        """The settings among the attributes of any object of options; those it lacks have their defaults."""
        given = {field.name: getattr(options, field.name, None) for field in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None})

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
        """Refuses values out of range and options that exclude each other."""
        self._check_ranges()
        self._check_detector()
        self._check_smoothing()
        if self.hc_denominator == "kept" and (self.hc_weight != 1 or self.hc_graded):
            found = "--hc-graded" if self.hc_graded else f"--hc-weight {self.hc_weight}"
            raise TrueNegError(
                f"--hc-denominator kept: excludes {found}; only fully dropped positions leave the denominator, so "
                "expected --hc-weight 1 without --hc-graded"
            )
        if self.sr_sent_gold_gradient and not self.sr_sent_weight:
            raise TrueNegError("--sr-sent-gold-gradient: has no effect with --sr-sent-weight 0; expected a weight > 0")

    def _check_ranges(self) -> None:
        for name in ("sr_word_weight", "sr_sent_weight"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise TrueNegError(f"{_flag(name)}: found {value}, expected a finite number >= 0")
        for name in ("hc_weight", "hc_threshold", "target_smoothing_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise TrueNegError(f"{_flag(name)}: found {getattr(self, name)}, expected a number in [0, 1]")
        for name in ("softmax_temperature", "target_smoothing_temperature"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise TrueNegError(f"{_flag(name)}: found {value}, expected a finite number > 0")
        if not -1 <= self.target_smoothing_threshold <= 1:
            raise TrueNegError(
                f"--target-smoothing-threshold: found {self.target_smoothing_threshold}, expected a cosine in [-1, 1]"
            )
        for name, known in (
            ("hc_denominator", ("masked", "kept")),
            ("target_smoothing", SMOOTHINGS),
            ("target_smoothing_shape", SHAPES),
            ("discriminator_false_negatives", DISCRIMINATOR_FALSE_NEGATIVES),
        ):
            if getattr(self, name) not in known:
                *rest, last = known
                expected = f"{', '.join(rest)} or {last}"
                raise TrueNegError(f"{_flag(name)}: found {getattr(self, name)!r}, expected {expected}")

    def _check_detector(self) -> None:
        check_detector(self.hc_detector, "--hc-detector")
        default = ObjectiveSettings()
        if not self.finds_false_negatives and self.hc_detector != default.hc_detector:
            raise TrueNegError(
                f"--hc-detector {self.hc_detector}: has no effect with --hc-weight 0; expected a weight > 0 (or, for "
                "electra, --discriminator-false-negatives)"
            )
        graded = {"--hc-threshold": self.hc_threshold != default.hc_threshold, "--hc-graded": self.hc_graded}
        graded["--discriminator-false-negatives soft"] = self.discriminator_false_negatives == "soft"
        for flag, given in graded.items():
            if given and not self.scores:
                raise TrueNegError(
                    f"{flag}: has no effect with --hc-detector {self.hc_detector}, which gives no probabilities; "
                    "expected a detector that does, such as table+embedding"
                )
        if self.hc_graded and not self.hc_weight:
            raise TrueNegError("--hc-graded: has no effect with --hc-weight 0; expected a weight > 0")

    def _check_smoothing(self) -> None:
        default, shape = ObjectiveSettings(), self.target_smoothing_shape
        if self.target_smoothing == "none" and self.target_smoothing_weight != default.target_smoothing_weight:
            raise TrueNegError(
                "--target-smoothing-weight: has no effect without --target-smoothing; expected one of "
                f"{', '.join(SMOOTHINGS[1:])}"
            )
        for part, user in _SMOOTHING_USERS.items():
            name = f"target_smoothing_{part}"
            if getattr(self, name) == getattr(default, name):
                continue
            if self.target_smoothing != user:
                raise TrueNegError(
                    f"{_flag(name)}: has no effect with --target-smoothing {self.target_smoothing}; expected {user}"
                )
            if part in _COSINE and shape != "cosine":
                raise TrueNegError(
                    f"{_flag(name)}: has no effect with --target-smoothing-shape {shape}; expected cosine"
                )


def check_detector(detector: str, flag: str) -> None:
    """Refuses an unknown detector.

    Args:
        detector: names of :data:`~.acceptance.FEATURES` joined by "+".
        flag: that it was given with, for the message.
    """
    names = detector.split("+")
    if not set(names) <= set(FEATURES) or len(set(names)) < len(names):
        raise TrueNegError(
            f"{flag}: found {detector!r}, expected some of {', '.join(FEATURES)}, each once, with + between them"
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
