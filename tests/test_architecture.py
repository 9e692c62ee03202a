"""The house: rooms import only rooms below them, nothing heavy or dangerous comes in."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import corpus_guard

PACKAGE = Path(corpus_guard.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)
LONGEST = 400

COMMANDS = sorted({path.stem for path in PACKAGE.glob("_cli_*.py")})  # one command in several files

# Top to bottom; what stands on one line shares a floor and does not import each other.
FLOORS = [
    ["cli"],
    ["airflow_detectors", "airflow_review"],
    ["airflow_tasks", *COMMANDS],
    ["airflow_notices", "airflow_runs"],
    ["web"],
    ["status", "refresh", "evaluation", "exports", "_console"],
    ["forensics"],
    ["traceback"],
    ["guard"],
    ["review"],
    ["proof"],
    ["screening"],
    ["corpus"],
    ["intake"],
    ["models"],
    ["batches"],
    ["ledger"],
    ["settings"],
    ["domain", "errors", "_unseen"],
]
FLOOR = {room: height for height, rooms in enumerate(reversed(FLOORS)) for room in rooms}
ALLOWED = {  # options that commands share
    ("_cli_train", "_cli_evaluate"),
    ("_cli_enhance", "_cli_quarantine"),
    ("_cli_quarantine_rules", "_cli_quarantine"),
    ("_cli_incident", "_cli_quarantine"),
    ("_cli_keys", "_cli_quarantine"),
    ("_cli_purge", "_cli_quarantine"),
    ("_cli_trace", "_cli_quarantine"),
}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, *, functions: bool = True) -> Iterator[str]:
    """What a module imports when it runs: not what only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            module = node.module or ""
            yield from ([f"{module}.{alias.name}" for alias in node.names] if module == "corpus_guard" else [module])
        elif functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(node, functions=functions)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_room_imports_only_rooms_below_it(path: Path) -> None:
    own = room(path)
    if own == "__init__":
        return
    assert own in FLOOR, f"{own} has no floor; give it one in FLOORS"
    for module in imports(ast.parse(path.read_text())):
        parts = module.split(".")
        if parts[0] != "corpus_guard" or parts[1] in {own, "__version__"} or (own, parts[1]) in ALLOWED:
            continue
        assert FLOOR[parts[1]] < FLOOR[own], f"{own} imports {parts[1]}, which is not below it"


def test_every_room_there_is_has_a_floor_and_the_rule_can_fail() -> None:
    assert {room(path) for path in MODULES} - {"__init__"} <= set(FLOOR)
    assert list(imports(ast.parse("def f():\n    from corpus_guard import cli"))) == ["corpus_guard.cli"]
    assert list(imports(ast.parse("if TYPE_CHECKING:\n    import airflow"))) == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_no_module_needs_airflow_to_be_imported(path: Path) -> None:
    tree = ast.parse(path.read_text())
    everywhere = [module for module in imports(tree) if module.split(".")[0] == "airflow"]
    outside = [module for module in imports(tree, functions=False) if module.split(".")[0] == "airflow"]

    assert outside == []
    assert everywhere == [] or re.fullmatch(r"airflow_[a-z]+\.py|web/airflow_door\.py", name(path))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_nothing_is_unpickled_evaluated_or_printed(path: Path) -> None:
    tree = ast.parse(path.read_text())
    modules = {module.split(".")[0] for module in imports(tree)}
    assert not modules & {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "marshal", "shelve"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"print", "eval", "exec", "torch.load", "os.system", "yaml.unsafe_load"}, node.lineno
            shell = [keyword for keyword in node.keywords if keyword.arg == "shell"]
            assert not shell, f"line {node.lineno}: subprocesses get lists"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_the_command_starts_without_anything_heavy() -> None:
    code = (
        "import sys, corpus_guard.cli;"
        "heavy = ('torch', 'transformers', 'chromadb', 'great_expectations', 'pandas', 'airflow', 'mlflow', 'alembic');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
