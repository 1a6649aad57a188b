"""truneg synonyms build and show."""

from __future__ import annotations

import pytest

from truneg_fairseq.commands.main import main
from truneg_fairseq.synonyms import SynonymTable

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
    without = run(capsys, "show", "big", "--data", data)
    assert "not shown: source tsv: needs --tsv, an option of 'truneg synonyms build'" in without


def test_build_writes_over_none_of_its_inputs_and_says_that_it_replaces_a_table(capsys, data, tsv):
    for flag, path in (("tsv", tsv), ("data", data / "dict.txt")):
        before = path.read_bytes()
        words = ("synonyms", "build", "--data", data, "--source", "tsv", "--tsv", tsv, "--output", path)
        with pytest.raises(SystemExit, match=f"--output {path}: is the file of --{flag} too; expected different files"):
            main([*map(str, words)])
        assert path.read_bytes() == before

    (loop := tsv.with_name("loop")).symlink_to(loop)
    with pytest.raises(
        SystemExit, match=rf"error: Symlink loop from '{loop}'; expected a file|{loop}: Too many levels"
    ):
        main(["synonyms", "build", "--data", str(data), "--source", "tsv", "--tsv", str(loop)])
    words = ("build", "--data", data, "--source", "tsv", "--tsv", tsv)
    assert "in place of" not in run(capsys, *words) + run(capsys, *words)
    tsv.write_text("big\tlarge\n", encoding="utf-8")
    assert "in place of another table: tsv lists 1 of 12 tokens" in run(capsys, *words)


def test_build_takes_every_setting(capsys, wordnet, data, tsv, tmp_path):
    exclude = tmp_path / "exclude.tsv"
    exclude.write_text("big\tlarge\n", encoding="utf-8")
    source = ("--source", "wordnet + tsv-antonyms", "--tsv", tsv, "--exclude", exclude)
    output = run(capsys, "build", "--data", data, *source)
    assert "wordnet+tsv-antonyms (WordNet 3.0) lists 7 of 12 tokens" in output, "the source in its normal form"
    built = SynonymTable.load(data / "synonyms.wordnet+tsv-antonyms.npz")
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *WORDS]
    spelled = {(symbols[g], symbols[s]) for g, s in zip(built.gold, built.synonym, strict=True)}
    assert {("big", "huge"), ("big", "great"), ("main", "primary")} <= spelled
    assert not {("big", "large"), ("large", "big")} & spelled


def test_compare_counts_and_spells(capsys, wordnet, data, tsv, tmp_path):
    left, right = tmp_path / "a.npz", tmp_path / "b.npz"
    run(capsys, "build", "--data", data, "--output", left)
    run(capsys, "build", "--data", data, "--source", "wordnet&wordnet+tsv", "--tsv", tsv, "--output", right)
    output = run(capsys, "show", left, right, "--data", data)
    assert "only in A: 0 pairs over 0 keys" in output
    assert "only in B: 1 pairs over 1 keys\n  big -> huge" in output
    assert "big -> large" in output
    assert "->" not in run(capsys, "show", left, right), "words are spelled with --data only"
