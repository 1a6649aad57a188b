"""The package with and without fairseq."""

from __future__ import annotations

import sys

import pytest
from support.cli_runs import assert_one_line
from support.commands import PLUGIN, REPOSITORY, run_command, truneg


@pytest.mark.parametrize(
    ("name", "version", "found"),
    [
        ("fairseq", "0.12.2", "fairseq 0.12.2"),
        ("fairseq-fixed", "0.13.0", "fairseq-fixed 0.13.0"),
        ("", "", "fairseq of an unknown version"),
    ],
)
def test_any_other_fairseq_is_refused_with_one_line_when_the_plugin_is_loaded(name, version, found):
    program = (
        "import fairseq, importlib.metadata as m; stock = m.version\n"
        "def version(name):\n"
        f"    if name == {name!r}: return {version!r}\n"
        "    if name.startswith('fairseq'): raise m.PackageNotFoundError(name)\n"
        "    return stock(name)\n"
        "m.version = version\n"
        "import truneg_fairseq"
    )
    result = run_command([sys.executable, "-c", program], check=False)
    assert_one_line(result, f"found {found}, expected fairseq-fixed 0.12.3.x; run: pip uninstall")


@pytest.mark.parametrize("size", [1, 10**6], ids=["waits for room", "is inside torch"])
def test_python_ends_while_batches_are_read_ahead(size):
    program = (
        "import atexit, threading, time, torch\n"
        "from fairseq.data.iterators import BufferedIterator\n"
        "atexit.register(lambda: print('threads left:', threading.active_count()))\n"
        "import truneg_fairseq\n"
        "class Batches:\n"
        "    def __len__(self): return 10**9\n"
        "    def __iter__(self): return (torch.stack([torch.ones(9)] * 9).sum() for _ in range(len(self)))\n"
        f"next(BufferedIterator({size}, Batches()))\n"
        "time.sleep(0.2)"
    )
    assert "threads left: 1\n" in run_command([sys.executable, "-c", program]).stdout


def test_registering_twice_changes_nothing():
    program = (
        "import truneg_fairseq, fairseq\n"
        "truneg_fairseq.register(); from fairseq.distributed import utils; first = utils.call_main\n"
        "truneg_fairseq.register(); assert utils.call_main is first\n"
        "from fairseq.criterions import CRITERION_REGISTRY as registry; assert 'masked_lm_hc' in registry"
    )
    run_command([sys.executable, "-c", program])


def test_version():
    version = run_command(truneg("--version"), fresh=True).stdout
    line = next(x for x in (PLUGIN / "__init__.py").read_text().splitlines() if x.startswith("__version__"))
    assert version.split() == ["truneg_fairseq", line.split('"')[1]]


def test_every_module_has_a_docstring_and_no_machine_paths():
    for path in (*PLUGIN.rglob("*.py"), *(REPOSITORY / "data-bin-scripts").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert text.lstrip().startswith('"""'), path
        assert str(REPOSITORY) not in text, path
