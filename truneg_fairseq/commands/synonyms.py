"""Build, show and check synonym tables."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ..errors import TrueNegError
from ..synonyms import Lexicon, SynonymTable, build_table, open_lexicon
from ..synonyms.provision import TABLE_NAME, new_table
from ..vocabulary import Vocabulary, gpt2_encoder_beside, read_symbols

# Figure 3 of the paper: all names of "primary", and the names of "stay" that fit into the figure.
_PRIMARY = """
primary_winding principal master elementary chief primary elemental basal primary_quill main primary_election
primary_feather primary_coil
"""
_STAY = """
continue halt stop check delay quell arrest remain bide detain persist stick_around ride_out last_out stay abide
stoppage
"""
FIGURE_3 = {"primary": _PRIMARY.split(), "stay": _STAY.split()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions build, show and check."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    build = actions.add_parser("build", help="build the table of a dictionary", description=_build.__doc__)
    _add_data(build, required=True)
    _add_source(build)
    build.add_argument(
        "--output", type=Path, metavar="NPZ", help="file to write (default: synonyms.npz beside the dictionary)"
    )
    build.set_defaults(act=_build)

    show = actions.add_parser("show", help="show a word's synonyms", description=_show.__doc__)
    show.add_argument("word", metavar="WORD")
    _add_data(show, required=False)
    _add_source(show)
    show.set_defaults(act=_show)

    check = actions.add_parser("check", help="check a lexicon, a dictionary and its table", description=_check.__doc__)
    _add_data(check, required=True)
    _add_source(check)
    check.add_argument(
        "--table", type=Path, metavar="NPZ", help="table to check too (default: the one beside the data)"
    )
    check.set_defaults(act=_check)


def run(args: argparse.Namespace) -> None:
    """Runs the chosen action."""
    args.act(args)


def _add_data(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--data", type=Path, required=required, metavar="DATA-BIN", help="folder of binarized data, or its dict.txt"
    )
    parser.add_argument(
        "--tokenization",
        default="auto",
        help="how the dictionary marks whole words: auto (detected), wordpiece, sentencepiece, gpt2 or words",
    )
    parser.add_argument(
        "--gpt2-encoder-json",
        type=Path,
        metavar="FILE",
        help="GPT-2's encoder.json, for dictionaries of GPT-2's numbers (default: encoder.json beside the dictionary)",
    )


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", default="wordnet", help="lexicon (default: wordnet)")


def _build(args: argparse.Namespace) -> None:
    """Looks every word of a dictionary up in a lexicon and writes the table that the criterions use."""
    table = new_table(_vocabulary(args), args.source)
    output = args.output or _folder(args.data) / TABLE_NAME
    try:
        table.save(output)
    except OSError as error:
        raise TrueNegError(
            f"{output}: cannot be written ({error.strerror}); choose another file with --output"
        ) from None
    print(f"wrote {output} ({output.stat().st_size / 1e6:.2f} MB)")
    _print_statistics(table)


def _show(args: argparse.Namespace) -> None:
    """Prints the names that a lexicon lists for a word, and with --data which of them a model can predict."""
    lexicon = open_lexicon(args.source)
    names = lexicon.synonyms(args.word)
    if not names:
        raise TrueNegError(f"{args.word!r}: not listed in {lexicon.source}; expected a word that is, such as 'primary'")
    print(f"{args.word}: {len(names)} names in {lexicon.source}")
    print("  " + ", ".join(names))
    if args.word.lower() in lexicon.stop_words:
        print(f"{args.word} is a stop word: it gets no synonyms in a table")
    if args.data is None:
        return
    vocabulary = _vocabulary(args)
    tokens = [token for token, word in enumerate(vocabulary.words) if word == args.word]
    if not tokens:
        print(f"{args.word} is no whole-word token of {args.data}: it is never corrected")
        return
    table = build_table(lexicon, vocabulary, tokens)
    usable = [vocabulary.symbols[token] for token in table.synonyms(tokens[0])]
    print(f"{len(usable)} are single tokens of {args.data}, so that they can be predicted")
    print("  " + ", ".join(usable))


def _check(args: argparse.Namespace) -> None:
    """Checks WordNet against Figure 3 of the paper, prints what the lexicon knows of a dictionary (62.5 % of the BERT
    vocabulary in WordNet, footnote 5), and checks that its table is the one that would be built now.
    """
    lexicon = open_lexicon(args.source)
    if lexicon.source == "wordnet":
        _check_figure_3(lexicon)
    vocabulary = _vocabulary(args)
    fresh = new_table(vocabulary, args.source)
    print(
        f"{args.data}: {len(vocabulary)} tokens, {vocabulary.tokenization}, fingerprint {vocabulary.fingerprint[:12]}"
    )
    _print_statistics(fresh)
    path = args.table or _folder(args.data) / TABLE_NAME
    if args.table is None and not path.exists():
        print(f"{path}: not there yet; training with hard correction builds it")
        return
    table = SynonymTable.load(path)
    table.check_dictionary(vocabulary.fingerprint, path, str(args.data))
    if not (np.array_equal(table.gold, fresh.gold) and np.array_equal(table.synonym, fresh.synonym)):
        raise TrueNegError(
            f"{path}: {len(table)} pairs from {table.source} {table.options}, expected {len(fresh)} from "
            f"{fresh.source} {fresh.options}; build it again with 'truneg synonyms build', or name its --source"
        )
    print(f"{path}: is up to date ({table.source}, {table.options})")


def _check_figure_3(lexicon: Lexicon) -> None:
    for word, expected in FIGURE_3.items():
        names = set(lexicon.synonyms(word))
        missing = sorted(set(expected) - names)
        if missing:
            raise TrueNegError(
                f"WordNet: {', '.join(missing)} missing from the names of {word!r} in Figure 3 of the paper; expected "
                "WordNet 3.0; install it with 'truneg wordnet'"
            )
        print(f"Figure 3, {word!r}: all {len(expected)} of the paper's names are among WordNet's {len(names)}")


def _print_statistics(table: SynonymTable) -> None:
    lengths = np.unique(table.gold, return_counts=True)[1]
    print(
        f"{table.source} lists {table.known_words} of {table.vocabulary_size} tokens ({100 * table.coverage:.2f} %); "
        f"{len(table)} usable pairs over {len(lengths)} tokens "
        f"(mean {lengths.mean():.1f}, at most {lengths.max()} synonyms)"
    )


def _vocabulary(args: argparse.Namespace) -> Vocabulary:
    return Vocabulary.from_symbols(
        read_symbols(args.data), args.tokenization, args.gpt2_encoder_json or gpt2_encoder_beside(_folder(args.data))
    )


def _folder(data: Path) -> Path:
    return data if data.is_dir() else data.parent
