"""Signed statements of how a document came into the corpus: in-toto Statements in DSSE envelopes.

Rules
    * only a served version can be attested: accepted or released, the one its document points to, every chunk
      read back;
    * the statement is about bytes: its subject is the SHA-256 of what was fetched, and the name is only a
      name;
    * it holds hashes, ids and facts, no text, nothing that the document declares about itself, and no
      floating-point number;
    * two statements without a change in between are equal byte for byte: they hold no time of signing;
    * a verifier decides by its own public key: the key id in an envelope is a hint by whoever wrote the
      envelope (DSSE, protocol); type and payload are both signed, so neither can be replaced.

Not stated: that the document is harmless, that it is still served, or that nothing else is. The manifest and
the signed log are for that.

Sources: in-toto Attestation Framework, Statement v1; DSSE v1.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import orjson
import sqlalchemy as sa
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import FormatError
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]  # 1.6.0 has no __all__

from corpus_guard.domain import canonical_json, sha256_bytes
from corpus_guard.errors import Inconsistent, Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import SERVABLE_STATES, PublicationState
from corpus_guard.ledger.tables import chunks, decision_stands, decisions, documents, findings, publications, versions
from corpus_guard.proof.log.note import VerifierKey

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://corpus-guard.dev/attestation/ingestion/v1"
"""An identifier that says how the predicate is to be read; nothing is fetched from there."""

JsonObject: TypeAlias = dict[str, object]
"""A JSON object; its values are strings, integers, null, lists and objects."""


def attest(ledger: Ledger, version_id: str, signer: Ed25519PrivateKey) -> JsonObject:
    """Sign a statement of how a served version came into the corpus.

    Args:
        version_id: all 32 digits.

    Returns:
        A DSSE envelope, JSON-ready: ``payload`` (base64), ``payloadType``, ``signatures``.

    Raises:
        UnknownSubject: the ledger has no such version.
        Misuse: the version is not served.
    """
    envelope = Envelope(canonical_json(build_statement(ledger, version_id)), PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(signer))
    signed: JsonObject = envelope.to_dict()
    return signed


def verify_attestation(envelope: Mapping[str, object], public_key: Ed25519PublicKey) -> JsonObject:
    """Return the statement in an envelope, after checking that `public_key` signed it.

    Raises:
        Inconsistent: it is not an envelope, has no signature by this key over this type and payload, or holds
            another kind of statement.
    """
    try:
        # Envelope.from_dict changes the signatures of its argument (securesystemslib 1.6.0).
        opened = Envelope.from_dict(copy.deepcopy(dict(envelope)))
        content = opened.pae()
    except (KeyError, TypeError, ValueError, AttributeError, FormatError) as error:
        raise Inconsistent(
            "attestation: expected a DSSE envelope with payload, payloadType and signatures, got something "
            f"else ({type(error).__name__}); ask for the file again"
        ) from error
    if not opened.signatures:
        raise Inconsistent("attestation: carries no signature, so nobody vouches for it; ask for the signed file")
    signatures = [bytes.fromhex(signature.signature) for signature in opened.signatures.values()]
    if not any(_has_signed(public_key, signature, content) for signature in signatures):
        raise Inconsistent(
            "attestation: the given public key did not sign this type and payload; either the file was "
            "changed, or another key signed it. Compare the key with the one that the corpus's owner "
            "publishes"
        )
    return _parse_statement(opened)


def check_attestation(envelope: bytes, keys: Sequence[VerifierKey], content: bytes | None = None) -> JsonObject:
    """Return the statement of an attestation that one of `keys` signed.

    Args:
        keys: trusted public keys, in the form in which the log's keys are exchanged.
        content: bytes of the document; None: they are not compared.

    Raises:
        Inconsistent: it is not an envelope, none of the keys signed it, or it is about other bytes.
    """
    try:
        parsed = orjson.loads(envelope)
    except orjson.JSONDecodeError:
        parsed = None
    failure = Inconsistent("attestation: no key was given to check it with")
    for key in keys:
        try:
            statement = verify_attestation(
                parsed if isinstance(parsed, dict) else {}, Ed25519PublicKey.from_public_bytes(key.public)
            )
        except Inconsistent as error:
            failure = error
            continue
        digests = [subject["digest"]["sha256"] for subject in cast("list[dict[str, Any]]", statement["subject"])]
        if content is not None and digests != [sha256_bytes(content)]:
            raise Inconsistent(
                f"attestation: it is about bytes with SHA-256 {digests[0]}, and the given file has {sha256_bytes(content)}"
            )
        return statement
    raise failure


def build_statement(ledger: Ledger, version_id: str) -> JsonObject:
    """Return the in-toto Statement about a served version; raises what `attest` raises."""
    with ledger.read() as connection:
        row = _served_version(connection, version_id)
        codes = connection.scalars(
            sa.select(findings.c.code).where(findings.c.version_id == version_id).order_by(findings.c.ordinal)
        ).all()
        decided = (
            connection.execute(
                sa.select(decisions)
                .where(decisions.c.version_id == version_id, decisions.c.applied_at.is_not(None), decision_stands())
                .order_by(decisions.c.decided_at.desc())
                .limit(1)
            )
            .mappings()
            .first()
        )
        published = _published_chunks(connection, version_id)
    stamp = {name: value for name, value in row.stamp.items() if name != "declared"}
    return {
        "_type": STATEMENT,
        "subject": [{"name": stamp["uri"], "digest": {"sha256": row.content_sha256}}],
        "predicateType": PREDICATE,
        "predicate": {
            "doc_id": row.doc_id,
            "version_id": version_id,
            "text_sha256": row.text_sha256,
            "stamp": stamp,
            "judgement": {
                "state": row.state,
                "verdict": row.verdict,
                "risk": f"{row.risk:.4f}",
                "policy_digest": row.policy_digest,
                "judged_at": row.judged_at.isoformat(),
                "run_id": row.run_id,
                "findings": list(codes),
                "skipped": [{"check": check, "reason": reason} for check, reason in row.skipped],
            },
            "decision": _decision(decided) if decided else None,
            "chunks": published,
        },
    }


def _served_version(connection: sa.Connection, version_id: str) -> sa.Row[tuple[object, ...]]:
    statement: sa.Select[tuple[object, ...]] = (
        sa.select(versions, documents.c.target_version, documents.c.retired_at)
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .where(versions.c.version_id == version_id)
    )
    row = connection.execute(statement).first()
    if row is None:
        raise UnknownSubject(
            f"version {version_id!r} is not in the ledger; `guard export findings` and `guard quarantine` show ids"
        )
    problem = ""
    if row.state not in SERVABLE_STATES:
        problem = f"is {row.state}"
    elif row.target_version != version_id:
        reason = (
            "its document was retired"
            if row.retired_at
            else f"version {row.target_version or 'none'} is served instead"
        )
        problem = f"is {row.state}, but {reason}"
    if problem:
        raise Misuse(f"version {version_id} {problem}; expected a served version, because only those can be attested")
    return row


def _published_chunks(connection: sa.Connection, version_id: str) -> list[JsonObject]:
    rows = connection.execute(
        sa.select(
            chunks.c.chunk_id,
            chunks.c.ordinal,
            chunks.c.text_sha256,
            *publications.c["collection", "model", "vector_sha256", "metadata_sha256"],
        )
        .outerjoin(
            publications,
            sa.and_(publications.c.chunk_id == chunks.c.chunk_id, publications.c.state == PublicationState.PUBLISHED),
        )
        .where(chunks.c.version_id == version_id)
        .order_by(chunks.c.ordinal, publications.c.collection)
    ).all()
    unpublished = sum(row.collection is None for row in rows)
    if unpublished or not rows:
        raise Misuse(
            f"version {version_id} has {len(rows) - unpublished} of {len(rows)} chunks in the collections; "
            "expected all, and at least one. Wait for the refresh to end, then attest again"
        )
    return [{str(name): value for name, value in row._mapping.items()} for row in rows]


def _decision(row: sa.RowMapping) -> JsonObject:
    return {
        "verdict": row["verdict"],
        "reviewer": row["reviewer"],
        "policy_digest": row["policy_digest"],
        "decided_at": row["decided_at"].isoformat(),
    }


def _has_signed(public_key: Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    # Not Envelope.verify: it ignores signatures with another key id, and that id is written by whoever wrote
    # the envelope.
    try:
        public_key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def _parse_statement(envelope: Envelope) -> JsonObject:
    if envelope.payload_type != PAYLOAD_TYPE:
        raise Inconsistent(f"attestation: expected payload type {PAYLOAD_TYPE}, got {envelope.payload_type!r}")
    try:
        statement: JsonObject = orjson.loads(envelope.payload)
        kinds = (statement["_type"], statement["predicateType"])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Inconsistent(
            f"attestation: expected an in-toto statement, got something else ({type(error).__name__})"
        ) from error
    if kinds != (STATEMENT, PREDICATE):
        raise Inconsistent(
            f"attestation: expected a {STATEMENT} with predicate {PREDICATE}, got {kinds[0]!r}, {kinds[1]!r}"
        )
    return statement
