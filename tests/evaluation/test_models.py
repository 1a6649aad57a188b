"""Who opens which model, what it is called, and that lengths, not tokens, tell what is padding."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from support.convert_models import random_model, save
from support.masked_lms import TOKENS, hugging_face_bert, opened

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation import yardstick
from truneg_fairseq.evaluation.hf_scorer import HuggingFaceScorer
from truneg_fairseq.evaluation.models import OpenedModel, OpeningOptions
from truneg_fairseq.evaluation.tokens import Query
from truneg_fairseq.results.names import NamedModel, named_models

PAIR = json.dumps({"sentence_good": "The kids walked.", "sentence_bad": "The kid walked.", "UID": "a"}) + "\n"


def test_a_token_that_the_configuration_takes_for_padding_is_attended_to(tmp_path):
    """The tokenizer's padding is 1; pad_token_id kept its default, 0, which is [UNK] here."""
    tokens = ["[UNK]", "[PAD]", *(token for token in TOKENS if token not in ("[UNK]", "[PAD]"))]
    folder = save(random_model("BertForMaskedLM", tokens=tokens, pad_token_id=0), tmp_path / "bert", tokens)
    scorer, own = opened(folder)
    assert own.padding == 1
    long, short = own.framed([0, 7, 0, 8, 9, 10]), own.framed([9, 0])
    (batch,) = scorer.log_probabilities([Query(long, 2), Query(short, 1)])
    for index, row in zip(*batch, strict=True):
        sequence, position = ((long, 2), (short, 1))[index]
        ids = torch.from_numpy(sequence)[None]
        with torch.no_grad():
            expected = scorer._model(ids, attention_mask=torch.ones_like(ids)).logits[0, position].log_softmax(-1)
        assert torch.allclose(row, expected, atol=1e-5)


def test_an_adapters_folder_is_its_model_and_the_adapter(tmp_path):
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForMaskedLM

    base = hugging_face_bert(tmp_path / "base")
    adapted = peft.get_peft_model(
        AutoModelForMaskedLM.from_pretrained(base), peft.LoraConfig(target_modules=["query"], init_lora_weights=False)
    ).eval()
    adapted.save_pretrained(tmp_path / "adapter")
    scorer, tokens = opened(tmp_path / "adapter")
    ids = tokens.framed([5, 6, 7])
    ((_, row),) = scorer.log_probabilities([Query(ids, 2)])
    with torch.no_grad():
        expected = adapted(torch.from_numpy(ids)[None]).logits[0, 2].log_softmax(-1)
    assert torch.allclose(row[0], expected, atol=1e-5)


def test_electras_folder_has_a_generator_that_predicts_and_a_discriminator_that_encodes(tmp_path):
    from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

    from truneg_fairseq.hf.electra import ElectraForReplacedTokens

    torch.manual_seed(1)
    sizes = {"vocab_size": len(TOKENS), "embedding_size": 8, "num_attention_heads": 2, "max_position_embeddings": 32}
    large, small = (ElectraConfig(**sizes, hidden_size=h, num_hidden_layers=2, intermediate_size=16) for h in (16, 8))
    both = ElectraForReplacedTokens.of(ElectraForPreTraining(large), ElectraForMaskedLM(small)).eval()
    folder = hugging_face_bert(tmp_path / "electra")
    both.save_pretrained(folder)
    scorer, tokens = opened(folder)
    ids = tokens.framed([5, 6, 7])
    given = torch.from_numpy(ids)[None]
    with torch.no_grad():
        expected = both.generator(given).logits[0, 2].log_softmax(-1)
        states = both.discriminator.electra(given).last_hidden_state[0, 2]
    ((_, row),) = scorer.log_probabilities([Query(ids, 2)])
    assert torch.allclose(row[0], expected, atol=1e-5)
    assert torch.allclose(scorer.states(Query(ids, 2), np.array([6]))[-1, 0], states, atol=1e-5)


def test_a_model_that_reads_and_writes_is_refused(tmp_path):
    from transformers import BartConfig, BartForConditionalGeneration

    sizes = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": len(TOKENS)}
    sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    BartForConditionalGeneration(BartConfig(**sizes)).save_pretrained(tmp_path)
    with pytest.raises(TrueNegError, match="is a bart, which reads and writes; expected a masked LM"):
        HuggingFaceScorer(tmp_path, 1, cpu=True)


def test_names_and_seeds_are_those_of_the_paths(tmp_path):
    paths = ["runs/a/seed-1/train/model.pt", "runs/b/seed-2/train/model.pt", "x/checkpoint_best.pt", "bert"]
    assert [(model.name, model.seed) for model in named_models(paths)] == [("a", 1), ("b", 2), ("x", 1), ("bert", 1)]
    found = named_models(["x/checkpoint1.pt", "x/checkpoint2.pt", "named=y.pt"], 7)
    assert [model.name for model in found] == ["x/checkpoint1", "x/checkpoint2", "named"]
    assert {model.seed for model in found} == {7}
    (tmp_path / "lr=0.1").mkdir()
    assert named_models([str(tmp_path / "lr=0.1")])[0].name == "lr=0.1"
    with pytest.raises(TrueNegError, match="two models have the same name"):
        named_models(["a/m.pt", "a/m.pt"])


def test_one_model_at_a_time_is_in_memory(tmp_path):
    (tmp_path / "p.jsonl").write_text(PAIR)
    models = [NamedModel(str(seed), hugging_face_bert(tmp_path / str(seed), seed)) for seed in range(3)]
    seen: list[weakref.ref] = []
    score = yardstick.Yardstick.score

    class Watched(yardstick._class_of(yardstick.Task("blimp", ()))):
        def score(self, scorer):
            gc.collect()
            assert not any(each() for each in seen)
            seen.append(weakref.ref(scorer))
            return super().score(scorer)

    assert score
    tasks = yardstick.parse_tasks([f"blimp={tmp_path / 'p.jsonl'}"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(yardstick, "_class_of", lambda task: Watched)
        assert len(list(yardstick.evaluate(models, tasks, OpeningOptions(cpu=True)))) == 3
    assert len(seen) == 3


def test_a_checkpoint_is_read_once_and_mapped(folder, checkpoints, monkeypatch, tmp_path, capsys):
    (tmp_path / "p.jsonl").write_text(PAIR)
    loads, load = [], torch.load
    monkeypatch.setattr(torch, "load", lambda *given, **named: loads.append(named) or load(*given, **named))
    tasks = [f"blimp={tmp_path / 'p.jsonl'}", f"lexsub={folder / 'swords.json.gz'}", "held-out=valid"]
    main(["evaluate", str(checkpoints["electra"]), "--data", str(folder / "data-bin"), "--cpu", "--task", *tasks])
    assert [named["mmap"] for named in loads] == [True]
    assert "held-out text: bits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "blimpp=x"], "--task blimpp=x: expected NAME=FILE, with a name of held-out, lexsub"),
        (["--task", "blimp"], "--task blimp: expected NAME=FILE"),
    ],
)
def test_mistakes_are_one_line(arguments, message, tmp_path):
    with pytest.raises(SystemExit, match=message):
        main(["evaluate", str(Path(tmp_path)), *arguments])


def test_counts_are_looked_up_alike_in_transformers_and_in_an_evaluation(tmp_path, capsys):
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    from truneg_fairseq.hf import mix_counts

    folder, text, counts = hugging_face_bert(tmp_path / "bert"), tmp_path / "text.txt", tmp_path / "counts.npz"
    text.write_text("the child walked to the car.\nthe kid walked to the store.\n" * 20)
    main(["data", "counts", "--text", str(text), "--tokenizer", str(folder), "--output", str(counts)])
    output = ["--results", str(tmp_path / "results.jsonl"), "--cpu"]
    looked_up = ["--corpus-counts", str(counts), "--counts-share", "0.9"]
    main(["evaluate", f"bert={folder}", "--task", f"held-out={text}", *looked_up, *output])
    without, mixed = (json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines())
    assert (without["model"], mixed["model"]) == ("bert", "bert+counts")
    assert mixed["metrics"]["bits"] < 0.5 * without["metrics"]["bits"]  # the very text that was counted

    options = OpeningOptions(corpus_counts=counts, counts_share=0.9, cpu=True)
    each = OpenedModel(folder, options)
    tokens = each.tokens()
    query = Query(
        tokens.framed([*tokens.encode_batch(["the kid"])[0], tokens.mask, *tokens.encode_batch(["to"])[0]]), 3
    )
    ((_, expected),) = each.scorer(tokens, counts=True).log_probabilities([query])
    ((_, plain),) = each.scorer(tokens).log_probabilities([query])
    model, ids = AutoModelForMaskedLM.from_pretrained(folder).eval(), torch.from_numpy(query.tokens)[None]
    handle = mix_counts(model, AutoTokenizer.from_pretrained(folder), counts, share=0.9)
    with torch.no_grad():
        assert torch.allclose(model(ids).logits[:, 3].log_softmax(-1), expected, atol=1e-5)
        handle.remove()
        assert torch.allclose(model(ids).logits[:, 3].log_softmax(-1), plain, atol=1e-5)
    assert tokens.vocabulary.words[int(expected.argmax())] == "walked"
