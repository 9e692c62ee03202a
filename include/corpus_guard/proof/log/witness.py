"""Witnesses: independent parties that cosign a log's heads as long as each head continues the last.

A witness has its own key and its own memory.

Rules for the witness
    * it identifies a log by its origin and the keys that it was told to trust for it; it cosigns nothing
      else;
    * a head is cosigned only as a continuation of the newest one that it cosigned: the same size with the
      same root, or proved from exactly that size; a request about any other size is answered with its own
      size;
    * comparing and remembering are one transaction, and both are on disk before it answers;
    * a head that a trusted key signed and that is no continuation is kept, with the head it contradicts, and
      logged as an error: two signed roots of one size prove everywhere that history was rewritten;
    * every cosigned head is also appended to ``heads.log``: a database that is behind it was restored from an
      older copy, and the witness does not start, because it would cosign a second history.

Rules for the log that submits (`submit`)
    * only a cosignature that verifies under the configured key counts;
    * if the witness names another size, the log proves from that size, once; a size larger than its own means
      that its own end was cut.

Not done here: the first head of a log is accepted as it is, because no witness can know what was rewritten
before. A witness whose database *and* ``heads.log`` are restored together forgets unnoticed; keep a copy of
``heads.log`` elsewhere. Anybody can send a signed head with a wrong proof, so a failed proof alone accuses
nobody.

Sources: C2SP tlog-witness (with C2SP pull request 280: 422 for another root at the same size), C2SP
tlog-cosignature.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from corpus_guard.errors import Inconsistent, Infrastructure, Misuse, SettingsError
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.log.checkpoint import Checkpoint, EmptyRootWrong, parse_checkpoint
from corpus_guard.proof.log.key_files import read_private_key, write_durably, write_private_key
from corpus_guard.proof.log.merkle import HASH_BYTES, ProofInvalid, verify_consistency
from corpus_guard.proof.log.note import (
    COSIGNATURE,
    ED25519,
    MAX_NOTE_BYTES,
    BadSignature,
    Note,
    NoteInvalid,
    Signer,
    VerifierKey,
    decode_base64,
    encode_base64,
    parse_note,
)
from corpus_guard.proof.log.witness_store import CosignedHead, WitnessStore

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

MAX_PROOF_LINES: Final = 63  # C2SP tlog-witness
MAX_REQUEST_BYTES: Final = MAX_NOTE_BYTES + 64 * (MAX_PROOF_LINES + 1)
RESPONSE_SECONDS: Final = 30  # a log waits this long for a witness
_OLD_SIZE = re.compile(rb"old (0|[1-9][0-9]{0,18})", re.ASCII)


class WitnessRefused(Inconsistent):
    """A witness does not confirm this history.

    Attributes:
        kind: ``rolled_back`` (it cosigned a longer log), ``forked`` (it cosigned another one) or
            ``bad_signature`` (its key did not sign the response).
    """

    def __init__(self, kind: DeviationKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class WitnessUnavailable(Infrastructure):
    """A witness does not answer."""


@dataclass(frozen=True, slots=True)
class WitnessResponse:
    """HTTP response of a witness."""

    status: int
    body: str
    media_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Request:
    old_size: int  # leaves
    proof: tuple[bytes, ...]
    note: Note
    head: Checkpoint


class Witness:
    """A witness whose key and memory are in a folder."""

    def __init__(self, folder: Path) -> None:
        """Open what `create` made.

        Raises:
            SettingsError: there is no witness, or others can read its key.
            Inconsistent: its database is behind ``heads.log``: it was restored from an older copy.
        """
        public = folder / "witness.pub"
        if not public.exists():
            raise SettingsError(
                f"no witness in {folder}: create one with `guard witness init`, or restore the whole folder"
            )
        self.verifier = VerifierKey.parse(public.read_text(encoding="utf-8"))
        self._signer = Signer(self.verifier.name, read_private_key(folder / "witness.pem"), COSIGNATURE)
        if self._signer.verifier != self.verifier:
            raise SettingsError(
                f"{folder}: witness.pem is not the private half of {public.name}; restore both from the same backup"
            )
        self.store = WitnessStore(folder)

    @classmethod
    def create(cls, folder: Path, name: str) -> Self:
        """Create a witness with a new key and an empty memory.

        Args:
            folder: created with mode 0700.
            name: name of its key, without spaces and plus signs.

        Raises:
            Misuse: the folder holds a witness already, whose memory would be lost.
            SettingsError: a key cannot have this name.
        """
        if (folder / "witness.pem").exists():
            raise Misuse(f"{folder} holds a witness already, and its memory must not be lost; choose another folder")
        signer = Signer(name, Ed25519PrivateKey.generate(), COSIGNATURE)
        vkey = signer.verifier.encode()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        WitnessStore.create(folder)
        write_durably(folder / "witness.pub", f"{vkey}\n".encode(), 0o644)
        write_private_key(folder / "witness.pem", signer.private)
        return cls(folder)

    def trust(self, origin: str, vkeys: Sequence[str]) -> None:
        """Cosign heads of the log `origin` that one of these keys signed, and of no other key.

        Raises:
            SettingsError: a key is malformed, not a log's, or named after another log.
        """
        keys = [VerifierKey.parse(vkey) for vkey in vkeys]
        if not keys or any(key.name != origin or key.algorithm != ED25519 for key in keys):
            raise SettingsError(
                f"log {origin}: expected one or more keys with its name, of a log and not of a witness; use its log.pub"
            )
        self.store.trust(origin, [key.encode() for key in keys])

    def add_checkpoint(self, body: bytes) -> WitnessResponse:  # noqa: PLR0911 - one return for each row of the status table
        """Cosign a head, or say why not (C2SP tlog-witness, add-checkpoint).

        Args:
            body: ``old <size>``, the lines of the proof, an empty line, the signed head.

        Returns:
            200 with the cosignature; 400 malformed; 403 no trusted key signed it; 404 no such log; 409 with
            the remembered size, if `old` is another one; 422 no continuation.

        Raises:
            Inconsistent: the database lost heads that were cosigned; nothing is cosigned.
        """
        try:
            request = _parse(body)
        except EmptyRootWrong as error:
            return WitnessResponse(422, f"{error}\n")
        except NoteInvalid as error:
            return WitnessResponse(400, f"{error}\n")
        head = request.head
        keys = [VerifierKey.parse(vkey) for vkey in self.store.trusted_keys().get(head.origin, ())]
        if not keys:
            return WitnessResponse(404, "this witness trusts no log with this origin; run guard witness trust\n")
        try:
            signed = request.note.verified_by(keys)
        except BadSignature as error:
            return WitnessResponse(403, f"{error}\n")
        if not signed:
            return WitnessResponse(
                403,
                "no key that this witness trusts for the log signed the head; run guard witness trust with "
                "all keys of log.pub\n",
            )
        if request.old_size > head.size:
            return WitnessResponse(400, f"old size {request.old_size} is larger than size {head.size}\n")
        with self.store.transaction() as connection:
            newest = self.store.newest_head(connection, head.origin)
            size = newest["size"] if newest else 0
            if request.old_size != size:
                return WitnessResponse(409, f"{size}\n", "text/x.tlog.size")
            text = request.note.serialize()
            if contradiction := _contradiction(request, newest):
                log.error(
                    "WITNESS REFUSES: %s at size %d: %s. Both heads are kept, see guard witness show",
                    head.origin,
                    head.size,
                    contradiction,
                )
                against = newest["note"] if newest else ""
                self.store.record_refusal(connection, head, text, contradiction, against)
                return WitnessResponse(422, f"{contradiction}\n")
            cosignature = self._signer.sign(request.note.text)
            self.store.record_cosigned(connection, head, text, self.verifier.signing_time(cosignature))
        self.store.append(head)
        return WitnessResponse(200, cosignature.line)


def submit(url: str, note: str, old_size: int, prove: Callable[[int], Sequence[bytes]], key: VerifierKey) -> str:
    """Submit a head to a witness, and return the note with its cosignature below the others.

    Args:
        old_size: of the head that this witness cosigned last, in leaves; 0 if unknown.
        prove: returns the consistency proof from a size (1 or more) to the head; called only for sizes up to
            the head's.

    Raises:
        WitnessRefused: the witness cosigned a longer log or another one, or its response is not signed by
            `key`.
        WitnessUnavailable: the witness does not answer, or a proxy answers instead.
        SettingsError: the witness does not know the log, or trusts none of the keys that signed.
    """
    signed = parse_note(note)
    head = parse_checkpoint(signed.text)
    size, response = old_size, _post(url, note, old_size, head.size, prove)
    if response.status_code == 409:
        size = _parse_size(url, response)
        if size > head.size:
            raise WitnessRefused(
                DeviationKind.ROLLED_BACK,
                f"witness {key.name} cosigned size {size} of {head.origin}, and our log has size "
                f"{head.size}: it was rolled back. Restore the newer ledger before anything is signed",
            )
        response = _post(url, note, size, head.size, prove)
    if response.status_code == 200:
        return _add_cosignature(url, signed, response.text, key)
    if response.status_code == 422:
        raise WitnessRefused(
            DeviationKind.FORKED,
            f"witness {key.name} cosigned another history of {head.origin}: size {head.size} does not "
            f"continue its size {size}. Restore the ledger that was signed; `guard witness show` on the "
            "witness's machine shows both heads",
        )
    if response.status_code in {403, 404}:
        unknown_log = response.status_code == 404
        problem = "does not know the log" if unknown_log else "trusts none of the keys that signed the head of"
        raise SettingsError(
            f"witness {key.name} {problem} {head.origin}: on its machine, run `guard witness trust` with "
            "every line of log.pub"
        )
    raise WitnessUnavailable(
        f"witness {key.name} at {url} answered {response.status_code}, expected 200 with a cosignature; "
        "check its log, then run again"
    )


def _post(url: str, note: str, old_size: int, size: int, prove: Callable[[int], Sequence[bytes]]) -> httpx.Response:
    import httpx  # a deployment without witnesses need not load it

    proof = prove(old_size) if 0 < old_size < size else ()
    lines = "".join(encode_base64(node) + "\n" for node in proof)
    try:
        # Redirects are not followed (httpx's default): the head goes to no other place.
        return httpx.post(
            f"{url.rstrip('/')}/add-checkpoint",
            content=f"old {min(old_size, size)}\n{lines}\n{note}".encode(),
            headers={"Content-Type": "text/plain; charset=utf-8"},
            timeout=RESPONSE_SECONDS,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise WitnessUnavailable(
            f"no witness answers at {url} ({type(error).__name__}): start it with `guard witness run`, then run again"
        ) from error


def _parse_size(url: str, response: httpx.Response) -> int:
    if not re.fullmatch(r"(0|[1-9][0-9]{0,18})\n", response.text, re.ASCII):
        raise WitnessUnavailable(f"the server at {url} is not a witness: it answered 409 without a size; check the URL")
    return int(response.text)


def _add_cosignature(url: str, signed: Note, lines: str, key: VerifierKey) -> str:
    try:
        cosigned = parse_note(f"{signed.text}\n{lines}")
        verified = cosigned.verified_by([key])
    except NoteInvalid as error:
        raise WitnessRefused(
            DeviationKind.BAD_SIGNATURE, f"the response of the witness at {url} is not signed by {key}: {error}"
        ) from error
    if not verified:
        raise WitnessRefused(
            DeviationKind.BAD_SIGNATURE,
            f"the witness at {url} did not sign as {key}: another witness runs there, or "
            "CORPUS_GUARD_WITNESS_KEY is wrong",
        )
    cosignature = next(signature for signature in cosigned.signatures if key.is_named_in(signature))
    others = tuple(signature for signature in signed.signatures if not key.is_named_in(signature))
    return Note(signed.text, (*others, cosignature)).serialize()


def _parse(body: bytes) -> _Request:
    """Parse a request.

    Raises:
        NoteInvalid: it is malformed.
    """
    header, separator, raw_note = body.partition(b"\n\n")
    first, *lines = header.split(b"\n")
    old = _OLD_SIZE.fullmatch(first)
    if not old or not separator or len(lines) > MAX_PROOF_LINES:
        raise NoteInvalid(
            f"malformed request: expected old and a size, at most {MAX_PROOF_LINES} hashes, an empty line, and a head"
        )
    proof = tuple(decode_base64(line.decode(errors="replace")) for line in lines)
    if any(len(node) != HASH_BYTES for node in proof):
        raise NoteInvalid(f"a hash of the proof does not have {HASH_BYTES} bytes")
    note = parse_note(raw_note)
    return _Request(int(old[1]), proof, note, parse_checkpoint(note.text))


def _contradiction(request: _Request, newest: CosignedHead | None) -> str:
    """Return why a head does not continue the newest one; "" if it does."""
    if newest is None or request.old_size == 0:
        return "a proof from size 0 proves nothing: expected no proof" if request.proof else ""
    root = bytes.fromhex(newest["root"])
    if request.head.size == request.old_size and request.head.root != root:
        return f"a second root for size {request.old_size}, which was cosigned with another one: HISTORY WAS REWRITTEN"
    try:
        verify_consistency(request.old_size, request.head.size, request.proof, root, request.head.root)
    except ProofInvalid as error:
        return f"no continuation of size {request.old_size}, which was cosigned: {error}"
    return ""
