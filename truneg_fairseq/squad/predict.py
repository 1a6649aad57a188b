"""Answers to the questions of a SQuAD file, by a fine-tuned checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..files import replacing_text
from ..finetuning.model import load_finetuned, read_finetuned
from ..options import flag_of
from ..paths import require_different, require_writable
from .options import PredictSquadOptions

if TYPE_CHECKING:
    from .decoding import Prediction
    from .features import SquadFeatures
    from .task import SquadTask


class Answerer(NamedTuple):
    """A fine-tuned model with its task, on its device."""

    model: Any
    task: SquadTask
    device: Any


def load_answerer(checkpoint: Path, prepared: Path | None, *, cpu: bool) -> Answerer:
    """Loads a checkpoint of the task squad, with its prepared data (None: those it was trained on)."""
    _, folder = read_finetuned(checkpoint, "squad", prepared)
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
    from .decoding import N_BEST, answer_questions
    from .task import SquadDataset

    task = answerer.task
    dataset = SquadDataset(features, "predict", task.source_dictionary.pad(), shuffle=False)
    order, parts = dataset.ordered_indices(), []
    with torch.inference_mode():
        for begin in Progress(range(0, len(order), batch_size), desc="batches", unit=""):
            sample = dataset.collater(order[begin : begin + batch_size].tolist())
            sample = utils.apply_to_sample(lambda tensor: tensor.to(answerer.device), sample)
            logits = answer_logits(answerer.model, sample, None)
            parts.append(decode(logits, sample, n=N_BEST))
    threshold = task.cfg.no_answer_threshold if threshold is None else threshold
    return answer_questions(features, parts, unanswerable=task.unanswerable, threshold=threshold)


def predict_file(options: PredictSquadOptions) -> int:
    """Answers the questions of a file, writes the answers, and returns their number."""
    outputs = {"output": options.output, "na_probs": options.na_probs}
    require_different(checkpoint=options.checkpoint, data=options.data, **outputs)
    for name, path in outputs.items():
        if path is not None:
            require_writable(path, flag_of(name))
    answerer = load_answerer(options.checkpoint, options.prepared, cpu=options.cpu)
    predictions = predict(
        answerer,
        read_questions(answerer, options.data),
        batch_size=options.batch_size,
        threshold=options.no_answer_threshold,
    )
    if options.na_probs:  # the official format of SQuAD 2.0's --na-prob-file
        write_json(
            {name: prediction.no_answer_probability for name, prediction in predictions.items()}, options.na_probs
        )
    write_json({name: prediction.text for name, prediction in predictions.items()}, options.output)
    return len(predictions)


def write_json(content: object, output: Path) -> None:
    """Writes JSON whole or not at all."""
    with replacing_text(output) as stream:
        json.dump(content, stream, ensure_ascii=False)
        stream.write("\n")
