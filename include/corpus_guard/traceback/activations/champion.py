"""Which probe is asked: one that the settings name, else the one that was promoted last, else what comes with the package.

Rules
    * the ledger says which probe was promoted, when and by whom; its files lie in the guard's storage under its digest. A file that is not
      what was promoted is never asked;
    * a probe that knows another language model is not asked, and the trace says so;
    * a probe that the settings name and that cannot be read is an error: somebody meant it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from corpus_guard.errors import Inconsistent
from corpus_guard.models import champion as champions
from corpus_guard.models.champion import Detector
from corpus_guard.traceback.activations.probe import ABOUT, NUMBERS, Probe, load, parse
from corpus_guard.traceback.activations.witness import fits

if TYPE_CHECKING:
    from corpus_guard.batches import Storage
    from corpus_guard.ledger import Ledger
    from corpus_guard.models import Models
    from corpus_guard.settings import Settings

SHIPPED: Final = Path(__file__).with_name("shipped")


def find(settings: Settings, models: Models, ledger: Ledger | None, storage: Storage | None) -> Probe | str:
    """The probe that is asked, or why there is none. Loads no model.

    Raises:
        SettingsError: the probe that the settings name cannot be read.
        Inconsistent: the files of the promoted probe are not what was promoted.
        LedgerUnavailable: the ledger does not answer.
    """
    digest = champions.in_use(Detector.PROBE, settings.activation_probe, ledger)
    found: Probe | None = None
    if settings.activation_probe:
        found = load(settings.activation_probe)
    elif digest and storage is not None:
        found = read_candidate(storage, digest)
    if found is None and (SHIPPED / ABOUT).exists():
        found = load(SHIPPED)
    if found is None:
        return "no probe was trained for this language model; `guard train activations` or the DAG detector_training makes one"
    return fits(found, models) or found


def champion(ledger: Ledger, storage: Storage) -> Probe | None:
    """The probe that was promoted last; None: none was.

    Raises:
        Inconsistent: its files are gone or are not what was promoted.
    """
    digest = champions.promoted(ledger, Detector.PROBE)
    return read_candidate(storage, digest) if digest else None


def keep_candidate(storage: Storage, probe: Probe) -> str:
    """Keep a probe's files where tasks on other machines find them; its digest."""
    for name, content in probe.files.items():
        storage.write(f"{champions.folder(Detector.PROBE, probe.digest)}/{name}", content, keep_first=True)
    return probe.digest


def read_candidate(storage: Storage, digest: str) -> Probe:
    """A probe that was kept.

    Raises:
        Inconsistent: its files are gone or have other bytes.
    """
    where = champions.folder(Detector.PROBE, digest)
    found = parse(storage.read(f"{where}/{ABOUT}"), storage.read(f"{where}/{NUMBERS}"), storage.location(where))
    if found.digest != digest:
        raise Inconsistent(
            f"activation probe {storage.location(where)}: its digest is {found.digest[:16]}…, the ledger has {digest[:16]}…; restore the "
            "folder, or promote another probe"
        )
    return found


def promote(ledger: Ledger, storage: Storage, digest: str, *, run_id: str, by: str, **told: Any) -> Probe:
    """Make a kept probe the one that is asked; once.

    Args:
        ledger: where it is written who did it.
        storage: where its files lie.
        digest: of the probe.
        run_id: who promotes.
        by: whoever approved it.
        told: more for the event, such as the version in a registry.

    Raises:
        Inconsistent: its files are gone or have other bytes.
    """
    found = read_candidate(storage, digest)
    counts = not found.shortfalls
    champions.promote(ledger, Detector.PROBE, digest, run_id=run_id, by=by, counts=counts, **told)
    return found
