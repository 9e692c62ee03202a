"""The person who reviews, and the reason they give."""

from __future__ import annotations

from dataclasses import dataclass

from corpus_guard.errors import Misuse

MAX_REASON_CHARS = 2_000
_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class Reviewer:
    """A person, as the system that signed them in knows them."""

    id: str  # the auth manager's id; a number or a name
    name: str
    auth: str  # the auth manager's class name, or "cli"

    def __post_init__(self) -> None:
        for field in ("id", "name", "auth"):
            value = storable_text(getattr(self, field))
            if not value or len(value) > _MAX_NAME_CHARS:
                raise Misuse(
                    f"a decision needs a reviewer: {field} must have 1 to {_MAX_NAME_CHARS} characters, got {len(value)}"
                )
            object.__setattr__(self, field, value)

    def is_same(self, other: Reviewer) -> bool:
        """Return whether both may be the same person: same id or same name, however they signed in."""
        return self.id.casefold() == other.id.casefold() or self.name.casefold() == other.name.casefold()


def storable_text(text: str) -> str:
    """Return `text` as every database can store it: no NUL, no lone surrogate, no surrounding blanks."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "backslashreplace").decode().strip()


def clean_reason(text: str) -> str:
    """Return a reason in the form it is stored in.

    Raises:
        Misuse: it is empty or too long.
    """
    reason = storable_text(text)
    if not reason:
        raise Misuse("a decision needs a reviewer and a reason; the reason is recorded permanently")
    if len(reason) > MAX_REASON_CHARS:
        raise Misuse(f"a reason has at most {MAX_REASON_CHARS:,} characters, got {len(reason):,}; shorten it")
    return reason
