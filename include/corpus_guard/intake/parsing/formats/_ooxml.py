"""Common parts of Office documents (ECMA-376): relationships, properties, and active or embedded content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.document import make_problem
from corpus_guard.intake.parsing.formats._container import ZipContainer, parse_xml, resolve_part_name
from corpus_guard.intake.parsing.formats._hidden import HiddenText

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_STRICT = {
    b"http://purl.oclc.org/ooxml/wordprocessingml/main": W,
    b"http://purl.oclc.org/ooxml/drawingml/main": A,
    b"http://purl.oclc.org/ooxml/presentationml/main": P,
    b"http://purl.oclc.org/ooxml/spreadsheetml/main": S,
    b"http://purl.oclc.org/ooxml/officeDocument/relationships": R,
}
_PROPERTIES = {"title": "title", "creator": "author", "subject": "subject", "created": "date", "modified": "modified"}
_CORE_PROSE = ("title", "subject", "description", "keywords", "category", "contentStatus", "creator", "lastModifiedBy")
_APP_PROSE = ("Company", "Manager", "HyperlinkBase")  # the program counts and names the rest
_LIVE_KINDS = frozenset({"oleobject", "frame", "attachedtemplate", "subdocument", "package", "control"})
_LINKED_KINDS = frozenset({"externallinkpath", "externallink"})  # other workbooks, whose values the cells keep
_UNDERSTOOD = re.compile(r"http://schemas\.(?:microsoft\.com/office|openxmlformats\.org)/|urn:schemas-microsoft-com:")
"""Namespaces that today's office programs know."""
_OWN_DISK = re.compile(r"(?:file:/{0,3})?[a-z]:[\\/]|(?![a-z][a-z0-9+.-]*:|[\\/]{2})", re.IGNORECASE)
"""A path with a drive or none, such as that of a template: no address, and no other machine's folder."""


@dataclass(frozen=True, slots=True)
class Relationship:
    """A relationship from a part to its target."""

    kind: str  # the last word of its type
    target: str  # a part's name, or an address where it is external
    external: bool


def read_relationships(container: ZipContainer, part: str) -> Mapping[str, Relationship]:
    """Return the relationships of a part, by id."""
    folder, _, name = part.rpartition("/")
    root = container.xml(f"{folder}/_rels/{name}.rels" if folder else f"_rels/{name}.rels")
    relationships: dict[str, Relationship] = {}
    for child in root if root is not None else ():
        if not isinstance(child.tag, str):
            continue
        target, external = child.get("Target", ""), child.get("TargetMode", "") == "External"
        kind = child.get("Type", "").rpartition("/")[2]
        if not external:
            target = resolve_part_name(part, target)
        relationships[child.get("Id", "")] = Relationship(kind, target, external)
    return relationships


def to_transitional(part: bytes) -> bytes:
    """Return the same XML in the transitional namespaces; the strict ones differ in nothing that is read here."""
    for strict, usual in _STRICT.items():
        if strict in part:
            part = part.replace(strict, usual[1:-1].encode())
    return part


def parse_part(part: bytes, what: str) -> Element:
    """Parse XML as `parse_xml` does, in the transitional namespaces."""
    return parse_xml(to_transitional(part), what)


def read_part_xml(container: ZipContainer, name: str) -> Element | None:
    """Read a part as `ZipContainer.xml` does, in the transitional namespaces."""
    part = container.part(name)
    return parse_part(part, container.what) if part is not None else None


def read_main_xml(container: ZipContainer, name: str) -> Element:
    """Read the main part as `ZipContainer.main_xml` does, in the transitional namespaces."""
    return parse_part(container.main_part(name), container.what)


def find_main_part(container: ZipContainer, usual: str) -> str:
    """Return the name of the part that the package names as the document; `usual` where it names none."""
    return next(find_related(container, "", "officeDocument"), usual)


def find_related(container: ZipContainer, part: str, *kinds: str) -> Iterator[str]:
    """Yield the names of the parts that a part, or the package (""), is related to in such a way."""
    for relationship in read_relationships(container, part).values():
        if relationship.kind in kinds and not relationship.external:
            yield relationship.target


def choose_alternatives(root: Element) -> list[Element]:
    """Leave of alternative contents what today's programs show; return the others.

    That is the first choice whose namespaces they know, else the fallback.
    """
    others: list[Element] = []
    for alternatives in list(root.iter(f"{MC}AlternateContent")):
        parent = alternatives.getparent()
        if parent is None:
            continue
        contents = [child for child in alternatives if child.tag in {f"{MC}Choice", f"{MC}Fallback"}]
        chosen = next((content for content in contents if _is_understood(content)), None)
        others += [content for content in contents if content is not chosen]
        position = parent.index(alternatives)
        parent[position : position + 1] = list(chosen) if chosen is not None else []
    return others


def hide_alternatives(root: Element, hidden: HiddenText) -> None:
    """Leave of alternative contents what today's programs show; add the paragraphs of the others to `hidden`."""
    for other in choose_alternatives(root):
        for line in read_paragraphs(other):
            hidden.add("unused", line)


def _is_understood(content: Element) -> bool:
    if content.tag == f"{MC}Fallback":
        return True
    prefixes = content.get("Requires", "").split()
    return bool(prefixes) and all(_UNDERSTOOD.match(content.nsmap.get(prefix) or "") for prefix in prefixes)


def is_on(switch: Element | None) -> bool:
    """Return whether a switch of WordprocessingML is on; a missing one is off."""
    return switch is not None and switch.get(f"{W}val", "true") not in {"0", "false", "off"}


def read_properties(container: ZipContainer, hidden: HiddenText) -> dict[str, str]:
    """Return the properties that the document declares; add their prose to `hidden`."""
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
            if key in (_APP_PROSE if name.endswith("app.xml") else _CORE_PROSE) or name.endswith("custom.xml"):
                hidden.add("metadata", child.text)
    return declared


def find_active_content(container: ZipContainer) -> tuple[Finding, ...]:
    """Return findings on macros, embedded objects and remote parts, without opening any of them."""
    problems = list(container.problems)
    names = [name.lower() for name in container.names]
    kinds = (container.part("[Content_Types].xml") or b"").lower()
    if b"macroenabled" in kinds or any(name.endswith(("vbaproject.bin", "vbadata.xml")) for name in names):
        message = f"the {container.what} holds macros; they were not read and nothing was run"
        problems.append(make_problem("macros", Severity.HIGH, message))
    controls = sum("/activex/" in name for name in names)
    if controls:
        message = f"the {container.what} holds {controls} controls of other programs; they were neither read nor run"
        problems.append(make_problem("controls", Severity.MEDIUM, message))
    shown = sum(
        relation.kind.lower() == "afchunk"
        for name, _ in container.matching(r".*\.rels")
        for relation in read_relationships(container, _described_part(name)).values()
    )
    if shown:
        message = f"the {container.what} shows {shown} other documents within itself; they were not read"
        problems.append(make_problem("not_read", Severity.MEDIUM, message))
    objects = sum("/embeddings/" in name for name in names)
    if objects:
        # The sheet behind a chart, formulas of another editor: what is not read is not published.
        message = f"the {container.what} embeds {objects} objects of other programs; they were not read"
        problems.append(make_problem("embedded", Severity.LOW, message, score=0.2))
    places = Counter(
        _find_place(relation)
        for name, _ in container.matching(r".*\.rels")
        for relation in read_relationships(container, _described_part(name)).values()
        if relation.external
    )
    if remote := places["remote"]:
        message = f"{remote} parts of the {container.what} lie elsewhere; its reader would fetch them"
        problems.append(make_problem("remote", Severity.MEDIUM, message))
    elif linked := places["linked"]:
        message = f"the {container.what} names {linked} files of its author's disk or network; they were not read"
        problems.append(make_problem("linked", Severity.LOW, message, score=0.2))
    return tuple(problems)


def _described_part(rels: str) -> str:
    folder, _, base = rels.removesuffix(".rels").rpartition("_rels/")
    return folder + base


def _find_place(relation: Relationship) -> str:
    """Return "remote" for what a reader fetches from elsewhere, "linked" for other files; empty for addresses of pages."""
    kind, is_file = relation.kind.lower(), relation.target.lower().startswith("file:")
    if kind in _LINKED_KINDS or (kind == "hyperlink" and is_file):
        return "linked"
    if kind not in _LIVE_KINDS and not is_file:
        return ""
    return "linked" if _OWN_DISK.match(relation.target) else "remote"


def read_paragraphs(body: Element) -> list[str]:
    """Return the paragraphs below a DrawingML element, as text."""
    return [text for paragraph in body.iter(f"{A}p") if (text := read_runs(paragraph)).strip()]


def read_runs(paragraph: Element) -> str:
    """Return the text of one DrawingML paragraph: runs, fields and line breaks."""
    signs = {f"{A}br": "\n", f"{A}tab": "\t"}
    return "".join(signs.get(run.tag) or run.text or "" for run in paragraph.iter(f"{A}t", *signs))
