"""An endpoint that speaks OpenAI's chat API and says what a test wants it to say: a real HTTP server on loopback."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[["Asked"], "Reply"]


@dataclass
class Asked:
    """One request."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: dict[str, Any]

    @property
    def last(self) -> str:
        """The last message."""
        return str(self.body["messages"][-1]["content"])


@dataclass
class Reply:
    """One response."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0  # before anything is said
    drips: bool = False  # a byte each 20 ms


def says(text: str | None, reason: str = "stop", **more: Any) -> Reply:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    return Reply(
        body=json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}).encode(), **more
    )


def refuses(status: int, code: str | None = None, param: str | None = None, **headers: str) -> Reply:
    """An error as OpenAI words it."""
    error = {"message": "the endpoint's own words", "type": "invalid_request_error", "code": code, "param": param}
    return Reply(
        status, json.dumps({"error": error}).encode(), {name.replace("_", "-"): each for name, each in headers.items()}
    )


@dataclass
class Endpoint:
    """What was asked of the server, and where it is."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    open: int = 0
    most_open: int = 0


@contextlib.contextmanager
def scripted(script: Script) -> Iterator[Endpoint]:
    """Serve `script` for the time of the block."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            with lock:
                endpoint.asked.append(asked)
                endpoint.open += 1
                endpoint.most_open = max(endpoint.most_open, endpoint.open)
            try:
                reply = script(asked)
                time.sleep(reply.seconds)
            finally:
                with lock:  # before the answer: who has it may ask the next question at once
                    endpoint.open -= 1
            with contextlib.suppress(OSError):  # the other side may hang up
                self._reply(reply)

        def _reply(self, reply: Reply) -> None:
            self.send_response(reply.status)
            headers = {"content-type": "application/json", "content-length": str(len(reply.body)), **reply.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            pieces = [reply.body[at : at + 1] for at in range(len(reply.body))] if reply.drips else [reply.body]
            for piece in pieces:
                self.wfile.write(piece)
                time.sleep(0.02 * reply.drips)

        def log_message(self, *_: Any) -> None:
            """Not to the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint = Endpoint(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
