"""Canaries: documents whose verdict is known beforehand, screened beside the real ones of every run.

Rules
- The attacks must not be accepted, the innocent must be. Exceptions are reported by name.
- A canary consists of slots filled anew for each run, so that no check, rule or cache can know its text.
- It is treated like a document of an open source: bytes, parsing, stamp, chunks, the run's own checks and
  policy. It is screened alone: checks that compare documents do not run on it.
- It is never fetched, counted, kept, embedded or published, and results of slow checks on it are not cached.
- A check that failed on it has not caught it, though the verdict is quarantine. Attacks that only a shadowed
  check saw are reported apart.

What it does not show: that an attack of another kind, or one written by somebody who knows the rules, would
be caught.
"""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Final, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from corpus_guard.domain import Judgement, TrustLevel, Verdict, Version, digest, sha256_bytes
from corpus_guard.errors import SettingsError
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing import ParsingSandbox
from corpus_guard.intake.sources.source import Fetched, SourceItem
from corpus_guard.intake.stamps import make_version
from corpus_guard.screening.policy import UNCHECKED_SUFFIX, Policy
from corpus_guard.screening.runner import Screening
from corpus_guard.settings import Settings, load_yaml

CANARIES_FILE: Final = Path(__file__).with_name("canaries.yaml")
FETCHED_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)  # any date: a canary has no history

_SLOT: Final = re.compile(r"\{(\w+)(?:\|(\w+))?\}")
_MAX_DEPTH: Final = 4  # slots in slots
_LOOKALIKES: Final = str.maketrans("aceiopsxyj", "асеіорѕхуј")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Canary(_Section):
    """Document with slots."""

    name: Annotated[str, Field(pattern=r"^[a-z_]+$")]
    family: str = "innocent"
    """Attack that it stands for."""
    file: str
    """File name; the suffix decides how it is parsed."""
    text: str


class CanaryPack(_Section):
    """Contents of canaries.yaml, validated."""

    words: Mapping[str, Sequence[str]]
    attacks: Sequence[Canary]
    innocent: Sequence[Canary]


class CanaryReport(TypedDict):
    """Result of screening the canaries of a run."""

    planted: int  # attacks
    caught: int
    shadowed: list[str]  # caught by shadowed checks alone, so accepted
    missed: list[str]
    innocent: int
    false_alarms: list[str]
    seen_by: dict[str, list[str]]  # canary → codes of its findings, without notes


@cache
def load_canaries(path: Path = CANARIES_FILE) -> CanaryPack:
    """Read a pack.

    Raises:
        SettingsError: the file or a key is wrong.
    """
    pack = load_yaml(path, CanaryPack)
    canaries = [*pack.attacks, *pack.innocent]
    texts = [canary.text for canary in canaries] + [text for texts in pack.words.values() for text in texts]
    for word, change in sorted({slot for text in texts for slot in _SLOT.findall(text)}):
        if not pack.words.get(word):
            raise SettingsError(f"{path}: {{{word}}}: no such words; expected one of: {', '.join(pack.words)}")
        if change and not change.isdigit() and change not in _CHANGES:
            raise SettingsError(f"{path}: {{{word}|{change}}}: no such change; expected one of: {', '.join(_CHANGES)}")
    names = [canary.name for canary in canaries]
    if duplicates := [name for name in names if names.count(name) > 1]:
        raise SettingsError(f"{path}: {duplicates[0]}: two canaries have this name; rename one of them")
    return pack


@cache
def canaries_digest() -> str:
    """Return a digest that changes with the pack."""
    return sha256_bytes(CANARIES_FILE.read_bytes())


def plant_canaries(pack: CanaryPack, settings: Settings, chunker: Chunker, seed: str) -> list[Version]:
    """Return the canaries as versions, the attacks first, with slots filled by `seed`."""
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
                fetched_at=FETCHED_AT,
                parent_version=None,
                chunker=chunker,
            )
            for fetched in source.fetch(items)
        ]


def screen_pack(
    screening: Screening, settings: Settings, chunker: Chunker, seed: str, pack: CanaryPack | None = None
) -> CanaryReport:
    """Screen the canaries of a run.

    Args:
        seed: fills the slots; the run's id.
        pack: the canaries, by default those of the package.
    """
    pack = pack or load_canaries()
    judgements = screening.uncached().judge(plant_canaries(pack, settings, chunker, seed), None)
    names = [canary.name for canary in (*pack.attacks, *pack.innocent)]
    by_name = dict(zip(names, judgements, strict=True))
    policy = screening.policy
    stopped = {name: _is_stopped(policy, judgement) for name, judgement in by_name.items()}
    stopped_by_all = {name: _is_stopped(policy.without_shadow, judgement) for name, judgement in by_name.items()}
    attacks = [canary.name for canary in pack.attacks]
    return {
        "planted": len(attacks),
        "caught": sum(stopped[name] for name in attacks),
        "shadowed": [name for name in attacks if stopped_by_all[name] and not stopped[name]],
        "missed": [name for name in attacks if not stopped_by_all[name]],
        "innocent": len(pack.innocent),
        "false_alarms": [
            name
            for name, judgement in by_name.items()
            if name not in attacks and judgement.verdict is not Verdict.ACCEPT
        ],
        "seen_by": {
            name: list(dict.fromkeys(f.code for f in judgement.findings if policy.weights[f.severity] > 0))
            for name, judgement in by_name.items()
        },
    }


def _is_stopped(policy: Policy, judgement: Judgement) -> bool:
    """Return True if findings stop the canary, not failures of a check."""
    findings = [finding for finding in judgement.findings if not finding.code.endswith(UNCHECKED_SUFFIX)]
    return policy.verdict(CanarySource.trust, findings, CanarySource.name) is not Verdict.ACCEPT


class CanarySource:
    """Source of the canaries of one run."""

    name = "canaries"
    owner = "corpus-guard"
    trust = TrustLevel.OPEN

    def __init__(self, pack: CanaryPack, seed: str) -> None:
        self._pack = pack
        self._seed = seed

    def list(self) -> Iterator[SourceItem]:
        """Yield the attacks, then the innocent."""
        for canary in (*self._pack.attacks, *self._pack.innocent):
            yield SourceItem(canary.file, None, None, "null")

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Fetched]:
        """Yield the bytes of all canaries, in their order."""
        canaries = (*self._pack.attacks, *self._pack.innocent)
        for item, canary in zip(items, canaries, strict=True):
            yield Fetched(item, _filled(canary, self._pack.words, self._seed).encode(), "")


def _filled(canary: Canary, words: Mapping[str, Sequence[str]], seed: str) -> str:
    # Anybody may know the seed: the words it chooses are no secret, they only must differ from run to run.
    chance = random.Random(digest("canary/v1", [canary.name, seed]))  # noqa: S311
    chosen: dict[str, str] = {}

    def fill(match: re.Match[str], depth: int = 0) -> str:
        word, change = match[1], match[2]
        if change and change.isdigit():
            return " ".join(chance.choices(words[word], k=int(change)))
        if word not in chosen:
            chosen[word] = chance.choice(words[word])
        text = chosen[word]
        if depth < _MAX_DEPTH:
            text = _SLOT.sub(lambda inner: fill(inner, depth + 1), text)
        return _CHANGES[change](text, chance) if change else text

    return _SLOT.sub(fill, canary.text)


def _typos(text: str, chance: random.Random) -> str:
    """Make a slip in two of three longer words: letters swapped, a letter lost or doubled."""
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


_CHANGES: Final[Mapping[str, Callable[[str, random.Random], str]]] = {
    "base64": lambda text, chance: base64.b64encode(text.encode()).decode(),
    "zero_width": lambda text, chance: "\u200b".join(text),
    "tags": lambda text, chance: "".join(chr(0xE0000 + ord(letter)) for letter in text if letter.isascii()),
    "homoglyphs": lambda text, chance: text.translate(_LOOKALIKES),
    "typos": _typos,
}
