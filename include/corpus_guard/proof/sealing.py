"""Sealing: the manifest of what is served, and a signed head over all events that led there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from corpus_guard.batches import Storage
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.runs import end_run
from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.heads import sign_head
from corpus_guard.proof.manifest import Manifest, write_manifest
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.corpus.store import Store


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


def seal_run(
    ledger: Ledger, storage: Storage, store: Store, settings: Settings, run_id: str, counts: Mapping[str, Any]
) -> Seal:
    """Write the manifest, end the run with its counts and the manifest's hash, and sign the log: the end is signed, too.

    Raises:
        Inconsistent: Chroma, ledger and log do not agree; a wrong state is not signed.
        SettingsError: there are heads and no keys.
    """
    manifest = write_manifest(ledger, storage, store, run_id)
    end_run(ledger, run_id, {**counts, "manifest_sha256": manifest.sha256})
    return Seal(manifest, sign_head(ledger, settings))
