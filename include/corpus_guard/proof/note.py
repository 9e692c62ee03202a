"""Signed notes: a text that people can read, and below it the lines of those who signed it.

Rules
    * a note is UTF-8 without control characters other than newline, of limited size, with limited signatures: anything else is no note;
    * the text ends with a newline; the last empty line separates it from the signatures;
    * who signed is told by name *and* key id; a signature by anybody else is ignored, whatever it holds;
    * a signature under the name and id of a known key that does not verify condemns the whole note;
    * each base64 has one spelling: what is decoded encodes to the same characters again.

What is not done here: nobody says which keys to trust (`corpus_guard.proof.keys`), or what the text means
(`corpus_guard.proof.checkpoint`).

Sources: C2SP signed-note (notes, verifier keys, algorithm 1), C2SP tlog-cosignature (algorithm 4), RFC 8032 (Ed25519).
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from corpus_guard.errors import Inconsistent, Misuse, SettingsError

NOTE_BYTES = 128 * 1024  # a head is 300; the specification asks for room for 16 signatures of 5 kB
SIGNATURES = 32  # a note; the specification asks for 16 at least
KEY_ID_BYTES = 4
ED25519 = 1
COSIGNATURE = 4  # cosignature/v1: Ed25519 with the time of signing
_TIME_BYTES = 8
_DASH = "— "
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


class NoteInvalid(Inconsistent):
    """These bytes are not a signed note."""


class BadSignature(NoteInvalid):
    """A known key is named, and did not sign this."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line."""

    name: str  # of the key
    key_id: bytes  # 4 bytes
    value: bytes  # 64 bytes for Ed25519, 8 bytes of time before them in a cosignature

    @property
    def line(self) -> str:
        """As it stands in a note, with its newline."""
        return f"{_DASH}{self.name} {encode_base64(self.key_id + self.value)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A text and who signed it; nothing is verified yet."""

    text: str  # with its last newline
    signatures: tuple[Signature, ...]

    def serialize(self) -> str:
        """The note as it is stored and sent; the inverse of `parse_note`."""
        return f"{self.text}\n{''.join(signature.line for signature in self.signatures)}"

    def verified_by(self, keys: Sequence[VerifierKey]) -> tuple[VerifierKey, ...]:
        """Those of `keys` whose signature is there and verifies, each once; empty when no known key signed.

        Raises:
            BadSignature: one of `keys` is named and did not sign this text.
        """
        found: dict[VerifierKey, None] = {}
        for signature in self.signatures:
            for key in keys:
                if key.made(signature):
                    key.verify(self.text, signature)
                    found[key] = None
        return tuple(found)


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with the name it signs under."""

    name: str  # neither spaces nor plus
    public: bytes  # 32 bytes
    algorithm: int = ED25519

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or re.search(r"[ +]", self.name):
            raise SettingsError(f"a key is named {self.name!r}; expected a name without spaces and plus signs")
        if self.algorithm not in {ED25519, COSIGNATURE} or len(self.public) != 32:
            raise SettingsError(
                f"key {self.name}: algorithm {self.algorithm} with {len(self.public)} bytes; expected {ED25519} or {COSIGNATURE} "
                "(Ed25519) with 32"
            )

    @classmethod
    def parse(cls, vkey: str) -> Self:
        """Read ``name+id+base64``, the form in which a public key is handed over.

        Raises:
            SettingsError: it is not of that form, or its id is not that of its key: a typing error, or half of it is missing.
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
                f"key {name}: it says id {key_id[:16]!r}, its bytes have {key.key_id.hex()}; copy it again"
            )
        return key

    def encode(self) -> str:
        """``name+id+base64``, to be handed to whoever verifies."""
        return f"{self}+{encode_base64(bytes([self.algorithm]) + self.public)}"

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}"

    @property
    def key_id(self) -> bytes:
        """4 bytes that, with the name, tell the key; they prove nothing."""
        return sha256(self.name.encode() + b"\n" + bytes([self.algorithm]) + self.public).digest()[:KEY_ID_BYTES]

    def made(self, signature: Signature) -> bool:
        """Whether the signature claims to be of this key."""
        return (signature.name, signature.key_id) == (self.name, self.key_id)

    def verify(self, text: str, signature: Signature) -> None:
        """Check that this key signed `text`.

        Raises:
            BadSignature: it did not.
        """
        value, message = signature.value, text.encode()
        if self.algorithm == COSIGNATURE:
            message = _cosigned(text, self.time_of(signature))
            value = value[_TIME_BYTES:]
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(value, message)
        except (InvalidSignature, ValueError) as error:
            raise BadSignature(
                f"a note names key {self}, and its signature does not verify: the text or the signature was changed; "
                "take the note from where it was signed, and find out who changed this one"
            ) from error

    def time_of(self, signature: Signature) -> int:
        """When a cosignature says it was made, in seconds since 1970.

        Raises:
            BadSignature: it says no time.
            Misuse: the key makes signatures without time.
        """
        if self.algorithm != COSIGNATURE:
            raise Misuse(f"key {self} signs without time: only cosignatures (algorithm {COSIGNATURE}) tell it")
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
    clock: Callable[[], float] = field(default=time.time, repr=False)  # seconds since 1970; cosignatures tell it

    @property
    def verifier(self) -> VerifierKey:
        """What others need to verify."""
        return VerifierKey(self.name, self.private.public_key().public_bytes_raw(), self.algorithm)

    def sign(self, text: str) -> Signature:
        """Sign `text`.

        Raises:
            Misuse: no note can hold this text.
        """
        if not text.endswith("\n") or _CONTROL.search(text):
            raise Misuse(
                f"a text of {len(text)} characters cannot be signed: it must end with a newline and hold no control character"
            )
        key = self.verifier
        if self.algorithm == COSIGNATURE:
            at = int(self.clock())
            return Signature(
                self.name, key.key_id, at.to_bytes(_TIME_BYTES, "big") + self.private.sign(_cosigned(text, at))
            )
        return Signature(self.name, key.key_id, self.private.sign(text.encode()))


def parse_note(raw: bytes | str) -> Note:
    """Read a signed note, strictly; its signatures are not verified yet.

    Raises:
        NoteInvalid: these bytes are none; says which rule they break, never what they hold.
    """
    if len(raw) > NOTE_BYTES:
        raise NoteInvalid(f"a note has {len(raw)} bytes, expected at most {NOTE_BYTES}")
    try:
        whole = (raw.encode() if isinstance(raw, str) else raw).decode()
    except UnicodeError as error:
        raise NoteInvalid("a note is not UTF-8; expected a text") from error
    if control := _CONTROL.search(whole):
        raise NoteInvalid(f"a note holds U+{ord(control.group()):04X}, expected no control character but newline")
    text, separator, below = whole.rpartition("\n\n")
    if not separator or not below.endswith("\n"):
        raise NoteInvalid(
            "a note has no signature lines below an empty line, each with its newline; it was cut, or never signed"
        )
    lines = below[:-1].split("\n")
    if len(lines) > SIGNATURES:
        raise NoteInvalid(f"a note has {len(lines)} signatures, expected at most {SIGNATURES}")
    return Note(text + "\n", tuple(_signature(line) for line in lines))


def encode_base64(value: bytes) -> str:
    """Standard base64 with padding (RFC 4648 section 4)."""
    return base64.b64encode(value).decode()


def decode_base64(text: str) -> bytes:
    """Standard base64 with padding, in its one spelling (RFC 4648 section 4).

    Raises:
        NoteInvalid: it is not.
    """
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoteInvalid("a base64 of a note cannot be decoded") from error
    if encode_base64(value) != text:  # spare bits that are not 0: other characters for the same bytes
        raise NoteInvalid("a base64 of a note has another spelling than the one of its bytes")
    return value


def _signature(line: str) -> Signature:
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not name or not space or re.search(r"[\s+]", name):
        raise NoteInvalid("a line below the text of a note is no signature; expected a dash, a key's name, and base64")
    value = decode_base64(encoded)
    if len(value) <= KEY_ID_BYTES:
        raise NoteInvalid(f"a signature of a note has {len(value)} bytes, expected the key's id and more")
    return Signature(name, value[:KEY_ID_BYTES], value[KEY_ID_BYTES:])


def _cosigned(text: str, at: int) -> bytes:
    return f"cosignature/v1\ntime {at}\n{text}".encode()
