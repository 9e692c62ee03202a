"""New declarations for ``sources.yaml``: parse one, try it beside the others, append it to the file.

Rules
    * a declaration is appended as text: comments, order and spelling of the others are not touched;
    * the new text is read back before it replaces the old: it must hold the old declarations, and the new one
      last;
    * the file is replaced whole or not at all, keeps its mode, and where it is a link its target is replaced;
    * two processes that append at once take turns.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from corpus_guard.errors import Misuse, SettingsError
from corpus_guard.intake.sources.config import SourceConfig
from corpus_guard.intake.sources.source import Source, public_url
from corpus_guard.intake.sources.sources_file import SourcesFile, load_sources
from corpus_guard.settings import load_yaml
from corpus_guard.yaml_text import parse_yaml

Declaration: TypeAlias = Mapping[str, object]
"""One entry of ``sources:``, not validated yet."""


def source_location(config: SourceConfig) -> str:
    """Return the URL of a source or of the list it reads, without user, password and query; "" where it has none."""
    urls = (getattr(config, name, None) for name in ("url", "sitemap", "feed"))
    pages = tuple(getattr(config, "pages", None) or ())[:1]
    return public_url(str(next((url for url in (*urls, *pages) if url), "")))


def parse_declaration(text: str, where: str) -> Declaration:
    """Parse one declaration from YAML: its keys and values, or a file like ``sources.yaml`` that holds exactly one.

    Raises:
        SettingsError: the text is not valid YAML.
        Misuse: it holds no declaration or several.
    """
    data = parse_yaml(text, where)
    if isinstance(data, dict) and isinstance(data.get("sources"), list) and len(data["sources"]) == 1:
        data = data["sources"][0]
    if not isinstance(data, dict) or "sources" in data:
        raise Misuse(f"{where}: expected one source (name, kind, url, owner, trust), got something else")
    return data


def declaration_from_options(fields: Mapping[str, str], settings: Sequence[str]) -> Declaration:
    """Build one declaration from command-line options.

    Args:
        fields: text values by key; empty ones are left out.
        settings: ``key=value``; a dot in the key goes a level down, the value is YAML.

    Raises:
        Misuse: an entry of `settings` is not of that form.
    """
    declaration: dict[str, Any] = {key: value for key, value in fields.items() if value}
    for entry in settings:
        key, equals, value = entry.partition("=")
        if not equals or not all(key.split(".")):
            raise Misuse(f"--set {entry!r}: expected key=value, such as fields.id=ticket")
        *parents, last = key.split(".")
        level = declaration
        for name in parents:
            level = level.setdefault(name, {})
            if not isinstance(level, dict):
                raise Misuse(f"--set {entry!r}: {name} already has a value, so it cannot have keys below it")
        try:
            level[last] = parse_yaml(value, entry)
        except SettingsError:
            raise Misuse(f"--set {entry!r}: the value is not valid YAML; put quotes around it") from None
    return declaration


def open_declaration(path: Path, declaration: Declaration, *, max_bytes: int, cache: Path | None = None) -> Source:
    """Return the source of a declaration as if it were the last of ``sources.yaml``; contact nothing.

    Raises:
        SettingsError: something in it is wrong, or its name is in use.
    """
    with _write_draft(path, append_to_text(_read_text(path), declaration, str(path))) as draft:
        return _load_draft(draft, path, declaration, max_bytes, cache)[-1]


def append_declaration(path: Path, declaration: Declaration, *, max_bytes: int) -> None:
    """Append a declaration to ``sources.yaml``.

    Raises:
        SettingsError: something in it is wrong, or its name is in use; nothing was written.
        Misuse: the file's list of sources is written in a form that text cannot be appended to.
    """
    target = path.resolve()
    with _locked(target.parent):
        text = append_to_text(_read_text(path), declaration, str(path))
        with _write_draft(path, text) as draft:
            _load_draft(draft, path, declaration, max_bytes)
            if target.exists():
                shutil.copymode(target, draft)
            draft.replace(target)


def append_to_text(text: str, declaration: Declaration, where: str) -> str:
    """Return the `text` of a ``sources.yaml`` with one more source at the end of its list.

    Raises:
        SettingsError: `text` is not valid YAML.
        Misuse: the list is not written with one entry per line.
    """
    before = parse_yaml(text, where) or {}
    try:
        node = _find_sources_node(text)
        new = _insert(text, node, declaration)
        after = parse_yaml(new, where)
    except (SettingsError, ValueError):
        after, new = None, ""
    listed = (before.get("sources") or []) if isinstance(before, dict) else None
    if not isinstance(listed, list) or after != {**before, "sources": [*listed, dict(declaration)]}:
        raise Misuse(
            f"{where}: its list of sources is not written with one entry per line (- name: …), so nothing can be appended; "
            "add the source by hand, or rewrite the list in that form"
        )
    return new


def _insert(text: str, node: yaml.Node | None, declaration: Declaration) -> str:
    line_break = "\r\n" if "\r\n" in text else "\n"
    if node is None:
        head = text if not text or text.endswith("\n") else text + line_break
        return head + "sources:" + line_break + _format_entry(declaration, 2, line_break)
    if isinstance(node, yaml.SequenceNode) and node.value:
        if node.flow_style:
            raise ValueError("the list is written in brackets")
        end, indent = _end(node.value[-1]), node.start_mark.column
        between = text[node.value[-2].start_mark.index : node.value[-1].start_mark.index] if node.value[1:] else ""
        gap = line_break if "\n" + line_break in between else ""
    else:  # `sources:` or `sources: []`
        text = text[: node.start_mark.index] + text[node.end_mark.index :]
        end, indent, gap = node.start_mark.index, 2, ""
    cut = text.find("\n", end)
    head, rest = (text[: cut + 1], text[cut + 1 :]) if cut >= 0 else (text + line_break, "")
    return head + gap + _format_entry(declaration, indent, line_break) + rest


def _find_sources_node(text: str) -> yaml.Node | None:
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    if top is None:
        return None
    if not isinstance(top, yaml.MappingNode):
        raise ValueError("the file is not a mapping")  # noqa: TRY004 - the caller expects one kind of error
    return next((value for key, value in top.value if key.value == "sources"), None)


def _end(node: yaml.Node) -> int:
    """Return the index of the last character of a node: a block's end mark lies behind the comments that follow it."""
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return _end(node.value[-1])
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return _end(node.value[-1][1])
    behind = isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}
    return int(node.end_mark.index) - (1 if behind else 0)


def _format_entry(declaration: Declaration, indent: int, line_break: str) -> str:
    lines = _dump(declaration).rstrip("\n").split("\n")
    first, rest = lines[0], lines[1:]
    pad = " " * indent
    return "".join(f"{line}{line_break}" for line in (f"{pad}- {first}", *(f"{pad}  {line}" for line in rest)))


def _dump(declaration: Declaration) -> str:
    readable = yaml.safe_dump(dict(declaration), sort_keys=False, allow_unicode=True, width=1_000)
    if readable.replace("\n", "").isprintable():
        return readable
    return yaml.safe_dump(dict(declaration), sort_keys=False, width=1_000)  # escapes invisible characters


def _read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:  # line ends as they are
            return file.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: cannot be read; expected a UTF-8 YAML file") from None


def _load_draft(
    draft: Path, path: Path, declaration: Declaration, max_bytes: int, cache: Path | None = None
) -> tuple[Source, ...]:
    try:
        return load_sources(draft, max_bytes=max_bytes, cache=cache)
    except SettingsError as error:
        # Whoever gave options has no line of a file to look at: only the key of the new source is named.
        last = len(load_yaml(draft, SourcesFile).sources) - 1
        new = rf"{re.escape(str(draft))}: sources\.{last}\.(?:{re.escape(str(declaration.get('kind')))}\.)?"
        message = re.sub(new, "the new source: ", str(error))
        raise SettingsError(message.replace(str(draft), str(path))) from None


@contextlib.contextmanager
def _write_draft(path: Path, text: str) -> Iterator[Path]:
    """Write `text` to a hidden file beside `path`, where relative URLs mean the same; remove it at the end."""
    draft = path.resolve().with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    except PermissionError:
        raise SettingsError(
            f"{path.resolve().parent}: not writable, so no source can be tried or added beside {path.name}; copy the "
            "file and set CORPUS_GUARD_SOURCES_FILE to the copy"
        ) from None
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
