"""Build, show, compare, check and judge synonym tables."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.tokenizer import vocabulary_of
from ..errors import TrueNegError
from ..paths import require_different, require_writable
from ..synonyms import SOURCES, LexiconSettings, SynonymTable, open_lexicon
from ..synonyms.builder import predictable_names
from ..synonyms.figure_3 import check_figure_3
from ..synonyms.provision import TABLE_NAME, new_table, table_beside
from ..synonyms.sources import open_lexicons, parse_source
from ..vocabulary import Vocabulary, read_symbols
from . import synonyms_judge
from .output import add_json, file_of, print_unless_json, write_json

if TYPE_CHECKING:
    from ..synonyms.settings import CheckpointEmbeddings

_SOURCE_HELP = (
    f"{', '.join(SOURCES)}, or an expression: a+b what either lists, a&b what both list, a-b what b does not list, "
    "a-antonyms (WordNet's); quote & and parentheses"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions build, show, stats, compare, check, judge and fit."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    build = actions.add_parser("build", help="build the table of a dictionary", description=_build.__doc__)
    _add_data(build, required=True)
    build.add_argument("--source", default="wordnet", metavar="EXPR", help=f"{_SOURCE_HELP} (default: wordnet)")
    _add_settings(build)
    build.add_argument(
        "--output", type=Path, metavar="NPZ", help="file to write (default: synonyms.npz beside the dictionary)"
    )
    build.set_defaults(act=_build)

    show = actions.add_parser("show", help="show a word's synonyms in each source", description=_show.__doc__)
    show.add_argument("word", metavar="WORD")
    _add_data(show, required=False)
    show.add_argument(
        "--source",
        nargs="+",
        action="extend",
        metavar="EXPR",
        help=f"{_SOURCE_HELP} (default: each source there is data for)",
    )
    _add_settings(show)
    show.set_defaults(act=_show)

    stats = actions.add_parser("stats", help="describe a table", description=_stats.__doc__)
    stats.add_argument("table", type=Path, metavar="NPZ")
    stats.add_argument("--picture", type=Path, metavar="SVG", help="also draw the histogram into this file")
    add_json(stats, "the figures")
    stats.set_defaults(act=_stats)

    compare = actions.add_parser("compare", help="compare two tables", description=_compare.__doc__)
    compare.add_argument("left", type=Path, metavar="A.npz")
    compare.add_argument("right", type=Path, metavar="B.npz")
    _add_data(compare, required=False)
    compare.add_argument("--examples", type=int, default=10, metavar="N", help="pairs to show of each kind (10)")
    compare.add_argument("--seed", type=int, default=1, help="seed of the choice of examples (1)")
    add_json(compare, "the numbers of pairs and keys, and the pairs that are spelled out")
    compare.set_defaults(act=_compare)

    check = actions.add_parser("check", help="check a lexicon, a dictionary and its table", description=_check.__doc__)
    _add_data(check, required=True)
    check.add_argument("--source", default="wordnet", metavar="EXPR", help=f"{_SOURCE_HELP} (default: wordnet)")
    _add_settings(check)
    check.add_argument(
        "--table", type=Path, metavar="NPZ", help="table to check too (default: the one beside the data)"
    )
    add_json(check, "what was found")
    check.set_defaults(act=_check)

    synonyms_judge.add_actions(actions)


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


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lang", metavar="CODE", help="language of omw and mythes (and of embeddings' stop words), e.g. fra"
    )
    parser.add_argument(
        "--vectors", type=Path, metavar="FILE", help="for embeddings: GloVe, word2vec text or binary; also .gz"
    )
    parser.add_argument(
        "--checkpoint", type=Path, metavar="PT", help="for model: a fairseq checkpoint trained with the dictionary"
    )
    parser.add_argument(
        "--neighbours", type=int, metavar="N", help="for embeddings and model: nearest words considered (default: 10)"
    )
    parser.add_argument(
        "--threshold", type=float, metavar="X", help="for embeddings (default: none) and model (0.6): smallest cosine"
    )
    parser.add_argument("--tsv", type=Path, metavar="TSV", help="for tsv: lines 'word<TAB>synonym,synonym'")
    parser.add_argument(
        "--thesaurus", type=Path, metavar="DAT", help="of mythes: a th_*.dat (default: the one installed for --lang)"
    )
    parser.add_argument("--wn", metavar="NAME", help="of wn: an installed wordnet of the package wn, e.g. oewn:2024")
    parser.add_argument(
        "--exclude", type=Path, metavar="TSV", help="pairs that are not synonyms in any source, in the same format"
    )


def _settings(args: argparse.Namespace) -> LexiconSettings:
    names = ("lang", "vectors", "neighbours", "threshold", "tsv", "thesaurus", "wn", "exclude")
    checkpoint = None if args.checkpoint is None else _embeddings(args)
    return LexiconSettings(**{name: getattr(args, name) for name in names}, checkpoint=checkpoint)


def _embeddings(args: argparse.Namespace) -> CheckpointEmbeddings:
    """The input embeddings of --checkpoint with the vocabulary of --data."""
    if args.data is None:
        raise TrueNegError(f"--checkpoint {args.checkpoint}: needs --data, the dictionary it was trained with")
    from ..convert.checkpoints import read_embeddings
    from ..synonyms.settings import CheckpointEmbeddings

    return CheckpointEmbeddings(args.checkpoint, read_embeddings(args.checkpoint), _vocabulary(args))


def _build(args: argparse.Namespace) -> None:
    """Looks every word of a dictionary up in a lexicon and writes the table that the criterions use."""
    output = args.output or _folder(args.data) / TABLE_NAME
    require_different(**_inputs(args), output=output)
    require_writable(output, "--output", makes_folders=True)
    table = new_table(_vocabulary(args), args.source, _settings(args))
    try:
        table.save(output)
    except OSError as error:
        raise TrueNegError(
            f"{output}: cannot be written ({error.strerror}); choose another file with --output"
        ) from None
    print(f"wrote {output} ({output.stat().st_size / 1e6:.2f} MB)")
    print(table.summary)


def _show(args: argparse.Namespace) -> None:
    """Prints the names that each source lists for a word side by side, x where a source lists a name. With --data the
    column "token" marks those that a model with that dictionary can predict.
    """
    from ..synonyms.comparison import name_grid

    vocabulary = None if args.data is None else _vocabulary(args)
    lexicons, unavailable = open_lexicons(args.source, _settings(args))
    listed = {lexicon.source: list(lexicon.synonyms(args.word)) for lexicon in lexicons}
    names = list(dict.fromkeys(name for names in listed.values() for name in names))
    if not names:
        raise TrueNegError(f"{args.word!r}: not listed in {', '.join(listed)}; expected a word that is: try 'primary'")
    for lexicon in lexicons:
        stop = "; a stop word, which gets none in a table" if args.word.lower() in lexicon.stop_words else ""
        print(f"{args.word}: {len(listed[lexicon.source])} names in {lexicon.source}{stop}")
    columns: dict[str, Collection[str]] = dict(listed)
    if vocabulary is not None:
        columns["token"] = predictable_names(names, args.word, vocabulary)
        print(f"{len(columns['token'])} are single tokens of {args.data}, so that they can be predicted")
        if vocabulary.spelled(args.word) not in vocabulary.words:
            print(f"{args.word} is not a whole-word token of {args.data}: it is never corrected")
    print("\n".join(name_grid(names, columns)))
    for line in unavailable:
        print(line)


def _stats(args: argparse.Namespace) -> None:
    """Prints how many tokens and pairs a table has and how long its lists are; --picture draws the histogram."""
    from ..synonyms.statistics import TableStatistics

    say = print_unless_json(args)
    require_different(NPZ=args.table, json=file_of(args), picture=args.picture)
    statistics = TableStatistics.of(SynonymTable.load(args.table))
    say("\n".join(statistics.lines()))
    write_json(args, asdict(statistics))
    if args.picture is not None:
        statistics.chart().write(args.picture)
        say(f"wrote {args.picture}")


def _compare(args: argparse.Namespace) -> None:
    """Counts the pairs and keys that two tables of one dictionary share and do not share. With --data some pairs of
    each kind are spelled out.
    """
    from ..synonyms.comparison import TableComparison, sample_pairs

    if args.examples < 0:
        raise TrueNegError(f"--examples: found {args.examples}, expected a number >= 0")
    require_different(TABLES=[args.left, args.right], **_inputs(args), json=file_of(args))
    left, right = SynonymTable.load(args.left), SynonymTable.load(args.right)
    comparison = TableComparison.of(left, right, args.left, args.right)
    vocabulary = None if args.data is None else _vocabulary(args)
    if vocabulary is not None:
        left.check_dictionary(vocabulary.fingerprint, args.left, str(args.data))
    say = print_unless_json(args)
    record: dict[str, Any] = {}
    for name, path, table in (("A", args.left, left), ("B", args.right, right)):
        record[name] = {"table": str(path), "source": table.source, "pairs": len(table), "keys": table.keys}
        say(f"{name}: {path}, {table.source} {table.options}: {len(table)} pairs over {table.keys} keys")
    rows = (("in both", comparison.both), ("only in A", comparison.only_left), ("only in B", comparison.only_right))
    for title, pairs in rows:
        keys = len(np.unique(pairs[:, 0]))
        record[title] = {"pairs": len(pairs), "keys": keys, "examples": []}
        say(f"{title}: {len(pairs)} pairs over {keys} keys")
        if vocabulary is not None:
            for gold, synonym in sample_pairs(pairs, args.examples, args.seed):
                record[title]["examples"].append([vocabulary.words[gold], vocabulary.words[synonym]])
                say(f"  {vocabulary.words[gold]} -> {vocabulary.words[synonym]}")
    write_json(args, record)


def _check(args: argparse.Namespace) -> None:
    """Checks WordNet against Figure 3 of the paper, prints what the lexicon knows of a dictionary (62.5 % of the BERT
    vocabulary in WordNet, footnote 5), and checks that its table is the one that would be built now.
    """
    settings = _settings(args)
    path = args.table or table_beside(_folder(args.data), args.source, settings)
    require_different(table=path, **_inputs(args), json=file_of(args))
    say = print_unless_json(args)
    if str(parse_source(args.source, settings)) == "wordnet":
        for line in check_figure_3(open_lexicon("wordnet")):
            say(line)
    vocabulary = _vocabulary(args)
    fresh = new_table(vocabulary, args.source, settings)
    say(f"{args.data}: {len(vocabulary)} tokens, {vocabulary.tokenization}, fingerprint {vocabulary.fingerprint[:12]}")
    say(fresh.summary)
    record = {
        **{"data": str(args.data), "tokens": len(vocabulary), "tokenization": vocabulary.tokenization},
        **{"fingerprint": vocabulary.fingerprint, "source": fresh.source, "options": fresh.options},
        **{"known": fresh.known_words, "coverage": fresh.coverage, "pairs": len(fresh), "keys": fresh.keys},
    }
    if args.table is None and not path.exists():
        say(f"{path}: not there yet; training builds it")
        write_json(args, {**record, "table": None})
        return
    table = SynonymTable.load(path)
    table.check_dictionary(vocabulary.fingerprint, path, str(args.data))
    if not (np.array_equal(table.gold, fresh.gold) and np.array_equal(table.synonym, fresh.synonym)):
        raise TrueNegError(
            f"{path}: {len(table)} pairs from {table.source} {table.options}, expected {len(fresh)} from "
            f"{fresh.source} {fresh.options}; build it again with 'truneg synonyms build', or name its --source"
        )
    say(f"{path}: is up to date ({table.source}, {table.options})")
    write_json(args, {**record, "table": str(path)})


def _vocabulary(args: argparse.Namespace) -> Vocabulary:
    return vocabulary_of(
        read_symbols(args.data),
        _folder(args.data),
        tokenization=args.tokenization,
        gpt2_encoder_json=args.gpt2_encoder_json,
    )


def _inputs(args: argparse.Namespace) -> dict[str, Path | None]:
    """The files that an action reads besides tables, by their flags."""
    names = ("tsv", "vectors", "exclude", "thesaurus", "checkpoint", "gpt2_encoder_json")
    dictionary = None if args.data is None else args.data / "dict.txt" if args.data.is_dir() else args.data
    return {"data": dictionary, **{name: getattr(args, name, None) for name in names}}


def _folder(data: Path) -> Path:
    return data if data.is_dir() else data.parent
