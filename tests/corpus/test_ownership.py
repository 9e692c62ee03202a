"""A store belongs to one deployment: another one reads, writes and deletes nothing in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import chromadb
import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory

from corpus_guard.batches.ownership import OWNER_FILE
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.ownership import OWNER_KEY
from corpus_guard.corpus.server import find_server
from corpus_guard.corpus.store import MODEL_KEY, Store
from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import ForeignCollection, SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger import ledger as ledgers
from corpus_guard.models import Models
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.healing import heal
from corpus_guard.removal.chroma_files import republish_collections
from deploying import Workspace, deploy
from material import MODEL, Shelf, a_record, a_version
from side_doors import SIDE_DOORS

Write = Callable[[Store, str], Any]

PUMPS = a_version("pumps.md", [f"Pump {number} is greased in week {number}. " for number in range(4)])
RECORD = a_record("Their own passage.")
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def other_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """Of another deployment: with an id of its own."""
    opened = Ledger(f"sqlite:///{tmp_path_factory.mktemp('other') / 'ledger.sqlite'}")
    yield opened
    opened.close()


@pytest.fixture
def ours(chroma_url: str, sqlite_ledger: Ledger) -> Store:
    return ChromaStore(chroma_url, f"owned{next(_numbers)}", lambda: sqlite_ledger)


@pytest.fixture
def shelf(ours: Store, sqlite_ledger: Ledger, storage: Any) -> Shelf:
    return Shelf(sqlite_ledger, storage, ours)


@pytest.fixture
def name(ours: Store) -> str:
    return ours.collection_name(TrustLevel.OPEN)


@pytest.mark.parametrize(
    "use",
    [
        lambda store, name: store.upsert(name, [a_record("ours")], MODEL),
        lambda store, name: store.upsert(name, [RECORD], "another model", anew=True),
        lambda store, name: store.delete(name, [RECORD.chunk_id]),
        lambda store, name: store.get(name, [RECORD.chunk_id]),
        lambda store, name: store.read(name, [RECORD.chunk_id]),
        lambda store, name: list(store.scan(name)),
        lambda store, name: store.count(name),
        lambda store, name: store.query([name], RECORD.vector, 1),
        lambda store, name: store.nearest_texts(name, RECORD.vector[None], 1),
        lambda store, name: store.nearest_ids(name, RECORD.vector[None], 1),
        lambda store, name: store.sample_vectors(name, 1),
        lambda store, name: store.delete_collection(name),
    ],
    ids=["upsert", "anew", "delete", "get", "read", "scan", "count", "query", "texts", "ids", "sample", "drop"],
)
@pytest.mark.parametrize("kind", list(SIDE_DOORS))
def test_no_operation_touches_a_collection_of_another_deployment(
    request: pytest.FixtureRequest, kind: str, sqlite_ledger: Ledger, other_ledger: Ledger, use: Write
) -> None:
    side_door = SIDE_DOORS[kind](request.getfixturevalue(SIDE_DOORS[kind].fixture))
    prefix = f"owned{next(_numbers)}"
    ours, theirs = side_door.open(prefix, sqlite_ledger), side_door.open(prefix, other_ledger)
    name = ours.collection_name(TrustLevel.OPEN)
    theirs.upsert(name, [RECORD], MODEL)

    with pytest.raises(ForeignCollection) as raised:
        use(ours, name)

    for part in (name, ours.address, other_ledger.deployment_id, sqlite_ledger.deployment_id, sqlite_ledger.address):
        assert part in str(raised.value)
    assert [record.fingerprint for record in theirs.scan(name)] == [RECORD.fingerprint]
    theirs.delete_collection(name)
    ours.close()
    theirs.close()


def test_neither_the_outbox_nor_a_purge_writes_there(shelf: Shelf, name: str, other_ledger: Ledger) -> None:
    theirs = ChromaStore(shelf.store.url, shelf.store.prefix, lambda: other_ledger)
    theirs.upsert(name, [RECORD], MODEL)
    shelf.accept(PUMPS)

    with pytest.raises(ForeignCollection):
        shelf.drain()
    with pytest.raises(ForeignCollection):
        republish_collections(shelf.ledger, shelf.storage, shelf.store, "run-1", [name])

    assert [record.fingerprint for record in theirs.scan(name)] == [RECORD.fingerprint]
    assert len(shelf.in_ledger("pending")) == len(PUMPS.chunks)


class TestCollectionsOfAnOlderRelease:
    """They name no deployment."""

    def test_one_that_holds_what_was_published_is_ours_and_is_marked_with_the_next_record(
        self, shelf: Shelf, name: str, chroma: chromadb.ClientAPI
    ) -> None:
        shelf.serve(PUMPS)
        chroma.get_collection(name).modify(metadata={MODEL_KEY: MODEL.rpartition("/")[0]})
        shelf.store.forget_collections()

        assert shelf.check_agreement() == shelf.held_by(PUMPS)
        assert OWNER_KEY not in (chroma.get_collection(name).metadata or {})
        more = a_version("more.md", ("The new quay is swept in spring. ",))
        shelf.serve(more)

        assert (chroma.get_collection(name).metadata or {})[OWNER_KEY] == shelf.ledger.deployment_id
        assert shelf.check_agreement() == shelf.held_by(PUMPS, more)

    def test_an_empty_one_is_ours(self, shelf: Shelf, name: str, chroma: chromadb.ClientAPI) -> None:
        ChromaStore(shelf.store.url, shelf.store.prefix).upsert(name, [RECORD], MODEL.rpartition("/")[0])
        chroma.get_collection(name).delete(ids=[RECORD.chunk_id])

        shelf.serve(PUMPS)

        assert (chroma.get_collection(name).metadata or {})[OWNER_KEY] == shelf.ledger.deployment_id

    def test_one_that_another_deployment_filled_from_the_same_documents_is_refused(
        self, shelf: Shelf, name: str, chroma: chromadb.ClientAPI
    ) -> None:
        shelf.serve(PUMPS)
        collection = chroma.get_collection(name)
        collection.modify(metadata={MODEL_KEY: MODEL.rpartition("/")[0]})
        later = [{**row, "fetched_at": "2027-01-01T00:00:00+00:00"} for row in collection.get()["metadatas"] or ()]
        collection.update(ids=collection.get()["ids"], metadatas=later)
        shelf.store.forget_collections()

        with pytest.raises(ForeignCollection, match="names no deployment and does not hold what this ledger published"):
            shelf.serve(a_version("more.md", ("The new quay is swept in spring. ",)))

        assert collection.count() == len(PUMPS.chunks)

    def test_one_with_records_is_refused_where_nothing_was_published(self, shelf: Shelf, name: str) -> None:
        before = ChromaStore(shelf.store.url, shelf.store.prefix)
        before.upsert(name, [RECORD], MODEL.rpartition("/")[0])

        with pytest.raises(ForeignCollection):
            shelf.serve(PUMPS)

        assert before.count(name) == 1


def test_a_home_of_an_older_release_opens_and_holds_and_its_collection_is_marked(
    deployment: Workspace, chroma: chromadb.ClientAPI
) -> None:
    deployment.page("tide.md")
    with deployment.guard() as guard:
        guard.refresh()
        collection = chroma.get_collection(guard.store.collection_name(TrustLevel.OPEN))
        guard.ledger.execute(sa.text("DROP TABLE deployment"))
        guard.storage.remove(OWNER_FILE)
    collection.modify(metadata={MODEL_KEY: (collection.metadata or {})[MODEL_KEY]})
    with Ledger(deployment.settings.ledger).write() as connection:
        folder = Path(ledgers.__file__).parent / "migrations"
        revision = ScriptDirectory(str(folder)).get_revision("0010")
        assert revision is not None
        with Operations.context(MigrationContext.configure(connection)):
            revision.module.upgrade()

    with deployment.guard() as guard:
        assert guard.verify().holds
    deployment.page("crane.md")
    with deployment.guard() as guard:
        guard.refresh()
        assert guard.verify().holds

    metadata = chroma.get_collection(collection.name).metadata or {}
    assert metadata[OWNER_KEY] == guard.ledger.deployment_id


def test_another_prefix_than_the_one_that_is_served_is_refused(
    tmp_path: Path, chroma_url: str, models_home: Path, hashed_models: Models
) -> None:
    made = deploy(tmp_path / "home", chroma_url=chroma_url, models_home=models_home, models=hashed_models)
    made.page("tide.md")
    with made.guard() as guard:
        guard.refresh()

    made.page("crane.md")

    prefix = made.settings.collection_prefix
    moved = replace(made, settings=made.settings.model_copy(update={"collection_prefix": f"other-{prefix}"}))
    for work in (Deployment.refresh, Deployment.verify, lambda guard: guard.retriever.query("tide")):
        with moved.guard() as guard, pytest.raises(SettingsError, match=f"COLLECTION_PREFIX.* set it to '{prefix}'"):
            work(guard)
    with made.guard() as guard:
        assert guard.verify().holds


def test_the_second_of_two_homes_that_share_a_server_stops_and_the_first_is_unharmed(
    tmp_path: Path, chroma_url: str, models_home: Path, hashed_models: Models, chroma: chromadb.ClientAPI
) -> None:
    def home(name: str) -> Workspace:
        made = deploy(tmp_path / name, chroma_url=chroma_url, models_home=models_home, models=hashed_models)
        settings = made.settings.model_copy(update={"collection_prefix": f"shared{tmp_path.name[-1]}"})
        made = replace(made, settings=settings)
        for page in ("tide.md", "crane.md"):
            made.page(page)
        return made

    first, second = home("first"), home("second")
    with first.guard() as guard:
        guard.refresh()
        name, ours = guard.store.collection_name(TrustLevel.OPEN), guard.ledger.deployment_id
    before = chroma.get_collection(name).get(include=["documents", "embeddings", "metadatas"])

    with second.guard() as guard, pytest.raises(ForeignCollection, match=f"{ours}.*{guard.ledger.deployment_id}"):
        guard.refresh()
    with second.guard() as guard:
        seen = guard.verify()
        done = heal(guard.ledger, guard.storage, guard.store, "heal-1", seen.deviations)

    assert (DeviationKind.COLLECTION_FOREIGN, name) in {(found.kind, found.subject) for found in seen.deviations}
    assert name in dict(done.unhealed)
    after = chroma.get_collection(name).get(include=["documents", "embeddings", "metadatas"])
    assert (after["ids"], after["documents"], after["metadatas"]) == (
        before["ids"],
        before["documents"],
        before["metadatas"],
    )
    with first.guard() as guard:
        assert guard.verify().holds

    alone = replace(second, settings=second.settings.model_copy(update={"chroma_url": ""}))
    with alone.guard() as guard:
        guard.refresh()
        assert guard.verify().holds
        assert find_server(alone.settings) == guard.store.url != chroma_url
    assert find_server(alone.settings) is None
    with first.guard() as guard:
        assert guard.verify().holds
