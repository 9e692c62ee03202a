"""Every figure of an exposure agrees with a count over the log, and what is not known is not printed as zero."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus_guard.corpus.retrieval_log import LoggedChunk, LoggedRetrieval, RetrievalLog, prune
from corpus_guard.errors import UnknownSubject
from corpus_guard.forensics.exposure import Exposure, ExposureSubject, Reach, ReportRoad, find_subject, measure_exposure
from corpus_guard.forensics.kinds import SubjectKind
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import purges, queries, retrievals, retrieved_chunks
from corpus_guard.traceback.filings import Filing
from corpus_guard.traceback.reports import file_report
from forensics_material import write_corpus
from material import START

SUBJECTS = {
    "a1": {"a1"},
    "a2": {"a2"},
    "foreign": {"foreign"},
    "doc-a": {"a1", "a2"},
    "wiki/pumps.md": {"a1", "a2"},
    "forum": {"b1"},
    "run-doc-a": {"a1", "a2"},
    "principal-forum": {"b1"},
}
"""Name that a user gives → chunks that it stands for."""

chunk = st.builds(
    LoggedChunk, st.sampled_from(["a1", "a2", "b1", "foreign"]), st.none() | st.floats(-1, 1), st.none() | st.booleans()
)
retrieval = st.builds(
    LoggedRetrieval,
    st.sampled_from(["How deep?", "how deep", "Who opens?", "When?"]),
    st.lists(chunk, max_size=4).map(tuple),
    at=st.integers(0, 5_000).map(lambda minutes: START + timedelta(minutes=minutes)),
    session=st.sampled_from(["", "s1", "s2"]),
    user_id=st.sampled_from([None, "ann", "bob"]),
    answer=st.sampled_from([None, "30 m", "40 m"]),
)


def log(ledger: Ledger) -> RetrievalLog:
    return RetrievalLog(ledger, days=3_000)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    records=st.lists(retrieval, max_size=12), named=st.lists(st.sampled_from(sorted(SUBJECTS)), min_size=1, max_size=2)
)
def test_every_figure_agrees_with_sql(exposed: Ledger, records: list[LoggedRetrieval], named: list[str]) -> None:
    with exposed.write() as connection:
        for table in (retrieved_chunks, retrievals, queries):
            connection.execute(table.delete())
    log(exposed).add(records)
    wanted = set().union(*(SUBJECTS[name] for name in named))
    subjects = [ExposureSubject(SubjectKind.CHUNK, name, name) for name in wanted]
    if "foreign" not in wanted:  # which is found only if the log holds it
        subjects = [find_subject(exposed, name) for name in named]

    measured = measure_exposure(exposed, *subjects)

    with exposed.read() as connection:
        assert_agrees(measured, connection, wanted)


def assert_agrees(measured: Exposure, connection: sa.Connection, wanted: set[str]) -> None:
    ids = ", ".join(f"'{name}'" for name in sorted(wanted))
    of_wanted = f"c.retrieval_id = r.retrieval_id AND c.chunk_id IN ({ids})"
    hit = f"EXISTS (SELECT 1 FROM retrieved_chunks c WHERE {of_wanted})"
    was_shown = f"EXISTS (SELECT 1 FROM retrieved_chunks c WHERE {of_wanted} AND c.shown)"
    was_told = f"EXISTS (SELECT 1 FROM retrieved_chunks c WHERE {of_wanted} AND c.shown IS NOT NULL)"

    def rows(statement: str) -> Sequence[Any]:
        return connection.execute(sa.text(statement)).all()

    def reach(condition: str) -> Reach:
        [(number, questions, sessions, users, first, last)] = rows(
            "SELECT count(*), count(DISTINCT query_id), count(DISTINCT NULLIF(session, '')), count(DISTINCT user_id), "
            f"min(at), max(at) FROM retrievals r WHERE {condition}"
        )
        return Reach(number, questions, sessions or None, users or None, moment(first), moment(last))

    assert measured.retrieved == reach(hit)
    told = rows(f"SELECT count(*) FROM retrievals r WHERE {was_told}")[0][0]
    assert measured.shown_unknown == measured.retrieved.retrievals - told
    assert measured.shown == (reach(was_shown) if told else None)
    [(share,)] = rows(
        "SELECT avg(1.0 * own / every) FROM (SELECT "
        f"(SELECT count(*) FROM retrieved_chunks c WHERE {of_wanted}) AS own, "
        "(SELECT count(*) FROM retrieved_chunks c WHERE c.retrieval_id = r.retrieval_id) AS every "
        f"FROM retrievals r WHERE {hit}) AS shares"
    )
    assert measured.context_share == (None if share is None else pytest.approx(float(share)))
    for column, listed in (("session", measured.sessions), ("user_id", measured.users)):
        assert {(party.name, party.retrievals, party.shown, party.first, party.last) for party in listed} == {
            (name, number, shown if known else None, moment(first), moment(last))
            for name, number, shown, known, first, last in rows(
                f"SELECT {column}, count(*), sum(CASE WHEN {was_shown} THEN 1 ELSE 0 END), "
                f"sum(CASE WHEN {was_told} THEN 1 ELSE 0 END), min(at), max(at) "
                f"FROM retrievals r WHERE {hit} AND {column} IS NOT NULL AND {column} <> '' GROUP BY {column}"
            )
        }
    assert {(question.query_id, question.retrievals) for question in measured.questions} == set(
        map(tuple, rows(f"SELECT query_id, count(*) FROM retrievals r WHERE {hit} GROUP BY query_id"))
    )
    answers = rows(f"SELECT answer, count(*) FROM retrievals r WHERE {hit} AND answer IS NOT NULL GROUP BY answer")
    assert {(answer.text, answer.times) for answer in measured.answers or ()} == set(map(tuple, answers))
    assert (measured.answers is None) == (not answers)
    assert sum(number for _, number in measured.days) == measured.retrieved.retrievals


def moment(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


@pytest.fixture
def exposed(ledger: Ledger) -> Ledger:
    write_corpus(ledger)
    return ledger


def test_what_nobody_said_is_not_zero(exposed: Ledger) -> None:
    log(exposed).add([LoggedRetrieval("How deep?", (LoggedChunk("a1"), LoggedChunk("b1")), at=START)])

    measured = measure_exposure(exposed, find_subject(exposed, "a1"))

    assert measured.retrieved == Reach(1, 1, None, None, START, START)
    assert (measured.shown, measured.shown_unknown, measured.answers) == (None, 1, None)
    assert measured.context_share == 0.5
    nothing = measure_exposure(exposed, find_subject(exposed, "a2"))
    assert nothing.retrieved.retrievals == 0
    assert nothing.context_share is None


def test_the_log_says_from_when_on_it_is_complete(exposed: Ledger) -> None:
    subject = find_subject(exposed, "a1")
    assert measure_exposure(exposed, subject).log_from is None
    assert measure_exposure(exposed, subject).predates_log

    log(exposed).add(
        [LoggedRetrieval("How deep?", (LoggedChunk("a1"),), at=START + timedelta(days=day)) for day in (0, 9)]
    )
    prune(exposed, 5, START + timedelta(days=10))

    measured = measure_exposure(exposed, subject)
    assert (measured.retrieved.retrievals, measured.log_from) == (1, START + timedelta(days=5))
    assert measured.predates_log


def test_what_a_purge_erased_is_still_known_to_have_been_served(exposed: Ledger) -> None:
    log(exposed).add([LoggedRetrieval("How deep?", (LoggedChunk("a1"), LoggedChunk("b1")), at=START)])
    row = {"purge_id": "abcdef12" * 4, "state": "closed", "subject": {}, "versions": ["v-doc-a"], "requested_by": "ada"}
    exposed.execute(purges.insert().values(**row, reason="planted", requested_at=START, run_id="r"))

    subject = find_subject(exposed, "abcdef12")

    assert (subject.kind, subject.label) == (SubjectKind.PURGE, "purge abcdef12")
    measured = measure_exposure(exposed, subject)
    assert (measured.chunks, measured.retrieved.retrievals, measured.context_share) == (2, 1, 0.5)


def test_lists_are_cut_and_counts_are_not(exposed: Ledger) -> None:
    log(exposed).add(
        [LoggedRetrieval(f"Question {n}?", (LoggedChunk("a1"),), at=START, session=str(n)) for n in range(9)]
    )

    measured = measure_exposure(exposed, find_subject(exposed, "a1"), listed=3)

    assert (measured.retrieved.questions, measured.retrieved.sessions) == (9, 9)
    assert len(measured.questions) == len(measured.sessions) == 3


def test_reports_are_found_by_the_surest_road(exposed: Ledger) -> None:
    log(exposed).add([LoggedRetrieval("How deep is the quay?", (LoggedChunk("a1"),), at=START)])
    at = START + timedelta(hours=1)
    file_report(exposed, Filing("How deep is the quay?", "90 m", at), "run", at)
    file_report(exposed, Filing("Who opens?", "Nobody", at, served=("a1",)), "run", at)
    file_report(exposed, Filing("Unrelated?", "Yes", at, served=("b1",)), "run", at)

    measured = measure_exposure(exposed, find_subject(exposed, "a1"))

    assert {(report.output, report.road) for report in measured.reports} == {
        ("90 m", ReportRoad.QUESTION),
        ("Nobody", ReportRoad.SERVED),
    }
    assert measured.reports_total == 2


def test_a_report_is_known_by_its_question_where_the_log_keeps_hashes_alone(exposed: Ledger) -> None:
    key = b"k" * 32
    asked = [LoggedRetrieval("How deep is the quay?", (LoggedChunk("a1"),), at=START)]
    RetrievalLog(exposed, days=3_000, key=key).add(asked)
    at = START + timedelta(hours=1)
    receipt = file_report(exposed, Filing("how deep is the quay", "90 m", at), "run", at)
    subject = find_subject(exposed, "a1")

    (report,) = measure_exposure(exposed, subject, key=key).reports

    assert (report.report_id, report.road) == (receipt.report_id, ReportRoad.QUESTION)
    assert measure_exposure(exposed, subject, key=b"another key of this kind").reports == ()
    assert [question.text for question in measure_exposure(exposed, subject).questions] == [None]


@pytest.mark.parametrize("name", ["", "nothing", "' OR 1=1 --", "00000000"])
def test_an_unknown_name_is_refused(exposed: Ledger, name: str) -> None:
    with pytest.raises(UnknownSubject, match="neither the ledger nor the retrieval log"):
        find_subject(exposed, name)


def test_a_uri_of_two_sources_is_refused(ledger: Ledger) -> None:
    write_corpus(ledger, {"d1": ("wiki", "same.md", ("c1",)), "d2": ("forum", "same.md", ("c2",))})

    with pytest.raises(UnknownSubject, match="several sources"):
        find_subject(ledger, "same.md")
    assert find_subject(ledger, "forum/same.md").key == "d2"
