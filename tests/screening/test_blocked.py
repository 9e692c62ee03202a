"""Content that was purged stays out, on both kinds of ledger."""

from __future__ import annotations

from corpus_guard.domain import Severity, Version, sha256_text
from corpus_guard.ledger import Ledger, tables
from corpus_guard.ledger.ledger import now
from corpus_guard.screening.blocked import BLOCKED, find_blocked, strip_blocked
from material import a_version


def block(ledger: Ledger, *hashes: str) -> None:
    with ledger.write() as connection:
        for sha in hashes:
            row = {"sha256": sha, "kind": "text", "purge_id": "1" * 32, "reason": "asked for", "blocked_at": now()}
            connection.execute(tables.blocked.insert().values(row))


def test_only_what_was_purged_is_blocked(ledger: Ledger) -> None:
    many = [sha256_text(str(number)) for number in range(1_200)]
    block(ledger, many[3], many[1_100])

    assert find_blocked(ledger, many) == {many[3], many[1_100]}
    assert find_blocked(ledger, many[4:9]) == set()
    assert find_blocked(ledger, ()) == set()


def test_a_purged_text_is_taken_out_under_any_name_and_the_others_stay(ledger: Ledger) -> None:
    purged, other = a_version("a.md", ("The key lies under the third plank.",)), a_version("b.md")
    again = a_version("<script>.md", ("The key lies under the third plank.",), declared={"title": "Third plank"})
    block(ledger, purged.text_sha256)

    first, second, third = strip_blocked(ledger, [again, other, purged])

    assert second is other
    for version, before in ((first, again), (third, purged)):
        assert (version.text, version.hidden, version.chunks, version.stamp.declared) == ("", "", (), {})
        assert (version.version_id, version.doc_id) == (before.version_id, before.doc_id)
        assert version.stamp.content_sha256 == before.stamp.content_sha256
        assert [(problem.code, problem.severity) for problem in version.problems] == [(BLOCKED, Severity.CRITICAL)]
        assert "plank" not in str(as_told(version))


def as_told(version: Version) -> object:
    return version.stamp.as_dict(), [problem.as_dict() for problem in version.problems]
