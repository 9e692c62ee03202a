"""In a real browser: one of three accused documents is withdrawn, restored, and served again; the history shows both."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from reviewing import plain_access

from browsing import Watched, chromium, mounted, needs_chromium, watched
from corpus_guard.deployment import Deployment
from corpus_guard.review.labels import load_labels
from corpus_guard.web.access import RateLimit
from corpus_guard.web.app import make_app
from material import Shelf
from trace_cases import OUTPUT, QUESTION, Contains, NearModels, Quoting, poison, report, run, serve, truth

pytestmark = needs_chromium

SHOTS = os.environ.get("GUARD_TEST_SHOTS", "")  # folder for pictures of the pages; empty: none are taken


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    guard = Deployment(lite_shelf.settings(tmp_path))
    guard.models = NearModels(guard.settings)
    serve(lite_shelf, {**poison(3), **truth(6)})
    guard.seal("before")
    return guard


@pytest.fixture
def address(lite_shelf: Shelf, tmp_path: Path) -> Iterator[str]:
    app = make_app(lambda: Deployment(lite_shelf.settings(tmp_path)), plain_access(), RateLimit())
    with mounted(app) as url:
        yield url


def found(guard: Deployment) -> set[str]:
    """What a search serves of the three."""
    return {hit.uri for hit in guard.retriever.query(QUESTION, 20).answers if OUTPUT in hit.text}


def test_one_of_three_is_withdrawn_restored_and_served_again(
    lite_shelf: Shelf, guard: Deployment, address: str
) -> None:
    trace = run(guard, report(lite_shelf), Contains(), rag_model=Quoting())
    with chromium() as browser:
        session = watched(browser, address, headers={"Who": "ada"})
        page = session.page
        page.goto(f"{address}traces/{trace.trace_id}")
        picture(session, "trace")
        bar = page.locator(".verdicts rect")
        assert page.get_by_text(f"{trace.counts['poisoned']} poisoned · {trace.counts['benign']} benign").count() == 1
        assert [float(str(part.get_attribute("width"))) > 0 for part in bar.all()] == [True, False, True]
        proposal = page.locator("#proposals article", has=page.get_by_role("link", name="lie-01.md"))
        proposal.get_by_placeholder("reason").fill("planted")
        proposal.get_by_role("button", name="Withdraw").click()
        page.get_by_role("status").get_by_text("Withdrawal recorded").wait_for()
        assert page.locator("#proposals article").count() == 2, "the others are still to be decided"
        page.reload()
        assert page.get_by_text("Withdrawal pending: lie-01.md. It takes effect").is_visible()
        assert len(found(guard)) == 3, "until the next run of quarantine_release"
        guard.apply_decisions("release-1")
        assert found(guard) == {"lie-00.md", "lie-02.md"}

        page.reload()
        assert page.get_by_text("Withdrawal pending").count() == 0
        picture(session, "withdrawn")
        page.locator("#withdrawn summary", has_text="Restore…").click()
        page.locator("#withdrawn").get_by_placeholder("reason").fill("it is right")
        page.locator("#withdrawn").get_by_role("button", name="Restore").click()
        page.get_by_role("status").get_by_text("Restore recorded").wait_for()
        guard.apply_decisions("release-2")
        assert found(guard) == {"lie-00.md", "lie-01.md", "lie-02.md"}
        assert guard.verify(deep=True).holds

        page.goto(f"{address}history")
        picture(session, "history")
        rows = page.locator("tbody tr").all_inner_texts()
        assert ["restore" in rows[0], "withdraw" in rows[1], len(rows)] == [True, True, 2]
        assert all("took effect" in row and "lie-01.md" in row for row in rows)
        page.goto(f"{address}reports")
        picture(session, "reports")
        assert "restored" in page.locator("#withdrawn tbody").inner_text()
        page.goto(f"{address}traces/{trace.trace_id}")
        proposal = page.locator("#proposals article", has=page.get_by_role("link", name="lie-00.md"))
        proposal.get_by_placeholder("reason").fill("read it")
        proposal.get_by_role("button", name="Keep in service").click()
        page.get_by_role("status").get_by_text("Kept in service").wait_for()
        assert page.locator("#proposals article").count() == 1
        assert page.locator(".note", has_text="Kept in service").get_by_role("link").all_inner_texts() == ["lie-00.md"]
        session.quiet()
        for width in (390, 1440):
            for theme in ("light", "dark"):
                narrow = watched(browser, address, width=width, theme=theme, headers={"Who": "ada"})
                for path in (f"traces/{trace.trace_id}", "reports", "history"):
                    narrow.page.goto(address + path)
                    picture(narrow, f"{path.partition('/')[0]}-{width}-{theme}")
                    wide = narrow.page.evaluate("() => document.documentElement.scrollWidth")
                    assert wide <= width, f"{path} is {wide} wide"
                narrow.page.context.close()
    assert list(load_labels(guard.ledger)) == [], "nobody reviewed a check"


def picture(session: Watched, name: str) -> None:
    if SHOTS:
        session.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)
