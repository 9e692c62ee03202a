"""The log's keys: who signs its heads, since which size, and until which.

Rules
    * a private key is a file that only its owner can read; one that others can read is refused, not used;
    * exactly one key is active, the last of the list; a key that it replaced signs along for a while, so that strangers have the time
      to learn the new one;
    * a signature counts only at sizes its key is trusted for: from where it came to where it was replaced or revoked. Whoever steals
      an old key cannot sign new heads, whoever holds a new one cannot sign old heads;
    * a known key whose signature does not verify condemns the head, whoever else signed it;
    * a key signs for the one log whose origin it is named after;
    * what a stranger is given (``log.pub``) and the private key are on disk before the keyring speaks of them: killed anywhere, the
      keyring is the old one or the new one.

What is not done here: a keyring proves nothing to somebody who did not get ``log.pub`` by another road than the log, and within the
sizes that a stolen key is trusted for it signs what its thief likes. That is what witnesses and anchors are for.

Sources: C2SP signed-note, C2SP tlog-checkpoint (key rotation), TUF (keys end and are revoked by a newer statement).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from corpus_guard.errors import Inconsistent, Misuse, SettingsError, UnknownSubject
from corpus_guard.proof._key_files import read_private_key, write_durably, write_private_key
from corpus_guard.proof.checkpoint import Checkpoint, parse_checkpoint
from corpus_guard.proof.deviations import Kind
from corpus_guard.proof.note import COSIGNATURE, BadSignature, Note, NoteInvalid, Signer, VerifierKey, parse_note

KEYRING = "keyring.json"
PUBLIC = "log.pub"  # verifier keys, one a line, for strangers


class HeadRefused(Inconsistent):
    """A head that nobody we trust signed.

    Attributes:
        kind: ``bad_signature``, ``unknown_key`` or ``revoked_key``.
    """

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Head:
    """A checkpoint whose signatures were verified."""

    checkpoint: Checkpoint
    signed_by: tuple[str, ...]  # name+id of each trusted key that signed, at least one


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key with the sizes of the log for which its signature counts."""

    key: VerifierKey
    from_size: int  # leaves
    to_size: int | None  # leaves; None: still active
    revoked: bool

    def trusted_at(self, size: int) -> bool:
        """Whether its signature counts on a head of this size."""
        return self.from_size <= size and (self.to_size is None or size <= self.to_size)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    vkey: str
    from_size: int = Field(ge=0)
    to_size: int | None = Field(ge=0)
    revoked: bool

    @property
    def trusted(self) -> TrustedKey:
        return TrustedKey(VerifierKey.parse(self.vkey), self.from_size, self.to_size, self.revoked)


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    origin: str
    keys: tuple[_Entry, ...] = Field(min_length=1, strict=False)  # JSON has lists, not tuples


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys in a folder. Each call reads them anew: a rotation in another process counts at once."""

    folder: Path

    @classmethod
    def create(cls, folder: Path, origin: str) -> Self:
        """Make a folder with a first key.

        Args:
            folder: must not hold a keyring yet; made with mode 0700.
            origin: names the log for ever; neither spaces nor plus signs.

        Raises:
            Misuse: there is a keyring already; a second one would orphan every head the first signed.
            SettingsError: no key can have this name.
        """
        signer = Signer(origin, Ed25519PrivateKey.generate())
        vkey = signer.verifier.encode()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ring = cls(folder)
        with ring._alone():
            if cls.exists(folder):
                raise Misuse(f"{folder} holds a keyring already; to change its key: guard keys rotate")
            write_private_key(ring._private_file(signer.verifier), signer.private)
            ring._write(_Content(origin=origin, keys=(_Entry(vkey=vkey, from_size=0, to_size=None, revoked=False),)))
        return ring

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open what `create` made.

        Raises:
            SettingsError: there is none, it is malformed, or others could read or change it; says what to do.
        """
        ring = cls(folder)
        keys = ring.public_keys()
        if folder.stat().st_mode & 0o022:
            raise SettingsError(
                f"{folder} can be changed by others, who could put in keys of their own: chmod 700 {folder}"
            )
        for trusted in keys:
            file = ring._private_file(trusted.key)
            if file.exists():
                read_private_key(file)
        return ring

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether there is a keyring in `folder`."""
        return (folder / KEYRING).exists()

    @property
    def origin(self) -> str:
        """Names the log; also the name of its keys."""
        return self._read().origin

    def public_keys(self) -> tuple[TrustedKey, ...]:
        """Every key there ever was, the active one last."""
        return tuple(entry.trusted for entry in self._read().keys)

    def signers(self, size: int | None = None) -> tuple[Signer, ...]:
        """The active key, then those it replaced that still sign along.

        Args:
            size: of the head to be signed. Without one: whoever signs along at some size.

        Raises:
            SettingsError: the active private key is not in the folder, or others can read it.
        """
        active, *replaced = reversed(self.public_keys())
        along = [key for key in replaced if not key.revoked and self._private_file(key.key).exists()]
        return tuple(
            self._signer(trusted.key) for trusted in (active, *along) if size is None or trusted.trusted_at(size)
        )

    def rotate(self, size: int, overlap: int) -> str:
        """Put a new key in place of the active one.

        Args:
            size: of the log now, in leaves; heads from this size on are signed by the new key.
            overlap: the old key signs along until the log has grown by as many leaves.

        Returns:
            The new verifier key, to be handed to whoever verifies. ``log.pub`` has it too.

        Raises:
            Misuse: `size` lies before the active key's own beginning, or `overlap` is negative.
        """
        with self._alone():
            content = self._read()
            *others, active = content.keys
            if size < active.from_size or overlap < 0:
                raise Misuse(
                    f"rotation at size {size} with overlap {overlap}: expected a size from {active.from_size}, where "
                    "the active key began, and an overlap from 0; a log does not shrink"
                )
            signer = Signer(content.origin, Ed25519PrivateKey.generate())
            write_private_key(self._private_file(signer.verifier), signer.private)
            entry = _Entry(vkey=signer.verifier.encode(), from_size=size, to_size=None, revoked=False)
            retired = active.model_copy(update={"to_size": size + overlap})
            self._write(content.model_copy(update={"keys": (*others, retired, entry)}))
            for past in others:  # a private key that signs nothing any more can only be stolen
                if past.to_size is not None and past.to_size < size:
                    self._private_file(past.trusted.key).unlink(missing_ok=True)
        return entry.vkey

    def revoke(self, key_id: str, size: int) -> None:
        """Stop trusting a key that was replaced, and destroy its private half.

        Args:
            key_id: 8 hexadecimal digits.
            size: the last size at which its signature still counts, in leaves: the last head that you know to be yours.

        Raises:
            Misuse: it is the active key: nothing could be signed any more.
            UnknownSubject: no key has this id.
        """
        with self._alone():
            content = self._read()
            entries = list(content.keys)
            ids = [entry.trusted.key.key_id.hex() for entry in entries]
            if key_id not in ids:
                raise UnknownSubject(f"no key {key_id!r} in {self.folder}; there are {', '.join(ids)}")
            number = ids.index(key_id)
            entry = entries[number]
            if entry.to_size is None:
                raise Misuse(
                    f"key {key_id} is the only active one: first rotate to a new key (guard keys rotate), then revoke this one"
                )
            if size < 0:
                raise Misuse(f"key {key_id} revoked at size {size}: expected a size from 0")
            entries[number] = entry.model_copy(update={"revoked": True, "to_size": min(size, entry.to_size)})
            self._write(content.model_copy(update={"keys": tuple(entries)}))
            self._private_file(entry.trusted.key).unlink(missing_ok=True)

    def sign(self, checkpoint: Checkpoint) -> str:
        """The checkpoint as a note, signed by every key that signs at its size.

        Raises:
            Misuse: the checkpoint is of another log, or smaller than where the active key began.
            SettingsError: the private key is not in the folder, or others can read it.
        """
        origin = self.origin
        if checkpoint.origin != origin:
            raise Misuse(f"a checkpoint of {checkpoint.origin} for the keys of {origin}: each log has its own")
        signers = self.signers(checkpoint.size)
        if not signers:
            raise Misuse(
                f"no key in {self.folder} signs at size {checkpoint.size}: the log is shorter than when its key was made"
            )
        text = checkpoint.body()
        return Note(text, tuple(signer.sign(text) for signer in signers)).serialize()

    def open_head(self, note: str) -> Head:
        """Verify a signed head of this log.

        Raises:
            HeadRefused: nobody signed it who is trusted at its size; `kind` says why.
        """
        keys = self.public_keys()
        found, checkpoint, signed = _opened(note, [trusted.key for trusted in keys])
        there = [trusted for trusted in keys if trusted.key in signed]
        counting = tuple(str(trusted.key) for trusted in there if trusted.trusted_at(checkpoint.size))
        if counting:
            return Head(checkpoint, counting)
        ended = [trusted for trusted in there if trusted.to_size is not None and checkpoint.size > trusted.to_size]
        if ended:
            word = "revoked" if ended[0].revoked else "replaced"
            raise HeadRefused(
                Kind.REVOKED_KEY,
                f"head of size {checkpoint.size} is signed by {ended[0].key}, which was {word} and counts up to size {ended[0].to_size}: "
                "somebody uses a key that is no longer in use; find out who holds it",
            )
        raise _unknown(found, checkpoint, [trusted.key for trusted in keys])

    def _signer(self, key: VerifierKey) -> Signer:
        file = self._private_file(key)
        signer = Signer(key.name, read_private_key(file))
        if signer.verifier != key:
            raise SettingsError(
                f"{file} is not the private half of {key}: restore the folder {self.folder} from its copy"
            )
        return signer

    def _private_file(self, key: VerifierKey) -> Path:
        return self.folder / f"{key.key_id.hex()}.pem"

    def _read(self) -> _Content:
        file = self.folder / KEYRING
        try:
            content = _Content.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            raise SettingsError(
                f"no keyring in {self.folder}: the first seal makes one; one that was lost is restored from its copy"
            ) from None
        except OSError as error:
            raise SettingsError(f"{file} cannot be read ({error.strerror}): run as the user who owns it") from error
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise SettingsError(
                f"{file} is malformed at {where or 'its beginning'}: restore it from its copy"
            ) from error
        *replaced, active = content.keys
        keys = [entry.trusted.key for entry in content.keys]
        if active.to_size is not None or active.revoked or any(entry.to_size is None for entry in replaced):
            raise SettingsError(
                f"{file}: expected one active key, the last (to_size null, not revoked); restore it from its copy"
            )
        if any(key.name != content.origin for key in keys) or len({key.key_id for key in keys}) < len(keys):
            raise SettingsError(
                f"{file}: expected keys that are all named {content.origin}, each once; restore it from its copy"
            )
        return content

    def _write(self, content: _Content) -> None:
        # Strangers first: a key that signs nothing yet harms nobody, a head by a key they were not given does.
        public = "".join(entry.vkey + "\n" for entry in content.keys if not entry.revoked)
        write_durably(self.folder / PUBLIC, public.encode(), 0o644)
        write_durably(self.folder / KEYRING, json.dumps(content.model_dump(), indent=2).encode() + b"\n", 0o600)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise SettingsError(f"no keyring in {self.folder} ({error.strerror}): restore it from its copy") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # freed by the system when its holder dies
            yield
        finally:
            os.close(descriptor)


def open_head(note: str, keys: Sequence[VerifierKey]) -> Head:
    """Verify a head with nothing but public keys, as a stranger does who holds ``log.pub``.

    A line of ``log.pub`` has no sizes: whoever is told that a key was revoked takes its line out.

    Args:
        note: the head.
        keys: of the log, and of witnesses where their cosignature is asked for; `Head.signed_by` says which of them signed.

    Raises:
        HeadRefused: none of `keys` signed it (``unknown_key``), or one of them is named and did not (``bad_signature``).
    """
    found, checkpoint, signed = _opened(note, keys)
    if not signed:
        raise _unknown(found, checkpoint, keys)
    return Head(checkpoint, tuple(str(key) for key in signed))


def _opened(raw: str, keys: Sequence[VerifierKey]) -> tuple[Note, Checkpoint, tuple[VerifierKey, ...]]:
    """The note, its checkpoint, and those of `keys` that signed it and may sign for this log."""
    try:
        note = parse_note(raw)
        checkpoint = parse_checkpoint(note.text)
        signed = note.verified_by(keys)
    except BadSignature as error:
        raise HeadRefused(Kind.BAD_SIGNATURE, f"head refused: {error}") from error
    except NoteInvalid as error:
        raise HeadRefused(Kind.BAD_SIGNATURE, f"head refused, its signatures cannot be read: {error}") from error
    # A log's key vouches for the log it is named after; a witness's for any, its name is its own.
    own = tuple(key for key in signed if key.algorithm == COSIGNATURE or key.name == checkpoint.origin)
    return note, checkpoint, own


def _unknown(note: Note, checkpoint: Checkpoint, keys: Sequence[VerifierKey]) -> HeadRefused:
    found = ", ".join(f"{signature.name}+{signature.key_id.hex()}" for signature in note.signatures)
    return HeadRefused(
        Kind.UNKNOWN_KEY,
        f"head of {checkpoint.origin} at size {checkpoint.size} is signed by {found}; trusted there: "
        f"{', '.join(map(str, keys)) or 'nobody'}. If the key was changed, get the new one from the log's operator, not from the log",
    )
