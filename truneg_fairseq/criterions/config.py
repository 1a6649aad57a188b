"""Options of the masked-LM criterions.

fairseq reads the fields' types at run time: no ``from __future__ import annotations`` here, and built-in types only
(spawned workers unpickle the options before they import this package).
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from fairseq.criterions.masked_lm import MaskedLmConfig

from ..errors import TrueNegError
from ..synonyms import LexiconSettings


@dataclass
class MaskedLmTrueNegConfig(MaskedLmConfig):
    """Options of the criterion; every field is a flag of fairseq-train and a key of hydra's ``criterion`` group."""

    hc_weight: float = field(
        default=0.0,
        metadata={
            "help": "hard correction (Eq. 2): share of the loss that is dropped where the prediction is a synonym of "
            "the original word, in [0, 1]"
        },
    )
    hc_denominator: str = field(
        default="masked",
        metadata={
            "help": "what the loss is averaged over: 'masked' (all masked positions) or 'kept' (those not corrected; "
            "needs --hc-weight 1)"
        },
    )
    sr_word_weight: float = field(
        default=0.0,
        metadata={
            "help": "lambda of word-level soft regularization (Eq. 3): 1 - cosine of the embeddings of prediction and "
            "original word"
        },
    )
    sr_sent_weight: float = field(
        default=0.0,
        metadata={
            "help": "lambda of sentence-level soft regularization: KL divergence of the encoder's states for the "
            "sentence with the predictions filled in from those for the original sentence (two more encoder passes)"
        },
    )
    sr_sent_gold_gradient: bool = field(
        default=False,
        metadata={"help": "let the sentence-level divergence train through the original sentence's states too"},
    )
    softmax_temperature: float = field(
        default=1.0, metadata={"help": "softmax temperature of the trained cross-entropy (footnote 11)"}
    )
    synonym_table: Optional[str] = field(
        default=None,
        metadata={
            "help": "synonym table (npz) of this dictionary; default: synonyms.npz beside the data, built there when "
            "missing"
        },
    )
    synonym_source: Optional[str] = field(
        default=None,
        metadata={
            "help": "lexicon to build a missing synonym table from (default: wordnet): wordnet, inflected, omw, "
            "mythes, wn, embeddings, tsv, or an expression such as wordnet+embeddings-antonyms; a table that is there "
            "must be from it. Or model: neighbours in the model's own embeddings, refreshed while it trains"
        },
    )
    synonym_lang: Optional[str] = field(
        default=None,
        metadata={
            "help": "language of omw and mythes (and of the stop words of embeddings), an ISO 639-3 code such as fra"
        },
    )
    synonym_vectors: Optional[str] = field(
        default=None,
        metadata={"help": "word vectors of embeddings: GloVe text, word2vec text or word2vec binary, also .gz"},
    )
    synonym_neighbours: Optional[int] = field(
        default=None, metadata={"help": "how many nearest words embeddings lists (default: 10)"}
    )
    synonym_threshold: Optional[float] = field(
        default=None, metadata={"help": "smallest cosine of a neighbour in embeddings, in [-1, 1] (default: none)"}
    )
    synonym_tsv: Optional[str] = field(
        default=None, metadata={"help": "list of tsv: UTF-8 lines 'word<TAB>synonym,synonym'"}
    )
    synonym_thesaurus: Optional[str] = field(
        default=None,
        metadata={"help": "thesaurus of mythes, a th_*.dat file (default: the one installed for --synonym-lang)"},
    )
    synonym_wn: Optional[str] = field(
        default=None, metadata={"help": "of wn: an installed wordnet of the package wn, such as oewn:2024"}
    )
    synonym_exclude: Optional[str] = field(
        default=None,
        metadata={"help": "list of pairs that are no synonyms in any source, in the format of --synonym-tsv"},
    )
    tokenization: str = field(
        default="auto",
        metadata={
            "help": "how the dictionary marks whole words: auto (detected), wordpiece, sentencepiece, gpt2 or words"
        },
    )
    gpt2_encoder_json: Optional[str] = field(
        default=None,
        metadata={
            "help": "GPT-2's encoder.json, for dictionaries of GPT-2's numbers; default: encoder.json beside the data"
        },
    )
    model_synonyms_every: int = field(
        default=1000,
        metadata={
            "help": "of --synonym-source model: updates between two refreshes of the whole vocabulary; each update "
            "computes its share"
        },
    )
    model_synonyms_warmup: int = field(
        default=10000, metadata={"help": "of --synonym-source model: the first update that computes neighbours"}
    )
    model_synonyms_neighbours: int = field(
        default=10, metadata={"help": "of --synonym-source model: how many nearest words a word has"}
    )
    model_synonyms_threshold: float = field(
        default=0.6, metadata={"help": "of --synonym-source model: smallest cosine of a neighbour, in (0, 1]"}
    )


MODEL_SOURCE = "model"
"""The --synonym-source that has no lexicon."""


def _preset(name: str, default: float) -> Any:
    """The field of the same name with another default."""
    return field(default=default, metadata=dict(MaskedLmTrueNegConfig.__dataclass_fields__[name].metadata))


@dataclass
class MaskedLmHardCorrectionConfig(MaskedLmTrueNegConfig):
    """``masked_lm_hc``: hard correction."""

    hc_weight: float = _preset("hc_weight", 1.0)


@dataclass
class MaskedLmWordRegularizationConfig(MaskedLmTrueNegConfig):
    """``masked_lm_sr_word``: soft regularization by cosine."""

    sr_word_weight: float = _preset("sr_word_weight", 1.0)


@dataclass
class MaskedLmSentenceRegularizationConfig(MaskedLmTrueNegConfig):
    """``masked_lm_sr_sent``: soft regularization by KL divergence."""

    sr_sent_weight: float = _preset("sr_sent_weight", 1.0)


def lexicon_settings(cfg: MaskedLmTrueNegConfig) -> LexiconSettings:
    """The settings of the sources of synonyms."""
    return LexiconSettings(
        lang=cfg.synonym_lang,
        vectors=Path(cfg.synonym_vectors) if cfg.synonym_vectors else None,
        neighbours=cfg.synonym_neighbours,
        threshold=cfg.synonym_threshold,
        tsv=Path(cfg.synonym_tsv) if cfg.synonym_tsv else None,
        thesaurus=Path(cfg.synonym_thesaurus) if cfg.synonym_thesaurus else None,
        wn=cfg.synonym_wn,
        exclude=Path(cfg.synonym_exclude) if cfg.synonym_exclude else None,
        flags="--synonym-",
    )


def _lexicon_flags(cfg: MaskedLmTrueNegConfig) -> tuple[tuple[str, Any], ...]:
    names = ("lang", "vectors", "neighbours", "threshold", "tsv", "thesaurus", "wn", "exclude")
    return tuple((f"--synonym-{name}", getattr(cfg, f"synonym_{name}")) for name in names)


def check_options(cfg: MaskedLmTrueNegConfig, corrects: bool) -> None:
    """Refuses values out of range and options that exclude each other.

    Args:
        cfg: the options.
        corrects: whether a synonym table is in use.

    Raises:
        TrueNegError: naming the flag.
    """
    for flag, value in (("--sr-word-weight", cfg.sr_word_weight), ("--sr-sent-weight", cfg.sr_sent_weight)):
        if not (math.isfinite(value) and value >= 0):
            raise TrueNegError(f"{flag}: found {value}, expected a finite number >= 0")
    if not 0 <= cfg.hc_weight <= 1:
        raise TrueNegError(f"--hc-weight: found {cfg.hc_weight}, expected a number in [0, 1]")
    if not (math.isfinite(cfg.softmax_temperature) and cfg.softmax_temperature > 0):
        raise TrueNegError(f"--softmax-temperature: found {cfg.softmax_temperature}, expected a finite number > 0")
    if cfg.hc_denominator not in ("masked", "kept"):
        raise TrueNegError(f"--hc-denominator: found {cfg.hc_denominator!r}, expected masked or kept")
    if cfg.hc_denominator == "kept" and cfg.hc_weight != 1:
        raise TrueNegError(
            f"--hc-denominator kept: excludes --hc-weight {cfg.hc_weight}; only fully dropped positions leave the "
            "denominator, so expected --hc-weight 1"
        )
    if cfg.sr_sent_gold_gradient and not cfg.sr_sent_weight:
        raise TrueNegError("--sr-sent-gold-gradient: has no effect with --sr-sent-weight 0; expected a weight > 0")
    if not corrects:
        for flag, given in (
            ("--synonym-source", cfg.synonym_source is not None),
            *((flag, value is not None) for flag, value in _lexicon_flags(cfg)),
            ("--tokenization", cfg.tokenization != "auto"),
            ("--gpt2-encoder-json", cfg.gpt2_encoder_json is not None),
        ):
            if given:
                raise TrueNegError(
                    f"{flag}: has no effect without a synonym table; expected --hc-weight > 0 or --synonym-table"
                )
    _check_model_synonyms(cfg)


def _check_model_synonyms(cfg: MaskedLmTrueNegConfig) -> None:
    options = {
        f"--{name.replace('_', '-')}": (getattr(cfg, name), known.default)
        for name, known in MaskedLmTrueNegConfig.__dataclass_fields__.items()
        if name.startswith("model_synonyms_")
    }
    if cfg.synonym_source != MODEL_SOURCE and MODEL_SOURCE in re.split(r"\W+", cfg.synonym_source or ""):
        raise TrueNegError(
            f"--synonym-source {cfg.synonym_source}: while training, {MODEL_SOURCE} is a source alone; build a table "
            "of several sources with 'truneg synonyms build --checkpoint' and give it with --synonym-table"
        )
    if cfg.synonym_source != MODEL_SOURCE:
        for flag, (value, default) in options.items():
            if value != default:
                raise TrueNegError(f"{flag}: has no effect without --synonym-source {MODEL_SOURCE}; expected both")
        return
    if cfg.synonym_table is not None:
        raise TrueNegError(
            f"--synonym-table {cfg.synonym_table}: excludes --synonym-source {MODEL_SOURCE}, which computes its own; "
            "leave one of them out"
        )
    for flag, value in _lexicon_flags(cfg):
        if value is not None:
            raise TrueNegError(f"{flag} {value}: has no effect on --synonym-source {MODEL_SOURCE}; leave it out")
    for name, least in (("every", 1), ("warmup", 0), ("neighbours", 1)):
        flag = f"--model-synonyms-{name}"
        if options[flag][0] < least:
            raise TrueNegError(f"{flag}: found {options[flag][0]}, expected a number >= {least}")
    if not 0 < cfg.model_synonyms_threshold <= 1:
        raise TrueNegError(
            f"--model-synonyms-threshold: found {cfg.model_synonyms_threshold}, expected a number in (0, 1]"
        )


@dataclass
class ElectraConfig(MaskedLmTrueNegConfig):
    """``electra``: the true-negative objectives on the generator (Section 5: sentences on the discriminator)."""

    discriminator_weight: float = field(
        default=50.0, metadata={"help": "weight of the discriminator's loss; the generator's is 1"}
    )
    discriminator_false_negatives: str = field(
        default="keep",
        metadata={
            "help": "a sampled synonym of the original word is for the discriminator: 'keep' a replaced token like any "
            "other, 'ignore' no part of the loss, 'relabel' an original token"
        },
    )


DISCRIMINATOR_FALSE_NEGATIVES = ("keep", "ignore", "relabel")


def check_electra_options(cfg: ElectraConfig) -> None:
    """Refuses values out of range.

    Raises:
        TrueNegError: naming the flag.
    """
    if not (math.isfinite(cfg.discriminator_weight) and cfg.discriminator_weight >= 0):
        raise TrueNegError(f"--discriminator-weight: found {cfg.discriminator_weight}, expected a finite number >= 0")
    if cfg.discriminator_false_negatives not in DISCRIMINATOR_FALSE_NEGATIVES:
        raise TrueNegError(
            f"--discriminator-false-negatives: found {cfg.discriminator_false_negatives!r}, expected "
            f"{', '.join(DISCRIMINATOR_FALSE_NEGATIVES[:-1])} or {DISCRIMINATOR_FALSE_NEGATIVES[-1]}"
        )
