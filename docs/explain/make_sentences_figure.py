"""Draws docs/explain/sentences.svg: sentences that the demo's model was asked to predict, word by word.

    python docs/explain/make_sentences_figure.py demo/explained.jsonl

The file is what ``make demo`` writes: the lines of ``truneg explain --json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from make_method_figure import STYLE, escape, text

FIGURE = Path(__file__).with_name("sentences.svg")
SHOWN = 6  # sentences: the six whose mistake is a good word
LINE = 30


def sentence(y: float, parts: list[dict[str, Any]]) -> str:
    """A line of SVG text: right words black, mistakes grey, a false negative with the prediction and its rating."""
    spans = []
    for part in parts:
        word, space = escape(part["text"]), "" if part["text"] in ".,;" else " "
        if part["verdict"] == "false negative":
            accepted = f'<tspan class="small dim">({part["acceptance"]:.2f})</tspan>'
            word = f'<tspan class="false bold">{word} → {escape(part["prediction"])}</tspan> {accepted}'
        elif part["verdict"] != "right":
            word = f'<tspan class="dim">{word}</tspan>'
        spans.append(space + word)
    return f'<text x="20" y="{y:.0f}">{"".join(spans).strip()}</text>'


def figure(lines: list[str]) -> str:
    """The SVG's text."""
    drawn = [
        text(20, 32, "Each word was masked, and the model predicted it", "title"),
        text(20, 56, "Black: the original word came first. Grey: another word did.", "small dim"),
        text(
            20,
            76,
            "Orange: a false negative, a synonym came first. In brackets: how probable it is that people accept it.",
            "small false",
        ),
        *(sentence(112 + number * LINE, json.loads(line)["parts"]) for number, line in enumerate(lines[:SHOWN])),
    ]
    height = 112 + SHOWN * LINE - 8
    body = "\n  ".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 936 {height}" role="img" aria-label='
        '"Six sentences with the false negatives of a BERT: film for movie, located for situated, and others">\n'
        f"<style>{STYLE}</style>\n  {body}\n</svg>\n"
    )


if __name__ == "__main__":
    FIGURE.write_text(figure(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()), encoding="utf-8")
