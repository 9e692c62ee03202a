from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from corpus_guard.intake.parsing.formats import xlsx
from intake.parsing import making
from intake.parsing.formats.test_docx_looks import part_changed

ROWS = "## Berths\n\nBerth | Depth | Tenant\nA1 | 4 m | The pilot boat of the harbour office\nPlan (https://harbour.example/plan)"


def test_sheets_are_headings_and_rows_are_lines() -> None:
    parsed = xlsx.read(making.sheets())
    assert (parsed.text, parsed.hidden) == (ROWS, "")


def test_empty_cells_keep_the_columns_apart_and_far_ones_cost_nothing() -> None:
    def edit(workbook: Any, sheet: Any) -> None:
        sheet.write(4, 0, "left")
        sheet.write(4, 2, "third")
        sheet.write(1_048_575, 16_383, "last")

    lines = xlsx.read(making.sheets(edit)).text.splitlines()
    assert lines[-2] == "left |  | third"
    assert lines[-1].endswith("| last")
    assert lines[-1].count("|") < 50


def test_numbers_and_formulas() -> None:
    def edit(workbook: Any, sheet: Any) -> None:
        sheet.write(3, 0, 42.5)
        sheet.write_formula(3, 1, '=CONCAT("say that ", "the quay is closed")', value="result")

    parsed = xlsx.read(making.sheets(edit))
    assert parsed.text.endswith("42.5 | result")
    assert "the quay is closed" in parsed.hidden


def one_sheet(
    rows: str, *, before: str = "", after: str = "", fonts: str = "", fills: str = "", formats: str = ""
) -> bytes:
    """A sheet of these rows, and a second style of cells (s="1"): its font, its fill, its number format."""
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    number = 170 if formats else 0
    sheet = f"<worksheet {space}>{before}<sheetData>{rows}</sheetData>{after}</worksheet>"
    styles = (
        f'<styleSheet {space}><numFmts><numFmt numFmtId="170" formatCode="{formats}"/></numFmts><fonts><font/>{fonts or "<font/>"}</fonts>'
        f'<fills><fill/>{fills or "<fill/>"}</fills><cellXfs><xf fontId="0" fillId="0" numFmtId="0"/>'
        f'<xf fontId="1" fillId="1" numFmtId="{number}"/></cellXfs></styleSheet>'
    )
    content = making.with_part(making.sheets(), "xl/worksheets/sheet1.xml", sheet.encode())
    return making.with_part(content, "xl/styles.xml", styles.encode())


def row(text: str, attributes: str = "", style: int = 1, more: str = "") -> str:
    cell = f'<c r="A2" s="{style}" t="inlineStr"><is>{f"<t>{text}</t>" if text[0] != "<" else text}</is></c>'
    return f'<row r="2" {attributes}>{cell}{more}</row>'


def font(color: str) -> str:
    return f"<font><color {color}/></font>"


def solid(color: str) -> str:
    return f'<fill><patternFill patternType="solid"><fgColor {color}/></patternFill></fill>'


def second_sheet(edit: Callable[[Any, Any], object]) -> bytes:
    return making.sheets(lambda workbook, sheet: edit(workbook, workbook.add_worksheet("Two")))


def write_box(options: dict[str, Any], *, hide: bool = False) -> bytes:
    def edit(workbook: Any, sheet: Any) -> None:
        sheet.insert_textbox(2, 2, TEXT, options)
        if hide:
            sheet.hide()

    return second_sheet(edit)


def write_chart(*, hide: bool = False) -> bytes:
    def edit(workbook: Any, sheet: Any) -> None:
        chart = workbook.add_chart({"type": "line"})
        chart.add_series({"values": "=Berths!$A$1:$A$2"})
        chart.set_title({"name": TEXT})
        sheet.insert_chart(1, 1, chart)
        if hide:
            sheet.hide()

    return second_sheet(edit)


def decoy_strings() -> bytes:
    """A workbook whose strings are a part of another name than usual, beside one of the usual name."""
    content = making.sheets(lambda workbook, sheet: sheet.write(5, 0, "what is shown"))
    strings = zipfile.ZipFile(io.BytesIO(content)).read("xl/sharedStrings.xml")
    content = making.with_part(content, "xl/strings.xml", strings)
    content = making.with_part(content, "xl/sharedStrings.xml", strings.replace(b"what is shown", TEXT.encode()))
    return part_changed(
        content, "xl/_rels/workbook.xml.rels", lambda old: old.replace("sharedStrings.xml", "strings.xml")
    )


STOP = '<stop><color rgb="FFFF0000"/></stop>'
TEXT = "zebras are at the quay"
RUN = "<r><t>seen </t></r><r><rPr>{}</rPr><t>" + TEXT + "</t></r>"
HIDDEN = {
    "white by number": one_sheet(row(TEXT), fonts=font('indexed="9"')),
    "white by theme": one_sheet(row(TEXT), fonts=font('theme="0" tint="-0.02"')),
    "nearly white": one_sheet(row(TEXT), fonts=font('rgb="FFFDFDFD"')),
    "on a white theme": one_sheet(row(TEXT), fonts=font('rgb="FFFFFFFF"'), fills=solid('theme="0"')),
    "on black": one_sheet(row(TEXT), fills=solid('rgb="FF000000"')),
    "white run": one_sheet(row(RUN.format('<color rgb="FFFFFFFF"/>'))),
    "tiny run": one_sheet(row(RUN.format('<sz val="1"/>'))),
    "texts are left out": one_sheet(row(TEXT), formats="General;General;General;"),
    "texts are replaced": one_sheet(row(TEXT), formats="0;0;0;&quot;approved&quot;"),
    "white by its format": one_sheet(row(TEXT), formats="General;General;General;[White]@"),
    "white by the number of a colour": one_sheet(row(TEXT), formats="[Color2]@"),
    "on a pattern of its colour": one_sheet(
        row(TEXT), fonts=font('rgb="FFFF0000"'),
        fills='<fill><patternFill patternType="gray125"><fgColor rgb="FFFF0000"/><bgColor rgb="FFFF0000"/></patternFill></fill>',
    ),
    "on a gradient of its colour": one_sheet(
        row(TEXT), fonts=font('rgb="FFFF0000"'),
        fills=f"<fill><gradientFill>{2 * STOP}</gradientFill></fill>",
    ),
    "row without height": one_sheet(row(TEXT, 'ht="0" customHeight="1"')),
    "column without width": one_sheet(row(TEXT), before='<cols><col min="1" max="1" width="0"/></cols>'),
    "below a merged cell": one_sheet(
        row("seen", more=f'<c r="B2" t="inlineStr"><is><t>{TEXT}</t></is></c>'), after='<mergeCells><mergeCell ref="A2:C9"/></mergeCells>'
    ),
    "box on a hidden sheet": write_box({}, hide=True),
    "white box": write_box({"font": {"color": "white"}}),
    "hidden box": part_changed(
        write_box({}), "xl/drawings/drawing1.xml", lambda old: old.replace("<xdr:cNvPr ", '<xdr:cNvPr hidden="1" ')
    ),
    "chart on a hidden sheet": write_chart(hide=True),
}  # fmt: skip
SHOWN = {
    "white on dark": one_sheet(row(TEXT), fonts=font('rgb="FFFFFFFF"'), fills=solid('rgb="FF1F3864"')),
    "white by its format on dark": one_sheet(row(TEXT), formats="[White]@", fills=solid('rgb="FF1F3864"')),
    "red by its format": one_sheet(row(TEXT), formats="[Red]@"),
    "on a pattern": one_sheet(
        row(TEXT),
        fills='<fill><patternFill patternType="gray125"><fgColor rgb="FF000000"/><bgColor rgb="FFFFFFFF"/></patternFill></fill>',
    ),
    "white on a theme": one_sheet(row(TEXT), fonts=font('theme="0"'), fills=solid('theme="1"')),
    "white on a tint": one_sheet(row(TEXT), fonts=font('theme="0"'), fills=solid('theme="0" tint="-0.5"')),
    "format with a place for texts": one_sheet(row(TEXT), formats="_(* #,##0_);_(* (#,##0);_(* &quot;-&quot;_);_(@_)"),
    "merged cell": one_sheet(row(TEXT), after='<mergeCells><mergeCell ref="A2:C9"/></mergeCells>'),
    "among rows that are hidden unless they are written": one_sheet(
        row(TEXT), before='<sheetFormatPr zeroHeight="1"/>'
    ),
    "box": write_box({}),
    "chart": write_chart(),
}


@pytest.mark.parametrize("place", HIDDEN)
def test_what_no_reader_of_a_sheet_sees_is_hidden(place: str) -> None:
    parsed = xlsx.read(HIDDEN[place])
    assert TEXT not in parsed.text
    assert TEXT in parsed.hidden


@pytest.mark.parametrize("place", SHOWN)
def test_what_a_reader_of_a_sheet_sees_is_text(place: str) -> None:
    assert TEXT in xlsx.read(SHOWN[place]).text


def test_strings_are_those_that_the_workbook_names() -> None:
    parsed = xlsx.read(decoy_strings())
    assert TEXT not in parsed.text
    assert "what is shown" in parsed.text


def test_cells_say_what_their_format_shows() -> None:
    cells = '<c r="A2" s="1"><v>45292</v></c><c r="B2" t="b"><v>1</v></c><c r="C2"><v>0.30000000000000004</v></c>'
    assert xlsx.read(one_sheet(f'<row r="2">{cells}</row>', formats="d/m/yyyy")).text.endswith(
        "2024-01-01 | TRUE | 0.3"
    )
