"""How far two parsers of real documents are apart: ``python tests/intake/parsing/compare_counts.py FOLDER…``.

Parses every HTML, PDF, DOCX, PPTX, XLSX and EPUB file below the folders, at most so many of a kind, spread evenly, and prints for each
kind how many there were, how many of them set off ``parsing.extractors_disagree``, and which. What `_recount.MIN_SHARE` rests on.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from corpus_guard.intake.parsing import ParsingSandbox
from corpus_guard.settings import Settings

KINDS = (".html", ".htm", ".pdf", ".docx", ".pptx", ".xlsx", ".epub")


def main() -> None:
    """Count and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folders", nargs="+", type=Path)
    arguments.add_argument("--most", type=int, default=500, help="files of a kind")
    options = arguments.parse_args()
    files = sorted({path for folder in options.folders for path in folder.rglob("*") if path.suffix.lower() in KINDS})
    with ParsingSandbox(Settings()) as sandbox:
        for kind in KINDS:
            found = [path for path in files if path.suffix.lower() == kind and path.stat().st_size]
            chosen = found[:: max(1, len(found) // options.most)][: options.most]
            codes = Counter[str]()
            told: list[str] = []
            for path in chosen:
                problems = sandbox.parse(path.read_bytes(), "", path.name).problems
                codes.update({problem.code for problem in problems})
                told += [
                    f"    {path}: {each.message}" for each in problems if each.code == "parsing.extractors_disagree"
                ]
            if chosen:
                print(f"{kind:6} {len(chosen):>5,} read, {len(told)} disagree; {dict(codes)}")
                print(*told[:20], sep="\n", flush=True)


if __name__ == "__main__":
    main()
