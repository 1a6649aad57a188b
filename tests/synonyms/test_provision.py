"""The tables of training runs from every source: built once, checked against the flags, cached by what made them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from support.commands import PLUGIN, TINY_MODEL, TINY_TRAINING, fairseq_train, run_command

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import LexiconSettings, SynonymTable, provision
from truneg_fairseq.synonyms.provision import provide_table
from truneg_fairseq.vocabulary import Vocabulary, read_symbols


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary.from_symbols(["<s>", "big", "large", "huge", "main", "primary"], "words")


@pytest.fixture
def tsv(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text("big\thuge\n", encoding="utf-8")
    return path


def pairs(table: SynonymTable) -> list[tuple[int, int]]:
    return list(zip(table.gold.tolist(), table.synonym.tolist(), strict=True))


def test_a_table_is_built_from_an_expression_and_found_again(vocabulary, tsv, tmp_path, wordnet, monkeypatch):
    settings = LexiconSettings(tsv=tsv)
    built = provide_table(vocabulary, tmp_path, source="wordnet + tsv", settings=settings)
    assert (1, 2) in pairs(built) and (1, 3) in pairs(built)
    assert built.source == "wordnet+tsv"
    monkeypatch.setattr(provision, "build_table", None)  # not needed again
    assert pairs(provide_table(vocabulary, tmp_path, source="wordnet+tsv", settings=settings)) == pairs(built)


def given(vocabulary, path, source=None, **settings) -> SynonymTable:
    """With --synonym-table."""
    flags = LexiconSettings(**settings, flags="--synonym-")
    return provide_table(vocabulary, path.parent / "data", path, source=source, settings=flags)


def test_a_given_table_from_another_file_is_refused(vocabulary, tsv, tmp_path):
    path = tmp_path / "own.npz"
    provide_table(vocabulary, tmp_path, source="tsv", settings=LexiconSettings(tsv=tsv)).save(path)
    moved = tsv.rename(tmp_path / "moved.tsv")
    given(vocabulary, path, "tsv", tsv=moved)  # the content counts
    moved.write_text("big\tlarge\n", encoding="utf-8")
    with pytest.raises(TrueNegError, match=r"own\.npz: was built with tsv_sha256 \w{12}, but --synonym-tsv gives"):
        given(vocabulary, path, "tsv", tsv=moved)
    with pytest.raises(
        TrueNegError, match=r"are from tsv, but --synonym-source is wordnet; .*leave --synonym-table out"
    ):
        given(vocabulary, path, "wordnet")


def test_runs_with_other_sources_and_settings_share_a_folder(vocabulary, tsv, tmp_path, wordnet):
    own = LexiconSettings(tsv=tsv)
    assert pairs(provide_table(vocabulary, tmp_path, source="tsv", settings=own)) == [(1, 3)]
    assert not (tmp_path / "synonyms.npz").exists(), "it would be the table of runs that ask for no source"
    assert provide_table(vocabulary, tmp_path).source == "wordnet"
    tsv.write_text("big\tlarge\n", encoding="utf-8")
    assert pairs(provide_table(vocabulary, tmp_path, source="tsv", settings=own)) == [(1, 2)]
    assert len(list(tmp_path.glob("synonyms.tsv-????????.npz"))) == 2
    (tmp_path / "synonyms.npz").unlink()
    provide_table(vocabulary, tmp_path, source="tsv", settings=own).save(tmp_path / "synonyms.npz")
    assert provide_table(vocabulary, tmp_path, source="wordnet").source == "wordnet"
    assert provide_table(vocabulary, tmp_path).source == "tsv"
    assert (tmp_path / "synonyms.wordnet.npz").exists()
    (tmp_path / "synonyms.wordnet.npz").unlink()
    exclude = tmp_path / "exclude.tsv"
    exclude.write_text("main\tprimary\n", encoding="utf-8")
    given = provide_table(vocabulary, tmp_path, settings=LexiconSettings(exclude=exclude))
    given.save(tmp_path / "synonyms.wordnet.npz")
    with pytest.raises(TrueNegError, match=r"synonyms\.wordnet\.npz: was built with .*; remove it, and it is built"):
        provide_table(vocabulary, tmp_path, source="wordnet")


def test_the_log_says_which_table_is_used(vocabulary, tmp_path, wordnet, caplog):
    caplog.set_level("INFO", logger="truneg_fairseq")
    for _ in ("built", "loaded"):
        caplog.clear()
        provide_table(vocabulary, tmp_path)
        table = f"synonym table {tmp_path}/synonyms.npz: wordnet (WordNet 3.0)"
        assert f"{table} lists 5 of 6 tokens (83.33 %); 4 usable pairs" in caplog.text


TRAIN = ["--criterion", "masked_lm_hc", "--user-dir", PLUGIN, *TINY_TRAINING, *TINY_MODEL, "--no-save"]


def train(data, *flags, check=True):
    return run_command([*fairseq_train(data, *TRAIN, "--max-update", "1", *flags)], check=check)


def test_fairseq_train_reaches_every_flag(binarized, tmp_path, wordnet):
    data = tmp_path / "data"
    shutil.copytree(binarized, data, ignore=shutil.ignore_patterns("*synonyms*"))
    words = [word for word in Vocabulary.from_symbols(read_symbols(data)).words if word is not None]
    rng = np.random.default_rng(1)
    rows = ("".join(f" {value:.4f}" for value in rng.standard_normal(5)) for _ in words)
    vectors, own, exclude = (tmp_path / name for name in ("vectors.txt", "own.tsv", "exclude.tsv"))
    vectors.write_text("".join(f"{word}{row}\n" for word, row in zip(words, rows, strict=True)), encoding="utf-8")
    own.write_text("table\tseven\n", encoding="utf-8")
    exclude.write_text("main\tprimary\n", encoding="utf-8")
    source = ("--synonym-source", "wordnet+embeddings-antonyms+tsv", "--synonym-vectors", vectors)
    flags = ("--synonym-neighbours", 3, "--synonym-threshold", 0.2, "--synonym-tsv", own)
    result = train(data, *source, *flags, "--synonym-exclude", exclude)
    (path,) = data.glob("synonyms*.npz")
    assert f"synonym table {path}: wordnet+embeddings-antonyms+tsv (WordNet 3.0) lists " in result.stdout
    table = SynonymTable.load(path)
    assert table.source == "wordnet+embeddings-antonyms+tsv"
    assert (table.options["neighbours"], table.options["threshold"]) == (3, 0.2)
    assert {"vectors_sha256", "tsv_sha256", "exclude_sha256"} <= set(table.options)
    symbols = read_symbols(data)
    spelled = {(symbols[g], symbols[s]) for g, s in pairs(table)}
    assert ("table", "seven") in spelled
    assert ("main", "primary") not in spelled
    again = train(data, *source, "--synonym-tsv", own, "--synonym-table", path, check=False)
    assert again.returncode == 1
    assert "was built with neighbours 3, but --synonym-neighbours gives 10" in again.stderr
    assert "Traceback" not in again.stderr
