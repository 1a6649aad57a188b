"""The options of the objective as transformers' users give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..building import check_table_flags, names_model
from ..errors import TrueNegError
from ..objectives import ObjectiveSettings


@dataclass(frozen=True, kw_only=True)
class TrueNegativeArguments(ObjectiveSettings):
    """What is minimised, and where the synonyms are from; for ``HfArgumentParser`` too.

    The names, defaults and meanings are those of the criterion ``masked_lm_true_neg`` (docs/criterions.md), and so are
    the flags in messages.
    """

    has_discriminator: ClassVar[bool] = False

    preset: str | None = None  # options that are set together, one of :data:`~truneg_fairseq.building.PRESETS`
    # JSON of a fitted acceptance model; None for the one that comes with the package
    hc_acceptance_model: str | None = None
    # synonym table (npz) of this tokenizer; None to build one, once, in the cache folder
    synonym_table: str | None = None
    synonym_source: str | None = None  # lexicon to build it from, or an expression of several; None for WordNet
    synonym_vectors: str | None = None  # word vectors of embeddings
    synonym_neighbours: int | None = None  # how many nearest words embeddings lists
    synonym_threshold: float | None = None  # smallest cosine of a neighbour in embeddings
    synonym_tsv: str | None = None  # list of tsv
    synonym_wn: str | None = None  # installed wordnet of wn
    synonym_exclude: str | None = None  # list of pairs that are not synonyms
    tokenization: str = "auto"  # how the tokenizer marks whole words: auto, wordpiece, sentencepiece, gpt2 or words

    @property
    def gpt2_encoder_json(self) -> None:
        """None: a tokenizer spells its tokens out."""
        return None

    def check(self) -> None:
        """Refuses values out of range and options that exclude each other."""
        super().check()
        check_table_flags(self, self)
        if self.discriminator_false_negatives != "keep" and not self.has_discriminator:
            raise TrueNegError(
                f"--discriminator-false-negatives {self.discriminator_false_negatives}: has no effect on a masked LM; "
                "expected keep"
            )
        if names_model(self.synonym_source):
            raise TrueNegError(
                f"--synonym-source {self.synonym_source}: the model's own synonyms are refreshed by fairseq-train "
                "only; expected a lexicon (wordnet, or another source)"
            )
