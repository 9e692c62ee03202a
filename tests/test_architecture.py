"""The house: rooms import only rooms below them, nothing heavy or dangerous comes in, names and docstrings say what they name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import corpus_guard

PACKAGE = Path(corpus_guard.__file__).parent
PROJECT = PACKAGE.parents[1]
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)
SOURCES = sorted(
    path
    for folder in ("include", "dags", "plugins")
    for path in (PROJECT / folder).rglob("*.py")
    if "sample_corpus" not in path.parts
)
# Top to bottom: a room imports only rooms below it. `deployment` is the composition root.
ROOMS = [
    "__main__",
    "cli",
    "airflow",
    "web",
    "__init__",
    "deployment",
    "evaluation",
    "detectors",
    "attacks",
    "tracking",
    "exports",
    "forensics",
    "pipeline",
    "traceback",
    "removal",
    "review",
    "proof",
    "screening",
    "claims",
    "corpus",
    "intake",
    "models",
    "batches",
    "ledger",
    "settings",
    "yaml_text",
    "invisible",
    "domain",
    "errors",
]
HEIGHT = {room: height for height, room in enumerate(reversed(ROOMS))}
MAY_IMPORT_AIRFLOW = {
    "airflow/approval.py",
    "airflow/assets.py",
}  # what a DAG file needs while it is parsed; it has Airflow anyway
NO_NAMES = {"one", "ones", "found", "told", "known", "asked", "said", "seen", "held", "left", "kept"}
PUBLISHED = {
    "ImportSummary.known",
    "JudgeCanaryResult.found",
    "ModificationParams.left",
    "Slice.held",
    "_Evidence.found",
}  # fields that are keys of JSON, of a column or of policy.yaml
RELATIVE_CLAUSE = re.compile(r"\s*(?:What|Whether|Which|Those|Of|How|Who|Whom|Whose|Where|When|Why)\b")


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a module, parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, *, functions: bool = True) -> Iterator[tuple[str, str]]:
    """Every import as (module, name), also under TYPE_CHECKING, and with `functions` those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(node, functions=functions)


def imported_parts(module: str, imported: str) -> list[str]:
    """`corpus_guard.proof.keys` and `KeyRing` as ["proof", "keys", "KeyRing"]; [] for other packages."""
    first, *parts = module.split(".")
    return [*parts, *([imported] if imported else [])] if first == "corpus_guard" else []


def offences(own: str, tree: ast.AST) -> list[str]:
    """Imports of a module of room `own` that it may not have."""
    problems = []
    for module, imported in imports(tree):
        parts = imported_parts(module, imported)
        if not parts or parts[0] in {own, "__version__"}:
            continue
        if HEIGHT[parts[0]] >= HEIGHT[own]:
            problems.append(f"{own} imports {'.'.join(parts)}, which is not below it")
        if any(part.startswith("_") for part in parts):
            problems.append(f"{own} imports {'.'.join(parts)}, which is private to {parts[0]}")
    return problems


def bound_names(tree: ast.AST, class_name: str = "") -> Iterator[tuple[str, int]]:
    """Every name that is bound, with its line; the fields of a class as Class.field."""
    for node in ast.iter_child_nodes(tree):
        names: list[str | None] = []
        match node:
            case ast.Name(ctx=ast.Store()):
                names = [f"{class_name}.{node.id}" if class_name and isinstance(tree, ast.AnnAssign) else node.id]
            case ast.Attribute(ctx=ast.Store()):
                names = [node.attr]
            case ast.arg():
                names = [node.arg]
            case ast.alias():
                names = [node.asname]
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
                names = [node.name]
            case ast.MatchMapping():
                names = [node.rest]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [node.name]
        yield from ((bound, node.lineno) for bound in names if bound)
        inner = node.name if isinstance(node, ast.ClassDef) else class_name if isinstance(node, ast.AnnAssign) else ""
        yield from bound_names(node, inner)


def empty_names(tree: ast.AST) -> list[str]:
    """Bindings called by a word that names nothing, with their lines."""
    return [
        f"{bound}, line {line}"
        for bound, line in bound_names(tree)
        if bound.rpartition(".")[2] in NO_NAMES and bound not in PUBLISHED
    ]


def public_classes(tree: ast.AST) -> list[str]:
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def relative_docstrings(tree: ast.AST) -> list[str]:
    """Docstrings, those of constants and fields included, that open with a relative clause."""
    return [
        f"{node.value.value.strip().splitlines()[0]}, line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and RELATIVE_CLAUSE.match(node.value.value)
    ]


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_room_imports_only_public_names_of_rooms_below_it(path: Path) -> None:
    assert offences(room(path), tree_of(path)) == []


def test_every_room_has_its_place_and_the_rules_can_fail() -> None:
    assert {room(path) for path in MODULES} <= set(ROOMS)
    upward = "if TYPE_CHECKING:\n    from corpus_guard.deployment import Deployment"
    lazy = "def f():\n    from corpus_guard.proof.keys import _secret"
    assert offences("proof", ast.parse(upward)) == ["proof imports deployment.Deployment, which is not below it"]
    assert offences("review", ast.parse(lazy)) == ["review imports proof.keys._secret, which is private to proof"]


def test_no_binding_is_called_by_a_word_that_names_nothing() -> None:
    assert {str(path): names for path in SOURCES if (names := empty_names(tree_of(path)))} == {}


def test_a_public_class_name_exists_once() -> None:
    counts = Counter(class_name for path in SOURCES for class_name in public_classes(tree_of(path)))

    assert [class_name for class_name, count in counts.items() if count > 1] == []


def test_what_a_docstring_refers_to_exists() -> None:
    stale = []
    for path in MODULES:
        for name in re.findall(r"(?<!`)`corpus_guard\.([\w.]+)`(?!`)", path.read_text(encoding="utf-8")):
            parts = name.split(".")
            room = PACKAGE
            while parts and ((room / parts[0]).is_dir() or (room / f"{parts[0]}.py").is_file()):
                room /= parts.pop(0)
            module = room / "__init__.py" if room.is_dir() else room.with_suffix(".py")
            if parts and not re.search(rf"\b{parts[0]}\b", module.read_text(encoding="utf-8")):
                stale.append((path.name, name))
    assert stale == []


def test_no_docstring_opens_with_a_relative_clause() -> None:
    assert {str(path): docs for path in SOURCES if (docs := relative_docstrings(tree_of(path)))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "for one, other in pairs: ...",
        "texts = [kept for kept in texts]",
        "if (said := say()): ...",
        "with open(path) as held: ...",
        "def find(asked): ...",
        "sorted(texts, key=lambda one: one.place)",
        "try: ...\nexcept OSError as seen: ...",
        "class Pair:\n    left: str",
        "class Pair:\n    @property\n    def left(self): ...",
        "class Slice:\n    def count(self):\n        self.held = held = 1",
        "match value:\n    case {**told}: ...",
        "import numpy as known",
    ],
)
def test_the_rule_of_names_can_fail(source: str) -> None:
    assert empty_names(ast.parse(source))


def test_a_published_field_keeps_its_name() -> None:
    assert empty_names(ast.parse("class Slice:\n    held: int")) == []
    assert empty_names(ast.parse("class Other:\n    held: int")) == ["Other.held, line 2"]


def test_the_rules_of_classes_and_docstrings_can_fail() -> None:
    assert public_classes(ast.parse("class Pair: ...\nclass _Own: ...\nclass Pair: ...")) == ["Pair", "Pair"]
    assert len(relative_docstrings(ast.parse('"""What it is."""\nLIMIT = 1\n"""Of a text."""'))) == 2
    assert relative_docstrings(ast.parse('def find():\n    """Return what it is."""')) == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_upper_rooms_see_a_deployment(path: Path) -> None:
    sees = any("deployment" in imported_parts(*parts)[:1] for parts in imports(tree_of(path)))
    assert not sees or room(path) in {"cli", "airflow", "web", "__init__"}


def test_the_folder_listing_tells_the_domain() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 8


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_no_module_needs_airflow_to_be_imported(path: Path) -> None:
    tree = _without_type_checking(tree_of(path))
    everywhere = [module for module, _ in imports(tree) if module.split(".")[0] == "airflow"]
    at_the_top = [module for module, _ in imports(tree, functions=False) if module.split(".")[0] == "airflow"]

    assert at_the_top == [] or name(path) in MAY_IMPORT_AIRFLOW
    assert everywhere == [] or room(path) == "airflow"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_nothing_is_unpickled_evaluated_or_printed(path: Path) -> None:
    tree = tree_of(path)
    modules = {module.split(".")[0] for module, _ in imports(tree)}
    assert not modules & {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "marshal", "shelve"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"print", "eval", "exec", "torch.load", "os.system", "yaml.unsafe_load"}, node.lineno
            shell = [keyword for keyword in node.keywords if keyword.arg == "shell"]
            assert not shell, f"line {node.lineno}: subprocesses get lists"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(tree_of(path))


def test_the_command_starts_without_anything_heavy() -> None:
    code = (
        "import sys, corpus_guard.cli.main;"
        "heavy = ('torch', 'transformers', 'chromadb', 'great_expectations', 'pandas', 'airflow', 'mlflow', 'alembic');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def _without_type_checking(tree: ast.Module) -> ast.Module:
    return ast.Module(
        [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))], []
    )
