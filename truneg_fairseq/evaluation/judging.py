"""What inspect and explain ask of a model, whoever made it: its tokens, and the objective that judges its mistakes."""

from __future__ import annotations

from pathlib import Path

from ..errors import TrueNegError
from ..objective_factory import ObjectiveOptions, Pairs, load_pairs, make_objective
from ..objectives import TrueNegativeObjective
from ..objectives.settings import TABLE
from ..synonyms import SynonymTable
from ..synonyms.build import cache_path, provide_table
from .inspection_options import DataOptions
from .model_options import require_mask
from .models import is_hugging_face, open_tokens
from .tokens import Tokens


def tokens_of(path: Path, options: DataOptions) -> Tokens:
    """The tokens of a masked LM."""
    tokens = open_tokens(path, options.data, options.tokenization)
    require_mask(tokens, path)
    return tokens


def judge_of(
    tokens: Tokens, padding: int, options: DataOptions, *, detector: str = TABLE
) -> tuple[TrueNegativeObjective, Pairs | None]:
    """Hard correction with a detector, and the pairs that it looks up; None where it needs no table."""
    table = options.synonym_table
    settings = ObjectiveOptions(
        hc_weight=1.0,
        hc_detector=detector,
        synonym_table=str(table) if table and TABLE in detector.split("+") else None,
    )
    data = _folder(tokens)
    pairs = load_pairs(settings, settings, tokens.vocabulary, data)
    made = make_objective(settings, settings, padding=padding, vocabulary=tokens.vocabulary, data=data, pairs=pairs)
    return made, pairs


def table_shown(pairs: Pairs | None, tokens: Tokens, options: DataOptions) -> SynonymTable:
    """The synonym table, whether the detector looks it up or not."""
    if pairs is not None:
        return pairs.table
    return provide_table(tokens.vocabulary, _folder(tokens), options.synonym_table)


def _folder(tokens: Tokens) -> Path:
    """The folder of a table that is not given: the data of a fairseq checkpoint, else one of the cache."""
    return tokens.folder or cache_path(tokens.vocabulary, None).with_suffix("")


def require_one_world(paths: list[Path]) -> bool:
    """Whether all models are from Hugging Face; their masked positions differ from those of fairseq."""
    kinds = {is_hugging_face(path) for path in paths}
    if len(kinds) > 1:
        raise TrueNegError("--checkpoint: found models of fairseq and of Hugging Face; expected one kind in a command")
    return kinds == {True}
