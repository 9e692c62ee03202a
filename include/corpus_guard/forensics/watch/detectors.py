"""Detectors over a window of retrievals: which documents are retrieved as no honest one is.

Each names its population and its smallest sample below. All count askers, not retrievals: a user, else a session, else a
question counts once for a document and a topic, however often it is repeated, because anybody can write the log. Only
*burst* counts repetitions, of a few askers each to a limit, and only for documents that have just arrived.

    hub           retrieved for far more topics than others. Population: chunks retrieved by `MIN_HUB_ASKERS` in a week
    newcomer      not retrieved before, now more often than almost all others. Population: documents retrieved in a week;
                  candidates: those that arrived, or were first retrieved, in that week
    surge         a document that had been there for weeks when its text changed lately, and now has far more askers than
                  before. Population: documents retrieved in that week and before
    displacement  newcomers hold most places of a question's results, and documents that still are served lost them.
                  Population: questions asked `MIN_ASKED_BEFORE` times before and by `MIN_ASKED_AFTER` askers after
    burst         a few askers retrieve a document that has just arrived again and again, for one topic. Population: days
                  of documents that arrived within `BURST_DAYS`

A robust z is (x - median) / (1.4826 · MAD) of logarithms, with a floor for the MAD: one population of equal values must
not make everything else an outlier. Pure functions: they read arrays and return candidates; what is alerted is decided
by the budget (`corpus_guard.forensics.watch.alerts`).

*surge* compares a document with its own past: one that is edited every day and is in the same demand is not named. For
*displacement* and *burst* a document arrives once, when it is first fetched. If an edit were an arrival, a page that is
edited every day would turn all its questions every day, and what others displaced before would not be seen.

Not done here: whether a text is poisoned. Natural hubs (a glossary), news and updated pages look alike; a person looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.forensics.watch.window import DAY, UNKNOWN, Integers, RetrievalWindow

LOOKBACK_DAYS: Final = 7  # in which anomalies are looked for
HISTORY_DAYS: Final = 21  # before them: what is usual

MIN_HUB_ASKERS: Final = 20
MIN_HUB_CLUSTERS: Final = 6
MIN_HUB_Z: Final = 3.0
MIN_NEWCOMER_ASKERS: Final = 30
MIN_NEWCOMER_Z: Final = 3.0
MIN_SURGE_ASKERS: Final = 30
MIN_SURGE_Z: Final = 3.0  # of the demand and of its growth
MIN_SURGE_RATIO: Final = 5.0  # of the week's askers to those of a usual week
CHANGE_DAYS: Final = 14  # before the end of the week, in which the text changed
SETTLED_DAYS: Final = 14  # between a document's arrival and an edit that counts: the demand for new pages is no surge
MIN_ASKED_BEFORE: Final = 5  # retrievals of a question before a newcomer is among its results
MIN_ASKED_AFTER: Final = 3  # retrievals since, and askers of them
USUAL_SHARE: Final = 0.6  # of a question's retrievals, from which a document belongs to its results
OUSTED_SHARE: Final = 0.2  # below which it does not any more
MIN_USUAL: Final = 3  # documents that belonged to a question's results
MIN_DISPLACED_SHARE: Final = 0.6  # of them, that are gone, and that newcomers replaced
BURST_DAYS: Final = 14
MIN_BURST_RETRIEVALS: Final = 15
MAX_BURST_ASKERS: Final = 3
MAX_COUNTED_REPEATS: Final = 100  # retrievals of one asker and document that count, a day
MIN_BURST_SHARE: Final = 0.5  # of the day's retrievals, that these askers made
MIN_BURST_TOPIC: Final = 0.9  # share of the retrievals that belong to one topic
MIN_SCALE: Final = 0.15  # of logarithms: the smallest spread that a population is believed to have


class WatchDetector(StrEnum):
    """Detector of the retrieval watch."""

    HUB = "hub"
    NEWCOMER = "newcomer"
    SURGE = "surge"
    DISPLACEMENT = "displacement"
    BURST = "burst"
    FOREIGN = "foreign"
    FLIP = "flip"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that a detector names."""

    detector: WatchDetector
    document: int  # index in the window
    chunk: int  # index in the window: the chunk that stands out, or the one retrieved most
    score: float  # the higher, the further from what is usual; comparable within a detector only
    retrievals: int
    askers: int
    clusters: int  # question clusters; 0: not known
    asker: int = UNKNOWN  # who made most of a burst
    displaced: int = 0  # questions whose usual results are gone


def find_candidates(window: RetrievalWindow, until: float) -> Iterator[Candidate]:
    """Yield what the detectors name in the week before `until` (seconds since 1970).

    The detectors look at chunks that the ledger published; `corpus_guard.forensics.watch.alerts` names the others.
    """
    whole = window.until(until)
    whole = whole.select(whole.hit_document >= 0)
    yield from find_hubs(whole.since(until - LOOKBACK_DAYS * DAY))
    yield from find_newcomers(whole, until)
    yield from find_surges(whole, until)
    yield from find_displacements(whole, until)
    yield from find_bursts(whole, until)


def find_hubs(week: RetrievalWindow) -> Iterator[Candidate]:
    """Yield chunks whose askers come from far more question clusters than those of other chunks."""
    clustered = week.select(week.hit_cluster != UNKNOWN)
    if not len(clustered.hit_chunk):
        return
    chunk, cluster, _ = _distinct(clustered.hit_chunk, clustered.hit_cluster, clustered.hit_asker)
    count = len(week.chunk_document)
    askers = np.bincount(_distinct(clustered.hit_chunk, clustered.hit_asker)[0], minlength=count)
    pairs, of_pair = np.unique(chunk.astype(np.int64) * 1_024 + cluster, return_counts=True)
    of_pair = np.minimum(of_pair, np.sqrt(of_pair) * 3)  # no single topic decides
    total = np.bincount(pairs // 1_024, weights=of_pair, minlength=count)
    share = of_pair / total[pairs // 1_024]
    entropy = np.bincount(pairs // 1_024, weights=-share * np.log(share), minlength=count)
    spread = np.exp(entropy)  # effective number of clusters
    population = np.flatnonzero(askers >= MIN_HUB_ASKERS)
    if not len(population):
        return
    z = robust_z(np.log(spread[population]))
    for index, score in zip(population, z, strict=True):
        if score >= MIN_HUB_Z and spread[index] >= MIN_HUB_CLUSTERS:
            hits = clustered.hit_chunk == index
            yield Candidate(
                WatchDetector.HUB,
                int(week.chunk_document[index]),
                int(index),
                float(score),
                int(hits.sum()),
                int(askers[index]),
                len(np.unique(clustered.hit_cluster[hits])),
            )


def find_newcomers(whole: RetrievalWindow, until: float) -> Iterator[Candidate]:
    """Yield documents that were not retrieved before this week, and now are more often than almost all others."""
    begin = until - LOOKBACK_DAYS * DAY
    week, earlier = whole.since(begin), whole.until(begin)
    count = len(whole.documents)
    before = np.bincount(earlier.hit_document, minlength=count)
    askers = np.bincount(_distinct(week.hit_document, week.hit_asker)[0], minlength=count)
    population = np.flatnonzero(askers)
    if not len(population):
        return
    z = robust_z(np.log(askers[population]))
    is_new = (before == 0) & (earlier.hit_document.size > 0)
    for document, score in zip(population, z, strict=True):
        if is_new[document] and score >= MIN_NEWCOMER_Z and askers[document] >= MIN_NEWCOMER_ASKERS:
            yield _candidate(WatchDetector.NEWCOMER, week, int(document), float(score), int(askers[document]))


def find_surges(whole: RetrievalWindow, until: float) -> Iterator[Candidate]:
    """Yield documents whose text changed lately, and whose askers are far more than before and than those of others."""
    begin = until - LOOKBACK_DAYS * DAY
    week, earlier = whole.since(begin), whole.until(begin)
    if not len(earlier.hit_document):
        return
    count = len(whole.documents)
    askers, before = (
        np.bincount(_distinct(part.hit_document, part.hit_asker)[0], minlength=count) for part in (week, earlier)
    )
    population = np.flatnonzero((askers > 0) & (before > 0))
    if not len(population):
        return
    weeks = (begin - np.maximum(earlier.at[0], whole.entered)) / (LOOKBACK_DAYS * DAY)
    has_past = weeks >= 1  # of a few days nobody knows what is usual
    ratio = (askers + 1) / (before / np.where(has_past, weeks, 1) + 1)
    is_edit = whole.changed - whole.entered >= SETTLED_DAYS * DAY
    changes = is_edit & (whole.changed >= until - CHANGE_DAYS * DAY) & (whole.changed < until)
    grows = changes & has_past & (ratio >= MIN_SURGE_RATIO) & (askers >= MIN_SURGE_ASKERS)
    demand, growth = robust_z(np.log(askers[population])), robust_z(np.log(ratio[population]))
    for document, score in zip(population, np.minimum(demand, growth), strict=True):
        if grows[document] and score >= MIN_SURGE_Z:
            yield _candidate(WatchDetector.SURGE, week, int(document), float(score), int(askers[document]))


def find_displacements(hits: RetrievalWindow, until: float) -> Iterator[Candidate]:
    """Yield documents that arrived this week and hold most of the places that others had in a question's results."""
    begin = until - LOOKBACK_DAYS * DAY
    arrives = (hits.entered >= begin) & (hits.entered < until)
    question, at = hits.question[hits.hit_retrieval], hits.at[hits.hit_retrieval]
    is_new = arrives[hits.hit_document]
    if not is_new.any():
        return
    # A question's time divides where a newcomer is first retrieved for it.
    turned = np.full(len(hits.cluster), np.inf)
    np.minimum.at(turned, question[is_new], at[is_new])
    asked_after = hits.at >= turned[hits.question]
    times_before = np.bincount(hits.question[~asked_after], minlength=len(turned))
    times_after = np.bincount(hits.question[asked_after], minlength=len(turned))
    askers_after = np.bincount(_distinct(hits.question[asked_after], hits.asker[asked_after])[0], minlength=len(turned))
    sampled = (
        np.isfinite(turned)
        & (times_before >= MIN_ASKED_BEFORE)
        & (times_after >= MIN_ASKED_AFTER)
        & (askers_after >= MIN_ASKED_AFTER)
    )
    keep = sampled[question]
    document, question, is_after = hits.hit_document[keep], question[keep], at[keep] >= turned[question[keep]]
    count = len(hits.documents)
    pairs, place = np.unique(question.astype(np.int64) * count + document, return_inverse=True)
    before = np.bincount(place[~is_after], minlength=len(pairs)) / np.maximum(times_before[pairs // count], 1)
    after = np.bincount(place[is_after], minlength=len(pairs)) / np.maximum(times_after[pairs // count], 1)
    usual = (before >= USUAL_SHARE) & ~hits.leaves[pairs % count]
    ousted = usual & (after < OUSTED_SHARE)
    takes = arrives[pairs % count] & (after >= USUAL_SHARE)
    pair_question = pairs // count
    usuals, losses, gains = (np.bincount(pair_question[mask], minlength=len(turned)) for mask in (usual, ousted, takes))
    displaced = (
        (usuals >= MIN_USUAL) & (losses >= MIN_DISPLACED_SHARE * usuals) & (gains >= MIN_DISPLACED_SHARE * usuals)
    )
    # Several newcomers may share a question: the one that most of its retrievals hold is named for all of them.
    taking = np.flatnonzero(takes & displaced[pair_question])
    taking = taking[np.lexsort((-after[taking], pair_question[taking]))]
    taking = taking[np.unique(pair_question[taking], return_index=True)[1]]
    responsible, questions = np.unique((pairs % count)[taking], return_counts=True)
    for newcomer, number in zip(responsible, questions, strict=True):
        askers = len(np.unique(hits.hit_asker[hits.hit_document == newcomer]))
        yield _candidate(WatchDetector.DISPLACEMENT, hits, int(newcomer), float(number), askers, displaced=int(number))


def find_bursts(whole: RetrievalWindow, until: float) -> Iterator[Candidate]:
    """Yield documents that have just arrived and that a few askers retrieve again and again, for one topic.

    Who asked the same before the document was there, such as a monitor, is not counted.
    """
    begin = until - LOOKBACK_DAYS * DAY
    document, at = whole.hit_document, whole.at[whole.hit_retrieval]
    age = at - whole.entered[document]
    recent = whole.select((at >= begin) & (age >= 0) & (age < BURST_DAYS * DAY))
    if not len(recent.hit_chunk):
        return
    document, at, asker = recent.hit_document, recent.at[recent.hit_retrieval], recent.hit_asker
    day = ((at - begin) // DAY).astype(np.int64)
    order = np.argsort(document.astype(np.int64) * (LOOKBACK_DAYS + 1) + day, kind="stable")
    key = (document.astype(np.int64) * (LOOKBACK_DAYS + 1) + day)[order]
    worst: dict[int, Candidate] = {}
    for positions in np.split(order, np.flatnonzero(np.diff(key)) + 1):
        if len(positions) < MIN_BURST_RETRIEVALS:
            continue
        index = int(document[positions[0]])
        askers, repeats = np.unique(asker[positions], return_counts=True)
        top = np.argsort(-repeats)[:MAX_BURST_ASKERS]
        top = top[repeats[top] >= MIN_BURST_RETRIEVALS // MAX_BURST_ASKERS]
        loud = [n for n in top if not _asked_before(whole, recent, positions[asker[positions] == askers[n]], index)]
        counted = int(np.minimum(repeats[loud], MAX_COUNTED_REPEATS).sum())
        clusters, sizes = np.unique(recent.hit_cluster[positions], return_counts=True)
        if (
            counted < MIN_BURST_RETRIEVALS
            or counted < MIN_BURST_SHARE * np.minimum(repeats, MAX_COUNTED_REPEATS).sum()
            or sizes.max() < MIN_BURST_TOPIC * sizes.sum()
        ):
            continue
        candidate = Candidate(
            WatchDetector.BURST,
            index,
            int(recent.hit_chunk[positions[0]]),
            float(counted),
            len(positions),
            len(askers),
            int((clusters != UNKNOWN).sum()),
            asker=int(askers[loud[0]]),
        )
        if index not in worst or candidate.score > worst[index].score:
            worst[index] = candidate
    # What else the same question retrieves is not its aim: of an asker's documents, the last to arrive is named.
    newest: dict[int, Candidate] = {}
    for candidate in worst.values():
        rival = newest.get(candidate.asker)
        if rival is None or whole.entered[candidate.document] > whole.entered[rival.document]:
            newest[candidate.asker] = candidate
    yield from newest.values()


def _asked_before(whole: RetrievalWindow, recent: RetrievalWindow, positions: Integers, document: int) -> bool:
    """Return whether the asker of these hits asked the same questions before the document arrived."""
    own = whole.asker == recent.hit_asker[positions[0]]
    earlier = whole.question[own & (whole.at < whole.entered[document])]
    questions = recent.question[recent.hit_retrieval[positions]]
    return int(np.isin(earlier, questions).sum()) >= MIN_BURST_RETRIEVALS // MAX_BURST_ASKERS


def robust_z(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (x - median) / (1.4826 · MAD) of each value, the scale at least `MIN_SCALE`."""
    median = np.median(values)
    scale = max(1.4826 * float(np.median(np.abs(values - median))), MIN_SCALE)
    z: NDArray[np.float64] = (values - median) / scale
    return z


def _candidate(
    detector: WatchDetector, hits: RetrievalWindow, document: int, score: float, askers: int, displaced: int = 0
) -> Candidate:
    own = hits.hit_document == document
    chunk, counts = np.unique(hits.hit_chunk[own], return_counts=True)
    clusters = np.unique(hits.hit_cluster[own])
    return Candidate(
        detector,
        int(document),
        int(chunk[np.argmax(counts)]),
        score,
        int(own.sum()),
        askers,
        int((clusters != UNKNOWN).sum()),
        displaced=displaced,
    )


def _distinct(*columns: Integers) -> tuple[Integers, ...]:
    """Return the distinct rows of some columns, by the first, then the second, …"""
    key = np.zeros(len(columns[0]), np.int64)
    sizes = [int(column.max(initial=0)) + 1 for column in columns]
    for column, size in zip(columns, sizes, strict=True):
        key = key * size + column
    key = np.unique(key)
    parts = []
    for size in reversed(sizes):
        parts.append((key % size).astype(np.int32))
        key //= size
    return tuple(reversed(parts))
