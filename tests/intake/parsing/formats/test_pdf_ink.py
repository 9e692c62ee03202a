"""Letters of a PDF that a viewer draws without a trace, and those that it draws, each on one page."""

from __future__ import annotations

import math

import pytest

from corpus_guard.intake.parsing.formats import _pdf_ink, _pdf_page, pdf

UNSEEN, SEEN, PLAIN = "zebra claims are false", "okapi tables are shown", "The quay is swept in autumn."
COVER = "60 580 500 40 re f\n"
PICTURE = "q 500 0 0 40 60 580 cm /I Do Q\n"
IMAGE = (
    "<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1 >>\n"
    "stream\n\xff\nendstream"
)
LAYERS = "/OCProperties << /OCGs [6 0 R] /D << /OFF [6 0 R] >> >>"


def words(text: str, how: str = "") -> str:
    return f"BT /F 12 Tf {how} 72 600 Td ({text}) Tj ET\n"


def stream(dictionary: str, data: str) -> str:
    return f"<< {dictionary} /Length {len(data)} >>\nstream\n{data}\nendstream"


def form(text: str, more: str = "", box: str = "0 0 612 792", how: str = "") -> str:
    return stream(
        f"/Type /XObject /Subtype /Form /BBox [{box}] {more} /Resources << /Font << /F 5 0 R >> >>",
        f"{how} {words(text)}",
    )


def page(
    content: str,
    resources: str = "",
    objects: tuple[str, ...] = (),
    catalog: str = "",
    more: str = "",
    font: str = "Helvetica",
) -> bytes:
    """A document of one page: `objects` have the numbers from 6 on."""
    content = f"BT /F 12 Tf 72 700 Td ({PLAIN}) Tj ET\n{content}"
    parts = (
        f"<< /Type /Catalog /Pages 2 0 R {catalog} >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R {more} /Resources << /Font << /F 5 0 R >> {resources} >> >>",
        stream("", content),
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>",
        *objects,
    )
    out, places = b"%PDF-1.7\n", []
    for number, part in enumerate(parts, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{part}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(parts) + 1
    end = f"xref\n0 {count}\n0000000000 65535 f \n{table}trailer << /Size {count} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + end.encode()


def marked(text: str, drawn: str) -> bytes:
    return page(f"/Span << /ActualText ({text}) >> BDC {words(drawn)} EMC")


MANY = "".join(f"{10 + number % 100 * 5} {20 + number // 100 * 5} 4.5 4.5 re f\n" for number in range(5_100))
LARGE = "".join(f"20 {20 + number} 560 60 re f\n" for number in range(250))
ROUND = "".join(f"{300 + 200 * math.cos(step / 8):.1f} {300 + 200 * math.sin(step / 8):.1f} l\n" for step in range(70))
LAYER = "<< /Type /OCG /Name (draft) >>"
HIDDEN = {
    "clipped": page(f"q 0 0 1 1 re W n {words(UNSEEN)} Q"),
    "below a white area": page(f"{words(UNSEEN)}1 1 1 rg {COVER}"),
    "below a dark area": page(f"{words(UNSEEN)}0.2 0.3 0.4 rg {COVER}"),
    "below a picture": page(words(UNSEEN) + PICTURE, "/XObject << /I 6 0 R >>", (IMAGE,)),
    "in the picture's colour": page(PICTURE + words(UNSEEN, "1 g"), "/XObject << /I 6 0 R >>", (IMAGE,)),
    "white lines": page(words(UNSEEN, "1 Tr 1 1 1 RG")),
    "form in a layer that is off": page("/X Do", "/XObject << /X 7 0 R >>", (LAYER, form(UNSEEN, "/OC 6 0 R")), LAYERS),
    "layers that are off together": page(
        f"/OC /M BDC {words(UNSEEN)} EMC",
        "/Properties << /M 7 0 R >>",
        (LAYER, "<< /Type /OCMD /OCGs [6 0 R] /P /AllOn >>"),
        LAYERS,
    ),
    "in white in a form": page("/X Do", "/XObject << /X 6 0 R >>", (form(UNSEEN, how="1 g"),)),
    "form without a box": page("/X Do", "/XObject << /X 6 0 R >>", (form(UNSEEN, box="0 0 1 1"),)),
    "below the smallest of many areas": page(f"{words(UNSEEN)}1 1 1 rg {LARGE}{COVER}"),
    "in the colour of the last of many areas": page(f"{MANY}0 0 1 rg {COVER}{words(UNSEEN, '0 0 1 rg')}"),
    "outside a path of many corners": page(f"q 500 300 m {ROUND} W n {words(UNSEEN)} Q"),
    "below a broad line": page(f"{words(UNSEEN)} 1 G 60 w 0 605 m 612 605 l S"),
    "below slices": page(words(UNSEEN) + "1 g " + "".join(f"60 {590 + 3 * row} 500 3.1 re f " for row in range(12))),
    "below a square": page(
        words(UNSEEN),
        objects=("<< /Type /Annot /Subtype /Square /Rect [60 580 560 620] /IC [1 1 1] /C [1 1 1] >>",),
        more="/Annots [6 0 R]",
    ),
    "masked": page(
        "/S gs " + words(UNSEEN),
        "/ExtGState << /S 6 0 R >>",
        (
            "<< /SMask << /Type /Mask /S /Alpha /G 7 0 R >> >>",
            stream("/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Group << /S /Transparency >>", ""),
        ),
    ),
    "in a white pattern": page(
        "/Pattern cs /P scn " + words(UNSEEN),
        "/Pattern << /P 6 0 R >>",
        (
            stream(
                "/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 9 9] /XStep 9 /YStep 9 /Resources << >>",
                "1 g 0 0 9 9 re f",
            ),
        ),
    ),
    "in a layer that is off on screens": page(
        f"/OC /M BDC {words(UNSEEN)} EMC",
        "/Properties << /M 6 0 R >>",
        ("<< /Type /OCG /Name (draft) /Usage << /View << /ViewState /OFF >> >> >>",),
        "/OCProperties << /OCGs [6 0 R] /D << /AS [<< /Event /View /Category [/View] /OCGs [6 0 R] >>] >> >>",
    ),
    "where a layer is off": page(
        f"/OC /M BDC {words(UNSEEN)} EMC",
        "/Properties << /M 7 0 R >>",
        (LAYER, "<< /Type /OCMD /VE [/Not 6 0 R] >>"),
        "/OCProperties << /OCGs [6 0 R] /D << >> >>",
    ),
    "in a font of the system below an area": page(f"{words(UNSEEN)}1 1 1 rg {COVER}", font="Calibri"),
    "stated in the place of others": marked(UNSEEN, "another text that is drawn"),
}
SHOWN = {
    "plain": page(words(SEEN)),
    "clipped around": page(f"q 0 0 612 792 re W n {words(SEEN)} Q"),
    "above an area": page(f"0.8 0.9 0.9 rg {COVER} 0 g {words(SEEN)}"),
    "below a marker": page(f"{words(SEEN)} /G gs 1 1 0 rg {COVER}", "/ExtGState << /G << /BM /Multiply >> >>"),
    "below what one sees through": page(f"{words(SEEN)} /G gs 1 1 0 rg {COVER}", "/ExtGState << /G << /ca 0.3 >> >>"),
    "below a clipped area": page(f"{words(SEEN)} q 0 0 5 5 re W n 1 0 0 rg {COVER} Q"),
    "above broad lines": page(f"0.9 G 60 w 0 605 m 612 605 l S 0 g {words(SEEN)}"),
    "between rules": page(f"{words(SEEN)} 60 596 500 0.5 re f 60 615 500 0.5 re f"),
    "in a font of the system": page(f"0.8 0.9 0.9 rg {COVER} 0 g {words(SEEN)}", font="Calibri"),
    "in a layer": page(
        f"/OC /M BDC {words(SEEN)} EMC",
        "/Properties << /M 6 0 R >>",
        (LAYER,),
        "/OCProperties << /OCGs [6 0 R] /D << >> >>",
    ),
    "around a square": page(
        words(SEEN),
        objects=("<< /Type /Annot /Subtype /Square /Rect [60 580 560 620] /C [1 0 0] >>",),
        more="/Annots [6 0 R]",
    ),
    "in a frame": page(f"{words(SEEN)} 60 580 500 40 re S"),
    "above a picture": page(PICTURE + words(SEEN), "/XObject << /I 6 0 R >>", (IMAGE,)),
    "in white on a dark area of a form": page(
        "q 1 0 0 1 0 9 cm /X Do Q", "/XObject << /X 6 0 R >>", (form(SEEN, how="0.1 g 60 580 500 40 re f 1 g"),)
    ),
    "form": page("/X Do", "/XObject << /X 6 0 R >>", (form(SEEN),)),
    "stated as it is drawn": marked(SEEN, SEEN),
    "stated for a ligature": page(
        "BT /F 12 Tf 72 600 Td (okapi tab) Tj /Span << /ActualText (les) >> BDC (x) Tj EMC ( are shown) Tj ET"
    ),
}


@pytest.mark.parametrize("place", HIDDEN)
def test_letters_without_a_trace_are_hidden(place: str) -> None:
    parsed = pdf.read(HIDDEN[place])
    assert parsed.text == PLAIN
    assert UNSEEN in parsed.hidden


@pytest.mark.parametrize("place", SHOWN)
def test_letters_that_are_drawn_are_text(place: str) -> None:
    parsed = pdf.read(SHOWN[place])
    assert SEEN in parsed.text
    assert parsed.problems == ()


def test_objects_beyond_the_limit_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    content = page(f"{words(SEEN)}{words(UNSEEN)}1 1 1 rg {COVER}")
    monkeypatch.setattr(_pdf_ink, "_MAX_OBJECTS", 2)
    assert [problem.code for problem in pdf.read(content).problems] == ["parsing.not_read"]


def test_forms_that_lie_too_deep_are_a_finding() -> None:
    depth = 12
    chain = [
        stream(
            f"/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /XObject << /X {7 + number} 0 R >> >>",
            "/X Do",
        )
        for number in range(depth)
    ]
    content = page(f"/X Do {COVER}", "/XObject << /X 6 0 R >>", (*chain, form(UNSEEN)))
    assert "parsing.not_read" in [problem.code for problem in pdf.read(content).problems]


def test_letters_beyond_the_limit_of_a_page_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pdf_page, "MAX_CHARS", 40)
    assert "parsing.not_read" in [problem.code for problem in pdf.read(page(words(SEEN))).problems]


def test_words_below_the_picture_of_their_page_are_the_layer_of_a_scan() -> None:
    content = page(f"{words(SEEN)}q 612 0 0 792 0 0 cm /I Do Q", "/XObject << /I 6 0 R >>", (IMAGE,))
    parsed = pdf.read(content)
    assert SEEN in parsed.text
    assert [problem.code for problem in parsed.problems] == ["parsing.invisible_text"]
