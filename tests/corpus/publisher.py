"""A publishing process that can be told to die: at the n-th of the moments at which something has just become, or is about to become, real.

The processes come from a fork server, which imports once: each costs a fraction of a second.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chromadb.api.models.Collection import Collection

from corpus_guard.batches import Storage
from corpus_guard.corpus import outbox, reach
from corpus_guard.corpus import store as stores
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.pgvector_store import PgvectorStore
from corpus_guard.corpus.store import ChunkRecord, Store
from corpus_guard.domain import Verdict, Version
from corpus_guard.ledger import Ledger
from material import Shelf

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["corpus_guard.corpus.publishing", "corpus_guard.ledger.tables", "chromadb"])


@dataclass(frozen=True)
class Place:
    """Where a shelf lies, for another process."""

    ledger: str
    storage: str
    store: type[Store]
    url: str
    prefix: str

    @classmethod
    def of(cls, shelf: Shelf) -> Place:
        url = shelf.ledger.url.render_as_string(hide_password=False)
        folder = shelf.storage.location("").rstrip("/")
        return cls(url, folder, type(shelf.store), shelf.store.url, shelf.store.prefix)

    def open(self) -> Shelf:
        return Shelf(Ledger(self.ledger), Storage(self.storage), self.store(self.url, self.prefix))


@dataclass(frozen=True)
class Journey:
    """What one process does: verdicts into the ledger, retirements, then Chroma follows."""

    record: Sequence[tuple[Version, Verdict]]
    retire: Sequence[str] = ()

    def run(self, shelf: Shelf) -> None:
        shelf.record(*self.record)
        if self.retire:
            shelf.retire(*self.retire)
        shelf.drain()


@dataclass(frozen=True)
class Sizes:
    """How finely the work is cut."""

    group: int = outbox.CHUNKS_PER_GROUP
    batch: int = stores.RECORDS_PER_REQUEST
    losing: bool = False  # the first record is said to be lost, once: it and its neighbours are written again


def run_until(place: Place, journey: Journey, moment: int, sizes: Sizes, tape: Path) -> int:
    """Run `journey` in a process that kills itself at `moment` (0: never). Returns its exit code; `tape` names the moments."""
    process = PROCESSES.Process(target=_live, args=(place, journey, moment, sizes, tape))
    process.start()
    process.join(60)
    assert process.exitcode is not None, "the process hangs"
    return process.exitcode


def together(place: Place, journeys: Sequence[Journey]) -> list[int | None]:
    """Run journeys in as many processes, started at one moment. Returns their exit codes."""
    start = PROCESSES.Barrier(len(journeys))
    processes = [PROCESSES.Process(target=_at_once, args=(place, journey, start)) for journey in journeys]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


def _at_once(place: Place, journey: Journey, start: Any) -> None:
    shelf = place.open()
    start.wait(60)
    journey.run(shelf)


def _live(place: Place, journey: Journey, moment: int, sizes: Sizes, tape: Path) -> None:
    outbox.CHUNKS_PER_GROUP, stores.RECORDS_PER_REQUEST = sizes.group, sizes.batch
    if sizes.losing:
        _lose_one()
    shelf = place.open()
    with tape.open("w") as lines:
        passed = 0

        def reached(name: str) -> None:
            nonlocal passed
            passed += 1
            lines.write(f"{name}\n")
            if passed == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        _mark_moments(reached)
        journey.run(shelf)


def _mark_moments(reached: Callable[[str], None]) -> None:
    write = Ledger.write

    @contextlib.contextmanager
    def marked(self: Ledger) -> Iterator[Any]:
        with write(self) as connection:
            yield connection
            reached("before a commit")
        reached("after a commit")

    Ledger.write = marked  # type: ignore[method-assign]
    for name in ("upsert", "delete"):
        setattr(Store, name, _between(getattr(Store, name), name, reached))
    for kind in (ChromaStore, PgvectorStore):  # between writing and reading it back
        setattr(kind, "get", _between(kind.get, "read-back", reached))  # noqa: B010 - mypy allows no other way
    # A repair deletes and writes in one `Store.upsert`; PostgreSQL does both in one transaction.
    Collection.upsert = _between(Collection.upsert, "the write", reached)  # type: ignore[method-assign]
    PgvectorStore._write = _between(PgvectorStore._write, "the write", reached)  # type: ignore[method-assign]


def _between(do: Callable[..., Any], name: str, reached: Callable[[str], None]) -> Callable[..., Any]:
    def marked(*arguments: Any, **named: Any) -> Any:
        reached(f"before {name}")
        done = do(*arguments, **named)
        reached(f"after {name}")
        return done

    return marked


def _lose_one() -> None:
    real = reach.unreachable_records
    said: list[ChunkRecord] = []

    def lost(store: Store, collection: str, records: Sequence[ChunkRecord]) -> list[ChunkRecord]:
        if said:
            return real(store, collection, records)
        said.extend(records[:1])
        return list(said)

    reach.unreachable_records = lost
