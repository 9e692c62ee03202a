"""`guard export`: findings and attestations for other tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import say, visible
from corpus_guard.cli.options import FromSource
from corpus_guard.deployment import Deployment
from corpus_guard.domain import plural

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from corpus_guard.exports.findings import ExportItem
    from corpus_guard.ledger import Ledger

app = typer.Typer(help="Export findings and attestations for other tools.", no_args_is_help=True)


class ExportFormat(StrEnum):
    """Output format of findings."""

    JSONL = "jsonl"
    OCSF = "ocsf"
    SARIF = "sarif"


Output = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Output file, written completely or not at all. Default: standard output."),
]


@app.command("findings")
def findings(
    form: Annotated[
        ExportFormat,
        typer.Option("--format", "-f", help="jsonl: all fields; ocsf: for a SIEM; sarif: for code hosts and editors."),
    ] = ExportFormat.JSONL,
    source: FromSource = None,
    state: Annotated[
        str | None, typer.Option(help="Only this state: quarantined, rejected, released or accepted.")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            help="Only documents judged at this time or later, UTC.", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]
        ),
    ] = None,
    output: Output = None,
) -> None:
    """Export findings with document, version, stamp, verdict and decision, but without any document text.

    `jsonl` and `ocsf` write one JSON object per line. SARIF is a single document that its readers load into memory: narrow a large one
    with `--source`, `--state` or `--since`. URIs are percent-encoded. Exporting again gives the same ids.

    Example: `guard export findings --format ocsf --since 2026-03-01 --out events.jsonl`

    Example: `guard export findings --format sarif --source handbook --state quarantined -o handbook.sarif`
    """
    from corpus_guard.exports.findings import export_findings

    count = 0

    def counted(items: Iterable[ExportItem]) -> Iterator[ExportItem]:
        nonlocal count
        for count, item in enumerate(items, start=1):  # noqa: B007
            yield item

    after = since.replace(tzinfo=UTC) if since else None
    with Deployment() as deployment, console.writing(output) as write:
        for piece in _pieces(
            form, counted(export_findings(deployment.ledger, source=source, state=state, since=after))
        ):
            write(piece)
    if output is not None:
        say(f"{plural(count, 'finding')} written to {visible(str(output))}")


@app.command("incident")
def incident(
    name: Annotated[str, typer.Argument(help="Id of the incident, or a prefix of it.", metavar="INCIDENT")],
    form: Annotated[
        ExportFormat, typer.Option("--format", "-f", help="Format: jsonl, ocsf or sarif.")
    ] = ExportFormat.JSONL,
    output: Output = None,
) -> None:
    """Export the deviations of an incident, for a SIEM or a ticket.

    Example: `guard export incident 3fa9 --format ocsf -o incident.jsonl`
    """
    from corpus_guard.exports.findings import export_deviations
    from corpus_guard.proof.incidents import find_incident, load_deviations

    with Deployment() as deployment, console.writing(output) as write:
        incident = find_incident(deployment.ledger, name)
        deviations = load_deviations(deployment.storage, incident)
        for piece in _pieces(form, export_deviations(deviations, incident.opened_at)):
            write(piece)
    if output is not None:
        say(f"{plural(len(deviations), 'deviation')} written to {visible(str(output))}")


@app.command("attestation")
def attestation(
    name: Annotated[
        str,
        typer.Argument(
            help="Id of a version, a prefix of it, or the URI of a document.", metavar="VERSION|DOCUMENT_URI"
        ),
    ],
    output: Output = None,
) -> None:
    """Export a signed statement of how a served document was admitted: an in-toto statement in a DSSE envelope.

    It says who fetched what and when, the findings, who decided, and the hashes of every chunk in the collections. It is signed with the
    log's key; anyone with the public key can check it without this deployment.

    Example: `guard export attestation guides/tides.md -o tides.intoto.json`

    Example: `guard export attestation 3f9ac1d2`
    """
    from corpus_guard.exports.findings import dump_json
    from corpus_guard.proof.attestation import attest

    with Deployment() as deployment:
        version = _version(deployment.ledger, name)
        envelope = attest(deployment.ledger, version, load_signer(deployment))
        with console.writing(output) as write:
            write(dump_json(envelope) + "\n")
    if output is not None:
        say(f"Attestation of version {version} written to {visible(str(output))}")


def load_signer(deployment: Deployment) -> Ed25519PrivateKey:
    """Return the active key of the log.

    Raises:
        SettingsError: nothing was sealed yet, or the private key is not on this machine.
    """
    from corpus_guard.proof.log.keys import Keyring

    return Keyring.open(deployment.settings.keys).signers()[0].private


def _pieces(form: ExportFormat, items: Iterable[ExportItem]) -> Iterator[str]:
    from corpus_guard.exports import jsonl, ocsf, sarif

    if form is ExportFormat.SARIF:
        yield from sarif.format_log(items)
        yield "\n"
    else:
        format_lines = ocsf.format_lines if form is ExportFormat.OCSF else jsonl.format_lines
        yield from (line + "\n" for line in format_lines(items))


def _version(ledger: Ledger, name: str) -> str:
    import sqlalchemy as sa

    from corpus_guard.ledger.tables import documents
    from corpus_guard.review.queue import find_item

    # As it is called, with its source before it, or as an export wrote it.
    names = {name, unquote(name)}
    statement = sa.select(documents.c.source, documents.c.target_version).where(
        documents.c.uri.in_(names) | (documents.c.source + "/" + documents.c.uri).in_(names)
    )
    rows = ledger.rows(statement.order_by(documents.c.source))
    if not rows:
        return find_item(ledger, name).version_id
    if len(rows) > 1:
        raise errors.Misuse(
            f"document {name!r} is in the sources {', '.join(row.source for row in rows)}; name its version instead, as "
            "`guard export findings` and `guard quarantine list` show it"
        )
    if rows[0].target_version is None:
        raise errors.Misuse(f"document {name!r} has no served version; only a served version can be attested")
    return str(rows[0].target_version)
