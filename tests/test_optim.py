"""ELECTRA's Adam, groups and schedule against loops written from the formulas, and below fairseq's own wrappers."""

from __future__ import annotations

import copy
import math
import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch
from fairseq import optim, tasks, utils
from fairseq.optim.lr_scheduler import build_lr_scheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from support.commands import PLUGIN
from support.trainings import parse

from truneg_fairseq.optim import ElectraAdam, depth_of, parameter_depths, tag_parameters

SIZES = "--encoder-layers 3 --encoder-embed-dim 8 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2"
STOCK = ("--arch", "roberta_base", *SIZES.split())
BERT = ("--arch", "truneg_bert_tiny", *SIZES.split())
ELECTRA = ("--arch", "electra_tiny", *SIZES.split())


# The update.


class SlowAdam:
    """One number, in double precision."""

    def __init__(self, value, *, lr, betas, eps, weight_decay):
        self.value, self.mean, self.square, self.step = value, 0.0, 0.0, 0
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, weight_decay

    def update(self, gradient: float) -> None:
        (b1, b2), self.step = self.betas, self.step + 1
        self.mean = b1 * self.mean + (1 - b1) * gradient
        self.square = b2 * self.square + (1 - b2) * gradient**2
        self.value -= self.lr * (self.mean / (math.sqrt(self.square) + self.eps) + self.decay * self.value)


ADAM_OPTIONS = st.fixed_dictionaries(
    {
        "lr": st.sampled_from([0.0, 1e-4, 0.1]),
        "betas": st.sampled_from([(0.9, 0.999), (0.9, 0.98), (0.0, 0.5), (0.5, 0.9999999)]),
        "eps": st.sampled_from([1e-8, 1e-6, 1e-2]),
        "weight_decay": st.sampled_from([0.0, 0.01, 0.5]),
    }
)


@settings(max_examples=60, deadline=None)
@given(ADAM_OPTIONS, st.integers(1, 19), st.integers(1, 12), st.integers(0, 1000))
def test_updates_are_those_of_a_plain_loop(options, size, updates, seed):
    """Also where a parameter misses some gradients: its own step counts."""
    torch.manual_seed(seed)
    parameters = [torch.randn(size, dtype=torch.float64).requires_grad_(), torch.randn(2, 3).double().requires_grad_()]
    optimizer = ElectraAdam(parameters, **options)
    slow = [[SlowAdam(x, **options) for x in p.flatten().tolist()] for p in parameters]
    for _ in range(updates):
        for parameter, numbers in zip(parameters, slow, strict=True):
            parameter.grad = torch.randn_like(parameter) if torch.rand(()) < 0.7 else None
            for number, gradient in zip(numbers, () if parameter.grad is None else parameter.grad.flatten().tolist()):  # noqa: B905
                number.update(gradient)
        optimizer.step()
    for parameter, numbers in zip(parameters, slow, strict=True):
        expected = torch.tensor([n.value for n in numbers], dtype=torch.float64)
        assert torch.allclose(parameter.detach().flatten(), expected, rtol=1e-9, atol=1e-11)
        if parameter in optimizer.state:
            assert optimizer.state[parameter]["step"] == numbers[0].step


# The groups.


@cache
def config(*arguments):
    """fairseq-train's options, parsed by fairseq."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "dict.txt").write_text("".join(f"{word} 1\n" for word in "abcdefgh"), encoding="utf-8")
        command = [folder, "--user-dir", str(PLUGIN), "--task", "masked_lm", "--tokens-per-sample", "12", "--cpu"]
        command += ["--max-positions", "12", "--lr", "0.5", "--fp16-scale-window", "8", *arguments]
        cfg = parse(command)
        return cfg, tasks.setup_task(cfg.task)


def build_model(*arguments):
    cfg, task = config(*arguments)
    return task.build_model(cfg.model)


def with_adam(common=None, **values):
    """The options with the optimizer as hydra has it in a YAML."""
    return OmegaConf.merge(config(*BERT)[0], {"common": common or {}, "optimizer": {"_name": "electra_adam", **values}})


def build_adam(parameters, **values):
    return optim.build_optimizer(with_adam(**values).optimizer, list(parameters))


def depth_by_name(name: str) -> int:
    """Three layers, read off the name."""
    for index in range(3):
        if f".layers.{index}." in name:
            return 3 - index
    below = ("embed_tokens", "embed_positions", "embed_segments", "embed_project", "layernorm_embedding")
    return 4 if any(part in name for part in below) else 0


@pytest.mark.parametrize("arch", [STOCK, BERT, ELECTRA], ids=["stock", "bert", "electra"])
def test_every_parameter_of_a_model_has_its_depth(arch):
    model = build_model(*arch)
    assert all((depth_of(parameter) is not None) == (arch != STOCK) for parameter in model.parameters())
    model.register_classification_head("new", num_classes=2)
    tag_parameters(model)
    names: dict[torch.Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    for parameter, of_it in names.items():
        no_decay = parameter.ndim == 1
        assert no_decay == all(n.endswith("bias") or ("norm" in n and n.endswith("weight")) for n in of_it)
        assert depth_of(parameter) == max(map(depth_by_name, of_it)), of_it
    tied = [of_it for of_it in names.values() if any("lm_head.weight" in name for name in of_it)]
    assert tied, "the case of tied embeddings occurs"
    assert set(map(depth_of, names)) == {0, 1, 2, 3, 4}


def test_stacks_count_their_own_layers():
    names = [
        *(f"generator.sentence_encoder.layers.{i}.fc1.weight" for i in (1, 0)),
        *(f"encoder.sentence_encoder.layers.{i}.fc1.weight" for i in range(12)),
        *("generator.sentence_encoder.embed_project.weight", "encoder.sentence_encoder.embed_tokens.weight"),
        *("encoder.lm_head.weight", "layers.0.weight", "embed_tokens.weight", "classification_heads.a.layers.bias"),
        "encoder.sentence_encoder.layer_norm.weight",
    ]
    assert list(parameter_depths(names).values()) == [1, 2, *range(12, 0, -1), 3, 13, 0, 1, 2, 0, 0]
    assert parameter_depths(["embed.weight", "out.bias"]) == {"embed.weight": 0, "out.bias": 0}, "no layers, no depth"


def test_learning_rates_and_decay_go_by_layer():
    """Of zero gradients only the decay is left: 1 - lr * d^depth * weight decay."""
    model = build_model(*BERT)
    optimizer = build_adam(model.parameters(), layer_lr_decay=0.8, weight_decay=0.1)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    assert optimizer.get_lr() == 0.5
    optimizer.set_lr(0.25)
    assert optimizer.get_lr() == 0.25
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        factor = 1 - 0.25 * 0.8 ** depth_by_name(name) * 0.1 if parameter.ndim > 1 else 1
        assert torch.allclose(parameter, before[name] * factor, rtol=1e-6), name
        assert parameter.ndim > 1 or torch.equal(parameter, before[name])


# Below fairseq's wrappers: fp32 copies, 16-bit parameters, saving and resuming.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("aggregate", [None, lambda norm: 3 * norm])
@pytest.mark.parametrize("max_norm", [0.0, 0.5, 1e6])
def test_clipping_is_fairseqs(dtype, aggregate, max_norm):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(*shape).to(dtype)) for shape in ((3, 4), (5,), (2, 2, 2), (7,))]
    for parameter in parameters[:-1]:
        parameter.grad = torch.randn_like(parameter)
    expected = copy.deepcopy(parameters)
    for parameter, original in zip(expected, parameters, strict=True):
        parameter.grad = None if original.grad is None else original.grad.clone()
    norm = build_adam(parameters, weight_decay=0).clip_grad_norm(max_norm, aggregate)
    torch.testing.assert_close(norm, utils.clip_grad_norm_(expected, max_norm, aggregate))
    assert norm > 0.5
    for parameter, other in zip(parameters[:-1], expected[:-1], strict=True):
        assert torch.equal(parameter.grad, other.grad)
    assert parameters[-1].grad is None


def train(optimizer, parameters, updates, seed):
    """Random gradients at learning rates that vary."""
    generator = torch.Generator().manual_seed(seed)
    for update in range(updates):
        optimizer.zero_grad()
        optimizer.set_lr(0.01 * (update + 1))
        for parameter in parameters:
            gradient = torch.randn(parameter.shape, generator=generator)
            optimizer.backward((parameter * gradient.to(parameter.dtype)).sum())
        optimizer.clip_grad_norm(1.0)
        optimizer.step()


PRECISIONS = {"fp32": {}, "fp16": {"fp16": True, "fp16_no_flatten_grads": True}, "bf16": {"bf16": True}}


def wrapped(parameters, precision, **values):
    if precision == "fp32":
        return build_adam(parameters, **values)
    cfg = with_adam(PRECISIONS[precision], **values)
    return optim.FP16Optimizer.build_optimizer(cfg, parameters)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_resuming_is_exact(precision):
    """What a checkpoint keeps, restored beside its weights, trains on bit for bit; the groups survive the copies."""
    dtype = {"fp32": torch.float32}.get(precision, torch.bfloat16 if "bf16" in precision else torch.float16)
    torch.manual_seed(1)
    model = build_model(*BERT).to(dtype)
    whole = list(model.parameters())
    optimizer = wrapped(whole, precision, layer_lr_decay=0.8)
    assert len(optimizer.param_groups) == 10
    train(optimizer, whole, 5, seed=2)
    saved = copy.deepcopy(optimizer.state_dict())
    resumed_model = copy.deepcopy(model)
    tag_parameters(resumed_model)
    resumed = list(resumed_model.parameters())
    again = wrapped(resumed, precision, layer_lr_decay=0.8)
    again.load_state_dict(saved)
    of_checkpoint = {id(value) for state in saved["state"].values() for value in state.values()}
    for state in again.optimizer.state.values():
        assert of_checkpoint.isdisjoint(map(id, state.values()))
        assert {key: value.dtype for key, value in state.items()} == dict.fromkeys(
            ("step", "exp_avg", "exp_avg_sq"), torch.float32
        )
    for optimizer_, parameters in ((optimizer, whole), (again, resumed)):
        train(optimizer_, parameters, 5, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))
    states = (optimizer.state_dict()["state"], again.state_dict()["state"])
    for index, state in states[0].items():
        assert all(torch.equal(value, states[1][index][key]) for key, value in state.items())
    assert ("fp32_parameters" in saved) == (precision in ("fp16", "bf16"))


def test_fp32_copies_of_other_weights_are_not_restored():
    """As after averaging checkpoints."""
    parameter = torch.nn.Parameter(torch.randn(4, 4).half())
    optimizer = wrapped([parameter], "fp16")
    train(optimizer, [parameter], 3, seed=1)
    saved = copy.deepcopy(optimizer.state_dict())
    for other in (torch.nn.Parameter(parameter.data * 2), torch.nn.Parameter(parameter.data.clone())):
        again = wrapped([other], "fp16")
        again.load_state_dict(saved)
        (copied,) = again.fp32_params
        expected = saved["fp32_parameters"][0] if torch.equal(other, parameter) else other.float()
        assert torch.equal(copied, expected)
    assert not torch.equal(saved["fp32_parameters"][0], parameter.float())


def test_the_options_of_a_resumed_run_are_its_own():
    model = build_model(*BERT)
    parameters = list(model.parameters())
    first = build_adam(parameters)
    train(first, parameters, 2, seed=1)
    second = build_adam(parameters, layer_lr_decay=0.5, weight_decay=0.3)
    second.load_state_dict(first.state_dict(), {})
    second.set_lr(1.0)
    assert {group["lr"] for group in second.param_groups} == {1, 0.5, 0.25, 0.125, 0.0625}
    assert {group["weight_decay"] for group in second.param_groups} == {0, 0.3}
    assert {float(state["step"]) for state in second.optimizer.state.values()} == {2}


def test_flattened_parameters_are_refused_if_parameter_groups_matter():
    """What --fp16 does without --fp16-no-flatten-grads."""
    flat = {0: torch.nn.Parameter(torch.zeros(100))}
    with pytest.raises(SystemExit, match=r"^truneg_fairseq: error: .* add --fp16-no-flatten-grads$"):
        build_adam([flat])
    assert build_adam([flat], weight_decay=0.0).supports_flat_params
    assert not build_adam([torch.nn.Parameter(torch.zeros(2, 2))]).supports_flat_params


# The schedule.


def build_schedule(**values):
    cfg = OmegaConf.create({"_name": "electra_linear", "lr": [0.5], "max_update": 100, **values})
    optimizer = build_adam([torch.nn.Parameter(torch.zeros(2, 2))])
    return build_lr_scheduler(cfg, optimizer), optimizer


@pytest.mark.parametrize(
    ("values", "total", "warmup"),
    [
        ({}, 100, 0),
        ({"warmup_updates": 10}, 100, 10),
        ({"warmup_ratio": 0.1}, 100, 10),
        ({"warmup_ratio": 0.1, "total_num_update": 50}, 50, 5),
        ({"warmup_ratio": 0.1, "total_num_update": 50, "max_update": 0}, 50, 5),
    ],
)
def test_the_scheduler_sets_the_rate_of_the_next_update(values, total, warmup):
    """Warm-up times decay."""
    scheduler, optimizer = build_schedule(**values)
    assert optimizer.get_lr() == (0 if warmup else 0.5)
    for done in (0, 1, 3, warmup, 40, total, total + 7):
        expected = 0.5 * max(0, total - done) / total * (min(1, done / warmup) if warmup else 1)
        assert scheduler.step_update(done) == optimizer.get_lr() == pytest.approx(expected)
        scheduler.step_begin_epoch(3)
        scheduler.step(3, 1.0)
        assert optimizer.get_lr() == pytest.approx(expected)
