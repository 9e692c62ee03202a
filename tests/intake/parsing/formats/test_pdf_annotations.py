"""Fields of forms and comments of a PDF: what a viewer draws of them is text, all else that they say is hidden."""

from __future__ import annotations

import pytest

from corpus_guard.intake.parsing.formats import _pdf_extras, pdf
from intake.parsing.formats.test_pdf_ink import PLAIN, page, stream, words

BOX = "/Type /XObject /Subtype /Form /BBox [0 0 300 20] /Resources << /Font << /F 5 0 R >> >>"
FIELD, COMMENT, LINK = "/Subtype /Widget /FT /Tx /T (a)", "/Subtype /FreeText", "/Subtype /Link"
SHOWN, OFF = "/F 4", "/F 2"


def drawn(text: str, how: str = "0 g") -> str:
    return stream(BOX, f"BT /F 12 Tf {how} 2 5 Td ({text}) Tj ET")


def annotated(*annotations: tuple[str, str]) -> bytes:
    """A page with annotations: what each says, and how it is drawn (empty: its program left that to the viewer)."""
    objects: list[str] = []
    places = []
    for number, (says, looks) in enumerate(annotations):
        places.append(f"{6 + len(objects)} 0 R")
        box = "/Rect [72 580 372 600]" if "/Rect" not in says else ""
        drawing = f"/AP << /N {7 + len(objects)} 0 R >>" if looks else ""
        objects += [f"<< /Type /Annot /NM ({number}) {says} {box} {drawing} >>", *([looks] if looks else [])]
    form = f"/AcroForm << /Fields [{' '.join(places)}] /DR << /Font << /F 5 0 R >> >> /DA (/F 12 Tf 0 g) >>"
    content = page(words("below"), "", tuple(objects), form)
    return content.replace(b"[0 0 612 792] /Con", f"[0 0 612 792] /Annots [{' '.join(places)}] /Con".encode())


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param((f"{FIELD} {SHOWN} /V (the pump is swept)", drawn("the pump is swept")), id="field"),
        pytest.param((f"{FIELD} {SHOWN} /V (the pump is swept)", ""), id="field that viewers draw"),
        pytest.param((f"{COMMENT} {SHOWN} /Contents (the pump is swept)", drawn("the pump is swept")), id="comment"),
    ],
)
def test_what_a_viewer_draws_of_an_annotation_is_text(annotation: tuple[str, str]) -> None:
    parsed = pdf.read(annotated(annotation))
    assert parsed.text.startswith(f"{PLAIN}\n")
    assert "the pump is swept" in parsed.text
    assert (parsed.hidden, parsed.problems) == ("", ())


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param((f"{COMMENT} {OFF} /Contents (evil words)", drawn("evil words")), id="hidden"),
        pytest.param((f"{COMMENT} {SHOWN} /Contents (evil words)", drawn("evil words", "1 g")), id="in white"),
        pytest.param((f"{COMMENT} {SHOWN} /Contents (evil words)", drawn("other words")), id="drawn with other words"),
        pytest.param((f"/Subtype /Text {SHOWN} /Contents (evil words)", ""), id="closed note"),
    ],
)
def test_what_a_viewer_does_not_draw_of_an_annotation_is_hidden(annotation: tuple[str, str]) -> None:
    parsed = pdf.read(annotated(annotation))
    assert "evil" not in parsed.text
    assert "evil words" in parsed.hidden


def test_words_below_an_annotation_are_hidden() -> None:
    parsed = pdf.read(
        annotated((f"/Subtype /Square {SHOWN} /Rect [72 595 372 615]", stream(BOX, "1 1 1 rg 0 0 300 20 re f")))
    )
    assert parsed.text == PLAIN
    assert "below" in parsed.hidden


def test_links_are_read_beside_fields() -> None:
    link = f"{LINK} {SHOWN} /A << /S /URI /URI (https://harbour.example/) >> /Rect [72 695 220 715]"
    parsed = pdf.read(annotated((link, ""), (f"{FIELD} {SHOWN} /V (swept)", drawn("swept"))))
    assert "(https://harbour.example/)" in parsed.text
    assert "swept" in parsed.text.splitlines()[-1]


def test_annotations_beyond_the_limit_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pdf_extras, "_MAX_ENTRIES", 2)
    notes = [(f"/Subtype /Text {SHOWN} /Contents (note {number})", "") for number in range(3)]
    links = [(f"{LINK} {SHOWN} /Rect [0 0 1 1]", "")] * 9
    assert "parsing.not_read" not in [problem.code for problem in pdf.read(annotated(*links, *notes[:2])).problems]
    assert "parsing.not_read" in [problem.code for problem in pdf.read(annotated(*notes)).problems]
