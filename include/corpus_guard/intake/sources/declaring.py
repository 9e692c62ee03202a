"""Declarations of sources as people write them: read one, try it beside those of ``sources.yaml``, append it there.

Rules
    * what is appended is text: comments, order and spelling of what stands there are not touched;
    * the new text is read back before it replaces the old: it must say what the old one said, and the new source last;
    * the file is replaced whole or not at all, keeps its mode, and where it is a link its target is replaced;
    * two who append at once take turns.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from corpus_guard.errors import Misuse, SettingsError
from corpus_guard.intake.sources.config import SourceConfig, load_sources
from corpus_guard.intake.sources.source import Source, public_url

Declaration = Mapping[str, Any]
"""One entry of ``sources:``, not validated yet."""


def place(config: SourceConfig) -> str:
    """Where a declared source lies, without user, password and query: its URL, or the list it reads; "" where it names neither."""
    said = (getattr(config, name, None) for name in ("url", "sitemap", "feed"))
    pages = tuple(getattr(config, "pages", None) or ())[:1]
    return public_url(str(next((one for one in (*said, *pages) if one), "")))


def read_declaration(text: str, where: str) -> Declaration:
    """One declaration from YAML: keys and values, or a file like ``sources.yaml`` that holds exactly one.

    Raises:
        Misuse: it is no YAML, or holds none or several.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Misuse(f"{where}: not valid YAML ({getattr(error, 'problem', None) or 'unreadable'})") from None
    if isinstance(data, dict) and isinstance(data.get("sources"), list) and len(data["sources"]) == 1:
        data = data["sources"][0]
    if not isinstance(data, dict) or "sources" in data:
        raise Misuse(f"{where}: expected one source (name, kind, url, owner, trust), got something else")
    return data


def declaration_of(fields: Mapping[str, str], more: Sequence[str]) -> Declaration:
    """One declaration from options.

    Args:
        fields: values that are texts, by key; empty ones are left out.
        more: ``key=value``; a dot in the key goes a level down, the value is YAML.

    Raises:
        Misuse: an entry of `more` is not of that form.
    """
    found: dict[str, Any] = {key: value for key, value in fields.items() if value}
    for entry in more:
        key, equals, value = entry.partition("=")
        if not equals or not all(key.split(".")):
            raise Misuse(f"--set {entry!r}: expected key=value, such as fields.id=ticket")
        *above, last = key.split(".")
        level = found
        for name in above:
            level = level.setdefault(name, {})
            if not isinstance(level, dict):
                raise Misuse(f"--set {entry!r}: {name} has a value already, nothing can stand below it")
        try:
            level[last] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise Misuse(f"--set {entry!r}: the value is no YAML; put quotes around it") from None
    return found


def open_declaration(path: Path, given: Declaration, *, max_bytes: int, cache: Path | None = None) -> Source:
    """The connector for a declaration that is not in ``sources.yaml``, as if it were its last; contacts nothing.

    Raises:
        SettingsError: something of it is wrong, or its name is taken.
    """
    with _draft(path, with_appended(_text(path), given, str(path))) as draft:
        return _sources(draft, path, max_bytes, cache)[-1]


def append(path: Path, given: Declaration, *, max_bytes: int) -> None:
    """Append a declaration to ``sources.yaml``.

    Raises:
        SettingsError: something of it is wrong, or its name is taken; nothing was written.
        Misuse: the file is written in a way that text cannot be appended to.
    """
    target = path.resolve()
    with _alone(target.parent):
        text = with_appended(_text(path), given, str(path))
        with _draft(path, text) as draft:
            _sources(draft, path, max_bytes)
            if target.exists():
                shutil.copymode(target, draft)
            draft.replace(target)


def with_appended(text: str, given: Declaration, where: str) -> str:
    """`text` of a ``sources.yaml`` with one more source at the end of its list.

    Raises:
        Misuse: the list is not one entry a line, or `text` is no YAML.
    """
    try:
        before = yaml.safe_load(text) or {}
        node = _list_node(text)
        new = _insert(text, node, given)
        after = yaml.safe_load(new)
    except (yaml.YAMLError, ValueError):
        before, after, new = {}, None, ""
    listed = (before.get("sources") or []) if isinstance(before, dict) else None
    if listed is None or after != {**before, "sources": [*listed, dict(given)]}:
        raise Misuse(
            f"{where}: its list of sources is not written one entry a line (- name: …), so nothing can be appended; "
            "add the source by hand, or write the list so"
        )
    return new


def _insert(text: str, node: yaml.Node | None, given: Declaration) -> str:
    line_break = "\r\n" if "\r\n" in text else "\n"
    if node is None:
        head = text if not text or text.endswith("\n") else text + line_break
        return head + "sources:" + line_break + _entry(given, 2, line_break)
    if isinstance(node, yaml.SequenceNode) and node.value:
        if node.flow_style:
            raise ValueError("in brackets")
        end, indent = _end(node.value[-1]), node.start_mark.column
        between = text[node.value[-2].start_mark.index : node.value[-1].start_mark.index] if node.value[1:] else ""
        gap = line_break if "\n" + line_break in between else ""
    else:  # `sources:` or `sources: []`
        text = text[: node.start_mark.index] + text[node.end_mark.index :]
        end, indent, gap = node.start_mark.index, 2, ""
    cut = text.find("\n", end)
    head, rest = (text[: cut + 1], text[cut + 1 :]) if cut >= 0 else (text + line_break, "")
    return head + gap + _entry(given, indent, line_break) + rest


def _list_node(text: str) -> yaml.Node | None:
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    if top is None:
        return None
    if not isinstance(top, yaml.MappingNode):
        raise ValueError("no mapping")  # noqa: TRY004 - one kind of failure here
    return next((value for key, value in top.value if key.value == "sources"), None)


def _end(node: yaml.Node) -> int:
    """Index of the last character that belongs to a node; the end mark of a block lies behind comments that follow it."""
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return _end(node.value[-1])
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return _end(node.value[-1][1])
    behind = isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}
    return int(node.end_mark.index) - (1 if behind else 0)


def _entry(given: Declaration, indent: int, line_break: str) -> str:
    lines = _dumped(given).rstrip("\n").split("\n")
    first, rest = lines[0], lines[1:]
    pad = " " * indent
    return "".join(f"{line}{line_break}" for line in (f"{pad}- {first}", *(f"{pad}  {line}" for line in rest)))


def _dumped(given: Declaration) -> str:
    readable = yaml.safe_dump(dict(given), sort_keys=False, allow_unicode=True, width=1_000)
    if readable.replace("\n", "").isprintable():
        return readable
    return yaml.safe_dump(dict(given), sort_keys=False, width=1_000)  # what cannot be seen is escaped


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:  # line ends as they are
            return file.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: cannot be read; expected a UTF-8 YAML file") from None


def _sources(draft: Path, path: Path, max_bytes: int, cache: Path | None = None) -> tuple[Source, ...]:
    try:
        return load_sources(draft, max_bytes=max_bytes, cache=cache)
    except SettingsError as error:
        raise SettingsError(str(error).replace(str(draft), str(path))) from None


@contextlib.contextmanager
def _draft(path: Path, text: str) -> Iterator[Path]:
    """`text` in a hidden file beside `path`, where relative URLs mean the same; removed at the end."""
    draft = path.resolve().with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    except PermissionError:
        raise SettingsError(
            f"{path.resolve().parent}: cannot be written, so no source can be tried or added beside {path.name}; copy the file, "
            "and set CORPUS_GUARD_SOURCES_FILE to the copy"
        ) from None
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
