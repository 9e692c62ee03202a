"""Documents that came the same road as an accused one: by the same run, author or day, in the same words, with the same claim.

Rules
    * a road says where to look, not who is guilty: a whole source may have one author;
    * documents with the most roads in common come first; the list is cut, the count of each road is not;
    * roads are read from the ledger: what a document declares of its author groups it, as in the quarantine.

Not done here: nearness in meaning, which needs the store; `guard trace` judges what a question retrieves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from corpus_guard.forensics.exposure import ExposureSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row
from corpus_guard.ledger.states import Label
from corpus_guard.ledger.tables import bands, chunks, documents, suspects, traces, versions

MAX_SIBLINGS: Final = 50


class Road(StrEnum):
    """Common property of two documents."""

    CLAIM = "claim"  # traces of one report accuse both
    WORDING = "wording"  # near-duplicates
    RUN = "run"  # one run took them in
    PRINCIPAL = "principal"  # one author of one source; its owner where no author is declared
    DAY = "day"  # fetched from one source on one day


@dataclass(frozen=True, slots=True)
class RoadSibling:
    """A document that came the same road."""

    doc_id: str
    source: str
    uri: str  # hostile
    trust: str
    served: bool
    roads: tuple[Road, ...]  # in the order of `Road`


@dataclass(frozen=True, slots=True)
class RoadSiblings:
    """The documents that came the same road as a subject."""

    siblings: tuple[RoadSibling, ...]  # most roads first
    totals: Mapping[Road, int]  # documents on each road
    total: int  # documents on any


def find_road_siblings(ledger: Ledger, *subjects: ExposureSubject, listed: int = MAX_SIBLINGS) -> RoadSiblings:
    """Return the documents that came the same road as the texts of these subjects, those of the subjects excepted."""
    with ledger.read() as connection:
        wanted = sa.union(*(subject.chunk_ids() for subject in subjects)).subquery()
        own = (
            sa.select(versions)
            .where(
                versions.c.version_id.in_(
                    sa.select(chunks.c.version_id).where(chunks.c.chunk_id.in_(sa.select(wanted.c.chunk_id)))
                )
            )
            .subquery("own")
        )
        own_documents = sa.select(own.c.doc_id)
        travelled = sa.union(
            *(statement.where(versions.c.doc_id.not_in(own_documents)) for statement in _roads(own, wanted))
        ).subquery("travelled")
        totals: dict[str, int] = {
            row.road: row.number
            for row in connection.execute(
                sa.select(travelled.c.road, sa.func.count().label("number")).group_by(travelled.c.road)
            )
        }
        total = connection.scalar(sa.select(sa.func.count(sa.distinct(travelled.c.doc_id)))) or 0
        nearest = (
            sa.select(travelled.c.doc_id, sa.func.count().label("number"))
            .group_by(travelled.c.doc_id)
            .order_by(sa.desc("number"), travelled.c.doc_id)
            .limit(listed)
            .subquery()
        )
        rows = connection.execute(
            sa.select(documents, travelled.c.road)
            .join(nearest, nearest.c.doc_id == documents.c.doc_id)
            .join(travelled, travelled.c.doc_id == documents.c.doc_id)
        ).all()
    by_document: dict[str, list[Row]] = {}
    for row in rows:
        by_document.setdefault(row.doc_id, []).append(row)
    siblings = [
        RoadSibling(
            doc_id=doc_id,
            source=of_document[0].source,
            uri=of_document[0].uri,
            trust=of_document[0].trust,
            served=of_document[0].target_version is not None,
            roads=tuple(road for road in Road if road in {row.road for row in of_document}),
        )
        for doc_id, of_document in by_document.items()
    ]
    siblings.sort(key=lambda sibling: (-len(sibling.roads), list(Road).index(sibling.roads[0]), sibling.doc_id))
    return RoadSiblings(tuple(siblings), {road: totals.get(road, 0) for road in Road}, total)


def _roads(own: sa.Subquery, wanted: sa.Subquery) -> list[sa.Select[tuple[str, str]]]:
    """Return a statement for each road that selects (document, road)."""

    def along(road: Road) -> sa.Select[tuple[str, str]]:
        return sa.select(versions.c.doc_id, sa.literal(road.value).label("road"))

    reports = (
        sa.select(traces.c.report_id)
        .join(suspects, suspects.c.trace_id == traces.c.trace_id)
        .where(suspects.c.label == Label.POISONED, suspects.c.chunk_id.in_(sa.select(wanted.c.chunk_id)))
    )
    accused = (
        sa.select(suspects.c.version_id)
        .join(traces, traces.c.trace_id == suspects.c.trace_id)
        .where(suspects.c.label == Label.POISONED, traces.c.report_id.in_(reports))
    )
    own_bands = sa.select(bands.c.band).where(bands.c.version_id.in_(sa.select(own.c.version_id)))
    near = sa.select(bands.c.version_id).where(bands.c.band.in_(own_bands))
    day = sa.func.substr(versions.c.stamp["fetched_at"].as_string(), 1, 10)
    own_day = sa.func.substr(own.c.stamp["fetched_at"].as_string(), 1, 10)
    own_source = documents.alias("own_documents")
    same_day = (
        along(Road.DAY)
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .join(own_source, own_source.c.source == documents.c.source)
        .join(own, sa.and_(own.c.doc_id == own_source.c.doc_id, own_day == day))
    )
    return [
        along(Road.CLAIM).where(versions.c.version_id.in_(accused)),
        along(Road.WORDING).where(versions.c.version_id.in_(near)),
        along(Road.RUN).where(versions.c.run_id.in_(sa.select(own.c.run_id))),
        along(Road.PRINCIPAL).where(versions.c.principal.in_(sa.select(own.c.principal))),
        same_day,
    ]
