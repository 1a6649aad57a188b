"""What a task of fairseq that generates adds to its sentences and to its dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..vocabulary import LANGUAGE_TAG, MASK_SYMBOL
from .rows import TokenList

DENOISING, TRANSLATION, PRETRAINED = "denoising", "translation", "translation_from_pretrained_bart"


@dataclass(frozen=True)
class Frame:
    """The symbols around a source sentence, and the one that the decoder begins with, which also ends a target."""

    before: tuple[str, ...] = ("<s>",)
    after: tuple[str, ...] = ("</s>",)
    start: str = "</s>"


def frame_of(task: Mapping[str, Any]) -> Frame:
    """By the arguments of a checkpoint's task."""
    name = _name(task)
    if name == PRETRAINED:
        before = ("<s>",) if task.get("prepend_bos") else ()
        return Frame(before, ("</s>", _tag(task["source_lang"])), _tag(task["target_lang"]))
    return Frame(before=()) if name == TRANSLATION else Frame()


def symbols_of(dictionary: TokenList, task: Mapping[str, Any]) -> TokenList:
    """The dictionary with what the task of a checkpoint adds to it: tags of languages, and ``<mask>`` at the end."""
    name = _name(task)
    tagged = name == PRETRAINED or (name == "multilingual_denoising" and task.get("add_lang_token"))
    languages = str(task.get("langs") or "").split(",") if tagged else []
    return _with(dictionary, [_tag(language) for language in languages], masked=name != TRANSLATION)


def symbols_for(vocabulary: TokenList, dictionary: TokenList) -> TokenList:
    """The dictionary with the tags of languages that a vocabulary has, in its order, and ``<mask>`` if it has one."""
    known = set(dictionary.tokens)
    tags = [token for token in vocabulary.tokens if LANGUAGE_TAG.fullmatch(token) and token not in known]
    return _with(dictionary, tags, masked=vocabulary.special_tokens[MASK_SYMBOL] in vocabulary.tokens)


def with_languages(vocabulary: TokenList, dictionary: TokenList) -> TokenList:
    """A tokenizer's vocabulary with the tags of languages that the dictionary has; they come last."""
    return TokenList((*vocabulary.tokens, *map(_tag, languages_in(dictionary.tokens))), vocabulary.path)


def task_of(dictionary: TokenList, data: Path, positions: int) -> tuple[str, dict[str, Any]]:
    """A task of fairseq with this dictionary, and its arguments: for pairs of languages one that translates."""
    from fairseq.data.data_utils import infer_language_pair

    source, target = infer_language_pair(str(data))
    if source is None:
        return DENOISING, {"tokens_per_sample": positions}
    settings = {"source_lang": source, "target_lang": target}
    settings |= {"max_source_positions": positions, "max_target_positions": positions}
    if languages := languages_in(dictionary.tokens):
        return PRETRAINED, settings | {"langs": ",".join(languages), "prepend_bos": False}
    return TRANSLATION, settings


def languages_in(tokens: Sequence[str]) -> list[str]:
    """The languages that a dictionary has tags of, in its order."""
    return [token[1:-1] for token in tokens if LANGUAGE_TAG.fullmatch(token)]


def _with(dictionary: TokenList, tags: Sequence[str], *, masked: bool) -> TokenList:
    last_is_mask = dictionary.tokens[-1] == MASK_SYMBOL
    ordinary = dictionary.tokens[:-1] if last_is_mask else dictionary.tokens
    new = [symbol for symbol in (*tags, *([MASK_SYMBOL] if masked else [])) if symbol not in ordinary]
    return TokenList((*ordinary, *new), dictionary.path)


def _name(task: Mapping[str, Any]) -> str:
    return str(task.get("_name") or task.get("task"))


def _tag(language: str) -> str:
    return f"[{language}]"
