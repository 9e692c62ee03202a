"""Labelled texts from JSONL files, split into a half to tune on and a half to judge by.

A row is read by the keys it has:

====================================  =============================================  =====================================
row                                   given as poison                                given as clean
====================================  =============================================  =====================================
``poisoned_text``, ``clean_text``     the document with the attack in it             the document without it
``adversarial_texts`` (``question``)  every text; for an unnamed attack also led by  every one of ``clean_texts``
                                      its question, the form PoisonedRAG injects
``text`` (``label``, ``slice``, …)    the text, unless labelled benign               the text, unless labelled an attack
====================================  =============================================  =====================================

Rules
- What shares a key (a question, else a title or a repository, else the kind of attack, else the text itself) falls into the same
  half, in whichever file it stands: SHA-256 of the key decides, so the halves are the same in every run and on every machine.
- A row that fits nothing is an error with file and line. Blank texts are left out and counted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from corpus_guard.errors import Misuse


class Half(StrEnum):
    """Which part of the data a text belongs to."""

    TUNING = "tuning"
    VALIDATION = "validation"  # the figures that count
    WHOLE = "whole"  # made by this package: nothing to split


class Family(StrEnum):
    """What kind of text it is: decides which target is meant for it."""

    KNOWLEDGE = "knowledge"  # a fluent lie that answers a question (PoisonedRAG, black box)
    REWRITTEN = "rewritten"  # the same, rewritten so that siblings differ
    HOTFLIP = "hotflip"  # optimised word by word to be retrieved
    TYPOS = "typos"  # GARAG
    EMBEDDED = "embedded"  # an instruction inside a document (BIPIA)
    OVERRIDE = "override"  # "ignore your instructions", plain or disguised
    ATTACK = "attack"  # any other
    ORDINARY = "ordinary"  # documents as a corpus holds them
    HARD_NEGATIVE = "hard negative"  # clean text about attacks, or that sounds like one
    JOINERS = "joiners"  # clean text that needs invisible characters
    PROMPT = "prompt"  # benign, but a prompt and no document


class Form(StrEnum):
    """How the text stands in its document."""

    AS_IS = "as is"
    BARE = "bare"  # of an attack whose published form is led by the question
    LED = "question + text"


@dataclass(frozen=True, slots=True)
class Sample:
    """One text and what is known of it."""

    text: str
    attack: bool
    slice: str  # with `form` and `attack` one line of the result
    family: Family
    key: str  # what is not to be torn apart by the split
    form: Form = Form.AS_IS
    question: str | None = None  # it answers, or it was retrieved for
    half: Half = Half.WHOLE

    @property
    def line(self) -> Line:
        """Where it is counted."""
        return Line(self.slice, self.form, self.attack)


class Line(NamedTuple):
    """What is counted together."""

    slice: str
    form: Form
    attack: bool


@dataclass(frozen=True, slots=True)
class Samples:
    """What was read."""

    samples: tuple[Sample, ...]
    blank: int  # texts without a letter, left out


def half_of(key: str) -> Half:
    """The half that everything with this key falls into."""
    return Half.VALIDATION if hashlib.sha256(b"half/v1\n" + _bytes(key)).digest()[0] & 1 else Half.TUNING


def read_samples(poison: Sequence[Path], clean: Sequence[Path]) -> Samples:
    """Read labelled texts.

    Args:
        poison: files whose attacks are wanted.
        clean: files whose honest texts are wanted; a file may be given as both.

    Raises:
        Misuse: a file that is missing or no JSONL, or a row that fits nothing; names file, line and the keys expected.
    """
    samples: list[Sample] = []
    blank = 0
    for paths, attack in ((poison, True), (clean, False)):
        for path in paths:
            found = 0
            for where, row in _rows(path):
                for sample in _read(row, path.stem, where, attack=attack):
                    found += 1
                    if sample.text.strip():
                        samples.append(replace(sample, half=half_of(sample.key)))
                    else:
                        blank += 1
            if not found:
                side = "an attack" if attack else "clean"
                raise Misuse(f"{path}: no text in it is {side}; give it as {'--clean' if attack else '--poison'}")
    return Samples(tuple(samples), blank)


def read_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where each row stands, and the row; raises Misuse like `read_samples`."""
    return _rows(path)


def pick(samples: Iterable[Sample], limit: int | None, seed: int) -> list[Sample]:
    """At most `limit` texts of each line and half, whole keys together; another seed picks others.

    Both forms of an attack are picked for the same keys. What has no half is short, and kept whole.
    """
    if limit is None:
        return list(samples)
    groups: dict[tuple[Line, Half], dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        groups[sample.line, sample.half][sample.key].append(sample)
    picked = []
    for (_, half), by_key in groups.items():
        ordered = [sample for key in sorted(by_key, key=lambda key: _draw(seed, key)) for sample in by_key[key]]
        picked += ordered if half is Half.WHOLE else ordered[:limit]
    return picked


def normal(question: str) -> str:
    """A question as a key: letters and digits only, so that spelling it another way does not move it."""
    return " ".join(re.findall(r"\w+", question.casefold()))


def _draw(seed: int, key: str) -> bytes:
    return hashlib.sha256(b"pick/v1\n%d\n" % seed + _bytes(key)).digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                where = f"{path}:{number}"
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except (json.JSONDecodeError, RecursionError):
                    raise Misuse(f"{where}: not JSON; expected one object a line") from None
                if not isinstance(row, dict):
                    raise Misuse(f"{where}: a {type(row).__name__}; expected one JSON object a line")
                yield where, row
    except OSError as error:
        raise Misuse(f"{path}: cannot be read ({error.strerror}); name a JSONL file") from error
    except UnicodeDecodeError as error:
        raise Misuse(f"{path}: not UTF-8 (byte {error.start}); expected JSONL in UTF-8") from error


def _read(row: Mapping[str, Any], stem: str, where: str, *, attack: bool) -> Iterator[Sample]:
    if "poisoned_text" in row:
        yield from _embedded(row, stem, where, attack)
    elif "adversarial_texts" in row:
        yield from _answers(row, stem, where, attack)
    elif "text" in row:
        if _labelled(row, where, default=attack) is attack:
            yield _plain(row, stem, where, attack)
    else:
        raise Misuse(
            f"{where}: has the keys {', '.join(map(repr, sorted(row)[:12])) or '(none)'}; expected 'text', or 'question' with "
            "'adversarial_texts', or 'poisoned_text' with 'clean_text'"
        )


def _embedded(row: Mapping[str, Any], stem: str, where: str, attack: bool) -> Iterator[Sample]:
    text = _text(row, "poisoned_text" if attack else "clean_text", where)
    yield Sample(
        text=text,
        attack=attack,
        slice=_slice(stem, row.get("task")),
        family=Family.EMBEDDED if attack else Family.ORDINARY,
        key=str(row.get("attack_category", text)) if attack else text,
    )


_FAMILIES = {"garag_typos": Family.TYPOS, "poisonedrag_hotflip": Family.HOTFLIP}


def _answers(row: Mapping[str, Any], stem: str, where: str, attack: bool) -> Iterator[Sample]:
    question = _text(row, "question", where)
    name = row.get("attack")
    if not attack:
        for text in _texts(row, "clean_texts", where):
            yield Sample(text, False, _slice(stem), Family.ORDINARY, normal(question), question=question)
        return
    family = _FAMILIES.get(str(name), Family.ATTACK) if name else Family.KNOWLEDGE
    for text in _texts(row, "adversarial_texts", where):
        bare = Sample(
            text=text,
            attack=True,
            slice=_slice(name or stem, row.get("retriever")),
            family=family,
            key=normal(question),
            form=Form.AS_IS if name else Form.BARE,
            question=question,
        )
        yield bare
        if not name and text.strip():
            yield led(bare)


def led(bare: Sample) -> Sample:
    """The form PoisonedRAG's black-box attack injects: ``question + "." + text``."""
    return replace(bare, text=f"{bare.question}.{bare.text}", form=Form.LED)


def _plain(row: Mapping[str, Any], stem: str, where: str, attack: bool) -> Sample:
    text = _text(row, "text", where)
    kind, question = row.get("kind"), row.get("question", row.get("query"))
    if attack:
        family = Family.ATTACK
    elif kind == "hard_negative_prompt" or "hard_negative" in stem:
        family = Family.HARD_NEGATIVE
    else:
        family = Family.PROMPT if kind == "benign_prompt" else Family.ORDINARY
    place = row.get("title", row.get("repo", row.get("category") if kind == "indirect_payload" else None))
    key = normal(str(question)) if question else str(place or text)
    return Sample(text, attack, _named(row, stem), family, key, question=str(question) if question else None)


def _named(row: Mapping[str, Any], stem: str) -> str:
    if "slice" in row:
        return str(row["slice"])
    kind, category = row.get("kind"), str(row.get("category", ""))
    if kind == "benign_document":
        return _slice(kind, category)
    if kind == "indirect_payload":
        return _slice(kind, category.partition(":")[0])
    if kind == "benign_prompt":  # of several collections: owner/name@commit …
        return _slice(kind, str(row.get("source", "")).partition("@")[0].partition(" ")[0].rpartition("/")[2])
    return str(
        kind or _slice(stem, row.get("dataset"), "mentions injection" if row.get("mentions_injection") else None)
    )


def _slice(*parts: Any) -> str:
    return " ".join(str(part) for part in parts if part)


_ATTACKS = {"injection", "attack", "poison", "poisoned", "malicious", "1", "true"}
_CLEAN = {"benign", "clean", "legit", "0", "false"}


def _labelled(row: Mapping[str, Any], where: str, *, default: bool) -> bool:
    if "label" not in row:
        return default
    label = str(row["label"]).casefold()
    if label in _ATTACKS | _CLEAN:
        return label in _ATTACKS
    raise Misuse(
        f"{where}: label is {len(label)} characters of something else; expected one of {', '.join(sorted(_ATTACKS | _CLEAN))}"
    )


def _text(row: Mapping[str, Any], key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise Misuse(f"{where}: {key!r} is {_is(value)}; expected a string")
    return value


def _texts(row: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = row.get(key)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise Misuse(f"{where}: {key!r} is {_is(value)}; expected a list of strings")
    return value


def _is(value: Any) -> str:
    return "missing or null" if value is None else f"a {type(value).__name__}"
