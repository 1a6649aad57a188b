"""What the commands share that measure several masked LMs on the same items: lexsub, cloze and pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import TrueNegError
from ..files import require_writable
from ..options import option

if TYPE_CHECKING:
    from ..results.result import Result
    from ..synonyms import SynonymTable
    from .scorer import MaskedLm
    from .tokens import Tokens


@dataclass(frozen=True, kw_only=True)
class ModelsOptions:
    """The models, and where their scores go."""

    checkpoints: list[Path] = option(
        help="fairseq checkpoints of masked LMs or ELECTRAs, or folders of Hugging Face's masked LMs (hub:NAME "
        "downloads one); the others are compared with the first",
        positional=True,
        metavar="MODEL",
    )
    data: Path | None = option(
        None, help="folder of binarized data with its tokenizer; needed for fairseq checkpoints", metavar="DATA-BIN"
    )
    results: Path | None = option(
        None, help="also add the scores to this result file of truneg compare", metavar="JSONL"
    )
    models: list[str] = option(
        help="a name for each model (default: its folder and file)", default_factory=list, metavar="NAME"
    )
    seeds: list[int] = option(
        help="of --results: the seed of each model's training (1)", default_factory=list, metavar="N"
    )
    cpu: bool = option(False, help="use the CPU only")


class NamedModel(NamedTuple):
    path: Path
    name: str  # in the results
    seed: int
    title: str  # in the tables


def named_models(options: ModelsOptions) -> list[NamedModel]:
    """The models with their names and seeds; fairseq is prepared where one of them needs it."""
    paths = options.checkpoints
    names = options.models or [f"{path.absolute().parent.name}/{_short(path)}" for path in paths]
    seeds = options.seeds or [1] * len(paths)
    for flag, values in (("--models", names), ("--seeds", seeds)):
        if len(values) != len(paths):
            raise TrueNegError(f"{flag}: found {len(values)}, expected one for each of {len(paths)} checkpoints")
    if len(set(zip(names, seeds, strict=True))) < len(names):
        raise TrueNegError("--models: two checkpoints have the same name and seed; expected different ones")
    if options.results is not None:
        require_writable(options.results, "--results", makes_folders=True)
    several = len(set(seeds)) > 1
    named = [
        NamedModel(path, name, seed, f"{name} {seed}" if several else name)
        for path, name, seed in zip(paths, names, seeds, strict=True)
    ]
    prepare(*paths)
    return named


def _short(path: Path) -> str:
    return path.stem if path.suffix == ".pt" else path.name


def prepare(*paths: Path | None) -> None:
    """Prepares fairseq where a model needs it."""
    from .models import is_hugging_face

    if not all(path is None or is_hugging_face(path) for path in paths):
        from .. import register
        from ..finetuning.run import quiet_fairseq

        register()
        quiet_fairseq()


def open_common_tokens(options: ModelsOptions) -> Tokens:
    """The tokens of all the models, which must be the same."""
    from .models import open_tokens

    first, *others = options.checkpoints
    tokens = open_tokens(first, options.data)
    for path in others:
        if open_tokens(path, options.data).vocabulary.symbols != tokens.vocabulary.symbols:
            raise TrueNegError(
                f"{path}: has other tokens than {first}; measure it in a command of its own, and compare the --results"
            )
    return tokens


def require_mask(tokens: Tokens, path: Path) -> None:
    """Refuses a causal LM."""
    if tokens.mask is None:
        raise TrueNegError(f"{path}: its tokenizer has no mask; expected a masked LM; truneg cloze measures causal LMs")


def open_masked_tokens(options: ModelsOptions, models: list[NamedModel]) -> dict[str, Tokens]:
    """The tokens of each model by its title; causal LMs are refused."""
    from .models import open_tokens

    found = {named.title: open_tokens(named.path, options.data) for named in models}
    for named in models:
        require_mask(found[named.title], named.path)
    return found


def open_each(
    options: ModelsOptions, models: list[NamedModel], *, causal: bool = False
) -> Iterator[tuple[NamedModel, MaskedLm]]:
    """The models one after the other, with the time that each took."""
    from .models import open_model

    for named in models:
        started = time.monotonic()
        yield named, open_model(named.path, options.data, cpu=options.cpu, causal=causal)
        print(f"{named.title}: {time.monotonic() - started:.0f} s", flush=True)


def load_table(path: Path, tokens: Tokens, dictionary: Path) -> SynonymTable:
    """A synonym table of the models' vocabulary; ``dictionary`` is what the message calls it."""
    from ..synonyms import SynonymTable

    table = SynonymTable.load(path)
    table.check_dictionary(tokens.vocabulary.fingerprint, path, str(dictionary))
    return table


def add_results(options: ModelsOptions, results: list[Result]) -> None:
    """Adds scores to the file of ``--results``."""
    from ..results.result import append_result

    if options.results is not None:
        for result in results:
            append_result(options.results, result)
