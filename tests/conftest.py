"""Real servers for every test: SQLite and PostgreSQL for the ledger, Chroma for the collections, all on loopback."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache, cached_property
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

import chromadb
import hypothesis
import psycopg2  # type: ignore[import-untyped]
import pytest
import sqlalchemy as sa
import typer.main
import typer.testing
from chromadb.api.shared_system_client import SharedSystemClient
from xdist.scheduler import LoadFileScheduling

from corpus_guard.batches import Storage
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.pgvector_store import PgvectorStore
from corpus_guard.corpus.server import running_server
from corpus_guard.corpus.store import Store
from corpus_guard.domain import Version
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.sources import sources_file
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models, weights
from corpus_guard.screening import canaries, own_checks
from corpus_guard.screening.canaries import CanaryPack
from corpus_guard.screening.orders import classifier
from corpus_guard.settings import Settings
from deploying import Typed, Workspace, deploy, forget_collections, plain_client, prepared_models, write_empty_ledger
from hashed_models import HashedModels
from material import Shelf
from postgres import LocalPostgres, free_port

PASSWORD = "not-to-be-shown"
MAX_MEMORY = 4 * 2**30  # bytes a test process may hold; the goal is 2 GB; measured: 2.4, without bfloat16 3.9
AIRFLOW_SECONDS, SLOW_SECONDS = 900, 2_400  # instead of the 300 of pyproject.toml
COLLECTING = (50_000, 20, 20)  # thresholds of the garbage collector; with its own it takes a quarter of the time
GROWTH = 200 * 2**20  # bytes
MEMORY_FOLDER, ROOM = "/dev/shm", 6 * 2**30  # noqa: S108 - bytes; a run of the default suite leaves 3 GB
PEAKS = pytest.StashKey[dict[str, int]]()
RESIDENT = pytest.StashKey[int]()
BOTH_KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
"""By default PostgreSQL is asked only where its contract is tested: tests/ledger and tests/corpus/test_publishing.py."""
BOTH_STORES = ["chroma_store", pytest.param("pgvector_store", marks=pytest.mark.slow)]
"""For the tests of a file with ``ON_BOTH_STORES = True``; tests/corpus/test_store.py holds both to the rules of a store."""
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """What the shell or `make` says of a deployment, or xdist of a terminal, is not meant for tests."""
    for name in [name for name in os.environ if name.startswith("CORPUS_GUARD_") or name in {"COLUMNS", "LINES"}]:
        del os.environ[name]
    gc.set_threshold(*COLLECTING)
    hypothesis.settings.register_profile("untimed", deadline=None)  # a busy machine fails no property
    hypothesis.settings.load_profile("untimed")
    config.stash[PEAKS] = {}
    config.stash[RESIDENT] = 0
    if _is_roomy(MEMORY_FOLDER):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY_FOLDER)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives as long as the process: modules, and thousands of tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTING)


def _is_roomy(folder: str) -> bool:
    """Return whether files of tests fit there; in memory no test waits for a disk to confirm what it wrote."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize > ROOM and not disk.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give runs of Airflow and whole proofs more time, and begin with the runs of Airflow: they take longest."""
    for item in items:
        is_slow = item.get_closest_marker("slow") is not None
        if (_runs_airflow(item.nodeid) or is_slow) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS if is_slow else AIRFLOW_SECONDS))
    items.sort(key=lambda item: not _runs_airflow(item.nodeid))


def _runs_airflow(nodeid: str) -> bool:
    return nodeid.startswith("tests/e2e/")


class WholeFiles(LoadFileScheduling):
    """Gives each process of xdist whole files, and one of them all quick runs of Airflow: they begin with the same corpus.

    The groups of xdist 3.8.0 have no effect under pytest 9.2: it no longer reads the name that xdist writes them into.
    """

    def _split_scope(self, nodeid: str) -> str:
        are_quick = self.config.getoption("markexpr") == "not slow"
        return "airflow" if are_quick and _runs_airflow(nodeid) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WholeFiles:
    """Return the scheduler of every run with `-n`."""
    return WholeFiles(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the peak that a process of xdist reports at its end."""
    node.config.stash[PEAKS][node.gateway.id] = getattr(node, "workeroutput", {}).get("peak", 0)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run one of whose processes held too much memory: two of them must fit beside servers and models."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peak"] = peak
        return
    peaks = session.config.stash[PEAKS]
    peaks["main"] = peak
    if max(peaks.values()) > MAX_MEMORY:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how much memory each process held."""
    peaks = config.stash[PEAKS]
    held = ", ".join(f"{name} {peak / 2**30:.2f} GB" for name, peak in sorted(peaks.items()))
    terminalreporter.write_line(f"Peak memory: {held} (at most {MAX_MEMORY / 2**30:.0f} GB each)")


@pytest.fixture(scope="session", autouse=True)
def models_loaded_once(request: pytest.FixtureRequest) -> None:
    """Load each model once a process, whoever asks for it: a copy takes seconds and up to half a gigabyte."""
    loaded: dict[tuple[str, str], Any] = {}

    def share(name: str, weights_name: str, *, looks_later: bool = False) -> None:
        load = vars(Models)[name].func

        def shared(models: Models) -> Any:
            key = (name, getattr(models, weights_name).digest)
            if key not in loaded:
                # By then the home of the test that asked first is gone.
                lasting = Models(Settings(home=prepared_models(request.config.cache))) if looks_later else models
                loaded[key] = load(lasting)
            return loaded[key]

        attribute = cached_property(shared)
        attribute.__set_name__(Models, name)
        setattr(Models, name, attribute)

    share("embedder", "embedder_weights")
    share("word_embedder", "word_weights")
    share("language_model", "language_model_weights")
    share("contradiction_reader", "word_weights", looks_later=True)
    load_tokenizer = vars(Chunker)["_tokenizer"].func

    def shared_tokenizer(chunker: Chunker) -> Any:
        key = ("tokenizer", str(chunker._file))
        if key not in loaded:
            loaded[key] = load_tokenizer(chunker)
        return loaded[key]

    setattr(Chunker, "_tokenizer", property(shared_tokenizer))  # noqa: B010 - mypy allows no other way


@pytest.fixture(scope="session", autouse=True)
def models_prepared_once(request: pytest.FixtureRequest) -> None:
    """Let the classifier of orders find its larger model among the tests' models, where no deployment says where it is."""
    classifier.load_settings = lambda: Settings(home=prepared_models(request.config.cache))


@pytest.fixture(scope="session", autouse=True)
def statements_compiled_once() -> None:
    """Share SQLAlchemy's compiled statements between the SQLite ledgers of a process: every ledger has an engine of its own."""
    first: list[sa.Engine] = []
    open_ledger = Ledger.__init__

    def open_sharing(ledger: Ledger, url: str) -> None:
        open_ledger(ledger, url)
        if ledger.engine.dialect.name == "sqlite":
            if not first:
                first.append(ledger.engine)
            ledger.engine.dialect = first[0].dialect  # a part of the cache's key
            ledger.engine._compiled_cache = first[0]._compiled_cache

    setattr(Ledger, "__init__", open_sharing)  # noqa: B010 - mypy allows no other way


@pytest.fixture(scope="session", autouse=True)
def weights_hashed_once() -> None:
    """Hash a file of weights once a process, as long as nobody touches it: every deployment of a test asks for all."""
    hashes: dict[tuple[Path, int, int, int], str] = {}
    hash_file = weights._sha256

    def hash_once(path: Path) -> str:
        stat = path.stat()
        key = (path.resolve(), stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if key not in hashes:
            hashes[key] = hash_file(path)
        return hashes[key]

    weights._sha256 = hash_once


@pytest.fixture(scope="session", autouse=True)
def canaries_planted_once() -> None:
    """Plant the canaries of a run once a process: each time starts a parser, and most tests give their runs the same names."""
    plant = canaries.plant_canaries
    planted: dict[tuple[int, str, str, str], tuple[CanaryPack, list[Version]]] = {}

    def plant_once(pack: CanaryPack, settings: Settings, chunker: Chunker, seed: str) -> list[Version]:
        limits = settings.model_dump_json(include={"parse_seconds", "parse_memory_bytes", "max_text_chars"})
        key = (id(pack), limits, chunker.digest, seed)
        if key not in planted:
            planted[key] = pack, plant(pack, settings, chunker, seed)  # kept, so that no other pack gets its id
        return planted[key][1]

    canaries.plant_canaries = plant_once


@pytest.fixture(scope="session", autouse=True)
def entry_points_read_once() -> None:
    """Read the entry points of the installed packages once a process: every deployment asks for them three times."""

    @cache
    def read(group: str, path: tuple[str, ...]) -> EntryPoints:
        return entry_points(group=group)

    for module in (own_checks, sources_file):
        setattr(module, "entry_points", lambda *, group: read(group, tuple(sys.path)))  # noqa: B010 - mypy allows no other way


@pytest.fixture(scope="session", autouse=True)
def commands_built_once() -> None:
    """Build the tree of commands once a process: typer builds all 120 anew for each call, which takes ten times as long as most of them."""
    build = cache(typer.main.get_command)
    typer.main.get_command = build
    typer.testing._get_command = build


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a file's tests on PostgreSQL as well, but for those that reach past the guard into Chroma."""
    both = getattr(metafunc.module, "ON_BOTH_STORES", False) and not {"chroma", "chroma_url"} & set(
        metafunc.fixturenames
    )
    if both and "store" in metafunc.fixturenames:
        metafunc.parametrize("store", BOTH_STORES, indirect=True)


@pytest.fixture(autouse=True)
def clients_let_go() -> Iterator[None]:
    """Forget the clients of Chroma after each test: chromadb 1.5.9 keeps every one that nobody closed, 2 MB each."""
    yield
    SharedSystemClient.clear_system_cache()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Give back what a test left behind, when it is much: models and clients lie in cycles, and freed memory in arenas."""
    stash = item.config.stash
    if _resident() > stash[RESIDENT] + GROWTH:
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
        if trim is not None:
            trim(0)
        stash[RESIDENT] = _resident()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPostgres]:
    """One server; databases are made one a test."""
    folder = tmp_path_factory.mktemp("postgresql") / "data"
    with LocalPostgres(folder, free_port(), PASSWORD, durable=False) as server:
        yield server


@pytest.fixture(params=BOTH_KINDS)
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database; a test that asks for it runs on both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    url: str = request.getfixturevalue("empty_postgresql")
    return url


@pytest.fixture
def empty_postgresql(postgresql: LocalPostgres) -> str:
    """Return the URL of an empty database."""
    return _database(postgresql)


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty ledger to copy: migrating takes longer than most tests."""
    file = tmp_path_factory.mktemp("sqlite") / "migrated.sqlite"
    write_empty_ledger(file)
    return file


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql: LocalPostgres) -> str:
    """The name of a database that others are copied from."""
    postgresql.create_database("migrated")
    Ledger(postgresql.url("migrated")).close()
    return "migrated"


@pytest.fixture
def sqlite_ledger(tmp_path: Path) -> Iterator[Ledger]:
    write_empty_ledger(tmp_path / "ledger.sqlite")
    opened = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    yield opened
    opened.close()


@pytest.fixture
def postgresql_ledger(postgresql: LocalPostgres, migrated_postgresql: str) -> Iterator[Ledger]:
    opened = Ledger(_database(postgresql, migrated_postgresql))
    yield opened
    opened.close()


@pytest.fixture(params=BOTH_KINDS)
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """A ledger of its own; a test that asks for it runs on both kinds."""
    opened: Ledger = request.getfixturevalue(f"{request.param}_ledger")
    return opened


@pytest.fixture(scope="session")
def chroma_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server, which dies with this process; collections are told apart by their prefix."""
    settings = Settings(home=tmp_path_factory.mktemp("chroma"), chroma_url=f"http://127.0.0.1:{free_port()}")
    with running_server(settings) as url:
        yield url


@pytest.fixture
def chroma(chroma_url: str) -> chromadb.ClientAPI:
    """Chroma past the guard, as anyone who reaches its port has it."""
    return plain_client(int(chroma_url.rpartition(":")[2]))


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    """A prefix of its own: on Chroma, and on both stores in a file of tests that says so."""
    opened: Store = request.getfixturevalue(getattr(request, "param", "chroma_store"))
    return opened


@pytest.fixture
def chroma_store(chroma_url: str, chroma: chromadb.ClientAPI) -> Iterator[Store]:
    """A prefix of its own."""
    opened = ChromaStore(chroma_url, f"test{next(_numbers)}")
    yield opened
    for name in opened.names():
        chroma.delete_collection(name)


@pytest.fixture
def pgvector_store(vectors_url: str) -> Iterator[Store]:
    """A prefix of its own."""
    opened = PgvectorStore(vectors_url, f"test{next(_numbers)}")
    yield opened
    for name in opened.names():
        opened.delete_collection(name)
    opened.close()


@pytest.fixture(scope="session")
def vectors_url(postgresql: LocalPostgres) -> str:
    """Return the URL of a database for vectors; collections are told apart by their prefix."""
    postgresql.create_database("vectors")
    return postgresql.url("vectors")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "storage"))


@pytest.fixture
def shelf(ledger: Ledger, storage: Storage, store: Store) -> Shelf:
    """A corpus to publish into, on both kinds of ledger."""
    return Shelf(ledger, storage, type(store)(store.url, store.prefix, lambda: ledger))


@pytest.fixture
def lite_shelf(sqlite_ledger: Ledger, storage: Storage, store: Store) -> Shelf:
    """The same on SQLite alone, where the kind of ledger makes no difference."""
    return Shelf(sqlite_ledger, storage, type(store)(store.url, store.prefix, lambda: sqlite_ledger))


def _database(server: LocalPostgres, template: str = "template1") -> str:
    name = f"ledger_{next(_numbers)}"
    with closing(psycopg2.connect(server.url().replace("+psycopg2", ""))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    return server.url(name)


@pytest.fixture(scope="session")
def models_home(request: pytest.FixtureRequest) -> Path:
    """A home with the models prepared, kept between sessions."""
    return prepared_models(request.config.cache)


@pytest.fixture(scope="session")
def models(models_home: Path) -> Models:
    """The real models, loaded once."""
    return Models(Settings(home=models_home))


@pytest.fixture(scope="session")
def hashed_models(models_home: Path) -> HashedModels:
    """Return models whose vectors are made of words, for tests of rules rather than of meanings."""
    return HashedModels(Settings(home=models_home))


@pytest.fixture
def workspace_models(hashed_models: HashedModels) -> Models:
    """Return the models of `make` and `deployment`; a file of tests about meanings overrides it with the real ones."""
    return hashed_models


@pytest.fixture
def make(
    tmp_path: Path, chroma_url: str, workspace_models: Models, models_home: Path
) -> Iterator[Callable[..., Workspace]]:
    """Yield a function that makes a deployment with other settings."""
    made: list[Workspace] = []

    def make_workspace(**settings: Any) -> Workspace:
        made.append(
            deploy(
                tmp_path / "deployment",
                chroma_url=chroma_url,
                models_home=models_home,
                models=workspace_models,
                **settings,
            )
        )
        return made[-1]

    yield make_workspace
    for workspace in made:
        forget_collections(chroma_url, workspace.settings.collection_prefix)


@pytest.fixture
def deployment(make: Callable[..., Workspace]) -> Workspace:
    """A small corpus of its own, with a real Chroma."""
    return make()


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Typed:
    """`guard` with these arguments, in this process: exit code, standard output, standard error."""
    from corpus_guard.cli import main as cli  # its consoles keep the size they find when they are made

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["guard", *map(str, arguments)])
        capfd.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        shown = capfd.readouterr()
        return code, shown.out, shown.err

    return call
