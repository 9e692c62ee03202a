"""Texts that contradict a trusted one, and honest texts on the same subjects; all words are this project's.

Generated ones come from the facts of ``facts.yaml``: each trusted document states four of them. For every fact there are

    contradictions   restatements with another value, among sentences that state nothing
    near copies      the trusted document with that one value changed
    restatements     the same with the right value, also in another form
    updates          sentences on the same subject that contradict nothing

Written ones stand in ``passages.yaml``, in freer words. Free ones in ``posts.yaml``, replies in ``replies.yaml``, as people
talk, and pages in ``pages.yaml``, as somebody would plant them, were written before anybody looked which of them the rules see.
Independent ones in ``independent.yaml`` and paraphrases in ``paraphrases_*.yaml`` come from writers who knew nothing of the
rules: they say the opposite in words of their own. A paraphrase names the statement that it is about (``of``).
Those in ``languages.yaml`` are in other languages than English, those in ``details.yaml`` about what rules easily miss; both were
written before anybody looked which of them the rules see.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import yaml

from corpus_guard.detectors.samples import Half

FOLDER: Final = Path(__file__).parent
FACTS_PER_DOCUMENT: Final = 4


class CaseGroup(StrEnum):
    """Effect of a text on the trusted ones."""

    CONTRADICTION = "contradiction"
    NEAR_COPY = "near copy"
    RESTATEMENT = "restatement"
    UPDATE = "update"

    @property
    def is_attack(self) -> bool:
        """Return whether the text must be found."""
        return self in {CaseGroup.CONTRADICTION, CaseGroup.NEAR_COPY}


class Origin(StrEnum):
    """Author of the text."""

    GENERATED = "generated"
    WRITTEN = "written"
    FREE = "freely written"
    REPLY = "replies"
    PAGE = "planted pages"
    INDEPENDENT = "independent"
    PARAPHRASE = "paraphrases"
    LANGUAGE = "other languages"
    DETAIL = "details"


_OWN_FILES: Final = {
    "passages.yaml": (Origin.WRITTEN, "[.]"),
    "posts.yaml": (Origin.FREE, "[.]"),
    "replies.yaml": (Origin.REPLY, "[.,]"),
    "pages.yaml": (Origin.PAGE, "[.,]"),
}
"""By those who know the rules: file → author, and the signs that end the title of a trusted text."""

_ORIGINS: Final = {
    "independent": Origin.INDEPENDENT,
    "paraphrases": Origin.PARAPHRASE,
    "languages": Origin.LANGUAGE,
    "details": Origin.DETAIL,
}
_GROUPS: Final = {
    "contradiction": CaseGroup.CONTRADICTION,
    "contradictions": CaseGroup.CONTRADICTION,
    "same": CaseGroup.RESTATEMENT,
    "restatement": CaseGroup.RESTATEMENT,
    "update": CaseGroup.UPDATE,
    "elsewhere": CaseGroup.UPDATE,
    "honest": CaseGroup.UPDATE,
    "other": CaseGroup.UPDATE,
}
"""Name of the texts of an entry → their effect."""


@dataclass(frozen=True, slots=True)
class ContradictionCase:
    """A text that arrives in an open source."""

    group: CaseGroup
    origin: Origin
    half: Half
    domain: str
    kind: str  # of the value: "duration", "negation", "contact", …; of a written text, its name in the entry
    text: str


@dataclass(frozen=True, slots=True)
class TrustedText:
    """A document of a trusted source."""

    title: str
    text: str


def load_cases(seed: int = 0, without: Collection[Origin] = ()) -> tuple[list[TrustedText], list[ContradictionCase]]:
    """Return the trusted documents and the cases.

    Args:
        without: origins with files of their own, from INDEPENDENT on, which are left out with their trusted documents.
    """
    trusted, cases = _generate_cases(seed)
    for name, (origin, ends) in _OWN_FILES.items():
        for number, entry in enumerate(_load(name)):
            trusted.append(TrustedText(re.split(ends, entry["trusted"])[0], _unfolded(entry["trusted"])))
            cases += (replace(case, text=_unfolded(case.text)) for case in _read_entry(origin, number, entry))
    for path in sorted(FOLDER.glob("*.yaml")):
        author = _ORIGINS.get(path.stem.partition("_")[0])
        if author and author not in without:
            for number, entry in enumerate(_load(path.name)):
                trusted.append(TrustedText(_title(entry["trusted"]), entry["trusted"]))
                cases += _read_entry(author, number, entry)
    return trusted, cases


def _generate_cases(seed: int) -> tuple[list[TrustedText], list[ContradictionCase]]:
    """Return the trusted documents and the cases that are made of facts."""
    trusted, cases = [], []
    rng = random.Random(f"contradictions {seed}")  # noqa: S311 - a choice of words, no secret
    around = _load("surroundings.yaml")
    for domain in _load("facts.yaml"):
        for start in range(0, len(domain["facts"]), FACTS_PER_DOCUMENT):
            facts = domain["facts"][start : start + FACTS_PER_DOCUMENT]
            trusted.append(TrustedText(domain["title"], _document(domain["title"], facts, {})))
            cases += [
                ContradictionCase(group, Origin.GENERATED, _half(number), domain["domain"], fact["kind"], text)
                for number, fact in enumerate(facts)
                for group, text in _generate(domain["title"], facts, number, around, rng)
            ]
    return trusted, cases


def _read_entry(origin: Origin, number: int, entry: Mapping[str, Any]) -> Iterator[ContradictionCase]:
    """Yield the texts of an entry of a file, of which there may be several of a kind."""
    for kind, group in _GROUPS.items():
        texts = entry.get(kind, ())
        for each in [texts] if isinstance(texts, str) else texts:
            text = each["text"] if isinstance(each, dict) else each
            yield ContradictionCase(group, origin, _half(number), entry["domain"], kind, text)


def _half(number: int) -> Half:
    return Half.VALIDATION if number % 2 else Half.TUNING


def _generate(
    title: str, facts: Sequence[Mapping[str, Any]], number: int, around: Mapping[str, Sequence[str]], rng: random.Random
) -> Iterator[tuple[CaseGroup, str]]:
    fact = facts[number]
    rights = [fact.get("value", ""), *fact.get("equal", ())]
    lies = fact.get("denied") or [rng.choice(fact["restated"]).format(v=value) for value in fact["wrong"]]
    for lie in lies:
        yield CaseGroup.CONTRADICTION, _post(lie, around, rng)
    for restated in fact["restated"]:
        yield CaseGroup.RESTATEMENT, _post(restated.format(v=rng.choice(rights)), around, rng)
    for honest in fact["honest"]:
        yield CaseGroup.UPDATE, _post(honest, around, rng)
    for changed in fact.get("wrong") or fact["denied"][:1]:
        yield CaseGroup.NEAR_COPY, _document(title, facts, {number: changed})


def _document(title: str, facts: Sequence[Mapping[str, Any]], changed: Mapping[int, str]) -> str:
    """Return a document that states `facts`, some of them with another value or in another sentence."""
    sentences = [
        fact["trusted"].format(v=changed.get(number, fact["value"]))
        if "value" in fact
        else changed.get(number, fact["trusted"])
        for number, fact in enumerate(facts)
    ]
    return f"{title}\n\n{' '.join(sentences)}"


def _post(sentence: str, around: Mapping[str, Sequence[str]], rng: random.Random) -> str:
    return " ".join((rng.choice(around["before"]), sentence, rng.choice(around["after"])))


def _title(text: str) -> str:
    """Return the heading of a text, or its first clause."""
    return re.split(r"[.,\n]", text.strip().lstrip("#*| "))[0].strip(" #*|")


def _unfolded(text: str) -> str:
    return " ".join(text.split())


def _load(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
