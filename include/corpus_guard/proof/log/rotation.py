"""Changes of the log's keys: each is an event of the log, and old and new key sign the next head.

Where the old key is lost, the new one signs alone. Whoever verifies needs the new public key from the operator in any case.

If the process is killed between the new key and its event, the keyring has a key that no event names: it
signs all the same, and running the rotation again makes another one.
"""

from __future__ import annotations

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.heads import newest_head, require_continuation, sign_head
from corpus_guard.proof.log.keys import Keyring
from corpus_guard.settings import Settings


def rotate(
    ledger: Ledger, settings: Settings, run_id: str, overlap: int, *, by: str, reason: str
) -> tuple[str, Checkpoint]:
    """Replace the active key with a new one, sign a head with both, and return the new public key and the head.

    Args:
        overlap: events during which the old key keeps signing; none if it is lost.

    Raises:
        SettingsError: there is no keyring.
        Inconsistent: the log is not what was signed; keys are not changed on a broken log.
    """
    keyring = Keyring.open(settings.keys)
    if keyring.is_active_key_lost:
        require_continuation(ledger, settings)
        newest = newest_head(ledger)
        size, overlap = newest.size if newest else 0, 0
    else:
        size = sign_head(ledger, settings).size  # the last head that only the old key vouches for
    key = keyring.rotate(size, overlap)
    with ledger.write() as connection:
        append_event(
            connection, "key_rotated", key, run_id, by=by, reason=reason, overlap=overlap, keyring_sha256=keyring.sha256
        )
    return key, sign_head(ledger, settings)


def revoke(
    ledger: Ledger, settings: Settings, run_id: str, key_id: str, size: int | None, *, by: str, reason: str
) -> Checkpoint:
    """Stop trusting a key that was replaced, and return the head that the others sign.

    Args:
        key_id: 8 hexadecimal digits.
        size: of the last head for which the key is trusted; None: of the newest one.

    Raises:
        Misuse: it is the active key: rotate first.
        UnknownSubject: no such key.
    """
    newest = newest_head(ledger)
    last_size = size if size is not None else (newest.size if newest else 0)
    keyring = Keyring.open(settings.keys)
    keyring.revoke(key_id, last_size)
    with ledger.write() as connection:
        append_event(
            connection,
            "key_revoked",
            key_id,
            run_id,
            by=by,
            reason=reason,
            last_size=last_size,
            keyring_sha256=keyring.sha256,
        )
    return sign_head(ledger, settings)
