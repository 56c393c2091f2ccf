"""The viewer's HTTP server: on loopback, for one person, with headers that let no other page look or write."""

from __future__ import annotations

import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, cast
from urllib.parse import parse_qsl, urlsplit

from steadyhand.errors import SetupError, StoreError, UsageError
from steadyhand.viewer.pages import Viewer
from steadyhand.viewer.response import PageResponse, content_security_policy, problem_page
from steadyhand.viewer.session import ENTRANCE, Refusal, Session

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


class ViewerServer(ThreadingHTTPServer):
    """Serves until `shutdown`. `on_bug` is told of what nobody expected; the page says only that it happened."""

    daemon_threads: bool = True
    allow_reuse_address: bool = True

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
        """A browser that goes away in the middle of a page is nothing to tell."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version: str = "HTTP/1.1"
    server_version: str = "steadyhand"
    sys_version: str = ""
    timeout: ClassVar[float | None] = 30.0

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it overrides
        """Nothing is logged: an address may name what a user would not want in a log."""

    def do_GET(self) -> None:
        self._reply(self._answer(writes=False))

    def do_POST(self) -> None:
        self._reply(self._answer(writes=True))

    def _answer(self, *, writes: bool) -> PageResponse:
        server = cast("ViewerServer", self.server)
        headers = cast("dict[str, str]", self.headers)
        length = headers.get("Content-Length", "0") if writes else "0"
        # An unread body would be taken for the next request.
        readable = length.isascii() and length.isdigit() and len(length) < 8 and int(length) <= _LARGEST_FORM
        body = self.rfile.read(int(length)) if readable and int(length) else b""
        self.close_connection = self.close_connection or not readable
        refusal = server.session.foreign(headers, writes=writes)
        if refusal is not None:
            return _refused(refusal)
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query, max_num_fields=50))
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
                form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=50))
                return server.viewer.post(address.path, form)
            return server.viewer.get(address.path, query)
        except (StoreError, UsageError) as error:
            return problem_page(404, str(error))
        except Exception as error:  # noqa: BLE001 - told on the terminal; the viewer goes on
            server.on_bug(error)
            return problem_page(500, f"Unexpected {type(error).__name__}, a bug in Steadyhand; the terminal says more.")

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
            Refusal(status=403, message="This link was used before or is not ours. Start `steadyhand view` again.")
        )
    return PageResponse(status=303, headers={"Location": "/", **({"Set-Cookie": cookie} if cookie else {})})


def _refused(refusal: Refusal) -> PageResponse:
    return PageResponse(status=refusal.status, kind="text/plain; charset=utf-8", body=f"{refusal.message}\n".encode())
