"""TrueNegativeLoss in the loops that people have: each is nn.CrossEntropyLoss's to the bit while every weight is 0."""

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

WORDS = "cat dog mat house big red small old sat ran stood walked".split()
OPTIONS = {
    "hc": {"hc_weight": 1.0},
    "uniform": {"uniform_targets": 0.1},
    "synonyms": {"synonym_targets": 0.2, "synonym_shape": "uniform"},
    "both": {"hc_weight": 0.5, "uniform_targets": 0.1, "synonym_targets": 0.2, "synonym_shape": "uniform"},
}


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    """A dict.txt, and beside it a table in which neighbours in WORDS are synonyms."""
    path = tmp_path / "dict.txt"
    path.write_text("".join(f"{word} {100 - row}\n" for row, word in enumerate(WORDS)), encoding="utf-8")
    vocabulary = vocabulary_of(read_symbols(path), tmp_path, tokenization="words")
    save_table(tmp_path / "synonyms.npz", vocabulary, [(row, row + 1 - 2 * (row % 2)) for row in range(4, 16)])
    return path


def save_table(path: Path, vocabulary, pairs: list[tuple[int, int]]) -> None:
    gold, synonym = torch.tensor(pairs, dtype=torch.int32).numpy().T
    facts = {"vocabulary_size": len(vocabulary), "tokenization": vocabulary.tokenization, "source": "wordnet"}
    SynonymTable(gold=gold, synonym=synonym, fingerprint=vocabulary.fingerprint, **facts).save(path)


def loss_of(dictionary: Path, **options):
    return TrueNegativeLoss.for_dictionary(
        dictionary, tokenization="words", synonym_table=str(dictionary.with_name("synonyms.npz")), **options
    )


class Small(nn.Module):
    """Any model: ids to logits, shape (B, T, V)."""

    def __init__(self, size: int = len(WORDS) + 5) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.project = nn.Embedding(size, 8), nn.Linear(8, size)

    def forward(self, input_ids):
        return self.project(self.embed(input_ids))


def batches(count: int = 4, size: int = len(WORDS) + 5):
    """Ids and labels, the last batch without a masked token."""
    generator = torch.Generator().manual_seed(5)
    for number in range(count):
        ids = torch.randint(4, size - 1, (3, 6), generator=generator)
        masked = torch.rand(ids.shape, generator=generator).lt(0.4) & torch.tensor(number < count - 1)
        yield ids.masked_fill(masked, size - 1), torch.where(masked, ids, -100)


def plain_loop(loss_fn, *, accumulate: int = 1, items_as: str | None = None):
    """A loop without a framework; losses and weights. ``items_as`` names the number of masked tokens of an update."""
    model, losses = Small(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    groups = list(batches())
    for first in range(0, len(groups), accumulate):
        group = groups[first : first + accumulate]
        items = sum(int(labels.ne(-100).sum()) for _, labels in group)
        for ids, targets in group:
            if targets.eq(-100).all():
                continue
            loss = loss_fn(model(ids).flatten(0, 1), targets.flatten(), **({items_as: items} if items_as else {}))
            losses.append(loss.detach())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.stack(losses), torch.cat([each.detach().flatten() for each in model.parameters()])


def test_one_loss_for_another_in_a_loop():
    """At weight 0 the training is the same to the bit."""
    stock, ours = plain_loop(nn.CrossEntropyLoss()), plain_loop(TrueNegativeLoss())
    assert all(torch.equal(one, other) for one, other in zip(stock, ours, strict=True))


def test_micro_batches_are_divided_by_the_masked_tokens_of_the_update():
    total = nn.CrossEntropyLoss(reduction="sum")
    stock = plain_loop(lambda logits, labels, items: total(logits, labels) / items, accumulate=2, items_as="items")
    ours = plain_loop(TrueNegativeLoss(), accumulate=2, items_as="num_items")
    assert all(torch.equal(one, other) for one, other in zip(stock, ours, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_at_weight_0_it_is_cross_entropy_to_the_bit(dtype, reduction):
    logits = torch.randn(40, 17, generator=torch.Generator().manual_seed(1)).to(dtype)
    labels = torch.arange(40) % 17
    labels[::3] = -100
    found = []
    for loss_fn in (nn.CrossEntropyLoss(reduction=reduction), TrueNegativeLoss(reduction=reduction)):
        leaf = logits.clone().requires_grad_()
        loss = loss_fn(leaf, labels)
        loss.sum().backward()
        found.append((loss.detach(), leaf.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("name", [None, *OPTIONS])
def test_a_batch_without_masked_tokens_costs_nothing(name, dictionary):
    loss_fn = TrueNegativeLoss() if name is None else loss_of(dictionary, **OPTIONS[name])
    logits = torch.randn(2, 5, 17, requires_grad=True)
    loss = loss_fn(logits, torch.full((2, 5), -100))
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def reference(logits, labels, pairs, *, hc_weight=0.0, uniform_targets=0.0, synonym_targets=0.0, **_):
    """The formula position by position, in Python: mean of keep * cross-entropy with the shared target."""
    log, total, counted = logits.log_softmax(-1), torch.zeros(()), 0
    for row, gold in enumerate(labels.tolist()):
        if gold == -100:
            continue
        counted += 1
        synonyms = [other for one, other in pairs if one == gold]
        guess = int(logits[row].argmax())
        keep = 1 - hc_weight * (guess != gold and guess in synonyms)
        share = synonym_targets if synonyms else 0.0
        spread = sum(log[row, other] for other in synonyms) / max(1, len(synonyms))
        expected = (1 - uniform_targets - share) * log[row, gold] + uniform_targets * log[row].mean() + share * spread
        total = total - keep * expected
    return total / counted


@pytest.mark.parametrize("name", OPTIONS)
def test_correction_and_soft_targets_are_those_of_the_formula(name, dictionary):
    table = SynonymTable.load(dictionary.with_name("synonyms.npz"))
    pairs = list(zip(table.gold.tolist(), table.synonym.tolist(), strict=True))
    labels = torch.tensor([4, 5, 6, 7, -100, 8, 9])
    logits = torch.randn(7, 17, generator=torch.Generator().manual_seed(2))
    logits[0, 5], logits[2, 7] = 9.0, 9.0  # synonyms of the gold words, so that something is corrected
    loss_fn = loss_of(dictionary, **OPTIONS[name])
    torch.testing.assert_close(loss_fn(logits, labels), reference(logits, labels, pairs, **OPTIONS[name]))
    if OPTIONS[name].get("hc_weight"):
        assert loss_fn.metrics()["hc_pred"] > 0


@pytest.mark.parametrize("name", [None, *OPTIONS])
def test_no_graph_break_and_no_sync(name, dictionary):
    """A tensor of the device "meta" has no value, which a sync would ask for."""
    loss_fn = TrueNegativeLoss() if name is None else loss_of(dictionary, **OPTIONS[name])
    logits, labels = torch.randn(8, 17, requires_grad=True), torch.tensor([4, 5, 6, 7, -100, 8, 9, 10])
    assert torch.equal(torch.compile(loss_fn, fullgraph=True, backend="eager")(logits, labels), loss_fn(logits, labels))
    loss_fn.metrics()
    rows = torch.randn(8, 17, device="meta", requires_grad=True)
    assert loss_fn.to("meta")(rows, labels.to("meta")).is_meta


@pytest.mark.parametrize(
    "options", [{"nearest_targets": 0.3}, {"sr_word_weight": 1.0, "sr_word_form": "expected"}], ids=["nearest", "sr"]
)
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
    loss_fn, (ids, labels) = TrueNegativeLoss(), next(iter(batches()))
    logits = Small()(ids)
    first = loss_fn(logits, labels)
    assert loss_fn.metrics()["mlm_loss"] == pytest.approx(first.item(), abs=1e-3)
    assert loss_fn.metrics() == {}


@pytest.mark.parametrize("options", [{}, {"uniform_targets": 0.1}])
def test_shapes_and_labels_that_do_not_fit_are_told_with_both(options):
    loss_fn = TrueNegativeLoss(**options)
    with pytest.raises(TrueNegError, match=r"\(2, 5, 17\).*\(2, 4\)"):
        loss_fn(torch.zeros(2, 5, 17), torch.zeros(2, 4, dtype=torch.long))
    for label in (17, -1):
        with pytest.raises(IndexError, match=f"Target {label} is out of bounds"):
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
    assert loss_fn(torch.randn(4, 128), torch.tensor([20, 21, 127, -100])).isfinite()
    with pytest.raises(TrueNegError, match="found logits of 100 tokens, expected 128"):
        loss_fn(torch.randn(4, 100), torch.tensor([20, 21, 27, -100]))


def test_the_loss_to_expect_is_that_of_chance_and_of_frequencies():
    line = expected_losses(8, SimpleNamespace(words=torch.tensor([2, 1, 1, 0, 0, 0, 0, 0])))
    assert "about 2.1 nats, 3.0 bits: the logarithm of 8 tokens; then 1.0 nats, 1.5 bits" in line


PROCESSES = """
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
sys.path[:0] = sys.argv[1:2]
from objectives.test_loops import Small, batches
from truneg_fairseq import TrueNegativeLoss

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
found = []
for ours in (False, True):
    model = DistributedDataParallel(Small())
    loss_fn = TrueNegativeLoss() if ours else torch.nn.CrossEntropyLoss(reduction="sum")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for number, (ids, labels) in enumerate(batches()):
        if number % world != rank:
            continue
        items = labels.ne(-100).sum()
        dist.all_reduce(items)
        logits, items = model(ids).flatten(0, 1), items / world
        loss = loss_fn(logits, labels.flatten(), num_items=items) if ours else loss_fn(logits, labels.flatten()) / items
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    found.append(torch.cat([each.detach().flatten() for each in model.parameters()]))
    if ours:
        metrics = loss_fn.metrics()
assert torch.equal(*found)
gathered = [None] * world
dist.all_gather_object(gathered, metrics)
assert gathered[0] == gathered[1] and metrics["mlm_loss"] > 0, gathered
"""


@pytest.mark.slow
def test_two_processes(tmp_path):
    """The last batch of one of them has no masked token."""
    script = tmp_path / "two.py"
    script.write_text(PROCESSES, encoding="utf-8")
    launch = [sys.executable, *"-m torch.distributed.run --standalone --nproc_per_node 2".split()]
    run_command([*launch, script, REPOSITORY / "tests"], fresh=True)


def test_accelerate():
    accelerate = pytest.importorskip("accelerate")
    found = []
    for loss_fn in (nn.CrossEntropyLoss(), TrueNegativeLoss()):
        machine, model = accelerate.Accelerator(cpu=True), Small()
        model, optimizer = machine.prepare(model, torch.optim.SGD(model.parameters(), lr=0.5))
        for ids, labels in list(batches())[:-1]:
            with machine.accumulate(model), machine.autocast():
                loss = loss_fn(model(ids).flatten(0, 1), labels.flatten())
            machine.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        found.append(torch.cat([each.detach().flatten() for each in model.parameters()]))
    assert torch.equal(*found)


def update_of(folder: Path, kind=None, **options):
    """The weights after three updates of a Trainer (None: the stock one), of two micro-batches each."""
    from support.hf_models import examples, small_model, small_tokenizer
    from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

    tokenizer = small_tokenizer()
    arguments = TrainingArguments(
        str(folder), use_cpu=True, report_to=[], max_steps=3, per_device_train_batch_size=1, save_strategy="no",
        gradient_accumulation_steps=2, learning_rate=0.1, optim="sgd", seed=4,
    )  # fmt: skip
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.4, seed=9)
    model = small_model("BertForMaskedLM")
    others = {"train_dataset": examples(tokenizer), "data_collator": collator, "processing_class": tokenizer}
    (kind or Trainer)(model, arguments, **others, **options).train()
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def test_transformers_trainer_takes_it_as_compute_loss_func(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    def stock(outputs, labels, num_items_in_batch):
        rows = outputs.logits.flatten(0, 1)
        return nn.functional.cross_entropy(rows, labels.flatten(), reduction="sum") / num_items_in_batch

    ours = update_of(tmp_path / "ours", compute_loss_func=TrueNegativeLoss())
    assert torch.equal(ours, update_of(tmp_path / "stock", compute_loss_func=stock))


@pytest.mark.parametrize("options", [{"hc_weight": 1.0}, {"uniform_targets": 0.2, "synonym_targets": 0.2}], ids=str)
def test_stock_trainer_with_the_loss_is_our_trainer(options, tmp_path, monkeypatch):
    """The table has no cosine to look up: all synonyms get alike, so that the loss needs logits and labels alone."""
    hf = pytest.importorskip("truneg_fairseq.hf")
    from support.hf_models import ROWS, small_tokenizer, table_of_list

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = tmp_path / "own.tsv"
    own.write_text("cat\tdog\nbig\tred\nmat\thouse\n", encoding="utf-8")
    options = {**options, "tokenization": "wordpiece", "synonym_shape": "uniform"}

    def with_table(rows: int | None) -> dict[str, object]:
        """The table of the trainer has the model's rows, that of the loss the tokenizer's tokens."""
        table = table_of_list(own, hf.vocabulary_of(small_tokenizer(), "wordpiece", rows))
        return {**options, "synonym_table": str(table.rename(own.with_name(f"{rows}.npz")))}

    arguments = hf.TrueNegativeArguments(**with_table(ROWS))
    ours = update_of(tmp_path / "a", hf.TrueNegativeTrainer, true_negatives=arguments)
    loss_fn = TrueNegativeLoss.for_tokenizer(small_tokenizer(), **with_table(None))
    torch.testing.assert_close(update_of(tmp_path / "b", compute_loss_func=loss_fn), ours, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_example_trains(tmp_path, dictionary):
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
