"""``reviewers.yaml``: the people who review and their logins, so that one person never counts as two.

reviewers:
  - name: Ada Lovelace
    ui: ada                       # user name in Airflow
    os: alovelace                 # login in a terminal; with it the key counts for this login alone
    key: ada+1f0c9a2b+AQ…         # public key, as `guard reviewer key` prints it

Rules, where a release or a mute needs two people
    * a name typed in a terminal proves nobody: there, a person signs with their own key;
    * both people are in reviewers.yaml, and are two of its people;
    * without that file, or with an empty one, both signed in to the review pages in the same way, under different ids and
      names;
    * both halves are checked when they are given, and the first again when the second comes.

Not done here: protecting the file. Whoever may write it can add a person; every change of it is an event that reviewers
are told about (`corpus_guard.pipeline.configuration`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from corpus_guard.errors import Misuse, NotAllowed, SettingsError
from corpus_guard.proof.log.key_files import write_durably, write_private_key
from corpus_guard.proof.log.note import Signer, VerifierKey
from corpus_guard.proof.signed_acts import KEY_AUTH
from corpus_guard.review.reviewer import CLI_AUTH, Reviewer, clean_reason
from corpus_guard.settings import Settings, load_yaml, validate
from corpus_guard.yaml_text import append_entry, parse_yaml

LOGINS: Final = ("name", "ui", "os", "key")
"""Fields of a person; each value belongs to one person."""

Login = Annotated[str, Field(max_length=200)]


class Person(BaseModel):
    """A person who reviews."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=200)]
    ui: Login = ""  # user name on the review pages; empty: none
    os: Login = ""  # login in a terminal; empty: the key counts for any
    key: Login = ""  # public key; empty: none

    @field_validator("key")
    @classmethod
    def _whole_key(cls, key: str) -> str:
        try:
            return VerifierKey.parse(key).encode() if key else ""
        except SettingsError as error:
            raise ValueError(str(error)) from error


class _ReviewersFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    reviewers: tuple[Person, ...]

    @model_validator(mode="after")
    def _each_login_once(self) -> _ReviewersFile:
        for field in LOGINS:
            counts = Counter(value.casefold() for person in self.reviewers if (value := getattr(person, field)))
            twice = [value for value, count in counts.items() if count > 1]
            if twice:
                raise ValueError(f"{field} {twice[0]!r} belongs to two people; give each person their own")
        return self


@dataclass(frozen=True, slots=True)
class Identities:
    """The people of a ``reviewers.yaml``; without a file: nobody."""

    people: tuple[Person, ...] = ()

    def person(self, reviewer: Reviewer) -> Person | None:
        """Return the person that a login proves; None: it proves nobody, or nobody in the file."""
        if reviewer.auth == CLI_AUTH:
            return None
        if reviewer.auth == KEY_AUTH:
            return next((person for person in self.people if person.key and person.key == reviewer.id), None)
        names = {reviewer.id.casefold(), reviewer.name.casefold()}
        matching = [person for person in self.people if person.ui and person.ui.casefold() in names]
        return matching[0] if len(matching) == 1 else None

    def sign_in(self, private: Ed25519PrivateKey, login: str) -> Reviewer:
        """Return the person whose private key this is, as a reviewer who signs.

        Raises:
            NotAllowed: the key is nobody's, or that of a person with another login.
        """
        public = private.public_key().public_bytes_raw()
        for person in self.people:
            key = VerifierKey.parse(person.key) if person.key else None
            if key is None or key.public != public:
                continue
            if person.os and person.os != login:
                raise NotAllowed(
                    f"this key is that of {person.name}, who works as {person.os!r}, and you are {login!r}; use your own "
                    "key (`guard reviewer key`)"
                )
            return Reviewer(person.key, person.name, KEY_AUTH, Signer(key.name, private))
        raise NotAllowed(
            "this key belongs to nobody in reviewers.yaml; ask the person who maintains that file to add its public half "
            "(`guard reviewer add`)"
        )

    def pair_problem(self, first: Reviewer | None, reviewer: Reviewer, verb: str) -> str:
        """Return why `reviewer` cannot be one of the two people that an act needs; empty if nothing stands against it.

        Args:
            first: who gave the first half; None: `reviewer` gives it.
            reviewer: who acts now.
            verb: what the first person did: "released", "proposed".
        """
        if first and (first.is_same(reviewer) or self._are_one_person(first, reviewer)):
            return f"was {verb} by {first.name}; another person must agree"
        if problem := self._unproven(reviewer):
            return f"needs two people, and {problem}"
        if first and self._unproven(first):
            return (
                f"was {verb} by {first.name} ({first.auth}), and nothing proves that this is another person; take that "
                "back, and let two people begin again"
            )
        if first and not self.people and first.auth != reviewer.auth:
            return (
                f"was {verb} by {first.name} ({first.auth}), and you signed in otherwise ({reviewer.auth}): one person "
                "could have both logins. Sign in the same way as the first person, or list who is who in reviewers.yaml "
                "(`guard reviewer add`)"
            )
        return ""

    def _are_one_person(self, first: Reviewer, second: Reviewer) -> bool:
        person = self.person(first)
        return person is not None and person == self.person(second)

    def _unproven(self, reviewer: Reviewer) -> str:
        if reviewer.auth == CLI_AUTH:
            return (
                "a name typed in a terminal proves nobody: sign with your own key (--key FILE; `guard reviewer key` makes "
                "one, `guard reviewer add` lists it), or do it on the review pages or over REST with your Airflow login"
            )
        if (self.people or reviewer.auth == KEY_AUTH) and self.person(reviewer) is None:
            return (
                f"{reviewer.name} ({reviewer.auth}) is not in reviewers.yaml; ask the person who maintains that file to "
                "add this login (`guard reviewer add`)"
            )
        return ""


NOBODY: Final = Identities()
"""No ``reviewers.yaml``."""


@dataclass(frozen=True, slots=True)
class ReviewAct:
    """An act of a person in the review: who, why, and what was in force.

    Raises:
        Misuse: there is no reason, or it is too long.
    """

    reviewer: Reviewer
    reason: str  # kept for good
    policy_digest: str = ""
    identities: Identities = NOBODY

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", clean_reason(self.reason))

    def pair_problem(self, first: Reviewer | None, verb: str) -> str:
        """Return why it cannot be half of what two people do; see `Identities.pair_problem`."""
        return self.identities.pair_problem(first, self.reviewer, verb)


def load_identities(settings: Settings) -> Identities:
    """Read ``reviewers.yaml``.

    Raises:
        SettingsError: it is malformed, gives one login to two people, or is missing where a setting names it.
    """
    if settings.reviewers_file is None and not settings.reviewers.exists():
        return NOBODY
    return Identities(load_yaml(settings.reviewers, _ReviewersFile).reviewers)


def add_person(file: Path, person: Person) -> None:
    """Append a person to ``reviewers.yaml``, and create the file if there is none.

    Raises:
        SettingsError: the file is malformed, or another person has one of these logins; nothing was written.
        Misuse: the list is not written with one entry per line, so nothing can be appended.
    """
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    text = append_entry(before, "reviewers", person.model_dump(exclude_defaults=True), str(file))
    validate(parse_yaml(text, str(file)), _ReviewersFile, where=str(file))
    write_durably(file, text.encode(), 0o644)


def create_key(file: Path, name: str) -> str:
    """Write a new private key for a reviewer, and return its public half, for ``reviewers.yaml``.

    Args:
        file: does not exist yet; only its owner can read it afterwards.

    Raises:
        Misuse: the file exists: who signed with its key could not be told any more.
        SettingsError: a key cannot have this name.
    """
    if file.exists():
        raise Misuse(f"{file} exists already; choose another file, or move that one away")
    signer = Signer(name, Ed25519PrivateKey.generate())
    public = signer.verifier.encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private_key(file, signer.private)
    return public
