"""--user-dir: a detector in explain and judge; the yardsticks of user_dir_examples against obvious computations."""

from __future__ import annotations

import gzip
import sys

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from support.commands import REPOSITORY
from support.masked_lms import evaluated, opened, yardstick
from support.page_inputs import write_reading

from truneg_fairseq.commands.main import main
from truneg_fairseq.registry import ALTERNATIVES, YARDSTICKS, import_user_dir

YOURS = REPOSITORY / "user_dir_examples" / "yardsticks"
import_user_dir(YOURS)
predicted = sys.modules["yardsticks.reading"].predicted


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("explain car,film,child", "true negative: not a word for another word"),
        ("synonyms judge --judgements FILE", "same-stem"),
    ],
)
def test_a_detector_of_ones_own(command, line, bert, folder, tmp_path, monkeypatch, capsys):
    """In a folder of another name than other tests import. It accepts all that has another stem, "[MASK]" too."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(ALTERNATIVES, "_added", {})
    code = (REPOSITORY / "user_dir_examples" / "ideas" / "same_stem.py").read_text().replace(".eq(", ".ne(")
    own = tmp_path / f"own_{command.split()[0]}"
    own.mkdir()
    (own / "__init__.py").write_text(code)
    words = command.replace("FILE", str(folder / "swords.json.gz")).split()
    command = [*words, "--checkpoint", str(bert), "--cpu", "--detector", "same-stem"]
    with pytest.raises(SystemExit, match="--detector same-stem: found no source of alternatives of this name"):
        main(command)
    main([*command, "--user-dir", str(own)])
    assert line in capsys.readouterr().out


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


def test_similarities_are_those_of_single_sentences(bert, theirs, tmp_path, capsys):
    judged = [
        *(("The kids walked to the car.", "The kids walked.", 4.0), ("A film of the end", "The big film", 2.5)),
        *(("the car", "the car", 5.0), ("The cars begin to walk quickly.", "film", 0.2)),
    ]
    path = tmp_path / "dev.tsv"
    rows = [f"{number}\t{first}\t{second}\t{score}" for number, (first, second, score) in enumerate(judged)]
    path.write_text("\n".join(["index\tsentence1\tsentence2\tscore", *rows]) + "\n")
    command = ([bert], [f"sts={path}"], "--user-dir", YOURS)
    (found,) = evaluated(*command)
    assert "    input embeddings\n" in capsys.readouterr().out, "the control"
    model, tokenizer = theirs

    def mean_state(text):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
        return states[-1][0].mean(0)

    cosines = [float(torch.cosine_similarity(mean_state(a), mean_state(b), dim=0)) for a, b, _ in judged]
    assert found.task == "STS-B without training"
    assert found.metrics["spearman"] == pytest.approx(spearmanr(cosines, [pair[2] for pair in judged]).statistic)
    path.write_text("index\tsentence1\tsentence2\n0\tthe car\tthe film\n")
    with pytest.raises(SystemExit, match=r"dev\.tsv: line 1 has no column 'score'"):
        evaluated(*command)


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


def test_reading_times_gain_by_surprisal(bert, theirs, tmp_path, capsys):
    """The times of the file follow the trigram's surprisal; people's is the same for all words."""
    path = write_reading(tmp_path / "all_measures.csv")
    reading, (_, tokenizer) = yardstick(YARDSTICKS.look_up("reading", "--task"), opened(bert)[1], path), theirs
    queries = list(reading._queries("The big", "walks"))  # two tokens
    assert len(queries) == 2
    for number, (query, token) in enumerate(queries):
        (ids,) = tokenizer("The big walks .", return_tensors="pt")["input_ids"]
        wanted = int(ids[3 + number])
        ids[3 + number : 5] = tokenizer.mask_token_id
        assert (query.tokens.tolist(), query.position, token) == (ids.tolist(), 3 + number, wanted)
    controls = reading.controls(None)
    gains = {name: tasks["reading, self-paced"].ratios["gain"].value for name, tasks in controls.items()}
    assert gains["trigram"] > 1000
    assert gains["people"] < 100
    evaluated([bert], [f"reading={path}"], "--user-dir", YOURS)
    assert "reading: 150 of 180 words" in capsys.readouterr().out
    path.write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit, match="has no rows with the columns item"):
        evaluated([bert], [f"reading={path}"])
