"""Who may ask the viewer: whoever followed a link that was printed on the terminal, and no other page in the browser.

A link works once. It is exchanged for a cookie, so that what a history or a screenshot keeps of it opens nothing.
"""

from __future__ import annotations

import hmac
import http.cookies
import secrets
import threading
from collections.abc import Mapping

from steadyhand.records.base import Record

ENTRANCE = "/enter"
_SAME = frozenset({"same-origin", "none"})


class Refusal(Record):
    """Why a request is not answered. It says nothing about what there is."""

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
        """The cookie to set in exchange for the token; None if it is none of ours or was used."""
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
        """A request that comes from elsewhere: through another name for this machine, or from another page.

        A browser says where a request comes from, and no page can change that. `Sec-Fetch-Site` tells pages of other
        ports apart too, which share the cookies of the host.
        """
        host = headers.get("Host", "")
        if host not in self._hosts:
            return Refusal(status=421, message="The viewer answers to 127.0.0.1 and localhost only.")
        if headers.get("Sec-Fetch-Site", "none") not in _SAME:
            return Refusal(
                status=403, message="Another page asked for this. Copy the address and open it in a tab of its own."
            )
        if writes and headers.get("Origin") != f"http://{host}":
            return Refusal(status=403, message="Labels are taken from the viewer's own pages only.")
        return None
