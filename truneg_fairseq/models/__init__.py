"""fairseq models; importing this package registers them."""

from ..extras import require

require("fairseq", extra="fairseq")

from .bert import BertModel  # noqa: E402
from .electra import ElectraModel, ReplacedTokens  # noqa: E402

__all__ = ["BertModel", "ElectraModel", "ReplacedTokens"]
