"""Words that paths, identifiers and addresses are made of, counted in the files of many programs.

`perplexity` reads words without the signs between them. Lists of such words are nothing that an optimiser wrote, however rare they are.
"""

from __future__ import annotations

import gzip
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import Misuse
from corpus_guard.screening.checks.perplexity import SHAPES
from corpus_guard.screening.checks.token_rarity import parts_of_words

FILES: Final = 12
"""Files of a program that are read, by chance."""
NAMES: Final = 300
"""File names of a program that are read."""
BYTES: Final = 9_000
"""Bytes of a file that are read."""
READ: Final = frozenset({".py", ".md", ".rst", ".txt", ".json", ".h", ".js", ".c", ".pl", ".pm", ".conf", ".gz", ""})
"""Endings of files that are read."""
_WORD: Final = re.compile(r"[a-z]{3,24}")


def count_technical_words(
    folders: Sequence[Path], programs: int = 3, seed: int = 0, progress: Progress = no_progress
) -> list[str]:
    """Return the words of paths, identifiers and addresses that occur in the files of so many programs, sorted.

    Args:
        folders: each file and folder in one of them is a program.
        programs: that must have a word. A word of one program alone says little, and may have been planted.

    Raises:
        Misuse: a folder is missing, or no word is left.
    """
    if missing := next((folder for folder in folders if not folder.is_dir()), None):
        raise Misuse(f"{missing}: no such folder; expected one that holds a folder for each program")
    program_folders = sorted({path for folder in folders for path in folder.iterdir()})
    counts: Counter[str] = Counter()
    for done, program in enumerate(program_folders):
        progress("reading programs", done, len(program_folders))
        choice = random.Random(f"{seed} {program.name}")  # noqa: S311 - no secret
        counts.update({word for text in _texts(program, choice) for word in _joined_words(text)})
    words = sorted(word for word, count in counts.items() if count >= programs)
    if not words:
        raise Misuse(
            f"{len(program_folders)} programs have no word in common; expected folders of many, such as /usr/share/doc"
        )
    return words


def _joined_words(text: str) -> Iterator[str]:
    for shape in SHAPES.finditer(text):
        yield from filter(_WORD.fullmatch, parts_of_words(shape[0]))


def _texts(program: Path, choice: random.Random) -> Iterator[str]:
    """Yield the names of a program's files, and how some of them begin."""
    walked = [program] if program.is_file() else _files(program)
    yield "\n".join(map(str, walked[:NAMES]))
    readable = [path for path in walked if path.suffix in READ]
    for path in choice.sample(readable, min(FILES, len(readable))):
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
                yield stream.read(BYTES).decode()
        except (OSError, EOFError, ValueError):
            continue  # damaged, not ours to read, or no text


def _files(folder: Path) -> list[Path]:
    """Return the files below a folder; links are not followed, because they may lead in a circle."""
    return sorted(Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
