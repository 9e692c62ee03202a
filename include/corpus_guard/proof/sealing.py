"""Sealing: the manifest of what is served, and a signed head over everything that led there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus_guard.proof.checkpoint import Checkpoint
from corpus_guard.proof.heads import sign_head
from corpus_guard.proof.manifest import Manifest, write_manifest

if TYPE_CHECKING:
    from corpus_guard.guard import Guard


@dataclass(frozen=True, slots=True)
class Seal:
    """A manifest and the head whose log tells of it."""

    manifest: Manifest
    head: Checkpoint


def seal_corpus(guard: Guard, run_id: str) -> Seal:
    """Write the manifest, log it, sign the log. Killed in between, the next seal signs what is left.

    Raises:
        Inconsistent: Chroma, ledger and log do not agree; what is wrong is not signed.
        SettingsError: there are heads and no keys.
    """
    manifest = write_manifest(guard, run_id)
    return Seal(manifest, sign_head(guard))
