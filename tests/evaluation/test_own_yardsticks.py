"""--user-dir: a detector in explain and judge; the yardsticks of user_dir_examples against obvious computations."""

from __future__ import annotations

import gzip
import sys

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from support.commands import REPOSITORY, WORDS
from support.masked_lms import evaluated, opened, yardstick

from truneg_fairseq.commands.main import main
from truneg_fairseq.registry import ALTERNATIVES, YARDSTICKS, import_user_dir

YOURS = REPOSITORY / "user_dir_examples" / "yardsticks"
import_user_dir(YOURS)
predicted = sys.modules["yardsticks.reading"].predicted


@pytest.mark.parametrize("command", ["explain the", "synonyms judge --judgements FILE"])
def test_a_detector_of_ones_own(command, bert, folder, tmp_path, monkeypatch, capsys):
    """In a folder of another name than other tests import."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(ALTERNATIVES, "_added", {})
    code = (REPOSITORY / "user_dir_examples" / "ideas" / "same_stem.py").read_text()
    own = tmp_path / f"own_{command.split()[0]}"
    own.mkdir()
    (own / "__init__.py").write_text(code)
    words = command.replace("FILE", str(folder / "swords.json.gz")).split()
    command = [*words, "--checkpoint", str(bert), "--cpu", "--detector", "same-stem"]
    with pytest.raises(SystemExit, match="--detector same-stem: found no source of alternatives of this name"):
        main(command)
    main([*command, "--user-dir", str(own)])
    assert "same-stem" in capsys.readouterr().out


def test_other_words_are_those_of_other_describers(bert, theirs, tmp_path, capsys):
    first = ["The kids walked to the car.", "A big film."]
    others = (
        ["A child walks by the automobile.", "A big film."],
        ["The kids stop the picture.", "A large movie of a car."],
    )
    for number, lines in enumerate((first, *others)):
        (tmp_path / f"{number}.en.gz").write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    files = [tmp_path / f"{number}.en.gz" for number in range(3)]
    scorer, tokens = opened(bert)
    measured = yardstick(YARDSTICKS.look_up("other-words", "--task"), tokens, *files)
    model, tokenizer = theirs
    said = [{"child", "automobile", "stop", "picture"}, {"large", "movie", "car"}]  # the same line is nobody else's
    cases = {(0, "walked"): (4, said[0]), (0, "car"): (7, said[0]), (1, "big"): (2, said[1]), (1, "film"): (3, said[1])}
    found = measured.score(scorer)["people's other words"]
    items = {(int(item.split()[0]) - 1, item.split()[1]): index for index, item in enumerate(found.items)}
    assert items.keys() == cases.keys(), "kids is of two tokens, the rest are stop words"
    for (number, word), (place, words) in cases.items():
        (ids,) = tokenizer(first[number], return_tensors="pt")["input_ids"]
        assert tokenizer.convert_ids_to_tokens(int(ids[place])) == word
        ids[place] = tokenizer.mask_token_id
        with torch.no_grad():
            row = model(ids[None]).logits[0, place].softmax(-1)
        wanted = [token for each in words if (token := tokenizer.vocab.get(each))]
        index = items[number, word]
        assert found.ratios["probability"].numerators[index] == pytest.approx(float(row[wanted].sum()), abs=1e-5)
        assert found.ratios["accuracy"].numerators[index] == (int(row.argmax()) == tokenizer.vocab[word])
        assert found.ratios["of_mistakes"].numerators[index] == (int(row.argmax()) in wanted)
    task = [f"other-words={file}" for file in files]
    evaluated([bert], task, "--user-dir", YOURS)
    assert "people's other words: 4 content words of 2 pictures" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="have 2 lines; expected two or more files of one length"):
        evaluated([bert], task[:1], "--user-dir", YOURS)


def test_similarities_are_those_of_single_sentences(bert, other, theirs, tmp_path, capsys):
    judged = [
        *(("The kids walked to the car.", "The kids walked.", 4.0), ("A film of the end", "The big film", 2.5)),
        *(("the car", "the car", 5.0), ("The cars begin to walk quickly.", "film", 0.2)),
    ]
    path = tmp_path / "dev.tsv"
    rows = [f"{number}\t{first}\t{second}\t{score}" for number, (first, second, score) in enumerate(judged)]
    path.write_text("\n".join(["index\tsentence1\tsentence2\tscore", *rows]) + "\n")
    command = ([f"first={bert}", f"second={other}"], [f"sts={path}"], "--user-dir", YOURS)
    first, _ = evaluated(*command)
    output = capsys.readouterr().out
    assert "    input embeddings\n" in output
    assert "Spearman ↑: second " in output
    model, tokenizer = theirs

    def mean_state(text):
        with torch.no_grad():
            found = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        return found.hidden_states[-1][0].mean(0)

    cosines = [float(torch.cosine_similarity(mean_state(a), mean_state(b), dim=0)) for a, b, _ in judged]
    assert first.task == "STS-B without training"
    assert first.metrics["spearman"] == pytest.approx(spearmanr(cosines, [pair[2] for pair in judged]).statistic)
    path.write_text("index\tsentence1\tsentence2\n0\tthe car\tthe film\n")
    with pytest.raises(SystemExit, match=r"dev\.tsv: line 1 has no column 'score'"):
        evaluated(*command)


@pytest.fixture(scope="module")
def times(tmp_path_factory):
    """Reading times that follow the trigram's surprisal closely, and nobody else's."""
    random, words = np.random.default_rng(1), [word for word in WORDS if word.isalpha()]
    columns = "item word sent_id context_length Subtlex_log10 length self_paced_reading_time RTfirstpass trigram s_GPT2"
    lines = [",".join([*columns.split(), "cloze_s"])]
    for number in range(60):
        chosen = random.choice(words, 6)
        for place in range(1, 6):
            frequency, surprisal, other = random.random(3).round(3)
            measured = [round(300 + 50 * surprisal + random.normal(), 3), round(100 + 20 * surprisal, 3)]
            numbers = [number, place, frequency, len(chosen[place]), *measured, surprisal, other, other]
            row = [" ".join(chosen[:place]), f"{chosen[place]}{'.' * (place == 5)}", *numbers]
            lines.append(",".join(map(str, row)))
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


def test_surprisals_and_gains(bert, theirs, times, tmp_path, capsys):
    Reading = YARDSTICKS.look_up("reading", "--task")
    reading, (model, tokenizer) = yardstick(Reading, opened(bert)[1], times), theirs
    queries = list(reading._queries("The big", "walks"))  # two tokens
    assert len(queries) == 2
    for number, (query, token) in enumerate(queries):
        (ids,) = tokenizer("The big walks .", return_tensors="pt")["input_ids"]
        wanted = int(ids[3 + number])
        ids[3 + number : 5] = tokenizer.mask_token_id
        assert (query.tokens.tolist(), query.position, token) == (ids.tolist(), 3 + number, wanted)
    scorer = opened(bert)[0]
    total = scorer.summed(((0, *each) for each in queries), 1)[0]
    with torch.no_grad():
        rows = [model(torch.from_numpy(query.tokens)[None]).logits[0, query.position] for query, _ in queries]
    expected = sum(float(row.log_softmax(-1)[token]) for row, (_, token) in zip(rows, queries, strict=True))
    assert total == pytest.approx(expected, abs=1e-4)
    controls = reading.controls(None)
    gains = {name: tasks["reading, self-paced"].ratios["gain"].value for name, tasks in controls.items()}
    assert gains["trigram"] > 1000
    assert gains["people"] < 100
    assert controls["trigram"]["reading, self-paced"].ratios["r2_gain"].value > 0.9
    evaluated([bert], [f"reading={times}"], "--user-dir", YOURS)
    said = capsys.readouterr().out
    assert "reading: 240 of 300 words" in said
    better = said.split("better without training in ")[1]
    assert "gain in log-likelihood (reading, self-paced) by trigram" in better
    assert len(better.splitlines()[0]) < 200
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit, match="has no rows with the columns item"):
        evaluated([bert], [f"reading={tmp_path / 'other.csv'}"])
