"""The report: its parts run once, go on where they were stopped, and say what was left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench import report
from bench.scale import COLD, JOBS
from corpus_guard.settings import PROJECT

COUNTING = """
import pathlib, sys
runs = pathlib.Path(sys.argv[1])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
print('[{"what": "a figure", "found": "3 of 4 [30.1-95.4 %]", "target": "4", "met": false}]')
sys.exit(int(sys.argv[2]))
"""


def a_part(name: str, runs: Path, code: int = 1, needs: str = "") -> report.Part:
    return report.Part(name, name.title(), (sys.executable, "-c", COUNTING, str(runs), str(code)), (), needs)


def test_a_part_runs_once_and_is_shown_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "PARTS", (a_part("speed", tmp_path / "runs"),))

    codes = [report.main([str(tmp_path / "report")]) for _ in range(2)]

    page = (tmp_path / "report" / "report.md").read_text()
    assert codes == [0, 0]
    assert (tmp_path / "runs").read_text() == "x"
    assert "| a figure | 3 of 4 [30.1-95.4 %] | 4, **missed** |" in page
    assert f"{tmp_path / 'runs'} 1`, 20" in page
    assert f"{os.cpu_count()} cores of " in page


def test_a_part_that_failed_is_named_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "PARTS", (a_part("speed", tmp_path / "runs", code=3),))

    codes = [report.main([str(tmp_path / "report")]) for _ in range(2)]

    assert codes == [1, 1]
    assert (tmp_path / "runs").read_text() == "xx"
    assert "**Failed** with exit code 3" in (tmp_path / "report" / "report.md").read_text()


def test_what_is_left_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (
        a_part("speed", tmp_path / "1"),
        a_part("claims", tmp_path / "2"),
        a_part("drift", tmp_path / "3", needs="a.jsonl"),
    )
    monkeypatch.setattr(report, "PARTS", parts)
    monkeypatch.delenv(report.DATA, raising=False)

    assert report.main([str(tmp_path / "report"), "--skip", "speed"]) == 0

    page = (tmp_path / "report" / "report.md").read_text()
    assert "## Speed\n\nleft out of this run" in page
    assert "CORPUS_GUARD_DATA names no folder with a.jsonl" in page
    assert not (tmp_path / "1").exists()
    assert (tmp_path / "2").exists()
    assert not (tmp_path / "3").exists()


def test_the_picture_has_a_line_for_each_job() -> None:
    jobs = [
        {"chunks": size, "job": name, "cpu": size / 10, "served": size}
        for size in (100, 1_000)
        for name in (COLD, "seal")
    ]

    drawn = ET.fromstring(report.draw_growth(jobs))  # noqa: S314 - our own picture

    lines = [group for group in drawn.iter("{http://www.w3.org/2000/svg}g") if group.get("id", "").startswith("line2d")]
    assert len([line for line in lines if len(line.findall(".//{http://www.w3.org/2000/svg}use")) == 2]) >= 2
    assert report.draw_growth(jobs[:2]) == ""


@pytest.mark.slow
def test_the_quick_form_of_a_part_writes_the_page_and_the_picture(tmp_path: Path, models_home: Path) -> None:
    environ = {
        **os.environ,
        "CORPUS_GUARD_MODELS_FOLDER": str(models_home / "models"),
        "PYTHONPATH": os.pathsep.join(map(str, (PROJECT, PROJECT / "include"))),
    }
    command = [sys.executable, "-m", "tests.bench.report", str(tmp_path), "--quick", "--only", "scale"]

    subprocess.run(command, env=environ, check=True, cwd=PROJECT)

    page = (tmp_path / "report.md").read_text()
    assert "**Quick form**" in page
    assert all(f"| {name} | " in page for name in JOBS)
    assert "![" in page
    ET.parse(tmp_path / report.PICTURE)  # noqa: S314 - our own picture
    assert json.loads((tmp_path / "parts" / "scale.json").read_text())["exit_code"] == 0
