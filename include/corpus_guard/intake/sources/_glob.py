"""Globs over posix paths, as every source that holds a tree takes them."""

from __future__ import annotations

import re
from collections.abc import Callable

from corpus_guard.intake.sources.declared import Globs


def globbing(config: Globs) -> Callable[[str], bool]:
    """Whether a path relative to the source is one of its documents."""
    include = [_glob(pattern) for pattern in config.include]
    exclude = [_glob(pattern) for pattern in config.exclude]
    return lambda path: any(one.fullmatch(path) for one in include) and not any(one.fullmatch(path) for one in exclude)


def _glob(pattern: str) -> re.Pattern[str]:
    """A glob over posix paths: ``**/`` any folders, ``*`` and ``?`` within one name, ``[...]`` a set."""
    out: list[str] = []
    position = 0
    while position < len(pattern):
        rest = pattern[position:]
        if rest.startswith("**/"):
            out.append("(?:[^/]+/)*")
            position += 3
        elif match := re.match(r"\*+", rest):
            out.append(".*" if match.end() > 1 else "[^/]*")
            position += match.end()
        elif match := re.match(r"\[(!?)([^\]/]+)\]", rest):
            members = match[2].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^").replace("&", r"\&")
            out.append(f"[{'^' if match[1] else ''}{members}]")
            position += match.end()
        else:
            out.append("[^/]" if pattern[position] == "?" else re.escape(pattern[position]))
            position += 1
    return re.compile("".join(out), re.DOTALL)
