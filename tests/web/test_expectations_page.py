"""The Data Docs of a run as a page: counts with links, nothing of a document, whatever the run and the suites are called."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from reviewing import Reviewing, a_finding

from browsing import chromium, mounted, needs_chromium, watched
from corpus_guard.deployment import Deployment
from corpus_guard.domain import Verdict
from corpus_guard.ledger.runs import begin_run, end_run, run_folder
from corpus_guard.ledger.states import RunKind
from corpus_guard.pipeline.data_docs import write_data_docs
from hostile import PAYLOADS
from material import a_version

SCRIPT = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
SUITE = {
    "name": "authors",
    "expectations": [
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": f"declared_{SCRIPT}", "value_set": [*PAYLOADS[:20], SCRIPT]},
            "notes": SCRIPT,
            "meta": {"guard": {"rule": "known"}},
        }
    ],
}


@pytest.fixture
def run_id(reviewing: Reviewing, tmp_path: Path) -> Iterator[str]:
    """A run with a hostile name, under a suite with hostile words, that held back one of two documents."""
    name = f"corpus_refresh/{SCRIPT}"
    folder = tmp_path / "include"
    (folder / "expectations").mkdir(parents=True)
    (folder / "expectations" / "authors.yaml").write_text(yaml.safe_dump(SUITE), encoding="utf-8")
    begin_run(reviewing.ledger, name, RunKind.REFRESH, "0" * 64)
    held, fine = (
        a_version(uri, (text,), declared={"author": SCRIPT}) for uri, text in (("held.md", SCRIPT), ("a.md", "b"))
    )
    finding = a_finding("expectation.authors.known", message=SCRIPT, span=None)
    reviewing.record((held, Verdict.QUARANTINE), findings=[finding], run_id=name)
    reviewing.record((fine, Verdict.ACCEPT), findings=[], run_id=name)
    end_run(reviewing.ledger, name, {"accepted": 1, "quarantined": 1})
    with Deployment(reviewing.settings.model_copy(update={"extensions_folder": folder})) as guard:
        write_data_docs(guard.ledger, guard.storage, guard.screening, name)
    yield name


def test_the_page_counts_and_leads_to_what_waits(reviewing: Reviewing, run_id: str) -> None:
    path = run_folder(run_id).replace("runs/", "/expectations/")
    with reviewing.client() as client:
        page = client.get("/expectations")
        assert page.status_code == client.get(path).status_code == 200
        assert f'href="{path.removeprefix("/").join(("./", ""))}"' in client.get("/corpus").text
        assert "expectation.authors.known" in page.text and "1</a> of 2" in page.text
        assert "held.md" not in page.text
        link = (
            html.unescape(page.text.partition('check=expectation">')[0].rpartition('href="')[2]) + "check=expectation"
        )
        waiting = client.get("/" + link.removeprefix("./"))
        assert "held.md" in waiting.text and "a.md" not in waiting.text
        assert client.get(f"/expectations/{'0' * 16}").status_code == 404
        assert client.get("/expectations/..%2F..%2Fsecrets").status_code in {404, 422}


@needs_chromium
def test_names_of_runs_and_words_of_suites_run_nothing(reviewing: Reviewing, run_id: str) -> None:
    with mounted(reviewing.app) as address, chromium() as browser:
        session = watched(browser, address, headers={"Who": "ada"})
        session.page.goto(f"{address}expectations")
        assert "window.hacked" in session.page.inner_text("main"), "the words are shown as words"
        session.quiet()
