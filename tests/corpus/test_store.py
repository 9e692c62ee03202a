"""The rules of a vector store, which Chroma and PostgreSQL keep alike: what was written is read back, bit for bit, and nothing
is taken for done that was not seen."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from publisher import PROCESSES

from corpus_guard.corpus import store as stores
from corpus_guard.corpus.reach import claim_nothing, unreachable_records, write_reachable
from corpus_guard.corpus.store import ChunkRecord, Store
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Inconsistent, Misuse, StoreRefused, StoreUnavailable
from material import DIMENSIONS, a_record, vector_of
from postgres import free_port
from side_doors import PASSWORD, SIDE_DOORS, SideDoor

MODEL = "hashed-texts"
RECORDS = [a_record(f"record {number}", ordinal=number) for number in range(400)]


_numbers = itertools.count(1)


@pytest.fixture(params=list(SIDE_DOORS))
def side_door(request: pytest.FixtureRequest) -> SideDoor:
    """A server past the guard; a test that asks for it, or for `store`, runs on both kinds."""
    kind = SIDE_DOORS[request.param]
    return kind(request.getfixturevalue(kind.fixture))


@pytest.fixture
def store(side_door: SideDoor) -> Iterator[Store]:
    """A prefix of its own."""
    opened = side_door.open(f"rules{next(_numbers)}")
    yield opened
    for name in opened.names():
        side_door.drop(name)
    opened.close()


@pytest.fixture
def name(store: Store) -> str:
    return store.collection_name(TrustLevel.OPEN)


def test_what_is_written_comes_back_bit_for_bit(store: Store, name: str) -> None:
    written = [a_record(f"passage {number}", ordinal=number, title="") for number in range(50)]

    store.upsert(name, written, MODEL)

    back = {record.chunk_id: record for record in store.get(name, [record.chunk_id for record in written])}
    for record in written:
        found = back[record.chunk_id]
        assert found.vector.dtype == np.dtype("<f4")
        assert found.vector.tobytes() == record.vector.tobytes()
        assert (found.text, dict(found.metadata)) == (record.text, dict(record.metadata))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "naïve café",
        "زبان",
        "it's; DROP TABLE x; -- %s :a \\",
        "\u202etxt.exe",
        "<script>alert(1)</script> {{ conn.x }}",
        "👩🏽‍🔬",
    ],
)
def test_any_text_comes_back(store: Store, name: str, text: str) -> None:
    store.upsert(name, [a_record(text)], MODEL)

    assert [record.text for record in store.scan(name)] == [text]


@pytest.mark.parametrize("chunk_id", ["' OR 1=1 --", "../../etc", "{{ conn.x }}", "ключ", "x" * 300])
def test_any_id_is_only_an_id(store: Store, name: str, chunk_id: str) -> None:
    hostile, other = replace(a_record("hostile"), chunk_id=chunk_id), a_record("other")
    store.upsert(name, [hostile, other], MODEL)

    assert [record.text for record in store.get(name, [chunk_id])] == ["hostile"]
    store.delete(name, [chunk_id])
    assert [record.text for record in store.scan(name)] == ["other"]


def test_a_text_with_a_null_character_comes_back_or_is_refused_by_name(store: Store, name: str) -> None:
    record = a_record("a\x00b")
    try:
        store.upsert(name, [a_record("before it"), record], MODEL)
    except Misuse as error:
        assert record.chunk_id in str(error)
        assert store.count(name) == 0, "all of a batch or nothing"
    else:
        assert {stored.text for stored in store.scan(name)} == {"before it", "a\x00b"}


def test_extreme_numbers_come_back_bit_for_bit(store: Store, name: str) -> None:
    vector = np.zeros(DIMENSIONS, np.float32)
    vector[:6] = np.float32([-0.0, 1e-45, 3.4e38, 0.1, -1e-30, np.nextafter(np.float32(1), np.float32(2))])
    record = replace(a_record(), vector=vector)

    store.upsert(name, [record], MODEL)

    assert store.get(name, [record.chunk_id])[0].vector.tobytes() == vector.tobytes()


def test_a_metadata_key_that_somebody_added_is_seen(store: Store, name: str, side_door: SideDoor) -> None:
    record = a_record()
    store.upsert(name, [record], MODEL)
    side_door.change_metadata(name, record.chunk_id, {**record.metadata, "verdict": "release"})

    (stored,) = store.get(name, [record.chunk_id])
    assert stored.metadata_sha256 != record.metadata_sha256


def test_a_filter_leaves_only_records_with_these_values(store: Store, name: str) -> None:
    question = vector_of("question")
    written = [
        replace(_leaning(question, 0.9 - number / 100, f"passage {number}"), metadata=_about(number))
        for number in range(40)
    ]
    store.upsert(name, written, MODEL)

    def found(**where: str | int) -> list[str]:
        return [match.record.text for match in store.query([name], question, 3, where)]

    assert found(source="even") == ["passage 0", "passage 2", "passage 4"]
    assert found(source="odd", ordinal=7) == ["passage 7"]
    assert found(source="' OR ''='") == []
    assert found(ordinal=39) == ["passage 39"], "however far it is"


@pytest.mark.parametrize(
    "other",
    [
        lambda record: replace(record, text="another text"),
        lambda record: replace(record, vector=vector_of("another text")),
        lambda record: replace(record, metadata={"ordinal": 1}),
    ],
    ids=["text", "vector", "metadata"],
)
def test_what_is_read_back_is_compared_whole(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch, other: object
) -> None:
    record = a_record()
    monkeypatch.setattr(store, "get", lambda *_: [other(record)])  # type: ignore[operator]

    with pytest.raises(Inconsistent, match="read back another text, vector or metadata"):
        store.upsert(name, [record], MODEL)


def test_a_write_that_left_nothing_is_seen(store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "get", lambda *_: [])

    with pytest.raises(Inconsistent, match="read back nothing"):
        store.upsert(name, [a_record()], MODEL)


def test_vectors_of_another_embedder_are_refused(store: Store, name: str, side_door: SideDoor) -> None:
    store.upsert(name, [a_record()], MODEL)

    for opened in (store, side_door.open(store.prefix)):
        with pytest.raises(Inconsistent, match=r"holds vectors of hashed-texts, these are of other"):
            opened.upsert(name, [a_record("more")], "other")

    assert store.count(name) == 1


def test_a_collection_somebody_else_made_is_refused(store: Store, name: str, side_door: SideDoor) -> None:
    store.names()  # connects
    side_door.make(name)

    with pytest.raises(Inconsistent, match="holds vectors of None"):
        store.upsert(name, [a_record()], MODEL)


def test_a_scan_gives_every_record_once(store: Store, name: str) -> None:
    written = [a_record(f"passage {number}") for number in range(25)]
    store.upsert(name, written, MODEL)

    for page in (1, 5, 7, 25, 1_000):
        found = [record.chunk_id for record in store.scan(name, page)]
        assert sorted(found) == sorted(record.chunk_id for record in written)
    assert store.count(name) == 25


def test_writes_are_cut_into_batches(store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "RECORDS_PER_REQUEST", 10)
    written = [a_record(f"passage {number}") for number in range(25)]

    store.upsert(name, written, MODEL)
    assert store.count(name) == 25

    store.delete(name, [record.chunk_id for record in written[:15]])
    assert store.count(name) == 10


def test_a_delete_that_did_nothing_is_seen(store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = a_record()
    store.upsert(name, [record], MODEL)
    monkeypatch.setattr(store, "_remove", lambda *_: None)

    with pytest.raises(Inconsistent, match=f"1 deleted chunks are still in {name}"):
        store.delete(name, [record.chunk_id])


def test_deleting_what_is_not_there_is_done_already(store: Store, name: str) -> None:
    store.delete(name, ["0" * 32])
    store.upsert(name, [a_record()], MODEL)
    store.delete(name, ["0" * 32])

    assert store.count(name) == 1


def test_a_collection_that_does_not_exist_holds_nothing(store: Store, name: str) -> None:
    assert store.count(name) == 0
    assert store.names() == []


def test_only_our_collections_are_ours(store: Store, name: str, side_door: SideDoor) -> None:
    store.upsert(name, [a_record()], MODEL)
    side_door.make(f"{store.prefix}-archive")

    assert store.names() == [name]
    assert set(store.terms()) == {name, f"{store.prefix}-archive"}
    side_door.drop(f"{store.prefix}-archive")


def test_the_nearest_come_first_over_all_collections(store: Store) -> None:
    names = [store.collection_name(trust) for trust in (TrustLevel.OPEN, TrustLevel.TRUSTED)]
    question = vector_of("question")
    near = _leaning(question, 0.9, "near")
    nearer = _leaning(question, 0.95, "nearer")
    for name, record in zip(names, (near, nearer), strict=True):
        store.upsert(name, [record, *(a_record(f"{name} {number}") for number in range(5))], MODEL)

    matches = store.query(names, question, 2)

    assert [match.record.text for match in matches] == ["nearer", "near"]
    assert [match.collection for match in matches] == list(reversed(names))
    assert matches[0].similarity == pytest.approx(0.95, abs=1e-5)


def test_asking_for_more_than_there_is_gives_what_there_is(store: Store, name: str) -> None:
    store.upsert(name, [a_record("one"), a_record("two")], MODEL)

    assert len(store.query([name], vector_of("one"), 100)) == 2


def test_near_gives_document_text_and_cosine_of_the_nearest_to_each_vector(store: Store, name: str) -> None:
    questions = np.stack([vector_of("one question"), vector_of("another question")])
    written = [
        replace(_leaning(question, cosine, f"{number} at {cosine}"), metadata={"doc_id": f"d{number}"})
        for number, question in enumerate(questions)
        for cosine in (0.95, 0.85)
    ]
    store.upsert(name, written, MODEL)

    for found, number in zip(store.nearest_texts(name, questions, 2), range(2), strict=True):
        assert [(document, text) for document, text, _ in found] == [
            (f"d{number}", f"{number} at 0.95"),
            (f"d{number}", f"{number} at 0.85"),
        ]
        assert [cosine for _, _, cosine in found] == pytest.approx([0.95, 0.85], abs=1e-5)


def test_near_asks_in_batches_and_for_no_more_than_there_is(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "VECTORS_PER_QUERY", 3)
    texts = [f"passage {number}" for number in range(8)]
    store.upsert(name, [a_record(text, doc_id=text) for text in texts], MODEL)

    found = store.nearest_texts(name, np.stack([vector_of(text) for text in texts]), 100)

    assert [rows[0][:2] for rows in found] == [(text, text) for text in texts]
    assert {len(rows) for rows in found} == {8}
    assert store.nearest_texts(name, np.empty((0, DIMENSIONS), np.float32), 100) == []


def test_near_an_emptied_collection_is_nothing(store: Store, name: str) -> None:
    store.upsert(name, [a_record()], MODEL)
    store.delete(name, [a_record().chunk_id])

    assert store.nearest_texts(name, vector_of("question")[None], 5) == [[]]


def test_near_a_collection_that_is_gone_names_the_server(store: Store, name: str, side_door: SideDoor) -> None:
    store.upsert(name, [a_record("kept in Parquet")], MODEL)
    side_door.drop(name)

    with pytest.raises(StoreUnavailable, match=r"refused a request") as raised:
        store.nearest_texts(name, vector_of("kept in Parquet")[None], 5)
    assert "kept in Parquet" not in str(raised.value)


def test_nothing_answers_at_an_address_and_the_error_says_which(side_door: SideDoor) -> None:
    store = side_door.at(free_port(), "corpus")  # connects to nothing

    for operation in (store.open, store.names):
        with pytest.raises(
            StoreUnavailable, match=f"{store.system} at {re.escape(store.address)} does not answer"
        ) as raised:
            operation()
        assert PASSWORD not in str(raised.value)


def test_a_store_connects_once_and_only_when_it_is_used(store: Store) -> None:
    calls: list[str] = []

    def connect() -> str:
        calls.append(store.url)
        return store.url

    lazy = type(store)(connect, "lazy")

    assert lazy.collection_name(TrustLevel.OPEN) == "lazy-open"
    assert calls == []
    lazy.open()
    assert lazy.names() == []
    assert lazy.url == store.url
    assert calls == [store.url]
    lazy.close()


def test_a_collection_that_was_dropped_and_made_again_is_found(store: Store, name: str, side_door: SideDoor) -> None:
    """A reader that knows the old one may be refused once, by name; then it finds the new one."""
    old, new = a_record("kept in Parquet"), a_record("made again")
    store.upsert(name, [old], MODEL)
    another = side_door.open(store.prefix)
    another.delete_collection(name)
    another.upsert(name, [new], MODEL)
    another.close()

    try:
        store.get(name, [new.chunk_id])
    except StoreRefused as error:
        assert "kept in Parquet" not in str(error)

    assert [record.text for record in store.scan(name)] == ["made again"]
    assert [match.record.text for match in store.query([name], old.vector, 5)] == ["made again"]
    store.upsert(name, [old], MODEL)
    assert store.count(name) == 2


def test_deleting_a_collection_deletes_all_of_it_and_nothing_else(store: Store) -> None:
    names = [store.collection_name(trust) for trust in (TrustLevel.OPEN, TrustLevel.TRUSTED)]
    for name in names:
        store.upsert(name, [a_record(name)], MODEL)

    store.delete_collection(names[0])
    store.delete_collection(names[0])

    assert store.names() == names[1:]
    assert store.count(names[0]) == 0


def test_every_record_is_reachable_beside_many_that_are_equal(store: Store, name: str) -> None:
    rng = np.random.default_rng(5)
    equal = [replace(a_record(f"copy {number}"), vector=vector_of("copy")) for number in range(60)]
    near = vector_of("copy") + 1e-3 * rng.standard_normal((40, DIMENSIONS)).astype(np.float32)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    close = [replace(a_record(f"nearly {number}"), vector=vector) for number, vector in enumerate(near)]
    apart = [a_record(f"passage {number}") for number in range(300)]

    written = write_reachable(store, name, [*equal, *close, *apart], MODEL, claim_nothing)

    assert len(written.reachable) == 400
    assert written.unreachable == ()
    assert unreachable_records(store, name, written.reachable) == []


def test_an_index_has_room_for_twice_the_links_of_its_default(store: Store, name: str, side_door: SideDoor) -> None:
    store.upsert(name, RECORDS[:1], MODEL)

    assert side_door.links(name) == stores.LINKS_PER_VECTOR == 2 * 16


def test_a_record_that_no_query_finds_is_named(store: Store, name: str) -> None:
    """It is not in the collection at all: neither its vector nor one that is equal."""
    store.upsert(name, [a_record(f"passage {number}") for number in range(30)], MODEL)

    elsewhere = a_record("somewhere else")
    assert unreachable_records(store, name, [elsewhere])[0] is elsewhere


@pytest.mark.parametrize("milliseconds", [0, 150, 400])
def test_a_writer_that_is_killed_leaves_whole_records_and_a_second_one_completes(
    store: Store, name: str, milliseconds: int
) -> None:
    process = PROCESSES.Process(target=write_until_killed, args=(type(store), store.url, name, milliseconds))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL

    written = {record.chunk_id: record for record in RECORDS}
    if name in store.names():
        for record in store.scan(name):
            assert record.fingerprint == written[record.chunk_id].fingerprint
    store.upsert(name, RECORDS, MODEL)
    assert {record.fingerprint for record in store.scan(name)} == {record.fingerprint for record in RECORDS}
    assert unreachable_records(store, name, RECORDS[:50]) == []


def write_until_killed(kind: type[Store], url: str, name: str, milliseconds: int) -> None:
    """Write batches of 50; die so long after the first one was begun."""
    stores.RECORDS_PER_REQUEST = 50
    store = kind(url, "killed")
    store.open()
    threading.Timer(milliseconds / 1_000, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    while True:
        store.upsert(name, RECORDS, MODEL, anew=True)


def test_a_vector_of_another_length_is_refused_by_name(store: Store, name: str) -> None:
    store.upsert(name, [a_record()], MODEL)
    short = ChunkRecord("0" * 32, "short", np.eye(DIMENSIONS - 1, dtype=np.float32)[0], {"ordinal": 0})

    with pytest.raises(StoreUnavailable, match="refused a request"):
        store.upsert(name, [short], MODEL)


def _leaning(direction: np.ndarray, cosine: float, text: str) -> ChunkRecord:
    """A record whose vector has this cosine to `direction`."""
    other = vector_of(text)
    other = other - (other @ direction) * direction
    vector = cosine * direction + np.sqrt(1 - cosine**2) * other / np.linalg.norm(other)
    return replace(a_record(text), vector=np.asarray(vector / np.linalg.norm(vector), np.float32))


def _about(number: int) -> dict[str, str | int]:
    return {"source": "odd" if number % 2 else "even", "ordinal": number}
