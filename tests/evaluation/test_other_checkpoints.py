"""Lexical substitution on checkpoints from Hugging Face, and on SentencePiece and GPT-2 tokens."""

from __future__ import annotations

import io
import shutil

import pytest
import torch
from support.commands import PIECES, PLUGIN, TINY_MODEL, TINY_TRAINING, WORDS, fairseq_train, run_command
from support.convert_models import random_model, save
from support.convert_models import run_command as convert
from support.judgements import ITEMS
from support.masked_lms import opened, yardstick
from support.tokenizers_made import gpt2_of_words

import truneg_fairseq
from truneg_fairseq.data.binarize import BinarizeOptions, binarize
from truneg_fairseq.data.tokenizer import FastTokenizer, SentencePieceTokenizer
from truneg_fairseq.results.result import read_results

truneg_fairseq.register()

from truneg_fairseq.commands.main import main  # noqa: E402
from truneg_fairseq.evaluation.lexsub import Lexsub  # noqa: E402

TEXT = [item[0].replace("[", "").replace("]", "") for item in ITEMS if "[slithering]" not in item[0]]
TEXT += [f"It is {word}." for word in WORDS]


def benchmark_of(checkpoint, data, judgements):
    model, own = opened(checkpoint, data)
    return model, own, yardstick(Lexsub, own, judgements)


def test_a_checkpoint_from_hugging_face(folder, tmp_path):
    """Its probabilities at the targets are those of transformers' model."""
    data, judgements = folder / "data-bin", folder / "swords.json.gz"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *PIECES]
    theirs = random_model("BertForMaskedLM", tokens=tokens)
    convert(save(theirs, tmp_path / "bert", tokens), tmp_path / "bert.pt", "--data", data)
    ours, own, benchmark = benchmark_of(tmp_path / "bert.pt", data, judgements)
    special = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
    named = [special.get(symbol, symbol) for symbol in own.vocabulary.symbols]
    known = [index for index, name in enumerate(named) if name in tokens]
    row_of = {index: tokens.index(named[index]) for index in known}
    for index, found in benchmark._rows(ours, own.mask):
        place = benchmark.places[index]
        ids = [row_of[token] for token in place.tokens.tolist()]
        ids[place.position] = tokens.index("[MASK]")
        with torch.no_grad():
            expected = theirs(torch.tensor([ids])).logits[0, place.position][list(row_of.values())]
        difference = torch.from_numpy(found)[known] - expected
        assert float(difference.max() - difference.min()) < 1e-4, "the same but for the rows that fairseq adds"
    results = tmp_path / "results.jsonl"
    flags = ["--data", str(data), "--task", f"lexsub={judgements}", "--cpu", "--results", str(results)]
    main(["evaluate", str(tmp_path / "bert.pt"), *flags])
    converted = read_results([results])
    assert len(converted) == 4
    # The folder itself, without data, has the same order of words.
    direct = tmp_path / "direct.jsonl"
    main(["evaluate", str(tmp_path / "bert"), *flags[2:-1], str(direct)])
    for one, other in zip(converted, read_results([direct]), strict=True):
        for name in ("gap", "f10_lenient_accepted", "precision_at_1", "recall_at_10"):
            assert one.metrics[name] == pytest.approx(other.metrics[name])
    with pytest.raises(SystemExit, match="has other tokens than"):
        main(["evaluate", f"a={tmp_path / 'bert'}", str(tmp_path / "bert.pt"), *flags[:-2]])
    with pytest.raises(SystemExit, match="a fairseq checkpoint needs --data"):
        main(["evaluate", str(tmp_path / "bert.pt"), *flags[2:-2]])


def sentencepiece() -> SentencePieceTokenizer:
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    settings = {"vocab_size": 400, "hard_vocab_limit": False, "minloglevel": 2, "model_type": "bpe"}
    SentencePieceTrainer.train(sentence_iterator=iter(TEXT * 3), model_writer=model, **settings)
    return SentencePieceTokenizer(model.getvalue())


def gpt2() -> FastTokenizer:
    return gpt2_of_words(sorted({word for word in WORDS if word.isalpha()} | {"huge"}))


@pytest.mark.parametrize("make", [sentencepiece, gpt2])
def test_tokens_of_other_kinds(make, folder, tmp_path):
    """Real data, a real training, and the command: the words of the file are found as tokens of their kind."""
    (tmp_path / "text").write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    data, judgements = tmp_path / "data-bin", folder / "swords.json.gz"
    make().save(tmp_path / "tokenizer")
    text = {"train": [tmp_path / "text"], "valid": [tmp_path / "text"]}
    binarize(BinarizeOptions(**text, tokenizer=tmp_path / "tokenizer", output_dir=data, workers=1))
    training = (*TINY_TRAINING, *TINY_MODEL, "--criterion", "masked_lm", "--max-update", 1)
    run_command(fairseq_train(data, "--user-dir", PLUGIN, *training, "--save-dir", tmp_path / "trained"))
    checkpoint = shutil.copy(tmp_path / "trained" / "checkpoint_last.pt", tmp_path / "model.pt")
    model, own, benchmark = benchmark_of(checkpoint, data, judgements)
    assert [place.target.word for place in benchmark.places] == ["large", "walked", "film", "begin"]
    for place in benchmark.places:
        words = [own.vocabulary.words[token] for token in (place.gold, *place.candidates) if token >= 0]
        known = {candidate.word for candidate in place.target.candidates}
        assert words[0] == place.target.word
        assert len(words) > 2
        assert set(words[1:]) <= known
    results = tmp_path / "results.jsonl"
    flags = ["--data", str(data), "--task", f"lexsub={judgements}", "--cpu", "--results", str(results)]
    main(["evaluate", str(checkpoint), *flags])
    kept = next(each for each in read_results([results]) if each.task == "lexsub kept")
    found = benchmark.score(model)["lexsub kept"].ratios["gap"]
    assert kept.metrics["gap"] == pytest.approx(found.value)
    assert 0 < found.value < 1
