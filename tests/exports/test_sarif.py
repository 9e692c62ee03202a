"""SARIF 2.1.0, checked against the published schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import ValidationError
from remembered import HOSTILE, NOON, SECRET, Validate, remember

from corpus_guard.domain import Severity
from corpus_guard.exports import sarif
from corpus_guard.exports.findings import ExportItem, export_deviations, export_findings, portable_uri
from corpus_guard.ledger import Ledger
from corpus_guard.proof.deviations import Deviation, DeviationKind
from material import a_finding


def log(*items: ExportItem) -> dict[str, Any]:
    made: dict[str, Any] = json.loads("".join(sarif.format_log(items)))
    return made


def test_a_log_meets_the_published_schema(full: Ledger, valid_sarif: Validate) -> None:
    found = export_deviations(
        (Deviation(kind, f"c1 {HOSTILE}", "x", collection=HOSTILE) for kind in DeviationKind), NOON
    )
    made = log(*export_findings(full), *found)

    valid_sarif(made)
    assert len(made["runs"][0]["results"]) == len(list(export_findings(full))) + len(DeviationKind)


def test_a_log_without_results_is_a_log(valid_sarif: Validate) -> None:
    made = log()

    valid_sarif(made)
    assert made["runs"][0]["results"] == []
    assert made["runs"][0]["tool"]["driver"]["name"] == "Corpus Guard"


def test_the_schema_would_notice(full: Ledger, valid_sarif: Validate) -> None:
    made = log(*export_findings(full))
    made["runs"][0]["results"][0]["level"] = "fatal"

    with pytest.raises(ValidationError, match="fatal"):
        valid_sarif(made)


def test_results_refer_to_their_rules_and_taxa(full: Ledger) -> None:
    (run,) = log(*export_findings(full))["runs"]
    rules, taxonomies = run["tool"]["driver"]["rules"], run["taxonomies"]

    assert [rule["id"] for rule in rules] == list(dict.fromkeys(rule["id"] for rule in rules))
    assert all("helpUri" not in rule and rule["fullDescription"]["text"] for rule in rules)
    assert [(one["name"], one["version"]) for one in taxonomies] == [
        ("OWASP Top 10 for LLM Applications 2025", "2025"),
        ("OWASP Top 10 for LLM Applications 2026", "2026"),
        ("MITRE ATLAS", "2026.06"),
    ]
    seen = set()
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        for taxon in result["taxa"]:
            component = taxonomies[taxon["toolComponent"]["index"]]
            assert component["name"] == taxon["toolComponent"]["name"]
            assert component["taxa"][taxon["index"]]["id"] == taxon["id"]
            seen.add((component["name"], taxon["id"]))
    assert len(seen) == sum(len(one["taxa"]) for one in taxonomies)


def test_levels_follow_severity() -> None:
    assert {severity.value: sarif.sarif_level(severity) for severity in Severity} == {
        "info": "note", "low": "note", "medium": "warning", "high": "error", "critical": "error",
    }  # fmt: skip


def test_a_place_is_the_document_within_its_source_and_the_span(sqlite_ledger: Ledger) -> None:
    remember(sqlite_ledger, HOSTILE, a_finding(), a_finding("statistics.outlier", span=None))
    (run,) = log(*export_findings(sqlite_ledger))["runs"]

    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert all(one["artifactLocation"] == {"uri": portable_uri(HOSTILE), "uriBaseId": "harbour"} for one in places)
    assert [one.get("region") for one in places] == [{"charOffset": 4, "charLength": 10}, None]
    assert run["columnKind"] == "unicodeCodePoints"
    assert set(run["originalUriBaseIds"]) == {"harbour"}
    assert "uri" not in run["originalUriBaseIds"]["harbour"]


def test_what_a_verification_names_is_data_too() -> None:
    found = export_deviations(
        [Deviation(DeviationKind.ADDED, "javascript:x", "a record", collection="guard-open")], NOON
    )
    (result,) = log(*found)["runs"][0]["results"]

    location = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "javascript%3Ax", "uriBaseId": "guard-open"}


def test_fingerprints_and_suppressions(full: Ledger) -> None:
    items = list(export_findings(full))
    results = log(*items)["runs"][0]["results"]

    assert [one["partialFingerprints"][sarif.FINGERPRINT] for one in results] == [one.uid for one in items]
    assert {one["properties"]["state"] for one in results if "suppressions" in one} == {"released"}


def test_no_message_makes_a_link_or_a_placeholder(sqlite_ledger: Ledger) -> None:
    remember(sqlite_ledger, "a.md", a_finding(message="near [a](javascript:b) {0}\u202e"))
    (result,) = log(*export_findings(sqlite_ledger))["runs"][0]["results"]

    assert result["message"]["text"] == "near \\[a\\](javascript:b) {{0}}⟨U+202E⟩"


def test_a_log_is_ascii_and_holds_nothing_of_a_document(full: Ledger) -> None:
    text = "".join(sarif.format_log(export_findings(full)))

    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert SECRET not in text
    assert "snippet" not in text
