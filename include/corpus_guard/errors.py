"""The ways Corpus Guard fails.

    GuardError
    ├── Misuse                  the caller or a configuration file is wrong; a person must change something
    │   ├── SettingsError       sources.yaml, policy.yaml, an environment variable
    │   ├── UnknownSubject      a source, document or quarantine item that does not exist
    │   ├── NotEnough           too little to learn from, or to measure on; more of the same is wanted
    │   ├── Stale               somebody else changed it meanwhile; look again
    │   └── NotAllowed          a rule of the review keeps this person from doing this
    ├── HostileInput            a document broke a rule; it becomes a finding, the others go on
    │   ├── Unreadable          no text can be taken from the bytes
    │   └── LimitExceeded       size, time or memory
    ├── Infrastructure          a server or a disk; the task fails, a re-run converges
    │   ├── StoreUnavailable    Chroma
    │   ├── LedgerUnavailable   the database
    │   ├── SourceUnavailable   a source as a whole cannot be listed
    │   ├── FilterFailed        a model could not look at what was retrieved; nothing is served
    │   └── JudgeFailed         a model or endpoint could not judge, or not answer; the trace says so
    └── Inconsistent            a promise did not hold (counts, read-back, digests); never ignored

A message names the subject, what was found, what was expected and what to do next. It never holds a document's text.
"""

from __future__ import annotations


class GuardError(Exception):
    """Anything Corpus Guard raises on purpose."""


class Misuse(GuardError):
    """The caller or a configuration file is wrong."""


class SettingsError(Misuse):
    """A configuration file or variable is wrong: says which file, which key, and the fix."""


class UnknownSubject(Misuse):
    """Something was named that does not exist."""


class NotEnough(Misuse):
    """There is too little to learn from, or to measure on: says of what, and how much."""


class Stale(Misuse):
    """It was decided, replaced or retired after it was looked at; nothing was changed."""


class NotAllowed(Misuse):
    """A rule of the review keeps this person from doing this; nothing was changed."""


class HostileInput(GuardError):
    """A document broke a rule.

    Attributes:
        code: what kind, as findings carry it (``parsing.too_large``).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Unreadable(HostileInput):
    """No text can be taken from the bytes."""


class LimitExceeded(HostileInput):
    """A document asked for more bytes, seconds or memory than it may have."""


class Infrastructure(GuardError):
    """A server or a disk failed; running again converges."""


class StoreUnavailable(Infrastructure):
    """Chroma does not answer."""


class LedgerUnavailable(Infrastructure):
    """The ledger's database does not answer."""


class SourceUnavailable(Infrastructure):
    """A source cannot be listed at all."""


class FilterFailed(Infrastructure):
    """What was retrieved could not be checked, so nothing of it is served."""


class JudgeFailed(Infrastructure):
    """A judge or the RAG model gave nothing that can be used; the trace ends as *judge failed* and is tried again."""


class Inconsistent(GuardError):
    """Two things that must agree do not."""
