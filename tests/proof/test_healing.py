"""What a verification found is undone from ledger and batches, or left and said; never from batches that were changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from corpus_guard.batches.tables import versions_from_table, versions_to_table
from corpus_guard.corpus import outbox
from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Inconsistent
from corpus_guard.pipeline import incident_healing
from corpus_guard.proof.deviations import UNREADABLE, Deviation, DeviationKind
from corpus_guard.proof.healing import HealingReport, heal
from corpus_guard.proof.incidents import open_incident
from corpus_guard.proof.verify import findings
from corpus_guard.proof.verify import store as store_check
from material import a_version
from tampering import (
    CHUNK,
    OTHER,
    PUMPS,
    STORE,
    STRANGER,
    Corpus,
    Named,
    a_character,
    a_collection_renamed,
    a_record_put_in,
    a_record_taken_away,
    a_seal_nobody_signed,
    another_deployment,
    another_embedder,
    another_space,
    two_records_swapped,
)

TAKES_A_PERSON = {a_collection_renamed, another_space, another_embedder, another_deployment, a_seal_nobody_signed}


def healed(corpus: Corpus) -> HealingReport:
    with Deployment(corpus.settings) as guard:
        done = heal(guard.ledger, guard.storage, guard.store, "heal-1", corpus.verified().deviations)
    with contextlib.suppress(Inconsistent):  # what is left may not be sealed
        corpus.seal()
    return done


def named(corpus: Corpus) -> Named:
    return {(deviation.kind, deviation.subject) for deviation in corpus.verified().deviations}


@pytest.mark.parametrize("tamper", [act for act in STORE if act not in TAKES_A_PERSON], ids=lambda act: act.__name__)
def test_what_was_done_to_records_is_undone(corpus: Corpus, tamper: Callable[[Corpus], Named]) -> None:
    before, sealed = corpus.shelf.check_agreement(), corpus.manifest.name
    tamper(corpus)

    done = healed(corpus)

    assert named(corpus) == set()
    assert done.unhealed == ()
    assert done.deleted + done.republished > 0
    corpus.shelf.store.forget_collections()
    assert corpus.shelf.check_agreement() == before
    assert corpus.manifest.name == sealed


def test_it_says_how_much_and_logs_what(corpus: Corpus) -> None:
    a_record_put_in(corpus)
    a_record_taken_away(corpus)

    assert healed(corpus) == HealingReport(deleted=2, republished=1, unhealed=())
    [event] = [event for event in corpus.events() if event.kind == "healed"]
    assert event.subject == corpus.name()
    assert event.body == {"deleted": [STRANGER, "no id of ours"], "republished": [CHUNK]}


def test_nothing_is_done_where_nothing_deviates(corpus: Corpus) -> None:
    size = corpus.size

    assert healed(corpus) == HealingReport(0, 0, ())
    assert corpus.size == size


def test_a_renamed_collection_is_made_again_and_the_other_left_to_a_person(corpus: Corpus) -> None:
    a_collection_renamed(corpus)

    done = healed(corpus)

    assert done.republished == len(PUMPS.chunks)
    assert [subject for subject, _ in done.unhealed] == [f"{corpus.name()}-before"]
    assert named(corpus) == {(DeviationKind.COLLECTION_ADDED, f"{corpus.name()}-before")}


def test_a_collection_of_another_deployment_is_left(corpus: Corpus) -> None:
    before = list(corpus.shelf.store.scan(corpus.name()))
    another_deployment(corpus)

    done = healed(corpus)

    assert (done.republished, done.deleted, [subject for subject, _ in done.unhealed]) == (0, 0, [corpus.name()])
    found = corpus.client.get_collection(corpus.name()).get(include=["documents"])
    assert sorted(found["documents"] or ()) == sorted(record.text for record in before)


def test_a_chunk_whose_row_was_changed_is_left(corpus: Corpus) -> None:
    """Its row says what to publish: nobody knows what else of it is another's."""
    a_character(corpus)
    corpus.ledger_sql("UPDATE publications SET doc_id = :one WHERE chunk_id = :chunk", one=STRANGER, chunk=CHUNK)

    done = healed(corpus)

    # The document that the row names now has rows that no event tells of.
    assert [subject for subject, _ in done.unhealed] == [STRANGER, CHUNK]
    assert done.republished == 0
    assert (DeviationKind.TEXT_CHANGED, CHUNK) in named(corpus)


def test_nothing_is_published_from_a_batch_that_was_changed(corpus: Corpus) -> None:
    two_records_swapped(corpus)
    [batch] = {row.vectors.replace("vectors", "versions") for row in corpus.shelf.in_ledger().values()}
    forged = a_version("pumps.md", [f"Pump {number} is filled with sand. " for number in range(8)])
    storage = corpus.shelf.storage
    rest = [one for one in versions_from_table(storage.read_table(batch)) if one.version_id != PUMPS.version_id]
    as_if = PUMPS.__class__(PUMPS.doc_id, PUMPS.version_id, forged.stamp, forged.text, "", _with_ids_of(forged, PUMPS))
    (corpus.home / "storage" / batch).unlink()
    storage.write_table(batch, versions_to_table([as_if, *rest]))

    done = healed(corpus)

    assert {subject for subject, _ in done.unhealed} == {CHUNK, OTHER}
    assert not any("sand" in record.text for record in corpus.shelf.in_chroma().values())


def test_killed_between_deleting_and_publishing_it_converges(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    a_character(corpus)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(outbox, "_publish", killed)
        healed(corpus)
    assert named(corpus) == {(DeviationKind.UNSEALED, "manifest")}

    assert healed(corpus).unhealed == (("manifest", "not a record of a collection: a person has to decide"),)
    corpus.shelf.drain()
    corpus.seal()
    assert named(corpus) == set()


def test_what_was_withdrawn_lawfully_meanwhile_stays_withdrawn(corpus: Corpus) -> None:
    a_character(corpus)
    found = corpus.verified().deviations
    corpus.shelf.retire(PUMPS.doc_id)
    corpus.shelf.drain()

    with Deployment(corpus.settings) as guard:
        heal(guard.ledger, guard.storage, guard.store, "heal-1", found)
    corpus.seal()

    assert named(corpus) == set()
    assert corpus.shelf.check_agreement() == {
        key for key in corpus.shelf.in_ledger() if key[0] == corpus.name(TrustLevel.TRUSTED)
    }


def _with_ids_of(forged: object, real: object) -> tuple[object, ...]:
    from dataclasses import replace

    return tuple(
        replace(one, chunk_id=other.chunk_id)
        for one, other in zip(forged.chunks, real.chunks, strict=True)  # type: ignore[attr-defined]
    )


def test_an_incident_of_more_deviations_than_are_named_is_healed_whole(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "MAX_NAMED_DEVIATIONS", 3)
    monkeypatch.setattr(store_check, "MAX_NAMED_DEVIATIONS", 3)
    corpus.client.get_collection(corpus.name()).delete(ids=[chunk.chunk_id for chunk in PUMPS.chunks])
    with Deployment(corpus.settings) as guard:
        found = corpus.verified()
        incident = open_incident(guard.ledger, guard.storage, "verify-1", found.deviations)

        healing = guard.heal_incident(incident.incident_id, "heal-1", by="ada")

    assert len(found.deviations) + found.more > 3
    assert (healing.remaining, healing.incident.state, healing.incident.closed_by) == (None, "healed", "ada")
    assert corpus.verified().holds


def test_what_healing_leaves_is_an_incident_of_its_own(corpus: Corpus) -> None:
    a_record_taken_away(corpus)
    with Deployment(corpus.settings) as guard:
        incident = open_incident(guard.ledger, guard.storage, "verify-1", corpus.verified().deviations)
        a_collection_renamed(corpus)

        healing = guard.heal_incident(incident.incident_id, "heal-1", by="ada")

    assert healing.remaining is not None
    assert healing.remaining.incident_id != incident.incident_id
    assert healing.incident.state == "healed"
    assert healing.incident.reason == f"in part; the rest is incident {healing.remaining.incident_id}"


@pytest.mark.parametrize(
    ("may_lose", "found", "is_tampered", "state"),
    [
        (0.5, "", False, "closed"),
        (0.0, "", False, "healed"),
        (0.5, UNREADABLE, False, "healed"),
        (0.5, "", True, "healed"),
    ],
    ids=["few of many records", "too many", "one that cannot be read", "beside a record that was taken away"],
)
def test_only_an_index_that_lost_a_few_links_needs_nobody(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, may_lose: float, found: str, is_tampered: bool, state: str
) -> None:
    monkeypatch.setattr(incident_healing, "LOST_BY_ITSELF", may_lose)
    if is_tampered:
        a_record_taken_away(corpus)
    lost = Deviation(DeviationKind.UNREACHABLE, CHUNK, "no query finds it", actual=found, collection=corpus.name())
    with Deployment(corpus.settings) as guard:
        incident = open_incident(guard.ledger, guard.storage, "verify-1", [lost, *corpus.verified().deviations])

        healing = guard.heal_incident(incident.incident_id, "heal-1", by="ada")

    assert (healing.remaining, healing.incident.state) == (None, state)


def test_a_record_that_is_lost_twice_needs_a_person(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incident_healing, "LOST_BY_ITSELF", 0.5)
    lost = Deviation(DeviationKind.UNREACHABLE, CHUNK, "no query finds it", collection=corpus.name())
    with Deployment(corpus.settings) as guard:
        for run_id, state in (("verify-1", "closed"), ("verify-2", "healed")):
            incident = open_incident(guard.ledger, guard.storage, run_id, [lost])

            assert guard.heal_incident(incident.incident_id, run_id, by="ada").incident.state == state
