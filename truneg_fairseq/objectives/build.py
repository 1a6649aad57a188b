"""What a training knows, for sources of alternatives and regularizers to be made of."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import TrueNegError, reason, refuse
from ..files import refuse_adapter
from ..vocabulary import (
    PAD,
    Vocabulary,
    WordBoundaries,
    load_transformers_tokenizer,
    padding_of,
    read_symbols,
    symbols_of_tokenizer,
    vocabulary_of_tokenizer,
)
from .corpus_targets import CorpusTargets
from .options import TrueNegativeOptions
from .passes import MaskedPredictions, fill, gather_rows

if TYPE_CHECKING:
    from ..synonyms import SynonymTable

logger = logging.getLogger(__name__)

BITS = 1 / math.log(2)
"""Bits a nat: losses are logged in bits."""

Teacher = Callable[[MaskedPredictions], Tensor]
"""Another model's logits at the masked positions, shape (N, V), without gradient."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a training knows. What is read of files is read when it is asked for first; what a loss without a tokenizer
    does not know is refused then.
    """

    options: TrueNegativeOptions
    padding: int = -1  # its id; -1 where no token is padding
    symbols: Sequence[str] = ()  # the tokens of the dictionary, by id, which counts are of; a model may have more rows
    folder: Path | None = None  # where tables and counts are, and are built where they are missing
    vocabulary: Vocabulary | None = None  # the dictionary's words; None to read them by the tokenizer in the folder
    open_teacher: Callable[[str], Teacher] | None = None  # of a file or name
    listed: SynonymTable | None = None  # a table that is there already
    grades: Tensor | None = None  # fp32, shape (P,), of its pairs; None where all are alike

    @cached_property
    def words(self) -> Vocabulary:
        """The tokens understood: whole words, pieces, special symbols."""
        if self.vocabulary is not None:
            return self.vocabulary
        from ..data.tokenizer import vocabulary_of

        return vocabulary_of(self.symbols, self._folder, tokenization=self.options.tokenization)

    @property
    def tokens(self) -> int:
        """How many there are; a model's further rows are no words."""
        return len(self.symbols or self.words)

    @cached_property
    def boundaries(self) -> WordBoundaries:
        """Which tokens continue words."""
        unfinished = None if self.words.unfinished is None else torch.from_numpy(self.words.unfinished)
        return WordBoundaries(torch.from_numpy(self.words.continues), unfinished)

    @cached_property
    def table(self) -> SynonymTable:
        """The synonym table."""
        if self.listed is not None:
            return self.listed
        from ..synonyms.building import provide_table

        path = Path(self.options.synonym_table) if self.options.synonym_table else None
        return provide_table(self.words, self._folder, path, self.options.synonym_source)

    @cached_property
    def exclusions(self) -> SynonymTable:
        """The pairs that no regression may accept: antonyms and other forms of a word, by WordNet."""
        from ..synonyms.building import provide_exclusions

        return provide_exclusions(self.words, self._folder)

    @cached_property
    def corpus(self) -> CorpusTargets:
        """The counts of a text."""
        from ..corpus_counts import counts_beside

        return read_corpus_targets(Path(self.options.corpus_counts or counts_beside(self._folder)), self.symbols)

    @cached_property
    def teacher(self) -> Teacher:
        """The model of ``--teacher``."""
        if self.options.teacher is None or self.open_teacher is None:
            raise TrueNegError("--soft-targets teacher: expected --teacher too, the masked LM that teaches")
        return self.open_teacher(self.options.teacher)

    @property
    def _folder(self) -> Path:
        if self.folder is None:
            raise TrueNegError(
                f"TrueNegativeLoss with {self.options.described()}: looks at a tokenizer's words; expected "
                "TrueNegativeLoss.for_tokenizer(tokenizer, ...) or TrueNegativeLoss.for_dictionary(file, ...)"
            )
        return self.folder

    def log_expected(self) -> None:
        """Says in the log what losses to expect."""
        corpus = self.corpus if "corpus" in self.options.sources else None
        logger.info("%s", expected_losses(len(self.vocabulary or self.symbols), corpus))


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
    return CorpusTargets(counts)


def setting_of_dictionary(options: TrueNegativeOptions, path: Path) -> Setting:
    """The setting of fairseq's ``dict.txt``, whose folder has the table."""
    return Setting(options=options, padding=PAD, symbols=read_symbols(path), folder=path.parent)


def setting_of_tokenizer(tokenizer: Any, options: TrueNegativeOptions, size: int | None = None) -> Setting:
    """The setting of a tokenizer of transformers, or of its folder.

    ``size`` is the number of rows of the model's embeddings, if it is known.
    """
    from ..synonyms.building import cache_path

    if not isinstance(tokenizer, str | Path) and not hasattr(tokenizer, "get_vocab"):
        raise TrueNegError(f"found {type(tokenizer).__name__}; expected a tokenizer of transformers, or its folder")
    if isinstance(tokenizer, str | Path):
        tokenizer = load_transformers_tokenizer(str(tokenizer))
    words = vocabulary_of_tokenizer(tokenizer, options.tokenization, size)
    return Setting(
        options=options,
        padding=padding_of(tokenizer),
        symbols=symbols_of_tokenizer(tokenizer),
        folder=cache_path(words, options.synonym_source).with_suffix(""),  # for each tokenizer and source
        vocabulary=words,
        open_teacher=lambda name: transformers_teacher(name, tokenizer),
    )


def setting_of_symbols(
    tokens: Sequence[Any], pairs: Iterable[Sequence[Any]], options: TrueNegativeOptions, padding: int | None = None
) -> Setting:
    """The setting of tokens without a tokenizer, by id, each a whole word: letters of proteins, items of a shop.

    ``pairs`` are (original, alternative) or (original, alternative, grade above 0). ``padding`` is the id of padding.
    """
    from ..synonyms import SynonymTable

    symbols = tuple(map(str, tokens))
    ids, found = {symbol: row for row, symbol in enumerate(symbols)}, dict[tuple[int, int], float]()
    graded = set[bool]()
    for pair in pairs:
        names, grade = [str(each) for each in pair[:2]], [float(each) for each in pair[2:]]
        unknown = [name for name in names if name not in ids]
        wrong = len(names) < 2 or len(grade) > 1 or (grade and not grade[0] > 0) or names[0] == names[1]
        refuse(
            (unknown, f"pairs: {pair}: {', '.join(unknown)} is no token; expected two of the {len(symbols)} tokens"),
            (wrong, f"pairs: {pair}: expected two different tokens, and a grade above 0 or none"),
        )
        found[ids[names[0]], ids[names[1]]] = grade[0] if grade else 1.0
        graded.add(bool(grade))
    refuse((len(graded) > 1, "pairs: some have a grade and some have none; expected a grade for all or for none"))
    vocabulary = Vocabulary(symbols, symbols, "words", symbols, np.zeros(len(symbols), dtype=np.bool_))
    gold, synonym = np.array(sorted(found), dtype=np.int32).reshape(-1, 2).T
    listed = SynonymTable(
        gold=gold,
        synonym=synonym,
        vocabulary_size=len(symbols),
        fingerprint=vocabulary.fingerprint,
        tokenization="words",
        source="tsv",
    )
    return Setting(
        options=options,
        padding=-1 if padding is None else padding,
        symbols=symbols,
        vocabulary=vocabulary,
        listed=listed,
        grades=torch.tensor([found[pair] for pair in sorted(found)]) if graded == {True} else None,
    )


def transformers_teacher(name: str, tokenizer: Any) -> Teacher:
    """A masked LM of transformers, a folder or a name."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    path, theirs = Path(name), dict[str, int]()
    try:
        refuse_adapter(name, "--teacher ")
        # A folder may hold the weights alone; transformers would make up a tokenizer.
        if not path.is_dir() or any((path / file).exists() for file in ("tokenizer.json", "vocab.txt", "vocab.json")):
            theirs = AutoTokenizer.from_pretrained(name, trust_remote_code=False).get_vocab()
        model, found = AutoModelForMaskedLM.from_pretrained(
            name, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    except (OSError, ValueError) as error:
        said = f"--teacher {name}: cannot be loaded ({reason(error)})"
        raise TrueNegError(f"{said}; expected a masked LM of transformers, a folder or a name") from None
    own = {index: token for token, index in tokenizer.get_vocab().items()}
    for token, index in sorted(theirs.items(), key=itemgetter(1)):
        if own.get(index, token) != token:
            raise TrueNegError(
                f"--teacher {name}: its token {index} is {token!r}, the model's {own[index]!r}; expected a teacher "
                "with the tokenizer of the model"
            )
    if missing := found["missing_keys"]:
        raise TrueNegError(f"--teacher {name}: has no {min(missing)}; expected a whole masked LM")
    return MaskedTeacher(model, tokenizer.mask_token_id, partial(_transformers_logits, padding_of(tokenizer)))


def _transformers_logits(padding: int, model: Any, tokens: Tensor, positions: Tensor) -> Tensor:
    attended = tokens.ne(padding).long()
    return gather_rows(model(input_ids=tokens, attention_mask=attended).logits, positions)


class MaskedTeacher:
    """A masked LM that teaches; a class, so that the loss can be pickled.

    Args:
        model: trained.
        mask: the id of the mask, which it reads at every masked position, also where the student reads a word.
        logits: the model's, shape (N, V), of tokens, shape (B, T), at positions of the flattened (B, T), shape (N,).
    """

    def __init__(self, model: Any, mask: int, logits: Callable[[Any, Tensor, Tensor], Tensor]) -> None:
        self._model, self._mask, self._logits = model.eval().requires_grad_(False), mask, logits

    @torch.no_grad()
    def __call__(self, predicted: MaskedPredictions) -> Tensor:
        tokens = fill(predicted, torch.full_like(predicted.gold, self._mask))
        return self._logits(self._model.to(tokens.device), tokens, predicted.positions)
