"""``truneg experiment``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..errors import TrueNegError, require
from ..experiments import ExperimentOptions
from ..files import replacing_text
from ..vocabulary import read_symbols

_TEMPLATE = Path(__file__).parents[1] / "experiments" / "does_it_help.yaml"


def experiment(options: ExperimentOptions) -> None:
    """Train arms over seeds, evaluate every model the same way, and compare them.

    The same command continues what was interrupted, skips what is done, and refuses a file that asks for another
    training of the same name. Arms, seeds and evaluations may be added to the file.
    """
    require("fairseq", "omegaconf", extra="fairseq")
    require("jinja2", "altair", extra="report")
    if options.init is not None:
        return _init(options)
    if options.file is None:
        raise TrueNegError("experiment: found no FILE.yaml; --init FILE.yaml writes one for --data and --model")
    from ..experiments.run import PAGE_NAME, TABLES_NAME, Runner
    from ..experiments.settings import read_experiment
    from ..launch.process import exit_on_signals
    from ..launch.training import RESULTS_NAME

    runner = Runner(read_experiment(options.file, options.set, options.only), options)
    with exit_on_signals():
        try:
            failed = runner.execute()
        except (KeyboardInterrupt, SystemExit):
            results = options.output / RESULTS_NAME
            so_far = f"; results so far: {results}" if results.exists() else ""
            print(f"stopped; the same command continues{so_far}", file=sys.stderr)
            raise
    print("\n".join(runner.table()))
    print("\n".join(["", *runner.comparison, ""]))
    for path in (options.output / TABLES_NAME, options.output / PAGE_NAME):
        if path.exists():
            print(f"wrote {path}")
    if failed:
        raise TrueNegError(f"{len(failed)} failed, the first: {failed[0]}")


def _init(options: ExperimentOptions) -> None:
    """Writes a file, after the counts beside the data and, for a Hugging Face model, a checkpoint beside it."""
    file, data = options.init, options.data
    assert file is not None
    if data is None or options.model is None or options.file is not None:
        raise TrueNegError("--init: expected --data and --model, and no other FILE.yaml")
    if file.exists():
        raise TrueNegError(f"--init {file}: is there already; remove it, or name another file")
    from ..convert.from_hf import HUB
    from ..corpus_counts import CountOptions, count_corpus, counts_beside
    from ..evaluation.models import is_hugging_face
    from .convert import ConvertOptions, convert

    model = Path(options.model)
    if not (is_hugging_face(model) or model.exists()):
        raise TrueNegError(f"--model {model}: no such file or folder; {HUB}{model} would download a model")
    read_symbols(data / "dict.txt")  # before anything is made
    if is_hugging_face(model):
        convert(ConvertOptions(source=options.model, output=file.with_suffix(".pt"), data=data))
        model = file.with_suffix(".pt")
    if not counts_beside(data).exists():
        count_corpus(CountOptions(data=data))
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, path in (("data", data), ("model", model)):
        text = text.replace(f"  {name}: ???", f"  {name}: {json.dumps(str(path.resolve()))}")
    with replacing_text(file) as stream:
        stream.write(text)
    print(f"wrote {file}; next: truneg experiment {file} --output {file.with_suffix('')}")
