"""How often the intervals of ``truneg compare`` and ``truneg evaluate`` contain the truth, on simulated runs.

    python benchmarks/interval_coverage.py

A run's difference is the truth, plus what its seed adds, plus what the items add. The columns are the share of the
seeds in the variance of the mean, divided by that of the items: at 10 the seeds dominate. Below are shares of items
that are right, of one model each. 95 % is stated.
"""

from __future__ import annotations

import argparse

import numpy as np

from truneg_fairseq.results.intervals import Ratio, seed_interval

ITEMS = (3, 10, 30, 100)
SEEDS = (1, 2, 3, 5)
RATIOS = (0.0, 0.25, 1.0, 4.0, 10.0)
SHARES = (0.5, 0.7, 0.9)


def coverage(seeds: int, ratio: float, simulations: int, items: int = 100) -> float:
    """The share of simulated comparisons whose interval contains the truth, 0.

    Args:
        seeds: runs of each comparison.
        ratio: of the variance of the mean over seeds to the one over items.
        simulations: comparisons.
        items: of each run.
    """
    rng = np.random.default_rng(seeds)
    held = 0
    for _ in range(simulations):
        of_seeds = np.sqrt(ratio * seeds) * rng.normal(size=(seeds, 1))
        of_items = np.sqrt(items) * rng.normal(size=(1, items))
        interval = seed_interval(of_seeds + of_items)
        assert interval is not None
        held += interval.contains_zero
    return held / simulations


def coverage_of_share(share: float, simulations: int, items: int) -> float:
    """The same for the share of items that are right; the truth is ``share``."""
    rng, held = np.random.default_rng(items), 0
    for _ in range(simulations):
        interval = Ratio((rng.random(items) < share).astype(np.float64), np.ones(items)).interval()
        assert interval is not None
        held += interval.low <= share <= interval.high
    return held / simulations


def main() -> None:
    """Prints a row for each number of seeds and items, then of shares for each number of items."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=4000)
    args = parser.parse_args()
    print("seeds items " + "".join(f"{ratio:>8}" for ratio in RATIOS))
    for seeds in SEEDS:
        for items in ITEMS:
            ratios = RATIOS if seeds > 1 else RATIOS[:1]
            found = (coverage(seeds, ratio, args.simulations, items) for ratio in ratios)
            print(f"{seeds:>5} {items:>5} " + "".join(f"{share:>8.3f}" for share in found), flush=True)
    print("share items " + "".join(f"{share:>8}" for share in SHARES))
    for items in ITEMS:
        found = (coverage_of_share(share, args.simulations, items) for share in SHARES)
        print(f"      {items:>5} " + "".join(f"{share:>8.3f}" for share in found), flush=True)


if __name__ == "__main__":
    main()
