"""``truneg alternatives``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..files import require_different, require_writable
from ..options import option

_SPLIT = "train"


@dataclass(frozen=True, kw_only=True)
class AlternativesOptions:
    data: Path = option(
        help="folder of binarized data, or of a translation's the dictionary of one side, dict.LANGUAGE.txt",
        metavar="DATA-BIN",
    )
    output: Path | None = option(None, "default: alternatives.npz in the folder of the data", metavar="NPZ")
    discount: float = option(
        0.6, "absolute discount: what each count gives to the words that were not seen there, in [0, 1]", ge=0, le=1
    )
    most: int = option(64, "the most frequent words that are listed beside a word, or between two words", ge=1)


def alternatives(options: AlternativesOptions) -> None:
    """Count what a corpus has between the same two words: alternatives to its words, for
    --target-smoothing-corpus. Counted is the training text, in the numbers of its dictionary.
    """
    from .. import __version__
    from ..corpus_counts import FILE_NAME, count_tokens
    from ..data.indexed import read_tokens
    from ..vocabulary import read_symbols

    data, split = options.data, _SPLIT
    if not data.is_dir():
        language = data.name.removeprefix("dict").removesuffix("txt").strip(".")
        found = sorted(data.parent.glob(f"{_SPLIT}.*-*.{language}.idx"))
        data, split = data.parent, found[0].stem if found else _SPLIT
    output = options.output or data / FILE_NAME
    require_different(data=data / "dict.txt", output=output)
    require_writable(output, "--output", makes_folders=True)
    source = {"data": str(data), "split": split, "truneg_fairseq": __version__}
    symbols = read_symbols(options.data)
    counts = count_tokens(
        read_tokens(data / split), symbols, discount=options.discount, most=options.most, source=source
    )
    counts.save(output)
    print(f"wrote {output} ({output.stat().st_size / 1e6:.1f} MB)")
    print(counts.summary)
