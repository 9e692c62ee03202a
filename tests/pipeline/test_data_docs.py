"""Data Docs of real runs: they count as the ledger does, hold no value of a document, and cost an unchanged run nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from corpus_guard.errors import UnknownSubject
from corpus_guard.ledger.runs import run_folder
from corpus_guard.pipeline.data_docs import DataDocs, SuiteResult, last_judging_refresh, load_data_docs, write_data_docs
from corpus_guard.settings import PACKAGE
from deploying import GOOD, TICKETS, Typed, Workspace

HOSTILE = "<script>window.hacked = 1</script>"
SUITE = {
    "name": "authors",
    "meta": {"guard": {"sources": ["pages"]}},
    "expectations": [
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": "declared_author", "value_set": ["Ada"]},
            "meta": {"guard": {"rule": "known"}},
        },
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "chars", "min_value": 1},
            "severity": "info",
            "meta": {"guard": {"rule": "written"}},
        },
    ],
}


@pytest.fixture
def project(make: Callable[..., Workspace], tmp_path: Path) -> Workspace:
    """Two pages, one by a stranger, and a ticket; two suites."""
    policy = yaml.safe_load((PACKAGE / "policy.yaml").read_text(encoding="utf-8"))
    policy["checks"] |= {name: {"enabled": False} for name in ("filter_features", "perplexity")}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
    folder = tmp_path / "include"
    (folder / "expectations").mkdir(parents=True)
    (folder / "expectations" / "authors.yaml").write_text(yaml.safe_dump(SUITE), encoding="utf-8")
    made = make(policy_file=tmp_path / "policy.yaml", extensions_folder=folder)
    made.page("a.md")
    author = HOSTILE.replace("<", "&lt;")
    made.page("strange.html", f'<html><head><meta name="author" content="{author}"></head><body>{GOOD}</body></html>')
    made.rows({"id": "t", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."})
    made.sources(TICKETS)
    return made


def docs_of(project: Workspace, run_id: str) -> DataDocs:
    with project.guard() as guard:
        return load_data_docs(guard.storage, run_folder(run_id))


def suite(docs: DataDocs, name: str) -> SuiteResult:
    return next(each for each in docs.suites if each.name == name)


def test_they_count_what_each_suite_is_for_and_name_no_value(
    project: Workspace, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.refresh("first")
    docs = docs_of(project, "first")

    authors = suite(docs, "authors")
    assert (authors.documents, authors.unchecked, authors.sources) == (2, 0, ("pages",))
    assert [(each.code, each.failed) for each in authors.expectations] == [
        ("expectation.authors.known", 1),
        ("expectation.authors.written", 0),
    ]
    assert authors.expectations[0].sentence == "declared_author values must belong to this set: Ada."
    assert suite(docs, "structure").documents == 3 and suite(docs, "structure").passes
    assert not authors.passes and docs.summary == "1 of 2 suites fail (authors)"

    stored = (project.settings.home / "storage" / run_folder("first") / "data-docs.json").read_text()
    assert "hacked" not in stored and "strange" not in stored
    with project.guard() as guard, guard.ledger.read() as connection:
        assert "hacked" in json.dumps(
            [dict(row) for row in connection.exec_driver_sql("SELECT stamp FROM versions").mappings()]
        )

    project.enter(monkeypatch)
    code, out, _ = typed("expectations", "report")
    assert code == 1 and "expectation.authors.known: 1 document." in out and "hacked" not in out
    assert json.loads(typed("expectations", "report", "--json", "--run", "first")[1])["run_id"] == "first"


def test_a_suite_without_a_clean_answer_does_not_pass(project: Workspace) -> None:
    broken = {**SUITE, "expectations": [{**SUITE["expectations"][1], "kwargs": {"column": "chars", "min_value": [1]}}]}  # type: ignore[dict-item,index]
    (project.settings.extensions_folder / "expectations" / "authors.yaml").write_text(yaml.safe_dump(broken))
    project.refresh("first")

    authors = suite(docs_of(project, "first"), "authors")
    assert (authors.unchecked, authors.passes, authors.expectations[0].failed) == (2, False, 0)


def test_an_unchanged_run_has_none_and_imports_nothing(project: Workspace) -> None:
    with project.guard() as guard, pytest.raises(UnknownSubject, match="no refresh has judged"):
        last_judging_refresh(guard.ledger)
    project.refresh("first")
    project.refresh("second")
    with pytest.raises(UnknownSubject, match="no Data Docs"):
        docs_of(project, "second")
    with project.guard() as guard:
        assert last_judging_refresh(guard.ledger) == "first"

    code = (
        "import sys\n"
        "from corpus_guard.deployment import Deployment\n"
        "from corpus_guard.pipeline.data_docs import write_data_docs\n"
        "with Deployment() as guard:\n"
        "    docs = write_data_docs(guard.ledger, guard.storage, guard.screening, sys.argv[1])\n"
        "print(docs is None, 'great_expectations' in sys.modules)\n"
    )
    environment = os.environ | project.environment
    for run_id, says in (("second", "True False"), ("first", "False True")):
        command = [sys.executable, "-c", code, run_id]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == says


def test_a_run_that_no_suite_saw_has_none(deployment: Workspace) -> None:
    deployment.page("a.md")
    deployment.sources()
    deployment.refresh("first")
    with deployment.guard() as guard:
        assert write_data_docs(guard.ledger, guard.storage, guard.screening, "first") is None
