"""Workers that are local processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from steadyhand.batch.messages import Orders, Report, WorkerSetup
from steadyhand.batch.worker_pool import Link
from steadyhand.children.channel import Channel, MalformedMessage, read
from steadyhand.children.nursery import Nursery
from steadyhand.children.process import ChildProcess, SupervisedProcess
from steadyhand.errors import SetupError

_START_S = 120.0


class LocalWorkers:
    """Implements `Launch`. `main` is the `module:function` that a worker runs, `setup` its first message. With a
    `nursery`, workers are its copies."""

    def __init__(self, main: str, setup: WorkerSetup, nursery: Nursery | None = None) -> None:
        self._main = main
        self._nursery = nursery
        self._setup = setup
        self._family: str = f"workers-{secrets.token_hex(8)}"
        self._started: int = 0

    async def __call__(
        self, number: int, places: int, hear: Callable[[Report], None], lost: Callable[[str], None]
    ) -> Link:
        name = f"worker {number}"
        self._started += 1
        try:
            process = self._process(f"{self._family}.{self._started}")
        except OSError as error:
            raise SetupError(f"--workers: cannot start a process: {error}") from error
        worker = _LocalWorker(name, process, hear, lost)
        setup = msgspec.structs.replace(self._setup, name=name, places=places)
        try:
            async with asyncio.timeout(_START_S):
                await worker.channel.call("start", setup)
        except (ConnectionError, TimeoutError) as error:
            ended = await process.ended()
            reason = f"{name} did not start{f': its process ended{ended}' if ended else ''}{process.last_words()}"
            await worker.close(0.0)
            raise SetupError(reason) from error
        except BaseException:
            await worker.close(0.0)
            raise
        return worker

    def _process(self, mark: str) -> SupervisedProcess:
        """Raises `OSError`."""
        if self._nursery is not None:
            try:
                return self._nursery.start(mark)
            except OSError:
                self._nursery = None  # it was killed; a worker can also start from nothing
        return ChildProcess(self._main, os.environ, mark=mark)


class _LocalWorker:
    def __init__(
        self, name: str, process: SupervisedProcess, hear: Callable[[Report], None], lost: Callable[[str], None]
    ) -> None:
        self.name: str = name
        self._process = process
        self._hear = hear
        self._lost = lost
        self._closing: bool = False
        self._endings: set[asyncio.Task[None]] = set()
        self.channel: Channel = Channel(process.connection, serve=_serves_nothing, hear=self._heard, lost=self._gone)
        self.channel.attach()
        process.output.attach()

    def send(self, orders: Orders) -> None:
        self.channel.post("orders", orders)

    async def close(self, within_s: float) -> None:
        self._closing = True
        if within_s > 0 and self.channel.gone is None:
            with contextlib.suppress(ConnectionError, TimeoutError, Exception):
                async with asyncio.timeout(within_s):
                    await self.channel.call("stop", None)
        self.channel.close("the run is over")
        await asyncio.to_thread(self._process.bury)

    def _heard(self, name: str, payload: msgspec.Raw) -> None:
        self._hear(read(payload, Report))

    def _gone(self, reason: str) -> None:
        if not self._closing:
            task = asyncio.get_running_loop().create_task(self._tell(reason))
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)

    async def _tell(self, reason: str) -> None:
        ended = await self._process.ended()
        words = f"its process ended{ended}" if ended else f"it closed the connection{f' ({reason})' if reason else ''}"
        words += self._process.last_words()
        self._process.kill()
        await asyncio.to_thread(self._process.bury)
        self._lost(words)


async def _serves_nothing(name: str, payload: msgspec.Raw) -> Any:
    raise MalformedMessage(f"unexpected request from a worker: {name}")
