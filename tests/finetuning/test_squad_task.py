"""The task squad, its criterion and heads: against loops, formulas and transformers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from fairseq.logging import metrics
from fairseq.models import ARCH_CONFIG_REGISTRY
from support.squad_examples import one_line, prepare, write_data

import truneg_fairseq

truneg_fairseq.register()

from truneg_fairseq.finetuning.fairseq_tasks import SquadCriterion, SquadTask, SquadTaskConfig, answer_logits, decode  # noqa: E402
from truneg_fairseq.finetuning.squad_features import answer_questions, score_answers  # noqa: E402
from truneg_fairseq.finetuning.squad_score import exact_match_and_f1  # noqa: E402

SIZES = {
    "encoder_layers": 2,
    "encoder_embed_dim": 24,
    "encoder_ffn_embed_dim": 40,
    "encoder_attention_heads": 3,
    "embedding_dim": 12,
    "max_positions": 24,
}


@pytest.fixture(scope="module")
def features(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("squad")
    return prepare(folder, write_data(folder / "data-bin"))


@pytest.fixture(scope="module")
def features_v2(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("squad2")
    return prepare(folder, write_data(folder / "data-bin"), unanswerable=True)


def make_task(folder: Path, **options: Any) -> SquadTask:
    task = SquadTask.setup_task(SquadTaskConfig(data=str(folder), seed=1, **options))
    for split in ("train", "valid"):
        task.load_dataset(split)
    return task


def make_model(task: SquadTask, arch: str = "electra_tiny", **sizes: Any) -> Any:
    args = argparse.Namespace(arch=arch, _name=arch, **{**SIZES, **sizes})
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(0)
    model = task.build_model(args)
    with torch.no_grad():  # the initial head is too near to 0
        for parameter in model.question_answering_head.parameters():
            parameter.normal_(std=0.2)
    return model


def sample_of(task: SquadTask, split: str = "valid") -> dict[str, Any]:
    dataset = task.dataset(split)
    with data_utils.numpy_seed(1):
        return dataset.collater(dataset.ordered_indices()[:7].tolist())


# -- batches


def test_batches_are_the_features(features):
    task = make_task(features)
    dataset = task.dataset("valid")
    known = dataset.features
    windows = [3, 0, len(known) - 1]
    batch = dataset.collater(windows)
    net_input, width = batch["net_input"], batch["net_input"]["src_tokens"].size(1)
    assert batch["id"].tolist() == windows
    assert (batch["nsentences"], batch["split"]) == (3, "valid")
    assert width == max(known.lengths[windows])
    assert batch["ntokens"] == sum(known.lengths[windows]) == int(net_input["src_lengths"].sum())
    for row, window in enumerate(windows):
        length = known.lengths[window]
        tail = [False] * (width - length)
        assert net_input["src_tokens"][row].tolist() == [*known.tokens(window), *[1] * (width - length)]
        assert batch["context"][row].tolist() == [*known.context_mask(window), *tail]
        assert batch["begins"][row].tolist() == [*known.max_context(window), *tail]
        assert batch["target"][row].tolist() == known.window_answer[window].tolist()
    assert net_input["padded"]
    assert not dataset.collater([0, 0])["net_input"]["padded"]
    assert dataset.collater([]) == {}
    assert (batch["begins"] <= batch["context"]).all()
    assert not batch["begins"].equal(batch["context"])  # windows overlap


def test_an_epoch_has_its_own_order_and_resumes_it(features):
    task = make_task(features)

    def batches(epoch: int, skip: int = 0) -> list[list[int]]:
        iterator = task.get_batch_iterator(task.dataset("train"), max_sentences=4, seed=1, epoch=epoch)
        if skip:
            iterator.load_state_dict({"epoch": epoch, "iterations_in_epoch": skip, "shuffle": True, "version": 2})
        return [batch["id"].tolist() for batch in iterator.next_epoch_itr(shuffle=True)]

    first, second = batches(1), batches(2)
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(len(task.dataset("train"))))  # noqa: RUF017
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}
    assert batches(2) == second
    assert batches(2, skip=3) == second[3:]
    sizes = task.dataset("valid").sizes[task.dataset("valid").ordered_indices()]
    assert (np.diff(sizes) <= 0).all()


# -- heads and loss


def test_the_loss_is_over_the_context_and_none(features):
    task = make_task(features)
    model = make_model(task).eval()
    sample = sample_of(task, "train")
    hidden = model(**sample["net_input"], features_only=True)[0]
    logits = model.question_answering_head.out_proj(hidden).detach()
    expected, right = 0.0, 0
    for row, (first, last) in enumerate(sample["target"].tolist()):
        places = [0, *np.flatnonzero(sample["context"][row])]
        for side, target in ((0, first), (1, last)):
            scores = logits[row, places, side]
            expected += float(scores.logsumexp(0) - logits[row, target, side]) / 2
        right += all(places[int(logits[row, places, side].argmax())] == (first, last)[side] for side in (0, 1))
    criterion = SquadCriterion.build_criterion(argparse.Namespace(), task).train()
    loss, size, log = criterion(model, sample)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert (size, log["sample_size"], int(log["correct"])) == (7, 7, right)
    assert "answers" not in log
    half, _, _ = criterion(model.bfloat16().train(), sample)
    assert half.dtype == torch.float32 and torch.isfinite(half)


# -- validation


# -- bad input


def test_models_that_do_not_fit_are_one_line(features):
    task = make_task(features)
    positions = one_line(lambda: make_model(task, max_positions=23))
    assert "has windows of 24 tokens, the model has 23 positions; prepare the data with --max-length 23" in positions


def test_a_checkpoint_of_another_vocabulary_is_one_line(features):
    task = make_task(features)
    task.load_state_dict({})
    task.load_state_dict({"vocabulary": task.info["vocabulary"], "unanswerable": True})
    assert not task.unanswerable
    message = one_line(lambda: task.load_state_dict({"vocabulary": "0" * 64}))
    assert f"fingerprint {task.info['vocabulary'][:12]}, the checkpoint is of 000000000000" in message


def test_validation_scores_whole_questions_from_any_worker(features_v2):
    """Batches of one window, dealt to three workers: the windows of a question are never together."""
    task = make_task(features_v2)
    model, criterion = make_model(task), SquadCriterion.build_criterion(argparse.Namespace(), task)
    dataset = task.dataset("valid")

    def validate(steps: list[list[list[int]]]) -> dict[str, float]:
        with metrics.aggregate(new_root=True) as aggregated:
            for step in steps:
                logs = [task.valid_step(dataset.collater(windows), model, criterion.eval())[2] for windows in step]
                task.reduce_metrics(logs, criterion)
        return aggregated.get_smoothed_values()

    count = len(dataset)
    whole = validate([[list(range(count))]])
    dealt = validate(
        [[[window] for window in range(count)[first :: -(-count // 3)]] for first in range(-(-count // 3))]
    )
    for name in ("exact_match", "f1", "loss", "accuracy"):
        assert whole[name] == pytest.approx(dealt[name], abs=1e-3), name
    sample = dataset.collater(list(range(count)))
    found = answer_questions(dataset.features, decode(answer_logits(model, sample), sample).numpy(), unanswerable=True)
    texts = {name: prediction.text for name, prediction in found.items()}
    scores = score_answers(dataset.features, texts, unanswerable=True)
    assert exact_match_and_f1(scores, unanswerable=True) == {name: whole[name] for name in ("exact_match", "f1")}
    assert 0 < whole["f1"] < 100
    assert not criterion.eval().logging_outputs_can_be_summed()
    assert criterion.train().logging_outputs_can_be_summed()
