"""Servers for commands that run in another process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from steadyhand.testing import ModelServer


class Loopback:
    """A model server in its own thread, for a command in another process."""

    def __init__(self, behaviour) -> None:
        self._behaviour = behaviour
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._stop: asyncio.Event | None = None
        self.url = ""
        self._server: ModelServer | None = None

    @property
    def received(self) -> int:
        """How many requests have come in so far."""
        return self._server.received

    def seeds_after(self, number: int) -> list[int]:
        """The seeds of the requests that came in after that one and were answered."""
        return [served.body["seed"] for served in list(self._server.log) if served.number > number]

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of every request so far, with names in lower case."""
        return [{name.lower(): value for name, value in dict(served.headers).items()} for served in self._server.log]

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        async with ModelServer(self._behaviour) as server:
            self.url = server.base_url
            self._server = server
            self._ready.set()
            await self._stop.wait()

    def __enter__(self):
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()


def free_port() -> int:
    """A port that nothing listened on a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def traced_service(
    command: Sequence[str], folder: Path, otlp_port: int, *, ready: str = "", **variables: str
) -> Iterator[str]:
    """The address of a Python program that exports its traces; it serves on the port that follows its script's name."""
    script, *arguments = command
    port = free_port()
    collector = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{otlp_port}",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    process = subprocess.Popen(
        [sys.executable, script, str(port), *arguments], cwd=folder, env={**os.environ, **collector, **variables}
    )
    address = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(address + ready).close()
                break
            assert process.poll() is None
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()
