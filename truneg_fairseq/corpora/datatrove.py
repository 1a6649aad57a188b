"""Text in datatrove's pipelines: read as 'truneg data extract-corpus' does, written for 'truneg data binarize'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from datatrove.data import Document
from datatrove.io import DataFolderLike
from datatrove.pipeline.readers.base import BaseReader
from datatrove.pipeline.writers.disk_base import DiskWriter

from .documents import BLANK_LINES, find_files, read_documents


class TextReader(BaseReader):
    """Documents of files, folders, patterns or addresses; a task reads every n-th file."""

    name = "truneg_fairseq text"

    def __init__(self, addresses: Sequence[str], separator: str = BLANK_LINES) -> None:
        super().__init__()
        self.files = [file for address in addresses for file, _ in find_files(str(address))]
        self.separator = separator

    def run(self, data: Iterable[Document] | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        yield from data or ()
        for file in self.files[rank::world_size]:
            for number, lines in enumerate(read_documents(file, self.separator)):
                if text := "\n".join(line for line in map(str.strip, lines) if line):
                    document = Document(text=text, id=f"{file}/{number}")
                    self.update_doc_stats(document)
                    yield document


class TextWriter(DiskWriter):
    """A paragraph per line and a blank line behind each document, in a file per task."""

    default_output_filename = "${rank}.txt"
    name = "truneg_fairseq text"

    def __init__(self, output_folder: DataFolderLike) -> None:
        super().__init__(output_folder, mode="wb")

    def _write(self, document: dict[str, Any], file_handler: BinaryIO, filename: str) -> None:
        lines = [line for line in map(str.strip, document["text"].split("\n")) if line]
        file_handler.write("".join(f"{line}\n" for line in (*lines, "")).encode())
