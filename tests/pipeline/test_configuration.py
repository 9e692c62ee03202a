"""Each change of what decides is an event with a difference; what loosens it is told, and what tightens it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import begin_run
from corpus_guard.ledger.tables import events
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector, promote
from corpus_guard.pipeline import configuration
from corpus_guard.pipeline.configuration import (
    ConfigurationChange,
    describe_configuration,
    load_changes,
    loosened_in_run,
    recent_loosenings,
    record_configuration,
)
from corpus_guard.pipeline.status import read_status
from corpus_guard.review.identities import Person, add_person
from corpus_guard.screening.checks.typos import Typos
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.registry import build_screening
from corpus_guard.settings import PACKAGE, Settings
from deploying import Typed, Workspace
from material import Shelf

Edit = Callable[[dict[str, Any]], object]


class Configured:
    """A ledger, a policy and a sources.yaml that a test edits."""

    def __init__(self, shelf: Shelf, folder: Path) -> None:
        self.ledger = shelf.ledger
        self.settings = Settings(home=folder, sources_file=folder / "sources.yaml")
        self.policy = yaml.safe_load((PACKAGE / "policy.yaml").read_text(encoding="utf-8"))
        self.policy["checks"] |= {name: {"enabled": False} for name in ("structure", "perplexity")}
        self.sources = [
            {"kind": "folder", "name": "wiki", "url": "wiki", "owner": "all", "trust": "open"},
            {
                "kind": "web",
                "name": "docs",
                "sitemap": "https://docs.example/s.xml?token=hidden",
                "owner": "us",
                "trust": "reviewed",
            },
        ]
        self.mutes: dict[str, frozenset[str]] = {}
        self.models = Models(self.settings)
        self.runs = 0

    def edit(self, change: Edit) -> ConfigurationChange | None:
        """Change the policy, then run; return what was logged."""
        change(self.policy)
        return self.run()

    def run(self) -> ConfigurationChange | None:
        self.runs += 1
        self.settings.sources_file.write_text(yaml.safe_dump({"sources": self.sources}))
        screening = build_screening(Policy.model_validate(self.policy), self.models, mutes=self.mutes)
        record_configuration(self.ledger, screening, self.settings, f"run-{self.runs}")
        return next(iter(load_changes(self.ledger, run_id=f"run-{self.runs}")), None)


@pytest.fixture
def configured(lite_shelf: Shelf, tmp_path: Path) -> Configured:
    made = Configured(lite_shelf, tmp_path)
    made.run()
    return made


def test_the_first_run_logs_everything_and_later_ones_only_differences(configured: Configured) -> None:
    (first,) = load_changes(configured.ledger)

    assert first.changes["policy.quarantine.open.risk"] == (None, "0.5")
    assert first.changes["policy.reject.parsing.empty"] == (None, "listed")
    assert first.changes["sources.wiki.trust"] == (None, "open")
    assert first.changes["sources.wiki.url"] == (None, "wiki")
    assert "typos" in {path.removeprefix("checks.") for path in first.changes}
    assert "checks.perplexity" not in first.changes
    assert (first.loosened, first.sentence) == ((), "")
    assert configured.run() is None

    change = configured.edit(lambda policy: policy["quarantine"]["open"].update(risk=0.9))

    assert change is not None
    assert dict(change.changes) == {"policy.quarantine.open.risk": ("0.5", "0.9")}
    assert change.sentence == "configuration loosened: policy.quarantine.open.risk 0.5 → 0.9"
    assert (change.run_id, bool(change.user), len(change.policy_digest)) == ("run-3", True, 64)


LOOSER: dict[str, Edit] = {
    "quarantine.trusted.severity": lambda p: p["quarantine"]["trusted"].update(severity="critical"),
    "sources.wiki.risk": lambda p: p["sources"].update(wiki={"severity": "low", "risk": 0.1}),
    "weights.high": lambda p: p["weights"].update(high=0.1),
    "reject.parsing.binary": lambda p: p["reject"].remove("parsing.binary"),
    "shadow.typos": lambda p: p["shadow"].append("typos"),
    "checks.typos.enabled": lambda p: p["checks"].update(typos={"enabled": False}),
    "checks.typos.misspelt": lambda p: p["checks"].update(typos={"misspelt": 9}),
    "retire.grace_hours": lambda p: p["retire"].update(grace_hours=900),
    "review.two_person_severity": lambda p: p["review"].update(two_person_severity=None),
    "review.two_person_trusts.trusted": lambda p: p["review"].update(two_person_trusts=[]),
    "review.deadline_hours": lambda p: p["review"].update(deadline_hours=48),
}
STRICTER: tuple[Edit, ...] = (
    lambda p: p["quarantine"]["open"].update(risk=0.1, severity="low"),
    lambda p: p["weights"].update(low=0.9),
    lambda p: p["reject"].append("parsing.hidden"),
    lambda p: p["retire"].update(grace_hours=1, max_share=0.9),
    lambda p: p["review"].update(two_person_severity="low", two_person_trusts=["trusted", "open"], expire_days=2),
    lambda p: p["checks"].update(structure={}),
)


def test_a_loosened_policy_is_told(configured: Configured) -> None:
    before = deepcopy(configured.policy)
    for path, edit in LOOSER.items():
        change = configured.edit(edit)
        assert change is not None
        assert f"policy.{path}" in change.loosened
        assert path in change.sentence
        configured.policy = deepcopy(before)
        configured.run()

    recent = recent_loosenings(configured.ledger)
    assert {"policy.shadow.typos", "policy.weights.high"} <= {path for change in recent for path in change.loosened}
    assert recent_loosenings(configured.ledger, now() + timedelta(days=8)) == []


def test_a_stricter_policy_is_logged_and_not_told(configured: Configured) -> None:
    for edit in STRICTER:
        change = configured.edit(edit)
        assert change is not None
        assert change.loosened == ()

    assert recent_loosenings(configured.ledger) == []


def test_sources_mutes_reviewers_and_trained_parts_are_compared_too(configured: Configured) -> None:
    def told() -> tuple[str, ...]:
        change = configured.run()
        assert change is not None
        return change.loosened

    configured.sources[0]["trust"] = "reviewed"
    assert told() == ("sources.wiki.trust",)
    configured.sources[0]["trust"] = "open"
    assert told() == ()
    configured.sources.append({**configured.sources[0], "name": "new"})
    assert told() == ()
    configured.sources.append({**configured.sources[0], "name": "newer", "trust": "trusted"})
    assert told() == ("sources.newer.trust",)
    del configured.sources[2:]
    assert told() == ()
    configured.mutes = {"wiki": frozenset({"instructions.override"})}
    assert told() == ("mutes.wiki.instructions.override",)
    configured.mutes = {}
    assert told() == ()
    add_person(configured.settings.reviewers, Person(name="Ada", ui="ada"))
    assert told() == ("reviewers.Ada.ui",)
    promote(configured.ledger, Detector.JUDGE, "f" * 64, run_id="train", by="ada")
    assert told() == ("trained.judge",)


def test_no_password_is_logged_and_its_change_is(configured: Configured) -> None:
    configured.sources[1]["sitemap"] = "https://docs.example/s.xml?token=other"

    change = configured.run()

    assert change is not None
    assert list(change.changes) == ["sources.docs.digest"]
    logged = json.dumps(configured.ledger.scalars(sa.select(events.c.body)))
    assert "https://docs.example/s.xml" in logged
    assert "token" not in logged


def test_other_rules_are_told_unless_the_software_changed(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Typos, "code_version", ("typos/other",))
    change = configured.run()
    assert change is not None
    assert change.loosened == ("checks.typos",)

    monkeypatch.setattr(Typos, "code_version", ("typos/next",))
    monkeypatch.setattr(configuration, "__version__", "99.0")
    upgrade = configured.run()
    assert upgrade is not None
    assert list(upgrade.changes) == ["checks.typos", "software"]
    assert upgrade.loosened == ()


def test_what_is_logged_is_bounded(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    configured.sources[0]["owner"] = "x" * 5_000
    change = configured.run()
    assert change is not None
    (_, owner) = change.changes["sources.wiki.owner"]
    assert owner is not None
    assert (len(owner) <= configuration.MAX_CHARACTERS, "… sha256:" in owner) == (True, True)

    monkeypatch.setattr(configuration, "MAX_VALUES", 50)
    change = configured.run()
    assert change is not None
    screening = build_screening(Policy.model_validate(configured.policy), configured.models)
    assert len(describe_configuration(configured.ledger, screening, configured.settings)) == 51
    assert "further" in change.loosened


def test_the_run_the_status_and_the_command_tell_of_a_loosening(
    deployment: Workspace, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    deployment.enter(monkeypatch)
    deployment.refresh("first")
    policy = yaml.safe_load(deployment.settings.policy_file.read_text())
    policy["shadow"] = ["typos"]
    deployment.settings.policy_file.write_text(yaml.safe_dump(policy))
    with deployment.guard() as guard:
        guard.rescreen("dry", dry_run=True)
        guard.rescreen("again")
        guard.apply_decisions("release")
        told = [loosened_in_run(guard.ledger, run) for run in ("first", "dry", "again", "release")]
        status = read_status(guard.ledger, guard.storage, guard.screening, guard.settings)
        verified = guard.verify()
        begin_run(guard.ledger, "stranger", "rescreen", "f" * 64)
        verified_again = guard.verify()

    sentence = "configuration loosened: policy.shadow.typos none → listed"
    assert told == ["", "", f"{sentence}; ", ""]
    assert [change["sentence"] for change in status["loosened"]] == [sentence]
    assert f"UTC, {sentence}; see guard configuration" in typed("status")[1]
    assert "again of " in typed("configuration", "--loosened")[1]
    assert [change["run_id"] for change in json.loads(typed("configuration", "--json")[1])] == ["again", "first"]
    assert [change["run_id"] for change in json.loads(typed("configuration", "--json", "--limit", "1")[1])] == ["again"]
    assert verified.deviations == ()
    (deviation,) = verified_again.deviations
    assert deviation.message.startswith("run stranger worked under the policy ffffffffffffffff…, which no event names")
