"""Checkpoints on data, told in lines and files: rates, the most frequent pairs, examples, a sheet for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..files import replacing_text
from ..paths import require_checkpoint, require_writable
from ..synonyms import SynonymTable
from ..synonyms.provision import TABLE_NAME
from .measurements import COLUMNS, Measurement, write_csv, write_picture
from .sheet import Precision, draw, key_path, write_sheet

if TYPE_CHECKING:
    from .inspector import Inspector

_PAIRS = 10
_COSINE = "embedding:"


@dataclass(frozen=True)
class Outputs:
    """What to write besides the lines; None is not written."""

    csv: Path | None = None  # a row a checkpoint, with intervals
    picture: Path | None = None  # Table 2's rates over updates, as SVG
    sheet: Path | None = None  # mistakes of the last checkpoint for a person to mark
    # who takes a mistake for none: tables, or ``embedding:X``; none for the synonym table in use
    sources: Sequence[str] = ()
    cases: int = 50  # of the sheet, of each source

    def check(self) -> None:
        """Says before a long computation what is wrong with the files to write."""
        for flag, path in (("--csv", self.csv), ("--sheet", self.sheet)):
            if path is not None:
                require_writable(path, flag)
        for path in (self.sheet, key_path(self.sheet)) if self.sheet is not None else ():
            if path.exists():
                raise TrueNegError(
                    f"--sheet {self.sheet}: {path} is there already, and people may have marked that sheet; choose "
                    "another name"
                )


def report(
    checkpoints: Sequence[Path],
    data: Path,
    *,
    split: str = "valid",
    batch_size: int = 32,
    synonym_table: Path | None = None,
    tokenization: str = "auto",
    seed: int | None = None,
    cpu: bool = False,
    examples: int = 10,
    color: bool = False,
    outputs: Outputs | None = None,
    measurements: list[Measurement] | None = None,
) -> Iterator[str]:
    """Lines as they are known: loss in bits; accuracy and the rates of Table 2 in %; pairs and examples of the last.

    Args:
        checkpoints: fairseq's, of masked-LM models.
        data: folder of binarized data.
        split: "valid", "test", "train", ...
        batch_size: sequences a batch.
        synonym_table: a table, None for the one beside the data (built when missing).
        tokenization: see :class:`truneg_fairseq.vocabulary.Vocabulary`.
        seed: of the masked positions, None for that of the last checkpoint's training.
        cpu: keep off the GPU.
        examples: false negatives to show.
        color: mark the words of examples with ANSI colours.
        outputs: files to write when everything is measured.
        measurements: gets what was measured.
    """
    outputs = outputs or Outputs()
    if min(batch_size, outputs.cases) < 1 or examples < 0:
        raise TrueNegError(
            f"--batch-size {batch_size}, --cases {outputs.cases}, --examples {examples}: expected at least 1, 1 and 0"
        )
    for checkpoint in checkpoints:
        require_checkpoint(checkpoint)
    from .. import register

    register()
    from .inspector import Inspector
    from .sentences import describe

    inspector = Inspector(
        data,
        split,
        batch_size=batch_size,
        synonym_table=synonym_table,
        tokenization=tokenization,
        seed=seed,
        cpu=cpu,
    )
    # Weights that were converted do not know how long the samples of the training will be: its last checkpoint does.
    inspector.prepare(checkpoints[-1])
    sources = outputs.sources or [str(synonym_table or data / TABLE_NAME)]
    accept = _accept(sources, inspector) if outputs.sheet is not None else ({}, {})
    measured = [] if measurements is None else measurements
    yield "  ".join(f"{name:>9}" for name, _ in COLUMNS) + "  checkpoint"
    for number, checkpoint in enumerate(checkpoints, start=1):
        last = number == len(checkpoints)
        measured.append(inspector.measure(checkpoint, pairs=_PAIRS, examples=examples if last else 0))
        yield measured[-1].row()
    final = measured[-1]
    if final.pairs:
        yield f"\nthe most frequent corrected pairs of {final.checkpoint}"
    for gold, prediction, count in final.pairs:
        yield f"{count:8d}  {gold} -> {prediction}"
    if examples:
        yield f"\n{len(final.examples)} of {final.false_negatives} false negatives of {final.checkpoint}"
    for example in final.examples:
        yield "  " + describe(example, color=color)
    if outputs.csv is not None:
        with replacing_text(outputs.csv) as stream:
            write_csv(stream, measured)
    if outputs.picture is not None:
        write_picture(outputs.picture, measured)
    if outputs.sheet is not None:
        cases = draw(inspector.cases(checkpoints[-1], *accept), [*accept[0], *accept[1]], outputs.cases)
        if not cases:
            raise TrueNegError(f"--sheet: {checkpoints[-1]} makes no mistake at a whole word; choose a larger split")
        write_sheet(outputs.sheet, cases)
        yield (
            f"\nwrote {outputs.sheet} ({len(cases)} cases; write yes or no into 'acceptable'; "
            f"{key_path(outputs.sheet)}, not for the marker, has their sources)"
        )


def _accept(sources: Sequence[str], inspector: Inspector) -> tuple[dict[str, SynonymTable], dict[str, float]]:
    """The tables and the least cosines, by the names of the sources."""
    tables, cosines = {}, {}
    for source in sources:
        if source.startswith(_COSINE):
            cosines[source] = _cosine(source)
        else:
            tables[source] = SynonymTable.load(Path(source))
            tables[source].check_dictionary(inspector.vocabulary.fingerprint, Path(source), "the data")
    return tables, cosines


def _cosine(source: str) -> float:
    try:
        least = float(source.removeprefix(_COSINE))
        if -1 <= least <= 1:
            return least
    except ValueError:
        pass
    raise TrueNegError(f"--sources {source}: expected {_COSINE} and a cosine from -1 to 1, as {_COSINE}0.5")


def precision_lines(found: Sequence[Precision]) -> Iterator[str]:
    """A marked sheet's precision by source, as lines."""
    yield "marked  acceptable  precision, %  95 % interval  source"
    for each in found:
        low, high = each.interval()
        share = f"{100 * each.accepted / each.marked:.1f}" if each.marked else "-"
        interval = f"[{100 * low:4.1f}, {100 * high:5.1f}]"
        yield f"{each.marked:6d}  {each.accepted:10d}  {share:>12}  {interval}  {each.source}"
