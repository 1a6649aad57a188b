"""``truneg data binarize``."""

from __future__ import annotations

from ...data.binarize import BinarizeOptions


def binarize(options: BinarizeOptions) -> None:
    """Binarizes text for fairseq: a line is an item, a blank line keeps documents apart.

    Killed or failed, it is run again with the same flags and continues. On many machines that share a folder, each runs
    --shard i/n first; the run without --shard does what is missing and puts everything together.
    """
    from ...data.binarize import binarize as run

    done = run(options)
    if options.shard is not None:
        print(f"{options.output_dir}: shard {options.shard} is done; a run without --shard puts all together")
    else:
        print(f"{options.output_dir}: {'binarized' if done.made else 'is already there; remove it to binarize again'}")
    for split, counts in done.splits.items():
        print(
            f"{split}: {counts.documents:,} documents, {counts.lines:,} lines ({counts.blank:,} blank), "
            f"{counts.tokens:,} tokens, {counts.unknown:,} unknown ({counts.unknown / max(1, counts.tokens):.3%})"
            + (f", {counts.replaced:,} lines repaired (broken UTF-8)" if counts.replaced else "")
        )
    print(f"{done.seconds:.1f} s")
