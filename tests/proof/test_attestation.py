"""What is attested is what is served; what was changed on the way does not verify."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner

from corpus_guard.domain import Verdict, Version
from corpus_guard.errors import Inconsistent, Misuse, UnknownSubject
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import decisions, publications, versions
from corpus_guard.proof.attestation import (
    PAYLOAD_TYPE,
    PREDICATE,
    STATEMENT,
    attest,
    build_statement,
    verify_attestation,
)
from material import Shelf, a_version

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
SECRET = "the combination of the safe is 7-31-9"

Made = dict[str, Any]


@pytest.fixture
def served(lite_shelf: Shelf) -> Version:
    version = a_version("pumps.md", (f"{SECRET}. ", "The old quay."), declared={"title": SECRET})
    lite_shelf.serve(version)
    return version


@pytest.fixture
def envelope(lite_shelf: Shelf, served: Version) -> Made:
    return attest(lite_shelf.ledger, served.version_id, KEY)


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for one in value for number in numbers(one)]
    return [value] if isinstance(value, float) else []


def signed(content: Any, payload_type: str = PAYLOAD_TYPE, key: Ed25519PrivateKey = KEY) -> Made:
    made = Envelope(content if isinstance(content, bytes) else json.dumps(content).encode(), payload_type, {})
    made.sign(CryptoSigner(key))
    return dict(made.to_dict())


def test_a_statement_names_the_bytes_and_everything_that_was_published_of_them(shelf: Shelf) -> None:
    version = a_version()
    shelf.serve(version)

    found = verify_attestation(attest(shelf.ledger, version.version_id, KEY), KEY.public_key())

    assert (found["_type"], found["predicateType"]) == (STATEMENT, PREDICATE)
    assert found["subject"] == [{"name": "pumps.md", "digest": {"sha256": version.stamp.content_sha256}}]
    predicate = found["predicate"]
    assert (predicate["doc_id"], predicate["version_id"]) == (version.doc_id, version.version_id)
    assert predicate["text_sha256"] == version.text_sha256
    assert (predicate["stamp"]["source"], predicate["stamp"]["fetched_by"]) == ("harbour", "corpus-guard/0.1.0")
    judgement = predicate["judgement"]
    assert (judgement["verdict"], judgement["risk"], judgement["policy_digest"]) == ("accept", "0.1000", "0" * 64)
    assert (judgement["findings"], judgement["run_id"]) == ([], "run-1")
    assert predicate["decision"] is None
    records = shelf.in_chroma()
    assert [(one["collection"], one["chunk_id"]) for one in predicate["chunks"]] == [
        (shelf.store.collection_name(version.stamp.trust), chunk.chunk_id) for chunk in version.chunks
    ]
    for one in predicate["chunks"]:
        record = records[one["collection"], one["chunk_id"]]
        assert (one["vector_sha256"], one["metadata_sha256"]) == (record.vector_sha256, record.metadata_sha256)


def test_a_statement_holds_no_text_and_no_float(lite_shelf: Shelf, served: Version) -> None:
    made = build_statement(lite_shelf.ledger, served.version_id)

    assert SECRET not in json.dumps(made)
    assert numbers(made) == []
    assert numbers({"a": [1, {"b": 0.5}]}) == [0.5]


def test_attesting_twice_gives_the_same_bytes(lite_shelf: Shelf, served: Version, envelope: Made) -> None:
    assert attest(lite_shelf.ledger, served.version_id, KEY) == envelope


def test_a_person_who_released_it_is_named(lite_shelf: Shelf) -> None:
    version = a_version()
    lite_shelf.record((version, Verdict.QUARANTINE))
    when = now()
    lite_shelf.ledger.execute(
        decisions.insert().values(
            decision_id="d1",
            version_id=version.version_id,
            content_sha256=version.stamp.content_sha256,
            verdict="release",
            reviewer="ada",
            reason="looked at it",
            policy_digest="1" * 64,
            decided_at=when,
            applied_at=when,
        )
    )
    lite_shelf.serve(version)  # judged again: the decision on these bytes stands

    predicate = build_statement(lite_shelf.ledger, version.version_id)["predicate"]

    assert predicate["judgement"]["state"] == "released"
    assert predicate["decision"] == {
        "verdict": "release", "reviewer": "ada", "policy_digest": "1" * 64, "decided_at": when.isoformat(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "state"), [(Verdict.QUARANTINE, "is quarantined; expected"), (Verdict.REJECT, "is rejected; expected")]
)
def test_what_was_not_let_in_is_not_attested(lite_shelf: Shelf, verdict: Verdict, state: str) -> None:
    version = a_version()
    lite_shelf.record((version, verdict))

    with pytest.raises(Misuse, match=state):
        attest(lite_shelf.ledger, version.version_id, KEY)


def test_what_is_not_read_back_yet_is_not_attested(lite_shelf: Shelf) -> None:
    version = a_version()
    lite_shelf.accept(version)

    with pytest.raises(Misuse, match="0 of 2 chunks"):
        attest(lite_shelf.ledger, version.version_id, KEY)
    lite_shelf.drain()
    lite_shelf.ledger.execute(
        publications.update().where(publications.c.chunk_id == version.chunks[0].chunk_id).values(state="retiring")
    )
    with pytest.raises(Misuse, match="1 of 2 chunks"):
        attest(lite_shelf.ledger, version.version_id, KEY)


def test_what_is_served_no_longer_is_not_attested(lite_shelf: Shelf, served: Version) -> None:
    newer = a_version("pumps.md", ("Other words.",), minute=5)
    lite_shelf.accept(newer)
    with pytest.raises(Misuse, match=f"version {newer.version_id} is served instead"):
        attest(lite_shelf.ledger, served.version_id, KEY)

    lite_shelf.retire(newer.doc_id)
    with pytest.raises(Misuse, match="its document was retired"):
        attest(lite_shelf.ledger, newer.version_id, KEY)


def test_a_version_without_chunks_is_not_served(lite_shelf: Shelf) -> None:
    version = a_version("empty.md", ())
    lite_shelf.serve(version)

    with pytest.raises(Misuse, match="0 of 0 chunks"):
        attest(lite_shelf.ledger, version.version_id, KEY)


def test_the_state_decides_even_where_everything_is_published(lite_shelf: Shelf, served: Version) -> None:
    lite_shelf.ledger.execute(versions.update().values(state="quarantined"))

    with pytest.raises(Misuse, match="is quarantined; expected"):
        attest(lite_shelf.ledger, served.version_id, KEY)


def test_an_unknown_version_is_named(lite_shelf: Shelf) -> None:
    with pytest.raises(UnknownSubject, match="f" * 32):
        attest(lite_shelf.ledger, "f" * 32, KEY)


def test_verifying_leaves_the_envelope_as_it_was(envelope: Made) -> None:
    before = copy.deepcopy(envelope)

    first = verify_attestation(envelope, KEY.public_key())

    assert envelope == before
    assert verify_attestation(envelope, KEY.public_key()) == first
    assert verify_attestation(json.loads(json.dumps(envelope)), KEY.public_key()) == first


def _payload(envelope: Made) -> Made:
    content = json.loads(base64.b64decode(envelope["payload"]))
    content["subject"][0]["digest"]["sha256"] = "a" * 64
    return {**envelope, "payload": base64.b64encode(json.dumps(content).encode()).decode()}


def _bit(envelope: Made) -> Made:
    raw = bytearray(base64.b64decode(envelope["payload"]))
    raw[len(raw) // 2] ^= 1
    return {**envelope, "payload": base64.b64encode(raw).decode()}


def _signature(envelope: Made) -> Made:
    (one,) = envelope["signatures"]
    raw = bytearray(base64.b64decode(one["sig"]))
    raw[0] ^= 1
    return {**envelope, "signatures": [{**one, "sig": base64.b64encode(raw).decode()}]}


@pytest.mark.parametrize(
    "change",
    [
        _payload,
        _bit,
        _signature,
        lambda envelope: {**envelope, "payloadType": "text/plain"},
        lambda envelope: {**envelope, "payloadType": PAYLOAD_TYPE + " "},
        lambda envelope: {**envelope, "signatures": []},
        lambda envelope: {**envelope, "signatures": envelope["signatures"] * 2},
        lambda envelope: {**envelope, "signatures": [{"keyid": "x"}]},
        lambda envelope: {**envelope, "signatures": "none"},
        lambda envelope: {**envelope, "signatures": None},
        lambda envelope: {**envelope, "payload": "§"},
        lambda envelope: {**envelope, "payload": 7},
        lambda envelope: {**envelope, "payloadType": None},
        lambda envelope: {"payload": envelope["payload"]},
        lambda envelope: {},
    ],
)
def test_whatever_was_changed_is_refused(envelope: Made, change: Callable[[Made], Made]) -> None:
    with pytest.raises(Inconsistent, match="attestation: "):
        verify_attestation(change(copy.deepcopy(envelope)), KEY.public_key())


def test_an_unsigned_envelope_is_called_so(envelope: Made) -> None:
    with pytest.raises(Inconsistent, match="carries no signature"):
        verify_attestation({**envelope, "signatures": []}, KEY.public_key())


def test_another_key_vouches_for_nothing(envelope: Made) -> None:
    with pytest.raises(Inconsistent, match="did not sign"):
        verify_attestation(envelope, OTHER.public_key())


def test_the_key_id_is_a_hint_that_decides_nothing(envelope: Made) -> None:
    forged = signed(json.loads(base64.b64decode(envelope["payload"])), key=OTHER)
    forged["signatures"][0]["keyid"] = envelope["signatures"][0]["keyid"]
    with pytest.raises(Inconsistent, match="did not sign"):
        verify_attestation(forged, KEY.public_key())

    renamed = {**envelope, "signatures": [{**envelope["signatures"][0], "keyid": "another name"}]}
    assert verify_attestation(renamed, KEY.public_key())["_type"] == STATEMENT


def test_one_good_signature_among_others_is_enough(envelope: Made) -> None:
    other = signed(b"other", key=OTHER)["signatures"]

    assert verify_attestation({**envelope, "signatures": other + envelope["signatures"]}, KEY.public_key())


@pytest.mark.parametrize(
    "content",
    [
        b"no json",
        [],
        {"_type": STATEMENT},
        {"_type": STATEMENT, "predicateType": "https://slsa.dev/provenance/v1"},
        {"_type": "https://in-toto.io/Statement/v0.1", "predicateType": PREDICATE},
    ],
)
def test_what_our_key_signed_for_another_purpose_is_no_attestation(content: Any) -> None:
    with pytest.raises(Inconsistent, match="expected a"):
        verify_attestation(signed(content), KEY.public_key())


def test_our_statement_under_another_type_is_no_attestation(envelope: Made) -> None:
    content = base64.b64decode(envelope["payload"])

    with pytest.raises(Inconsistent, match="expected payload type"):
        verify_attestation(signed(content, "application/json"), KEY.public_key())


def test_the_ledger_is_read_and_never_written(lite_shelf: Shelf, served: Version) -> None:
    def rows() -> list[Any]:
        return lite_shelf.ledger.rows(sa.select(versions))

    before = rows()
    attest(lite_shelf.ledger, served.version_id, KEY)

    assert rows() == before
