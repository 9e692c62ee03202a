"""Write ``docker/.env``: the secrets of the containers, made once, for their owner only.

    python docker/make_env.py

compose reads the file by itself. It is never overwritten: PostgreSQL keeps the password it was made with. Needs nothing
but Python.
"""

from __future__ import annotations

import base64
import os
import secrets
import sys
from pathlib import Path

TARGET = Path(__file__).with_name(".env")


def content() -> dict[str, str]:
    """Fresh secrets; every one is safe in a URL and in JSON."""
    return {
        "POSTGRES_PASSWORD": secrets.token_urlsafe(24),
        "AIRFLOW_JWT_SECRET": secrets.token_urlsafe(64),  # HS512 wants 64 bytes
        "AIRFLOW_SECRET_KEY": secrets.token_urlsafe(32),
        "AIRFLOW_FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "AIRFLOW_ADMIN_PASSWORD": secrets.token_urlsafe(12),
        "AIRFLOW_REVIEWER_PASSWORD": secrets.token_urlsafe(12),
        "AIRFLOW_VIEWER_PASSWORD": secrets.token_urlsafe(12),
        "AIRFLOW_GUARD_PASSWORD": secrets.token_urlsafe(12),
    }


def main(target: Path = TARGET) -> int:
    """0 when written, 1 when it was there."""
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        sys.stderr.write(f"{target}: exists and stays. Remove it with the volumes (docker compose down --volumes).\n")
        return 1
    with os.fdopen(descriptor, "w") as file:
        file.writelines(f"{key}={value}\n" for key, value in content().items())
    sys.stderr.write(f"{target}: written; the passwords to sign in with are in it.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
