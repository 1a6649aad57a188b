"""from_pretrained on the folder of a real run: tokens, features, masks, predictions, replaced tokens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from support.commands import ELECTRA_MODEL, ELECTRA_TRAINING, PIECES, PLUGIN, WORDS, fairseq_train, run_command

import truneg_fairseq
from truneg_fairseq.data.tokenizer import wordpiece_tokenizer

truneg_fairseq.register()


from truneg_fairseq.models.bert import BertModel  # noqa: E402
from truneg_fairseq.models.checkpoints import read_checkpoint  # noqa: E402
from truneg_fairseq.models.electra import ElectraModel  # noqa: E402

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="module")
def run(binarized, tmp_path_factory) -> Path:
    """The data with the tokenizer that they would have been encoded with, and checkpoints of two runs."""
    data = tmp_path_factory.mktemp("hub") / "data-bin"
    shutil.copytree(binarized, data)
    wordpiece_tokenizer((*SPECIALS, *WORDS, *PIECES)).save(data)
    bert = "--arch truneg_bert_tiny --criterion masked_lm".split()
    for name, arguments in (("electra", ELECTRA_MODEL), ("bert", bert)):
        save = ("--save-dir", data.parent / name, "--max-update", 2)
        run_command(fairseq_train(data, "--user-dir", PLUGIN, *ELECTRA_TRAINING, *arguments, *save))
    return data.parent


@pytest.fixture(scope="module")
def electra(run):
    return ElectraModel.from_pretrained(str(run / "electra"))


def test_sentences_become_tokens_and_back(electra):
    index = electra.dictionary.index
    tokens = electra.encode("Primary walks", "the <mask> picture.")
    symbols = ["<s>", "primary", "walk", "##s", "</s>", "the", "<mask>", "picture", ".", "</s>"]
    assert tokens.tolist() == [index(symbol) for symbol in symbols]
    assert electra.decode(tokens) == ["primary walks", "the <mask> picture."]
    assert electra.decode(electra.encode("primary")) == "primary"
    assert not electra.training
    electra.register_classification_head("rte", num_classes=2)
    assert electra.predict("rte", electra.encode("primary walks")).exp().sum().item() == pytest.approx(1)


def test_masks_are_filled_by_the_generator(electra):
    filled = electra.fill_mask("the <mask> walks", topk=3)
    tokens = electra.encode("the <mask> walks")
    logits = electra.model.generator(tokens[None])[0][0, 2]
    best = logits.softmax(-1).topk(3)
    assert [probability for _, probability, _ in filled] == pytest.approx(best.values.tolist())
    words = [electra.dictionary[i] for i in best.indices.tolist()]
    assert [word for _, _, word in filled] == [electra.tokenizer.decode([word]) for word in words]
    assert filled[0][0] == f"the {filled[0][2]} walks"
    with pytest.raises(ValueError, match="found 2 <mask> in the text, expected one"):
        electra.fill_mask("<mask> <mask>")
    assert len(electra.fill_mask("the <mask> walks", topk=10_000)) == len(electra.dictionary)


def test_replaced_token_scores_are_the_discriminators(electra):
    scored = electra.replaced_token_scores("primary walks", "the car")
    tokens = electra.encode("primary walks", "the car")
    expected = electra.model.discriminator_head(electra.model(tokens[None], features_only=True)[0]).sigmoid()[0]
    assert [token for token, _ in scored] == [electra.dictionary[i] for i in tokens.tolist()]
    assert [score for _, score in scored] == pytest.approx(expected.tolist())


def test_a_bert_has_its_own_head(run):
    bert = BertModel.from_pretrained(str(run / "bert"), data_name_or_path=str(run / "data-bin"))
    filled = bert.fill_mask("the <mask> walks", topk=1)
    logits = bert.model(bert.encode("the <mask> walks")[None])[0][0, 2]
    assert filled[0][1] == pytest.approx(logits.softmax(-1).max().item())
    with pytest.raises(ValueError, match="the model has no discriminator, expected a checkpoint of the task electra_p"):
        bert.replaced_token_scores("primary walks")


def test_a_checkpoint_loads_without_the_trainings_data(run, tmp_path):
    content = torch.load(run / "bert" / "checkpoint_best.pt", weights_only=True)
    content["cfg"]["task"]["data"] = str(tmp_path / "moved")
    torch.save(content, tmp_path / "moved.pt")
    loaded = BertModel.from_pretrained(str(tmp_path), "moved.pt", str(run / "data-bin"))
    assert read_checkpoint(tmp_path / "moved.pt").updates == 2
    assert set(loaded.model.state_dict()) >= set(content["model"])
