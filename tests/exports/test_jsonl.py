"""Native JSON Lines: complete, and one line is one finding."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from remembered import HOSTILE, NOON, SECRET, decide, remember
from sqlalchemy import event

from corpus_guard.exports import jsonl, ocsf, sarif
from corpus_guard.exports.findings import (
    ROWS_PER_FETCH,
    ExportedFinding,
    dump_json,
    export_deviations,
    export_findings,
    portable_uri,
)
from corpus_guard.ledger import Ledger
from corpus_guard.proof.deviations import Deviation, DeviationKind
from material import a_finding


def test_a_line_has_the_finding_and_everything_it_rests_on(sqlite_ledger: Ledger) -> None:
    version = remember(sqlite_ledger, HOSTILE, a_finding(), media_type="text/html")
    decide(sqlite_ledger, version, "release")

    (line,) = jsonl.format_lines(export_findings(sqlite_ledger))
    row = json.loads(line)

    assert (row["kind"], row["code"], row["severity"], row["score"]) == (
        "finding",
        "instructions.override",
        "high",
        0.9,
    )
    assert row["span"] == [4, 14]
    assert row["document"] == {"doc_id": version.doc_id, "source": "harbour", "uri": portable_uri(HOSTILE)}
    assert row["version"]["version_id"] == version.version_id
    assert (row["version"]["state"], row["version"]["verdict"]) == ("released", "quarantine")
    assert (row["version"]["risk"], row["version"]["policy_digest"]) == (0.8765, "0" * 64)
    assert row["stamp"]["content_sha256"] == version.stamp.content_sha256
    assert (row["stamp"]["owner"], row["stamp"]["media_type"]) == ("harbour office", "text/html")
    assert "declared" not in row["stamp"]
    assert row["decision"] == {
        "verdict": "release",
        "reviewer": "ada⟨U+202E⟩",
        "reason": "looked at it",
        "policy_digest": "1" * 64,
        "decided_at": "2026-03-01T13:00:00+00:00",
        "applied": True,
    }


def test_a_deviation_is_a_line_of_its_own_kind() -> None:
    found = [Deviation(DeviationKind.TEXT_CHANGED, "c1", "text differs", "aa", "bb", "guard-open", "d1")]

    (line,) = jsonl.format_lines(export_deviations(found, NOON))
    row = json.loads(line)

    assert (row["kind"], row["code"]) == ("deviation", "integrity.text_changed")
    assert row["deviation"] == found[0].as_dict()
    assert row["found_at"] == "2026-04-01T12:00:00+00:00"


def test_lines_are_ascii_and_hold_nothing_of_a_document(full: Ledger) -> None:
    found = list(jsonl.format_lines(export_findings(full)))

    assert len(found) == len(list(export_findings(full)))
    assert all(line.isascii() and line.isprintable() and SECRET not in line for line in found)


def test_a_number_that_is_none_never_leaves() -> None:
    for broken in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            dump_json({"score": broken})


def test_every_form_passes_many_findings_in_little_memory(sqlite_ledger: Ledger) -> None:
    remember(sqlite_ledger, "a.md", a_finding())
    (one,) = export_findings(sqlite_ledger)

    def many() -> Iterator[ExportedFinding]:
        return itertools.repeat(one, 5_000)

    for form in (jsonl.format_lines, ocsf.format_lines, sarif.format_log):
        tracemalloc.start()
        assert sum(1 for _ in form(many())) >= 5_000
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**20, form


def test_reading_holds_a_page_and_not_the_corpus(sqlite_ledger: Ledger) -> None:
    found = [a_finding(message=f"{number} " + "x" * 2_000) for number in range(8 * ROWS_PER_FETCH)]
    remember(sqlite_ledger, "a.md", *found)
    del found

    tracemalloc.start()
    assert sum(1 for _ in export_findings(sqlite_ledger)) == 8 * ROWS_PER_FETCH
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 4 * ROWS_PER_FETCH * 2_000


def test_a_server_keeps_the_rows_until_they_are_asked_for(postgresql_ledger: Ledger) -> None:
    remember(postgresql_ledger, "a.md", a_finding())
    named = []

    def look(_connection: Any, cursor: Any, *_: Any) -> None:
        named.append(cursor.name)

    event.listen(postgresql_ledger.engine, "before_cursor_execute", look)
    assert len(list(export_findings(postgresql_ledger))) == 1

    assert any(named), "psycopg2 fetches everything at once but through a named cursor"
