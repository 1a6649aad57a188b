"""truneg synonyms judge and fit: tables and detectors against people, by the real command and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from support.commands import WORDS, shared_file
from support.judgements import content, many, write
from support.masked_lms import opened
from support.trainings import build, table_of

import truneg_fairseq
from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.acceptance import (
    JudgedPairs,
    fit_acceptance,
    folds_by_target,
    score_ranking,
    score_table,
    scores,
    thresholds,
)
from truneg_fairseq.evaluation.people import is_conceivable, read_people
from truneg_fairseq.evaluation.scorer import DataTokens
from truneg_fairseq.objectives import TrueNegativeOptions
from truneg_fairseq.objectives.false_negatives import AcceptanceModel, acceptance_model, context_cosine
from truneg_fairseq.objectives.soft_targets import embedding_cosine
from truneg_fairseq.registry import ALTERNATIVES
from truneg_fairseq.synonyms import SynonymTable

truneg_fairseq.register()

PAIRS = [("large", "big"), ("large", "great"), ("large", "table"), ("walked", "walk"), ("film", "picture")]
PAIRS += [("car", "auto")]


@pytest.fixture(scope="module")
def pairs(folder, tokens):
    return JudgedPairs.of(read_people(folder / "swords.json.gz"), tokens)


@pytest.fixture(scope="module")
def table(folder):
    return table_of(folder / "data-bin", PAIRS, folder / "own.npz")


def test_pairs_are_the_one_token_candidates(pairs, tokens):
    words, rows = tokens.vocabulary.words, zip(pairs.gold, pairs.candidate, pairs.share, strict=True)
    found = {(words[gold], words[candidate]): share for gold, candidate, share in rows}
    assert found["large", "big"] == 8 / 9
    assert ("large", "huge") not in found
    assert len(pairs.places) == 5


@pytest.mark.slow
def test_a_table_by_hand(pairs, tokens, table):
    judged = score_table(SynonymTable.load(table), pairs, tokens)
    # large: big (accepted), great (5 of 9: accepted), table (unjudged); walked: walk (own); film: picture (accepted)
    assert judged["own lemma"].denominators.sum() == 5
    assert [judged["own lemma"].value, judged["unjudged"].value, judged["accepted"].value] == [0.2, 0.2, 0.6]
    assert judged["conceivable"].value == 0.6
    assert judged["accepted of judged"].value == 1
    assert judged["recall"].value == pytest.approx(3 / int(pairs.accepted.sum()))
    listed = pairs.listed(SynonymTable.load(table))
    assert listed.sum() == 4, "walk for walked stands among the candidates too"


def test_several_forms_of_a_candidate_are_found_once(folder, tokens, tmp_path):
    made = content()
    made["substitutes"]["s:3-2"]["substitute"], made["substitute_labels"]["s:3-2"] = "walk", ["TRUE"] * 3
    pairs = JudgedPairs.of(read_people(write(tmp_path / "j.json", made)), tokens)
    forms = table_of(folder / "data-bin", [("begin", "walk"), ("begin", "walked")], tmp_path / "forms.npz")
    judged = score_table(SynonymTable.load(forms), pairs, tokens)
    assert judged["accepted"].value == judged["accepted of judged"].value == 1
    assert judged["recall"].value == pytest.approx(1 / int(pairs.accepted.sum()))


def test_rankings_against_scikit_learn(pairs):
    score = np.random.default_rng(1).random(len(pairs))
    precision, _, accepted_4, _, _, conceivable_2 = score_ranking(pairs, score, (4, 2), samples=50)
    assert precision.mean == pytest.approx(average_precision_score(pairs.accepted, score))
    best = np.argsort(-score)
    assert accepted_4.mean == pairs.accepted[best[:4]].mean()
    assert conceivable_2.mean == is_conceivable(pairs.share[best[:2]]).mean()
    assert accepted_4.low <= accepted_4.mean <= accepted_4.high
    first = pairs.target == pairs.target[0]
    one = JudgedPairs(pairs.places, *(each[first] for each in (pairs.target, pairs.gold, pairs.candidate, pairs.share)))
    assert score_ranking(one, score[first], (2,), samples=5) == [None] * 4, "no interval over one target"
    ((_, count, precision, recall),) = thresholds({"s": score}, pairs, [0.5]).rows
    chosen = score >= 0.5
    right = (chosen & pairs.accepted).sum()
    assert count == str(chosen.sum())
    assert precision.startswith(f"{100 * right / chosen.sum():.1f} [")
    assert recall.startswith(f"{100 * right / pairs.accepted.sum():.1f} [")


@pytest.mark.parametrize("name", ["bert", "roberta", "electra"])
def test_scores_one_by_one(folder, checkpoints, pairs, table, name):
    model, tokens = opened(checkpoints[name], folder / "data-bin")
    setting = tokens.setting(TrueNegativeOptions(synonym_table=str(table)))
    sources = {each: ALTERNATIVES.look_up(each, "")(setting) for each in ("table", "embedding", "context")}
    found = scores(pairs, sources, model)
    for index in range(0, len(pairs), 3):
        place = pairs.places[pairs.target[index]]
        gold, candidate = int(pairs.gold[index]), int(pairs.candidate[index])
        original = torch.from_numpy(place.tokens.copy())[None]
        replaced = original.clone()
        replaced[0, place.position] = candidate
        with torch.no_grad():
            before, after = (
                model.model.encoder.extract_features(x, return_all_hiddens=True)[1]["inner_states"]
                for x in (original, replaced)
            )
        cosines = [
            torch.cosine_similarity(a[place.position, 0], b[place.position, 0], dim=0)
            for a, b in zip(before, after, strict=True)
        ]
        vectors = model.embeddings[[gold, candidate]]
        assert found["embedding"][index] == pytest.approx(float(torch.cosine_similarity(*vectors, dim=0)), abs=1e-5)
        assert len(cosines) == 3, "the embeddings and two layers"
        assert found["context"][index] == pytest.approx(float(torch.stack(cosines[1:]).mean()), abs=1e-5)
    assert found["table"].sum() == 4


def test_folds_and_coefficients(pairs):
    """Features as they are give the probabilities of the standardised regression; a word's pairs are in one fold."""
    numbers, random = np.arange(300), np.random.default_rng(2)
    many = JudgedPairs(pairs.places, numbers // 10, numbers // 10 + 50, numbers, random.random(300))
    fold = folds_by_target(many)
    assert set(fold) == set(range(5))
    assert all(len(set(fold[many.gold == word])) == 1 for word in set(many.gold.tolist()))
    features = {"embedding": torch.from_numpy(many.share * 7 - 3 + random.normal(size=300)), "table": torch.zeros(300)}
    model, out_of_fold = fit_acceptance(many, features, {"data": "x"})
    x = np.stack([each.numpy() for each in features.values()], 1)

    def expected(known, asked):
        scaled = (x - x[known].mean(0)) / np.where(x[known].std(0) == 0, 1, x[known].std(0))
        plain = LogisticRegression(max_iter=1000).fit(scaled[known], many.accepted[known])
        return plain.predict_proba(scaled[asked])[:, 1]

    whole, held = fold >= 0, fold == 2
    np.testing.assert_allclose(model.probability(features).numpy(), expected(whole, whole), atol=1e-5)
    np.testing.assert_allclose(out_of_fold[held], expected(~held, held), atol=1e-5)
    of_fold = average_precision_score(many.accepted[held], out_of_fold[held])
    assert model.provenance["folds_average_precision"][2] == round(of_fold, 4)


def test_values_are_defined_for_zeros_and_nan():
    embeddings = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [float("nan"), 1.0], [float("inf"), 1.0]])
    gold, other = torch.tensor([1, 0, 3, 4, 1]), torch.tensor([2, 1, 1, 1, 1])
    assert embedding_cosine(embeddings, gold, other).tolist() == pytest.approx([0.5**0.5, 0, 0, 0, 1])
    half = context_cosine(torch.ones(2, 3, 4).half(), torch.ones(2, 3, 4).half())
    assert half.dtype == torch.float32
    assert half.tolist() == pytest.approx([1, 1, 1], abs=1e-4)
    layers = torch.tensor([[[1.0, 0.0]], [[0.0, 0.0]], [[1.0, float("nan")]], [[0.0, 2.0]]])
    other = torch.tensor([[[1.0, 1.0]], [[1.0, 0.0]], [[1.0, 1.0]], [[0.0, 1.0]]])
    assert context_cosine(layers, other).tolist() == pytest.approx([(0.5**0.5 + 0 + 0 + 1) / 4])


def test_model_files(tmp_path):
    model = AcceptanceModel({"embedding": 2.0, "table": 0.5}, -1.0, {"data": "d"})
    model.save(tmp_path / "a.json")
    assert AcceptanceModel.load(tmp_path / "a.json") == model
    found = model.probability({"embedding": torch.tensor([0.5, -1.0]), "table": torch.tensor([True, False])})
    assert found.tolist() == pytest.approx([1 / (1 + np.exp(-0.5)), 1 / (1 + np.exp(3.0))])
    for features in ({"embedding"}, {"table", "embedding"}, {"table", "embedding", "context"}):
        packaged = acceptance_model(features)
        assert packaged.coefficients.keys() == set(features)
        assert packaged.provenance["sha256"]
    with pytest.raises(TrueNegError, match=r"table\+context: the package has no regression of these together"):
        acceptance_model({"table", "context"})


def judge(data: Path, judgements: Path, *words: object) -> None:
    command = ["synonyms", "judge", *words, "--data", data / "data-bin", "--judgements", judgements, "--cpu"]
    main([str(word) for word in command])


def test_the_command(folder, checkpoints, table, tmp_path, capsys):
    given = (folder, folder / "swords.json.gz")
    fit = ("embedding", "--checkpoint", checkpoints["bert"], "--fit", tmp_path)
    few = "--fit: found 5 target words, of which one of 5 parts has no accepted candidate"
    for words, line in ((["table"], "'table' needs a table"), (["embedding"], "needs --checkpoint"), (fit, few)):
        with pytest.raises(SystemExit, match=line):
            judge(*given, "--detector", *words)
    detectors = ("--detector", "table", "embedding", "--hc-threshold", 0.01)
    judge(*given, table, "--checkpoint", checkpoints["bert"], *detectors)
    said = capsys.readouterr().out
    assert "own.npz 5 20.0" in " ".join(said.split())
    assert "accepted at 4" in said
    assert "embedding >= 0.01" in said
    assert "not one token of the dictionary" in said


@pytest.mark.slow
def test_fit_from_judgements_to_a_training(folder, checkpoints, table, tmp_path, capsys):
    """The real command: its folds' figures, its files, judged by them again, and a criterion that reads one."""
    judgements = write(tmp_path / "many.json", many(WORDS[:12]))
    checkpoint, detectors = ("--checkpoint", checkpoints["bert"]), ["embedding", "context", "table+embedding+context"]
    judge(folder, judgements, table, *checkpoint, "--detector", *detectors, "--fit", tmp_path / "fitted")
    said = capsys.readouterr().out
    written = {path.name for path in (tmp_path / "fitted").iterdir()}
    assert written == {"context.json", "embedding.json", "table_embedding_context.json"}
    pairs = JudgedPairs.of(read_people(judgements), DataTokens(folder / "data-bin"))
    assert len(pairs) == 12 * 11
    for name in detectors:
        fitted = AcceptanceModel.load(tmp_path / "fitted" / f"{name.replace('+', '_')}.json")
        assert fitted.coefficients.keys() == set(name.split("+"))
        assert fitted.provenance["checkpoint"] == "checkpoint_last.pt"
        assert fitted.provenance["sha256"] == read_people(judgements).sha256
        assert f"\n{name} " in said
    context = tmp_path / "fitted" / "context.json"
    again = ("--detector", "context", "--hc-acceptance-model", context, "--hc-threshold", 0)
    judge(folder, judgements, *checkpoint, *again)
    said = capsys.readouterr().out
    assert "context was fitted on these judgements; --fit ranks it on other targets" in said
    assert f"context >= 0 {len(pairs)} {100 * pairs.accepted.mean():.1f} [" in " ".join(said.split())
    flags = ("--criterion", "masked_lm_hc", "--hc-detector", "context", "--hc-acceptance-model", context)
    *_, criterion = build(folder / "data-bin", *flags, "--tokenization", "wordpiece")
    assert criterion.objective.detector.regression.coefficients == AcceptanceModel.load(context).coefficients


@pytest.mark.slow
def test_swords_and_wordnet(wordnet, tmp_path, capsys):
    """The published counts of the development set with BERT's vocabulary and WordNet's table."""
    from truneg_fairseq.data.tokenizer import read_vocabulary, wordpiece_tokenizer

    data = tmp_path / "data-bin"
    tokenizer = wordpiece_tokenizer(read_vocabulary(shared_file("bert/vocab.txt")))
    tokenizer.save(data)
    (data / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in tokenizer.symbols()), encoding="utf-8")
    main(["synonyms", "build", "--data", str(data)])
    tokens = DataTokens(data)
    pairs = JudgedPairs.of(read_people(shared_file("lexsub/swords-v1.1_dev.json.gz")), tokens)
    table = SynonymTable.load(data / "synonyms.npz")
    judged = score_table(table, pairs, tokens)
    assert len(pairs.places) == 364
    assert abs(len(pairs) - 13_229) < 10
    assert judged["own lemma"].denominators.sum() == 3128
    assert pairs.listed(table).sum() == 1493
    assert pairs.accepted[pairs.listed(table)].mean() == pytest.approx(0.149, abs=0.001)
    assert judged["accepted"].value == pytest.approx(0.072, abs=0.003)
    assert judged["conceivable"].value == pytest.approx(0.216, abs=0.003)
