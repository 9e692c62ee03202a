"""Stamps and declarations of documents that contradict each other, or time.

Rules
- A stamp without owner, source, place, program or digest, or with ids that do not follow from them, is no
  evidence: high.
- Declarations of a document (dates, author, trust) are data. They are compared with the stamp, never used
  instead of it.
- Dates are read only where their meaning is certain: ISO 8601, RFC 2822, PDF (ISO 32000-2, 7.9.4), and dates
  with the month in English words. 03/04/2025 is not read, because it can be two days.
- One day of tolerance: clocks and time zones differ.

What it does not do: believe a claim because nothing contradicts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Final

from pydantic import Field

from corpus_guard import domain
from corpus_guard.domain import Finding, Severity, Stamp, TrustLevel, Version, plural
from corpus_guard.ledger import triage
from corpus_guard.screening.check import Params, TextCheck

_DAY: Final = timedelta(days=1)
_EMPTY_SHA256: Final = domain.sha256_bytes(b"")
_CREATED_KEYS: Final = frozenset({"created", "creationdate", "creation_date", "date_created", "created_at"})
MODIFIED_KEYS: Final = frozenset(
    {"modified", "moddate", "modification_date", "date_modified", "modified_at", "updated", "last_modified"}
)
_DATE_KEYS: Final = _CREATED_KEYS | MODIFIED_KEYS | {"date", "published", "published_at", "publication_date", "issued"}
_RESERVED_KEYS: Final = ("doc_id", "version_id", "chunk_id", "trust", "trust_level")  # set by the guard alone
# Honest documents use them too.
_VOUCHING_KEYS: Final = (
    "verified",
    "approved",
    "approved_by",
    "reviewed_by",
    "official",
)
AUTHOR_KEYS: Final = frozenset(triage.AUTHORS)
_AUTHORITY: Final = re.compile(
    r"\b(security|admin(istrator)?s?|compliance|legal|official|human resources|hr|help ?desk|support team|board)\b"
    r"|\b(ceo|cto|ciso|cfo)\b"
)
_PDF_DATE: Final = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:Z|([+-])(\d\d)'?(\d\d)?'?)?", re.ASCII)
_DATE_FORMATS: Final = ("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%B %Y")


class ProvenanceParams(Params):
    """The section ``provenance`` of policy.yaml."""

    earliest_year: int = Field(default=1990, ge=1900, le=2100)
    """A declared date before this year is a mistake or a lie."""
    far_days: int = Field(default=366, ge=2)
    """Days past the fetch from which a date in the future is of medium severity."""


class Provenance(TextCheck[ProvenanceParams]):
    """Missing or contradictory provenance."""

    name = "provenance"
    params_class = ProvenanceParams
    code_version = ("provenance/1",)

    def applies_to(self, version: Version) -> bool:
        """Return True for every version."""
        return True

    def judge(self, version: Version) -> Iterator[Finding]:
        """Check a stamp by itself."""
        declared = {normalise_key(key): str(value) for key, value in version.stamp.declared.items()}
        yield from self._stamp(version)
        yield from self._times(version.stamp, declared)
        yield from self._claims(version.stamp, declared)

    def _stamp(self, version: Version) -> Iterator[Finding]:
        stamp = version.stamp
        fields = {
            "owner": stamp.owner,
            "source": stamp.source,
            "place (uri)": stamp.uri,
            "program (fetched_by)": stamp.fetched_by,
            "run (run_id)": stamp.run_id,
        }
        missing = [name for name, value in fields.items() if not value.strip()]
        if missing:
            yield self._finding("missing", Severity.HIGH, 0.9, f"The stamp lacks: {', '.join(missing)}.")
        if not re.fullmatch(r"[0-9a-f]{64}", stamp.content_sha256):
            yield self._finding(
                "hash", Severity.HIGH, 0.9, "The stamp's digest of the bytes is not a SHA-256 in hexadecimal."
            )
        elif version.doc_id != domain.doc_id(stamp.source, stamp.uri) or version.version_id != domain.version_id(
            version.doc_id, stamp.content_sha256
        ):
            message = "The id of the document or of the version does not follow from source, place and bytes."
            yield self._finding("identity", Severity.HIGH, 0.9, message)
        empty = stamp.content_sha256 == _EMPTY_SHA256
        if stamp.size < 0 or (stamp.size == 0) != empty or (empty and (version.text or version.hidden)):
            message = f"The stamp says {stamp.size:,} bytes; its digest or the text contradicts that."
            yield self._finding("size", Severity.MEDIUM, 0.6, message)

    def _times(self, stamp: Stamp, declared: Mapping[str, str]) -> Iterator[Finding]:
        dates: dict[str, datetime] = {}
        for key in sorted(_DATE_KEYS & declared.keys()):
            date = parse_date(declared[key])
            if date is None:
                if declared[key].strip():
                    yield self._finding(
                        "unreadable_date", Severity.INFO, 0.05, f"The declared date “{key}” cannot be read."
                    )
                continue
            dates[key] = date
        storage = {"modification time of the storage": _aware(stamp.modified_at)} if stamp.modified_at else {}
        fetched = _aware(stamp.fetched_at)
        for key, date in {**dates, **storage}.items():
            ahead = (date - fetched) // _DAY
            if date - fetched > _DAY:
                far = ahead >= self.params.far_days
                message = f"The date “{key}” lies {plural(ahead, 'day')} after the document was fetched."
                yield self._finding("future", Severity.MEDIUM if far else Severity.LOW, 0.5 if far else 0.25, message)
        for key in sorted(dates.keys() & (_CREATED_KEYS | MODIFIED_KEYS)):
            if dates[key].year < self.params.earliest_year:
                message = f"The date “{key}” is in {dates[key].year}, before {self.params.earliest_year}."
                yield self._finding("ancient", Severity.LOW, 0.2, message)
        created = [dates[key] for key in sorted(dates.keys() & _CREATED_KEYS)]
        modified = [dates[key] for key in sorted(dates.keys() & MODIFIED_KEYS)]
        if created and modified and min(created) - max(modified) > _DAY:
            message = (
                f"Declared as created {plural((min(created) - max(modified)) // _DAY, 'day')} after its last change."
            )
            yield self._finding("order", Severity.LOW, 0.25, message)

    def _claims(self, stamp: Stamp, declared: Mapping[str, str]) -> Iterator[Finding]:
        own = {
            "trust": stamp.trust.value,
            "trust_level": stamp.trust.value,
            "source": stamp.source,
            "owner": stamp.owner,
        }
        claimed = [key for key in (*_RESERVED_KEYS, "source", "owner") if key in declared]
        contradicted = [key for key in claimed if declared[key].strip().casefold() != own.get(key, "").casefold()]
        if not contradicted:
            pass
        elif stamp.trust is TrustLevel.OPEN and set(contradicted) & set(_RESERVED_KEYS):
            message = f"A document of an open source claims a trust of its own: it declares {', '.join(contradicted)}."
            yield self._finding("claims_trust", Severity.MEDIUM, 0.5, message)
        else:
            message = f"The document's declarations contradict its stamp: {', '.join(contradicted)}."
            yield self._finding("contradiction", Severity.LOW, 0.15, message)
        if stamp.trust is TrustLevel.OPEN:
            authors = sorted(AUTHOR_KEYS & declared.keys())
            vouching = [key for key in _VOUCHING_KEYS if key in declared]
            vouching += [key for key in authors if _AUTHORITY.search(declared[key][:500].casefold())]
            if vouching:
                message = f"A document of an open source claims authority: it declares {', '.join(vouching)}."
                yield self._finding("claims_authority", Severity.LOW, 0.3, message)

    def _finding(self, code: str, severity: Severity, score: float, message: str) -> Finding:
        tags = () if severity is Severity.INFO else ("supply_chain", "poisoning")
        return self.finding(code, severity, score, message, tags=tags)


def parse_date(text: str) -> datetime | None:
    """Return a declared date, in UTC; None where its meaning is not certain.

    A year or month alone is its first day.
    """
    text = text.strip()
    if not 4 <= len(text) <= 64 or not text.isascii():
        return None
    for parse in (_parse_iso, _parse_pdf, parsedate_to_datetime, _parse_words):
        try:
            date = parse(text)
            if date is not None:
                return _aware(date).astimezone(UTC)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue  # another form, or a date that does not exist
    return None


def _parse_iso(text: str) -> datetime | None:
    year_first = re.fullmatch(r"(\d{4})(?:[-/](\d\d?))?(?:[-/](\d\d?))?", text)
    if year_first:
        year, month, day = (int(part or 1) for part in year_first.groups())
        return datetime(year, month, day, tzinfo=UTC)
    return datetime.fromisoformat(text)


def _parse_pdf(text: str) -> datetime | None:
    match = _PDF_DATE.fullmatch(text)
    if not match:
        return None
    year, month, day, hour, minute, second = (int(part) if part else None for part in match.groups()[:6])
    offset = timedelta(hours=int(match[8] or 0), minutes=int(match[9] or 0)) * (-1 if match[7] == "-" else 1)
    zone = timezone(offset)
    return datetime(year or 0, month or 1, day or 1, hour or 0, minute or 0, second or 0, tzinfo=zone)


def _parse_words(text: str) -> datetime | None:
    for date_format in _DATE_FORMATS:
        try:
            return datetime.strptime(text, date_format).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def normalise_key(key: str) -> str:
    """Return the plain name of a declared key: ``creator`` for ``dc:Creator`` and for ``Creator``."""
    return re.split(r"[:.]", key.strip().casefold())[-1].lstrip("/").replace("-", "_").replace(" ", "_")
