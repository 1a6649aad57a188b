"""The criterion electra inside real fairseq objects, and its mathematics."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from fairseq import utils
from support.commands import ELECTRA_MODEL, ELECTRA_TRAINING, PLUGIN, WORDS
from support.trainings import BOUNDS, assert_close_to_fp32, detector, make, parse, table_of

from truneg_fairseq.criterions import electra_criterion as electra
from truneg_fairseq.objectives import sample_tokens


def build(data, *arguments):
    """Task, model and criterion of a command line."""
    return make(parse([data, "--user-dir", PLUGIN, *ELECTRA_TRAINING, *ELECTRA_MODEL, *arguments]))


def a_batch(task, count: int = 8):
    task.load_dataset("train")
    dataset = task.dataset("train")
    return dataset.collater([dataset[index] for index in range(count)])


def original_of(sample, padding: int):
    return torch.where(sample["target"].ne(padding), sample["target"], sample["net_input"]["src_tokens"])


def fixed(criterion, token_of):
    """Fixes the sampling: ``token_of`` maps the gold tokens to what the generator puts there."""
    criterion.sample_replacements = lambda judged: token_of(judged.gold)


@pytest.mark.parametrize("dtype", BOUNDS, ids=["fp16", "bf16"])
def test_half_precision_is_close_to_fp32(dtype, data_bin):
    """Where the same tokens are sampled."""

    def made():
        flags = ("--sr-sent-weight", 1, "--discriminator-false-negatives", "relabel", "--tokenization", "wordpiece")
        task, model, criterion = build(data_bin, *flags)
        words = len(task.source_dictionary)
        fixed(criterion, lambda gold: torch.where(gold % 2 == 0, gold, (gold * 7 + 11) % (words - 5) + 4))
        return model, criterion, a_batch(task)

    assert_close_to_fp32(made, dtype)


def with_synonyms(data, path, *arguments):
    """A criterion whose table lists "main" for every gold word, with "main" sampled everywhere."""
    table = table_of(data, [(word, "main") for word in WORDS if word != "main"], path / "t.npz")
    task, model, criterion = build(data, "--synonym-table", table, "--tokenization", "wordpiece", *arguments)
    main = task.source_dictionary.index("main")
    fixed(criterion, lambda gold: torch.full_like(gold, main))
    return task, model, criterion, main


def assert_logged_plainly(log, scores, replaced, real):
    """Whatever is minimised, the logged loss is against what is sampled and differs: so runs compare."""
    suspected = real & scores.gt(0)
    expected = F.binary_cross_entropy_with_logits(scores[real], replaced[real].float()).detach()
    torch.testing.assert_close(log["disc_loss"] / log["disc_size"], expected, rtol=1e-5, atol=1e-6)
    rates = {"size": real, "correct": real & suspected.eq(replaced), "found": suspected & replaced}
    for name, tokens in {**rates, "suspected": suspected, "replaced": replaced}.items():
        assert log[f"disc_{name}"] == tokens.sum(), name
    assert not any(value.requires_grad for value in log.values() if torch.is_tensor(value))
    size = log["sample_size"]
    torch.testing.assert_close(log["loss"] / size, log["gen_loss"] / size + 50 * expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("choice", ["keep", "ignore", "relabel"])
def test_false_negatives_of_the_discriminator(choice, data_bin, tmp_path):
    """Sampled synonyms of whole words: pieces, and words that a piece continues, are never excused."""
    task, model, criterion, main = with_synonyms(data_bin, tmp_path, "--discriminator-false-negatives", choice)
    sample = a_batch(task)
    loss, sample_size, log = criterion(model, sample)
    original = original_of(sample, criterion.padding_idx)
    pieces = torch.tensor([symbol.startswith("##") for symbol in task.source_dictionary.symbols])
    masked = sample["target"].ne(criterion.padding_idx)
    followed = F.pad(pieces[original][:, 1:], (0, 1))
    excused = masked & ~pieces[original] & ~followed & original.ne(main)
    replaced = masked & original.ne(main)
    real = original.ne(criterion.padding_idx)
    assert 0 < excused.sum() < replaced.sum()
    assert log["disc_synonyms"] == excused.sum()
    filled = torch.where(masked, main, original)
    scores = model.discriminator_head(model.encoder(filled, features_only=True)[0])
    assert_logged_plainly(log, scores, replaced, real)
    if choice == "relabel":
        replaced &= ~excused
    counted = real & ~excused if choice == "ignore" else real
    expected = F.binary_cross_entropy_with_logits(scores[counted], replaced[counted].float())
    generator = log["gen_loss"] / sample_size
    torch.testing.assert_close(loss / sample_size, generator + 50 * expected, rtol=1e-5, atol=1e-5)
    assert log["objective"] == loss
    head = list(model.discriminator_head.parameters())  # what is only logged has no gradient
    found, wanted = (torch.autograd.grad(each, head) for each in (loss / sample_size, 50 * expected))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ("--hc-weight 1 --sr-word-weight 1", 1),
        ("--sr-sent-weight 1", 2),
        ("--hc-weight 1 --hc-detector table+context", 2),
        ("--hc-weight 1 --hc-detector table+context --sr-sent-weight 1", 2),
    ],
)
def test_the_discriminator_reads_the_original_sentences_once_at_most(options, passes, data_bin, tmp_path):
    """Beside the pass over the sampled tokens: for the sentences' regularization, or to compare states, or for both."""
    flags = (*options.split(), *(detector(tmp_path, "table+context") if "context" in options else ()))
    task, model, criterion, _ = with_synonyms(data_bin, tmp_path, *flags)
    made = []
    for encoder in (model.encoder, model.generator):
        encoder.sentence_encoder.register_forward_hook(lambda module, *_: made.append(module))
    criterion(model, a_batch(task))
    assert made.count(model.generator.sentence_encoder) == 1
    assert made.count(model.encoder.sentence_encoder) == passes


def test_noise_depends_on_update_and_micro_batch(data_bin):
    task, model, criterion = build(data_bin)
    sample = a_batch(task)
    drawn = []
    stock = criterion.sample_replacements
    criterion.sample_replacements = lambda judged: drawn.append(stock(judged)) or drawn[-1]

    def draw(seed, *, train=True):
        if seed is not None:
            torch.manual_seed(seed)
        if train is not criterion.training:
            criterion.train(train)
        criterion(model, sample)
        return drawn[-1]

    first, second = draw(5), draw(None)
    other = draw(6)
    torch.rand(3)
    state = torch.get_rng_state()
    assert torch.equal(draw(5), first), "whatever else was drawn"
    assert torch.equal(draw(None), second)
    criterion.train()  # as the trainer does before each attempt: an update that has overflowed is attempted again
    assert torch.equal(draw(None), first)
    assert torch.equal(draw(None), second)
    assert not torch.equal(first, second) and not torch.equal(first, other)
    draw(7)
    assert not torch.equal(torch.get_rng_state(), state)
    before = torch.get_rng_state()
    validation = draw(None, train=False), draw(None, train=False)
    assert torch.equal(torch.get_rng_state(), before), "torch's own numbers are left alone"
    draw(8)
    assert all(map(torch.equal, validation, (draw(None, train=False), draw(None, train=False))))


@pytest.mark.parametrize(
    ("size", "dtype"), [(1, torch.float32), (255, torch.float16), (256, torch.bfloat16), (257, torch.float32)]
)
def test_sampling_follows_the_softmax(size, dtype):
    """Over a vocabulary of several blocks, the last one not full, with tokens that cannot be."""
    logits = (torch.arange(size) % 5 / 4).to(dtype)
    logits[3:size:7] = -torch.inf
    possible = logits.isfinite()
    count = 400 * size
    drawn = sample_tokens(logits.expand(count, -1), torch.Generator().manual_seed(4))
    found = drawn.bincount(minlength=size).double()
    assert len(found) == size
    assert found[~possible].eq(0).all()
    expected = count * logits.double().softmax(-1)[possible]
    chi_squared = ((found[possible] - expected) ** 2 / expected).sum()
    freedom = int(possible.sum()) - 1
    assert chi_squared <= freedom + 5 * math.sqrt(2 * freedom) + 1e-9


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-24])
def test_sampling_at_the_ends_takes_a_possible_token(uniform, monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda *shape, **options: torch.full(shape, uniform))
    logits = torch.full((2, 600), -torch.inf)
    logits[0, [5, 300]] = 1.0
    logits[1, 599] = -3.0
    assert sample_tokens(logits).tolist() == [5 if uniform == 0 else 300, 599]


def test_samples_of_half_precision_have_the_probabilities_of_its_logits(monkeypatch):
    """The difference to the largest logit is not rounded to bf16: 0.0068, not 0.0067, is the second one's share."""
    logits = torch.tensor([[5.0, 0.01171875]], dtype=torch.bfloat16)
    assert float(logits[0, 1] - logits[0, 0]) == -5
    between = 1 - 0.5 * (float(torch.tensor(-5.0).sigmoid()) + float(torch.tensor(-4.98828125).sigmoid()))
    monkeypatch.setattr(torch, "rand", lambda *size, **_: torch.full(size, between))
    assert sample_tokens(logits).tolist() == sample_tokens(logits.float()).tolist() == [1]


@pytest.mark.parametrize(
    "options",
    [
        (),
        (
            *("--hc-weight", 1, "--hc-detector", "table+embedding+context", "--sr-word-weight", 1),
            *("--sr-sent-weight", 1, "--soft-targets", "table=0.1,uniform=0.1"),
            *("--discriminator-false-negatives", "ignore"),
        ),
    ],
)
def test_no_step_waits_for_the_device(data_bin, tmp_path, options):
    """Tensors on the device "meta" have shapes only: whatever needs a value on the host is an error there."""
    if "--hc-detector" in options:
        options = (*options, *detector(tmp_path, options[options.index("--hc-detector") + 1]))
    task, model, criterion, _ = with_synonyms(data_bin, tmp_path, *options, "--dropout", 0.1)
    sample = a_batch(task)
    criterion.sample_replacements = lambda judged: sample_tokens(judged.logits.detach())  # "meta" has no generators
    model, criterion = model.to("meta"), criterion.to("meta")
    model._share_embeddings(model.generator)  # what moves to "meta" gets parameters of its own
    loss, _, _ = criterion(model, utils.move_to_cuda(sample, torch.device("meta")))
    loss.backward()
    assert loss.device.type == "meta"
    assert all(parameter.grad is not None for parameter in model.parameters())
    del sample["net_input"]["masked_positions"]
    with pytest.raises(NotImplementedError, match="nonzero"):
        criterion(model, utils.move_to_cuda(sample, torch.device("meta")))


def test_workers_draw_what_one_worker_draws_with_more_micro_batches(monkeypatch):
    """Batch m of worker r is number 2 m + r of the update, also with --update-freq."""

    def drawn(rank: int, workers: int, micro_batches: int) -> list[float]:
        monkeypatch.setattr(electra.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(electra.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(electra.distributed, "get_world_size", lambda: workers)
        torch.manual_seed(8)
        random = electra.StepGenerator()
        device = torch.device("cpu")
        return [float(torch.rand((), generator=random.at(device, training=True))) for _ in range(micro_batches)]

    alone, first, second = drawn(0, 1, 4), drawn(0, 2, 2), drawn(1, 2, 2)
    assert alone == [first[0], second[0], first[1], second[1]]
    assert len(set(alone)) == 4
