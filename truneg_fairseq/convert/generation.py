"""What a task of fairseq that generates puts around its sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Frame:
    """The symbols around a source sentence, and the one that the decoder begins with, which also ends a target."""

    before: tuple[str, ...] = ("<s>",)
    after: tuple[str, ...] = ("</s>",)
    start: str = "</s>"


def frame_of(task: Mapping[str, Any]) -> Frame:
    """By the arguments of a checkpoint's task."""
    name = str(task.get("_name") or task.get("task"))
    if name == "translation_from_pretrained_bart":
        before = ("<s>",) if task.get("prepend_bos") else ()
        return Frame(before, ("</s>", f"[{task['source_lang']}]"), f"[{task['target_lang']}]")
    return Frame(before=()) if name == "translation" else Frame()
