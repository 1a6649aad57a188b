"""Draws docs/explain/method.svg: one masked word, and what each objective does with the model's answer.

    python docs/explain/make_method_figure.py

The probabilities are an example. Colours of text and lines follow the reader's light or dark setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

FIGURE = Path(__file__).with_name("method.svg")
WORDS = ("main", "primary", "chief", "only", "red")
PREDICTED = (0.46, 0.22, 0.14, 0.12, 0.01)
GOLD, FALSE_NEGATIVE = "primary", "main"
ROW, WIDTH = 22, 140
STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 12px } .dim { fill: #59636e }
  .bold { font-weight: 600 } .title { font-size: 17px; font-weight: 600 }
  .card { fill: #f6f8fa; stroke: #d1d9e0 } .model { fill: #8c959f } .target { fill: #0969da } .false { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .dim { fill: #9198a1 } .card { fill: #151b23; stroke: #3d444d }
    .target { fill: #4493f8 } .false { fill: #f0883e }
  }
"""


@dataclass(frozen=True)
class Panel:
    """One objective: the target that it gives each of WORDS, and what that means."""

    title: str
    targets: tuple[float, ...]
    lines: tuple[str, ...]
    dropped: bool = False
    near: bool = False  # names the second term


PANELS = (
    Panel(
        "Masked LM (baseline)",
        (0, 1, 0, 0, 0),
        ("Every word but “primary” is wrong:", "“main” is pushed down as “red” is."),
    ),
    Panel(
        "Label smoothing",
        (0.02, 0.92, 0.02, 0.02, 0.02),
        ("Each word gets the same small share,", "whether it fits or not."),
    ),
    Panel(
        "Hard correction (HC)",
        (0, 0, 0, 0, 0),
        ("The prediction “main” is a listed synonym:", "this position’s loss is left out."),
        dropped=True,
    ),
    Panel(
        "SR-word",
        (0, 1, 0, 0, 0),
        ("The loss stays. A second term draws the", "embeddings of both words together."),
        near=True,
    ),
    Panel(
        "Soft targets",
        (0.1, 0.8, 0.1, 0, 0),
        ("A part of the target goes to words that", "fit: synonyms, corpus, nearest, teacher."),
    ),
)


def bars(x: float, y: float, values: tuple[float, ...], kind: str) -> list[str]:
    """Horizontal bars with the values beside them; a value of 0 has none."""
    drawn = []
    for number, value in enumerate(values):
        top = y + number * ROW
        if value:
            drawn.append(
                f'<rect class="{kind}" x="{x}" y="{top}" width="{max(2, value * WIDTH):.1f}" height="14" rx="2"/>'
            )
            drawn.append(text(x + value * WIDTH + 6, top + 11.5, f"{value:.2f}", "small"))
        else:
            drawn.append(text(x, top + 11.5, "0", "small dim"))
    return drawn


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(content)}</text>'


def words(x: float, y: float) -> list[str]:
    """The column of words; the original one is bold, the false negative has its colour."""
    return [
        text(x, y + number * ROW + 11.5, word, {GOLD: "bold", FALSE_NEGATIVE: "false bold"}.get(word, ""), "end")
        for number, word in enumerate(WORDS)
    ]


def panel(x: float, y: float, shown: Panel) -> list[str]:
    drawn = [
        f'<rect class="card" x="{x}" y="{y}" width="288" height="206" rx="8"/>',
        text(x + 14, y + 26, shown.title, "bold"),
    ]
    drawn += words(x + 76, y + 42)
    if shown.dropped:
        drawn.append(text(x + 86, y + 97, "no target: loss × 0", "dim"))
    else:
        drawn += bars(x + 86, y + 42, shown.targets, "target")
    if shown.near:
        drawn.append(text(x + 108, y + 120, "+ 1 − cos(main, primary)", "small false"))
    return drawn + [text(x + 14, y + 168 + 18 * n, line, "small") for n, line in enumerate(shown.lines)]


def figure() -> str:
    """The SVG's text."""
    drawn = [
        text(20, 34, "One masked word", "title"),
        text(20, 64, "Text:"),
        text(90, 64, "the primary reason is …"),
        text(20, 88, "Input:"),
        text(90, 88, "the [MASK] reason is …"),
        text(20, 120, "The most probable word, “main”, fits as well as", "small"),
        text(20, 138, "the original: a false negative.", "small false"),
        text(20, 162, "Blue: the target, towards which the loss moves", "small dim"),
        text(20, 180, "the model. Below: five objectives.", "small dim"),
        '<rect class="card" x="324" y="20" width="288" height="166" rx="8"/>',
        text(338, 46, "The model at [MASK]", "bold"),
        *words(400, 62),
        *bars(410, 62, PREDICTED, "model"),
    ]
    places = [(20, 214), (324, 214), (628, 214), (20, 436), (324, 436)]
    for place, shown in zip(places, PANELS, strict=True):
        drawn += panel(*place, shown)
    notes = (
        "The words and numbers are an example.",
        "HC looks the prediction up in a table of",
        "synonyms. SR-word asks no table: it acts on",
        "every prediction. People accept about 1 in 7",
        "of WordNet’s synonyms in their context.",
    )
    drawn += [text(636, 466 + 20 * n, line, "small dim") for n, line in enumerate(notes)]
    body = "\n  ".join(drawn)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 936 662" role="img" '
        'aria-label="A masked word, the model’s distribution, and the target of five objectives">\n'
        f"<style>{STYLE}</style>\n  {body}\n</svg>\n"
    )


if __name__ == "__main__":
    FIGURE.write_text(figure(), encoding="utf-8")
