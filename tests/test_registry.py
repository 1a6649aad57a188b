"""Ideas by name."""

from __future__ import annotations

import hashlib
import sys

import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.registry import Registry, import_user_dir


@pytest.fixture
def registry():
    return Registry("yardstick", {"cloze": "evaluation.cloze:Cloze", "held-out": "evaluation.held_out:HeldOut"})


def test_names_are_looked_up(registry):
    @registry.register("mine")
    class Mine:
        pass

    assert registry.look_up("mine", "--task") is Mine
    assert registry.look_up("cloze", "--task").__name__ == "Cloze"
    assert registry.names == ("cloze", "held-out", "mine")
    with pytest.raises(TrueNegError, match=r"^--task heldout: found no yardstick .* did you mean held-out\?$"):
        registry.look_up("heldout", "--task")


@pytest.mark.parametrize("name", ["cloze", "two words", "a=b", ""])
def test_names_that_are_taken_or_have_other_signs_are_refused(registry, name):
    with pytest.raises(TrueNegError, match="expected"):
        registry.register(name)(type("Mine", (), {}))


def test_a_class_that_is_imported_anew_takes_over(registry):
    first, again = (type("Mine", (), {}) for _ in range(2))
    registry.register("mine")(first)
    registry.register("mine")(again)
    assert registry.look_up("mine", "--task") is again
    with pytest.raises(TrueNegError, match="is the name of"):
        registry.register("mine")(type("Other", (), {}))


def test_a_folder_is_imported_once_and_its_ideas_have_digests(tmp_path, monkeypatch, registry):
    folder = tmp_path / "some_ideas_of_mine"
    folder.mkdir()
    with pytest.raises(TrueNegError, match="no __init__"):
        import_user_dir(folder)
    (folder / "__init__.py").write_text("class Mine:\n    pass\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, folder.name, raising=False)
    import_user_dir(folder)
    module = sys.modules[folder.name]
    import_user_dir(f"{folder}/")
    assert sys.modules[folder.name] is module
    registry.register("mine")(module.Mine)
    digests = [registry.digest("mine")]
    (folder / "words.txt").write_text("data\n")
    digests.append(registry.digest("mine"))
    (folder / "other.py").write_text("another idea\n")
    (folder / ".hidden").write_text("of an editor\n")
    assert registry.digest("mine") == digests[1]
    (folder / "__init__.py").write_text("class Mine:\n    other = True\n")
    assert len({*digests, registry.digest("mine")}) == 3
    assert registry.digest("cloze") is None
    other = tmp_path / "elsewhere" / folder.name
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    with pytest.raises(TrueNegError, match=f"--user-dir {other}: another module is named {folder.name}"):
        import_user_dir(other)


def test_the_digest_of_a_class_that_was_typed_in_is_that_of_its_source_or_none(registry, monkeypatch):
    registry.register("typed")(type("Mine", (), {"__module__": "__main__"}))
    assert registry.digest("typed") is None
    monkeypatch.setattr("inspect.getsource", lambda kind: "class Mine: ...")
    assert registry.digest("typed") == hashlib.sha256(b"class Mine: ...").hexdigest()
