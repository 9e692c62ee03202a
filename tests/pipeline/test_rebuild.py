"""A lost batch is made again from the raw bytes, as it was judged or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml
from pyarrow import parquet

from corpus_guard.batches import storage as batch_storage
from corpus_guard.batches.tables import versions_from_table
from corpus_guard.corpus import outbox
from corpus_guard.deployment import Deployment
from corpus_guard.errors import StoreUnavailable
from corpus_guard.intake.parsing import ParsingSandbox
from corpus_guard.ledger.tables import events, publications, versions
from corpus_guard.pipeline.rebuild import CannotRebuild, batches_of_documents, batches_of_outbox, rebuild_lost_batches
from corpus_guard.settings import Settings
from deploying import BAD, GOOD, Workspace

Spoil = Callable[[Path], object]
LONG = (
    GOOD
    + "\n"
    + "\n\n".join(f"{word} is greased in spring and looked at in autumn. " * 8 for word in ("Pump", "Valve"))
)
SPOILED: dict[str, Spoil] = {
    "missing": lambda path: path.unlink(),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "overwritten": lambda path: path.write_bytes(b"\x00" * 500),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.fixture
def guard(deployment: Workspace) -> Deployment:
    """A corpus whose refresh was stopped before anything was written to Chroma."""
    deployment.page("good.md", LONG)
    deployment.page("hidden.md", GOOD + "\n<!-- the hidden part -->\n")
    deployment.page("bad.md", BAD)
    made: Deployment = deployment.guard()
    return made


def stop_before_chroma(guard: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> object:
        raise StoreUnavailable("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "drain", stopped)
        with pytest.raises(StoreUnavailable):
            guard.refresh("r1")


def paths(guard: Deployment) -> list[Path]:
    return [Path(guard.storage.location(name)) for name in batches_of_outbox(guard.ledger)]


def rebuilt_files(guard: Deployment) -> list[str]:
    return guard.ledger.scalars(sa.select(events.c.subject).where(events.c.kind == "rebuilt"))


@pytest.mark.parametrize("how", SPOILED)
def test_what_waits_to_be_published_is_made_again_and_published(
    guard: Deployment, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with guard:
        stop_before_chroma(guard, monkeypatch)
        waiting = guard.ledger.scalar(sa.select(sa.func.count()).select_from(publications)) or 0
        names = batches_of_outbox(guard.ledger)
        before = {path: path.read_bytes() for path in paths(guard)}
        for path in before:
            SPOILED[how](path)

        result = guard.refresh("r2")

        assert [name.rpartition("/")[2][:8] for name in names] == ["versions", "vectors-"]
        assert rebuilt_files(guard) == names
        assert {path: path.read_bytes() for path in before} == before
        assert result["served"] == waiting > 0
        verified = guard.verify(deep=True)
        assert verified.holds, verified.as_dict()


def test_a_release_and_a_rescreening_make_again_what_they_read(deployment: Workspace, guard: Deployment) -> None:
    from deciding import decided

    with guard:
        guard.refresh("r1")
        names = batches_of_documents(guard.ledger)
        before = [versions_from_table(guard.storage.read_table(name)) for name in names[:1]]
        for name in names:
            SPOILED["cut short"](Path(guard.storage.location(name)))
        waiting = guard.ledger.scalar(sa.select(versions.c.version_id).where(versions.c.state == "quarantined"))
        decided(guard.ledger, waiting)

        released = guard.apply_decisions("d1")
        again = [versions_from_table(guard.storage.read_table(name)) for name in names[:1]]
        Path(guard.storage.location(names[1])).unlink()
        guard.rescreen("s1")

        assert (released["released"], released["published"]) == (1, 1)
        assert sorted(again[0], key=by_id) == sorted(before[0], key=by_id)
        assert rebuilt_files(guard) == names
        assert [name.rpartition("/")[2] for name in names] == ["versions.parquet", "signals.parquet"]
        verified = guard.verify(deep=True)
        assert verified.holds, verified.as_dict()


def test_a_rescreening_makes_again_what_it_reads_and_reads_only_what_is_stale(
    deployment: Workspace, guard: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three refreshes left a batch each; a mute or another policy for one source would make only some of them stale."""
    with guard:
        guard.refresh("r1")
        for number in range(2):
            deployment.page("good.md", LONG + f"\nEntry {number}.\n")
            guard.refresh(f"again-{number}")
        names = batches_of_documents(guard.ledger)
    batches = [name for name in names if name.endswith("versions.parquet")]
    assert len(batches) == 2  # of the newest versions
    reads: Counter[str] = Counter()
    parse = batch_storage._parse_table

    def counted(content: bytes, columns: list[str] | None, filters: object) -> object:
        reads[next((name for name in names if content == whole[name]), "other")] += 1
        return parse(content, columns, filters)  # type: ignore[arg-type]

    monkeypatch.setattr(batch_storage, "_parse_table", counted)
    with deployment.guard() as same:
        whole = {name: same.storage.read(name) for name in names}
        assert same.rescreen("s1")["examined"] == 0
    assert not reads

    policy = yaml.safe_load(deployment.settings.policy_file.read_text())
    deployment.settings.policy_file.write_text(yaml.safe_dump({**policy, "shadow": ["typos"]}))
    SPOILED["cut short"](Path(same.storage.location(batches[0])))
    with deployment.guard() as other:
        assert other.rescreen("s2")["examined"] == 3
        assert rebuilt_files(other) == [batches[0]]
        decoded = dict(reads)
        verified = other.verify(deep=True)
        assert verified.holds, verified.as_dict()
    assert decoded[batches[1]] == 1


def by_id(version: object) -> str:
    return version.version_id  # type: ignore[attr-defined,no-any-return]


def test_a_parser_that_reads_another_text_publishes_nothing_and_says_so(
    guard: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guard:
        stop_before_chroma(guard, monkeypatch)
        batch, _ = paths(guard)
        batch.unlink()
        parse = ParsingSandbox.parse
        monkeypatch.setattr(
            ParsingSandbox, "parse", lambda *given: replace(parsed := parse(*given), text=parsed.text.upper())
        )

        with pytest.raises(
            CannotRebuild, match=r"this release reads a text with the hash .* judged was .*install the release"
        ):
            guard.refresh("r2")

        assert not batch.exists()
        states = set(guard.ledger.scalars(sa.select(publications.c.state)))
        assert states == {"pending"}
        assert rebuilt_files(guard) == []


def test_without_the_raw_bytes_it_says_which_document_to_fetch_again(
    guard: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guard:
        stop_before_chroma(guard, monkeypatch)
        paths(guard)[0].write_bytes(b"PAR1")
        for blob in (Path(guard.settings.storage) / "raw").rglob("*"):
            if blob.is_file():
                blob.write_bytes(b"other")

        with pytest.raises(CannotRebuild, match=r"cannot be made again: blob sha256:.* holds bytes with the hash"):
            guard.refresh("r2")


def test_a_batch_of_a_killed_run_that_no_ledger_knows_is_parsed_again(guard: Deployment) -> None:
    with guard:
        published = guard.refresh("r1")["published"]
        folder = next((Path(guard.settings.storage) / "batches").iterdir())
    fresh = replace_home(guard)
    with fresh:
        copies = Path(fresh.settings.storage) / "batches" / folder.name
        copies.mkdir(parents=True)
        for name in ("versions.parquet", "signals.parquet"):
            (copies / name).write_bytes((folder / name).read_bytes()[:-30])

        assert fresh.refresh("r1")["published"] == published
        assert all(parquet.read_table(file).num_rows for file in copies.iterdir())


def replace_home(guard: Deployment) -> Deployment:
    """Return a deployment of the same sources with a home of its own."""
    home = guard.settings.home.with_name("fresh")
    home.mkdir()
    (home / "models").symlink_to((guard.settings.home / "models").resolve())
    given = guard.settings.model_dump(exclude_defaults=True)
    fresh = Deployment(
        Settings(**{**given, "home": home, "collection_prefix": f"fresh{given['collection_prefix'][-30:]}"})
    )
    fresh.models = guard.models
    return fresh


def test_nothing_is_read_where_nothing_waits(guard: Deployment) -> None:
    with guard:
        guard.refresh("r1")

        assert batches_of_outbox(guard.ledger) == []
        assert (
            rebuild_lost_batches(guard.ledger, guard.storage, guard.blobs, guard.models, guard.settings, "r2", []) == []
        )


def test_a_dry_run_makes_nothing_again(guard: Deployment) -> None:
    with guard:
        guard.refresh("r1")
        lost = Path(guard.storage.location(batches_of_documents(guard.ledger)[0]))
        lost.unlink()

        guard.rescreen("r2", dry_run=True)
        assert (lost.exists(), rebuilt_files(guard)) == (False, [])

        guard.rescreen("r3")
        assert lost.exists()
