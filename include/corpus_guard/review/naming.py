"""Names for the ids in findings.

A finding's message holds ids and never a path: what it says must stay true when a document moves or is purged.
People read paths.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import values_by_id
from corpus_guard.ledger.tables import documents, versions

SHORT_ID: Final = 8  # characters, of an id that names nothing
MAX_NAME_CHARS: Final = 80
_ID: Final = re.compile(r"\b[0-9a-f]{32}\b")
_BOTH: Final = re.compile(r"\bdocument (?P<document>[0-9a-f]{32}), version [0-9a-f]{32}\b")
_VERSION: Final = re.compile(rf"\bversion (?P<short>[0-9a-f]{{{SHORT_ID}}})[0-9a-f]{{{32 - SHORT_ID}}}\b")


def name_documents(ledger: Ledger, messages: Sequence[str]) -> list[str]:
    """Return the messages with the paths of documents in place of the ids of documents and versions.

    An id that the ledger does not know is cut to its first eight characters. So is that of a version that stands without its
    document: it is another version of the document that the finding is about.
    """
    messages = [_BOTH.sub(r"\g<document>", message) for message in messages]
    messages = [_VERSION.sub(r"version \g<short>", message) for message in messages]
    ids = sorted({match for message in messages for match in _ID.findall(message)})
    names: dict[str, str] = {}
    if ids:
        with ledger.read() as connection:
            of_version = documents.c.doc_id == versions.c.doc_id
            names |= values_by_id(connection, sa.select(versions.c.version_id, documents.c.uri).where(of_version), ids)
            names |= values_by_id(connection, sa.select(documents.c.doc_id, documents.c.uri), ids)

    def name(match: re.Match[str]) -> str:
        uri = names.get(match[0])
        if uri is None:
            return match[0][:SHORT_ID]
        return f"“{uri if len(uri) <= MAX_NAME_CHARS else uri[: MAX_NAME_CHARS - 1] + '…'}”"

    return [_ID.sub(name, message) for message in messages]
