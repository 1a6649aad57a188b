"""The pages: links lead somewhere."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from support.commands import REPOSITORY

FOLDERS = ("benchmarks", "data-bin-scripts", "docs", "tests", "truneg_fairseq", "user_dir_examples")
FILES = [*REPOSITORY.glob("*.md"), *(path for name in FOLDERS for path in (REPOSITORY / name).rglob("*.*"))]
PAGES = sorted(str(path.relative_to(REPOSITORY)) for path in FILES if path.suffix == ".md")


def without_code(text: str) -> str:
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(page: Path) -> set[str]:
    """Those that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_and_headings(name):
    page = REPOSITORY / name
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


def test_pages_that_code_and_examples_name_are_there():
    wrong = []
    for path in FILES:
        if path.suffix in {".py", ".yaml", ".md"} and path != Path(__file__):
            named = re.findall(r"(?<![\w./])docs/[\w/]+\.(?:md|svg|png|jsonl)\b", path.read_text(encoding="utf-8"))
            wrong += [f"{path}: {page}" for page in named if not (REPOSITORY / page).exists()]
    assert wrong == []
