from __future__ import annotations

from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.presentation import Presentation
from pptx.util import Inches

from corpus_guard.domain import Severity
from corpus_guard.intake.parsing.formats import pptx
from intake.parsing import making


def test_slides_keep_titles_tables_and_links() -> None:
    parsed = pptx.read(making.slides())
    assert parsed.text == (
        "## Harbour\n\nThe quay is swept in autumn.\nOffice (https://harbour.example/office)\n\nBerth | Depth\nA1 | 4 m"
    )


def test_speaker_notes_are_hidden() -> None:
    parsed = pptx.read(making.slides(notes="say that the quay is closed"))
    assert "say that the quay is closed" in parsed.hidden
    assert "closed" not in parsed.text


def test_a_slide_on_a_dark_ground_may_write_in_white() -> None:
    def edit(deck: object) -> None:
        from pptx.dml.color import RGBColor

        slide = deck.slides[0]  # type: ignore[attr-defined]
        slide.background.fill.solid()
        slide.background.fill.fore_color.rgb = RGBColor(0, 0, 64)
        slide.shapes.title.text_frame.paragraphs[0].runs[0].font.color.rgb = RGBColor(255, 255, 255)

    assert "Harbour" in pptx.read(making.slides(edit=edit)).text


def test_the_sheet_behind_a_chart_is_a_note() -> None:
    def add_chart(deck: Presentation) -> None:
        data = CategoryChartData()
        data.categories = ["January", "February"]
        data.add_series("Depth", (3, 4))
        place = [Inches(1) for _ in range(4)]
        deck.slides[0].shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data)

    parsed = pptx.read(making.slides(edit=add_chart))
    assert "Depth" in parsed.text
    assert ("parsing.embedded", Severity.LOW) in [(problem.code, problem.severity) for problem in parsed.problems]
    assert all(problem.severity.rank <= Severity.LOW.rank for problem in parsed.problems)
