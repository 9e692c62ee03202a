"""The configuration that decides: each change of it is an event with what it was before and what it is now.

Rules
    * a refresh, a rescreening and an application of decisions first compare what decides with what was logged last: the
      policy, the digests of the checks, trained parts and models, the declarations of the sources, mutes, reviewers, and
      the release of the software. If anything differs, one event (``configured``) names every difference;
    * the first event of a ledger names everything, and loosens nothing;
    * `_LOOSER` says of every value which direction is looser. Where no direction is known, a change counts as loosening;
    * a loosening is told to the people who review: in the run's note, by `guard status`, and on the page Health.

Passwords are not logged: users, passwords and queries are cut out of URLs. Not done here: preventing a change; whoever may
write the files may change them. The event says which run saw it first, and under which user, not who edited the file.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar, Final

import sqlalchemy as sa

from corpus_guard import __version__
from corpus_guard.domain import JsonRecord, canonical_json, digest, sha256_bytes
from corpus_guard.intake.sources.source import public_url
from corpus_guard.intake.sources.sources_file import read_declarations
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import CONFIGURED_EVENT, logged_configuration
from corpus_guard.ledger.tables import events
from corpus_guard.models.champion import Detector, configured_file, promoted_digest
from corpus_guard.models.parts import hash_parts
from corpus_guard.review.identities import load_identities
from corpus_guard.screening.runner import Screening
from corpus_guard.settings import Settings

MAX_VALUES: Final = 5_000  # of a configuration; those beyond are one digest
MAX_CHARACTERS: Final = 200  # of a value; a longer one is its beginning and its digest
TOLD_DAYS: Final = 7  # days for which a loosening is shown
NAMED: Final = 3  # changes that one sentence names
MAX_LINE: Final = 120  # characters of each


class Looser(StrEnum):
    """Change of a value that makes the configuration looser."""

    HIGHER = "higher"
    LOWER = "lower"
    ADDED = "added"
    REMOVED = "removed"
    REPLACED = "replaced"  # by another value: not where it is added or removed
    CHANGED = "changed"  # in any way


_LOOSER: Final[tuple[tuple[str, Looser, str], ...]] = (
    # path, what is looser, value where it is absent; the first pattern that matches counts
    ("policy.quarantine.*", Looser.HIGHER, ""),
    ("policy.sources.*", Looser.HIGHER, ""),  # added or removed: another threshold counts, looser or not
    ("policy.weights.*", Looser.LOWER, ""),
    ("policy.reject.*", Looser.REMOVED, ""),
    ("policy.shadow.*", Looser.ADDED, ""),
    ("policy.retire.grace_hours", Looser.HIGHER, ""),
    ("policy.retire.max_share", Looser.LOWER, ""),
    ("policy.checks.*.enabled", Looser.HIGHER, "true"),
    ("policy.checks.*", Looser.CHANGED, ""),
    ("policy.review.two_person_trusts.*", Looser.REMOVED, ""),
    ("policy.review.*", Looser.HIGHER, ""),
    ("checks.*", Looser.REPLACED, ""),  # rules, code or model; not with another release of the software
    ("files.*", Looser.REPLACED, ""),
    ("trained.*", Looser.CHANGED, ""),
    ("models.*", Looser.CHANGED, ""),
    ("mutes.*", Looser.ADDED, ""),
    ("sources.*.trust", Looser.HIGHER, "open"),
    ("reviewers.*", Looser.CHANGED, ""),
    ("further", Looser.CHANGED, ""),
)
_RANKS: Final = {
    "info": 0, "low": 1, "medium": 2, "high": 3, "critical": 4, "never": 5,
    "open": 0, "reviewed": 1, "trusted": 2,
    "true": 0, "false": 1,  # of `enabled`
}  # fmt: skip

Values = dict[str, str]
"""A configuration: path → value as text."""


@dataclass(frozen=True, slots=True)
class ConfigurationChange(JsonRecord):
    """A ``configured`` event."""

    json_properties: ClassVar = ("sentence",)

    at: datetime
    run_id: str  # the run that saw it first
    user: str  # who ran it
    policy_digest: str
    changes: Mapping[str, tuple[str | None, str | None]]  # path → before, after; None: absent
    loosened: tuple[str, ...]  # paths

    @property
    def sentence(self) -> str:
        """Describe what was loosened; empty if nothing was."""
        if not self.loosened:
            return ""
        lines = [f"{path} {_shown(self.changes[path])}" for path in self.loosened[:NAMED]]
        named = "; ".join(line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…" for line in lines)
        more = f"; and {len(self.loosened) - NAMED:,} more" if len(self.loosened) > NAMED else ""
        return f"configuration loosened: {named}{more}"

    @property
    def lines(self) -> Iterator[str]:
        """The changes, a line each."""
        return (f"{path} {_shown(pair)}" for path, pair in self.changes.items())


def record_configuration(ledger: Ledger, screening: Screening, settings: Settings, run_id: str) -> None:
    """Log what changed in the configuration since it was logged last; nothing if it is the same.

    Raises:
        SettingsError: sources.yaml or reviewers.yaml is malformed.
    """
    current = describe_configuration(ledger, screening, settings)
    with ledger.read() as connection:
        if logged_configuration(connection) == current:
            return
    with ledger.exclusive("configuration"), ledger.write() as connection:
        logged = logged_configuration(connection)
        changes = {
            path: (logged.get(path), current.get(path))
            for path in sorted({*logged, *current})
            if logged.get(path) != current.get(path)
        }
        if changes:
            append_event(
                connection,
                CONFIGURED_EVENT,
                digest("configuration/v1", [f"{path}={value}" for path, value in sorted(current.items())]),
                run_id,
                changes={path: list(pair) for path, pair in changes.items()},
                loosened=_loosened(changes) if logged else [],
                policy_digest=screening.digest,
                user=_user(),
            )


def load_changes(
    ledger: Ledger, *, since: datetime | None = None, run_id: str | None = None
) -> list[ConfigurationChange]:
    """Return the logged changes, newest first.

    Args:
        run_id: only those that this run saw first.
    """
    statement = sa.select(events).where(events.c.kind == CONFIGURED_EVENT).order_by(events.c.seq.desc())
    if since is not None:
        statement = statement.where(events.c.at >= since)
    if run_id is not None:
        statement = statement.where(events.c.run_id == run_id)
    return [
        ConfigurationChange(
            at=row.at,
            run_id=row.run_id,
            user=row.body["user"],
            policy_digest=row.body["policy_digest"],
            changes={path: (before, after) for path, (before, after) in row.body["changes"].items()},
            loosened=tuple(row.body["loosened"]),
        )
        for row in ledger.rows(statement)
    ]


def recent_loosenings(ledger: Ledger, when: datetime | None = None) -> list[ConfigurationChange]:
    """Return the changes of the last `TOLD_DAYS` days that loosened the configuration, newest first."""
    since = (when or now()) - timedelta(days=TOLD_DAYS)
    return [change for change in load_changes(ledger, since=since) if change.loosened]


def loosened_in_run(ledger: Ledger, run_id: str) -> str:
    """Return the beginning of a note on a run that saw a loosening first; empty if it saw none."""
    return "".join(f"{change.sentence}; " for change in load_changes(ledger, run_id=run_id) if change.loosened)


def describe_configuration(ledger: Ledger, screening: Screening, settings: Settings) -> Values:
    """Return everything that decides, as text by path; without passwords."""
    people = {person.name: person.model_dump(exclude={"name"}) for person in load_identities(settings).people}
    declared = {
        "software": __version__,
        "policy": screening.policy.model_dump(mode="json"),
        "checks": {name: value[:16] for name, value in screening.check_digests().items()},
        "models": {"embedder": settings.embedder, "language_model": settings.language_model},
        "files": hash_parts(),
        "trained": {detector.value: _trained_part(ledger, settings, detector) for detector in Detector},
        "mutes": {source: sorted(codes) for source, codes in screening.mutes.items()},
        "reviewers": people,
        "sources": dict(_sources(settings)),
    }
    values = {path: value if len(value) <= MAX_CHARACTERS else _shortened(value) for path, value in _flatten(declared)}
    listed = dict(list(values.items())[:MAX_VALUES])
    further = [f"{path}={value}" for path, value in values.items() if path not in listed]
    return listed | ({"further": digest("further/v1", further)} if further else {})


def _loosened(changes: Mapping[str, tuple[str | None, str | None]]) -> list[str]:
    """Return the paths of the changes that loosen the configuration."""
    return [
        path
        for path, (before, after) in changes.items()
        if _is_looser(path, before, after) and not (path.startswith(("checks.", "files.")) and "software" in changes)
    ]


def _is_looser(path: str, before: str | None, after: str | None) -> bool:
    looser, absent = next(
        ((looser, absent) for pattern, looser, absent in _LOOSER if fnmatchcase(path, pattern)), (None, "")
    )
    if looser in {Looser.ADDED, Looser.REMOVED, Looser.REPLACED}:
        return looser == (Looser.ADDED if before is None else Looser.REMOVED if after is None else Looser.REPLACED)
    if looser in {Looser.HIGHER, Looser.LOWER}:
        old, new = _rank(absent if before is None else before), _rank(absent if after is None else after)
        if old is None or new is None:
            return True
        return new > old if looser is Looser.HIGHER else new < old
    return looser is Looser.CHANGED


def _rank(value: str) -> float | None:
    if value in _RANKS:
        return _RANKS[value]
    try:
        return float(value)
    except ValueError:
        return None


def _flatten(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values below `value` with their paths; each member of a list of words has a path of its own."""
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _flatten(below, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple) and all(isinstance(member, str) for member in value):
        for member in value:
            yield f"{path}.{member}", "listed"
    elif isinstance(value, bool):
        yield path, str(value).lower()
    elif value is None:
        yield path, "never" if path == "policy.review.two_person_severity" else "none"
    elif value != "":
        yield path, value if isinstance(value, str) else canonical_json(value).decode()


def _sources(settings: Settings) -> Iterator[tuple[str, Mapping[str, object]]]:
    folder = f"{settings.sources_file.absolute().parent}/"
    for config in read_declarations(settings.sources_file):
        fields = config.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
        declared = {name: _public(value, folder) for name, value in fields.items()}
        whole = canonical_json(fields).decode().replace(folder, "")
        # What is cut out of a URL changes the digest alone.
        yield config.name, {**declared, "digest": digest("source/v1", [whole])[:16]}


def _public(value: object, folder: str) -> object:
    if isinstance(value, Mapping):
        return {name: _public(below, folder) for name, below in value.items()}
    if isinstance(value, list):
        return [_public(member, folder) for member in value]
    return public_url(value.removeprefix(folder)) if isinstance(value, str) else value


def _trained_part(ledger: Ledger, settings: Settings, detector: Detector) -> str:
    """Return the digest of a trained part in use: the file that a setting names, the promoted one, or the package's."""
    configured = configured_file(settings, detector)
    if configured is not None:
        return f"{configured.name}, {_files_digest(configured)}"
    return (promoted_digest(ledger, detector) or "of the package")[:16]


def _files_digest(path: Path) -> str:
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    try:
        hashes = [f"{file.name}:{sha256_bytes(file.read_bytes())}" for file in files]
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return digest("files/v1", hashes)[:16]


def _shortened(value: str) -> str:
    return f"{value[: MAX_CHARACTERS - 30]}… sha256:{sha256_bytes(value.encode('utf-8', 'backslashreplace'))[:16]}"


def _shown(pair: tuple[str | None, str | None]) -> str:
    before, after = ("none" if value is None else value for value in pair)
    return f"{before} → {after}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"
