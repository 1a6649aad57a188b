"""Who may import whom: downwards only, no circles, and the mathematics without fairseq."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest
from support.commands import PLUGIN, run_command

# From the bottom up. What stands in one line does not import each other.
LAYERS = """
errors
files flags
registry
workers
vocabulary
data
corpus_counts synonyms
objectives
testing fairseq_runs
hf
optim
models
criterions tasks
results
convert launch
finetuning
evaluation
experiments
commands
"""
RANK = {room: rank for rank, line in enumerate(LAYERS.split("\n")) for room in line.split()}


# The package's modules by dotted name below the package; the package itself is "".
MODULES = {
    ".".join(path.relative_to(PLUGIN).with_suffix("").parts).removesuffix("__init__").rstrip("."): path
    for path in PLUGIN.rglob("*.py")
}


def imports_of(name: str, *, at_start: bool = False) -> Iterator[str]:
    """The package's modules that a module names in its imports; only those of its start, if wanted."""
    path = MODULES[name]
    package = name.split(".") if path.name == "__init__.py" and name else name.split(".")[:-1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if at_start else ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (node.module or "").split(".")
            for alias in node.names:
                whole = ".".join(filter(None, [*base, alias.name]))
                yield whole if whole in MODULES else ".".join(filter(None, base))
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            assert not any(str(imported).startswith(PLUGIN.name) for imported in names), f"{path}: not relative"


def test_every_module_has_a_layer():
    assert {name.split(".")[0] for name in MODULES} - {""} == RANK.keys()


def test_imports_lead_down():
    for name in filter(None, MODULES):
        room = name.split(".")[0]
        for imported in imports_of(name):
            other = imported.split(".")[0]
            # The package itself stands for register(), which imports all that register themselves with fairseq.
            upwards = other not in ("", room) and RANK[other] >= RANK[room]
            assert not upwards, f"{name} imports {imported}"
            assert other or RANK[room] >= RANK["convert"], f"{name} imports the package itself"


def test_no_module_imports_itself_through_others():
    graph = {name: set(imports_of(name)) - {""} for name in MODULES if name}
    # A folder's __init__ that gathers its modules is no circle with those that import each other.
    gatherers = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    try:
        TopologicalSorter({name: found - gatherers for name, found in graph.items()}).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("objectives", "fairseq transformers nltk hydra omegaconf"),
        ("synonyms", "fairseq torch hydra omegaconf"),
        ("results.page", "fairseq torch hydra omegaconf"),
        ("commands.main", "fairseq torch hydra omegaconf"),
    ],
)
def test_what_is_light_stays_light(module, absent):
    """In a fresh process."""
    code = f"import sys, truneg_fairseq.{module}; print(*sys.modules)"
    names = run_command([sys.executable, "-c", code], fresh=True).stdout.split()
    loaded = {name.partition(".")[0] for name in names}
    assert not loaded & set(absent.split())


def test_the_mathematics_needs_torch_only():
    outside = set()
    # build.py reads what the options name, such as a teacher of transformers.
    for path in {*(PLUGIN / "objectives").glob("*.py")} - {PLUGIN / "objectives" / "build.py"}:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                outside |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                outside.add(str(node.module).partition(".")[0])
    assert outside - sys.stdlib_module_names == {"torch"}
