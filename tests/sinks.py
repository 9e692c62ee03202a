"""Where messages land in tests: a mail server and a webhook, both on loopback."""

from __future__ import annotations

import contextlib
import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any


@dataclass
class Sink:
    """A port, and what came in."""

    port: int = 0
    messages: list[Any] = field(default_factory=list)
    refuses: bool = False


@contextlib.contextmanager
def mail_sink() -> Iterator[Sink]:
    """Just enough of SMTP (RFC 5321) to take a message."""
    sink = Sink()

    class Talk(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(line.encode() + b"\r\n")

        def handle(self) -> None:
            self.say("220 sink")
            while line := self.rfile.readline().decode("ascii", "replace").strip():
                verb = line[:4].upper()
                if verb == "QUIT":
                    self.say("221 bye")
                    return
                if verb in ("EHLO", "HELO", "MAIL", "RCPT", "RSET", "NOOP"):
                    self.say("554 not today" if sink.refuses and verb == "RCPT" else "250 ok")
                elif verb == "DATA":
                    self.say("354 go on")
                    body = b""
                    while (piece := self.rfile.readline()) not in (b".\r\n", b""):
                        body += piece
                    message: EmailMessage = BytesParser(policy=default).parsebytes(body)  # type: ignore[assignment]
                    sink.messages.append(message)
                    self.say("250 kept")
                else:
                    self.say("502 unknown")

    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk), sink):
        yield sink


@contextlib.contextmanager
def webhook_sink() -> Iterator[Sink]:
    """Takes what is posted to it; the messages are (path, JSON)."""
    sink = Sink()

    class Talk(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.messages.append((self.path, json.loads(body)))
            self.send_response(500 if sink.refuses else 200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            """Quiet."""

    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Talk), sink):
        yield sink


@contextlib.contextmanager
def serving(server: socketserver.TCPServer, sink: Sink) -> Iterator[None]:
    server.daemon_threads = True  # type: ignore[attr-defined]
    sink.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
