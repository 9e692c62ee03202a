"""The tamper matrix of the ledger's rows: whatever decides what is served or shown is named when it is changed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from corpus_guard.domain import no_progress
from corpus_guard.ledger import row_digests
from corpus_guard.ledger.tables import metadata
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.verify.findings import DeviationCollector
from corpus_guard.proof.verify.log import check_log
from every_row import another_value
from material import a_version
from older_ledgers import go_back_to_0010
from row_tampering import ROWS, RowTampering, add_rows
from tampering import DOUBTFUL, Corpus


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path, chroma_home: Path, server: str) -> Corpus:
    """Made once; only its files are ever copied and changed."""
    made = Corpus.sealed(tmp_path_factory.mktemp("original"), migrated_sqlite, chroma_home, server, "rows")
    add_rows(made)
    assert made.verified().deviations == ()
    made.shelf.ledger.close()  # folds the write-ahead log into the file
    return made


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.name)
def test_rows_that_were_changed_by_hand_are_named(copy: Corpus, case: RowTampering) -> None:
    copy.ledger_sql(case.statement)

    result = copy.verified()

    assert not result.holds
    assert {(deviation.kind, deviation.subject) for deviation in result.deviations} == {
        (DeviationKind.LEDGER_CHANGED, case.subject)
    }
    assert all(case.subject in deviation.message for deviation in result.deviations)


LOGGED = [
    column
    for name in ("events", "heads")
    for column in metadata.tables[name].c
    if f"{name}.{column.name}" != "heads.signed_at"
]


@pytest.mark.parametrize("column", LOGGED, ids=str)
def test_every_column_of_the_log_is_named(copy: Corpus, column: sa.Column[object]) -> None:
    key = next(iter(column.table.primary_key)).name
    copy.ledger_sql(
        f"UPDATE {column.table.name} SET {column.name} = :value WHERE {key} = 1", value=another_value(column, 1)
    )
    collector = DeviationCollector()

    check_log(copy.shelf.ledger, copy.settings, collector, 1_000, no_progress)

    assert collector.deviations


def test_a_home_of_an_older_release_verifies_after_it_was_opened_and_sealed_again(
    original: Corpus, tmp_path: Path, migrated_sqlite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(row_digests, "DIGESTED_TABLES", {})  # an older release logged no digests
        made = Corpus.sealed(
            tmp_path / "older", migrated_sqlite, original.chroma_home, original.settings.chroma_url, "older"
        )
        go_back_to_0010(made.ledger_sql)
        made.shelf.ledger.close()
    opened = Corpus.opened(made.home, made.chroma_home, made.settings)

    assert opened.verified().deviations == ()
    assert {event.kind for event in opened.events()} >= {"adopted", "judged"}
    opened.shelf.serve(a_version("new.md", ("A new bell hangs at the pier. ",)))
    opened.seal()
    assert opened.verified().deviations == ()
    opened.ledger_sql("UPDATE versions SET waits_since = NULL WHERE version_id = :one", one=DOUBTFUL.version_id)
    [deviation] = opened.verified().deviations
    assert deviation.subject == DOUBTFUL.version_id
    opened.shelf.ledger.close()
