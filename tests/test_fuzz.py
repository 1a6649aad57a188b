"""Damaged files of strangers: they are read all the same, or refused in one line, in little time and memory.

FUZZ_CASES=100000 pytest tests/test_fuzz.py --hypothesis-seed=13 is the long form.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import resource
import shutil
import signal
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.convert_models import TOKENS, random_model, save, write_dictionary
from support.losses import table_of_pairs, vocabulary_of
from support.tokenizers_made import fast_tokenizer, gpt2, sentencepiece

from truneg_fairseq import register
from truneg_fairseq.convert.from_hf import from_hf, read_model
from truneg_fairseq.convert.to_hf import select
from truneg_fairseq.convert.token_ids import find_vocabulary
from truneg_fairseq.data.tokenizer import FastTokenizer, load_tokenizer
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.minimal_pairs import Blimp
from truneg_fairseq.evaluation.people import read_answers, read_people
from truneg_fairseq.finetuning.glue import TASKS, read_split
from truneg_fairseq.finetuning.squad_files import read_predictions, read_squad
from truneg_fairseq.models.checkpoints import read_checkpoint
from truneg_fairseq.objectives.false_negatives import AcceptanceModel
from truneg_fairseq.results.result import read_results
from truneg_fairseq.synonyms.lists import TsvLexicon
from truneg_fairseq.synonyms.table import SynonymTable
from truneg_fairseq.vocabulary import read_symbols, spell_symbols

CASES = int(os.environ.get("FUZZ_CASES", "12"))
SECONDS, MEMORY = 10, 1 << 30

ODD_BYTES = (
    *(b"", b"\0" * 8, b"\xff" * 8, b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\n\n\n", b"\x00\x00\x00\x80", b"NaN", b"-1"),
    *(b"1e999", b"9" * 5_000, b"[" * 100_000, b'{"a":' * 50_000, b" " * 100_000),
)
ODD_VALUES = (
    *(None, True, -1, 0, 1.5, 1e308, 10**6, 10**12, 10**25, "", "12", "\ud800", "\0", [], {}, "a:b", "x" * 100_000),
    *("../" * 50, [0] * 10_000, int("7" * 4000)),
)
ODD_TENSORS = (
    *(torch.tensor(1.0), torch.zeros(0), torch.eye(3).to_sparse(), torch.zeros(3, device="meta"), [torch.zeros(1)]),
    *(torch.zeros(1).expand(10**6, 10**6), torch.zeros(2, 2, dtype=torch.int64), Namespace(encoder_layers=10**12)),
)


@st.composite
def damaged_bytes(draw: Any, content: bytes) -> bytes:
    """Up to three times a part is cut out, doubled, or replaced by something odd."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = start + draw(st.sampled_from((0, 1, 8, 64, len(content))))
        middle = draw(st.sampled_from((*ODD_BYTES, content[:start])) | st.binary(max_size=8))
        content = content[:start] + middle + content[end:]
    return content


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """The dictionaries and lists within a value, with each of their keys."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def damage_value(draw: Any, value: Any, odd: tuple[Any, ...]) -> None:
    """Removes one entry, renames it, or replaces it by something odd."""
    holder, key = draw(st.sampled_from(list(places(value))))
    kind = draw(st.sampled_from(("remove", "rename", "replace", "replace", "replace")))
    if kind == "remove":
        del holder[key]
    elif kind == "rename" and isinstance(holder, dict):
        holder[draw(st.sampled_from(("", "x" * 5000, "seed", "a/b")))] = holder.pop(key)
    else:
        holder[key] = draw(st.sampled_from(odd))


def damage(draw: Any, path: Path) -> None:
    """Damages a file; JSON and checkpoints half of the times within their structure."""
    content = path.read_bytes()
    if draw(st.booleans()) and path.suffix == ".pt":
        value = torch.load(path, weights_only=True)
        # Most of a checkpoint's entries are tensors: its settings are damaged as often.
        damage_value(
            draw, draw(st.sampled_from((value, value["cfg"], value["cfg"]["model"]))), ODD_VALUES + ODD_TENSORS
        )
        torch.save(value, path)
    elif draw(st.booleans()) and path.suffix in (".json", ".jsonl"):
        value = json.loads(content.splitlines()[0] if path.suffix == ".jsonl" else content)
        damage_value(draw, value, ODD_VALUES)
        path.write_bytes(json.dumps(value).encode("utf-8", "surrogatepass"))
    else:
        path.write_bytes(draw(damaged_bytes(content)))


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """A TimeoutError for what takes more than :data:`SECONDS` of a processor, a MemoryError above :data:`MEMORY`."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    memory = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, memory[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, memory)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)


@dataclass(frozen=True)
class Reader:
    make: Callable[[Path], object]  # writes valid files into a folder
    damaged: tuple[str, ...]  # the names of those that are damaged
    read: Callable[[Path], object]  # reads the folder as the commands do


def one_file(name: str, content: Any, read: Callable[[Path], object]) -> Reader:
    """Of a file; content that is no text becomes JSON."""
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    data = text.encode() if isinstance(text, str) else text
    return Reader(lambda folder: (folder / name).write_bytes(data), (name,), lambda folder: read(folder / name))


def make_table(folder: Path) -> None:
    table_of_pairs([(1, 2), (1, 3), (5, 4)], vocabulary_of(10), options={"a": 1}).save(folder / "table.npz")


def make_checkpoint(folder: Path) -> None:
    register()
    data = write_dictionary(folder / "data", TOKENS)
    from_hf(save(random_model("BertForMaskedLM"), folder / "m"), data, folder / "c.pt")
    shutil.rmtree(folder / "m")


def read_hugging_face(folder: Path) -> None:
    find_vocabulary([folder / "m"])
    read_model(folder / "m")


ANSWERS = {"id": "1", "question": "Who?", "answers": [{"text": "cat", "answer_start": 4}]}
SQUAD = {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "The cat sat.", "qas": [ANSWERS]}]}]}
ACCEPTANCE = {"coefficients": {"table": 1.0, "embedding": 2.0}, "intercept": -1.0, "provenance": {"data": "x"}}
ACCEPTANCE |= {"format": "truneg_fairseq.acceptance/1"}
RESULT = {"model": "a", "task": "CoLA", "seed": 1, "metrics": {"matthews": 0.5}, "examples": {"matthews": [0.5]}}
SWORDS = {
    "contexts": {"c": {"context": "The cat sat."}},
    "targets": {"t": {"context_id": "c", "target": "cat", "offset": 4, "pos": "NOUN"}},
    "substitutes": {"s": {"target_id": "t", "substitute": "feline"}, "u": {"target_id": "t", "substitute": "dog"}},
    "substitute_labels": {"s": ["TRUE", "FALSE"], "u": ["FALSE"]},
}
CLOZE = [{"context": "The cat", "word": "sat", "answers": {"sat": 3, "ran": 1}}]
PAIR = {"sentence_good": "The cat sits.", "sentence_bad": "The cat sit.", "UID": "agreement"}
GLUE = "gj04\t1\t\tThe cat sat.\ngj04\t0\t*\tCat the.\n"

READERS = {
    "synonym table": Reader(make_table, ("table.npz",), lambda folder: SynonymTable.load(folder / "table.npz")),
    "fast tokenizer": Reader(
        lambda folder: FastTokenizer.load(fast_tokenizer("bpe", folder)).save(folder),
        ("tokenizer.json", "tokenizer_config.json"),
        load_tokenizer,
    ),
    "GPT-2 BPE": Reader(lambda folder: gpt2().save(folder), ("encoder.json", "vocab.bpe"), load_tokenizer),
    "SentencePiece": Reader(lambda folder: sentencepiece().save(folder), ("sentencepiece.model",), load_tokenizer),
    "checkpoint": Reader(make_checkpoint, ("c.pt",), lambda f: select(read_checkpoint(f / "c.pt"), None)),
    "Hugging Face": Reader(
        lambda folder: save(random_model("BertForMaskedLM"), folder / "m"),
        ("m/config.json", "m/model.safetensors", "m/vocab.txt"),
        read_hugging_face,
    ),
    "synonym list": one_file("s.tsv", "big\tlarge,great\n", TsvLexicon),
    "results": one_file("r.jsonl", RESULT, lambda path: read_results([path])),
    "dictionary": one_file("dict.txt", "the 3\ncat 2\n##s 1\n", read_symbols),
    "GPT-2 numbers": one_file("encoder.json", {"a": 0, "b": 1, "c": 2}, lambda path: spell_symbols(["0", "2"], path)),
    "SQuAD": one_file("s.json", SQUAD, read_squad),
    "predictions": one_file("p.json", {"a": "b"}, read_predictions),
    "GLUE": one_file("d.tsv", GLUE, lambda path: read_split(TASKS["CoLA"], "train", path)),
    "judgements": one_file("j.json", SWORDS, read_people),
    "gzipped judgements": one_file("j.json.gz", gzip.compress(json.dumps(SWORDS).encode()), read_people),
    "cloze answers": one_file("a.json", CLOZE, read_answers),
    "published answers": one_file("a.txt", "{'The cat': {'sat': 0.75, 'unk': 0.25}}", read_answers),
    "minimal pairs": one_file("p.jsonl", PAIR, lambda path: list(Blimp.pairs_of(Blimp, path, path.read_bytes()))),
    "acceptance": one_file("a.json", ACCEPTANCE, AcceptanceModel.load),
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("fuzz") / "valid"
            made[name].mkdir()
            READERS[name].make(made[name])
            READERS[name].read(made[name])
        return made[name]

    return make


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_files_are_refused_in_one_line_or_read(name, valid, data):
    reader, folder = READERS[name], valid(name)
    work = folder.with_name("work")
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder, work)
    damage(data.draw, work / data.draw(st.sampled_from(reader.damaged)))
    with limits():
        try:
            reader.read(work)
        except TrueNegError as error:
            assert "\n" not in str(error)
            assert str(work) in str(error)
        except UnicodeDecodeError:
            assert name == "dictionary"
