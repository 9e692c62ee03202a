"""OCSF Detection Finding, checked against the published schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import ValidationError
from remembered import HOSTILE, NOON, SECRET, Validate, decide, remember

from corpus_guard.domain import Severity
from corpus_guard.exports import ocsf
from corpus_guard.exports.findings import export_deviations, export_findings, portable_uri
from corpus_guard.ledger import Ledger
from corpus_guard.proof.deviations import Deviation, DeviationKind
from material import a_finding, at


def events(ledger: Ledger) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ocsf.format_lines(export_findings(ledger))]


def by_uri(ledger: Ledger) -> dict[str, dict[str, Any]]:
    return {one["resources"][0]["name"]: one for one in events(ledger)}


def test_every_event_meets_the_published_schema(full: Ledger, valid_ocsf: Validate) -> None:
    found = [
        json.loads(line)
        for line in ocsf.format_lines(export_deviations((Deviation(kind, "c1", "x") for kind in DeviationKind), NOON))
    ]
    found += events(full)

    assert len(found) > len(DeviationKind) + len(Severity)
    for one in found:
        valid_ocsf(one)
        assert one["type_uid"] == one["class_uid"] * 100 + one["activity_id"]
        assert isinstance(one["time"], int)


@pytest.mark.parametrize("broken", ["time", "metadata", "finding_info", "severity_id", "class_uid", "activity_id"])
def test_the_schema_would_notice(full: Ledger, valid_ocsf: Validate, broken: str) -> None:
    one = events(full)[0]
    del one[broken]

    with pytest.raises(ValidationError, match="required property"):
        valid_ocsf(one)
    with pytest.raises(ValidationError, match=r"is not one of|was expected"):
        valid_ocsf({**events(full)[0], "severity_id": 7})


def test_what_the_guard_did_and_what_people_did(full: Ledger) -> None:
    found = by_uri(full)
    told = {
        uri: tuple(one[key] for key in ("activity_id", "status", "disposition_id", "is_alert"))
        for uri, one in found.items()
        if uri != "replaced.md"
    }

    assert told == {
        portable_uri(HOSTILE): (1, "New", 3, True),
        "accepted.md": (1, "New", 1, False),
        "rejected.md": (1, "New", 2, False),
        "released.md": (3, "Suppressed", 8, False),
        "refused.md": (3, "Resolved", 2, False),
        "decided.md": (1, "In Progress", 3, False),
    }
    replaced = [one for one in events(full) if one["resources"][0]["name"] == "replaced.md"]
    assert sorted(one["status"] for one in replaced) == ["Archived", "New"]
    assert found["released.md"]["time"] == at(60).timestamp() * 1000


def test_atlas_techniques_are_attacks_and_owasp_risks_are_tags(full: Ledger) -> None:
    one = by_uri(full)[portable_uri(HOSTILE)]

    assert one["attacks"] == one["finding_info"]["attacks"]
    assert {"version": "2026.06", "technique": {"uid": "AML.T0070", "name": "RAG Poisoning"}} in one["attacks"]
    assert {
        "version": "2026.06",
        "technique": {"uid": "AML.T0051", "name": "LLM Prompt Injection"},
        "sub_technique": {"uid": "AML.T0051.001", "name": "Indirect"},
    } in one["attacks"]
    tags = {tag["name"]: tag["values"] for tag in one["finding_info"]["tags"]}
    assert "LLM08" in tags["OWASP Top 10 for LLM Applications 2025"]
    assert "LLM09" in tags["OWASP Top 10 for LLM Applications 2026"]


def test_severities_rise_in_step(full: Ledger) -> None:
    found = {one["severity"]: one["severity_id"] for one in events(full)}

    assert found == {"Informational": 1, "Low": 2, "Medium": 3, "High": 4, "Critical": 5}


def test_a_receiver_can_drop_what_it_has(sqlite_ledger: Ledger) -> None:
    version = remember(sqlite_ledger, "a.md", a_finding())
    (first,), (again,) = events(sqlite_ledger), events(sqlite_ledger)
    decide(sqlite_ledger, version, "reject")
    (closed,) = events(sqlite_ledger)

    assert first == again
    assert closed["finding_info"]["uid"] == first["finding_info"]["uid"]
    assert closed["metadata"]["uid"] != first["metadata"]["uid"]


def test_evidence_says_where_and_never_what(full: Ledger) -> None:
    one = by_uri(full)["refused.md"]

    (evidence,) = one["evidences"]
    assert evidence["data"]["span"] == [4, 14]
    assert len(evidence["file"]["hashes"][0]["value"]) == 64
    lines = list(ocsf.format_lines(export_findings(full)))
    assert all(SECRET not in line and line.isascii() and line.isprintable() for line in lines)
