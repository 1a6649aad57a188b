"""Trains small masked LMs from random weights and measures them: the runs of docs/results/from_scratch.md.

    python user_dir_examples/from_scratch/train.py short --texts MULTI30K --output OUT --arms plain smoothing-0.1

MULTI30K is the folder of Multi30k's raw text (``train.en.gz``, ``test_2016_other.1.en.gz``, ...); for the setting
"novels" it is a file (xz) of English novels, each paragraph on a line, a blank line between books.
``OUT/results.jsonl`` gets a line after each quarter of a training, for ``truneg compare``. The same command makes the
same models: a finished run is not run again, a killed one starts again, and several processes may share OUT.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import itertools
import lzma
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import Tensor, nn

from truneg_fairseq import TrueNegativeLoss
from truneg_fairseq.corpus_counts import CountsShare, count_tokens
from truneg_fairseq.errors import TrueNegError, one_line_errors
from truneg_fairseq.files import replacing_file, replacing_text
from truneg_fairseq.objectives import TrueNegativeOptions
from truneg_fairseq.objectives.build import Teacher, read_corpus_targets, setting_of_dictionary
from truneg_fairseq.objectives.corpus_targets import CorpusTargets
from truneg_fairseq.objectives.loss import IGNORED
from truneg_fairseq.objectives.passes import MaskedPredictions, fill
from truneg_fairseq.results.intervals import Ratio, ratios_as_fields
from truneg_fairseq.results.result import Metric, Result, append_result, read_results
from truneg_fairseq.synonyms.lists import ENGLISH_STOP_WORDS
from truneg_fairseq.vocabulary import PAD, read_symbols

LONGEST = 42  # tokens of a sequence
JUDGED_MASKS, KEPT, RANDOM = 0.2, 0.1, 0.1  # of the words of held-out text; of the masked words in a training
QUARTERS = 4
ENSEMBLE = "ensemble-5"
TUNED = ("sequences", "epochs", "batch", "rate", "masked", "warmup", "dropout", "decay")
BITS = 1 / math.log(2)
TEACHERS = (11, 12, 13, 14)  # the seeds of the plain models that teach; also of the ensemble
FLAT_WORDS = 8  # of the teacher whose best words are alike
BLOCK = 20  # sequences whose scores are one item of a result line
TEMPERATURES = tuple(0.7 + 0.05 * step for step in range(15))
ALL = CountsShare(1.0, 0.0, 1.0)  # the counts alone, where they have words
SHARES = tuple(step / 50 for step in range(50))  # of counts that are mixed into the predictions
HEADS = 4
JUDGED = 128  # sequences that are measured at once
COPIES = 2  # masks of each held-out sequence


@dataclass(frozen=True)
class Setting:
    """A text, a model and the length of its training; all of them chosen with plain masked LM on ``valid``."""

    sequences: int  # captions; of novels, pieces of paragraphs
    epochs: int
    rate: float = 2e-3
    batch: int = 16  # sequences of an update
    masked: float = 0.4  # of the words of the text that is trained on
    warmup: float = 0.2  # of the updates; then the rate falls to 0
    dropout: float = 0.0
    decay: float = 0.01
    layers: int = 2
    width: int = 128
    rarest: int = 2  # a word that is seen less often is <unk>
    novels: bool = False


SETTINGS = {
    "short": Setting(3_000, 6, warmup=0.4),
    "converged": Setting(3_000, 24, dropout=0.1),
    "wide": Setting(3_000, 6, warmup=0.4, layers=3, width=192),
    "more": Setting(29_000, 2, rarest=3),
    "novels": Setting(30_000, 2, warmup=0.4, rarest=3, novels=True),
}


@dataclass(frozen=True)
class Arm:
    """What is minimised: the options of the loss."""

    options: dict[str, Any]
    counts: str = "corpus"  # of the text, or "shuffled": of the same words in random order
    teacher: str = ""
    times: int = 1  # the length of the training


ARMS = {
    "plain": Arm({}),
    "smoothing-0.1": Arm({"soft_targets": "uniform=0.1"}),
    **{
        f"{kind}-{share}{'-falling' * falls}": Arm({"soft_targets": f"corpus={share}{'..0' * falls}"}, counts=kind)
        for kind in ("corpus", "shuffled")
        for share, falls in ((0.1, False), (0.4, False), (0.4, True), (0.8, True))
    },
    "frequencies-0.1": Arm({"soft_targets": "teacher=0.1"}, teacher="frequencies"),
    "nearest-0.1": Arm({"soft_targets": "embedding=0.1"}),
    "hc-table": Arm({"hc_weight": 1.0}),
    "hc-counts": Arm({"hc_weight": 1.0, "hc_detector": "corpus"}),
    "hc-teacher": Arm({"hc_weight": 1.0, "hc_detector": "teacher"}, teacher="mean"),
    "teacher-0.5": Arm({"soft_targets": "teacher=0.5"}, teacher="mean"),
    "teacher-flat-0.5": Arm({"soft_targets": "teacher=0.5"}, teacher="flat"),
    "average-0.5": Arm({"soft_targets": "teacher=0.5"}, teacher="average"),
    "plain-2x": Arm({}, times=2),
    "plain-5x": Arm({}, times=5),
    ENSEMBLE: Arm({}),  # plain's own seed and the teachers, their mean at inference: no training
}


class Layer(nn.Module):
    """Attention and a feed-forward network, each behind a layer norm, with dropout of what they add."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.read, self.write = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """``real``, bool, shape (B, 1, 1, T), is false at padding."""
        query, key, value = self.read(self.norms[0](states)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=real)
        states = states + self.dropout(self.write(found.transpose(1, 2).flatten(2)))
        return states + self.dropout(self.narrow(F.relu(self.wide(self.norms[1](states)))))


class MaskedLM(nn.Module):
    """A small Transformer encoder whose output layer has the weights of its input embeddings."""

    def __init__(self, vocabulary_size: int, setting: Setting) -> None:
        super().__init__()
        width = setting.width
        self.words, self.positions = nn.Embedding(vocabulary_size, width), nn.Embedding(LONGEST, width)
        for table in (self.words, self.positions):  # neither may drown the other
            nn.init.normal_(table.weight, std=0.02)
        self.layers = nn.ModuleList(Layer(width, setting.dropout) for _ in range(setting.layers))
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(setting.dropout)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits, shape (N, V), at positions, shape (N,), of the flattened tokens, shape (B, T)."""
        states = self.dropout(self.words(tokens) + self.positions.weight[: tokens.size(1)])
        real = tokens.ne(PAD)[:, None, None]
        for layer in self.layers:
            states = layer(states, real)
        return self.norm(states.flatten(0, 1)[positions]) @ self.words.weight.T + self.bias


SHOWN = {
    "bits": Metric("same kind", False, "bits"),
    "bits_other": Metric("other kind", False, "bits"),
    "others": Metric("mistakes that another describer said", True),
    "others_probability": Metric("probability of what others said", True),
}


class Masked(NamedTuple):
    """A batch to be predicted."""

    tokens: Tensor  # int64, shape (B, T), as the model reads them
    labels: Tensor  # int64, shape (B, T), the words that are predicted, else IGNORED
    positions: Tensor  # int64, shape (N,), of the flattened batch
    rows: Tensor  # int64, shape (N,), the sequence of each position in the text

    @property
    def gold(self) -> Tensor:
        return self.labels.flatten()[self.positions]


WORD = re.compile(r"\w+|[^\w\s]")


def words_of(line: str) -> list[str]:
    return WORD.findall(line.lower())


def captions(folder: Path, name: str) -> list[list[str]]:
    path = folder / f"{name}.en.gz"
    if not path.exists():
        raise TrueNegError(f"{path}: no such file; expected --texts, the folder of Multi30k's raw text")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(map(words_of, lines))


def novel_parts(file: Path, sequences: int, books: int = 24) -> dict[str, list[list[str]]]:
    """So many pieces of the first books, evenly, those that follow to choose and to test, and pieces of other books."""
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        text = [list(group) for full, group in itertools.groupby(lines, key=lambda line: bool(line.strip())) if full]
    most = LONGEST - 2
    pieces = [
        [words[start : start + most] for words in map(words_of, book) for start in range(0, len(words), most)]
        for book in text[: 2 * books]
    ]
    each, held = sequences // books, 40
    parts = {"train": (0, each), "valid": (each, each + held), "test": (each + held, each + 2 * held)}
    found = {
        name: [piece for book in pieces[:books] for piece in book[start:end]] for name, (start, end) in parts.items()
    }
    return found | {"other": [piece for book in pieces[books:] for piece in book[:held]]}


class Text:
    """What a setting is trained and measured on, its dictionary, and its counts in ``folder``."""

    def __init__(self, setting: Setting, source: Path, folder: Path) -> None:
        others: list[list[list[str]]] = []
        if setting.novels:
            parts = novel_parts(source, setting.sequences)
        else:
            names = {"train": "train", "valid": "val", "test": "test_2016_flickr", "other": "test_2017_mscoco"}
            parts = {name: captions(source, file) for name, file in names.items()}
            parts["train"] = parts["train"][: setting.sequences]
            others = [captions(source, f"test_2016_other.{number}") for number in range(1, 6)]
        counts = Counter(word for words in parts["train"] for word in words)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.dictionary = folder, folder / "dict.txt"
        with replacing_text(self.dictionary) as stream:
            stream.writelines(f"{word} {count}\n" for word, count in counts.most_common() if count >= setting.rarest)
        self.symbols = read_symbols(self.dictionary)
        number = {symbol: index for index, symbol in enumerate(self.symbols)}
        self.number, self.end, self.unknown, self.mask = number, number["</s>"], number["<unk>"], number["<mask>"]
        self.parts = {
            name: [[self.end, *self.ids(words[: LONGEST - 2]), self.end] for words in lines]
            for name, lines in parts.items()
        }
        self.stream = np.concatenate([row[1:] for row in self.parts["train"]]).astype(np.int64)
        self.mentions = self._mentions(others)
        self.content = torch.tensor([is_content(symbol) for symbol in self.symbols])
        self.held_out = {name: self._batches_to_judge(self.parts[name]) for name in ("valid", "test", "other")}

    def ids(self, words: Iterable[str]) -> list[int]:
        return [self.number.get(word, self.unknown) for word in words]

    def _mentions(self, others: Sequence[Sequence[Sequence[str]]]) -> Tensor | None:
        """The content words that others say of each test picture, its caption not; bool, shape (pictures, V)."""
        if not others:
            return None
        found = torch.zeros(len(self.parts["test"]), len(self.symbols), dtype=torch.bool)
        for row, caption in enumerate(self.parts["test"]):
            said = set(self.ids(word for other in others for word in other[row] if is_content(word)))
            found[row, list(said - {self.unknown, *caption})] = True
        return found

    def counts(self, kind: str) -> Path:
        """The file of the counts of the text, or of its words in random order."""
        path = self.folder / f"{kind}.npz"
        with FileLock(self.folder / ".counts.lock"):
            if not path.exists():
                stream = self.stream if kind == "corpus" else np.random.default_rng(1).permutation(self.stream)
                count_tokens([stream], self.symbols).save(path)
        return path

    @property
    def token_counts(self) -> NDArray[np.int64]:
        """How often the text that is trained on has each token, shape (V,)."""
        return np.bincount(self.stream, minlength=len(self.symbols))

    @property
    def frequencies(self) -> Tensor:
        """Logarithms, fp32, shape (V,)."""
        counted = torch.from_numpy(self.token_counts)
        counted[[self.end, self.unknown]] = 0
        return (counted / counted.sum()).log().clamp(min=-100)

    def masked(
        self, batch: Sequence[int], rows: Sequence[Sequence[int]], generator: torch.Generator, share: float = 0.0
    ) -> Masked:
        """Sequences with a share of their words masked, some of these kept and some other words; with 0 as judged."""
        length = max(len(rows[row]) for row in batch)
        tokens = torch.tensor([[*rows[row], *[PAD] * (length - len(rows[row]))] for row in batch])
        chance, fate = (torch.rand(tokens.shape, generator=generator) for _ in range(2))
        masked = (chance < (share or JUDGED_MASKS)) & tokens.ne(PAD) & tokens.ne(self.end) & tokens.ne(self.unknown)
        read = tokens.masked_fill(masked & (fate >= (KEPT + RANDOM) * (share > 0)), self.mask)
        if share:
            drawn = torch.randint(self.unknown + 1, self.mask, tokens.shape, generator=generator)
            read = torch.where(masked & (fate < RANDOM), drawn, read)
        positions = masked.flatten().nonzero().squeeze(1)
        return Masked(read, tokens.where(masked, IGNORED), positions, torch.tensor(batch)[positions // length])

    def _batches_to_judge(self, rows: Sequence[Sequence[int]]) -> list[Masked]:
        """The same masks for all models; sequences of about the same length together."""
        generator = torch.Generator().manual_seed(7)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        batches = [order[start : start + JUDGED] for start in range(0, len(order), JUDGED)]
        return [self.masked(batch, rows, generator) for batch in batches * COPIES]

    def epoch(self, generator: torch.Generator, setting: Setting) -> Iterator[Masked]:
        """The batches of an epoch, in random order; sequences of about the same length together."""
        rows, size = self.parts["train"], setting.batch
        drawn = torch.randperm(len(rows), generator=generator).tolist()
        batches = []
        for start in range(0, len(rows), 16 * size):
            near = sorted(drawn[start : start + 16 * size], key=lambda row: len(rows[row]))
            batches += [near[first : first + size] for first in range(0, len(near), size)]
        for number in torch.randperm(len(batches), generator=generator).tolist():
            yield self.masked(batches[number], rows, generator, setting.masked)


def is_content(word: str) -> bool:
    return word.isalpha() and word not in ENGLISH_STOP_WORDS


Predict = Callable[[Tensor, Tensor], Tensor]
"""Log-probabilities, fp32, shape (N, V), from tokens and positions as of :class:`MaskedLM`."""


@torch.no_grad()
def measure(predict: Predict, text: Text, lookups: dict[str, CorpusTargets]) -> dict[str, Any]:
    """The fields ``metrics``, ``examples`` and ``denominators`` of a result.

    ``lookups`` are counts to be mixed into the predictions, by name; there are none before the end of a training.
    Their shares, and a temperature, are fitted on ``valid``.
    """
    ratios, scalars, fitted = dict[str, Ratio](), dict[str, float](), dict[str, float]()
    for part, batches in text.held_out.items():  # valid is the first
        if part == "valid" and not lookups:
            continue
        title = f"bits_{part}".removesuffix("_test")
        log = torch.cat([predict(batch.tokens, batch.positions) for batch in batches])
        gold, rows = torch.cat([batch.gold for batch in batches]), torch.cat([batch.rows for batch in batches])
        ratios[title] = in_blocks(-BITS * gathered(log, gold), torch.ones(len(gold)), rows)
        if part == "test":
            ratios |= judged_words(log, gold, rows, text)
        losses = {"tempered": partial(tempered, log, gold)} if lookups else {}
        for kind, counts in lookups.items():
            # With a share of 1 it is the counts' probability, and the model's where there are none.
            parts = zip(log.split([len(batch.gold) for batch in batches]), batches, strict=True)
            alone = torch.cat([counts.mixed(each, batch.tokens, batch.positions, PAD, ALL) for each, batch in parts])
            losses[kind] = partial(mixed, gathered(log, gold).exp(), gathered(alone, gold).exp())
        for name, loss in losses.items():
            if part == "valid":
                fitted[name] = min(TEMPERATURES if name == "tempered" else SHARES, key=loss)
            scalars[f"{title}_{name}"] = loss(fitted[name])
    fields = ratios_as_fields(ratios)
    fields["metrics"] |= scalars | {f"fitted_{name}": value for name, value in fitted.items()}
    for kept in ("examples", "denominators"):
        fields[kept] = {name: [round(value, 3) for value in values] for name, values in fields[kept].items()}
    return fields


def judged_words(log: Tensor, gold: Tensor, rows: Tensor, text: Text) -> dict[str, Ratio]:
    """The accuracy; and of content words what other describers said: the share of the mistakes, and the probability.

    "elsewhere", the control, is the share of the mistakes that were said of the next picture.
    """
    best = log.argmax(1)
    found = {"accuracy": in_blocks(best.eq(gold), torch.ones(len(gold)), rows)}
    if text.mentions is None:
        return found
    content = text.content[gold]
    mistakes = content & best.ne(gold)
    for name, said in (("others", text.mentions), ("elsewhere", text.mentions.roll(-1, 0))):
        found[name] = in_blocks(said[rows, best] & mistakes, mistakes, rows)
    probability = torch.cat(
        [(part.exp() * text.mentions[row]).sum(1) for part, row in zip(log.split(512), rows.split(512), strict=True)]
    )
    return found | {"others_probability": in_blocks(probability * content, content, rows)}


def gathered(log: Tensor, gold: Tensor) -> Tensor:
    return log.gather(1, gold[:, None]).squeeze(1)


def tempered(log: Tensor, gold: Tensor, temperature: float) -> float:
    """The mean loss with a softmax temperature, in bits."""
    return float(-gathered((log / temperature).log_softmax(1), gold).mean()) * BITS


def mixed(model: Tensor, counts: Tensor, share: float) -> float:
    """The mean loss of a mixture of two probabilities of the gold words, in bits."""
    return float(-torch.lerp(model, counts, share).log().mean()) * BITS


def in_blocks(values: Tensor, weights: Tensor, rows: Tensor) -> Ratio:
    """Sums over the positions of each block of sequences."""
    block = rows.numpy() // BLOCK
    numerators, denominators = (
        np.bincount(block, each.double().numpy()).astype(np.float64) for each in (values, weights)
    )
    return Ratio(numerators, denominators)


@dataclass
class Experiment:
    """The runs of a setting."""

    name: str
    setting: Setting
    text: Text
    output: Path

    @property
    def results(self) -> Path:
        return self.output / "results.jsonl"

    def saved(self, arm: str, seed: int) -> Path:
        """The file of a trained model."""
        return self.text.folder / f"{arm}-{seed}.safetensors"

    def model(self, arm: str, seed: int) -> MaskedLM:
        """A trained model."""
        path = self.saved(arm, seed)
        if not path.exists():
            raise TrueNegError(f"{path}: no such file; train the arm {arm} with --seeds {seed} first")
        model = MaskedLM(len(self.text.symbols), self.setting)
        model.load_state_dict(load_file(path))
        return model.eval().requires_grad_(False)

    def mean_of(self, seeds: Iterable[int]) -> Predict:
        """The mean of the probabilities of plain models."""
        models = [self.model("plain", seed) for seed in seeds]
        return lambda tokens, positions: (
            torch.stack([each(tokens, positions).softmax(1) for each in models]).mean(0).log()
        )

    def teacher(self, name: str, average: MaskedLM) -> Teacher:
        """Logits at the masked positions; a teacher reads the mask at all of them."""
        text = self.text
        if name == "frequencies":
            frequencies = text.frequencies
            return lambda predicted: frequencies.expand(len(predicted.gold), -1)
        asked = average if name == "average" else self.mean_of(TEACHERS)

        @torch.no_grad()
        def logits(predicted: MaskedPredictions) -> Tensor:
            found: Tensor = asked(fill(predicted, torch.full_like(predicted.gold, text.mask)), predicted.positions)
            if name == "flat":
                return torch.full_like(found, -100.0).scatter_(1, found.topk(FLAT_WORDS).indices, 0.0)
            return found

        return logits

    def loss(self, arm: Arm, average: MaskedLM) -> TrueNegativeLoss:
        given = dict(arm.options)
        if "corpus" in str(arm.options):
            given["corpus_counts"] = str(self.text.counts(arm.counts))
        options = TrueNegativeOptions(**given, tokenization="words", teacher=arm.teacher or None)
        setting = setting_of_dictionary(options, self.text.dictionary)
        if arm.teacher:
            teacher = self.teacher(arm.teacher, average)
            setting = replace(setting, open_teacher=lambda _: teacher)
        return TrueNegativeLoss(options, setting)

    def updates(self, arm: Arm) -> int:
        return self.setting.epochs * arm.times * math.ceil(len(self.text.parts["train"]) / self.setting.batch)

    def train(self, arm: Arm, seed: int) -> Iterator[tuple[int, MaskedLM]]:
        """Gives the quarter and the model after each quarter of a training."""
        setting, text, updates = self.setting, self.text, self.updates(arm)
        torch.manual_seed(seed)
        model = MaskedLM(len(text.symbols), setting)
        average = copy.deepcopy(model).eval().requires_grad_(False)
        averaged: list[Tensor] = list(average.parameters())
        loss_fn = self.loss(arm, average)
        ends = [round(updates * quarter / QUARTERS) for quarter in range(1, QUARTERS + 1)]
        parameters: list[Tensor] = list(model.parameters())
        optimizer = torch.optim.AdamW(
            parameters, setting.rate, betas=(0.9, 0.98), weight_decay=setting.decay, fused=True
        )
        warmup = max(1, round(updates * setting.warmup))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda done: min((done + 1) / warmup, (updates - done) / (updates - warmup))
        )
        generator = torch.Generator().manual_seed(seed)
        epochs = (text.epoch(generator, setting) for _ in range(setting.epochs * arm.times))
        for done, batch in enumerate(itertools.chain.from_iterable(epochs), start=1):
            loss_fn.progress = (done - 1) / updates  # for shares that fall
            model.train()
            loss = loss_fn(
                model(batch.tokens, batch.positions),
                batch.labels,
                positions=batch.positions,
                input_ids=batch.tokens,
                embeddings=model.words.weight,
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            if arm.teacher == "average":
                with torch.no_grad():
                    torch._foreach_lerp_(averaged, parameters, 1 - min(0.995, done / (done + 9)))
            if done in ends:
                yield ends.index(done) + 1, model.eval()

    def run(self, arm: str, seed: int) -> None:
        """Trains and measures one arm with one seed."""
        started = time.process_time()
        if arm == ENSEMBLE:
            self.add(arm, seed, QUARTERS, self.mean_of((seed, *TEACHERS)), started)
            return
        for quarter, model in self.train(ARMS[arm], seed):
            if quarter == QUARTERS:
                with replacing_file(self.saved(arm, seed)) as stream:
                    stream.write(save(model.state_dict()))
            self.add(arm, seed, quarter, lambda *batch, model=model: model(*batch).log_softmax(1), started)

    def add(self, arm: str, seed: int, quarter: int, predict: Predict, started: float) -> None:
        """Adds a result line."""
        at = None if quarter == QUARTERS else 100.0 * quarter / QUARTERS
        text, kinds = self.text, () if at else ("corpus", "shuffled")
        lookups = {kind: read_corpus_targets(text.counts(kind), text.symbols) for kind in kinds}
        result = Result(
            model=arm,
            task=f"{self.name} after {at:g} %" if at else self.name,
            seed=seed,
            shown=SHOWN,
            group=self.name,
            at=at,
            **measure(predict, text, lookups),
            wall_seconds=round(time.process_time() - started, 1),
            settings=asdict(self.setting) | {"updates": self.updates(ARMS[arm])},
        )
        append_result(self.results, result)
        values = ", ".join(f"{name} {value:.4f}" for name, value in result.metrics.items())
        print(f"{arm}, seed {seed}, {result.task}, {result.wall_seconds} s: {values}", flush=True)

    def is_finished(self, arm: str, seed: int) -> bool:
        keys = {each.key for each in read_results([self.results])} if self.results.exists() else set()
        return (arm, self.name, seed) in keys


def parser_of(help_text: str) -> argparse.ArgumentParser:
    """The options that say which models are meant."""
    parser = argparse.ArgumentParser(description=help_text.split("\n", maxsplit=1)[0])
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=["plain"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    return parser


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    torch.set_num_threads(1)
    parser = parser_of(__doc__ or "")
    for name in TUNED:
        parser.add_argument(f"--{name}", type=type(getattr(SETTINGS["short"], name)), help="in place of the setting's")
    args = parser.parse_args(arguments)
    changed = {name: getattr(args, name) for name in TUNED if getattr(args, name) is not None}
    name = ", ".join([args.setting, *(f"{key} {value:g}" for key, value in changed.items())])
    setting = replace(SETTINGS[args.setting], **changed)
    text = Text(setting, args.texts, args.output / re.sub(r"\W+", "-", name))
    experiment = Experiment(name, setting, text, args.output)
    print(f"{name}: {len(text.stream):,} tokens, {len(text.symbols):,} words", flush=True)
    for seed, arm in itertools.product(args.seeds, args.arms):
        try:
            with FileLock(text.folder / f".{arm}-{seed}.lock", timeout=0):
                if experiment.is_finished(arm, seed):
                    print(f"{arm}, seed {seed}: trained before", flush=True)
                else:
                    experiment.run(arm, seed)
        except Timeout:
            print(f"{arm}, seed {seed}: another process trains it", flush=True)


if __name__ == "__main__":
    main()
