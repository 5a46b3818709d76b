"""``skelbench report --serve``: a page that follows runs, for browsers on this machine alone."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from skelbench.core.errors import SkelbenchError
from skelbench.core.text import plain
from skelbench.plugin.host import Host, get_host
from skelbench.records.store import ResultStore
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.page.build import build, render
from skelbench.reporting.page.live import Watcher
from skelbench.reporting.page.text import data

LOOPBACK = "127.0.0.1"
PORT = 8765
PAGE, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Site:
    """What the server answers with: three routes, no files."""

    def __init__(self, store: ResultStore, host: Host) -> None:
        self.watcher = Watcher(store)
        self._store, self._host = store, host
        self._lock = Lock()
        self._built: tuple[str, str] = ("", "")
        """What the results looked like, and the report of that."""

    def answer(self, route: str, asked: dict[str, list[str]]) -> tuple[str, str] | None:
        """Type and text of ``route``; None where there is nothing."""
        if route == "/":
            page = partial(render, "live.html.j2", scripts=("live",), payload={}, title="skelbench live")
            return PAGE, page(root=plain(self._store.root))
        if route == "/state.json":
            since = asked.get("since", ["0"])[-1]
            state = self.watcher.state(asked.get("boot", [""])[-1], int(since) if since.isdecimal() else 0)
            return JSON, data(state)
        if route == "/report":
            return PAGE, self._report()
        return None

    def _report(self) -> str:
        """The report of what is done, without skeletons, which take their time; made again when there is something new
        to say since."""
        mark = self.watcher.results()
        with self._lock:
            if self._built[0] != mark:
                self._built = mark, build(TableInputs(self._host, self._store))
            return self._built[1]


class Server(ThreadingHTTPServer):
    """Listens on the loopback address alone."""

    daemon_threads = True

    def __init__(self, site: Site, port: int) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.site = site
        self.hosts = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        """A browser that went away in the middle of an answer is nobody's concern."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "skelbench", ""
    timeout = 20
    """Seconds that a connection may say nothing."""

    def do_GET(self) -> None:
        # Another site's name may be made to lead here (DNS rebinding): its pages would read what is answered.
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            return self._send(HTTPStatus.FORBIDDEN, TEXT, "this server answers to its own address alone\n")
        asked = urlsplit(self.path)
        try:
            found = self.server.site.answer(asked.path, parse_qs(asked.query))
        except SkelbenchError as error:
            return self._send(HTTPStatus.CONFLICT, TEXT, f"{plain(error)}\n")
        if found is None:
            return self._send(HTTPStatus.NOT_FOUND, TEXT, "there is / and /report\n")
        return self._send(HTTPStatus.OK, *found)

    do_HEAD = do_GET

    def _refuse(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, TEXT, "nothing can be changed here\n", {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def _send(self, status: HTTPStatus, kind: str, text: str, more: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **_HEADERS, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Polls are no news."""


def open_server(store: ResultStore, port: int | None = None, host: Host | None = None) -> Server:
    """A server that does not serve yet; ``port``: None = :data:`PORT`, or any free one if that is taken; 0 = any.

    Raises:
        SkelbenchError: the port that was asked for cannot be listened on.
    """
    site = Site(store, host or get_host())
    try:
        return Server(site, PORT if port is None else port)
    except OSError as error:
        if port is None and error.errno == errno.EADDRINUSE:
            return Server(site, 0)
        why = error.strerror or str(error)
        raise SkelbenchError(f"--port {port}: {why}; give another, or --port 0 for any free one") from error


def serve(store: ResultStore, port: int | None, started: Callable[[str], Any]) -> None:
    """Serve until Ctrl-C; ``started(address)`` is called once it listens."""
    with open_server(store, port) as server:
        started(server.address)
        try:
            server.serve_forever(poll_interval=0.3)
        except KeyboardInterrupt:
            return
