"""Who is named for what Airflow does after a required action."""

from __future__ import annotations

import pytest

from corpus_guard.airflow.context import HumanAnswer, responder_name
from corpus_guard.errors import Misuse


def test_an_answer_is_given_in_the_name_of_its_user() -> None:
    assert responder_name({"responded_by_user": {"id": "7", "name": "ada"}}) == "ada"
    assert responder_name({"responded_by_user": {"id": "7"}}) == "7"


@pytest.mark.parametrize("answer", [{}, {"responded_by_user": None}, {"responded_by_user": {"id": "", "name": "ada"}}])
def test_nothing_is_done_in_the_name_of_nobody(answer: HumanAnswer) -> None:
    with pytest.raises(Misuse, match="names no user"):
        responder_name(answer)
