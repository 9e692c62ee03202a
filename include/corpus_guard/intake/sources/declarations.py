"""New declarations for ``sources.yaml``: parse one, try it beside the others, append it to the file.

Rules
    * a declaration is appended as text (`corpus_guard.yaml_text.append_entry`): comments, order and spelling of the others
      are not touched;
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

from corpus_guard.errors import Misuse, SettingsError
from corpus_guard.intake.sources.config import SourceConfig
from corpus_guard.intake.sources.source import Source, public_url
from corpus_guard.intake.sources.sources_file import SourcesFile, load_sources
from corpus_guard.settings import load_yaml
from corpus_guard.yaml_text import append_entry, parse_yaml

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
    with _write_draft(path, append_entry(_read_text(path), "sources", declaration, str(path))) as draft:
        return _load_draft(draft, path, declaration, max_bytes, cache)[-1]


def append_declaration(path: Path, declaration: Declaration, *, max_bytes: int) -> None:
    """Append a declaration to ``sources.yaml``.

    Raises:
        SettingsError: something in it is wrong, or its name is in use; nothing was written.
        Misuse: the file's list of sources is written in a form that text cannot be appended to.
    """
    target = path.resolve()
    with _locked(target.parent):
        text = append_entry(_read_text(path), "sources", declaration, str(path))
        with _write_draft(path, text) as draft:
            _load_draft(draft, path, declaration, max_bytes)
            if target.exists():
                shutil.copymode(target, draft)
            draft.replace(target)


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
