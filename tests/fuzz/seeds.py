"""What fuzzing starts from, and how an input becomes a document.

A mutated zip is a damaged zip, and nothing behind its check sums is reached. For formats kept in a zip the input therefore is one part:
its first byte says which, and the part takes its place in a good document; with a first byte of 255 the rest is the whole file.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does for tests without a package

from corpus_guard.intake.parsing import media

WRAPPERS = {
    "html": media.HTML,
    "markdown": media.MARKDOWN,
    "text": media.TEXT,
    "row": media.ROW,
    "pdf": media.PDF,
    "docx": media.DOCX,
    "pptx": media.PPTX,
    "xlsx": media.XLSX,
    "epub": media.EPUB,
    "eml": media.EMAIL,
    "ipynb": media.NOTEBOOK,
}
_PARTS = {
    "docx": (
        "word/document.xml",
        "word/comments.xml",
        "word/styles.xml",
        "word/footer1.xml",
        "word/_rels/document.xml.rels",
        "docProps/core.xml",
    ),
    "pptx": (
        "ppt/slides/slide1.xml",
        "ppt/presentation.xml",
        "ppt/notesSlides/notesSlide1.xml",
        "ppt/slides/_rels/slide1.xml.rels",
        "docProps/core.xml",
    ),
    "xlsx": (
        "xl/worksheets/sheet1.xml",
        "xl/sharedStrings.xml",
        "xl/workbook.xml",
        "xl/styles.xml",
        "xl/comments1.xml",
        "docProps/core.xml",
    ),
    "epub": ("OEBPS/c0.xhtml", "OEBPS/package.opf", "META-INF/container.xml", "OEBPS/style.css"),
}
_WHOLE = 255
_STYLES = (
    b'<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:style w:type="paragraph" w:styleId="Heading1">'
    b'<w:name w:val="heading 1"/></w:style></w:styles>'
)


def seeds(wrapper: str) -> Iterator[bytes]:
    """Inputs of one wrapper: planted and hostile files of its format, at most 64 kB each."""
    import hostile_files
    from intake.parsing import planted

    suffixes = {"html": (".html",), "markdown": (".md",), "text": (".txt",), "row": (".json",)}.get(
        wrapper, (f".{wrapper}",)
    )
    if wrapper == "row":
        yield from (b'{"text":"a row","declared":{"title":"t"}}', b'{"text":1}', b"[]")
    whole = [content for name, content in planted.files() if name.endswith(suffixes)]
    whole += [
        content
        for case in hostile_files.cases()
        if case.quick and case.name.endswith(suffixes)
        for content in [case.make()]
    ]
    known: set[bytes] = set()
    for content in whole:
        if wrapper not in _PARTS:
            yield from [content] if len(content) <= 65_536 else []
            continue
        for number, name in enumerate(_PARTS[wrapper]):
            part = _parts(content).get(name)
            if part is not None and len(part) < 60_000 and part not in known:
                known.add(part)
                yield bytes([number]) + part
    if wrapper in _PARTS:
        yield bytes([_WHOLE]) + _base(wrapper)


def wrapped(wrapper: str, data: bytes) -> bytes:
    """The document that an input stands for."""
    if wrapper not in _PARTS:
        return data
    if not data or data[0] == _WHOLE:
        return data[1:]
    chosen = _PARTS[wrapper][data[0] % len(_PARTS[wrapper])]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, part in {**_parts(_base(wrapper)), chosen: data[1:]}.items():
            archive.writestr(name, part)
    return out.getvalue()


@cache
def _base(wrapper: str) -> bytes:
    from intake.parsing import making

    content: bytes = {
        # Without python-docx's 36 kB of styles, which take most of the time of a reading.
        "docx": lambda: making.with_part(making.word("one", "two", vanish="three"), "word/styles.xml", _STYLES),
        "pptx": lambda: making.slides(notes="notes"),
        "xlsx": lambda: making.sheets(lambda workbook, sheet: sheet.write_comment(0, 0, "a comment")),
        "epub": lambda: making.book("<p>one</p>", style="p{color:red}"),
    }[wrapper]()
    return content


@cache
def _parts(content: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # a hostile one: it is a seed only as a whole
        return {}
