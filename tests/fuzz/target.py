"""One reader under libFuzzer. Run by `tests.fuzz`: ``python -m tests.fuzz.target WRAPPER CORPUS [libFuzzer options]``."""

from __future__ import annotations

import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(
    include=["corpus_guard.intake.parsing", "pypdf", "mammoth", "zipfile", "yaml", "tests.fuzz"]
):
    import mammoth  # noqa: F401
    import pypdf  # noqa: F401
    from tests.fuzz.seeds import wrapped

    from corpus_guard.errors import HostileInput
    from corpus_guard.intake.parsing import media
    from corpus_guard.intake.parsing.document import ParsedDocument, finalize
    from corpus_guard.intake.parsing.formats import docx, eml, epub, html, markdown, pdf, pptx, row, text, xlsx

MAX_CHARS = 4_000_000
READERS = {
    "docx": docx,
    "eml": eml,
    "epub": epub,
    "html": html,
    "markdown": markdown,
    "pdf": pdf,
    "pptx": pptx,
    "row": row,
    "text": text,
    "xlsx": xlsx,
}


def target(wrapper: str) -> Callable[[bytes], None]:
    """What is called with every input. A reader may refuse it by name, or run out of memory; anything else is a crash."""

    def once(data: bytes) -> None:
        content = wrapped(wrapper, data)
        try:
            media.detect_media_type(content, "", "name")
            parsed: ParsedDocument = READERS[wrapper].read(content)
        except (HostileInput, MemoryError):
            return
        whole = finalize(parsed, max_chars=MAX_CHARS)
        for piece in (whole.text, whole.hidden, *whole.declared, *whole.declared.values()):
            piece.encode()
            assert "\x00" not in piece
        assert ParsedDocument.from_dict(whole.as_dict()) == whole

    return once


def main() -> None:
    """Hand over to libFuzzer; does not return."""
    wrapper, *rest = sys.argv[1:]
    atheris.Setup([sys.argv[0], *rest], target(wrapper))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
