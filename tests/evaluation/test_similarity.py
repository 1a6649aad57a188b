"""Similarity: cosines of mean states against transformers and scipy; the command."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from support.masked_lms import hugging_face_bert

from truneg_fairseq.commands.main import main
from truneg_fairseq.evaluation.similarity import pseudo_values
from truneg_fairseq.results.result import read_results

PAIRS = [
    ("The kids walked to the car.", "The kids walked.", 4.0),
    ("A film of the end", "The big film", 2.5),
    ("the car", "the car", 5.0),
    ("The cars begin to walk quickly.", "film", 0.2),
]


@pytest.fixture(scope="module")
def judgements(tmp_path_factory):
    path = tmp_path_factory.mktemp("sts") / "dev.tsv"
    rows = [f"{number}\t{first}\t{second}\t{score}" for number, (first, second, score) in enumerate(PAIRS)]
    path.write_text("\n".join(["index\tsentence1\tsentence2\tscore", *rows]) + "\n")
    return path


def mean_state(model, tokenizer, text):
    with torch.no_grad():
        return model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[-1][0].mean(0)


def test_correlations_equal_those_of_single_sentences(judgements, tmp_path, capsys):
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    first, second = (hugging_face_bert(tmp_path / name, seed) for seed, name in enumerate(("a", "b")))
    results = tmp_path / "results.jsonl"
    command = ["evaluate", f"first={first}", f"second={second}", "--task", f"sts={judgements}", "--results", results]
    main([*map(str, command), "--cpu"])
    output = capsys.readouterr().out
    assert " input embeddings " in output
    assert "Δ first" in output
    for folder, result in zip((first, second), read_results([results]), strict=True):
        model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
        cosines = [
            float(torch.cosine_similarity(*(mean_state(model, tokenizer, text) for text in pair[:2]), dim=0))
            for pair in PAIRS
        ]
        assert result.task == "STS-B without training"
        assert result.metrics["spearman"] == pytest.approx(spearmanr(cosines, [pair[2] for pair in PAIRS]).statistic)


def test_a_file_without_scores_is_refused(tmp_path):
    path, folder = tmp_path / "test.tsv", hugging_face_bert(tmp_path / "bert")
    path.write_text("index\tsentence1\tsentence2\n0\tthe car\tthe film\n")
    with pytest.raises(SystemExit, match=r"test\.tsv: line 1 has no column 'score'"):
        main(["evaluate", str(folder), "--task", f"sts={path}", "--cpu"])


def test_the_jackknife_has_the_correlation_and_its_noise():
    random = np.random.default_rng(1)
    people = random.integers(0, 6, 400) / 1.0
    cosines = people + random.normal(0, 3, 400)
    values = pseudo_values(people, cosines)
    assert values.mean() == pytest.approx(spearmanr(people, cosines).statistic)
    drawn = [random.integers(400, size=400) for _ in range(1000)]
    of_resamples = np.std([spearmanr(people[chosen], cosines[chosen]).statistic for chosen in drawn])
    assert values.std() / 20 == pytest.approx(of_resamples, rel=0.1)
