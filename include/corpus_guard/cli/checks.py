"""`guard checks`: screening checks and rule packs of your own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import print_table, say, visible
from corpus_guard.cli.options import Json

app = typer.Typer(help="List, try and write screening checks and rule packs of your own.", no_args_is_help=True)

CHECK_TEMPLATE: Final = '''\
"""Texts that ... (say what this check finds, and what it does not)."""

from collections.abc import Sequence

from corpus_guard.domain import Severity, Span, Version
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.survey.survey import Survey


class {class_name}Params(Params):
    """The section ``{name}`` of policy.yaml."""

    phrase: str = "limited offer"


class {class_name}(ConfiguredCheck[{class_name}Params]):
    """Finds a phrase."""

    name = "{name}"
    params_class = {class_name}Params
    code_version = ("1",)

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look at each version. Texts are hostile; a message never quotes them."""
        for position, version in enumerate(batch):
            start = version.text.lower().find(self.params.phrase)
            if start >= 0:
                span = Span(start, start + len(self.params.phrase))
                yield position, self.finding("phrase", Severity.MEDIUM, 0.6, "The text is an advertisement.", span=span)
'''
PACK_TEMPLATE: Final = """\
# A rule pack: patterns are RE2, in lower case, on folded text. Every example must hit its rule, no counter-example may.
pack: {name}
version: "1"
rules:
  - id: order_here
    description: The text is an order form
    severity: medium
    score: 0.6
    patterns: ["order (?:yours|today) (?:here|now)"]
    examples: ["Order today here and pay later."]
    counter_examples: ["The order of the chapters is today's topic."]
"""


@app.command("list")
def list_checks(as_json: Json = False) -> None:
    """List the checks and rule packs of your own, where each comes from, and whether it counts."""
    from corpus_guard.screening.own_checks import load_own_checks
    from corpus_guard.screening.policy import load_policy
    from corpus_guard.screening.registry import CHECKS
    from corpus_guard.settings import load_settings

    settings = load_settings()
    kinds = load_own_checks(settings.extensions_folder, CHECKS)
    policy = load_policy(settings.policy_file)
    rows = [
        (name, "counts" if name in policy.checks and name not in policy.shadow else "on trial", kind.origin)
        for name, kind in kinds.items()
    ]
    if as_json:
        console.print_json([dict(zip(("name", "state", "origin"), row, strict=True)) for row in rows])
        return
    if not rows:
        say("There is none. Write one with [bold]guard checks new NAME[/bold].")
        return
    print_table("Checks of your own", ("name", "state", "from"), rows)
    say(f"A check counts when {visible(str(settings.policy_file))} has a section for it.")


@app.command("test")
def test(as_json: Json = False) -> None:
    """Try every check and rule pack of your own on hostile texts, and rule packs on their examples.

    Exits with code 1 if something is wrong.

    Example: `guard checks test`
    """
    from corpus_guard.screening.check_kit import list_problems
    from corpus_guard.screening.checks.instructions import list_misses
    from corpus_guard.screening.own_checks import load_own_checks
    from corpus_guard.screening.registry import CHECKS
    from corpus_guard.settings import load_settings

    settings = load_settings()
    kinds = load_own_checks(settings.extensions_folder, CHECKS)
    problems = {
        name: [*list_problems(kind.build(kind.params_class())), *(list_misses(kind.rules) if kind.rules else ())]
        for name, kind in kinds.items()
    }
    if as_json:
        console.print_json(problems)
    else:
        for name, sentences in problems.items():
            say(f"[bold]{name}[/bold]: {'holds' if not sentences else ''}")
            for sentence in sentences:
                say(f"  [red]{visible(sentence)}[/red]")
    if any(problems.values()):
        raise typer.Exit(1)


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="Name of the check: lower case letters, digits and _.")],
    rules: Annotated[bool, typer.Option("--rules", help="Write a rule pack instead of a check in Python.")] = False,
    as_json: Json = False,
) -> None:
    """Write a check to begin with into the extensions folder; an existing file is never overwritten.

    Example: `guard checks new adverts`
    """
    from corpus_guard.settings import load_settings

    folder = load_settings().extensions_folder
    class_name = "".join(part.capitalize() for part in name.split("_"))
    if rules:
        path = write_new(folder / "rules" / f"{name}.yaml", name, PACK_TEMPLATE.format(name=name))
    else:
        text = CHECK_TEMPLATE.format(name=name, class_name=class_name)
        path = write_new(folder / "checks" / f"{name}.py", name, text)
    if as_json:
        console.print_json({"file": str(path)})
        return
    say(
        f"{visible(str(path))}: edit it, then run [bold]guard checks test[/bold]. It is on trial until policy.yaml has a section for it."
    )


def write_new(path: Path, name: str, text: str) -> Path:
    """Write a new file of the extensions folder.

    Raises:
        Misuse: the name cannot be part of a finding's code, or the file exists.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,60}", name):
        raise errors.Misuse(f"{name!r}: expected a name of lower case letters, digits and _, beginning with a letter")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise errors.Misuse(f"{path}: exists already; edit it, or choose another name") from None
    return path
