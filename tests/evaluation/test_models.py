"""Who opens which model and what it is called; Hugging Face's folders are measured without fairseq, and as the same
weights in a checkpoint of fairseq.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import math
import re
import shutil
import sys
import weakref
from pathlib import Path

import pytest
import torch
from support.commands import WORDS, run_command
from support.convert_models import random_model, save, write_dictionary
from support.judgements import content as content_of
from support.judgements import many, write
from support.masked_lms import TOKENS, evaluated, hugging_face_bert, opened, yardstick
from support.tokenizers_made import fast_tokenizer
from torch.nn import functional

from truneg_fairseq.commands.main import main
from truneg_fairseq.corpus_counts import CountsShare
from truneg_fairseq.criterions.masked_lm_true_neg import fairseq_teacher
from truneg_fairseq.data.tokenizer import wordpiece_tokenizer
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation import explain, held_out, minimal_pairs
from truneg_fairseq.evaluation.held_out import HeldOut
from truneg_fairseq.evaluation.hf_scorer import HuggingFaceTokens, hugging_face_scorer
from truneg_fairseq.evaluation.minimal_pairs import Blimp
from truneg_fairseq.evaluation.models import OpenedModel, OpeningOptions
from truneg_fairseq.evaluation.scorer import Query
from truneg_fairseq.evaluation.yardstick import evaluate, parse_tasks
from truneg_fairseq.results.result import NamedModel, named_models

SENTENCES = [
    f"The {word} is very big , kids walked to the {other} ." for word, other in zip(WORDS[:-9], WORDS[9:], strict=True)
]


@pytest.fixture(scope="module")
def measured(wordnet, tmp_path_factory) -> Path:
    """text.txt, swords.json.gz."""
    made = tmp_path_factory.mktemp("measured")
    (made / "text.txt").write_text("".join(f"{line}\n" for line in SENTENCES))
    write(made / "swords.json.gz", many([word for word in WORDS if word.isalpha()][:12]))
    return made


@pytest.fixture(autouse=True)
def own_cache(measured, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(measured / "cache"))


COUNT, FIT = "data counts --output OUT --tokenizer", "fit: expected --corpus-counts, and --task held-out"
WRONG = [  # the command's words and its line
    ("evaluate BERT --task blimpp=x", "--task blimpp: found no yardstick.*mean blimp"),
    ("evaluate BERT --task blimp", "--task blimp: expected blimp=FILE"),
    ("evaluate BERT --task cloze=a cloze=b", "--task cloze: found 2 files, expected one"),
    ("evaluate BERT --task held-out=valid", "no such file; expected the text"),
    ("evaluate BERT --task lexsub=x --corpus-counts x --counts-share fit", FIT),
    ("evaluate BERT --task held-out=TEXT --counts-share fit", FIT),
    ("evaluate a=BERT MODEL --task lexsub=SWORDS --data DATA", "has other tokens than"),
    ("evaluate BERT --task lexsub=FOREIGN", "none of its targets is a token of the dictionary with candidates that a"),
    ("evaluate MOVED --task lexsub=SWORDS", r"trained on .*, which is not a folder here; give the data with --data"),
    ("evaluate NAN --task lexsub=SWORDS --data DATA", r"layers\.0\.fc1\.weight is not finite"),
    ("explain --checkpoint BERT", "stdin: is not plain text"),
    ("explain car --checkpoint MODEL --data .", r"dict\.txt: no such file; expected the dictionary"),
    (f"{COUNT} BERT/vocab.txt --text TEXT", r"vocab\.txt: cannot be read .*expected a tokenizer of transformers"),
    (f"{COUNT} BERT --text EMPTY", r"has no two tokens to count; expected a text"),
]


@pytest.fixture(scope="module")
def places(measured, bert, converted, tmp_path_factory) -> dict[str, Path]:
    """What words of commands in capitals stand for."""
    folder, (model, data) = tmp_path_factory.mktemp("wrong"), converted
    (folder / "EMPTY").touch()
    pair = {"sentence_good": "The kids walked.", "sentence_bad": "The kid walked.", "UID": "a"}
    (folder / "PAIRS").write_text(json.dumps(pair) + "\n")
    (folder / "CLOZE").write_text(json.dumps([{"context": "The big", "word": "car", "answers": {"car": 3, "film": 1}}]))
    write(folder / "FOREIGN", content_of([("Das [Auto].", "NOUN", {"Wagen": (3, 3, ["roget"])})]))
    content = torch.load(model, weights_only=True)
    content["cfg"]["task"]["data"] = str(folder / "moved")
    torch.save(content, folder / "MOVED")
    content["model"]["encoder.sentence_encoder.layers.0.fc1.weight"][0, 0] = float("nan")
    torch.save(content, folder / "NAN")
    found = {"BERT": bert, "TEXT": measured / "text.txt", "SWORDS": measured / "swords.json.gz"}
    return {**found, "MODEL": model, "DATA": data, **{path.name: path for path in folder.iterdir()}}


def filled(words: str, places: dict[str, Path]) -> str:
    return re.sub("[A-Z]{3,}", lambda name: str(places.get(name[0], name[0])), words)


@pytest.mark.parametrize(("words", "line"), WRONG)
def test_mistakes_are_one_line_before_a_table_is_built(words, line, places, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'[\n  {"text": "A car."}\n]\n')))
    for module in (held_out, explain):
        monkeypatch.setattr(module, "judge_of", lambda *given: pytest.fail("a table was built first"))
    with pytest.raises(SystemExit, match=line):
        main(filled(words, places).split())
    assert not list(tmp_path.iterdir())


def test_a_model_that_reads_and_writes_is_refused(tmp_path):
    from transformers import BartConfig, BartForConditionalGeneration

    sizes = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": len(TOKENS)}
    sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    BartForConditionalGeneration(BartConfig(**sizes)).save_pretrained(tmp_path)
    with pytest.raises(TrueNegError, match="is a bart, which reads and writes; expected a masked LM"):
        hugging_face_scorer(tmp_path, 1, cpu=True)


def test_inspected_as_transformers_computes_it(bert, measured):
    from transformers import AutoModelForMaskedLM

    (found,) = evaluated([bert], [f"held-out={measured / 'text.txt'}"], "--batch-size", 3)
    model = AutoModelForMaskedLM.from_pretrained(bert).eval()
    losses, right = [], []
    scorer, own = opened(bert)
    text = yardstick(HeldOut, own, measured / "text.txt", batch_size=3)
    for tokens, target, lengths in text._batches(scorer):
        assert lengths.max() == tokens.size(1)
        assert tokens.size(1) <= model.config.max_position_embeddings
        masked = target.ne(0)  # [PAD]
        with torch.no_grad():
            logits = model(tokens, attention_mask=tokens.ne(0).long()).logits[masked]
        losses.append(functional.cross_entropy(logits, target[masked], reduction="none"))
        right.append(logits.argmax(-1).eq(target[masked]))
    loss, correct = torch.cat(losses), torch.cat(right)
    assert found.settings["masked"] == len(loss) > 30
    assert found.metrics["bits"] == pytest.approx(float(loss.mean()) / math.log(2), rel=1e-5)
    assert found.metrics["accuracy"] == pytest.approx(float(correct.double().mean()), abs=1e-5)
    assert 0 < found.metrics["ece"] < 1
    assert sum(found.denominators["bits"]) == len(loss)
    assert found.settings["updates"] == 0


@pytest.mark.slow
def test_masks_depend_on_the_seed_alone_and_updates_are_those_of_the_trainer(bert, measured, tmp_path):
    checkpoints = [shutil.copytree(bert, tmp_path / f"checkpoint-{updates}") for updates in (10, 20)]
    for updates, checkpoint in zip((10, 20), checkpoints, strict=True):
        (checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": updates, "log_history": []}))
    task = [f"held-out={measured / 'text.txt'}"]
    alone, together = (evaluated(checkpoints, task, "--batch-size", size) for size in (1, 4))
    assert [line.settings["updates"] for line in alone] == [10, 20]
    for one, four in zip(alone, together, strict=True):
        assert one.denominators["bits"] == four.denominators["bits"]
        assert one.metrics["bits"] == pytest.approx(four.metrics["bits"], rel=1e-5)


@pytest.mark.parametrize("kind", ["Roberta", "MPNet"])
def test_positions_that_belong_to_no_token_are_not_counted(kind, tmp_path):
    import transformers

    sizes = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = getattr(transformers, f"{kind}Config")(**sizes, max_position_embeddings=12, pad_token_id=1)
    getattr(transformers, f"{kind}ForMaskedLM")(config).save_pretrained(tmp_path)
    model = hugging_face_scorer(tmp_path, 1, cpu=True)
    assert model.longest == 10
    for length, fits in ((10, True), (11, False)):
        with contextlib.nullcontext() if fits else pytest.raises((IndexError, RuntimeError)):
            model.model(torch.full((1, length), 5))


WITHOUT_FAIRSEQ = """
data binarize --train TEXT --workers 1 --tokenizer VOCABULARY --output-dir a
data binarize --train TEXT --workers 1 --tokenizer BPE --output-dir b
synonyms build --data a
synonyms build --data BERT --output bert.npz
data counts --data a
evaluate BERT --results r.jsonl --task cloze=CLOZE blimp=PAIRS lexsub=SWORDS held-out=TEXT
synonyms judge --checkpoint BERT --judgements SWORDS --detector context
synonyms judge bert.npz --checkpoint BERT --judgements SWORDS --detector embedding --fit fitted
explain car --checkpoint BERT
compare r.jsonl
"""


@pytest.mark.slow
def test_all_of_it_without_fairseq(places, tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    given = places | {"VOCABULARY": tmp_path / "vocab.txt", "BPE": fast_tokenizer("bpe", tmp_path / "bpe")}
    code = f"""
import sys, truneg_fairseq
sys.modules["fairseq"] = None  # importing it fails
from truneg_fairseq.commands.main import main
for line in {filled(WITHOUT_FAIRSEQ, given)!r}.strip().splitlines():
    print("#", line, flush=True)
    try:
        main(line.split())
    except SystemExit as end:
        assert not end.code, end.code
"""
    run_command([sys.executable, "-c", code], fresh=True, cwd=tmp_path)


_STRANGE = """
from pathlib import Path
Path({ran!r}).touch()
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast
class Config(BertConfig):
    model_type = "strange"
class Model(BertForMaskedLM):
    config_class = Config
class Tokenizer(BertTokenizerFast):
    pass
"""


@pytest.mark.parametrize("model_type", ["strange", "bert"])
def test_a_folders_own_code_never_runs_even_if_stdin_says_yes(model_type, places, tmp_path, monkeypatch, caplog):
    bert, ran = shutil.copytree(places["BERT"], tmp_path / "bert"), tmp_path / "ran"
    (bert / "strange.py").write_text(_STRANGE.format(ran=str(ran)))
    ours = {"AutoConfig": "strange.Config", "AutoModelForMaskedLM": "strange.Model"}
    config = json.loads((bert / "config.json").read_text())
    (bert / "config.json").write_text(json.dumps(config | {"model_type": model_type, "auto_map": ours}))
    if model_type == "strange":
        named = {"AutoTokenizer": ["strange.Tokenizer", "strange.Tokenizer"]}
        (bert / "tokenizer_config.json").write_text(json.dumps({"auto_map": named, "tokenizer_class": "Tokenizer"}))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    own = r"cannot be read \(it has code of its own, which never runs"
    for command in ("evaluate OWN --task held-out=TEXT cloze=CLOZE", "explain car --checkpoint OWN"):
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 20))
        with contextlib.nullcontext() if model_type == "bert" else pytest.raises(SystemExit, match=own):
            main(filled(command, places | {"OWN": bert}).split())
        assert not ran.exists()
        assert model_type == "strange" or "its own code never runs; it is measured as transformers' Bert" in caplog.text


def test_an_encoder_without_a_head_has_states_alone(tmp_path, caplog):
    from transformers import AutoModel

    folder = save(random_model("BertModel", tokens=TOKENS), tmp_path / "encoder", TOKENS)
    with caplog.at_level("INFO", logger="truneg_fairseq"):
        model, tokens = hugging_face_scorer(folder, 0, cpu=True), torch.arange(5, 12)
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder).eval()(tokens[None]).last_hidden_state
    assert torch.allclose(model.mean_states([tokens.numpy()]), states.mean(1), atol=1e-6)
    assert f"{folder}: not used in a BertForMaskedLM: pooler.dense" in caplog.text
    with pytest.raises(TrueNegError, match=r"has no cls\.predictions; expected a whole LM, with its prediction head"):
        next(model.log_probabilities([Query(tokens.numpy(), 2)]))


def test_a_discriminators_checkpoint_has_states_alone(tmp_path, caplog):
    folder = save(random_model("ElectraForPreTraining", tokens=TOKENS), tmp_path / "electra", TOKENS)
    data = write_dictionary(tmp_path / "data-bin", TOKENS)
    wordpiece_tokenizer(TOKENS).save(data)
    main(["convert", str(folder), str(tmp_path / "electra.pt"), "--data", str(data)])
    model, tokens = opened(tmp_path / "electra.pt", data)
    ids = tokens.framed([5, 6, 7])
    assert model.mean_states([ids]).isfinite().all()
    assert "not used, as this model has no place for them: discriminator_head.dense, discr" in caplog.text
    with pytest.raises(TrueNegError, match=r"electra\.pt: has no encoder\.lm_head; expected a whole LM"):
        next(model.log_probabilities([Query(ids, 2)]))
    with pytest.raises(TrueNegError, match=r"--teacher .*electra\.pt: has no encoder\.lm_head; expected a whole LM"):
        fairseq_teacher(tmp_path / "electra.pt", data, tokens.mask)


def test_a_tokenizer_with_bos_and_eos_and_no_padding(tmp_path):
    """As EuroBERT's; the token 0 is a word like others."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

    from truneg_fairseq.hf import mix_counts

    tokens = ["the", "[UNK]", "<bos>", "<eos>", "[MASK]", *(token for token in WORDS if token != "the")]
    made = Tokenizer(models.WordPiece({token: row for row, token in enumerate(tokens)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    named = {"bos_token": "<bos>", "eos_token": "<eos>", "mask_token": "[MASK]", "unk_token": "[UNK]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, **named)
    random_model("BertForMaskedLM", tokens=tokens).save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    (tmp_path / "text.txt").write_text("the kid walked to the car .\nthe big film the end the car .\n" * 30)
    scorer, own = opened(tmp_path / "bert")
    assert (own.begin, own.end, own.padding) == (2, 3, -1)
    text = yardstick(HeldOut, own, tmp_path / "text.txt", batch_size=3)
    for sources, targets, lengths in text._batches(scorer):
        judged, _ = scorer.judge(text._judge, sources, targets, lengths)
        (rows, places), gold = targets.ne(-1).nonzero(as_tuple=True), targets[targets.ne(-1)]
        assert judged.gold.tolist() == gold.tolist()
        assert 0 in gold
        with torch.no_grad():
            for row in range(len(sources)):
                expected = scorer.model(sources[row : row + 1, : lengths[row]]).logits[0, places[rows == row]]
                torch.testing.assert_close(judged.logits[rows == row], expected, rtol=1e-4, atol=1e-4)
    counts = ["--text", str(tmp_path / "text.txt"), "--tokenizer", str(tmp_path / "bert")]
    main(["data", "counts", *counts, "--output", str(tmp_path / "counts.npz")])
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "bert").eval()
    mix_counts(model, tokenizer, tmp_path / "counts.npz", 0.9)
    with torch.no_grad():  # "the" on the left is a neighbour, not padding
        likely = model(torch.tensor([own.framed([0, 4, *tokenizer.encode("walked", add_special_tokens=False)])])).logits
    assert tokens[int(likely[0, 2].argmax())] == "kid"


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
    (tmp_path / "adapter" / "config.json").write_bytes((base / "config.json").read_bytes())
    ((_, row),) = opened(tmp_path / "adapter")[0].log_probabilities([Query(ids, 2)])
    assert torch.allclose(row[0], expected, atol=1e-5)
    (tmp_path / "adapter" / "adapter_model.safetensors").rename(tmp_path / "kept")
    with pytest.raises(TrueNegError, match=r"cannot be read \(it has no adapter_model\.safetensors\)"):
        opened(tmp_path / "adapter")  # PEFT would unpickle another file
    (tmp_path / "kept").rename(tmp_path / "adapter" / "adapter_model.safetensors")
    adapted.save_pretrained(base)  # transformers adds it to the base, and names its missing weights alone
    with pytest.raises(TrueNegError, match=r"base: has an adapter \(adapter_config.json\); expected a whole model"):
        opened(tmp_path / "adapter")
    merged = adapted.merge_and_unload()
    merged.save_pretrained(tmp_path / "adapter")
    with pytest.raises(TrueNegError, match=r"adapter: has an adapter \(adapter_config.json\); expected a whole model"):
        opened(tmp_path / "adapter")
    with pytest.raises(SystemExit, match=r"adapter: has an adapter \(adapter_config.json\); expected a whole model"):
        main(["convert", str(tmp_path / "adapter"), str(tmp_path / "a.pt"), "--data", str(tmp_path)])


def test_electras_folder_has_a_generator_that_predicts_and_a_discriminator_that_encodes(tmp_path):
    from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

    from truneg_fairseq.hf.electra_trainer import ElectraForReplacedTokens

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
    assert torch.allclose(scorer.layers(given, torch.tensor([len(ids)]), given)[-1][0, 2], states, atol=1e-5)


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


@pytest.mark.slow
def test_one_model_at_a_time_is_in_memory(places, tmp_path, monkeypatch):
    models = [NamedModel(str(seed), hugging_face_bert(tmp_path / str(seed), seed)) for seed in range(3)]
    seen: list[weakref.ref] = []

    class Watched(Blimp):
        def score(self, scorer):
            gc.collect()
            assert not any(each() for each in seen)
            seen.append(weakref.ref(scorer))
            return super().score(scorer)

    monkeypatch.setattr(minimal_pairs, "Blimp", Watched)
    tasks = parse_tasks([f"blimp={places['PAIRS']}"])
    assert len(list(evaluate(models, tasks, OpeningOptions(cpu=True)))) == len(seen) == 3


def test_a_checkpoint_is_read_once_and_mapped(folder, checkpoints, places, monkeypatch, capsys):
    loads, load = [], torch.load
    monkeypatch.setattr(torch, "load", lambda *given, **named: loads.append(named) or load(*given, **named))
    tasks = [f"blimp={places['PAIRS']}", f"lexsub={folder / 'swords.json.gz'}", "held-out=valid"]
    evaluated([checkpoints["electra"]], tasks, "--data", folder / "data-bin")
    assert [named["mmap"] for named in loads] == [True]
    assert "\nheld-out text\n" in capsys.readouterr().out


def test_models_of_different_lengths_are_measured_on_the_same_samples(folder, checkpoints, tmp_path):
    data = folder / "data-bin"
    short = save(random_model("BertForMaskedLM", tokens=TOKENS, max_position_embeddings=12), tmp_path / "bert", TOKENS)
    main(["convert", str(short), str(tmp_path / "short.pt"), "--data", str(data)])
    models = [f"long={checkpoints['bert']}", f"short={tmp_path / 'short.pt'}"]
    long, cut = (line.settings for line in evaluated(models, ["held-out=valid"], "--data", data))
    assert long["masked"] == cut["masked"] > 30
    with pytest.raises(
        SystemExit, match=r"short\.pt: reads 12 tokens and so \d+ samples of valid, .* fewest tokens last"
    ):
        evaluated([*models, f"again={checkpoints['bert']}"], ["held-out=valid"], "--data", data)


def test_weights_of_layers_that_the_configuration_lacks_are_refused(tmp_path):
    folder = hugging_face_bert(tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    with pytest.raises(
        TrueNegError, match=r"has bert\.encoder\.layer\.1\..* too, other weights than config\.json describes"
    ):
        hugging_face_scorer(folder, 0, cpu=True)
    for name in ("vocab_size", "max_position_embeddings"):
        (folder / "config.json").write_text(json.dumps(config | {name: 10**9}))  # would fill the memory
        for read in (HuggingFaceTokens, lambda folder: hugging_face_scorer(folder, 0, cpu=True)):
            with pytest.raises(TrueNegError, match=f"{name} is 1000000000, which no weights beside it have"):
                read(folder)


@pytest.fixture(scope="module")
def counted(bert, tmp_path_factory) -> tuple[Path, Path]:
    """A text of eighty samples, which blank lines end, and its counts."""
    made = tmp_path_factory.mktemp("counted")
    text, counts = made / "text.txt", made / "counts.npz"
    text.write_text("the child walked\nto the car.\n\nthe kid walked to the store.\n\n" * 40)
    main(["data", "counts", "--text", str(text), "--tokenizer", str(bert), "--output", str(counts)])
    return text, counts


def test_the_share_of_counts_is_fitted_on_samples_that_are_not_judged(bert, counted, capsys):
    text, counts = counted
    command = ([bert], [f"held-out={text}"], "--corpus-counts", counts)
    without, mixed = evaluated(*command)
    assert (without.model, mixed.model) == ("bert", "bert+counts")
    assert mixed.metrics["bits"] < 0.7 * without.metrics["bits"]  # the very text that was counted
    capsys.readouterr()
    one, other = evaluated(*command, "--counts-share", "fit")
    share = re.search(r"bert\+counts: the fitted --counts-share is (\S+)", capsys.readouterr().out)[1]
    judged = [number for number in range(80) if number % 4 != 3]
    assert one.settings["sequences"] == other.settings["sequences"] == len(judged)
    assert one.examples["bits"] == pytest.approx([without.examples["bits"][number] for number in judged], rel=1e-5)
    assert CountsShare.parse(share).seen > 0.9
    assert other.metrics["bits"] < mixed.metrics["bits"]


def test_counts_are_looked_up_alike_in_transformers_and_in_an_evaluation(bert, counted):
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    from truneg_fairseq.hf import fit_share, mix_counts

    text, counts = counted
    each = OpenedModel(bert, OpeningOptions(cpu=True))
    tokens, tokenizer = each.tokens(), AutoTokenizer.from_pretrained(bert)
    ids = tokenizer("the kid [MASK] to", return_tensors="pt")["input_ids"]
    query = Query(ids[0].numpy(), 3)
    ((_, expected),) = each.scorer(tokens, counts=counts).log_probabilities([query])
    ((_, plain),) = each.scorer(tokens).log_probabilities([query])
    assert tokens.vocabulary.words[int(expected.argmax())] == "walked"
    model = AutoModelForMaskedLM.from_pretrained(bert).eval()
    handle = mix_counts(model, tokenizer, counts)
    with torch.no_grad():
        assert torch.allclose(model(ids).logits[:, 3].log_softmax(-1), expected, atol=1e-5)
        with pytest.raises(ValueError, match="expected input_ids, found none"):
            model(inputs_embeds=model.get_input_embeddings()(ids))
        with pytest.raises(ValueError, match="mixed into this model already"):
            mix_counts(model, tokenizer, counts)
        handle.remove()
        assert torch.allclose(model(ids).logits[:, 3].log_softmax(-1), plain, atol=1e-5)
        fitted = fit_share(model, tokenizer, counts, text.read_text().splitlines())
        assert fitted.seen > 0.9
        mix_counts(model, tokenizer, counts, fitted)
        assert model(ids).logits[0, 3, int(expected.argmax())] > math.log(0.9)
