"""ELECTRA's Adam, groups and schedule against loops written from the formulas, and below fairseq's own wrappers."""

from __future__ import annotations

import copy

import pytest
import torch
from fairseq import optim, utils
from fairseq.optim.lr_scheduler import build_lr_scheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from support.commands import PLUGIN, REPOSITORY
from support.trainings import make, parse

from truneg_fairseq.optim import ElectraAdam, parameter_depths

SIZES = "--encoder-layers 3 --encoder-embed-dim 8 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2"
BERT = ("--arch", "truneg_bert_tiny", *SIZES.split())
ELECTRA = ("--arch", "electra_tiny", *SIZES.split())
COMMAND = [
    *(REPOSITORY / "tests" / "golden" / "data-bin", "--user-dir", PLUGIN, "--task", "masked_lm", "--cpu"),
    *("--criterion", "masked_lm", "--tokens-per-sample", 12, "--max-positions", 12, "--lr", 0.5),
    *("--fp16-scale-window", 8),
]

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
def test_updates_are_those_of_the_formulas(options, size, updates, seed):
    """Also where a parameter misses some gradients: its own step counts."""
    torch.manual_seed(seed)
    parameters = [torch.randn(size, dtype=torch.float64).requires_grad_(), torch.randn(2, 3).double().requires_grad_()]
    optimizer, (b1, b2) = ElectraAdam(parameters, **options), options["betas"]
    expected = [[p.detach().clone(), torch.zeros_like(p), torch.zeros_like(p), 0] for p in parameters]
    for _ in range(updates):
        for parameter, state in zip(parameters, expected, strict=True):
            parameter.grad = torch.randn_like(parameter) if torch.rand(()) < 0.7 else None
            if parameter.grad is not None:
                value, mean, square, step = state
                mean = b1 * mean + (1 - b1) * parameter.grad
                square = b2 * square + (1 - b2) * parameter.grad**2
                change = mean / (square.sqrt() + options["eps"]) + options["weight_decay"] * value
                state[:] = value - options["lr"] * change, mean, square, step + 1
        optimizer.step()
    for parameter, (value, _, _, step) in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-9, atol=1e-11)
        if parameter in optimizer.state:
            assert optimizer.state[parameter]["step"] == step


def build_model(*arguments):
    return make(parse([*COMMAND, *arguments]))[1]


def with_adam(common=None, **values):
    """The options with the optimizer as hydra has it in a YAML."""
    return OmegaConf.merge(
        parse([*COMMAND, *BERT]), {"common": common or {}, "optimizer": {"_name": "electra_adam", **values}}
    )


def build_adam(parameters, **values):
    return optim.build_optimizer(with_adam(**values).optimizer, list(parameters))


def depth_by_name(name: str) -> int:
    """Three layers, read off the name."""
    for index in range(3):
        if f".layers.{index}." in name:
            return 3 - index
    below = ("embed_tokens", "embed_positions", "embed_segments", "embed_project", "layernorm_embedding")
    return 4 if any(part in name for part in below) else 0


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


@pytest.mark.parametrize("arch", [BERT, ELECTRA], ids=["bert", "electra"])
def test_learning_rates_and_decay_go_by_layer(arch):
    """Of zero gradients only the decay is left: 1 - lr * d^depth * weight decay. A tied head is an embedding."""
    model = build_model(*arch)
    model.register_classification_head("new", num_classes=2)
    optimizer = build_adam(model.parameters(), layer_lr_decay=0.8, weight_decay=0.1)
    names: dict[torch.Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
        parameter.grad = torch.zeros_like(parameter)
    before = {parameter: parameter.detach().clone() for parameter in names}
    optimizer.set_lr(0.25)
    assert optimizer.get_lr() == 0.25
    optimizer.step()
    for parameter, of_it in names.items():
        decays = not any(name.endswith("bias") or ("norm" in name and name.endswith("weight")) for name in of_it)
        factor = 1 - 0.25 * 0.8 ** max(map(depth_by_name, of_it)) * 0.1 if decays else 1
        torch.testing.assert_close(parameter.detach(), before[parameter] * factor, rtol=1e-6, atol=0)
    assert {depth_by_name(name) for of_it in names.values() for name in of_it} == {0, 1, 2, 3, 4}
    assert any(len(of_it) > 1 and "lm_head.weight" in of_it[1] for of_it in names.values()), "tied embeddings occur"


def test_models_that_do_not_tell_their_layers_have_one_rate():
    stock = build_model("--arch", "roberta_base", *SIZES.split())
    build_adam(stock.parameters())
    with pytest.raises(SystemExit, match=r"--layer-lr-decay 0\.8: found a model that does not say to which layer"):
        build_adam(stock.parameters(), layer_lr_decay=0.8)


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


def train(optimizer, parameters):
    """Three updates with random gradients."""
    for _ in range(3):
        optimizer.zero_grad()
        for parameter in parameters:
            optimizer.backward((parameter * torch.randn(parameter.shape).to(parameter.dtype)).sum())
        optimizer.step()


def in_fp16(parameters):
    return optim.FP16Optimizer.build_optimizer(with_adam({"fp16": True, "fp16_no_flatten_grads": True}), parameters)


def test_fp32_copies_of_other_weights_are_not_restored():
    """As after averaging checkpoints. Runs that resume: tests/cli/test_training.py."""
    parameter = torch.nn.Parameter(torch.randn(4, 4).half())
    optimizer = in_fp16([parameter])
    train(optimizer, [parameter])
    saved = copy.deepcopy(optimizer.state_dict())
    for other in (torch.nn.Parameter(parameter.data * 2), torch.nn.Parameter(parameter.data.clone())):
        again = in_fp16([other])
        again.load_state_dict(saved)
        (copied,) = again.fp32_params
        expected = saved["fp32_parameters"][0] if torch.equal(other, parameter) else other.float()
        assert torch.equal(copied, expected)
        (state,) = again.optimizer.state.values()
        assert {key: value.dtype for key, value in state.items()} == dict.fromkeys(
            ("step", "exp_avg", "exp_avg_sq"), torch.float32
        )
    assert not torch.equal(saved["fp32_parameters"][0], parameter.float())


def test_the_options_of_a_resumed_run_are_its_own():
    model = build_model(*BERT)
    parameters = list(model.parameters())
    first = build_adam(parameters)
    train(first, parameters)
    second = build_adam(parameters, layer_lr_decay=0.5, weight_decay=0.3)
    second.load_state_dict(first.state_dict(), {})
    second.set_lr(1.0)
    assert {group["lr"] for group in second.param_groups} == {1, 0.5, 0.25, 0.125, 0.0625}
    assert {group["weight_decay"] for group in second.param_groups} == {0, 0.3}
    assert {float(state["step"]) for state in second.optimizer.state.values()} == {3}


def test_flattened_parameters_are_not_supported_if_parameter_groups_matter():
    """What --fp16 does without --fp16-no-flatten-grads: fairseq refuses it where an optimizer says so."""
    flat = [torch.nn.Parameter(torch.zeros(100))]
    assert build_adam(flat, weight_decay=0.0).supports_flat_params
    assert not build_adam(flat).supports_flat_params


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


def test_two_warm_ups_are_refused():
    with pytest.raises(SystemExit, match=r"--warmup-ratio 0\.1: found --warmup-updates 10 too"):
        build_schedule(warmup_updates=10, warmup_ratio=0.1)
