"""A source that reads a Maildir folder: each message is a document.

sources:
  - kind: maildir
    name: support-mail
    path: /var/mail/support     # the folder with `new` and `cur` in it
    owner: support@example.org
    trust: open
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.sources import (
    Fetched,
    FetchFailed,
    Outcome,
    SourceConfig,
    SourceContext,
    SourceItem,
    Unchanged,
)


class MaildirConfig(SourceConfig):
    """The keys of a declaration. Any other key is refused by name."""

    kind: Literal["maildir"]
    path: Path


class MaildirSource:
    """A Maildir folder. A delivered mail never changes and its name is unique, so the name is its validator."""

    Config = MaildirConfig

    def __init__(self, config: MaildirConfig, context: SourceContext) -> None:
        self.name, self.owner, self.trust = config.name, config.owner, config.trust
        self._path, self._max_bytes = config.path, context.max_bytes

    def list(self) -> Iterator[SourceItem]:
        """List every mail. Raise SourceUnavailable on an error: an empty list would mean that all mails were deleted."""
        try:
            files = sorted(file for folder in ("new", "cur") for file in (self._path / folder).iterdir())
        except OSError as error:
            raise SourceUnavailable(
                f"source {self.name}: {self._path} cannot be read ({type(error).__name__})"
            ) from error
        for file in files:
            unique = file.name.partition(":")[0]  # the flags after the colon change when a mail is read
            yield SourceItem(unique, file.stat().st_size, None, json.dumps(file.name), validator=unique)

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Outcome]:
        """Yield one outcome for each item, in order. A mail that cannot be read is a FetchFailed, never an exception."""
        for item in items:
            if item.known_validator == item.validator and item.known_validator is not None:
                yield Unchanged(item)
                continue
            name = json.loads(item.locator)
            files = [path for folder in ("new", "cur") if (path := self._path / folder / name).is_file()]
            if not files:
                yield FetchFailed(item, "intake.gone", "the mail was listed and is gone")
                continue
            if files[0].stat().st_size > self._max_bytes:
                yield FetchFailed(item, "parsing.too_large", f"the mail has more than {self._max_bytes:,} bytes")
                continue
            yield Fetched(item, files[0].read_bytes(), "message/rfc822", validator=item.validator)
