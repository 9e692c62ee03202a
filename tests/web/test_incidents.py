"""An incident in the pages: red on the corpus page until a person acknowledges it, with what was sealed and what was there."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from reviewing import Reviewing

from corpus_guard.domain import sha256_text
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import IncidentState
from corpus_guard.ledger.tables import events, seals, versions
from corpus_guard.proof.deviations import Deviation, DeviationKind
from corpus_guard.proof.incidents import Incident, end_incident, open_incident

SEALED = "The pump is read each morning."
HOSTILE = "<script>hacked()</script>\u202e"


@pytest.fixture
def incident(reviewing: Reviewing) -> Incident:
    """A chunk whose text was changed, and a record that was added, found after a night that was clean."""
    served = reviewing.serve(text=SEALED)
    with reviewing.ledger.write() as connection:
        seal = {"run_id": "run-1", "manifest": "m", "manifest_sha256": "5" * 64, "root": "6" * 64, "chunks": 1}
        connection.execute(seals.insert().values(**seal, sealed_at=now()))
        append_event(connection, "verified", "corpus", "night-1", records=1)
    deviations = [
        Deviation(
            DeviationKind.TEXT_CHANGED,
            served.chunks[0].chunk_id,
            "does not have the text that was sealed",
            sha256_text(SEALED),
            "f" * 64,
            "corpus-open",
            served.doc_id,
        ),
        Deviation(DeviationKind.ADDED, HOSTILE, "was added from outside", collection="corpus-open"),
    ]
    return open_incident(reviewing.ledger, reviewing.storage, "night-2", deviations)


def heal(reviewing: Reviewing, incident: Incident) -> None:
    end_incident(
        reviewing.ledger,
        reviewing.settings,
        incident.incident_id,
        IncidentState.HEALED,
        by="integrity_nightly",
        reason="published again",
    )


@pytest.mark.parametrize("healed", [False, True], ids=["open", "healed"])
def test_it_is_red_until_a_person_acknowledges_it(reviewing: Reviewing, incident: Incident, healed: bool) -> None:
    if healed:
        heal(reviewing, incident)
    path = f"/api/v1/incidents/{incident.incident_id}/acknowledge"
    with reviewing.client("viewer") as viewer, reviewing.client("ada") as ada:
        corpus = ada.get("/corpus").text
        assert "note wrong" in corpus
        assert ("healed, not explained" if healed else "not healed") in corpus
        assert f"incidents/{incident.incident_id}" in corpus
        assert viewer.post(path, json={"reason": "no"}).status_code == 403
        assert ada.post(path, json={"reason": "  "}).status_code == 400, "a blank is no reason"
        assert "note wrong" in ada.get("/corpus").text

        answer = ada.post(path, json={"reason": "a backup test wrote to the live store"})

        assert (answer.status_code, answer.json()["state"]) == (200, "closed")
        assert "note wrong" not in ada.get("/corpus").text
        page = ada.get(f"/incidents/{incident.incident_id}").text
        assert (
            "Acknowledged" in page
            and "a backup test wrote to the live store" in page
            and f"{incident.incident_id}/acknowledge" not in page
        )
        assert ada.post(path, json={"reason": "again"}).status_code == 409
    (event,) = reviewing.ledger.rows(sa.select(events).where(events.c.kind == "incident_closed"))
    assert event.subject == incident.incident_id
    assert event.body == {"by": "ada", "reason": "a backup test wrote to the live store"}


def test_the_page_shows_what_was_sealed_what_was_there_and_since_when(reviewing: Reviewing, incident: Incident) -> None:
    with reviewing.client("ada") as ada, reviewing.client("viewer") as viewer:
        page = ada.get(f"/incidents/{incident.incident_id}").text
        seen = viewer.get(f"/incidents/{incident.incident_id[:8]}").text
        assert ada.get("/incidents/ffffffff").status_code == 404

    for said in (SEALED, sha256_text(SEALED), "f" * 64, "good.md", "night-2", "seal 1 of", "5" * 64):
        assert said in page, said
    assert "with seal 1" in page, "the last night on which it was right"
    assert f'data-send="incidents/{incident.incident_id}/acknowledge"' in page
    assert "<script>hacked()" not in page and "\u202e" not in page
    assert "&lt;script&gt;hacked()" in page
    assert "data-send" not in seen, "who may not decide is offered no form"


def test_many_incidents_do_not_push_the_corpus_off_the_page(reviewing: Reviewing) -> None:
    for number in range(7):
        deviation = Deviation(DeviationKind.ADDED, f"planted-{number}", "was added from outside")
        open_incident(reviewing.ledger, reviewing.storage, "night", [deviation])

    with reviewing.client("viewer") as viewer:
        page = viewer.get("/corpus").text

    assert page.count("not healed") == 5
    assert "2 more incidents not acknowledged" in page


def test_lost_evidence_is_said_and_does_not_hide_the_incident(reviewing: Reviewing, incident: Incident) -> None:
    reviewing.storage.write(incident.deviations, b"{}\n")

    with reviewing.client("ada") as ada:
        page = ada.get(f"/incidents/{incident.incident_id}")

    assert page.status_code == 200
    assert "missing or damaged" in page.text and "data-send" in page.text


def test_a_text_that_is_not_the_sealed_one_is_not_shown_as_such(reviewing: Reviewing, incident: Incident) -> None:
    batch = reviewing.ledger.scalar(sa.select(versions.c.batch))
    table = reviewing.storage.read_table(batch)
    rows = [{**row, "text": row["text"].replace("morning", "evening")} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), reviewing.home / "storage" / batch)

    with reviewing.client("ada") as ada:
        page = ada.get(f"/incidents/{incident.incident_id}").text

    assert sha256_text(SEALED) in page
    assert "each evening" not in page and "each morning" not in page
