"""`traceback_nightly` through Airflow: killed, run again, waiting for a person, and what was approved is served no longer.

The judge is a real endpoint on loopback that says Yes to whatever holds the reported answer: what is proved here is the road, not the
judge. What it calls poisoned are ordinary pages of the small corpus.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
import sqlalchemy as sa
from deployment import MakeDeployment, _copy
from local_stack import Local, answer, question_of, running, tasks
from small_corpus import ATTACK

from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import blocked, decisions, events, reports, suspects, traces
from corpus_guard.settings import load_settings
from corpus_guard.traceback.filings import Filing
from corpus_guard.traceback.reports import ReportInbox
from endpoint import Asked, Endpoint, Reply, says, scripted

DAG = "/api/v2/dags/traceback_nightly"
ASK_SECONDS = 420
K = 3
REPORTED = {
    "anchoring.md": ("How much chain is paid out when anchoring?", "five times the depth"),
    "batteries.md": ("How large is the house bank?", "400 ampere hours"),
    "": ("When is the harbour closed?", "on every second Thursday"),
}
"""Page that says it → question and answer that were reported; the last is an honest complaint."""
LIES = sorted(page for page in REPORTED if page)
_EVIDENCE = re.compile(
    r"=== \w+ (the question|the reported answer|the text|passage \d+) ===\n(.*?)\n=== \w+ end ===", re.DOTALL
)


@dataclass
class Script:
    """Answers as judge and as RAG model; can hold back what it says in the second round of a trace."""

    holds: bool = False
    blind: bool = False  # as judge: finds nothing
    judged: Counter[str] = field(default_factory=Counter)
    released: threading.Event = field(default_factory=threading.Event)
    holding: threading.Event = field(default_factory=threading.Event)

    def __call__(self, asked: Asked) -> Reply:
        parts = _EVIDENCE.findall(asked.last)
        named = dict(parts)
        if "the text" not in named:
            passages = [text for name, text in parts if name.startswith("passage")]
            lies = [answer for _, answer in REPORTED.values() if any(answer in text for text in passages)]
            return says(lies[0] if lies else "the passages do not say")
        self.judged[named["the question"]] += 1
        if self.holds and self.judged[named["the question"]] > K and not self.released.is_set():
            self.holding.set()
            self.released.wait(120)
        yes = named["the reported answer"] in named["the text"] and not self.blind
        return says(f"The text {'states' if yes else 'does not state'} it.\n[Label: {'Yes' if yes else 'No'}]")


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def endpoint(script: Script) -> Iterator[Endpoint]:
    with scripted(script) as running:
        yield running
        script.released.set()


def asking(endpoint: Endpoint) -> dict[str, str]:
    return {
        "CORPUS_GUARD_JUDGE": "llm",
        "CORPUS_GUARD_RAG_MODEL": "chat",
        "CORPUS_GUARD_CHAT_URL": endpoint.url,
        "CORPUS_GUARD_CHAT_MODEL": "scripted",
        "CORPUS_GUARD_CHAT_AT_ONCE": "1",
        "CORPUS_GUARD_TRACEBACK_K": str(K),
    }


def file_reports(ledger_url: str) -> dict[str, str]:
    """Page → id of its report."""
    ledger = Ledger(ledger_url)
    when = now() - timedelta(hours=1)
    filed = ReportInbox(ledger, "import").file([Filing(query, output, when) for query, output in REPORTED.values()])
    ledger.close()
    return {page: added.report_id for page, added in zip(REPORTED, filed, strict=True)}


@pytest.mark.slow
def test_killed_in_the_middle_the_next_night_takes_the_rest_and_waits_for_a_person(
    deploy: MakeDeployment, snapshot: Path, script: Script, endpoint: Endpoint
) -> None:
    one = deploy("traced", snapshot)
    names = file_reports(one.ledger_url)
    before = one.served()
    script.holds = True

    killed = one.start("traceback_nightly", **asking(endpoint), MLFLOW_TRACKING_URI="")
    killed.wait_until(script.holding.is_set)
    kept = one.count(suspects)
    killed.kill()
    script.released.set()
    assert kept >= K
    assert one.count(traces, traces.c.outcome.is_(None)) == 1
    assert one.count(reports, reports.c.state == "open") > 0
    log = one.run_until_asked("approve_withdrawal", "traceback_nightly", **asking(endpoint), MLFLOW_TRACKING_URI="")

    ended = {row.report_id: row.state for row in one.ask(sa.select(reports))}
    assert ended == {name: "traced" if page else "not_poisoning" for page, name in names.items()}
    accused = one.ask(sa.select(suspects.c.trace_id, suspects.c.uri).where(suspects.c.label == "poisoned"))
    assert {row.uri for row in accused} == set(LIES)
    judged = Counter((row.trace_id, row.text_sha256) for row in one.ask(sa.select(suspects)))
    assert set(judged.values()) == {1}, "no text is judged twice for one report"
    assert one.count(events, events.c.kind == "traced") == 3
    drawn = {path.name for path in (one.home / "mlflow").rglob("*.png")}
    assert drawn == {"outcomes.png", "scores.png", "history.png"}
    assert (one.served(), one.count(decisions)) == (before, 0), "nothing is withdrawn before somebody approves"
    assert ATTACK not in log
    for query, output in REPORTED.values():
        assert query not in log
        assert output not in log


@pytest.mark.slow
def test_what_an_older_judge_closed_wrongly_is_opened_again_by_the_night_after_the_change(
    deploy: MakeDeployment, snapshot: Path, script: Script, endpoint: Endpoint
) -> None:
    workspace = deploy("replayed", snapshot)
    names = file_reports(workspace.ledger_url)
    script.blind = True
    first = workspace.run("traceback_nightly", **asking(endpoint), MLFLOW_TRACKING_URI="")
    assert first.succeeded, first.log[-3000:]
    assert {row.state for row in workspace.ask(sa.select(reports))} == {"not_poisoning"}

    script.blind = False
    promoted = {**asking(endpoint), "CORPUS_GUARD_CHAT_MODEL": "promoted"}
    workspace.run_until_asked("approve_withdrawal", "traceback_nightly", **promoted, MLFLOW_TRACKING_URI="")

    ended = {row.report_id: row.state for row in workspace.ask(sa.select(reports))}
    assert ended == {name: "open" if page else "not_poisoning" for page, name in names.items()}
    assert workspace.count(events, events.c.kind == "report_reopened") == len(LIES)


@pytest.fixture
def local(tmp_path_factory: pytest.TempPathFactory, snapshot: Path, endpoint: Endpoint) -> Iterator[Local]:
    root = tmp_path_factory.mktemp("tracing")
    _copy(snapshot, root)
    with running(root, asking(endpoint)) as one:
        yield one


@pytest.mark.slow
def test_a_task_that_is_killed_goes_on_and_what_is_approved_is_withdrawn(
    local: Local, script: Script, endpoint: Endpoint
) -> None:
    names = file_reports(f"sqlite:///{local.home / 'ledger.sqlite'}")
    script.holds = True
    with local.api() as api:
        api.patch(DAG, json={"is_paused": False}).raise_for_status()  # runs its last interval by itself
        assert script.holding.wait(ASK_SECONDS)
        kept = local.ledger("SELECT trace_id, chunk_id, ordinal FROM suspects")
        _kill_who_waits_for(endpoint, local)
        script.released.set()
        asked = local.wait_until_asked(api, DAG, "approve_withdrawal")
        (traced,) = [one for one in tasks(api, DAG) if one["task_id"] == "trace"]
        assert (traced["state"], traced["try_number"]) == ("success", 2), "the second try ended it"
        assert local.ledger("SELECT count(*) FROM decisions") == [(0,)]
        question = api.get(f"{DAG}/{question_of(asked)}").raise_for_status().json()
        switches = {name: switch["schema"]["title"] for name, switch in question["params"].items()}
        assert sorted(switches.values()) == [f"boat/{page}" for page in LIES], "each document by itself"
        assert not any(switch["value"] for switch in question["params"].values()), "a reviewed source: nothing is on"
        assert all(page.replace(".", "\\.") in question["body"] for page in LIES)
        ticked = {name: title.endswith(LIES[0]) for name, title in switches.items()}
        ended = answer(api, DAG, asked, "Withdraw what is ticked", **ticked)

    assert ended["state"] == "success"
    assert (
        "1 document withdrawn, 1 document kept in service, by admin; 1 question asked again, 0 still wrong"
        in ended["note"]
    )
    assert len(kept) >= K
    rows = local.ledger("SELECT trace_id, chunk_id, ordinal FROM suspects")
    assert set(kept) <= set(rows)
    assert len(local.ledger("SELECT DISTINCT trace_id FROM suspects")) == 3, (
        "the same traces, before and after the kill"
    )
    states = dict(local.ledger("SELECT report_id, state FROM reports"))
    assert states == {name: "traced" if page else "not_poisoning" for page, name in names.items()}
    assert local.ledger("SELECT DISTINCT reviewer, verdict FROM decisions") == [("admin", "reject")]
    assert len(local.ledger(f"SELECT 1 FROM {blocked.name}")) == 2
    assert len(local.ledger("SELECT 1 FROM events WHERE kind = 'withdrawal_refused'")) == 1
    answers = local.ledger("SELECT answer_before, answer_after FROM traces WHERE outcome = 'traced'")
    assert {before for before, _ in answers} <= {answer for _, answer in REPORTED.values()}
    assert "the passages do not say" in {after for _, after in answers}
    _serves_the_rest(local)


def _kill_who_waits_for(endpoint: Endpoint, local: Local) -> None:
    """SIGKILL to the task's process: the one that is connected to the judge."""
    port = int(endpoint.url.rpartition(":")[2].partition("/")[0])
    waiting = []
    for process in local.processes():
        with suppress(psutil.NoSuchProcess):  # others come and go while this looks
            if any(one.raddr and one.raddr.port == port for one in process.net_connections("tcp")):
                waiting.append(process)
    assert waiting
    for process in waiting:
        process.kill()


def _serves_the_rest(local: Local) -> None:
    from corpus_guard.deployment import Deployment

    url = f"http://127.0.0.1:{local.ports.chroma}"
    store = ChromaStore(url, "corpus")
    places = {str(record.metadata["uri"]) for name in store.names() for record in store.scan(name)}
    assert places
    assert places & set(LIES) == {LIES[1]}
    settings = load_settings(home=local.home, sources_file=local.corpus / "sources.yaml", chroma_url=url)
    with Deployment(settings) as guard:
        assert guard.verify().holds
        found = {one.uri for one in guard.retriever.query(REPORTED["anchoring.md"][0], 20).answers}
        assert found & set(LIES) <= {LIES[1]}
