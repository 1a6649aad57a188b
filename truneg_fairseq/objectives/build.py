"""The parts of the objective that the options of a training describe: word boundaries, synonyms, counts, detector."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import TrueNegError
from ..vocabulary import (
    Vocabulary,
    WordBoundaries,
    load_transformers_tokenizer,
    padding_of,
    symbols_of_tokenizer,
    vocabulary_of_tokenizer,
)
from .corpus_targets import CorpusTargets
from .false_negatives import Detector, acceptance_model, pair_keys
from .loss import BITS
from .options import TABLE, TrueNegativeOptions
from .passes import MaskedPredictions, fill, gather_rows
from .soft_targets import SynonymLists

logger = logging.getLogger(__name__)


def build_parts(
    options: TrueNegativeOptions,
    *,
    symbols: Sequence[str],
    folder: Path,
    padding: int,
    words: Vocabulary | None = None,
    teacher: Callable[[MaskedPredictions], Tensor] | None = None,
) -> dict[str, Any]:
    """The arguments of :class:`~.loss.Objective` for a dictionary.

    Args:
        options: what is minimised.
        symbols: the tokens of the dictionary, by id, which counts are of; a model may have more rows.
        folder: where the synonym table, the counts and the blocked pairs are, and are built where they are missing.
        padding: the id of padding.
        words: the dictionary's words; None to read them by the tokenizer in the folder.
        teacher: see :class:`~.loss.Objective`.
    """
    options.check()
    corpus = None
    if options.corpus_targets:
        from ..corpus_counts import counts_beside

        corpus = read_corpus_targets(Path(options.corpus_counts or counts_beside(folder)), symbols)
    parts: dict[str, Any] = {"padding": padding, "corpus": corpus, "teacher": teacher}
    uses_table = options.needs_table or options.synonym_table is not None  # one that is only given is used to log
    if not uses_table and not options.finds_false_negatives:
        return parts
    if words is None:
        from ..data.tokenizer import vocabulary_of

        words = vocabulary_of(symbols, folder, tokenization=options.tokenization)
    unfinished = None if words.unfinished is None else torch.from_numpy(words.unfinished)
    parts["boundaries"] = WordBoundaries(torch.from_numpy(words.continues), unfinished)
    table = keys = None
    if uses_table:
        from ..synonyms.build import provide_table

        path = Path(options.synonym_table) if options.synonym_table else None
        table = provide_table(words, folder, path, options.synonym_source)
        keys = pair_keys(*_pairs_of(table))
        if options.synonym_targets:
            parts["synonyms"] = SynonymLists(*_pairs_of(table), len(words))
    only_logged = keys is not None and not options.needs_table and options.features == {TABLE}
    if options.finds_false_negatives or only_logged:
        parts["detector"] = _detector(options, words, folder, keys)
    parts["table"] = table
    return parts


def expected_losses(size: int, corpus: CorpusTargets | None) -> str:
    """What the plain loss of a model is at first, and on the plateau where it has learned only frequencies, in a line.

    ``size`` is V; the frequencies are those of ``corpus``, None where nothing was counted.
    """
    first = math.log(size)
    line = f"expect a first loss of about {first:.1f} nats, {first * BITS:.1f} bits: the logarithm of {size:,} tokens"
    if corpus is None:
        return line
    chance = corpus.words[corpus.words > 0].double()
    chance /= chance.sum()
    entropy = -float(chance @ chance.log())
    return f"{line}; then {entropy:.1f} nats, {entropy * BITS:.1f} bits: what the frequencies of the tokens alone give"


def read_corpus_targets(path: Path, symbols: Sequence[str]) -> CorpusTargets:
    """The counts of a file that ``truneg data counts`` wrote, of the dictionary with these symbols."""
    from ..corpus_counts import CorpusCounts

    counts = CorpusCounts.load(path, symbols)
    logger.info("corpus counts %s: %s; discount %g", path, counts.summary, counts.discount)
    pairs, triples = (
        (torch.from_numpy(counted.keys), torch.from_numpy(counted.counts)) for counted in (counts.pairs, counts.triples)
    )
    return CorpusTargets(torch.from_numpy(counts.words), pairs, triples, discount=counts.discount, most=counts.most)


def _detector(options: TrueNegativeOptions, words: Vocabulary, folder: Path, keys: Tensor | None) -> Detector:
    features, threshold = options.features, options.hc_threshold
    if features == {TABLE}:
        return Detector(features, threshold, keys)
    from ..synonyms.build import provide_exclusions
    from ..synonyms.wordnet import eligible_words

    file, pairs = options.hc_acceptance_model, provide_exclusions(words, folder)
    return Detector(
        features,
        threshold,
        keys if TABLE in features else None,
        acceptance_model(features, Path(file) if file else None),
        eligible=torch.from_numpy(eligible_words(words)),
        blocked=pair_keys(*_pairs_of(pairs)),
    )


def _pairs_of(table: Any) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(table.gold).long(), torch.from_numpy(table.synonym).long()


def parts_for_tokenizer(tokenizer: Any, options: TrueNegativeOptions, size: int | None = None) -> dict[str, Any]:
    """:func:`build_parts` for a tokenizer of transformers, or its folder.

    ``size`` is the number of rows of the model's embeddings, if it is known.
    """
    from ..synonyms.build import cache_path

    if isinstance(tokenizer, str | Path):
        tokenizer = load_transformers_tokenizer(str(tokenizer))
    words = vocabulary_of_tokenizer(tokenizer, options.tokenization, size)
    teacher = transformers_teacher(options.teacher, tokenizer) if options.teacher_targets and options.teacher else None
    # A folder of the cache for each tokenizer and source.
    folder: Path = cache_path(words, options.synonym_source).with_suffix("")
    symbols, padding = symbols_of_tokenizer(tokenizer), padding_of(tokenizer)
    parts = build_parts(options, symbols=symbols, folder=folder, padding=padding, words=words, teacher=teacher)
    logger.info("%s", expected_losses(len(words), parts["corpus"]))
    return parts


def transformers_teacher(name: str, tokenizer: Any) -> Callable[[MaskedPredictions], Tensor]:
    """The logits of a masked LM of transformers, a folder or a name, at the masked positions; shape (N, V).

    It reads ``[MASK]`` at every masked position, also where the student reads a word.
    """
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    padding, mask, path = tokenizer.pad_token_id, tokenizer.mask_token_id, Path(name)
    if (path / "adapter_config.json").exists():  # transformers would add the adapter to another model than this one
        raise TrueNegError(f"--teacher {name}: has an adapter (adapter_config.json); expected a whole model: merge it")
    own = {index: token for token, index in tokenizer.get_vocab().items()}
    # A folder may hold the weights alone; transformers would make up a tokenizer.
    if not path.is_dir() or any((path / file).exists() for file in ("tokenizer.json", "vocab.txt", "vocab.json")):
        theirs = AutoTokenizer.from_pretrained(name, trust_remote_code=False).get_vocab()
        for token, index in sorted(theirs.items(), key=itemgetter(1)):
            if own.get(index, token) != token:
                raise TrueNegError(
                    f"--teacher {name}: its token {index} is {token!r}, the model's {own[index]!r}; expected a teacher "
                    "with the tokenizer of the model"
                )
    model = AutoModelForMaskedLM.from_pretrained(name, use_safetensors=True, trust_remote_code=False)
    model.eval().requires_grad_(False)

    @torch.no_grad()
    def logits(predicted: MaskedPredictions) -> Tensor:
        tokens = fill(predicted, torch.full_like(predicted.gold, mask))
        found = model.to(tokens.device)(input_ids=tokens, attention_mask=tokens.ne(padding).long()).logits
        return gather_rows(found, predicted.positions)

    return logits
