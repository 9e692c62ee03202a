"""Signing: only what continues what was signed, with the keys that signed it, and never what nobody logged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
import sqlalchemy as sa
from witnessing import Running

from corpus_guard.deployment import Deployment
from corpus_guard.errors import Inconsistent, Misuse, SettingsError, Stale
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import IncidentState
from corpus_guard.ledger.tables import events, heads
from corpus_guard.proof import manifest
from corpus_guard.proof.deviations import Deviation, DeviationKind
from corpus_guard.proof.incidents import (
    end_incident,
    find_incident,
    incident_window,
    list_incidents,
    list_red_incidents,
    load_deviations,
    open_incident,
    unaccepted,
)
from corpus_guard.proof.log.heads import RememberedHead, leaf_hashes, newest_head, require_sealable, sign_head
from corpus_guard.proof.log.keys import Keyring
from corpus_guard.proof.log.merkle import root_of
from corpus_guard.proof.log.note import VerifierKey
from corpus_guard.proof.log.rotation import revoke, rotate
from corpus_guard.proof.log.witness import Witness
from corpus_guard.settings import Settings
from material import Shelf, a_version


@dataclass
class Corpus:
    guard: Deployment
    shelf: Shelf

    def happens(self, subject: str) -> None:
        with self.guard.ledger.write() as connection:
            append_event(connection, "told", subject, "run")

    def heads(self) -> list[int]:
        return self.guard.ledger.scalars(sa.select(heads.c.size).order_by(heads.c.number))

    def attack(self, *statements: str) -> None:
        """As whoever owns the database can: the triggers are dropped first."""
        with self.guard.ledger.engine.begin() as connection:
            for table in ("events", "heads"):
                for verb in ("UPDATE", "DELETE"):
                    name = f"{table}_{verb}"
                    lite = self.guard.ledger.url.get_backend_name() == "sqlite"
                    connection.execute(sa.text(f"DROP TRIGGER IF EXISTS {name}" + ("" if lite else f" ON {table}")))
            for statement in statements:
                connection.execute(sa.text(statement))


@pytest.fixture
def corpus(shelf: Shelf, tmp_path: Path) -> Iterator[Corpus]:
    settings = shelf.settings(tmp_path)
    with Deployment(settings) as guard:
        shelf.serve(a_version("a"), a_version("b"))
        yield Corpus(guard, shelf)


class TestSigning:
    def test_the_first_makes_the_keys_and_covers_every_event(self, corpus: Corpus) -> None:
        sealed = corpus.guard.seal("run")

        known = leaf_hashes(corpus.guard.ledger, 1_000)
        assert (sealed.head.size, sealed.head.root) == (len(known), root_of(known))
        keyring = Keyring.open(corpus.guard.settings.keys)
        assert keyring.open_head(newest_head(corpus.guard.ledger).note).checkpoint == sealed.head
        assert RememberedHead(corpus.guard.settings.home).read() == newest_head(corpus.guard.ledger).note

    def test_nothing_new_is_nothing_to_sign(self, corpus: Corpus) -> None:
        first = corpus.guard.seal("run")

        assert corpus.guard.seal("again") == first
        assert corpus.heads() == [first.head.size]

    def test_each_head_continues_the_last(self, corpus: Corpus) -> None:
        first = corpus.guard.seal("run").head
        corpus.happens("more")

        second = sign_head(corpus.guard.ledger, corpus.guard.settings)

        assert corpus.heads() == [first.size, first.size + 1]
        assert second.root == root_of(leaf_hashes(corpus.guard.ledger, second.size))

    def test_a_seal_is_renewed_after_a_while(self, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
        first = corpus.guard.seal("run")
        monkeypatch.setattr(manifest, "now", lambda: now() + manifest.SEAL_LIFETIME + timedelta(minutes=1))

        later = corpus.guard.seal("later")

        assert later.manifest == first.manifest
        assert later.head.size == first.head.size + 1

    def test_keys_that_are_gone_are_not_made_anew(self, corpus: Corpus) -> None:
        corpus.guard.seal("run")
        shutil.rmtree(corpus.guard.settings.keys)
        corpus.happens("more")

        with pytest.raises(SettingsError, match=r"no keys, and the ledger .* has signed heads"):
            sign_head(corpus.guard.ledger, corpus.guard.settings)
        assert not corpus.guard.settings.keys.exists()


class TestRefusing:
    @pytest.mark.parametrize(
        ("statement", "said"),
        [
            ("UPDATE events SET subject = 'other' WHERE subject = 'new'", "is not what was logged"),
            ("DELETE FROM events WHERE subject = 'new'", "is missing from the log"),
        ],
    )
    def test_an_event_that_was_touched_is_not_signed(self, corpus: Corpus, statement: str, said: str) -> None:
        before = corpus.guard.seal("run").head
        corpus.happens("new")
        corpus.happens("newer")
        corpus.attack(statement)

        with pytest.raises(Inconsistent, match=said):
            sign_head(corpus.guard.ledger, corpus.guard.settings)
        assert corpus.heads() == [before.size]

    def test_a_ledger_that_was_rolled_back_is_not_signed(self, corpus: Corpus) -> None:
        first = corpus.guard.seal("run").head
        corpus.happens("more")
        sign_head(corpus.guard.ledger, corpus.guard.settings)
        corpus.attack("DELETE FROM heads WHERE number = 1", f"DELETE FROM events WHERE seq >= {first.size}")
        corpus.happens("another history")

        with pytest.raises(Inconsistent, match="it was rolled back"):
            sign_head(corpus.guard.ledger, corpus.guard.settings)

    def test_a_history_that_was_rewritten_and_signed_elsewhere_is_not_continued(self, corpus: Corpus) -> None:
        first = corpus.guard.seal("run").head
        corpus.happens("more")
        sign_head(corpus.guard.ledger, corpus.guard.settings)
        remembered = RememberedHead(corpus.guard.settings.home).read()
        assert remembered
        corpus.attack("DELETE FROM heads WHERE number = 1", f"DELETE FROM events WHERE seq >= {first.size}")
        RememberedHead(corpus.guard.settings.home).path.unlink()  # another machine, with the same keys
        corpus.happens("another history")
        sign_head(corpus.guard.ledger, corpus.guard.settings)
        RememberedHead(corpus.guard.settings.home).write(remembered)
        corpus.happens("and on")

        with pytest.raises(Inconsistent, match="history was rewritten"):
            sign_head(corpus.guard.ledger, corpus.guard.settings)

    @pytest.mark.parametrize(
        "change", ["size = size - 1", "root = '{zeros}'", "nodes = '[\"{zeros}\"]'", "nodes = '[]'"]
    )
    def test_a_head_that_was_touched_is_not_continued(self, corpus: Corpus, change: str) -> None:
        corpus.guard.seal("run")
        corpus.happens("more")
        corpus.attack(f"UPDATE heads SET {change.format(zeros='0' * 64)}")

        with pytest.raises(Inconsistent, match="head 0 of the ledger is not what was signed"):
            sign_head(corpus.guard.ledger, corpus.guard.settings)

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE publications SET vector_sha256 = '{zeros}' WHERE chunk_id = '{chunk}'",
            "UPDATE publications SET state = 'retired' WHERE chunk_id = '{chunk}'",
        ],
    )
    def test_a_row_that_nobody_logged_is_not_sealed(self, corpus: Corpus, statement: str) -> None:
        corpus.guard.seal("run")
        chunk = a_version("a").chunks[0].chunk_id
        corpus.shelf.serve(a_version("c"))  # there is something to seal
        if "retired" in statement:
            corpus.shelf.store.delete(corpus.guard.store.collection_name(a_version("a").stamp.trust), [chunk])
        corpus.attack(statement.format(zeros="0" * 64, chunk=chunk))

        with pytest.raises(Inconsistent, match=f"chunk {chunk} .* no event of the log says so"):
            corpus.guard.seal("again")


class TestWitnessed:
    def test_each_head_carries_the_cosignature_of_a_witness_that_answers(self, corpus: Corpus, tmp_path: Path) -> None:
        corpus.guard.seal("run")
        keys = [one.key.encode() for one in Keyring.open(corpus.guard.settings.keys).public_keys()]
        witness = Running(tmp_path / "witness")
        Witness.create(witness.home, "witness.example")
        Witness(witness.home).trust(corpus.guard.settings.log_origin, keys)
        told = {"witness_url": witness.url, "witness_key": witness.key.encode()}
        with Deployment(Settings(**{**corpus.guard.settings.model_dump(exclude_unset=True), **told})) as guard:
            sign_head(guard.ledger, guard.settings)  # nothing answers yet
            assert {one.kind for one in guard.verify().deviations} == {DeviationKind.WITNESS_MISSING}
            witness.start()
            try:
                sign_head(guard.ledger, guard.settings)
                assert guard.verify().holds
                size = newest_head(guard.ledger).size
                corpus.happens("more")
                assert sign_head(guard.ledger, guard.settings).size == size + 1
                assert guard.verify().holds
            finally:
                witness.kill()


class TestRotation:
    def test_old_and_new_sign_the_next_head_and_the_log_tells_of_it(self, corpus: Corpus) -> None:
        corpus.guard.seal("run")
        old = Keyring.open(corpus.guard.settings.keys).public_keys()[0].key

        key, head = rotate(corpus.guard.ledger, corpus.guard.settings, "keys", 10, by="mo", reason="yearly")

        opened = Keyring.open(corpus.guard.settings.keys).open_head(newest_head(corpus.guard.ledger).note)
        assert set(opened.signed_by) == {str(old), str(VerifierKey.parse(key))}
        assert opened.checkpoint == head
        assert corpus.guard.ledger.scalar(sa.select(events.c.subject).where(events.c.kind == "key_rotated")) == key
        assert corpus.guard.verify().holds

    def test_a_key_that_is_lost_is_replaced_by_one_that_signs_alone(self, corpus: Corpus) -> None:
        corpus.guard.seal("run")
        size = newest_head(corpus.guard.ledger).size
        for file in corpus.guard.settings.keys.glob("*.pem"):
            file.unlink()
        corpus.happens("more")
        with pytest.raises(SettingsError, match=r"No such file or directory.* rotate to a new one"):
            require_sealable(corpus.guard.ledger, corpus.guard.settings)

        key, head = rotate(corpus.guard.ledger, corpus.guard.settings, "keys", 1_000, by="mo", reason="the disk died")

        keyring = Keyring.open(corpus.guard.settings.keys)
        assert [trusted.to_size for trusted in keyring.public_keys()] == [size, None]
        opened = keyring.open_head(newest_head(corpus.guard.ledger).note)
        assert (opened.signed_by, opened.checkpoint) == ((str(VerifierKey.parse(key)),), head)
        assert corpus.guard.verify().holds
        require_sealable(corpus.guard.ledger, corpus.guard.settings)

    def test_a_lost_key_is_not_replaced_over_a_ledger_that_was_rolled_back(self, corpus: Corpus) -> None:
        first = corpus.guard.seal("run").head
        corpus.happens("more")
        sign_head(corpus.guard.ledger, corpus.guard.settings)
        corpus.attack("DELETE FROM heads WHERE number = 1", f"DELETE FROM events WHERE seq >= {first.size}")
        for file in corpus.guard.settings.keys.glob("*.pem"):
            file.unlink()

        with pytest.raises(Inconsistent, match="it was rolled back"):
            rotate(corpus.guard.ledger, corpus.guard.settings, "keys", 10, by="mo", reason="the disk died")
        assert len(Keyring.open(corpus.guard.settings.keys).public_keys()) == 1

    def test_a_revoked_key_signs_no_more_and_what_it_signed_before_still_holds(self, corpus: Corpus) -> None:
        corpus.guard.seal("run")
        old = Keyring.open(corpus.guard.settings.keys).public_keys()[0].key
        key, _ = rotate(corpus.guard.ledger, corpus.guard.settings, "keys", 10, by="mo", reason="yearly")

        revoke(corpus.guard.ledger, corpus.guard.settings, "keys", old.key_id.hex(), None, by="mo", reason="stolen")

        opened = Keyring.open(corpus.guard.settings.keys).open_head(newest_head(corpus.guard.ledger).note)
        assert opened.signed_by == (str(VerifierKey.parse(key)),)
        assert corpus.guard.verify().holds


class TestIncidents:
    def test_the_same_deviations_are_one_incident(self, corpus: Corpus) -> None:
        corpus.guard.seal("run")
        corpus.attack("UPDATE versions SET state = 'rejected'")
        found = corpus.guard.verify()

        first = open_incident(corpus.guard.ledger, corpus.guard.storage, "night 1", found.deviations)

        assert open_incident(corpus.guard.ledger, corpus.guard.storage, "night 2", found.deviations) == first
        assert load_deviations(corpus.guard.storage, first) == list(found.deviations)
        assert sum(first.counts.values()) == len(found.deviations) > 0
        assert find_incident(corpus.guard.ledger, first.incident_id[:6]) == first

    def test_two_verifications_at_once_open_one_incident(self, corpus: Corpus) -> None:
        corpus.guard.seal("run")
        verifications, rounds = 4, 8
        at_once = Barrier(verifications)

        def opened(_: int) -> list[str]:
            with Deployment(corpus.guard.settings) as guard:
                incidents = []
                for number in range(rounds):
                    deviation = Deviation(DeviationKind.ADDED, f"planted {number}", "was added from outside")
                    at_once.wait()
                    incidents.append(open_incident(guard.ledger, guard.storage, "night", [deviation]).incident_id)
                return incidents

        with ThreadPoolExecutor(verifications) as pool:
            first, *others = pool.map(opened, range(verifications))
        assert others == [first] * len(others)
        assert len(list_incidents(corpus.guard.ledger)) == rounds

    def test_what_was_accepted_is_not_reported_again_and_anything_else_is(self, corpus: Corpus) -> None:
        corpus.guard.seal("run")
        corpus.attack(f"UPDATE versions SET state = 'rejected' WHERE version_id = '{a_version('a').version_id}'")
        found = corpus.guard.verify()
        incident = open_incident(corpus.guard.ledger, corpus.guard.storage, "night", found.deviations)

        ended = end_incident(
            corpus.guard.ledger,
            corpus.guard.settings,
            incident.incident_id,
            IncidentState.ACCEPTED,
            by="mo",
            reason="known",
        )

        assert (ended.state, ended.closed_by, ended.reason) == ("accepted", "mo", "known")
        assert unaccepted(corpus.guard.ledger, corpus.guard.storage, corpus.guard.verify().deviations) == []
        corpus.attack(f"UPDATE versions SET state = 'rejected' WHERE version_id = '{a_version('b').version_id}'")
        left = unaccepted(corpus.guard.ledger, corpus.guard.storage, corpus.guard.verify().deviations)
        assert {one.subject for one in left} == {a_version("b").version_id}
        assert list_incidents(corpus.guard.ledger, "open") == []

    def test_a_healed_incident_is_red_until_a_person_acknowledges_it(self, corpus: Corpus) -> None:
        ledger, storage, settings = corpus.guard.ledger, corpus.guard.storage, corpus.guard.settings
        deviation = Deviation(DeviationKind.ADDED, "planted", "was added from outside")
        incident = open_incident(ledger, storage, "night 1", [deviation])
        end = partial(end_incident, ledger, settings, incident.incident_id)

        healed = end(IncidentState.HEALED, by="integrity_nightly", reason="published again")

        assert healed.is_red and list_red_incidents(ledger) == [healed]
        assert open_incident(ledger, storage, "night 2", [deviation]).incident_id != incident.incident_id, (
            "what comes back after healing is a new incident"
        )
        for state, by, reason in (
            (IncidentState.CLOSED, "mo", " "),
            (IncidentState.CLOSED, " ", "known"),
            (IncidentState.ACCEPTED, "mo", "nothing is left to accept"),
        ):
            with pytest.raises(Misuse):
                end(state, by=by, reason=reason)
        closed = end(IncidentState.CLOSED, by="mo", reason="a backup test")
        assert not closed.is_red and (closed.closed_by, closed.reason) == ("mo", "a backup test")
        assert incident.incident_id not in {red.incident_id for red in list_red_incidents(ledger)}
        with pytest.raises(Stale, match="closed already"):
            end(IncidentState.CLOSED, by="eve", reason="again")
        (event,) = ledger.rows(sa.select(events).where(events.c.kind == "incident_closed"))
        assert (event.subject, event.body) == (incident.incident_id, {"by": "mo", "reason": "a backup test"})

    def test_the_window_is_between_the_last_right_verification_and_the_finding(self, corpus: Corpus) -> None:
        ledger, storage = corpus.guard.ledger, corpus.guard.storage
        deviation = Deviation(DeviationKind.ADDED, "planted", "was added from outside")
        corpus.guard.seal("run-1")
        unverified = incident_window(ledger, open_incident(ledger, storage, "night 1", [deviation]))
        with ledger.write() as connection:
            append_event(connection, "verified", "corpus", "night 2")
        corpus.shelf.serve(a_version("c"))
        corpus.guard.seal("run-2")
        later = open_incident(ledger, storage, "night 3", [replace(deviation, subject="other")])
        with ledger.write() as connection:
            append_event(connection, "verified", "corpus", "night 4")

        window = incident_window(ledger, later)

        assert (unverified.verified_at, unverified.verified_seal, unverified.seal) == (None, None, 1)
        assert (window.verified_seal, window.seal) == (1, 2)
        assert window.verified_at and window.verified_at < later.opened_at
