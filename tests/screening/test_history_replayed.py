"""The history while stored versions are judged anew: what waits is hidden, what was judged shows its new standing."""

from __future__ import annotations

from corpus_guard.domain import Verdict, Version
from corpus_guard.screening.history import ReplayedHistory, record_signals
from corpus_guard.screening.survey.resemblance import Standing, band_keys
from corpus_guard.screening.survey.signals import measure_signals
from material import Shelf, a_version

LONG = ["The pump of the old quay is inspected in spring and in autumn by two people from the office of the harbour. "]


def kept(shelf: Shelf, uri: str, verdict: Verdict) -> Version:
    version = a_version(uri, LONG)
    shelf.record((version, verdict))
    shelf.drain()
    with shelf.ledger.write() as connection:
        record_signals(connection, [measure_signals(version)])
    return version


def seen(replay: ReplayedHistory, version: Version) -> dict[str, Standing]:
    same = {known.version_id: known.standing for known in replay.same_text([version.text_sha256])}
    near = {known.version_id: known.standing for _, known in replay.near(band_keys(measure_signals(version).minhash))}
    assert same == near
    return same


def test_what_waits_is_hidden_until_it_is_judged_anew(shelf: Shelf) -> None:
    stopped, served = kept(shelf, "a.md", Verdict.QUARANTINE), kept(shelf, "b.md", Verdict.ACCEPT)
    replay = ReplayedHistory(shelf.ledger, [stopped.version_id])

    assert seen(replay, stopped) == {served.version_id: Standing.SERVED}

    replay.settle([stopped.version_id], {stopped.version_id: Verdict.ACCEPT})

    assert seen(replay, stopped) == {stopped.version_id: Standing.SERVED, served.version_id: Standing.SERVED}


def test_a_new_verdict_counts_though_it_is_not_recorded(shelf: Shelf) -> None:
    served = kept(shelf, "b.md", Verdict.ACCEPT)
    replay = ReplayedHistory(shelf.ledger, [served.version_id])

    replay.settle([served.version_id], {served.version_id: Verdict.REJECT})

    assert seen(replay, served) == {served.version_id: Standing.REJECTED}


def test_what_a_person_decided_stands_whatever_the_new_verdict(shelf: Shelf) -> None:
    decided = kept(shelf, "a.md", Verdict.QUARANTINE)
    replay = ReplayedHistory(shelf.ledger, [])

    replay.settle([decided.version_id], {decided.version_id: Verdict.ACCEPT})

    assert seen(replay, decided) == {decided.version_id: Standing.QUARANTINED}


def test_what_was_passed_over_stands_as_recorded(shelf: Shelf) -> None:
    stopped = kept(shelf, "a.md", Verdict.QUARANTINE)
    replay = ReplayedHistory(shelf.ledger, [stopped.version_id])

    replay.settle([stopped.version_id], {})

    assert seen(replay, stopped) == {stopped.version_id: Standing.QUARANTINED}
