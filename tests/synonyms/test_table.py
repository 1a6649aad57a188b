"""Tables from real WordNet, and their files."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest
from support.commands import bert_vocabulary

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import Lexicon, SourceOptions, SynonymTable, build_table, building, open_lexicon
from truneg_fairseq.synonyms.building import new_table, predictable_names, provide_table
from truneg_fairseq.vocabulary import Vocabulary, read_symbols

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]


class SmallLexicon(Lexicon):
    """A lexicon of three entries."""

    source = "small"
    options: ClassVar = {"edition": 1}
    stop_words = frozenset({"the"})

    def synonyms(self, word: str) -> list[str]:
        return {
            "primary": ["Chief", "main", "primary", "primary_coil"],
            "Primary": ["chief", "main", "primary"],
            "PRIMARY": ["main"],
            "the": ["main"],
        }.get(word, [])


def vocabulary_of(words: list[str]) -> Vocabulary:
    return Vocabulary.from_symbols([*SPECIALS, *words, "<mask>"], "wordpiece")


def named(lexicon: Lexicon, vocabulary: Vocabulary) -> set[tuple[str, str]]:
    table = build_table(lexicon, vocabulary)
    pairs = zip(table.gold, table.synonym, strict=True)
    return {(vocabulary.symbols[gold], vocabulary.symbols[synonym]) for gold, synonym in pairs}


def test_a_table_lists_only_other_single_tokens_and_nothing_for_stop_words():
    vocabulary = vocabulary_of(["primary", "main", "chief", "the"])
    assert named(SmallLexicon(), vocabulary) == {("primary", "main"), ("primary", "chief")}
    table = build_table(SmallLexicon(), vocabulary)
    assert table.known_words == 2, "stop words are known words"
    assert table.coverage == 2 / 9
    assert [table.synonyms(token).tolist() for token in (4, 5)] == [[5, 6], []]


def test_a_cased_vocabulary_keeps_the_case_of_the_gold_word_which_is_no_synonym_of_itself():
    vocabulary = vocabulary_of(["primary", "Primary", "PRIMARY", "main", "Main", "MAIN", "chief", "Chief"])
    assert named(SmallLexicon(), vocabulary) == {
        *(("primary", "main"), ("primary", "Chief"), ("PRIMARY", "main"), ("PRIMARY", "MAIN")),
        *(("Primary", "main"), ("Primary", "Main"), ("Primary", "chief"), ("Primary", "Chief")),
    }
    for word in ("Primary", "primary", "PRIMARY"):
        assert set(predictable_names(["primary", "Primary", "main"], word, vocabulary)) == {"main"}


def test_coverage_of_the_bert_vocabulary(wordnet, tmp_path):
    """62.5 % of the entries (footnote 5 of the paper: 62.51 %; NLTK's morphology differs a little by version)."""
    tokens = bert_vocabulary().read_text(encoding="utf-8").splitlines()
    specials = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    vocabulary = Vocabulary.from_symbols([*SPECIALS, *(t for t in tokens if t not in specials), "<mask>"])
    assert len(vocabulary) == 30_522
    table = build_table(open_lexicon("wordnet"), vocabulary)
    assert round(100 * table.coverage, 1) == 62.5
    assert len(table) == pytest.approx(59_677, abs=60)
    assert len(np.unique(table.gold)) == pytest.approx(13_395, abs=15)
    assert np.bincount(table.gold).max() == 55
    table.save(tmp_path / "t.npz")
    assert (tmp_path / "t.npz").stat().st_size < 1e6


def table_of(listed: set[tuple[int, int]], **changes) -> SynonymTable:
    rows = np.array(sorted(listed), dtype=np.int32).reshape(-1, 2)
    values = {"gold": rows[:, 0].copy(), "synonym": rows[:, 1].copy(), "vocabulary_size": 50, "fingerprint": "f" * 64}
    values |= {"tokenization": "words", "source": "small", "options": {"edition": 1}, "known_words": 7}
    return SynonymTable(**{**values, **changes})


def test_a_table_of_another_dictionary_is_refused(binarized, tmp_path):
    vocabulary = Vocabulary.from_symbols(read_symbols(binarized), "wordpiece")
    table_of({(1, 2)}).save(tmp_path / "t.npz")
    with pytest.raises(TrueNegError, match=r"t\.npz: belongs to another dictionary \(fingerprint f{12}, 50 tokens"):
        provide_table(vocabulary, tmp_path, tmp_path / "t.npz")


@pytest.mark.parametrize("listed", [{(-1, 2)}, {(1, 50)}, {(1, 2**31 - 1)}])
def test_a_table_of_ids_that_no_token_has_is_refused(listed, tmp_path):
    table_of(listed).save(tmp_path / "t.npz")
    with pytest.raises(TrueNegError, match=r"t\.npz: its pairs are not ids of its 50 tokens in their order"):
        SynonymTable.load(tmp_path / "t.npz")


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
    monkeypatch.setattr(building, "build_table", None)  # not needed again
    assert pairs(provide_table(vocabulary, tmp_path, source="wordnet&wordnet")) == pairs(built)


def test_runs_with_other_sources_share_a_folder(vocabulary, own, tmp_path, wordnet):
    own.save(tmp_path / "synonyms.tsv.npz")
    assert pairs(provide_table(vocabulary, tmp_path, source="tsv")) == [(1, 3)]
    assert not (tmp_path / "synonyms.npz").exists(), "it would be the table of runs that ask for no source"
    assert provide_table(vocabulary, tmp_path).source == "wordnet"
    own.save(tmp_path / "synonyms.npz")
    assert provide_table(vocabulary, tmp_path, source="wordnet").source == "wordnet"
    assert provide_table(vocabulary, tmp_path).source == "tsv"
    own.save(tmp_path / "synonyms.wordnet.npz")
    with pytest.raises(TrueNegError, match=r"synonyms\.wordnet\.npz: was made with --synonym-source tsv .*; remove it"):
        provide_table(vocabulary, tmp_path, source="wordnet")
    given = tmp_path / "synonyms.tsv.npz"
    assert pairs(provide_table(vocabulary, tmp_path / "data", given, "tsv")) == [(1, 3)]
    message = r"tsv\.npz: was made with --synonym-source tsv \(now wordnet\); .*leave --synonym-table out"
    with pytest.raises(TrueNegError, match=message):
        provide_table(vocabulary, tmp_path / "data", given, "wordnet")


def test_the_log_says_which_table_is_used_and_who_built_it(vocabulary, tmp_path, wordnet, monkeypatch, caplog):
    caplog.set_level("INFO", logger="truneg_fairseq")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = building.cache_path(vocabulary, "wordnet")
    for _ in ("built", "loaded"):
        caplog.clear()
        provide_table(vocabulary, tmp_path)
        table = f"synonym table {tmp_path}/synonyms.npz: wordnet (WordNet 3.0)"
        assert f"{table} lists 5 of 6 tokens (83.33 %); 4 usable pairs" in caplog.text
    assert "was built by" not in caplog.text
    monkeypatch.setattr(building, "VERSION", "9.0")
    provide_table(vocabulary, tmp_path)
    assert f"{tmp_path}/synonyms.npz: was built by another version than 9.0" in caplog.text
    added = Vocabulary.from_symbols(vocabulary.symbols, "words", special=["<s>", "big"])
    others = {building.cache_path(vocabulary, "wordnet"), building.cache_path(added, "wordnet")}
    assert len({cached, *others}) == 3, "each version, and each reading of the symbols, has its own cache"


def test_one_of_several_workers_builds_the_table(vocabulary, own, tmp_path, monkeypatch):
    """Threads have locks of their own, as workers have."""
    built = []

    def build(*_: object) -> SynonymTable:
        built.append(time.sleep(0.3))
        return own

    monkeypatch.setattr(building, "new_table", build)
    with ThreadPoolExecutor(3) as workers:
        tables = list(workers.map(lambda _: provide_table(vocabulary, tmp_path), range(3)))
    assert len(built) == 1
    assert [pairs(table) for table in tables] == [[(1, 3)]] * 3


def test_the_log_names_the_table_in_the_cache_and_two_folders_that_cannot_be_written(
    vocabulary, tmp_path, wordnet, monkeypatch, caplog
):
    caplog.set_level("INFO", logger="truneg_fairseq")
    (blocked := tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data" / ".synonyms.npz.lock").mkdir(parents=True)  # no file can be opened there
    provide_table(vocabulary, tmp_path / "data")
    told = f"{tmp_path}/data: cannot be written (Is a directory); the synonym table belongs in {tmp_path}/cache"
    assert told in caplog.text
    assert f"synonym table {tmp_path}/cache/truneg_fairseq/wordnet-" in caplog.text
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.raises(TrueNegError, match=r"file/data, .*/file/truneg_fairseq: neither can be written \(.*XDG_CACHE"):
        provide_table(vocabulary, blocked / "data")
