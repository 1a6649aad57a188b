"""Reading times: the gain against a plain loop, and surprisals against transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.commands import WORDS
from support.masked_lms import hugging_face_bert, opened, yardstick

from truneg_fairseq.commands.main import main
from truneg_fairseq.evaluation.reading import Reading, predicted

COLUMNS = "item,word,sent_id,context_length,Subtlex_log10,length,self_paced_reading_time,RTfirstpass,trigram,s_GPT2"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Times that follow the trigram's surprisal closely, and nobody else's."""
    random, lines = np.random.default_rng(1), [f"{COLUMNS},cloze_s"]
    words = [word for word in WORDS if word.isalpha()]
    for number in range(60):
        chosen = random.choice(words, 6)
        for place in range(1, 6):
            frequency, surprisal, other = random.random(3).round(3)
            times = [round(300 + 50 * surprisal + random.normal(), 3), round(100 + 20 * surprisal, 3)]
            numbers = [number, place, frequency, len(chosen[place]), *times, surprisal, other, other]
            lines.append(
                ",".join(map(str, [" ".join(chosen[:place]), f"{chosen[place]}{'.' * (place == 5)}", *numbers]))
            )
    path = tmp_path_factory.mktemp("reading") / "all_measures.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_predictions_are_those_of_a_plain_loop():
    random = np.random.default_rng(2)
    x, fold = random.random((90, 2)), np.arange(90) % 3
    y = x @ [3.0, -1.0] + random.normal(0, 0.3, 90)
    values, logs = predicted(x, y, fold)
    for number in range(3):
        known = fold != number
        design = np.column_stack([x, np.ones(90)])
        weights = np.linalg.solve(design[known].T @ design[known], design[known].T @ y[known])
        noise = ((y[known] - design[known] @ weights) ** 2).mean()
        expected = design[~known] @ weights
        assert values[~known] == pytest.approx(expected)
        density = np.exp(-((y[~known] - expected) ** 2) / (2 * noise)) / np.sqrt(2 * np.pi * noise)
        assert logs[~known] == pytest.approx(np.log2(density))


def test_surprisals_and_gains(file, tmp_path, capsys):
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = hugging_face_bert(tmp_path / "bert")
    reading = yardstick(Reading, opened(folder)[1], file)
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    queries = list(reading._queries("The big", "walks"))  # two tokens
    assert len(queries) == 2
    total = 0.0
    for number, (query, token) in enumerate(queries):
        (ids,) = tokenizer("The big walks .", return_tensors="pt")["input_ids"]
        wanted = int(ids[3 + number])
        ids[3 + number : 5] = tokenizer.mask_token_id
        assert query.tokens.tolist() == ids.tolist()
        assert token == wanted
        with torch.no_grad():
            total -= float(model(ids[None]).logits[0, query.position].log_softmax(-1)[token])
    assert total > 0
    controls = reading.controls(None)
    gains = {name: tasks["reading, self-paced"].ratios["gain"].value for name, tasks in controls.items()}
    assert gains["trigram"] > 1000
    assert gains["people"] < 100
    assert controls["trigram"]["reading, self-paced"].ratios["r2_gain"].value > 0.9
    main(["evaluate", str(folder), "--task", f"reading={file}", "--cpu"])
    said = capsys.readouterr().out
    assert "reading: 240 of 300 words" in said
    better = said.split("better without training in ")[1]
    assert "gain in log-likelihood (reading, self-paced) by trigram" in better
    assert len(better.splitlines()[0]) < 200
    file.write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit, match="has no rows with the columns item"):
        main(["evaluate", str(folder), "--task", f"reading={file}", "--cpu"])
