"""What the pages of docs/start name and nobody can download in a test: small files of the same names and formats."""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

from truneg_fairseq.convert.from_hf import from_hf
from truneg_fairseq.data.tokenizer import BERT_SPECIALS

from . import glue_files, judgements, squad_examples
from .commands import PIECES, REPOSITORY, WORDS, truneg_data, write_sentences
from .convert_models import random_model, save, share_embeddings

TOKENS = list(dict.fromkeys([*BERT_SPECIALS, *WORDS, *PIECES, *glue_files.WORDS, *squad_examples.TOKENS]))
TOKENS += [letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in TOKENS]
TOKENS += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz" if f"##{letter}" not in TOKENS]
SIZES = {"max_position_embeddings": 512}
CONTEXTS = ("the large", "the large car", "kids walked to the")

# In place of what reaches for the network, or for a cluster: each copies what a test prepared under the same name.
STAND_INS = {
    "git": 'cp -r "$DOWNLOADS/$(basename "$2")" .',  # git clone URL
    "curl": 'cp "$DOWNLOADS/$(basename "$2")" .',  # curl -LO URL
    "hf": 'shift 2; while [ "$1" != --local-dir ]; do shift; done; cp -r "$DOWNLOADS/$2" .',
    "sbatch": 'echo 1; [ "$1" = --parsable ] && export SLURM_ARRAY_TASK_ID=1; SLURM_CPUS_PER_TASK=1 bash "${!#}" >&2',
    "spm_train": f"exec {sys.executable} -c 'import sys, sentencepiece as s; "
    's.SentencePieceTrainer.train(" ".join(sys.argv[1:]))\' "$@" --hard_vocab_limit=false',  # of so little text
    "pip": f'{sys.executable} "$DOWNLOADS/extras.py" "$@"',
}
EXTRAS = f"""
import re, sys, tomllib
known = tomllib.load(open({str(REPOSITORY / "pyproject.toml")!r}, "rb"))["project"]["optional-dependencies"]
asked = {{name for word in sys.argv for names in re.findall(r"\\[(.*?)\\]", word) for name in names.split(",")}}
sys.exit(f"no such extra: {{asked - known.keys()}}" if asked - known.keys() else 0)
"""


def write_place(place: Path) -> None:
    """A folder in which the commands of every page can be run."""
    _write_stand_ins(place.parent / "commands", place.parent / "downloads")
    for name in ("user_dir_examples", "benchmarks"):
        (place / name).symlink_to(REPOSITORY / name)
    for split, sentences in (("train", 150), ("valid", 30), ("test", 30)):
        (place / "text" / split).mkdir(parents=True)
        write_sentences(place / "text" / split / "a.txt", sentences, seed=len(split))
        shutil.copy(place / "text" / split / "a.txt", place / f"{split}.txt")
    (place / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS), encoding="utf-8")
    shutil.copy(place / "vocab.txt", place.parent / "downloads")
    truneg_data(
        *("binarize", "--train", place / "train.txt", "--valid", place / "valid.txt"),
        *("--vocab", place / "vocab.txt", "--output-dir", place / "DATA-BIN", "--workers", 1),
    )
    _write_models(place)
    glue_files.write_official(place / "glue_data", list(glue_files.HEADERS))
    shutil.copytree(place / "glue_data" / "STS-B", place / "STS-B")
    squad_examples.write_squad(place / "train-v1.1.json", 12, seed=1)
    squad_examples.write_squad(place / "dev-v1.1.json", 4, seed=2)
    shutil.copy(place / "dev-v1.1.json", place / "add_one_sent.json")
    judgements.write(place / "swords-v1.1_dev.json.gz")
    _write_cloze(place.parent / "downloads" / "prediction-resource" / "cloze_distributions" / "cloze_laplace.txt")
    _write_blimp(place.parent / "downloads" / "blimp" / "data")
    rng = random.Random(1)
    vectors = (f"{word} {' '.join(f'{rng.gauss(0, 1):.3f}' for _ in range(50))}\n" for word in WORDS)
    (place / "glove.6B.50d.txt").write_text("".join(vectors))


def _write_stand_ins(folder: Path, downloads: Path) -> None:
    folder.mkdir()
    downloads.mkdir()
    for name, lines in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/bash\nset -e\n{lines}\n")
        (folder / name).chmod(0o755)
    (downloads / "extras.py").write_text(EXTRAS)


def _write_models(place: Path) -> None:
    """Hugging Face's folders, the checkpoints made of them, and those that the pages compare."""
    save(random_model("BertForMaskedLM", tokens=TOKENS, **SIZES), place / "BERT-DIR", TOKENS)
    discriminator = random_model("ElectraForPreTraining", 1, tokens=TOKENS, **SIZES)
    generator = random_model("ElectraForMaskedLM", 2, tokens=TOKENS, **SIZES)
    share_embeddings(generator, discriminator)
    save(discriminator, place / "DISCRIMINATOR-DIR", TOKENS)
    save(generator, place / "GENERATOR-DIR", TOKENS)
    shutil.copytree(place / "BERT-DIR", place.parent / "downloads" / "BERT-DIR")
    from_hf(place / "BERT-DIR", place / "DATA-BIN", place / "bert.pt")
    for name in ("baseline.pt", "smoothed.pt"):
        shutil.copy(place / "bert.pt", place / name)


def _write_cloze(path: Path) -> None:
    """As de Varda and others publish it; a context each with the words that 20 people gave."""
    counts = [{"car": 12, "film": 6, "of": 2}, {"of": 3, "and": 12, "walked": 5}, {"end": 11, "car": 9}]
    answers = [{word: (count + 1) / 23 for word, count in given.items()} | {"unk": 1 / 23} for given in counts]
    path.parent.mkdir(parents=True)
    path.write_text(repr(dict(zip(CONTEXTS, answers, strict=True))))


def _write_blimp(folder: Path) -> None:
    folder.mkdir(parents=True)
    pair = {"sentence_good": "The kids walked.", "sentence_bad": "The kid walked.", "UID": "agreement"}
    (folder / "agreement.jsonl").write_text(json.dumps({**pair, "field": "syntax", "linguistics_term": "agreement"}))
