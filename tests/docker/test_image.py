"""`make image-check`: that its claims can fail, and, whole, that the image keeps them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import image
from environment import PROJECT

CANARY = "0123456789abcdef" * 3
UID = 50_000


def config(**changes: Any) -> dict[str, Any]:
    told = {"User": f"{UID}:0", "Healthcheck": {"Test": ["CMD", "healthcheck"]}, "Env": ["PATH=/bin"], **changes}
    return {"Docker": {"config": told, "history": [{"created_by": "RUN pip install"}]}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root file system that keeps every claim."""
    code = tmp_path / "opt" / "corpus-guard" / "include"
    code.mkdir(parents=True)
    (code / "guard.py").write_text("print()\n")
    (code / "link.py").symlink_to("guard.py")
    (tmp_path / "var" / "lib" / "corpus-guard").mkdir(parents=True)
    (tmp_path / "var" / "lib" / "corpus-guard").chmod(0o777)  # the state folder may be written
    for path in (tmp_path / "opt").rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path


def test_an_image_that_keeps_its_claims_is_not_blamed(root: Path) -> None:
    assert image.claims(root, config(), CANARY) == []


@pytest.mark.parametrize("user", ["", "0:0", "root", "airflow"])
def test_a_user_that_is_or_may_be_root_is_named(root: Path, user: str) -> None:
    assert any("user: expected a number other than 0" in one for one in image.claims(root, config(User=user), CANARY))


def test_no_health_check_is_named(root: Path) -> None:
    assert image.claims(root, config(Healthcheck=None), CANARY) == ["health check: expected one, got none"]


@pytest.mark.parametrize("before", [0, (1 << 22) - 10])
def test_the_build_secret_is_found_in_a_file_even_across_two_reads(root: Path, before: int) -> None:
    (root / "var" / "leaked").write_bytes(b"x" * before + CANARY.encode() + b"tail")

    assert image.claims(root, config(), CANARY) == ["/var/leaked: holds the build secret"]


def test_the_build_secret_is_found_in_the_history(root: Path) -> None:
    (said,) = image.claims(root, config(Labels={"index": CANARY}), CANARY)

    assert said.startswith("configuration: holds the build secret")
    assert CANARY not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
@pytest.mark.parametrize(("mode", "owner"), [(0o666, 0), (0o664, 0), (0o644, UID)])
def test_code_that_the_user_may_write_is_named(root: Path, mode: int, owner: int) -> None:
    file = root / "opt" / "corpus-guard" / "include" / "guard.py"
    file.chmod(mode)
    os.chown(file, owner, 0)

    assert image.claims(root, config(), CANARY) == [
        "/opt/corpus-guard/include/guard.py: can be written by the image's user"
    ]


def test_without_buildah_it_says_what_it_needs(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, image.__file__],
        env={**os.environ, "PATH": str(tmp_path), "CORPUS_GUARD_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 2
    assert "needs root on Linux and Debian's packages buildah and debootstrap" in ran.stdout
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
@pytest.mark.hours
@pytest.mark.timeout(7_200)
def test_the_image_is_built_and_the_sample_corpus_goes_through_it() -> None:
    if os.geteuid() != 0 or not shutil.which("buildah") or not shutil.which("debootstrap"):
        pytest.skip("needs root, buildah and debootstrap")
    env = {**os.environ, "CORPUS_GUARD_HOME": str(PROJECT / "var")}  # where the base and the wheels are kept

    ran = subprocess.run([sys.executable, image.__file__], env=env, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout[-4000:]
    first, second = re.findall(r"run: (\d+) documents = .* (\d+) unchanged \+ 0 failed", ran.stdout)
    assert first[0] == second[0] == second[1]
    assert int(re.findall(r"attacks kept out: (\d+) of", ran.stdout)[0]) > 0
