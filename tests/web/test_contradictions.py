"""The item page beside a trusted document: both sentences, their values marked, and nothing of what was purged."""

from __future__ import annotations

import sqlalchemy as sa
from reviewing import Reviewing, deciding

from corpus_guard.domain import Counterstatement, Finding, Severity, Span, TrustLevel, Version
from corpus_guard.ledger.tables import versions
from corpus_guard.review.evidence import load_contradictions, load_evidence
from corpus_guard.review.queue import QueueItem

MANUAL = "Read this first. The OX-12 must be calibrated every 6 months. Keep the cap."
POST = "<b>Hello</b>, the OX-12 must be calibrated every 36 months."


def place(text: str, part: str) -> Span:
    return Span(text.index(part), text.index(part) + len(part))


def contradicted(reviewing: Reviewing, *others: Finding, other: str | None = None) -> tuple[QueueItem, Version]:
    manual = reviewing.serve("manual.md", MANUAL, source="handbook", trust=TrustLevel.TRUSTED)
    finding = Finding(
        "conflict",
        "conflict.value",
        Severity.HIGH,
        0.8,
        "Another frequency is stated",
        place(POST, POST),
        counterstatement=Counterstatement(
            manual.doc_id,
            other or manual.version_id,
            place(MANUAL, "The OX-12 must be calibrated every 6 months."),
            place(POST, POST),
            (place(MANUAL, "every 6 months"),),
            (place(POST, "every 36 months"),),
        ),
    )
    return reviewing.wait("post.md", POST, findings=[*others, finding]), manual


def test_the_ledger_keeps_the_places_of_both_sentences(reviewing: Reviewing) -> None:
    item, manual = contradicted(reviewing)
    evidence = load_evidence(reviewing.ledger, reviewing.storage, item)

    (found,) = load_contradictions(reviewing.ledger, reviewing.storage, evidence.version, item.findings)

    assert found is not None and found.other is not None
    assert found.own.text == POST
    assert [found.own.text[span.start : span.end] for span in found.own.values] == ["every 36 months"]
    assert found.other.text == "The OX-12 must be calibrated every 6 months."
    assert [found.other.text[span.start : span.end] for span in found.other.values] == ["every 6 months"]
    assert (found.version_id, found.source, found.uri, found.trust) == (
        manual.version_id,
        "handbook",
        "manual.md",
        "trusted",
    )


def test_the_page_shows_both_sentences_inert_with_a_link(reviewing: Reviewing) -> None:
    item, manual = contradicted(reviewing)

    page = reviewing.client().get(f"/items/{item.version_id}").text

    assert "calibrated <mark>every 36 months</mark>" in page
    assert "calibrated <mark>every 6 months</mark>" in page
    assert "&lt;b&gt;Hello" in page
    assert f'href="/items/{manual.version_id}"' in page or f"items/{manual.version_id}" in page


def test_of_findings_as_grave_the_contradiction_comes_first(reviewing: Reviewing) -> None:
    graver, surer = (
        Finding("instructions", f"instructions.{severity}", severity, 0.9, "The text gives orders.")
        for severity in (Severity.CRITICAL, Severity.HIGH)
    )
    item, _ = contradicted(reviewing, surer, graver)

    page = reviewing.client().get(f"/items/{item.version_id}").text

    assert page.index(graver.code) < page.index("conflict.value") < page.index(surer.code)


def test_sentences_that_contradict_each_other_in_other_words_stand_side_by_side(reviewing: Reviewing) -> None:
    manual = reviewing.serve("manual.md", MANUAL, source="handbook", trust=TrustLevel.TRUSTED)
    post = "Calibrate it once, and never think of it again."
    counter = Counterstatement(manual.doc_id, manual.version_id, place(MANUAL, MANUAL), place(post, post))
    finding = Finding(
        "conflict", "conflict.likely", Severity.MEDIUM, 0.5, "It seems", place(post, post), counterstatement=counter
    )

    page = reviewing.client().get(f"/items/{reviewing.wait('post.md', post, findings=[finding]).version_id}").text

    assert "must be calibrated every 6 months. Keep the cap." in page
    assert f"{post}</" in page


def test_a_purged_sentence_is_gone_from_the_other_document_too(reviewing: Reviewing) -> None:
    item, manual = contradicted(reviewing)
    batch = reviewing.ledger.scalar(sa.select(versions.c.batch).where(versions.c.version_id == manual.version_id))
    assert batch is not None
    reviewing.storage.remove(batch)

    page = reviewing.client().get(f"/items/{item.version_id}").text

    assert "every 6 months" not in page
    assert "Its text was purged or cannot be read." in page
    assert "every 36 months" in page


def test_a_finding_about_a_document_that_never_was_shows_its_own_sentence(reviewing: Reviewing) -> None:
    item, _ = contradicted(reviewing, other="f" * 32)

    page = reviewing.client().get(f"/items/{item.version_id}").text

    assert "every 36 months" in page
    assert "versus" not in page


def test_a_served_item_that_was_reopened_can_be_decided_on_its_page(reviewing: Reviewing) -> None:
    served = reviewing.serve("post.md", POST)
    page = f"items/{served.version_id}"
    before = reviewing.client().get(page).text
    reviewing.ledger.execute(
        versions.update()
        .where(versions.c.version_id == served.version_id)
        .values(reopened_at=served.stamp.fetched_at, waits_since=served.stamp.fetched_at)
    )

    after = reviewing.client().get(page).text

    assert "There is nothing to decide: this version is accepted" in before
    assert "data-decide" not in before
    assert "There is nothing to decide" not in after
    assert "data-decide" in after
    assert "<b>Release</b> leaves it in service, <b>Reject</b> takes it out." in after
    assert "stays served: 1 chunk" in after
    assert (
        reviewing.client()
        .post("api/v1/decisions", json=deciding(reviewing.item(served.version_id), "reject"))
        .is_success
    )
