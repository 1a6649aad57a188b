"""What the pages of docs/start name and nobody can download in a test: small files of the same names and formats."""

from __future__ import annotations

import json
import random
import shutil
import sys
import zipfile
from pathlib import Path

from transformers import BertTokenizerFast

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
    "curl": 'cp "$DOWNLOADS/$(basename "$2")" .',  # curl -LO URL, curl -Lo FILE URL
    "hf": 'shift 2; while [ "$1" != --local-dir ]; do shift; done; cp -r "$DOWNLOADS/$2" .',
    "spm_train": f"exec {sys.executable} -c 'import sys, sentencepiece as s; "
    's.SentencePieceTrainer.train(" ".join(sys.argv[1:]))\' "$@" --hard_vocab_limit=false',  # of so little text
    "pip": f'{sys.executable} "$DOWNLOADS/extras.py" "$@"',
}
EXTRAS = """
import re, sys
from importlib.metadata import metadata
known = metadata("truneg_fairseq").get_all("Provides-Extra")
asked = {name for word in sys.argv for names in re.findall(r"\\[(.*?)\\]", word) for name in names.split(",")}
sys.exit(f"no such extra: {asked - set(known)}" if asked - set(known) else 0)
"""


def write_place(place: Path) -> None:
    """A folder in which the commands of every page can be run, with what they download in a folder beside it."""
    downloads = place.parent / "downloads"
    _write_stand_ins(place.parent / "commands", downloads)
    for name in ("user_dir_examples", "benchmarks", "data-bin-scripts"):
        (place / name).symlink_to(REPOSITORY / name)
    for split, sentences in (("train", 150), ("valid", 30), ("test", 30)):
        (place / "text" / split).mkdir(parents=True)
        write_sentences(place / "text" / split / "a.txt", sentences, seed=len(split))
        shutil.copy(place / "text" / split / "a.txt", place / f"{split}.txt")
        for language in ("de", "en"):  # each sentence is its own translation
            (place / "TEXT").mkdir(exist_ok=True)
            shutil.copy(place / f"{split}.txt", place / "TEXT" / f"{split}.{language}")
    _write_wikitext(place / "Salesforce" / "wikitext", place / "train.txt")
    for folder in (place, downloads):
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS), encoding="utf-8")
    truneg_data(
        *("binarize", "--train", place / "train.txt", "--valid", place / "valid.txt"),
        *("--tokenizer", place / "vocab.txt", "--output-dir", place / "DATA-BIN", "--workers", 1),
    )
    _write_models(place, downloads)
    official = glue_files.write_official(place.parent / "official", ["RTE", "STS-B"])
    shutil.make_archive(str(downloads / "RTE"), "zip", official, "RTE")
    shutil.copytree(official / "STS-B", place / "STS-B")
    squad_examples.write_squad(downloads / "train-v1.1.json", 12, seed=1)
    _with_names(squad_examples.write_squad(downloads / "dev-v1.1.json", 4, seed=2))
    questions = json.loads((downloads / "dev-v1.1.json").read_text())
    for part in [each for text in questions["data"] for each in text["paragraphs"]]:
        asked = [{**question, "id": question["id"].replace("-", "_")} for question in part["qas"]]
        part["qas"] = [*asked, *({**question, "id": f"{question['id']}-high-conf-turk0"} for question in asked)]
    (downloads / "add_one_sent.json").write_text(json.dumps(questions))
    swords = downloads / "swords" / "assets" / "parsed" / "swords-v1.1_dev.json.gz"
    swords.parent.mkdir(parents=True)
    judgements.write(swords)
    shutil.copy(swords, place / swords.name)
    _write_cloze(downloads / "prediction-resource" / "cloze_distributions" / "cloze_laplace.txt")
    _write_blimp(downloads / "blimp" / "data")
    write_reading(downloads / "prediction-resource" / "all_measures.csv")
    zorro = downloads / "Zorro" / "sentences" / "babyberta"
    zorro.mkdir(parents=True)
    (zorro / "case.txt").write_text("it walk .\nit walks .\n", encoding="utf-8")
    rng = random.Random(1)
    vectors = (f"{word} {' '.join(f'{rng.gauss(0, 1):.3f}' for _ in range(50))}\n" for word in WORDS)
    with zipfile.ZipFile(downloads / "glove.6B.zip", "w") as archive:
        archive.writestr("glove.6B.50d.txt", "".join(vectors))


def _with_names(path: Path) -> None:
    """Adds a question with names, which an attack can alter."""
    made = json.loads(path.read_text())
    context = "The Denver Broncos defeated the Carolina Panthers at a large stadium in Santa Clara, California."
    answer = {"text": "Denver Broncos", "answer_start": 4}
    asked = {"id": "names", "question": "Which NFL team defeated the Carolina Panthers?", "answers": [answer]}
    made["data"][0]["paragraphs"].append({"context": context, "qas": [asked]})
    path.write_text(json.dumps(made))


def _write_wikitext(folder: Path, text: Path) -> None:
    """A dataset of the Hub, as a folder of the same name: a row is a line. Cleaning leaves the second article."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True)
    rng = random.Random(1)
    plain = [" ".join(rng.choices([word for word in WORDS if word.isalpha()], k=25)) for _ in range(4)]
    rows = ["", " = Title = ", "", *text.read_text(encoding="utf-8").splitlines(), "", " = Plain = ", "", *plain]
    splits = ("train", "validation", "test")
    for split in splits:
        parquet.write_table(pyarrow.table({"text": rows}), folder / f"{split}.parquet")
    files = "".join(f"  - split: {split}\n    path: {split}.parquet\n" for split in splits)
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: wikitext-2-raw-v1\n  data_files:\n{files}---\n")


def _write_stand_ins(folder: Path, downloads: Path) -> None:
    folder.mkdir()
    downloads.mkdir()
    for name, lines in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/bash\nset -e\n{lines}\n")
        (folder / name).chmod(0o755)
    (downloads / "extras.py").write_text(EXTRAS)


def _write_models(place: Path, downloads: Path) -> None:
    """Hugging Face's folders, the checkpoints made of them, and those that the pages compare."""
    save(random_model("BertForMaskedLM", tokens=TOKENS, **SIZES), place / "BERT-DIR", TOKENS)
    discriminator = random_model("ElectraForPreTraining", 1, tokens=TOKENS, **SIZES)
    generator = random_model("ElectraForMaskedLM", 2, tokens=TOKENS, **SIZES)
    share_embeddings(generator, discriminator)
    save(discriminator, place / "DISCRIMINATOR-DIR", TOKENS)
    save(generator, place / "GENERATOR-DIR", TOKENS)
    shutil.copytree(place / "BERT-DIR", downloads / "BERT-DIR")
    BertTokenizerFast(vocab=str(downloads / "vocab.txt")).save_pretrained(downloads / "BERT-DIR")
    encoder = downloads / "ENCODER-DIR"
    save(random_model("BertModel", tokens=TOKENS, **SIZES), encoder, TOKENS)
    names = {
        "google-bert/bert-base-uncased": place / "BERT-DIR",
        "google/electra-small-discriminator": place / "DISCRIMINATOR-DIR",
        "google/electra-small-generator": place / "GENERATOR-DIR",
        "sentence-transformers/all-MiniLM-L6-v2": encoder,
    }
    for name, folder in names.items():  # as the hub's client keeps what it has downloaded
        kept = place.parent / "hub" / f"models--{name.replace('/', '--')}"
        shutil.copytree(folder, kept / "snapshots" / "1")
        (kept / "refs").mkdir()
        (kept / "refs" / "main").write_text("1")
    from_hf(place / "BERT-DIR", place / "DATA-BIN", place / "bert.pt")
    for name in ("baseline.pt", "smoothed.pt"):
        shutil.copy(place / "bert.pt", place / name)


def _write_cloze(path: Path) -> None:
    """As de Varda and others publish it; a context each with the words that 20 people gave."""
    counts = [{"car": 12, "film": 6, "of": 2}, {"of": 3, "and": 12, "walked": 5}, {"end": 11, "car": 9}]
    answers = [{word: (count + 1) / 23 for word, count in given.items()} | {"unk": 1 / 23} for given in counts]
    path.parent.mkdir(parents=True)
    path.write_text(repr(dict(zip(CONTEXTS, answers, strict=True))))


def write_reading(path: Path) -> Path:
    """Reading times that follow a trigram model's surprisal; other models' are the same for all words."""
    rng, words = random.Random(1), ["the", "heart", "is", "to", "the", "main", "part"]
    columns = "item,word,sent_id,context_length,Subtlex_log10,length,self_paced_reading_time,RTfirstpass"
    lines = [f"{columns},trigram,s_GPT2,cloze_s"]
    for number in range(30):
        for place in range(1, len(words)):
            surprisal = rng.randint(1, 9)
            times = [200 + 20 * surprisal + rng.randint(0, 9), 100 + 7 * surprisal + rng.randint(0, 9)]
            numbers = [number, place, 10 - place, len(words[place]), *times, surprisal, 2, 3]
            lines.append(",".join(map(str, [" ".join(words[:place]), words[place], *numbers])))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _write_blimp(folder: Path) -> None:
    folder.mkdir(parents=True)
    pair = {"sentence_good": "The kids walked.", "sentence_bad": "The kid walked.", "UID": "agreement"}
    (folder / "agreement.jsonl").write_text(json.dumps({**pair, "field": "syntax", "linguistics_term": "agreement"}))
