"""Whether a dictionary and a tokenizer are of one model."""

from __future__ import annotations

from collections.abc import Collection

from ..errors import TrueNegError
from .tokenizer import TextTokenizer


def check_dictionary(tokenizer: TextTokenizer, symbols: Collection[str], named: str, *, lacking_share: float) -> None:
    """Raises where a dictionary is not of the tokenizer.

    Args:
        tokenizer: whose symbols are looked up.
        symbols: of the dictionary.
        named: what the message calls the dictionary.
        lacking_share: the share of the tokenizer's symbols that it may lack, in [0, 1].
    """
    known = set(symbols)
    own = tokenizer.symbols()
    lacking = [symbol for symbol in own if symbol not in known]
    if len(lacking) > lacking_share * len(own):
        raise TrueNegError(
            f"{named}: lacks {len(lacking):,} of the tokenizer's {len(own):,} symbols (e.g. {lacking[0]!r}); expected "
            "the dictionary and the tokenizer of one model"
        )
