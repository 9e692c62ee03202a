"""Keys of the log, and the sizes of the log for which each of them is trusted.

Rules
    * a private key is a file that only its owner can read, or a mounted secret that another user owns and the
      group can read; one that others can read is refused;
    * exactly one key is active, the last of the list; the key that it replaced keeps signing for a while, so
      that verifiers have time to get the new one;
    * a signature counts only at sizes for which its key is trusted: from its creation to its replacement or
      revocation. A stolen old key cannot sign new heads, a new key cannot sign old heads;
    * a head with a signature of a known key that does not verify is refused, whoever else signed it;
    * a key signs for one log, the one whose origin is the key's name;
    * the public keys (``log.pub``) and the private key are on disk before the keyring names them: if the
      process is killed, the keyring is the old one or the new one.

Not done here: a keyring proves nothing to somebody who got ``log.pub`` from the log itself, and a stolen key
can sign anything within the sizes for which it is trusted. Witnesses and anchors are for that.

Sources: C2SP signed-note, C2SP tlog-checkpoint (key rotation), TUF (keys end and are revoked by a newer
statement).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import Inconsistent, Misuse, SettingsError, UnknownSubject
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.log.checkpoint import Checkpoint, parse_checkpoint
from corpus_guard.proof.log.key_files import read_private_key, write_durably, write_private_key
from corpus_guard.proof.log.note import COSIGNATURE, BadSignature, Note, NoteInvalid, Signer, VerifierKey, parse_note

KEYRING_FILE: Final = "keyring.json"
PUBLIC_KEYS_FILE: Final = "log.pub"  # verifier keys, one a line, for those who verify


class HeadRefused(Inconsistent):
    """A head is not signed by a trusted key.

    Attributes:
        kind: ``bad_signature``, ``unknown_key`` or ``revoked_key``.
    """

    def __init__(self, kind: DeviationKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class VerifiedHead:
    """A checkpoint whose signatures were verified."""

    checkpoint: Checkpoint
    signed_by: tuple[str, ...]  # name+id of each trusted key that signed, one or more


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key, and the sizes of the log for which its signature counts."""

    key: VerifierKey
    from_size: int  # leaves
    to_size: int | None  # leaves; None: still active
    revoked: bool

    def trusted_at(self, size: int) -> bool:
        """Return whether its signature counts on a head of this size."""
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
    """Keys in a folder. Each call reads them again: a rotation in another process counts at once."""

    folder: Path

    @classmethod
    def create(cls, folder: Path, origin: str) -> Self:
        """Create a folder with a first key.

        Args:
            folder: must not hold a keyring yet; created with mode 0700.
            origin: permanent name of the log, without spaces and plus signs.

        Raises:
            Misuse: there is a keyring already; with a second one, nobody could verify the heads that the
                first signed.
            SettingsError: a key cannot have this name.
        """
        signer = Signer(origin, Ed25519PrivateKey.generate())
        vkey = signer.verifier.encode()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ring = cls(folder)
        with ring._locked():
            if cls.exists(folder):
                raise Misuse(f"{folder} holds a keyring already; to change its key, run `guard keys rotate`")
            write_private_key(ring._private_file(signer.verifier), signer.private)
            ring._write(_Content(origin=origin, keys=(_Entry(vkey=vkey, from_size=0, to_size=None, revoked=False),)))
        return ring

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open what `create` made.

        Raises:
            SettingsError: there is no keyring, it is malformed, or others can read or change it.
        """
        ring = cls(folder)
        keys = ring.public_keys()
        # Kubernetes mounts secrets into a folder of mode 1777 that nobody can write to.
        if folder.stat().st_mode & 0o022 and not os.statvfs(folder).f_flag & os.ST_RDONLY:
            raise SettingsError(
                f"{folder} can be changed by others, who could add their own keys; run chmod 700 {folder}"
            )
        for trusted in keys:
            file = ring._private_file(trusted.key)
            if file.exists():
                read_private_key(file)
        return ring

    @staticmethod
    def exists(folder: Path) -> bool:
        """Return whether there is a keyring in `folder`."""
        return (folder / KEYRING_FILE).exists()

    @property
    def origin(self) -> str:
        """Name of the log and of its keys."""
        return self._read().origin

    def public_keys(self) -> tuple[TrustedKey, ...]:
        """Return every key that ever signed, the active one last."""
        return tuple(entry.trusted for entry in self._read().keys)

    @property
    def is_active_key_lost(self) -> bool:
        """True where the private half of the active key is not in the folder."""
        return not self._private_file(self.public_keys()[-1].key).exists()

    def signers(self, size: int | None = None) -> tuple[Signer, ...]:
        """Return the active key, then the replaced keys that still sign.

        Args:
            size: of the head to be signed; None: any size.

        Raises:
            SettingsError: the active private key is not in the folder, or others can read it.
        """
        active, *replaced = reversed(self.public_keys())
        signing = [key for key in replaced if not key.revoked and self._private_file(key.key).exists()]
        return tuple(
            self._signer(trusted.key) for trusted in (active, *signing) if size is None or trusted.trusted_at(size)
        )

    def rotate(self, size: int, overlap: int) -> str:
        """Replace the active key with a new one, and return its verifier key, which ``log.pub`` has, too.

        Args:
            size: of the log now, in leaves; heads from this size on are signed by the new key.
            overlap: the old key keeps signing until the log has grown by this number of leaves.

        Raises:
            Misuse: `size` is smaller than the active key's first size, or `overlap` is negative.
        """
        with self._locked():
            content = self._read()
            *others, active = content.keys
            if size < active.from_size or overlap < 0:
                raise Misuse(
                    f"rotation at size {size} with overlap {overlap}: expected a size of at least "
                    f"{active.from_size}, where the active key began, and an overlap of at least 0; a log "
                    "does not shrink"
                )
            signer = Signer(content.origin, Ed25519PrivateKey.generate())
            write_private_key(self._private_file(signer.verifier), signer.private)
            entry = _Entry(vkey=signer.verifier.encode(), from_size=size, to_size=None, revoked=False)
            retired = active.model_copy(update={"to_size": size + overlap})
            self._write(content.model_copy(update={"keys": (*others, retired, entry)}))
            for past in others:  # a private key that no longer signs can only be stolen
                if past.to_size is not None and past.to_size < size:
                    self._private_file(past.trusted.key).unlink(missing_ok=True)
        return entry.vkey

    def revoke(self, key_id: str, size: int) -> None:
        """Stop trusting a key that was replaced, and destroy its private half.

        Args:
            key_id: 8 hexadecimal digits.
            size: the last size at which its signature still counts, in leaves: that of the last head known to
                be genuine.

        Raises:
            Misuse: it is the active key, without which nothing could be signed.
            UnknownSubject: no key has this id.
        """
        with self._locked():
            content = self._read()
            entries = list(content.keys)
            ids = [entry.trusted.key.key_id.hex() for entry in entries]
            if key_id not in ids:
                raise UnknownSubject(f"key {key_id!r} is not in {self.folder}, which has {', '.join(ids)}")
            number = ids.index(key_id)
            entry = entries[number]
            if entry.to_size is None:
                raise Misuse(
                    f"key {key_id} is the only active one: first rotate to a new key (`guard keys rotate`), "
                    "then revoke this one"
                )
            if size < 0:
                raise Misuse(f"key {key_id} revoked at size {size}: expected a size of at least 0")
            entries[number] = entry.model_copy(update={"revoked": True, "to_size": min(size, entry.to_size)})
            self._write(content.model_copy(update={"keys": tuple(entries)}))
            self._private_file(entry.trusted.key).unlink(missing_ok=True)

    def sign(self, checkpoint: Checkpoint) -> str:
        """Return the checkpoint as a note, signed by every key that signs at its size.

        Raises:
            Misuse: the checkpoint is of another log, or of a size before the active key's first one.
            SettingsError: the private key is not in the folder, or others can read it.
        """
        origin = self.origin
        if checkpoint.origin != origin:
            raise Misuse(f"a checkpoint of {checkpoint.origin} for the keys of {origin}: each log has its own")
        signers = self.signers(checkpoint.size)
        if not signers:
            raise Misuse(
                f"no key in {self.folder} signs at size {checkpoint.size}: the log is shorter than when its "
                "key was created"
            )
        text = checkpoint.body()
        return Note(text, tuple(signer.sign(text) for signer in signers)).serialize()

    def open_head(self, note: str) -> VerifiedHead:
        """Verify a signed head of this log.

        Raises:
            HeadRefused: no key signed it that is trusted at its size; `kind` says why.
        """
        keys = self.public_keys()
        parsed, checkpoint, signed_by = _verify_note(note, [trusted.key for trusted in keys])
        signers = [trusted for trusted in keys if trusted.key in signed_by]
        counting = tuple(str(trusted.key) for trusted in signers if trusted.trusted_at(checkpoint.size))
        if counting:
            return VerifiedHead(checkpoint, counting)
        ended = [trusted for trusted in signers if trusted.to_size is not None and checkpoint.size > trusted.to_size]
        if ended:
            word = "revoked" if ended[0].revoked else "replaced"
            raise HeadRefused(
                DeviationKind.REVOKED_KEY,
                f"head of size {checkpoint.size} is signed by {ended[0].key}, which was {word} and counts up "
                f"to size {ended[0].to_size}: somebody uses an old key; find out who holds it",
            )
        raise _unknown_signers(parsed, checkpoint, [trusted.key for trusted in keys])

    @property
    def sha256(self) -> str:
        """SHA-256 (hex) of the keyring's file."""
        return sha256_bytes((self.folder / KEYRING_FILE).read_bytes())

    def find_damage(self, keyring_sha256: str) -> Iterator[tuple[Path, str]]:
        """Yield each file that does not fit the others, and what is wrong with it.

        A private key that is not here is no damage: whoever only verifies has none. A keyring that cannot be
        read is left to `open`.

        Args:
            keyring_sha256: of the keyring when its keys changed last; "": not known.
        """
        try:
            content = self._read()
        except SettingsError:
            return
        file = self.folder / KEYRING_FILE
        if keyring_sha256 and self.sha256 != keyring_sha256:
            yield file, f"{file} is not the keyring of the last change of keys; restore it from a backup"
        file = self.folder / PUBLIC_KEYS_FILE
        if not file.is_file() or file.read_bytes() != _public_lines(content):
            yield (
                file,
                f"{file} does not hold the public keys of {KEYRING_FILE} beside it: who verifies with it trusts another "
                "key, or none. Restore it from a backup",
            )
        for entry in content.keys:
            file = self._private_file(entry.trusted.key)
            if not entry.revoked and file.exists():
                try:
                    self._signer(entry.trusted.key)
                except SettingsError as error:
                    yield file, f"{error}; without it no new head can be signed by this key"

    def _signer(self, key: VerifierKey) -> Signer:
        file = self._private_file(key)
        signer = Signer(key.name, read_private_key(file))
        if signer.verifier != key:
            raise SettingsError(
                f"{file} is not the private half of {key}: restore the folder {self.folder} from a backup"
            )
        return signer

    def _private_file(self, key: VerifierKey) -> Path:
        return self.folder / f"{key.key_id.hex()}.pem"

    def _read(self) -> _Content:
        file = self.folder / KEYRING_FILE
        try:
            content = _Content.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            raise SettingsError(
                f"no keyring in {self.folder}: the first seal creates one; if it was lost, restore it from a backup"
            ) from None
        except OSError as error:
            raise SettingsError(f"{file} cannot be read ({error.strerror}); run as the user who owns it") from error
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise SettingsError(
                f"{file} is malformed at {where or 'its beginning'}; restore it from a backup"
            ) from error
        *replaced, active = content.keys
        keys = [entry.trusted.key for entry in content.keys]
        if active.to_size is not None or active.revoked or any(entry.to_size is None for entry in replaced):
            raise SettingsError(
                f"{file}: expected one active key, the last (to_size null, not revoked); restore it from a backup"
            )
        if any(key.name != content.origin for key in keys) or len({key.key_id for key in keys}) < len(keys):
            raise SettingsError(
                f"{file}: expected keys that are all named {content.origin}, each once; restore it from a backup"
            )
        return content

    def _write(self, content: _Content) -> None:
        # The public keys first: a public key that signs nothing yet does no harm, a head by an unknown key
        # does.
        write_durably(self.folder / PUBLIC_KEYS_FILE, _public_lines(content), 0o644)
        write_durably(self.folder / KEYRING_FILE, json.dumps(content.model_dump(), indent=2).encode() + b"\n", 0o600)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise SettingsError(f"no keyring in {self.folder} ({error.strerror}); restore it from a backup") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # the system releases it when the process dies
            yield
        finally:
            os.close(descriptor)


def _public_lines(content: _Content) -> bytes:
    return "".join(entry.vkey + "\n" for entry in content.keys if not entry.revoked).encode()


def open_head(note: str, keys: Sequence[VerifierKey]) -> VerifiedHead:
    """Verify a head with only public keys, as anybody can who has ``log.pub``.

    A line of ``log.pub`` has no sizes: remove the line of a key that was revoked.

    Args:
        keys: of the log, and of witnesses if their cosignature is required; `VerifiedHead.signed_by` says
            which of them signed.

    Raises:
        HeadRefused: none of `keys` signed it (``unknown_key``), or it names one of them that did not
            (``bad_signature``).
    """
    parsed, checkpoint, signed_by = _verify_note(note, keys)
    if not signed_by:
        raise _unknown_signers(parsed, checkpoint, keys)
    return VerifiedHead(checkpoint, tuple(str(key) for key in signed_by))


def _verify_note(raw: str, keys: Sequence[VerifierKey]) -> tuple[Note, Checkpoint, tuple[VerifierKey, ...]]:
    """Return the note, its checkpoint, and the keys that signed it and may sign for this log."""
    try:
        note = parse_note(raw)
        checkpoint = parse_checkpoint(note.text)
        signed = note.verified_by(keys)
    except BadSignature as error:
        raise HeadRefused(DeviationKind.BAD_SIGNATURE, f"head refused: {error}") from error
    except NoteInvalid as error:
        raise HeadRefused(
            DeviationKind.BAD_SIGNATURE, f"head refused, its signatures are unreadable: {error}"
        ) from error
    # A log's key vouches for the log of its name; a witness's key has its own name, and vouches for any log.
    own = tuple(key for key in signed if key.algorithm == COSIGNATURE or key.name == checkpoint.origin)
    return note, checkpoint, own


def _unknown_signers(note: Note, checkpoint: Checkpoint, keys: Sequence[VerifierKey]) -> HeadRefused:
    signers = ", ".join(f"{signature.name}+{signature.key_id.hex()}" for signature in note.signatures)
    return HeadRefused(
        DeviationKind.UNKNOWN_KEY,
        f"head of {checkpoint.origin} at size {checkpoint.size} is signed by {signers}, trusted: "
        f"{', '.join(map(str, keys)) or 'no key'}. If the key was changed, get the new one from the log's "
        "operator, not from the log",
    )
