"""A real S3-compatible server in a process of its own: moto's, which keeps ETags, versions and conditions as S3 does.

It needs botocore, which keeps python-dateutil below 3, so it lives in an environment of its own: `make moto` makes it in var/moto;
MOTO_SERVER names another ``moto_server``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from corpus_guard.intake.sources import Connection
from environment import PROJECT
from postgres import free_port

SECONDS = 60  # of patience: the first request makes the server load its parts
KEY, SECRET = "guard", "secret-of-the-bucket"
_SIGNED = {
    "Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"
}


def moto_server() -> str:
    """The program; skips the test where there is none."""
    for place in (
        os.environ.get("MOTO_SERVER"),
        PROJECT / "var" / "moto" / "bin" / "moto_server",
        shutil.which("moto_server"),
    ):
        if place and Path(place).is_file():
            return str(place)
    pytest.skip("no S3-compatible server here: run `make moto` once, or set MOTO_SERVER")


@dataclass
class ObjectStore:
    """The server, by its address and what it logged."""

    endpoint: str
    log: Path

    @property
    def variables(self) -> dict[str, str]:
        """What the environment of a process says, so that s3:// means this server."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def connection(self) -> Connection:
        return Connection("my_s3", "aws", login=KEY, password=SECRET, extra={"endpoint_url": self.endpoint})

    def asked(self) -> list[str]:
        """Every request so far: method and target."""
        return [found[1] for found in re.finditer(r'"(?:\x1b\[[0-9;]*m)*([A-Z]+ /\S*) HTTP', self.log.read_text())]

    def put(self, path: str, content: bytes) -> None:
        httpx.put(f"{self.endpoint}/{path}", content=content, headers=_SIGNED, timeout=SECONDS).raise_for_status()

    def delete(self, path: str) -> None:
        httpx.delete(f"{self.endpoint}/{path}", headers=_SIGNED, timeout=SECONDS).raise_for_status()

    def bucket(self, name: str, *, versions: bool = False) -> None:
        self.put(name, b"")
        if versions:
            self._set_versions(name, "Enabled")

    def suspend_versions(self, bucket: str) -> None:
        self._set_versions(bucket, "Suspended")

    def _set_versions(self, bucket: str, status: str) -> None:
        said = f"<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>"
        httpx.put(
            f"{self.endpoint}/{bucket}?versioning", content=said, headers=_SIGNED, timeout=SECONDS
        ).raise_for_status()


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Started and, whatever happens, stopped."""
    program, port, log = moto_server(), free_port(), folder / "moto.log"
    env: dict[str, Any] = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with log.open("wb") as out:
        process = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stdout=out, stderr=out, env=env)
    store = ObjectStore(f"http://127.0.0.1:{port}", log)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"{store.endpoint}/moto-api/", timeout=2)
                break
            except httpx.HTTPError:
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
        yield store
    finally:
        process.terminate()
        process.wait(10)
