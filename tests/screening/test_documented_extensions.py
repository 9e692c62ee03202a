"""A scratch project in which every command and every file comes from the how-to pages, so that the pages cannot rot."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from corpus_guard.ledger.tables import findings, versions
from corpus_guard.settings import PACKAGE, PROJECT
from deploying import GOOD, Typed, Workspace
from installed_packages import hide_other_packages

PAGES = PROJECT / "docs" / "how-to"
ADVERT = "The chandler has news.\n\nA limited offer for the boats in the harbour: three ropes for the price of two.\n"
ORDER = (
    "The chandler sells ropes of every length.\n\nOrder today here and pay later, at the desk of the harbour office.\n"
)


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a how-to page, in order."""
    return re.findall(
        rf"^```{language}\n(.*?)^```$", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def run_commands(block: str, typed: Typed, expected: int = 0) -> str:
    """Type every command of a shell block, as it stands there. Return what the last one printed."""
    printed = ""
    for line in block.splitlines():
        command, *arguments = shlex.split(line, comments=True)
        assert command == ".venv/bin/guard"
        code, printed, err = typed(*arguments)
        assert code == expected, f"{line}: {err}"
    return printed


def run_documented_test(check: Path) -> None:
    """Run the test of own-checks.md against the check that `guard checks new` wrote."""
    specification = importlib.util.spec_from_file_location("documented_check", check)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    (block,) = blocks("own-checks.md", "python")
    names = {"Adverts": module.Adverts}
    exec(compile(block, "own-checks.md", "exec"), names)  # noqa: S102 - our own page
    names["test_adverts"]()


def codes(project: Workspace) -> dict[str, set[str]]:
    """Return the codes of the extensions' findings, by the URI of the document."""
    rows = project.read(
        versions.select()
        .with_only_columns(versions.c.stamp["uri"].as_string(), findings.c.code)
        .join(findings, findings.c.version_id == versions.c.version_id)
        .where(findings.c.check_name.in_(("expectation", "adverts", "shop_talk")))
    )
    found: dict[str, set[str]] = {}
    for uri, code in rows:
        found.setdefault(uri, set()).add(code)
    return found


@pytest.fixture
def project(make: Callable[..., Workspace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A wiki with five pages, and an extensions folder in which nothing lies."""
    hide_other_packages(monkeypatch, tmp_path, "corpus_guard.screening.own_checks.entry_points")
    folder = tmp_path / "include"
    folder.mkdir()
    made = make(extensions_folder=folder, policy_file=tmp_path / "policy.yaml")
    policy = yaml.safe_load((PACKAGE / "policy.yaml").read_text(encoding="utf-8"))
    policy["checks"] |= {name: {"enabled": False} for name in ("filter_features", "perplexity")}
    made.settings.policy_file.write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
    made.sources(name="wiki")
    for name, text in (("advert.md", ADVERT), ("order.md", ORDER), ("fine.md", GOOD), ("old.md", GOOD)):
        made.page(name, text)
    written = (datetime.now(UTC) - timedelta(days=1_000)).timestamp()
    os.utime(made.pages / "old.md", (written, written))
    made.page(
        "strange.html",
        "<html><head><meta name='author' content='Mallory'></head><body><p>" + GOOD + "</p></body></html>",
    )
    made.enter(monkeypatch)
    return made


def merge_into_policy(project: Workspace, section: dict[str, Any]) -> None:
    policy = yaml.safe_load(project.settings.policy_file.read_text(encoding="utf-8"))
    policy["checks"] |= section["checks"]
    project.settings.policy_file.write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")


def test_a_suite_a_check_and_a_rule_pack_of_the_pages_hold_back_what_they_should(
    project: Workspace, typed: Typed
) -> None:
    folder = project.settings.extensions_folder
    writing, reporting = blocks("expectations.md", "sh")
    run_commands(writing, typed)
    (suite,) = blocks("expectations.md", "yaml")
    (folder / "expectations" / "wiki_pages.yaml").write_text(suite, encoding="utf-8")
    run_commands(*blocks("own-checks.md", "sh"), typed)
    run_documented_test(folder / "checks" / "adverts.py")

    project.refresh("on-trial")
    assert project.states() == {
        "advert.md": "accepted",
        "fine.md": "accepted",
        "old.md": "quarantined",
        "order.md": "accepted",
        "strange.html": "quarantined",
    }
    found = codes(project)
    assert found == {
        "advert.md": {"adverts.phrase"},
        "old.md": {"expectation.wiki_pages.outdated"},
        "order.md": {"shop_talk.order_here"},
        "strange.html": {"expectation.wiki_pages.author"},
    }

    report = run_commands(reporting, typed, expected=1)
    assert (
        "expectation.wiki_pages.outdated: 1 document" in report
        and "expectation.wiki_pages.author: 1 document" in report
    )

    (sections,) = blocks("own-checks.md", "yaml")
    merge_into_policy(project, yaml.safe_load(sections))
    code, _, err = typed("rescreen")
    assert code == 0, err
    assert {uri for uri, state in project.states().items() if state == "accepted"} == {"fine.md"}
    assert codes(project) == found
