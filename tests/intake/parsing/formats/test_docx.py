from __future__ import annotations

import io
import zipfile

import pytest

from corpus_guard.errors import HostileInput
from corpus_guard.intake.parsing.formats import docx
from intake.parsing import making


def code(content: bytes) -> str:
    with pytest.raises(HostileInput) as caught:
        docx.read(content)
    return caught.value.code


def test_paragraphs_are_text_and_properties_are_declared() -> None:
    parsed = docx.read(making.word("first", "second"))
    assert parsed.text == "first\n\nsecond\n\nend"
    assert (parsed.declared["title"], parsed.declared["author"]) == ("A title", "An author")
    assert parsed.hidden == ""


def test_runs_nobody_sees_are_hidden() -> None:
    parsed = docx.read(making.word("first", vanish="vanished ", white="white ", tiny="tiny"))
    assert parsed.text == "first\n\nend"
    assert parsed.hidden == "vanished white tiny"


def test_comments_are_hidden() -> None:
    import docx as python_docx

    document = python_docx.Document()
    paragraph = document.add_paragraph("text")
    document.add_comment(paragraph.runs, text="a reviewer's remark")
    out = io.BytesIO()
    document.save(out)
    parsed = docx.read(out.getvalue())
    assert "remark" in parsed.hidden
    assert "remark" not in parsed.text


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_truncated_docx_is_unreadable(kept: float) -> None:
    content = making.word("text")
    assert code(content[: int(len(content) * kept)]) == "parsing.unreadable"


def test_a_bomb_is_refused_by_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    content = making.word("text")
    assert code(making.with_part(content, "word/media/x.bin", bytes(30 * 2**20))) == "parsing.zip_bomb"
    monkeypatch.setattr(docx, "MAX_INFLATED", 2**20)
    monkeypatch.setattr(docx, "MAX_RATIO", 10**9)
    assert code(making.with_part(content, "word/media/x.bin", bytes(2**20))) == "parsing.zip_bomb"


def test_a_bomb_whose_directory_lies_is_refused() -> None:
    bomb = bytearray(making.with_part(making.word("text"), "word/media/x.bin", bytes(30 * 2**20)))
    entry = bomb.rindex(b"word/media/x.bin") - 46  # the last header of the directory
    bomb[entry + 24 : entry + 28] = (10).to_bytes(4, "little")  # "10 bytes when inflated"
    assert code(bytes(bomb)) in {"parsing.zip_bomb", "parsing.unreadable"}


def test_too_many_entries_are_refused() -> None:
    out = io.BytesIO(making.word("text"))
    with zipfile.ZipFile(out, "a") as archive:
        for number in range(docx.MAX_ENTRIES):
            archive.writestr(f"x{number}", b"")
    assert code(out.getvalue()) == "parsing.zip_bomb"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused(encoding: str) -> None:
    xml = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>'
    assert (
        code(making.with_part(making.word("text"), "word/document.xml", xml.encode(encoding))) == "parsing.xml_entities"
    )


def test_deep_xml_is_unreadable_not_a_crash() -> None:
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    xml = (
        f'<w:document xmlns:w="{namespace}"><w:body>' + "<w:p>" * 20_000 + "</w:p>" * 20_000 + "</w:body></w:document>"
    )
    assert code(making.with_part(making.word("text"), "word/document.xml", xml.encode())) == "parsing.unreadable"
