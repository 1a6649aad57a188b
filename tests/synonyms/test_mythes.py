"""LibreOffice's thesauri: small files in their format, and Debian's English one where it is installed."""

from __future__ import annotations

import pytest

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import LexiconSettings, SynonymTable, open_lexicon
from truneg_fairseq.synonyms.mythes import FOLDER

THESAURUS = """UTF-8
big|2
(adj)|large|huge (similar term)|small (antonym)|great big (informal)
(verb)|≠ little|swell (Oberbegriff)
haus|1
-|Haus|Heim|(altes) Gemäuer (ugs., veraltet)
Москва|2
(синоним)|столица
(антоним)|деревня
"""


@pytest.fixture
def thesaurus(tmp_path):
    path = tmp_path / "th_xx_v2.dat"
    path.write_text(THESAURUS, encoding="utf-8")
    return path


def opened(path, lang="eng"):
    return open_lexicon("mythes", LexiconSettings(lang=lang, thesaurus=path))


def test_synonyms_alone_without_their_notes(thesaurus):
    lexicon = opened(thesaurus)
    assert lexicon.synonyms("Big") == ["big", "large", "great_big"]
    assert lexicon.synonyms("Haus") == ["Haus", "Heim", "Gemäuer"]
    assert lexicon.synonyms("москва") == ["Москва", "столица"]
    assert lexicon.synonyms("huge") == []
    assert "the" in lexicon.stop_words
    assert lexicon.options["mythes"] == "th_xx_v2.dat"
    assert len(lexicon.options["thesaurus_sha256"]) == 64


@pytest.mark.parametrize(("named", "encoding"), [("ISO8859-2", "iso8859-2"), ("microsoft-cp1251", "cp1251")])
def test_the_first_line_names_the_encoding(tmp_path, named, encoding):
    word = "zażółć" if encoding == "iso8859-2" else "город"
    path = tmp_path / "th.dat"
    path.write_bytes(f"{named}\r\n{word}|1\r\n-|{word}{word}\r\n".encode(encoding))
    assert opened(path).synonyms(word) == [word, word * 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 no thesaurus\n", r"its first line is 'PK.*expected an encoding"),
        (b"UTF-8\nbig|2\n(adj)|large\n", r"line 2 is 'big\|2', expected 'word\|number' and that many lines"),
        (b"UTF-8\nbig|" + b"9" * 5_000 + b"\n-|x\n", r"line 2 is 'big\|999.*expected 'word\|number'"),
        (b"UTF\0-8\nbig|1\n-|x\n", "its first line is .*expected an encoding"),
        (b"hex\nbig|1\n-|x\n", "its first line is 'hex', expected an encoding"),
        (b"UTF-8\nbig\n", r"line 2 is 'big', expected 'word\|number'"),
        (b"UTF-8\n", "lists no word"),
        (b"UTF-8\nbig|1\n-|\xff\n", "line 3 is not UTF-8"),
    ],
)
def test_what_is_no_thesaurus_is_refused(tmp_path, content, message):
    path = tmp_path / "th.dat"
    path.write_bytes(content)
    with pytest.raises(TrueNegError, match=message):
        opened(path)


def test_a_thesaurus_that_is_not_installed_is_told(tmp_path):
    with pytest.raises(TrueNegError, match=r"--lang zul: found no th_zu_\*.dat in .*--thesaurus"):
        open_lexicon("mythes", LexiconSettings(lang="zul"))
    with pytest.raises(TrueNegError, match="cannot be read"):
        opened(tmp_path / "missing.dat")
    with pytest.raises(TrueNegError, match="--source: mythes needs --lang"):
        open_lexicon("mythes")
    with pytest.raises(TrueNegError, match=r"--thesaurus .*: has no effect on the source wordnet; expected mythes"):
        open_lexicon("wordnet", LexiconSettings(thesaurus=tmp_path))


def test_a_table_is_built_from_it(tmp_path, thesaurus, capsys):
    (tmp_path / "dict.txt").write_text("big 1\nlarge 1\nhuge 1\nsmall 1\n", encoding="utf-8")
    lexicon = ["--source", "mythes", "--lang", "eng", "--thesaurus", str(thesaurus)]
    main(["synonyms", "build", "--data", str(tmp_path), "--tokenization", "words", *lexicon])
    table = SynonymTable.load(tmp_path / "synonyms.npz")
    assert (table.gold.tolist(), table.synonym.tolist()) == ([4], [5])
    assert "wrote" in capsys.readouterr().out


@pytest.mark.skipif(not (FOLDER / "th_en_US_v2.dat").exists(), reason="Debian's mythes-en-us is not installed")
def test_the_english_thesaurus_lists_wordnets_synonyms(wordnet):
    """It was made from WordNet, so that its synonyms of base forms, without similar terms, are WordNet's."""
    lexicon, reference = open_lexicon("mythes", LexiconSettings(lang="eng")), open_lexicon("wordnet")
    for word in ("primary", "main", "car", "quick"):
        names, known = set(map(str.lower, lexicon.synonyms(word))), set(map(str.lower, reference.synonyms(word)))
        assert len(names & known) > 2
        assert len(names - known) <= 1
