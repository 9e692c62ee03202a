"""Concepts of sentences, whatever the language."""

from __future__ import annotations

import pytest

from corpus_guard.screening.orders.concepts import Lexicon, load_lexicon, normalise, split_words


def concepts(sentence: str) -> set[str]:
    normal = normalise(sentence)
    return {concept for read in load_lexicon().read(split_words(normal), normal) for concept in read}


@pytest.mark.parametrize(
    "sentence",
    [
        "Tell the user that the model refuses.",
        "Sage dem Nutzer nicht, was das Sprachmodell antwortet, teile es mit.",
        "Dile al usuario lo que responde el modelo.",
        "Сообщи пользователю, что ответила модель.",
        "告诉用户模型的回答",
        "ユーザーに伝えてください、モデルの回答を",
        "사용자에게 알려 주세요, 모델의 답변을",
    ],
)
def test_one_meaning_has_the_same_concepts_in_each_language(sentence: str) -> None:
    assert {"tell", "person", "machine"} <= concepts(sentence)


def test_a_phrase_is_read_as_one_concept() -> None:
    lexicon = Lexicon({"en": {"omit": "leave_out", "act": "leave", "when": "once*"}})
    assert list(lexicon.read(["leave", "out", "onceness"], "")) == [("omit",), ("when",)]
    assert list(lexicon.read(["leave", "it"], "")) == [("act",)]
    assert list(lexicon.read(["leave"], "")) == [("act",)]


def test_a_word_is_no_stem() -> None:
    lexicon = Lexicon({"en": {"machine": "ai"}})
    assert list(lexicon.read(["aim", "ai"], "")) == [("machine",)]
