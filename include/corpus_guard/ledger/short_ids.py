"""Ids that people shorten: the first characters name what has an id that begins with them, if nothing else has."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from corpus_guard.errors import Misuse, UnknownSubject

MIN_CHARACTERS: Final = 4
"""Characters of an id that name something: no table or page shows fewer than eight."""


def find_id(connection: Connection, ids: sa.Select[str], name: str, subject: str, hint: str) -> str:
    """Return the whole id that `name` is, or begins.

    Args:
        name: as a person gave it, in either case.
        hint: where its ids are shown, for messages.

    Raises:
        UnknownSubject: no id is `name` or begins with it.
        Misuse: `name` is too short, or several ids begin with it.
    """
    prefix = name.lower().replace("\x00", "")  # PostgreSQL takes no NUL
    if len(prefix) < MIN_CHARACTERS:
        raise Misuse(f"{subject} {name[:64]!r}: give at least {MIN_CHARACTERS} characters of its id; {hint}")
    begins = ids.selected_columns[0].startswith(prefix, autoescape=True)
    matches = connection.scalars(ids.where(begins).distinct().limit(2)).all()
    if not matches:
        raise UnknownSubject(f"{subject} {name[:64]!r} is not in the ledger; {hint}")
    if len(matches) > 1:
        raise Misuse(f"{subject} {name[:64]!r} could be {' or '.join(sorted(matches))}; give more of its id")
    return matches[0]
