"""Fifty thousand documents wait: a page of them still comes at once."""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa
from reviewing import Reviewing

from corpus_guard.domain import Verdict
from corpus_guard.ledger.tables import documents, findings, versions
from material import a_version

FEW, MANY = 2_000, 50_000
FIRST_BYTE = 0.3  # seconds


def fill(reviewing: Reviewing, many: int) -> None:
    """One real document, copied in the ledger."""
    reviewing.record((a_version("first.md", ("The first.",)), Verdict.QUARANTINE))
    with reviewing.ledger.write() as connection:
        document = dict(connection.execute(sa.select(documents)).mappings().one())
        version = dict(connection.execute(sa.select(versions)).mappings().one())
        finding = dict(connection.execute(sa.select(findings)).mappings().one())
        names = [(number, f"{number:032x}", f"{number + 2**100:032x}") for number in range(1, many)]
        sources = ("handbook", "product", "community", "tickets")
        connection.execute(
            documents.insert(),
            [
                {
                    **document,
                    "doc_id": doc,
                    "latest_version": name,
                    "uri": f"{number}.md",
                    "source": sources[number % 4],
                }
                for number, doc, name in names
            ],
        )
        connection.execute(
            versions.insert(),
            [
                {
                    **version,
                    "version_id": name,
                    "doc_id": doc,
                    "risk": (number % 1_000) / 1_000,
                    "campaign": f"{number % 9_000:032x}",
                }
                for number, doc, name in names
            ],
        )
        connection.execute(findings.insert(), [{**finding, "version_id": name} for _, _, name in names])


@pytest.mark.parametrize("many", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_a_page_of_the_queue_comes_at_once(reviewing: Reviewing, many: int) -> None:
    fill(reviewing, many)
    asked: list[str] = []

    @sa.event.listens_for(sa.Engine, "before_cursor_execute")
    def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            asked.append(statement)

    taken: dict[str, float] = {}
    with reviewing.client() as client:
        client.get("/")  # templates and policy are read once
        after = client.get("/api/v1/queue").json()["next"]
        for path in (
            "/",
            f"/?after={after}",
            "/?sort=age",
            "/?source=product&check=instructions",
            "/?sort=source",
            "/?text=99&trust=open",
        ):
            asked.clear()
            began = time.process_time()  # the app runs in this process; other work on the machine does not count
            answer = client.get(path)
            taken[path[:30]] = time.process_time() - began
            assert answer.status_code == 200 and len(answer.content) <= 200_000
            assert len(asked) <= 6, asked  # however many items there are
    sa.event.remove(sa.Engine, "before_cursor_execute", count)
    print({path: round(seconds, 3) for path, seconds in taken.items()})
    assert max(taken.values()) <= FIRST_BYTE, taken
