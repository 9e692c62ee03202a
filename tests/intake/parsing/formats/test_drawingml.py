"""What the audience of slides sees and what it does not, each on one slide."""

from __future__ import annotations

import re

import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.presentation import Presentation
from pptx.util import Inches

from corpus_guard.intake.parsing.formats import pptx
from intake.parsing import making
from intake.parsing.formats.test_docx_looks import SEEN, UNSEEN, part_changed

SLIDE, LAYOUT = "ppt/slides/slide1.xml", "ppt/slideLayouts/slideLayout2.xml"
MASTER, THEME = "ppt/slideMasters/slideMaster1.xml", "ppt/theme/theme1.xml"
ON_STYLE = (
    '<p:style><a:lnRef idx="2"><a:schemeClr val="accent1"/></a:lnRef><a:fillRef idx="1"><a:schemeClr val="accent1"/></a:fillRef>'
    '<a:effectRef idx="0"><a:schemeClr val="accent1"/></a:effectRef><a:fontRef idx="minor"><a:schemeClr val="lt1"/></a:fontRef></p:style>'
)
CLEAR = '<a:gs pos="0"><a:srgbClr val="000000"><a:alpha val="0"/></a:srgbClr></a:gs>'
WHITE = '<a:srgbClr val="FFFFFF"/>'
ACCENT_TABLE, PLAIN_TABLE = "{5C22544A-7EE6-4342-B048-85BDC9FD1C3A}", "{2D5ABB26-0587-4C30-8999-92F81FD0307C}"


def fill(color: str) -> str:
    return f'<a:solidFill><a:srgbClr val="{color}"/></a:solidFill>'


def named(color: str, change: str = "") -> str:
    return f'<a:solidFill><a:schemeClr val="{color}">{change}</a:schemeClr></a:solidFill>'


def box(
    text: str,
    *,
    run: str = "",
    shape: str = "",
    style: str = "",
    listed: str = "",
    body: str = "",
    left: int = 1_000_000,
    top: int = 5_000_000,
) -> str:
    return (
        '<p:sp><p:nvSpPr><p:cNvPr id="77" name="box"/><p:cNvSpPr txBox="1"/><p:nvPr/></p:nvSpPr>'
        f'<p:spPr><a:xfrm><a:off x="{left}" y="{top}"/>'
        f'<a:ext cx="3000000" cy="500000"/></a:xfrm><a:prstGeom prst="rect"/>{shape}</p:spPr>{style}<p:txBody><a:bodyPr>{body}</a:bodyPr>'
        f"<a:lstStyle>{listed}</a:lstStyle><a:p><a:r><a:rPr>{run}</a:rPr><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def added(content: bytes, shapes: str, part: str = SLIDE) -> bytes:
    spaces = (
        '<p:sld xmlns:p14="http://schemas.microsoft.com/office/powerpoint/2010/main" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    )
    return part_changed(
        content, part, lambda old: old.replace("</p:spTree>", f"{shapes}</p:spTree>").replace("<p:sld ", spaces, 1)
    )


def slide(*shapes: str) -> bytes:
    return added(making.slides(), "".join(shapes))


def group(inner: str, child: str) -> str:
    place = f'<a:off x="0" y="0"/><a:ext cx="900000" cy="900000"/><a:chOff {child}/><a:chExt cx="900000" cy="900000"/>'
    return (
        '<p:grpSp><p:nvGrpSpPr><p:cNvPr id="9" name="g"/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr>'
        f"<p:grpSpPr><a:xfrm>{place}</a:xfrm></p:grpSpPr>{inner}</p:grpSp>"
    )


def table(text: str, style: str, cell: str = "") -> str:
    return (
        '<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="5" name="t"/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr>'
        '<p:xfrm><a:off x="0" y="0"/><a:ext cx="9" cy="9"/></p:xfrm><a:graphic><a:graphicData><a:tbl>'
        f'<a:tblPr><a:tableStyleId>{style}</a:tableStyleId></a:tblPr><a:tr h="1"><a:tc {cell}><a:txBody><a:bodyPr/><a:p><a:r>'
        f"<a:rPr>{fill('FFFFFF')}</a:rPr><a:t>{text}</a:t></a:r></a:p></a:txBody><a:tcPr/></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    )


def chart(title: str, left: float) -> bytes:
    def edit(deck: Presentation) -> None:
        data = CategoryChartData()
        data.categories = ["January", "February"]
        data.add_series(title, (1, 2))
        deck.slides[0].shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(left), *[Inches(2)] * 3, data)

    return making.slides(edit=edit)


def dark(text: str, color: str) -> bytes:
    """A slide whose master turns light and dark around."""
    content = part_changed(
        making.slides(), MASTER, lambda old: old.replace('bg1="lt1"', 'bg1="dk1"').replace('tx1="dk1"', 'tx1="lt1"')
    )
    return added(content, box(text, run=fill(color)))


def whiten(theme: str) -> str:
    """Make an accent of the theme white."""
    return re.sub(r"(<a:accent1>).*?(</a:accent1>)", r'\1<a:srgbClr val="FFFFFF"/>\2', theme)


def without_frame(content: bytes) -> bytes:
    frame = re.compile(
        r"<p:graphicFrame>(?:(?!</p:graphicFrame>).)*/chart\"(?:(?!</p:graphicFrame>).)*</p:graphicFrame>", re.DOTALL
    )
    return part_changed(content, SLIDE, lambda old: frame.sub("", old))


def alternatives(choice: str, fallback: str) -> bytes:
    return slide(
        f'<mc:AlternateContent><mc:Choice Requires="p14">{choice}</mc:Choice><mc:Fallback>{fallback}</mc:Fallback></mc:AlternateContent>'
    )


HIDDEN = {
    "white by a list's style": slide(box(UNSEEN, listed=f"<a:lvl1pPr><a:defRPr>{fill('FFFFFF')}</a:defRPr></a:lvl1pPr>")),
    "tiny by a list's style": slide(box(UNSEEN, listed='<a:lvl1pPr><a:defRPr sz="100"/></a:lvl1pPr>')),
    "tiny by fitting": slide(box(UNSEEN, run='<a:latin typeface="x"/>', listed='<a:lvl1pPr><a:defRPr sz="1800"/></a:lvl1pPr>',
                                 body='<a:normAutofit fontScale="2000"/>')),
    "letters on each other": slide(box(UNSEEN, listed='<a:lvl1pPr><a:defRPr spc="-5000"/></a:lvl1pPr>')),
    "nearly white": slide(box(UNSEEN, run=named("bg1", '<a:lumMod val="98000"/>'))),
    "clear gradient": slide(box(UNSEEN, run=f"<a:gradFill><a:gsLst>{CLEAR}{CLEAR}</a:gsLst></a:gradFill>")),
    "white by the shape's style": slide(box(UNSEEN, shape="<a:noFill/>", style=ON_STYLE)),
    "on its own colour": slide(box(UNSEEN, run=named("tx1"), shape=named("tx1"))),
    "white accent": added(
        part_changed(making.slides(), THEME, whiten),
        box(UNSEEN, run=named("accent1")),
    ),
    "black on a dark theme": dark(UNSEEN, "000000"),
    "on a highlight of its colour": slide(
        box(UNSEEN, run=fill("FF0000") + '<a:highlight><a:srgbClr val="FF0000"/></a:highlight>')
    ),
    "white by shares": slide(box(UNSEEN, run='<a:solidFill><a:scrgbClr r="100000" g="100000" b="100000"/></a:solidFill>')),
    "white by its light": slide(box(UNSEEN, run='<a:solidFill><a:hslClr hue="0" sat="0" lum="100000"/></a:solidFill>')),
    "white pattern": slide(
        box(UNSEEN, run=f'<a:pattFill prst="pct5"><a:fgClr>{WHITE}</a:fgClr><a:bgClr>{WHITE}</a:bgClr></a:pattFill>')
    ),
    "below a shape": slide(box(UNSEEN), box("above", shape=fill("1F3864"))),
    "in a group off the slide": slide(group(box(UNSEEN, left=50_000_000), 'x="0" y="0"')),
    "fallback": alternatives(box("choice"), box(UNSEEN)),
    "white in a plain table": slide(table(UNSEEN, PLAIN_TABLE)),
    "merged cell": slide(table(UNSEEN, ACCENT_TABLE, 'hMerge="1"')),
    "unused layout": added(making.slides(), box(UNSEEN), "ppt/slideLayouts/slideLayout9.xml"),
    "white on a layout": added(making.slides(), box(UNSEEN, run=fill("FFFFFF")), LAYOUT),
    "off a layout": added(making.slides(), box(UNSEEN, left=-90_000_000), LAYOUT),
    "chart off the slide": chart(UNSEEN, -40),
    "chart without a frame": without_frame(chart(UNSEEN, 1)),
}  # fmt: skip
SHOWN = {
    "box": slide(box(SEEN)),
    "white on the shape's style": slide(box(SEEN, run=fill("FFFFFF"), style=ON_STYLE)),
    "white on a highlight": slide(
        box(SEEN, run=fill("FFFFFF") + '<a:highlight><a:srgbClr val="000080"/></a:highlight>')
    ),
    "dark by its light": slide(
        box(SEEN, run='<a:solidFill><a:hslClr hue="14400000" sat="100000" lum="25000"/></a:solidFill>')
    ),
    "white above a dark shape": slide(box("below", shape=fill("1F3864")), box(SEEN, run=fill("FFFFFF"))),
    "white above a band of the layout": added(
        added(making.slides(), box("band", shape=fill("1F3864")), LAYOUT), box(SEEN, run=fill("FFFFFF"))
    ),
    "white on a dark theme": dark(SEEN, "FFFFFF"),
    "white in a coloured table": slide(table(SEEN, ACCENT_TABLE)),
    "below a shape one sees through": slide(
        box(SEEN),
        box("above", shape='<a:solidFill><a:srgbClr val="FFFF00"><a:alpha val="40000"/></a:srgbClr></a:solidFill>'),
    ),
    "beside a shape": slide(box(SEEN), box("above", shape=fill("1F3864"), left=4_500_000)),
    "in a group": slide(group(box(SEEN, left=50_000_000, top=50_000_000), 'x="50000000" y="50000000"')),
    "choice": alternatives(box(SEEN), box("fallback")),
    "layout": added(making.slides(), box(SEEN), LAYOUT),
    "chart": chart(SEEN, 1),
}


@pytest.mark.parametrize("place", HIDDEN)
def test_what_no_audience_sees_is_hidden(place: str) -> None:
    parsed = pptx.read(HIDDEN[place])
    assert UNSEEN not in parsed.text
    assert UNSEEN in parsed.hidden


@pytest.mark.parametrize("place", SHOWN)
def test_what_an_audience_sees_is_text(place: str) -> None:
    assert SEEN in pptx.read(SHOWN[place]).text


def test_what_an_animation_moves_covers_nothing() -> None:
    content = slide(box(SEEN), box("above", shape=fill("1F3864")))
    timing = '<p:timing><p:tnLst><p:par><p:cTn id="1"><p:tgtEl><p:spTgt spid="77"/></p:tgtEl></p:cTn></p:par></p:tnLst></p:timing>'
    assert (
        SEEN in pptx.read(part_changed(content, SLIDE, lambda old: old.replace("</p:sld>", f"{timing}</p:sld>"))).text
    )
