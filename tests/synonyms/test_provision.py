"""The tables of training runs: built once, found by their source, and refused where they are from another one."""

from __future__ import annotations

import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import SourceOptions, SynonymTable, build
from truneg_fairseq.synonyms.build import new_table, provide_table
from truneg_fairseq.vocabulary import Vocabulary


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.from_symbols(["<s>", "big", "large", "huge", "main", "primary"], "words")


@pytest.fixture
def own(vocabulary, tmp_path) -> SynonymTable:
    """A table of a list of one pair."""
    (tmp_path / "own.tsv").write_text("big\thuge\n", encoding="utf-8")
    return new_table(vocabulary, "tsv", SourceOptions(tsv=tmp_path / "own.tsv"))


def pairs(table: SynonymTable) -> list[tuple[int, int]]:
    return list(zip(table.gold.tolist(), table.synonym.tolist(), strict=True))


def test_a_table_is_built_from_an_expression_and_found_again(vocabulary, tmp_path, wordnet, monkeypatch):
    built = provide_table(vocabulary, tmp_path, source="wordnet & wordnet")
    assert built.source == "wordnet&wordnet"
    assert (tmp_path / "synonyms.wordnet,wordnet.npz").exists()
    monkeypatch.setattr(build, "build_table", None)  # not needed again
    assert pairs(provide_table(vocabulary, tmp_path, source="wordnet&wordnet")) == pairs(built)


def test_a_given_table_from_another_source_is_refused(vocabulary, own, tmp_path):
    own.save(tmp_path / "own.npz")
    assert pairs(provide_table(vocabulary, tmp_path / "data", tmp_path / "own.npz", "tsv")) == [(1, 3)]
    message = r"own\.npz: its synonyms are from tsv, but --synonym-source is wordnet; .*leave --synonym-table out"
    with pytest.raises(TrueNegError, match=message):
        provide_table(vocabulary, tmp_path / "data", tmp_path / "own.npz", "wordnet")


def test_runs_with_other_sources_share_a_folder(vocabulary, own, tmp_path, wordnet):
    own.save(tmp_path / "synonyms.tsv.npz")
    assert pairs(provide_table(vocabulary, tmp_path, source="tsv")) == [(1, 3)]
    assert not (tmp_path / "synonyms.npz").exists(), "it would be the table of runs that ask for no source"
    assert provide_table(vocabulary, tmp_path).source == "wordnet"
    own.save(tmp_path / "synonyms.npz")
    assert provide_table(vocabulary, tmp_path, source="wordnet").source == "wordnet"
    assert provide_table(vocabulary, tmp_path).source == "tsv"
    own.save(tmp_path / "synonyms.wordnet.npz")
    with pytest.raises(TrueNegError, match=r"synonyms\.wordnet\.npz: its synonyms are from tsv, .*; remove it, and it"):
        provide_table(vocabulary, tmp_path, source="wordnet")


def test_the_log_says_which_table_is_used(vocabulary, tmp_path, wordnet, caplog):
    caplog.set_level("INFO", logger="truneg_fairseq")
    for _ in ("built", "loaded"):
        caplog.clear()
        provide_table(vocabulary, tmp_path)
        table = f"synonym table {tmp_path}/synonyms.npz: wordnet (WordNet 3.0)"
        assert f"{table} lists 5 of 6 tokens (83.33 %); 4 usable pairs" in caplog.text


def test_another_version_of_the_package_has_its_own_cache(vocabulary, tmp_path, wordnet, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = build.cache_path(vocabulary, "wordnet")
    provide_table(vocabulary, tmp_path)
    monkeypatch.setattr(build, "VERSION", "9.0")
    assert build.cache_path(vocabulary, "wordnet") != cached
    assert "was built by" not in caplog.text
    provide_table(vocabulary, tmp_path)
    assert f"{tmp_path}/synonyms.npz: was built by another version than 9.0" in caplog.text


def test_another_tokenization_of_the_same_symbols_has_its_own_cache(vocabulary):
    added = Vocabulary.from_symbols(vocabulary.symbols, "words", special=["<s>", "big"])
    assert build.cache_path(added, "wordnet") != build.cache_path(vocabulary, "wordnet")


def test_no_table_is_built_that_needs_more_than_its_source(vocabulary, tmp_path):
    source = r"wordnet\+embeddings-antonyms\+tsv"
    with pytest.raises(TrueNegError, match=f"--synonym-source {source}: needs --vectors and --tsv of 'truneg"):
        provide_table(vocabulary, tmp_path, source=source.replace("\\", ""))
