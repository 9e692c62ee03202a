"""What Office documents (ECMA-376) have in common: relationships, properties, and what a document brings besides its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.formats._container import Container, parse_xml, resolve
from corpus_guard.intake.parsing.formats._hidden import Hidden
from corpus_guard.intake.parsing.parsed import problem

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_STRICT = {
    b"http://purl.oclc.org/ooxml/wordprocessingml/main": W,
    b"http://purl.oclc.org/ooxml/drawingml/main": A,
    b"http://purl.oclc.org/ooxml/presentationml/main": P,
    b"http://purl.oclc.org/ooxml/spreadsheetml/main": S,
    b"http://purl.oclc.org/ooxml/officeDocument/relationships": R,
}
_PROPERTIES = {"title": "title", "creator": "author", "subject": "subject", "created": "date", "modified": "modified"}
_PROSE = ("title", "subject", "description", "keywords", "category", "contentStatus", "creator", "lastModifiedBy")
_COMPANY = ("Company", "Manager", "HyperlinkBase")  # the rest is counted and named by the program
_LIVE = (
    "oleobject",
    "frame",
    "attachedtemplate",
    "subdocument",
    "externallinkpath",
    "externallink",
    "package",
    "control",
)


@dataclass(frozen=True, slots=True)
class Relation:
    """Where a relationship leads."""

    kind: str  # the last word of its type
    target: str  # a part's name, or an address where it is external
    external: bool


def relations(container: Container, part: str) -> Mapping[str, Relation]:
    """The relationships of a part, by id."""
    folder, _, name = part.rpartition("/")
    root = container.xml(f"{folder}/_rels/{name}.rels" if folder else f"_rels/{name}.rels")
    found: dict[str, Relation] = {}
    for child in root if root is not None else ():
        if not isinstance(child.tag, str):
            continue
        goal, external = child.get("Target", ""), child.get("TargetMode", "") == "External"
        kind = child.get("Type", "").rpartition("/")[2]
        found[child.get("Id", "")] = Relation(kind, goal if external else resolve(part, goal), external)
    return found


def transitional(part: bytes) -> bytes:
    """The same XML in the namespaces that most writers use; the strict ones differ in nothing that is read here."""
    for strict, usual in _STRICT.items():
        if strict in part:
            part = part.replace(strict, usual[1:-1].encode())
    return part


def part_xml(part: bytes, what: str) -> Any:
    """As `parse_xml`, in the transitional namespaces."""
    return parse_xml(transitional(part), what)


def office_xml(container: Container, name: str, *, needed: bool = False) -> Any:
    """As `Container.xml`, in the transitional namespaces."""
    part = container.part(name)
    return container.xml(name, needed=needed) if part is None else part_xml(part, container.what)


def properties(container: Container, hidden: Hidden) -> dict[str, str]:
    """What the document declares of itself; its prose goes to `hidden`."""
    declared: dict[str, str] = {}
    for name in ("docProps/core.xml", "docProps/app.xml", "docProps/custom.xml"):
        try:
            root = container.xml(name)
        except Unreadable:
            continue  # only claims are lost
        for child in root.iter() if root is not None else ():
            if not isinstance(child.tag, str) or not (child.text or "").strip():
                continue
            key = child.tag.rpartition("}")[2]
            if name.endswith("core.xml") and key in _PROPERTIES:
                declared[_PROPERTIES[key]] = child.text
            if key in (_COMPANY if name.endswith("app.xml") else _PROSE) or name.endswith("custom.xml"):
                hidden.add("metadata", child.text)
    return declared


def cargo(container: Container) -> tuple[Finding, ...]:
    """Findings on macros, embedded objects and parts that are kept elsewhere. Nothing of it is opened."""
    problems = list(container.problems)
    names = [name.lower() for name in container.names]
    kinds = (container.part("[Content_Types].xml") or b"").lower()
    if b"macroenabled" in kinds or any(name.endswith(("vbaproject.bin", "vbadata.xml")) for name in names):
        message = f"the {container.what} holds macros; they were not read and nothing was run"
        problems.append(problem("macros", Severity.HIGH, message))
    objects = [
        name
        for name in names
        if ("/embeddings/" in name and not name.endswith((".xlsx", ".docx", ".pptx"))) or "/activex/" in name
    ]
    if objects:
        message = f"the {container.what} embeds {len(objects)} objects of other programs; they were not read"
        problems.append(problem("embedded", Severity.MEDIUM, message))
    remote = 0
    for name, _ in container.matching(r".*\.rels"):
        folder, _, base = name.removesuffix(".rels").rpartition("_rels/")
        for relation in relations(container, folder + base).values():
            if relation.external and (relation.kind.lower() in _LIVE or relation.target.lower().startswith("file:")):
                remote += 1
    if remote:
        message = f"{remote} parts of the {container.what} are kept elsewhere and would be fetched by its reader"
        problems.append(problem("remote", Severity.MEDIUM, message))
    return tuple(problems)


def paragraphs(body: Any) -> list[str]:
    """The paragraphs below a DrawingML element, as text."""
    return [text for each in body.iter(f"{A}p") if (text := run_text(each)).strip()]


def run_text(paragraph: Any) -> str:
    """The text of one DrawingML paragraph: runs, fields and line breaks."""
    signs = {f"{A}br": "\n", f"{A}tab": "\t"}
    return "".join(signs.get(each.tag) or each.text or "" for each in paragraph.iter(f"{A}t", *signs))
