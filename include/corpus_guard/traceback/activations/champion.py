"""Selection of the probe: that of the settings, else the last promoted one, else that of the package.

Rules
    * the ledger says which probe was promoted, when and by whom; its files lie in the storage under its
      digest. Files that differ from what was promoted are never used;
    * a probe of another language model is not used, and the trace says so; nor is one whose figures miss its floor, unless
      the settings name it: then its vote is shown, and does not count;
    * a probe that the settings name and that cannot be read is an error, because somebody asked for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from corpus_guard.domain import Skipped
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.models import champion as champions
from corpus_guard.models.champion import Detector
from corpus_guard.traceback.activations.probe import DESCRIPTION_FILE, TENSORS_FILE, Probe, load_probe, parse_probe
from corpus_guard.traceback.activations.witness import CHECK_NAME, probe_mismatch

if TYPE_CHECKING:
    from corpus_guard.batches import Storage
    from corpus_guard.settings import Settings

SHIPPED_FOLDER: Final = Path(__file__).with_name("shipped")
NO_PROBE: Final = Skipped(
    CHECK_NAME,
    "no probe was trained for this language model; train one with `guard train activations` or the DAG "
    "detector_training",
)


def select_probe(settings: Settings, models: Models, ledger: Ledger | None, storage: Storage | None) -> Probe | Skipped:
    """Return the probe in use, or why there is none. Loads no model.

    Raises:
        SettingsError: the probe that the settings name cannot be read.
        Inconsistent: the files of the promoted probe are gone or were changed.
        LedgerUnavailable: the ledger does not answer.
    """
    digest = champions.active_digest(Detector.PROBE, settings.activation_probe, ledger)
    probe: Probe | None = None
    if settings.activation_probe:
        probe = load_probe(settings.activation_probe)
    elif digest and storage is not None:
        probe = read_candidate(storage, digest)
    if probe is None and (SHIPPED_FOLDER / DESCRIPTION_FILE).exists():
        probe = load_probe(SHIPPED_FOLDER)
    if probe is None:
        return NO_PROBE
    if probe.shortfalls and not settings.activation_probe:
        return Skipped(CHECK_NAME, f"the probe in use is too weak to count: {'; '.join(probe.shortfalls)}")
    return probe_mismatch(probe, models) or probe


def find_promoted_probe(ledger: Ledger, storage: Storage) -> Probe | None:
    """Return the last promoted probe; None: no probe was promoted.

    Raises:
        Inconsistent: its files are gone or were changed.
    """
    digest = champions.promoted_digest(ledger, Detector.PROBE)
    return read_candidate(storage, digest) if digest else None


def save_candidate(storage: Storage, probe: Probe) -> str:
    """Store a probe's files where tasks on other machines find them, and return its digest."""
    for name, content in probe.files.items():
        storage.write(f"{champions.detector_folder(Detector.PROBE, probe.digest)}/{name}", content, keep_existing=True)
    return probe.digest


def read_candidate(storage: Storage, digest: str) -> Probe:
    """Read a stored probe.

    Raises:
        Inconsistent: its files are gone or were changed.
    """
    folder = champions.detector_folder(Detector.PROBE, digest)
    location = storage.location(folder)
    probe = parse_probe(
        storage.read(f"{folder}/{DESCRIPTION_FILE}"), storage.read(f"{folder}/{TENSORS_FILE}"), location
    )
    if probe.digest != digest:
        raise Inconsistent(
            f"activation probe {location}: got digest {probe.digest[:16]}…, expected {digest[:16]}… as in "
            "the ledger; restore the folder, or promote another probe"
        )
    return probe


def promote_probe(ledger: Ledger, storage: Storage, digest: str, *, run_id: str, by: str, **details: object) -> Probe:
    """Put a stored probe into use; a repeated call changes nothing.

    Raises:
        Inconsistent: its files are gone or were changed.
    """
    probe = read_candidate(storage, digest)
    counts = not probe.shortfalls
    champions.promote(ledger, Detector.PROBE, digest, run_id=run_id, by=by, counts=counts, **details)
    return probe
