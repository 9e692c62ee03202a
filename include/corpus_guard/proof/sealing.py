"""Sealing: the manifest of what is served, and a signed head over all events that led there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.heads import sign_head
from corpus_guard.proof.manifest import Manifest, write_manifest

if TYPE_CHECKING:
    from corpus_guard.batches import Storage
    from corpus_guard.corpus.store import Store
    from corpus_guard.ledger import Ledger
    from corpus_guard.settings import Settings


@dataclass(frozen=True, slots=True)
class Seal:
    """A manifest, and a head whose log names it."""

    manifest: Manifest
    head: Checkpoint


def seal_corpus(ledger: Ledger, storage: Storage, store: Store, settings: Settings, run_id: str) -> Seal:
    """Write the manifest, log it, and sign the log; if killed, the next seal signs what is left.

    Raises:
        Inconsistent: Chroma, ledger and log do not agree; a wrong state is not signed.
        SettingsError: there are heads and no keys.
    """
    manifest = write_manifest(ledger, storage, store, run_id)
    return Seal(manifest, sign_head(ledger, settings))
