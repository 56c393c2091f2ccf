"""The viewer's HTTP server: on loopback, for one person, with headers that keep other pages from reading or writing.

It responds only to a browser that opened the link printed on the terminal. A link works once: it is exchanged for a
cookie, so that a link in the history or in a screenshot is useless.
"""

from __future__ import annotations

import hmac
import http.cookies
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, cast
from urllib.parse import parse_qsl, urlsplit

from steadyhand.errors import SetupError, StoreError, UsageError
from steadyhand.records.base import Record
from steadyhand.viewer.pages import Viewer
from steadyhand.viewer.response import PageResponse, content_security_policy, problem_page

HOST = "127.0.0.1"
_LARGEST_FORM = 64 * 1024
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
ENTRANCE = "/enter"
_SAME = frozenset({"same-origin", "none"})


class ViewerServer(ThreadingHTTPServer):
    """Serves until `shutdown`. `on_bug` is called with unexpected exceptions; the page only says that one occurred."""

    daemon_threads: bool = True
    allow_reuse_address: bool = True
    request_queue_size: int = 128
    """With the default of 5, further browsers are left to try again after seconds."""

    def __init__(self, viewer: Viewer, *, port: int = 0, on_bug: Callable[[BaseException], None]) -> None:
        """Raises `SetupError` when the port is taken."""
        self.viewer: Viewer = viewer
        self.on_bug: Callable[[BaseException], None] = on_bug
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise SetupError(f"cannot listen on port {port}: {why}; give another one with --port") from error
        self.session: Session = Session(self.server_port)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that disconnects in the middle of a page is not reported."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version: str = "HTTP/1.1"
    server_version: str = "steadyhand"
    sys_version: str = ""
    timeout: ClassVar[float | None] = 30.0

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it overrides
        """Nothing is logged, because addresses may contain sensitive names."""

    def do_GET(self) -> None:
        self._reply(self._answer(writes=False))

    def do_POST(self) -> None:
        self._reply(self._answer(writes=True))

    def _answer(self, *, writes: bool) -> PageResponse:
        server = cast("ViewerServer", self.server)
        headers = cast("dict[str, str]", self.headers)
        length = headers.get("Content-Length", "0") if writes else "0"
        # An unread body would be parsed as the next request.
        readable = length.isascii() and length.isdigit() and len(length) < 8 and int(length) <= _LARGEST_FORM
        body = self.rfile.read(int(length)) if readable and int(length) else b""
        self.close_connection = self.close_connection or not readable
        refusal = server.session.foreign(headers, writes=writes)
        if refusal is not None:
            return _refused(refusal)
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query))
        if address.path == ENTRANCE and not writes:
            return _entered(server.session, query.get("token", ""), known=server.session.knows(headers))
        if not server.session.knows(headers):
            return _refused(
                Refusal(status=403, message="Open the link that `steadyhand view` printed. A link works once.")
            )
        try:
            if writes:
                kind = headers.get("Content-Type", "").partition(";")[0]
                if kind != "application/x-www-form-urlencoded" or not readable:
                    return _refused(Refusal(status=415, message="A label is sent as a form of at most 64 KiB."))
                form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
                return server.viewer.post(address.path, form)
            return server.viewer.get(address.path, query)
        except (StoreError, UsageError) as error:
            return problem_page(404, str(error))
        except Exception as error:  # noqa: BLE001 - told on the terminal; the viewer goes on
            server.on_bug(error)
            return problem_page(
                500, f"Unexpected {type(error).__name__}, a bug in Steadyhand; see the terminal for details."
            )

    def _reply(self, response: PageResponse) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.kind)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Content-Security-Policy", content_security_policy())
        for name, value in {**_HEADERS, **response.headers}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(response.body)


def _entered(session: Session, token: str, *, known: bool) -> PageResponse:
    """The redirect takes the token out of the address bar and out of the history of the tab."""
    cookie = session.enter(token)
    if cookie is None and not known:
        return _refused(
            Refusal(
                status=403, message="This link has already been used or is not valid. Start `steadyhand view` again."
            )
        )
    return PageResponse(status=303, headers={"Location": "/", **({"Set-Cookie": cookie} if cookie else {})})


def _refused(refusal: Refusal) -> PageResponse:
    return PageResponse(status=refusal.status, kind="text/plain; charset=utf-8", body=f"{refusal.message}\n".encode())


class Refusal(Record):
    """Why a request is refused. It reveals nothing about existing runs."""

    status: int
    message: str


class Session:
    """The links and the cookie of one viewer, known to this process only."""

    def __init__(self, port: int) -> None:
        self._port: int = port
        self._hosts: frozenset[str] = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self._links: set[str] = set()
        self._lock: threading.Lock = threading.Lock()
        self._key: str = secrets.token_urlsafe(32)
        self._cookie: str = f"steadyhand-{port}"

    def link(self) -> str:
        """A new link that works once."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._links.add(token)
        return f"http://127.0.0.1:{self._port}{ENTRANCE}?token={token}"

    def enter(self, token: str) -> str | None:
        """The cookie to set in exchange for the token; None if the token is invalid or was used."""
        with self._lock:
            found = next((each for each in self._links if hmac.compare_digest(each.encode(), token.encode())), None)
            if found is None:
                return None
            self._links.discard(found)
        return f"{self._cookie}={self._key}; HttpOnly; SameSite=Strict; Path=/"

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the request carries our cookie."""
        try:
            found = http.cookies.SimpleCookie(headers.get("Cookie", "")).get(self._cookie)
        except http.cookies.CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self._key.encode())

    def foreign(self, headers: Mapping[str, str], *, writes: bool) -> Refusal | None:
        """Why a request from elsewhere is refused: through another host name for this machine, or from another page.

        The browser sets these headers, and pages cannot change them. `Sec-Fetch-Site` also identifies pages on other
        ports, which share the cookies of the host.
        """
        host = headers.get("Host", "")
        if host not in self._hosts:
            return Refusal(status=421, message="The viewer answers to 127.0.0.1 and localhost only.")
        if headers.get("Sec-Fetch-Site", "none") not in _SAME:
            return Refusal(
                status=403, message="This request came from another page. Copy the address and open it in a new tab."
            )
        if writes and headers.get("Origin") != f"http://{host}":
            return Refusal(status=403, message="Labels are accepted from the viewer's own pages only.")
        return None
