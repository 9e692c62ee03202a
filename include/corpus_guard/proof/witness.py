"""A witness: somebody else, with a key and a memory of its own, who cosigns a log's heads as long as each continues the last.

Rules, of the witness
    * it knows a log by its origin and the keys it was told to trust for it; it cosigns nothing else;
    * a head is cosigned only as a continuation of the newest one it cosigned: same size with the same root, or proved from that very
      size on; asked about any other size it says its own;
    * comparing and remembering are one transaction, and both are on disk before it answers;
    * a head that a trusted key signed and that is no continuation is kept, with what it contradicts, and told in the log as an error:
      two signed roots of one size prove that somebody rewrote history, wherever they are shown;
    * every cosigned head is also appended to ``heads.log``: a store that is behind it was restored from an older copy, and the witness
      does not start, because it would cosign a second history.

Rules, of the log that asks (`submit`)
    * only a cosignature that verifies under the configured key counts;
    * told another size, it proves from that size, once; a size larger than its own means that its own history was cut.

What is not done here: the first head of a log is taken as it is; what was rewritten before it, no witness can know. A witness whose
store *and* ``heads.log`` are restored together forgets unseen; keep ``heads.log`` elsewhere as well. Anybody can send a signed head
with a wrong proof, so a failed proof alone accuses nobody.

Sources: C2SP tlog-witness (with C2SP pull request 280: 422 for another root at the same size), C2SP tlog-cosignature.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from corpus_guard.errors import Inconsistent, Infrastructure, Misuse, SettingsError
from corpus_guard.proof._key_files import read_private_key, write_durably, write_private_key
from corpus_guard.proof._witness_memory import Memory
from corpus_guard.proof.checkpoint import Checkpoint, EmptyRootWrong, parse_checkpoint
from corpus_guard.proof.deviations import Kind
from corpus_guard.proof.merkle import HASH_BYTES, ProofInvalid, verify_consistency
from corpus_guard.proof.note import (
    COSIGNATURE,
    ED25519,
    NOTE_BYTES,
    BadSignature,
    Note,
    NoteInvalid,
    Signer,
    VerifierKey,
    decode_base64,
    encode_base64,
    parse_note,
)

log = logging.getLogger(__name__)

PROOF_LINES = 63  # C2SP tlog-witness
REQUEST_BYTES = NOTE_BYTES + 64 * (PROOF_LINES + 1)
ANSWER_SECONDS = 30  # a client waits this long for a witness
_OLD = re.compile(rb"old (0|[1-9][0-9]{0,18})", re.ASCII)


class WitnessRefused(Inconsistent):
    """A witness does not confirm this history.

    Attributes:
        kind: ``rolled_back`` (it knows a longer log), ``forked`` (it knows another one) or ``bad_signature`` (its answer is not its own).
    """

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class WitnessUnavailable(Infrastructure):
    """A witness does not answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a witness says to a request, as HTTP says it."""

    status: int
    body: str
    media_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Request:
    old: int  # leaves
    proof: tuple[bytes, ...]
    note: Note
    head: Checkpoint


class Witness:
    """The witness whose key and memory lie in a folder."""

    def __init__(self, folder: Path) -> None:
        """Open what `create` made.

        Raises:
            SettingsError: there is no witness, or others can read its key.
            Inconsistent: its store is behind ``heads.log``: it was restored from an older copy.
        """
        public = folder / "witness.pub"
        if not public.exists():
            raise SettingsError(
                f"no witness in {folder}: make one with guard witness init, or restore the whole folder"
            )
        self.verifier = VerifierKey.parse(public.read_text(encoding="utf-8"))
        self._signer = Signer(self.verifier.name, read_private_key(folder / "witness.pem"), COSIGNATURE)
        if self._signer.verifier != self.verifier:
            raise SettingsError(
                f"{folder}: witness.pem is not the private half of {public.name}; restore both from one copy"
            )
        self.memory = Memory(folder)

    @classmethod
    def create(cls, folder: Path, name: str) -> Self:
        """Make a witness with a new key and an empty memory.

        Args:
            folder: made with mode 0700.
            name: what it signs as; neither spaces nor plus signs.

        Raises:
            Misuse: there is one already; its memory would be lost.
            SettingsError: no key can have this name.
        """
        if (folder / "witness.pem").exists():
            raise Misuse(f"{folder} holds a witness already; its memory is what it is for. Take another folder")
        signer = Signer(name, Ed25519PrivateKey.generate(), COSIGNATURE)
        vkey = signer.verifier.encode()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        Memory.create(folder)
        write_durably(folder / "witness.pub", f"{vkey}\n".encode(), 0o644)
        write_private_key(folder / "witness.pem", signer.private)
        return cls(folder)

    def trust(self, origin: str, vkeys: Sequence[str]) -> None:
        """Cosign heads of the log `origin` that one of these keys signed, and of no other; replaces what was trusted for it before.

        Raises:
            SettingsError: a key is malformed, not a log's, or named after another log.
        """
        keys = [VerifierKey.parse(vkey) for vkey in vkeys]
        if not keys or any(key.name != origin or key.algorithm != ED25519 for key in keys):
            raise SettingsError(
                f"log {origin}: expected one or more keys named after it, of a log and not of a witness; take its log.pub"
            )
        self.memory.trust(origin, [key.encode() for key in keys])

    def add_checkpoint(self, body: bytes) -> Answer:  # noqa: PLR0911 - one return for each row of the status table
        """Cosign a head, or say why not (C2SP tlog-witness, add-checkpoint).

        Args:
            body: ``old <size>``, the lines of the proof, an empty line, the signed head.

        Returns:
            200 with the cosignature; 400 malformed; 403 no trusted key signed it; 404 no such log; 409 with the size it remembers,
            where `old` is another one; 422 no continuation.

        Raises:
            Inconsistent: the store lost heads that were cosigned; nothing is cosigned.
        """
        try:
            request = _parse(body)
        except EmptyRootWrong as error:
            return Answer(422, f"{error}\n")
        except NoteInvalid as error:
            return Answer(400, f"{error}\n")
        head = request.head
        keys = [VerifierKey.parse(vkey) for vkey in self.memory.trusted().get(head.origin, ())]
        if not keys:
            return Answer(404, "this witness knows no log of this origin: guard witness trust\n")
        try:
            signed = request.note.verified_by(keys)
        except BadSignature as error:
            return Answer(403, f"{error}\n")
        if not signed:
            return Answer(
                403,
                "no key that this witness trusts for the log signed it: guard witness trust, with all keys of log.pub\n",
            )
        if request.old > head.size:
            return Answer(400, f"old size {request.old} is larger than size {head.size}\n")
        with self.memory.transaction() as store:
            newest = self.memory.newest(store, head.origin)
            size = newest["size"] if newest else 0
            if request.old != size:
                return Answer(409, f"{size}\n", "text/x.tlog.size")
            text = request.note.serialize()
            if contradiction := _contradiction(request, newest):
                log.error(
                    "WITNESS REFUSES: %s at size %d: %s. Both heads are kept: guard witness show",
                    head.origin,
                    head.size,
                    contradiction,
                )
                self.memory.refuse(store, head, text, contradiction, newest["note"] if newest else "")
                return Answer(422, f"{contradiction}\n")
            cosignature = self._signer.sign(request.note.text)
            self.memory.keep(store, head, text, self.verifier.time_of(cosignature))
        self.memory.append(head)
        return Answer(200, cosignature.line)


def submit(url: str, note: str, old_size: int, prove: Callable[[int], Sequence[bytes]], key: VerifierKey) -> str:
    """Have a head cosigned.

    Args:
        url: of the witness.
        note: the signed head.
        old_size: of the head this witness cosigned last, in leaves; 0 where that is not known.
        prove: the consistency proof from a size (1 or more) to the head; asked only for sizes up to the head's.
        key: of the witness.

    Returns:
        The note with the cosignature below its signatures.

    Raises:
        WitnessRefused: the witness knows a longer log or another one, or its answer is not signed by `key`.
        WitnessUnavailable: it does not answer, or something between does.
        SettingsError: it does not know the log, or none of the keys that signed.
    """
    signed = parse_note(note)
    head = parse_checkpoint(signed.text)
    size, answer = old_size, _ask(url, note, old_size, head.size, prove)
    if answer.status_code == 409:
        size = _size_in(url, answer)
        if size > head.size:
            raise WitnessRefused(
                Kind.ROLLED_BACK,
                f"witness {key.name} cosigned size {size} of {head.origin}, we have {head.size}: our log was rolled back. Restore the "
                "newer ledger; nothing may be signed before",
            )
        answer = _ask(url, note, size, head.size, prove)
    if answer.status_code == 200:
        return _cosigned(url, signed, answer.text, key)
    if answer.status_code == 422:
        raise WitnessRefused(
            Kind.FORKED,
            f"witness {key.name} cosigned another history of {head.origin}: size {head.size} does not continue its size {size}. Restore "
            "the ledger that was signed; guard witness show, at the witness, has both heads",
        )
    if answer.status_code in {403, 404}:
        what = (
            "does not know the log" if answer.status_code == 404 else "trusts none of the keys that signed the head of"
        )
        raise SettingsError(
            f"witness {key.name} {what} {head.origin}: there, run guard witness trust with every line of log.pub"
        )
    raise WitnessUnavailable(
        f"witness {key.name} at {url} answered {answer.status_code}, expected 200 with a cosignature; look at its log, then run again"
    )


def _ask(url: str, note: str, old: int, size: int, prove: Callable[[int], Sequence[bytes]]) -> httpx.Response:
    proof = prove(old) if 0 < old < size else ()
    lines = "".join(encode_base64(node) + "\n" for node in proof)
    try:
        # Never on our behalf to another place: redirects are not followed (httpx's default).
        return httpx.post(
            f"{url.rstrip('/')}/add-checkpoint",
            content=f"old {min(old, size)}\n{lines}\n{note}".encode(),
            headers={"Content-Type": "text/plain; charset=utf-8"},
            timeout=ANSWER_SECONDS,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise WitnessUnavailable(
            f"no witness answers at {url} ({type(error).__name__}): start it with guard witness run, then run again"
        ) from error


def _size_in(url: str, answer: httpx.Response) -> int:
    if not re.fullmatch(r"(0|[1-9][0-9]{0,18})\n", answer.text, re.ASCII):
        raise WitnessUnavailable(f"what answers at {url} is no witness: 409 without a size")
    return int(answer.text)


def _cosigned(url: str, signed: Note, lines: str, key: VerifierKey) -> str:
    try:
        offered = parse_note(f"{signed.text}\n{lines}")
        verified = offered.verified_by([key])
    except NoteInvalid as error:
        raise WitnessRefused(
            Kind.BAD_SIGNATURE, f"the answer of the witness at {url} is not signed by {key}: {error}"
        ) from error
    if not verified:
        raise WitnessRefused(
            Kind.BAD_SIGNATURE,
            f"the witness at {url} did not sign as {key}: another witness runs there, or the key setting is wrong",
        )
    cosignature = next(signature for signature in offered.signatures if key.made(signature))
    others = tuple(signature for signature in signed.signatures if not key.made(signature))
    return Note(signed.text, (*others, cosignature)).serialize()


def _parse(body: bytes) -> _Request:
    """Read a request.

    Raises:
        NoteInvalid: it is malformed.
    """
    asked, separator, rest = body.partition(b"\n\n")
    first, *lines = asked.split(b"\n")
    old = _OLD.fullmatch(first)
    if not old or not separator or len(lines) > PROOF_LINES:
        raise NoteInvalid(
            f"a request begins with old and a size, then at most {PROOF_LINES} hashes, an empty line, and a head"
        )
    proof = tuple(decode_base64(line.decode(errors="replace")) for line in lines)
    if any(len(node) != HASH_BYTES for node in proof):
        raise NoteInvalid(f"a proof has a hash that is not of {HASH_BYTES} bytes")
    note = parse_note(rest)
    return _Request(int(old[1]), proof, note, parse_checkpoint(note.text))


def _contradiction(request: _Request, newest: Any) -> str:
    """Why a head does not continue the newest one; empty where it does."""
    if request.old == 0:
        return "a proof from size 0, which proves nothing: expected none" if request.proof else ""
    root = bytes.fromhex(newest["root"])
    if request.head.size == request.old and request.head.root != root:
        return f"a second root for size {request.old}, which was cosigned with another: HISTORY WAS REWRITTEN"
    try:
        verify_consistency(request.old, request.head.size, request.proof, root, request.head.root)
    except ProofInvalid as error:
        return f"no continuation of the size {request.old} that was cosigned: {error}"
    return ""
