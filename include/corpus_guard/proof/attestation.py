"""A signed statement of how one document came into the corpus: an in-toto Statement in a DSSE envelope.

Rules
    * only what is served can be attested: accepted or released, the version its document points to, every chunk read back;
    * the statement is about bytes: its subject is the SHA-256 of what was fetched, and the name is only a name;
    * it holds hashes, ids and facts, neither a text nor what the document declares of itself, and no floating-point number;
    * what is attested twice without a change in between is equal byte for byte: no time of signing is in it;
    * a verifier decides by its own public key: the key id in an envelope is a hint by whoever wrote the envelope (DSSE, protocol);
      type and payload are both signed, so neither can be swapped.

What it does not say: that the document is harmless, that it is still served, or that nothing else is. For that there are the manifest and
the signed log.

Sources: in-toto Attestation Framework, Statement v1; DSSE v1.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

import orjson
import sqlalchemy as sa
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import FormatError
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]  # 1.6.0 has no __all__

from corpus_guard.domain import canonical_json
from corpus_guard.errors import Inconsistent, Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import chunks, decisions, documents, findings, publications, standing, versions

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://corpus-guard.dev/attestation/ingestion/v1"
"""An identifier that says how the predicate is to be read; nothing is fetched from there."""

SERVED: Final = ("accepted", "released")


def attest(ledger: Ledger, version_id: str, signer: Ed25519PrivateKey) -> dict[str, Any]:
    """Sign how a served version came in.

    Args:
        ledger: the ledger.
        version_id: all 32 digits.
        signer: the key that vouches for it.

    Returns:
        A DSSE envelope, JSON-ready: ``payload`` (base64), ``payloadType``, ``signatures``.

    Raises:
        UnknownSubject: the ledger has no such version.
        Misuse: the version is not served; says what it is instead.
    """
    envelope = Envelope(canonical_json(statement(ledger, version_id)), PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(signer))
    made: dict[str, Any] = envelope.to_dict()
    return made


def verify_attestation(envelope: Mapping[str, Any], public_key: Ed25519PublicKey) -> dict[str, Any]:
    """What `public_key` signed: the statement.

    Raises:
        Inconsistent: no envelope, no signature, none by this key over this type and payload, or a statement of another kind.
    """
    try:
        # Envelope.from_dict rewrites the signatures of what it is given (securesystemslib 1.6.0).
        opened = Envelope.from_dict(copy.deepcopy(dict(envelope)))
        content = opened.pae()
    except (KeyError, TypeError, ValueError, AttributeError, FormatError) as error:
        raise Inconsistent(
            f"attestation: expected a DSSE envelope with payload, payloadType and signatures, found something else "
            f"({type(error).__name__}); ask for the file again"
        ) from error
    if not opened.signatures:
        raise Inconsistent("attestation: carries no signature, so nobody vouches for it; ask for the signed file")
    if not any(_signed(public_key, bytes.fromhex(one.signature), content) for one in opened.signatures.values()):
        raise Inconsistent(
            "attestation: the given public key did not sign this type and payload; either it was changed, or another key signed it. "
            "Compare the key with the one the corpus's owner publishes"
        )
    return _statement_in(opened)


def statement(ledger: Ledger, version_id: str) -> dict[str, Any]:
    """The in-toto Statement about a served version; raises like `attest`."""
    with ledger.read() as connection:
        row = _served(connection, version_id)
        codes = connection.scalars(
            sa.select(findings.c.code).where(findings.c.version_id == version_id).order_by(findings.c.ordinal)
        ).all()
        decided = (
            connection.execute(
                sa.select(decisions)
                .where(decisions.c.version_id == version_id, decisions.c.applied_at.is_not(None), standing())
                .order_by(decisions.c.decided_at.desc())
                .limit(1)
            )
            .mappings()
            .first()
        )
        published = _published(connection, version_id)
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


def _served(connection: sa.Connection, version_id: str) -> Any:
    row = connection.execute(
        sa.select(versions, documents.c.target_version, documents.c.retired_at)
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .where(versions.c.version_id == version_id)
    ).first()
    if row is None:
        raise UnknownSubject(
            f"version {version_id!r} is not in the ledger; `guard export findings` and `guard quarantine` show ids"
        )
    refusal = ""
    if row.state not in SERVED:
        refusal = f"is {row.state}"
    elif row.target_version != version_id:
        gone = (
            "its document was retired"
            if row.retired_at
            else f"version {row.target_version or 'none'} is served instead"
        )
        refusal = f"is {row.state}, but {gone}"
    if refusal:
        raise Misuse(f"version {version_id} {refusal}; expected one that is served, because only that can be attested")
    return row


def _published(connection: sa.Connection, version_id: str) -> list[dict[str, Any]]:
    rows = connection.execute(
        sa.select(
            chunks.c.chunk_id,
            chunks.c.ordinal,
            chunks.c.text_sha256,
            publications.c.collection,
            publications.c.model,
            publications.c.vector_sha256,
            publications.c.metadata_sha256,
        )
        .outerjoin(
            publications, sa.and_(publications.c.chunk_id == chunks.c.chunk_id, publications.c.state == "published")
        )
        .where(chunks.c.version_id == version_id)
        .order_by(chunks.c.ordinal, publications.c.collection)
    ).all()
    waiting = sum(row.collection is None for row in rows)
    if waiting or not rows:
        raise Misuse(
            f"version {version_id} has {len(rows) - waiting} of {len(rows)} chunks in the collections; expected all and at least one. "
            "Let the refresh end, then attest again"
        )
    return [{str(name): value for name, value in row._mapping.items()} for row in rows]


def _decision(row: sa.RowMapping) -> dict[str, Any]:
    return {
        "verdict": row["verdict"],
        "reviewer": row["reviewer"],
        "policy_digest": row["policy_digest"],
        "decided_at": row["decided_at"].isoformat(),
    }


def _signed(public_key: Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    # Not Envelope.verify: it passes over signatures with another key id, and the id is written by whoever wrote the envelope.
    try:
        public_key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def _statement_in(envelope: Envelope) -> dict[str, Any]:
    if envelope.payload_type != PAYLOAD_TYPE:
        raise Inconsistent(f"attestation: expected payload type {PAYLOAD_TYPE}, found {envelope.payload_type!r}")
    try:
        found: dict[str, Any] = orjson.loads(envelope.payload)
        kinds = (found["_type"], found["predicateType"])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Inconsistent(
            f"attestation: expected an in-toto statement, found none ({type(error).__name__})"
        ) from error
    if kinds != (STATEMENT, PREDICATE):
        raise Inconsistent(
            f"attestation: expected a {STATEMENT} with predicate {PREDICATE}, found {kinds[0]!r}, {kinds[1]!r}"
        )
    return found
