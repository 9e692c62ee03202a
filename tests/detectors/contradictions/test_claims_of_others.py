"""Claims of public data sets, and honest sentences with a change, as the reader of contradictions is shown them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpus_guard.detectors.contradictions.claims import Labelled, change_sentences, read_claims
from corpus_guard.detectors.contradictions.honest_texts import read_honest_texts
from corpus_guard.detectors.contradictions.pairs import PairLabel
from corpus_guard.detectors.contradictions.training import LABELS, make_examples
from corpus_guard.detectors.samples import Half
from corpus_guard.errors import Misuse
from corpus_guard.models.contradiction_reader import EXCERPT_CHARS, PagePost

CONTEXT = (
    "The tower of Norrin is {height} metres high. It was built in 1871. Its lamp burns oil, and nobody lives in it."
)


def write(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.fixture
def fever(tmp_path: Path) -> Path:
    return write(
        tmp_path / "fever.jsonl",
        [
            {
                "claim": f"Tower {number} is {'red' if number % 2 else 'tall'}.",
                "label": "REFUTES" if number % 2 else "SUPPORTS",
                "evidence": [f"Tower {number} ( `` Norrin '' ) is a tall , white tower -LRB- 41 m -RRB- ."],
            }
            for number in range(60)
        ],
    )


@pytest.fixture
def squad(tmp_path: Path) -> Path:
    rows = []
    for number in range(120):
        context = CONTEXT.format(height=number)
        question = f"How high is tower {number}?"
        rows += [
            {"title": f"Towers_{number % 10}", "question": question, "context": context, "answer": f"{number} metres", "start": 23},
            {"title": f"Towers_{number % 10}", "question": "Who lives there?", "context": context, "answer": None, "start": None},
        ]  # fmt: skip
    return write(tmp_path / "squad.jsonl", rows)


def test_a_claim_stands_beside_its_evidence_as_people_write_it(fever: Path) -> None:
    claims = read_claims(fever, Half.TUNING)

    for shown, label in claims:
        number = shown.post.split()[1]
        assert f'Tower {number} ("Norrin") is a tall, white tower (41 m).' in shown.excerpt
        assert label is (PairLabel.CONTRADICTS if "red" in shown.post else PairLabel.SAME)
    assert {shown.title for shown, _ in claims} == {f"Tower {shown.post.split()[1]}" for shown, _ in claims}
    among_others = [shown for shown, _ in claims if shown.excerpt.count("Norrin") == 2]
    assert 0 < len(among_others) < len(claims)
    assert any(shown.excerpt.startswith(f"Tower {shown.post.split()[1]} ") for shown in among_others)
    assert not all(shown.excerpt.startswith(f"Tower {shown.post.split()[1]} ") for shown in among_others)


def test_another_answer_contradicts_and_where_there_is_none_any_says_something_other(squad: Path) -> None:
    claims = read_claims(squad, Half.TUNING)

    for shown, label in claims:
        asked, answer = shown.post.split("? ")
        height = shown.excerpt.split(" metres")[0].rsplit(" ", 1)[1] if " metres" in shown.excerpt else ""
        if asked.startswith("Who"):
            assert label is PairLabel.OTHER
        else:
            assert label is (PairLabel.SAME if f" {height} metres" in f" {answer}" else PairLabel.CONTRADICTS)
    assert {label for _, label in claims} == set(PairLabel)
    assert len({shown.post.split("? ")[1].split(" metres")[0].rpartition(" ")[0] for shown, _ in claims}) == 3


def test_a_claim_is_shown_again_beside_another_sentence_about_its_subject(tmp_path: Path) -> None:
    first, second = "The tower of Norrin is a tall tower.", "The tower of Norrin was built of stone."
    lone, nameless = "The mill of Ask is a mill.", tuple(f"It was sold in {year}." for year in range(1871, 1879))
    rows = [
        {"claim": f"Claim {number} of {sentence}", "label": "SUPPORTS", "evidence": [sentence]}
        for number in range(60)
        for sentence in (first, second, lone, *nameless)
    ]
    path = write(tmp_path / "claims.jsonl", rows)

    half = next(
        each
        for each in (Half.TUNING, Half.VALIDATION)
        if any("Norrin" in shown.post for shown, _ in read_claims(path, each))
    )
    plain, both = read_claims(path, half), read_claims(path, half, turned=True)

    again = [shown for shown, label in both if label is PairLabel.OTHER]
    assert len(both) == len(plain) + len(again)
    assert all(label is PairLabel.SAME for _, label in plain)
    for shown in again:
        assert shown.title == "The tower of Norrin"
        assert shown.excerpt in {first, second}
        assert not shown.post.endswith(shown.excerpt)
    assert 0.15 < len(again) / sum("Norrin" in shown.post for shown, _ in plain) < 0.45


def test_an_answer_is_wrong_beside_a_passage_that_gives_another(squad: Path) -> None:
    plain = [shown for shown, _ in read_claims(squad, Half.TUNING)]
    both = read_claims(squad, Half.TUNING, turned=True)

    turned = [(shown, label) for shown, label in both if shown.post.startswith("How")]
    counts = {True: 0, False: 0}
    for shown, label in turned:
        asked = int(shown.post.split("tower ")[1].split("?")[0])
        given = int(shown.post.split(" metres")[0].rsplit(" ", 1)[1])
        stands = int(shown.excerpt.split(" metres")[0].rsplit(" ", 1)[1])
        assert label is (PairLabel.SAME if given == stands else PairLabel.CONTRADICTS)
        if stands != asked:
            counts[given == stands] += 1
            assert given in {asked, stands}
    questions = len([shown for shown in plain if shown.post.startswith("How")])
    assert 0.3 < sum(counts.values()) / questions < 0.7
    assert min(counts.values()) > 0.2 * sum(counts.values())
    assert len(both) == len(plain) + sum(counts.values())


def test_a_passage_in_which_no_answer_can_be_changed_is_not_shown_again(tmp_path: Path) -> None:
    rows = [
        {"title": "Towers", "question": f"How high is {n}?", "context": f"It has {n}metres of rope.", "answer": f"{n}", "start": 7}
        for n in range(40)
    ]  # fmt: skip
    path = write(tmp_path / "squad.jsonl", rows)
    half = next(each for each in (Half.TUNING, Half.VALIDATION) if read_claims(path, each))

    assert len(read_claims(path, half, turned=True)) == len(read_claims(path, half))


def test_a_pronoun_is_no_title(tmp_path: Path) -> None:
    rows = [
        {
            "claim": f"Ann {number} was a keeper.",
            "label": "SUPPORTS",
            "evidence": [f"She was keeper {number} of Norrin."],
        }
        for number in range(20)
    ]

    claims = read_claims(write(tmp_path / "claims.jsonl", rows), Half.TUNING)

    assert {shown.title for shown, _ in claims} == {""}


def test_the_sentence_with_the_answer_is_shown_and_others_are_of_its_kind(tmp_path: Path) -> None:
    before = " ".join(
        f"The path to the tower has sign {sign}, as every guest of the coast can see." for sign in range(20)
    )
    rows = [
        {"title": "The_tower", "question": f"{ask} {number}?", "context": context, "answer": answer, "start": context.index(answer)}
        for number in range(30)
        for ask, answer in (("How high is tower", f"{number + 100} metres"), ("Who kept tower", f"Keeper Marlow{chr(97 + number)}"))
        for context in [f"{before} Its name is {answer}."]
    ]  # fmt: skip
    half = next(each for each in (Half.TUNING, Half.VALIDATION) if read_claims(write(tmp_path / "a.jsonl", rows), each))

    claims = read_claims(tmp_path / "a.jsonl", half)

    assert {shown.title for shown, _ in claims} == {"The tower"}
    assert all("Its name is" in shown.excerpt for shown, _ in claims)
    assert all(("metres" in shown.post) is shown.post.startswith("How") for shown, _ in claims)
    numbers = [int(shown.post.split("?")[0].rsplit(" ", 1)[1]) for shown, _ in claims]
    assert numbers != sorted(numbers), "in an order that the seed chooses"


@pytest.mark.parametrize("name", ["fever", "squad"])
def test_halves_share_nothing_and_a_seed_gives_the_same(name: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(name)

    tuning, validation = read_claims(path, Half.TUNING), read_claims(path, Half.VALIDATION)

    assert tuning and validation
    key = "title" if name == "squad" else "post"
    assert not {getattr(shown, key) for shown, _ in tuning} & {getattr(shown, key) for shown, _ in validation}
    assert read_claims(path, Half.TUNING, 3) == read_claims(path, Half.TUNING, 3) != read_claims(path, Half.TUNING, 4)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "claims.jsonl:1: not JSON"),
        ('{"claim": "a", "label": "SUPPORTS"}', "claims.jsonl:1: no claim; expected 'claim'"),
        ('{"claim": "a", "label": "PERHAPS", "evidence": ["a"]}', "claims.jsonl:1: no claim; expected 'claim'"),
        ('{"question": "a"}', "claims.jsonl:1: no question; expected 'title'"),
        (
            '{"title": "a", "question": "a", "context": "a", "answer": "a", "start": "a"}',
            "claims.jsonl:1: no question; expected 'title'",
        ),
    ],
)
def test_another_form_is_misuse(content: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.jsonl"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(Misuse, match=expected):
        read_claims(path, Half.TUNING)


def honest_file(folder: Path, count: int, text: str) -> Path:
    return write(folder / "honest.jsonl", [{"title": f"Tower {n}", "text": text.format(n=n)} for n in range(count)])


def test_a_sentence_is_changed_in_one_number_or_name_or_stands_as_it_is(tmp_path: Path) -> None:
    sentence = "The lamp of tower {n} was lit by the keeper Ann Marlow in 1871, and burns oil."
    path = honest_file(tmp_path, 120, sentence)

    examples: list[Labelled] = change_sentences(path, Half.TUNING)

    labels = [label for _, label in examples]
    assert 0.3 < labels.count(PairLabel.CONTRADICTS) / len(labels) < 0.8
    for shown, label in examples:
        number = int(shown.title.split()[1])
        own = sentence.format(n=number)
        assert shown.excerpt == own
        assert shown.post.endswith(own) is (label is PairLabel.SAME)
        if label is PairLabel.CONTRADICTS:
            said = shown.post[-len(own) - 12 :].partition("The lamp")[2] or shown.post
            differing = [word for word in own.split()[2:] if word not in said.split()]
            assert 0 < len(differing) <= 2, (own, shown.post)


def test_a_sentence_without_number_and_name_is_never_changed(tmp_path: Path) -> None:
    examples = change_sentences(
        honest_file(tmp_path, 60, "the stairs of it are painted in some dark colour."), Half.TUNING
    )

    assert examples
    assert {label for _, label in examples} == {PairLabel.SAME}
    texts = len(read_honest_texts(tmp_path / "honest.jsonl", Half.TUNING))
    assert 0.2 < len(examples) / texts < 0.7, "those that were to be changed are left out"
    alone = [shown.post == shown.excerpt for shown, _ in examples]
    assert 0 < sum(alone) < len(alone), "most stand behind the beginning of another text"


def test_no_more_texts_are_changed_than_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpus_guard.detectors.contradictions.claims.ARRIVING", 5)

    examples = change_sentences(
        honest_file(tmp_path, 60, "The lamp of tower {n} burns oil, as it did before."), Half.TUNING
    )

    assert len(examples) <= 5


def test_no_more_of_a_page_is_shown_than_is_read(tmp_path: Path) -> None:
    text = " ".join(f"Stair number {n} of the tower was painted red again in the same year." for n in range(40))
    examples = change_sentences(honest_file(tmp_path, 30, text.replace("{", "")), Half.TUNING)

    assert all(EXCERPT_CHARS - 80 < len(shown.excerpt) <= EXCERPT_CHARS for shown, _ in examples)


def test_a_model_of_sentences_sees_the_sentence_with_most_in_common_of_a_claim() -> None:
    page = "The tower is white. The keeper lit the lamp in 1871. Nobody lives there."
    claims = [(PagePost("Norrin", page, "The keeper lit the lamp in 1912."), PairLabel.CONTRADICTS)]

    whole, alone = make_examples((), (), claims), make_examples((), (), claims, alone=True)

    assert [(shown.excerpt, label) for shown, label in whole] == [(page, LABELS[PairLabel.CONTRADICTS])]
    assert [shown.excerpt for shown, _ in alone] == ["The keeper lit the lamp in 1871."]
