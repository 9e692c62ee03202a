"""`guard calibrate` and `guard rescreen` as people and scripts meet them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from corpus_guard.corpus import publishing
from corpus_guard.domain import Finding, Severity, Verdict
from corpus_guard.ledger.tables import events, versions
from deploying import BAD, Typed, Workspace
from material import a_version, judged


@pytest.fixture
def run(deployment: Workspace, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Typed:
    """`guard` in this process, models loaded once."""

    def call(*arguments: str, policy: Path | None = None) -> tuple[int, str, str]:
        deployment.enter(monkeypatch)
        if policy:
            monkeypatch.setenv("CORPUS_GUARD_POLICY_FILE", str(policy))
        return typed(*arguments)

    return call


def policy(deployment: Workspace, name: str = "policy.yaml", *, off: tuple[str, ...] = (), **changes: Any) -> Path:
    values = yaml.safe_load(deployment.settings.policy_file.read_text())
    values["checks"] |= {check: {"enabled": False} for check in off}
    path = deployment.root / name
    path.write_text(yaml.safe_dump({**values, **changes}))
    return path


def remember(deployment: Workspace, *found: Finding, documents: int, verdict: Verdict, folder: str) -> None:
    """Verdicts of a source as the ledger holds them; nothing of it is published."""
    pairs = [
        (version, judged(version, verdict, findings=found))
        for version in (
            a_version(f"{folder}/{number}.md", [f"Page {number}."], source="pages") for number in range(documents)
        )
    ]
    with deployment.guard() as guard, guard.ledger.write() as connection:
        publishing.record(
            connection,
            "r1",
            "batches/b/versions.parquet",
            pairs,
            collection=guard.store.collection_name,
            vectors="v",
            model="m",
        )


def test_a_small_source_is_told_how_many_documents_it_lacks(deployment: Workspace, run: Typed) -> None:
    remember(deployment, documents=3, verdict=Verdict.ACCEPT, folder="a")

    code, out, _ = run("calibrate")

    assert code == 0
    assert "No threshold for pages: too few documents: 3, 299 are needed" in out
    assert "99 are needed" in run("calibrate", "--target", "0.03")[1]


def test_a_proposal_is_yaml_that_the_policy_takes(deployment: Workspace, run: Typed, tmp_path: Path) -> None:
    hint = Finding("statistics", "statistics.outlier", Severity.LOW, 0.8, "odd")
    remember(deployment, documents=390, verdict=Verdict.ACCEPT, folder="a")
    remember(deployment, hint, documents=10, verdict=Verdict.ACCEPT, folder="b")

    _, out, _ = run("calibrate", "--source", "pages")
    _, raw, _ = run("calibrate", "--json")

    lines = out[out.index("sources:\n") :].splitlines()[:2]
    proposed = yaml.safe_load("\n".join(lines))["sources"]
    assert proposed == {"pages": {"severity": "medium", "risk": 0.21}} == json.loads(raw)["proposed"]
    assert run("calibrate", "--policy", str(policy(deployment, sources=proposed)))[0] == 0


def test_the_forecast_of_another_policy_writes_nothing(deployment: Workspace, run: Typed) -> None:
    strong = Finding("statistics", "statistics.outlier", Severity.MEDIUM, 0.8, "odd")
    remember(deployment, documents=8, verdict=Verdict.ACCEPT, folder="a")
    remember(deployment, strong, documents=2, verdict=Verdict.QUARANTINE, folder="b")
    with deployment.guard() as guard, guard.ledger.read() as connection:
        before = connection.execute(sa.select(sa.func.count()).select_from(events)).scalar()

    (source,) = json.loads(run("calibrate", "--json")[1])["sources"]
    loose = policy(deployment, "loose.yaml", sources={"pages": {"severity": "high", "risk": 0.9}})
    (other,) = json.loads(run("calibrate", "--policy", str(loose), "--json")[1])["sources"]

    assert (source["stopped"]["count"], source["stopped"]["share"]) == (2, 0.2)
    assert source["stopped"]["low"] < 0.2 < source["stopped"]["high"]
    assert (other["stopped"]["count"], other["threshold"]) == (0, {"severity": "high", "risk": 0.9})
    with deployment.guard() as guard, guard.ledger.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(events)).scalar() == before


def test_what_findings_cannot_tell_is_said(deployment: Workspace, run: Typed) -> None:
    remember(deployment, documents=2, verdict=Verdict.ACCEPT, folder="a")
    values = yaml.safe_load(deployment.settings.policy_file.read_text())
    values["checks"]["perplexity"] |= {"enabled": True, "gibberish_nats": 9.0}
    changed = deployment.root / "changed.yaml"
    changed.write_text(yaml.safe_dump(values))

    out = run("calibrate", "--policy", str(changed))[1]

    assert "Other parameters of perplexity" in out
    assert "guard rescreen --dry-run" in out
    assert "Other parameters" not in run("calibrate", "--policy", str(policy(deployment, off=("perplexity",))))[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--source", "pagse"), "source 'pagse' is not in"),
        (("--target", "0"), "--target"),
        (("--policy", "nowhere.yaml"), "nowhere.yaml: no such file"),
    ],
)
def test_misuse_is_told(run: Typed, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = run("calibrate", *arguments)

    assert code == 2
    assert message in err


def test_reparse_counts_what_reads_differently_and_what_cannot_be_read(deployment: Workspace, run: Typed) -> None:
    deployment.page("gauge.md")
    with deployment.guard() as guard:
        guard.refresh("r1")
        (blob,) = (path for path in Path(deployment.settings.storage, "raw").rglob("*") if path.is_file())

    code, out, _ = run("reparse", "--dry-run")
    assert (code, "1 version read again, 0 differ; dry run, nothing was recorded" in out) == (0, True)

    blob.write_bytes(b"other")
    code, out, _ = run("reparse", "--source", "pages")
    assert (code, "1 have no raw bytes, or damaged ones" in out) == (1, True)


def test_rescreen_shows_what_would_move_and_moves_it(deployment: Workspace, run: Typed) -> None:
    deployment.page("gauge.md")
    deployment.page("no\x1b[31mtice.md", BAD)
    deployment.refresh("r1")
    loose = policy(deployment, off=("instructions",))

    code, dry, _ = run("rescreen", "--dry-run", policy=loose)
    assert code == 0
    assert "2 judged again, 1 changed; dry run, nothing was recorded" in dry
    assert "quarantine → accept" in dry
    assert "-instructions.override" in dry
    assert "\x1b[31m" not in dry

    done = json.loads(run("rescreen", "--source", "pages", "--json", policy=loose)[1])
    assert (done["published"], done["dry_run"], len(done["moved"])) == (1, False, 1)
    assert "0 judged again" in run("rescreen", policy=loose)[1]
    with deployment.guard() as guard, guard.ledger.read() as connection:
        assert set(connection.scalars(sa.select(versions.c.state))) == {"accepted"}


def test_the_status_shows_canaries_shadow_and_thresholds(deployment: Workspace, run: Typed) -> None:
    deployment.page("gauge.md")
    deployment.page("notice.md", BAD)
    deployment.refresh("r1")
    _, plain, _ = run("status")
    assert "caught" in plain
    assert "Shadow" not in plain
    shadowed = policy(deployment, shadow=["instructions"], sources={"pages": {"severity": "high", "risk": 0.9}})
    run("rescreen", policy=shadowed)

    _, out, _ = run("status", policy=shadowed)

    assert "Shadow    instructions; if enforced, would wait: 1 of pages" in out
    assert "Threshold pages: severity high, risk 0.9" in out
    report = json.loads(run("status", "--json", policy=shadowed)[1])
    assert report["would_wait"] == {"pages": 1}
    assert report["thresholds"] == {"pages": {"severity": "high", "risk": 0.9}}


def test_a_threshold_for_a_source_that_is_not_there_is_refused(deployment: Workspace, run: Typed) -> None:
    stray = policy(deployment, sources={"pagse": {"severity": "low", "risk": 0.1}})

    code, _, err = run("refresh", policy=stray)

    assert code == 2
    assert "sources.pagse: not in" in err
    assert "known: pages" in err
