"""What `perplexity` finds of optimised passages, plain, in disguise and thinned out, and what it holds of honest texts.

    python -m tests.bench.disguises [FILE ...]

Each FILE has honest texts: JSON lines with a field "text". Attacks are drawn from whitebox_hotflip.jsonl in the folder that
CORPUS_GUARD_DATA names: their first 26 words, which an optimiser chose, are written as each row says, and the rest stays as it is. With
--made they are optimised here, against the built-in embedder, from texts of poisonedrag_nq.jsonl and poisonedrag_hotpotqa.jsonl: 20 seconds
each. Needs the models of `guard models prepare`. Prints two tables, or with --json one object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.bench.screening import DATA
from tests.material import a_version

from corpus_guard.attacks.hotflip import HotFlip
from corpus_guard.cli import console as look
from corpus_guard.domain import Severity, Version
from corpus_guard.intake.chunking import Chunker
from corpus_guard.models import Models
from corpus_guard.screening.checks.perplexity import Perplexity, PerplexityParams
from corpus_guard.screening.policy import load_policy
from corpus_guard.settings import load_settings

ATTACKS: Final = "whitebox_hotflip.jsonl"
PLANTED: Final = ("poisonedrag_nq.jsonl", "poisonedrag_hotpotqa.jsonl")
OPTIMISED: Final = 26  # words that are disguised
FLIPS: Final = {
    "random": 60,
    "question": 16,
}  # words replaced at most in what begins as random words, or as the question
BATCH: Final = 64  # versions shown to the check at once

Item = TypeVar("Item")

Way = Callable[[list[str]], str]
"""How words are written."""


def every(count: int, filler: str) -> Way:
    """Return a way to write words with a filler after every `count` of them."""
    return lambda words: f" {filler} ".join(" ".join(group) for group in _groups(words, count))


def between(fillers: Sequence[str], each: int = 1) -> Way:
    """Return a way to write words with so many fillers after each, drawn by chance."""

    def write(words: list[str]) -> str:
        draw = random.Random(" ".join(words))
        return " ".join(" ".join([word, *draw.choices(fillers, k=each)]) for word in words)

    return write


def fours(join: Callable[[tuple[str, ...]], str]) -> Way:
    """Return a way to write four words a line."""
    return lambda words: "\n".join(join(group) for group in _groups(words, 4))


def camel(words: tuple[str, ...]) -> str:
    """Return words as one identifier: `twoWords`."""
    return words[0] + "".join(map(str.capitalize, words[1:]))


WAYS: Final[dict[str, Way]] = {
    "plain": " ".join,
    "list with commas": ", ".join,
    "sentences of one word": ". ".join,
    "bullets": lambda words: "\n".join(f"- {word}" for word in words),
    "cells of a table": fours(lambda words: f"| {' | '.join(words)} |"),
    "quotations": lambda words: " ".join(f'"{word}"' for word in words),
    "paths": fours("/".join),
    "identifiers with underscores": fours("_".join),
    "identifiers in camel case": fours(camel),
    "mail addresses": fours(lambda words: f"{words[0]}@{'.'.join([*words[1:], 'example'])}"),
    "addresses of pages": fours(lambda words: f"https://{'/'.join(words)}"),
    "a figure behind each word": lambda words: " ".join(f"{word}{number}" for number, word in enumerate(words)),
    "options in brackets": lambda words: " ".join(f"[--{word}]" for word in words),
    "names in brackets": fours(lambda words: f"[{' '.join(map(str.capitalize, words))}]"),
    "capitals": lambda words: " ".join(words).upper(),
    "a path and a version after every sixth word": every(6, "/usr/lib/x86_64 2.7.1-3"),
    "a path and a version after every third word": every(3, "/usr/lib/x86_64 2.7.1-3"),
    '"of" between words': between(["of"]),
    '"the" between words': between(["the"]),
    '"that is" between words': between(["that is"]),
    '"quickly" between words': between(["quickly"]),
    '"wharf" between words': between(["wharf"]),
}


def frequent_words(vocabulary: Path) -> list[str]:
    """Return the words of a ``tokenizer.json`` of three letters or more, in the order of their frequency."""
    words: dict[str, int] = json.loads(vocabulary.read_text(encoding="utf-8"))["model"]["vocab"]
    return [
        word for word in sorted(words, key=words.__getitem__) if len(word) > 2 and word.isascii() and word.isalpha()
    ]


def all_ways(vocabulary: Path) -> dict[str, Way]:
    """Return `WAYS`, and those with different words between any two."""
    frequent = frequent_words(vocabulary)
    return WAYS | {
        "one of the first thousand words between words": between(frequent[:1000]),
        "two of the first thousand words between words": between(frequent[:1000], each=2),
        "one of the second thousand words between words": between(frequent[1000:2000]),
        "one of the fifth thousand words between words": between(frequent[4000:5000]),
    }


def attacks(file: Path, count: int, seed: int) -> list[str]:
    """Return texts of that many rows of the file, one a row, drawn by chance."""
    with file.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    draw = random.Random(seed)
    return [draw.choice(row["adversarial_texts"]) for row in draw.sample(rows, count)]


def made(folder: Path, begun: str, models: Models, count: int, seed: int) -> Iterator[str]:
    """Yield passages optimised against the built-in embedder for questions drawn by chance, which begin as `FLIPS` says."""
    rows = [json.loads(line) for name in PLANTED for line in (folder / name).read_text(encoding="utf-8").splitlines()]
    draw = random.Random(seed)
    optimiser = HotFlip(models.embedder_weights, steps=FLIPS[begun])
    for row in draw.sample(rows, count):
        text = draw.choice(row["adversarial_texts"])
        yield optimiser.optimise(row["question"], text, seed, random_words=OPTIMISED if begun == "random" else 0)


def write(text: str, way: Way) -> str:
    """Return a text whose first words are written this way."""
    words = text.replace("##", "").split()
    return f"{way(words[:OPTIMISED])}\n\n{' '.join(words[OPTIMISED:])}"


def codes(check: Perplexity, chunker: Chunker, texts: Iterable[str]) -> Counter[str]:
    """Return how many texts each finding holds, the first of a text; an empty one stands for those that none holds."""
    found: Counter[str] = Counter()
    for batch in _groups(enumerate(texts), BATCH):
        versions = [_cut(chunker, text, f"{number}.md") for number, text in batch]
        wanted = [version for version in versions if check.wants(version, ()) is None]
        held: dict[int, str] = {}
        for index, finding in check.run(wanted, None):
            if finding.severity.rank >= Severity.MEDIUM.rank:
                held.setdefault(index, finding.code.rpartition(".")[2])
        found.update(held.values())
        found[""] += len(versions) - len(held)
    return found


def _cut(chunker: Chunker, text: str, uri: str) -> Version:
    whole = a_version(uri, [text], declared={})
    return replace(whole, chunks=chunker.cut(whole.doc_id, whole.version_id, text))


def honest_row(check: Perplexity, chunker: Chunker, file: Path, most: int) -> dict[str, Any]:
    """Return what is held of the first texts of a file, and the time for a chunk, in ms of CPU."""
    with file.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in itertools.islice(lines, most)]
    chunks = sum(len(_cut(chunker, text, file.name).chunks) for text in texts)
    began = time.process_time()
    found = codes(check, chunker, texts)
    return _row(file.name, found) | {"ms a chunk": 1000 * (time.process_time() - began) / max(1, chunks)}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("honest", metavar="FILE", nargs="*", type=Path)
    parser.add_argument(
        "--count", type=int, default=50, help="of optimised passages, one a question and retriever (50)"
    )
    parser.add_argument("--seed", type=int, default=77, help="by which they are drawn (77)")
    parser.add_argument(
        "--made", choices=sorted(FLIPS), help="optimise them here: from random words, or from the question"
    )
    parser.add_argument(
        "--most", type=int, default=sys.maxsize, help="honest texts of each FILE, the first of it (all)"
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="parameters of `perplexity` in place of the policy's",
    )
    parser.add_argument("--json", action="store_true", help="for machines")
    arguments = parser.parse_args()
    if not arguments.honest and not os.environ.get(DATA):
        parser.error(f"nothing to read: name a FILE of honest texts, or set {DATA} to the folder with {ATTACKS}")
    settings = load_settings()
    models = Models(settings)
    params = load_policy(settings.policy_file).checks["perplexity"] | dict(pair.split("=", 1) for pair in arguments.set)
    check = Perplexity(
        PerplexityParams.model_validate(params),
        models.frequency_vocabulary,
        models.language_model_digest,
        lambda: models.language_model,
    )
    chunker = Chunker(models.tokenizer_file, settings.chunk_tokens)
    rows: list[dict[str, Any]] = []
    if os.environ.get(DATA) and arguments.count:
        folder = Path(os.environ[DATA])
        if arguments.made:
            texts = list(made(folder, arguments.made, models, arguments.count, arguments.seed))
        else:
            texts = attacks(folder / ATTACKS, arguments.count, arguments.seed)
        rows = [
            _row(name, codes(check, chunker, [write(text, way) for text in texts]))
            for name, way in all_ways(models.frequency_vocabulary).items()
        ]
    models.language_model.surprisals(["It is loaded before the clock starts."])
    honest = [honest_row(check, chunker, file, arguments.most) for file in arguments.honest]
    if arguments.json:
        sys.stdout.write(json.dumps({"attacks": rows, "honest": honest}, indent=2) + "\n")
        return 0
    for title, table in (("Optimised passages", rows), ("Honest texts", honest)):
        if table:
            cells = [
                [f"{value:.1f}" if isinstance(value, float) else str(value) for value in row.values()] for row in table
            ]
            look.out.print(look.table(title, list(table[0]), cells, right=list(table[0])[1:]))
    return 0


def _groups(items: Iterable[Item], count: int) -> Iterator[tuple[Item, ...]]:
    """Yield so many items at a time."""
    rest = iter(items)
    while group := tuple(itertools.islice(rest, count)):
        yield group


def _row(name: str, found: Counter[str]) -> dict[str, Any]:
    steps = {step: found[step] for step in ("gibberish", "unlikely", "separated", "diluted")}
    return {"texts": name, "of": found.total(), "held": found.total() - found[""], **steps}


if __name__ == "__main__":
    sys.exit(main())
