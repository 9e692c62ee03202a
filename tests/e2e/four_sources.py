"""A web server, an S3-compatible server, a Git repository behind HTTP and a PostgreSQL table, each of which tells what it was asked."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import pkgutil
import pydoc
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg2  # type: ignore[import-untyped]
import yaml
from markdown_it import MarkdownIt

from object_store import KEY, SECRET, ObjectStore
from postgres import LocalPostgres

SHORTEST, LONGEST = 400, 6_000  # characters of a page's source; a longer one is cut after a paragraph
PACKAGES = ("asyncio", "email", "http", "json", "logging", "urllib", "xml.dom", "xml.etree", "importlib")
NOT_IMPORTED = {
    "antigravity",
    "this",
    "idlelib",
    "lib2to3",
    "tkinter",
    "turtle",
    "turtledemo",
    "pty",
    "tty",
    "crypt",
    "nis",
    "test",
}


def documentation(count: int) -> dict[str, bytes]:
    """`count` real pages: what the installed distributions say of themselves, then the manual pages of Python's own modules."""
    pages: dict[str, bytes] = {}
    render = MarkdownIt("commonmark").render
    for one in sorted(importlib.metadata.distributions(), key=lambda one: str(one.metadata["Name"])):
        name, text = str(one.metadata["Name"]), str(one.metadata.get_payload() or "")
        if len(pages) == count:
            return pages
        text = text[:LONGEST].rpartition("\n\n")[0] if len(text) > LONGEST else text
        if len(text) >= SHORTEST:
            body = (
                render(text)
                if "markdown" in str(one.metadata["Description-Content-Type"])
                else f"<pre>{escape(text)}</pre>"
            )
            pages[f"/dist/{name.lower()}.html"] = _page(name, body)
    for name in [*sorted(sys.stdlib_module_names - NOT_IMPORTED), *_parts()]:
        if len(pages) == count:
            return pages
        if name.startswith("_"):
            continue
        try:
            with warnings.catch_warnings(action="ignore"):
                text = pydoc.plain(pydoc.render_doc(name))[:LONGEST]
        except (ImportError, pydoc.ErrorDuringImport):
            continue
        pages[f"/library/{name}.html"] = _page(name, f"<pre>{escape(text)}</pre>")
    assert len(pages) == count, f"only {len(pages)} pages of documentation on this machine"
    return pages


def _parts() -> Iterator[str]:
    for name in PACKAGES:
        package = importlib.import_module(name)
        yield from (
            f"{name}.{one.name}" for one in pkgutil.iter_modules(package.__path__) if not one.name.startswith("_")
        )


def _page(title: str, body: str) -> bytes:
    return (
        f"<html><head><title>{escape(title)}</title></head><body><h1>{escape(title)}</h1>{body}</body></html>".encode()
    )


@dataclass
class Servers:
    """What is served, and what was asked of it."""

    pages: dict[str, bytes]
    repository: Path
    port: int = 0
    gets: list[tuple[str, int]] = field(default_factory=list)  # path, status
    fetches: int = 0  # of git objects

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path
        if path.startswith("/git/"):
            self._git(handler)
            return
        body = self.pages.get(path)
        status = 404
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"' if body is not None else ""
        if body is not None:
            status = 304 if handler.headers.get("If-None-Match") == etag else 200
        self.gets.append((path, status))
        handler.send_response(status)
        sent = body if status == 200 and body is not None else b""
        handler.send_header("Content-Length", str(len(sent)))
        if etag:
            handler.send_header("ETag", etag)
        handler.send_header("Content-Type", "text/html; charset=utf-8")
        handler.end_headers()
        handler.wfile.write(sent)

    def _git(self, handler: BaseHTTPRequestHandler) -> None:
        """Git's own server side, as a web server runs it (git-http-backend)."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.fetches += b"command=fetch" in body
        path, _, query = handler.path.partition("?")
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.repository.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": handler.command,
            "PATH_INFO": path.removeprefix("/git"),
            "QUERY_STRING": query,
            "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        said = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        handler.send_response(int(said.pop("Status", "200").split()[0]))
        for name, value in {**said, "Content-Length": str(len(content))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)


@contextmanager
def serving(servers: Servers) -> Iterator[Servers]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            servers.serve(self)

        def do_POST(self) -> None:
            servers.serve(self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    servers.port = server.server_address[1]
    base = f"http://127.0.0.1:{servers.port}"
    locs = "".join(f"<url><loc>{base}{path}</loc></url>" for path in servers.pages)
    servers.pages["/sitemap.xml"] = f"<urlset>{locs}</urlset>".encode()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield servers
    finally:
        server.shutdown()
        server.server_close()


TEXTS = {
    name: (
        f"# {name.title()}\n\nThe {name} of the harbour is looked after by the night watch. What was found goes into the book "
        f"before {hour} in the morning, with the name of whoever looked and the state in which the {name} was left."
    )
    for name, hour in (("crane", 5), ("slipway", 6), ("beacon", 7))
}


def make_repository(folder: Path) -> Path:
    """A bare repository `runbooks.git` with a commit on main."""
    work = folder / "work"
    (work / "docs").mkdir(parents=True)
    for name, text in TEXTS.items():
        (work / "docs" / f"{name}.md").write_text(text.replace("harbour", "northern harbour"))
    env = {"PATH": os.environ["PATH"], "HOME": os.devnull}
    env |= {f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=work, env=env, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(folder / "runbooks.git")], env=env, check=True)
    return folder / "runbooks.git"


def fill_bucket(store: ObjectStore) -> None:
    """The bucket `guides`."""
    store.bucket("guides", versions=True)
    for name, text in TEXTS.items():
        store.put(f"guides/docs/{name}.md", text.replace("harbour", "southern harbour").encode())


def fill_table(server: LocalPostgres) -> None:
    """The database `kb` with the table `articles`; every statement is logged."""
    server.create_database("kb")
    with psycopg2.connect(server.url("kb").replace("+psycopg2", "")) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT, updated TIMESTAMPTZ DEFAULT now())")
        for number, text in enumerate(TEXTS.values()):
            cursor.execute("INSERT INTO articles VALUES (%s, %s)", (number, text.replace("harbour", "eastern harbour")))
        cursor.execute("ALTER DATABASE kb SET log_statement = 'all'")
    connection.close()


def declare(file: Path, servers: Servers) -> None:
    """sources.yaml for all four."""
    base, common = f"http://127.0.0.1:{servers.port}", {"owner": "harbour@example.org", "trust": "reviewed"}
    web = {"sitemap": f"{base}/sitemap.xml", "allow_private": ["127.0.0.1"], "ports": [servers.port], "delay": 0}
    git = {"url": f"{base}/git/runbooks.git", "ref": "main", "folder": "docs", "insecure_http": True}
    sql = {"connection": "my_pg", "table": "articles", "fields": {"id": "id", "text": "body"}, "watermark": "updated"}
    sources = [
        {"kind": "web", "name": "manual", **web, **common},
        {"kind": "objects", "name": "guides", "url": "s3://guides/docs", "connection": "my_s3", **common},
        {"kind": "git", "name": "runbooks", **git, **common},
        {"kind": "sql", "name": "articles", **sql, **common},
    ]
    file.write_text(yaml.safe_dump({"sources": sources}))


def connections(store: ObjectStore, server: LocalPostgres, password: str) -> dict[str, str]:
    """What Airflow knows of the two that need a login."""
    aws = {"conn_type": "aws", "login": KEY, "password": SECRET, "extra": {"endpoint_url": store.endpoint}}
    pg = {
        "conn_type": "postgres",
        "host": "127.0.0.1",
        "port": server.port,
        "login": "postgres",
        "password": password,
        "schema": "kb",
    }
    return {"AIRFLOW_CONN_MY_S3": json.dumps(aws), "AIRFLOW_CONN_MY_PG": json.dumps(pg)}
