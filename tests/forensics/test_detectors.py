"""Each detector names what it is for, and leaves alone what only looks like it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from corpus_guard.evaluation.watch_logs import generate_log, measure_watch
from corpus_guard.forensics.watch.detectors import (
    WatchDetector,
    find_bursts,
    find_candidates,
    find_displacements,
    find_hubs,
    find_newcomers,
    find_surges,
    robust_z,
)
from corpus_guard.forensics.watch.window import DAY, RetrievalWindow, cluster_questions

NOW = 28.0  # days
Row = tuple[float, int, int, Sequence[int]]
"""(day, asker, question, documents)."""


def window(
    rows: Sequence[Row], *, entered: Sequence[float], topics: int = 1, changed: Sequence[float] | None = None
) -> RetrievalWindow:
    """A window where document n has the one chunk n, and question n belongs to topic n modulo `topics`."""
    rows = sorted(rows, key=lambda row: row[0])
    hits = [(number, document) for number, row in enumerate(rows) for document in row[3]]
    questions = max((row[2] for row in rows), default=0) + 1
    return RetrievalWindow(
        at=np.array([row[0] * DAY for row in rows]),
        asker=np.array([row[1] for row in rows], np.int32),
        question=np.array([row[2] for row in rows], np.int32),
        cluster=np.arange(questions, dtype=np.int32) % topics,
        hit_retrieval=np.array([hit[0] for hit in hits], np.int32),
        hit_chunk=np.array([hit[1] for hit in hits], np.int32),
        chunk_document=np.arange(len(entered), dtype=np.int32),
        entered=np.array(entered) * DAY,
        changed=np.array(entered if changed is None else changed) * DAY,
        leaves=np.zeros(len(entered), bool),
        chunk_ids=[f"c{number}" for number in range(len(entered))],
        documents=[f"d{number}" for number in range(len(entered))],
    )


def traffic(days: Sequence[float], *, documents: int = 20, askers: int = 40) -> list[Row]:
    """Ordinary traffic: question n retrieves document n."""
    return [
        (day + asker / 1_000, asker, document, (document,))
        for day in days
        for document in range(documents)
        for asker in range(askers)
    ]


def test_a_text_for_every_topic_is_a_hub_and_a_popular_one_is_not() -> None:
    rows = traffic([25])
    rows += [(26, 100 + number, 3, (3,)) for number in range(500)]  # many people, one topic
    hub = [(26.5, 1_000 + number, number % 20, (20,)) for number in range(100)]

    named = list(find_hubs(window(rows + hub, entered=[0] * 21, topics=20)))

    assert [(candidate.detector, candidate.document, candidate.clusters) for candidate in named] == [
        (WatchDetector.HUB, 20, 20)
    ]
    assert list(find_hubs(window(rows, entered=[0] * 21, topics=20))) == []


def test_one_asker_makes_no_hub() -> None:
    flood = [(26.5, 999, number % 20, (20,)) for number in range(10_000)]

    assert list(find_hubs(window(traffic([25]) + flood, entered=[0] * 21, topics=20))) == []


def test_a_newcomer_is_named_when_more_askers_get_it_than_almost_any_other() -> None:
    rows = traffic([5, 25])
    jump = [(26, 1_000 + number, 20, (20,)) for number in range(150)]
    quiet = [(26, number, 21, (21,)) for number in range(40)]

    named = list(find_newcomers(window(rows + jump + quiet, entered=[0] * 20 + [25, 25]), NOW * DAY))

    assert [candidate.document for candidate in named] == [20]
    repeated = [(26, 1, 20, (20,))] * 1_000
    assert list(find_newcomers(window(rows + repeated, entered=[0] * 20 + [25]), NOW * DAY)) == []


def test_a_document_that_is_edited_and_then_in_sudden_demand_is_named() -> None:
    rows = traffic([1, 8, 15, 25])
    demand: list[Row] = [(26, 1_000 + number, 3, (3,)) for number in range(1_500)]
    entered, edited = [0.0] * 20, [0.0] * 3 + [24.0] + [0.0] * 16

    [candidate] = find_candidates(window(rows + demand, entered=entered, changed=edited), NOW * DAY)

    assert (candidate.detector, candidate.document, candidate.askers) == (WatchDetector.SURGE, 3, 1_540)
    unedited = window(rows + demand, entered=entered)
    long_ago = window(rows + demand, entered=entered, changed=[0.0] * 3 + [10.0] + [0.0] * 16)
    one_asker = window(rows + [(26, 999, 3, (3,))] * 1_500, entered=entered, changed=edited)
    assert [list(find_surges(hits, NOW * DAY)) for hits in (unedited, long_ago, one_asker)] == [[], [], []]


def test_documents_that_are_edited_every_day_are_named_neither_for_their_usual_demand_nor_with_all_others() -> None:
    daily = [27.5] * 20
    popular: list[Row] = [(day, 1_000 + number, 3, (3,)) for day in (1, 8, 15, 25) for number in range(500)]
    steady = window(traffic([1, 8, 15, 25]) + popular, entered=[0] * 20, changed=daily)
    busy_week = window(traffic([1, 8, 15]) + traffic([25], askers=900), entered=[0] * 20, changed=daily)
    no_past = window(traffic([25]) + popular[-500:], entered=[0] * 20, changed=daily)
    short_past = window(traffic([20, 25]) + popular[-500:], entered=[0] * 20, changed=daily)

    hits_of = (steady, busy_week, no_past, short_past)
    assert [list(find_candidates(hits, NOW * DAY)) for hits in hits_of] == [[], [], [], []]


def test_a_new_document_whose_demand_grows_was_not_edited() -> None:
    growing: list[Row] = [(13, 7, 20, (20,))] + [(26, 1_000 + number, 20, (20,)) for number in range(500)]

    hits = window(traffic([1, 8, 15, 25]) + growing, entered=[0] * 20 + [12])

    edited = window(traffic([1, 8, 15, 25]) + growing, entered=[0] * 20 + [12], changed=[0] * 20 + [25])
    settled = window(traffic([1, 8, 15, 25]) + growing, entered=[0] * 20 + [10], changed=[0] * 20 + [25])
    assert [list(find_surges(one, NOW * DAY)) for one in (hits, edited)] == [[], []]
    assert [candidate.document for candidate in find_surges(settled, NOW * DAY)] == [20]


def test_newcomers_that_take_the_places_of_others_are_named() -> None:
    usual: list[Row] = [(day, day, 0, (0, 1, 2, 3)) for day in range(10, 24)]
    taken: list[Row] = [(25 + asker / 10, asker, 0, (4, 5, 6, 3)) for asker in range(5)]
    joined: list[Row] = [(25 + asker / 10, asker, 0, (4, 0, 1, 2)) for asker in range(5)]

    named = list(find_displacements(window(usual + taken, entered=[0] * 4 + [25] * 3), NOW * DAY))

    assert [(candidate.displaced, candidate.document in {4, 5, 6}) for candidate in named] == [(1, True)]
    assert list(find_displacements(window(usual + joined, entered=[0] * 4 + [25] * 3), NOW * DAY)) == []
    one_asker = [(25 + number / 10, 1, 0, (4, 5, 6, 3)) for number in range(50)]
    assert list(find_displacements(window(usual + one_asker, entered=[0] * 4 + [25] * 3), NOW * DAY)) == []


def test_documents_that_were_withdrawn_were_not_ousted() -> None:
    usual: list[Row] = [(day, day, 0, (0, 1, 2)) for day in range(10, 24)]
    later: list[Row] = [(25 + asker / 10, asker, 0, (3, 4, 5)) for asker in range(5)]
    replaced = window(usual + later, entered=[0] * 3 + [25] * 3)
    replaced.leaves[:3] = True

    assert list(find_displacements(replaced, NOW * DAY)) == []


def test_repeated_retrievals_of_a_text_that_has_just_arrived_are_a_burst() -> None:
    probing: list[Row] = [(25 + number / 100, 7, 0, (1, 0)) for number in range(30)]

    named = list(find_bursts(window(traffic([10], documents=1) + probing, entered=[0, 25]), NOW * DAY))

    assert [(candidate.document, candidate.asker, candidate.retrievals) for candidate in named] == [(1, 7, 30)]
    assert list(find_bursts(window(probing, entered=[0, 2]), NOW * DAY)) == []  # it has been there for long


def test_a_monitor_makes_no_burst() -> None:
    monitor: list[Row] = [(24 + number / 48, 7, 0, (0, 1) if number > 48 else (0,)) for number in range(150)]

    assert list(find_bursts(window(monitor, entered=[0, 25]), NOW * DAY)) == []


def test_a_burst_names_its_aim_and_not_what_else_the_question_retrieves() -> None:
    probing: list[Row] = [(25 + number / 100, 7, 0, (0, 1, 2)) for number in range(30)]

    named = list(find_bursts(window(probing, entered=[20, 25, 22]), NOW * DAY))

    assert [candidate.document for candidate in named] == [1]


def test_equal_values_make_nothing_an_outlier_by_a_hair() -> None:
    assert robust_z(np.array([1.0, 1.0, 1.0, 1.01])).max() < 0.1


def test_questions_without_a_sketch_belong_to_no_cluster() -> None:
    sketches = [f"{number:032x}" for number in range(60)] + [None]

    clusters = cluster_questions(sketches)

    assert clusters[-1] == -1
    assert (clusters[:-1] >= 0).all()
    assert (cluster_questions(sketches[:10]) == -1).all()


def test_a_small_generated_log_is_watched_as_the_large_one() -> None:
    figures = measure_watch(generate_log(5, documents=1_000, retrievals=30_000, planted=6, groups=0))

    assert figures.recall >= 0.8
    assert figures.false_alarms <= 3


@pytest.mark.slow
def test_nine_of_ten_hubs_and_bursts_are_named_within_the_budget() -> None:
    figures = measure_watch(generate_log(21))

    assert figures.recall >= 0.9
    assert figures.false_alarm_rate <= 0.002
