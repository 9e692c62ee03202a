"""`guard quarantine`: several at once, two people, taking back, history, mutes, health, labels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from corpus_guard.domain import Severity, Verdict
from corpus_guard.settings import Settings
from deploying import Refused, Typed
from material import Shelf, a_finding, a_version, judged

WHY = ("--reason", "looked at it")
HOSTILE = "\x1b[31m[red]<script>{{ x }}\u202e"


@pytest.fixture
def queue(lite_shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Shelf:
    """Three items that wait: two of one author, one critical; and what `guard` needs to find them."""
    from corpus_guard.corpus import publishing

    monkeypatch.setenv("COLUMNS", "400")  # nothing is folded
    sources = tmp_path / "sources.yaml"
    (tmp_path / "pages").mkdir()
    sources.write_text("sources: [{kind: folder, name: harbour, url: pages, owner: harbour office, trust: open}]\n")
    settings: Settings = lite_shelf.settings(tmp_path / "home")
    for name, value in {**settings.model_dump(mode="json", exclude_defaults=True), "sources_file": sources}.items():
        monkeypatch.setenv(f"CORPUS_GUARD_{name.upper()}", str(value))
    pairs = [
        (version, judged(version, Verdict.QUARANTINE, findings=(a_finding(severity=severity),), risk=risk))
        for version, severity, risk in (
            (a_version("one.md", ("One is old.",), declared={"author": HOSTILE}), Severity.HIGH, 0.9),
            (a_version("two.md", ("Two is old.",), declared={"author": HOSTILE}), Severity.HIGH, 0.8),
            (a_version(f"{HOSTILE}.md", ("Three is old.",)), Severity.CRITICAL, 0.7),
        )
    ]
    with lite_shelf.ledger.write() as connection:
        publishing.record(connection, "run-1", "b.parquet", pairs, collection=str, vectors="", model="")
    return lite_shelf


def listed(typed: Typed, *options: str) -> list[dict[str, Any]]:
    code, out, err = typed("quarantine", "list", "--json", *options)
    assert (code, err) == (0, "")
    return list(json.loads(out)["items"])


def as_json(said: tuple[int, str, str]) -> Any:
    code, out, err = said
    assert (code, err) == (0, ""), err
    return json.loads(out)


def test_the_list_is_filtered_sorted_and_paged(queue: Shelf, typed: Typed) -> None:
    assert [one["risk"] for one in listed(typed)] == [0.9, 0.8, 0.7]
    assert [one["uri"] for one in listed(typed, "--severity", "critical")] == [f"{HOSTILE}.md"]
    assert listed(typed, "--older-than", "1") == []
    assert len(listed(typed, "--sort", "age", "--check", "instructions", "--trust", "open", "--run", "run-1")) == 3
    first = as_json(typed("quarantine", "list", "--json", "--limit", "2"))
    assert (len(first["items"]), first["total"]) == (2, 3)
    assert [one["risk"] for one in listed(typed, "--after", first["next"])] == [0.7]
    campaign = first["items"][0]["campaign"]
    assert len(listed(typed, "--campaign", campaign)) == 2
    for wrong in (("--sort", "name"), ("--severity", "bad"), ("--state", "lost"), ("--after", "zzz")):
        assert typed("quarantine", "list", *wrong)[0] == 2
    shown = typed("quarantine", "list")[1]
    assert "\x1b" not in shown
    assert "⟨U+202E⟩" in shown


def test_several_are_decided_after_a_preview_and_a_yes(queue: Shelf, typed: Typed) -> None:
    campaign = listed(typed)[0]["campaign"]

    code, _, err = typed("quarantine", "reject", "--campaign", campaign, *WHY, "--no-apply")
    assert code == 2
    assert "2 items would be decided at once; review them, then add --yes" in err
    assert [one["pending"] for one in listed(typed)] == [None] * 3

    code, out, _ = typed("quarantine", "reject", "--campaign", campaign, *WHY, "--no-apply", "--yes")
    assert code == 0
    assert "by severity: 2 high" in out and "harbour · one.md" in out and "harbour · two.md" in out
    assert "Until then it can be undone" in out
    assert sorted(one["pending"] or "" for one in listed(typed)) == ["", "reject", "reject"]
    assert len(listed(typed, "--undecided")) == 1


def test_names_and_choosing_do_not_mix(queue: Shelf, typed: Typed) -> None:
    item = listed(typed)[0]["version_id"]

    assert typed("quarantine", "reject", *WHY)[0] == 2
    assert typed("quarantine", "reject", item, "--source", "harbour", *WHY)[0] == 2
    assert typed("quarantine", "reject", item, "--reason", " ")[0] == 2


def a_person(typed: Typed, folder: Path, name: str) -> tuple[str, str]:
    """Make a key, list its owner in reviewers.yaml, and return the option that signs with it."""
    file = str(folder / f"{name}.pem")
    made = as_json(typed("reviewer", "key", file, "--name", name, "--json"))
    assert "is now in" in typed("reviewer", "add", f"Person {name}", "--ui", name, "--key", made["key"])[1]
    assert {"name": f"Person {name}", "ui": name, "os": "", "key": made["key"]} in as_json(
        typed("reviewer", "list", "--json")
    )
    return "--key", file


def test_a_critical_release_needs_two_people(queue: Shelf, typed: Typed, refused: Refused, tmp_path: Path) -> None:
    item = listed(typed, "--severity", "critical")[0]["version_id"]

    said = refused("quarantine", "release", item, *WHY, "--reviewer", "mo")
    assert "needs two people, and a name typed in a terminal proves nobody" in said
    ada, mo = a_person(typed, tmp_path, "ada"), a_person(typed, tmp_path, "mo")

    code, out, _ = typed("quarantine", "release", item, *WHY, *ada)
    assert code == 0
    assert "1 of 2: a second reviewer must also release it" in out
    said = refused("quarantine", "release", item, *WHY, *ada)
    assert "was already released by Person ada; another person must agree" in said
    assert listed(typed, "--severity", "critical")[0]["waits_for_second"] is True
    assert "release 1 of 2, by Person ada" in typed("quarantine", "list")[1]

    done = as_json(typed("quarantine", "release", item, *WHY, *mo, "--no-apply", "--json"))
    assert [(one["approval"], one["of"], one["reviewer"]) for one in done["decisions"]] == [(2, 2, "Person mo")]


def test_rejecting_escalating_and_undoing_are_signed_with_a_key_of_ones_own(
    queue: Shelf, typed: Typed, tmp_path: Path
) -> None:
    ada = a_person(typed, tmp_path, "ada")
    first, second, _ = (item["version_id"] for item in listed(typed))

    rejected = as_json(typed("quarantine", "reject", first, *WHY, *ada, "--no-apply", "--json"))["decisions"]
    escalated = as_json(typed("quarantine", "escalate", second, *WHY, *ada, "--json"))["decisions"]
    undone = as_json(typed("quarantine", "undo", rejected[0]["decision_id"], *WHY, *ada, "--json"))

    assert [decision["reviewer"] for decision in rejected + escalated] == ["Person ada"] * 2
    assert undone == {"undone": [rejected[0]["decision_id"]]}
    history = as_json(typed("quarantine", "history", "--json"))
    assert {(row["kind"], row["reviewer"]) for row in history["entries"]} >= {("undo", "Person ada")}
    for command in ("reject", "escalate"):
        assert typed("quarantine", command, first, *WHY, "--key", str(tmp_path / "none.pem"))[0] != 0


def test_what_was_decided_is_taken_back_and_told(queue: Shelf, typed: Typed, refused: Refused) -> None:
    item = listed(typed)[0]["version_id"]
    done = as_json(
        typed("quarantine", "reject", item, "--reason", HOSTILE, "--reviewer", HOSTILE, "--no-apply", "--json")
    )
    decision = done["decisions"][0]["decision_id"]

    assert "at least 4 characters" in refused("quarantine", "undo", decision[:3], *WHY)
    assert "'ffffffff' is not in the ledger" in refused("quarantine", "undo", "ffffffff", *WHY)
    undone = typed("quarantine", "undo", decision[:8], *WHY, "--reviewer", "mo", "--json")
    assert as_json(undone) == {"undone": [decision]}

    assert listed(typed)[0]["pending"] is None
    assert "was already undone" in refused("quarantine", "undo", decision, *WHY)
    told = as_json(typed("quarantine", "history", "--json"))
    assert [one["kind"] for one in told["entries"]] == ["undo", "reject"]
    assert as_json(typed("quarantine", "history", "--json", "--by", "mo", "--item", item))["total"] == 1
    shown = typed("quarantine", "history")[1]
    assert "reject (undone)" in shown and "undo of reject" in shown
    assert f"{decision[:8]}  " in shown
    assert decision not in shown
    assert "\x1b" not in shown


def test_an_ambiguous_beginning_of_an_id_names_the_ids(
    queue: Shelf, typed: Typed, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [item["version_id"] for item in listed(typed)[:2]]
    for item in items:
        typed("quarantine", "reject", item, *WHY, "--no-apply")
    monkeypatch.setattr("corpus_guard.ledger.short_ids.MIN_CHARACTERS", 0)

    said = refused("quarantine", "undo", "", *WHY)

    for entry in as_json(typed("quarantine", "history", "--json"))["entries"]:
        assert entry["id"] in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("list", "--source", "nonsense"), "source 'nonsense' is not known; known: harbour"),
        (("list", "--check", "nonsense"), "check 'nonsense' is not known; known: conflict, coordination"),
        (("list", "--trust", "nonsense"), "trust 'nonsense': expected one of trusted, reviewed, open"),
        (("list", "--run", "nonsense"), "run 'nonsense' is not in the ledger; see `guard status`"),
        (("list", "--campaign", "nonsense"), "campaign 'nonsense' is not in the ledger; see `guard quarantine list"),
        (("reject", "--campaign", "nonsense", "--reason", "x"), "campaign 'nonsense' is not in the ledger"),
        (("history", "--kind", "relaese"), "kind 'relaese': expected one of release, reject, escalate, undo"),
        (("history", "--source", "nonsense"), "source 'nonsense' is not known; known: harbour"),
        (("reject", "--source", "nonsense", "--reason", "x"), "source 'nonsense' is not known; known: harbour"),
        (("reject", "--check", "nonsense", "--reason", "x"), "check 'nonsense' is not known; known: conflict"),
        (
            ("reject", "--check", "typos", "--reason", "x"),
            "no item that waits for a decision matches; see `guard quarantine",
        ),
    ],
)
def test_a_name_that_nothing_has_is_no_empty_queue(
    queue: Shelf, refused: Refused, arguments: tuple[str, ...], says: str
) -> None:
    assert says in refused("quarantine", *arguments)


def test_a_declared_source_and_a_check_without_items_are_known(queue: Shelf, typed: Typed) -> None:
    assert listed(typed, "--check", "parsing") == listed(typed, "--check", "typos") == []
    assert listed(typed, "--source", "harbour", "--state", "rejected") == []


def test_somebody_else_is_asked_for(queue: Shelf, typed: Typed) -> None:
    item = listed(typed)[0]["version_id"]

    code, out, _ = typed("quarantine", "escalate", item[:8], "--reason", "legal should see this")

    assert code == 0
    assert f"escalated {item}" in out
    assert listed(typed)[0]["escalated"] is True


def test_a_rule_is_muted_by_two_and_heard_again_by_one(queue: Shelf, typed: Typed, tmp_path: Path) -> None:
    mute = ("quarantine", "mute", "harbour", "instructions.override")
    assert "Nobody is listed" in typed("reviewer", "list")[1]
    assert typed(*mute, *WHY, "--reviewer", "ada")[0] == 2
    ada, mo = a_person(typed, tmp_path, "ada"), a_person(typed, tmp_path, "mo")
    made = as_json(typed(*mute, *WHY, *ada, "--json"))
    assert made["state"] == "proposed"
    assert typed("quarantine", "confirm", made["mute_id"], *WHY, *ada)[0] == 2

    code, out, _ = typed("quarantine", "confirm", made["mute_id"], *WHY, *mo)
    assert code == 0
    assert "guard rescreen --source harbour" in out
    assert [one["state"] for one in as_json(typed("quarantine", "mutes", "--json"))] == ["active"]
    assert "ada" in typed("quarantine", "mutes")[1]

    assert as_json(typed("quarantine", "unmute", made["mute_id"], *WHY, "--json"))["state"] == "lifted"


def test_health_leaves_out_what_is_not_known(queue: Shelf, typed: Typed) -> None:
    code, out, _ = typed("quarantine", "health")

    assert code == 0
    assert re.search(r"the oldest since \d{4}-\d{2}-\d{2} \d{2}:\d{2} UTC", out)
    assert "0 released, 0 rejected\n" in out and "within" not in out and "Released items" not in out


def test_health_and_labels(queue: Shelf, typed: Typed) -> None:
    for item, verb in zip(listed(typed, "--severity", "high"), ("release", "reject"), strict=True):
        assert typed("quarantine", verb, item["version_id"], *WHY, "--no-apply")[0] == 0

    told = as_json(typed("quarantine", "health", "--json"))
    assert told["decided"] == {"released": 1, "rejected": 1}
    assert told["checks"][0]["false_alarms"]["count"] == 1
    assert "1 released, 1 rejected; half within 0.0 h, 90 % within 0.0 h" in typed("quarantine", "health")[1]
    lines = [json.loads(line) for line in typed("quarantine", "labels")[1].splitlines()]
    assert sorted(line["label"] for line in lines) == ["attack", "honest"]
    assert all(line["codes"] == ["instructions.override"] for line in lines)
    assert typed("quarantine", "labels", "--days", "0")[1] == ""
