"""Which predictions are false negatives: whole words that sources of alternatives accept in place of the original ones.

Of sources that give a feature and no acceptance ("embedding", "context") a logistic regression, fitted on judgements of
people by ``truneg synonyms judge --fit``, makes a probability that people accept the candidate; from a threshold on the
candidate is a false negative (docs/explain/false_negatives.md has what each feature is worth). Antonyms, numbers and
other forms of the same word are near in embeddings and hidden states too: it never accepts these.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import TrueNegError
from ..files import read_json, replacing_text
from .options import FLAT
from .passes import EncoderPasses, MaskedPredictions
from .soft_targets import among, cosine_of
from .token_lists import TokenLists

_FIRST = {name: rank for rank, name in enumerate(("table", "embedding", "context"))}  # in names of files

MODELS = Path(__file__).with_name("acceptance_models")
"""The folder of the fitted regressions that come with the package, one JSON a set of features."""


def context_cosine(gold: Tensor, candidate: Tensor) -> Tensor:
    """The mean over the encoder's layers of the cosine of the states, with the gold word and with the candidate.

    Both are of L layers at N places, shape (L, N, H). Gives fp32, shape (N,), without gradient; where a vector is zero
    or not finite its cosine is 0.
    """
    return cosine_of(gold.detach(), candidate.detach()).mean(0)


@dataclass(frozen=True)
class AcceptanceModel:
    """A logistic regression: P(accepted) = sigmoid(intercept + sum of coefficient x feature)."""

    coefficients: dict[str, float]  # by source of alternatives, of its feature as it is, not standardised
    intercept: float  # added to them
    # how it was fitted: data with its checksum, checkpoint, settings, measured quality, versions
    provenance: dict[str, Any] = field(default_factory=dict)
    format: Literal["truneg_fairseq.acceptance/1"] = "truneg_fairseq.acceptance/1"  # of its file

    def probability(self, features: Mapping[str, Tensor]) -> Tensor:
        """The probability that people accept each candidate, fp32, shape (N,), without gradient.

        Features without a coefficient are not read. Each has the shape (N,) and any type.
        """
        parts = [value * features[name].detach().float() for name, value in self.coefficients.items()]
        return torch.sigmoid(torch.stack(parts).sum(0) + self.intercept)

    def save(self, path: Path) -> None:
        """Writes the JSON, whole or not at all."""
        with replacing_text(path) as stream:
            json.dump(asdict(self), stream, indent=1)
            stream.write("\n")

    @classmethod
    def load(cls, path: Path) -> AcceptanceModel:
        """Reads what :meth:`save` wrote."""
        return read_json(path, cls, expected="an acceptance model, the JSON that 'truneg synonyms judge --fit' writes")


def acceptance_model(
    features: Collection[str], path: Path | None = None, among: Collection[str] | None = None
) -> AcceptanceModel:
    """The regression of these features in a file (``--hc-acceptance-model``), or that of the package.

    That of a file may have others of a detector too, which are ``among`` its sources.
    """
    shipped = MODELS / acceptance_file(features)
    if path is None and not shipped.exists():
        raise TrueNegError(
            f"--hc-detector {'+'.join(in_order(features))}: the package has no regression of these together; expected "
            "one of 'truneg synonyms judge --fit', given with --hc-acceptance-model"
        )
    model = AcceptanceModel.load(path or shipped)
    if not {*features} <= model.coefficients.keys() <= {*(among or features)}:
        raise TrueNegError(
            f"--hc-acceptance-model {path}: is of {'+'.join(model.coefficients)}, but the detector is "
            f"{'+'.join(among or features)}; expected the same; set the detector, or fit another model"
        )
    return model


def in_order(features: Iterable[str]) -> list[str]:
    """As the package names sets of features: the table first, the package's own before others."""
    return sorted(features, key=lambda name: (_FIRST.get(name, len(_FIRST)), name))


def acceptance_file(features: Iterable[str]) -> str:
    """The file name of the model of a set of features: ``table_embedding.json`` and the like."""
    return f"{'_'.join(in_order(features))}.json"


class FalseNegatives(NamedTuple):
    """What a detector says of N tokens in place of the gold words."""

    is_false_negative: Tensor  # bool, shape (N,)
    # fp32, shape (N,), the acceptance by the source that accepts it least, 0 where it is no false negative; None where
    # all sources are certain
    acceptance: Tensor | None
    # by source, or sources of one regression: bool, shape (N,), the mistakes on whole words that it alone accepts
    by_source: dict[str, Tensor]

    @classmethod
    def joined(cls, parts: Sequence[FalseNegatives]) -> FalseNegatives:
        """What was found in blocks of the tokens."""
        are, accepted, by_source = zip(*parts, strict=True)
        names = {name: torch.cat([each[name] for each in by_source]) for name in by_source[0]}
        return cls(torch.cat(are), None if accepted[0] is None else torch.cat(accepted), names)


class Detector(nn.Module):
    """Finds false negatives: mistakes that all of its sources of alternatives accept.

    A prediction that equals the gold word is never one: read literally, Eq. 2 would drop the loss of correct
    predictions, because the paper's own synonym lists (Figure 3) contain the word itself.

    Args:
        sources: by name, with :data:`~.options.FLAT` for those whose words are alike.
        threshold: the smallest acceptance, in [0, 1], of sources that are not certain.
        size: V; a token beyond it is no word of the vocabulary.
        regression: makes one acceptance of the features of the sources that it names.
        eligible: bool, shape (V,), the words that it may judge: no pieces, numbers, stop words; needed with it.
        blocked: the pairs that it never accepts, however near they are: antonyms, and other forms of the same word;
            needed with it.
    """

    eligible: Tensor
    blocked: TokenLists

    def __init__(
        self,
        sources: Mapping[str, Any],
        threshold: float,
        size: int,
        regression: AcceptanceModel | None = None,
        *,
        eligible: Tensor | None = None,
        blocked: TokenLists | None = None,
    ) -> None:
        super().__init__()
        self.threshold, self.size, self.regression = threshold, size, regression
        if blocked is not None:
            self.blocked = blocked
        self.names, self.sources = tuple(sources), nn.ModuleList(sources.values())
        self.register_buffer("eligible", eligible, persistent=False)

    @torch.no_grad()
    def find(self, batch: MaskedPredictions, tokens: Tensor, model: EncoderPasses) -> FalseNegatives:
        """Which tokens, int64, shape (N,), are acceptable in place of the gold words of a batch."""
        assert batch.whole_word is not None
        mistake = batch.whole_word & batch.gold.ne(tokens) & tokens.lt(self.size)
        batch = batch._replace(gold=batch.gold.clamp(max=self.size - 1))
        tokens = tokens.where(mistake, batch.gold)
        fitted = () if self.regression is None else tuple(self.regression.coefficients)
        features: dict[str, Tensor] = {}
        accepted: dict[str, Tensor] = {}
        chances: list[Tensor] = []
        for name, part in zip(self.names, self.sources, strict=True):
            source: Any = part
            if name in fitted and not source.is_certain:
                features[name] = source.feature(batch, tokens, model)
                continue
            is_flat = name.endswith(FLAT) and not source.is_certain
            chance = among(source.flat(batch, model), tokens) if is_flat else source.accepts(batch, tokens, model)
            features[name] = chance = chance.float()
            accepted[name] = chance.gt(0) if source.is_certain else chance.ge(self.threshold)
            chances += [] if source.is_certain else [chance]
        if self.regression is not None:
            can_be = self.eligible[batch.gold] & self.eligible[tokens] & ~self.blocked.contains(batch.gold, tokens)
            chances.append(self.regression.probability(features))
            accepted["+".join(fitted)] = can_be & chances[-1].ge(self.threshold)
        found = mistake
        for each in accepted.values():
            found = found & each
        least = torch.where(found, torch.stack(chances).amin(0), 0.0) if chances else None
        return FalseNegatives(found, least, {name: mistake & each for name, each in accepted.items()})
