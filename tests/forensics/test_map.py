"""The map: the same for the same corpus, not moved by newcomers, without texts, safe against names."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from corpus_guard.deployment import Deployment
from corpus_guard.domain import Verdict
from corpus_guard.errors import Misuse
from corpus_guard.exports.html import map_page
from corpus_guard.exports.map_image import map_png
from corpus_guard.forensics.map import CorpusMap, corpus_map, fit_plane, policy_thresholds, risk_histogram
from corpus_guard.forensics.pictures import COLORINGS, histogram_svg, map_legend, map_svg, standalone_svg
from material import Shelf, a_version

HOSTILE = "<script>hacked=1</script>\"'&\u202e.md"
WRITTEN = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    guard = Deployment(lite_shelf.settings(tmp_path))
    lite_shelf.serve(*(a_version(f"page-{n}.md", (f"The {n}. page of the harbour.",)) for n in range(12)))
    guard.seal("run-1")
    return guard


def draw(guard: Deployment, **more: object) -> CorpusMap:
    return corpus_map(guard.ledger, guard.storage, guard.settings.map_cache, **more)  # type: ignore[arg-type]


def test_the_plane_is_that_of_principal_components_and_the_same_each_time() -> None:
    random = np.random.default_rng(7)
    vectors = (random.standard_normal((300, 16)) * np.linspace(5, 0.1, 16)).astype(np.float32)

    plane = fit_plane(vectors, "seal", "model")
    again = fit_plane(vectors, "seal", "model")

    assert (
        plane.axes.tobytes() == again.axes.tobytes()
        and plane.transform(vectors).tobytes() == again.transform(vectors).tobytes()
    )
    _, _, directions = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    assert np.allclose(np.abs(plane.axes.T @ directions[:2].T), np.eye(2), atol=1e-3)
    assert 0.2 < plane.shown_variance < 0.6
    inside = plane.transform(vectors)
    assert inside.min() > 0 and inside.max() < 1
    assert plane.transform(vectors[:1] * 1e6).max() <= 0.99, "what lies outside comes to the edge"


def test_a_newcomer_is_placed_and_moves_nobody(lite_shelf: Shelf, guard: Deployment) -> None:
    before = {point.chunk_id: (point.x, point.y) for point in draw(guard).points}
    (file,) = guard.settings.map_cache.iterdir()
    file.write_bytes(b"not an archive")
    assert {point.chunk_id: (point.x, point.y) for point in draw(guard).points} == before, "fitted again"
    lite_shelf.record((a_version(HOSTILE, ("An order to the model that reads it.",)), Verdict.QUARANTINE))

    after = draw(guard)

    assert {point.chunk_id: (point.x, point.y) for point in after.points if point.chunk_id in before} == before
    (newcomer,) = [point for point in after.points if point.chunk_id not in before]
    assert (newcomer.state, newcomer.reason) == ("quarantined", "instructions.override")
    assert (after.served, after.waiting, after.left_out, after.not_placed) == (12, 1, 0, 0)


def test_what_a_case_accuses_is_always_drawn_and_the_limit_moves_nobody(lite_shelf: Shelf, guard: Deployment) -> None:
    planted = [a_version(f"planted-{n}.md", (f"A planted text, number {n}.",)) for n in range(12)]
    lite_shelf.serve(*planted)
    guard.seal("run-2")
    accused = {version.version_id for version in planted}

    drawn = draw(guard, accused=accused, limit=3)

    assert {point.version_id for point in drawn.points if point.is_accused} == accused
    assert drawn.left_out == 24 - len(drawn.points) > 0
    everything = {point.chunk_id: (point.x, point.y) for point in draw(guard).points}
    assert {point.chunk_id: (point.x, point.y) for point in drawn.points}.items() <= everything.items()


def test_before_a_seal_and_of_too_little_there_is_no_map(lite_shelf: Shelf, tmp_path: Path) -> None:
    guard = Deployment(lite_shelf.settings(tmp_path))
    with pytest.raises(Misuse, match="nothing is sealed"):
        draw(guard)
    lite_shelf.serve(a_version("one.md", ("The only page.",)))
    guard.seal("run-1")
    with pytest.raises(Misuse, match="3 served chunks"):
        draw(guard)


def test_names_are_text_in_every_picture_and_page(lite_shelf: Shelf, guard: Deployment) -> None:
    lite_shelf.record((a_version(HOSTILE, ("A text.",), source="tide&gate"), Verdict.QUARANTINE))
    drawn = draw(guard)
    page = map_page(drawn, risk_histogram(guard.ledger, policy_thresholds(guard.policy)), WRITTEN)

    for coloring in COLORINGS:
        root = ET.fromstring(standalone_svg(map_svg(drawn, coloring)))  # noqa: S314 - our own
        names = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert names == {"svg", "style", "rect", "circle", "title"}
        assert any("<script>" in (element.text or "") for element in root.iter() if element.tag.endswith("title"))
        assert sum(count for _, _, count in map_legend(drawn, coloring)) == len(drawn.points) == 13
    assert "<script" not in page and "\u202e" not in page and "⟨U+202E⟩" in page
    assert not re.search(r"(?:src|href|url\()\s*=?\s*[\"']?(?:https?:)?//", page)
    assert "default-src 'none'" in page
    assert "The 3. page" not in page, "no text of a document"
    with pytest.raises(Misuse, match="expected one of state, trust, source, campaign"):
        map_svg(drawn, "owner")


def test_the_png_has_each_point_whatever_a_source_is_called(lite_shelf: Shelf, guard: Deployment) -> None:
    for number, source in enumerate(("$\\frac{$", "_hidden", "tide&gate")):
        version = a_version(f"{number}.md", (f"The {number}. text.",), source=source)
        lite_shelf.record((version, Verdict.QUARANTINE))
    drawn = draw(guard, accused=(drawn_version(draw(guard)),))
    for coloring in COLORINGS:
        content = map_png(drawn, coloring)
        assert content.startswith(b"\x89PNG") and struct.unpack(">II", content[16:24]) == (1440, 896)
    assert map_png(drawn) != map_png(replace(drawn, points=drawn.points[1:])), "a point less is another picture"
    with pytest.raises(Misuse, match="expected one of state, trust, source, campaign"):
        map_png(drawn, "owner")


def drawn_version(drawn: CorpusMap) -> str:
    return drawn.points[0].version_id


def test_the_histogram_counts_each_document_once(lite_shelf: Shelf, guard: Deployment) -> None:
    lite_shelf.record((a_version("bad.md", ("A text.",)), Verdict.QUARANTINE))

    histogram = risk_histogram(guard.ledger, policy_thresholds(guard.policy))

    assert (sum(histogram.counts), sum(histogram.waiting)) == (13, 1)
    assert histogram.thresholds["open"] == guard.policy.quarantine["open"].risk  # type: ignore[index]
    assert "1 documents, 1 of them held" in histogram_svg(histogram)
