"""True-negative training of transformers' masked LMs.

:class:`TrueNegativeTrainer` is transformers' ``Trainer`` with another loss, that of :mod:`truneg_fairseq.objectives`.
Tested are BERT, RoBERTa, DistilBERT, ELECTRA's generator, ModernBERT, DeBERTa and DeBERTa-v2.
"""

from ..errors import require
from ..vocabulary import vocabulary_of_tokenizer as vocabulary_of

require("transformers", "accelerate", extra="hf")

from ..objectives.options import ElectraOptions as ElectraArguments  # noqa: E402  (after the check of what is needed)
from ..objectives.options import TrueNegativeOptions as TrueNegativeArguments  # noqa: E402
from .collator import DataCollatorForTrueNegatives  # noqa: E402
from .electra_trainer import ElectraForReplacedTokens, ElectraTrainer  # noqa: E402
from .masked_lm_trainer import TrueNegativeTrainer  # noqa: E402
from .projection import fit_share, mix_counts  # noqa: E402

__all__ = [
    "DataCollatorForTrueNegatives",
    "ElectraArguments",
    "ElectraForReplacedTokens",
    "ElectraTrainer",
    "TrueNegativeArguments",
    "TrueNegativeTrainer",
    "fit_share",
    "mix_counts",
    "vocabulary_of",
]
