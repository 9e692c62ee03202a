"""Questions made from the headings of trusted documents, so that the query bank is not empty on day one.

"Calibration interval" in a document with the title "OX-12 manual" becomes "OX-12: calibration interval?". It is
the shape of a question, not its grammar: an embedder places it near the question that a person would ask, in
any language, and no model is needed to make it.

Rules
    * the same title and text give the same questions;
    * the questions of a version are made once and stored, by its id; a version that is no longer served, and
      does not arrive, has none;
    * `MAX_DOCUMENTS` documents count, those with the lowest ids, which are hashes: a sample that hardly
      changes when documents come and go. Of each document `MAX_PER_DOCUMENT` questions count;
    * a purge erases the questions of the purged versions (`corpus_guard.corpus.query_bank.erase_questions`).

A heading that says nothing by itself ("Overview", "References") makes no question; nor does a document
without a title, whose headings nobody could place. A title alone is no question either, unless it is written
as one: 59 % of honest encyclopaedia paragraphs look written for their own title (147 of 250), and 0.3 % of a
project's documentation for a heading of its other pages (1 of 400).
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import orjson
import pyarrow as pa
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.storage import parquet_bytes
from corpus_guard.corpus import trigger
from corpus_guard.domain import Stamp, TrustLevel
from corpus_guard.errors import Inconsistent
from corpus_guard.intake.parsing.headings import clean_heading, read_headings
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.tables import documents, versions

log = logging.getLogger(__name__)

FILE: Final = "heading-questions/questions.parquet"
MAX_DOCUMENTS: Final = 500  # reading them takes a second or two, once
MAX_PER_DOCUMENT: Final = 12  # questions
MAX_CHARS_READ: Final = 200_000  # of a text, in search of headings

_SITE: Final = re.compile(r"\s+[|·—]\s+")  # before the name of the site, in the title of a web page
_KIND: Final = re.compile(
    r"[\s,:(–-]+(?:(?:user|product|quick|owner'?s)\s+)?"
    r"(?:manual|guide|handbook|overview|documentation|docs|reference|data ?sheet|faq|readme)\)?$",
    re.IGNORECASE,
)
_SILENT: Final = frozenset(
    {
        "overview",
        "introduction",
        "about",
        "summary",
        "contents",
        "table of contents",
        "index",
        "background",
        "conclusion",
    }
    | {"references", "appendix", "notes", "release notes", "changelog", "license", "licence", "example", "examples"}
    | {"miscellaneous", "see also", "further reading", "related work"}
)
"""Headings that make no question: they name a part of a document, not a subject."""
_SCHEMA: Final = pa.schema([pa.field("version_id", pa.string()), pa.field("questions", pa.list_(pa.string()))])


def make_questions(title: str, text: str) -> list[str]:
    """Return the questions of a document; none without a title.

    Args:
        title: that the document declares; empty: its first heading of the first level.
        text: Markdown, as the parsers return every format.
    """
    headings = list(islice(read_headings(text[:MAX_CHARS_READ]), 10 * MAX_PER_DOCUMENT))
    subject = clean_heading(_SITE.split(title)[0]) or next((heading for level, heading in headings if level == 1), "")
    if not subject:
        return []
    short = _KIND.sub("", subject) or subject
    questions = [subject] if subject.endswith("?") else []
    for _, heading in headings:
        if heading.casefold() in _SILENT or heading.casefold() in subject.casefold():
            continue
        named = short.casefold() in heading.casefold()
        questions.append(f"{heading.rstrip('?')}?" if named else f"{short}: {heading.rstrip('?')}?")
    return list(dict.fromkeys(questions))[:MAX_PER_DOCUMENT]


@dataclass(frozen=True, slots=True, order=True)
class TrustedVersion:
    """Place of a trusted document's text."""

    doc_id: str
    version_id: str
    batch: str  # storage name of the Parquet file


def load_heading_questions(ledger: Ledger, storage: Storage, arriving: Iterable[TrustedVersion] = ()) -> list[str]:
    """Return the questions of the trusted documents that are served or arrive, the first of each document first.

    Args:
        arriving: trusted versions that a run brings; they count instead of the served ones.
    """
    by_document = _served(ledger) | {version.doc_id: version for version in sorted(arriving)}
    chosen = [by_document[document] for document in sorted(by_document)[:MAX_DOCUMENTS]]
    stored = stored_questions(storage)
    by_version = {version.version_id: stored.get(version.version_id) for version in chosen}
    missing: dict[str, list[str]] = defaultdict(list)
    for version in chosen:
        if by_version[version.version_id] is None:
            missing[version.batch].append(version.version_id)
    for batch, version_ids in missing.items():
        by_version.update(_read_questions(storage, batch, version_ids))
    questions_by_version = {
        version_id: questions for version_id, questions in by_version.items() if questions is not None
    }
    if questions_by_version.keys() != stored.keys():
        write_questions(storage, questions_by_version)
    ranked = sorted(
        (rank, version_id, question)
        for version_id, questions in questions_by_version.items()
        for rank, question in enumerate(questions)
    )
    return list(dict.fromkeys(question for _, _, question in ranked))


def questions_of(ledger: Ledger, storage: Storage, version_ids: Collection[str]) -> dict[str, list[str]]:
    """Return the questions of recorded versions, made again from their texts; those without a readable text are left out."""
    statement = sa.select(versions.c.version_id, versions.c.batch)
    by_batch: dict[str, list[str]] = defaultdict(list)
    with ledger.read() as connection:
        for row in select_in_batches(connection, statement, versions.c.version_id, version_ids):
            by_batch[row.batch].append(row.version_id)
    return dict(pair for batch, ids in by_batch.items() for pair in _read_questions(storage, batch, ids))


def stored_questions(storage: Storage) -> dict[str, list[str]]:
    """Return the questions made before, by version id; none where the file is missing or damaged."""
    if not storage.exists(FILE) or not storage.has_table(FILE):
        return {}
    return {row["version_id"]: row["questions"] for row in storage.read_table(FILE).to_pylist()}


def write_questions(storage: Storage, by_version: Mapping[str, Sequence[str]]) -> None:
    """Write the file of questions, whole."""
    rows = [{"version_id": version, "questions": list(questions)} for version, questions in sorted(by_version.items())]
    storage.write(FILE, parquet_bytes(pa.Table.from_pylist(rows, schema=_SCHEMA)))


def _served(ledger: Ledger) -> dict[str, TrustedVersion]:
    """Return the served versions of trusted documents, by document."""
    statement = (
        sa.select(documents.c.doc_id, versions.c.version_id, versions.c.batch)
        .join(versions, versions.c.version_id == documents.c.target_version)
        .where(documents.c.trust == TrustLevel.TRUSTED, documents.c.source != trigger.SOURCE)
        .order_by(documents.c.doc_id)
        .limit(MAX_DOCUMENTS)
    )
    with ledger.read() as connection:
        return {row.doc_id: TrustedVersion(*row) for row in connection.execute(statement)}


def _read_questions(storage: Storage, batch: str, version_ids: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    try:
        table = storage.read_table(
            batch, columns=["version_id", "stamp", "text"], filters=[("version_id", "in", list(version_ids))]
        )
    except Inconsistent as error:  # the bank is a help: a refresh works without these questions
        log.warning("%s No questions are made from its headings", error)
        return
    for row in table.to_pylist():
        title = Stamp.from_dict(orjson.loads(row["stamp"])).declared.get("title", "")
        yield row["version_id"], make_questions(title, row["text"])
