"""Ideas of one's own about other words, by name, in every front end; and what all sources of alternatives keep."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.cli_runs import training
from support.commands import PIECES, PLUGIN, REPOSITORY, WORDS, run_command, truneg
from support.hf_models import small_tokenizer
from support.losses import loss_of, setting_of

from truneg_fairseq import Alternatives, Term, TrueNegativeLoss, register_alternatives, register_term
from truneg_fairseq.data.tokenizer import BERT_SPECIALS, wordpiece_tokenizer
from truneg_fairseq.objectives import TrueNegativeOptions
from truneg_fairseq.registry import ALTERNATIVES, TERMS, import_user_dir
from truneg_fairseq.results.result import read_results
from truneg_fairseq.testing import check_alternatives

IDEAS = REPOSITORY / "user_dir_examples" / "ideas"
NEXT = """
import truneg_fairseq
from truneg_fairseq import Alternatives, register_alternatives

@register_alternatives("next-id")
class NextId(Alternatives):
    reads, is_certain = frozenset(), True

    def accepts(self, batch, tokens, model):
        return tokens.sub(batch.gold).abs().le(40).float()
"""


@pytest.fixture(scope="module")
def ideas():
    import_user_dir(IDEAS)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a detector of ten lines."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(ALTERNATIVES, "_added", dict(ALTERNATIVES._added))
    monkeypatch.delitem(sys.modules, "my_ideas", raising=False)
    path = tmp_path / "my_ideas"
    path.mkdir()
    (path / "__init__.py").write_text(NEXT)
    return path


@pytest.mark.parametrize("name", ["embedding", "uniform", "context", "same-stem", "answers"])
def test_sources_keep_the_contract(name, ideas):
    check_alternatives(name, small_tokenizer())


@pytest.mark.parametrize("name", ["cosine", "corpus"])
def test_sources_of_files_keep_the_contract(name):
    (source,) = loss_of(name).sources
    check_alternatives(lambda _: source, None, setting=setting_of(TrueNegativeOptions(), [(4, 5)]))


def test_a_teacher_keeps_the_contract():
    """Of a teacher that does not wait itself, as transformers' models do, which ask whether there is padding."""
    setting, logits = setting_of(TrueNegativeOptions(), [(4, 5)]), torch.randn(29, 29)
    vars(setting)["teacher"] = lambda batch: logits[batch.gold]
    check_alternatives("teacher", None, setting=setting)


class Bad(Alternatives):
    reads = frozenset()

    def __init__(self, setting, fault=""):
        super().__init__()
        self._fault = fault
        self.register_buffer("kept", torch.ones(1), persistent=fault == "saved")

    def accepts(self, batch, tokens, model):
        answer = torch.ones_like(tokens, dtype=torch.float32)
        if self._fault == "waits":
            answer[0] = tokens[0].item() > 0
        return {
            "range": answer * 2,
            "shape": answer[:, None],
            "gradient": model.embeddings()[tokens].sum(1).sigmoid(),
            "batch": answer / len(tokens),
        }.get(self._fault, answer)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("saved", "buffers are saved"),
        ("waits", "waits for the device"),
        ("range", "outside"),
        ("shape", "accepts: shape"),
        ("gradient", "gradient"),
        ("batch", "another answer with other sentences"),
    ],
)
def test_what_breaks_the_contract_is_said(fault, message):
    check_alternatives(Bad, small_tokenizer())
    with pytest.raises(AssertionError, match=message):
        check_alternatives(lambda setting: Bad(setting, fault), small_tokenizer())


def test_the_examples_say_what_people_would(ideas):
    tokens = ["walks", "walked", "movie", "film", "show"]
    loss_fn = TrueNegativeLoss.for_symbols(tokens, hc_weight=1.0, hc_detector="same-stem")
    logits = torch.full((2, 5), -9.0).index_put((torch.arange(2), torch.tensor([1, 3])), torch.tensor(9.0))
    logits.requires_grad_()
    assert loss_fn(logits, torch.tensor([0, 2]), num_items=1).item() == pytest.approx(18.0, abs=0.1), "of movie alone"
    loss_fn = TrueNegativeLoss.for_symbols(tokens, soft_targets={"answers": 0.7})
    even = torch.zeros(1, 5, requires_grad=True)
    loss_fn(even, torch.tensor([2])).backward()
    expected = 0.2 - np.array([0, 0, 0.3, 0.7 * 12 / 14, 0.7 * 2 / 14])
    np.testing.assert_allclose(even.grad[0].numpy(), expected, atol=1e-6)


def test_an_idea_that_looks_up_nothing_needs_no_constructor(monkeypatch):
    for registry in (ALTERNATIVES, TERMS):
        monkeypatch.setattr(registry, "_added", dict(registry._added))

    @register_alternatives("everything")
    class Everything(Alternatives):
        reads = frozenset()

        def accepts(self, batch, tokens, model):
            return torch.ones_like(tokens, dtype=torch.float32)

    @register_term("flatness")
    class Flatness(Term):
        reads = frozenset()

        def forward(self, batch, model):
            return batch.logits.logsumexp(1)

    logits, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, -100, 0, 1])
    loss_fn = TrueNegativeLoss.for_symbols(
        ["one", "two", "three"], hc_weight=1, hc_detector="everything", terms="flatness=0.5"
    )
    counted = labels != -100
    right = counted & logits.argmax(1).eq(labels)
    kept = F.cross_entropy(logits[right], labels[right], reduction="sum") / counted.sum()
    assert loss_fn(logits.clone().requires_grad_(), labels).item() == pytest.approx(
        float(kept + 0.5 * logits[counted].logsumexp(1).mean())
    )


@pytest.mark.slow
def test_one_detector_from_fairseq_to_an_experiment_s_verdict(folder, binarized, tmp_path):
    flags = ("--criterion", "masked_lm_true_neg", "--hc-weight", 1, "--hc-detector", "next-id", "--max-update", 3)
    command = training(binarized, tmp_path / "stock", *flags)
    command[command.index(PLUGIN)] = folder  # whose import brings truneg_fairseq
    assert '"hc_pred"' in run_command(command).stdout
    words = command[command.index("--user-dir") :]
    words[words.index(tmp_path / "stock")] = tmp_path / "ours"
    assert '"hc_pred"' in run_command(truneg("train", binarized, *words)).stdout
    wordpiece_tokenizer((*BERT_SPECIALS, *WORDS, *PIECES)).save(tmp_path / "data")
    for file in binarized.iterdir():
        (tmp_path / "data" / file.name).write_bytes(file.read_bytes())
    explain = ("--checkpoint", tmp_path / "ours" / "checkpoint_last.pt", "--data", tmp_path / "data")
    assert (
        "next-id"
        in run_command(
            truneg("explain", *explain, "--user-dir", folder, "--detector", "next-id", "The big car walks.")
        ).stdout
    )
    (tmp_path / "file.yaml").write_text(
        f"data: {tmp_path / 'data'}\nmodel: {{arch: truneg_bert_tiny}}\nupdates: 3\nseeds: 2\n"
        "training: {task: masked_lm, criterion: masked_lm_true_neg, tokens-per-sample: 24, batch-size: 4,\n"
        "  optimizer: adam, lr: 0.01, lr-scheduler: fixed, log-interval: 1}\n"
        "arms: {baseline: {}, mine: {options: {hc-weight: 1, hc-detector: next-id}}}\n"
        "evaluations: {held-out: valid}\n"
    )
    run = truneg("experiment", tmp_path / "file.yaml", "--output", tmp_path / "out", "--cpu", "--user-dir", folder)
    first = run_command(run).stdout
    assert "mine" in first
    assert {each.model for each in read_results([tmp_path / "out" / "results.jsonl"])} == {"baseline", "mine"}
    (folder / "__init__.py").write_text(NEXT.replace("le(40)", "le(3)"))
    again = run_command(run, check=False)
    assert "source of alternatives next-id" in again.stdout + again.stderr, "a changed idea is another run"
