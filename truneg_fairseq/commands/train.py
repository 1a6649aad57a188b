"""``truneg train``, ``user-dir``, ``wordnet``, ``experiment``, ``finetune`` and ``predict``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from ..errors import TrueNegError, one_line_errors, refuse, require
from ..experiments import ExperimentOptions
from ..fairseq_runs.stopping import let_signals_wait
from ..files import files_below, replacing_text
from ..finetuning import FinetuneOptions, PredictOptions
from ..flags import flag_of, range_of
from ..registry import check_user_dir
from ..vocabulary import read_symbols
from .parser import NoOptions, next_step

_RESEARCH = ("softmax_temperature", "loss_truncation", "sr_word_form", "tpu")
_PACKAGE = str(Path(__file__).resolve().parents[1])
_USER_DIR = "--user-dir"


def user_dir(options: NoOptions) -> None:
    """Print the folder to give to fairseq's --user-dir."""
    print(_PACKAGE)


def train(options: NoOptions) -> None:
    """Train with fairseq-train and this package; takes fairseq-train's arguments."""
    start([])


def start(words: Sequence[str]) -> None:
    """Goes on as fairseq-train in this process, whose signals and exit status it takes over; or shows the options of
    the criterion that is named.
    """
    parser = argparse.ArgumentParser("truneg train", add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-a", "--arch")
    parser.add_argument("--criterion", default="masked_lm_true_neg")
    parser.add_argument(_USER_DIR, action="append", default=[])
    given, _ = parser.parse_known_args(words)  # fairseq-train reads the others
    with one_line_errors():
        refuse((len(given.user_dir) > 1, f"{_USER_DIR}: found {len(given.user_dir)} of them; expected one"))
        folder = Path(*given.user_dir or [_PACKAGE])
        check_user_dir(folder)
        imports = any("truneg_fairseq" in each.read_text(errors="replace") for each in files_below(folder, "*.py"))
        found = f"{_USER_DIR} {folder}: no file in it imports truneg_fairseq"
        refuse((not imports, f"{found}; write 'import truneg_fairseq' in its __init__.py"))
    if given.help:
        return _show_options(given.criterion)
    if given.arch is None:
        sys.exit(
            "truneg_fairseq: error: --arch: found none; expected a model, such as truneg train DATA-BIN --task "
            "masked_lm --arch truneg_bert_small --criterion masked_lm_hc ...; 'truneg train --help' has the options"
        )
    with one_line_errors():
        require("fairseq", extra="fairseq")
    let_signals_wait()  # until the package is imported there
    os.environ.setdefault("PYTHONWARNINGS", "ignore")  # of hydra and torch: 20 lines before an error
    os.environ["PYTHONSAFEPATH"] = "1"  # -m would import from the current folder first
    ours = [] if given.user_dir else [_USER_DIR, _PACKAGE]
    os.execv(sys.executable, [sys.executable, "-m", "fairseq_cli.train", *words, *ours])


def _show_options(criterion: str) -> None:
    """A line for each option of a criterion and what it does: first those of the paper and of the results."""
    with one_line_errors():
        require("fairseq", extra="fairseq")
        logging.basicConfig(level=logging.WARNING)
        from fairseq.criterions import CRITERION_DATACLASS_REGISTRY as REGISTRY

        from .. import register

        register()
        ours = [name for name, kind in REGISTRY.items() if kind.__module__.startswith(__name__.partition(".")[0])]
        refuse((criterion not in ours, f"--criterion {criterion}: expected one of {', '.join(ours)}"))
    parser = argparse.ArgumentParser(
        usage="truneg train DATA-BIN --task TASK --arch ARCH --criterion CRITERION ...",
        description="fairseq-train with this package; 'fairseq-train --help' lists fairseq's own options. "
        f"Other criterions (truneg train --criterion NAME --help): {', '.join(ours)}",
        add_help=False,
    )
    named = [each for each in fields(REGISTRY[criterion]) if each.metadata.get("help")]
    named.sort(key=lambda each: not each.name.endswith("_weight"))
    for title, wanted in ((f"options of --criterion {criterion}", False), ("for research", True)):
        group = parser.add_argument_group(title)
        for each in named:
            if each.name.startswith(_RESEARCH) == wanted:
                range_ = f"; {found}" if (found := range_of(each)) else ""
                text = f"{each.metadata['help']} (default: {each.default}{range_})"
                group.add_argument(flag_of(each.name), metavar="", help=text.replace("%", "%%"))
    parser.print_help()


def wordnet(options: NoOptions) -> None:
    """Download WordNet 3.0 from NLTK's server and check it (no root needed). It goes to the first folder of NLTK_DATA,
    else to nltk_data in the virtual environment, else in the home folder.
    """
    from ..synonyms.wordnet import install_wordnet

    print(f"WordNet: {install_wordnet(report=print)}")


def finetune(options: FinetuneOptions) -> None:
    """Fine-tune models on GLUE's tasks and SQuAD, with several seeds.

    Prints the tables of 'truneg compare', and adds a line for each run to OUTPUT/results.jsonl. Finished runs are
    skipped; a run that was interrupted goes on where it was.
    """
    from ..finetuning.run_finetuning import finetune as run
    from ..launch.training_run import RESULTS_NAME
    from ..results.comparison import Comparison
    from ..results.tables import as_text

    results, diverged = run(options)
    if results:
        print("\n".join(as_text(Comparison(results))))
    print(next_step("truneg", "compare", options.output / RESULTS_NAME))
    if diverged:
        raise TrueNegError(diverged[0] if len(diverged) == 1 else f"{len(diverged)} runs diverged: {diverged[0]}")


def predict(options: PredictOptions) -> None:
    """Answer a file of sentences or questions with a fine-tuned model.

    Prints the number of examples and, where the file has the true answers, the scores in percent.
    """
    from ..finetuning.run_finetuning import predict as run

    report, scorer = run(options)
    print(json.dumps(report))
    if options.output is None:
        print("next: the same with --output FILE", file=sys.stderr)
    elif scorer:
        print(next_step(*scorer.split(), options.file, options.output), file=sys.stderr)


_TEMPLATE = Path(__file__).parents[1] / "experiments" / "does_it_help.yaml"


def experiment(options: ExperimentOptions) -> None:
    """Train several objectives over seeds, evaluate every model the same way, and compare them.

    The same command continues what was interrupted, skips what is done, and refuses a file that asks for another
    training of the same name. Arms, seeds and evaluations may be added to the file.
    """
    require("fairseq", "omegaconf", extra="fairseq")
    require("jinja2", "altair", extra="report")
    if options.init is not None:
        return _init(options.init, options)
    if options.file is None:
        raise TrueNegError("experiment: found no FILE.yaml; --init FILE.yaml writes one for --data and --model")
    from ..experiments.run_experiment import PAGE_NAME, TABLES_NAME, Runner
    from ..experiments.settings import read_experiment
    from ..launch.training_run import RESULTS_NAME

    runner = Runner(read_experiment(options.file, options.set, options.only), options)
    try:
        failed = runner.execute()
    except (KeyboardInterrupt, SystemExit):
        results = options.output / RESULTS_NAME
        so_far = f"; results so far: {results}" if results.exists() else ""
        print(f"stopped; the same command continues{so_far}", file=sys.stderr)
        raise
    print(runner.table())
    print("\n".join(["", *runner.comparison, ""]))
    for path in (options.output / TABLES_NAME, options.output / PAGE_NAME):
        if path.exists():
            print(f"wrote {path}")
    if failed:
        raise TrueNegError(f"{len(failed)} failed, the first: {failed[0]}")
    print(f"next: open {options.output / PAGE_NAME} in a browser; the same command with --set seeds=N adds seeds")


def _init(file: Path, options: ExperimentOptions) -> None:
    """Writes a file, after the counts beside the data and, for a Hugging Face model, a checkpoint beside it."""
    from ..convert.from_hf import HUB
    from ..corpus_counts import CountOptions, count_corpus, counts_beside
    from ..evaluation.models import is_hugging_face
    from .data import ConvertOptions, convert

    data = options.data
    if data is None or options.model is None or options.file is not None:
        raise TrueNegError("--init: expected --data and --model, and no other FILE.yaml")
    model, is_theirs = Path(options.model), is_hugging_face(Path(options.model))
    refuse(
        (file.exists(), f"--init {file}: is there already; remove it, or name another file"),
        (
            not (is_theirs or model.exists()),
            f"--model {model}: no such file or folder; {HUB}{model} would download a model",
        ),
    )
    read_symbols(data / "dict.txt")  # before anything is made
    if is_theirs:
        convert(ConvertOptions(source=options.model, output=file.with_suffix(".pt"), data=data))
        model = file.with_suffix(".pt")
    if not counts_beside(data).exists():
        count_corpus(CountOptions(data=data))
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, path in (("data", data), ("model", model)):
        text = text.replace(f"  {name}: ???", f"  {name}: {json.dumps(str(path.resolve()))}")
    with replacing_text(file) as stream:
        stream.write(text)
    print(f"wrote {file}; {next_step('truneg', 'experiment', file, '--output', file.with_suffix(''))}")
