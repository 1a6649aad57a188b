"""GLUE's official files to the folders that fairseq's sentence_prediction task reads.

``TASK/`` holds ``input0/``, ``input1/`` (pairs only) and ``label/``, each with its ``dict.txt`` and fairseq's binary
files ``train``, ``valid``, ``valid1`` (MNLI mismatched), ``test`` and ``test1``. An input's item is one sentence and
``</s>``, an item of ``label`` one label and ``</s>``; label ids follow ``label/dict.txt``, which is alphabetical. STS-B
has ``label/SPLIT.label`` instead, one score / 5 a line. Examples keep the order of the official file, and
``ids/SPLIT.txt`` their ids. Nothing is cut: that is the task's ``shorten_method``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import require
from ..files import new_folder, replacing_text
from ..vocabulary import EOS, UNKNOWN
from ..workers import Progress
from .data import PretrainedVocabulary, count_longer, describe_sources, find_made, write_info
from .glue_files import HIGHEST_SCORE, GlueSplit, TaskFormat, find_tasks, read_task, swap_pairs, task_files
from .glue_options import PrepareGlueOptions

_BATCH = 1_000
_FAIRSEQ_SPECIALS = 4


@dataclass(frozen=True)
class GlueCounts:
    """What a split holds."""

    examples: int  # their number
    tokens: int  # of all inputs, the ``</s>`` of every sentence included
    unknown: int  # the tokens that are ``<unk>``
    empty: int  # examples of which a sentence has no text; they are kept
    skipped: int  # lines left out because of their number of columns
    longer_than: dict[str, int]  # by length, the examples ``<s> A </s> B </s>`` that have more tokens


def prepare_glue(options: PrepareGlueOptions) -> Iterable[tuple[Path, dict[str, Any], bool]]:
    """Prepares tasks one by one; a task's folder appears whole or not at all, and one that is there already is kept.

    Yields for each task its folder, its description (``info.json``), and whether it was made now.
    """
    require("fairseq", extra="fairseq")
    files = [(task, task_files(task, options.glue_dir / task.name)) for task in find_tasks(options.tasks)]
    vocabulary = PretrainedVocabulary.load(options.data)
    for task, paths in files:
        folder = options.output_dir / task.name
        yield folder, *prepare_task(task, paths, vocabulary, folder, options.swap_pairs)


def prepare_task(
    task: TaskFormat, files: dict[str, Path], vocabulary: PretrainedVocabulary, output: Path, swap: bool = False
) -> tuple[dict[str, Any], bool]:
    """Prepares one task; gives its description, and whether it was made now. See :func:`prepare_glue`."""
    info: dict[str, Any] = {
        "task": task.name,
        "labels": list(task.labels),
        "vocabulary": vocabulary.fingerprint,
        "tokenizer": vocabulary.tokenizer.tokenization,
        "tokenizer_sha256": vocabulary.tokenizer.digest,
        "swap_pairs": swap and task.doubled,
        "sources": describe_sources(files),
    }
    made = find_made(output, info)
    if made is not None:
        return made, False
    splits = [swap_pairs(s) if info["swap_pairs"] and s.name == "train" else s for s in read_task(task, files)]
    with new_folder(output) as folder:
        vocabulary.save(folder)
        for number in range(len(task.texts)):
            _write_dictionary(folder / f"input{number}", (vocabulary.folder / "dict.txt").read_text(encoding="utf-8"))
        _write_dictionary(folder / "label", "".join(f"{label} 1\n" for label in task.labels))
        (folder / "ids").mkdir()
        info["splits"] = {split.name: asdict(_write_split(task, split, vocabulary, folder)) for split in splits}
        write_info(folder, info)
    return info, True


def _write_dictionary(folder: Path, text: str) -> None:
    folder.mkdir()
    if text:
        with replacing_text(folder / "dict.txt") as stream:
            stream.write(text)


def _write_split(task: TaskFormat, split: GlueSplit, vocabulary: PretrainedVocabulary, folder: Path) -> GlueCounts:
    import torch

    lengths = np.ones(len(split), dtype=np.int64)  # <s>
    unknown = 0
    with Progress(total=len(split) * len(split.texts), desc=f"{task.name} {split.name}", unit=" sentences") as progress:
        for number, texts in enumerate(split.texts):
            path = folder / f"input{number}" / split.name
            builder = _builder(path, len(vocabulary.symbols))
            for start in range(0, len(texts), _BATCH):
                batch = texts[start : start + _BATCH]
                for place, ids in enumerate(vocabulary.encode_batch(batch), start):
                    unknown += int((ids == UNKNOWN).sum())
                    lengths[place] += len(ids) + 1
                    builder.add_item(torch.from_numpy(np.append(ids, EOS)))
                progress.update(len(batch))
            builder.finalize(f"{path}.idx")
    path = folder / "label" / split.name
    if split.labels is not None and task.regression:
        with replacing_text(path.with_suffix(".label")) as stream:
            stream.writelines(f"{float(label) / HIGHEST_SCORE!r}\n" for label in split.labels)
    elif split.labels is not None:
        builder = _builder(path, _FAIRSEQ_SPECIALS + len(task.labels))
        for label in split.labels:
            builder.add_item(torch.tensor([_FAIRSEQ_SPECIALS + task.labels.index(label), EOS]))
        builder.finalize(f"{path}.idx")
    with replacing_text(folder / "ids" / f"{split.name}.txt") as stream:
        stream.writelines(f"{example}\n" for example in split.ids)
    tokens = int(lengths.sum()) - len(split)
    return GlueCounts(len(split), tokens, unknown, split.empty, split.skipped, count_longer(lengths))


def _builder(path: Path, vocabulary_size: int) -> Any:
    """fairseq's own builder of ``path``.bin, which writes the .idx at its end."""
    from fairseq.data import indexed_dataset

    return indexed_dataset.make_builder(f"{path}.bin", impl="mmap", vocab_size=vocabulary_size)
