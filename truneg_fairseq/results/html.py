"""Pages: one HTML file without network, all text escaped, whose only script sorts and filters tables."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..files import replacing_text
from .charts import DARK, LIGHT, Chart
from .tables import Table

_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str  # what it says
    kind: str = ""  # a CSS class of the style sheet: "right", "false-negative", "true-negative", "differs", "long"
    anchor: str = ""  # its id, for links to it


@dataclass(frozen=True)
class Word:
    """A word of a sentence."""

    text: str  # as it is read, with the white space before it
    kind: str = ""  # see :class:`Cell`; "" for one that was not looked at
    hint: str = ""  # what a pointer shows
    link: str = ""  # the anchor that it leads to
    prediction: str = ""  # what was predicted in its place, shown behind it


@dataclass(frozen=True)
class Section:
    """A part of a page."""

    title: str
    anchor: str  # its id
    warnings: Sequence[str] = ()  # what a reader must know before believing it
    notes: Sequence[str] = ()  # paragraphs
    words: Sequence[Word] = ()  # a sentence in colours
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    footnotes: Sequence[str] = ()  # paragraphs below the tables


@dataclass(frozen=True)
class Page:
    title: str
    notes: Sequence[str]  # paragraphs below the title
    sections: Sequence[Section]
    legend: Sequence[Word] = ()  # what the colours of words mean, as words

    def write(self, path: Path) -> None:
        """Writes the file, whole or not at all."""
        with replacing_text(path) as stream:
            stream.write(self.render())

    def render(self) -> str:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        script = (_TEMPLATES / "tables.js").read_text(encoding="utf-8")
        # Even if some text were not escaped, a browser would run no script but this one and fetch nothing.
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
        settings = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
        template = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, **settings).get_template(
            "page.html"
        )
        html: str = template.render(page=self, policy=policy, script=script, light=LIGHT, dark=DARK)
        return html.encode("utf-8", "replace").decode()  # a folder's name need not be UTF-8
