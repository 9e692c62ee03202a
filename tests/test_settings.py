"""Every knob says which file, which key, and what to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from corpus_guard.errors import SettingsError
from corpus_guard.intake.sources import load_sources
from corpus_guard.models import Models
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.screening.registry import build_screening
from corpus_guard.settings import PROJECT, Settings, load_settings, load_yaml, source_names


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CORPUS_GUARD_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def policy_text() -> str:
    return Settings().policy_file.read_text()


def refused(path: Path) -> str:
    """Build what the policy file asks for; the message of the refusal."""
    with pytest.raises(SettingsError) as caught:
        build_screening(load_policy(path), Models(Settings()))
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("CHUNK_TOKENS", "31", "greater than or equal to 32"),
        ("CHUNK_TOKENS", "many", "expected a whole number"),
        ("SHARD_DOCUMENTS", "0", "greater than or equal to 1"),
        ("SHARD_DOCUMENTS", "10001", "less than or equal to 10000"),
        ("MAX_DOCUMENT_BYTES", "1", "greater than or equal to 1024"),
        ("MAX_TEXT_CHARS", "-1", "greater than or equal to 1024"),
        ("PARSE_SECONDS", "0", "greater than 0"),
        ("PARSE_MEMORY_BYTES", "1000", "greater than or equal to"),
        ("CHROMA_URL", "127.0.0.1:8765", "expected http://host:port"),
        ("CHROMA_URL", "ftp://host:1", "expected http://host:port"),
        ("CHROMA_URL", "http://host:99999", "Port out of range"),
        ("CHROMA_URL", "http://host:port", "Port could not be cast"),
        ("LEDGER_URL", "nonsense", "expected sqlite:"),
        ("LEDGER_URL", "mysql://host/db", "postgresql+psycopg2://"),
        ("LEDGER_URL", "postgresql+psycopg://host/db", "the driver psycopg is not used; write postgresql+psycopg2://"),
        ("LEDGER_URL", "sqlite+aiosqlite:///file", "the driver aiosqlite is not used; write sqlite+pysqlite://"),
        (
            "PGVECTOR_URL",
            "postgresql+asyncpg://host/db",
            "the driver asyncpg is not used; write postgresql+psycopg2://",
        ),
    ],
)
def test_a_malformed_variable_is_named_with_what_it_holds(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(f"CORPUS_GUARD_{name}", value)

    with pytest.raises(SettingsError) as caught:
        load_settings()

    message = str(caught.value)
    assert f"environment variable CORPUS_GUARD_{name}: " in message
    assert says in message
    assert repr(value) in message


def test_a_postgresql_url_without_a_driver_means_the_installed_one() -> None:
    settings = Settings(ledger_url="postgresql://u:p@host/db", pgvector_url="postgresql://host/vectors")

    assert settings.ledger == "postgresql+psycopg2://u:p@host/db"
    assert settings.pgvector == "postgresql+psycopg2://host/vectors"
    assert Settings(ledger_url="postgresql://host/db").pgvector == "postgresql+psycopg2://host/db"


@pytest.mark.parametrize("name", ["LEDGER_URL", "CHROMA_URL"])
def test_a_refused_url_does_not_spill_its_password(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"CORPUS_GUARD_{name}", "mysql://guard:hunter2@host/db")

    with pytest.raises(SettingsError, match="host/db") as caught:
        load_settings()

    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__  # pydantic's own message quotes the value


def test_a_misspelt_variable_is_named_once_with_the_nearest_setting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CORPUS_GUARD_POLICY", "policy.yaml")
    monkeypatch.setenv("CORPUS_GUARD_XYZZY", "1")
    for name in (
        "SECRETS_DIR",
        "CONNECTION_MY_S3",
        "CHROMA_PORT",
        "EXECUTOR",
        "WEB_SERVICE_HOST",
        "WEB_PORT_80_TCP_ADDR",
    ):
        monkeypatch.setenv(f"CORPUS_GUARD_{name}", "")

    load_settings()
    load_settings()

    assert [record.message for record in caplog.records] == [
        "environment variable CORPUS_GUARD_POLICY is no setting and is ignored; do you mean CORPUS_GUARD_POLICY_FILE?",
        "environment variable CORPUS_GUARD_XYZZY is no setting and is ignored; remove it",
    ]


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingsError, match="CORPUS_GUARD_CHUNK_TOKEN: Extra inputs are not permitted"):
        load_settings(chunk_token=100)


def test_the_home_does_not_depend_on_where_a_command_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    assert load_settings().home == PROJECT / "var"


def test_what_is_not_set_lies_in_the_home(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)

    assert settings.ledger == f"sqlite:///{tmp_path}/ledger.sqlite"
    assert settings.storage == str(tmp_path / "storage")
    assert Settings(home=tmp_path, ledger_url="sqlite:////elsewhere").ledger == "sqlite:////elsewhere"
    assert Settings(home=tmp_path, storage_url="s3://bucket").storage == "s3://bucket"


def test_paths_are_absolute_and_know_the_home_of_a_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("CORPUS_GUARD_SOURCES_FILE", "~/sources.yaml")
    monkeypatch.setenv("CORPUS_GUARD_HOME", "here")

    assert load_settings().sources_file == Path("/home/ada/sources.yaml")
    assert load_settings().home == tmp_path / "here"


def test_settings_cannot_be_changed_after_the_fact() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().chunk_tokens = 64


def test_a_missing_file_is_named_with_its_variable(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.yaml: no such file; create it.*CORPUS_GUARD_\.\.\._FILE"):
        load_policy(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"name: [unclosed\nretire: 3", "line 2: not valid YAML"),
        (b"a: 1\n\tb: 2", "line 2: not valid YAML"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"a: \x00", "not valid YAML"),
        (b"- a\n- b", "expected keys and values at the top level, got list"),
        (b"", "expected keys and values at the top level, got nothing"),
        (b"a: !!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_a_file_that_is_no_mapping_says_where(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(content)

    with pytest.raises(SettingsError) as caught:
        load_policy(path)

    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_in_place_of_a_file_is_an_error_of_the_same_kind(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_policy(tmp_path)


def test_a_second_key_of_the_same_name_cannot_loosen_the_first(tmp_path: Path, policy_text: str) -> None:
    path = tmp_path / "policy.yaml"
    lines = policy_text.count("\n")
    path.write_text(policy_text + "weights: {info: 0, low: 0, medium: 0, high: 0, critical: 0}\n")

    with pytest.raises(SettingsError, match=rf"line {lines + 1}: .*'weights' is there twice; remove one\)$"):
        load_policy(path)


@pytest.mark.parametrize(
    ("old", "new", "key", "says"),
    [
        ("max_share:", "max_sharre:", "retire.max_sharre", "(missing here: max_share)"),
        ("severity: medium", "severity: mild", "quarantine.open.severity", "'info', 'low'"),
        ("risk: 0.5", "risk: 5", "quarantine.open.risk", "less than or equal to 1"),
        ("risk: 0.5", "risk: .nan", "quarantine.open.risk", "nan"),
        ("risk: 0.5", "rsk: 0.5", "quarantine.open.rsk", "(missing here: risk)"),
        ("grace_hours: 72", "grace_hours: -1", "retire.grace_hours", "greater than or equal to 0"),
        ("critical: 1.0", "critical: 7", "weights.critical", "less than or equal to 1"),
        ("critical: 1.0", "critical: -1", "weights.critical", "greater than or equal to 0"),
        ("critical: 1.0", "dreadful: 1.0", "weights.dreadful", "critical"),
        ("  trusted: {", "  trustd: {", "quarantine.trustd", "trusted"),
        (", critical: 1.0", "", "(top)", "weights: missing critical"),
        ("name: default", "name: default\nrejct: [a]", "rejct", "unknown key; remove it or correct its spelling"),
        ("name: default", "nme: default", "nme", "unknown key; remove it or correct its spelling (known keys: name, "),
        ("name: default", "", "name", "missing; add it"),
        ("name: default", "name: 3", "name", 'expected text, such as "3" (got 3)'),
        (
            "trusts: [trusted]",
            "trusts: trusted",
            "review.two_person_trusts",
            "a list, such as [\"trusted\"] (got 'trusted')",
        ),
        ("expire_days: 30", "expire_days: soon", "review.expire_days", "expected a number (got 'soon')"),
        ("unicode: {}", "unicode: yes", "checks.unicode", "expected keys and values, such as {key: value} (got true)"),
        ("unicode: {}", "unicode:", "checks.unicode", "expected keys and values, such as {key: value} (got nothing)"),
    ],
)
def test_a_wrong_key_of_the_policy_is_named_with_the_fix(
    tmp_path: Path, policy_text: str, old: str, new: str, key: str, says: str
) -> None:
    path = tmp_path / "policy.yaml"
    assert old in policy_text
    path.write_text(policy_text.replace(old, new, 1))

    message = refused(path)

    assert message.startswith(f"{path}: {key}")
    assert says in message


@pytest.mark.parametrize(
    ("section", "key", "says"),
    [
        ("perplexity: {suspct_nats: 7.0}", "checks.perplexity: suspct_nats", "unknown key.*suspect_nats"),
        ("perplexity: {suspect_nats: high}", "checks.perplexity: suspect_nats", "expected a number"),
        ("structure: {max_chars: 0}", "checks.structure: max_chars", "greater than or equal to 1"),
        ("structure: {enabled: perhaps}", "checks.structure: enabled", "expected true or false"),
    ],
)
def test_a_misspelt_threshold_of_a_check_is_refused(
    tmp_path: Path, policy_text: str, section: str, key: str, says: str
) -> None:
    path = tmp_path / "policy.yaml"
    name = section.partition(":")[0]
    path.write_text(re.sub(rf"(?m)^  {name}: \{{.*\}}$", f"  {section}", policy_text))

    message = refused(path)

    assert key in message
    assert re.search(says, message)


def test_a_check_that_does_not_exist_and_one_left_out_are_refused(tmp_path: Path, policy_text: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_text + "  perplexty: {}\n")
    assert "checks.perplexty: no such check; expected one of: structure, " in refused(path)

    path.write_text(policy_text.replace("  unicode: {}\n", ""))
    assert "checks.unicode: missing; add it, or switch it off with `unicode: {enabled: false}`" in refused(path)


def test_several_wrong_keys_are_counted(tmp_path: Path, policy_text: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_text.replace("name: default", "a: 1\nb: 2\nc: 3"))

    assert "(3 more problems)" in refused(path)


def test_the_policy_that_is_shipped_is_valid_and_means_what_its_file_says(policy_text: str) -> None:
    policy = load_policy(Settings().policy_file)

    assert isinstance(policy, Policy)
    assert set(policy.checks) == set(yaml.safe_load(policy_text)["checks"])
    assert build_screening(policy, Models(Settings())).policy is policy


def test_source_names_reads_names_and_imports_no_connector(tmp_path: Path) -> None:
    path = tmp_path / "sources.yaml"
    path.write_text("sources:\n- {name: a1, kind: invented, more: 1}\n- {name: b2}\n")
    code = (
        "import sys; from corpus_guard.settings import source_names; print(*source_names());"
        "print([name for name in sys.modules if name.startswith(('corpus_guard.intake', 'fsspec', 'pyarrow', 'torch'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "CORPUS_GUARD_SOURCES_FILE": str(path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "a1 b2\n[]\n"


@pytest.mark.parametrize("content", [None, "sources: [\n", "sources:\n- {kind: folder}\n"])
def test_source_names_are_none_where_the_file_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    path = tmp_path / "sources.yaml"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("CORPUS_GUARD_SOURCES_FILE", str(path))

    assert source_names() == []
    assert str(path) in caplog.text


def test_source_names_are_those_the_connectors_get(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Settings().sources_file
    if not path.exists():
        pytest.skip("this checkout has no sources.yaml")

    assert source_names() == [source.name for source in load_sources(path)]


def test_two_equal_values_in_different_mappings_are_no_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "sources.yaml"
    path.write_text("base: &base {x: 1}\nsources: [{<<: *base, name: a}, {<<: *base, name: b}]\n")

    from corpus_guard.settings import _Names

    assert [one.name for one in load_yaml(path, _Names).sources] == ["a", "b"]


def test_a_filter_model_comes_with_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS_GUARD_FILTER_MODEL", "/models/own.json")
    with pytest.raises(SettingsError, match="CORPUS_GUARD_FILTER_MODEL_SHA256 go together; set both or neither"):
        load_settings()
    monkeypatch.setenv("CORPUS_GUARD_FILTER_MODEL_SHA256", "0" * 64)
    assert load_settings().filter_model == Path("/models/own.json")
    monkeypatch.setenv("CORPUS_GUARD_RETRIEVAL_FILTER", "perhaps")
    with pytest.raises(SettingsError, match=r"CORPUS_GUARD_RETRIEVAL_FILTER: .*'filterrag'"):
        load_settings()


def test_secrets_may_be_files_and_a_variable_wins_over_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corpus_guard_ledger_url").write_text("postgresql+psycopg2://me:secret@db/ledger\n")
    (tmp_path / "corpus_guard_chat_key").write_text("sk-1")
    (tmp_path / "airflow_fernet_key").write_text("not ours")
    monkeypatch.setenv("CORPUS_GUARD_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("CORPUS_GUARD_CHAT_KEY", "sk-2")

    settings = load_settings()

    assert settings.ledger == "postgresql+psycopg2://me:secret@db/ledger"
    assert settings.chat_key.get_secret_value() == "sk-2"


def test_a_folder_of_secrets_that_is_not_there_is_no_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS_GUARD_SECRETS_DIR", str(tmp_path / "gone"))

    with pytest.raises(SettingsError, match="CORPUS_GUARD_SECRETS_DIR: expected a folder"):
        load_settings()


def test_a_wrong_secret_is_named_like_its_variable_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corpus_guard_ledger_url").write_text("mysql://me:secret@db/ledger")
    monkeypatch.setenv("CORPUS_GUARD_SECRETS_DIR", str(tmp_path))

    with pytest.raises(SettingsError, match="CORPUS_GUARD_LEDGER_URL") as caught:
        load_settings()

    assert "secret" not in str(caught.value).replace("CORPUS_GUARD_SECRETS_DIR", "")
