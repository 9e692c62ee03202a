"""A real HTTP server on loopback that behaves as badly as a test asks; every request is remembered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PAGE = (
    "<html><head><title>{title}</title></head><body><h1>{title}</h1><p>"
    + "The gauge of the pier is read every morning and the value goes into the book of the harbour office. " * 4
    + "</p></body></html>"
)


def page(title: str) -> bytes:
    return PAGE.replace("{title}", title).encode()


@dataclass
class Site:
    """What the server says, by path; a handler writes the answer, a text is a page."""

    routes: dict[str, bytes | Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)  # host, path, headers
    port: int = 0

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked if path != "/robots.txt"]

    def url(self, path: str, host: str = "docs.example") -> str:
        return f"http://{host}:{self.port}{path}"


def answer(
    status: int = 200, body: bytes = b"", cut: int | None = None, **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    """A handler: a status, headers (underscores are dashes) and a body, `cut` bytes shorter than it says."""

    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        if not any(name.lower() == "content-length" for name in said):
            said["Content-Length"] = str(len(body))
        for name, value in said.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body[: len(body) - (cut or 0)])
        if cut is not None:
            handler.close_connection = True

    return write


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.asked.append((self.headers.get("Host", ""), self.path, dict(self.headers)))
            said = site.routes.get(self.path)
            etag = site.etags.get(self.path)
            if callable(said):
                said(self)
            elif said is None:
                answer(404, b"nothing here")(self)
            elif etag and self.headers.get("If-None-Match") == etag:
                answer(304, ETag=etag)(self)
            else:
                answer(200, said, Content_Type="text/html; charset=utf-8", **({"ETag": etag} if etag else {}))(self)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # clients that hang up are what is tested

    server = Server(("127.0.0.1", 0), Handler)
    site.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
