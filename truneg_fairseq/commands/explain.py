"""Explain a sentence: mask its words in turn, and show which mistakes of a model are false negatives, and why."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..corpora.text import read_lines
from ..errors import TrueNegError
from ..paths import require_different, require_writable
from .output import add_color, add_json, file_of, in_color, print_unless_json, write_json_lines
from .parser import add_cpu

if TYPE_CHECKING:
    from ..inspection.explain import Explainer
    from ..inspection.explanations import ExplainedSentence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint, the text and what to write."""
    parser.add_argument("text", nargs="*", metavar="TEXT", help="sentences; without any, the lines of stdin")
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="PT", help="of a masked-LM model")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DATA-BIN", help="folder of binarized data, with its tokenizer"
    )
    parser.add_argument("--file", type=Path, metavar="TXT", help="explain its lines")
    parser.add_argument("--split", metavar="NAME", help="explain sequences of the data: valid, test ...")
    parser.add_argument("--sequences", type=int, default=10, metavar="N", help="of --split: the first N (10)")
    parser.add_argument("--words", nargs="+", action="extend", default=[], metavar="WORD", help="mask these words only")
    parser.add_argument("--top", type=int, default=5, metavar="K", help="likeliest words to show (5)")
    parser.add_argument(
        "--detector",
        default="table",
        help="which mistakes are false negatives: table, or judged in the sentence as --hc-detector does: "
        "table+embedding, embedding+context ...",
    )
    parser.add_argument(
        "--synonym-table", type=Path, metavar="NPZ", help="default: synonyms.npz beside the data, built when missing"
    )
    parser.add_argument(
        "--tokenization", default="auto", help="auto (detected), wordpiece, sentencepiece, gpt2 or words"
    )
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="masked copies a batch (32)")
    add_cpu(parser)
    parser.add_argument("--html", type=Path, metavar="HTML", help="also write one page")
    add_json(parser, "a line a sentence")
    add_color(parser)


def run(args: argparse.Namespace) -> None:
    """Prints every sentence, in colour on a terminal, and some lines for each masked word."""
    for flag, count in (("--top", args.top), ("--batch-size", args.batch_size), ("--sequences", args.sequences)):
        if count < 1:
            raise TrueNegError(f"{flag} {count}: expected at least 1")
    if sum(map(bool, (args.text, args.file, args.split))) > 1:
        raise TrueNegError("explain: found more than one of TEXT, --file and --split; expected one")
    require_different(
        checkpoint=args.checkpoint,
        file=args.file,
        synonym_table=args.synonym_table,
        html=args.html,
        json=file_of(args),
    )
    if args.html is not None:
        require_writable(args.html, "--html")
    texts = None if args.split else list(_texts(args))
    from .. import register

    register()
    from ..files import replacing_text
    from ..inspection.explain import Explainer
    from ..inspection.explanations import explanation_page

    explainer = Explainer(
        args.checkpoint,
        args.data,
        detector=args.detector,
        synonym_table=args.synonym_table,
        tokenization=args.tokenization,
        batch_size=args.batch_size,
        top=args.top,
        cpu=args.cpu,
    )
    sentences, say = [], print_unless_json(args)
    for sentence in _sentences(args, explainer, texts):
        sentences.append(sentence)
        say("\n".join([*sentence.lines(color=in_color(args)), ""]))
    if texts is not None and len(sentences) < len(texts):
        passed = f"{len(texts) - len(sentences)} of {len(texts)} texts"
        print(f"passed over {passed}, in which nothing is to be masked", file=sys.stderr)
    if absent := explainer.absent(args.words):
        print(f"--words: no sentence has {', '.join(absent)}", file=sys.stderr)
    write_json_lines(args, [sentence.record() for sentence in sentences])
    if args.html is not None:
        with replacing_text(args.html) as stream:
            stream.write(explanation_page(sentences, f"What {args.checkpoint.name} predicts").render())


def _sentences(args: argparse.Namespace, explainer: Explainer, texts: list[str] | None) -> Iterator[ExplainedSentence]:
    if texts is None:
        yield from explainer.explain_split(args.split, args.sequences, args.words)
    else:
        yield from explainer.explain_texts(texts, args.words)


def _texts(args: argparse.Namespace) -> Iterator[str]:
    """The lines that are not empty."""
    if args.text:
        lines, where = args.text, "TEXT"
    elif args.file:
        lines, where = list(read_lines(args.file)), str(args.file)
    else:
        lines, where = [], "stdin"
        try:
            lines += (line.rstrip("\r\n") for line in sys.stdin)
        except UnicodeDecodeError:
            raise TrueNegError(f"stdin: is not UTF-8 after {len(lines):,} lines; convert it, say with iconv") from None
    for number, line in enumerate(lines, start=1):
        if any("\ud800" <= character <= "\udfff" for character in line):  # what Python makes of other bytes
            raise TrueNegError(f"{where}: line {number:,} is not UTF-8; convert it, say with iconv")
    found = [line for line in lines if line.strip()]
    if not found:
        raise TrueNegError(f"{where}: no text to explain; expected a sentence a line")
    yield from found
