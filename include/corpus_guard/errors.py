"""Exceptions of Corpus Guard.

    GuardError
    ├── Misuse                  the caller or a configuration file is wrong; a person must change something
    │   ├── SettingsError       sources.yaml, policy.yaml, an environment variable
    │   ├── UnknownSubject      a source, document or quarantine item that does not exist
    │   ├── NotEnough           too little data to learn from or to measure on
    │   ├── Stale               somebody else changed it meanwhile; look again
    │   └── NotAllowed          a rule of the review forbids this to this person
    ├── HostileInput            a document broke a rule; it becomes a finding, the other documents go on
    │   ├── Unreadable          no text can be extracted from the bytes
    │   └── LimitExceeded       size, time or memory
    ├── Infrastructure          a server or a disk failed; the task fails, and a new run completes the work
    │   ├── StoreUnavailable    the vector store does not answer
    │   │   └── StoreRefused    it answers, and refuses a request
    │   ├── LedgerUnavailable   the database
    │   ├── SourceUnavailable   a source as a whole cannot be listed
    │   ├── FilterFailed        the filter could not check the retrieved texts; nothing is served
    │   └── JudgeFailed         a judge or the RAG model failed; the trace says so
    ├── AlreadyAtWork           another run does this work at the moment; nothing was done
    └── Inconsistent            two things that must agree do not (counts, read-back, digests); never ignored
        ├── ForeignCollection   a collection of the vector store belongs to another deployment
        ├── ForeignStorage      the storage belongs to another deployment
        └── UndecodableText     the ledger holds text that is not UTF-8 (`corpus_guard.ledger.undecodable`)

A message names the subject, what it got, what it expected and what to do next. It never quotes a document's
text.
"""

from __future__ import annotations

from collections.abc import Collection


class GuardError(Exception):
    """Anything Corpus Guard raises on purpose."""


class Misuse(GuardError):
    """The caller or a configuration file is wrong."""


class SettingsError(Misuse):
    """A configuration file or variable is wrong; the message names file, key and fix."""


def require_one_of(subject: str, value: str, words: Collection[str]) -> None:
    """Refuse a word that is none of `words`.

    Raises:
        Misuse: the message names them.
    """
    if value not in words:
        raise Misuse(f"{subject} '{value[:40]}': expected one of {', '.join(words)}")


def why_unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Return why a text file could not be read, in words."""
    return error.strerror or "unreadable" if isinstance(error, OSError) else "it is not UTF-8"


class UnknownSubject(Misuse):
    """A source, document or other thing that does not exist was named."""


class NotEnough(Misuse):
    """There is too little data to learn from or to measure on; the message says how much is needed."""


class Stale(Misuse):
    """An item was decided, replaced or retired after it was looked at; nothing was changed."""


class NotAllowed(Misuse):
    """A rule of the review forbids this to this person; nothing was changed."""


class HostileInput(GuardError):
    """A document broke a rule.

    Attributes:
        code: of the finding (``parsing.too_large``).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Unreadable(HostileInput):
    """No text can be extracted from the bytes."""


class LimitExceeded(HostileInput):
    """A document needs more bytes, seconds or memory than it may have."""


class Infrastructure(GuardError):
    """A server or a disk failed; a new run completes the work."""


class StoreUnavailable(Infrastructure):
    """The vector store does not answer."""


class StoreRefused(StoreUnavailable):
    """The vector store answered and refused a request: a collection is missing or damaged."""


class LedgerUnavailable(Infrastructure):
    """The ledger's database does not answer."""


class SourceUnavailable(Infrastructure):
    """A source cannot be listed at all."""


class FilterFailed(Infrastructure):
    """The retrieved texts could not be checked, so none of them is served."""


class JudgeFailed(Infrastructure):
    """A judge or the RAG model gave no usable answer; the trace ends as *judge failed* and is tried again."""


class AlreadyAtWork(GuardError):
    """Another run does this work at the moment; nothing was done."""


class Inconsistent(GuardError):
    """Two things that must agree do not."""


class ForeignStorage(Inconsistent):
    """The storage belongs to another deployment; nothing was written or erased."""


class ForeignCollection(Inconsistent):
    """A collection belongs to another deployment; nothing was read or written.

    Attributes:
        ours: id of the deployment that asked.
        theirs: id of the one that the collection names; empty: it names none.
    """

    def __init__(self, message: str, *, ours: str, theirs: str) -> None:
        super().__init__(message)
        self.ours = ours
        self.theirs = theirs
