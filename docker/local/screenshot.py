"""``make screenshot``: pictures of the running UI into ``docs/images/``.

Needs `make up`, a finished run of `corpus_refresh` (`make demo`), for the picture of MLflow one of `traceback_nightly`, and Chromium: the
``chromium`` binary of the distribution (``apt-get install -y chromium``), because Playwright's own download of a browser is not needed for
a picture. Signs in as the admin, through the login form, with the password of this stack. Nothing but 127.0.0.1 is contacted.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from corpus_guard.airflow.plugin import deep_link
from environment import HOST, PROJECT, Layout, Ports, StackError
from processes import request

DAG = "corpus_refresh"
EXPERIMENT = "corpus-guard/traceback-nightly"  # as evaluation/nightly.py calls it
IMAGES = PROJECT / "docs" / "images"
SIZE = ViewportSize(width=1280, height=800)  # pixels
PATIENCE = 120_000  # milliseconds a page may take on a busy machine
SETTLED = 2_000  # milliseconds until what moves has come to rest
REMEMBERED = {  # what Airflow's UI (3.3.2) keeps of a user's choices: the graph, from top to bottom, and its share of the width
    "default_dag_view": '"graph"',
    f"direction-{DAG}": '"DOWN"',
    "react-resizable-panels:graph-ltr": '{"details-panel,main-panel":{"expandToSizes":{},"layout":[29,71]}}',
}
REVIEW = {"queue": "", "history": "history", "corpus": "corpus", "reports": "reports", "health": "health"}
"""View → its path; that of an item is found in the queue."""
THEMES = ("light", "dark")
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def main() -> int:
    """Take every picture. Returns the exit code."""
    layout = Layout.read(os.environ)
    ports = Ports.read(os.environ, layout.ports)
    address = f"http://{HOST}:{ports.airflow}"
    try:
        password = json.loads(layout.passwords.read_text())["admin"]
        run = _finished_run(ports, password)
    except (OSError, StackError) as problem:
        print(f"✗ {problem}", file=sys.stderr)
        return 1
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=CHROMIUM)
        page = _signed_in(browser, address, password)
        print(_run_page(page, address, run))
        for theme in THEMES:
            for picture in _review_pages(page, address, theme):
                print(picture)
        night = _newest_night(ports)
        if night:
            print(_night_page(browser, f"http://{HOST}:{ports.mlflow}", *night))
        else:
            print(f"no run of {EXPERIMENT} in MLflow yet: trigger the DAG traceback_nightly for the second picture")
        browser.close()
    return 0


def _finished_run(ports: Ports, password: str) -> str:
    """The newest successful run that had work to do, or the newest successful one."""
    token = (request(ports.airflow, "/auth/token", {"username": "admin", "password": password})[1] or {}).get(
        "access_token"
    )
    status, answer = request(
        ports.airflow, f"/api/v2/dags/{DAG}/dagRuns?state=success&order_by=-run_after&limit=50", token=token or ""
    )
    found: list[dict[str, Any]] = (answer or {}).get("dag_runs", [])
    if status != 200 or not found:
        raise StackError(
            f"Airflow at {HOST}:{ports.airflow}: expected a finished run of {DAG}, got HTTP {status} and {len(found)} runs. "
            "First: make up, make demo"
        )
    with_work = [run for run in found if "accepted" in (run["note"] or "")]
    return str((with_work or found)[0]["dag_run_id"])


def _newest_night(ports: Ports) -> tuple[str, str] | None:
    """(experiment, run) of the newest night of traces in MLflow."""
    found = request(
        ports.mlflow, f"/api/2.0/mlflow/experiments/get-by-name?experiment_name={quote(EXPERIMENT, safe='')}"
    )[1]
    experiment = ((found or {}).get("experiment") or {}).get("experiment_id")
    if not experiment:
        return None
    asked = {"experiment_ids": [experiment], "max_results": 1, "order_by": ["attributes.start_time DESC"]}
    runs = (request(ports.mlflow, "/api/2.0/mlflow/runs/search", asked)[1] or {}).get("runs", [])
    return (experiment, runs[0]["info"]["run_id"]) if runs else None


def _night_page(browser: Browser, address: str, experiment: str, run: str) -> Path:
    """A night's run in MLflow with one of its plots."""
    target = IMAGES / "traceback-nightly.png"
    page = browser.new_context(viewport=SIZE, color_scheme="light", locale="en-GB", timezone_id="UTC").new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}/#/experiments/{experiment}/runs/{run}/artifacts/outcomes.png")
    page.get_by_text("outcomes.png").first.wait_for()
    page.wait_for_timeout(2 * SETTLED)
    _save(page, target)
    return target


def _review_pages(page: Page, address: str, theme: str) -> Iterator[Path]:
    """Each view of the review, in Airflow's frame and in its colours."""
    page.evaluate("theme => localStorage.setItem('theme', theme)", theme)  # what Airflow's own switch writes
    views = dict(REVIEW)
    for name in ("queue", "item", *list(views)[1:]):
        page.goto(f"{address}/{deep_link(views[name])}")
        frame = page.frame_locator("iframe")
        frame.locator("h1").wait_for()
        if name == "queue" and (waiting := frame.locator("a.where").first).count():
            views["item"] = str(waiting.get_attribute("href")).removeprefix("./")
        page.wait_for_timeout(SETTLED)
        target = IMAGES / f"review-{name}-{theme}.png"
        _save(page, target)
        yield target
        if name == "queue" and "item" not in views:
            return  # an empty queue: nothing to look at


def _save(page: Page, target: Path) -> None:
    """Write a picture with 256 colours: a third of the size, and text looks the same."""
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)


def _chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found:
        raise SystemExit("chromium: not found. Install it: apt-get install -y chromium")
    return found


def _signed_in(browser: Browser, address: str, password: str) -> Page:
    context = browser.new_context(viewport=SIZE, color_scheme="light", locale="en-GB", timezone_id="UTC")
    context.add_init_script(f"Object.entries({json.dumps(REMEMBERED)}).forEach(([k, v]) => localStorage.setItem(k, v))")
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}/auth/login")
    page.get_by_label("Username").fill("admin")
    page.locator("input[type=password]").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/auth/login" not in url)
    return page


def _run_page(page: Page, address: str, run: str) -> Path:
    """The run as a graph with its mapped tasks; beside it the note with the counts and the task instances."""
    target = IMAGES / "corpus-refresh.png"
    page.goto(f"{address}/dags/{DAG}/runs/{quote(run, safe='')}")
    page.wait_for_load_state("networkidle")
    page.get_by_text("Task Instances").first.wait_for()
    page.add_style_tag(content=".react-flow__minimap { display: none }")  # it would cover the last tasks
    page.get_by_role("button", name="fit view").click()
    page.mouse.move(SIZE["width"] - 1, SIZE["height"] - 1)  # nothing is hovered over
    page.wait_for_timeout(SETTLED)
    _save(page, target)
    return target


if __name__ == "__main__":
    sys.exit(main())
