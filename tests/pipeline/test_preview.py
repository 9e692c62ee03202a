"""What a source would bring is what a refresh then brings, and looking at it changes nothing anywhere."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chromadb
import pytest
import sqlalchemy as sa

from corpus_guard.errors import SourceUnavailable
from corpus_guard.ledger.tables import metadata
from corpus_guard.pipeline.preview import Preview, preview
from deploying import BAD, GOOD, Workspace

HOSTILE = "a\x1b[31m\u202e\n<script>{{ x }}.md"


def look(deployment: Workspace, name: str = "pages", **options: Any) -> Preview:
    with deployment.guard() as guard:
        return preview(guard.storage, guard.models, guard.settings, guard.sources.named(name), **options)


def everything(deployment: Workspace, chroma: chromadb.ClientAPI) -> Any:
    """Rows of every table, files with their hashes, records of every collection."""
    with deployment.guard() as guard, guard.ledger.read() as connection:
        rows = {table.name: connection.execute(sa.select(table)).all() for table in metadata.sorted_tables}
    home = deployment.settings.home
    files = {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in home.rglob("*")
        if path.is_file() and "models" not in path.relative_to(home).parts and not path.name.startswith("ledger.sqlite")
    }
    ours = [one for one in chroma.list_collections() if one.name.startswith(deployment.settings.collection_prefix)]
    return rows, files, {one.name: one.get() for one in ours}


def a_corpus(deployment: Workspace) -> None:
    for name in ("tide.md", "wind.md", "rain.md"):
        deployment.page(name)
    deployment.page("bad.md", BAD)
    deployment.page(HOSTILE)
    (deployment.pages / "empty.md").touch()
    (deployment.pages / "tool.md").write_bytes(b"\x7fELF" + bytes(range(256)) * 20)


def test_it_tells_what_the_refresh_then_does(deployment: Workspace) -> None:
    a_corpus(deployment)

    found = look(deployment)
    done = deployment.refresh("r1")

    assert found.listed == found.looked_at == done["documents"] == 7
    assert found.verdicts == Counter(accept=done["accepted"], quarantine=done["quarantined"], reject=done["rejected"])
    assert sum(found.verdicts.values()) == 7
    assert found.chunks >= done["served"] > 0
    assert found.problems["parsing.empty"] == found.problems["parsing.binary"] == 1
    assert sum(found.sizes.values()) == 7
    assert found.bytes == sum(path.stat().st_size for path in deployment.pages.iterdir())
    assert [one.verdict for one in found.riskiest] != []
    risks = [one.risk for one in found.riskiest]
    assert risks == sorted(risks, reverse=True)
    assert "bad.md" in {one.uri for one in found.riskiest}
    assert any(
        code.startswith("instructions.") for one in found.riskiest for _, code, _ in one.findings if one.uri == "bad.md"
    )


def test_nothing_is_written_where_there_is_a_corpus(deployment: Workspace, chroma: chromadb.ClientAPI) -> None:
    a_corpus(deployment)
    deployment.refresh("r1")
    deployment.page("tide.md", GOOD + "The gauge was moved to the east pier in spring, twelve metres from the old one.")
    deployment.page("new.md", BAD)
    before = everything(deployment, chroma)

    found = look(deployment)

    assert everything(deployment, chroma) == before
    assert (found.listed, found.unchanged, sum(found.verdicts.values())) == (8, 6, 2)
    assert found.history
    assert found.served


def test_nothing_is_made_where_there_is_nothing(deployment: Workspace) -> None:
    a_corpus(deployment)
    (deployment.settings.home / "ledger.sqlite").unlink()

    found = look(deployment)

    assert not found.history
    assert sorted(path.name for path in deployment.settings.home.iterdir()) == ["models"]


def test_it_is_compared_with_what_the_ledger_knows(deployment: Workspace, tmp_path: Path) -> None:
    """The same attack, quarantined before from another source, makes its copy suspicious; alone it would be new."""
    other = deployment.root / "other"
    other.mkdir()
    text = GOOD.replace("{title}", "tide")
    (other / "copy.md").write_text(text)
    deployment.page("tide.md", text)
    deployment.sources({"kind": "folder", "name": "other", "url": "other", "owner": "o", "trust": "open"})

    alone = look(deployment, "other")
    deployment.refresh("r1", ["pages"])
    known = look(deployment, "other")

    codes = {code for one in known.riskiest for _, code, _ in one.findings}
    assert not any(code.startswith("duplicates.") for one in alone.riskiest for _, code, _ in one.findings)
    assert any(code.startswith("duplicates.") for code in codes), codes


def test_the_trust_of_the_source_decides(deployment: Workspace) -> None:
    for number in range(5):  # the same five times in slightly other words: a burst, where anybody may write
        text = (
            GOOD.replace("{title}", "gauge")
            + " The page of the log is signed by whoever reads the gauge last. The book lies "
            "beside the door and is changed in January, when the harbour office counts the days on which nobody came."
        )
        words = enumerate(text.split())
        deployment.page(
            f"{number}.md", " ".join(f"{word} {chr(97 + number) * 5}" if at % 16 == 6 else word for at, word in words)
        )
    open_ = look(deployment)
    deployment.sources(trust="trusted")
    trusted = look(deployment)

    assert open_.verdicts == Counter(quarantine=5)
    assert trusted.verdicts == Counter(accept=5)


def test_a_sample_is_spread_and_the_same_each_time(deployment: Workspace) -> None:
    for number in range(40):
        deployment.page(
            f"{number:03}.md", f"Page {number} tells how buoy {number} is moored at the {number}th pier of the harbour."
        )

    first, second = look(deployment, limit=6), look(deployment, limit=6)

    assert first.as_dict() == second.as_dict()
    assert (first.listed, first.looked_at, sum(first.verdicts.values())) == (40, 6, 6)
    assert first.chunks_in_all == round(first.chunks * 40 / 6)
    assert sum(first.sizes.values()) == 40, "sizes are of everything"


def test_what_cannot_be_fetched_is_counted_by_code(deployment: Workspace) -> None:
    deployment.page("here.md")
    guard = deployment.guard()
    source = guard.sources.named("pages")
    items = list(source.list())
    items.append(type(items[0])("gone.md", 10, None, '"gone.md"'))

    class Listed:
        name, owner, trust = source.name, source.owner, source.trust
        fetch = source.fetch
        list = staticmethod(lambda: iter(items))

    with guard:
        found = preview(guard.storage, guard.models, guard.settings, Listed())

    assert found.failed == Counter({"intake.gone": 1})
    assert sum(found.verdicts.values()) == 1


def test_a_source_that_cannot_be_listed_is_an_error_and_no_empty_preview(make: Callable[..., Workspace]) -> None:
    deployment = make()
    deployment.sources(url="nowhere")

    with pytest.raises(SourceUnavailable, match="nowhere"):
        look(deployment)


def test_no_server_is_started(make: Callable[..., Workspace]) -> None:
    deployment = make()
    settings = deployment.settings.model_copy(update={"chroma_url": "http://127.0.0.1:9"})
    object.__setattr__(deployment, "settings", settings)
    deployment.page("tide.md")
    (deployment.settings.home / "ledger.sqlite").unlink()

    found = look(deployment)

    assert not found.served
    assert [path.name for path in deployment.settings.home.iterdir()] == ["models"]
