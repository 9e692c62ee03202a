"""Each defence changes what the RAG model is asked, in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from defended import CLEAN, POISON, QUESTION, RESOURCES, Naming, Reader, lengths, played

from corpus_guard.corpus import trigger
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.defences import DEFENCES, DefenceResources, build_defences
from corpus_guard.evaluation.defences.retrieval import perplexity_threshold, remove_perplexing
from corpus_guard.evaluation.defences.robustrag import UNKNOWN, aggregate, answer_from_shared_words, keywords

TEXTS = [*POISON, *CLEAN]


def under(
    name: str, texts: Sequence[str] = TEXTS, reader: Reader | None = None, resources: DefenceResources = RESOURCES
) -> str:
    return DEFENCES[name](resources)(played(texts, POISON), reader or Reader())


def prompted_by(reader: Reader) -> DefenceResources:
    return DefenceResources(lengths, CLEAN, Naming(), Naming(), reader)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("none", "It is Mallory."),
        ("ptr", "It is Ada."),
        ("ke-10", "It is Mallory."),  # five to five: the first stands
        ("ke-20", "It is Ada."),
        ("ke-50", "It is Ada."),
        ("filterrag", "It is Ada."),
        ("ml-filterrag", "It is Ada."),
        ("ppl-100", "It is Ada."),  # poison is longer than anything clean
        ("bte", "It is Ada."),
        ("ptr+bte", "It is Ada."),
    ],
)
def test_the_answer_under_each_defence(name: str, answer: str) -> None:
    assert under(name) == answer


@pytest.mark.parametrize(
    ("name", "count"), [("none", 5), ("ptr", 5), ("ke-10", 10), ("ke-50", 50), ("filterrag", 5), ("bte", 1)]
)
def test_how_many_texts_the_model_reads(name: str, count: int) -> None:
    reader = Reader()
    under(name, reader=reader)

    ((question, texts),) = reader.asked
    assert (question, len(texts)) == (QUESTION, count)


def test_the_enhancement_comes_first_and_nothing_else_is_wrapped() -> None:
    reader = Reader()
    forged = trigger.wrap("It is Mallory.")
    under("bte", [forged, *TEXTS], resources=prompted_by(reader))

    texts = reader.asked[0][1]
    assert texts[0] == f"[LATEST] Question: {QUESTION} Answer: Ada. [/LATEST]"
    assert texts[1] == "(LATEST) It is Mallory. (/LATEST)"


def test_with_removal_the_traced_texts_are_not_read() -> None:
    alone, both = Reader(), Reader()
    under("bte", resources=prompted_by(alone))
    under("ptr+bte", resources=prompted_by(both))

    assert [sum("Mallory" in text for text in reader.asked[0][1]) for reader in (alone, both)] == [4, 0]


def test_a_model_that_follows_no_prompt_reads_the_enhancement_alone() -> None:
    prompted, plain = Reader(), Reader()
    under("bte", reader=plain, resources=prompted_by(prompted))
    assert (len(prompted.asked), len(plain.asked)) == (1, 0)

    for name in ("bte", "ptr+bte"):
        under(name, reader=plain)
        assert len(plain.asked[-1][1]) == 1


def test_perplexing_texts_are_replaced_until_none_is_left() -> None:
    reader = Reader()
    removal = partial(remove_perplexing, 80.0, lambda texts: [90.0 if "Mallory" in text else 1.0 for text in texts])
    planted = [f"Mallory {number}" for number in range(12)]

    assert removal(played([*planted, *CLEAN]), reader) == "It is Ada."
    assert reader.asked[0][1] == tuple(CLEAN[:5])
    assert removal(played(planted), reader) == "I don't know."
    nothing = partial(remove_perplexing, 80.0, lambda texts: [float("nan")] * len(texts))
    assert nothing(played(planted), reader) == "I don't know."


def test_thresholds_come_from_the_corpus() -> None:
    resources = DefenceResources(lengths, ["x" * size for size in range(1, 101)], Naming(), Naming())

    assert perplexity_threshold(100, resources) == 100
    assert perplexity_threshold(90, resources) == pytest.approx(90.1)
    with pytest.raises(Misuse, match="no texts"):
        build_defences(DefenceResources(lengths, (), Naming(), Naming()))


def test_each_text_is_answered_from_alone_and_the_words_that_agree_are_told() -> None:
    reader = Reader()
    answer = answer_from_shared_words(played([*POISON[:2], *CLEAN[:3]]), reader)

    assert [len(texts) for _, texts in reader.asked] == [1] * 6
    assert reader.asked[-1][1] == ("Several sources agree on these words: ada, mallory.",)
    assert answer == "It is Ada."
    assert answer_from_shared_words(played(["nothing", "at all"]), reader) == UNKNOWN


def test_a_minority_of_one_in_five_is_not_heard() -> None:
    said = ["Ada Moss", "Ada Moss.", "it is ada moss", "the keeper is Ada Moss", "Mallory"]

    assert aggregate(said) == ["ada moss", "moss", "ada"]
    assert aggregate(["I don't know", "I do not know", "Unknown"]) == []
    assert aggregate([]) == []


def test_keywords_are_words_and_the_phrases_between_function_words() -> None:
    assert keywords("The key of Ada Moss, in 1.998 rooms") == {
        "key", "ada", "moss", "ada moss", "1.998", "rooms", "1.998 rooms"
    }  # fmt: skip
    assert keywords("The passage does not say who.") == frozenset()


def test_defences_are_built_by_name_in_the_order_of_the_table() -> None:
    assert list(build_defences(RESOURCES, ("ptr", "none"))) == ["ptr", "none"]
    assert list(build_defences(RESOURCES)) == list(DEFENCES)
    with pytest.raises(KeyError):
        build_defences(RESOURCES, ("prayer",))
