"""``truneg experiment``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from ..errors import TrueNegError
from ..experiments.settings import ExperimentOptions
from ..files import read_json, replacing_text
from ..vocabulary import read_symbols

_START_NAME = "preset.json"


def experiment(options: ExperimentOptions) -> None:
    """Train arms over seeds, evaluate every model the same way, and compare them.

    What is trained is in FILE.yaml or in a --preset. The same command continues what was interrupted, skips what is
    done, and refuses a file that asks for another training of the same name. Arms, seeds and evaluations may be added
    to the file.
    """
    from ..errors import require

    require("fairseq", "omegaconf", extra="fairseq")
    require("jinja2", "altair", extra="report")
    from ..experiments.run import PAGE_NAME, TABLES_NAME, Runner
    from ..experiments.settings import read_experiment
    from ..launch.process import exit_on_signals
    from ..launch.training import RESULTS_NAME

    options = _with_file(options)
    assert options.file is not None
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


def _with_file(options: ExperimentOptions) -> ExperimentOptions:
    """The options with the file of their preset, after the preset's counts and checkpoint are made in the output."""
    if options.preset is None:
        if options.file is None:
            raise TrueNegError("experiment: found neither FILE.yaml nor --preset; expected one of them")
        given = {"data": options.data, "model.checkpoint": options.model}
        return replace(options, set=[*(f"{name}={value}" for name, value in given.items() if value), *options.set])
    if options.file is not None or options.data is None or options.model is None:
        raise TrueNegError(f"--preset {options.preset}: expected --data and --model, and no FILE.yaml")
    from ..convert.hf_model import HUB
    from ..corpus_counts import FILE_NAME, CountOptions, count_corpus
    from ..evaluation.models import is_hugging_face
    from .convert import ConvertOptions, convert

    model, counts = Path(options.model), options.output / FILE_NAME
    of_hugging_face = is_hugging_face(model)
    if not (of_hugging_face or model.exists()):
        raise TrueNegError(f"--model {model}: no such file or folder; hub:{model} would download a model")
    read_symbols(options.data / "dict.txt")  # before anything is made
    named = options.model if options.model.startswith(HUB) else str(model.resolve())
    start = {"--data": str(options.data.resolve()), "--model": named}
    model = options.output / "model.pt" if of_hugging_face else model
    if not _is_begun(options.output, start):
        if of_hugging_face:
            options.output.mkdir(parents=True, exist_ok=True)
            convert(ConvertOptions(source=options.model, output=model, data=options.data))
        count_corpus(CountOptions(data=options.data, output=counts))
        with replacing_text(options.output / _START_NAME) as stream:
            json.dump(start, stream, indent=1)
    paths = [f"paths.data={options.data}", f"paths.model={model}", f"paths.counts={counts}"]
    file = Path(__file__).parents[1] / "experiments" / "presets" / f"{options.preset}.yaml"
    return replace(options, file=file, set=[*paths, *options.set])


def _is_begun(output: Path, start: dict[str, str]) -> bool:
    """Whether a folder has the checkpoint and counts of a preset; refuses to go on with those of something else."""
    record = output / _START_NAME
    if not record.exists():
        return False
    found = read_json(record, dict[str, str], expected=f"the start of {output}; choose another --output")
    for name, value in start.items():
        if found.get(name) != value:
            raise TrueNegError(
                f"{name} {value}: {output} was begun with {found.get(name)}; expected the same, or another --output"
            )
    return True
