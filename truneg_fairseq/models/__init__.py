"""fairseq models; importing this package registers them."""

from .. import compat
from ..extras import require

require("fairseq", extra="fairseq")

compat.apply()  # frees the names of two architectures that are registered here

from .bert import BertModel  # noqa: E402
from .electra import ElectraModel, ReplacedTokens  # noqa: E402

__all__ = ["BertModel", "ElectraModel", "ReplacedTokens"]
