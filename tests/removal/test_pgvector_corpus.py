"""A whole corpus in PostgreSQL, ledger and vectors in one database: refreshed, verified, healed, searched, withdrawn and purged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg2  # type: ignore[import-untyped]
import pytest
import sqlalchemy as sa
from purging import purge_document

from corpus_guard.corpus.pgvector_store import SCHEMA
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Inconsistent, StoreUnavailable
from corpus_guard.ledger.tables import purges
from corpus_guard.models import Models
from corpus_guard.proof.healing import heal
from corpus_guard.removal import postgres_files
from corpus_guard.settings import Settings
from deploying import Workspace, deploy
from material import vector_of
from postgres import LocalPostgres, free_port
from side_doors import PASSWORD, PostgresDoor

SECRET = "The ferryman Osric Blaylock keeps the key of the boat house under the third plank of the jetty."
PAGE = f"# Keys\n\n{SECRET} Whoever needs it asks the harbour office first and writes the hour into the book.\n"
PAGES = ("barometer.md", "rain gauge.md", "tide gauge.md")


@pytest.fixture
def corpus(tmp_path: Path, empty_postgresql: str, models_home: Path, hashed_models: Models) -> Workspace:
    """Four pages, refreshed once; Chroma's port would refuse."""
    made = deploy(
        tmp_path / "deployment",
        chroma_url=f"http://127.0.0.1:{free_port()}",
        models_home=models_home,
        models=hashed_models,
        store="pgvector",
        ledger_url=empty_postgresql,
    )
    for name in PAGES:
        made.page(name)
    made.page("keys.md", PAGE)
    made.refresh("r1")
    return made


@pytest.fixture
def side_door(corpus: Workspace) -> PostgresDoor:
    return PostgresDoor(corpus.settings.ledger_url)


def table(corpus: Workspace) -> str:
    return f'{SCHEMA}."{corpus.settings.collection_prefix}-{TrustLevel.OPEN.value}"'


def test_it_is_served_verified_and_withdrawn(corpus: Workspace) -> None:
    with corpus.guard() as guard:
        assert guard.verify().holds
        answers = guard.retriever.query(SECRET, k=1).answers
        assert SECRET in answers[0].text
        assert not guard.retriever.query(SECRET, k=1, trust=[TrustLevel.TRUSTED]).answers

    corpus.page(
        "keys.md",
        "# Keys\n\nThe key of the boat house is kept by the harbour office, which writes down who takes it.\n",
    )
    corpus.refresh("r2")

    with corpus.guard() as guard:
        assert guard.verify().holds
    assert SECRET not in "".join(corpus.served())
    assert not (corpus.settings.home / "chroma").exists()


@pytest.mark.parametrize(
    ("kind", "tamper"),
    [
        ("text_changed", "UPDATE {table} SET text = text || '!' WHERE text LIKE '%Osric%'"),
        (
            "vector_changed",
            "UPDATE {table} SET embedding = (SELECT embedding FROM {table} WHERE text LIKE '%rain%' LIMIT 1)"
            " WHERE text LIKE '%Osric%'",
        ),
        ("metadata_changed", """UPDATE {table} SET metadata = metadata || '{{"verdict": "release"}}' WHERE text LIKE '%Osric%'"""),
        ("removed", "DELETE FROM {table} WHERE text LIKE '%Osric%'"),
        ("added", "INSERT INTO {table} SELECT 'planted', text, embedding, metadata FROM {table} WHERE text LIKE '%Osric%'"),
        ("collection_missing", "DROP TABLE {table}"),
        ("collection_foreign", """COMMENT ON TABLE {table} IS '{{"corpus_guard_deployment": "another"}}'"""),
    ],
)  # fmt: skip
def test_what_somebody_changes_past_the_guard_is_named_and_healed(
    corpus: Workspace, side_door: PostgresDoor, kind: str, tamper: str
) -> None:
    side_door.execute(tamper.format(table=table(corpus)))

    with corpus.guard() as guard:
        verification = guard.verify()
        assert {deviation.kind.value for deviation in verification.deviations} == {kind}
        if kind == "collection_foreign":
            return  # a person has to say whose it is
        heal(guard.ledger, guard.storage, guard.store, "heal-1", verification.deviations)
        guard.seal("heal-1")
    with corpus.guard() as guard:
        assert guard.verify().holds
        assert SECRET in guard.retriever.query(SECRET, k=1).answers[0].text


def test_a_corpus_moves_from_chroma_without_a_model(deployment: Workspace, empty_postgresql: str) -> None:
    deployment.page("keys.md", PAGE)
    deployment.refresh("r1")
    before = deployment.served()
    moved = deployment.settings.model_copy(update={"store": "pgvector", "pgvector_url": empty_postgresql})

    with Workspace(deployment.root, moved, Models(moved)).guard() as guard:
        verification = guard.verify()
        assert {deviation.kind.value for deviation in verification.deviations} == {"collection_missing"}
        heal(guard.ledger, guard.storage, guard.store, "heal-1", verification.deviations)
        guard.seal("heal-1")
        assert guard.verify().holds
        assert [record.text for name in guard.store.names() for record in guard.store.scan(name)] == before


class TestPurge:
    """Neither text nor vector stays in a file of the server."""

    @staticmethod
    def holding(corpus: Workspace, postgresql: LocalPostgres) -> set[str]:
        """Folders with a file that holds the secret or its vector: the database's, with the ledger, and the server's other ones."""
        with (
            psycopg2.connect(corpus.settings.ledger_url.replace("+psycopg2", "")) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT oid FROM pg_database WHERE datname = current_database()")
            database = str(cursor.fetchone()[0])
            connection.rollback()
            connection.autocommit = True
            cursor.execute("CHECKPOINT")  # to the files
        connection.close()
        needles = SECRET.encode()[10:60], vector_of(SECRET)[:4].astype("<f4").tobytes()
        return {
            parts[0]
            for path in postgresql.data_dir.rglob("*")
            if (parts := path.relative_to(postgresql.data_dir).parts)[0] != "base" or parts[1:2] == (database,)
            if path.is_file() and any(needle in path.read_bytes() for needle in needles)
        }

    def test_nothing_is_left_in_any_file(self, corpus: Workspace, postgresql: LocalPostgres) -> None:
        assert self.holding(corpus, postgresql) == {"base", "pg_wal"}

        with corpus.guard() as guard:
            done = purge_document(guard, "keys.md")
            assert guard.verify().holds

        assert done["state"] == "closed"
        assert done["searched"] > len(PAGES)
        assert self.holding(corpus, postgresql) == set()
        assert len(corpus.served()) == len(PAGES)

    def test_a_step_that_was_not_done_is_found_and_doing_it_closes(
        self, corpus: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch, corpus.guard() as guard:
            patch.setattr(postgres_files.PostgresFiles, "rewrite", lambda *_: None)
            with pytest.raises(Inconsistent, match="purged text or vectors are still in") as raised:
                purge_document(guard, "keys.md")
        assert "Osric" not in str(raised.value)
        assert [row.state for row in corpus.read(sa.select(purges))] == ["removed"]

        with corpus.guard() as guard:
            assert [result["state"] for result in guard.purger.resume("p2")] == ["closed"]

    def test_an_old_transaction_keeps_it_open(self, corpus: Workspace, postgresql: LocalPostgres) -> None:
        """PostgreSQL keeps what it may still see."""
        url = corpus.settings.ledger_url.replace("+psycopg2", "")
        connection = psycopg2.connect(url)
        try:
            connection.set_session(isolation_level="REPEATABLE READ")
            connection.cursor().execute("SELECT 1")
            with corpus.guard() as guard, pytest.raises(Inconsistent, match="an open transaction"):
                purge_document(guard, "keys.md")
        finally:
            connection.close()

        with corpus.guard() as guard:
            assert [result["state"] for result in guard.purger.resume("p2")] == ["closed"]
        assert self.holding(corpus, postgresql) == set()

    @pytest.mark.parametrize("hindrance", ["another machine", "no rights"])
    def test_where_the_disk_is_not_seen_nothing_is_claimed(
        self, corpus: Workspace, monkeypatch: pytest.MonkeyPatch, hindrance: str
    ) -> None:
        def look(file: Path, probe: str) -> bool:
            if hindrance == "no rights":
                raise PermissionError(file)
            return False

        with monkeypatch.context() as patch, corpus.guard() as guard:
            patch.setattr(postgres_files, "_holds", look)
            done = purge_document(guard, "keys.md")

        assert done["state"] == "removed"
        assert SECRET not in "".join(corpus.served())


def test_a_server_that_is_away_is_named_without_its_password(corpus: Workspace) -> None:
    away = f"postgresql+psycopg2://postgres:{PASSWORD}@127.0.0.1:{free_port()}/vectors"
    settings = corpus.settings.model_copy(update={"pgvector_url": away})
    with Workspace(corpus.root, settings, corpus.models).guard() as guard, pytest.raises(StoreUnavailable) as raised:
        guard.retriever.query("Where is the key?")

    assert "does not answer" in str(raised.value)
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize(
    "given", [{"store": "pgvector"}, {"store": "pgvector", "pgvector_url": "mysql://host/vectors"}, {"store": "faiss"}]
)
def test_settings_that_name_no_database_are_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"pgvector|postgresql"):
        Settings(home=tmp_path, **given)
