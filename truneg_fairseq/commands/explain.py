"""``truneg explain``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ..corpora.text import read_lines
from ..errors import TrueNegError
from ..evaluation.models import OpeningOptions
from ..files import replacing_text, require_unsplit
from ..options import option
from .output import JsonOutput, in_color, print_unless_json, write_json_lines


@dataclass(kw_only=True)
class ExplainOptions(OpeningOptions, JsonOutput):
    checkpoint: Path = option(
        help="a masked LM or ELECTRA: a fairseq checkpoint, or a folder of Hugging Face's (hub:NAME downloads one)",
        metavar="MODEL",
    )
    text: list[str] = option(
        default_factory=list, help="sentences; without any, the lines of stdin", metavar="TEXT", positional=True
    )
    file: Path | None = option(None, "explain its lines", metavar="TXT")
    html: Path | None = option(None, "also write one page", metavar="HTML")
    synonym_table: Path | None = option(
        None,
        "default: that of the checkpoint's training, else synonyms.npz beside the data or in the cache folder, built "
        "when missing",
        metavar="NPZ",
    )
    detector: str = option(
        "table",
        "which mistakes are false negatives: table, or judged in the sentence as --hc-detector does: table+embedding, "
        "embedding+context ...",
    )


def explain(options: ExplainOptions) -> None:
    """Explain a sentence: which mistakes of a masked LM are false negatives, and why.

    Its words are masked in turn. Prints every sentence, in colour on a terminal, and some lines for each masked word.
    """
    if options.text and options.file:
        raise TrueNegError("explain: found TEXT and --file; expected one of them")
    if options.data is not None:
        require_unsplit(options.data, "--data")
    lines = options.text or (read_lines(options.file) if options.file else (line.rstrip("\r\n") for line in sys.stdin))
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise TrueNegError(
            f"{options.file or ('TEXT' if options.text else 'stdin')}: found no text; expected a sentence"
        )
    from ..evaluation.explain import Explainer, explanation_page

    explainer = Explainer(options.checkpoint, options, synonym_table=options.synonym_table, detector=options.detector)
    sentences, say = [], print_unless_json(options)
    for sentence in filter(None, map(explainer.explain, texts)):
        sentences.append(sentence)
        say("\n".join([*sentence.lines(color=in_color()), ""]))
    if len(sentences) < len(texts):
        passed = f"{len(texts) - len(sentences)} of {len(texts)} texts"
        print(f"passed over {passed}, in which nothing is to be masked", file=sys.stderr)
    write_json_lines(options, [sentence.record() for sentence in sentences])
    if options.html is not None:
        page = explanation_page(sentences, f"What {'/'.join(options.checkpoint.parts[-2:])} predicts").render()
        with replacing_text(options.html) as stream:
            stream.write(page)
