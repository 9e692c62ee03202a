"""Verdicts before and after a change that must not alter any: the sample corpus, and 5,000 labelled texts where there are some.

    python -m tests.bench.verdicts record FILE [ROWS]     screen all of it, and keep verdicts, risks and findings
    python -m tests.bench.verdicts compare BEFORE AFTER   count what differs; exit code 1 where a verdict does

The labelled texts are read from the folder that CORPUS_GUARD_DATA names, ROWS of them (5,000 unless told), as many of each file as it has,
up to an equal share, and judged one by one. A record holds ids, codes and numbers, and no text.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.bench.screening import CLEAN, DATA, POISON

from corpus_guard.screening.standalone import ScreenedDocument, ScreenOptions, screen_input
from corpus_guard.settings import PROJECT, load_settings

ROWS: Final = 5_000
TEXT_FIELDS: Final = ("text", "poisoned_text", "clean_text", "adversarial_texts", "clean_texts")


def main(arguments: list[str]) -> int:
    """Record or compare."""
    match arguments:
        case ["record", file, *rows]:
            record(Path(file), int(rows[0]) if rows else ROWS)
            return 0
        case ["compare", before, after]:
            differing = compare(*(_read(Path(name)) for name in (before, after)))
            sys.stdout.write(json.dumps(differing, indent=2) + "\n")
            return 1 if differing["verdicts"] else 0
    sys.stderr.write(__doc__ or "")
    return 2


def record(file: Path, rows: int) -> None:
    """Write a line for each document."""
    settings = load_settings()
    corpora = {"sample corpus": PROJECT / "include" / "sample_corpus"}
    with tempfile.TemporaryDirectory(prefix="corpus-guard-bench-") as name:
        if data := os.environ.get(DATA):
            corpora["labelled texts"] = Path(name) / "rows.jsonl"
            with corpora["labelled texts"].open("w", encoding="utf-8") as stream:
                for number, text in enumerate(labelled_texts(Path(data), rows)):
                    stream.write(json.dumps({"id": number, "text": text}) + "\n")
        with file.open("w", encoding="utf-8") as stream:
            for corpus, path in corpora.items():
                for document in screen_input(settings, path, ScreenOptions(one_by_one=path.is_file())):
                    stream.write(json.dumps(_line(corpus, document)) + "\n")


def labelled_texts(data: Path, rows: int) -> Iterator[str]:
    """Yield texts of every file, an equal share of each, evenly spread over it."""
    files = [path for name in dict.fromkeys((*POISON, *CLEAN)) if (path := data / f"{name}.jsonl").is_file()]
    left = rows
    for before, texts in enumerate(sorted((_texts(path) for path in files), key=len)):
        share = min(len(texts), left // (len(files) - before))
        left -= share
        yield from (texts[number * len(texts) // share] for number in range(share))


def compare(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return how many documents there are, and how many differ: in verdict, in risk, in codes."""
    verdicts = Counter(
        f"{before.get(key, {}).get('verdict')} → {after.get(key, {}).get('verdict')}"
        for key in before.keys() | after.keys()
        if before.get(key, {}).get("verdict") != after.get(key, {}).get("verdict")
    )
    both = before.keys() & after.keys()
    codes = Counter(
        code for key in both for code in {*map(tuple, before[key]["findings"])} ^ {*map(tuple, after[key]["findings"])}
    )
    return {
        "documents": len(before),
        "quarantined": sum(document["verdict"] != "accept" for document in before.values()),
        "verdicts": dict(verdicts),
        "risks": sum(before[key]["risk"] != after[key]["risk"] for key in both),
        "findings": {" ".join(map(str, code)): count for code, count in codes.items()},
    }


def _texts(path: Path) -> list[str]:
    rows = (json.loads(line) for line in path.open(encoding="utf-8"))
    values = (row[field] for row in rows for field in TEXT_FIELDS if row.get(field))
    return [text for value in values for text in ([value] if isinstance(value, str) else value) if text.strip()]


def _line(corpus: str, document: ScreenedDocument) -> dict[str, Any]:
    judged = document.judgement
    return {
        "id": f"{corpus}: {document.id}",
        "verdict": judged.verdict.value,
        "risk": judged.risk,
        "findings": sorted([finding.code, finding.severity.value] for finding in judged.findings),
    }


def _read(file: Path) -> dict[str, dict[str, Any]]:
    return {line["id"]: line for line in map(json.loads, file.open(encoding="utf-8"))}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
