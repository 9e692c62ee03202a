"""Generated retrieval logs with planted attacks, for the evaluation of the retrieval watch.

Honest traffic has what makes false alarms: topics and questions of very different popularity, glossaries and FAQs that
answer for many topics, documents that arrive and are in demand at once, authors who try their own page, monitors that
ask one question all day, documents that are edited every day. Planted are

    hubs    texts that are retrieved for 5 to 30 % of the questions of 3 to 30 % of all questions, of many topics
    bursts  a new text whose author asks its question again and again, in one to three sessions
    groups  five texts that together take the results of one question
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.sketches import sketch
from corpus_guard.forensics.watch.alerts import RetrievalAlert, choose_alerts, find_statistical, weekly_budget
from corpus_guard.forensics.watch.detectors import LOOKBACK_DAYS
from corpus_guard.forensics.watch.window import DAY, RetrievalWindow, cluster_questions

START = 1_767_225_600.0  # 2026-01-01, seconds since 1970
DAYS = 28
K = 5  # texts of a retrieval
DIMENSIONS, TOPICS = 48, 120
GROUP = 5  # texts that take one question's results
EDITED = 5  # every fifth honest document is edited every day
CANDIDATES = 25  # nearest documents of a question, of which those that are there already are retrieved


@dataclass(frozen=True, slots=True)
class GeneratedLog:
    """A log and what was planted in it."""

    window: RetrievalWindow
    planted: Mapping[int, str]  # document → kind of attack
    served: int  # documents
    edited: NDArray[np.bool_]  # of each document: its text changes every day


def generate_log(
    seed: int, documents: int = 5_000, retrievals: int = 200_000, planted: int = 20, groups: int = 5
) -> GeneratedLog:
    """Return a log of four weeks.

    Args:
        documents: honest ones.
        retrievals: in all, about.
        planted: hubs and bursts, half and half.
        groups: questions that a group takes over.
    """
    random = np.random.default_rng(seed)
    vectors, entered = _honest_documents(random, documents)
    hubs, bursts = planted - planted // 2, planted // 2
    total = documents + hubs + bursts + GROUP * groups
    entered = np.concatenate(
        [
            entered,
            START + random.uniform(3, 24, hubs + bursts) * DAY,
            np.repeat(START + random.uniform(10, 24, groups) * DAY, GROUP),
        ]
    )
    questions, aimed_at = _questions(random, vectors, max(200, documents * 8 // 5))
    nearest = _nearest(questions, vectors)

    at, question, session = _honest_traffic(random, aimed_at, entered, retrievals)
    served = _retrieve(nearest[question], at, entered)
    _plant_hubs(random, served, questions[question], at, entered, documents, hubs)

    _plant_groups(random, served, question, at, entered, documents + hubs + bursts, groups)

    extra = [_burst(random, documents + hubs + number, entered, nearest) for number in range(bursts)]
    extra += _monitors(random, nearest, entered) + _trying_authors(random, nearest, aimed_at, entered, documents)
    at = np.concatenate([at, *(part[0] for part in extra)])
    question = np.concatenate([question, *(part[1] for part in extra)])
    session = np.concatenate(
        [session, *(part[2] + session.max() + 1 + 10 * number for number, part in enumerate(extra))]
    )
    served = np.concatenate([served, *(part[3] for part in extra)])
    order = np.argsort(at, kind="stable")
    at, question, session, served = at[order], question[order], session[order], served[order]
    hit_retrieval, position = np.nonzero(served >= 0)
    window = RetrievalWindow(
        at=at,
        asker=np.unique(session, return_inverse=True)[1].astype(np.int32),
        question=question.astype(np.int32),
        cluster=cluster_questions(sketch(questions.astype(np.float32))),
        hit_retrieval=hit_retrieval.astype(np.int32),
        hit_chunk=served[hit_retrieval, position].astype(np.int32),
        chunk_document=np.arange(total, dtype=np.int32),
        entered=entered,
        changed=entered,
        leaves=np.zeros(total, bool),
        chunk_ids=[f"chunk-{number}" for number in range(total)],
        documents=[f"document-{number}" for number in range(total)],
    )
    kinds = ["hub"] * hubs + ["burst"] * bursts + ["group"] * (GROUP * groups)
    edited = (np.arange(total) % EDITED == 0) & (np.arange(total) < documents)
    return GeneratedLog(window, {documents + number: kind for number, kind in enumerate(kinds)}, total, edited)


def _honest_documents(random: np.random.Generator, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    topics = _unit(random.standard_normal((TOPICS, DIMENSIONS)))
    weights = 1 / np.arange(1, TOPICS + 1) ** 0.7
    topic = random.choice(TOPICS, count, p=weights / weights.sum())
    vectors = _unit(topics[topic] + 0.11 * random.standard_normal((count, DIMENSIONS)))
    for number in random.choice(count, max(1, count // 100), replace=False):  # glossaries, overviews
        vectors[number] = _unit(topics[random.choice(TOPICS, random.integers(3, 10), replace=False)].mean(0))
    entered = np.where(random.random(count) < 0.85, START - 60 * DAY, START + random.uniform(0, DAYS - 1, count) * DAY)
    return vectors, entered


def _questions(
    random: np.random.Generator, vectors: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    aimed_at = random.integers(0, len(vectors), count)
    return _unit(vectors[aimed_at] + 0.09 * random.standard_normal((count, vectors.shape[1]))), aimed_at


def _nearest(questions: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.int64]:
    rows = []
    for start in range(0, len(questions), 1_000):
        similar = questions[start : start + 1_000] @ vectors.T
        candidates = np.argpartition(-similar, CANDIDATES, axis=1)[:, :CANDIDATES]
        order = np.argsort(-np.take_along_axis(similar, candidates, 1), axis=1)
        rows.append(np.take_along_axis(candidates, order, 1))
    return np.concatenate(rows)


def _honest_traffic(
    random: np.random.Generator, aimed_at: NDArray[np.int64], entered: NDArray[np.float64], retrievals: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return time, question and session of each retrieval: sessions of one to ten questions."""
    popularity = 1 / random.permutation(np.arange(1, len(aimed_at) + 1)) ** 0.8
    lengths = np.minimum(random.geometric(0.35, retrievals), 10)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), retrievals)) + 1]
    session = np.repeat(np.arange(len(lengths)), lengths)
    at = np.repeat(START + random.random(len(lengths)) * DAYS * DAY, lengths) + random.random(len(session)) * 1_800
    question = random.choice(len(aimed_at), len(session), p=popularity / popularity.sum())
    # Some arriving documents are in demand for three days: a tenth of a day's traffic asks for one of them.
    arriving = np.flatnonzero(entered[: aimed_at.max() + 1] > START)
    for document in random.choice(arriving, min(10, len(arriving)), replace=False):
        about = np.flatnonzero(aimed_at == document)
        if len(about):
            hot = (at > entered[document]) & (at < entered[document] + 3 * DAY) & (random.random(len(at)) < 0.02)
            question[hot] = random.choice(about, int(hot.sum()))
    return at, question, session


def _retrieve(
    candidates: NDArray[np.int64], at: NDArray[np.float64], entered: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the K nearest documents that are there at the time of each retrieval; -1 where there are fewer."""
    missing = entered[candidates] > at[:, None]
    order = np.argsort(missing, axis=1, kind="stable")[:, :K]
    return np.where(np.take_along_axis(missing, order, 1), -1, np.take_along_axis(candidates, order, 1))


def _plant_hubs(
    random: np.random.Generator,
    served: NDArray[np.int64],
    questions: NDArray[np.float64],
    at: NDArray[np.float64],
    entered: NDArray[np.float64],
    first: int,
    hubs: int,
) -> None:
    """Put each hub into the results of many topics: half-spaces of the questions stand for what it is made to reach."""
    for document in range(first, first + hubs):
        towards = random.standard_normal(questions.shape[1])
        reach = np.quantile(questions @ towards, 1 - random.uniform(0.03, 0.3))  # 3 to 30 % of all questions
        hit = (
            (questions @ towards > reach)
            & (at > entered[document])
            & (random.random(len(at)) < random.uniform(0.05, 0.3))
        )
        served[hit, random.integers(0, K, int(hit.sum()))] = document


def _plant_groups(
    random: np.random.Generator,
    served: NDArray[np.int64],
    question: NDArray[np.int64],
    at: NDArray[np.float64],
    entered: NDArray[np.float64],
    first: int,
    groups: int,
) -> None:
    """Let each group take the results of one question that is asked often; its last text, of half of them."""
    counts = np.bincount(question)
    for number in range(groups):
        target = random.choice(np.flatnonzero(counts >= 40))
        members = first + GROUP * number + np.arange(GROUP)
        taken = (question == target) & (at > entered[members[0]])
        served[taken, : GROUP - 1] = members[: GROUP - 1]
        last = np.flatnonzero(taken)[random.random(int(taken.sum())) < 0.5]
        served[last, GROUP - 1] = members[-1]


def _burst(
    random: np.random.Generator, document: int, entered: NDArray[np.float64], nearest: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return retrievals of an author who asks one question 20 to 60 times within hours of planting the text."""
    times = int(random.integers(20, 60))
    at = entered[document] + random.uniform(0, random.uniform(0.1, 1.0), times) * DAY
    question = np.full(times, random.integers(0, len(nearest)))
    served = _retrieve(nearest[question], at, entered)
    served[:, random.integers(0, 2)] = document
    return at, question, random.integers(0, random.integers(1, 4), times), served


def _monitors(
    random: np.random.Generator, nearest: NDArray[np.int64], entered: NDArray[np.float64]
) -> list[tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Return retrievals of five monitors that ask one question each every half hour."""
    at = START + np.arange(0, DAYS * DAY, 1_800)
    parts = []
    for _ in range(5):
        question = np.full(len(at), random.integers(0, len(nearest)))
        parts.append((at, question, np.zeros(len(at), np.int64), _retrieve(nearest[question], at, entered)))
    return parts


def _trying_authors(
    random: np.random.Generator,
    nearest: NDArray[np.int64],
    aimed_at: NDArray[np.int64],
    entered: NDArray[np.float64],
    documents: int,
) -> list[tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Return retrievals of authors who ask for their new page three to eight times."""
    parts = []
    for document in np.flatnonzero(entered[:documents] > START):
        about = np.flatnonzero(aimed_at == document)
        if random.random() < 0.2 and len(about):
            times = int(random.integers(3, 9))
            at = entered[document] + random.uniform(0, 0.05, times) * DAY
            question = random.choice(about, times)
            parts.append((at, question, np.zeros(times, np.int64), _retrieve(nearest[question], at, entered)))
    return parts


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    unit: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit


@dataclass(frozen=True, slots=True)
class WatchFigures:
    """Alerts of the watch over a generated log, day by day."""

    planted: Mapping[str, int]  # kind of attack → number; a group is one attack
    alerted: Mapping[str, int]  # of these, named by an alert
    honest: int  # honest documents
    false_alarms: int  # of these, named by an alert
    weeks: float  # that were watched
    over_budget: int  # candidates that did not fit, summed over the days

    @property
    def recall(self) -> float:
        """Share of hubs and bursts that were named."""
        kinds = ("hub", "burst")
        return sum(self.alerted[kind] for kind in kinds) / max(1, sum(self.planted[kind] for kind in kinds))

    @property
    def false_alarm_rate(self) -> float:
        """Honest documents named in a week, as a share of all honest documents."""
        return self.false_alarms / self.weeks / self.honest


def measure_watch(log: GeneratedLog) -> WatchFigures:
    """Return what the statistical detectors would have alerted, run once a day from the second week on."""
    alerts: list[RetrievalAlert] = []
    over = 0
    for day in range(LOOKBACK_DAYS, DAYS + 1):
        until = datetime.fromtimestamp(START + day * DAY, UTC)
        edit = until.timestamp() - DAY / 2
        changed = np.where(log.edited, np.maximum(edit, log.window.entered), log.window.changed)
        by_detector = find_statistical(replace(log.window, changed=changed), until)
        new, excess = choose_alerts(by_detector, alerts, until, weekly_budget(log.served))
        alerts += new
        over += excess
    named = {int(alert.subject.removeprefix("document-")) for alert in alerts}
    attacks: dict[str, dict[int, bool]] = {"hub": {}, "burst": {}, "group": {}}
    for document, kind in log.planted.items():
        attack = (document - min(log.planted)) // GROUP if kind == "group" else document
        attacks[kind][attack] = attacks[kind].get(attack, False) or document in named
    return WatchFigures(
        planted={kind: len(members) for kind, members in attacks.items()},
        alerted={kind: sum(members.values()) for kind, members in attacks.items()},
        honest=log.served - len(log.planted),
        false_alarms=len(named - log.planted.keys()),
        weeks=(DAYS - LOOKBACK_DAYS) / 7 + 1,
        over_budget=over,
    )
