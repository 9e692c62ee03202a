"""Signed notes: a readable text, and below it the signature lines.

Rules
    * a note is UTF-8 without control characters other than newline, with limits on its size and its number of
      signatures;
    * the text ends with a newline; the last empty line separates it from the signatures;
    * a signature belongs to a key by name *and* key id; a signature of an unknown key is ignored, whatever it
      holds;
    * a signature with the name and id of a known key that does not verify makes the whole note invalid;
    * each base64 has one spelling: the decoded bytes encode to the same characters again.

Not done here: deciding which keys to trust (`corpus_guard.proof.log.keys`), and interpreting the text
(`corpus_guard.proof.log.checkpoint`).

Sources: C2SP signed-note (notes, verifier keys, algorithm 1), C2SP tlog-cosignature (algorithm 4), RFC 8032
(Ed25519).
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from corpus_guard.errors import Inconsistent, Misuse, SettingsError

MAX_NOTE_BYTES: Final = 128 * 1024  # a head has 300; the specification asks for room for 16 signatures of 5 kB
MAX_SIGNATURES: Final = 32  # per note; the specification asks for at least 16
KEY_ID_BYTES: Final = 4
ED25519: Final = 1
COSIGNATURE: Final = 4  # cosignature/v1: Ed25519 with the time of signing
_TIME_BYTES = 8
_DASH = "— "
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


class NoteInvalid(Inconsistent):
    """These bytes are not a signed note."""


class BadSignature(NoteInvalid):
    """A note names a known key that did not sign it."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line."""

    name: str  # of the key
    key_id: bytes  # 4 bytes
    value: bytes  # 64 bytes for Ed25519, 8 bytes of time before them in a cosignature

    @property
    def line(self) -> str:
        """The line of a note, with its newline."""
        return f"{_DASH}{self.name} {encode_base64(self.key_id + self.value)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A text and its signatures, not verified yet."""

    text: str  # with its last newline
    signatures: tuple[Signature, ...]

    def serialize(self) -> str:
        """Return the note as it is stored and sent; the inverse of `parse_note`."""
        return f"{self.text}\n{''.join(signature.line for signature in self.signatures)}"

    def verified_by(self, keys: Sequence[VerifierKey]) -> tuple[VerifierKey, ...]:
        """Return the keys that signed the text, each once; empty if none of `keys` is named.

        Raises:
            BadSignature: the note names one of `keys`, and that key did not sign this text.
        """
        verified: dict[VerifierKey, None] = {}
        for signature in self.signatures:
            for key in keys:
                if key.is_named_in(signature):
                    key.verify(self.text, signature)
                    verified[key] = None
        return tuple(verified)


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with the name it signs under."""

    name: str  # without spaces and plus signs
    public: bytes  # 32 bytes
    algorithm: int = ED25519

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or re.search(r"[ +]", self.name):
            raise SettingsError(f"key name {self.name!r}: expected a name without spaces and plus signs")
        if self.algorithm not in {ED25519, COSIGNATURE} or len(self.public) != 32:
            raise SettingsError(
                f"key {self.name}: algorithm {self.algorithm} with {len(self.public)} bytes; expected "
                f"{ED25519} or {COSIGNATURE} (Ed25519) with 32"
            )

    @classmethod
    def parse(cls, vkey: str) -> Self:
        """Parse ``name+id+base64``, the form in which public keys are exchanged.

        Raises:
            SettingsError: it does not have that form, or the id is not that of the key: mistyped, or copied
                in part.
        """
        name, _, rest = vkey.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        try:
            material = decode_base64(encoded)
        except NoteInvalid:
            material = b""
        if not material:
            raise SettingsError(f"key {vkey[:80]!r}: expected name+8 hexadecimal digits+base64, copied whole")
        key = cls(name, material[1:], material[0])
        if key.key_id.hex() != key_id:
            raise SettingsError(
                f"key {name}: its id is {key_id[:16]!r}, expected {key.key_id.hex()} for its bytes; copy the key again"
            )
        return key

    def encode(self) -> str:
        """Return ``name+id+base64``, the form for those who verify."""
        return f"{self}+{encode_base64(bytes([self.algorithm]) + self.public)}"

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}"

    @property
    def key_id(self) -> bytes:
        """4 bytes that, with the name, identify the key; they prove nothing."""
        return sha256(self.name.encode() + b"\n" + bytes([self.algorithm]) + self.public).digest()[:KEY_ID_BYTES]

    def is_named_in(self, signature: Signature) -> bool:
        """Return whether the signature claims to be by this key."""
        return (signature.name, signature.key_id) == (self.name, self.key_id)

    def verify(self, text: str, signature: Signature) -> None:
        """Check that this key signed `text`.

        Raises:
            BadSignature: it did not.
        """
        value, message = signature.value, text.encode()
        if self.algorithm == COSIGNATURE:
            message = _cosigned_message(text, self.signing_time(signature))
            value = value[_TIME_BYTES:]
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(value, message)
        except (InvalidSignature, ValueError) as error:
            raise BadSignature(
                f"a note names key {self}, and its signature does not verify: the text or the signature was "
                "changed; get the note from where it was signed, and find out who changed this copy"
            ) from error

    def signing_time(self, signature: Signature) -> int:
        """Return the time that a cosignature states, in seconds since 1970.

        Raises:
            BadSignature: it states no time.
            Misuse: the key makes signatures without time.
        """
        if self.algorithm != COSIGNATURE:
            raise Misuse(f"key {self} signs without time; only cosignatures (algorithm {COSIGNATURE}) state it")
        at = int.from_bytes(signature.value[:_TIME_BYTES], "big")
        if len(signature.value) != _TIME_BYTES + 64 or at >= 1 << 63:
            raise BadSignature(
                f"a cosignature of key {self} has {len(signature.value)} bytes, expected {_TIME_BYTES} of time and 64"
            )
        return at


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key with the name it signs under."""

    name: str
    private: Ed25519PrivateKey = field(repr=False)
    algorithm: int = ED25519
    clock: Callable[[], float] = field(default=time.time, repr=False)  # seconds since 1970, for cosignatures

    @property
    def verifier(self) -> VerifierKey:
        """The public key, for those who verify."""
        return VerifierKey(self.name, self.private.public_key().public_bytes_raw(), self.algorithm)

    def sign(self, text: str) -> Signature:
        """Sign `text`.

        Raises:
            Misuse: a note cannot hold this text.
        """
        if not text.endswith("\n") or _CONTROL.search(text):
            raise Misuse(
                f"a text of {len(text)} characters cannot be signed: it must end with a newline and hold no "
                "other control character"
            )
        key = self.verifier
        if self.algorithm == COSIGNATURE:
            at = int(self.clock())
            return Signature(
                self.name, key.key_id, at.to_bytes(_TIME_BYTES, "big") + self.private.sign(_cosigned_message(text, at))
            )
        return Signature(self.name, key.key_id, self.private.sign(text.encode()))


def parse_note(raw: bytes | str) -> Note:
    """Parse a signed note, strictly; its signatures are not verified yet.

    Raises:
        NoteInvalid: the bytes are not a note; the message says which rule they break, never what they hold.
    """
    if len(raw) > MAX_NOTE_BYTES:
        raise NoteInvalid(f"a note has {len(raw)} bytes, expected at most {MAX_NOTE_BYTES}")
    try:
        whole = (raw.encode() if isinstance(raw, str) else raw).decode()
    except UnicodeError as error:
        raise NoteInvalid("a note is not UTF-8 text") from error
    if control := _CONTROL.search(whole):
        raise NoteInvalid(f"a note holds U+{ord(control.group()):04X}, expected no control character except newline")
    text, separator, below = whole.rpartition("\n\n")
    if not separator or not below.endswith("\n"):
        raise NoteInvalid(
            "a note has no signature lines below an empty line, each with its newline; it was cut off, or never signed"
        )
    lines = below[:-1].split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise NoteInvalid(f"a note has {len(lines)} signatures, expected at most {MAX_SIGNATURES}")
    return Note(text + "\n", tuple(_parse_signature(line) for line in lines))


def encode_base64(value: bytes) -> str:
    """Return standard base64 with padding (RFC 4648 section 4)."""
    return base64.b64encode(value).decode()


def decode_base64(text: str) -> bytes:
    """Decode standard base64 with padding, in its only canonical spelling (RFC 4648 section 4).

    Raises:
        NoteInvalid: it is something else.
    """
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoteInvalid("base64 in a note cannot be decoded") from error
    if encode_base64(value) != text:  # spare bits that are not 0 give other characters for the same bytes
        raise NoteInvalid("base64 in a note does not have the canonical spelling of its bytes")
    return value


def _parse_signature(line: str) -> Signature:
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not name or not space or re.search(r"[\s+]", name):
        raise NoteInvalid(
            "a line below the text of a note is not a signature; expected a dash, a key's name, and base64"
        )
    value = decode_base64(encoded)
    if len(value) <= KEY_ID_BYTES:
        raise NoteInvalid(f"a signature of a note has {len(value)} bytes, expected more than the key's id")
    return Signature(name, value[:KEY_ID_BYTES], value[KEY_ID_BYTES:])


def _cosigned_message(text: str, at: int) -> bytes:
    return f"cosignature/v1\ntime {at}\n{text}".encode()
