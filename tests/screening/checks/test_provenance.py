from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_versions import FETCHED, a_version, changed

from corpus_guard import domain
from corpus_guard.domain import Severity, TrustLevel
from corpus_guard.screening.checks.provenance import Provenance, ProvenanceParams, parse_date

OPEN, REVIEWED, TRUSTED = TrustLevel.OPEN, TrustLevel.REVIEWED, TrustLevel.TRUSTED


def found(version=None, **stamp):
    version = version or a_version(**stamp)
    return {finding.code.removeprefix("provenance."): finding for _, finding in Provenance().run([version], None)}


def declared(pairs, trust=OPEN):
    findings = found(trust=trust, declared=pairs)
    for value in pairs.values():
        assert not any(value in finding.message for finding in findings.values() if len(value) > 5)
    return findings


def test_an_honest_version_has_no_findings():
    assert not found(
        modified_at=FETCHED - timedelta(days=3),
        declared={"title": "Pumps", "author": "Ana Reis", "created": "2024-05-01", "modified": "2025-01-02T10:00:00Z"},
    )


@pytest.mark.parametrize("field", ["owner", "source", "uri", "fetched_by", "run_id"])
@pytest.mark.parametrize("value", ["", "  \t"])
def test_a_stamp_that_lacks_something(field, value):
    assert found(**{field: value})["missing"].severity is Severity.HIGH


@pytest.mark.parametrize("value", ["", "0" * 63, "G" * 64, "A" * 64, "0" * 64 + "\n"])
def test_a_digest_that_is_none(value):
    assert found(content_sha256=value)["hash"].severity is Severity.HIGH


def test_ids_must_follow_from_source_place_and_bytes():
    honest = a_version()
    elsewhere = changed(honest, doc_id="0" * 32, version_id=domain.version_id("0" * 32, honest.stamp.content_sha256))
    for forged in (elsewhere, changed(honest, version_id="0" * 32)):
        assert found(forged)["identity"].severity is Severity.HIGH


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("text", {"size": 0}),
        ("text", {"size": -1}),
        ("", {"size": 5}),
        ("text", {"size": 0, "content_sha256": domain.sha256_bytes(b"")}),
    ],
)
def test_a_size_that_its_digest_or_text_contradicts(text, stamp):
    assert found(a_version(text, **stamp))["size"].severity is Severity.MEDIUM


def test_a_truly_empty_document_has_a_truthful_stamp():
    assert not found(a_version(""))


@pytest.mark.parametrize(
    ("ahead", "severity"),
    [(timedelta(hours=23), None), (timedelta(days=2), Severity.LOW), (timedelta(days=800), Severity.MEDIUM)],
)
def test_dates_past_the_fetch(ahead, severity):
    moment = FETCHED + ahead
    for findings in (found(modified_at=moment), declared({"published": moment.isoformat()})):
        assert findings["future"].severity is severity if severity else not findings


def test_an_interval_in_the_stamp_without_time_zone_is_taken_as_utc():
    assert not found(fetched_at=FETCHED.replace(tzinfo=None), modified_at=FETCHED)


def test_created_after_the_last_change():
    assert declared({"created": "2025-05-05", "modified": "2024-01-01"})["order"].severity is Severity.LOW
    assert not declared({"created": "2025-05-05", "modified": "2025-05-04T12:00:00Z"})  # time zones


def test_a_file_from_before_there_were_files():
    assert declared({"/CreationDate": "D:19040101000000Z"})["ancient"].severity is Severity.LOW
    assert not declared({"published": "1897"})  # a scanned book


def test_a_date_that_cannot_be_read_is_a_note():
    assert declared({"date": "last Tuesday"})["unreadable_date"].severity is Severity.INFO
    assert not declared({"date": "  "})


@pytest.mark.parametrize("key", ["trust", "Trust-Level", "guard:trust", "doc_id", "version_id", "chunk_id"])
def test_an_open_document_that_gives_itself_a_standing(key):
    assert declared({key: "trusted"})["claims_trust"].severity is Severity.MEDIUM
    assert declared({key: "high as the sky"}, trust=TRUSTED)["contradiction"].severity is Severity.LOW


def test_true_claims_are_nothing_and_false_ones_about_the_source_are_low():
    assert not declared({"trust": "Open", "source": "handbook", "owner": "harbour office"})
    assert declared({"owner": "the mayor"})["contradiction"].severity is Severity.LOW


@pytest.mark.parametrize(
    "pairs",
    [
        {"author": "IT Security Team"},
        {"dc:publisher": "Legal"},
        {"team": "Admins"},
        {"verified": "yes"},
        {"reviewed_by": "A. Reis"},
    ],
)
def test_an_open_document_that_speaks_with_authority(pairs):
    assert declared(pairs)["claims_authority"].severity is Severity.LOW
    assert not declared(pairs, trust=REVIEWED)


def test_authority_is_looked_for_in_whole_words_of_authors_only():
    assert not declared({"author": "Administrativa Boardman", "title": "Security and legal matters"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-05", datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024/5/3", datetime(2024, 5, 3, tzinfo=UTC)),
        ("2024-05-03T10:00:00+02:00", datetime(2024, 5, 3, 8, tzinfo=UTC)),
        ("2024-05-03 10:00:00", datetime(2024, 5, 3, 10, tzinfo=UTC)),
        ("D:20240503100000+02'00'", datetime(2024, 5, 3, 8, tzinfo=UTC)),
        ("D:20240503", datetime(2024, 5, 3, tzinfo=UTC)),
        ("D:20240503100000Z", datetime(2024, 5, 3, 10, tzinfo=UTC)),
        ("Fri, 03 May 2024 10:00:00 -0500", datetime(2024, 5, 3, 15, tzinfo=UTC)),
        ("3 May 2024", datetime(2024, 5, 3, tzinfo=UTC)),
        ("May 3, 2024", datetime(2024, 5, 3, tzinfo=UTC)),
        ("03/04/2025", None),
        ("2024-13-01", None),
        ("D:20240230", None),
        ("٢٠٢٤-٠٥-٠٣", None),
        ("0000", None),
        ("9" * 200, None),
        ("0001-01-01T00:00:00+14:00", None),
        ("", None),
    ],
)
def test_dates_are_read_where_their_meaning_is_certain(text, expected):
    assert parse_date(text) == expected


@settings(max_examples=300)
@given(
    st.text(max_size=80)
    | st.from_regex(r"D:\d{0,14}[+-]?\d{0,4}'?", fullmatch=True)
    | st.from_regex(r"[\d\-/:T., +]{0,30}")
)
def test_no_declared_value_raises(text):
    for key in ("created", "modified", "trust", "author", text):
        found(declared={key: text})


def test_the_digest_follows_the_parameters():
    assert Provenance().digest == Provenance().digest != Provenance(ProvenanceParams(far_days=9)).digest
