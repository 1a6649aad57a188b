"""user_dir_examples/attacks: an attack of a user's own, AddSentenceDiverse."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest
from add_sentence import AddSentenceDiverse, insertion_place
from attack import NotApplicableError, read_pairs
from parsed import English, Text, Word
from statement import statement
from support.commands import REPOSITORY, run_command
from support.squad_examples import PANTHERS, WHO, question
from words import NearbyWords, fake_answer

from truneg_fairseq.finetuning.squad_files import Answer, Question, SquadData, read_squad, write_squad

for package in ("spacy", "lemminflect"):
    pytest.importorskip(package)


@pytest.fixture(scope="module")
def parser() -> English:
    return English()


@pytest.fixture(scope="module")
def add(wordnet, parser):
    return AddSentenceDiverse(english=parser)


@pytest.mark.slow
def test_the_script_attacks_a_file(tmp_path, wordnet):
    """SQuAD 2.0 stays 2.0; of a question without an answer nothing is made, nor of one that no rule fits."""
    silent = replace(question("Where did the Panthers move?", name="q0"), impossible=True)
    no_rule = question("Name an old team.", "Broncos", context="Of the Broncos.", name="q3")
    source, output = tmp_path / "in.json", tmp_path / "out.json"
    write_squad(source, SquadData((silent, WHO, no_rule), "v2.0", unanswerable=True))
    script = REPOSITORY / "user_dir_examples" / "attacks" / "add_sentence.py"
    printed = run_command([sys.executable, script, source, output], cwd=tmp_path).stdout
    assert "AddSentenceDiverse applies to 1 of 3 questions (33.3 %)" in printed
    assert "  not applied to 1: no rule makes a statement of the question" in printed
    transformed = read_squad(output)
    (pair,) = read_pairs(tmp_path / "out.pairs.json").pairs
    assert (transformed.version, transformed.questions) == ("v2.0", (pair.transformed,))
    assert pair.original == WHO
    assert pair.details["sentence"] in json.loads(output.read_text())["data"][0]["paragraphs"][0]["context"]


def words(text: str) -> list[Word]:
    """Words written as text/tag, or text/tag/ENTITY."""
    made, start = [], 0
    for written in text.split():
        parts = [*written.split("/"), ""]
        made.append(Word(parts[0], start, True, parts[1], entity=parts[2] if len(parts) > 3 else ""))
        start += len(parts[0]) + 1
    return made


@pytest.mark.parametrize(
    ("answer", "asked", "fake"),
    [
        ("Denver/NNP/ORGANIZATION Broncos/NNPS/ORGANIZATION", "What/WP", "Stark Industries"),
        ("the/DT Rhine/NNP/LOCATION", "What/WP", "Chicago"),
        ("Ann/NNP/PERSON", "When/WRB", "Jeff Dean"),  # the entity comes before the question word
        ("some/DT friends/NNS", "Who/WP", "Jeff Dean"),
        ("long/RB ago/RB", "When/WRB", "1956"),
        ("several/JJ", "How/WRB many/JJ", "42"),
        ("forty/CD", "In/IN what/WDT year/NN", "1956"),
        ("in/IN 1643/CD", "What/WP", "1956"),
        ("running/VBG water/NN", "What/WP", "learning"),
        ("an/DT old/JJ dog/NN", "What/WP", "a hamster"),
        ("a/DT pair/NN of/IN dogs/NNS", "What/WP", "hamsters"),
        ("The/DT dogs/NNS", "What/WP", "the hamsters"),
        ("the/DT largest/JJS", "What/WP", "deepest"),
        ("quickly/RB", "How/WRB did/VBD", "silently"),
    ],
)
def test_fake_answers(answer, asked, fake):
    assert fake_answer(words(answer), words(asked)) == fake


STATEMENTS = {
    "Which NFL team represented the AFC in 2015?": "The NFL team of ANSWER represented the AFC in 2015.",
    "Who won the first game?": "ANSWER won the first game.",
    "Where did Paul move in 2005?": "Paul moved in 2005 in ANSWER.",
    "When does the fair take place?": "The fair takes place in ANSWER.",
    "What did Paul discover in 1898?": "Paul discovered ANSWER in 1898.",
    "How many people lived in Warsaw in 1939?": "ANSWER people lived in Warsaw in 1939.",
    "In what city did the Panthers stay?": "The Panthers stayed in the city of ANSWER.",
    "What year was the treaty signed?": "The treaty was signed in the year of ANSWER.",
    "In 2011, who was the first player to be chosen?": "In 2011, ANSWER was the first player to be chosen.",
    "Why did Warsaw gain the title?": "Warsaw gained the title because of ANSWER.",
    "What was the war caused by?": "The war was caused by ANSWER.",
    "How old was Peyton Manning in 2015?": "Peyton Manning in 2015 was ANSWER years old.",
    "What's the name of the club?": "The name of the club is ANSWER.",
    "Whose album sold best?": "ANSWER's album sold best.",
    "When dating rocks, what is the age applied to?": "When dating rocks, the age is applied to ANSWER.",
    "When rocks are found, they must be older?": None,
    "What can't the king do?": None,
    "When?": None,
    "The capital of France costs what %?": "The capital of France costs ANSWER.",  # "what" depends on the "%"
}


@pytest.mark.parametrize("asked", STATEMENTS)
def test_statements(parser, asked):
    known = {"move": "moved", "take": "takes", "discover": "discovered", "stay": "stayed", "gain": "gained"}
    asked_words = parser.analyse(asked).words
    made = statement(asked_words, [word.text for word in asked_words], "ANSWER", lambda verb, tag: known[verb])
    assert made == STATEMENTS[asked]


def altered(add: AddSentenceDiverse, asked: Sequence[Word]) -> dict[str, str]:
    return {word.text: other for place, word in enumerate(asked) if (other := add._alter(asked, place)) is not None}


ALTERED = {
    "Which company sold the largest cheap car?": {"largest": "smallest", "cheap": "expensive"},
    "Who crossed the longest old bridge?": {"longest": "shortest", "old": "young"},
    "Who visited the US in May?": {"US": "UK", "May": "April"},
    "Who may help us?": {},  # neither the month nor the country
    "Who had 50 dogs and 3 cats?": {"50": "40", "3": "13"},
    "Who had 1,250 of 3.5 acres?": {"1,250": "1,240", "3.5": "4.5"},
    "How many such people had most of it?": {},
    "Is hot cold?": {},  # the antonym is in the question already
}


@pytest.mark.parametrize("asked", ALTERED)
def test_altered_words(add, parser, asked):
    assert altered(add, parser.analyse(asked).words) == ALTERED[asked]


@pytest.mark.parametrize(
    ("tagged", "other"),
    [
        ("Ann/NNP/PERSON", "Jackson"),
        ("Oslo/NNP/LOCATION", "Berlin"),
        ("NFL/NNP/ORGANIZATION", "UNICEF"),
        ("Dutch/NNPS/MISC", "Neptune"),
        ("Vikings/NNPS", "Daleks"),
        ("Zork/NNP", None),
    ],
)
def test_constants_by_entity(add, tagged, other):
    assert add._alter(words(f"the/DT {tagged}"), 1) == other


def test_nearby_words(wordnet, parser, tmp_path):
    vectors = (
        "paris 1 0.1, parisian 1 0.11, the 1 0.12, big 1 0.13, london 1 0.2, rome 1 0.3, fifty 0.1 1, 1950 0.11 1, "
        "fiftieth 0.12 1, sixty 0.15 1, nfl -1 0, nba -1 0.1, baseball -1 0.05"
    )
    path = tmp_path / "v.txt"
    path.write_text(vectors.replace(", ", "\n"))
    near = list(NearbyWords(path)("paris"))
    assert near[:4] == ["the", "big", "london", "rome"]
    assert "parisian" not in near
    asked = question("Did the NFL stay fifty days in Paris?", "Santa Clara")
    add = AddSentenceDiverse(path, english=parser)
    # Not "parisian" (the stem), "the", "big" (no names), "1950" (a year), "fiftieth" (no number), "baseball" (long).
    assert altered(add, parser.analyse(asked.text).words) == {"NFL": "NBA", "fifty": "sixty", "Paris": "London"}


def test_the_added_sentence_precedes_the_answers_and_keeps_their_offsets(add):
    changed, details = add.apply(WHO, random.Random(1))
    sentence = details["sentence"]
    assert changed.context == PANTHERS.replace("The Denver", f"{sentence} The Denver")
    starts = [PANTHERS.index(answer.text) + len(sentence) + 1 for answer in WHO.answers]
    assert starts == [answer.start for answer in changed.answers]
    assert sentence == f"The UNICEF team of {details['answer']} represented the UNICEF in 2005."
    assert changed.text == WHO.text


def test_an_answer_across_sentences_stays_whole():
    text = Text((), (0, 10, 20, 30))
    assert insertion_place(text, [Answer("x", 25)]) == 20
    assert insertion_place(text, [Answer("x", 20)]) == 20
    assert insertion_place(text, [Answer("x", 25), Answer("y" * 8, 15)]) == 10
    assert insertion_place(text, [Answer("x", 25), Answer("y" * 8, 15), Answer("z" * 8, 5)]) == 0
    assert insertion_place(text, [Answer("x", 25), Answer("y" * 5, 15)]) == 20


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (question("Who did it?", "Denver Broncos"), "no word of the question can be altered"),
        (question("Name an old team.", "Denver Broncos"), "no rule makes a statement"),
        (question("Where is the old home?", "Chicago", context="In Chicago."), "resembles a right one"),
        (Question("q", "Who is old?", PANTHERS, ()), "the question has no answer"),
    ],
)
def test_what_cannot_be_attacked_is_left_out(add, asked, reason):
    with pytest.raises(NotApplicableError, match=reason):
        add.apply(asked, random.Random(1))
