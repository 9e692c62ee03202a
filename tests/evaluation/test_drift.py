"""The drift experiment edits what it says, counts strangers apart from siblings, and can be failed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from corpus_guard.detectors.samples import Family, Half, Sample, assign_half
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.drift import (
    DriftCase,
    PastText,
    TextEdit,
    build_cases,
    edit_text,
    measure_drift,
    run_drift_experiment,
    select_texts,
)
from corpus_guard.models import Models
from corpus_guard.traceback.attribution import AttributionMethod
from corpus_guard.traceback.retrieval import RetrievedText

PLACES = ("mole", "quay", "jetty", "slip", "dock", "pier", "berth", "lock", "wharf", "basin", "ramp", "gate")
TASKS = (
    "greased",
    "painted",
    "inspected",
    "swept",
    "measured",
    "repaired",
    "lit",
    "closed",
    "dredged",
    "surveyed",
    "let",
    "sold",
)
NAMES = ("Osric", "Hilda", "Benno", "Tamsin", "Ivo", "Maud", "Sorley", "Greta", "Anselm", "Petra", "Wulf", "Edda")


def page(number: int) -> PastText:
    place, task, name = PLACES[number % 12], TASKS[(number * 5) % 12], NAMES[(number * 7 + number // 12) % 12]
    text = (
        f"The {place} number {number} was {task} by {name} in week {number}. {name} wrote {number * 37} into the log of the {place}. "
        f"Whoever has it {task} again asks {NAMES[number * 5 % 12]} for the key of shed {number * 11}."
    )
    return PastText(f"page {number}", text)


PAGES = [page(number) for number in range(48)]
STRANGERS = ["one two three four five six seven", "red orange yellow green blue"]


def test_the_share_of_words_that_was_asked_for_is_edited() -> None:
    text = " ".join(f"w{number}" for number in range(3_000))
    (half,) = edit_text(text, TextEdit.WORDS, 0.5, STRANGERS, random.Random(1))
    kept = [word for word in half.split() if word.startswith("w")]

    assert edit_text(text, TextEdit.WORDS, 0.0, STRANGERS, random.Random(1)) == (text,)
    assert len(kept) / 3_000 == pytest.approx(1 - 0.5 * 2 / 3, abs=0.03)  # a third of the edits only inserts
    assert len(half.split()) == pytest.approx(3_000, rel=0.05)
    assert kept == sorted(kept, key=lambda word: int(word[1:]))


def test_sentences_change_places_and_chunks_their_borders() -> None:
    text = "One is here. Two is there. Three is gone."
    (shuffled,) = edit_text(text, TextEdit.ORDER, 0.0, STRANGERS, random.Random(3))
    (turned,) = edit_text("a b c d", TextEdit.ORDER, 0.0, STRANGERS, random.Random(3))
    left, right = edit_text(" ".join("abcdefghij"), TextEdit.CHUNKS, 0.0, STRANGERS, random.Random(3))

    assert shuffled != text
    assert sorted(shuffled.rstrip(".").split(". ")) == sorted(text.rstrip(".").split(". ")), (
        "whole sentences, all of them"
    )
    assert turned == "c d a b"
    assert left.split()[-1] < right.split()[0]
    assert set("abcdefghij") <= {*left.split(), *right.split()}
    assert len(left.split()) > 5


def test_drifted_texts_are_attributed_and_absent_ones_are_not(models: Models) -> None:
    none, half = (
        measure_drift(
            build_cases(PAGES[:24], PAGES[24:], models.embedder, TextEdit.WORDS, share, absent=4), TextEdit.WORDS, share
        )
        for share in (0.0, 0.5)
    )

    assert (none.n, none.absent, none.attributed, none.wrong) == (18, 6, 18, 0)
    assert none.how == {AttributionMethod.HASH: 18}
    assert half.attributed >= 14
    assert AttributionMethod.SHINGLES in half.how
    shown = half.as_dict()
    assert shown["low"] < shown["rate"] <= shown["high"]
    assert shown["drift"] == 0.5


def test_a_sibling_is_not_a_false_attribution() -> None:
    vector = np.ones(1, np.float32)
    other = RetrievedText("x", PAGES[0].text.replace("week", "month"), 1.0, vector)
    for siblings, counted in ((frozenset("x"), (0, 1)), (frozenset(), (1, 0))):
        case = DriftCase(PAGES[0].text, vector, (other,), frozenset(), siblings)
        line = measure_drift([case], TextEdit.WORDS, 0.0)
        assert (line.false, line.sibling) == counted
        assert (
            measure_drift(
                [DriftCase(case.text, vector, (other,), frozenset({"y"}), siblings)], TextEdit.WORDS, 0.0
            ).wrong
            == counted[0]
        )


def test_the_same_words_and_the_same_key_are_siblings(models: Models) -> None:
    again = PastText("elsewhere", PAGES[3].text.upper())
    sister = PastText(PAGES[3].key, "Something else is said here of the same thing, at some length.")
    played = build_cases(PAGES[:4], [again, sister, *PAGES[8:12]], models.embedder, TextEdit.WORDS, 0.0)

    assert played[3].right == frozenset()
    assert played[3].siblings == {"other.0", "other.1"}
    assert played[0].siblings == frozenset()


def test_every_edit_at_every_drift(models: Models) -> None:
    told: list[str] = []
    lines = run_drift_experiment(
        PAGES[:6], PAGES[6:12], models.embedder, progress=lambda what, done, total: told.append(what)
    )

    assert [(one.edit, one.share) for one in lines] == [(edit, share) for edit in TextEdit for share in (0.0, 0.3, 0.5)]
    assert told[1] == "words, drift 30%"
    with pytest.raises(Misuse, match="expected some of both"):
        run_drift_experiment([PastText("short", "too short")], PAGES, models.embedder)


def test_material_comes_from_one_half() -> None:
    samples = [
        Sample(f"text {number}", False, "s", Family.ORDINARY, f"key {number}", half=assign_half(f"key {number}"))
        for number in range(60)
    ]
    texts, others = select_texts(samples, Half.VALIDATION, 3)

    assert (len(texts), len(others)) == (3, 15)
    assert {assign_half(one.key) for one in [*texts, *others]} == {Half.VALIDATION}
    assert not {one.text for one in texts} & {one.text for one in others}
