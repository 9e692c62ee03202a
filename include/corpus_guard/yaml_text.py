"""YAML that people write: sources, policies, rules, reviewers. Every configuration file is read here, and lists are added to.

Rules of reading
    * only plain values: no tag creates a Python object;
    * a key stands once in a mapping. In YAML the last of two equal keys wins: a second `quarantine:` further down would
      loosen the first unnoticed;
    * a value may be used again through an alias (`*name`), as long as the file stays small when all of them are written
      out. "Billion laughs" fits in a kilobyte and fills the memory of whoever prints or compares it;
    * nesting is limited: libyaml builds nested values recursively, and 50,000 brackets end the process.

The last two are counted on the parser's events, before any value is built.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

import yaml

from corpus_guard.errors import Misuse, SettingsError

MAX_CHARACTERS: Final = 4 * 2**20
MAX_VALUES: Final = 200_000  # keys and values, each alias counted as what it stands for; 5,000 sources have 60,000
MAX_DEPTH: Final = 100


def parse_yaml(text: str, where: str) -> Any:
    """Return the value of a YAML document; None if it is empty.

    Args:
        text: of the file.
        where: the file, for messages.

    Raises:
        SettingsError: the text is not valid YAML, has a key twice, or breaks a limit; the message names file, line and fix.
    """
    if len(text) > MAX_CHARACTERS:
        raise SettingsError(
            f"{where}: has {len(text):,} characters, the limit is {MAX_CHARACTERS:,}; a configuration file is written by hand, "
            "see that this is the right file"
        )
    try:
        _check_size(text, where)
        return yaml.load(text, _UniqueKeyLoader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", "a control character")
        advice = "" if isinstance(error, yaml.constructor.ConstructorError) else "; check the indentation"
        raise SettingsError(f"{where}{line}: not valid YAML ({problem}){advice}") from error
    except ValueError as error:  # a date such as 2026-99-99
        raise SettingsError(f"{where}: not valid YAML ({error}); put quotes around the value") from error


def append_entry(text: str, key: str, entry: Mapping[str, object], where: str) -> str:
    """Return the text of a YAML file with one more entry at the end of a list; comments and spelling of all else stay.

    The new text is read back: it must hold what the old one does, and the entry last.

    Args:
        key: of the list, at the top of the file; it may be missing or empty.
        where: the file, for messages.

    Raises:
        SettingsError: `text` is not valid YAML.
        Misuse: the list is not written with one entry per line.
    """
    before = parse_yaml(text, where) or {}
    try:
        new = _insert(text, key, entry)
        after = parse_yaml(new, where)
    except (SettingsError, ValueError):
        after, new = None, ""
    listed = (before.get(key) or []) if isinstance(before, dict) else None
    if not isinstance(listed, list) or after != {**before, key: [*listed, dict(entry)]}:
        raise Misuse(
            f"{where}: its list of {key} is not written with one entry per line (- name: …), so nothing can be appended; "
            "add the entry by hand, or rewrite the list in that form"
        )
    return new


def _insert(text: str, key: str, entry: Mapping[str, object]) -> str:
    line_break = "\r\n" if "\r\n" in text else "\n"
    node = _find_node(text, key)
    if node is None:
        head = text if not text or text.endswith("\n") else text + line_break
        return head + f"{key}:{line_break}" + _format_entry(entry, 2, line_break)
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
    return head + gap + _format_entry(entry, indent, line_break) + rest


def _find_node(text: str, key: str) -> yaml.Node | None:
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    if top is None:
        return None
    if not isinstance(top, yaml.MappingNode):
        raise ValueError("the file is not a mapping")  # noqa: TRY004 - the caller expects one kind of error
    return next((value for name, value in top.value if name.value == key), None)


def _end(node: yaml.Node) -> int:
    """Return the index of the last character of a node: a block's end mark lies behind the comments that follow it."""
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return _end(node.value[-1])
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return _end(node.value[-1][1])
    behind = isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}
    return int(node.end_mark.index) - (1 if behind else 0)


def _format_entry(entry: Mapping[str, object], indent: int, line_break: str) -> str:
    first, *rest = _dump(entry).rstrip("\n").split("\n")
    pad = " " * indent
    return "".join(f"{line}{line_break}" for line in (f"{pad}- {first}", *(f"{pad}  {line}" for line in rest)))


def _dump(entry: Mapping[str, object]) -> str:
    readable = yaml.safe_dump(dict(entry), sort_keys=False, allow_unicode=True, width=1_000)
    if readable.replace("\n", "").isprintable():
        return readable
    return yaml.safe_dump(dict(entry), sort_keys=False, width=1_000)  # escapes invisible characters


def _check_size(text: str, where: str) -> None:
    """Count the values that the document has when every alias is written out; build nothing."""
    anchored: dict[str, int] = {}  # values behind an anchor
    unfinished: list[tuple[str | None, int]] = []  # open collections: anchor, values counted before each
    total = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = unfinished.pop()
            if anchor:
                anchored[anchor] = total - before
            continue
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in {anchor for anchor, _ in unfinished}:
                raise _refusal(event, where, f"*{event.anchor} stands inside the value that it names, which has no end")
            total += anchored.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor:
                anchored[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            unfinished.append((event.anchor, total))
            total += 1
            if len(unfinished) > MAX_DEPTH:
                raise _refusal(event, where, f"values are nested more than {MAX_DEPTH} levels deep")
        if total > MAX_VALUES:
            raise _refusal(event, where, f"more than {MAX_VALUES:,} values once its aliases (*name) are written out")


def _refusal(event: yaml.Event, where: str, problem: str) -> SettingsError:
    line = f", line {event.start_mark.line + 1}" if event.start_mark else ""
    return SettingsError(
        f"{where}{line}: refused: {problem}. Nobody writes such a file by hand: find out who "
        "changed it, and restore it from a copy"
    )


class _UniqueKeyLoader(yaml.CSafeLoader):  # libyaml: a tenth of the time, and every command reads policy.yaml
    """YAML loader that refuses duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build the mapping.

        Raises:
            ConstructorError: a key is there twice, or is a list or a mapping.
        """
        keys: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a list or a mapping is used as a key; put quotes around it", key.start_mark
                )
            if key.tag != "tag:yaml.org,2002:merge" and key.value in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is there twice; remove one", key.start_mark
                )
            keys.add(key.value)
        return super().construct_mapping(node, deep)
