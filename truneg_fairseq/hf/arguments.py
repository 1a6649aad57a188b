"""The options of the objective as transformers' users give them, for ``HfArgumentParser`` too.

Names, defaults and meanings are those of the criterions (docs/explain/method.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..objectives.options import ElectraOptions, TrueNegativeOptions


@dataclass(kw_only=True)
class TrueNegativeArguments(TrueNegativeOptions):
    """What is minimised, and where the synonyms are from."""


@dataclass(kw_only=True)
class ElectraArguments(TrueNegativeArguments, ElectraOptions):
    """The options of a masked LM, and those of the discriminator."""
