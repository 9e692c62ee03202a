"""Cases and the map in the pages: a plan that a person approves step by step, hostile names as text, looked at in a browser."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from reviewing import Reviewing

from browsing import chromium, mounted, needs_chromium, watched
from corpus_guard.batches.tables import vectors_to_table
from corpus_guard.domain import Version
from corpus_guard.forensics.cases import Case, MemberKind, find_case, find_member, open_case
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import events, publications, seals
from corpus_guard.proof.deviations import Deviation, DeviationKind
from corpus_guard.proof.incidents import open_incident
from material import MODEL, vector_of

HOSTILE = "<script>hacked()</script>\u202e"


@pytest.fixture
def case(reviewing: Reviewing) -> Case:
    """A case about one served document of five, and one that waits."""
    accused = reviewing.serve(f"{HOSTILE}.md", "The pump is read every nine years.")
    served = [accused, *(reviewing.serve(f"page-{n}.md", f"The {n}. page of the harbour.") for n in range(4))]
    reviewing.wait("bad.md", "An order to its reader.")
    publish(reviewing, served)
    members = find_member(reviewing.ledger, MemberKind.VERSION, accused.version_id)
    return open_case(reviewing.ledger, f"wrong interval {HOSTILE}", members, by="ada", reason="a user reported it")


def publish(reviewing: Reviewing, served: list[Version]) -> None:
    """Write the vectors, and what a refresh leaves once everything is served and sealed."""
    chunks = {chunk.chunk_id: chunk.text for version in served for chunk in version.chunks}
    with reviewing.ledger.write() as connection:
        for row in connection.execute(sa.select(publications)).all():
            vectors = vector_of(chunks[row.chunk_id])[None]
            reviewing.storage.write_table(row.vectors, vectors_to_table([row.chunk_id], vectors, MODEL))
        connection.execute(publications.update().values(state="published", model=MODEL))
        seal = {
            "run_id": "run-1",
            "manifest": "m",
            "manifest_sha256": "5" * 64,
            "root": "6" * 64,
            "chunks": len(chunks),
        }
        connection.execute(seals.insert().values(**seal, sealed_at=now()))


def test_a_step_is_approved_by_a_person_and_nothing_is_done(reviewing: Reviewing, case: Case) -> None:
    path = f"/api/v1/cases/{case.case_id}/approvals"
    with reviewing.client("viewer") as viewer, reviewing.client("ada") as ada:
        assert "wrong interval" in ada.get("/cases").text
        page = ada.get(f"/cases/{case.case_id}").text
        step_id = page.partition('name="step_id" value="')[2][:32]
        assert "Take out of service and block" in page and "accepted by the policy" in page
        assert "data-send" not in viewer.get(f"/cases/{case.case_id}").text
        body = {"step_id": step_id, "reason": "planted"}
        assert viewer.post(path, json=body).status_code == 403
        assert ada.post(path, json={**body, "reason": " "}).status_code == 400
        assert ada.post(path, json={**body, "step_id": "0" * 32}).status_code == 409

        assert ada.post(path, json=body).status_code == 201

        page = ada.get(f"/cases/{case.case_id}").text
        assert "planted" in page and f"guard case run {case.case_id[:8]}" in page
    (approval,) = find_case(reviewing.ledger, case.case_id).approvals
    assert (approval.step.step_id, approval.by, approval.done_at) == (step_id, "ada", None)
    assert not reviewing.ledger.rows(sa.select(events).where(events.c.kind == "withdrawn"))


def test_a_wrong_answer_is_reported_and_a_case_is_opened_filled_and_closed(reviewing: Reviewing) -> None:
    reviewing.serve("pumps.md")
    with reviewing.client("viewer") as viewer, reviewing.client("ada") as ada, reviewing.client("ben") as ben:
        wrong = {"query": "How often?", "output": "Every nine years.", "correct": ""}
        assert viewer.post("/api/v1/reports", json=wrong).status_code == 403
        assert ada.post("/api/v1/reports", json={**wrong, "output": "\u200b"}).status_code == 400
        report = ada.post("/api/v1/reports", json=wrong).json()
        stored = viewer.get(f"/api/v1/reports/{report['report_id']}").json()
        assert (stored["state"], stored["output"], stored["traces"]) == ("open", "Every nine years.", [])
        assert viewer.get("/api/v1/reports/ffffffff").status_code == 404
        assert "Not part of a case" in ada.get(f"/{report['page']}").text
        body = {"kind": "report", "name": report["report_id"], "title": "wrong interval", "reason": "ada reported it"}
        assert viewer.post("/api/v1/cases", json=body).status_code == 403
        assert ada.post("/api/v1/cases", json={**body, "name": "ffffffff"}).status_code == 404

        opened = ada.post("/api/v1/cases", json=body).json()

        assert "wrong interval" in ada.get(f"/{report['page']}").text
        path = f"/api/v1/{opened['page']}"
        document = {"kind": "version", "name": "pumps.md", "reason": "read by me"}
        assert ben.post(f"{path}/members", json=document).json()["message"] == "Added to the case."
        assert ben.post(f"{path}/members", json=document).json()["message"] == "The case holds it already."
        assert ben.post(f"{path}/close", json={"reason": "nothing was planted"}).json()["state"] == "closed"
        assert ben.post(f"{path}/members", json=document).status_code == 409
        page = ada.get(f"/{opened['page']}").text
    assert "nothing was planted" in page and "data-send" not in page
    closed = find_case(reviewing.ledger, opened["case_id"])
    assert (closed.opened_by, closed.closed_by, len(closed.members)) == ("ada", "ben", 2)


def test_names_are_text_on_the_case_and_on_the_map(reviewing: Reviewing, case: Case) -> None:
    with reviewing.client("ada") as ada:
        for path in (
            "/cases",
            f"/cases/{case.case_id}",
            "/map",
            *(f"/map?by={by}&case={case.case_id}" for by in ("trust", "source", "campaign")),
        ):
            page = ada.get(path).text
            assert "<script>hacked" not in page and "\u202e" not in page, path
            assert "&lt;script&gt;hacked" in page, path
        assert ada.get("/map?by=owner").status_code == 400
        assert ada.get("/cases/ffffffff").status_code == 404
        assert ada.get("/static/pictures.css").headers["content-type"].startswith("text/css")


def test_an_incident_names_its_case(reviewing: Reviewing) -> None:
    deviation = Deviation(DeviationKind.ADDED, "c1", "was added from outside", collection="corpus-open")
    incident = open_incident(reviewing.ledger, reviewing.storage, "night-1", [deviation])
    member = find_member(reviewing.ledger, MemberKind.INCIDENT, incident.incident_id[:8])
    with reviewing.client("ada") as ada:
        assert "Not part of a case" in ada.get(f"/incidents/{incident.incident_id}").text
        case = open_case(reviewing.ledger, "a record from outside", member, by="ada", reason="found at night")
        page = ada.get(f"/incidents/{incident.incident_id}").text
        assert f"cases/{case.case_id}" in page and "Not part of a case" not in page
        assert "No text is accused yet" in ada.get(f"/cases/{case.case_id}").text


def test_before_anything_is_sealed_the_map_says_so(reviewing: Reviewing) -> None:
    with reviewing.client("ada") as ada:
        assert "nothing is sealed yet" in ada.get("/map").text
        assert "No cases yet" in ada.get("/cases").text


@needs_chromium
@pytest.mark.slow
def test_a_step_is_approved_in_a_browser_in_both_themes(reviewing: Reviewing, case: Case) -> None:
    with mounted(reviewing.app) as address, chromium() as browser:
        for theme in ("light", "dark"):
            for width in (1440, 390):
                seen = watched(browser, address, width=width, theme=theme, headers={"Who": "ada"})
                for path in ("cases", f"cases/{case.case_id}", f"map?case={case.case_id}", "corpus"):
                    seen.page.goto(address + path)
                    assert seen.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), (path, width)
                seen.page.goto(f"{address}map?case={case.case_id}")
                assert seen.page.locator("svg.picture .accused").count() == 1
                seen.quiet()
        seen.page.goto(f"{address}cases/{case.case_id}")
        seen.page.get_by_label("Reason to approve: Take out of service and block").fill("planted")
        seen.page.get_by_role("button", name="Approve").first.click()
        seen.page.get_by_text("Approved. guard case run").wait_for()
        seen.quiet()
    assert len(find_case(reviewing.ledger, case.case_id).approvals) == 1
