"""What Word shows and what it does not, each in one document."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest

from corpus_guard.intake.parsing.formats import docx
from intake.parsing import making

UNSEEN, SEEN, PLAIN = "zebra claims are false", "okapi tables are shown", "The quay is swept in autumn."
NAMESPACES = " ".join(
    f'xmlns:{prefix}="{address}"'
    for prefix, address in {
        "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
        "wp": "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
        "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
        "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
        "r": "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
        "v": "urn:schemas-microsoft-com:vml",
        "w14": "http://schemas.microsoft.com/office/word/2010/wordml",
        "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
        "new": "urn:a-later-version",
    }.items()
)
WHITE, BLACK = '<w:color w:val="FFFFFF"/>', '<w:color w:val="000000"/>'
DARK = '<w:shd w:val="clear" w:fill="1F3864"/>'
ON_BLACK = '<w:shd w:val="clear" w:fill="000000"/>'
DARK_FILL = '<a:solidFill><a:srgbClr val="1F3864"/></a:solidFill>'


def part_changed(content: bytes, name: str, change: Callable[[str], str]) -> bytes:
    old = zipfile.ZipFile(io.BytesIO(content)).read(name).decode()
    return making.with_part(content, name, change(old).encode())


def document(body: str, *, styles: str = "") -> bytes:
    xml = f"<w:document {NAMESPACES}><w:body><w:p><w:r><w:t>{PLAIN}</w:t></w:r></w:p>{body}</w:body></w:document>"
    content = making.with_part(making.word(PLAIN), "word/document.xml", xml.encode())
    return part_changed(content, "word/styles.xml", lambda old: old.replace("</w:styles>", f"{styles}</w:styles>"))


def paragraph(text: str, run: str = "", own: str = "") -> str:
    return f"<w:p><w:pPr>{own}</w:pPr><w:r><w:rPr>{run}</w:rPr><w:t>{text}</w:t></w:r></w:p>"


def table(inner: str, *, cell: str = "", row: str = "", whole: str = "") -> str:
    return f"<w:tbl><w:tblPr>{whole}</w:tblPr><w:tr><w:trPr>{row}</w:trPr><w:tc><w:tcPr>{cell}</w:tcPr>{inner}</w:tc></w:tr></w:tbl>"


def style(kind: str, run: str, more: str = "") -> str:
    return f'<w:style w:type="{kind}" w:styleId="S"><w:name w:val="S"/><w:rPr>{run}</w:rPr>{more}</w:style>'


def box(inner: str, *, named: str = "", fill: str = "", left: int = 100_000) -> str:
    return (
        f'<w:p><w:r><w:drawing><wp:anchor><wp:positionH relativeFrom="page"><wp:posOffset>{left}</wp:posOffset></wp:positionH>'
        f'<wp:docPr id="1" name="x" {named}/><a:graphic><a:graphicData><wps:wsp><wps:spPr>{fill}</wps:spPr>'
        f"<wps:txbx><w:txbxContent>{inner}</w:txbxContent></wps:txbx></wps:wsp></a:graphicData></a:graphic></wp:anchor></w:drawing></w:r></w:p>"
    )


def old_box(inner: str, looks: str) -> str:
    return (
        f'<w:p><w:r><w:pict><v:shape style="position:absolute;{looks}"><v:textbox><w:txbxContent>{inner}</w:txbxContent>'
        "</v:textbox></v:shape></w:pict></w:r></w:p>"
    )


def alternatives(choice: str, fallback: str, needs: str = "wps") -> str:
    return (
        f'<w:p><w:r><mc:AlternateContent><mc:Choice Requires="{needs}">{choice}</mc:Choice>'
        f"<mc:Fallback>{fallback}</mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )


def field(code: str, result: str) -> str:
    marks = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")]
    return f"<w:p>{marks[0]}{code}{marks[1]}<w:r><w:t>{result}</w:t></w:r>{marks[2]}</w:p>"


def bound(held: str, written: str) -> bytes:
    """A content control that shows what a part of custom XML holds."""
    key = "{11111111-1111-1111-1111-111111111111}"
    control = f'<w:dataBinding w:xpath="/x/y" w:storeItemID="{key}"/>'
    content = document(f"<w:sdt><w:sdtPr>{control}</w:sdtPr><w:sdtContent>{paragraph(written)}</w:sdtContent></w:sdt>")
    content = making.with_part(content, "customXml/item1.xml", f"<x><y>{held}</y></x>".encode())
    store = f'<ds:datastoreItem xmlns:ds="http://schemas.openxmlformats.org/officeDocument/2006/customXml" ds:itemID="{key}"/>'
    return making.with_part(content, "customXml/itemProps1.xml", store.encode())


def related(content: bytes, kind: str, name: str, part: str) -> bytes:
    """The document with one more part that it is related to by the id rId99."""
    link = f'<Relationship Id="rId99" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}" Target="{name}"/>'
    content = making.with_part(content, f"word/{name}", part.encode())
    return part_changed(
        content, "word/_rels/document.xml.rels", lambda old: old.replace("</Relationships>", f"{link}</Relationships>")
    )


def with_header(text: str, kind: str = "default", more: str = "") -> bytes:
    section = f'<w:sectPr><w:headerReference w:type="{kind}" r:id="rId99"/>{more}</w:sectPr>'
    return related(document(section), "header", "header7.xml", f"<w:hdr {NAMESPACES}>{paragraph(text)}</w:hdr>")


STOP = '<w14:gs w14:pos="0"><w14:srgbClr w14:val="FFFFFF"/></w14:gs>'


def effect(fill: str) -> str:
    return f"<w14:textFill>{fill}</w14:textFill>"


HIDDEN = {
    "theme colour": document(paragraph(UNSEEN, '<w:color w:val="auto" w:themeColor="background1"/>')),
    "theme before value": document(paragraph(UNSEEN, '<w:color w:val="000000" w:themeColor="background1"/>')),
    "shaded tint": document(paragraph(UNSEEN, '<w:color w:val="auto" w:themeColor="background1" w:themeShade="F2"/>')),
    "near white": document(paragraph(UNSEEN, '<w:color w:val="EEEEEE"/>')),
    "on black": document(paragraph(UNSEEN, BLACK + ON_BLACK)),
    "on black paragraph": document(paragraph(UNSEEN, BLACK, ON_BLACK)),
    "on black cell": document(table(paragraph(UNSEEN, BLACK), cell=ON_BLACK)),
    "on highlight": document(paragraph(UNSEEN, '<w:highlight w:val="yellow"/><w:color w:val="FFFF00"/>')),
    "no fill": document(paragraph(UNSEEN, "<w14:textFill><w14:noFill/></w14:textFill>")),
    "narrow": document(paragraph(UNSEEN, '<w:w w:val="1"/>')),
    "letters on each other": document(paragraph(UNSEEN, '<w:spacing w:val="-500"/>')),
    "table style": document(table(paragraph(UNSEEN), whole='<w:tblStyle w:val="S"/>'), styles=style("table", "<w:vanish/>")),
    "no line": document(paragraph(UNSEEN, "", '<w:spacing w:line="2" w:lineRule="exact"/>')),
    "no row": document(table(paragraph(UNSEEN), row='<w:trHeight w:val="2" w:hRule="exact"/>')),
    "indent": document(paragraph(UNSEEN, "", '<w:ind w:left="-20000"/>')),
    "frame": document(paragraph(UNSEEN, "", '<w:framePr w:x="-20000" w:y="1"/>')),
    "moved": document(f'<w:p><w:moveFrom w:id="1"><w:r><w:t>{UNSEEN}</w:t></w:r></w:moveFrom></w:p>'),
    "deleted row": document(table(paragraph(UNSEEN), row='<w:del w:id="3"/>')),
    "hidden box": document(box(paragraph(UNSEEN), named='hidden="1"')),
    "box off the page": document(box(paragraph(UNSEEN), left=-90_000_000)),
    "old hidden box": document(old_box(paragraph(UNSEEN), "visibility:hidden")),
    "old box off the page": document(old_box(paragraph(UNSEEN), "margin-left:-9999pt")),
    "fallback": document(alternatives("<w:t>choice</w:t>", f"<w:t>{UNSEEN}</w:t>")),
    "unknown choice": document(alternatives(f"<w:t>{UNSEEN}</w:t>", "<w:t>fallback</w:t>", "new")),
    "text in a field's code": document(field(f"<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:t>{UNSEEN}</w:t></w:r>", "1")),
    "field's code": document(field(f'<w:r><w:instrText>QUOTE "{UNSEEN}"</w:instrText></w:r>', "1")),
    "bound control": bound("nothing of note", UNSEEN),
    "fitted into nothing": document(paragraph(UNSEEN, '<w:fitText w:val="1"/>')),
    "effect in a colour of the theme": document(paragraph(UNSEEN, effect('<w14:solidFill><w14:schemeClr w14:val="bg1"/></w14:solidFill>'))),
    "effect in white throughout": document(paragraph(UNSEEN, effect(f"<w14:gradFill><w14:gsLst>{STOP * 2}</w14:gsLst></w14:gradFill>"))),
    "tiny from right to left": document(paragraph(UNSEEN, '<w:rtl/><w:sz w:val="22"/><w:szCs w:val="2"/>')),
    "on a pattern of its colour": document(paragraph(UNSEEN, BLACK + '<w:shd w:val="pct90" w:color="000000" w:fill="000000"/>')),
    "frame without height": document(paragraph(UNSEEN, "", '<w:framePr w:w="1" w:h="1" w:hRule="exact"/>')),
    "hanging indent": document(paragraph(UNSEEN, "", '<w:ind w:left="700" w:hanging="40000"/>')),
    "box without size": document(box(paragraph(UNSEEN)).replace("<wp:docPr", '<wp:extent cx="1" cy="1"/><wp:docPr')),
    "old box without size": document(old_box(paragraph(UNSEEN), "width:0;height:0")),
    "below a merged cell": document(table(paragraph(UNSEEN), cell="<w:vMerge/>")),
    "beside a merged cell": document(table(paragraph(UNSEEN), cell='<w:hMerge w:val="continue"/>')),
    "deleted cell": document(table(paragraph(UNSEEN), cell='<w:cellDel w:id="4"/>')),
    "white formula": document(f"<w:p><m:oMath><m:r><w:rPr>{WHITE}</w:rPr><m:t>{UNSEEN}</m:t></m:r></m:oMath></w:p>"),
    "phantom": document(
        '<w:p><m:oMath><m:phant><m:phantPr><m:show m:val="0"/></m:phantPr>'
        f"<m:e><m:r><m:t>{UNSEEN}</m:t></m:r></m:e></m:phant></m:oMath></w:p>"
    ),
    "unused header": making.with_part(document(""), "word/header7.xml", f"<w:hdr {NAMESPACES}>{paragraph(UNSEEN)}</w:hdr>".encode()),
    "header of even pages": with_header(UNSEEN, "even"),
    "header of first pages": with_header(UNSEEN, "first"),
}  # fmt: skip
SHOWN = {
    "fitted": document(paragraph(SEEN, '<w:fitText w:val="2400"/>')),
    "effect from white to black": document(
        paragraph(SEEN, WHITE + effect(f"<w14:gradFill>{STOP}{STOP.replace('FFFFFF', '000000')}</w14:gradFill>"))
    ),
    "from right to left": document(paragraph(SEEN, '<w:rtl/><w:sz w:val="2"/><w:szCs w:val="22"/>')),
    "list": document(paragraph(SEEN, "", '<w:ind w:left="720" w:hanging="360"/>')),
    "box that grows": document(
        box(paragraph(SEEN))
        .replace("<wp:docPr", '<wp:extent cx="1" cy="1"/><wp:docPr')
        .replace("</wps:wsp>", "<a:spAutoFit/></wps:wsp>")
    ),
    "merged cell": document(table(paragraph(SEEN), cell='<w:vMerge w:val="restart"/>')),
    "coloured formula": document(
        f'<w:p><m:oMath><m:r><w:rPr><w:color w:val="FF0000"/></w:rPr><m:t>{SEEN}</m:t></m:r></m:oMath></w:p>'
    ),
    "white on a dark cell": document(table(paragraph(SEEN, WHITE), cell=DARK)),
    "white on a dark paragraph": document(paragraph(SEEN, WHITE, DARK)),
    "white on a highlight": document(paragraph(SEEN, WHITE + '<w:highlight w:val="darkBlue"/>')),
    "white on a dark box": document(box(paragraph(SEEN, WHITE), fill=DARK_FILL)),
    "white by a style on a dark box": document(
        box(paragraph(SEEN, "", '<w:pStyle w:val="S"/>'), fill=DARK_FILL), styles=style("paragraph", WHITE)
    ),
    "white in a table with coloured cells": document(
        table(paragraph(SEEN, WHITE), whole='<w:tblStyle w:val="S"/>'),
        styles=style("table", "", f'<w:tblStylePr w:type="firstRow"><w:tcPr>{DARK}</w:tcPr></w:tblStylePr>'),
    ),
    "shown against its style": document(
        paragraph(SEEN, '<w:vanish w:val="0"/>', '<w:pStyle w:val="S"/>'), styles=style("paragraph", "<w:vanish/>")
    ),
    "box": document(box(paragraph(SEEN))),
    "old box": document(old_box(paragraph(SEEN), "")),
    "choice": document(alternatives(f"<w:t>{SEEN}</w:t>", "<w:t>fallback</w:t>")),
    "box as a choice": document(alternatives(box(paragraph(SEEN))[10:-12], "")),
    "fallback of what nobody knows": document(alternatives("<w:t>choice</w:t>", f"<w:t>{SEEN}</w:t>", "new")),
    "direction": document(f'<w:p><w:bdo w:val="ltr"><w:r><w:t>{SEEN}</w:t></w:r></w:bdo></w:p>'),
    "field": document(f'<w:p><w:fldSimple w:instr="TITLE"><w:r><w:t>{SEEN}</w:t></w:r></w:fldSimple></w:p>'),
    "field's result": document(field("<w:r><w:instrText>TITLE</w:instrText></w:r>", SEEN)),
    "characters with a reading": document(
        "<w:p><w:r><w:ruby><w:rt><w:r><w:t>reading</w:t></w:r></w:rt>"
        f"<w:rubyBase><w:r><w:t>{SEEN}</w:t></w:r></w:rubyBase></w:ruby></w:r></w:p>"
    ),
    "formula": document(f"<w:p><m:oMath><m:r><m:t>{SEEN}</m:t></m:r></m:oMath></w:p>"),
    "bound control": bound(SEEN, "an older value"),
    "header": with_header(SEEN),
    "header of first pages": with_header(SEEN, "first", "<w:titlePg/>"),
}


@pytest.mark.parametrize("place", HIDDEN)
def test_what_word_does_not_show_is_hidden(place: str) -> None:
    parsed = docx.read(HIDDEN[place])
    assert UNSEEN not in parsed.text
    assert UNSEEN in parsed.hidden


@pytest.mark.parametrize("place", SHOWN)
def test_what_word_shows_is_text(place: str) -> None:
    parsed = docx.read(SHOWN[place])
    assert parsed.text.count(SEEN) == 1
    assert [problem.code for problem in parsed.problems if problem.severity.rank > 1] == []


def test_a_box_in_a_header_is_read_once() -> None:
    section = '<w:sectPr><w:headerReference w:type="default" r:id="rId99"/></w:sectPr>'
    header = f"<w:hdr {NAMESPACES}>{box(paragraph(SEEN))}</w:hdr>"
    assert docx.read(related(document(section), "header", "header7.xml", header)).text.count(SEEN) == 1


def test_a_document_that_is_shown_within_is_told() -> None:
    content = related(document('<w:altChunk r:id="rId99"/>'), "aFChunk", "chunk.htm", f"<p>{UNSEEN}</p>")
    assert [problem.code for problem in docx.read(content).problems if problem.severity.rank > 1] == [
        "parsing.not_read"
    ]
