"""Small tokenizers of each kind."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from truneg_fairseq.data.tokenizer import (
    BERT_SPECIALS,
    FastTokenizer,
    Gpt2Tokenizer,
    SentencePieceTokenizer,
    wordpiece_tokenizer,
)

TEXT = ["the cat sat on the mat", "Ünïcode ﬁ text, here!", "the dog 狗 barked (twice)"] * 20
WORDS = [*BERT_SPECIALS, "the", "cat", "un", "##happi", "##ness", "cafe", ",", "!", "[", "]", "mask", "##s", "日"]


def wordpiece() -> FastTokenizer:
    return wordpiece_tokenizer(WORDS)


def sentencepiece(**options: Any) -> SentencePieceTokenizer:
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    settings = {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2, "model_type": "bpe", **options}
    SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_writer=model, **settings)
    return SentencePieceTokenizer(model.getvalue())


def gpt2(merges: Sequence[str] = ("t h", "th e", "Ġ the", "c a", "ca t", "Ġ cat", "Ã ¼", "Ġ Ġ")) -> FastTokenizer:
    """GPT-2's two files, small: the 256 bytes in GPT-2's order, a few merges, and the end of a text last."""
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = sorted(ByteLevel.alphabet(), key=lambda token: (ord(token) > 255, token))
    tokens += [merge.replace(" ", "") for merge in merges] + ["<|endoftext|>"]
    encoder = json.dumps({token: number for number, token in enumerate(tokens)})
    return Gpt2Tokenizer(encoder.encode(), "\n".join(["#version: 0.2", *merges, ""]).encode())


def gpt2_of_words(words: Sequence[str]) -> FastTokenizer:
    """Every word with the space before it is a token, made of its letters one by one."""
    return gpt2(list(dict.fromkeys(f"Ġ{word[:end]} {word[end]}" for word in words for end in range(len(word)))))


ROBERTA_TOKENS, BERT_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], list(BERT_SPECIALS)
FAST_KINDS = ("wordpiece", "unigram", "bpe", "byte-level", "tutorial")


def fast_tokenizer(kind: str, folder: Path, text: Sequence[str] = TEXT) -> Path:
    """A folder with a trained tokenizer.json, its special tokens as those of well-known models have them.

    "wordpiece" as BERT, "unigram" as XLM-R, "bpe" as Gemma (mmBERT), "byte-level" as ModernBERT, which has tokens of
    spaces, and "tutorial", the tokenizers package's own, whose file alone is there.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    specials = {"unigram": ROBERTA_TOKENS, "bpe": ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]}.get(kind, BERT_TOKENS)
    options: dict[str, Any] = {"special_tokens": specials, "show_progress": False}
    trainer: Any = trainers.BpeTrainer(vocab_size=330, **options)
    space = pre_tokenizers.Metaspace()
    match kind:
        case "wordpiece":
            made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
            made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
            made.decoder, trainer = decoders.WordPiece(), trainers.WordPieceTrainer(vocab_size=80, **options)
        case "unigram":
            made = Tokenizer(models.Unigram())
            made.normalizer, made.pre_tokenizer, made.decoder = normalizers.NFKC(), space, decoders.Metaspace()
            trainer = trainers.UnigramTrainer(vocab_size=70, unk_token="<unk>", **options)
        case "bpe":
            made = Tokenizer(models.BPE(unk_token="<unk>"))
            made.pre_tokenizer, made.decoder = space, decoders.Metaspace()
            trainer = trainers.BpeTrainer(vocab_size=90, **options)
        case "byte-level":
            made = Tokenizer(models.BPE())
            made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
            options["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
            trainer = trainers.BpeTrainer(vocab_size=300, **options)
        case _:
            made = Tokenizer(models.BPE(unk_token="[UNK]"))
            made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(text, trainer)
    made.add_tokens({"byte-level": ["    ", "  ", "<s>"], "wordpiece": ["Ünïcode"]}.get(kind, []))
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    if kind == "bpe":
        roles = {
            "bos_token": "<bos>",
            "eos_token": {"__type": "AddedToken", "content": "<eos>"},
            "mask_token": "<mask>",
            "unk_token": "<unk>",
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(roles))
    return folder
