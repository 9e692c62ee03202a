"""Data Docs: what the expectation suites said about the documents that a run judged.

Rules
    * they show counts, and each expectation in the words of Great Expectations' renderer: no value of a
      document, and no name of one. Great Expectations' own pages are not written: they load scripts from other
      hosts, and print the names of columns and runs unescaped (1.24.1);
    * counts come from the ledger: a document fails an expectation if it has a finding of its code.
      Expectations that share a rule share a code, and its count;
    * documents to which a suite gave no clean answer are counted as unchecked, and such a suite does not pass;
    * a run that judged nothing has none, and Great Expectations is not imported for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row
from corpus_guard.ledger.runs import run_folder
from corpus_guard.ledger.states import RunKind
from corpus_guard.ledger.tables import findings, runs, versions
from corpus_guard.screening.checks.expectation import Expectations
from corpus_guard.screening.checks.structure import Structure
from corpus_guard.screening.policy import UNCHECKED_SUFFIX
from corpus_guard.screening.suites.suite import Suite
from corpus_guard.screening.suites.validation import word_expectation

if TYPE_CHECKING:
    from corpus_guard.screening.runner import Screening

_FILE: Final = "data-docs.json"


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """One expectation over the documents that its suite is for."""

    code: str  # of the finding
    sentence: str  # Great Expectations' words
    severity: str  # of the finding
    failed: int  # documents with a finding of this code


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """A suite over the documents of a run."""

    name: str
    check: str  # that runs it
    sources: tuple[str, ...]  # that it is for; empty: all
    trust: tuple[str, ...]  # levels that it is for; empty: all
    documents: int  # of the run that it is for
    unchecked: int  # of them, those without a clean answer
    expectations: tuple[ExpectationResult, ...]

    @property
    def passes(self) -> bool:
        """Return True if every document met every expectation."""
        return not self.unchecked and not any(expectation.failed for expectation in self.expectations)


@dataclass(frozen=True, slots=True)
class DataDocs:
    """The suites of a run with what they found."""

    run_id: str
    suites: tuple[SuiteResult, ...]

    @property
    def summary(self) -> str:
        """Return the result in one sentence."""
        failing = [suite.name for suite in self.suites if not suite.passes]
        if not failing:
            return f"all {len(self.suites)} suites pass"
        return f"{len(failing)} of {len(self.suites)} suites fail ({', '.join(failing)})"


def write_data_docs(ledger: Ledger, storage: Storage, screening: Screening, run_id: str) -> DataDocs | None:
    """Write the Data Docs of a run; None if it judged nothing, or by no suite."""
    document = sa.func.count(versions.c.version_id.distinct())
    groups = (versions.c.stamp["source"].as_string(), versions.c.stamp["trust"].as_string())
    of_run = versions.c.run_id == run_id
    by_code = (
        sa.select(*groups, findings.c.code, document)
        .join(findings, findings.c.version_id == versions.c.version_id)
        .where(of_run, findings.c.check_name.in_((Structure.name, Expectations.name)))
        .group_by(*groups, findings.c.code)
    )
    with ledger.read() as connection:
        judged = connection.execute(sa.select(*groups, document).where(of_run).group_by(*groups)).all()
        failed = connection.execute(by_code).all() if judged else []
    suites = tuple(_result(*suite, judged, failed) for suite in _suites(screening)) if judged else ()
    if not suites:
        return None
    docs = DataDocs(run_id, suites)
    storage.write_json(f"{run_folder(run_id)}/{_FILE}", asdict(docs))
    return docs


def load_data_docs(storage: Storage, folder: str) -> DataDocs:
    """Return the Data Docs in the folder of a run (`corpus_guard.ledger.runs.run_folder`).

    Raises:
        UnknownSubject: there are none, or they were removed since.
    """
    name = f"{folder}/{_FILE}"
    if not storage.exists(name):
        raise UnknownSubject(
            "this run has no Data Docs: it judged no document, or its working files were removed since (CORPUS_GUARD_CLEAN_DAYS)"
        )
    content: dict[str, Any] = storage.read_json(name)
    return DataDocs(content["run_id"], tuple(_read_suite(**suite) for suite in content["suites"]))


def last_judging_refresh(ledger: Ledger) -> str:
    """Return the id of the last refresh that judged a document.

    Raises:
        UnknownSubject: there is none.
    """
    has_judged = sa.exists().where(versions.c.run_id == runs.c.run_id)
    statement = sa.select(runs.c.run_id).where(runs.c.kind == RunKind.REFRESH, has_judged)
    run_id = ledger.scalar(statement.order_by(runs.c.started_at.desc()).limit(1))
    if run_id is None:
        raise UnknownSubject("no refresh has judged a document yet; run guard refresh, or the DAG corpus_refresh")
    return str(run_id)


def _read_suite(sources: list[str], trust: list[str], expectations: list[dict[str, Any]], **values: Any) -> SuiteResult:
    results = tuple(ExpectationResult(**each) for each in expectations)
    return SuiteResult(sources=tuple(sources), trust=tuple(trust), expectations=results, **values)


def _suites(screening: Screening) -> Iterator[tuple[str, str, Suite]]:
    """Yield check, beginning of the codes, and suite."""
    structure, own = screening.check(Structure.name), screening.check(Expectations.name)
    if isinstance(structure, Structure):
        yield structure.name, structure.name, structure.suite
    if isinstance(own, Expectations):
        for suite in own.suites:
            yield own.name, f"{own.name}.{suite.name}", suite


def _result(check: str, prefix: str, suite: Suite, judged: Sequence[Row], failed: Sequence[Row]) -> SuiteResult:
    def documents(rows: Sequence[Row], *code: str) -> int:
        """Count the documents that the suite is for, of all codes or of one."""
        return sum(
            count
            for source, trust, *row_code, count in rows
            if suite.applies_to(source, TrustLevel(trust)) and (not code or row_code == [*code])
        )

    return SuiteResult(
        name=suite.name,
        check=check,
        sources=tuple(sorted(suite.marks.sources)),
        trust=tuple(sorted(suite.marks.trust)),
        documents=documents(judged),
        unchecked=documents(failed, check + UNCHECKED_SUFFIX),
        expectations=tuple(
            ExpectationResult(
                code := f"{prefix}.{expectation.rule}",
                word_expectation(expectation),
                expectation.strength[0].value,
                documents(failed, code),
            )
            for expectation in suite.expectations
        ),
    )
