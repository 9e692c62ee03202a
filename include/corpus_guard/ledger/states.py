"""Lifecycle states and the other closed sets of words that the ledger stores.

Rules
    * a member's value is what stands in the database and in the event log: it never changes;
    * a value read from the database is plain text; it compares equal to its member.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from corpus_guard.domain import Verdict


class RunState(StrEnum):
    """Progress of a run."""

    RUNNING = "running"
    SEALED = "sealed"
    FAILED = "failed"


class RunKind(StrEnum):
    """Kind of work a run does on the corpus."""

    REFRESH = "refresh"
    RELEASE = "release"
    RESCREEN = "rescreen"
    PURGE = "purge"
    WITHDRAWAL = "withdrawal"


class VersionState(StrEnum):
    """State of a version: the policy's verdict, or the decision of a person that replaced it."""

    ACCEPTED = "accepted"
    QUARANTINED = "quarantined"
    RELEASED = "released"
    REJECTED = "rejected"


SERVABLE_STATES: Final = (VersionState.ACCEPTED, VersionState.RELEASED)
"""Versions in these states may be served."""

STATE_AFTER_VERDICT: Final[Mapping[Verdict, VersionState]] = MappingProxyType(
    {
        Verdict.ACCEPT: VersionState.ACCEPTED,
        Verdict.QUARANTINE: VersionState.QUARANTINED,
        Verdict.REJECT: VersionState.REJECTED,
    }
)
"""State of a version that nobody has decided on, by the policy's verdict."""


class PublicationState(StrEnum):
    """Progress of one chunk into a collection and out of it."""

    PENDING = "pending"  # to be written
    PUBLISHED = "published"
    RETIRING = "retiring"  # to be deleted
    RETIRED = "retired"


UNFINISHED_STATES: Final = (PublicationState.PENDING, PublicationState.RETIRING)
"""Publications in these states are work that is still to be done in Chroma."""

LIVE_STATES: Final = (PublicationState.PENDING, PublicationState.PUBLISHED)
"""Publications in these states are served, or are about to be."""


class ReviewAction(StrEnum):
    """Everything a reviewer can do about the quarantine: kinds of rows in `decisions` and `acts`."""

    RELEASE = "release"
    REJECT = "reject"
    ESCALATE = "escalate"
    UNDO = "undo"
    MUTE = "mute"
    CONFIRM = "confirm"
    LIFT = "lift"


DECISIVE_ACTIONS: Final = (ReviewAction.RELEASE, ReviewAction.REJECT)
"""Actions that change what is served; they are rows of `decisions`, all others are rows of `acts`."""


class Purpose(StrEnum):
    """Purpose of a decision that was no review of the quarantine."""

    WITHDRAW = "withdraw"  # a trace accused it: out of service, and blocked
    RESTORE = "restore"  # a withdrawal is taken back
    PURGE = "purge"
    ENHANCE = "enhance"  # the right answer to a question is published


STATE_AFTER_DECISION: Final[Mapping[str, VersionState]] = MappingProxyType(
    {ReviewAction.RELEASE: VersionState.RELEASED, ReviewAction.REJECT: VersionState.REJECTED}
)
"""State of a version after a decision, by `decisions.verdict`."""


class ActCause(StrEnum):
    """Reason why an act is in the ledger."""

    PERSON = "person"
    EXPIRED = "expired"  # nobody decided in time, or what was decided on is another text now


class MuteState(StrEnum):
    """State of a mute; derived from the acts about it."""

    PROPOSED = "proposed"  # waits for a second person
    ACTIVE = "active"
    LIFTED = "lifted"


class IncidentState(StrEnum):
    """State of an incident."""

    OPEN = "open"
    HEALED = "healed"  # undone by the guard; nobody has explained it
    ACCEPTED = "accepted"  # by a person, with a reason
    CLOSED = "closed"  # acknowledged by a person, with a reason


ALERTING_STATES: Final = (IncidentState.OPEN, IncidentState.HEALED)
"""Incidents in these states are red: no person has acknowledged them."""


class PurgeState(StrEnum):
    """Progress of a purge."""

    REMOVED = "removed"  # no longer served
    CLOSED = "closed"  # verified to be gone from the disk


class BlockedKind(StrEnum):
    """Content that the hash of a blocked row was made of."""

    CONTENT = "content"  # bytes as fetched
    TEXT = "text"  # text as parsed


class QueryOrigin(StrEnum):
    """Source of a question in the query bank."""

    LOG = "log"  # the retrieval log
    REPORT = "report"  # somebody reported an answer to it


class RetrievalOrigin(StrEnum):
    """Writer of an entry of the retrieval log."""

    GUARD = "guard"  # our own retriever: it says what the store returned
    OTLP = "otlp"  # spans that an application sent
    IMPORT = "import"  # a file or an export, by `guard retrievals import`


class TraceOutcome(StrEnum):
    """Result of a trace."""

    TRACED = "traced"  # the accused texts led to the output
    NOT_POISONING = "not_poisoning"  # the output is wrong, and no text is to blame
    EXHAUSTED = "exhausted"  # no benign text is left, or too many texts were judged
    UNDECIDED = "undecided"  # the judge could not say
    JUDGE_FAILED = "judge_failed"


class ReportState(StrEnum):
    """State of a report: open, or the outcome of its last trace."""

    OPEN = "open"
    TRACED = "traced"
    NOT_POISONING = "not_poisoning"
    EXHAUSTED = "exhausted"
    UNDECIDED = "undecided"
    JUDGE_FAILED = "judge_failed"


class Label(StrEnum):
    """A judge's opinion of one text."""

    POISONED = "poisoned"
    BENIGN = "benign"
    UNDECIDED = "undecided"


class EnhancementState(StrEnum):
    """State of an enhancement."""

    ACTIVE = "active"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


VERSION_STATES: Final = tuple(VersionState)
REPORT_STATES: Final = tuple(ReportState)
INCIDENT_STATES: Final = tuple(IncidentState)
ACT_KINDS: Final = tuple(action for action in ReviewAction if action not in DECISIVE_ACTIONS)
