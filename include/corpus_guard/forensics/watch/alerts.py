"""Alerts of the retrieval watch: what the detectors name, within a budget, told by events of the log.

Rules
    * the statistical detectors (hub, newcomer, surge, displacement, burst) share a budget: `BUDGET_SHARE` of the served documents
      a week, at least `MIN_BUDGET`. The best candidates of each are taken in turn. A candidate beyond the budget is
      counted in an event, and competes again in the next hour: nothing is dropped in silence;
    * *foreign* (served and never published) and *flip* (an answer contradicts the one before a seal) are not statistics:
      they have a budget of their own of the same size;
    * a document is alerted once by a detector within `QUIET_DAYS`; running an interval again changes nothing;
    * one asker raises at most one burst, and one alert for all the foreign ids that nobody else was served: a flood of
      forged entries names itself, and takes nobody's place;
    * *flip* compares the answers that the log keeps. Where it keeps hashes alone nothing is seen, and that is told: a hash
      says that the wording changed, and a language model words each answer anew;
    * alerts are ids and counts: no text, no question, no name of a user or session.

Not done here: deciding. An alert withdraws nothing; `guard exposure` and `guard trace` go on from it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any, ClassVar, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.domain import JsonRecord
from corpus_guard.forensics.watch.detectors import LOOKBACK_DAYS, Candidate, WatchDetector, find_candidates
from corpus_guard.forensics.watch.log_reader import LoggedAnswer, LogReading, read_answers, read_window
from corpus_guard.forensics.watch.window import DAY, RetrievalWindow
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.queries import IDS_PER_STATEMENT, rows_by_id
from corpus_guard.ledger.tables import documents, events, publications, retrieved_chunks, seals
from corpus_guard.traceback.rag_model import repeats
from corpus_guard.traceback.retrieval import Complaint

ALERT_EVENT: Final = "retrieval_alert"
BUDGET_EVENT: Final = "retrieval_alerts_over_budget"
BUDGET_SHARE: Final = 0.002  # of the served documents, a week
MIN_BUDGET: Final = 3
QUIET_DAYS: Final = 28
STATISTICAL: Final = (
    WatchDetector.BURST,
    WatchDetector.DISPLACEMENT,
    WatchDetector.HUB,
    WatchDetector.NEWCOMER,
    WatchDetector.SURGE,
)
OTHER_NAMES_SHARE: Final = 0.5  # of an origin's ids that are not ours, from which it names its texts in its own way
MIN_NAMES: Final = 20  # ids of an origin, for this
MIN_SAME_ANSWERS: Final = 2  # askers who got an answer, before and after a seal
MAX_COMPARED_QUESTIONS: Final = 500  # a run; those asked most often
MAX_SEALS: Final = 10  # newest seals of the week that answers are compared across


_NOT_LOGGED: Final = frozenset({"subject", "source", "uri", "until"})  # in the body of an alert's event


@dataclass(frozen=True, slots=True)
class RetrievalAlert(JsonRecord):
    """A document, or an id that is none of ours, that a detector names."""

    json_properties: ClassVar = ("sentence",)

    detector: str
    subject: str  # id of a document, a chunk or a question; ``origin:NAME`` where an application names texts in its way
    chunk_id: str  # that stands out; hostile where it is foreign
    score: str  # of the detector, a decimal number
    retrievals: int
    askers: int
    clusters: int  # question clusters; 0: not known
    displaced: int  # questions whose usual results are gone
    until: datetime  # end of the interval that was looked at
    source: str = ""  # empty: not a document of the ledger
    uri: str = ""  # hostile

    @property
    def sentence(self) -> str:
        """Finding in words, without names."""
        return _SENTENCES[WatchDetector(self.detector)].format(**asdict(self))


@dataclass(frozen=True, slots=True)
class WatchResult:
    """Result of a run of the watch."""

    alerts: tuple[RetrievalAlert, ...]  # new ones
    over_budget: int  # candidates that did not fit
    budget: int  # alerts a week, of each kind
    retrievals: int
    unnamed: int  # of these, name neither user nor session: a question then counts once
    questions: int
    without_cluster: int  # of these: hubs among them are not seen
    left_out: int  # older retrievals that were too many to read
    answered: int  # questions with an answer in the log; of no others a turned answer is seen
    uncompared: int  # of these, those whose answers were too many to compare

    @property
    def limits(self) -> list[str]:
        """Limits of what the run could see, in words; empty: none."""
        sentences = []
        if not self.retrievals:
            sentences.append("the retrieval log of these weeks is empty: nothing was watched")
        if self.unnamed:
            sentences.append(f"{self.unnamed:,} of {self.retrievals:,} retrievals name neither user nor session")
        if self.without_cluster:
            sentences.append(
                f"{self.without_cluster:,} of {self.questions:,} questions belong to no cluster: no hub is seen there"
            )
        if self.left_out:
            sentences.append(f"{self.left_out:,} older retrievals were left out")
        if self.retrievals and not self.answered:
            sentences.append(
                "no answer is in the log: no turned answer is seen (CORPUS_GUARD_RETRIEVAL_LOG=on keeps answers)"
            )
        if self.uncompared:
            sentences.append(f"the answers to {self.uncompared:,} questions were not compared")
        if self.over_budget:
            sentences.append(f"{self.over_budget:,} candidates are over the budget of {self.budget:,} alerts a week")
        return sentences


_SENTENCES: Final[Mapping[WatchDetector, str]] = {
    WatchDetector.HUB: "retrieved for {clusters:,} groups of questions by {askers:,} askers, far more than other texts",
    WatchDetector.NEWCOMER: "new, and retrieved by {askers:,} askers in a week, more than almost all other documents",
    WatchDetector.SURGE: "edited lately, and retrieved by {askers:,} askers in a week, far more than before",
    WatchDetector.DISPLACEMENT: "new, and holds the places of others in the results of {displaced:,} questions",
    WatchDetector.BURST: "has just arrived, and was retrieved {retrievals:,} times in a day, mostly by a few askers",
    WatchDetector.FOREIGN: "served {retrievals:,} times to {askers:,} askers, and never published by the ledger",
    WatchDetector.FLIP: "the answer to a question contradicts the one before a seal; {askers:,} askers got it",
}


def watch_retrievals(ledger: Ledger, until: datetime, run_id: str) -> WatchResult:
    """Look at the weeks before `until`, and record new alerts as events."""
    reading = read_window(ledger, until)
    window = reading.window
    by_detector = find_statistical(window, until)
    by_detector[WatchDetector.FOREIGN] = list(_find_foreign(reading, until))
    by_detector[WatchDetector.FLIP], answered = _find_flips(ledger, until)
    with ledger.write() as connection:
        served = sa.select(sa.func.count()).select_from(documents).where(documents.c.target_version.is_not(None))
        budget = weekly_budget(connection.scalar(served) or 0)
        alerts, over = choose_alerts(by_detector, _logged_alerts(connection), until, budget)
        for alert in alerts:
            body = {name: value for name, value in asdict(alert).items() if name not in _NOT_LOGGED}
            append_event(connection, ALERT_EVENT, alert.subject, run_id, **body, until=until.isoformat())
        if over:
            append_event(connection, BUDGET_EVENT, until.isoformat(), run_id, candidates=over, budget=budget)
    return WatchResult(
        alerts=tuple(alerts),
        over_budget=over,
        budget=budget,
        retrievals=reading.retrievals,
        unnamed=window.unnamed,
        questions=reading.questions,
        without_cluster=reading.without_sketch,
        left_out=reading.left_out,
        answered=answered,
        uncompared=max(0, answered - MAX_COMPARED_QUESTIONS),
    )


def weekly_budget(served: int) -> int:
    """Return how many documents each kind of detector may name in a week, by the number of documents that are served."""
    return max(MIN_BUDGET, math.ceil(BUDGET_SHARE * served))


def find_statistical(window: RetrievalWindow, until: datetime) -> dict[WatchDetector, list[RetrievalAlert]]:
    """Return what the statistical detectors name in the week before `until`, the highest scores first."""
    by_detector: dict[WatchDetector, list[RetrievalAlert]] = defaultdict(list)
    for candidate in sorted(find_candidates(window, until.timestamp()), key=lambda candidate: -candidate.score):
        by_detector[candidate.detector].append(_alert(window, candidate, until))
    return by_detector


def choose_alerts(
    by_detector: Mapping[WatchDetector, Sequence[RetrievalAlert]],
    earlier: Sequence[RetrievalAlert],
    until: datetime,
    budget: int,
) -> tuple[list[RetrievalAlert], int]:
    """Return the alerts that are new and fit into the budget, and how many did not fit.

    Args:
        by_detector: by each detector, the best first.
        earlier: alerts of other intervals.
        budget: documents that each kind of detector may name in a week.
    """
    near = [alert for alert in earlier if abs(alert.until - until) < timedelta(days=QUIET_DAYS)]
    quiet = {(alert.detector, alert.subject) for alert in near}
    week = [alert for alert in near if until - timedelta(days=LOOKBACK_DAYS) < alert.until <= until]
    alerts: list[RetrievalAlert] = []
    over = 0
    for group in (STATISTICAL, (WatchDetector.FOREIGN, WatchDetector.FLIP)):
        used = {alert.subject for alert in week if alert.detector in group}
        for alert in _in_turn([by_detector.get(detector, ()) for detector in group]):
            if (alert.detector, alert.subject) in quiet:
                continue
            if alert.subject not in used and len(used) >= budget:
                over += 1
                continue
            used.add(alert.subject)
            alerts.append(alert)
    return alerts, over


def list_alerts(ledger: Ledger, *, limit: int = 100) -> list[RetrievalAlert]:
    """Return alerts with their documents, the newest first."""
    with ledger.read() as connection:
        alerts = _logged_alerts(connection)[::-1][:limit]
        statement = sa.select(documents.c.doc_id, documents.c.source, documents.c.uri)
        places = rows_by_id(connection, statement, (alert.subject for alert in alerts))
    return [
        replace(alert, source=place.source, uri=place.uri) if (place := places.get(alert.subject)) else alert
        for alert in alerts
    ]


def _logged_alerts(connection: sa.Connection) -> list[RetrievalAlert]:
    statement = sa.select(events.c.subject, events.c.body).where(events.c.kind == ALERT_EVENT).order_by(events.c.seq)
    return [
        RetrievalAlert(subject=row.subject, **{**row.body, "until": datetime.fromisoformat(row.body["until"])})
        for row in connection.execute(statement)
    ]


def _in_turn(groups: Sequence[Sequence[RetrievalAlert]]) -> Iterator[RetrievalAlert]:
    for round_of_alerts in zip_longest(*groups):
        yield from (alert for alert in round_of_alerts if alert is not None)


def _alert(window: RetrievalWindow, candidate: Candidate, until: datetime) -> RetrievalAlert:
    return RetrievalAlert(
        candidate.detector.value,
        window.documents[candidate.document],
        window.chunk_ids[candidate.chunk],
        f"{candidate.score:.2f}",
        candidate.retrievals,
        candidate.askers,
        candidate.clusters,
        candidate.displaced,
        until,
    )


def _find_foreign(reading: LogReading, until: datetime) -> Iterator[RetrievalAlert]:
    """Yield ids that were served in the week and that the ledger never published, those of most askers first."""
    whole = reading.window
    first = int(np.searchsorted(whole.at, until.timestamp() - LOOKBACK_DAYS * DAY))
    in_week = whole.hit_retrieval >= first
    origins = np.array(reading.origins, object)[whole.hit_retrieval]
    is_foreign = whole.hit_document < 0
    for origin in sorted(set(reading.origins)):
        of_origin = in_week & (origins == origin)
        names = np.unique(whole.hit_chunk[of_origin])
        foreign = np.unique(whole.hit_chunk[of_origin & is_foreign])
        if len(names) >= MIN_NAMES and len(foreign) >= OTHER_NAMES_SHARE * len(names):
            hits = of_origin & is_foreign
            yield _foreign(whole, hits, f"origin:{origin}", until)
            in_week &= ~of_origin
    hits = in_week & is_foreign
    pairs = np.unique(np.stack([whole.hit_chunk[hits], whole.hit_asker[hits]]), axis=1)
    askers = Counter(pairs[0].tolist())
    alone: dict[int, list[int]] = defaultdict(list)
    alerts = []
    for chunk, asker in pairs.T.tolist():
        if askers[chunk] == 1:
            alone[asker].append(chunk)
        else:
            alerts.append(chunk)
    groups = [[chunk] for chunk in dict.fromkeys(alerts)] + list(alone.values())
    foreign_alerts = [
        _foreign(whole, hits & np.isin(whole.hit_chunk, chunks), whole.chunk_ids[chunks[0]], until) for chunks in groups
    ]
    yield from sorted(foreign_alerts, key=lambda alert: (-alert.askers, -alert.retrievals, alert.subject))


def _foreign(window: RetrievalWindow, hits: NDArray[np.bool_], subject: str, until: datetime) -> RetrievalAlert:
    chunks, counts = np.unique(window.hit_chunk[hits], return_counts=True)
    askers = len(np.unique(window.hit_asker[hits]))
    name = window.chunk_ids[int(chunks[np.argmax(counts)])]
    number = int(hits.sum())
    return RetrievalAlert(WatchDetector.FOREIGN.value, subject, name, f"{askers}.00", number, askers, 0, 0, until)


def _find_flips(ledger: Ledger, until: datetime) -> tuple[list[RetrievalAlert], int]:
    """Return questions whose answer contradicts the one before a seal of the week, and how many have answers."""
    with ledger.read() as connection:
        statement = (
            sa.select(seals.c.sealed_at)
            .where(seals.c.sealed_at >= until - timedelta(days=LOOKBACK_DAYS), seals.c.sealed_at < until)
            .order_by(seals.c.number.desc())
            .limit(MAX_SEALS)
        )
        moments = list(connection.scalars(statement))
    flips, number = [], 0
    for number, (question, answers) in enumerate(read_answers(ledger, until), 1):
        if number <= MAX_COMPARED_QUESTIONS:
            flip = next((pair for moment in moments if (pair := _flip(question, answers, moment))), None)
            if flip:
                flips.append(_flip_alert(ledger, flip, until))
    return flips, number


def _flip(
    question: str, answers: Sequence[LoggedAnswer], moment: datetime
) -> tuple[list[LoggedAnswer], list[LoggedAnswer]] | None:
    """Return the answers before and after `moment` if most of each agree, and the two contradict each other."""
    sides = [_usual(answers, lambda at: at < moment), _usual(answers, lambda at: at >= moment)]
    before, after = sides
    if not before or not after or repeats(after[0].text, Complaint(question, before[0].text)):
        return None
    return before, after


def _usual(answers: Sequence[LoggedAnswer], inside: Any) -> list[LoggedAnswer]:
    """Return the answers with the most frequent wording, if enough askers got it."""
    by_wording: dict[str, list[LoggedAnswer]] = defaultdict(list)
    for answer in answers:
        if inside(answer.at):
            by_wording[" ".join(answer.text.casefold().split())].append(answer)
    if not by_wording:
        return []
    usual = max(by_wording.values(), key=lambda given: len({answer.asker for answer in given}))
    return usual if len({answer.asker for answer in usual}) >= MIN_SAME_ANSWERS else []


def _flip_alert(ledger: Ledger, flip: tuple[list[LoggedAnswer], list[LoggedAnswer]], until: datetime) -> RetrievalAlert:
    """Return the alert for a flip; its chunk is one that only the later answers were made from."""
    before, after = flip
    served = sa.select(retrieved_chunks.c.retrieval_id, retrieved_chunks.c.chunk_id)
    with ledger.read() as connection:
        chunks_before, chunks_after = (
            Counter(
                row.chunk_id
                for row in connection.execute(
                    served.where(
                        retrieved_chunks.c.retrieval_id.in_(
                            [answer.retrieval_id for answer in side[:IDS_PER_STATEMENT]]
                        )
                    )
                )
            )
            for side in (before, after)
        )
        new = [chunk_id for chunk_id, _ in chunks_after.most_common() if chunk_id not in chunks_before]
        chunk_id = new[0] if new else ""
        doc_id = connection.scalar(sa.select(publications.c.doc_id).where(publications.c.chunk_id == chunk_id))
    askers = len({answer.asker for answer in after})
    return RetrievalAlert(
        WatchDetector.FLIP.value, doc_id or after[0].query_id, chunk_id, f"{askers}.00", len(after), askers, 0, 0, until
    )
