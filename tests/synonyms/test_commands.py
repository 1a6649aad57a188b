"""truneg synonyms show, stats and compare, and what they say of bad input."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support.commands import run_command, truneg

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import SynonymTable
from truneg_fairseq.synonyms.comparison import TableComparison, name_grid

WORDS = ["big", "large", "great", "huge", "main", "primary", "walked"]


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data-bin"
    folder.mkdir()
    (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in WORDS), encoding="utf-8")
    return folder


@pytest.fixture
def tsv(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text("big\thuge,big cheese\n", encoding="utf-8")
    return path


def run(capsys, *arguments: object) -> str:
    main(["synonyms", *map(str, arguments)])
    return capsys.readouterr().out


def error(capsys, *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["synonyms", *map(str, arguments)])
    message = str(caught.value)
    assert message.startswith("truneg_fairseq: error: ")
    assert "\n" not in message
    return message


def table(*pairs: tuple[int, int], **changes) -> SynonymTable:
    rows = np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2)
    fields = {"vocabulary_size": 40, "fingerprint": "f", "tokenization": "words", "source": "wordnet", **changes}
    return SynonymTable(gold=rows[:, 0].copy(), synonym=rows[:, 1].copy(), **fields)


def rows_of(output: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in output.splitlines() if line and not line.startswith(" ")}


def test_show_puts_every_source_side_by_side(capsys, wordnet, data, tsv):
    pytest.importorskip("lemminflect")
    output = run(capsys, "show", "big", "--tsv", tsv, "--data", data)
    lines = output.splitlines()
    heading = next(line for line in lines if line.split() == ["wordnet", "inflected", "tsv", "token"])
    column = {name: heading.index(name) for name in heading.split()}

    def marked(name: str) -> set[str]:
        line = next(line for line in lines if line.startswith(f"{name} "))
        return {source for source, at in column.items() if line[at : at + len(source)].strip()}

    assert marked("large") == {"wordnet", "inflected", "token"}
    assert marked("huge") == {"tsv", "token"}
    assert marked("big") == {"wordnet", "inflected", "tsv"}
    assert marked("big_cheese") == {"tsv"}
    assert "big: 3 names in tsv" in lines
    assert "3 are single tokens of" in output
    needs = {"wn": "--wn", "embeddings": "--vectors", "model": "--checkpoint"}
    assert lines[-3:] == [f"not shown: --source {source}: needs {flag}" for source, flag in needs.items()]


def test_build_writes_over_none_of_its_inputs(data, tsv):
    dictionary = data / "dict.txt" if data.is_dir() else data
    for flag, path in (("tsv", tsv), ("data", dictionary)):
        before = path.read_bytes()
        words = ("synonyms", "build", "--data", data, "--source", "tsv", "--tsv", tsv, "--output", path)
        with pytest.raises(SystemExit, match=f"--output {path}: is the file of --{flag} too; expected different files"):
            main([*map(str, words)])
        assert path.read_bytes() == before


def test_show_takes_expressions(capsys, wordnet, tsv):
    output = run(capsys, "show", "big", "--tsv", tsv, "--source", "wordnet&tsv", "tsv")
    assert rows_of(output)["huge"] == ["x"]
    assert "big: 1 names in wordnet&tsv" in output
    assert "not shown" not in output


def test_show_of_stop_words_and_words_outside_the_dictionary(capsys, wordnet, data):
    output = run(capsys, "show", "it", "--source", "wordnet", "--data", data)
    assert "names in wordnet; a stop word, which gets none in a table" in output
    assert f"it is not a whole-word token of {data}: it is never corrected" in output


def test_show_reads_a_word_as_the_dictionary_spells_it(capsys, data, tsv):
    tsv.with_name("accents.tsv").write_text("b\u00ecg\thuge\n", encoding="utf-8")
    output = run(capsys, "show", "B\u00ecg", "--source", "tsv", "--tsv", tsv.with_name("accents.tsv"), "--data", data)
    assert "is not a whole-word token" not in output


def test_show_of_a_missing_dictionary_is_one_line_alone(capsys, tsv, tmp_path):
    flags = ("--source", "tsv", "--tsv", tsv, "--data", tmp_path / "none")
    assert "none: no such file" in error(capsys, "show", "big", *flags)
    assert not capsys.readouterr().out


def test_show_of_what_no_source_knows_is_one_line(capsys, wordnet):
    assert "'qqq': not listed in wordnet" in error(capsys, "show", "qqq", "--source", "wordnet")


def test_show_of_a_file_that_is_not_there_is_one_line(capsys, wordnet):
    assert "--vectors /nowhere/v.txt: no such file" in error(capsys, "show", "big", "--vectors", "/nowhere/v.txt")


def test_show_goes_on_without_the_inflection_library(capsys, wordnet, monkeypatch):
    monkeypatch.setitem(sys.modules, "lemminflect", None)
    assert "not shown: lemminflect: not installed" in run(capsys, "show", "big")


def test_build_takes_every_setting(capsys, wordnet, data, tsv, tmp_path):
    exclude = tmp_path / "exclude.tsv"
    exclude.write_text("big\tlarge\n", encoding="utf-8")
    source = ("--source", "wordnet + tsv-antonyms", "--tsv", tsv, "--exclude", exclude)
    output = run(capsys, "build", "--data", data, *source)
    assert "wordnet+tsv-antonyms (WordNet 3.0) lists 7 of 12 tokens" in output, "the source in its normal form"
    (path,) = data.glob("synonyms.wordnet+tsv-antonyms-????????.npz")
    built = SynonymTable.load(path)
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *WORDS]
    spelled = {(symbols[g], symbols[s]) for g, s in zip(built.gold, built.synonym, strict=True)}
    assert {("big", "huge"), ("big", "great"), ("main", "primary")} <= spelled
    assert not {("big", "large"), ("large", "big")} & spelled
    assert "is up to date" in run(capsys, "check", "--data", data, *source)
    told = run(capsys, "check", "--data", data, "--source", "wordnet")
    assert f"{data}/synonyms.npz: not there yet; training builds it" in told


def test_stats(capsys, tmp_path):
    long = [(1, other) for other in range(2, 30)]
    table((3, 1), (4, 5), (4, 6), *long, known_words=20).save(tmp_path / "t.npz")
    output = run(capsys, "stats", tmp_path / "t.npz")
    assert "20 of 40 tokens are listed (50.00 %)" in output
    assert "3 tokens have a usable synonym (7.50 %)" in output
    assert "31, of which 2 are mutual (6.45 %)" in output
    assert "mean 10.3, median 2, at most 28 synonyms" in output
    bars = [line.split() for line in output.splitlines() if "#" in line]
    assert [(bar[0], bar[-1]) for bar in bars] == [("1", "1"), ("2", "1"), ("21+", "1")]


def test_stats_of_an_empty_table(capsys, tmp_path):
    table().save(tmp_path / "t.npz")
    assert "0 tokens have a usable synonym" in run(capsys, "stats", tmp_path / "t.npz")


def test_compare_counts_and_spells(capsys, wordnet, data, tsv, tmp_path):
    left, right = tmp_path / "a.npz", tmp_path / "b.npz"
    run(capsys, "build", "--data", data, "--output", left)
    run(capsys, "build", "--data", data, "--source", "wordnet&wordnet+tsv", "--tsv", tsv, "--output", right)
    output = run(capsys, "compare", left, right, "--data", data)
    assert "only in A: 0 pairs over 0 keys" in output
    assert "only in B: 1 pairs over 1 keys\n  big -> huge" in output
    assert "big -> large" in output
    assert "->" not in run(capsys, "compare", left, right), "words are spelled with --data only"


def test_comparison_is_exact():
    left, right = table((1, 2), (1, 3), (39, 0)), table((1, 3), (2, 1), (39, 0), (39, 1))
    found = TableComparison.of(left, right, "a", "b")
    assert found.both.tolist() == [[1, 3], [39, 0]]
    assert found.only_left.tolist() == [[1, 2]]
    assert found.only_right.tolist() == [[2, 1], [39, 1]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"fingerprint": "g"}, "belongs to another dictionary"), ({"tokenization": "wordpiece"}, "for wordpiece tokens")],
)
def test_tables_that_cannot_be_compared_are_one_line(changes, message):
    with pytest.raises(TrueNegError, match=message):
        TableComparison.of(table((1, 2)), table((1, 2), **changes), "a.npz", "b.npz")


def test_a_grid_has_a_row_a_name():
    grid = list(name_grid(["a", "long_name"], {"one": ["a"], "two": {"a", "long_name"}}))
    assert grid == ["          one two", "a          x   x", "long_name      x"]


def test_the_real_command(wordnet, tsv):
    result = run_command(truneg("synonyms", "show", "big", "--tsv", tsv))
    assert "huge" in result.stdout
    assert result.stderr == ""
