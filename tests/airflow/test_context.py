"""Who is named for what Airflow does after a required action, and which parameters a run may have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from corpus_guard.airflow.context import HumanAnswer, refuse_unknown_parameters, responder_name
from corpus_guard.errors import Misuse


def test_an_answer_is_given_in_the_name_of_its_user() -> None:
    assert responder_name({"responded_by_user": {"id": "7", "name": "ada"}}) == "ada"
    assert responder_name({"responded_by_user": {"id": "7"}}) == "7"


@pytest.mark.parametrize("answer", [{}, {"responded_by_user": None}, {"responded_by_user": {"id": "", "name": "ada"}}])
def test_nothing_is_done_in_the_name_of_nobody(answer: HumanAnswer) -> None:
    with pytest.raises(Misuse, match="names no user"):
        responder_name(answer)


def run_with(conf: dict[str, object] | None, *names: str) -> Any:
    """The context of a task of a DAG with these parameters, in a run with this configuration."""
    dag = SimpleNamespace(dag_id="content_purge", params=dict.fromkeys(names))
    return {"dag": dag, "dag_run": SimpleNamespace(conf=conf)}


@pytest.mark.parametrize(
    ("key", "names", "says"),
    [
        ("documnets", ("documents", "reason"), "content_purge has no parameter 'documnets'. Did you mean documents?"),
        ("Documents", ("documents", "reason"), "Did you mean documents?"),
        ("password", ("documents", "reason"), "It takes documents, reason."),
        ("sources", (), "It takes none."),
        ("rea\u202eson\n" + "x" * 999, ("reason",), r"'rea⟨U\+202E⟩son⟨U\+000A⟩x{112}'"),
    ],
)
def test_a_key_that_is_no_parameter_is_refused_with_the_nearest_name(
    key: str, names: tuple[str, ...], says: str
) -> None:
    with pytest.raises(AirflowFailException, match=says):
        refuse_unknown_parameters(run_with({key: ["a.md"]}, *names))


@pytest.mark.parametrize("conf", [None, {}, {"documents": []}, {"documents": [], "reason": "sold"}])
def test_parameters_may_be_given_or_left_out(conf: dict[str, object] | None) -> None:
    refuse_unknown_parameters(run_with(conf, "documents", "reason"))
