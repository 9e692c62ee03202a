"""`guard expectations`: Great Expectations suites of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import print_table, say, visible
from corpus_guard.cli.options import Json
from corpus_guard.domain import plural

if TYPE_CHECKING:
    from corpus_guard.screening.extensions import Extensions
    from corpus_guard.settings import Settings

app = typer.Typer(help="Check and write Great Expectations suites of your own.", no_args_is_help=True)

TEMPLATE: Final = """\
# Great Expectations suite. Columns: `guard expectations columns`. Check it: `guard expectations check`.
name: {name}
# meta:
#   guard: {{sources: [wiki], trust: [open]}}  # only for these; without it, for every version
expectations:
  - type: expect_column_values_to_not_be_null
    kwargs: {{column: declared_title}}
    severity: info             # critical: high, the document waits; warning: medium; info: it is only recorded
    notes: The document declares no title.
    meta:
      guard: {{rule: title}}     # the finding's code is expectation.{name}.title
"""


@app.command("check")
def check(as_json: Json = False) -> None:
    """Load every suite of the extensions folder and let Great Expectations try each expectation on a made-up row.

    Exits with code 2 at the first mistake, and names file and key.

    Example: `guard expectations check`
    """
    from corpus_guard.screening.suites.validation import try_suite

    settings, extensions, columns = _load()
    for suite in extensions.suites:
        try_suite(suite, sorted(suite.columns(columns)))
    if as_json:
        rules = {suite.name: [expectation.rule for expectation in suite.expectations] for suite in extensions.suites}
        console.print_json({"folder": str(settings.extensions_folder / "expectations"), "suites": rules})
        return
    for suite in extensions.suites:
        scope = [*sorted(suite.marks.sources), *sorted(suite.marks.trust)]
        codes = ", ".join(f"expectation.{suite.name}.{expectation.rule}" for expectation in suite.expectations)
        say(f"[bold]{visible(suite.name)}[/bold] for {visible(', '.join(scope) or 'every version')}: {visible(codes)}")
    say(f"{plural(len(extensions.suites), 'suite')} in {visible(str(settings.extensions_folder / 'expectations'))}")


@app.command("columns")
def columns(as_json: Json = False) -> None:
    """List the columns that an expectation can name.

    Beside these, `declared_` with a name is what the source declared under that name, such as `declared_author`.
    """
    _, _, meanings = _load()
    if as_json:
        console.print_json(meanings)
        return
    print_table("Columns", ("column", "meaning"), meanings.items())


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="Name of the suite: lower case letters, digits and _.")],
    as_json: Json = False,
) -> None:
    """Write a suite to begin with into the extensions folder; an existing file is never overwritten.

    Example: `guard expectations new wiki_pages`
    """
    from corpus_guard.cli.checks import write_new
    from corpus_guard.settings import load_settings

    path = write_new(
        load_settings().extensions_folder / "expectations" / f"{name}.yaml", name, TEMPLATE.format(name=name)
    )
    if as_json:
        console.print_json({"file": str(path)})
        return
    say(f"{visible(str(path))}: edit it, then run [bold]guard expectations check[/bold]")


@app.command("report")
def report(
    run: Annotated[
        str, typer.Option(help="Id of a run, as `guard status` shows it. Default: the last that judged.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Show what each suite said about the documents that a refresh judged: the Data Docs, in short.

    Counts only, no value of a document; `--json` shows the expectations that pass, too. Exits with code 1 if a suite fails.

    Example: `guard expectations report`
    """
    from dataclasses import asdict

    from corpus_guard.deployment import Deployment
    from corpus_guard.ledger.runs import run_folder
    from corpus_guard.pipeline.data_docs import last_judging_refresh, load_data_docs

    with Deployment() as deployment:
        docs = load_data_docs(deployment.storage, run_folder(run or last_judging_refresh(deployment.ledger)))
    if as_json:
        console.print_json(asdict(docs))
    else:
        for suite in docs.suites:
            parts = [plural(suite.documents, "document"), plural(len(suite.expectations), "expectation")]
            parts += [f"[red]{suite.unchecked:,} unchecked[/red]"] if suite.unchecked else []
            state = "[green]passes[/green]" if suite.passes else "[red]fails[/red]"
            say(f"[bold]{visible(suite.name)}[/bold] {state}: {', '.join(parts)}")
            for each in suite.expectations:
                if each.failed:
                    documents = plural(each.failed, "document")
                    say(f"  {visible(each.code)}: {documents}. {visible(each.sentence)}")
        say(f"Run {visible(docs.run_id)}: {visible(docs.summary)}")
    if not all(suite.passes for suite in docs.suites):
        raise typer.Exit(1)


def _load() -> tuple[Settings, Extensions, dict[str, str]]:
    from corpus_guard.screening.extensions import load_extensions
    from corpus_guard.screening.registry import CHECKS
    from corpus_guard.screening.suites.frame import column_meanings
    from corpus_guard.settings import load_settings

    settings = load_settings()
    extensions = load_extensions(settings, CHECKS)
    return settings, extensions, column_meanings(("parsing", *CHECKS, *extensions.checks))
