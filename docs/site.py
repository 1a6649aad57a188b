"""For mkdocs: the site's order is that of index.md; links to files outside docs/ become their names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """A tab for each section of index.md, with the pages that it links to."""
    sections = re.split(r"^## (.*)$", (Path(config.docs_dir) / "index.md").read_text(encoding="utf-8"), flags=re.M)
    config.nav = [{"Start page": "index.md"}] + [
        {title.split(":")[0]: list(dict.fromkeys(re.findall(r"\]\(([\w/]+\.md)\)", text)))}
        for title, text in zip(sections[1::2], sections[2::2], strict=True)
    ]
    return config


def on_page_markdown(markdown: str, page: Any, **unused: Any) -> str:
    """README.md and the like are in the repository, not on the site."""
    depth = page.file.src_uri.count("/") + 1
    return re.sub(rf"\[([^\]]*)\]\((?:\.\./){{{depth}}}([^)#]+)(?:#[^)]*)?\)", r"\1 (`\2`)", markdown)
