"""Text to binarized data: against fairseq-preprocess, in any cut, after kills and with broken text."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.commands import command_environment, truneg_data, wait_until
from support.tokenizers_made import gpt2, sentencepiece

from truneg_fairseq import files
from truneg_fairseq.data import binarize as binarize_module
from truneg_fairseq.data import text
from truneg_fairseq.data.binarize import CHUNK_BYTES, Binarized, BinarizeOptions, ChunkEncoder, id_dtype
from truneg_fairseq.data.indexed import read_tokens, require_whole_split, write_index
from truneg_fairseq.data.text import plan_chunks
from truneg_fairseq.data.tokenizer import BERT_SPECIALS, TextTokenizer, load_tokenizer, wordpiece_tokenizer
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.vocabulary import read_symbols

VOCABULARY = [
    *BERT_SPECIALS,
    *("the", "cat", "un", "##happi", "##ness", "cafe", "##s", "dog", "sat", ".", ",", "!", "<", ">", "s", "/"),
    *("#fairseq:overwrite", "madeupword0000", "日"),
]
LINES = [
    *("The cat sat.", "", "Unhappiness, the  CATS!", "   \t ", "Café the 狗 <s> </s>", "日日 the dog", "", ""),
    *("# the the", "the", "dog\u2028dog\x0ccat", ""),
]


def write(path: Path, lines: Sequence[str], end: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
    return path


WORDPIECE = wordpiece_tokenizer(VOCABULARY)
TOKENIZERS = [WORDPIECE, sentencepiece(), gpt2()]
each_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=[each.tokenization for each in TOKENIZERS])


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".bin", ".idx", ".txt")}


def stock(folder: Path, tokenizer: TextTokenizer, **splits: Sequence[str]) -> Path:
    """The same lines, cut by the tokenizer one by one, through fairseq-preprocess."""
    from fairseq import options
    from fairseq_cli import preprocess

    write(folder / "symbols.txt", [f"{symbol} 1" for symbol in tokenizer.symbols()])
    arguments = ["--only-source", "--srcdict", str(folder / "symbols.txt"), "--destdir", str(folder / "stock")]
    for split, lines in splits.items():
        write(folder / f"{split}.pieces", [" ".join(tokenizer.encode(line)) for line in lines])
        arguments += [f"--{split}pref", str(folder / f"{split}.pieces")]
    preprocess.main(options.get_preprocessing_parser().parse_args(arguments))
    return folder / "stock"


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    """A folder with train.txt, valid.txt and their data."""
    folder = tmp_path_factory.mktemp("binarize")
    write(folder / "train.txt", LINES * 20)
    write(folder / "valid.txt", LINES)
    whole(folder, folder / "data")
    return folder


def binarize(splits, tokenizer, output: Path, *, chunk_bytes: int = CHUNK_BYTES, **options) -> Binarized:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binarize_module, "CHUNK_BYTES", chunk_bytes)
        tokenizer.save(beside := output.with_name(f"tokenizer-{output.name}"))
        options = {"workers": 1, "output_dir": output, "tokenizer": beside, **splits, **options}
        return binarize_module.binarize(BinarizeOptions(**options))


def whole(folder: Path, output: Path, tokenizer: TextTokenizer = WORDPIECE, **options) -> Binarized:
    return binarize({split: [folder / f"{split}.txt"] for split in ("train", "valid")}, tokenizer, output, **options)


@each_tokenizer
def test_the_files_are_those_of_fairseq_preprocess(tokenizer, tmp_path):
    from fairseq.data import Dictionary, data_utils

    write(tmp_path / "train.txt", LINES * 3)
    write(tmp_path / "valid.txt", LINES)
    counts = whole(tmp_path, tmp_path / "data", tokenizer, chunk_bytes=37).splits["valid"]
    encoded = [tokenizer.encode(line) for line in LINES]
    symbols = [symbol for line in encoded for symbol in (*line, "</s>")]
    unknown = symbols.count("<unk>")
    assert counts == {"lines": len(LINES), "tokens": len(symbols), "unknown": unknown, "replaced": 0}
    expected = files_of(stock(tmp_path, tokenizer, train=LINES * 3, valid=LINES))
    for name in ("train.bin", "train.idx", "valid.bin", "valid.idx", "dict.txt"):
        assert files_of(tmp_path / "data")[name] == expected[name], name
    assert [load_tokenizer(tmp_path / "data").encode(line) for line in LINES] == encoded
    dictionary = Dictionary.load(str(tmp_path / "data" / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(tmp_path / "data" / "valid"), dictionary)
    assert [dictionary.string(dataset[index]).split() for index in range(len(LINES))] == encoded
    assert dataset[1].tolist() == [dictionary.eos()]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("data")) == ["data"]


TEXT = st.lists(st.sampled_from(["the", "cat ", "\n", "\n\n", " \n", "\r\n", "日", "é", "<unk>", "BROKEN"]), max_size=8)


def lines_in(content: str) -> list[str]:
    return [line.rstrip("\r") for line in content.replace("BROKEN", "\ufffd").removesuffix("\n").split("\n")]


@settings(max_examples=40, deadline=None)
@given(
    contents=st.lists(TEXT.map("".join), min_size=1, max_size=5),
    chunk_bytes=st.sampled_from((1, 3, 10, 25, 1_000)),
    lines=st.sampled_from((1, 2, 1_000)),
    characters=st.sampled_from((4, 1_000)),
    tokenizer=st.sampled_from(TOKENIZERS),
)
@example(contents=["the\n \n", "cat\n"], chunk_bytes=1_000, lines=1_000, characters=1_000, tokenizer=TOKENIZERS[2])
@example(contents=["the\n\n", "cat\n"], chunk_bytes=1_000, lines=1_000, characters=1_000, tokenizer=TOKENIZERS[0])
def test_files_chunks_and_batches_are_as_one(tmp_path_factory, contents, chunk_bytes, lines, characters, tokenizer):
    """No document goes on in another file, empty files are passed over, broken UTF-8 is replaced and counted."""
    # Where a file's last line is cut, nobody sees whether it was blank: one blank line more ends the document.
    assume(not any(content.endswith("\r\n") and not lines_in(content)[-1] for content in contents[:-1]))
    assume(all(tokenizer.encode(line) for content in contents[:-1] if (line := lines_in(content)[-1])))
    folder, together = tmp_path_factory.mktemp("cut"), []
    parts = [folder / f"{number}.txt" for number in range(len(contents))]
    for path, content in zip(parts, contents, strict=True):
        path.write_bytes(content.encode().replace(b"BROKEN", b"\xff"))
        if content:
            if together and tokenizer.encode(together[-1]):
                together.append("")
            together += lines_in(content)
    assume(any(map(tokenizer.encode, together)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binarize_module, "_BATCH_LINES", lines)
        patch.setattr(binarize_module, "_BATCH_CHARACTERS", characters)
        made = binarize({"train": parts}, tokenizer, folder / "data", chunk_bytes=chunk_bytes).splits["train"]
    whole = binarize({"train": [write(folder / "whole.txt", together)]}, tokenizer, folder / "whole").splits["train"]
    broken = sum("BROKEN" in line for content in contents for line in content.split("\n"))
    assert (made, whole["replaced"]) == ({**whole, "replaced": broken}, 0)
    assert whole["lines"] == len(together)
    assert files_of(folder / "data") == files_of(folder / "whole")


def test_pointers_beyond_two_gigabytes(tmp_path):
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    sizes = [np.array(part, dtype=np.int32) for part in ([2**29, 3, 2**29], [], [2**30, 1])]
    write_index(tmp_path / "x.idx", lambda: iter(sizes), np.uint16)
    index = MMapIndexedDataset.Index(str(tmp_path / "x.idx"))
    starts = [0, 2**30, 2**30 + 6, 2**31 + 6, 2**32 + 6]
    assert [tuple(map(int, index[n])) for n in range(5)] == list(zip(starts, [2**29, 3, 2**29, 2**30, 1], strict=True))


def test_numbers_have_the_type_that_fairseq_chooses(tmp_path):
    from fairseq.data.indexed_dataset import best_fitting_int_dtype

    for size in (100, 65_499, 65_500, 100_000):
        assert id_dtype(size + 1) == best_fitting_int_dtype(size), size
    tokenizer = wordpiece_tokenizer([*BERT_SPECIALS, *(f"w{number}" for number in range(70_000))])
    write(tmp_path / "train.txt", ["w69999 w3"])
    binarize({"train": [tmp_path / "train.txt"]}, tokenizer, tmp_path / "data")
    assert np.fromfile(tmp_path / "data" / "train.bin", dtype=np.uint32).tolist() == [70_003, 7, 2]


@each_tokenizer
def test_unk_in_the_text_is_the_unknown_token(tokenizer, tmp_path):
    """As in WikiText's .tokens files."""
    write(tmp_path / "train.txt", ["the <unk> cat", "<unk><unk>", "the cat"])
    made = binarize({"train": [tmp_path / "train.txt"]}, tokenizer, tmp_path / "data").splits["train"]
    the, cat = tokenizer.encode("the"), tokenizer.encode(" cat")
    expected = [*the, "<unk>", *cat, "</s>", "<unk>", "<unk>", "</s>", *tokenizer.encode("the cat"), "</s>"]
    symbols = read_symbols(tmp_path / "data")
    found = np.fromfile(tmp_path / "data" / "train.bin", dtype=np.uint16)
    assert [symbols[number] for number in found] == expected
    assert made["unknown"] == 3


def fails(message: str, call: Callable, *arguments: object, **options: object) -> None:
    with pytest.raises(TrueNegError, match=message) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)


def test_damaged_data_are_found_before_a_training(done, tmp_path):
    shutil.copytree(done / "data", tmp_path, dirs_exist_ok=True)
    for suffix in ("bin", "idx"):
        shutil.copy(tmp_path / f"train.{suffix}", tmp_path / f"train1.{suffix}")
    split = tmp_path / "train"
    require_whole_split(split)
    data, index = tmp_path / "train1.bin", tmp_path / "train1.idx"
    whole_index = index.read_bytes()
    another_version = whole_index[:9] + b"\2" + whole_index[10:]
    for damaged in (whole_index[:-8], whole_index[:5], another_version):
        index.write_bytes(damaged)
        fails(r"train1\.idx: is damaged or cut", require_whole_split, split)
    index.write_bytes(whole_index)
    os.truncate(data, 10)
    fails(r"train1\.bin: has 10 bytes, its index expects", require_whole_split, split)
    index.write_bytes(b"TNTIDX\0\0")  # of fairseq's format that is read into memory, on which fairseq can train
    require_whole_split(split)
    fails(r"train1\.idx: is of another format .* than --dataset-impl mmap; .*again", lambda: [*read_tokens(split)])
    index.write_bytes(whole_index)
    data.unlink()
    fails(r"train1\.bin: no such file", require_whole_split, split)


def test_text_that_changes_meanwhile(done, tmp_path, monkeypatch):
    source = tmp_path / "train.txt"
    shutil.copy(done / "train.txt", source)
    original = ChunkEncoder.__call__

    def encode_and_change(self, task, advance):
        result = original(self, task, advance)
        with source.open("a") as stream:
            stream.write("the\n")
        return result

    monkeypatch.setattr(ChunkEncoder, "__call__", encode_and_change)
    fails("was made with another text", binarize, {"train": [source]}, WORDPIECE, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def flags_of(folder: Path, output: Path, *flags: object) -> list[str]:
    vocab = write(folder / "vocab" / "vocab.txt", VOCABULARY)
    splits = ("--train", folder / "train.txt", "--valid", folder / "valid.txt")
    return [str(flag) for flag in (*splits, "--tokenizer", vocab, "--output-dir", output, *flags)]


@pytest.mark.slow
def test_a_kill_loses_nothing_and_leaves_no_process(tmp_path):
    write(tmp_path / "train.txt", LINES * 4_000)
    write(tmp_path / "valid.txt", LINES)
    code = "from truneg_fairseq.data import binarize; binarize.CHUNK_BYTES = 20_000;"
    code += "from truneg_fairseq.commands.main import main; main()"
    flags = flags_of(tmp_path, tmp_path / "data", "--workers", 2)
    command = [sys.executable, "-c", code, "data", "binarize", *flags]
    process = subprocess.Popen(command, env=command_environment(), stderr=subprocess.DEVNULL)
    parts = tmp_path / "data.parts"
    wait_until(lambda: len(list(parts.glob("train-*/counts.json"))) >= 3, process)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(workers) >= 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert 3 <= len(list(parts.glob("train-*/counts.json"))) < len(plan_chunks([tmp_path / "train.txt"], 20_000))
    whole(tmp_path, tmp_path / "data", chunk_bytes=20_000)  # that what is there is kept: the shards below
    whole(tmp_path, tmp_path / "expected")
    assert files_of(tmp_path / "data") == files_of(tmp_path / "expected")
    assert not parts.exists()


def test_small_files_share_a_chunk(tmp_path):
    small = [write(tmp_path / f"{number}.txt", ["the cat"]) for number in range(10)]
    large = write(tmp_path / "large.txt", ["the"] * 9)
    assert [len(chunk) for chunk in plan_chunks([*small, large], 33)] == [4, 4, 2, 1, 1]


def test_other_text_or_settings_do_not_mix(done, tmp_path, monkeypatch):
    source, output = tmp_path / "train.txt", tmp_path / "data"
    shutil.copy(done / "train.txt", source)
    text, other = {"train": [source]}, wordpiece_tokenizer([*VOCABULARY, "bird"])
    binarize(text, WORDPIECE, output, shard="1/2", chunk_bytes=400)
    fails(r"was made with chunks_of 400 \(now 200\)", binarize, text, WORDPIECE, output, chunk_bytes=200)
    fails(r"data\.parts: was made with another tokenizer", binarize, text, other, output, chunk_bytes=400)
    with monkeypatch.context() as other_version:
        other_version.setattr(files, "VERSION", "9.0")
        fails("was made with version 0", binarize, text, WORDPIECE, output, chunk_bytes=400)
    write(source, [*LINES * 20, "the"])
    fails("was made with another text", binarize, text, WORDPIECE, output, chunk_bytes=400)
    shutil.rmtree(tmp_path / "data.parts")
    binarize(text, WORDPIECE, output)
    monkeypatch.setattr(files, "VERSION", "9.0")
    assert not binarize(text, WORDPIECE, output).made
    new = {"train": [write(tmp_path / "new.txt", ["the"])]}
    fails("was made with another text", binarize, new, WORDPIECE, output)
    write(output / "record.json", ['{"of": "another program"}'])
    fails(r"record\.json: Object missing .* settings; expected what this", binarize, new, WORDPIECE, output)


@pytest.mark.parametrize("name", ["_prepare_parts", "_encode", "write_dataset"])
def test_the_same_command_twice_at_once(name, done, tmp_path, monkeypatch):
    """The one that came second is refused while the first encodes; before, either may make the data."""
    original = getattr(binarize_module, name)

    def interrupted(*arguments):
        monkeypatch.setattr(binarize_module, name, original)
        if name == "_prepare_parts":
            assert whole(done, tmp_path / "data").made
        else:
            fails("another command makes .*data; wait for its end", whole, done, tmp_path / "data")
        return original(*arguments)

    monkeypatch.setattr(binarize_module, name, interrupted)
    with contextlib.suppress(OSError, TrueNegError):  # of _prepare_parts, whose folder the other one has removed
        whole(done, tmp_path / "data")
    assert files_of(tmp_path / "data") == files_of(done / "data")
    assert not whole(done, tmp_path / "data").made


def test_folders_of_text_and_links_to_them_by_two_workers(done, tmp_path):
    write(tmp_path / "elsewhere" / "0.txt", LINES * 5)
    write(tmp_path / "train" / "notes.md", ["not this"])
    write(tmp_path / "train" / "._part.txt", ["nor what macOS leaves"])
    write(tmp_path / "train" / "part.txt", LINES * 15)
    (tmp_path / "train" / "deep").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "train" / "folder.txt").mkdir()
    given = {"train": [tmp_path / "train"], "valid": [done / "valid.txt"]}
    binarize(given, WORDPIECE, tmp_path / "data", chunk_bytes=333, workers=2)
    assert files_of(tmp_path / "data") == files_of(done / "data")
    (tmp_path / "train" / "again").symlink_to(tmp_path / "train")
    fails(r"--train: names .*\.txt twice", binarize, given, WORDPIECE, tmp_path / "twice")


def test_unfit_inputs(done, tmp_path, monkeypatch):
    def refuses(message: str, *inputs: Path, **options) -> None:
        fails(message, binarize, {"train": inputs}, WORDPIECE, tmp_path / "data", **options)
        assert not (tmp_path / "data").exists()

    refuses("no text: expected files for --train")
    refuses(
        r"x\.jsonl: is not plain text; make it so with data-bin-sc",
        write(tmp_path / "x.jsonl", ["{}"]),
    )
    refuses("--shard 0/2: expected i/n", done / "train.txt", shard="0/2")
    blank = write(tmp_path / "blank.txt", ["", " "])
    refuses(r"--train: there is no text in .*blank\.txt; expected .*; remove .*data\.parts", blank)
    shutil.rmtree(tmp_path / "data.parts")
    os.mkfifo(tmp_path / "pipe")
    refuses(r"--train .*pipe: no such file or folder with", done / "train.txt", tmp_path / "pipe")
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 20)
    refuses(r"train\.txt: the line at byte 14 is longer than", done / "train.txt")


def test_shards_on_several_machines(done, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(binarize_module, "CHUNK_BYTES", 300)
    flags = flags_of(done, tmp_path / "data", "--workers", 1)
    parts = tmp_path / "data.parts"
    chunks = sum(len(plan_chunks([done / name], 300)) for name in ("train.txt", "valid.txt"))
    for number in (1, 2, 3):
        truneg_data("binarize", *flags, "--shard", f"{number}/3")
        said = capsys.readouterr().out.splitlines()
        assert said[0] == f"{tmp_path / 'data'}: shard {number}/3 is done; a run without --shard puts all together"
        assert len(list(parts.glob("*-*"))) == sum(n % 3 < number for n in range(chunks))
    monkeypatch.setattr(ChunkEncoder, "__call__", None)  # nothing is left to encode
    truneg_data("binarize", *flags)
    expected = whole(done, done / "data").splits["train"]
    assert capsys.readouterr().out.splitlines()[1] == (
        f"train: 240 lines, {expected['tokens']:,} tokens, {expected['unknown']} unknown "
        f"({expected['unknown'] / expected['tokens']:.3%})"
    )
    assert files_of(tmp_path / "data") == files_of(done / "data")
