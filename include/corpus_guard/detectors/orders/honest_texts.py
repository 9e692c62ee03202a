"""Honest sentences of a machine's own texts: manuals, messages of programs in many languages, project documents."""

from __future__ import annotations

import gettext
import gzip
import random
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from corpus_guard.detectors.orders.texts import OrderText
from corpus_guard.detectors.samples import Half, assign_half, read_samples
from corpus_guard.errors import Misuse
from corpus_guard.intake.parsing.formats.html import read_string
from corpus_guard.screening.orders.features import split_pieces

MAX_BYTES: Final = 400_000
"""Size of a file that is read; larger ones are data."""
PER_FILE: Final = 40
"""Sentences taken from a file."""
PER_CATALOGUE: Final = 60
"""Messages taken from a catalogue of translations."""
_TEXT_SUFFIXES: Final = frozenset({"", ".md", ".txt", ".rst", ".gz", ".html", ".html.in", ".adoc"})
_PLACE: Final = re.compile(r"%\(?\w*\)?[-\d.]*[a-z]")
_LANGUAGE: Final = re.compile(r"([a-z]{2,3})(?:[_@]\w+)?$")


def read_honest(paths: Sequence[Path], number: int, seed: int = 0, half: Half | None = Half.TUNING) -> list[OrderText]:
    """Return at most `number` different sentences of files and folders, the same for the same seed.

    Args:
        paths: folders (read with what is below them), JSONL files of labelled texts, other text files.
        half: of the files, by their folder, and of the JSONL rows; None: all.

    Raises:
        Misuse: there is no such file or folder.
    """
    for path in paths:
        if not path.exists():
            raise Misuse(f"{path}: no such file or folder; expected honest texts, such as /usr/share/doc")
    choice = random.Random(f"{seed} honest")  # noqa: S311 - no secret
    texts: dict[str, OrderText] = {}
    for path in paths:
        for text in _of_jsonl(path, half, choice) if path.suffix == ".jsonl" else _of_folder(path, half, choice):
            texts.setdefault(text.text, text)
    rows = sorted(texts.values(), key=lambda text: text.text)
    choice.shuffle(rows)
    return rows[:number]


def _of_jsonl(path: Path, half: Half | None, choice: random.Random) -> Iterator[OrderText]:
    samples = [sample for sample in read_samples((), (path,)).samples if half in {None, sample.half}]
    for sample in samples:
        yield from _sentences(sample.text, path.stem, choice, PER_FILE)


def _of_folder(path: Path, half: Half | None, choice: random.Random) -> Iterator[OrderText]:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        if half not in {None, assign_half(file.parent.name)} or not file.is_file() or file.stat().st_size > MAX_BYTES:
            continue
        if file.suffix == ".mo":
            yield from _of_catalogue(file, choice)
        elif file.suffix in _TEXT_SUFFIXES:
            yield from _sentences(_read(file), path.name, choice, PER_FILE)


def _read(file: Path) -> str:
    """Return the text of a file, of a page as the guard reads it; empty where it cannot be read."""
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            text = stream.read(MAX_BYTES).decode("utf-8", "replace")
        return read_string(text).text if file.suffix == ".html" else text
    except (OSError, EOFError, MemoryError):
        return ""


def _sentences(text: str, source: str, choice: random.Random, number: int) -> Iterator[OrderText]:
    sentences = [text[span.start : span.end] for span in split_pieces(text)]
    for sentence in choice.sample(sentences, min(number, len(sentences))):
        yield OrderText(sentence, False, "background", "", source, sentence)


def _of_catalogue(file: Path, choice: random.Random) -> Iterator[OrderText]:
    language = next((match[1] for part in file.parts[::-1][1:3] if (match := _LANGUAGE.match(part))), "")
    try:
        with file.open("rb") as stream:
            catalogue = vars(gettext.GNUTranslations(stream)).get("_catalog", {})
    except (OSError, ValueError, LookupError, struct.error):
        return
    messages = sorted(
        {text.strip() for key, text in catalogue.items() if key and isinstance(text, str) and 25 <= len(text) <= 300}
    )
    for message in choice.sample(messages, min(PER_CATALOGUE, len(messages))):
        text = _PLACE.sub("x", message)
        yield OrderText(text, False, "background", language, "translations", text)
