"""The models of evaluations: who opens which."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ..corpus_counts import DEFAULT_SHARE
from ..errors import TrueNegError
from ..flags import option, user_dir_option

if TYPE_CHECKING:
    from ..models.checkpoints import Checkpoint
    from ..synonyms import SynonymTable
    from .scorer import Scorer, Tokens


@dataclass(kw_only=True)
class OpeningOptions:
    """How a model is opened, whoever made it."""

    data: Path | None = option(
        None,
        help="for fairseq checkpoints: binarized data with their tokenizer (default: the data of the training)",
        metavar="DATA-BIN",
    )
    cpu: bool = option(False, help="use the CPU only")
    user_dir: Path | None = user_dir_option()


@dataclass(kw_only=True)
class CountsOptions:
    corpus_counts: Path | None = option(
        None,
        help="an npz of 'truneg data counts': mix these n-gram counts into every prediction, without training; "
        "evaluate measures each model without and with them",
        metavar="NPZ",
    )
    counts_share: str = option(
        str(DEFAULT_SHARE),
        "weight of the counts in the mixture: a number; or SEEN,DOUBT,UNSEEN: SEEN n / (n + DOUBT types) at a place "
        "that the text has n times with so many different words, UNSEEN at others; or fit: evaluate chooses the three "
        "on every fourth sample of --task held-out, and measures on the others",
        metavar="SHARE",
    )


class OpenedModel:
    """A model whose file is read once; the module itself is built when :meth:`scorer` asks for it."""

    def __init__(self, path: Path, options: OpeningOptions) -> None:
        from ..convert.from_hf import local_folder

        self._options, self.path = options, local_folder(str(path))
        self.checkpoint: Checkpoint | None = None  # what was read of fairseq's file
        self.data = Path()  # of a fairseq checkpoint
        if is_hugging_face(path):
            return
        if not path.exists():
            raise TrueNegError(f"{path}: no such file or folder; expected a fairseq checkpoint, a folder or hub:NAME")
        from .. import register

        register()
        from ..models.checkpoints import data_of, quiet_fairseq, read_checkpoint

        quiet_fairseq()
        self.checkpoint = read_checkpoint(path)
        self.data = options.data or data_of(self.checkpoint)

    @property
    def is_causal(self) -> bool:
        """Whether a fairseq checkpoint is a causal LM: a decoder without an encoder."""
        parts = {name.split(".")[0] for name in (self.checkpoint.state if self.checkpoint else ())}
        return "decoder" in parts and "encoder" not in parts

    def tokens(self, tokenization: str = "auto") -> Tokens:
        """Of Hugging Face's folder itself, of a fairseq checkpoint those of its data.

        How whole words are marked is what the checkpoint's training was told, unless ``tokenization`` says it.
        """
        if self.checkpoint is None:
            from .hf_scorer import HuggingFaceTokens

            return HuggingFaceTokens(self.path, tokenization)
        from .scorer import DataTokens

        for trained in (self.checkpoint.criterion, self.checkpoint.task):
            if tokenization == "auto":
                tokenization = str(trained.get("tokenization") or "auto")
        return DataTokens(self.data, tokenization, causal=self.is_causal)

    def scorer(self, tokens: Tokens, *, counts: Path | None = None) -> Scorer:
        """The model, in evaluation mode; mixed with the ``counts`` of a text."""
        options, causal = self._options, tokens.mask is None
        if self.checkpoint is None:
            from .hf_scorer import hugging_face_scorer

            scorer = hugging_face_scorer(self.path, tokens.padding, cpu=options.cpu, causal=causal)
        else:
            from .fairseq_scorer import fairseq_scorer

            scorer = fairseq_scorer(self.checkpoint, self.data, cpu=options.cpu, causal=self.is_causal)
        if counts is not None:
            from ..objectives.build import read_corpus_targets

            require_mask(tokens, self.path, "--corpus-counts")
            scorer.counts = read_corpus_targets(counts, tokens.symbols)
        return scorer

    def recorded_table(self) -> Path | None:
        """The synonym table that a fairseq checkpoint was trained with, as its options record it; None without one."""
        from ..flags import select
        from ..objectives.options import TABLE, ElectraOptions
        from ..synonyms.building import table_beside

        if self.checkpoint is None:
            return None
        options = select(ElectraOptions, SimpleNamespace(**self.checkpoint.criterion))
        if TABLE not in options.sources:
            return None
        if options.synonym_table:
            return Path(options.synonym_table)
        return table_beside(Path(str(self.checkpoint.task.get("data", "")).split(":")[0]), options.synonym_source)


def is_hugging_face(path: Path) -> bool:
    """Whether a model is a Hugging Face folder (an adapter's too), or ``hub:NAME``."""
    from ..convert.from_hf import HUB
    from ..files import ADAPTER

    return str(path).startswith(HUB) or any((path / name).is_file() for name in ("config.json", ADAPTER))


def require_mask(tokens: Tokens, model: Path, asked_by: str) -> None:
    """Refuses a causal LM where something needs a masked one."""
    if tokens.mask is None:
        raise TrueNegError(f"{model}: its tokenizer has no mask; expected a masked LM for {asked_by}")


def load_table(path: Path, tokens: Tokens, dictionary: Path) -> SynonymTable:
    """A synonym table of the models' vocabulary; ``dictionary`` is what the message calls it."""
    from ..synonyms import SynonymTable

    table = SynonymTable.load(path)
    table.check_dictionary(tokens.vocabulary.fingerprint, path, str(dictionary))
    return table
