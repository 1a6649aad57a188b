"""The masked-LM criterions inside real fairseq objects: tasks, models, trainers."""

from __future__ import annotations

import math
import shutil
from dataclasses import fields, is_dataclass

import pytest
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.dataclass.configs import FairseqConfig
from fairseq.logging import metrics
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.models.roberta import RobertaModel
from fairseq.options import get_training_parser
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from support.kills import differences
from support.trainings import (
    BOUNDS,
    acceptance,
    assert_close_to_fp32,
    batches,
    build,
    detector,
    steps,
    table_of,
    trainer_of,
)

import truneg_fairseq
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.fairseq_runs.fairseq_trainer import PluginTrainer
from truneg_fairseq.fairseq_runs.stopping import EXIT_DIVERGED

WORDPIECE = ("--tokenization", "wordpiece")
NO_DROPOUT = ("--dropout", 0, "--attention-dropout", 0)
TRUE_NEG = ("--criterion", "masked_lm_true_neg")
OFF = [
    "masked_lm_true_neg --synonym-table empty.npz --tokenization wordpiece",
    "masked_lm_hc --synonym-table empty.npz --tokenization wordpiece",
    "masked_lm_sr_word --sr-word-weight 0",
    "masked_lm_sr_sent --sr-sent-weight 0",
    "masked_lm_true_neg --soft-targets uniform=0,corpus=0,embedding=0",  # counts: there are none
]


@pytest.fixture(scope="module")
def stock(data_bin):
    """Four steps of fairseq's masked_lm."""
    return steps(data_bin, 4, "--criterion", "masked_lm")


@pytest.mark.parametrize("flags", OFF)
def test_without_weights_every_step_is_exactly_stock_masked_lm(flags, stock, data_bin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table_of(data_bin, [], tmp_path / "empty.npz")
    assert differences(steps(data_bin, 4, "--criterion", *flags.split()), stock) == []


def test_a_batch_without_masked_tokens_has_no_loss_and_no_rates(data_bin):
    weights = ("--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1)
    flags = ("--criterion", "masked_lm_true_neg", "--tokenization", "wordpiece", *weights)
    _, task, model, criterion = build(data_bin, *flags)
    sample = batches(task, 1)[0]
    sample["target"] = torch.full_like(sample["target"], task.source_dictionary.pad())
    loss, size, log = criterion(model, sample)
    assert (float(loss), int(size)) == (0, 0)
    loss.backward()
    assert all(torch.all(p.grad == 0) for p in model.parameters() if p.grad is not None)
    with metrics.aggregate(new_root=True) as aggregate:
        criterion.reduce_metrics([log])
        values = aggregate.get_smoothed_values()
    assert (values["hc_pred"], values["accuracy"]) == (0, 0)


@pytest.mark.parametrize("special", ["</s>", "<pad>"])
@pytest.mark.parametrize("arch", ["roberta_base", "truneg_bert_tiny"])
def test_a_predicted_special_token_is_a_word_like_others(arch, special, data_bin):
    """It begins no segment, hides no place and shifts none: a word with its embedding gives the same states."""
    _, task, model, criterion = build(data_bin, "--arch", arch, "--criterion", "masked_lm_sr_sent")
    model.eval()
    dictionary, sample = task.source_dictionary, batches(task, 1)[0]
    special, word = dictionary.index(special), dictionary.index("table")
    table = model.encoder.sentence_encoder.embed_tokens.weight
    table.data[special] = table.data[word]
    judged = criterion.predict(model, sample)
    states = {}
    for token in (special, word):
        filled = judged._replace(prediction=torch.full_like(judged.prediction, token))
        states[token] = criterion.passes(model, sample, filled).filled()[1]
    torch.testing.assert_close(states[special], states[word])


OBJECTIVES = {
    "masked_lm": ("--criterion", "masked_lm"),
    "hc_sr_word_sr_sent": (*TRUE_NEG, "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1, *WORDPIECE),
    "detectors": (
        *(*TRUE_NEG, "--hc-weight", 1, "--hc-detector", "embedding+context", "--hc-threshold", 0),
        *("--hc-acceptance-model", "embedding_context.json"),
    ),
    "soft_targets": (*TRUE_NEG, "--soft-targets", "table=0.1", *WORDPIECE),
}


@pytest.mark.parametrize("dtype", BOUNDS, ids=["fp16", "bf16"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_half_precision_is_close_to_fp32(name, dtype, data_bin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    acceptance(tmp_path, "embedding", "context")

    def made():
        _, task, model, criterion = build(data_bin, *OBJECTIVES[name], *NO_DROPOUT)
        # Random logits are nearly alike, and rounding would choose the predictions.
        torch.nn.init.normal_(model.encoder.lm_head.bias, generator=torch.Generator().manual_seed(1))
        return model, criterion, batches(task, 1)[0]

    assert_close_to_fp32(made, dtype)


PASSES = [  # and whether each is made with dropout
    (("--soft-targets", "uniform=0.1"), [True]),
    (("--soft-targets", "table=0.1", *WORDPIECE), [True]),
    (("--hc-weight", 1, "--hc-detector", "table+embedding"), [True]),
    (("--hc-weight", 1, "--hc-detector", "context"), [True, False, False]),
    (("--sr-sent-weight", 1), [True, True, True]),
    (("--hc-weight", 1, "--hc-detector", "context", "--sr-sent-weight", 1), [True, True, False]),
]


@pytest.mark.parametrize(("flags", "expected"), PASSES, ids=[" ".join(map(str, flags)) for flags, _ in PASSES])
def test_no_pass_is_made_twice(flags, expected, data_bin, tmp_path):
    if "--hc-detector" in flags:
        flags = (*flags, *detector(tmp_path, flags[flags.index("--hc-detector") + 1]), *WORDPIECE)
    _, task, model, criterion = build(data_bin, *TRUE_NEG, *flags)
    passes, logits = [], []
    model.encoder.sentence_encoder.register_forward_hook(lambda *parts: passes.append(parts[0].training))
    model.encoder.lm_head.register_forward_hook(lambda *parts: logits.append(parts[-1].shape))
    criterion.train()
    model.train()
    sample = batches(task, 1)[0]
    criterion(model, sample)[0].backward()
    masked = int(sample["target"].ne(criterion.padding_idx).sum())
    assert passes == expected
    assert logits == [(masked, len(task.source_dictionary))], "at the masked positions only"
    assert all(module.training for module in model.modules()), "dropout is back on"


def test_a_pass_trains_whoever_asks_for_it_first(data_bin, tmp_path):
    """Detectors want no gradient of the passes that they share with SR-sent."""
    flags = (*TRUE_NEG, *NO_DROPOUT, "--sr-sent-weight", 1000)
    first = ("--hc-weight", 1, *detector(tmp_path, "context"), "--hc-threshold", 1, *WORDPIECE)  # corrects nothing
    ((loss, gradients),), _ = steps(data_bin, 1, *flags, *first)
    ((expected_loss, expected),), _ = steps(data_bin, 1, *flags)
    assert loss == pytest.approx(expected_loss, rel=1e-4)
    difference, whole = (
        torch.cat([part.flatten() for part in parts])
        for parts in ([gradients[name] - gradient for name, gradient in expected.items()], expected.values())
    )
    assert difference.norm() < 1e-3 * whole.norm()


def test_the_last_states_that_the_context_score_compares_are_the_encoders_output(data_bin, tmp_path):
    """Also with a norm after the last layer. All layers are compared in tests/objectives/test_front_ends.py."""
    context = ("--hc-weight", 1, *detector(tmp_path, "context"), *WORDPIECE, "--encoder-normalize-before")
    _, task, model, criterion = build(data_bin, *TRUE_NEG, *NO_DROPOUT, *context)
    (sample,) = batches(task, 1)
    passes, masked = criterion.passes(model, sample, criterion.predict(model, sample)), sample["target"].ne(1)
    for layers, output in zip(passes.hidden_states(), (passes.original(), passes.filled()[1]), strict=True):
        torch.testing.assert_close(layers[-1], output[masked].detach())


def test_antonyms_other_forms_and_numbers_are_never_excused(data_bin, tmp_path):
    """By real WordNet, built beside the data once and read again."""
    _, task, _, criterion = build(data_bin, *TRUE_NEG, "--hc-weight", 1, *detector(tmp_path, "embedding"), *WORDPIECE)
    made = criterion.objective.detector

    def allowed(pair: str) -> list[bool]:
        """Of a pair in both directions."""
        ids = torch.tensor([task.source_dictionary.index(word) for word in pair.split(":")])
        return (made.eligible[ids].all() & ~made.blocked.contains(ids, ids.flip(0))).tolist()

    for pair in "big:little large:small walk:walked start:stop seven:primary the:big big:, ##s:big".split():
        assert allowed(pair) == [False, False], pair
    for pair in "big:large film:movie start:begin buy:purchase".split():
        assert allowed(pair)[0], pair
    written = (data_bin / "exclusions.npz").stat().st_mtime_ns
    build(data_bin, *TRUE_NEG, "--hc-weight", 1, *detector(tmp_path, "embedding"), *WORDPIECE)
    assert (data_bin / "exclusions.npz").stat().st_mtime_ns == written


@pytest.mark.parametrize("precision", ["half", "bfloat16"])
def test_every_table_stays_an_integer_when_the_trainer_halves_the_criterion(precision, data_bin):
    flags = ("--hc-detector", "table+embedding", "--soft-targets", "table=0.1", *WORDPIECE)
    *_, criterion = build(data_bin, *TRUE_NEG, "--hc-weight", 1, *flags)
    getattr(criterion, precision)()
    assert {buffer.dtype for buffer in criterion.buffers()} == {torch.int64, torch.bool, torch.float32}
    assert not criterion.state_dict()


def test_a_training_that_becomes_nan_ends_in_one_line(data_bin, tmp_path, capsys):
    trainer, task, model, _ = trainer_of(data_bin, *TRUE_NEG, "--save-dir", tmp_path)
    one, *rest = batches(task, 4)
    trainer.train_step([one])
    model.encoder.sentence_encoder.layers[0].fc1.weight.data[0, 0] = math.nan
    with pytest.raises(SystemExit) as caught:
        trainer.train_step(rest)
    assert caught.value.code == EXIT_DIVERGED
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "truneg_fairseq: error" in line)
    assert "gradients are Nan/Inf in update 2; expected finite numbers; lower --lr" in line


CORPUS_AND_NEAREST = ("--soft-targets", "corpus=0.2,embedding=0.1")


@pytest.fixture(scope="module")
def taught_by(binarized, tmp_path_factory):
    """A model of another size."""
    trainer, *_ = trainer_of(binarized, "--criterion", "masked_lm", "--encoder-layers", 1, "--no-save-optimizer-state")
    path = tmp_path_factory.mktemp("teacher") / "teacher.pt"
    PluginTrainer.save_checkpoint(trainer, str(path), {})
    return ("--teacher", path)


def test_a_teacher_reads_the_masked_sentence(binarized, taught_by):
    from fairseq.checkpoint_utils import load_model_ensemble

    flags = ("--soft-targets", "teacher=0.3", *taught_by)
    _, task, model, criterion = build(binarized, *TRUE_NEG, *flags)
    before = torch.get_rng_state()
    (teacher,) = load_model_ensemble([str(taught_by[1])], {"data": str(binarized)})[0]
    torch.set_rng_state(before)
    teacher.eval()
    for sample in batches(task, 2):
        predicted = criterion.predict(model.eval(), sample)
        masked = sample["target"].ne(criterion.padding_idx)
        tokens = torch.where(masked, task.mask_idx, sample["net_input"]["src_tokens"])
        q = teacher(tokens)[0][masked].softmax(1)
        q = torch.where(q >= q.topk(64, dim=1).values[:, -1:], q, 0.0) if q.size(1) > 64 else q
        target = 0.3 * q / q.sum(1, keepdim=True)
        target[torch.arange(len(q)), predicted.gold] += 0.7
        expected = -(target * predicted.logits.log_softmax(1)).sum()
        criterion.train()
        torch.testing.assert_close(criterion(model, sample)[0], expected, rtol=1e-5, atol=1e-5)
    assert not list(criterion.parameters()), "fairseq trains and saves a criterion's parameters"


def test_a_teacher_of_another_dictionary_is_refused(binarized, taught_by, tmp_path):
    other = shutil.copytree(binarized, tmp_path / "other")
    first, second, *rest = (other / "dict.txt").read_text().splitlines(keepends=True)
    (other / "dict.txt").write_text("".join((second, first, *rest)))
    with pytest.raises(SystemExit, match=r"other: was made with a vocabulary of .*, the checkpoint is of"):
        build(other, *TRUE_NEG, "--soft-targets", "teacher=0.3", *taught_by)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--soft-targets", "teacher=0.1"), r"--soft-targets teacher: expected --teacher"),
        (("--soft-targets", "teacher=0.1", "--teacher", "none.pt"), r"none\.pt: no such file"),
        (CORPUS_AND_NEAREST, r"data-bin/corpus_counts\.npz: no such file; expected .* 'truneg data counts"),
        (
            ("--soft-targets", "uniform=0.8,corpus=0.2,embedding=0.1"),
            r"--soft-targets uniform=0\.8,corpus=0\.2,embedding=0\.1: the shares are more than the whole",
        ),
    ],
)
def test_mistakes_are_named(flags, message, binarized):
    with pytest.raises((TrueNegError, SystemExit), match=message):
        build(binarized, *TRUE_NEG, *flags)


def test_no_option_has_the_name_of_one_of_fairseqs():
    """Of two options of one name fairseq's parser keeps one, and gives its value to both."""
    truneg_fairseq.register()
    kinds = [*TASK_DATACLASS_REGISTRY.values(), *MODEL_DATACLASS_REGISTRY.values()]
    kinds += [kind for each in REGISTRIES.values() for kind in each["dataclass_registry"].values()]
    kinds += [each.default for each in fields(FairseqConfig) if is_dataclass(each.default)]
    theirs = {each.name for kind in kinds if kind.__module__.startswith("fairseq.") for each in fields(kind)}
    parser = get_training_parser()
    RobertaModel.add_args(parser)
    theirs |= {action.dest for action in parser._actions}
    for kind in CRITERION_DATACLASS_REGISTRY.values():
        if kind.__module__.startswith("truneg_fairseq."):
            stock = {each.name for each in fields(kind.__bases__[0])}
            assert not ({each.name for each in fields(kind)} - stock) & theirs, kind
