"""Documents whose verdict is known beforehand, screened beside the real ones of every run.

Rules
- The attacks must not be accepted, the innocent must be. Both are told by name when it is otherwise.
- A canary is made of slots filled anew for each run, so that no check, rule or cache can know its text.
- It takes the way of a document of an open source: bytes, parsing, stamp, chunks, the run's own checks and policy. It is
  screened alone: checks that compare documents have nothing to say of it.
- It is never fetched, counted, kept, embedded or published, and what slow checks found in it is not remembered.
- A check that failed on it has not caught it, though the verdict is quarantine. What only a shadowed check saw is told apart.

What it does not show: that an attack of another kind, or one written by somebody who knows the rules, would be caught.
"""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from corpus_guard.domain import Finding, Judgement, TrustLevel, Verdict, Version, digest, sha256_bytes
from corpus_guard.errors import SettingsError
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing import ParsingSandbox
from corpus_guard.intake.sources.source import Fetched, Item
from corpus_guard.intake.stamps import make_version
from corpus_guard.screening.policy import UNCHECKED, Policy
from corpus_guard.screening.runner import Screening
from corpus_guard.settings import Settings, load_yaml

PACK: Final = Path(__file__).with_name("canaries.yaml")
FETCHED: Final = datetime(2026, 1, 1, tzinfo=UTC)  # any: a canary has no history

_SLOT = re.compile(r"\{(\w+)(?:\|(\w+))?\}")
_DEEPEST = 4  # slots in slots
_LOOKALIKES = str.maketrans("aceiopsxyj", "асеіорѕхуј")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Canary(_Section):
    """One document with slots."""

    name: Annotated[str, Field(pattern=r"^[a-z_]+$")]
    family: str = "innocent"
    """The attack it stands for."""
    file: str
    """Its name; the suffix says how it is parsed."""
    text: str


class Pack(_Section):
    """canaries.yaml, validated."""

    words: Mapping[str, Sequence[str]]
    attacks: Sequence[Canary]
    innocent: Sequence[Canary]


@dataclass(frozen=True, slots=True)
class Caught:
    """How the canaries of a run fared."""

    planted: int  # attacks
    caught: int
    shadowed: tuple[str, ...]  # seen by shadowed checks alone, so accepted
    missed: tuple[str, ...]
    innocent: int
    false_alarms: tuple[str, ...]
    seen_by: Mapping[str, tuple[str, ...]]  # canary → codes, all but notes


@cache
def load_pack(path: Path = PACK) -> Pack:
    """Read a pack.

    Raises:
        SettingsError: the file or a key is wrong.
    """
    pack = load_yaml(path, Pack)
    canaries = [*pack.attacks, *pack.innocent]
    texts = [canary.text for canary in canaries] + [text for texts in pack.words.values() for text in texts]
    for word, change in sorted({slot for text in texts for slot in _SLOT.findall(text)}):
        if not pack.words.get(word):
            raise SettingsError(f"{path}: {{{word}}}: no such words; known: {', '.join(pack.words)}")
        if change and not change.isdigit() and change not in _CHANGES:
            raise SettingsError(f"{path}: {{{word}|{change}}}: no such change; known: {', '.join(_CHANGES)}")
    names = [canary.name for canary in canaries]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SettingsError(f"{path}: {twice[0]}: two canaries have this name; rename one")
    return pack


@cache
def pack_digest(path: Path = PACK) -> str:
    """Changes with the pack."""
    return sha256_bytes(path.read_bytes())


def plant(pack: Pack, settings: Settings, chunker: Chunker, seed: str) -> list[Version]:
    """The canaries as versions, the attacks first, with slots filled by `seed`."""
    source = CanarySource(pack, seed)
    items = list(source.list())
    with ParsingSandbox(settings) as sandbox:
        return [
            make_version(
                source=source,
                item=fetched.item,
                content_sha256=sha256_bytes(fetched.content),
                size=len(fetched.content),
                parsed=sandbox.parse(fetched.content, fetched.media_type, fetched.item.uri),
                problems=(),
                declared={},
                run_id="canaries",
                fetched_at=FETCHED,
                parent_version=None,
                chunker=chunker,
            )
            for fetched in source.fetch(items)
        ]


def examine(screening: Screening, settings: Settings, chunker: Chunker, seed: str, pack: Pack | None = None) -> Caught:
    """Screen the canaries of a run.

    Args:
        screening: the run's.
        settings: limits of parsing.
        chunker: the run's.
        seed: what fills the slots; the run's id.
        pack: the shipped one unless another is given.
    """
    pack = pack or load_pack()
    judged = screening.uncached().judge(plant(pack, settings, chunker, seed), None)
    canaries = [*pack.attacks, *pack.innocent]
    names = [canary.name for canary in canaries]
    policy = screening.policy
    alarmed = {name: _stopped(policy, one) for name, one in zip(names, judged, strict=True)}
    shown = {name: _stopped(policy.without_shadow, one) for name, one in zip(names, judged, strict=True)}
    attacks = [canary.name for canary in pack.attacks]
    return Caught(
        planted=len(attacks),
        caught=sum(alarmed[name] for name in attacks),
        shadowed=tuple(name for name in attacks if shown[name] and not alarmed[name]),
        missed=tuple(name for name in attacks if not shown[name]),
        innocent=len(pack.innocent),
        false_alarms=tuple(
            name for name, one in zip(names, judged, strict=True) if name not in attacks and one.verdict != "accept"
        ),
        seen_by={
            name: tuple(dict.fromkeys(f.code for f in one.findings if policy.weights[f.severity] > 0))
            for name, one in zip(names, judged, strict=True)
        },
    )


def _stopped(policy: Policy, judgement: Judgement) -> bool:
    """Whether it is stopped by what was seen in it, not by what could not be looked at."""
    seen: list[Finding] = [finding for finding in judgement.findings if not finding.code.endswith(UNCHECKED)]
    return policy.verdict(CanarySource.trust, seen, CanarySource.name) is not Verdict.ACCEPT


class CanarySource:
    """A source of canaries, for one run."""

    name = "canaries"
    owner = "corpus-guard"
    trust = TrustLevel.OPEN

    def __init__(self, pack: Pack, seed: str) -> None:
        self._pack = pack
        self._seed = seed

    def list(self) -> Iterator[Item]:
        """Attacks, then the innocent."""
        for canary in (*self._pack.attacks, *self._pack.innocent):
            yield Item(canary.file, None, None, "null")

    def fetch(self, items: Sequence[Item]) -> Iterator[Fetched]:
        """All of them, in their order."""
        canaries = (*self._pack.attacks, *self._pack.innocent)
        for item, canary in zip(items, canaries, strict=True):
            yield Fetched(item, _filled(canary, self._pack.words, self._seed).encode(), "")


def _filled(canary: Canary, words: Mapping[str, Sequence[str]], seed: str) -> str:
    # Anybody may know the seed: what it fills in is no secret, it only must not be the same every time.
    chance = random.Random(digest("canary/v1", [canary.name, seed]))  # noqa: S311
    chosen: dict[str, str] = {}

    def fill(match: re.Match[str], depth: int = 0) -> str:
        word, change = match[1], match[2]
        if change and change.isdigit():
            return " ".join(chance.choices(words[word], k=int(change)))
        if word not in chosen:
            chosen[word] = chance.choice(words[word])
        text = chosen[word]
        if depth < _DEEPEST:
            text = _SLOT.sub(lambda inner: fill(inner, depth + 1), text)
        return _CHANGES[change](text, chance) if change else text

    return _SLOT.sub(fill, canary.text)


def _typos(text: str, chance: random.Random) -> str:
    """Two in three of the longer words get one slip: neighbours swapped, a letter lost or doubled."""
    words = text.split(" ")
    for index, word in enumerate(words):
        if len(word) > 3 and chance.random() < 2 / 3:
            place = chance.randrange(1, len(word) - 1)
            slips = (
                word[:place] + word[place + 1] + word[place] + word[place + 2 :],
                word[:place] + word[place + 1 :],
                word[:place] + word[place] + word[place:],
            )
            words[index] = chance.choice(slips)
    return " ".join(words)


_CHANGES: Final[Mapping[str, Any]] = {
    "base64": lambda text, chance: base64.b64encode(text.encode()).decode(),
    "zero_width": lambda text, chance: "\u200b".join(text),
    "tags": lambda text, chance: "".join(chr(0xE0000 + ord(letter)) for letter in text if letter.isascii()),
    "homoglyphs": lambda text, chance: text.translate(_LOOKALIKES),
    "typos": _typos,
}
