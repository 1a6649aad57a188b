"""BERT and ELECTRA: sizes, segments, attention, and what a checkpoint of one task is for another."""

from __future__ import annotations

import argparse
import math
import types
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from hypothesis import given, settings
from hypothesis import strategies as st

import truneg_fairseq

truneg_fairseq.register()

from truneg_fairseq.models.bert import BERT_SIZES, SIZE  # noqa: E402
from truneg_fairseq.models.electra_model import ELECTRA_SIZE, ELECTRA_SIZES  # noqa: E402
from truneg_fairseq.models.encoder import attend, dropout, segments_from_separators  # noqa: E402

TINY = {**dict(zip(SIZE, (2, 24, 40, 3), strict=True)), "max_positions": 16}
TINY_ELECTRA = {**dict(zip(ELECTRA_SIZE, (2, 24, 40, 3, 12, 2, 8, 16, 2), strict=True)), "max_positions": 16}
ELECTRA_PARAMETERS = {  # discriminator, generator, both with shared embeddings
    "electra_small": (13_549_057, 4_620_026, 14_196_219),
    "electra_base": (109_483_009, 33_740_602, 119_386_427),
    "electra_large": (335_142_913, 51_295_290, 354_655_291),
}


def dictionary(size: int = 40) -> Dictionary:
    words = Dictionary()
    for number in range(size - 5):
        words.add_symbol(f"w{number}")
    words.add_symbol("<mask>")
    return words


def build(arch: str, words: Dictionary | None = None, *, detection: bool = False, **sizes: Any) -> Any:
    args = argparse.Namespace(arch=arch, **sizes)
    ARCH_CONFIG_REGISTRY[arch](args)
    task = types.SimpleNamespace(source_dictionary=words or dictionary(), replaced_token_detection=detection)
    torch.manual_seed(0)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task)


def batch(padding: bool = True) -> torch.Tensor:
    """Two pairs and a single sentence; with padding in two of the rows."""
    rows = [[0, 5, 6, 2, 7, 8, 9, 2], [0, 5, 2, 7, 8, 2, 1, 1], [0, 9, 8, 7, 2, 1, 1, 1]]
    tokens = torch.tensor(rows)
    return tokens if padding else tokens.masked_fill(tokens.eq(1), 11)


def parameters(*modules: torch.nn.Module) -> int:
    return sum(p.numel() for p in {p for module in modules for p in module.parameters()})


@pytest.mark.parametrize("heads", ["encoder_attention_heads", "generator_attention_heads"])
def test_heads_that_do_not_divide_the_width_are_refused(heads):
    with pytest.raises(SystemExit, match="found 5 attention heads in layers of width"):
        build("electra_tiny", detection=True, **{**TINY_ELECTRA, heads: 5})


@pytest.mark.parametrize("arch", ELECTRA_PARAMETERS)
def test_electra_has_the_published_numbers_of_parameters(arch):
    """Counted on one and two layers and 522 tokens: the large model takes 1.4 GB, and its layers are all alike."""
    depth_of_all, embedding = ELECTRA_SIZES[arch][0], ELECTRA_SIZES[arch][4]
    vocabulary = dictionary(522)
    counts = []
    for depth in (1, 2):
        model = build(arch, vocabulary, detection=True, encoder_layers=depth, generator_layers=depth)
        both = (model.encoder, model.discriminator_head), (model.generator,), (model,)
        counts.append([parameters(*modules) for modules in both])
    layers = [one + (depth_of_all - 1) * (two - one) for one, two in zip(*counts, strict=True)]
    rows = 30_000 * embedding, 30_000 * (embedding + 1), 30_000 * (embedding + 1)  # the generator has a bias a token
    assert tuple(map(sum, zip(layers, rows, strict=True))) == ELECTRA_PARAMETERS[arch]


@pytest.mark.parametrize(
    "arch", ["truneg_bert_tiny", "truneg_bert_mini", "truneg_bert_small", "electra_tiny", "electra_small_plus"]
)
def test_other_sizes_are_huggingfaces(arch):
    from transformers import BertConfig, BertForMaskedLM, ElectraConfig, ElectraForMaskedLM

    model = build(arch, dictionary(1000))
    size = {**BERT_SIZES, **ELECTRA_SIZES}[arch]
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads")
    common = {"vocab_size": 1000, **dict(zip(names, size, strict=False))}
    with torch.device("meta"):
        if "bert" in arch:
            reference = BertForMaskedLM(BertConfig(**common))
        else:
            reference = ElectraForMaskedLM(ElectraConfig(**common, embedding_size=size[4]))
    assert parameters(model) == parameters(reference)
    assert {module.eps for module in model.modules() if isinstance(module, torch.nn.LayerNorm)} == {1e-12}
    assert model.encoder.sentence_encoder.embed_tokens.weight.std().item() == pytest.approx(0.02, rel=0.05)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.sampled_from([2, 7, 8]), min_size=6, max_size=6), min_size=1, max_size=4))
def test_segments_change_after_the_first_separator(rows):
    expected = [[int(2 in row[:column]) for column in range(len(row))] for row in rows]
    assert segments_from_separators(torch.tensor(rows), 2).tolist() == expected


@pytest.mark.parametrize(("padded", "known"), [(None, False), (True, True)])
def test_states_where_needed_are_those_of_the_whole(padded, known):
    """The last layer is not computed where nobody looks: the same logits, and the same gradients."""
    model = build("truneg_bert_base", **TINY).eval()
    masked = batch().eq(7) | batch().eq(9)
    features, _ = model(batch(), features_only=True)
    expected = model.encoder.output_layer(features, masked_tokens=masked)
    rows = []
    model.encoder.sentence_encoder.layers[-1].fc1.register_forward_hook(lambda *found: rows.append(len(found[1][0])))
    positions = masked.reshape(-1).nonzero().squeeze(1) if known else None
    actual, extra = model(batch(), masked_tokens=masked, masked_positions=positions, padded=padded)
    assert rows == [int(masked.sum())]
    assert extra == {"inner_states": None}
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)
    every = list(model.parameters())
    gradients = [torch.autograd.grad(x.square().sum(), every, allow_unused=True) for x in (actual, expected)]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)
    everywhere, extra = model(batch(), masked_tokens=masked, return_all_hiddens=True)
    torch.testing.assert_close(everywhere, expected)
    assert len(extra["inner_states"]) == 3


@pytest.mark.parametrize("flag", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_drops_in_training_alone(flag):
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, flag: 0.4}
    model = build("truneg_bert_base", **TINY, **rates)
    expected, _ = model.eval()(batch())
    assert torch.equal(model(batch())[0], expected)
    model.train()
    torch.manual_seed(1)
    one, _ = model(batch())
    other, _ = model(batch())
    assert not torch.equal(one, expected)
    assert not torch.equal(one, other)
    torch.manual_seed(1)
    assert torch.equal(model(batch())[0], one)


@pytest.mark.parametrize("special", [dictionary().pad(), dictionary().eos()])
def test_a_sampled_special_token_is_a_word_like_others(special):
    """It hides no position from the attention and begins no segment: a word with its embedding gives its scores."""
    model = build("electra", detection=True, **TINY_ELECTRA).eval()
    original = batch()
    masked = original.eq(7)
    source = original.masked_fill(masked, 39)
    scores = {}
    with torch.no_grad():
        embeddings = model.encoder.sentence_encoder.embed_tokens.weight
        embeddings[special] = embeddings[12]
        for token in (12, special):
            filled = original.masked_fill(masked, token)
            scores[token] = model(source, masked_tokens=masked, replace=lambda _, filled=filled: filled).logits
    assert masked.any()
    assert torch.equal(scores[special], scores[12])


def test_finetuning_takes_the_discriminator_alone(caplog):
    pretrained = build("electra", detection=True, **TINY_ELECTRA)
    tuned = build("electra", **TINY_ELECTRA)
    tuned.register_classification_head("sentence_classification_head", num_classes=3)
    head = tuned.classification_heads["sentence_classification_head"].out_proj.weight.clone()
    with torch.no_grad():
        for parameter in tuned.encoder.parameters():
            parameter.add_(1)
    with caplog.at_level("INFO"):
        tuned.load_state_dict(pretrained.state_dict(), strict=True)

    for name, parameter in tuned.encoder.sentence_encoder.named_parameters():
        assert torch.equal(parameter, pretrained.encoder.sentence_encoder.get_parameter(name)), name
    assert torch.equal(tuned.classification_heads["sentence_classification_head"].out_proj.weight, head)
    unused = "discriminator_head.dense, discriminator_head.out_proj, generator.lm_head, generator.sentence_encoder"
    assert f"not used, as this model has no place for them: {unused}" in caplog.messages
    (line,) = (line for line in caplog.messages if line.startswith("not in the checkpoint, these start anew: "))
    assert line.endswith(": classification_heads.sentence_classification_head, encoder.lm_head")


@pytest.mark.parametrize(("arch", "sizes"), [("bert", TINY), ("electra", TINY_ELECTRA)])
def test_heads_of_a_checkpoint_are_registered_on_demand(arch, sizes):
    tuned = build(arch, **sizes)
    tuned.register_classification_head("rte", num_classes=3)
    loaded = build(arch, **sizes, load_checkpoint_heads=True)
    loaded.load_state_dict(tuned.state_dict(), strict=True)
    tuned.eval(), loaded.eval()
    actual = loaded(batch(), classification_head_name="rte")[0]
    assert actual.shape == (3, 3)
    assert torch.equal(actual, tuned(batch(), classification_head_name="rte")[0])
    plain = build(arch, **sizes)
    plain.load_state_dict(tuned.state_dict(), strict=True)
    assert not plain.classification_heads


def test_a_shorter_model_takes_the_first_positions(caplog):
    long, short = build("bert", **TINY), build("bert", **{**TINY, "max_positions": 9})
    with caplog.at_level("INFO"):
        short.load_state_dict(long.state_dict(), strict=True)
    assert "the first 9 of the checkpoint's 16 positions are used" in caplog.text
    assert torch.equal(short.eval()(batch())[0], long.eval()(batch())[0])
    with pytest.raises(
        SystemExit, match=r"embed_positions.weight has the shape \(9, 24\), this model's has \(16, 24\)"
    ):
        long.load_state_dict(short.state_dict(), strict=True)


def test_attention_takes_a_mask_only_where_there_is_padding(monkeypatch):
    model = build("truneg_bert_base", **TINY).eval()
    spy = Mock(wraps=F.scaled_dot_product_attention)
    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    dense, _ = model(batch(padding=False))
    assert [call.kwargs["attn_mask"] for call in spy.call_args_list] == [None, None]
    padded, _ = model(batch())
    assert torch.equal(spy.call_args.kwargs["attn_mask"][:, 0, 0], batch().ne(1))
    assert torch.equal(model(batch(), padded=True)[0], padded)
    assert torch.equal(model(batch(padding=False), padded=False)[0], dense)
    alone, _ = model(batch()[2:, :5])
    torch.testing.assert_close(padded[2:, :5], alone, atol=1e-6, rtol=1e-5)  # padding changes no token


def kept_of(shape: tuple[int, ...], probability: float, seed: int) -> torch.Tensor:
    """Which elements the generator's state keeps."""
    torch.manual_seed(seed)
    return dropout(torch.ones(shape), probability).ne(0)


@settings(max_examples=30, deadline=None)
@given(
    shape=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    probability=st.floats(0.001, 0.999),
    seed=st.integers(0, 1000),
)
def test_what_is_kept_is_scaled_and_gets_the_gradient(shape, probability, seed):
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    kept = kept_of(tuple(shape), probability, seed)
    torch.manual_seed(seed)
    dropped = dropout(x, probability)
    levels = 65_536
    scale = levels / (levels - round(probability * levels))
    torch.testing.assert_close(dropped, x * kept * scale)
    weight = torch.randn(shape, dtype=torch.float64)
    (dropped * weight).sum().backward()
    torch.testing.assert_close(x.grad, weight * kept * scale)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_every_element_is_dropped_with_the_probability(probability):
    """Each of the four elements that share a random number, and neighbours independently."""
    count = 200_000
    kept = kept_of((count, 4), probability, seed=5).double()
    deviation = math.sqrt(probability * (1 - probability) / count)
    assert (kept.mean(dim=0) - (1 - probability)).abs().max() < 4.5 * deviation
    correlation = torch.corrcoef(kept.T) - torch.eye(4)
    assert correlation.abs().max() < 4.5 / math.sqrt(count)
    following = torch.corrcoef(torch.stack([kept[:-1, 3], kept[1:, 0]]))[0, 1]
    assert abs(following) < 4.5 / math.sqrt(count)
    assert torch.equal(kept_of((count, 4), probability, seed=5).double(), kept)


def test_nothing_and_everything():
    x = torch.randn(3, 5)
    assert dropout(x, 0.0) is x
    assert dropout(x, 1.0).eq(0).all()


def test_attention_with_dropout_is_torchs_where_nothing_is_dropped():
    """On a CPU it is computed another way."""
    parts = [torch.randn(2, 2, 5, 4) for _ in range(3)]
    attended = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
    expected = F.scaled_dot_product_attention(*parts, attn_mask=attended)
    torch.testing.assert_close(attend(*parts, attended, 1e-9), expected, atol=1e-6, rtol=1e-5)
    assert attend(*parts, None, 1.0).eq(0).all()


def test_a_sequence_of_padding_alone_stays_a_number():
    parts = [torch.randn(1, 1, 3, 4, requires_grad=True) for _ in range(3)]
    context = attend(*parts, torch.zeros(1, 1, 1, 3, dtype=torch.bool), 0.5)
    context.sum().backward()
    assert context.isfinite().all()
    assert all(part.grad.isfinite().all() for part in parts)
