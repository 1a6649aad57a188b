"""TrueNegativeLoss in the loops that people have: it is nn.CrossEntropyLoss to the bit while every weight is 0."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support.commands import REPOSITORY, run_command
from support.tokenizers_made import fast_tokenizer
from torch import nn

from truneg_fairseq import TrueNegativeLoss
from truneg_fairseq.data.tokenizer import vocabulary_of
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.objectives.build import expected_losses
from truneg_fairseq.synonyms import SynonymTable
from truneg_fairseq.vocabulary import read_symbols, vocabulary_of_tokenizer

OPTIONS = {
    "plain": {},
    "hc": {"hc_weight": 1.0},
    "uniform": {"soft_targets": "uniform=0.1"},
    "synonyms": {"soft_targets": "table:flat=0.2"},
    "both": {"hc_weight": 0.5, "soft_targets": "uniform=0.1,table:flat=0.2"},
}


@pytest.fixture(params=OPTIONS)
def loss_fn(request, tmp_path):
    """With a dict.txt, and beside it a table in which neighbours are synonyms."""
    words, path = "cat dog mat house big red small old sat ran stood walked".split(), tmp_path / "dict.txt"
    path.write_text("".join(f"{word} {100 - row}\n" for row, word in enumerate(words)), encoding="utf-8")
    vocabulary = vocabulary_of(read_symbols(path), tmp_path, tokenization="words")
    save_table(tmp_path / "synonyms.npz", vocabulary, [(row, row + 1 - 2 * (row % 2)) for row in range(4, 16)])
    return TrueNegativeLoss.for_dictionary(path, tokenization="words", **OPTIONS[request.param])


def save_table(path: Path, vocabulary, pairs: list[tuple[int, int]]) -> None:
    gold, synonym = torch.tensor(pairs, dtype=torch.int32).numpy().T
    facts = {"vocabulary_size": len(vocabulary), "tokenization": vocabulary.tokenization, "source": "wordnet"}
    SynonymTable(gold=gold, synonym=synonym, fingerprint=vocabulary.fingerprint, **facts).save(path)


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
    for loss_of in losses:
        leaf = logits.clone().requires_grad_()
        loss = loss_of(leaf.float() if loss_of is losses[0] else leaf, labels)
        loss.sum().backward()
        found.append((loss.detach(), leaf.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("items", [None, 0, torch.tensor(0)], ids=["own", "0", "tensor 0"])
def test_a_batch_without_masked_tokens_costs_nothing(loss_fn, items):
    logits = torch.randn(2, 5, 17, requires_grad=True)
    loss = loss_fn(logits, torch.full((2, 5), -100), items)
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_no_graph_break_and_no_sync(loss_fn):
    """A tensor of the device "meta" has no value, which a sync would ask for."""
    logits, labels = torch.randn(8, 17, requires_grad=True), torch.tensor([4, 5, 6, 7, -100, 8, 9, 10])
    compiled = torch.compile(loss_fn, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(logits, labels), loss_fn(logits, labels))
    loss_fn.metrics()
    rows = torch.randn(8, 17, device="meta", requires_grad=True)
    assert loss_fn.to("meta")(rows, labels.to("meta")).is_meta


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
    loss_fn = TrueNegativeLoss()
    first = loss_fn(torch.randn(3, 6, 17), torch.full((3, 6), -100).fill_diagonal_(7))
    assert loss_fn.metrics()["mlm_loss"] == pytest.approx(first.item(), abs=1e-3)
    assert loss_fn.metrics() == {}


@pytest.mark.parametrize("options", [{}, {"soft_targets": "uniform=0.1"}])
def test_shapes_and_labels_that_do_not_fit_are_told_with_both(options):
    loss_fn = TrueNegativeLoss(**options)
    with pytest.raises(TrueNegError, match=r"\(2, 5, 17\).*\(2, 4\)"):
        loss_fn(torch.zeros(2, 5, 17), torch.zeros(2, 4, dtype=torch.long))
    for label in (17, -1):
        with pytest.raises(TrueNegError, match=rf"found the label {label} with logits of 17 tokens; expected labels"):
            loss_fn(torch.zeros(3, 17), torch.tensor([3, label, -100]))


def test_a_table_of_a_model_with_more_rows_than_its_tokenizer_has_tokens(tmp_path, caplog):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(fast_tokenizer("wordpiece", tmp_path)))
    save_table(tmp_path / "padded.npz", vocabulary_of_tokenizer(tokenizer, size=128), [(20, 21)])
    options = {"hc_weight": 1.0, "synonym_table": str(tmp_path / "padded.npz")}
    with pytest.raises(TrueNegError, match=r"padded\.npz"):
        TrueNegativeLoss.for_tokenizer(tokenizer, **options)
    caplog.set_level("INFO")
    loss_fn = TrueNegativeLoss.for_tokenizer(tokenizer, vocabulary_size=128, **options)
    assert "expect a first loss of about 4.9 nats, 7.0 bits: the logarithm of 128 tokens" in caplog.text
    said = 9.0 * torch.eye(128)[[21, 3, 127, 0]]
    assert loss_fn(said, torch.tensor([20, 21, 127, -100])).isfinite()
    assert loss_fn.metrics()["hc_pred"] == 50, "of two mistakes one is in the table"
    with pytest.raises(TrueNegError, match="found logits of 100 tokens, expected 128"):
        loss_fn(torch.randn(4, 100), torch.tensor([20, 21, 27, -100]))


def test_the_loss_to_expect_is_that_of_chance_and_of_frequencies():
    line = expected_losses(8, SimpleNamespace(words=torch.tensor([2, 1, 1, 0, 0, 0, 0, 0])))
    assert "about 2.1 nats, 3.0 bits: the logarithm of 8 tokens; then 1.0 nats, 1.5 bits" in line


@pytest.mark.parametrize(
    "options",
    [
        {"hc_weight": 1.0},
        {"soft_targets": "uniform=0.2,table:flat=0.2"},
        {"sr_sent_weight": 20.0, "sr_word_weight": 1.0, "soft_targets": "embedding=0.2"},
    ],
    ids="+".join,
)
def test_stock_trainer_with_the_loss_is_our_trainer(options, tmp_path, monkeypatch):
    """Sentences and embeddings are those of the model that is watched; the others need logits and labels alone."""
    pytest.importorskip("truneg_fairseq.hf")
    from support.hf_models import ROWS, assert_same, options_of_list, small_model, small_tokenizer, trainer, weights
    from transformers import DataCollatorForLanguageModeling, Trainer

    from truneg_fairseq.hf import TrueNegativeArguments

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    watched = "sr_sent_weight" in options

    def trained(arguments=None, kind=None, loss_fn=None):
        collator = DataCollatorForLanguageModeling(small_tokenizer(), mlm_probability=0.4, seed=9)
        settings = {"max_steps": 3, "learning_rate": 0.1, "optim": "sgd", "seed": 4, "data_collator": collator}
        settings["gradient_accumulation_steps"] = 1 if watched else 2
        model = small_model()
        if watched and loss_fn:
            loss_fn.watch(model)
        machine = trainer(model, tmp_path, arguments, kind=kind, compute_loss_func=loss_fn, **settings)
        machine.train()
        return machine

    def with_table(rows: int | None) -> dict[str, object]:
        """The table of the trainer has the model's rows, that of the loss the tokenizer's tokens."""
        own = tmp_path / f"{rows}.tsv"
        own.write_text("cat\tdog\nbig\tred\nmat\thouse\n", encoding="utf-8")
        return {**options, **options_of_list(own, rows)}

    ours = trained(TrueNegativeArguments(**with_table(ROWS)))
    loss_fn = TrueNegativeLoss.for_tokenizer(small_tokenizer(), **with_table(None))
    theirs = trained(kind=Trainer, loss_fn=loss_fn)
    assert_same(weights(theirs), weights(ours), rtol=1e-5, atol=1e-6)
    assert loss_fn.metrics().keys() <= {*ours.state.log_history[0], "objective"}
    assert theirs.evaluate()["eval_loss"] == pytest.approx(ours.evaluate()["eval_loss"], rel=1e-5), "the plain loss"
    assert all(name.startswith("eval_") for name in loss_fn.metrics())


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
