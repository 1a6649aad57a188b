"""The options of a training, each declared once, whatever trains: fairseq's criterions, transformers' Trainer, a loop.

A field is a flag of fairseq-train, a key of hydra, an argument of transformers and a keyword of
:class:`~.loss.TrueNegativeLoss`. fairseq reads the types of the fields: no ``from __future__ import annotations`` here,
and built-in types only.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Optional

from .. import flags as options
from ..errors import TrueNegError, refuse
from ..flags import flag_of, option
from ..vocabulary import TOKENIZATIONS

TABLE = "table"
"""The source of alternatives that is the synonym table."""

FLAT = ":flat"
"""Behind the name of a source: its words alike."""


class Share(NamedTuple):
    """The share of the target that goes to the words of a source, from the start of a training to its end."""

    name: str  # of the source, with :data:`FLAT` where its words are alike
    start: float  # in [0, 1]
    end: float  # reached linearly by updates

    @property
    def source(self) -> str:
        return self.name.removesuffix(FLAT)


def parsed(text: str | None, flag: str) -> dict[str, str]:
    """``NAME=VALUE,...`` of a flag by name."""
    pairs = [item.strip().partition("=") for item in text.split(",")] if text else []
    found = {name: value for name, _, value in pairs}
    if len(found) < len(pairs) or not all(name and value for name, value in found.items()):
        raise TrueNegError(f"{flag} {text}: expected NAME=NUMBER, with commas between several, each name once")
    return found


def named_sources(soft_targets: str | None, detector: str | None) -> dict[str, str]:
    """The sources of alternatives that two options name, each with its flag."""
    flags = dict.fromkeys(parsed(soft_targets, "--soft-targets"), "--soft-targets")
    flags |= dict.fromkeys(detector.split("+") if detector else (), "--hc-detector")
    return {name.removesuffix(FLAT): flag for name, flag in flags.items()}


def _number(flag: str, item: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise TrueNegError(f"{flag} {item}={value}: expected a number, such as {item}=0.1") from None


def _joined(given: Any) -> Optional[str]:
    """A mapping as one string, as files and command lines have it."""
    return ",".join(f"{name}={value}" for name, value in given.items()) if isinstance(given, Mapping) else given


def _share(help: str, default: float = 0.0) -> Any:
    return option(default, f"{help}, in [0, 1]", ge=0, le=1)


@dataclass(kw_only=True)
class GenerationOptions:
    """Options shared by masked and generative models; every weight 0 is plain training."""

    hc_weight: float = _share(
        "hard correction (Eq. 2): share of the loss that is dropped where the prediction is a synonym of the original "
        "word"
    )
    sr_word_weight: float = option(
        0.0,
        "lambda of word-level soft regularization (Eq. 3): 1 - cosine of the embeddings of prediction and original "
        "word",
        ge=0,
    )
    synonym_table: Optional[str] = option(
        None,
        "synonym table (npz) of this dictionary; default: synonyms.npz beside the data, built there when missing (with "
        "transformers: in the cache folder)",
    )
    synonym_source: Optional[str] = option(
        None,
        "lexicon of the synonym table (default: the table beside the data, else wordnet): wordnet, inflected, or an "
        "expression such as wordnet&inflected; 'truneg synonyms build' makes tables of other sources",
    )
    soft_targets: Optional[str] = option(
        None,
        "soft targets: NAME=SHARE, with commas between several: the share of the target for the words of a source of "
        "alternatives: uniform (all words: label smoothing), table (the synonyms, by exp(cosine of the model's "
        "embeddings / 0.1), from 0.3 on), embedding (the ten words with the nearest input embeddings), corpus (what a "
        "text has between the same two neighbours), teacher (the 64 words that another model finds most probable), "
        "context (the prediction, as far as people would accept it), or one of your own; NAME:flat makes its words "
        "alike; 0.8..0 falls linearly from 0.8 to 0 over the training",
        metavar="NAME=SHARE,...",
    )
    corpus_counts: Optional[str] = option(
        None, "counts for corpus, an npz of 'truneg data counts' (default: corpus_counts.npz beside the data)"
    )
    tokenization: str = option(
        "auto",
        "how the dictionary marks whole words: auto (detected), wordpiece, sentencepiece, gpt2, subword-nmt or words",
        choices=("auto", *TOKENIZATIONS),
    )
    sr_word_form: str = option(
        "argmax",
        "research: the distance of --sr-word-weight: that of the 'argmax' (the paper), or the one 'expected' under "
        "the model's distribution, whose gradient reaches the predictions (EMO)",
        choices=("argmax", "expected"),
    )
    loss_truncation: float = _share(
        "research: drop the loss of this share of a batch's masked positions, where the original word is least "
        "likely: the control for every other way to drop some"
    )


@dataclass(kw_only=True)
class TrueNegativeOptions(GenerationOptions):
    """What a masked LM minimises."""

    sr_sent_weight: float = option(
        0.0,
        "lambda of sentence-level soft regularization (Section 5): KL divergence of the encoder's states for the "
        "sentence with the predictions filled in from those for the original sentence (two more encoder passes, one in "
        "ELECTRA)",
        ge=0,
    )
    terms: Optional[str] = option(
        None,
        "regularizers of your own: NAME=WEIGHT, with commas between several; each is added to the loss",
        metavar="NAME=WEIGHT,...",
    )
    teacher: Optional[str] = option(
        None,
        "the model for teacher: a fairseq checkpoint of a masked LM with the same dictionary; with transformers the "
        "folder or name of a masked LM with the same tokenizer",
    )
    softmax_temperature: float = option(
        1.0, "research: softmax temperature of the trained cross-entropy (footnote 11)", gt=0
    )
    hc_detector: str = option(
        TABLE,
        "research: which mistakes are false negatives: what a source of alternatives accepts: 'table' (pairs of the "
        "synonym table); 'embedding' (cosine of the input embeddings) and 'context' (cosine of the states in the "
        "sentence, mean over the layers), of which a regression makes the probability that people accept the word; "
        "any other source of --soft-targets. Of several, joined by '+', all must accept: table+embedding",
    )
    hc_threshold: float = _share("research: smallest acceptance that a detector other than table corrects", 0.5)
    hc_acceptance_model: Optional[str] = option(
        None,
        "research: JSON of 'truneg synonyms judge --fit' that makes a probability of what the detector sees (default: "
        "the package's, fitted on SWORDS with MiniLM)",
    )

    def __post_init__(self) -> None:
        self.soft_targets, self.terms = _joined(self.soft_targets), _joined(self.terms)

    @property
    def detectors(self) -> tuple[str, ...]:
        """The sources whose acceptance the detector joins, with :data:`FLAT` where they have it."""
        return tuple(self.hc_detector.split("+"))

    @property
    def shares(self) -> list[Share]:
        """What :attr:`soft_targets` says."""
        flag, found = "--soft-targets", list[Share]()
        for name, value in parsed(self.soft_targets, flag).items():
            start, _, end = value.partition("..")
            ends = [_number(flag, name, part) for part in (start, end or start)]
            if not all(0 <= each <= 1 for each in ends):
                raise TrueNegError(f"{flag} {name}={value}: expected a share in [0, 1]")
            if any(ends):
                found.append(Share(name, *ends))
        return found

    @property
    def weights_of_terms(self) -> dict[str, float]:
        """The regularizers in use, by name."""
        own = {"sr-word": self.sr_word_weight, "sr-sent": self.sr_sent_weight}
        given = {name: _number("--terms", name, value) for name, value in parsed(self.terms, "--terms").items()}
        twice = sorted(own.keys() & given.keys())
        refuse((twice, f"--terms {self.terms}: {', '.join(twice)} has an option of its own; expected its weight there"))
        return {name: weight for name, weight in (own | given).items() if weight}

    @property
    def finds_false_negatives(self) -> bool:
        """Whether the loss depends on the detector."""
        return self.hc_weight != 0

    @property
    def sources(self) -> dict[str, str]:
        """The sources of alternatives that the loss asks, with the option that names them."""
        asked = dict.fromkeys((share.source for share in self.shares), "--soft-targets")
        return asked | named_sources(None, self.hc_detector if self.finds_false_negatives else None)

    def check(self, label_smoothing: float = 0.0) -> None:
        """Refuses values out of range, and shares of the target that are more than all of it."""
        options.check(self)
        for ends in zip((label_smoothing, label_smoothing), *(share[1:] for share in self.shares), strict=True):
            smoothing = f" beside --label-smoothing {label_smoothing}" if label_smoothing else ""
            too_much = f"--soft-targets {self.soft_targets}{smoothing}: the shares are more than the whole target"
            refuse((sum(ends) > 1 + 1e-9, f"{too_much}; expected at most 1 together"))
        wrong = [f"{name}={weight}" for name, weight in self.weights_of_terms.items() if not 0 <= weight < math.inf]
        twice = f"--hc-detector {self.hc_detector}: expected names of sources, each once, with + between them"
        refuse(
            (not all(self.detectors) or len({*self.detectors}) < len(self.detectors), twice),
            (wrong, f"--terms {', '.join(wrong)}: expected finite weights >= 0"),
        )

    def described(self) -> str:
        """What is asked for besides the defaults, as flags."""
        changed = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        listed = " ".join(f"{flag_of(name)} {getattr(self, name)}" for name in changed)
        return listed or "plain, without true negatives"


@dataclass(kw_only=True)
class ElectraOptions(TrueNegativeOptions):
    """What ELECTRA minimises: the objective on the generator, and the discriminator's loss."""

    discriminator_weight: float = option(
        50.0, "weight of the discriminator loss; the generator loss has weight 1", ge=0
    )
    discriminator_false_negatives: str = option(
        "keep",
        "a sampled synonym of the original word is for the discriminator: 'keep' a replaced token like any other, "
        "'ignore' no part of the loss, 'relabel' an original token",
        choices=("keep", "ignore", "relabel"),
    )

    @property
    def finds_false_negatives(self) -> bool:
        return super().finds_false_negatives or self.discriminator_false_negatives != "keep"
