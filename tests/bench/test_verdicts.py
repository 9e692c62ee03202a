"""The comparison of verdicts: what differs is counted, and decides the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import verdicts


def a_record(path: Path, **by_id: tuple[str, float, str]) -> str:
    lines = (
        {"id": name, "verdict": verdict, "risk": risk, "findings": [[code, "high"]]}
        for name, (verdict, risk, code) in by_id.items()
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_a_verdict_that_changed_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = a_record(
        tmp_path / "a", one=("accept", 0.1, "a.b"), two=("quarantine", 0.9, "c.d"), gone=("accept", 0, "e.f")
    )
    after = a_record(tmp_path / "b", one=("quarantine", 0.2, "a.c"), two=("quarantine", 0.9, "c.d"))

    code = verdicts.main(["compare", before, after])

    differing = json.loads(capsys.readouterr().out)
    assert code == 1
    assert differing["verdicts"] == {"accept → quarantine": 1, "accept → None": 1}
    assert differing["risks"] == 1
    assert differing["findings"] == {"a.b high": 1, "a.c high": 1}
    assert verdicts.main(["compare", before, before]) == 0


def test_each_file_gives_an_equal_share_of_its_texts(tmp_path: Path) -> None:
    for name, count in (("clean_wiki_corpus", 100), ("injection_eval", 3)):
        lines = (json.dumps({"text": f"{name} {number}"}) + "\n" for number in range(count))
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))

    texts = list(verdicts.labelled_texts(tmp_path, 10))

    assert len(texts) == len(set(texts)) == 10
    assert sum(text.startswith("injection") for text in texts) == 3
    assert "clean_wiki_corpus 0" in texts
