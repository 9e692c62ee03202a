"""`guard keys`: the keys that sign the log."""

from __future__ import annotations

from typing import Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import say, styled
from corpus_guard.cli.options import Json, Reviewer
from corpus_guard.deployment import Deployment, new_run_id

app = typer.Typer(help="Show, rotate and revoke the keys that sign the log.", no_args_is_help=True)

Reason = Annotated[str, typer.Option("--reason", "-r", help="Reason; kept in the signed log.")]
OVERLAP = 1_000  # events: a few refreshes, in which strangers learn the new key


@app.command()
def show(as_json: Json = False) -> None:
    """List all keys, past and present, and the range of the log in which each is trusted.

    Pass these keys to anyone who verifies proofs (`guard check-proof --key`). Example: `guard keys show`
    """
    from corpus_guard.proof.log.keys import Keyring

    with Deployment() as deployment:
        keyring = Keyring.open(deployment.settings.keys)
        keys = keyring.public_keys()
    rows = [
        {
            "vkey": key.key.encode(),
            "key_id": key.key.key_id.hex(),
            "from_size": key.from_size,
            "to_size": key.to_size,
            "state": "revoked" if key.revoked else "active" if key is keys[-1] else "replaced",
        }
        for key in keys
    ]
    if as_json:
        console.print_json({"origin": keyring.origin, "folder": str(keyring.folder), "keys": rows})
        return
    for row in rows:
        until = "now" if row["to_size"] is None else f"event {row['to_size']:,}"
        say(f"{styled(str(row['state']))} from event {row['from_size']:,} to {until}")
        say(f"  {row['vkey']}")
    say(f"In {keyring.folder}; keep a copy elsewhere: without it nothing can be sealed.")


@app.command()
def rotate(
    reason: Reason,
    by: Reviewer,
    overlap: Annotated[int, typer.Option(min=0, help="Number of events for which the old key still signs.")] = OVERLAP,
    as_json: Json = False,
) -> None:
    """Replace the active key; for some time the old key signs as well, unless it is lost.

    Example: `guard keys rotate --reason "yearly"`
    """
    from corpus_guard.proof.log.keys import Keyring
    from corpus_guard.proof.log.rotation import rotate as run

    with Deployment() as deployment:
        key, head = run(deployment.ledger, deployment.settings, new_run_id("keys"), overlap, by=by, reason=reason)
        *_, old, _ = Keyring.open(deployment.settings.keys).public_keys()
    if as_json:
        console.print_json({"vkey": key, "log_size": head.size})
        return
    say(f"New public key (also in log.pub):\n  {key}")
    until = old.to_size or 0
    say(f"The old key still signs until event {until:,}." if until >= head.size else "The old key signs no more.")


@app.command()
def revoke(
    key_id: Annotated[
        str, typer.Argument(help="Id of the key: 8 hexadecimal digits, from `guard keys show`.", metavar="KEY")
    ],
    reason: Reason,
    by: Reviewer,
    size: Annotated[
        int | None,
        typer.Option(min=0, help="Last log size at which the key is trusted. Default: size of the newest head."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Revoke a replaced key and destroy its private half.

    Example: `guard keys revoke 5f0a1b2c --reason "the laptop was stolen" --size 812`
    """
    from corpus_guard.proof.log.rotation import revoke as run

    with Deployment() as deployment:
        head = run(deployment.ledger, deployment.settings, new_run_id("keys"), key_id, size, by=by, reason=reason)
    if as_json:
        console.print_json({"key_id": key_id, "log_size": head.size})
    else:
        say(f"{key_id} is revoked; heads signed only by this key after that size are refused.")
