"""Lexical substitution: a model's rankings of words in place of a target against what people accept there.

GAP: Kishida's generalized average precision (2005), used for lexical substitution by Thater et al. (2010). F^10 with
its lenient and strict reading, for accepted and for conceivable substitutes: Lee et al., "Swords" (NAACL 2021).
P@1, P@3 and R@10: as Arefyev et al. (COLING 2020).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import TrueNegError
from ..objectives.soft_targets import synonym_words
from ..results.intervals import Ratio
from ..results.result import Metric
from ..synonyms.table import SynonymTable
from ..synonyms.wordnet import open_database
from .models import OpenedModel
from .people import Candidate, Judgements, Target, is_accepted, is_conceivable, read_people
from .scorer import WINDOW, Query, Rows, Scorer, Tokens
from .yardstick import Scores, Task, Yardstick, ratios_of

CUT = 10  # words that a model may give: the 10 of F^10 and R@10
PEOPLE = " (people)"  # how the names of tasks end whose candidates are only those that people wrote
SHOWN = f"lexsub kept{PEOPLE}"
"""The task that a person sees: the target stands in the sentence, and candidates are those that people wrote."""
LOOK_UP_WEIGHT = 0.1  # of the table beside the model's probability
NO_LEMMA = -1
_TEMPERATURE = 0.1  # of cosines, as of synonym targets
_DRAWS = 4

Parts = dict[str, tuple[float, float]]  # what one target adds to the numerator and the denominator of each metric


@dataclass(frozen=True)
class Place:
    """A target that is one token."""

    target: Target
    # int64, shape (T,), T <= WINDOW, its context between the vocabulary's first and last token
    tokens: NDArray[np.int64]
    position: int  # of the target's token in ``tokens``
    single: list[tuple[int, Candidate]]  # its candidates that are one token, with the token

    @property
    def gold(self) -> int:
        """The token of the target itself."""
        return int(self.tokens[self.position])

    def query(self, mask: int | None = None) -> Query:
        """The sequence, with the token ``mask`` in the target's place; None keeps the target."""
        tokens = self.tokens.copy()
        if mask is not None:
            tokens[self.position] = mask
        return Query(tokens, self.position)


def places_of(judgements: Judgements, tokens: Tokens) -> list[Place]:
    """The targets that are one token of the vocabulary, at least one."""
    found = [place_target(target, tokens) for target in judgements.targets if tokens.token(target.word) >= 0]
    if not any(place.single for place in found):
        raise TrueNegError(
            f"{judgements.path}: none of its targets is a token of the dictionary with candidates that are; expected "
            "the language of the model"
        )
    return found


def place_target(target: Target, tokens: Tokens) -> Place:
    """The target in a model's tokens; it is one of them."""
    before, after = _around(target, tokens)
    room = WINDOW - 3
    taken = min(len(before), max(room // 2, room - len(after)))
    sequence = tokens.framed([*before[len(before) - taken :], tokens.token(target.word), *after[: room - taken]])
    pairs = ((tokens.token(candidate.word), candidate) for candidate in target.candidates)
    return Place(target, sequence, taken + 1, [(token, candidate) for token, candidate in pairs if token >= 0])


def _around(target: Target, tokens: Tokens) -> tuple[list[int], list[int]]:
    """The tokens before and after the target: those of the whole text, or where a token reaches over the edge of the
    word ("don" + "'" + "t" for the target "do") of both sides by themselves.
    """
    start, end = target.start, target.start + len(target.word)
    ids, places = tokens.encode_with_offsets(target.context)
    inside = (places[:, 1] > start) & (places[:, 0] < end)
    if inside.any() and places[inside, 0].min() == start and places[inside, 1].max() == end:
        first, last = np.flatnonzero(inside)[[0, -1]]
        return ids[:first].tolist(), ids[last + 1 :].tolist()
    before, after = tokens.encode_batch([target.context[:start].rstrip(), target.context[end:]])
    return before.tolist(), after.tolist()


_wordnet = lru_cache(maxsize=1)(open_database)  # which looks for the files each time


@lru_cache(maxsize=1 << 18)
def lemma_of(word: str, pos: str) -> str:
    """The lemma in lower case, the shortest that WordNet's morphology gives (as NLTK's ``WordNetLemmatizer`` has it);
    the word itself if it gives no lemma.
    """
    lower = word.lower()
    return min(_wordnet().lemmas(lower.replace(" ", "_"), pos), key=len, default=lower).replace("_", " ")


@dataclass(frozen=True)
class Gold:
    """What people say of one target's candidates; lemmas by their numbers, the target's own left out."""

    tokens: NDArray[np.int64]  # int64, shape (C,), the candidates that are one token
    votes: NDArray[np.float64]  # float64, shape (C,), how many accept each
    shares: NDArray[np.float64]  # float64, shape (C,), of the votes
    lemma_shares: dict[int, float]  # the share by lemma of every candidate, also of several words
    own: int  # the target's lemma
    listed: frozenset[int] = frozenset()  # the lemmas that the synonym table lists for the target

    @cached_property
    def accepted(self) -> frozenset[int]:
        """The lemmas that more than half accept."""
        return frozenset(lemma for lemma, share in self.lemma_shares.items() if is_accepted(share))

    @cached_property
    def conceivable(self) -> frozenset[int]:
        """The lemmas that at least one in ten accepts."""
        return frozenset(lemma for lemma, share in self.lemma_shares.items() if is_conceivable(share))


class Lexsub(Yardstick):
    """SWORDS's targets that are one token and have a one-token candidate that somebody accepts."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        "gap": Metric("GAP", True),
        "gap_shares": Metric("GAP of shares", True),
        "f10_lenient_accepted": Metric("F10 accepted, lenient", True),
        "f10_lenient_conceivable": Metric("F10 conceivable, lenient", True),
        "f10_strict_accepted": Metric("F10 accepted, strict", True),
        "f10_strict_conceivable": Metric("F10 conceivable, strict", True),
        "precision_at_1": Metric("P@1", True),
        "precision_at_3": Metric("P@3", True),
        "recall_at_10": Metric("R@10", True),
        "recall_at_10_listed": Metric("R@10 by listed words"),
        "recall_at_10_others": Metric("R@10 by other words", True),
        "probability_accepted": Metric("p(accepted)", True),
    }
    notes = (
        f"{SHOWN}: the target stands in the sentence; candidates are those that people wrote (--results has the "
        "others). p(accepted): the probability of all forms of accepted words. Controls: chance; cosine of the input "
        "embedding with the target's, without the sentence; table: p + 0.1 q of the first model, q as synonym targets "
        "teach it; ceiling: the best words of the vocabulary."
    )

    def __init__(self, task: Task, tokens: Tokens, last: OpenedModel) -> None:
        super().__init__(task, tokens, last)
        judgements, self._table = read_people(self._file), self._load_table()
        self._metrics = [each for each in self.metrics if self._table or not each.startswith("recall_at_10_")]
        self._numbers: dict[str, int] = {}  # of lemmas, the same for every part of speech; new ones come as they come
        self._lemmas = lru_cache(maxsize=4)(self._lemmas_of)
        self.sha256 = judgements.sha256
        placed = places_of(judgements, tokens)
        self.places = [place for place in placed if any(candidate.votes for _, candidate in place.single)]
        self._require(self.places, "a candidate that is one token and that somebody accepts")
        self.gold = {end: [self._gold(place, end == PEOPLE) for place in self.places] for end in ("", PEOPLE)}
        ranked = sum(len(place.single) for place in self.places)
        candidates = sum(len(place.target.candidates) for place in self.places)
        self.described = (
            f"lexsub: {len(self.places)} targets; {len(judgements.targets) - len(placed)} are not one token of the "
            f"dictionary and left out, {len(placed) - len(self.places)} have no one-token candidate that anybody "
            f"accepts; GAP ranks {ranked:,} of {candidates:,} candidates, the others are not one token"
        )

    def is_shown(self, task: str) -> bool:
        return task == SHOWN

    def score(self, scorer: Scorer) -> dict[str, Scores]:
        names = np.array([place.target.name for place in self.places])
        subsets = {"": np.ones(len(names), dtype=np.bool_)}
        if self._table is not None:
            listed = np.array([bool(gold.listed & gold.lemma_shares.keys()) for gold in self.gold[""]])
            subsets |= {", listed": listed, ", not listed": ~listed}
        found = dict[str, Scores]()
        for mode, mask in (("masked", self._tokens.mask), ("kept", None)):
            for end, ratios in self._measured(scorer.rows([place.query(mask) for place in self.places])).items():
                for subset, there in subsets.items():
                    if there.any():
                        chosen = {name: ratio.of(there) for name, ratio in ratios.items()}
                        found[f"lexsub {mode}{end}{subset}"] = Scores(chosen, names[there].tolist())
        return found

    def controls(self, scorer: Scorer) -> dict[str, dict[str, Scores]]:
        rows = {"cosine": self._cosine(scorer), "chance": self._chance()}
        if self._table is not None:
            rows["table"] = self._look_up(scorer, self._table)
        found = {name: self._measured(each)[PEOPLE] for name, each in rows.items()}
        found["ceiling"] = ratios_of(list(map(self._of_oracle, self.places, self.gold[PEOPLE])), self._metrics)
        names = [place.target.name for place in self.places]
        return {name: {SHOWN: Scores(ratios, names)} for name, ratios in found.items()}

    def _measured(self, rows: Rows) -> dict[str, dict[str, Ratio]]:
        """The metrics with all candidates, and with those of people; the mean of a place's rows counts."""
        sums = {end: np.zeros((len(self._metrics), 2, len(self.places))) for end in self.gold}
        times = np.zeros(len(self.places))
        for index, row in rows:
            lemmas = self._lemmas(self.places[index].target.pos)
            ranked = lemmas[np.argsort(-row, kind="stable")]
            times[index] += 1
            for end, gold in self.gold.items():
                parts = _of_model(row, lemmas, ranked, gold[index])
                sums[end][:, :, index] += [parts[name] for name in self._metrics]
        return {
            end: {name: Ratio(*parts) for name, parts in zip(self._metrics, each / times, strict=True)}
            for end, each in sums.items()
        }

    def _chance(self) -> Rows:
        """Random orders of the vocabulary, nearly uniform probabilities."""
        size, random = len(self._tokens.vocabulary), np.random.default_rng(1)
        for index in np.repeat(np.arange(len(self.places)), _DRAWS):
            yield int(index), (-np.log(size) + 1e-3 * random.standard_normal(size)).astype(np.float32)

    def _cosine(self, scorer: Scorer) -> Rows:
        """The tokens by the cosine of their input embeddings with that of the target, whatever the sentence."""
        unit = torch.nn.functional.normalize(scorer.embeddings.float(), dim=1)
        for index, place in enumerate(self.places):
            yield index, (unit @ unit[place.gold] / _TEMPERATURE).log_softmax(0).cpu().numpy()

    def _look_up(self, scorer: Scorer, table: SynonymTable) -> Rows:
        """p + 0.1 q, normalised: a model's p where the target is kept, and q as synonym targets teach it."""
        embeddings = scorer.embeddings.cpu()
        for index, row in scorer.rows([place.query() for place in self.places]):
            gold = self.places[index].gold
            listed = torch.from_numpy(table.synonyms(gold)).long()[None]
            _, shares = synonym_words(listed, gold=torch.tensor([gold]), embeddings=embeddings)
            mixed = np.exp(row.astype(np.float64))
            mixed[listed[0].numpy()] += LOOK_UP_WEIGHT * shares[0].double().numpy()
            yield index, np.log(mixed / mixed.sum()).astype(np.float32)

    def _of_oracle(self, place: Place, gold: Gold) -> Parts:
        """The judged words in the vocabulary by their votes. Like SWORDS's oracle it always gives ten words, even if
        people accepted fewer.
        """
        expressible = set(self._lemmas(place.target.pos).tolist())
        known = [lemma for lemma in gold.lemma_shares if lemma in expressible]
        output = sorted(known, key=lambda lemma: -gold.lemma_shares[lemma])[:CUT]
        best = -np.sort(-gold.votes)
        return {
            **{"gap": gap_parts(best), "gap_shares": gap_parts(best)},
            **_of_output(output, output, gold),
            "probability_accepted": (float(any(lemma in gold.accepted for lemma in known)), 1.0),
        }

    def _lemma(self, word: str, pos: str) -> int:
        return self._numbers.setdefault(lemma_of(word, pos), len(self._numbers))

    def _lemmas_of(self, pos: str) -> NDArray[np.int64]:
        """The number of every token's lemma, shape (V,); :data:`NO_LEMMA` where a token is not a word."""
        words = zip(self._tokens.vocabulary.words, self._tokens.is_word, strict=True)
        return np.array([self._lemma(word, pos) if word and is_word else NO_LEMMA for word, is_word in words])

    def _gold(self, place: Place, people: bool) -> Gold:
        target, own = place.target, self._lemma(place.target.word, place.target.pos)
        votes = Counter[int]()  # by lemma
        asked = Counter[int]()
        for candidate in target.candidates:
            lemma = self._lemma(candidate.word, target.pos)
            if (candidate.people or not people) and lemma != own:
                votes[lemma] += candidate.votes
                asked[lemma] += candidate.asked
        single = [(token, each) for token, each in place.single if each.people or not people]
        listed = [] if self._table is None else self._table.synonyms(place.gold).tolist()
        words = filter(None, (self._tokens.vocabulary.words[token] for token in listed))
        return Gold(
            tokens=np.array([token for token, _ in single], dtype=np.int64),
            votes=np.array([each.votes for _, each in single], dtype=np.float64),
            shares=np.array([each.share for _, each in single], dtype=np.float64),
            lemma_shares={lemma: votes[lemma] / count for lemma, count in asked.items()},
            own=own,
            listed=frozenset(self._lemma(word, target.pos) for word in words) - {own},
        )


def _of_model(row: NDArray[np.floating], lemmas: NDArray[np.int64], ranked: NDArray[np.int64], gold: Gold) -> Parts:
    """Of the logarithms of probabilities, every token's lemma, and the lemmas from likely to unlikely, (V,) each."""
    order = np.argsort(-row[gold.tokens], kind="stable")
    words = ranked[(ranked != NO_LEMMA) & (ranked != gold.own)]
    judged = words[np.isin(words, list(gold.lemma_shares))]
    strict, lenient = (list(itertools.islice(dict.fromkeys(each.tolist()), CUT)) for each in (words, judged))
    accepted = np.isin(lemmas, list(gold.accepted))
    return {
        "gap": gap_parts(gold.votes[order]),
        "gap_shares": gap_parts(gold.shares[order]),
        **_of_output(strict, lenient, gold),
        "probability_accepted": (float(np.exp(row[accepted].astype(np.float64)).sum()), 1.0),
    }


def _of_output(strict: Sequence[int], lenient: Sequence[int], gold: Gold) -> Parts:
    return {
        "f10_lenient_accepted": f_parts(lenient, gold.accepted),
        "f10_lenient_conceivable": f_parts(lenient, gold.conceivable),
        "f10_strict_accepted": f_parts(strict, gold.accepted),
        "f10_strict_conceivable": f_parts(strict, gold.conceivable),
        **{f"precision_at_{cut}": (sum(word in gold.accepted for word in strict[:cut]) / cut, 1.0) for cut in (1, 3)},
        "recall_at_10": recall_parts(strict, gold.accepted),
        "recall_at_10_listed": recall_parts(strict, gold.accepted, gold.listed),
        "recall_at_10_others": recall_parts(strict, gold.accepted, gold.accepted - gold.listed),
    }


def gap_parts(gains: NDArray[np.float64]) -> tuple[float, float]:
    """What one target adds to numerator and denominator of GAP: nothing where no gain is positive.

    GAP is sum_i I(x_i > 0) mean(x_1 .. x_i) over the same sum of the best order, in [0, 1]. The gains are the votes (or
    shares) of the candidates in the model's order, float64, shape (C,).
    """

    def sum_of_means(ordered: NDArray[np.float64]) -> float:
        means = ordered.cumsum() / np.arange(1, len(ordered) + 1)
        return float(means[ordered > 0].sum())

    best = sum_of_means(np.sort(gains)[::-1])
    return (sum_of_means(gains) / best, 1.0) if best else (0.0, 0.0)


def f_parts(output: Sequence[int], gold: Collection[int]) -> tuple[float, float]:
    """What one target adds to numerator and denominator of F^10: precision is the hits over the outputs (ten at most),
    recall the hits over min(gold, 10), both of sums over the targets.
    """
    hits = sum(word in gold for word in output)
    return 2.0 * hits, float(len(output) + min(len(gold), CUT))


def recall_parts(
    output: Sequence[int], gold: Collection[int], counted: Collection[int] | None = None
) -> tuple[float, float]:
    """What one target adds to numerator and denominator of R@10: nothing where no word is right. With ``counted`` only
    hits among these count, as a share of all right words.
    """
    hits = (word in gold and (counted is None or word in counted) for word in output[:CUT])
    return (sum(hits) / len(gold), 1.0) if gold else (0.0, 0.0)
