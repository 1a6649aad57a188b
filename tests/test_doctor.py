"""truneg doctor on an installation; tests/training_folder has it on the folders of runs."""

from __future__ import annotations

from truneg_fairseq import doctor
from truneg_fairseq.training_folder import manifest


def test_an_installation_without_fairseq_is_right(wordnet, monkeypatch):
    found = manifest.versions()
    monkeypatch.setattr(manifest, "versions", lambda: found | dict.fromkeys(doctor._WITH_FAIRSEQ))
    findings = list(doctor.check_installation())
    assert all(finding.good for finding in findings), findings
    assert sum("not installed: needed for training with fairseq" in finding.text for finding in findings) == 3
    monkeypatch.setattr(manifest, "versions", lambda: found | {"nltk": None, "omegaconf": None})
    wrong = [finding.text for finding in doctor.check_installation() if not finding.good]
    assert wrong == ["omegaconf is not installed: pip install omegaconf", "nltk is not installed: pip install nltk"]
