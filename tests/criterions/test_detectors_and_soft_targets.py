"""Detectors, graded correction and soft targets inside real fairseq objects."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from support.commands import WORDS
from support.trainings import batches, build, steps, table_of, trainer_of

from truneg_fairseq.objectives.acceptance import AcceptanceModel

WORDPIECE = ("--tokenization", "wordpiece")
NO_DROPOUT = ("--dropout", 0, "--attention-dropout", 0)
BOTH = ("--criterion", "masked_lm_true_neg", "--hc-weight", 1)


@pytest.fixture(scope="session")
def everything(data_bin, tmp_path_factory):
    """A table in which every word is a synonym of every other."""
    pairs = [(gold, word) for gold in WORDS for word in WORDS if gold != word]
    return table_of(data_bin, pairs, tmp_path_factory.mktemp("tables") / "everything.npz")


def acceptance(folder, *features: str):
    """Says of most pairs of random embeddings that people accept them, with different probabilities."""
    values = {"table": 0.2, "embedding": 2.0, "context": 1.5}
    path = folder / f"{'_'.join(features)}.json"
    AcceptanceModel({name: values[name] for name in features}, 0.5).save(path)
    return path


def detector(folder, names: str) -> tuple[object, ...]:
    return ("--hc-detector", names, "--hc-acceptance-model", acceptance(folder, *names.split("+")))


@pytest.mark.parametrize("smoothing", ["uniform", "synonyms", "self"])
def test_a_smoothing_of_weight_0_is_exactly_stock_masked_lm(smoothing, data_bin):
    expected, expected_parameters = steps(data_bin, 2, "--criterion", "masked_lm")
    flags = ("--target-smoothing", smoothing, "--target-smoothing-weight", 0)
    actual, parameters = steps(data_bin, 2, "--criterion", "masked_lm_true_neg", *flags)
    for (loss, gradients), (expected_loss, expected_gradients) in zip(actual, expected, strict=True):
        assert loss == expected_loss
        assert all(torch.equal(gradient, expected_gradients[name]) for name, gradient in gradients.items())
    assert all(torch.equal(parameters[name], expected) for name, expected in expected_parameters.items())


PASSES = [
    (("--target-smoothing", "uniform"), 1, 1),
    (("--target-smoothing", "synonyms", *WORDPIECE), 1, 1),
    (("--hc-weight", 1, "--hc-detector", "table+embedding", *WORDPIECE), 1, 1),
    (("--target-smoothing", "self"), 2, 2),
    (("--hc-weight", 1, "--hc-detector", "context", *WORDPIECE), 3, 1),
    (("--sr-sent-weight", 1), 3, 1),
    ((*("--hc-weight", 1, "--hc-detector", "context", "--sr-sent-weight", 1), "--target-smoothing", "self"), 3, 2),
]


@pytest.mark.parametrize(("flags", "encoded", "projected"), PASSES, ids=[" ".join(map(str, f)) for f, _, _ in PASSES])
def test_no_pass_is_made_twice(flags, encoded, projected, data_bin, tmp_path, monkeypatch):
    if "--hc-detector" in flags:
        names = flags[flags.index("--hc-detector") + 1]
        flags = (*flags, "--hc-acceptance-model", acceptance(tmp_path, *names.split("+")))
        flags = flags if "--tokenization" in flags else (*flags, *WORDPIECE)
    _, task, model, criterion = build(data_bin, "--criterion", "masked_lm_true_neg", *flags)
    calls = {"encoded": 0, "projected": 0}
    for module, name in ((model.encoder.sentence_encoder, "encoded"), (model.encoder.lm_head, "projected")):
        module.register_forward_hook(lambda *_, name=name: calls.update({name: calls[name] + 1}))
    criterion.train()
    model.train()
    sample = batches(task, 1)[0]
    criterion(model, sample)[0].backward()
    assert calls == {"encoded": encoded, "projected": projected}
    assert all(module.training for module in model.modules()), "dropout is back on"


def test_a_pass_trains_whoever_asks_for_it_first(data_bin, tmp_path):
    """Detectors want no gradient of the passes that they share with SR-sent."""
    flags = ("--criterion", "masked_lm_true_neg", *NO_DROPOUT, "--sr-sent-weight", 1000)
    first = ("--hc-weight", 1, *detector(tmp_path, "context"), "--hc-threshold", 1, *WORDPIECE)  # corrects nothing
    ((loss, gradients),), _ = steps(data_bin, 1, *flags, *first)
    ((expected_loss, expected),), _ = steps(data_bin, 1, *flags)
    assert loss == pytest.approx(expected_loss, rel=1e-4)
    difference, whole = (
        torch.cat([part.flatten() for part in parts])
        for parts in ([gradients[name] - gradient for name, gradient in expected.items()], expected.values())
    )
    assert difference.norm() < 1e-3 * whole.norm()


def naive_probability(names, criterion, model, sample, judged) -> torch.Tensor:
    """P(accepted) by the formulas, from passes of its own."""
    scores = {"table": torch.ones(len(judged.gold))}
    words = model.encoder.sentence_encoder.embed_tokens.weight.detach()
    scores["embedding"] = F.cosine_similarity(words[judged.gold], words[judged.prediction], dim=-1)
    filled = judged.original.clone()
    filled.view(-1)[judged.positions] = judged.prediction
    masked = sample["target"].ne(criterion.padding_idx)
    with torch.no_grad():
        read = [layer_by_layer(model, tokens, judged.original) for tokens in (judged.original, filled)]
        pairs = zip(*read, strict=True)
        cosines = [F.cosine_similarity(before[masked], after[masked], dim=-1) for before, after in pairs]
    assert len(cosines) == 2
    scores["context"] = torch.stack(cosines).mean(0)
    values = {"table": 0.2, "embedding": 2.0, "context": 1.5}
    return torch.sigmoid(sum(values[name] * scores[name] for name in names.split("+")) + 0.5)


def layer_by_layer(model, tokens, original) -> list[torch.Tensor]:
    """Each layer's output, shape (B, T, H), seen by hooks; segments and padding are those of the original."""
    encoder, seen = model.encoder.sentence_encoder, []
    hooks = [layer.register_forward_hook(lambda *parts: seen.append(parts[-1])) for layer in encoder.layers]
    features = model.encoder.extract_features(original, token_embeddings=encoder.embed_tokens(tokens))[0]
    for hook in hooks:
        hook.remove()
    states = [state if state.shape == features.shape else state.transpose(0, 1) for state in seen]
    assert torch.equal(states[-1], features) or encoder.layer_norm is not None
    return [*states[:-1], features]


@pytest.mark.parametrize(
    ("names", "graded", "model"),
    [
        *(
            (names, graded, ())
            for names in ("embedding", "context", "table+embedding", "table+embedding+context")
            for graded in (False, True)
        ),
        ("context", False, ("--arch", "truneg_bert_tiny")),
        ("context", False, ("--encoder-normalize-before",)),
    ],
)
def test_corrections_are_what_the_detector_accepts(names, graded, model, data_bin, everything, tmp_path):
    flags = [*BOTH, *detector(tmp_path, names), *WORDPIECE, *NO_DROPOUT, "--hc-threshold", 0.55, *model]
    flags += ["--synonym-table", everything] if "table" in names else []
    _, task, model, criterion = build(data_bin, *flags, *(["--hc-graded"] if graded else []))
    excluded = {tuple(pair) for pair in decoded(criterion.objective.detector.exclusions.keys)}
    vocabulary = criterion.vocabulary
    corrected = 0
    for sample in batches(task, 3):
        judged = criterion.judge(model, sample)
        probability = naive_probability(names, criterion, model, sample, judged)
        expected = []
        for row, (g, r) in enumerate(zip(judged.gold.tolist(), judged.prediction.tolist(), strict=True)):
            words = [vocabulary.words[token] for token in (g, r)]
            fair = all(w is not None and w not in ("the", "of", "and", "to", "in", "seven", ",", ".") for w in words)
            allowed = g != r and fair and (g, r) not in excluded and bool(judged.whole_word[row])
            expected.append(allowed and float(probability[row]) >= 0.55)
        assert judged.corrected.tolist() == expected
        dropped = torch.where(judged.corrected, probability if graded else torch.ones(()), 0.0)
        loss, size, log = criterion(model, sample)
        nll = F.cross_entropy(judged.logits, judged.gold, reduction="none")
        assert float(loss) == pytest.approx(float(((1 - dropped) * nll).sum()), rel=1e-5)
        assert int(size) == len(judged.gold)
        assert int(log["corrected"]) == sum(expected)
        expected_sum = float(torch.where(judged.corrected, probability, 0.0).sum())
        assert float(log["acceptance_sum"]) == pytest.approx(expected_sum, rel=1e-4)
        corrected += sum(expected)
    assert corrected


def decoded(keys: torch.Tensor) -> list[list[int]]:
    return torch.stack([keys >> 32, keys & 0xFFFFFFFF], 1)[:-1].tolist()


def test_antonyms_other_forms_and_numbers_are_never_excused(data_bin, tmp_path):
    """By real WordNet, built beside the data once and read again."""
    _, task, _, criterion = build(data_bin, *BOTH, *detector(tmp_path, "embedding"), *WORDPIECE)
    exclusions, index = criterion.objective.detector.exclusions, task.source_dictionary.index

    def allowed(gold: str, word: str) -> bool:
        return bool(exclusions.acceptable(torch.tensor([index(gold)]), torch.tensor([index(word)])))

    for gold, word in (
        ("big", "little"),
        ("large", "small"),
        ("walk", "walked"),
        ("walked", "walk"),
        ("start", "stop"),
    ):
        assert not allowed(gold, word), (gold, word)
    for gold, word in (("seven", "primary"), ("the", "big"), ("big", ","), ("##s", "big")):
        assert not allowed(gold, word), (gold, word)
        assert not allowed(word, gold), (gold, word)
    for gold, word in (("big", "large"), ("film", "movie"), ("start", "begin"), ("buy", "purchase")):
        assert allowed(gold, word), (gold, word)
    written = (data_bin / "exclusions.npz").stat().st_mtime_ns
    build(data_bin, *BOTH, *detector(tmp_path, "embedding"), *WORDPIECE)
    assert (data_bin / "exclusions.npz").stat().st_mtime_ns == written


@pytest.mark.parametrize("flags", [(), ("--target-smoothing", "synonyms")])
def test_two_halves_are_the_whole(flags, data_bin, everything):
    """Of what is averaged over the masked positions, to the rounding; docs/criterions.md has the rest."""
    flags = (*BOTH, *flags, "--synonym-table", everything, *WORDPIECE, *NO_DROPOUT)
    _, task, model, criterion = build(data_bin, *flags)
    one, two = batches(task, 2)
    parts = []
    for sample in (one, two):
        loss, size, _ = criterion(model, sample)
        parts.append((loss, int(size)))
    length = max(sample["target"].size(1) for sample in (one, two))

    def joined(first, second):
        return torch.cat([F.pad(x, (0, length - x.size(1)), value=1) for x in (first, second)])

    whole = {
        "net_input": {"src_tokens": joined(one["net_input"]["src_tokens"], two["net_input"]["src_tokens"])},
        "target": joined(one["target"], two["target"]),
        "ntokens": one["ntokens"] + two["ntokens"],
        "nsentences": 8,
    }
    loss, size, _ = criterion(model, whole)
    assert int(size) == sum(size for _, size in parts)
    assert float(loss) == pytest.approx(sum(float(part) for part, _ in parts), rel=1e-5)


@pytest.mark.parametrize("precision", ["half", "bfloat16"])
def test_every_table_stays_an_integer_when_the_trainer_halves_the_criterion(precision, data_bin):
    flags = ("--hc-detector", "table+embedding", "--target-smoothing", "synonyms", *WORDPIECE)
    *_, criterion = build(data_bin, *BOTH, *flags)
    getattr(criterion, precision)()
    assert {buffer.dtype for buffer in criterion.buffers()} == {torch.int64, torch.int32, torch.bool}
    assert not criterion.state_dict()


def poisoned(model, what: str) -> None:
    weight = model.encoder.sentence_encoder.layers[0].fc1.weight
    if what == "parameter":
        weight.data[0, 0] = math.nan
    elif what == "gradient":
        weight.register_hook(lambda gradient: gradient * math.nan)
    else:
        model.encoder.lm_head.register_forward_hook(lambda module, inputs, output: output * math.inf)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("parameter", r"first of all the parameter encoder.sentence_encoder.layers.0.fc1.weight \(before this"),
        ("gradient", "first of all the gradient of encoder.sentence_encoder.layers.0.fc1.weight of micro-batch 1;"),
        ("loss", "first of all the loss of micro-batch 1"),
    ],
)
def test_nan_is_explained_in_one_line(what, message, data_bin, tmp_path):
    trainer, task, model, _ = trainer_of(data_bin, "--criterion", "masked_lm_true_neg", "--save-dir", tmp_path)
    one, two, *rest = batches(task, 4)
    trainer.train_step([one])
    poisoned(model, what)
    with pytest.raises(SystemExit, match=message) as caught:
        trainer.train_step([two, *rest])
    assert "gradients are Nan/Inf in update 2" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nan_is_looked_for_in_the_last_attempt_alone(data_bin, tmp_path):
    trainer, task, model, criterion = trainer_of(data_bin, "--criterion", "masked_lm_true_neg", "--save-dir", tmp_path)
    one, two = batches(task, 2)
    for _ in range(3):  # what the trainer does of an update whose fp16 gradients overflow
        criterion.train()
        task.train_step(one, model, criterion, trainer.optimizer, 0)
    poisoned(model, "loss")
    with pytest.raises(SystemExit, match=r"in update 1, first of all the loss[^o]*; expected finite"):
        trainer.train_step([two])
