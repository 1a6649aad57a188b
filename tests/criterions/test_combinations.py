"""Options in random combinations, loss and gradients against plain loops over masked tokens."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.commands import PLUGIN, TINY_MODEL, TINY_TRAINING, WORDS
from support.electra import ELECTRA_MODEL, ELECTRA_TRAINING
from support.trainings import batches, make, parse, table_of
from torch import Tensor

from truneg_fairseq.objectives.acceptance import packaged_model
from truneg_fairseq.synonyms.build import provide_exclusions
from truneg_fairseq.synonyms.wordnet import eligible_words
from truneg_fairseq.vocabulary import FIRST_SYMBOLS, Vocabulary

DETECTORS = ("table", "embedding", "context", "embedding+context", "table+embedding", "table+embedding+context")
SYNONYMS = [(one, other) for i, one in enumerate(WORDS) for j, other in enumerate(WORDS) if i != j and (i + j) % 3 != 1]


@pytest.fixture(scope="module")
def table(data_bin, tmp_path_factory):
    """Two thirds of all pairs of words."""
    return table_of(data_bin, SYNONYMS, tmp_path_factory.mktemp("tables") / "pairs.npz")


def combination(chance: random.Random, table) -> list[object]:
    """Options of the criterion, of ELECTRA or without; those that exclude each other never meet."""
    electra = chance.random() < 0.5
    kind = chance.choice(("keep", "ignore", "relabel")) if electra else "keep"
    weight, detector = chance.choice((0, 0.5, 1, 1)), chance.choice(DETECTORS)
    soft = chance.choice((None, "uniform", "synonym"))
    flags: list[object] = ["--tokenization", "wordpiece", "--hc-weight", weight]
    if electra:
        flags = [*ELECTRA_TRAINING, *ELECTRA_MODEL, *flags, "--discriminator-false-negatives", kind]
    else:
        flags = [*TINY_TRAINING, *TINY_MODEL, "--criterion", "masked_lm_true_neg", *flags]
        flags += [*chance.choice(((), ("--arch", "truneg_bert_tiny"))), "--dropout", 0, "--attention-dropout", 0]
    judged = bool(weight) or kind != "keep"
    if judged:
        flags += ["--hc-detector", detector]
        if detector != "table":
            flags += ["--hc-threshold", chance.choice((0, 0.05, 0.15))]
    if soft:
        flags += [f"--{soft}-targets", chance.choice((0.1, 0.6))]
    if soft == "synonym":
        flags += ["--synonym-shape", chance.choice(("uniform", "cosine"))]
    if soft == "synonym" or (judged and "table" in detector):
        flags += ["--synonym-table", table]
    for more in (("--sr-word-weight", 0.7), ("--sr-sent-weight", 1.3), ("--softmax-temperature", 1.7)):
        flags += more * (chance.random() < 0.5)
    for more in (
        ("--sr-word-form", "expected"),
        ("--nearest-targets", 0.2),
        ("--loss-truncation", 0.3),
    ):
        flags += more * (chance.random() < 0.5)
    return flags


@dataclass
class Loops:
    """A batch's objective by the formulas of the paper and of docs/explain/method.md, one masked token at a time."""

    cfg: Any
    model: Any
    vocabulary: Vocabulary
    never: set[tuple[int, int]]
    tokens: Tensor
    target: Tensor
    padding: int
    samples: list[int] | None

    def __post_init__(self) -> None:
        self.original = torch.where(self.target.ne(self.padding), self.target, self.tokens)
        self.places = [tuple(place) for place in self.target.ne(self.padding).nonzero().tolist()]
        self.gold = {place: int(self.target[place]) for place in self.places}
        predicting = self.model.generator if self.electra else self.model.encoder
        self.words = predicting.sentence_encoder.embed_tokens.weight
        self.vectors = self.words.detach()
        self.logits = predicting(self.tokens)[0]
        self.predicted = {place: int(self.logits[place].argmax()) for place in self.places}
        self.filled = self.original.clone()
        for number, place in enumerate(self.places):
            self.filled[place] = self.samples[number] if self.samples else self.predicted[place]
        self.pairs = {tuple(map(self.vocabulary.symbols.index, pair)) for pair in SYNONYMS}
        self.eligible = eligible_words(self.vocabulary)
        self.filled_layers, self.original_layers = self.layers(self.filled), self.layers(self.original)

    @property
    def electra(self) -> bool:
        return self.samples is not None

    def layers(self, tokens: Tensor) -> list[Tensor]:
        """The states of each layer of what is trained for use, shapes (B, T, H)."""
        encoder = self.model.encoder.sentence_encoder
        # Segments and padding stay those of the sentence, whatever is predicted.
        read = encoder(self.original, return_all_hiddens=True, token_embeddings=encoder.embed_tokens(tokens))
        return [state.transpose(0, 1) for state in read["encoder_states"][1:]]

    def is_whole_word(self, place: tuple[int, int]) -> bool:
        row, column = self.original[place[0]].tolist(), place[1]
        follows = column + 1 == len(row) or self.vocabulary.continues[row[column + 1]]  # not known of a last token
        return self.vocabulary.words[row[column]] is not None and not follows

    def acceptance(self, place: tuple[int, int], token: int) -> float | None:
        """How much a mistake is a false negative: None for not at all."""
        gold, names = self.gold[place], self.cfg.hc_detector.split("+")
        if gold == token or not self.is_whole_word(place) or ("table" in names and (gold, token) not in self.pairs):
            return None
        if names == ["table"]:
            return 1.0
        if not (self.eligible[gold] and self.eligible[token]) or (gold, token) in self.never:
            return None
        scores = {"table": 1.0, "embedding": float(F.cosine_similarity(self.vectors[gold], self.vectors[token], dim=0))}
        if "context" in names:
            if int(self.filled[place]) != token:
                return None
            both = zip(self.original_layers, self.filled_layers, strict=True)
            cosines = [F.cosine_similarity(one[place], other[place], dim=0).item() for one, other in both]
            scores["context"] = sum(cosines) / len(cosines)
        fitted = packaged_model(set(names))
        logit = fitted.intercept + sum(value * scores[name] for name, value in fitted.coefficients.items())
        probability = 1 / (1 + math.exp(-logit))
        return probability if probability >= self.cfg.hc_threshold else None

    def soft_target(self, place: tuple[int, int]) -> tuple[float, Tensor]:
        """The share of the soft target, and its distribution, shape (V,)."""
        gold, size = self.gold[place], self.logits.size(-1)
        if self.cfg.uniform_targets:
            return self.cfg.uniform_targets, torch.full((size,), 1 / size)
        shares = torch.zeros(size)
        for word, synonym in self.pairs if self.cfg.synonym_targets and self.is_whole_word(place) else ():
            cosine = float(F.cosine_similarity(self.vectors[gold], self.vectors[synonym], dim=0))
            by_cosine = self.cfg.synonym_shape == "cosine"
            if word == gold and (not by_cosine or cosine >= 0.3):
                shares[synonym] = math.exp(cosine / 0.1) if by_cosine else 1
        return (self.cfg.synonym_targets, shares / shares.sum()) if shares.sum() else (0, shares)

    def nearest(self, gold: int) -> Tensor:
        """The distribution over the ten nearest words, shape (V,)."""
        cosines = F.cosine_similarity(self.vectors[gold], self.vectors)
        cosines[gold] = -2
        shares = torch.zeros(len(cosines))
        for word in cosines.argsort(descending=True)[:10].tolist():
            shares[word] = math.exp(float(cosines[word]) / 0.1)
        return shares / shares.sum()

    def truncated(self) -> set[tuple[int, int]]:
        """The places whose words are least likely."""
        loss = {place: -self.logits[place].log_softmax(-1)[gold].item() for place, gold in self.gold.items()}
        count = round(self.cfg.loss_truncation * len(loss))
        return set(sorted(loss, key=loss.get, reverse=True)[:count])

    def cross_entropy(self) -> Tensor:
        total, dropped, near = torch.zeros(()), self.truncated(), self.cfg.nearest_targets
        for place in self.places:
            log_p = (self.logits[place] / self.cfg.softmax_temperature).log_softmax(-1)
            share, soft = self.soft_target(place)
            accepted = self.acceptance(place, self.predicted[place]) if self.cfg.hc_weight else None
            drop = accepted is not None
            loss = -(1 - share - near) * log_p[self.gold[place]] - share * soft @ log_p
            loss = loss - near * self.nearest(self.gold[place]) @ log_p
            total = total + (place not in dropped) * (1 - self.cfg.hc_weight * drop) * loss
        return total / len(self.places)

    def distance(self) -> Tensor:
        """Equation 3, or what the model's distribution expects of it."""
        if self.cfg.sr_word_form == "expected":
            cosines = [F.cosine_similarity(self.vectors[self.gold[place]], self.vectors) for place in self.places]
            both = zip(self.places, cosines, strict=True)
            return sum(self.logits[place].softmax(-1) @ (1 - cosine) for place, cosine in both) / len(cosines)
        pairs = [(self.words[self.gold[place]], self.words[self.predicted[place]]) for place in self.places]
        return sum(1 - F.cosine_similarity(gold, predicted, dim=0) for gold, predicted in pairs) / len(pairs)

    def divergence(self) -> Tensor:
        gold, filled = (layers[-1].log_softmax(-1) for layers in (self.original_layers, self.filled_layers))
        return (filled.exp() * (filled - gold.detach())).sum(-1)[self.original.ne(self.padding)].mean()

    def discrimination(self) -> Tensor:
        """Of the discriminator, on the sampled tokens."""
        kind, losses = self.cfg.discriminator_false_negatives, []
        scores = self.model.discriminator_head(self.filled_layers[-1])
        for place in (tuple(place) for place in self.original.ne(self.padding).nonzero().tolist()):
            label, token = float(self.filled[place] != self.original[place]), int(self.filled[place])
            accepted = self.acceptance(place, token) if place in self.gold and kind != "keep" else None
            if accepted is not None and kind == "ignore":
                continue
            if accepted is not None:
                label = 0.0
            losses.append(F.binary_cross_entropy_with_logits(scores[place], torch.tensor(label)))
        return sum(losses) / len(losses)

    def objective(self) -> Tensor:
        total = self.cross_entropy()
        if self.cfg.sr_word_weight:
            total = total + self.cfg.sr_word_weight * self.distance()
        if self.cfg.sr_sent_weight:
            total = total + self.cfg.sr_sent_weight * self.divergence()
        return total + self.cfg.discriminator_weight * self.discrimination() if self.electra else total


def gradients(model, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("seed", range(16))
def test_loss_and_gradients_are_those_of_plain_loops(seed, data_bin, table, monkeypatch):
    flags = combination(random.Random(seed), table)
    cfg = parse([data_bin, "--user-dir", PLUGIN, *flags])
    task, model, criterion = make(cfg)
    with torch.no_grad():  # so that predictions differ from place to place
        for weight in model.parameters():
            weight.mul_(4 if weight.dim() > 1 else 1)
    sampled: list[int] = []
    if hasattr(criterion, "sample_replacements"):

        def sample(judged):
            """Synonyms at every other place, where there are some; no special symbols, as of a trained generator."""
            found = draw(judged).clamp(min=len(FIRST_SYMBOLS))
            for number, gold in enumerate(judged.gold.tolist()):
                synonyms = [word for word in SYNONYMS if task.dictionary.index(word[0]) == gold]
                if synonyms and number % 2:
                    found[number] = task.dictionary.index(synonyms[0][1])
            sampled.extend(found.tolist())
            return found

        draw = criterion.sample_replacements
        monkeypatch.setattr(criterion, "sample_replacements", sample)
    (batch,) = batches(task, 1)
    loss, size, log = criterion(model, batch)
    actual = gradients(model, loss / size)
    vocabulary = Vocabulary.from_symbols(task.dictionary.symbols, "wordpiece")
    tokens, target = batch["net_input"]["src_tokens"], batch["target"]
    excluded = provide_exclusions(vocabulary, data_bin)  # antonyms, other forms of a word
    never = set(zip(excluded.gold.tolist(), excluded.synonym.tolist(), strict=True))
    loops = Loops(cfg.criterion, model, vocabulary, never, tokens, target, criterion.padding_idx, sampled or None)
    expected = loops.objective()
    assert (loss / size).item() == pytest.approx(expected.item(), rel=1e-5), flags
    if cfg.criterion.hc_weight:
        accepted = [loops.acceptance(place, loops.predicted[place]) for place in loops.places]
        assert log["corrected"] == sum(each is not None for each in accepted)
        if "acceptance_sum" in log:
            assert float(log["acceptance_sum"]) == pytest.approx(sum(each or 0 for each in accepted), abs=1e-4)
    largest = 0.0
    for name, gradient in gradients(model, expected).items():
        difference = (actual.get(name, torch.zeros(())) - gradient).abs().max()
        largest = max(largest, float(gradient.abs().max()))
        assert float(difference) < 1e-4 * max(largest, 1e-2), (name, flags)
