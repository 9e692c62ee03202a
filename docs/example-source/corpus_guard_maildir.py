"""Mails as documents: each message of a Maildir folder.

sources:
  - kind: maildir
    name: support-mail
    path: /var/mail/support     # the folder with `new` and `cur` in it
    owner: support@example.org
    trust: open
"""

from __future__ import annotations

import email
import email.policy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.sources import Declared, Fetched, FetchFailed, Item, Opening, Outcome, Unchanged


class MaildirConfig(Declared):
    """What a declaration may say; a key that is not here is refused, with its name."""

    kind: Literal["maildir"]
    path: Path


class MaildirSource:
    """A delivered mail is never written to again, and its name is unique: the name is all there is to its validator."""

    Config = MaildirConfig

    def __init__(self, config: MaildirConfig, opening: Opening) -> None:
        self.name, self.owner, self.trust = config.name, config.owner, config.trust
        self._path, self._max_bytes = config.path, opening.max_bytes

    def list(self) -> Iterator[Item]:
        """Every mail. An error is SourceUnavailable, never an empty list: that would look like all mails having been deleted."""
        try:
            files = sorted(file for folder in ("new", "cur") for file in (self._path / folder).iterdir())
        except OSError as error:
            raise SourceUnavailable(
                f"source {self.name}: {self._path} cannot be read ({type(error).__name__})"
            ) from error
        for file in files:
            unique = file.name.partition(":")[0]  # what follows are flags, which change when a mail is read
            yield Item(unique, file.stat().st_size, None, json.dumps(file.name), validator=unique)

    def fetch(self, items: Sequence[Item]) -> Iterator[Outcome]:
        """One outcome for each item, in order. A mail that cannot be read is a FetchFailed, never an exception."""
        for item in items:
            if item.known == item.validator and item.known is not None:
                yield Unchanged(item)
                continue
            name = json.loads(item.locator)
            found = [path for folder in ("new", "cur") if (path := self._path / folder / name).is_file()]
            if not found:
                yield FetchFailed(item, "intake.gone", "the mail was listed and is gone")
                continue
            if found[0].stat().st_size > self._max_bytes:
                yield FetchFailed(item, "parsing.too_large", f"the mail has more than {self._max_bytes:,} bytes")
                continue
            message = email.message_from_bytes(found[0].read_bytes(), policy=email.policy.default)
            body = message.get_body(preferencelist=("plain", "html"))
            content = body.get_payload(decode=True) if body else b""
            declared = {"title": str(message.get("Subject", ""))[:200], "author": str(message.get("From", ""))[:200]}
            kind = body.get_content_type() if body else "text/plain"
            yield Fetched(item, bytes(content), kind, declared, validator=item.validator)
