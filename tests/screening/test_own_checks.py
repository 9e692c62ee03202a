"""Checks and rule packs of one's own: found, held to their name, on trial until the policy names them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml
from sample_versions import a_version

from corpus_guard.cli.checks import CHECK_TEMPLATE, PACK_TEMPLATE
from corpus_guard.domain import Judgement, Verdict
from corpus_guard.errors import SettingsError
from corpus_guard.ledger.tables import findings
from corpus_guard.models import Models
from corpus_guard.screening.check_kit import codes_in, list_problems
from corpus_guard.screening.checks.instructions import list_misses
from corpus_guard.screening.extensions import load_extensions
from corpus_guard.screening.own_checks import load_own_checks
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.registry import CHECKS, build_screening
from corpus_guard.settings import PROJECT, Settings
from deploying import Workspace
from installed_packages import hide_other_packages

ADVERT = a_version("The harbour shop sells ropes.\n\nLimited offer: three for two, this week only.")
QUICK = {name: {"enabled": False} for name in ("structure", "perplexity", "filter_features")}
EXAMPLE = PROJECT / "docs" / "example-check"


@pytest.fixture(autouse=True)
def others_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hide every package that no test installed."""
    hide_other_packages(monkeypatch, tmp_path_factory.getbasetemp(), "corpus_guard.screening.own_checks.entry_points")


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, str], Path]:
    def call(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return call


@pytest.fixture
def advert(put: Callable[[str, str], Path]) -> Path:
    return put("checks/advert.py", CHECK_TEMPLATE.format(name="advert", class_name="Advert"))


def judge(folder: Path, **sections: Any) -> Judgement:
    settings = Settings(extensions_folder=folder)
    policy = load_policy(settings.policy_file)
    policy = policy.model_copy(update={"checks": {**policy.checks, **QUICK, **sections}})
    screening = build_screening(policy, Models(settings), extensions=load_extensions(settings, CHECKS))
    (judgement,) = screening.judge([ADVERT], None)
    return judgement


@pytest.mark.usefixtures("advert")
def test_a_check_is_on_trial_until_the_policy_has_a_section_for_it(tmp_path: Path) -> None:
    trial, counting = judge(tmp_path), judge(tmp_path, advert={})

    assert [it.code for it in trial.findings] == [it.code for it in counting.findings] == ["advert.phrase"]
    assert (trial.verdict, trial.shadow_verdict) == (Verdict.ACCEPT, Verdict.QUARANTINE)
    assert counting.verdict is Verdict.QUARANTINE
    assert judge(tmp_path, advert={"enabled": False}).findings == ()
    assert judge(tmp_path, advert={"phrase": "free rope"}).findings == ()
    with pytest.raises(SettingsError, match=r"checks\.advert: phrse: unknown key"):
        judge(tmp_path, advert={"phrse": "x"})


def test_a_section_without_its_check_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"checks\.advert: no such check"):
        judge(tmp_path, advert={})


def test_a_rule_pack_is_a_check_of_its_own(put: Callable[[str, str], Path], tmp_path: Path) -> None:
    text = PACK_TEMPLATE.format(name="shop").replace("order (?:yours|today)", "limited offer")
    text = text.replace(" (?:here|now)", "").replace("Order today here and pay later", "A limited offer")
    path = put("rules/shop.yaml", text)

    assert list_misses(path) == []
    assert [(it.check, it.code) for it in judge(tmp_path, shop={}).findings] == [("shop", "shop.order_here")]
    assert judge(tmp_path).verdict is Verdict.ACCEPT
    path.write_text(text.replace('["limited offer"]', '["unlimited offer"]'))
    assert list_misses(path) == ["rule order_here: misses its example 'A limited offer.'"]


def test_an_edited_file_is_another_policy_digest(advert: Path, tmp_path: Path) -> None:
    before = judge(tmp_path).policy_digest
    assert judge(tmp_path).policy_digest == before
    advert.write_text(advert.read_text().replace("0.6", "0.7"))
    assert judge(tmp_path).policy_digest != before


@pytest.mark.parametrize(
    "finding",
    [
        'Finding("unicode", "unicode.bidi", Severity.HIGH, 0.9, "x")',
        'Finding("advert", "parsing.empty", Severity.HIGH, 0.9, "x")',
        'Finding("advert", "advert.phrase", Severity.HIGH, 2.0, "x")',
        'Finding("advert", "advert.phrase", Severity.HIGH, float("nan"), "x")',
        'Finding("advert", "advert.phrase", Severity.HIGH, 0.5, version.text * 9)',
        'Finding("advert", "advert.phrase", Severity.HIGH, 0.5, "x", span=Span(0, 10**6))',
        'Finding("advert", "advert.phrase", Severity.HIGH, 0.5, "x", muted=True)',
        "1 / 0",
    ],
)
def test_a_check_that_breaks_the_rules_fails_and_on_trial_holds_nothing_back(
    finding: str, advert: Path, tmp_path: Path
) -> None:
    text = advert.read_text().replace("import Severity", "import Finding, Severity")
    start = text.index("self.finding(")
    advert.write_text(text[:start] + finding + "\n")

    trial, counting = judge(tmp_path), judge(tmp_path, advert={})
    assert [it.code for it in trial.findings] == [it.code for it in counting.findings] == ["advert.unchecked"]
    assert (trial.verdict, counting.verdict) == (Verdict.ACCEPT, Verdict.QUARANTINE)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("checks/a.py", "1 / 0", "a.py: cannot be imported .ZeroDivisionError"),
        ("checks/a.py", "x = 1", "a.py: no check: expected a class"),
        (
            "checks/a.py",
            CHECK_TEMPLATE.format(name="unicode", class_name="A"),
            "the name unicode is taken by the guard",
        ),
        (
            "checks/a.py",
            CHECK_TEMPLATE.format(name="parsing", class_name="A"),
            "the name parsing is taken by the guard",
        ),
        ("checks/a.py", CHECK_TEMPLATE.format(name="a.b", class_name="A"), "lower case letters"),
        ("rules/a.yaml", "pack: a\nversion: '1'\nrules: []\n", "a.yaml: rules"),
        ("rules/a.yaml", PACK_TEMPLATE.format(name="instructions"), "the name instructions is taken by the guard"),
    ],
)
def test_what_cannot_be_used_is_named(
    name: str, text: str, says: str, put: Callable[[str, str], Path], tmp_path: Path
) -> None:
    put(name, text)
    with pytest.raises(SettingsError, match=says):
        load_own_checks(tmp_path, CHECKS)


@pytest.mark.usefixtures("advert")
def test_a_name_stands_once(put: Callable[[str, str], Path], tmp_path: Path) -> None:
    put("rules/other.yaml", PACK_TEMPLATE.format(name="advert"))
    with pytest.raises(SettingsError, match=r"the name advert is taken by .*advert\.py"):
        load_own_checks(tmp_path, CHECKS)


def test_a_folder_that_is_named_must_exist_and_the_default_need_not(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="CORPUS_GUARD_EXTENSIONS_FOLDER"):
        load_extensions(Settings(extensions_folder=tmp_path / "absent"), CHECKS)
    assert load_extensions(Settings(), CHECKS).checks == {}


# The kit


def test_the_kit_passes_the_templates_and_the_example(put: Callable[[str, str], Path], tmp_path: Path) -> None:
    put("checks/advert.py", CHECK_TEMPLATE.format(name="advert", class_name="Advert"))
    put("rules/order.yaml", PACK_TEMPLATE.format(name="order"))
    kinds = load_own_checks(tmp_path, CHECKS)

    assert list_misses(tmp_path / "rules" / "order.yaml") == []
    for kind in kinds.values():
        assert list_problems(kind.build(kind.params_class())) == []
    assert codes_in(kinds["advert"].build(kinds["advert"].params_class()), ADVERT.text) == ["advert.phrase"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("version.text.encode()", "raises UnicodeEncodeError"),
        ("version.chunks[0]", "raises IndexError for an empty text"),
        ('float(version.hidden or "1")', "raises ValueError"),
    ],
)
def test_the_kit_names_what_a_careless_check_breaks_on(body: str, says: str, advert: Path, tmp_path: Path) -> None:
    careless = advert.read_text().replace("            start =", f"            {body}\n            start =")
    advert.write_text(
        careless.replace(
            "    def run", "    def applies_to(self, version: Version) -> bool:\n        return True\n\n    def run"
        )
    )
    (kind,) = load_own_checks(tmp_path, CHECKS).values()

    assert any(says in problem for problem in list_problems(kind.build(kind.params_class())))


def test_the_kit_sees_a_check_that_looks_at_its_neighbours(advert: Path, tmp_path: Path) -> None:
    advert.write_text(advert.read_text().replace("if start >= 0:", "if position:").replace(", span=span", ""))
    (kind,) = load_own_checks(tmp_path, CHECKS).values()

    assert "finds something else in a batch than in each version alone" in list_problems(
        kind.build(kind.params_class())
    )


# A package


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example as a package; its metadata are written as pip writes them."""
    site = tmp_path_factory.mktemp("site")
    for file in (*EXAMPLE.glob("*.py"), *EXAMPLE.glob("*.yaml")):
        (site / file.name).write_bytes(file.read_bytes())
    import tomllib

    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    info = site / "example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in each.items())
        for group, each in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop("corpus_guard_adverts", None)


@pytest.mark.usefixtures("installed")
def test_the_example_package_brings_a_check_and_a_rule_pack(tmp_path: Path) -> None:
    kinds = load_own_checks(tmp_path, CHECKS)
    assert {name: kind.origin for name, kind in kinds.items()} == {
        "adverts": "entry point corpus_guard_adverts:Adverts",
        "shop_talk": "entry point corpus_guard_adverts:RULES",
    }
    for kind in kinds.values():
        assert list_problems(kind.build(kind.params_class())) == []
        assert kind.rules is None or list_misses(kind.rules) == []


def test_a_package_that_breaks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "site" / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[corpus_guard.checks]\nx = no_such_module:X\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(SettingsError, match=r"entry point no_such_module:X cannot be loaded \(ModuleNotFoundError"):
        load_own_checks(tmp_path, CHECKS)


# In a refresh


@pytest.mark.slow
@pytest.mark.usefixtures("advert")
def test_a_refresh_records_what_a_check_on_trial_finds_and_holds_it_back_once_it_counts(
    make: Callable[..., Workspace], tmp_path: Path
) -> None:
    deployment = make(extensions_folder=tmp_path)
    deployment.page("shop.md", ADVERT.text)
    deployment.page("gauge.md")
    deployment.sources()
    assert deployment.refresh("r1")["accepted"] == 2
    (found,) = deployment.read(sa.select(findings.c.code, findings.c.severity))
    assert found.code == "advert.phrase"

    file = deployment.settings.policy_file
    policy = yaml.safe_load(file.read_text())
    policy["checks"]["advert"] = {}
    file.write_text(yaml.safe_dump(policy))
    with deployment.guard() as guard:
        assert guard.rescreen("r2")["verdicts"]
    assert deployment.states() == {"shop.md": "quarantined", "gauge.md": "accepted"}
