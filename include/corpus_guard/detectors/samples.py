"""Labelled texts from JSONL files, split into a half for tuning and a half for validation.

A row is read by the keys it has:

====================================  =============================================  =====================================
row                                   read as poison                                 read as clean
====================================  =============================================  =====================================
``poisoned_text``, ``clean_text``     the document with the attack in it             the document without it
``adversarial_texts`` (``question``)  every text; for an unnamed attack also led by  every one of ``clean_texts``
                                      its question, the form PoisonedRAG injects
``text`` (``label``, ``slice``, …)    the text, unless labelled benign               the text, unless labelled an attack
====================================  =============================================  =====================================

Rules
- Texts with the same key (a question, else a title or a repository, else the kind of attack, else the text
  itself) fall into the same half, in whichever file they are: SHA-256 of the key decides, so the halves are
  the same in every run and on every machine.
- A row of no known shape is an error with file and line. Blank texts are left out and counted.
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
from typing import NamedTuple

from corpus_guard.attacks.poisonedrag import lead_with_question
from corpus_guard.errors import Misuse

Row = Mapping[str, object]

CLEAN_PER_BATCH = 1_000  # clean texts that sibling attacks are placed among
QUESTIONS_PER_BATCH = 10  # attacked at once in a batch, at most: the rest of the batch stays clean
BANK_QUESTIONS = 500  # questions that users are known to ask


class ScreeningScore(StrEnum):
    """Score of screening whose weights are learned."""

    COORDINATION = "coordination"
    TARGETING = "targeting"


class Half(StrEnum):
    """Part of the data that a text belongs to."""

    TUNING = "tuning"
    VALIDATION = "validation"  # the reported figures
    WHOLE = "whole"  # texts of this package: not split


class Family(StrEnum):
    """Kind of text; decides which target applies to it."""

    KNOWLEDGE = "knowledge"  # a fluent lie that answers a question (PoisonedRAG, black box)
    REWRITTEN = "rewritten"  # the same, rewritten so that siblings differ
    HOTFLIP = "hotflip"  # optimised word by word to be retrieved
    TYPOS = "typos"  # GARAG
    EMBEDDED = "embedded"  # an instruction inside a document (BIPIA)
    OVERRIDE = "override"  # "ignore your instructions", plain or disguised
    ATTACK = "attack"  # any other
    ORDINARY = "ordinary"  # documents as a corpus holds them
    HARD_NEGATIVE = "hard negative"  # clean text about attacks, or that resembles one
    JOINERS = "joiners"  # clean text that needs invisible characters
    PROMPT = "prompt"  # benign, but a prompt instead of a document


class TextForm(StrEnum):
    """Form of a text in its document."""

    AS_IS = "as is"
    BARE = "bare"  # without the question that leads the attack's published form
    LED = "question + text"
    ASKED = "Question? + text"  # the same by an attacker who writes the question as a page would


@dataclass(frozen=True, slots=True)
class Sample:
    """Labelled text."""

    text: str
    attack: bool
    slice: str  # counted together, per `form` and `attack`
    family: Family
    key: str  # texts with the same key stay in the same half
    form: TextForm = TextForm.AS_IS
    question: str | None = None  # that the text answers or was retrieved for
    half: Half = Half.WHOLE

    @property
    def slice_key(self) -> SliceKey:
        """Return the slice that the text is counted in."""
        return SliceKey(self.slice, self.form, self.attack)


class SliceKey(NamedTuple):
    """Texts that are counted together."""

    slice: str
    form: TextForm
    attack: bool


@dataclass(frozen=True, slots=True)
class SampleSet:
    """Samples of all files."""

    samples: tuple[Sample, ...]
    blank: int  # texts without a letter, left out


def assign_half(key: str) -> Half:
    """Return the half that all texts with this key fall into."""
    return Half.VALIDATION if hashlib.sha256(b"half/v1\n" + _bytes(key)).digest()[0] & 1 else Half.TUNING


def read_samples(poison: Sequence[Path], clean: Sequence[Path]) -> SampleSet:
    """Read labelled texts.

    Args:
        clean: files to read honest texts from; a file may be in both lists.

    Raises:
        Misuse: a file is missing or is not JSONL, or a row has no known shape; names file, line and the
            expected keys.
    """
    samples: list[Sample] = []
    blank = 0
    for paths, attack in ((poison, True), (clean, False)):
        for path in paths:
            count = 0
            for place, row in read_rows(path):
                for sample in _parse_row(row, path.stem, place, attack=attack):
                    count += 1
                    if sample.text.strip():
                        samples.append(replace(sample, half=assign_half(sample.key)))
                    else:
                        blank += 1
            if not count:
                label, option = ("an attack", "--clean") if attack else ("clean", "--poison")
                raise Misuse(f"{path}: holds no text that is {label}; pass the file with {option}")
    return SampleSet(tuple(samples), blank)


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Read the rows of a JSONL file, each with its place (``file:line``) for error messages.

    Raises:
        Misuse: the file cannot be read, or a line is not a JSON object.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                place = f"{path}:{number}"
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except (json.JSONDecodeError, RecursionError):
                    raise Misuse(f"{place}: not JSON; expected one object per line") from None
                if not isinstance(row, dict):
                    raise Misuse(f"{place}: a {type(row).__name__}; expected one JSON object per line")
                yield place, row
    except OSError as error:
        raise Misuse(f"{path}: cannot be read ({error.strerror}); name a JSONL file") from error
    except UnicodeDecodeError as error:
        raise Misuse(f"{path}: not UTF-8 (byte {error.start}); expected JSONL in UTF-8") from error


def limit_per_slice(samples: Iterable[Sample], limit: int | None, seed: int) -> list[Sample]:
    """Return at most `limit` texts of each slice and half, whole keys together; another seed picks others.

    Both forms of an attack are picked for the same keys. Texts that have no half are few, and all are
    returned.
    """
    if limit is None:
        return list(samples)
    groups: dict[tuple[SliceKey, Half], dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        groups[sample.slice_key, sample.half][sample.key].append(sample)
    picked = []
    for (_, half), by_key in groups.items():
        ordered = [sample for key in sorted(by_key, key=lambda key: _draw_order(seed, key)) for sample in by_key[key]]
        picked += ordered if half is Half.WHOLE else ordered[:limit]
    return picked


def question_key(question: str) -> str:
    """Return a question as a key: letters and digits only, so that different spellings get the same key."""
    return " ".join(re.findall(r"\w+", question.casefold()))


def _draw_order(seed: int, key: str) -> bytes:
    return hashlib.sha256(b"pick/v1\n%d\n" % seed + _bytes(key)).digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _parse_row(row: Row, stem: str, place: str, *, attack: bool) -> Iterator[Sample]:
    if "poisoned_text" in row:
        yield from _parse_embedded(row, stem, place, attack)
    elif "adversarial_texts" in row:
        yield from _parse_answers(row, stem, place, attack)
    elif "text" in row:
        if _labelled(row, place, default=attack) is attack:
            yield _parse_plain(row, stem, place, attack)
    else:
        raise Misuse(
            f"{place}: has the keys {', '.join(map(repr, sorted(row)[:12])) or '(none)'}; expected 'text', or 'question' with "
            "'adversarial_texts', or 'poisoned_text' with 'clean_text'"
        )


def _parse_embedded(row: Row, stem: str, place: str, attack: bool) -> Iterator[Sample]:
    text = _text(row, "poisoned_text" if attack else "clean_text", place)
    yield Sample(
        text=text,
        attack=attack,
        slice=_slice(stem, row.get("task")),
        family=Family.EMBEDDED if attack else Family.ORDINARY,
        key=str(row.get("attack_category", text)) if attack else text,
    )


_FAMILIES = {"garag_typos": Family.TYPOS, "poisonedrag_hotflip": Family.HOTFLIP}


def _parse_answers(row: Row, stem: str, place: str, attack: bool) -> Iterator[Sample]:
    question = _text(row, "question", place)
    name = row.get("attack")
    if not attack:
        for text in _texts(row, "clean_texts", place):
            yield Sample(text, False, _slice(stem), Family.ORDINARY, question_key(question), question=question)
        return
    family = _FAMILIES.get(str(name), Family.ATTACK) if name else Family.KNOWLEDGE
    for text in _texts(row, "adversarial_texts", place):
        bare = Sample(
            text=text,
            attack=True,
            slice=_slice(name or stem, row.get("retriever")),
            family=family,
            key=question_key(question),
            form=TextForm.AS_IS if name else TextForm.BARE,
            question=question,
        )
        yield bare
        if not name and text.strip():
            yield lead_sample(bare)


def lead_sample(bare: Sample) -> Sample:
    """Return the form that PoisonedRAG's black-box attack injects."""
    return replace(bare, text=lead_with_question(bare.question or "", bare.text), form=TextForm.LED)


def ask_sample(bare: Sample) -> Sample:
    """Return the text behind its question, written as on an FAQ page."""
    question = (bare.question or "").strip().rstrip("?. ")
    return replace(bare, text=f"{question[:1].upper()}{question[1:]}? {bare.text}", form=TextForm.ASKED)


def _parse_plain(row: Row, stem: str, place: str, attack: bool) -> Sample:
    text = _text(row, "text", place)
    kind, question = row.get("kind"), row.get("question", row.get("query"))
    if attack:
        family = Family.ATTACK
    elif kind == "hard_negative_prompt" or "hard_negative" in stem:
        family = Family.HARD_NEGATIVE
    else:
        family = Family.PROMPT if kind == "benign_prompt" else Family.ORDINARY
    document = row.get("title", row.get("repo", row.get("category") if kind == "indirect_payload" else None))
    key = question_key(str(question)) if question else str(document or text)
    return Sample(text, attack, _slice_of(row, stem), family, key, question=str(question) if question else None)


def _slice_of(row: Row, stem: str) -> str:
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


def _slice(*parts: object) -> str:
    return " ".join(str(part) for part in parts if part)


_ATTACKS = {"injection", "attack", "poison", "poisoned", "malicious", "1", "true"}
_CLEAN = {"benign", "clean", "legit", "0", "false"}


def _labelled(row: Row, place: str, *, default: bool) -> bool:
    if "label" not in row:
        return default
    label = str(row["label"]).casefold()
    if label in _ATTACKS | _CLEAN:
        return label in _ATTACKS
    raise Misuse(
        f"{place}: 'label' is unknown ({len(label)} characters); expected one of {', '.join(sorted(_ATTACKS | _CLEAN))}"
    )


def _text(row: Row, key: str, place: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise Misuse(f"{place}: {key!r} is {_describe(value)}; expected a string")
    return value


def _texts(row: Row, key: str, place: str) -> list[str]:
    value = row.get(key)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise Misuse(f"{place}: {key!r} is {_describe(value)}; expected a list of strings")
    return value


def _describe(value: object) -> str:
    return "missing or null" if value is None else f"a {type(value).__name__}"
