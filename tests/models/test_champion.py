"""What was promoted is in use, once, by digest; other bytes are an error, and a setting wins and says so."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import events
from corpus_guard.models.champion import (
    Detector,
    active_digest,
    detector_folder,
    promote,
    promoted_digest,
    read_detector,
    store_detector,
)


def test_the_last_promotion_of_a_detector_holds_and_no_others(ledger: Ledger, storage: Storage) -> None:
    first, second = (store_detector(storage, Detector.JUDGE, content) for content in (b"one", b"two"))
    assert promoted_digest(ledger, Detector.JUDGE) is None, "kept is not promoted"

    assert promote(ledger, Detector.JUDGE, first, run_id="r", by="ada", version=1)
    assert not promote(ledger, Detector.JUDGE, first, run_id="again", by="ben", version=1)
    assert promote(ledger, Detector.JUDGE, second, run_id="r", by="ada", version=2)
    assert promote(ledger, Detector.JUDGE, first, run_id="back", by="ben", version=1)

    assert promoted_digest(ledger, Detector.JUDGE) == first
    assert promoted_digest(ledger, Detector.FILTER) is promoted_digest(ledger, Detector.PROBE) is None
    found = ledger.rows(sa.select(events).where(events.c.kind == "promoted").order_by(events.c.seq))
    assert [(one.subject, one.run_id, one.body["by"], one.body["digest"]) for one in found] == [
        ("judge", "r", "ada", first),
        ("judge", "r", "ada", second),
        ("judge", "back", "ben", first),
    ]


def test_a_file_that_is_not_what_was_kept_is_an_error(storage: Storage) -> None:
    digest = store_detector(storage, Detector.FILTER, b"model")
    assert read_detector(storage, Detector.FILTER, digest) == b"model"
    with pytest.raises(Inconsistent, match="is missing"):
        read_detector(storage, Detector.JUDGE, digest)  # a filter is no judge

    storage.write(f"{detector_folder(Detector.FILTER, digest)}/filter.json", b"another")

    with pytest.raises(Inconsistent, match=rf"SHA-256 is .*the ledger has {digest[:16]}.*promote another"):
        read_detector(storage, Detector.FILTER, digest)


def test_a_file_that_a_setting_names_wins_and_that_is_logged(
    sqlite_ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    named = Path("own.json")
    with caplog.at_level(logging.WARNING):
        assert active_digest(Detector.JUDGE, named, sqlite_ledger) is None
        assert active_digest(Detector.JUDGE, None, None) is None
        assert caplog.messages == [], "nothing was promoted that it could hide"
        promote(sqlite_ledger, Detector.JUDGE, "a" * 64, run_id="r", by="ada")

        assert active_digest(Detector.JUDGE, None, sqlite_ledger) == "a" * 64
        assert active_digest(Detector.JUDGE, named, sqlite_ledger) is None

    assert caplog.messages == [
        "CORPUS_GUARD_JUDGE_MODEL names the judge to use; the promoted one, aaaaaaaaaaaaaaaa, is not used"
    ]
