"""`quarantine_review` and `quarantine_watch` through Airflow: people are told, nothing is released, nothing of a text leaves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from deployment import MakeDeployment, Run, Workspace, _copy
from local_stack import Local, answer, question_of, running, trigger
from small_corpus import ATTACK

from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import acts, decisions, versions
from corpus_guard.review.notices import count_waiting
from sinks import Sink

TOKEN = "T000/B000/not-to-be-logged"


@pytest.fixture(scope="module")
def one(deploy: MakeDeployment, snapshot: Path) -> Workspace:
    return deploy("watched", snapshot, chroma=False)


def connections(mail: Sink, hook: Sink) -> dict[str, str]:
    extra = {
        "from_email": "guard@example.org",
        "to": "ada@example.org, mo@example.org",
        "disable_tls": True,
        "disable_ssl": True,
    }
    smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": mail.port, "extra": extra}
    slack = {"conn_type": "http", "password": f"http://127.0.0.1:{hook.port}/services/{TOKEN}"}
    return {"AIRFLOW_CONN_CORPUS_GUARD_MAIL": json.dumps(smtp), "AIRFLOW_CONN_CORPUS_GUARD_SLACK": json.dumps(slack)}


def grow_old(one: Workspace, hours: float) -> None:
    with one.guard() as guard, guard.ledger.write() as connection:
        waiting = versions.update().where(versions.c.state == "quarantined")
        connection.execute(waiting.values(waits_since=now() - timedelta(hours=hours)))


def is_quiet(run: Run) -> bool:
    return ATTACK not in run.log and TOKEN not in run.log


def test_what_waits_too_long_is_told_by_every_road(one: Workspace, mail: Sink, hook: Sink) -> None:
    grow_old(one, 30)
    late = one.run("quarantine_watch", **connections(mail, hook))

    assert late.succeeded, late.log[-3000:]
    assert (len(mail.messages), len(hook.messages)) == (1, 1)
    sentence = (
        r"6 items have waited longer than 24 hours: .*\d tickets.*; the oldest since \d{4}-\d\d-\d\d \d\d:\d\d UTC"
    )
    message = mail.messages[0]
    assert re.fullmatch(f"Corpus Guard: {sentence}", message["Subject"])
    assert {one.strip() for one in message["To"].split(",")} == {"ada@example.org", "mo@example.org"}
    assert "/plugin/corpus-guard" in message.get_body(("html",)).get_content()
    path, posted = hook.messages[0]
    assert path == f"/services/{TOKEN}"
    assert re.search(sentence, posted["text"])
    assert ATTACK not in message.as_string() + posted["text"]
    assert is_quiet(late)
    assert one.count(acts) == one.count(decisions) == 0


@pytest.mark.slow
def test_nobody_is_told_too_early_or_twice(one: Workspace, mail: Sink, hook: Sink) -> None:
    roads, told = connections(mail, hook), len(mail.messages)
    early = one.start("quarantine_watch", **roads).finish()
    assert early.succeeded
    assert early.heavy == frozenset()
    assert (len(mail.messages), len(hook.messages)) == (told, told), "nothing new is overdue"

    grow_old(one, 30)
    assert one.run("quarantine_watch", **roads).succeeded
    assert one.run("quarantine_watch", **roads).succeeded
    assert (len(mail.messages), len(hook.messages)) == (1, 1), "nobody is told the same twice"


@pytest.mark.slow
def test_a_road_that_fails_is_named_without_its_secret_and_tried_again(one: Workspace, mail: Sink, hook: Sink) -> None:
    grow_old(one, 24 * 40)
    with one.guard() as guard:
        guard.storage.write_json("review/overdue-told.json", {"at": "2026-01-01T00:00:00+00:00", "items": 0})
    before = len(mail.messages)
    hook.refuses = True

    run = one.start("quarantine_watch", **connections(mail, hook))
    run.wait_until(
        lambda: "connection corpus_guard_slack (HTTPStatusError): the message could not be sent" in run.said()
    )
    run.kill()  # it would be tried again after a while

    hook.refuses = False
    assert len(mail.messages) == before + 1, "the other road was tried"
    assert ATTACK not in run.said()
    assert TOKEN not in run.said()
    assert one.count(acts, acts.c.cause == "expired") == 6, "marking does not depend on it"
    assert one.count(versions, versions.c.state == "quarantined") == 6


def test_the_gate_says_what_waits_and_waits_for_a_person(one: Workspace, mail: Sink, hook: Sink) -> None:
    before = len(hook.messages)
    with one.guard() as guard:
        expected = count_waiting(guard.ledger)

    log = one.run_until_asked("approve_review", "quarantine_review", **connections(mail, hook))

    assert expected.items == sum(expected.by_check.values()) == 6
    assert len(hook.messages) == before + 1
    assert expected.sentence in hook.messages[-1][1]["text"]
    assert ATTACK not in log


@pytest.fixture
def local(tmp_path_factory: pytest.TempPathFactory, snapshot: Path) -> Iterator[Local]:
    root = tmp_path_factory.mktemp("gated")
    _copy(snapshot, root)
    with running(root) as one:
        yield one


@pytest.mark.slow
def test_an_answer_in_airflow_escalates_in_the_name_of_who_gave_it(local: Local) -> None:
    dag = "/api/v2/dags/quarantine_review"
    with local.api() as api:
        trigger(api, dag)
        asked = local.wait_until_asked(api, dag, "approve_review")
        question = f"{dag}/{question_of(asked)}"
        shown = api.get(question).raise_for_status().json()
        wrong = api.patch(question, json={"chosen_options": ["Release them all"], "params_input": {}})
        ended = answer(api, dag, asked, "Escalate them all")

    assert wrong.status_code == 400, "no other answer is taken"
    assert re.match(r"6 to review: .*\[Open the queue\]\(http\S+/plugin/corpus-guard", shown["body"])
    assert ended["state"] == "success"
    assert local.ledger("SELECT DISTINCT reviewer, kind, cause FROM acts") == [("admin", "escalate", "person")]
    assert local.ledger("SELECT count(*) FROM acts") == [(6,)]
    assert local.ledger("SELECT count(*) FROM decisions") == [(0,)]
