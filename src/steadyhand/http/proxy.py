"""The proxy set in the environment: which requests go through it, and the tunnel to the server behind it.

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are read as curl reads them. Requests to this machine never go
through a proxy, unless `STEADYHAND_PROXY_LOOPBACK` is set.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from steadyhand.errors import SetupError
from steadyhand.http.name_lookup import connected_socket
from steadyhand.records.base import Record

LOOPBACK_TOO = "STEADYHAND_PROXY_LOOPBACK"
_MAX_HEAD = 16 * 1024


class TunnelRefused(OSError):
    """The proxy did not connect us to the server; the message says why."""


class Proxy(Record):
    """`authorization` is the value of `Proxy-Authorization`, empty if the proxy's URL has no user."""

    host: str
    port: int
    authorization: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    async def tunnel(self, host: str, port: int) -> socket.socket:
        """A socket that the proxy has connected to the server. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        tunnel = await connected_socket(self.host, self.port)
        try:
            server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            lines = [f"CONNECT {server} HTTP/1.1", f"Host: {server}"]
            if self.authorization:
                lines.append(f"Proxy-Authorization: {self.authorization}")
            await loop.sock_sendall(tunnel, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
            await self._opened(tunnel, server)
        except BaseException:
            tunnel.close()
            raise
        return tunnel

    async def _opened(self, tunnel: socket.socket, server: str) -> None:
        """Read the proxy's answer. The server waits for us to speak first, so none of its bytes can follow."""
        loop = asyncio.get_running_loop()
        head = b""
        while b"\r\n\r\n" not in head:
            piece = await loop.sock_recv(tunnel, 4096)
            head += piece
            if not piece or len(head) > _MAX_HEAD:
                raise TunnelRefused(f"the proxy {self} closed the connection when asked for {server}")
        said = head.partition(b"\r\n")[0].decode("latin-1")
        status = said.split(" ")[1:2]
        if status != ["200"]:
            raise TunnelRefused(f"the proxy {self} refused to connect to {server}: {said}")


def proxy_for(url: str, variables: Mapping[str, str]) -> Proxy | None:
    """The proxy to use for a URL; None to connect directly. Raises `SetupError` for a proxy that cannot be used."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    name, given = _variable(parts.scheme, variables)
    if not given or (_is_loopback(host) and not variables.get(LOOPBACK_TOO)) or _exempt(host, parts.port, variables):
        return None
    try:
        proxy = urlsplit(given if "://" in given else f"http://{given}")
        port = proxy.port or 80
    except ValueError as error:
        raise SetupError(f"{name} is not the URL of a proxy: {error}") from error
    if proxy.scheme != "http" or not proxy.hostname:
        raise SetupError(f"{name} names a proxy of type {proxy.scheme!r}; expected http://HOST:PORT")
    user = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}"
    authorization = "" if user == ":" else f"Basic {base64.b64encode(user.encode()).decode()}"
    return Proxy(host=proxy.hostname, port=port, authorization=authorization)


def _variable(scheme: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """The variable and its value. Lower case works too. Under CGI, `HTTP_PROXY` is ignored: a header can set it."""
    names = [f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"]
    if "REQUEST_METHOD" in variables and scheme == "http":
        names.remove("HTTP_PROXY")
    return next(((name, value) for name in names if (value := variables.get(name, "").strip())), ("", ""))


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _exempt(host: str, port: int | None, variables: Mapping[str, str]) -> bool:
    given = variables.get("no_proxy") or variables.get("NO_PROXY") or ""
    return any(_matches(entry.strip().lower(), host.lower(), port) for entry in given.split(",") if entry.strip())


def _matches(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and name.count(":") == 0:
        if port is None or int(number) != port:
            return False
        entry = name
    entry = entry.strip("[]").lstrip("*").lstrip(".")
    return host == entry or host.endswith(f".{entry}")
