"""What leaves: streamed, filtered, with stable ids, and nothing of a document in it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import PurePosixPath
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remembered import HOSTILE, NOON, SECRET, decide, judged_at, remember

from corpus_guard.domain import Severity
from corpus_guard.errors import Misuse, UnknownSubject
from corpus_guard.exports.findings import (
    CHECK_MEANINGS,
    TAXA,
    TAXONOMIES,
    escape_unprintable,
    export_deviations,
    export_findings,
    portable_uri,
)
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import findings
from corpus_guard.proof.deviations import HEALABLE_KINDS, Deviation, DeviationKind
from corpus_guard.screening import tags
from corpus_guard.screening.registry import CHECKS as REGISTERED
from material import a_finding


def test_findings_come_in_the_order_of_versions_on_both_kinds_of_ledger(ledger: Ledger) -> None:
    first = remember(ledger, "a.md", a_finding(), a_finding("typos.swarm", severity=Severity.LOW))
    second = remember(ledger, "b.md", a_finding())

    found = list(export_findings(ledger))

    expected = sorted(
        [
            (first.version_id, "instructions.override"),
            (first.version_id, "typos.swarm"),
            (second.version_id, "instructions.override"),
        ]
    )
    assert [(one.version_id, one.finding.code) for one in found] == expected
    assert all(one.current and one.decision is None and one.state == "quarantined" for one in found)


def test_filters(ledger: Ledger) -> None:
    old = remember(ledger, "old.md", a_finding())
    judged_at(ledger, old, NOON - timedelta(days=1))
    new = remember(ledger, "new.md", a_finding(), source="tickets")
    judged_at(ledger, new, NOON)
    decide(ledger, old, "reject")

    def found(**filters: object) -> list[str]:
        return [one.stamp.uri for one in export_findings(ledger, **filters)]  # type: ignore[arg-type]

    assert sorted(found()) == ["new.md", "old.md"]
    assert found(source="tickets") == ["new.md"]
    assert found(state="rejected") == ["old.md"]
    assert found(since=NOON) == ["new.md"]
    assert found(source="harbour", since=NOON) == []
    assert found(since=NOON + timedelta(seconds=1)) == []


def test_a_misspelt_filter_is_refused_and_not_an_empty_export(sqlite_ledger: Ledger) -> None:
    remember(sqlite_ledger, "a.md", a_finding())

    with pytest.raises(UnknownSubject, match="known: harbour"):
        list(export_findings(sqlite_ledger, source="harbor"))
    with pytest.raises(Misuse, match="accepted, quarantined, released, rejected"):
        list(export_findings(sqlite_ledger, state="waiting"))


def test_ids_follow_from_content_and_tell_equal_places_apart(sqlite_ledger: Ledger) -> None:
    remember(sqlite_ledger, "a.md", a_finding(message="one"), a_finding(message="two"), a_finding("typos.swarm"))
    once = [one.uid for one in export_findings(sqlite_ledger)]

    sqlite_ledger.execute(findings.update().values(message="three", score=0.1))

    assert [one.uid for one in export_findings(sqlite_ledger)] == once
    assert len(set(once)) == 3


def test_the_last_decision_stands(ledger: Ledger) -> None:
    version = remember(ledger, "a.md", a_finding())
    decide(ledger, version, "release", minute=10, applied=False)
    decide(ledger, version, "reject", minute=20, applied=False)

    (one,) = export_findings(ledger)

    assert one.decision is not None
    assert (one.decision.verdict, one.decision.reviewer, one.decision.applied) == ("reject", "ada⟨U+202E⟩", False)


def test_a_replaced_version_is_not_current(full: Ledger) -> None:
    current = [one.current for one in export_findings(full) if one.stamp.uri == "replaced.md"]

    assert sorted(current) == [False, True]


def test_numbers_are_finite_and_what_cannot_be_weighed_weighs_most(ledger: Ledger) -> None:
    remember(ledger, "a.md", a_finding(), a_finding("typos.swarm"))
    broken = float("nan") if ledger.url.get_backend_name() == "postgresql" else float("inf")
    ledger.execute(findings.update().where(findings.c.ordinal == 0).values(score=broken))

    assert [one.finding.score for one in export_findings(ledger)] == [1.0, 0.9]


def test_nothing_a_document_says_is_in_what_leaves(full: Ledger) -> None:
    found = list(export_findings(full))

    assert found
    assert SECRET not in repr(found)
    assert all(one.stamp.declared == {} for one in found)
    assert all(repr(one).isprintable() for one in found)


def test_a_deviation_is_as_grave_as_it_is_hard_to_undo() -> None:
    found = {
        one.deviation.kind: one
        for one in export_deviations((Deviation(kind, "c1", "changed") for kind in DeviationKind), NOON)
    }

    assert len({one.uid for one in found.values()}) == len(DeviationKind)
    assert all(found[kind].severity is Severity.HIGH for kind in HEALABLE_KINDS)
    assert found[DeviationKind.FORKED].severity is Severity.CRITICAL
    assert "ATLAS:AML.T0070" in found[DeviationKind.ADDED].tags
    assert found[DeviationKind.FORKED].tags == ()


def test_a_deviation_shows_what_somebody_else_named() -> None:
    (one,) = export_deviations([Deviation(DeviationKind.ADDED, "id\u202e", "record id\u202e", actual="\x1b[31m")], NOON)

    assert (one.deviation.subject, one.deviation.actual) == ("id⟨U+202E⟩", "⟨U+001B⟩[31m")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("guides/tide gauge.md", "guides/tide%20gauge.md"),
        ("tickets.jsonl#t1", "tickets.jsonl%23t1"),
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("//evil.example/x", "%2F%2Fevil%2Eexample%2Fx"),
        ("a/../../etc/passwd", "a%2F%2E%2E%2F%2E%2E%2Fetc%2Fpasswd"),
        ("\u202e\x00\n", "%E2%80%AE%00%0A"),
        ("caf\ud800", "caf%ED%A0%80"),
    ],
)
def test_a_uri_is_data(uri: str, expected: str) -> None:
    assert portable_uri(uri) == expected


@given(st.text(st.characters(codec=None), max_size=40) | st.text("./:#%?\\a", max_size=12))
def test_a_uri_never_leads_anywhere_else_and_can_be_read_back(uri: str) -> None:
    made = portable_uri(uri)

    parts = urlsplit(made)
    assert made.isascii()
    assert made.isprintable()
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("", "", "", "")
    assert not PurePosixPath(made).is_absolute()
    assert urljoin("https://host/base/", made) == f"https://host/base/{made}"
    assert unquote(made, errors="surrogatepass") == uri


@given(st.text(st.characters(codec=None)))
def test_a_text_is_shown_without_what_cannot_be_seen(text: str) -> None:
    assert escape_unprintable(text).isprintable()


def test_the_hostile_name_of_these_tests_is_hostile() -> None:
    assert not HOSTILE.isprintable()


def test_every_tag_and_check_has_a_name_for_others() -> None:
    known = {tag for found in (*tags.OWASP.values(), *tags.ATLAS.values()) for tag in found}

    assert set(TAXA) == known
    assert {taxon.taxonomy for taxon in TAXA.values()} == set(TAXONOMIES)
    assert set(REGISTERED) <= set(CHECK_MEANINGS)
