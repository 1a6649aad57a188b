"""What an attack costs a model: Ori. -> Trans. of Table 5, on the questions that the attack applies to.

    python user_dir_examples/attacks/score.py swapped.pairs.json dev.answers.json swapped.answers.json
    python user_dir_examples/attacks/score.py add_one_sent.json add_one_sent.answers.json     # a file of Jia and Liang
    python user_dir_examples/attacks/score.py swapped.pairs.json --experiment OUT/runs/*/*/squad \\
        --original dev.json --attacked swapped.json --results attacks.jsonl

The last line answers the questions with the models that `truneg experiment` has fine-tuned on SQuAD under the name
"squad" with the option `keep-models: true`, and adds a line for each: the mean over the seeds of fine-tuning.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from attack import Robustness, measure_files

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.commands.parser import JsonOutput, print_unless_json, write_json_lines
from truneg_fairseq.errors import TrueNegError, refuse
from truneg_fairseq.files import require_writable
from truneg_fairseq.finetuning import PredictOptions
from truneg_fairseq.flags import option
from truneg_fairseq.results.result import append_result


@dataclass(kw_only=True)
class Options(JsonOutput):
    data: Path = option(
        help="an attack's OUT.pairs.json, or a file of Jia and Liang (AddSent, AddOneSent)",
        metavar="FILE.json",
        positional=True,
    )
    answers: Path | None = option(
        None, "answer texts by question id; of an attack those to IN.json", metavar="ANSWERS.json", positional=True
    )
    transformed: Path | None = option(
        None, "of an attack: answers to OUT.json", metavar="TRANSFORMED.json", positional=True
    )
    results: Path | None = option(None, "also add the scores to this result file", metavar="JSONL")
    model: str | None = option(None, "for --results: the model's name in tables", metavar="NAME")
    seed: int | None = option(None, "for --results: the seed of the model's fine-tuning")
    experiment: list[Path] = option(
        default_factory=list, help="in place of answers: OUT/runs/ARM/seed-N/NAME of experiments", metavar="DIR"
    )
    original: Path | None = option(None, "for --experiment: the attack's IN.json", metavar="JSON")
    attacked: Path | None = option(None, "for --experiment: the attack's OUT.json, or Jia and Liang's", metavar="JSON")
    cpu: bool = option(False, "for --experiment: use the CPU only")


def main(options: Options) -> None:
    """Score a model before and after an attack, with the 95 % interval of the drop by bootstrap over the questions.

    In a file of Jia and Liang the worst variant of each original question counts.
    """
    named = options.model is not None and options.seed is not None
    refuse(
        (
            bool(options.answers) == bool(options.experiment),
            "expected ANSWERS, or --experiment with --attacked and --results",
        ),
        (
            options.experiment and not (options.attacked and options.results),
            "--experiment: expected --attacked and --results, of an attack of one's own --original too",
        ),
        (
            options.results and options.answers and not named,
            "--results: expected --model and --seed, which a line of a result file has",
        ),
    )
    if options.results is not None:
        require_writable(options.results, "--results", makes_folders=True)
    if options.experiment:
        for folder in options.experiment:
            _add(options, _of_experiment(options, folder), folder.parents[1].name, _seed_of(folder))
        return
    assert options.answers is not None
    measured = measure_files(options.data, options.answers, options.transformed)
    print_unless_json(options)("\n".join(measured.lines()))
    write_json_lines(options, [measured.report()])
    if options.results is not None:
        assert options.model is not None and options.seed is not None
        _add(options, measured, options.model, options.seed)


def _add(options: Options, measured: Robustness, model: str, seed: int) -> None:
    assert options.results is not None
    if not append_result(options.results, measured.result(model, seed)):
        print(f"{options.results}: has this result already", file=sys.stderr)


def _seed_of(folder: Path) -> int:
    return int(folder.parent.name.removeprefix("seed-"))


def _of_experiment(options: Options, folder: Path) -> Robustness:
    """The mean of the models in a folder, question by question."""
    models = sorted(folder.glob("SQuAD-*/runs/*/SQuAD-*/model.pt"))
    if not models:
        raise TrueNegError(f"{folder}: has no model of SQuAD; expected one of an experiment with keep-models: true")
    each = [_answered(options, model) for model in models]
    for name in each[0].scores:
        each[0].scores[name] = np.mean([one.scores[name] for one in each], axis=0)
    return each[0]


def _answered(options: Options, model: Path) -> Robustness:
    """A model's scores; its answers are not kept."""
    from truneg_fairseq.finetuning.run_finetuning import predict

    assert options.attacked is not None
    with tempfile.TemporaryDirectory() as made:
        before, after = Path(made, "before.json"), Path(made, "after.json")
        for file, written in ((options.original, before), (options.attacked, after)):
            if file is not None:
                predict(PredictOptions(checkpoint=model, file=file, output=written, cpu=options.cpu))
        if options.original is None:
            return measure_files(options.data, after)
        return measure_files(options.data, before, after)


if __name__ == "__main__":
    run_as_script(main)
