"""Keywords of an answer, and of a text, that agree with the output."""

from __future__ import annotations

import pytest

from baselines.talking import COMPLAINT, LIE, PAGE, TRUTH, Talker, a_suspect, labels
from corpus_guard.evaluation.baselines.keywords import KEYWORDS_PER_TEXT, RKM, TKM, KeywordRarity
from corpus_guard.ledger.states import Label
from corpus_guard.traceback.retrieval import Complaint

CORPUS = [
    LIE,
    TRUTH,
    PAGE,
    *(f"Every morning the boat is washed, and house {number} opened by Ed." for number in range(20)),
]
P, B, U = Label.POISONED, Label.BENIGN, Label.UNDECIDED


def test_rkm_asks_each_text_alone() -> None:
    talker = Talker()
    new = [a_suspect(LIE), a_suspect(TRUTH), a_suspect(PAGE)]

    assert labels(RKM(talker).judge(COMPLAINT, new, new)) == [P, B, U]
    assert talker.asked == [(COMPLAINT.query, [LIE]), (COMPLAINT.query, [TRUTH]), (COMPLAINT.query, [PAGE])]
    assert RKM(talker).digest == "rkm/1/talker"
    assert RKM(talker).conclude(COMPLAINT, []).probability is None


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Ben Ray", P),
        ("the BEN  RAY!", P),
        ("Ben Ray, who has the key", P),  # the keyword stands in the output
        ("Ben", P),  # the output stands in the keyword
        ("Benjamin", B),
        ("is", B),  # a function word is no keyword
        ("", B),
    ],
)
def test_a_keyword_agrees_word_for_word(output: str, expected: Label) -> None:
    complaint = Complaint(COMPLAINT.query, output)

    assert labels(RKM(Talker()).judge(complaint, [a_suspect(LIE)], [])) == [expected]


def test_tkm_looks_at_what_is_rare_in_the_corpus() -> None:
    judge = TKM(KeywordRarity.of(CORPUS))
    new = [a_suspect(LIE), a_suspect(TRUTH), a_suspect(PAGE)]

    assert labels(judge.judge(COMPLAINT, new, new)) == [P, B, B]
    # common words are keywords of a text only while it has no ten rarer ones
    long = "Ben Ray: " + " ".join(f"gauge{number} valve{number}" for number in range(KEYWORDS_PER_TEXT))
    common = Complaint("what", "morning")
    assert labels(judge.judge(common, [a_suspect(f"{long} every morning")], [])) == [B]
    assert judge.digest == TKM(KeywordRarity.of(CORPUS)).digest != TKM(KeywordRarity.of(CORPUS[1:])).digest


def test_keywords_are_ten_and_the_same_every_time() -> None:
    rarity = KeywordRarity.of(CORPUS)

    assert {"ben", "ray"} <= rarity.keywords(LIE)
    assert len(rarity.keywords(" ".join(f"word{number}" for number in range(99)))) == KEYWORDS_PER_TEXT
    assert rarity.keywords("") == set()
    assert KeywordRarity.of([]).keywords("quay") == {"quay"}


@pytest.mark.parametrize("text", ["", "\ud800\0", "a" * 5_000_000, "ﬁ " * 100_000, "the of and"])
def test_hostile_texts(text: str) -> None:
    assert labels(TKM(KeywordRarity.of(CORPUS)).judge(COMPLAINT, [a_suspect(text)], [])) == [B]
