"""``truneg experiment``."""

from __future__ import annotations

import sys

from ..errors import TrueNegError
from ..experiments.settings import ExperimentOptions


def experiment(options: ExperimentOptions) -> None:
    """Train arms over seeds, evaluate every model the same way, and compare them.

    The same command continues what was interrupted, skips what is done, and refuses a file that asks for another
    training of the same name. Arms, seeds and evaluations may be added to the file.
    """
    from ..extras import require

    require("fairseq", "omegaconf", extra="fairseq")
    require("jinja2", "altair", extra="report")
    from ..experiments.run import PAGE_NAME, TABLES_NAME, Runner
    from ..experiments.settings import read_experiment
    from ..finetuning.process import exit_on_signals
    from ..finetuning.run import RESULTS_NAME

    runner = Runner(read_experiment(options.file, options.set), options)
    with exit_on_signals():
        try:
            failed = runner.execute()
        except (KeyboardInterrupt, SystemExit):
            results = options.output / RESULTS_NAME
            so_far = f"; results so far: {results}" if results.exists() else ""
            print(f"stopped; the same command continues{so_far}", file=sys.stderr)
            raise
    print("\n".join(runner.table()))
    if (options.output / TABLES_NAME).exists():
        print((options.output / TABLES_NAME).read_text(encoding="utf-8"))
    for path in (options.output / TABLES_NAME, options.output / PAGE_NAME):
        if path.exists():
            print(f"wrote {path}")
    if failed:
        raise TrueNegError(f"{len(failed)} failed, the first: {failed[0]}")
