"""`guard keys`: who signs the log, in a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from corpus_guard import _console as console
from corpus_guard._cli_quarantine import Reviewer
from corpus_guard._console import Json, out, styled
from corpus_guard.guard import Guard, new_run_id

app = typer.Typer(help="The keys that sign the log: show, rotate, revoke.", no_args_is_help=True)

Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the signed log.")]
OVERLAP = 1_000  # events: a few refreshes, in which strangers learn the new key


@app.command()
def show(as_json: Json = False) -> None:
    """Every key there ever was, and from which size of the log to which it is trusted.

    The first column is what you hand to whoever verifies: `guard check-proof --key`. Example: `guard keys show`
    """
    from corpus_guard.proof.keys import Keyring

    with Guard() as guard:
        keyring = Keyring.open(guard.settings.keys)
        keys = keyring.public_keys()
    rows = [
        {
            "vkey": one.key.encode(),
            "key_id": one.key.key_id.hex(),
            "from_size": one.from_size,
            "to_size": one.to_size,
            "state": "revoked" if one.revoked else "active" if one is keys[-1] else "replaced",
        }
        for one in keys
    ]
    if as_json:
        console.print_json({"origin": keyring.origin, "folder": str(keyring.folder), "keys": rows})
        return
    for row in rows:
        until = "now" if row["to_size"] is None else f"event {row['to_size']:,}"
        out.print(f"{styled(str(row['state']))} from event {row['from_size']:,} to {until}", soft_wrap=True)
        out.print(f"  {row['vkey']}", soft_wrap=True)
    out.print(f"In {keyring.folder}; keep a copy elsewhere, without it nothing can be sealed again.", soft_wrap=True)


@app.command()
def rotate(
    reason: Reason,
    by: Reviewer,
    overlap: Annotated[int, typer.Option(min=0, help="Events during which the old key signs along.")] = OVERLAP,
    as_json: Json = False,
) -> None:
    """Put a new key in place of the active one; the old one signs along for a while.

    Example: `guard keys rotate --reason "yearly"`
    """
    from corpus_guard.proof.rotation import rotate as run

    with Guard() as guard:
        key, head = run(guard, new_run_id("keys"), overlap, by=by, reason=reason)
    if as_json:
        console.print_json({"vkey": key, "log_size": head.size})
        return
    out.print(f"The new key, for whoever verifies (also in log.pub):\n  {key}", soft_wrap=True)
    out.print(f"The old one signs along until event {head.size + overlap:,}.")


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="8 hexadecimal digits, see `guard keys show`.", metavar="KEY")],
    reason: Reason,
    by: Reviewer,
    size: Annotated[
        int | None, typer.Option(min=0, help="The last size at which it is trusted. Default: the newest head's.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Stop trusting a key that was replaced, and destroy its private half.

    Example: `guard keys revoke 5f0a1b2c --reason "the laptop was stolen" --size 812`
    """
    from corpus_guard.proof.rotation import revoke as run

    with Guard() as guard:
        head = run(guard, new_run_id("keys"), key_id, size, by=by, reason=reason)
    if as_json:
        console.print_json({"key_id": key_id, "log_size": head.size})
    else:
        out.print(f"{key_id} is revoked; heads it signed alone after that size are refused.")
