"""The health check of the image, against real servers."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from environment import PROJECT
from postgres import free_port

REPORT = {"scheduler": {"status": "healthy"}, "triggerer": {"status": "unhealthy"}}
ANSWERS = {"/health": (200, json.dumps(REPORT)), "/plain": (200, "fine"), "/sick": (503, "{}"), "/moved": (302, "")}


class Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, text = ANSWERS[self.path]
        self.send_response(status)
        self.send_header("Location", "/health")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def check(*words: str) -> tuple[int, str]:
    script = PROJECT / "docker" / "image" / "healthcheck"
    ran = subprocess.run([sys.executable, "-IS", str(script), *words], capture_output=True, text=True, check=False)
    return ran.returncode, ran.stderr


def test_an_answer_of_200_is_health(address: str) -> None:
    assert check(f"{address}/plain") == (0, "")
    assert check(f"{address}/health", "scheduler") == (0, "")


@pytest.mark.parametrize(
    ("path", "parts", "said"),
    [
        ("/sick", (), "expected HTTP 200, got 503"),
        ("/moved", (), "expected HTTP 200, got 302"),
        ("/health", ("scheduler", "triggerer"), "got {'triggerer': 'unhealthy'}"),
        ("/health", ("dag_processor",), "got {'dag_processor': None}"),
        ("/plain", ("scheduler",), "expected Airflow's health report"),
    ],
)
def test_everything_else_is_not_and_says_what_it_got(
    address: str, path: str, parts: tuple[str, ...], said: str
) -> None:
    code, error = check(f"{address}{path}", *parts)

    assert code == 1
    assert said in error


def test_nobody_there_and_nobody_answering_are_told_apart() -> None:
    assert "ConnectionRefusedError" in check(f"http://127.0.0.1:{free_port()}/")[1]
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        code, error = check(f"http://127.0.0.1:{silent.getsockname()[1]}/")
    assert code == 1
    assert "TimeoutError" in error or "timed out" in error
