"""Who reviews."""

from __future__ import annotations

from dataclasses import dataclass

from corpus_guard.errors import Misuse

LONGEST_REASON = 2_000  # characters
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Reviewer:
    """A person, as whoever logged them in knows them."""

    id: str  # what the auth manager calls them; a number or a name
    name: str
    auth: str  # the auth manager's class name, or "cli"

    def __post_init__(self) -> None:
        for field in ("id", "name", "auth"):
            value = clean(getattr(self, field))
            if not value or len(value) > _LONGEST_NAME:
                raise Misuse(
                    f"a decision needs a reviewer: {field} has 1 to {_LONGEST_NAME} characters, found {len(value)}"
                )
            object.__setattr__(self, field, value)

    def is_same(self, other: Reviewer) -> bool:
        """Whether both may be one person: an equal id or an equal name is enough, however they logged in."""
        return self.id.casefold() == other.id.casefold() or self.name.casefold() == other.name.casefold()


def clean(text: str) -> str:
    """`text` as a database can hold it: no NUL, no lone surrogate, no blanks around it."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "backslashreplace").decode().strip()


def reason_of(text: str) -> str:
    """A reason that can be kept.

    Raises:
        Misuse: it is empty or too long.
    """
    kept = clean(text)
    if not kept:
        raise Misuse("a decision needs a reviewer and a reason; say why, it is kept for good")
    if len(kept) > LONGEST_REASON:
        raise Misuse(f"a reason has at most {LONGEST_REASON:,} characters, found {len(kept):,}; shorten it")
    return kept
