"""Finds the addresses of a host. A name server that never answers holds up neither other lookups nor our own end.

The resolver of the system cannot be cancelled. asyncio and uvloop run it on a few threads, and wait for them when the
loop is closed: for a minute, with the usual settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any


async def look_up(host: Any, port: Any, **options: int) -> list[Any]:
    """As `loop.getaddrinfo`."""
    with contextlib.suppress(socket.gaierror):  # an address needs no name server
        numeric = {**options, "flags": options.get("flags", 0) | socket.AI_NUMERICHOST}
        return socket.getaddrinfo(host, port, **numeric)
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[Any]] = loop.create_future()

    def settle(addresses: list[Any], error: Exception | None) -> None:
        if not found.done():
            found.set_result(addresses) if error is None else found.set_exception(error)

    def ask() -> None:
        addresses: list[Any] = []
        failure: Exception | None = None
        try:
            addresses = socket.getaddrinfo(host, port, **options)
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, addresses, failure)

    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    return await found


def _as_it_is(made: socket.socket) -> None: ...


async def connected_socket(host: str, port: int, prepare: Callable[[socket.socket], None] = _as_it_is) -> socket.socket:
    """A socket to the first of the host's addresses that accepts, prepared before it connects. Raises the last
    `OSError` if none does."""
    loop = asyncio.get_running_loop()
    failure = OSError(f"{host} has no address")
    for family, kind, number, _, address in await look_up(host, port, type=socket.SOCK_STREAM):
        made = socket.socket(family, kind, number)
        try:
            made.setblocking(False)
            prepare(made)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(made, address)
        except OSError as error:
            failure = error
            made.close()
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failure
