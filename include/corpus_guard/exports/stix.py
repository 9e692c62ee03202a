"""STIX 2.1 bundle of a case, for sharing: the accused files by hash, indicators that find them again, and a report.

Rules
    * an object's id follows from its content: exported twice, it is the same object, and a receiver updates it;
    * a file is named as it is in its source, percent-encoded, and described by its hash; no text is exported;
    * everything is marked TLP:AMBER: places and names may be confidential. Whoever shares it further changes that knowingly.

The bundle is written here and not by the library `stix2`: seven kinds of objects do not need its
pattern parser. The tests validate it against the published schemas.

Source: OASIS STIX 2.1, 2021-06-10.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from corpus_guard.domain import canonical_json
from corpus_guard.exports.findings import POISONING, TAXA, escape_unprintable, portable_uri

if TYPE_CHECKING:
    from corpus_guard.forensics.cases import Case
    from corpus_guard.forensics.root_cause import RootCause
    from corpus_guard.forensics.scope import AccusedVersion, Scope

Object = dict[str, Any]
"""A STIX object, JSON-ready."""
SPEC: Final = "2.1"
OBSERVABLES: Final = uuid.UUID("00abedb4-aa42-466c-9c01-fed23315a9b7")
"""Namespace of the ids of observables (STIX 2.1, 2.9)."""
OURS: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "corpus-guard.invalid")
"""Namespace of all other ids."""
TLP_AMBER: Final[Object] = {
    "type": "marking-definition",
    "spec_version": SPEC,
    "id": "marking-definition--f88d31f6-486f-44da-b317-01333bde0b82",
    "created": "2017-01-20T00:00:00.000Z",
    "definition_type": "tlp",
    "name": "TLP:AMBER",
    "definition": {"tlp": "amber"},
}


def format_bundle(case: Case, scope: Scope, cause: RootCause, written_at: datetime) -> Object:
    """Return the bundle, JSON-ready."""
    created, modified = _time(case.opened_at), _time(max(written_at, case.opened_at))
    identity = _own("identity", "corpus-guard", created, created, None, name="Corpus Guard", identity_class="system")
    author = identity["id"]
    pattern = _own(
        "attack-pattern",
        POISONING,
        created,
        created,
        author,
        name=TAXA[POISONING].name,
        external_references=[{"source_name": "mitre-atlas", "external_id": TAXA[POISONING].uid}],
    )
    objects = [TLP_AMBER, identity, pattern]
    for version in scope.accused:
        objects += _accused(version, case, author, pattern["id"], modified)
    objects = list({each["id"]: each for each in objects}.values())  # equal files of two documents are one
    description = escape_unprintable(" ".join(cause.sentences))
    incident = _own(
        "incident",
        case.case_id,
        created,
        modified,
        author,
        name=escape_unprintable(case.title),
        description=description,
        external_references=[{"source_name": "corpus-guard", "external_id": case.case_id}],
    )
    report = _own(
        "report",
        case.case_id,
        created,
        modified,
        author,
        name=escape_unprintable(case.title),
        description=escape_unprintable(case.conclusion) or description,
        report_types=["indicator", "observed-data"],
        published=modified,
        object_refs=[each["id"] for each in (*objects[1:], incident)],
    )
    return {
        "type": "bundle",
        "id": f"bundle--{uuid.uuid5(OURS, f'bundle {case.case_id} {modified}')}",
        "objects": [*objects, incident, report],
    }


def _accused(version: AccusedVersion, case: Case, author: str, pattern_id: str, modified: str) -> list[Object]:
    """Return the file of an accused version, the indicator for it, when it was seen, and how they belong together."""
    created = _time(case.opened_at)
    name = portable_uri(version.uri).rpartition("/")[2] or "unnamed"
    hashes = {"SHA-256": version.content_sha256}
    file: Object = {
        "type": "file",
        "spec_version": SPEC,
        "id": f"file--{uuid.uuid5(OBSERVABLES, canonical_json({'hashes': hashes, 'name': name}).decode())}",
        "hashes": hashes,
        "name": name,
        "object_marking_refs": [TLP_AMBER["id"]],
    }
    fetched = _time(datetime.fromisoformat(version.fetched_at))
    key = f"{case.case_id} {version.version_id}"
    indicator = _own(
        "indicator",
        key,
        created,
        modified,
        author,
        name=f"Accused document {portable_uri(version.uri)}",
        description=f"source {escape_unprintable(version.source)}, version {version.version_id}",
        indicator_types=["malicious-activity"],
        pattern=f"[file:hashes.'SHA-256' = '{version.content_sha256}']",
        pattern_type="stix",
        pattern_version=SPEC,
        valid_from=fetched,
    )
    observed = _own(
        "observed-data",
        key,
        created,
        modified,
        author,
        first_observed=fetched,
        last_observed=fetched,
        number_observed=1,
        object_refs=[file["id"]],
    )
    indicates = _own(
        "relationship",
        key,
        created,
        created,
        author,
        relationship_type="indicates",
        source_ref=indicator["id"],
        target_ref=pattern_id,
    )
    return [file, indicator, observed, indicates]


def _own(kind: str, key: str, created: str, modified: str, author: str | None, **fields: object) -> Object:
    made: Object = {
        "type": kind,
        "spec_version": SPEC,
        "id": f"{kind}--{uuid.uuid5(OURS, f'{kind} {key}')}",
        "created": created,
        "modified": modified,
        "object_marking_refs": [TLP_AMBER["id"]],
        **fields,
    }
    return made if author is None else {**made, "created_by_ref": author}


def _time(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03}Z"
