"""Private keys on disk.

Rules
    * only the owner can read a private key, or the group of a mounted one; one that others can read is refused;
    * a file is replaced atomically, and is on disk when the call returns.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from corpus_guard.errors import SettingsError
from corpus_guard.settings import is_open_to_others


def write_private_key(file: Path, private: Ed25519PrivateKey) -> None:
    """Write a private key (PKCS #8, PEM) that only its owner can read; it is on disk when this returns."""
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_durably(file, pem, 0o600)


def read_private_key(file: Path) -> Ed25519PrivateKey:
    """Read a private key that `write_private_key` wrote.

    Raises:
        SettingsError: the file is missing, is not an Ed25519 key, or others can read it.
    """
    try:
        with file.open("rb") as stream:
            status = os.fstat(stream.fileno())
            pem = stream.read()
    except OSError as error:
        raise SettingsError(
            f"private key {file}: {error.strerror}; restore it from a backup, or rotate to a new one"
        ) from error
    if is_open_to_others(status):
        raise SettingsError(
            f"private key {file} has mode {status.st_mode & 0o777:o}, so others can read it; run chmod 600, and rotate "
            "the key if somebody may have read it"
        )
    try:
        private = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise SettingsError(
            f"private key {file} is not a PEM file without password; restore it from a backup"
        ) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise SettingsError(f"private key {file} has another type; expected Ed25519")
    return private


def write_durably(file: Path, content: bytes, mode: int) -> None:
    """Replace `file` atomically; the new content is on disk when this returns."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        error.filename = str(file)  # a full disk does not say which
        draft.unlink(missing_ok=True)
        raise
    draft.replace(file)
    descriptor = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
