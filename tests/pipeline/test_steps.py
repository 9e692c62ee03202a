"""The steps of a refresh on small real corpora: nothing is lost, whatever happens, and running again converges."""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from corpus_guard.batches.storage import parquet_bytes
from corpus_guard.batches.tables import (
    judgements_from_table,
    judgements_to_table,
    vectors_to_table,
    versions_from_table,
    versions_to_table,
)
from corpus_guard.corpus.retriever import GuardedRetriever
from corpus_guard.deployment import Deployment
from corpus_guard.domain import Verdict
from corpus_guard.errors import Inconsistent, SettingsError, SourceUnavailable, UnknownSubject
from corpus_guard.intake.sources import FetchFailed, SourceItem
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents, events, findings, publications, runs, versions
from corpus_guard.pipeline import steps
from corpus_guard.pipeline.arrivals import record_listing
from corpus_guard.pipeline.steps import RefreshResult, Shard
from deploying import BAD, TICKETS, Workspace
from stepping import SteppedRun

Make = Callable[..., Workspace]


def manifest(deployment: Workspace, sealed: RefreshResult) -> list[dict[str, Any]]:
    with deployment.guard() as guard:
        return [json.loads(line) for line in guard.storage.read(sealed["manifest"]).splitlines()]


def five(deployment: Workspace) -> None:
    for name in ("tide gauge", "barometer", "rain gauge"):
        deployment.page(f"{name}.md")
    deployment.page("notice.md", BAD)
    (deployment.pages / "empty.md").write_bytes(b"")


def test_every_document_ends_in_one_count_and_only_the_accepted_are_served(deployment: Workspace) -> None:
    five(deployment)

    sealed = deployment.refresh("r1")

    assert {name: sealed[name] for name in ("documents", "accepted", "quarantined", "rejected", "unchanged", "failed")} == {
        "documents": 5, "accepted": 3, "quarantined": 1, "rejected": 1, "unchanged": 0, "failed": 0,
    }  # fmt: skip
    texts = deployment.served()
    assert len(texts) == sealed["served"] == sealed["published"] == len(manifest(deployment, sealed))
    assert not any("Ignore all previous" in text for text in texts)
    assert {line["uri"] for line in manifest(deployment, sealed)} == {"tide gauge.md", "barometer.md", "rain gauge.md"}


def test_nothing_changed_means_no_model_no_server_and_the_same_manifest(make: Make) -> None:
    deployment = make()
    five(deployment)
    first = deployment.refresh("r1")
    offline = Workspace(deployment.root, deployment.settings.model_copy(update={"chroma_url": "http://192.0.2.1:9"}))

    with offline.guard() as guard:
        second = guard.refresh("r2")
        assert not {"embedder", "language_model"} & set(vars(guard.models))
        assert not guard.store.is_open

    assert second["unchanged"] == second["documents"] == 5
    assert second["manifest_sha256"] == first["manifest_sha256"]


def test_a_changed_document_replaces_its_chunks(deployment: Workspace) -> None:
    deployment.page("a.md")
    deployment.refresh("r1")
    deployment.page(
        "a.md", "The gauge of the east pier is read at noon, and nobody writes anything into a book any more."
    )

    sealed = deployment.refresh("r2")

    assert (sealed["accepted"], sealed["published"], sealed["retired"]) == (1, 1, 1)
    assert ["east pier" in text for text in deployment.served()] == [True]
    (version,) = deployment.read(sa.select(versions.c.stamp).where(versions.c.run_id == "r2"))
    assert version.stamp["parent_version"] is not None


def test_bytes_that_come_back_after_others_are_served_again(deployment: Workspace) -> None:
    first = "The gauge of the east pier is read at noon, and the value goes into the log book of the harbour office."
    second = "The gauge of the west pier is read at dusk, and the value goes into the diary of the night watch."
    for number, text in enumerate((first, second, first, second)):
        deployment.page("a.md", text)
        sealed = deployment.refresh(f"r{number}")
        assert sealed["accepted"] == 1
        assert deployment.served() == [text]

    assert deployment.refresh("again")["unchanged"] == 1


def test_a_changed_document_in_quarantine_leaves_its_predecessor_served(deployment: Workspace) -> None:
    deployment.page("a.md")
    deployment.refresh("r1")
    before = deployment.served()
    deployment.page("a.md", BAD)

    sealed = deployment.refresh("r2")

    assert sealed["quarantined"] == 1
    assert deployment.served() == before


def test_another_trust_level_moves_a_document_to_its_collection(deployment: Workspace) -> None:
    deployment.page("a.md")
    before = deployment.refresh("r1")
    deployment.sources(trust="reviewed")

    after = deployment.refresh("r2")

    assert [line["collection"].rpartition("-")[2] for line in manifest(deployment, before)] == ["open"]
    assert [line["collection"].rpartition("-")[2] for line in manifest(deployment, after)] == ["reviewed"]
    assert len(deployment.served()) == 1


def test_the_same_run_again_converges(deployment: Workspace) -> None:
    five(deployment)
    first = deployment.refresh("r1")
    texts = deployment.served()

    again = deployment.refresh("r1")

    assert again["unchanged"] == 5
    assert again["manifest_sha256"] == first["manifest_sha256"]
    assert deployment.served() == texts
    assert [(row.run_id, row.state) for row in deployment.read(sa.select(runs))] == [("r1", "sealed")]


@pytest.mark.parametrize("after", ["intake", "changed", "embed", "survey", "screen", "publish"])
def test_a_run_given_up_between_two_steps_is_taken_up_by_the_next(deployment: Workspace, after: str) -> None:
    five(deployment)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        shards = stepped.fetch()
        for name in () if after == "intake" else ("changed", "embed", "survey", "screen", "publish"):
            if name == "changed":
                shards = steps.changed_shards(shards)
            elif name == "survey":
                shards = stepped.survey(shards)
            else:
                shards = [getattr(stepped, name)(shard) for shard in shards]
            if name == after:
                break

    sealed = deployment.refresh("r2")

    assert sealed["documents"] == 5
    assert sealed["served"] == 3
    assert Counter(row.state for row in deployment.read(sa.select(versions.c.state))) == {
        "accepted": 3, "quarantined": 1, "rejected": 1,
    }  # fmt: skip
    assert len(deployment.served()) == 3


def test_a_step_done_twice_gives_the_same_names_and_does_the_work_once(
    deployment: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    five(deployment)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        (listing,) = stepped.discover()
        shard = stepped.intake(listing)
        assert stepped.intake(listing) == shard
        embedded = stepped.embed(shard)
        (surveyed,) = stepped.survey([embedded])
        screened = stepped.screen(surveyed)

        def never(*_: object) -> None:
            raise AssertionError("done twice")

        monkeypatch.setattr(guard.screening, "judge", never)
        monkeypatch.setattr(type(guard.models.embedder), "embed", never)
        assert stepped.embed(shard) == embedded
        assert stepped.survey([embedded]) == [surveyed] == [embedded]
        assert stepped.screen(surveyed) == screened


def test_only_shards_that_hold_anything_new_go_on(make: Make) -> None:
    deployment = make(shard_documents=1)
    deployment.page("a.md")
    deployment.refresh("r1")
    deployment.page("b.md")

    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r2")
        taken = stepped.fetch()
        (shard,) = steps.changed_shards(taken)

    assert [one["listed"] for one in taken] == [1, 1]
    assert shard["batch"] and shard in taken


def test_the_survey_of_a_shard_says_nothing_of_other_shards(deployment: Workspace) -> None:
    copied = (
        "The harbour has three berths for boats with a keel, and two for boats that may fall dry at low water. " * 3
    )
    deployment.page("one.md", copied)
    deployment.rows({"id": "1", "text": copied})
    deployment.sources(TICKETS)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        shards = stepped.survey(stepped.embed_changed(stepped.fetch()))
        surveys = [steps._read_survey(guard.storage, "r1", shard).neighbours for shard in shards]
        versions = [{version.version_id for version in steps._versions(guard.storage, shard)} for shard in shards]

    assert [set(neighbours) for neighbours in surveys] == versions, "each is a copy of the other"


def test_what_is_quarantined_was_embedded_before_so_that_it_could_be_compared(deployment: Workspace) -> None:
    five(deployment)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        embedded = stepped.embed_changed(stepped.fetch())
        screened = [stepped.screen(shard) for shard in stepped.survey(embedded)]

    assert [(shard["chunks"], shard["accepted"], shard["quarantined"]) for shard in screened] == [(4, 3, 1)]


def test_lost_documents_fail_the_run(deployment: Workspace) -> None:
    five(deployment)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        taken = stepped.fetch()
        published = stepped.finish(taken)
        published[0]["accepted"] -= 1
        with pytest.raises(
            Inconsistent, match=r"5 documents were listed but 4 are accounted for \(2 accepted, 1 quarantined"
        ):
            stepped.seal(taken, published)

    assert [row.state for row in deployment.read(sa.select(runs.c.state))] == ["failed"]


def test_a_collection_that_holds_something_else_is_not_sealed(deployment: Workspace) -> None:
    deployment.page("a.md")
    deployment.page("b.md")
    deployment.refresh("r1")
    deployment.page("c.md")
    with deployment.guard() as guard:
        (name,) = guard.store.names()
        guard.store.delete(name, [next(guard.store.scan(name)).chunk_id])

    with pytest.raises(Inconsistent, match="holds 2 chunks, the ledger published 3"):
        deployment.refresh("r2")


def test_a_source_that_cannot_be_listed_fails_the_run_after_the_others_are_sealed(deployment: Workspace) -> None:
    five(deployment)
    deployment.sources({**TICKETS, "url": "nowhere.jsonl"})

    with pytest.raises(
        SourceUnavailable, match=r"source tickets: .*nowhere\.jsonl.*other sources are refreshed and sealed"
    ):
        deployment.refresh("r1")

    assert len(deployment.served()) == 3
    (row,) = deployment.read(sa.select(runs))
    assert (row.state, row.counts["accepted"], row.counts["served"]) == ("failed", 3, 3)
    assert row.counts["unlisted"] == ["tickets"]
    deployment.rows({"id": "t1", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."})
    deployment.sources(TICKETS)
    assert deployment.refresh("r2")["accepted"] == 1


def test_documents_of_a_source_that_cannot_be_listed_have_not_vanished(deployment: Workspace) -> None:
    five(deployment)
    deployment.refresh("r1")
    deployment.pages.rename(deployment.root / "moved")

    for number in range(2):
        with pytest.raises(SourceUnavailable):
            deployment.refresh(f"gone-{number}")

    assert len(deployment.served()) == 3
    assert {row.missing_since for row in deployment.read(sa.select(documents.c.missing_since))} == {None}


def test_an_unknown_source_is_refused_before_anything_is_done(deployment: Workspace) -> None:
    with pytest.raises(UnknownSubject, match=r"source 'pagse' is not in .*sources\.yaml; known: pages"):
        deployment.refresh("r1", ["pagse"])

    assert deployment.read(sa.select(runs)) == []


def test_a_signing_key_that_others_can_read_is_refused_before_anything_is_done(deployment: Workspace) -> None:
    deployment.page("a.md")
    deployment.refresh("r1")
    [key] = deployment.settings.keys.glob("*.pem")
    key.chmod(0o644)
    deployment.page("b.md")

    with deployment.guard() as guard:
        for work in (guard.refresh, guard.rescreen, guard.reparse, guard.apply_decisions):
            with pytest.raises(SettingsError, match="has mode 644, so others can read it; run chmod 600"):
                work("r2")

    assert [row.run_id for row in deployment.read(sa.select(runs))] == ["r1"]
    key.chmod(0o600)
    assert deployment.refresh("r3")["accepted"] == 1


def test_only_the_chosen_source_is_pulled(deployment: Workspace) -> None:
    deployment.page("a.md")
    deployment.rows({"id": "t1", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."})
    deployment.sources(TICKETS)

    assert deployment.refresh("r1", ["tickets"])["documents"] == 1
    assert {row.source for row in deployment.read(sa.select(documents.c.source))} == {"tickets"}


def test_shards_have_their_size_and_hold_every_document_once(make: Make) -> None:
    deployment = make(shard_documents=2)
    for number in range(5):
        deployment.page(f"{number}.md")
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        listings = stepped.discover()
        shards = [stepped.intake(listing) for listing in listings]
        uris = [item["uri"] for listing in listings for item in guard.storage.read_json(listing)["items"]]
        assert steps.documents_found(guard.storage, "r1") == 5

    assert [shard["listed"] for shard in shards] == [2, 2, 1]
    assert sorted(uris) == [f"{number}.md" for number in range(5)]
    assert len({shard["batch"] for shard in shards}) == 3


def test_shards_grow_so_that_a_large_source_stays_below_airflows_limit(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "SHARDS_BEFORE_GROWTH", 2)
    deployment = make(shard_documents=1)
    for number in range(12):
        deployment.page(f"{number:02}.md")

    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        sizes = [len(guard.storage.read_json(name)["items"]) for name in stepped.discover()]

    assert sizes == [1, 1, 2, 2, 4, 2]


def test_a_run_id_names_no_path(deployment: Workspace) -> None:
    deployment.page("a.md")

    deployment.refresh("../../../manual__2026-01-01T00:00:00+00:00 \n")

    assert sorted(path.name for path in deployment.root.iterdir()) == ["home", "pages", "sources.yaml"]


def test_a_huge_file_is_rejected_unread_and_is_no_news_the_next_time(make: Make) -> None:
    deployment = make(max_document_bytes=10_000)
    deployment.page("a.md")
    with (deployment.pages / "huge.md").open("wb") as file:
        file.truncate(100 * 2**20)

    first = deployment.refresh("r1")
    second = deployment.refresh("r2")

    assert (first["accepted"], first["rejected"], second["unchanged"]) == (1, 1, 2)
    (finding,) = deployment.read(sa.select(findings).where(findings.c.code == "parsing.too_large"))
    assert "104,857,600 bytes; the limit is 10,000 bytes" in finding.message
    stored = sum(path.stat().st_size for path in Path(deployment.settings.storage).rglob("*") if path.is_file())
    assert stored < 2**20


def test_a_document_that_cannot_be_fetched_is_counted_and_tried_again(
    deployment: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    deployment.page("a.md")
    deployment.page("b.md")
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        listings = stepped.discover()
        (deployment.pages / "b.md").unlink()
        with caplog.at_level(logging.WARNING):
            taken = [stepped.intake(listing) for listing in listings]
        sealed = stepped.seal(taken, stepped.finish(taken))

    assert (sealed["accepted"], sealed["failed"]) == (1, 1)
    assert "source pages: b.md could not be fetched (intake.gone): " in caplog.text
    assert "source pages: 1 document could not be fetched; `guard log --kind fetch_failed` names all" in caplog.text
    assert [row.body["uri"] for row in deployment.read(sa.select(events).where(events.c.kind == "fetch_failed"))] == [
        "b.md"
    ]
    deployment.page("b.md")
    assert deployment.refresh("r2")["accepted"] == 1


def test_many_failures_are_counted_and_hostile_names_are_shown(
    deployment: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["a\u202egnp.md", "b" * 1_000, *(f"page-{number}.md" for number in range(2_000))]
    failures = [FetchFailed(SourceItem(name, None, None, "{}"), "intake.server", "503") for name in names]
    with deployment.guard() as guard, caplog.at_level(logging.WARNING):
        record_listing(guard.ledger, "r1", "pages", [], failures, [])

    lines = [record.getMessage() for record in caplog.records if "could not be fetched" in record.getMessage()]
    assert len(lines) == 11
    assert lines[0] == "source pages: a⟨U+202E⟩gnp.md could not be fetched (intake.server): 503"
    assert lines[1] == f"source pages: {'b' * 200}… could not be fetched (intake.server): 503"
    assert lines[-1] == "source pages: 2,002 documents could not be fetched; `guard log --kind fetch_failed` names all"
    assert len(deployment.read(sa.select(events).where(events.c.kind == "fetch_failed"))) == len(names)


AT_ONCE = {"grace_hours": 0}


def test_a_vanished_document_is_served_until_its_grace_is_over(deployment: Workspace) -> None:
    five(deployment)
    deployment.refresh("r1")
    (deployment.pages / "barometer.md").unlink()

    kept = deployment.refresh("r2")
    gone = deployment.under(retire=AT_ONCE).refresh("r3")

    assert (kept["vanished"], kept["served"]) == (0, 3)
    assert (gone["vanished"], gone["retired"], gone["served"]) == (1, 1, 2)
    assert len(deployment.served()) == 2
    assert sum(row.missing_since is not None for row in deployment.read(sa.select(documents.c.missing_since))) == 1


def test_a_document_that_comes_back_is_served_again(deployment: Workspace) -> None:
    five(deployment)
    deployment.refresh("r1")
    page = deployment.pages / "barometer.md"
    content = page.read_bytes()
    page.unlink()
    deployment.under(retire=AT_ONCE).refresh("r2")
    page.write_bytes(content)

    sealed = deployment.refresh("r3")

    assert (sealed["accepted"], sealed["served"]) == (1, 3)


def test_one_that_comes_back_within_its_grace_is_as_if_it_had_never_been_away(deployment: Workspace) -> None:
    five(deployment)
    deployment.refresh("r1")
    page = deployment.pages / "barometer.md"
    content = page.read_bytes()
    page.unlink()
    deployment.refresh("r2")
    page.write_bytes(content)

    assert deployment.refresh("r3")["unchanged"] == 5
    assert {row.missing_since for row in deployment.read(sa.select(documents.c.missing_since))} == {None}


def test_a_document_that_vanished_after_a_clock_was_ahead_is_retired(deployment: Workspace) -> None:
    five(deployment)
    deployment.under(retire=AT_ONCE).refresh("r1")
    with deployment.guard() as guard, guard.ledger.write() as connection:
        connection.execute(documents.update().values(last_seen_at=now() + timedelta(days=400)))
    (deployment.pages / "barometer.md").unlink()
    deployment.under(retire=AT_ONCE).refresh("r2")  # sets the time right

    with deployment.guard() as guard:
        assert guard.verify().holds
    assert deployment.under(retire=AT_ONCE).refresh("r3")["vanished"] == 1


def test_when_most_of_a_source_vanishes_at_once_nothing_is_retired(
    deployment: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    five(deployment)
    deployment.refresh("r1")
    for path in deployment.pages.iterdir():
        if path.stem != "barometer":
            path.unlink()

    sealed = deployment.under(retire=AT_ONCE).refresh("r2")

    assert (sealed["vanished"], sealed["served"]) == (0, 3)
    assert "4 of 5 documents vanished at once" in caplog.text
    (held,) = deployment.read(sa.select(events).where(events.c.kind == "retirement_held"))
    assert (held.subject, held.body["missing"], held.body["total"]) == ("pages", 4, 5)
    assert deployment.under(retire={**AT_ONCE, "max_share": 1.0}).refresh("r3")["vanished"] == 4


def test_no_step_gives_text_away(deployment: Workspace) -> None:
    five(deployment)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        listings = stepped.discover()
        given: list[Any] = [listings]
        taken = [stepped.intake(listing) for listing in listings]
        given += taken
        shards = stepped.embed_changed(taken)
        given += shards
        shards = stepped.survey(shards)
        for name in ("screen", "publish"):
            shards = [getattr(stepped, name)(shard) for shard in shards]
            given += shards
        given.append(stepped.seal(taken, shards))

    said = json.dumps(given)
    assert "boat house" not in said
    assert "Ignore all" not in said


def test_hostile_documents_end_as_findings_and_the_others_go_on(deployment: Workspace) -> None:
    deployment.page("a.md")
    (deployment.pages / "binary.md").write_bytes(bytes(range(256)) * 40)
    (deployment.pages / "broken.pdf").write_bytes(b"%PDF-1.7\n1 0 obj <<")
    (deployment.pages / "latin.txt").write_bytes(
        "Der Pegel wird morgens abgelesen, für das Hafenamt.".encode("latin-1")
    )
    (deployment.pages / "a\x1b[31m\nb.md").write_text(
        "An odd name does not make a bad document, and this one is quite fine."
    )
    deployment.rows(
        {"id": "../../x", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."},
        {"id": "1", "text": "The winch of boat nine was repaired on Tuesday, and it holds the anchor again."},
        {"id": "1", "text": "The lamp of boat two was replaced on Friday, and it can be seen from the pier."},
        {"id": "2"},
        "{broken",
        "",
        "[1, 2]",
    )
    deployment.sources(TICKETS)

    sealed = deployment.refresh("r1")

    total = sum(sealed[name] for name in ("accepted", "quarantined", "rejected", "unchanged", "failed"))
    assert sealed["documents"] == total
    assert sealed["failed"] == 0
    states = deployment.states()
    assert states["a.md"] == "accepted"
    assert states["tickets.jsonl#../../x"] == "accepted"
    assert all(states[uri] != "accepted" for uri in ("binary.md", "broken.pdf", "tickets.jsonl#2"))
    assert sum(state != "accepted" for uri, state in states.items() if uri.startswith("tickets.jsonl#row-")) >= 2
    assert not (deployment.root.parent / "x").exists()


def test_what_is_served_can_be_asked_for(deployment: Workspace) -> None:
    five(deployment)
    deployment.refresh("r1")

    with deployment.guard() as guard:
        found = GuardedRetriever(guard.ledger, guard.store, guard.models.embedder).query("barometer", 2)

    assert found.answers[0].uri == "barometer.md"
    assert found.withheld == ()


def test_a_lost_batch_names_the_file(deployment: Workspace) -> None:
    deployment.page("a.md")
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        (listing,) = stepped.discover()
        shard = stepped.embed(stepped.intake(listing))
        shutil.rmtree(Path(deployment.settings.storage) / shard["batch"])
        with pytest.raises(Inconsistent, match=shard["batch"]):
            stepped.survey([shard])


def test_published_rows_are_marked_and_nothing_is_left_to_do(deployment: Workspace) -> None:
    five(deployment)
    deployment.refresh("r1")

    assert {row.state for row in deployment.read(sa.select(publications.c.state))} == {"published"}


def edited(guard: Deployment, shard: Shard) -> Path:
    """Put another text into a shard's batch, and return its file."""
    name = f"{shard['batch']}/versions.parquet"
    stored = versions_from_table(guard.storage.read_table(name))
    file = Path(guard.storage.location(name))
    file.unlink()
    changed = [replace(version, text=version.text.replace("every morning", "on no morning")) for version in stored]
    guard.storage.write_table(name, versions_to_table(changed))
    return file


def test_a_batch_edited_while_a_run_works_is_refused(deployment: Workspace) -> None:
    deployment.page("tide gauge.md")
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        (shard,) = stepped.survey(stepped.embed_changed(stepped.fetch()))
        screened = stepped.screen(shard)
        file = edited(guard, shard)

        for step, left in ((stepped.screen, shard), (stepped.publish, screened)):
            with pytest.raises(Inconsistent, match="it was changed after a run had written it") as caught:
                step(left)
            assert str(file) in str(caught.value)
        assert not guard.ledger.rows(sa.select(versions))


def test_an_edited_batch_of_a_killed_run_is_not_taken_over(deployment: Workspace) -> None:
    deployment.page("tide gauge.md")
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        (shard,) = stepped.fetch()
        file = edited(guard, shard)
    with deployment.guard() as guard, pytest.raises(Inconsistent, match=r"delete \S+, and run again"):
        guard.refresh("r2")

    shutil.rmtree(file.parent)
    assert deployment.refresh("r3")["published"] > 0
    assert all("every morning" in text for text in deployment.served())


def test_verdicts_that_no_run_logged_are_not_taken_over(deployment: Workspace) -> None:
    """Whoever can write to the storage knows the name of a file before the run writes it."""
    deployment.page("notice.md", BAD)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        (shard,) = stepped.survey(stepped.embed_changed(stepped.fetch()))
        name = steps.screen(guard.ledger, guard.storage, guard.screening, "r1", shard, dry_run=True)["judgements"]
        (waiting,) = judgements_from_table(guard.storage.read_table(name))
        forged = replace(waiting, verdict=Verdict.ACCEPT, findings=())
        guard.storage.write(name, parquet_bytes(judgements_to_table([forged])))

        screened = stepped.screen(shard)

        assert (screened["accepted"], screened["quarantined"]) == (0, 1)
        assert judgements_from_table(guard.storage.read_table(name)) == [waiting]


def test_verdicts_that_changed_since_they_were_logged_are_made_again(deployment: Workspace) -> None:
    deployment.page("notice.md", BAD)
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        (shard,) = stepped.survey(stepped.embed_changed(stepped.fetch()))
        screened = stepped.screen(shard)
        (waiting,) = judgements_from_table(guard.storage.read_table(screened["judgements"]))
        forged = replace(waiting, verdict=Verdict.ACCEPT, findings=())
        guard.storage.write(screened["judgements"], parquet_bytes(judgements_to_table([forged])))

        assert stepped.screen(shard) == screened


@pytest.mark.parametrize("logged", [True, False], ids=["logged before", "never logged"])
def test_vectors_that_are_not_those_a_run_logged_are_computed_again(deployment: Workspace, logged: bool) -> None:
    deployment.page("tide gauge.md")
    with deployment.guard() as guard:
        stepped = SteppedRun(guard, "r1")
        (shard,) = stepped.fetch()
        embedded = steps.embed(guard.ledger, guard.storage, guard.models, "r1", shard, dry_run=not logged)
        genuine = guard.storage.read_table(embedded["vectors"])
        moved = vectors_to_table(
            genuine["chunk_id"].to_pylist(),
            -np.stack(genuine["vector"].to_numpy(zero_copy_only=False)),
            embedded["model"],
        )
        guard.storage.write(embedded["vectors"], parquet_bytes(moved))

        assert stepped.embed(shard) == embedded
        assert guard.storage.read_table(embedded["vectors"]) == genuine
