"""TrueNegativeLoss in the loops that people have: it is nn.CrossEntropyLoss to the bit while every weight is 0."""

from __future__ import annotations

import sys
from itertools import product
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
import transformers
from support.commands import REPOSITORY, run_command
from support.hf_models import assert_same, masked_batch, small_model, trainer, weights
from support.losses import LOSSES, WORDS, loss_of, table_of_pairs, tiny_batch, tiny_bert
from support.tokenizers_made import fast_tokenizer
from torch import nn

from truneg_fairseq import Alternatives, TrueNegativeLoss, hf
from truneg_fairseq.data.tokenizer import vocabulary_of
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.objectives.build import expected_losses
from truneg_fairseq.objectives.passes import embeddings_in_use
from truneg_fairseq.objectives.soft_targets import SoftTargets
from truneg_fairseq.vocabulary import read_symbols, vocabulary_of_tokenizer


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none", "items"])
def test_at_weight_0_it_is_cross_entropy_to_the_bit(dtype, reduction):
    """ "items": divided by the masked tokens of an update of several micro-batches. 16-bit logits give a fp32 loss."""
    logits = torch.randn(40, 17, generator=torch.Generator().manual_seed(1)).to(dtype)
    labels = torch.arange(40) % 17
    labels[::3] = -100
    ours, stock = TrueNegativeLoss(), nn.CrossEntropyLoss(reduction="sum")
    losses = [lambda *batch: stock(*batch) / 70, lambda *batch: ours(*batch, num_items=torch.tensor(70))]
    if reduction != "items":
        losses = [nn.CrossEntropyLoss(reduction=reduction), TrueNegativeLoss(reduction=reduction)]
    found = []
    for call in losses:
        leaf = logits.clone().requires_grad_()
        loss = call(leaf.float() if call is losses[0] else leaf, labels)
        loss.sum().backward()
        found.append((loss.detach(), leaf.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_a_batch_without_a_label_is_0_with_gradient_0():
    """Also where its number is given, where token 0 is ignored, and where there are no rows at all."""
    for name, rows, items, ignored in product(LOSSES, (0, 10), (None, 0, torch.tensor(0)), (-100, 0)):
        loss_fn = loss_of(name, ignore_index=ignored)
        logits = torch.randn(rows, WORDS, requires_grad=True)
        embeddings = torch.randn(WORDS, 8, requires_grad=True)
        labels = torch.full((rows,), ignored)
        loss = loss_fn(logits, labels, items, embeddings=embeddings, input_ids=torch.full((1, rows), 5))
        loss.backward()
        assert loss.item() == 0, name
        assert logits.grad is not None and not logits.grad.any(), name
    with torch.no_grad():  # which Trainer leaves out of its evaluation's mean
        assert loss_fn(logits, labels, torch.tensor(0), embeddings=embeddings, input_ids=labels[None]).isnan()


@pytest.mark.parametrize("watched", [False, True])
def test_an_attention_mask_says_what_is_padding_where_no_id_does(watched):
    model, batch, losses = tiny_bert(), tiny_batch(), []
    labels = batch.pop("labels")
    for loss_fn in (
        TrueNegativeLoss(sr_sent_weight=20.0),
        TrueNegativeLoss.for_symbols(range(WORDS), padding=0, sr_sent_weight=20.0),
    ):
        if watched:
            loss_fn.watch(model)
        logits = model(**batch).logits
        losses.append(loss_fn(logits, labels, **({} if watched else {**batch, "model": model})))
    assert losses[0].item() == losses[1].item()


@pytest.mark.parametrize("name", ["plain", "hc", "corpus", "several", "truncation", "sr_word"])
def test_no_graph_break(name):
    loss_fn, labels = loss_of(name), torch.tensor([4, 5, 6, 7, -100, 8, 9, 10])
    states, embeddings = torch.randn(8, 4, requires_grad=True), torch.randn(WORDS, 4, requires_grad=True)
    given = {"embeddings": embeddings, "input_ids": labels.clamp(min=0)[None]}
    backend = "eager" if name == "sr_word" else "aot_eager"  # which traces no sparse gradient
    for call in (
        lambda states: loss_fn(states @ embeddings.T, labels, **given),
        lambda states: loss_fn.of_hidden(states, embeddings, labels, **given),
    ):
        torch.compiler.reset()
        compiled = torch.compile(call, fullgraph=True, backend=backend)
        torch.testing.assert_close(compiled(states), call(states))


def test_no_graph_break_around_a_model():
    torch.compiler.reset()
    loss_fn, model, batch = loss_of("sr_sent"), tiny_bert(), tiny_batch()

    def step(labels, **given):
        return loss_fn(model(**given).logits, labels, model=model, **given)

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(**batch), step(**batch))


PRODUCTS = {"embedding": {"soft_targets": "embedding=0.3"}, "sr": {"sr_word_weight": 1.0, "sr_word_form": "expected"}}


@pytest.mark.parametrize("options", PRODUCTS.values(), ids=PRODUCTS)
def test_autocast_does_not_round_the_matrix_products(options):
    generator = torch.Generator().manual_seed(1)
    embeddings, rows = torch.randn(500, 48, generator=generator), torch.randn(64, 500, generator=generator)
    labels, found = torch.randint(500, (64,), generator=generator), []
    for is_on in (False, True):
        logits = rows.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=is_on):
            loss = TrueNegativeLoss(**options)(logits, labels, embeddings=embeddings)
        loss.backward()
        found.append((loss.detach(), logits.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_metrics_are_of_what_came_since_they_were_asked_for():
    """Training and evaluation apart; the loss of an evaluation is the plain one, the minimised one is beside it."""
    loss_fn, plain = TrueNegativeLoss(soft_targets={"uniform": 0.1}), TrueNegativeLoss()
    logits, labels = torch.randn(3, 6, 17), torch.full((3, 6), -100).fill_diagonal_(7)
    trained = loss_fn(logits, labels)
    with torch.no_grad():
        evaluated = loss_fn(2 * logits, labels)
    assert evaluated == plain(2 * logits, labels) and trained != plain(logits, labels)
    found = loss_fn.metrics()
    assert found["objective"] == pytest.approx(trained.item(), abs=1e-3)
    assert found["mlm_loss"] == pytest.approx(plain(logits, labels).item(), abs=1e-3)
    assert found["eval_mlm_loss"] == pytest.approx(evaluated.item(), abs=1e-3) != found["eval_objective"]
    assert loss_fn.metrics() == {}


LABELS = torch.tensor([[4, -100, 5, 6], [-100, 7, 8, -100]])
BAD_CALLS = {
    "labels of another shape": (lambda f: f(torch.zeros(2, 5, WORDS), LABELS), r"\(2, 5, 29\) and labels of \(2, 4\)"),
    "a label too large": (
        lambda f: f(torch.zeros(1, WORDS), torch.tensor([WORDS])),
        r"label 29 .* labels from 0 to 28",
    ),
    "a label below 0": (lambda f: f(torch.zeros(1, WORDS), torch.tensor([-1])), r"label -1 with logits of 29 tokens"),
    "a token added later": (lambda f: f(torch.zeros(1, 40), torch.tensor([35])), r"label 35, but .* had 29 tokens"),
    "logits of too few tokens": (lambda f: f(torch.zeros(1, 9), torch.tensor([5])), "logits of 9 tokens, expected 29"),
    "labels of floats": (lambda f: f(torch.zeros(2, 4, WORDS), LABELS.float()), r"torch.float32; expected int64"),
    "no labels": (lambda f: f(torch.zeros(2, 4, WORDS), None), "found NoneType as labels; expected a tensor"),
    "a tuple": (lambda f: f((torch.zeros(2, 4, WORDS),), LABELS), "found tuple as logits; expected a tensor"),
    "ids of other positions": (
        lambda f: f(torch.zeros(3, WORDS), LABELS[0, :3], input_ids=LABELS),
        r"input_ids of \(2, 4\); expected an id for each, or positions=",
    ),
    "positions too many": (
        lambda f: f(torch.zeros(2, WORDS), LABELS, input_ids=LABELS, positions=LABELS.gt(0)),
        r"positions of \(2, 4\); expected a true one for each",
    ),
    "positions too large": (
        lambda f: f(torch.zeros(2, WORDS), LABELS, input_ids=LABELS, positions=torch.tensor([1, 8])),
        "indices into 8 flattened tokens",
    ),
    "weights of another shape": (
        lambda f: f(torch.zeros(2, 4, WORDS), LABELS, weights=torch.ones(3)),
        r"weights of shape \(3,\); expected the labels' shape, \(2, 4\)",
    ),
    "targets of more than 1": (
        lambda f: f(torch.zeros(1, WORDS), LABELS[0, :1], targets=(torch.tensor([[5, 6]]), torch.tensor([[0.8, 0.8]]))),
        "sum 1.6; expected at most 1",
    ),
    "a causal LM's labels": (
        lambda f: f(torch.zeros(2, 4, WORDS), LABELS.abs() % WORDS, 8),
        r"labels: found one at every token \(a causal LM's\?\), expected the original tokens",
    ),
    "a causal LM's labels, with padding": (
        lambda f: TrueNegativeLoss()(torch.zeros(2, 4, WORDS), torch.tensor([[4, 5, 6, 7], [8, 9, 5, -100]]), 7),
        r"labels: found one at every token \(a causal LM's\?\)",
    ),
    "a second derivative": (
        lambda f: loss_of("uniform")(torch.zeros(1, WORDS, requires_grad=True), LABELS[0, :1]).backward(
            create_graph=True
        ),
        r"a second derivative \(create_graph=True\) of soft targets, .*; expected logits and an objective without",
    ),
    "more than all updates": (lambda f: setattr(f, "progress", 7), "progress: found 7, expected 0 to 1: update"),
    "options that are no keywords": (
        lambda f: TrueNegativeLoss({"hc_weight": 1}),
        "found dict as options; expected key",
    ),
    "a misspelt keyword": (lambda f: TrueNegativeLoss(hc_wieght=1), "the keyword hc_wieght; expected hc_weight"),
    "a model": (lambda f: TrueNegativeLoss.for_tokenizer(f, hc_weight=1), "TrueNegativeLoss; expected a tokenizer"),
    "an unknown symbol": (lambda f: TrueNegativeLoss.for_symbols("AC", [("A", "X")]), "X is no token; expected two of"),
    "allowed of another size": (
        lambda f: TrueNegativeLoss(allowed=torch.ones(5, dtype=torch.bool))(torch.zeros(2, 4, WORDS), LABELS),
        "allowed: found 5 words with logits of 29",
    ),
    "no embeddings": (lambda f: loss_of("embeddings")(torch.zeros(2, 4, WORDS), LABELS), "needs embeddings; expected"),
    "a model without embeddings": (
        lambda f: loss_of("embeddings")(torch.zeros(2, 4, WORDS), LABELS, model=nn.Linear(2, 2)),
        r"Linear has no get_input_embeddings\(\); expected embeddings=",
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_a_bad_call_gets_one_line(case):
    call, line = BAD_CALLS[case]
    with pytest.raises(TrueNegError, match=line) as error:
        call(loss_of("hc"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("on_a_gpu", [False, True])
def test_weights_and_targets_are_those_of_the_formula(on_a_gpu, monkeypatch):
    """An infinite weight of a token that is not predicted changes nothing, also where its row is not left out."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: on_a_gpu)
    generator = torch.Generator().manual_seed(2)
    logits, weights = torch.randn(2, 4, WORDS, generator=generator), torch.rand(2, 4, generator=generator) + 0.5
    weights[LABELS.eq(-100)] = torch.inf
    counted, log_p = LABELS.ne(-100), logits.log_softmax(-1)
    each = -log_p.gather(-1, LABELS.clamp(min=0)[..., None]).squeeze(-1).where(counted, 0)
    expected = each * weights.where(counted, 0)
    for loss_fn in (TrueNegativeLoss(), TrueNegativeLoss(soft_targets={"uniform": 1e-9})):
        torch.testing.assert_close(loss_fn(logits, LABELS, weights=weights), expected.sum() / 5)
        by_states = loss_fn.of_hidden(logits, torch.eye(WORDS), LABELS, weights=weights)
        torch.testing.assert_close(by_states, expected.sum() / 5)
    torch.testing.assert_close(TrueNegativeLoss(reduction="none")(logits, LABELS, weights=weights), expected)
    tokens = torch.tensor([3, 9]).expand(2, 4, 2)
    found = TrueNegativeLoss()(logits, LABELS, targets=(tokens, torch.tensor([0.5, 0.25]).expand(2, 4, 2)))
    mixed = 0.25 * each - (0.5 * log_p[..., 3] + 0.25 * log_p[..., 9]).where(counted, 0)
    torch.testing.assert_close(found, mixed.sum() / 5)


def test_words_that_are_not_allowed_get_no_share_and_are_never_predicted():
    allowed = torch.arange(WORDS).ge(4)
    logits = torch.randn(6, WORDS, generator=torch.Generator().manual_seed(3))
    logits[:, 2] = 9.0
    labels, embeddings = torch.arange(4, 10), torch.randn(WORDS, 8)
    leaf = logits.masked_fill(~allowed, -torch.inf).requires_grad_()  # as MDLM forbids its mask
    for name in LOSSES:
        if name == "sr_expected":
            continue
        loss_fn = loss_of(name, allowed=allowed)
        loss = loss_fn(leaf, labels, embeddings=embeddings.requires_grad_(), input_ids=labels[None])
        loss.backward()
        assert loss.isfinite() and leaf.grad.isfinite().all(), name
        assert not leaf.grad[:, :4].any(), name
        leaf.grad = None
    taught = loss_of("uniform", allowed=allowed)
    expected = 0.9 * F.cross_entropy(logits, labels) - 0.1 * logits.log_softmax(1)[:, 4:].mean()
    torch.testing.assert_close(taught(logits, labels), expected)
    taught.metrics()
    said = loss_of("hc", allowed=allowed)
    said(logits.index_fill(1, torch.tensor([4]), 8.0), labels[:1].expand(6))
    assert said.metrics()["accuracy"] == 100, "token 2 is larger, and not allowed"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_16_bits_is_that_of_their_values_in_fp32(name, dtype):
    """Also at a temperature, and where a sum is more than fp16 can hold; the gradient has the type of the logits."""
    generator = torch.Generator().manual_seed(4)
    logits = (4 * torch.randn(9000, WORDS, generator=generator)).to(dtype).requires_grad_()
    exact = logits.detach().float().requires_grad_()
    labels = torch.randint(4, WORDS, (9000,), generator=generator)
    loss_fn, embeddings = loss_of(name, reduction="sum"), torch.randn(WORDS, 8, requires_grad=True)
    given = {"embeddings": embeddings, "input_ids": labels[None]}
    found, expected = loss_fn(logits, labels, **given), loss_fn(exact, labels, **given)
    assert found.dtype == torch.float32 and found > 65504 / 4
    torch.testing.assert_close(found, expected)
    for loss in (found, expected):
        loss.backward()
    torch.testing.assert_close(logits.grad, exact.grad.to(dtype), rtol=2e-2, atol=1e-3)


def test_what_a_subclass_overrides_is_asked():
    class Mine(TrueNegativeLoss):
        def soft_targets(self, judged, passes):
            return [SoftTargets(judged.counted.float() * 0.1)]

    logits = torch.randn(2, 4, WORDS)
    expected = TrueNegativeLoss(soft_targets={"uniform": 0.1})(logits, LABELS)
    torch.testing.assert_close(Mine()(logits, LABELS), expected)


def test_symbols_without_a_tokenizer_have_pairs_with_grades():
    """BLOSUM62 gives I and V 3, I and L 2, I and M 1."""
    pairs = [("I", "V", 3), ("I", "L", 2), ("I", "M", 1), ("K", "R", 2)]
    loss_fn = TrueNegativeLoss.for_symbols("-ACDEFGHIKLMNPQRSTVWY", pairs, padding=0, soft_targets={"table": 0.3})
    logits, order = torch.randn(2, 21), "-ACDEFGHIKLMNPQRSTVWY".index
    log_p = logits.log_softmax(1)
    own = (
        -0.7 * log_p[0, order("I")]
        - 0.3 * (3 * log_p[0, order("V")] + 2 * log_p[0, order("L")] + log_p[0, order("M")]) / 6
    )
    found = loss_fn(logits, torch.tensor([order("I"), order("A")]))
    torch.testing.assert_close(found, (own - log_p[1, order("A")]) / 2)
    corrected = TrueNegativeLoss.for_symbols("-ACDEFGHIKLMNPQRSTVWY", pairs, hc_weight=1.0)
    said = 9.0 * torch.eye(21)[[order("V"), order("V")]]
    torch.testing.assert_close(
        corrected(said, torch.tensor([order("I"), order("A")])), F.cross_entropy(said[1:], torch.tensor([1])) / 2
    )


def test_the_table_beside_a_dictionary_excuses_its_words(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text("cat 3\ndog 2\nmat 1\n", encoding="utf-8")
    vocabulary = vocabulary_of(read_symbols(path), tmp_path, tokenization="words")
    table_of_pairs([(4, 5)], vocabulary).save(tmp_path / "synonyms.npz")
    loss_fn = TrueNegativeLoss.for_dictionary(path, tokenization="words", hc_weight=1.0)
    said = 9.0 * torch.eye(8)[[5, 5]]
    torch.testing.assert_close(loss_fn(said, torch.tensor([4, 6])), F.cross_entropy(said[1:], torch.tensor([6])) / 2)


def test_the_log_says_whose_cosines_the_package_s_regression_was_fitted_on(caplog):
    caplog.set_level("INFO")
    loss_of("hc")
    assert "cosines" not in caplog.text
    loss_of("embedding")
    assert "judged by the cosines of all-MiniLM-L6-v2; for another model fit its own" in caplog.text


def test_a_table_of_a_model_with_more_rows_than_its_tokenizer_has_tokens(tmp_path, caplog):
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(fast_tokenizer("wordpiece", tmp_path)))
    padded = vocabulary_of_tokenizer(tokenizer, size=128)
    table_of_pairs([(20, 21)], padded).save(tmp_path / "padded.npz")
    options = {"hc_weight": 1.0, "synonym_table": str(tmp_path / "padded.npz")}
    with pytest.raises(TrueNegError, match=r"padded\.npz"):
        TrueNegativeLoss.for_tokenizer(tokenizer, **options)
    caplog.set_level("INFO")
    loss_fn = TrueNegativeLoss.for_tokenizer(tokenizer, vocabulary_size=128, **options)
    assert "expect a first loss of about 4.9 nats, 7.0 bits: the logarithm of 128 tokens" in caplog.text
    said = 9.0 * torch.eye(128)[[21, 3, 127, 0]]
    assert loss_fn(said, torch.tensor([20, 21, 127, -100])).isfinite()
    assert loss_fn.metrics()["hc_pred"] == 50, "of two mistakes one is in the table"
    options = {"hc_weight": 1.0, "hc_detector": "any", "ideas": {"any": Anything()}}
    loss_fn = TrueNegativeLoss.for_tokenizer(tokenizer, vocabulary_size=128, **options)
    loss_fn(9.0 * torch.eye(128)[[21, 127]], torch.tensor([20, 20]))
    assert loss_fn.metrics()["hc_pred"] == 50, "a row that the tokenizer does not have is no word"


class Anything(Alternatives):
    """A user's source that accepts all."""

    reads = frozenset()

    def accepts(self, batch, tokens, model):
        return torch.ones(len(tokens))


def test_embeddings_with_a_scale_beside_them_are_the_rows():
    """As I-BERT's are."""
    model = nn.Linear(3, 5)
    model.get_input_embeddings = lambda: model
    model.forward = lambda tokens: (2 * model.weight[tokens], torch.ones(1))
    assert torch.equal(embeddings_in_use(model), 2 * model.weight)


def test_the_loss_to_expect_is_that_of_chance_and_of_frequencies():
    line = expected_losses(8, SimpleNamespace(words=torch.tensor([2, 1, 1, 0, 0, 0, 0, 0])))
    assert "about 2.1 nats, 3.0 bits: the logarithm of 8 tokens; then 1.0 nats, 1.5 bits" in line


def test_the_stock_trainer_accumulates_and_evaluates_as_ours(tmp_path):
    """An evaluation's loss is the plain one."""
    options, machines = {"soft_targets": "uniform=0.2"}, []
    settings = {"max_steps": 2, "learning_rate": 0.1, "optim": "sgd", "gradient_accumulation_steps": 2}
    loss_fn, ours = TrueNegativeLoss(**options), hf.TrueNegativeArguments(**options)
    for own in ({"true_negatives": ours}, {"kind": transformers.Trainer, "compute_loss_func": loss_fn}):
        machine = trainer(small_model(), tmp_path, data_collator=masked_batch, **settings, **own)
        machine.train()
        machines.append((weights(machine), machine.evaluate()["eval_loss"]))
    assert_same(machines[1][0], machines[0][0], rtol=1e-5, atol=1e-6)
    assert machines[1][1] == pytest.approx(machines[0][1], rel=1e-5)
    assert {"mlm_loss", "eval_mlm_loss"} <= loss_fn.metrics().keys()


@pytest.mark.slow
def test_the_example_trains(tmp_path):
    """Text, dictionary, table, loop and curve: its loss falls, and the page says what to expect of it."""
    text = tmp_path / "text.txt"
    text.write_text("the big cat sat . the small dog ran , and the old cat stood .\n" * 60, encoding="utf-8")
    script = REPOSITORY / "user_dir_examples" / "own_loop" / "train.py"
    run = run_command([sys.executable, script, text, "--folder", tmp_path / "out", "--updates", "200"], fresh=True)
    header, *lines = (tmp_path / "out" / "loss.csv").read_text(encoding="utf-8").splitlines()
    column = header.split(",").index("mlm_loss")
    losses = [float(line.split(",")[column]) for line in lines]
    assert len(losses) == 11
    assert losses[-1] < losses[0] / 2
    assert "expect a loss of" in run.stdout
