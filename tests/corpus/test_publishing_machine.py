"""Any order of fetching, recording, retiring, failing and restarting: what is served is what the rules say.

The model is a few lines a document. Each example is a ledger and collections of its own; Chroma is real.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from corpus_guard.batches import Storage
from corpus_guard.corpus import outbox
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.domain import TrustLevel, Verdict, Version
from corpus_guard.errors import StoreUnavailable
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from material import Held, Shelf, a_version

PASSAGES = {"A": ("first: ", "quay"), "B": ("second: ", "pier", ", mole"), "nothing": ()}
REPEATABLE = settings(suppress_health_check=list(HealthCheck), database=None, derandomize=True)
_numbers = itertools.count(1)


@dataclass
class Model:
    """What the rules of `corpus_guard.corpus.publishing` say of one document."""

    latest_at: datetime | None = None
    trust: TrustLevel | None = None
    target: Version | None = None
    retired_at: datetime | None = None
    shown: Version | None = None  # served since the last drain, and not taken away since

    def record(self, version: Version, verdict: Verdict) -> None:
        fetched, trust = version.stamp.fetched_at, version.stamp.trust
        if self.latest_at is None or fetched >= self.latest_at:
            self.latest_at, self.trust = fetched, trust
        if self.retired_at is not None and self.retired_at <= fetched:
            self.retired_at = None
        if verdict is Verdict.ACCEPT:
            outdated = self.target is not None and self.target.stamp.fetched_at > fetched
            if not outdated and self.retired_at is None and self.trust is trust:
                self.target = version
        else:
            self.target = self._unless_withdrawn(self.target, version)
            self.shown = self._unless_withdrawn(self.shown, version)

    def _unless_withdrawn(self, held: Version | None, refused: Version) -> Version | None:
        gone = held is None or held.version_id == refused.version_id or held.stamp.trust is not self.trust
        return None if gone else held


class Publishing(RuleBasedStateMachine):
    """Bound to servers by `machine`."""

    folder: Path
    migrated: Path
    chroma: ChromaServer
    fetched = Bundle("fetched")

    def __init__(self) -> None:
        super().__init__()
        self.home = self.folder / str(next(_numbers))
        self.home.mkdir()
        shutil.copy(self.migrated, self.home / "ledger.sqlite")
        self.prefix = f"machine{next(_numbers)}"
        self.models: dict[str, Model] = {}
        self.shelf = self._open()

    def _open(self) -> Shelf:
        ledger = Ledger(f"sqlite:///{self.home / 'ledger.sqlite'}")
        return Shelf(ledger, Storage(str(self.home / "storage")), ChromaStore(self.chroma.url, self.prefix))

    @rule(
        target=fetched,
        uri=st.sampled_from(["one", "two"]),
        content=st.sampled_from(list(PASSAGES)),
        trust=st.sampled_from([TrustLevel.OPEN, TrustLevel.OPEN, TrustLevel.TRUSTED]),
    )
    def fetch(self, uri: str, content: str, trust: TrustLevel) -> Version:
        return a_version(uri, PASSAGES[content], trust=trust, fetched_at=now())

    @rule(version=fetched, verdict=st.sampled_from([Verdict.ACCEPT, Verdict.ACCEPT, Verdict.QUARANTINE]))
    def record(self, version: Version, verdict: Verdict) -> None:
        self.shelf.record((version, verdict))
        self.models.setdefault(version.doc_id, Model()).record(version, verdict)

    @rule(version=fetched)
    def retire(self, version: Version) -> None:
        if version.doc_id not in self.models:
            return
        self.shelf.retire(version.doc_id)
        model = self.models[version.doc_id]
        model.target, model.shown, model.retired_at = None, None, self.shelf.document(version).retired_at

    @rule()
    def drain(self) -> None:
        self.shelf.drain()
        assert self.shelf.check_agreement() == self._expected()
        for model in self.models.values():
            model.shown = model.target

    @rule(calls=st.integers(0, 3))
    def drain_until_chroma_fails(self, calls: int) -> None:
        whole = self.shelf.store
        self.shelf.store = Brittle(self.chroma.url, self.prefix, calls)
        try:
            self.shelf.drain()
        except StoreUnavailable:
            pass
        finally:
            self.shelf.store = whole

    @rule()
    def restart(self) -> None:
        self.shelf.ledger.close()
        self.shelf = self._open()

    @invariant()
    def nothing_is_served_that_was_not_published(self) -> None:
        in_chroma, published = self.shelf.in_chroma(), self.shelf.in_ledger()
        assert set(published) <= set(in_chroma) <= set(self.shelf.in_ledger("pending", "published", "retiring"))

    @invariant()
    def what_was_served_is_served_until_it_is_replaced(self) -> None:
        published = set(self.shelf.in_ledger())
        for model in self.models.values():
            if model.shown is not None and model.target is not None:
                old, new = self.shelf.held_by(model.shown), self.shelf.held_by(model.target)
                assert old <= published or new <= published

    def _expected(self) -> Held:
        return self.shelf.held_by(*(model.target for model in self.models.values() if model.target is not None))

    def teardown(self) -> None:
        self.drain()
        self.shelf.ledger.close()


class Brittle(ChromaStore):
    """A store whose server stops answering after some writes: before one, or after it was done."""

    def __init__(self, url: str, prefix: str, calls: int) -> None:
        super().__init__(url, prefix)
        self._left = calls

    def upsert(self, *arguments: Any) -> None:
        self._spend()
        super().upsert(*arguments)
        self._spend()

    def delete(self, *arguments: Any) -> None:
        self._spend()
        super().delete(*arguments)
        self._spend()

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise StoreUnavailable("as the test asked")


@dataclass
class ChromaServer:
    """Where Chroma is now: a killed server comes back elsewhere."""

    url: str


@pytest.fixture
def machine(
    tmp_path: Path, migrated_sqlite: Path, chroma_url: str, monkeypatch: pytest.MonkeyPatch
) -> type[Publishing]:
    monkeypatch.setattr(outbox, "CHUNKS_PER_GROUP", 2)  # a document of three chunks takes two groups
    bound = {"folder": tmp_path, "migrated": migrated_sqlite, "chroma": ChromaServer(chroma_url)}
    return type("Bound", (Publishing,), bound)


def test_any_order_of_events_serves_what_the_rules_say(machine: type[Publishing]) -> None:
    # Without shrinking, which takes minutes; the steps that failed are printed all the same.
    few = settings(REPEATABLE, max_examples=5, stateful_step_count=12, phases=[Phase.generate])
    run_state_machine_as_test(machine, settings=few)


@pytest.mark.slow
def test_any_order_of_events_serves_what_the_rules_say_at_length(machine: type[Publishing]) -> None:
    run_state_machine_as_test(machine, settings=settings(REPEATABLE, max_examples=60, stateful_step_count=25))
