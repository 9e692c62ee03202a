"""Sentences that are orders, and honest ones that look like them; all words are this project's.

Each file of ``texts/`` has one label. Its lines stand under a family (one language) or under a language (family
"languages"). Slots such as ``{product}`` are filled from ``slots.yaml``, the same for both labels, so that names
and topics tell nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from corpus_guard.domain import digest, sha256_bytes
from corpus_guard.yaml_text import parse_yaml

FOLDER: Final = Path(__file__).parent / "texts"
KEPT_APART: Final = Path(__file__).parent / "kept_apart"
"""Sets of lines, a folder each, that nothing is trained on. No text of `FOLDER` has the families of the first."""
VARIANTS: Final = 2
"""Fillings of a line with slots."""
_SLOT: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class OrderText:
    """Labelled sentence."""

    text: str
    is_order: bool
    family: str
    """Way to give orders, or kind of honest text."""
    language: str
    source: str
    """File the line stands in, the folder an honest text comes from, or the set that was kept apart."""
    line: str
    """The line before its slots were filled: variants of a line stay together."""


def read_texts(seed: int = 0) -> list[OrderText]:
    """Return every labelled sentence, lines with slots in `VARIANTS` fillings."""
    slots: Mapping[str, list[str]] = _read(FOLDER / "slots.yaml")
    return [
        text
        for path in sorted(FOLDER.glob("*.yaml"))
        if path.name not in {"slots.yaml", "frames.yaml"}
        for text in _of_file(path, slots, random.Random(f"{seed} {path.name}"))  # noqa: S311 - no secret
    ]


def read_kept_apart() -> list[OrderText]:
    """Return the lines that are only measured."""
    texts = []
    for path in sorted(KEPT_APART.glob("*/*.yaml")):
        content = _read(path)
        is_order = bool(content["is_order"])
        for family, lines in content["families"].items():
            texts += [
                OrderText(line, is_order, family, "", path.parent.name, line) for line in lines.strip().splitlines()
            ]
    return texts


def generate_texts(number: int, seed: int = 0) -> list[OrderText]:
    """Return sentences put together from the parts of ``frames.yaml``, `number` of each label."""
    slots: Mapping[str, list[str]] = _read(FOLDER / "slots.yaml")
    frames = _read(FOLDER / "frames.yaml")
    choice = random.Random(f"{seed} frames")  # noqa: S311 - no secret
    texts = []
    for label in ("order", "honest"):
        for position in range(number):
            frame = frames[label][position % len(frames[label])]
            text = _fill(frame, {**slots, **frames["parts"]}, choice)
            texts.append(OrderText(text[:1].upper() + text[1:], label == "order", "frames", "en", "frames", text))
    return texts


def _fill(text: str, slots: Mapping[str, list[str]], choice: random.Random) -> str:
    while (
        filled := _SLOT.sub(lambda slot: choice.choice(slots[slot[1]]) if slot[1] in slots else slot[0], text)
    ) != text:
        text = filled
    return text


def texts_digest() -> str:
    """Return the digest of the texts."""
    return digest("orders/texts/v1", [sha256_bytes(path.read_bytes()) for path in sorted(FOLDER.glob("*.yaml"))])


def _of_file(path: Path, slots: Mapping[str, list[str]], choice: random.Random) -> Iterator[OrderText]:
    content = _read(path)
    is_order = bool(content["is_order"])
    blocks = [(family, str(content["language"]), text) for family, text in content.get("families", {}).items()]
    blocks += [("languages", language, text) for language, text in content.get("languages", {}).items()]
    for family, language, text in blocks:
        for line in text.strip().splitlines():
            for _ in range(VARIANTS if _SLOT.search(line) else 1):
                filled = _SLOT.sub(lambda slot: choice.choice(slots[slot[1]]) if slot[1] in slots else slot[0], line)
                yield OrderText(filled, is_order, family, language, path.stem, line)


@cache
def _read(path: Path) -> Any:
    return parse_yaml(path.read_text("utf-8"), str(path))
