"""What looking predictions up costs, from 10 thousand to 10 million pairs: whether a larger table slows training.

    python benchmarks/synonym_lookup.py

Times are the best of many look-ups of a whole batch's masked positions, on the CPU and on the GPU where there is one,
and ratios to the smallest table. For scale, the last column compares with the projection of the same positions to the
vocabulary (the MLM head's last matrix product), without which no training step can do.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from truneg_fairseq.objectives import TokenLists

_SIZES = (10_000, 100_000, 1_000_000, 10_000_000)


def random_lists(pairs: int, vocabulary: int, device: torch.device) -> TokenLists:
    """The lists of that many different random pairs."""
    generator = torch.Generator().manual_seed(1)
    codes = torch.randint(vocabulary * vocabulary, (pairs + pairs // 4,), generator=generator).unique()
    codes = codes[torch.randperm(len(codes), generator=generator)[:pairs]].sort().values
    return TokenLists(codes, vocabulary).to(device)


def best_seconds(work: Callable[[], Tensor], device: torch.device, repeat: int) -> float:
    """The shortest time of one call, the device's work included: what else the machine does only ever adds to it."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(device: torch.device, args: argparse.Namespace) -> None:
    """Prints one row a table size."""
    generator = torch.Generator().manual_seed(2)
    shape = (args.positions,)
    gold, prediction = (torch.randint(args.vocabulary, shape, generator=generator).to(device) for _ in range(2))
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    hidden = torch.randn(args.positions, args.width, device=device, dtype=dtype)
    embeddings = torch.randn(args.vocabulary, args.width, device=device, dtype=dtype)
    projection = best_seconds(lambda: hidden @ embeddings.T, device, max(3, args.repeat // 10))
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, threads: {torch.get_num_threads()}"
    print(f"{name}: {args.positions:,} masked positions, {args.vocabulary:,} tokens, width {args.width}")
    print(f"{'pairs':>12}{'microseconds':>14}{'ratio':>8}{'of the projection':>19}")
    smallest = None
    for pairs in _SIZES:
        lists = random_lists(pairs, args.vocabulary, device)
        work = lambda lists=lists: lists.contains(gold, prediction)  # noqa: E731
        seconds = best_seconds(work, device, args.repeat)
        smallest = smallest or seconds
        print(f"{pairs:>12,}{1e6 * seconds:>14.0f}{seconds / smallest:>8.2f}{100 * seconds / projection:>17.3f} %")


def main() -> None:
    """Measures every device there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=4915, metavar="N", help="15 %% of 64 sequences of 512 tokens")
    parser.add_argument("--vocabulary", type=int, default=30_522, metavar="V")
    parser.add_argument("--width", type=int, default=768, metavar="D")
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="of the CPU; on a busy one two wait for each other"
    )
    parser.add_argument("--repeat", type=int, default=100, metavar="N")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        measure(torch.device(name), args)


if __name__ == "__main__":
    main()
