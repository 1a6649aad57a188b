"""truneg explain and report on models that generate: what they say is what the model does under teacher forcing."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser

import pytest
import torch
from support.cli_runs import assert_one_line
from support.commands import PLUGIN, run_command, truneg
from support.convert_models import load_with_fairseq
from support.translations import ENGLISH, MODEL, TRAINING, write_translations

import truneg_fairseq
from truneg_fairseq.corpus_counts import CorpusCounts, count_tokens
from truneg_fairseq.data.indexed import read_tokens
from truneg_fairseq.synonyms import SynonymTable
from truneg_fairseq.vocabulary import read_symbols

truneg_fairseq.register()
SOURCE, TARGET = "ein mann läuft im park", "a man run@@ s in the park"


def trained(data, folder, *flags):
    ends = ["--max-epoch", 8, "--save-dir", folder, "--no-epoch-checkpoints", "--required-batch-size-multiple", 1]
    criterion = ("--criterion", "label_smoothed_true_neg", "--label-smoothing", 0.1, "--target-smoothing-corpus", 0.2)
    command = [data, "--user-dir", PLUGIN, *flags, *TRAINING, *criterion, *ends]
    run_command([sys.executable, "-m", "fairseq_cli.train", *command])
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Translations with counts and a synonym table, and a model of 8 epochs."""
    place = tmp_path_factory.mktemp("explained")
    data = write_translations(place / "pairs")
    symbols = read_symbols(data / "dict.en.txt")[:-1]
    counts = count_tokens(read_tokens(data / "train.de-en.en"), symbols)
    counts.save(data / "alternatives.npz")
    lines = "".join(
        f"{word}\t{','.join(w for w in ENGLISH if w != word and '@@' not in w)}\n" for word in ("man", "park")
    )
    (place / "list.tsv").write_text(lines)
    run_command(
        truneg(
            *("synonyms", "build", "--data", data / "dict.en.txt", "--source", "tsv", "--tsv", place / "list.tsv"),
            *("--output", data / "synonyms.npz"),
        )
    )
    return data, trained(data, place / "run", "--task", "translation", *MODEL)


@pytest.mark.slow
def test_a_translation_is_explained_as_the_model_predicts_it(made, tmp_path):
    data, checkpoint = made
    command = ("explain", f"{SOURCE}\t{TARGET}", "--checkpoint", checkpoint, "--data", data, "--cpu")
    page = tmp_path / "explained.html"
    told = run_command(truneg(*command, "--json", "-", "--html", page)).stdout
    explained = json.loads(told)
    assert (explained["source"], explained["text"]) == (SOURCE, TARGET)
    words = explained["parts"][:-1]
    assert [word["gold"] for word in words] == TARGET.split()

    model, task = load_with_fairseq(checkpoint, data)
    english = task.target_dictionary
    encode = [
        d.encode_line(t, add_if_not_exist=False).long()
        for d, t in ((task.source_dictionary, SOURCE), (english, TARGET))
    ]
    previous = torch.cat([encode[1][-1:], encode[1][:-1]])
    with torch.no_grad():
        logits = model(encode[0][None], torch.tensor([len(encode[0])]), previous[None])[0][0]
    assert [word["prediction"] for word in words] == [english[token] for token in logits.argmax(-1)[:-1]]
    expected = logits.softmax(-1).gather(1, encode[1][:, None]).squeeze(1)[:-1]
    assert [word["gold_probability"] for word in words] == pytest.approx(expected.tolist(), abs=1e-5)

    symbols = read_symbols(data / "dict.en.txt")[:-1]
    table = SynonymTable.load(data / "synonyms.npz")
    counts = CorpusCounts.load(data / "alternatives.npz", symbols)
    triples = dict(zip(counts.triples.keys.tolist(), counts.triples.counts.tolist(), strict=True))
    ids = [symbols.index(token) for token in [*TARGET.split(), "</s>"]]
    for place, word in enumerate(words):
        guess, size = symbols.index(word["prediction"]), len(symbols)
        between = (
            place > 0
            and word["prediction"] != "</s>"
            and triples.get((ids[place - 1] * size + ids[place + 1]) * size + guess, 0)
        )
        listed = guess in table.synonyms(ids[place])
        verdict = "right" if guess == ids[place] else "plausible" if listed or between else "wrong"
        assert word["verdict"] == verdict, word
    verdicts = {word["verdict"] for word in words}
    assert {"plausible", "wrong"} <= verdicts, "or nothing was tested"

    text = page.read_text()
    assert f"Source: {SOURCE}" in text and "plausible: a synonym" in text and "masked" not in visible(text)


@pytest.mark.slow
def test_a_report_of_two_translations(made, tmp_path):
    data, checkpoint = made
    ends = ["--max-epoch", 2, "--save-dir", tmp_path / "stock", "--no-epoch-checkpoints"]
    stock = ("--task", "translation", *MODEL, "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1)
    run_command([sys.executable, "-m", "fairseq_cli.train", data, "--user-dir", PLUGIN, *stock, *TRAINING, *ends])
    run_command(truneg("report", tmp_path / "stock", checkpoint.parent, "--output", tmp_path / "report.html"))
    text = visible((tmp_path / "report.html").read_text())
    assert re.search(
        r"Loss on the held-out text in bits per target token, lower is better: stock \d+\.\d+ .*, run \d", text
    )
    assert "With one training each, a difference may be chance" in text
    for title in ("cross-entropy (nll_loss)", "smoothed", "given to other words"):
        assert title in text


def visible(html: str) -> str:
    parser, parts, skipped = HTMLParser(), [], []
    parser.handle_starttag = lambda tag, _: skipped.append(tag) if tag in ("style", "script") else None
    parser.handle_endtag = lambda tag: skipped.pop() if skipped and skipped[-1] == tag else None
    parser.handle_data = lambda data: None if skipped else parts.append(data)
    parser.feed(html)
    return re.sub(r"\s+", " ", " ".join(parts))


@pytest.mark.slow
def test_a_text_is_explained_with_a_causal_lm(made, tmp_path):
    data, _ = made
    place = tmp_path / "text"
    place.mkdir()
    (place / "dict.txt").write_bytes((data / "dict.en.txt").read_bytes())
    (place / "synonyms.npz").write_bytes((data / "synonyms.npz").read_bytes())
    for split in ("train", "valid"):
        for end in ("bin", "idx"):
            (place / f"{split}.{end}").write_bytes((data / f"{split}.de-en.en.{end}").read_bytes())
    count_tokens(read_tokens(place / "train"), read_symbols(place)[:-1]).save(place / "alternatives.npz")
    decoder = [
        part for part in MODEL[MODEL.index("--decoder-embed-dim") :] if part != "--share-decoder-input-output-embed"
    ]
    lm = ["--arch", "transformer_lm", "--decoder-layers", 1, *decoder, "--share-decoder-input-output-embed"]
    checkpoint = trained(place, tmp_path / "run", "--task", "language_modeling", *lm, "--tokens-per-sample", 32)
    of = ("--checkpoint", checkpoint, "--data", place, "--cpu")
    explained = json.loads(run_command(truneg("explain", TARGET, *of, "--json", "-")).stdout)
    assert "source" not in explained and [word["gold"] for word in explained["parts"][:-1]] == TARGET.split()
    assert {word["verdict"] for word in explained["parts"][:-1]} <= {"right", "plausible", "wrong"}
    refused = run_command(truneg("explain", f"{SOURCE}\t{TARGET}", *of), check=False)
    assert_one_line(refused, "expected a text without a tab")
