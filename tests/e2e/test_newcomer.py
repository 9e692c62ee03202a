"""A newcomer's first hour: a fresh clone, an empty HOME, the commands of the README, then the review pages in a browser.

Nothing is known but what the README and the terminal say: the commands are read from README.md, and the address, the user and the password
from what `make up` prints last. From there on the terminal is not looked at again, until `guard search` and `guard verify` confirm what the
pages said. The time of each step is printed (``pytest -s``), and written to the file that GUARD_TEST_NEWCOMER_TIMES names.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import FrameLocator, Page

from browsing import chromium, needs_chromium, watched
from environment import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.hours, needs_chromium, pytest.mark.timeout(7_200)]

PASSED_ON = re.compile(r"PIP_|SSL_|REQUESTS_|CURL_|UV_|NO_PROXY|no_proxy|HTTPS?_PROXY|https?_proxy|LANG|TERM|PATH")
"""Variables of the machine that a newcomer has as well."""
COMMAND_SECONDS = 3_600  # the installation takes most of it where the machine is busy
EFFECT_SECONDS = 900  # quarantine_release runs every ten minutes
LEFT_OUT = ("make test",)  # has a run of its own
SIGN_IN = re.compile(r"Review pages: (?P<address>\S+)\s+Sign in as (?P<user>\w+) with the password (?P<password>\S+),")


@dataclass
class Newcomer:
    """Somebody with a clone, a HOME, and a watch."""

    project: Path
    home: Path
    times: dict[str, float] = field(default_factory=dict)
    """Step → seconds."""

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.times[name] = round(time.monotonic() - began, 1)
        print(f"{self.times[name]:7.1f} s  {name}", flush=True)

    def type(self, command: str, expected: int = 0) -> str:
        """Run a command line of the README and return what the terminal shows."""
        env = {name: value for name, value in os.environ.items() if PASSED_ON.match(name)}
        with self.step(command):
            ran = subprocess.run(
                ["timeout", "--kill-after=10", str(COMMAND_SECONDS), "bash", "-c", command],  # with all that it started
                cwd=self.project,
                env={**env, "HOME": str(self.home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        assert ran.returncode == expected, ran.stdout[-4_000:]
        return ran.stdout


@pytest.fixture
def newcomer() -> Iterator[Newcomer]:
    """A folder on disk: the environment has gigabytes, and pytest's own folders may be in memory."""
    with tempfile.TemporaryDirectory(prefix="newcomer-", dir="/var/tmp") as folder:
        home = Path(folder) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "-q", str(PROJECT), f"{folder}/project"], check=True)
        one = Newcomer(Path(folder) / "project", home)
        try:
            yield one
        finally:
            if (one.project / ".venv" / "installed").exists():
                one.type("make down")
            if times_file := os.environ.get("GUARD_TEST_NEWCOMER_TIMES"):
                Path(times_file).write_text(json.dumps(one.times, indent=2) + "\n")


def readme_commands(readme: str) -> list[str]:
    """Return the commands of the section *Two commands*, in their order, without comments."""
    section = readme.partition("## Two commands")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def test_from_the_clone_to_a_release_that_is_served(newcomer: Newcomer) -> None:
    commands = [line for line in readme_commands((newcomer.project / "README.md").read_text()) if line not in LEFT_OUT]
    assert [line.split()[0] for line in commands[:2]] == ["make", "make"]
    shown = {line: newcomer.type(line) for line in commands}
    signs = SIGN_IN.search(shown["make up"])
    assert signs, shown["make up"][-1_000:]

    document, sentence = release_in_browser(newcomer, signs["address"], signs["user"], signs["password"])

    # Only now the terminal again, to see that the pages told the truth.
    assert document in newcomer.type(f'.venv/bin/guard search "{sentence}"')
    newcomer.type(".venv/bin/guard verify")
    assert not subprocess.run(
        ["git", "status", "--porcelain"], cwd=newcomer.project, capture_output=True, text=True, check=True
    ).stdout, "the run left files that git does not ignore"


def release_in_browser(newcomer: Newcomer, address: str, user: str, password: str) -> tuple[str, str]:
    """Sign in, release the item of the lowest risk, wait until it is served; return its name and a sentence of it."""
    with chromium() as browser:
        session = watched(browser, address, width=1440, height=900)
        page = session.page
        with newcomer.step("sign in, and land on the queue"):
            page.goto(address)
            page.get_by_label("Username").fill(user)
            page.locator("input[type=password]").fill(password)
            page.get_by_role("button", name="Sign in").click()
            frame = page.frame_locator("iframe[title='Corpus Guard']")
            frame.get_by_role("heading", name="Quarantine").wait_for()
        with newcomer.step("open an item and read why it waits"):
            frame.locator("a.where").last.click()
            frame.get_by_role("heading", name="Why it waits").wait_for()
            document = frame.get_by_role("heading", level=1).inner_text().strip()
            sentence = longest_sentence(frame.locator("#text").inner_text())
        with newcomer.step("release it"):
            frame.locator("#decide").get_by_text("Release", exact=True).click()
            frame.get_by_label("Reason (required").fill("read it, and it is harmless")
            frame.get_by_role("button", name="Decide", exact=True).click()
            frame.get_by_role("status").get_by_text("takes effect with the next run").wait_for()
        with newcomer.step("wait until History says that it took effect"):
            wait_for_effect(page, frame, document)
        with newcomer.step("find it on the page Search"):
            frame.get_by_role("link", name="Search").first.click()
            frame.get_by_label("Question").fill(sentence)
            frame.get_by_role("button", name="Search").click()
            frame.locator("article").filter(has_text=document).first.wait_for()
        with newcomer.step("see what Required Actions asks"):
            page.goto(f"{address.partition('/plugin/')[0]}/required_actions")
            page.get_by_text("Review the quarantine").first.wait_for()
        session.quiet()
    return document, sentence


def wait_for_effect(page: Page, frame: FrameLocator, document: str) -> None:
    deadline = time.monotonic() + EFFECT_SECONDS
    while True:
        frame.get_by_role("link", name="History").first.click()
        row = frame.get_by_role("row").filter(has_text=document)
        row.first.wait_for()
        if row.get_by_text("took effect", exact=True).count():
            return
        assert time.monotonic() < deadline, row.first.inner_text()
        page.wait_for_timeout(5_000)


def longest_sentence(text: str) -> str:
    """Return a sentence to ask for, without what a shell would read."""
    sentences = re.findall(r"[A-Z][\w ,-]{40,160}\.", text)
    return str(max(sentences, key=len))
