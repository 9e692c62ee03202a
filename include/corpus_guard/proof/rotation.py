"""Changing the log's keys: the change itself is an event of the log, and the next head is signed by old and new.

Killed between the new key and its event, the keyring has a key that no event tells of: it signs all the same, and running the
rotation again makes a further one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpus_guard.proof.checkpoint import Checkpoint
from corpus_guard.proof.heads import newest_head, sign_head
from corpus_guard.proof.keys import Keyring

if TYPE_CHECKING:
    from corpus_guard.guard import Guard


def rotate(guard: Guard, run_id: str, overlap: int, *, by: str, reason: str) -> tuple[str, Checkpoint]:
    """Put a new key in place of the active one and sign a head with both.

    Args:
        guard: the deployment; it has sealed before.
        run_id: for the log.
        overlap: events during which the old key signs along.
        by: who asked.
        reason: why.

    Returns:
        The new public key, and the head that tells of it.

    Raises:
        SettingsError: there are no keys.
        Inconsistent: the log is not what was signed; keys are not changed on a broken log.
    """
    keyring = Keyring.open(guard.settings.keys)
    size = sign_head(guard).size  # what the old key vouches for alone
    key = keyring.rotate(size, overlap)
    with guard.ledger.write() as connection:
        guard.ledger.event(connection, "key_rotated", key, run_id, by=by, reason=reason, overlap=overlap)
    return key, sign_head(guard)


def revoke(guard: Guard, run_id: str, key_id: str, size: int | None, *, by: str, reason: str) -> Checkpoint:
    """Stop trusting a key that was replaced.

    Args:
        guard: the deployment.
        run_id: for the log.
        key_id: 8 hexadecimal digits.
        size: of the last head it is trusted for; None: of the newest one.
        by: who asked.
        reason: why.

    Raises:
        Misuse: it is the active key: rotate first.
        UnknownSubject: no such key.
    """
    newest = newest_head(guard.ledger)
    last = size if size is not None else (newest.size if newest else 0)
    Keyring.open(guard.settings.keys).revoke(key_id, last)
    with guard.ledger.write() as connection:
        guard.ledger.event(connection, "key_revoked", key_id, run_id, by=by, reason=reason, last_size=last)
    return sign_head(guard)
