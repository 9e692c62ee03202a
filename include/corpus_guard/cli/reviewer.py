"""`guard reviewer`: the people who review, and their own keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import print_table, say, visible
from corpus_guard.cli.options import Json

app = typer.Typer(help="Say who reviews: the people of reviewers.yaml and their own keys.", no_args_is_help=True)


@app.command("key")
def key(
    file: Annotated[Path, typer.Argument(help="New file for the private key; only you can read it.", metavar="FILE")],
    name: Annotated[str, typer.Option(help="Name of the key, such as your login: no spaces, no plus signs.")],
    as_json: Json = False,
) -> None:
    """Make your own key for decisions in a terminal that need two people. Its public half goes into reviewers.yaml.

    Example: `guard reviewer key ada.pem --name ada`
    """
    from corpus_guard.review.identities import create_key

    public = create_key(file, name)
    if as_json:
        console.print_json({"file": str(file), "key": public})
        return
    say(f"Private key: {file}; keep it to yourself.\nPublic key:\n  {public}")


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Name of the person, as colleagues know it.")],
    ui: Annotated[str, typer.Option(help="User name on the review pages.")] = "",
    os: Annotated[str, typer.Option(help="Login in a terminal; with it the key counts for this login alone.")] = "",
    key: Annotated[str, typer.Option(help="Public key, as `guard reviewer key` printed it.")] = "",
    as_json: Json = False,
) -> None:
    """Add a person to reviewers.yaml. The next refresh logs it and tells the people who review.

    Example: `guard reviewer add "Ada Lovelace" --ui ada --os alovelace --key ada+1f0c9a2b+AQ…`
    """
    from corpus_guard.review.identities import Person, add_person
    from corpus_guard.settings import load_settings, validate

    file = load_settings().reviewers
    person = validate({"name": name, "ui": ui, "os": os, "key": key}, Person, where="guard reviewer add")
    add_person(file, person)
    if as_json:
        console.print_json(person.model_dump())
        return
    say(f"{visible(name)} is now in {file}")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the people of reviewers.yaml.

    Example: `guard reviewer list`
    """
    from corpus_guard.review.identities import load_identities
    from corpus_guard.settings import load_settings

    settings = load_settings()
    people = load_identities(settings).people
    if as_json:
        console.print_json([person.model_dump() for person in people])
        return
    if not people:
        say(
            f"Nobody is listed in {settings.reviewers}. Where two people are needed, two different users of the review pages count; "
            "add people with [bold]guard reviewer add[/bold]."
        )
        return
    rows = [(person.name, person.ui, person.os, person.key) for person in people]
    print_table(str(settings.reviewers), ("name", "review pages", "terminal", "public key"), rows)
