"""Stored files, read back and compared with their hashes.

Rules
    * raw bytes have the hash that is their name; a version with a text has its raw bytes, unless they were purged;
    * a file whose hash was logged is there and has it, until its deletion is logged;
    * a batch holds the texts, stamps and chunks that were judged, and the vectors that were published; this is
      all that is compared for batches of older releases, which logged no hashes;
    * every manifest that was ever sealed, and every trained detector that was promoted, has the logged hash;
    * rules, learned parameters and canaries of the package are those under which the last run worked;
    * the public keys and the private keys fit the keyring, and the keyring is the one of the last rotation;
    * a damaged file is one deviation, which names the file, the documents concerned, and from what it can be
      restored. Nothing is repaired here.

Each night reads another share, so that everything is read within `Settings.verify_nights` nights; `--deep` reads
everything and the weights of the models, too. Missing files are noticed each time, by a listing; keys are read each
time, and so is what an open incident names.

Not checked here: files of runs, of the query bank and of setups, which are made again when they are missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final

import numpy as np
import orjson
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard import __version__
from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import logged_hashes
from corpus_guard.batches.reading import compare_batch
from corpus_guard.batches.tables import vectors_from_table
from corpus_guard.domain import EMPTY_TEXT_SHA256, Progress, sha256_bytes
from corpus_guard.errors import Inconsistent
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row
from corpus_guard.ledger.runs import logged_configuration
from corpus_guard.ledger.states import LIVE_STATES, PublicationState
from corpus_guard.ledger.tables import documents, events, publications, versions
from corpus_guard.models.champion import PROMOTION_EVENT, Detector, detector_folder
from corpus_guard.models.parts import hash_parts
from corpus_guard.models.weights import find_changed_weights
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.log.keys import Keyring
from corpus_guard.proof.verify.findings import DeviationCollector
from corpus_guard.screening.blocked import find_purged
from corpus_guard.settings import PACKAGE, Settings

ROWS_PER_FETCH: Final = 1_000
FILES_PER_REPORT: Final = 100  # between two reports of progress
DOCUMENTS_NAMED: Final = 3  # in one message


@dataclass(frozen=True, slots=True)
class FileShare:
    """Files that one verification reads: each file has its turn once in so many nights."""

    nights: int  # 0: no file has a turn
    turn: int  # 0 to nights - 1
    always: frozenset[str] = frozenset()  # storage names that are read whatever their turn

    @classmethod
    def of_day(cls, day: date, nights: int, always: Iterable[str] = ()) -> FileShare:
        """Return the share of a day (UTC)."""
        return cls(nights, day.toordinal() % nights if nights else 0, frozenset(always))

    @classmethod
    def everything(cls) -> FileShare:
        """Return the share that has all files."""
        return cls(1, 0)

    def covers(self, name: str) -> bool:
        """Return whether it is the turn of a file."""
        has_turn = self.nights > 0 and zlib.crc32(name.encode("utf-8", "surrogateescape")) % self.nights == self.turn
        return has_turn or name in self.always


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Numbers of stored files, missing ones included."""

    read: int
    total: int


def check_files(
    ledger: Ledger,
    storage: Storage,
    settings: Settings,
    share: FileShare,
    collector: DeviationCollector,
    progress: Progress,
    *,
    checked_manifest: str = "",
) -> FileCounts:
    """Read the share's files and the keys; deviations go to `collector`.

    Args:
        checked_manifest: storage name of the manifest that was read already.
    """
    _check_keys(ledger, settings, collector)
    check = _FileCheck(ledger, storage, share, collector, progress)
    for subject, read in (
        ("raw bytes", check.raw_bytes),
        ("stored files", check.logged_files),
        ("manifests", lambda: check.manifests(checked_manifest)),
        ("detectors", check.detectors),
    ):
        with collector.catching_unreadable(subject):
            read()
    return FileCounts(check.read, check.total)


def check_weights(settings: Settings, collector: DeviationCollector) -> None:
    """Read the weights of the models; deviations go to `collector`."""
    for file, problem in find_changed_weights(settings):
        collector.add(DeviationKind.WEIGHTS_CHANGED, file, problem)


def check_parts(ledger: Ledger, collector: DeviationCollector) -> None:
    """Compare the package's files that decide with those under which the last run worked; deviations go to `collector`.

    Another release of the software brings other files, and its first run logs them.
    """
    with ledger.read() as connection:
        logged = logged_configuration(connection)
    if logged.get("software") != __version__:
        return
    actual = hash_parts()
    for path, expected in logged.items():
        name = path.removeprefix("files.")
        if name != path and actual.get(name) != expected:
            collector.add(
                DeviationKind.WEIGHTS_CHANGED,
                name,
                f"{PACKAGE / name} {_state(actual.get(name))}: it decides verdicts, and the last run worked under another one. "
                "Reinstall the software; if you replaced it yourself, the next refresh logs the change and tells the reviewers",
                expected=expected,
                actual=actual.get(name, ""),
            )


@dataclass
class _FileCheck:
    """Reading of one share, with its counts."""

    ledger: Ledger
    storage: Storage
    share: FileShare
    collector: DeviationCollector
    progress: Progress
    read: int = 0
    total: int = 0
    blobs: BlobStore = field(init=False)
    present: set[str] = field(init=False)  # names in storage

    def __post_init__(self) -> None:
        self.blobs = BlobStore(f"{self.storage.url}/raw")
        self.present = self.storage.names() if self.share.nights else set()

    def has_turn(self, name: str) -> bool:
        """Count a file, and return whether it is read now: it has its turn, or the listing lacks it."""
        self.total += 1
        if not self.share.covers(name) and (name in self.present or not self.share.nights):
            return False
        self.read += 1
        if self.read % FILES_PER_REPORT == 0:
            self.progress("stored files", self.read, None)
        return True

    # --- raw bytes ---

    def raw_bytes(self) -> None:
        last = ""
        has_text = sa.func.max(sa.case((versions.c.text_sha256 != EMPTY_TEXT_SHA256, 1), else_=0)).label("has_text")
        statement = sa.select(versions.c.content_sha256, has_text).group_by(versions.c.content_sha256)
        while True:
            page = statement.where(versions.c.content_sha256 > last).order_by(versions.c.content_sha256)
            rows = self.ledger.rows(page.limit(ROWS_PER_FETCH))
            for row in rows:
                if self.has_turn(_blob_name(row.content_sha256)):
                    self._check_blob(row.content_sha256, has_text=bool(row.has_text))
            if len(rows) < ROWS_PER_FETCH:
                return
            last = rows[-1].content_sha256

    def _check_blob(self, sha256: str, *, has_text: bool) -> None:
        actual = self.blobs.actual_sha256(sha256)
        if actual == sha256 or (actual is None and not has_text) or find_purged(self.ledger, (sha256,)):
            return
        owners = self._owners(versions.c.content_sha256 == sha256)
        self._report(
            _blob_name(sha256),
            actual,
            sha256,
            owners,
            "raw bytes cannot be made again from anything stored here. `guard incident heal` fetches them again if the source "
            "still has the same; else restore the file from a copy of the storage folder",
        )

    # --- files with a logged hash, and batches ---

    def logged_files(self) -> None:
        live = publications.c.state.in_(LIVE_STATES)
        with self.ledger.read() as connection:
            logged = logged_hashes(connection)
            batches = set(connection.scalars(sa.select(versions.c.batch).distinct()))
            vectors = set(connection.scalars(sa.select(publications.c.vectors).where(live).distinct()))
        deleted = {name for name, sha256 in logged.items() if sha256 is None}
        for name in sorted((set(logged) | batches | vectors) - deleted):
            if self.has_turn(name):
                self._check_logged(name, logged.get(name), is_batch=name in batches, has_vectors=name in vectors)

    def _check_logged(self, name: str, expected: str | None, *, is_batch: bool, has_vectors: bool) -> None:
        actual = self._actual(name)
        if expected and actual != expected:  # a purge may have written it anew meanwhile
            with self.ledger.read() as connection:
                expected = logged_hashes(connection, name.rpartition("/")[0])[name]
            if expected is None:
                return
            actual = self._actual(name)
        if actual is None:
            self._report(name, None, expected or "", self._owners(_in_file(name)), self._remedy(name))
        elif is_batch:
            self._check_batch(name, expected, actual)
        elif has_vectors:
            self._check_vectors(name, expected, actual)
        elif expected and actual != expected:
            self._report(name, actual, expected, self._owners(_in_file(name)), self._remedy(name))

    def _check_batch(self, name: str, expected: str | None, actual: str) -> None:
        _, defects = compare_batch(self.ledger, self.storage, name)
        if not defects and (expected is None or actual == expected):
            return
        concerned = [defect.version_id for defect in defects if defect.version_id]
        owners = self._owners(versions.c.version_id.in_(concerned[:ROWS_PER_FETCH]) if concerned else _in_file(name))
        problem = defects[0].problem if defects else "texts, stamps and chunks are those judged; the rest of it changed"
        self._report(name, actual, expected or "", owners, f"{problem}. {self._remedy(name)}")

    def _check_vectors(self, name: str, expected: str | None, actual: str) -> None:
        statement = sa.select(publications.c.chunk_id, publications.c.version_id, publications.c.vector_sha256).where(
            publications.c.vectors == name, publications.c.state == PublicationState.PUBLISHED
        )
        rows = self.ledger.rows(statement)
        try:
            stored = vectors_from_table(self.storage.read_table(name))
            changed = [row for row in rows if not _has_vector(stored.get(row.chunk_id), row.vector_sha256)]
        except (Inconsistent, pa.ArrowException, ValueError, LookupError, TypeError, AttributeError):
            changed = list(rows)
        if not changed and (expected is None or actual == expected):
            return
        concerned = sorted({row.version_id for row in changed})
        owners = self._owners(versions.c.version_id.in_(concerned[:ROWS_PER_FETCH]) if concerned else _in_file(name))
        problem = f"published vectors that it does not hold as they were published: {len(changed):,}"
        self._report(name, actual, expected or "", owners, f"{problem}. {self._remedy(name)}")

    def _remedy(self, name: str) -> str:
        file = name.rpartition("/")[2]
        if name.startswith("batches/") and file == "versions.parquet":
            statement = sa.select(versions.c.content_sha256).where(versions.c.batch == name).distinct()
            contents = self.ledger.scalars(statement)
            lost = sum(self.blobs.actual_sha256(sha256) != sha256 for sha256 in contents)
            if not lost:
                return (
                    "It can be made again from the raw bytes, which are intact: delete it, and the next run that needs it "
                    "does so. Or restore it from a copy"
                )
            damaged = f"{lost:,} of its {len(contents):,} documents"
            return f"Restore it from a copy: the raw bytes of {damaged} are damaged, too"
        for prefix, remedy in _REMEDIES.items():
            if name.startswith("batches/") and file.startswith(prefix):
                return remedy
        return "It cannot be made again; restore it from a copy of the storage folder"

    # --- manifests and detectors ---

    def manifests(self, checked: str) -> None:
        statement = sa.select(events.c.seq, events.c.subject, events.c.body["manifest"].as_string().label("manifest"))
        rows = self.ledger.rows(statement.where(events.c.kind == "sealed").order_by(events.c.seq))
        sealed = {row.manifest: row for row in rows}  # a seal of an unchanged corpus names its manifest again
        for name, row in sorted(sealed.items()):
            if name != checked and self.has_turn(name) and (actual := self._actual(name)) != row.subject:
                kind = DeviationKind.MANIFEST_CHANGED if actual else DeviationKind.MANIFEST_MISSING
                self.collector.add(
                    kind,
                    name,
                    f"the manifest {self.storage.location(name)}, sealed by event {row.seq}, {_state(actual)}. It "
                    "cannot be made again: what was served then can no longer be proved or compared. Restore it from "
                    "a copy of the storage folder, or from an attestation that was exported then",
                    expected=row.subject,
                    actual=actual or "",
                )

    def detectors(self) -> None:
        statement = sa.select(events.c.subject, events.c.body["digest"].as_string().label("digest"))
        rows = self.ledger.rows(statement.where(events.c.kind == PROMOTION_EVENT).distinct())
        remedy = "Restore it from a copy of the storage folder, or train and promote another one"
        for row in rows:
            detector = Detector(row.subject)
            folder = detector_folder(detector, row.digest)
            name = f"{folder}/{'probe' if detector is Detector.PROBE else detector.value}.json"
            if not self.has_turn(name):
                continue
            files = {name: row.digest}
            if detector is Detector.PROBE and self._actual(name) == row.digest:
                files[f"{folder}/probe.safetensors"] = orjson.loads(self.storage.read(name))["tensors_sha256"]
            for file, expected in files.items():
                if (actual := self._actual(file)) != expected:
                    self._report(file, actual, expected, (), remedy)

    # --- common ---

    def _actual(self, name: str) -> str | None:
        try:
            return self.storage.sha256(name)
        except Inconsistent:
            return None

    def _owners(self, condition: sa.ColumnElement[bool]) -> Sequence[Row]:
        statement = (
            sa.select(documents.c.doc_id, documents.c.source, documents.c.uri)
            .join(versions, versions.c.doc_id == documents.c.doc_id)
            .where(condition)
            .distinct()
            .order_by(documents.c.source, documents.c.uri)
        )
        return self.ledger.rows(statement)

    def _report(self, name: str, actual: str | None, expected: str, owners: Sequence[Row], remedy: str) -> None:
        subjects = f" (of {_places(owners)})" if owners else ""
        self.collector.add(
            DeviationKind.FILE_CHANGED if actual else DeviationKind.FILE_MISSING,
            name,
            f"{self.storage.location(name)}{subjects} {_state(actual)}: {remedy}",
            expected=expected,
            actual=actual or "",
            doc_id=owners[0].doc_id if owners else "",
        )


_REMEDIES: Final[Mapping[str, str]] = {
    "signals": "It is measured from the texts of versions.parquet beside it; restore it from a copy",
    "judgements": "Its findings are in the ledger, and no run takes it over as it is; restore it from a copy",
    "vectors": "They can be computed again from the texts by the same embedder; the collection still holds those "
    "that are served. Restore it from a copy: without it a changed record cannot be healed",
}


def _check_keys(ledger: Ledger, settings: Settings, collector: DeviationCollector) -> None:
    changes = events.c.kind.in_(("key_rotated", "key_revoked"))
    newest = sa.select(events.c.body).where(changes).order_by(events.c.seq.desc()).limit(1)
    body = ledger.scalar(newest) or {}
    for file, problem in Keyring(settings.keys).find_damage(str(body.get("keyring_sha256", ""))):
        collector.add(DeviationKind.KEYS_CHANGED, file, problem)


def _blob_name(sha256: str) -> str:
    return f"raw/sha256/{sha256[:2]}/{sha256}"


def _in_file(name: str) -> sa.ColumnElement[bool]:
    """Return the condition for versions of the same batch."""
    return versions.c.batch == f"{name.rpartition('/')[0]}/versions.parquet"


def _has_vector(vector: NDArray[np.float32] | None, sha256: str | None) -> bool:
    return vector is not None and sha256_bytes(vector.tobytes()) == sha256


def _state(actual: str | None) -> str:
    return "does not hold what was stored" if actual else "is missing"


def _places(owners: Sequence[Row]) -> str:
    named = ", ".join(f"{owner.uri} of {owner.source}" for owner in owners[:DOCUMENTS_NAMED])
    more = len(owners) - DOCUMENTS_NAMED
    return f"{named} and {more:,} more" if more > 0 else named
