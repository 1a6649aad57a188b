"""Answers to the questions of a SQuAD file, by a fine-tuned checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import TrueNegError
from ..files import replacing_text
from ..finetuning.model import load_finetuned
from ..finetuning.training import quiet_fairseq, start_fairseq
from ..paths import require_different, require_writable

if TYPE_CHECKING:
    from .decoding import Prediction
    from .features import SquadFeatures
    from .task import SquadTask


class Answerer(NamedTuple):
    """A fine-tuned model with its task, on its device."""

    model: Any
    task: SquadTask
    device: Any


def load_answerer(checkpoint: Path, features: Path | None, *, cpu: bool) -> Answerer:
    """Loads a checkpoint of the task squad.

    Args:
        checkpoint: the file.
        features: the folder of 'truneg data prepare-squad' with its vocabulary; None for the one it was trained on.
        cpu: keep off the GPU.
    """
    start_fairseq()
    from ..models.checkpoints import read_checkpoint

    task_arguments = read_checkpoint(checkpoint).task
    if task_arguments.get("_name", task_arguments.get("task")) != "squad":
        raise TrueNegError(
            f"{checkpoint}: was trained on --task {task_arguments.get('_name')}; expected a checkpoint of truneg squad "
            "train"
        )
    folder = features or Path(str(task_arguments["data"]))
    if not folder.is_dir():
        raise TrueNegError(
            f"{checkpoint}: was trained on {folder}, which is not a folder here; name it with --features"
        )
    model, _, task, device = load_finetuned(checkpoint, folder, cpu=cpu)
    return Answerer(model, task, device)


def read_questions(answerer: Answerer, data: Path) -> SquadFeatures:
    """Windows over the questions of a SQuAD file, as those of the training."""
    from ..finetuning.data import PretrainedVocabulary
    from .data import read_squad
    from .features import WindowSettings, build_features

    info = answerer.task.info
    settings = WindowSettings(**{name: info[name] for name in ("max_length", "doc_stride", "max_query_length")})
    vocabulary = PretrainedVocabulary.load(Path(answerer.task.cfg.data))
    return build_features(read_squad(data), vocabulary, settings, training=False, name=data.stem)[0]


def predict(
    answerer: Answerer, features: SquadFeatures, *, batch_size: int, threshold: float | None = None
) -> dict[str, Prediction]:
    """The model's answers with their candidates, by question id.

    Args:
        answerer: the model.
        features: the questions.
        batch_size: windows.
        threshold: of the probability of no answer; None for the training's.
    """
    import torch
    from fairseq import utils

    from ..progress import Progress
    from .criterion import answer_logits, decode
    from .dataset import SquadDataset
    from .decoding import N_BEST, answer_questions

    task = answerer.task
    dataset = SquadDataset(features, "predict", task.source_dictionary.pad(), shuffle=False)
    order, parts = dataset.ordered_indices(), []
    with torch.inference_mode():
        for begin in Progress(range(0, len(order), batch_size), desc="batches", unit=""):
            sample = dataset.collater(order[begin : begin + batch_size].tolist())
            sample = utils.apply_to_sample(lambda tensor: tensor.to(answerer.device), sample)
            logits = answer_logits(answerer.model, sample, None)
            parts.append(decode(logits, sample, max_length=task.cfg.max_answer_length, n=N_BEST))
    threshold = task.cfg.no_answer_threshold if threshold is None else threshold
    return answer_questions(features, parts, unanswerable=task.unanswerable, threshold=threshold)


def predict_file(
    checkpoint: Path,
    data: Path,
    output: Path,
    *,
    nbest: Path | None = None,
    na_probs: Path | None = None,
    threshold: float | None = None,
    features: Path | None = None,
    batch_size: int = 32,
    cpu: bool = False,
) -> int:
    """Answers the questions of a file and writes the answers.

    Args:
        checkpoint: of ``truneg squad train``.
        data: in SQuAD's format.
        output: gets the answer texts by question id.
        nbest: gets the best candidates of each question.
        na_probs: gets the probability of no answer by question id.
        threshold: of that probability, above which the answer is ""; None for the training's.
        features: the training's data, for tokenizer and windows; None for the folder in the checkpoint.
        batch_size: windows.
        cpu: keep off the GPU.

    Returns:
        The number of questions.
    """
    if batch_size < 1:
        raise TrueNegError(f"--batch-size {batch_size}: expected 1 or more")
    if threshold is not None and not 0 <= threshold <= 1:
        raise TrueNegError(f"--no-answer-threshold {threshold}: expected a number in [0, 1]")
    outputs = {"output": output, "nbest": nbest, "na_probs": na_probs}
    require_different(checkpoint=checkpoint, data=data, **outputs)
    for name, path in outputs.items():
        if path is not None:
            require_writable(path, f"--{name.replace('_', '-')}")
    quiet_fairseq()
    answerer = load_answerer(checkpoint, features, cpu=cpu)
    _check_unanswerable(answerer.task, na_probs=na_probs, threshold=threshold)
    predictions = predict(answerer, read_questions(answerer, data), batch_size=batch_size, threshold=threshold)
    if na_probs:
        write_no_answer_probabilities(predictions, na_probs)
    if nbest:
        write_candidates(predictions, nbest)
    write_predictions(predictions, output)
    return len(predictions)


def _check_unanswerable(task: SquadTask, *, na_probs: Path | None, threshold: float | None) -> None:
    if task.unanswerable:
        return
    if threshold is not None:
        raise TrueNegError(
            f"--no-answer-threshold {threshold}: the model was not trained on SQuAD 2.0 and answers every question; "
            "leave it out"
        )
    if na_probs is not None and task.cfg.squad_head == "joint":
        raise TrueNegError(
            f"--na-probs {na_probs}: the model has a joint head that was not trained on SQuAD 2.0 and gives no such "
            "probability; leave it out"
        )


def write_predictions(predictions: dict[str, Prediction], output: Path) -> None:
    """The official format: an object of answer texts by question id."""
    write_json({name: prediction.text for name, prediction in predictions.items()}, output)


def write_candidates(predictions: dict[str, Prediction], output: Path) -> None:
    """By question id the best answers: text, start (offset in the context), score, probability."""
    write_json(
        {name: [vars(candidate) for candidate in prediction.candidates] for name, prediction in predictions.items()},
        output,
    )


def write_no_answer_probabilities(predictions: dict[str, Prediction], output: Path) -> None:
    """The official format of SQuAD 2.0's ``--na-prob-file``."""
    write_json({name: prediction.no_answer_probability for name, prediction in predictions.items()}, output)


def write_json(content: object, output: Path) -> None:
    """Writes JSON whole or not at all."""
    with replacing_text(output) as stream:
        json.dump(content, stream, ensure_ascii=False)
        stream.write("\n")
