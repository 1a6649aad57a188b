"""Damaged files for every reader of the package: valid ones, mutated; what a reader may do with them is raise a
TrueNegError, in little time and memory."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import re
import resource
import shutil
import signal
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nltk.data
import numpy as np
import torch

from truneg_fairseq import register
from truneg_fairseq.comparison.results import read_results
from truneg_fairseq.convert.checkpoints import read_checkpoint, read_embeddings
from truneg_fairseq.convert.from_hf import from_hf
from truneg_fairseq.convert.hf_files import read_weights
from truneg_fairseq.convert.hf_model import read_model
from truneg_fairseq.convert.rows import find_vocabulary
from truneg_fairseq.convert.selection import select
from truneg_fairseq.corpora.documents import read_documents
from truneg_fairseq.data.electra_dataset import BinarizedText
from truneg_fairseq.data.indexed import require_whole, write_index
from truneg_fairseq.data.tokenizer import load_tokenizer
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.finetuning.data import read_info
from truneg_fairseq.glue.files import TASKS, read_split
from truneg_fairseq.lexsub.swords import read_judgements
from truneg_fairseq.objectives.acceptance import AcceptanceModel
from truneg_fairseq.record import read_record
from truneg_fairseq.runs.manifest import read_manifest
from truneg_fairseq.squad.data import read_no_answer_probabilities, read_predictions, read_squad
from truneg_fairseq.squad.features import SquadFeatures
from truneg_fairseq.synonyms.expression import parse
from truneg_fairseq.synonyms.mythes import MythesLexicon
from truneg_fairseq.synonyms.omw import OmwLexicon
from truneg_fairseq.synonyms.table import SynonymTable
from truneg_fairseq.synonyms.tsv import TsvLexicon
from truneg_fairseq.synonyms.vectors import VectorFile
from truneg_fairseq.synonyms.wordnet_database import PARTS_OF_SPEECH, WordNetDatabase
from truneg_fairseq.vocabulary import read_symbols, spell_symbols

from .convert_models import TOKENS, random_model, save, write_dictionary
from .tokenizers_made import gpt2, sentencepiece, wordpiece

SECONDS = 10
MEMORY = 1 << 30  # bytes

_ODD_VALUES: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: True,
    lambda: -1,
    lambda: 0,
    lambda: 1e308,
    lambda: 10**25,
    lambda: "",
    lambda: "\ud800",
    lambda: "\0",
    list,
    dict,
    lambda: "a:b",
    lambda: int("7" * 4000),
    lambda: "x" * 100_000,
    lambda: "../" * 50,
    lambda: [0] * 10_000,
)
_ODD_TENSORS: tuple[Callable[[], Any], ...] = (
    lambda: torch.tensor(1.0),
    lambda: torch.zeros(0),
    lambda: torch.eye(3).to_sparse(),
    lambda: torch.zeros(3, device="meta"),
    lambda: torch.zeros(1).expand(10**6, 10**6),
    lambda: torch.zeros(2, 2, dtype=torch.int64),
    lambda: [torch.zeros(1)],
    lambda: Namespace(encoder_layers=10**12),
)
_ODD_SIZES: tuple[Callable[[], Any], ...] = (lambda: 10**6, lambda: 10**12, lambda: -3, lambda: 1.5, lambda: "12")
_ODD_BYTES = (
    *(
        b"\0" * 8,
        b"\xff" * 8,
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\r",
        b"\n\n\n",
        b"\x00\x00\x00\x80",
        b"NaN",
        b"-1",
        b"&#xD800;",
    ),
    *(b"9" * 5_000, b"[" * 100_000, b'{"a":' * 50_000, b"(" * 9_000, b" " * 100_000, b"<a>" * 5_000, b"{{" * 5_000),
)


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes:
        name: for the log.
        make: writes valid files into a folder.
        damaged: the names of those that are mutated.
        read: reads the folder as the commands do.
    """

    name: str
    make: Callable[[Path], None]
    damaged: tuple[str, ...]
    read: Callable[[Path], object]


def mutate(content: bytes, rng: random.Random) -> bytes:
    """One to three mutations; of JSON, half of them of its structure."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = _mutate_once(content, rng)
    return content


def _mutate_once(content: bytes, rng: random.Random) -> bytes:
    if content[:1] in (b"{", b"[") and rng.random() < 0.6:
        with contextlib.suppress(ValueError, RecursionError):
            return _mutate_json(json.loads(content), rng)
    first, last = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    odd = rng.choice(_ODD_BYTES)
    return rng.choice(
        (
            lambda: content[:first],
            lambda: _flip_bits(content, rng),
            lambda: content[:first] + content[last:],
            lambda: content[:first] + odd + content[first:],
            lambda: content[:first] + odd[:64] + content[first + 64 :],
            lambda: _another_number(content, rng),
            lambda: content[:last] + content[first:last] + content[last:],
        )
    )()


def _flip_bits(content: bytes, rng: random.Random) -> bytes:
    flipped = bytearray(content or b" ")
    for _ in range(rng.choice((1, 1, 4, 16))):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _another_number(content: bytes, rng: random.Random) -> bytes:
    digits = [digit.start() for digit in re.finditer(rb"[0-9]", content)]
    if not digits:
        return content[1:]
    at = rng.choice(digits)
    number = rng.choice((b"0", b"-1", b"1000000", b"1000000000000", b"9" * 4301, b"1.5", b"nan", b"1e999"))
    return content[:at] + number + content[at + 1 :]


def _mutate_json(value: Any, rng: random.Random) -> bytes:
    """Another value in the place of one within, or a key renamed, removed or doubled; or it all, nested."""
    if rng.random() < 0.05:
        depth = rng.choice((100, 1_000, 100_000))
        return b"[" * depth + json.dumps(value).encode() + b"]" * depth
    holders = [holder for holder in _walk(value) if len(holder)]
    if not holders:
        return json.dumps(rng.choice(_ODD_VALUES)()).encode()
    holder = rng.choice(holders)
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    key = rng.choice(keys)
    kind = rng.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[rng.choice(("", "\ud800", "x" * 5000, "seed", "a/b"))] = holder.pop(key)
    else:
        holder[key] = rng.choice(_ODD_VALUES)()
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _mutate_checkpoint(path: Path, rng: random.Random) -> None:
    """Another value in the place of one within; what torch.save can write and weights_only can load."""
    content = torch.load(path, weights_only=True)
    model = content["cfg"]["model"]
    holder = rng.choice([content, content["cfg"], content["cfg"]["task"], model, model, model, content["model"]])
    key = rng.choice(list(holder))
    kind = rng.randrange(4)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[rng.choice((5, "", "x" * 5000, "encoder.sentence_encoder.layers.99.fc1.bias"))] = holder.pop(key)
    else:
        holder[key] = rng.choice((*_ODD_VALUES, *_ODD_TENSORS, *_ODD_SIZES))()
    torch.save(content, path)


def _walk(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _walk(item)


def run_case(reader: Reader, valid: Path, work: Path, rng: random.Random) -> None:
    """Damages one file of a copy of the valid ones and reads it.

    Raises:
        Exception: the reader raised something else than a TrueNegError of one line, or took more than
            :data:`SECONDS`.
    """
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(valid, work)
    path = work / rng.choice(reader.damaged)
    if path.suffix == ".pt" and rng.random() < 0.7:
        _mutate_checkpoint(path, rng)
    else:
        path.write_bytes(mutate(path.read_bytes(), rng))

    with time_limit(SECONDS):
        try:
            reader.read(work)
        except TrueNegError as error:
            if "\n" in str(error) or (str(work) not in str(error) and reader.name != "expression"):
                raise AssertionError(f"not one line that names the file: {error!r}") from error


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raises a TimeoutError within what needs more time of a processor, or ten times as much by the clock.

    The clock alone would blame a reader for a busy machine.
    """

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    timers = ((signal.ITIMER_PROF, signal.SIGPROF, seconds), (signal.ITIMER_REAL, signal.SIGALRM, 10 * seconds))
    before = [signal.signal(number, stop) for _, number, _ in timers]
    for timer, _, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


@contextlib.contextmanager
def memory_limit(size: int = MEMORY) -> Iterator[None]:
    """Makes what needs more memory than that, in addition to what is in use, a MemoryError."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _json(name: str, content: Any) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(json.dumps(content))  # type: ignore[return-value]


def _table(folder: Path) -> None:
    pairs = np.array([[1, 2], [1, 3], [5, 4]], np.int32).T
    SynonymTable(pairs[0], pairs[1], 10, "f" * 64, "words", "wordnet", {"a": 1}, 2).save(folder / "table.npz")


def _features(folder: Path) -> None:
    numbers = {"context_tokens": [5, 6, 7], "question_tokens": [8, 9], "question_context": [0]}
    SquadFeatures(
        **{name: np.array(values, np.int32) for name, values in numbers.items()},
        context_offsets=np.array([0, 3]),
        question_offsets=np.array([0, 2]),
        context_spans=np.array([[0, 1], [2, 3], [4, 5]], np.int32),
        impossible=np.array([False]),
        window_question=np.zeros(1, np.int32),
        window_bounds=np.array([[0, 3]], np.int32),
        window_answer=np.array([[4, 5]], np.int32),
        ids=["q"],
        questions=["a b"],
        contexts=["c d e"],
        answers=[["c"]],
    ).save(folder)


def _read_features(folder: Path) -> None:
    features = SquadFeatures.load(folder)
    for window in range(min(3, len(features))):
        features.tokens(window), features.max_context(window), features.spans(window)


_SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "The cat sat.",
                    "qas": [{"id": "1", "question": "Who?", "answers": [{"text": "cat", "answer_start": 4}]}],
                }
            ],
        }
    ],
}
_ACCEPTANCE = {
    "format": "truneg_fairseq.acceptance/1",
    "coefficients": {"table": 1.0, "embedding": 2.0},
    "intercept": -1.0,
    "provenance": {"data": "x"},
}


def _results(folder: Path) -> None:
    lines = [
        {"model": "a", "task": "CoLA", "seed": seed, "metrics": {"matthews": 0.5}, "examples": {"matthews": [0.5]}}
        for seed in range(3)
    ]
    (folder / "r.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def _vectors(folder: Path, *, packed: bool = False) -> None:
    text = b"3 2\nthe 0.1 0.2\ncat 0.3 0.4\nsat -1 2e-3\n"
    (folder / "v.txt").write_bytes(gzip.compress(text) if packed else text)


def _binary_vectors(folder: Path) -> None:
    words = b"".join(word + b" " + np.ones(4, "<f4").tobytes() + b"\n" for word in (b"the", b"cat"))
    (folder / "v.txt").write_bytes(b"2 4\n" + words)


def _read_vectors(folder: Path) -> None:
    file = VectorFile.open(folder / "v.txt")
    for record in file.records():
        file.parse([record])


def _corpus(name: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        for _ in read_documents(str(folder / name)):
            pass

    return read


def _checkpoint(folder: Path) -> None:
    register()
    data = write_dictionary(folder / "data", TOKENS)
    from_hf(save(random_model("BertForMaskedLM"), folder / "m"), data, folder / "c.pt")
    shutil.rmtree(folder / "m")


def _read_checkpoint(folder: Path) -> None:
    read_embeddings(folder / "c.pt")
    select(read_checkpoint(folder / "c.pt"), None, None)


def _huggingface(folder: Path) -> None:
    save(random_model("BertForMaskedLM", 0), folder / "m")
    for path in (folder / "m").iterdir():
        path.rename(folder / path.name)
    (folder / "m").rmdir()


def _read_huggingface(folder: Path) -> None:
    find_vocabulary([folder])
    read_weights(folder)
    read_model(folder)


def _write(name: str, content: str | bytes) -> Callable[[Path], None]:
    raw = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(raw)  # type: ignore[return-value]


_SWORDS = {
    "contexts": {"c": {"context": "The cat sat."}},
    "targets": {"t": {"context_id": "c", "target": "cat", "offset": 4, "pos": "NOUN"}},
    "substitutes": {"s": {"target_id": "t", "substitute": "feline"}, "u": {"target_id": "t", "substitute": "dog"}},
    "substitute_labels": {"s": ["TRUE", "FALSE"], "u": ["FALSE"]},
}
_MYTHES = "UTF-8\nbig|2\n(adj)|large|great (generic term)\n(noun)|size\nlarge|1\n(adj)|big|small (antonym)\n"
_OMW = "# Wordnet\tfra\n02084071-n\tlemma\tchien\n02084071-n\tlemma\tcabot\n02121620-n\tfra:lemma\tchat noir\n"


def _packed_judgements(folder: Path) -> None:
    (folder / "j.json.gz").write_bytes(gzip.compress(json.dumps(_SWORDS).encode()))


def _wordnet(folder: Path) -> None:
    """A database of one synset of two names for each part of speech."""
    for pos, suffix in zip("nvar", ("noun", "verb", "adj", "adv"), strict=True):
        licence = "  1 This database of WordNet 3.0 is made for a test.\n"
        line = f"{len(licence):08d} 03 {pos} 02 big 0 large 0 001 ! {len(licence):08d} {pos} 0102 | of size\n"
        (folder / f"data.{suffix}").write_text(licence + line)
        entries = (f"{name} {pos} 1 1 ! 1 1 {len(licence):08d}  \n" for name in ("big", "large"))
        (folder / f"index.{suffix}").write_text(licence + "".join(entries))
        (folder / f"{suffix}.exc").write_text("bigger big\n")


_WORDNET_FILES = ("data.noun", "index.noun", "noun.exc")


def _packed_wordnet(folder: Path) -> None:
    _wordnet(folder)
    files = sorted(folder.iterdir())
    with zipfile.ZipFile(folder / "wordnet.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, f"wordnet/{path.name}")
            path.unlink()


def _read_wordnet(location: Path) -> None:
    database = WordNetDatabase(location)
    for pos in PARTS_OF_SPEECH:
        for word in ("big", "bigger"):
            for lemma in database.lemmas(word, pos):
                for synset in database.synsets(lemma, pos):
                    database.similar(synset)


def _omw(folder: Path) -> None:
    language = folder / "corpora" / "omw-1.4" / "fra"
    language.mkdir(parents=True)
    (language / "wn-data-fra.tab").write_text(_OMW)


def _read_omw(folder: Path) -> None:
    before = nltk.data.path[:]
    nltk.data.path[:] = [str(folder)]
    try:
        OmwLexicon("fra").synonyms("chien")
    finally:
        nltk.data.path[:] = before


def _binarized(folder: Path) -> None:
    np.array([4, 5, 2, 6, 2], np.uint16).tofile(folder / "train.bin")
    write_index(folder / "train.idx", lambda: [np.array([3, 2], np.int32)], np.uint16)


def _read_binarized(folder: Path) -> None:
    from fairseq.data import Dictionary

    require_whole(folder / "train")
    BinarizedText(str(folder / "train"), Dictionary()).line_sizes()


def _read_expression(folder: Path) -> None:
    text = (folder / "e.txt").read_bytes().decode("latin-1")
    str(parse(text, ("wordnet", "embeddings"), "--source"))


READERS = (
    Reader("record", _json("record.json", {"settings": {"a": [1]}, "splits": {}}), ("record.json",), read_record),
    Reader("synonym table", _table, ("table.npz",), lambda folder: SynonymTable.load(folder / "table.npz")),
    Reader("results", _results, ("r.jsonl",), lambda folder: read_results([folder / "r.jsonl"])),
    Reader("dictionary", _write("dict.txt", "the 3\ncat 2\n##s 1\n"), ("dict.txt",), read_symbols),
    Reader(
        "GPT-2 numbers",
        _json("encoder.json", {"a": 0, "b": 1, "c": 2}),
        ("encoder.json",),
        lambda folder: spell_symbols(["0", "1", "2"], folder / "encoder.json"),
    ),
    Reader("WordPiece", lambda folder: wordpiece().save(folder), ("vocab.txt", "tokenizer.json"), load_tokenizer),
    Reader("GPT-2 BPE", lambda folder: gpt2().save(folder), ("encoder.json", "vocab.bpe"), load_tokenizer),
    Reader("SentencePiece", lambda folder: sentencepiece().save(folder), ("sentencepiece.model",), load_tokenizer),
    Reader("vectors", _vectors, ("v.txt",), _read_vectors),
    Reader("gzipped vectors", lambda folder: _vectors(folder, packed=True), ("v.txt",), _read_vectors),
    Reader("word2vec binary", _binary_vectors, ("v.txt",), _read_vectors),
    Reader("jsonl", _write("c.jsonl", '{"text": "a\\nb"}\n{"text": "c"}\n'), ("c.jsonl",), _corpus("c.jsonl")),
    Reader("checkpoint", _checkpoint, ("c.pt",), _read_checkpoint),
    Reader("Hugging Face", _huggingface, ("config.json", "model.safetensors", "vocab.txt"), _read_huggingface),
    Reader("SQuAD", _json("s.json", _SQUAD), ("s.json",), lambda folder: read_squad(folder / "s.json")),
    Reader("predictions", _json("p.json", {"a": "b"}), ("p.json",), lambda folder: read_predictions(folder / "p.json")),
    Reader(
        "probabilities",
        _json("p.json", {"a": 0.5}),
        ("p.json",),
        lambda folder: read_no_answer_probabilities(folder / "p.json"),
    ),
    Reader("windows", _features, ("features.npz", "texts.json"), _read_features),
    Reader("info", _json("info.json", {"vocabulary": "f", "splits": {"train": {"a": 1}}}), ("info.json",), read_info),
    Reader("manifest", _json("manifest.json", {"starts": [{"time": "x"}]}), ("manifest.json",), read_manifest),
    Reader(
        "acceptance", _json("a.json", _ACCEPTANCE), ("a.json",), lambda folder: AcceptanceModel.load(folder / "a.json")
    ),
    Reader(
        "synonym list", _write("s.tsv", "big\tlarge,great\n"), ("s.tsv",), lambda folder: TsvLexicon(folder / "s.tsv")
    ),
    Reader(
        "GLUE",
        _write("d.tsv", "gj04\t1\t\tThe cat sat.\ngj04\t0\t*\tCat the.\n"),
        ("d.tsv",),
        lambda folder: read_split(TASKS["CoLA"], "train", folder / "d.tsv"),
    ),
    Reader("judgements", _json("j.json", _SWORDS), ("j.json",), lambda folder: read_judgements(folder / "j.json")),
    Reader(
        "gzipped judgements",
        _packed_judgements,
        ("j.json.gz",),
        lambda folder: read_judgements(folder / "j.json.gz"),
    ),
    Reader("WordNet", _wordnet, _WORDNET_FILES, _read_wordnet),
    Reader("zipped WordNet", _packed_wordnet, ("wordnet.zip",), lambda folder: _read_wordnet(folder / "wordnet.zip")),
    Reader("thesaurus", _write("t.dat", _MYTHES), ("t.dat",), lambda folder: MythesLexicon("eng", folder / "t.dat")),
    Reader("Open Multilingual Wordnet", _omw, ("corpora/omw-1.4/fra/wn-data-fra.tab",), _read_omw),
    Reader("binarized text", _binarized, ("train.idx", "train.bin"), _read_binarized),
    Reader("expression", _write("e.txt", "wordnet+(embeddings&wordnet)-antonyms"), ("e.txt",), _read_expression),
)


def make_valid(reader: Reader, folder: Path) -> Path:
    """The valid files of a reader, which it reads without an error."""
    folder.mkdir(parents=True)
    reader.make(folder)
    reader.read(folder)
    return folder
