"""The history while stored versions are judged anew: what waits is hidden, what was judged shows its new standing."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("recorded", "is_judged_anew", "verdict", "standing"),
    [
        (Verdict.ACCEPT, True, Verdict.REJECT, Standing.REJECTED),
        (Verdict.QUARANTINE, False, Verdict.ACCEPT, Standing.QUARANTINED),
        (Verdict.QUARANTINE, True, None, Standing.QUARANTINED),
    ],
    ids=["a new verdict counts though it is not recorded", "a person's decision stands", "passed over"],
)
def test_what_stands_after_judging_anew(
    shelf: Shelf, recorded: Verdict, is_judged_anew: bool, verdict: Verdict | None, standing: Standing
) -> None:
    version = kept(shelf, "a.md", recorded)
    replay = ReplayedHistory(shelf.ledger, [version.version_id] if is_judged_anew else [])

    replay.settle([version.version_id], {version.version_id: verdict} if verdict else {})

    assert seen(replay, version) == {version.version_id: standing}
