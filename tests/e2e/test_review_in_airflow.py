"""The review as a person does it: signed in to a running Airflow, from its home page to the text that `guard search` serves.

A whole stack runs (`make up`), with a quarantine of its own; Chromium signs in through Airflow's login form.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from local_stack import Local, running, trigger, wait_until_ended
from playwright.sync_api import FrameLocator

from browsing import Browser, Watched, chromium, needs_chromium, watched
from corpus_guard.batches import Storage
from corpus_guard.batches.tables import versions_to_table
from corpus_guard.corpus import publishing
from corpus_guard.domain import Span, Verdict, Version
from corpus_guard.ledger import Ledger
from corpus_guard.settings import Settings
from environment import PROJECT
from hostile import PAYLOADS
from material import a_finding, a_version, judged

pytestmark = [pytest.mark.slow, needs_chromium]

GOOD = "The OX-12 gas sensor is calibrated every ninety days with the reference gas from the blue bottle."
BAD = "The door code of the firmware floor is given to every courier who asks for it at the back entrance."
QUESTION = {GOOD: "How often is the OX-12 calibrated?", BAD: "Who is given the door code of the firmware floor?"}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Local]:
    """Airflow over a quarantine with two ordinary documents and every hostile one."""
    root = tmp_path_factory.mktemp("review")
    home = root / "home"
    home.mkdir()
    (home / "models").symlink_to(models)
    quarantine(home)
    corpus = root / "corpus"
    corpus.mkdir()
    (corpus / "sources.yaml").write_text("sources: []\n")
    with running(root) as one:
        yield one


def quarantine(home: Path) -> None:
    """What waits: a release, a rejection, and hostile texts in every field."""
    settings = Settings(home=home)
    ledger, storage = Ledger(settings.ledger), Storage(settings.storage)
    made = [a_version("calibration.md", (GOOD,)), a_version("doors.md", (BAD,)), *map(hostile, PAYLOADS)]
    batch = f"batches/{uuid.uuid4().hex}/versions.parquet"
    storage.write_table(batch, versions_to_table(made))
    verdicts = [
        (version, judged(version, Verdict.QUARANTINE, findings=(a_finding(span=Span(0, 30)),), risk=risk))
        for version, risk in zip(made, [0.99, 0.98, *([0.5] * len(PAYLOADS))], strict=True)
    ]
    with ledger.write() as connection:
        publishing.record(
            connection, "run-1", batch, verdicts, collection=lambda trust: f"corpus-{trust.value}", vectors="", model=""
        )
    ledger.close()


def hostile(payload: str) -> Version:
    kept = payload.encode("utf-8", "backslashreplace").decode()
    shown = kept.replace("\x00", "")
    return a_version(f"{shown}.md", (f"{kept}\n\n{kept}",), owner=shown, declared={"title": shown, "author": shown})


@pytest.fixture(scope="module")
def browser(local: Local) -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


def signed_in(browser: Browser, local: Local, user: str) -> Watched:
    address = f"http://127.0.0.1:{local.ports.airflow}"
    password = json.loads((local.home / "stack" / "airflow-passwords.json").read_text())[user]
    session = watched(browser, address)
    page = session.page
    page.goto(f"{address}/auth/login")
    page.get_by_label("Username").fill(user)
    page.locator("input[type=password]").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/auth/login" not in url)
    return session


def from_home(session: Watched) -> FrameLocator:
    """Airflow's home, then one click: the queue, in Airflow's frame."""
    session.page.get_by_role("link", name="Corpus Guard").first.click()
    frame = session.page.frame_locator("iframe[title='Corpus Guard']")
    frame.get_by_role("heading", name="Quarantine").wait_for()
    return frame


def decide(session: Watched, frame: FrameLocator, document: str, choice: str, reason: str) -> None:
    frame.get_by_role("link", name=document, exact=True).click()
    frame.get_by_role("heading", name=document).wait_for()
    frame.locator("#decide").get_by_text(choice, exact=True).click()
    frame.get_by_label("Reason (required").fill(reason)
    frame.get_by_role("button", name="Decide", exact=True).click()
    frame.get_by_role("status").get_by_text("takes effect with the next run").wait_for()
    frame.get_by_role("link", name="Queue").first.click()
    frame.get_by_role("heading", name="Quarantine").wait_for()


def found(local: Local, question: str) -> list[str]:
    """What `guard search` serves."""
    guard = str(Path(sys.executable).with_name("guard"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CORPUS_GUARD_")}
    env = {
        **kept,
        "PYTHONPATH": str(PROJECT / "include"),
        "CORPUS_GUARD_HOME": str(local.home),
        "CORPUS_GUARD_CHROMA_URL": f"http://127.0.0.1:{local.ports.chroma}",
    }
    said = subprocess.run([guard, "search", question, "--json"], env=env, capture_output=True, text=True, check=True)
    return [answer["text"] for answer in json.loads(said.stdout)["answers"]]


def test_a_viewer_looks_and_is_offered_nothing(local: Local, browser: Browser) -> None:
    session = signed_in(browser, local, "viewer")
    frame = from_home(session)
    frame.get_by_text("read-only", exact=True).wait_for()
    assert frame.locator("input[type=checkbox]").count() == 0
    frame.get_by_role("link", name="calibration.md", exact=True).click()
    frame.get_by_text("Deciding requires the human-in-the-loop permission").wait_for()
    assert frame.get_by_role("button", name="Decide").count() == 0
    session.quiet()


def test_what_was_released_is_served_and_what_was_rejected_is_not(local: Local, browser: Browser) -> None:
    assert found(local, QUESTION[GOOD]) == []
    session = signed_in(browser, local, "reviewer")
    frame = from_home(session)
    decide(session, frame, "calibration.md", "Release", "the lab confirmed the interval")
    decide(session, frame, "doors.md", "Reject", "tells couriers the door code")
    assert found(local, QUESTION[GOOD]) == [], "deciding alone serves nothing"

    dag = "/api/v2/dags/quarantine_release"
    with local.api() as api:
        assert wait_until_ended(api, dag, trigger(api, dag))["state"] == "success"

    assert found(local, QUESTION[GOOD]) == [GOOD]
    assert BAD not in found(local, QUESTION[BAD])
    frame.get_by_role("link", name="History").click()
    effect = frame.get_by_text("took effect", exact=True)
    effect.first.wait_for()
    assert effect.count() == 2
    row = frame.get_by_role("row").filter(has_text="calibration.md")
    assert "reviewer" in row.inner_text() and "SimpleAuthManager" in row.inner_text()
    session.quiet()


def test_every_hostile_text_in_airflows_frame_runs_nothing_and_reaches_nobody(local: Local, browser: Browser) -> None:
    session = signed_in(browser, local, "reviewer")
    frame = from_home(session)
    session.quiet()
    origin = f"http://127.0.0.1:{local.ports.airflow}"
    with local.api("reviewer") as api:
        items = [one["version_id"] for one in pages(api)]
    assert len(items) == len(PAYLOADS)
    for number, item in enumerate(items):
        # In Airflow's frame every tenth, because its whole interface loads each time; the others as the frame loads them.
        inside = number % 10 == 0
        session.page.goto(
            f"{origin}/plugin/corpus-guard/corpus-guard/items/{item}"
            if inside
            else f"{origin}/corpus-guard/items/{item}"
        )
        if inside:
            session.page.frame_locator("iframe").get_by_role("heading", name="Provenance").wait_for()
        session.quiet()
    assert frame is not None


def pages(api: httpx.Client) -> Iterator[dict[str, str]]:
    after = ""
    while after is not None:
        told = api.get("/corpus-guard/api/v1/queue", params={"after": after}).raise_for_status().json()
        yield from told["items"]
        after = told["next"]


def test_a_page_of_the_review_opens_by_its_address(local: Local, browser: Browser) -> None:
    from corpus_guard.airflow.plugin import deep_link

    session = signed_in(browser, local, "reviewer")
    session.page.goto(f"http://127.0.0.1:{local.ports.airflow}/{deep_link('?sort=age')}")
    frame = session.page.frame_locator("iframe[title='Corpus Guard']")
    frame.get_by_role("heading", name="Quarantine").wait_for()

    assert frame.get_by_label("Sort by").input_value() == "age"
    session.quiet()


def test_the_page_follows_airflows_own_switch_to_dark(local: Local, browser: Browser) -> None:
    session = signed_in(browser, local, "reviewer")
    frame = from_home(session)
    ground = frame.locator("html")
    colour = "e => getComputedStyle(e).backgroundColor"
    before = ground.evaluate(colour)
    session.page.get_by_role("button", name="User").click()
    session.page.get_by_role("menuitem", name="Appearance").click()
    session.page.get_by_role("menuitemradio", name="Dark Mode").click()
    session.page.wait_for_timeout(500)

    assert ground.evaluate(colour) != before
