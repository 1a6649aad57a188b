"""Whether WordNet is the one of the paper: Figure 3 lists the names of two words."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import TrueNegError
from .lexicon import Lexicon

# Figure 3 of the paper: all names of "primary", and the names of "stay" that fit into the figure.
_PRIMARY = """
primary_winding principal master elementary chief primary elemental basal primary_quill main primary_election
primary_feather primary_coil
"""
_STAY = """
continue halt stop check delay quell arrest remain bide detain persist stick_around ride_out last_out stay abide
stoppage
"""
FIGURE_3 = {"primary": _PRIMARY.split(), "stay": _STAY.split()}


def check_figure_3(lexicon: Lexicon) -> Iterator[str]:
    """Looks the names of Figure 3 up, a line a word."""
    for word, expected in FIGURE_3.items():
        names = set(lexicon.synonyms(word))
        missing = sorted(set(expected) - names)
        if missing:
            raise TrueNegError(
                f"WordNet: {', '.join(missing)} missing from the names of {word!r} in Figure 3 of the paper; expected "
                "WordNet 3.0; install it with 'truneg wordnet'"
            )
        yield (f"Figure 3, {word!r}: all {len(expected)} of the paper's names are among WordNet's {len(names)}")
