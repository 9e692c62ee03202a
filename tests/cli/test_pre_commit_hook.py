"""The hook in `.pre-commit-hooks.yaml`, run by pre-commit itself on a repository of documents."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from corpus_guard.settings import PROJECT
from deploying import BAD, GOOD, quick_policy

HOOKS = PROJECT / ".pre-commit-hooks.yaml"


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.slow
def test_a_commit_with_an_order_to_a_model_is_stopped_and_one_without_passes(tmp_path: Path) -> None:
    hooks, documents = tmp_path / "hooks", tmp_path / "documents"
    for folder in (hooks, documents):
        folder.mkdir()
        git(folder, "init", "-q")
    (hooks / HOOKS.name).write_bytes(HOOKS.read_bytes())
    git(hooks, "add", ".")
    git(hooks, "commit", "-qm", "hooks")
    git(hooks, "tag", "v1")
    hook = {"id": "guard-screen", "args": ["--one-by-one"]}
    config = {"repos": [{"repo": str(hooks), "rev": "v1", "hooks": [hook]}]}
    (documents / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    (documents / "good page.md").write_text(GOOD)
    (documents / "code.py").write_text(f'"""{BAD}"""')
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CORPUS_GUARD_POLICY_FILE": str(quick_policy(tmp_path / "policy.yaml")),
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
    }

    def run() -> tuple[int, str]:
        git(documents, "add", ".")
        command = [sys.executable, "-m", "pre_commit", "run", "--color", "never"]
        done = subprocess.run(command, cwd=documents, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    code, output = run()
    assert code == 0 and output.endswith("Passed\n")
    (documents / "bad.md").write_text(BAD)
    code, output = run()
    assert code == 1
    assert "bad.md: held back" in output and "instructions.override, line 5" in output
    assert "good page.md" not in output and "code.py" not in output


def test_the_hook_and_the_action_call_what_guard_screen_offers() -> None:
    from click import Command
    from typer.main import get_command

    from corpus_guard.cli.main import app

    screen: Command = get_command(app).commands["screen"]  # type: ignore[attr-defined]
    (hook,) = yaml.safe_load(HOOKS.read_text())
    action = yaml.safe_load((PROJECT / "action.yml").read_text())
    scripts = [step["run"] for step in action["runs"]["steps"] if "run" in step]

    for arguments in (hook["entry"].split()[2:], scripts[-1].split("guard screen ")[1].split()):
        values = {"$TRUST": "open", "$FAIL_ON": "reject", "$SARIF": "x.sarif"}
        given = [values.get(argument.strip('"'), argument.strip('"')) for argument in arguments]
        screen.make_context("screen", [*given, "page.md"])
    assert not any("${{" in script for script in scripts)
    # Nobody owns the name corpus-guard at an index: what is installed is the action's own checkout.
    assert action["inputs"]["requirement"]["default"] == "" and "$GITHUB_ACTION_PATH" in scripts[0]
