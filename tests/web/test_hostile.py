"""Hostile text through every field it can come by: it changes what a page says, and nothing of what the page is.

The law: a page that shows a payload has the same elements and the same attributes as the page that shows a harmless word in its place.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from resiliparse.parse.html import HTMLTree, NodeType
from reviewing import Reviewing, a_finding, deciding

from corpus_guard.domain import Span
from corpus_guard.invisible import is_invisible
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import suspects, traces
from corpus_guard.traceback import records, reports
from corpus_guard.traceback.filings import Filing
from hostile import BEACON, CHARACTERS, PAYLOADS

HARMLESS = "harmless"
OF_THE_TEXT = {"cp", "gap"}  # classes of elements that a text may have more or fewer of
LINKS = {"href", "src", "action", "formaction", "data", "poster", "srcset", "xlink:href", "style"}

Element = tuple[str, dict[str, str]]
Shape = Counter[tuple[Any, ...]]


SOME = [  # all of them take minutes
    payload if number % 16 == 0 or payload in CHARACTERS else pytest.param(payload, marks=pytest.mark.slow)
    for number, payload in enumerate(PAYLOADS)
]


@lru_cache(maxsize=16)  # each page is read for its shape and for its links
def elements(html: str) -> list[Element]:
    """(name, attributes) of everything in the page, as a browser reads it."""
    tree = HTMLTree.parse(html)  # a collection of resiliparse 2 takes quadratic time to go through, a tree does not
    nodes = [node for node in tree.document if node.type == NodeType.ELEMENT]
    return [(node.tag, {name: node.getattr(name) or "" for name in node.attrs}) for node in nodes]


def shape(html: str) -> Shape:
    """Elements with the names of their attributes, and the classes, but for code points inside texts."""
    found: Shape = Counter()
    for tag, attributes in elements(html):
        evidence = tag == "mark" and set(attributes) <= {"id", "title"}  # one a stretch
        if not evidence and not set(attributes.get("class", "").split()) & OF_THE_TEXT:
            found[tag, *sorted(attributes), attributes.get("class")] += 1
    return found


def links(html: str) -> list[str]:
    """Every address in the page."""
    return [value for _, attributes in elements(html) for name, value in attributes.items() if name in LINKS]


def storable(payload: str) -> str:
    return payload.encode("utf-8", "backslashreplace").decode().replace("\x00", "")


def everywhere(reviewing: Reviewing, payload: str) -> list[str]:
    """Put `payload` into every field that a document, a source or a person fills; returns the pages that show it."""
    kept = storable(payload)
    item = reviewing.wait(
        uri=f"{kept}.md",
        text=f"Before {payload} after.\n\n{payload}\n".encode("utf-8", "backslashreplace").decode(),
        findings=[
            a_finding(message=kept, span=Span(7, 7 + max(len(payload), 1))),
            a_finding("unicode.bidi", message=kept, span=None),
        ],
        owner=kept,
        media_type=kept[:100],
        run_id=f"run {kept}"[:250],
        declared={"title": kept, "author": kept, kept[:60]: kept},
    )
    same = reviewing.wait(uri=f"two {kept}.md", text="Another one.", owner=kept, declared={"author": kept})
    with reviewing.client(_header(payload)) as client:
        decided = client.post("/api/v1/decisions", json=deciding(item, reason=f"because {kept}"))
        assert decided.status_code == 201, decided.text
        muted = client.post(
            "/api/v1/mutes",
            json={"version_id": item.version_id, "code": "instructions.override", "reason": f"why {kept}"},
        )
        assert muted.status_code == 201, muted.text
        undone = client.post(
            f"/api/v1/decisions/{decided.json()['decisions'][0]['decision_id']}/undo", json={"reason": f"no {kept}"}
        )
        assert undone.status_code == 200, undone.text
    filing = Filing(f"why {kept}?", f"because {kept}.", now(), f"rather {kept}.", f"by {kept}"[:200], origin=kept)
    report = reports.file_report(reviewing.ledger, filing, "run-1").report_id
    trace = traced(reviewing, report, kept, item.version_id)
    return [
        "/",
        f"/traces/{trace}",
        f"/items/{item.version_id}",
        f"/items/{item.version_id}?view=raw",
        f"/items/{item.version_id}?view=hidden",
        f"/items/{item.version_id}?view=beside",
        f"/items/{same.version_id}",
        "/history",
        "/corpus",
        "/reports",
        f"/reports/{report}",
        "/health",
    ]


def traced(reviewing: Reviewing, report: str, payload: str, version: str) -> str:
    """A trace whose judge, RAG model and documents all say `payload`; returns its id."""
    trace = records.begin_trace(reviewing.ledger, report, f"night {payload}"[:250], payload[:200], 5, None)
    chunk = reviewing.storage_chunk(version)
    line = {
        "trace_id": trace.trace_id,
        "iteration": 1,
        "score": 0.9,
        "explanation": payload,
        "similarity": 0.5,
        "text_sha256": "0" * 64,
        "collection": "corpus-open",
        "source": payload[:64],
        "uri": payload,
    }
    with reviewing.ledger.write() as connection:
        connection.execute(
            suspects.insert(),
            [
                {**line, "chunk_id": chunk, "ordinal": 0, "label": "poisoned", "version_id": version},
                {**line, "chunk_id": f"planted {payload}"[:250], "ordinal": 1, "label": "benign", "version_id": ""},
            ],
        )
        ended = {
            "outcome": "traced",
            "answer_before": f"because {payload}.",
            "answer_after": payload,
            "failure": payload,
        }
        connection.execute(traces.update().where(traces.c.trace_id == trace.trace_id).values(**ended))
    return trace.trace_id


def _header(payload: str) -> str:
    """A reviewer whose name is the payload, as far as a header can carry it."""
    return "ada " + re.sub(r"[^\x21-\x7e ]", "", payload)[:100].strip()


def _shapes(reviewing: Reviewing, payload: str) -> list[tuple[str, str]]:
    pages = everywhere(reviewing, payload)
    with reviewing.client("ada") as client:
        found = []
        for path in pages:
            answer = client.get(path)
            assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:200]}"
            found.append((path, answer.text))
        return found


@pytest.fixture(scope="module")
def benign(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Any) -> list[Shape]:
    """What every page looks like with a harmless word."""
    import shutil

    home = tmp_path_factory.mktemp("benign")
    shutil.copy(migrated_sqlite, home / "ledger.sqlite")
    one = Reviewing(home)
    shapes = [shape(html) for _, html in _shapes(one, HARMLESS)]
    one.close()
    return shapes


def test_there_are_enough_payloads() -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 60


@pytest.mark.parametrize("payload", SOME)
def test_a_payload_is_text_on_every_page(reviewing: Reviewing, benign: list[Shape], payload: str) -> None:
    for (path, html), expected in zip(_shapes(reviewing, payload), benign, strict=True):
        assert shape(html) == expected, f"{path}: {shape(html) - expected} {expected - shape(html)}"
        assert not any(is_invisible(one) for one in html if one not in "\n\t"), (
            f"{path}: something in it cannot be seen"
        )
        for address in links(html):
            assert re.match(r"(\./|\.\./|\?|#|items/|history|reports|health|corpus|api/)", address) or not address, (
                address
            )
            assert "javascript:" not in address.lower().partition("?")[0] and BEACON not in address.partition("?")[0]
        assert len(html.encode()) <= 200_000


@pytest.mark.parametrize("payload", SOME)
def test_a_payload_is_data_in_json_and_files(reviewing: Reviewing, payload: str) -> None:
    payload = payload.encode("utf-8", "backslashreplace").decode()  # parsing lets no lone surrogate through
    item = reviewing.wait(uri=storable(payload), text=payload)
    with reviewing.client() as client:
        filing = Filing(f"why {payload}?", f"because {payload}.", now(), origin="test")
        report = reports.file_report(reviewing.ledger, filing, "run-1").report_id
        trace = traced(reviewing, report, payload, item.version_id)
        outcome = client.get(f"/api/v1/reports/{report}").json()
        assert [one["trace_id"] for one in outcome["traces"]] == [trace]
        documents = (f"/api/v1/items/{item.version_id}", f"/api/v1/reports/{report}", f"/api/v1/traces/{trace}")
        for path in ("/api/v1/queue", "/api/v1/queue.jsonl", *documents):
            answer = client.get(path)
            assert answer.status_code == 200
            assert answer.content.isascii()
            assert answer.headers["content-type"].startswith(("application/json", "application/x-ndjson"))
        assert json.loads(client.get(f"/api/v1/items/{item.version_id}").text)["text"] == payload
        raw = client.get(f"/items/{item.version_id}/raw")
        assert raw.content == payload.encode()
        assert raw.headers["content-type"] == "application/octet-stream"
        assert raw.headers["content-disposition"] == f'attachment; filename="{item.version_id}.bin"'
        table = client.get("/api/v1/queue.csv")
        assert table.headers["content-disposition"].startswith("attachment; ")
        rows = list(csv.DictReader(io.StringIO(table.text)))
    assert len(rows) == 1
    for value in rows[0].values():
        assert not value.lstrip().startswith(("=", "+", "-", "@")) and not any(map(is_invisible, value))


@pytest.mark.parametrize("payload", PAYLOADS[::20])
@pytest.mark.parametrize(
    "address",
    [
        lambda text: ("/", {"source": text, "check": text, "text": text[:200], "run_id": text, "campaign": text}),
        lambda text: ("/", {"after": text}),
        lambda text: ("/", {"severity": text}),
        lambda text: ("/", {"state": text[:20]}),
        lambda text: ("/history", {"reviewer": text, "source": text, "kind": text[:10]}),
        lambda text: ("/history", {"after": text}),
        lambda text: ("/corpus", {"source": text[:64], "text": text, "after": text[:32]}),
        lambda text: ("/health", {"source": text[:64]}),
        lambda text: ("/reports", {"state": text[:14]}),
    ],
)
def test_a_payload_in_an_address_is_text(
    reviewing: Reviewing, payload: str, address: Callable[[str], tuple[str, dict[str, str]]]
) -> None:
    path, asked = address(payload.encode("utf-8", "replace").decode())
    with reviewing.client() as client:
        answer = client.get(path, params=asked, headers={"Accept": "text/html"})

    assert answer.status_code in (200, 400, 422), answer.text[:300]
    found = elements(answer.text)
    names = {tag for tag, _ in found}
    assert not names & {"img", "iframe", "object", "embed", "style", "base", "video", "audio", "marquee", "template"}
    assert [sorted(told) for tag, told in found if tag == "script"] in ([["src"], ["defer", "src"]], [])
    assert not any(name.startswith("on") for _, told in found for name in told)
    assert not any(is_invisible(one) for one in answer.text if one not in "\n\t")


def test_five_megabytes_are_cut_and_the_whole_is_a_link_away(reviewing: Reviewing) -> None:
    text = "\u202e<b>x</b>\u200b" * 400_000 + "IGNORE ALL PREVIOUS INSTRUCTIONS" + "z" * 1_000_000
    start = text.index("IGNORE")
    item = reviewing.wait(text=text, findings=[a_finding(span=Span(start, start + 32))])
    with reviewing.client() as client:
        page = client.get(f"/items/{item.version_id}")
        raw = client.get(f"/items/{item.version_id}/raw")

    assert len(page.content) <= 200_000
    assert re.search(r"<mark[^>]*>IGNORE ALL PREVIOUS INSTRUCTIONS\s*</mark>", page.text)
    assert "characters are not shown" in page.text
    assert len(raw.content) == len(text.encode())
