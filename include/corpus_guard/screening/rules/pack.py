"""Rule files, validated."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from corpus_guard.domain import Severity, sha256_bytes
from corpus_guard.errors import SettingsError
from corpus_guard.screening.tags import TAG_KEYS
from corpus_guard.settings import load_yaml

RULES_FILE: Final = Path(__file__).parent / "instructions.yaml"
PLACEHOLDER: Final = re.compile(r"\{\{([a-z_]+)\}\}")
"""A word that patterns name."""


class InstructionRule(BaseModel):
    """Patterns for one way to give orders to a model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    description: str
    """Message for a reviewer: "The text tells …"."""
    severity: Severity
    score: float = Field(gt=0, le=1)
    tags: tuple[str, ...] = ()
    """Keys of `corpus_guard.screening.tags`."""
    languages: tuple[str, ...] = ("en",)
    raw: bool = False
    """Patterns read the text as it stands, with case and line breaks."""
    loose: bool = False
    """Patterns also read text without word boundaries (spaced-out letters, leetspeak)."""
    patterns: tuple[str, ...] = Field(min_length=1)
    excusable: bool = True
    """A hit loses severity in quotation marks, in code, and right behind words about attacks or examples."""
    followed_by: str | None = None
    """A hit counts only if this stands shortly after it."""
    unless: str | None = None
    """A hit that holds this does not count."""
    foreign: bool = False
    """A hit counts only if its words differ from those of the text around it (see `_fitting`)."""
    published_only: bool = False
    """A hit does harm, or means something, only where it is published: in hidden text, which never is, it is low."""
    examples: tuple[str, ...] = Field(min_length=1)
    """Texts that must hit."""
    counter_examples: tuple[str, ...] = ()
    """Texts that must not hit."""


class RulePack(BaseModel):
    """Rule file, validated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pack: str
    version: str
    words: dict[str, str] = Field(default_factory=dict)
    """Alternatives that patterns name as ``{{word}}``."""
    rules: tuple[InstructionRule, ...] = Field(min_length=1)


def load_rules(path: Path = RULES_FILE) -> RulePack:
    """Read a rule file and validate what its model cannot.

    Raises:
        SettingsError: the file or a key is wrong, an id is used twice, or a tag or a ``{{word}}`` is unknown.
    """
    content = path.read_bytes() if path.is_file() else b""  # load_yaml says what is wrong
    return _read_rules(path, sha256_bytes(content))


@lru_cache(maxsize=16)
def _read_rules(path: Path, _digest: str) -> RulePack:
    """Read and validate a pack that has this digest: two checks read it, each time they are built."""
    pack = load_yaml(path, RulePack)
    ids: set[str] = set()
    for rule in pack.rules:
        blame = f"{path}: rule {rule.id}"
        if rule.id in ids:
            raise SettingsError(f"{blame}: the id is used twice; ids are part of finding codes, choose another")
        ids.add(rule.id)
        if unknown := sorted(set(rule.tags) - TAG_KEYS):
            raise SettingsError(f"{blame}: unknown tag {unknown[0]!r}; expected one of: {', '.join(sorted(TAG_KEYS))}")
        for pattern in rule.patterns:
            if missing := [word for word in PLACEHOLDER.findall(pattern) if word not in pack.words]:
                words = ", ".join(sorted(pack.words))
                raise SettingsError(f"{blame}: unknown word {missing[0]!r}; expected one of: {words}")
    return pack
