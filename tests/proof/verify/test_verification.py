"""The tamper matrix: whatever is changed in collections, manifest, ledger or log is named, by kind and subject, and nothing else is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_guard.corpus import reach
from corpus_guard.corpus.store import ChunkRecord
from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel, Verdict, no_progress
from corpus_guard.errors import StoreUnavailable
from corpus_guard.ledger import row_digests
from corpus_guard.ledger.tables import metadata, publications
from corpus_guard.ledger.undecodable import UndecodableText
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.log.anchors import anchor
from corpus_guard.proof.log.heads import RememberedHead
from corpus_guard.proof.log.note import COSIGNATURE, Note, Signer, parse_note
from corpus_guard.proof.verify import findings
from corpus_guard.proof.verify import store as store_check
from corpus_guard.proof.verify.expected import ExpectedRecord, RecordKey
from corpus_guard.proof.verify.log import check_log
from corpus_guard.proof.verify.verification import Verification
from corpus_guard.settings import Settings
from every_row import another_value
from material import Shelf, a_record, a_version
from older_ledgers import go_back_to_0010
from tampering import CHUNK, DOUBTFUL, LEDGER, LOG, PUMPS, QUAYS, STORE, Corpus, Index, Named, the_last_bit_of_a_float

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path, chroma_home: Path, server: str) -> Corpus:
    """Made once; only its files are ever copied and changed."""
    made = Corpus.sealed(tmp_path_factory.mktemp("original"), migrated_sqlite, chroma_home, server, "original")
    made.shelf.ledger.close()  # folds the write-ahead log into the file
    return made


def named(result: Verification) -> Named:
    return {(deviation.kind, deviation.subject) for deviation in result.deviations}


def test_what_was_sealed_holds_and_everything_was_looked_at(corpus: Corpus) -> None:
    before = _files(corpus.home)
    result = corpus.verified()

    assert named(result) == set()
    assert result.holds
    assert (result.events, result.heads, result.lines, result.records, result.queried, result.unsigned) == (
        corpus.size, 2, 10, 10, 10, 0,
    )  # fmt: skip
    assert json.loads(json.dumps(result.as_dict()))["holds"] is True
    assert _files(corpus.home) == before


@pytest.mark.parametrize("tamper", STORE, ids=lambda act: act.__name__)
def test_what_was_done_to_the_collections_is_named(corpus: Corpus, tamper: Callable[[Corpus], Named]) -> None:
    check_that_it_is_named(corpus, tamper)


@pytest.mark.parametrize("tamper", (*LEDGER, *LOG), ids=lambda act: act.__name__)
def test_what_was_done_to_manifest_ledger_and_log_is_named(copy: Corpus, tamper: Callable[[Corpus], Named]) -> None:
    check_that_it_is_named(copy, tamper)


def check_that_it_is_named(corpus: Corpus, tamper: Callable[[Corpus], Named]) -> None:
    remembered = RememberedHead(corpus.home).read()
    expected = tamper(corpus)

    result = corpus.verified()

    assert named(result) == expected
    assert not result.holds
    assert len(result.deviations) == len(expected)
    assert RememberedHead(corpus.home).read() == remembered
    for deviation in result.deviations:
        assert deviation.subject[:64] in deviation.message or deviation.kind in {
            DeviationKind.UNSEALED,
            DeviationKind.MANIFEST_MISSING,
        }
        assert not any(chunk.text.strip() in str(deviation.as_dict()) for chunk in (*PUMPS.chunks, *DOUBTFUL.chunks))


def test_the_last_bit_of_a_float_is_named(own: Corpus) -> None:
    expected = the_last_bit_of_a_float(own)

    assert named(own.verified()) == expected


def test_a_vector_in_the_index_file_and_one_that_it_no_longer_reaches_are_named(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    """What Chroma has taken into its index (every 1,000 records) lies in a file of its own."""
    home = tmp_path / "large"
    home.mkdir()
    many = a_version("many.md", [f"Sentence {number} of a long book. " for number in range(1_100)])
    settings = Settings(home=home, chroma_url=NOBODY, collection_prefix="large")
    shutil.copy(migrated_sqlite, home / "ledger.sqlite")
    with Deployment(settings) as guard:
        Shelf(guard.ledger, guard.storage, guard.store).serve(many)
        guard.seal("run-1")
    index = Index(home)
    inside = [chunk for chunk in many.chunks if index.holds(chunk.text)]
    low = set(index.only_on_the_lowest_level())
    flipped, cut = inside[0], next(chunk for chunk in inside[1:] if index.of(chunk.text) in low)
    index.cut_off(index.of(cut.text))
    index.flip_a_bit(index.of(flipped.text))

    with Deployment(settings) as guard:
        result = guard.verify()

    assert named(result) == {
        (DeviationKind.VECTOR_CHANGED, flipped.chunk_id),
        (DeviationKind.UNREACHABLE, cut.chunk_id),
    }
    assert result.records == 1_100


def test_an_empty_ledger_is_not_clean(tmp_path: Path, migrated_sqlite: Path, server: str) -> None:
    shutil.copy(migrated_sqlite, tmp_path / "ledger.sqlite")
    with Deployment(Settings(home=tmp_path, chroma_url=server, collection_prefix="nothing")) as guard:
        result = guard.verify()

    assert {kind for kind, _ in named(result)} == {
        DeviationKind.UNKNOWN_KEY,
        DeviationKind.HEAD_MISSING,
        DeviationKind.MANIFEST_MISSING,
    }


@pytest.mark.parametrize(
    ("table", "column", "key"),
    [
        ("versions", "stamp", "version_id"),
        ("documents", "uri", "doc_id"),
        ("events", "kind", "seq"),
        ("chunks", "chunk_id", "version_id"),
        ("decisions", "reason", "decision_id"),
    ],
)
def test_text_that_is_not_utf8_is_named_with_its_row(copy: Corpus, table: str, column: str, key: str) -> None:
    with copy.unguarded() as database:
        number, row = database.execute(f"SELECT rowid, {key} FROM {table} ORDER BY rowid LIMIT 1").fetchone()
        database.execute(f"UPDATE {table} SET {column} = CAST(x'6b65792dff' AS TEXT) WHERE rowid = ?", (number,))

    result = copy.verified()

    where = f"table {table}, {key} {row}: column {column} is not UTF-8"
    assert [deviation.message[: len(where)] for deviation in result.deviations] == [where]
    with (
        pytest.raises(UndecodableText, match=rf"{where}.*restore it") as raised,
        copy.shelf.ledger.read() as connection,
    ):
        connection.execute(sa.select(metadata.tables[table])).all()
    assert raised.value.__cause__ is None


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
    collector = findings.DeviationCollector()

    check_log(copy.shelf.ledger, copy.settings, collector, 1_000, no_progress)

    assert collector.deviations


def test_a_store_that_does_not_answer_is_an_outage(copy: Corpus) -> None:
    with pytest.raises(StoreUnavailable):
        copy.verified(chroma_url="http://chroma.invalid:1")


def test_what_the_machine_remembers_moves_on_with_success_alone(corpus: Corpus) -> None:
    first = RememberedHead(corpus.home).read()
    assert first
    corpus.shelf.serve(a_version("new.md", ("A new bell hangs at the pier. ",)))
    corpus.seal()
    newest = RememberedHead(corpus.home).read()
    RememberedHead(corpus.home).write(first)

    assert corpus.verified().holds
    assert RememberedHead(corpus.home).read() == newest


def test_a_head_signed_meanwhile_is_not_forgotten(corpus: Corpus) -> None:
    def meanwhile(what: str, done: int, total: int | None) -> None:
        if what == "versions":
            corpus.shelf.record((a_version("late.md"), Verdict.QUARANTINE))
            corpus.seal()

    with Deployment(corpus.settings) as guard:
        assert guard.verify(meanwhile).holds
    note = RememberedHead(corpus.home).read()

    assert note
    assert parse_note(note).text.split("\n")[1] == str(corpus.size)


def test_age_is_that_of_the_newest_signed_event(copy: Corpus) -> None:
    assert named(copy.verified(head_max_hours=1e-6)) == {(DeviationKind.STALE, "head 1")}


def test_a_head_without_its_witness_is_named(copy: Corpus, tmp_path: Path) -> None:
    witness = Signer("witness.example", Ed25519PrivateKey.generate(), COSIGNATURE)
    changes = {"witness_url": "http://127.0.0.1:1", "witness_key": witness.verifier.encode()}

    assert named(copy.verified(**changes)) == {(DeviationKind.WITNESS_MISSING, "head 1")}

    with copy.unguarded() as database:
        [[text]] = database.execute("SELECT note FROM heads WHERE number = 1").fetchall()
        note = parse_note(text)
        signed = Note(note.text, (*note.signatures, witness.sign(note.text))).serialize()
        database.execute("UPDATE heads SET note = ? WHERE number = 1", (signed,))
    assert copy.verified(**changes).holds


def test_an_anchor_that_knows_more_and_one_that_is_empty(copy: Corpus, tmp_path: Path) -> None:
    place = str(tmp_path / "anchors")
    assert named(copy.verified(anchor_url=place)) == {(DeviationKind.HEAD_MISSING, "the newest anchor")}
    note = RememberedHead(copy.home).read()
    assert note
    anchor(place, note, copy.size)
    assert copy.verified(anchor_url=place).holds

    copy.ledger_sql("DELETE FROM heads WHERE number = 1")
    RememberedHead(copy.home).path.unlink()

    assert named(copy.verified(anchor_url=place)) == {(DeviationKind.ROLLED_BACK, "the newest anchor")}


def test_deviations_beyond_the_limit_are_counted(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MAX_NAMED_DEVIATIONS", 3)
    monkeypatch.setattr(store_check, "MAX_NAMED_DEVIATIONS", 3)
    corpus.client.get_collection(corpus.name()).delete(ids=[chunk.chunk_id for chunk in PUMPS.chunks])

    result = corpus.verified()

    assert (len(result.deviations), result.more) == (3, 5)
    assert not result.holds


def test_what_is_not_kept_is_counted_and_what_cannot_be_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MAX_NAMED_DEVIATIONS", 1)
    found = findings.DeviationCollector()
    with found.catching_unreadable("versions"):
        raise ValueError("no JSON")
    found.add(DeviationKind.ADDED, "x", "is there")

    assert [(one.kind, one.subject) for one in found.deviations] == [(DeviationKind.LEDGER_CHANGED, "versions")]
    assert "no JSON" not in found.deviations[0].message
    assert found.more == 1


PLACES = [(f"{number:032x}", name) for name in ("open", "trusted") for number in range(4)]
CONTENTS = [a_record(f"Text {number}.", ordinal=number) for number in range(10)]


@settings(max_examples=300)
@given(
    sealed=st.dictionaries(st.sampled_from(PLACES), st.sampled_from(CONTENTS)),
    tampered=st.dictionaries(st.sampled_from(PLACES), st.none() | st.sampled_from(CONTENTS)),
)
def test_whatever_is_done_to_records_each_that_differs_is_named_and_no_other(
    sealed: dict[RecordKey, ChunkRecord], tampered: dict[RecordKey, ChunkRecord | None]
) -> None:
    """In memory: what is sealed, then any places emptied, filled or overwritten."""
    live = {key: record for key, record in {**sealed, **tampered}.items() if record is not None}
    found = findings.DeviationCollector()
    differing = store_check._Differences(found)
    for key in {*sealed, *live}:
        wanted = ExpectedRecord(*key, "doc", *sealed[key].fingerprint, "model") if key in sealed else None
        differing.add(key, wanted, live.get(key), broken=False)
    differing.report({}, {"open", "trusted"})

    def content(records: dict[RecordKey, ChunkRecord], key: RecordKey) -> object:
        return records[key].fingerprint if key in records else None

    different = {key for key in PLACES if content(sealed, key) != content(live, key)}
    moved = {(one.subject, one.actual) for one in found.deviations if one.kind is DeviationKind.MOVED}
    assert {(one.subject, one.collection) for one in found.deviations} | moved == different
    assert all(one.healable for one in found.deviations)


def test_a_record_that_cannot_be_read_is_no_mere_lost_link() -> None:
    """In memory: one record that the store refuses to give, one that is as sealed and that no query finds."""
    found = findings.DeviationCollector()
    differing = store_check._Differences(found)
    refused, lost = (ExpectedRecord(*key, "doc", *CONTENTS[0].fingerprint, "model") for key in PLACES[:2])

    differing.add(refused.key, refused, None, broken=True)
    differing.report_unreachable(lost.key, lost)

    assert [one.kind for one in found.deviations] == [DeviationKind.UNREACHABLE] * 2
    assert [one.is_lost_link for one in found.deviations] == [False, True]


# --- what is legal ---------------------------------------------------------------------------------------------------


def test_equal_vectors_are_legal(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, and whichever of them is answered."""
    monkeypatch.setattr(reach, "WIDER_COUNTS", ())
    corpus.shelf.serve(a_version("bells.md", ("The bell is rung at noon. ",) * 40, trust=TrustLevel.REVIEWED))
    corpus.seal()

    assert named(corpus.verified()) == set()


def test_a_run_that_publishes_meanwhile_is_only_not_sealed_yet(corpus: Corpus) -> None:
    """New chunks, others replaced, others withdrawn: before, between and after the pages that are compared."""
    shelf = corpus.shelf

    def publish() -> None:
        shelf.serve(a_version("new.md", ("A new bell hangs at the pier. ",)))

    def replace() -> None:
        shelf.serve(a_version("pumps.md", ("All pumps are new. ",), minute=5))

    def replace_all() -> None:
        shelf.retire(QUAYS.doc_id, a_version("new.md").doc_id)
        shelf.serve(a_version("pumps.md", ("All pumps are old again. ",), minute=9))

    steps = iter((publish, replace, replace_all))

    def meanwhile(what: str, done: int, total: int | None) -> None:
        if what in {"manifest", "versions", "records"}:
            next(steps, lambda: None)()

    with Deployment(corpus.settings) as guard:
        result = guard.verify(meanwhile)

    assert next(steps, None) is None
    assert named(result) == {(DeviationKind.UNSEALED, "manifest")}
    corpus.seal()
    assert corpus.verified().holds


def test_what_waits_in_the_outbox_is_no_deviation_and_what_is_withdrawn_there_is_not_proved(corpus: Corpus) -> None:
    corpus.shelf.accept(a_version("new.md", ("A new bell hangs at the pier. ",)))
    assert corpus.verified().holds

    corpus.shelf.retire(QUAYS.doc_id)

    [deviation] = corpus.verified().deviations
    assert (deviation.kind, deviation.actual) == (DeviationKind.UNSEALED, "2")


def test_a_version_judged_anew_after_the_seal_is_legal(corpus: Corpus) -> None:
    """The same bytes come again, later: the stamp is newer than the manifest's."""
    shelf = corpus.shelf
    shelf.record(
        (a_version("quays.md", ("Another text waits. ",), minute=3, trust=TrustLevel.TRUSTED), Verdict.QUARANTINE)
    )
    again = a_version("quays.md", [chunk.text for chunk in QUAYS.chunks], minute=9, trust=TrustLevel.TRUSTED)
    assert again.version_id == QUAYS.version_id
    shelf.accept(again)

    assert named(corpus.verified()) == set()


def test_both_kinds_of_ledger(shelf: Shelf, tmp_path: Path) -> None:
    """The comparison of rows with events is the database's work."""
    settings = shelf.settings(tmp_path)
    shelf.serve(PUMPS, QUAYS)
    shelf.record((DOUBTFUL, Verdict.QUARANTINE))
    with Deployment(settings) as guard:
        guard.seal("run-1")
        assert named(guard.verify()) == set()
        with shelf.ledger.write() as connection:
            connection.execute(
                publications.update().where(publications.c.chunk_id == CHUNK).values(vector_sha256="0" * 64)
            )
            connection.execute(sa.text("UPDATE versions SET state = 'released' WHERE state = 'quarantined'"))
        found = named(guard.verify())

    assert found == {(DeviationKind.LEDGER_CHANGED, CHUNK), (DeviationKind.LEDGER_CHANGED, DOUBTFUL.version_id)}


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


def _files(home: Path) -> dict[str, Any]:
    kept = ("storage", "keys", "proof")
    return {
        str(path): path.read_bytes() for name in kept for path in sorted((home / name).rglob("*")) if path.is_file()
    }
