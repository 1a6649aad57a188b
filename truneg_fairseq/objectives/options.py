"""The options of a training, each declared once, whatever trains: fairseq's criterions, transformers' Trainer, a loop.

A field is a flag of fairseq-train, a key of hydra, an argument of transformers and a keyword of
:class:`~.loss.TrueNegativeLoss`. fairseq reads the types of the fields: no ``from __future__ import annotations`` here,
and built-in types only.
"""

from dataclasses import dataclass, fields
from typing import Any, Optional

from .. import options
from ..errors import TrueNegError, refuse
from ..options import flag_of, option
from ..vocabulary import TOKENIZATIONS

TABLE = "table"
"""The detector that takes every pair of the synonym table."""

FEATURES = (TABLE, "embedding", "context")
"""What a detector looks at: 1 or 0 for a pair of the table, and the cosines of :mod:`~.false_negatives`."""


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
    synonym_targets: float = _share("soft targets: the share of the target for the synonyms of the table")
    corpus_targets: float = _share(
        "soft targets: the share for the words that a text has between the same two neighbours (--corpus-counts)"
    )
    corpus_counts: Optional[str] = option(
        None,
        "counts for --corpus-targets, an npz of 'truneg data counts' (default: corpus_counts.npz beside the data)",
    )
    tokenization: str = option(
        "auto",
        "how the dictionary marks whole words: auto (detected), wordpiece, sentencepiece, gpt2, subword-nmt or words",
        choices=("auto", *TOKENIZATIONS),
    )
    synonym_shape: str = option(
        "cosine",
        "research: how --synonym-targets divides its share: 'cosine' (by exp(cosine of the model's embeddings / 0.1), "
        "from 0.3 on) or 'uniform' (all alike)",
        choices=("uniform", "cosine"),
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
    uniform_targets: float = _share("soft targets: the share for all words alike (label smoothing)")
    nearest_targets: float = _share(
        "soft targets: the share for the ten words with the nearest input embeddings, by exp(cosine / 0.1)"
    )
    teacher_targets: float = _share(
        "soft targets: the share for the 64 words that another model (--teacher) finds most probable"
    )
    teacher: Optional[str] = option(
        None,
        "the model of --teacher-targets: a fairseq checkpoint of a masked LM with the same dictionary; with "
        "transformers the folder or name of a masked LM with the same tokenizer",
    )
    softmax_temperature: float = option(
        1.0, "research: softmax temperature of the trained cross-entropy (footnote 11)", gt=0
    )
    hc_detector: str = option(
        TABLE,
        "research: which mistakes are false negatives: 'table' (pairs of the synonym table); or words that people "
        "would accept, judged by 'embedding' (cosine of the input embeddings) or 'context' (cosine of the states in "
        "the sentence, mean over the layers), joined by '+'; with table only its pairs are judged: table+embedding",
    )
    hc_threshold: float = _share(
        "research: smallest probability of acceptance that a detector other than table corrects", 0.5
    )
    hc_acceptance_model: Optional[str] = option(
        None,
        "research: JSON of 'truneg synonyms judge --fit' that makes a probability of what the detector sees (default: "
        "the package's, fitted on SWORDS)",
    )

    @property
    def features(self) -> frozenset[str]:
        """What the detector looks at, of :data:`FEATURES`."""
        return frozenset(self.hc_detector.split("+"))

    @property
    def finds_false_negatives(self) -> bool:
        """Whether the loss depends on the detector."""
        return self.hc_weight != 0

    @property
    def needs_table(self) -> bool:
        return (self.finds_false_negatives and TABLE in self.features) or self.synonym_targets != 0

    @property
    def uses_context(self) -> bool:
        """Whether the detector compares hidden states in context."""
        return self.finds_false_negatives and "context" in self.features

    @property
    def soft_target_shares(self) -> dict[str, float]:
        """The shares that are in use, by the names of their options."""
        names = [each.name for each in fields(self) if each.name.endswith("_targets")]
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def check(self, label_smoothing: float = 0.0) -> None:
        """Refuses values out of range, and shares of the target that are more than all of it."""
        options.check(self)
        check_detector(self.hc_detector, "--hc-detector")
        shares = self.soft_target_shares | ({"label_smoothing": label_smoothing} if label_smoothing else {})
        listed = ", ".join(f"{flag_of(name)} {share}" for name, share in shares.items())
        too_much = f"{listed}: the shares are more than the whole target; expected at most 1 together"
        untaught = f"--teacher-targets {self.teacher_targets}: expected --teacher, the model that teaches"
        refuse((sum(shares.values()) > 1, too_much), (self.teacher_targets and self.teacher is None, untaught))

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


def check_detector(detector: str, flag: str) -> None:
    """Refuses an unknown detector; ``flag`` is the option that names it."""
    names = detector.split("+")
    if not set(names) <= set(FEATURES) or len(set(names)) < len(names):
        raise TrueNegError(
            f"{flag}: found {detector!r}, expected some of {', '.join(FEATURES)}, each once, with + between them"
        )
