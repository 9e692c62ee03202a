"""What the ledger remembers for screening."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from sample_versions import FETCHED, a_version

from corpus_guard.corpus import publishing
from corpus_guard.domain import Finding, Judgement, Severity, Span, TrustLevel, Verdict, Version
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import bands, documents, signals, versions
from corpus_guard.screening import history
from corpus_guard.screening.history import LedgerCache, LedgerHistory, record_signals
from corpus_guard.screening.survey.resemblance import Standing, band_keys
from corpus_guard.screening.survey.signals import Signals, measure_signals

PAGE = "The gauge of the {} pier is read at noon, and the value goes into the log book of the harbour office at once."


def keep(ledger: Ledger, *judged: tuple[Version, Verdict]) -> list[Signals]:
    """Record verdicts as `publish` does, measures in the same transaction."""
    measured = [measure_signals(version) for version, _ in judged]
    with ledger.write() as connection:
        publishing.record(
            connection,
            "r1",
            "batch.parquet",
            [(version, Judgement(version.version_id, verdict, 0.1, "0" * 64, ())) for version, verdict in judged],
            collection=lambda trust: f"corpus-{trust.value}",
            vectors="v.parquet",
            model="m/float32",
        )
        record_signals(connection, measured)
    return measured


def page(name: str, **fields: object) -> Version:
    return a_version(PAGE.format(name), uri=f"{name}.md", **fields)  # type: ignore[arg-type]


def test_only_accepted_versions_of_the_source_make_its_statistics(ledger: Ledger) -> None:
    (measured, *_) = keep(
        ledger,
        (page("east"), Verdict.ACCEPT),
        (page("west"), Verdict.QUARANTINE),
        (page("north"), Verdict.REJECT),
        (page("south", source="elsewhere"), Verdict.ACCEPT),
    )

    values = LedgerHistory(ledger).robust_values("handbook")

    assert {name: list(seen) for name, seen in values.items()} == {
        name: [value] for name, value in dict(measured.values).items()
    }
    assert LedgerHistory(ledger).robust_values("nobody") == {}


def test_statistics_rest_on_the_most_recent(sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = sqlite_ledger
    for name in ("east", "west", "north"):
        keep(ledger, (page(name), Verdict.ACCEPT))
    monkeypatch.setattr(history, "MAX_RECENT_VERSIONS", 2)

    values = LedgerHistory(ledger).robust_values("handbook")

    assert {len(seen) for seen in values.values()} == {2}


def known(ledger: Ledger, texts: Sequence[str]) -> dict[str, Standing]:
    return {one.version_id: one.standing for one in LedgerHistory(ledger).same_text(texts)}


def test_the_same_text_is_known_with_its_standing(ledger: Ledger) -> None:
    served, waits, refused = page("east"), page("west"), page("north")
    keep(ledger, (served, Verdict.ACCEPT), (waits, Verdict.QUARANTINE), (refused, Verdict.REJECT))

    assert known(ledger, [one.text_sha256 for one in (served, waits, refused)]) == {
        served.version_id: Standing.SERVED,
        waits.version_id: Standing.QUARANTINED,
        refused.version_id: Standing.REJECTED,
    }
    assert known(ledger, [page("south").text_sha256]) == {}


def test_an_accepted_version_that_was_replaced_is_no_neighbour_and_a_refused_one_stays(ledger: Ledger) -> None:
    old, refused = page("east"), page("west")
    keep(ledger, (old, Verdict.ACCEPT), (refused, Verdict.QUARANTINE))
    later = FETCHED + timedelta(hours=1)
    new = a_version("Quite another text about the lighthouse keeper and his boat.", uri=old.stamp.uri, fetched_at=later)
    newer = a_version("And one about the ferry, the winter and the ice.", uri=refused.stamp.uri, fetched_at=later)
    keep(ledger, (new, Verdict.ACCEPT), (newer, Verdict.ACCEPT))

    assert set(known(ledger, [old.text_sha256, refused.text_sha256])) == {refused.version_id}


def test_near_texts_are_found_by_their_bands(ledger: Ledger) -> None:
    version = page("east", trust=TrustLevel.REVIEWED)
    (measured,) = keep(ledger, (version, Verdict.ACCEPT))
    keys = band_keys(measured.minhash)

    found = list(LedgerHistory(ledger).near(keys[:2]))

    assert {band for band, _ in found} == set(keys[:2])
    one = found[0][1]
    assert (one.version_id, one.doc_id, one.source, one.trust) == (
        version.version_id, version.doc_id, "handbook", TrustLevel.REVIEWED,
    )  # fmt: skip
    assert one.minhash == measured.minhash
    assert list(LedgerHistory(ledger).near([1, 2, 3])) == []


def test_remembering_twice_changes_nothing(ledger: Ledger) -> None:
    version = page("east")
    for _ in range(2):
        (measured,) = keep(ledger, (version, Verdict.ACCEPT))

    with ledger.read() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(signals)) == 1
        expected = len(set(band_keys(measured.minhash)))
        assert connection.scalar(sa.select(sa.func.count()).select_from(bands)) == expected


def test_measures_are_kept_with_the_verdict_or_not_at_all(sqlite_ledger: Ledger) -> None:
    version = page("east")
    with pytest.raises(RuntimeError), sqlite_ledger.write() as connection:
        publishing.record(
            connection, "r1", "b", [(version, Judgement(version.version_id, Verdict.REJECT, 1.0, "0" * 64, ()))],
            collection=str, vectors="", model="",
        )  # fmt: skip
        record_signals(connection, [measure_signals(version)])
        raise RuntimeError("killed")

    with sqlite_ledger.read() as connection:
        for table in (signals, bands, versions, documents):
            assert connection.scalar(sa.select(sa.func.count()).select_from(table)) == 0


FOUND = Finding("perplexity", "perplexity.gibberish", Severity.HIGH, 0.75, "unlikely", Span(3, 9), ("LLM04", "LLM08"))


def test_what_a_slow_check_found_comes_back_as_it_was(ledger: Ledger) -> None:
    cache = LedgerCache(ledger)
    cache.save({"a" * 64: [FOUND, replace(FOUND, span=None, tags=())], "b" * 64: []})

    assert cache.load(["a" * 64, "b" * 64, "c" * 64]) == {
        "a" * 64: [FOUND, replace(FOUND, span=None, tags=())],
        "b" * 64: [],
    }


def test_the_first_result_stands_and_nothing_asked_is_nothing_found(ledger: Ledger) -> None:
    cache = LedgerCache(ledger)
    cache.save({"a" * 64: [FOUND]})
    cache.save({"a" * 64: []})
    cache.save({})

    assert cache.load(["a" * 64]) == {"a" * 64: [FOUND]}
    assert cache.load([]) == {}
