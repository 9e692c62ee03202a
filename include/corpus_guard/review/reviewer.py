"""The person who reviews, and the reason they give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from corpus_guard.errors import Misuse, NotAllowed
from corpus_guard.proof.log.note import Signer
from corpus_guard.proof.signed_acts import KEY_AUTH, sign_act

MAX_REASON_CHARS = 2_000
CLI_AUTH: Final = "cli"
"""Value of `Reviewer.auth` for a name that was typed in a terminal: it proves nobody."""
_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class Reviewer:
    """A person, as the system that signed them in knows them."""

    id: str  # the auth manager's id, a number or a name; of a person with a key: the public key
    name: str
    auth: str  # the auth manager's class name, "key", or "cli"
    signer: Signer | None = field(default=None, repr=False, compare=False)  # with "key": signs what the person does

    def __post_init__(self) -> None:
        for name in ("id", "name", "auth"):
            value = storable_text(getattr(self, name))
            if not value or len(value) > _MAX_NAME_CHARS:
                raise Misuse(
                    f"a decision needs a reviewer: {name} must have 1 to {_MAX_NAME_CHARS} characters, got {len(value)}"
                )
            object.__setattr__(self, name, value)

    def is_same(self, other: Reviewer) -> bool:
        """Return whether both may be the same person: same id or same name, however they signed in."""
        return self.id.casefold() == other.id.casefold() or self.name.casefold() == other.name.casefold()

    def sign(self, act_id: str, kind: str, subject: str, revision: str = "") -> dict[str, str]:
        """Return the part of an event's body that holds this person's signature; empty without a key.

        Raises:
            NotAllowed: the key is not the one that is registered for this person.
        """
        if self.auth != KEY_AUTH:
            return {}
        if self.signer is None or self.signer.verifier.encode() != self.id:
            raise NotAllowed(
                f"{self.name} is listed with the key {self.id}, but did not sign with it; nothing was changed"
            )
        return {"note": sign_act(self.signer, act_id, kind, subject, revision)}


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
