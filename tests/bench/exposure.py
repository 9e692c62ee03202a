"""Exposure over a large retrieval log: seconds for a chunk, a document and a source.

Usage: PYTHONPATH=include:tests python tests/bench/exposure.py FOLDER [RETRIEVALS [URL]]

URL names an empty PostgreSQL database of this machine, on which nothing else works; without it the ledger is a SQLite file
in FOLDER. The seconds of the processor are those of this process and of all of PostgreSQL's.

The log is made by SQL: five chunks a retrieval of 5,000 documents with four chunks each, the first of which is in every
twentieth retrieval.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import sqlalchemy as sa

from corpus_guard.forensics.exposure import find_subject, measure_exposure
from corpus_guard.forensics.road import find_road_siblings
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import retrievals
from forensics_material import write_corpus

DOCUMENTS, CHUNKS, SERVED = 5_000, 4, 5
HOT = 20  # every so many retrievals serve the hot chunk


def fill(ledger: Ledger, number: int) -> None:
    """Write a corpus and a log."""
    write_corpus(
        ledger,
        {
            f"d{n}": (f"source{n % 10}", f"{n}.md", tuple(f"c{n * CHUNKS + k}" for k in range(CHUNKS)))
            for n in range(DOCUMENTS)
        },
    )
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {number})"
    chunk = f"CASE WHEN k = 0 AND i % {HOT} = 0 THEN 0 ELSE 1 + (i * 7919 + k * 104729) % {DOCUMENTS * CHUNKS - 1} END"
    moment = "datetime('2026-03-01', '+' || (i * 7 % 7776000) || ' seconds')"
    if ledger.engine.dialect.name == "postgresql":
        moment = "timestamptz '2026-03-01 00:00:00Z' + make_interval(secs => i * 7 % 7776000)"
        numbers = numbers.replace("SELECT 0", "SELECT 0::bigint")
    statements = (
        "INSERT INTO queries (query_id, text, origin, count, first_seen_at, last_seen_at) "
        f"{numbers} SELECT 'q' || i, 'Question ' || i, 'log', 1, '2026-03-01', '2026-03-01' FROM n WHERE i < 100000",
        "INSERT INTO retrievals (retrieval_id, query_id, at, session, checked_by, filtered, withheld, served, origin, user_id) "
        f"{numbers} SELECT i, 'q' || (i * 31 % 100000), {moment}, "
        f"'s' || (i % 70001), 'off', '[]', '[]', {SERVED}, 'guard', 'u' || (i % 5003) FROM n",
        "INSERT INTO retrieved_chunks (chunk_id, retrieval_id, rank, score, shown) "
        f"{numbers}, k(k) AS (VALUES (0), (1), (2), (3), (4)) SELECT 'c' || ({chunk}), i, k + 1, 0.5, NULL FROM n, k WHERE true "
        "ON CONFLICT DO NOTHING",
    )
    with ledger.write() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def processor_seconds() -> float:
    """Return the seconds of this process and of all processes of PostgreSQL, also those that ended."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, fields = file.read_text().partition("(")[2].rpartition(")")
        except OSError:  # it ended
            continue
        if name == "postgres":
            ticks += sum(map(int, fields.split()[11:15]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def main(folder: str, number: str = "1000000", url: str = "") -> None:
    """Fill a ledger that is empty, and print seconds of the processor."""
    ledger = Ledger(url or f"sqlite:///{Path(folder) / 'exposure.sqlite'}")
    is_new = ledger.scalar(sa.select(retrievals.c.retrieval_id).limit(1)) is None
    if is_new:
        started = processor_seconds()
        fill(ledger, int(number))
        if ledger.engine.dialect.name == "postgresql":  # as its autovacuum does after a while
            with ledger.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(sa.text("VACUUM ANALYZE"))
        print(f"filled in {processor_seconds() - started:.1f} s")
    for name in ("c0", "c77", "d0", "d1", "source3/3.md", "source3"):
        started, wall = processor_seconds(), time.monotonic()
        subject = find_subject(ledger, name)
        measured = measure_exposure(ledger, subject)
        exposed = processor_seconds() - started, time.monotonic() - wall
        siblings = find_road_siblings(ledger, subject)
        reach = measured.retrieved
        print(
            f"{subject.kind.value:9} {name:13} {reach.retrievals:>9,} retrievals, {reach.sessions or 0:>7,} sessions: ",
            end="",
        )
        print(f"{exposed[0]:.2f} s of the processor, {exposed[1]:.2f} s; ", end="")
        print(f"{siblings.total:,} siblings {processor_seconds() - started - exposed[0]:.2f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
