"""Write ``docker/secrets/``, one file a secret, and ``docker/.env`` with the uid that may read them.

    python docker/make_secrets.py

Made once: PostgreSQL keeps the password it was made with, so an existing folder is never touched. compose mounts the files below
/run/secrets with the owner and mode they have here, so the containers run as whoever ran this (as uid 50000 after root did).
Needs nothing but Python.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from pathlib import Path

TARGET = Path(__file__).parent
USERS = ("admin", "reviewer", "viewer", "guard")
IMAGE_USER = 50_000


def content() -> dict[str, str]:
    """File -> fresh content; every password is safe in a URL and in JSON. No line ends: Airflow takes a file as it is."""
    database, redis = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    passwords = {user: secrets.token_urlsafe(12) for user in USERS}
    server = f"postgres:{database}@postgres:5432"
    return {
        "postgres_password": database,
        "airflow_database_url": f"postgresql+psycopg2://{server}/airflow",
        "corpus_guard_ledger_url": f"postgresql+psycopg2://{server}/ledger",
        "airflow_jwt_secret": secrets.token_urlsafe(64),  # HS512 wants 64 bytes
        "airflow_secret_key": secrets.token_urlsafe(32),
        "airflow_fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "airflow_passwords.json": json.dumps(passwords),
        # Connections of DAGs and sources; the pipeline's own login writes the note with the counts on each run.
        "airflow_connections.json": json.dumps(
            {"corpus_guard_airflow": f"http://guard:{passwords['guard']}@api-server:8080"}, indent=2
        ),
        "redis.conf": f"requirepass {redis}",
        "celery_broker_url": f"redis://:{redis}@redis:6379/0",
        "celery_result_backend": f"db+postgresql+psycopg2://{server}/airflow",
    }


def main(target: Path = TARGET) -> int:
    """0 when written, 1 when there was a folder."""
    folder = target / "secrets"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        sys.stderr.write(f"{folder}: exists and stays. Remove it with the volumes (docker compose down --volumes).\n")
        return 1
    owner = os.getuid() or IMAGE_USER
    for name, value in content().items():
        _write(folder / name, value, owner)
    (target / ".env").unlink(missing_ok=True)
    _write(target / ".env", f"CORPUS_GUARD_UID={owner}\n", os.getuid())
    sys.stderr.write(f"{folder}: written; the passwords to sign in with are in airflow_passwords.json.\n")
    return 0


def _write(path: Path, value: str, owner: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(value)
    if owner != os.getuid():
        os.chown(path, owner, -1)


if __name__ == "__main__":
    sys.exit(main())
