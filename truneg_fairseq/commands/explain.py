"""``truneg explain``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ..corpora.text import read_lines
from ..errors import TrueNegError
from ..evaluation.inspection_options import ExplanationOptions
from ..files import replacing_text, require_unsplit
from ..options import option
from .output import JsonOutput, in_color, print_unless_json, write_json_lines


@dataclass(kw_only=True)
class ExplainOptions(ExplanationOptions, JsonOutput):
    text: list[str] = option(
        default_factory=list, help="sentences; without any, the lines of stdin", metavar="TEXT", positional=True
    )
    file: Path | None = option(None, "explain its lines", metavar="TXT")
    html: Path | None = option(None, "also write one page", metavar="HTML")


def explain(options: ExplainOptions) -> None:
    """Explain a sentence: which mistakes of a model are false negatives, and why.

    Its words are masked in turn. Prints every sentence, in colour on a terminal, and some lines for each masked word.
    A model that translates gets SOURCE, a tab and TARGET, and predicts each token of TARGET after those before it; so
    does a causal LM with a text.
    """
    if options.text and options.file:
        raise TrueNegError("explain: found TEXT and --file; expected one of them")
    lines = options.text or (read_lines(options.file) if options.file else (line.rstrip("\r\n") for line in sys.stdin))
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise TrueNegError(f"{options.file or 'stdin'}: found no text; expected a sentence a line")
    from ..evaluation.model_options import prepare

    prepare(options.checkpoint)
    from ..evaluation.explain import Explainer
    from ..evaluation.models import is_hugging_face
    from ..report.explanation import explanation_page

    explainer, generated = Explainer, False
    if not is_hugging_face(options.checkpoint):
        from ..evaluation.teacher_forcing import TeacherForcedExplainer, generates

        if options.data is not None:
            require_unsplit(options.data, "--data")
        generated = generates(options.checkpoint)
        explainer = TeacherForcedExplainer if generated else Explainer
    explain_one = explainer(options).explain
    sentences, say = [], print_unless_json(options)
    for sentence in filter(None, map(explain_one, texts)):
        sentences.append(sentence)
        say("\n".join([*sentence.lines(color=in_color()), ""]))
    if len(sentences) < len(texts):
        passed = f"{len(texts) - len(sentences)} of {len(texts)} texts"
        print(f"passed over {passed}, in which nothing is to be masked", file=sys.stderr)
    write_json_lines(options, [sentence.record() for sentence in sentences])
    if options.html is not None:
        title = f"What {'/'.join(options.checkpoint.parts[-2:])} predicts"
        page = explanation_page(sentences, title, generated=generated).render()
        with replacing_text(options.html) as stream:
            stream.write(page)
