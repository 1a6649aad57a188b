"""How often the intervals of ``truneg compare`` contain the truth, on simulated runs.

    python benchmarks/interval_coverage.py

A run's difference is the truth, plus what its seed adds, plus what the examples add. The columns are the share of the
seeds in the variance of the mean, divided by that of the examples: at 10 the seeds dominate. 95 % is stated.
"""

from __future__ import annotations

import argparse

import numpy as np

from truneg_fairseq.results.intervals import seed_interval

EXAMPLES = 100
SEEDS = (2, 3, 5)
RATIOS = (0.0, 0.25, 1.0, 4.0, 10.0)


def coverage(seeds: int, ratio: float, simulations: int) -> float:
    """The share of simulated comparisons whose interval contains the truth, 0.

    Args:
        seeds: runs of each comparison.
        ratio: of the variance of the mean over seeds to the one over examples.
        simulations: comparisons.
    """
    rng = np.random.default_rng(seeds)
    held = 0
    for _ in range(simulations):
        of_seeds = np.sqrt(ratio * seeds) * rng.normal(size=(seeds, 1))
        of_examples = np.sqrt(EXAMPLES) * rng.normal(size=(1, EXAMPLES))
        interval = seed_interval(of_seeds + of_examples)
        assert interval is not None
        held += interval.contains_zero
    return held / simulations


def main() -> None:
    """Prints a row for each number of seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1500)
    args = parser.parse_args()
    print("seeds " + "".join(f"{ratio:>8}" for ratio in RATIOS))
    for seeds in SEEDS:
        shares = (coverage(seeds, ratio, args.simulations) for ratio in RATIOS)
        print(f"{seeds:>5} " + "".join(f"{share:>8.3f}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
