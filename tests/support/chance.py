"""How far counts may be from what is expected of them."""

from __future__ import annotations

import math


def within_four_sigma(hits: int, trials: int, probability: float) -> bool:
    """Whether so many hits are likely, of independent trials with this probability."""
    return abs(hits - trials * probability) <= 4 * math.sqrt(trials * probability * (1 - probability))
