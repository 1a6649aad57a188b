"""The criterion of translation beside fairseq's own, on fairseq's real tasks and models."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from fairseq import utils
from support.trainings import assert_close_to_fp32, batches, table_of
from support.translations import loss_and_gradients, translation, write_translations

from truneg_fairseq.corpus_counts import FILE_NAME, count_tokens
from truneg_fairseq.data.indexed import read_tokens
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.vocabulary import Vocabulary, read_symbols

OURS, SMOOTHED = ("--criterion", "label_smoothed_true_neg"), ("--criterion", "label_smoothed_cross_entropy")
PAIRS = [("man", "guy"), ("man", "person"), ("dog", "man"), ("in", "at"), ("in", "on")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Translations with a synonym table, and with counts of the English side."""
    folder = write_translations(tmp_path_factory.mktemp("translation"))
    table_of(folder / "dict.en.txt", PAIRS, folder / "synonyms.npz", "subword-nmt")
    symbols = read_symbols(folder / "dict.en.txt")
    count_tokens(read_tokens(folder / "train.de-en.en"), symbols).save(folder / FILE_NAME)
    return folder


def one_batch(data, *flags, size=4):
    _, task, model, criterion = translation(data, *flags)
    (sample,) = batches(task, 1, size=size)
    return model, criterion, sample


@pytest.mark.parametrize(
    "flags",
    [
        ("--label-smoothing", 0.1),
        ("--label-smoothing", 0.1, "--report-accuracy", "--ignore-prefix-size", 1),
        ("--label-smoothing", 0.2, "--sentence-avg"),
        (),
        ("--label-smoothing", 0.1, "--report-accuracy", "--synonym-table", "synonyms.npz"),  # for the rates alone
    ],
)
def test_without_alternatives_it_is_stock_to_the_bit(data, flags, monkeypatch):
    monkeypatch.chdir(data)
    model, ours, sample = one_batch(data, *OURS, *flags, "--soft-targets", "table=0")
    _, stock, _ = one_batch(data, *SMOOTHED, *(flags[:3] if "--synonym-table" in flags else flags))
    found, expected = (loss_and_gradients(model, criterion, sample) for criterion in (ours, stock))
    torch.testing.assert_close((found[0], found[3]), (expected[0], expected[3]), rtol=0, atol=0)
    for name, value in expected[2].items():
        torch.testing.assert_close(torch.as_tensor(found[2][name]), torch.as_tensor(value))
    assert ("corrected" in found[2]) == ("--synonym-table" in flags)


def whole_words(row):
    """Where a target's token is a word of its own, by the definition."""
    unfinished = [token.endswith("@@") for token in row]
    return [not here and not (place and unfinished[place - 1]) for place, here in enumerate(unfinished)]


@pytest.mark.parametrize("source", ["table:flat", "table"])
def test_the_loss_is_the_formula(data, source):
    """Over every target token, in fp64, from the definitions."""
    eps, share, prefix = 0.1, 0.3, 1
    smoothing = ("--soft-targets", f"{source}={share}")
    flags = ("--label-smoothing", eps, "--ignore-prefix-size", prefix, "--hc-weight", 0.5)
    model, criterion, sample = one_batch(data, *OURS, *smoothing, *flags, size=24)
    dictionary = Vocabulary.from_symbols(read_symbols(data / "dict.en.txt")).symbols
    model.eval()
    logits = model(**sample["net_input"])[0].detach().double()
    vectors = model.decoder.embed_tokens.weight.detach()
    total, smoothed, corrected = 0.0, 0, 0
    for row, target in zip(logits.log_softmax(-1), sample["target"], strict=True):
        tokens = [dictionary[token] for token in target]
        for place, whole in enumerate(whole_words(tokens)):
            if place < prefix or tokens[place] == "<pad>":
                continue
            q = torch.full((row.size(-1),), eps / (row.size(-1) - 1), dtype=torch.double)
            q[target[place]] = 1 - eps
            others = [other for gold, other in PAIRS if whole and gold == tokens[place]]
            weights = dict.fromkeys(others, 1.0)
            if source == "table":
                pairs = {s: (vectors[target[place]], vectors[dictionary.index(s)]) for s in others}
                cosines = {s: float(F.cosine_similarity(*pair, dim=0)) for s, pair in pairs.items()}
                weights = {s: math.exp(cosine / 0.1) for s, cosine in cosines.items() if cosine >= 0.3}
            for other, weight in weights.items():
                q[dictionary.index(other)] += share * weight / sum(weights.values())
            q[target[place]] -= share * bool(weights)
            smoothed += bool(weights)
            hit = dictionary[row[place].argmax()] in others
            corrected += hit
            total -= (1 - 0.5 * hit) * float(q @ row[place])
    loss, _, log = criterion(model, sample)
    assert smoothed > 0
    assert loss.item() == pytest.approx(total, rel=1e-5)
    assert (int(log["smoothed"]), int(log["corrected"])) == (smoothed, corrected)
    assert int(log["positions"]) == int(sample["target"][:, prefix:].ne(1).sum())


def test_untied_embeddings_are_refused_by_the_word_distance(data):
    model, criterion, sample = one_batch(data, *OURS, "--sr-word-weight", 1)
    model.decoder.output_projection = torch.nn.Linear(16, len(criterion.task.target_dictionary), bias=False)
    with pytest.raises(SystemExit, match=r"--sr-word-weight 1\.0: the model does not tie"):
        criterion(model, sample)


def test_no_step_waits_for_the_device(data):
    """Tensors on the device "meta" have shapes only: whatever needs a value on the host is an error there."""
    flags = ("--label-smoothing", 0.1, "--hc-weight", 1, "--sr-word-weight", 1, "--loss-truncation", 0.1)
    targets = ("--soft-targets", "table=0.1,table:flat=0.1,corpus=0.1")
    model, criterion, sample = one_batch(data, *OURS, *flags, *targets)
    logits = model(**sample["net_input"])[0].detach().to("meta").requires_grad_()
    model = model.to("meta")  # fairseq moves no criterion where there are several workers, nor in fairseq-validate
    model.decoder.output_projection.weight = model.decoder.embed_tokens.weight  # moving has untied them
    model.forward = lambda **_: (logits, None)  # fairseq's encoder asks the device whether there is padding
    loss, _, _ = criterion(model, utils.move_to_cuda(sample, torch.device("meta")))
    loss.backward()
    assert loss.device.type == logits.grad.device.type == "meta"


def test_soft_targets_by_cosine_in_half_precision(data):
    flags = ("--soft-targets", "table=0.1", "--dropout", 0)
    assert_close_to_fp32(lambda: one_batch(data, *OURS, *flags), torch.float16)


def test_an_adaptive_softmax_is_refused(data):
    """Its model gives hidden states where the criterion reads logits."""
    _, _, model, criterion = translation(data, *OURS, "--adaptive-softmax-cutoff", "5,8")
    with pytest.raises(TrueNegError, match="adaptive softmax"):
        criterion.check_model(model)
    _, _, plain, _ = translation(data, *OURS)
    criterion.check_model(plain)
