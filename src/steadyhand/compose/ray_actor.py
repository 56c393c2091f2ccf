"""A worker as an actor of a Ray cluster. Made by `batch.ray_worker`."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any

import msgspec

from steadyhand.batch.messages import Orders, Report, WorkerSetup
from steadyhand.children.channel import remote_error
from steadyhand.compose.worker import Worker, load_run

_YOUNG = 20_000


class RayTrialActor:
    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._reports: asyncio.Queue[Report | None] = asyncio.Queue()

    async def start(self, data: bytes) -> bytes:
        """An encoded error, or nothing when all is well."""
        ray: Any = import_module("ray")
        try:
            setup = msgspec.msgpack.decode(data, type=WorkerSetup)
            os.chdir(setup.folder)
            context: Any = ray.get_runtime_context()
            self._worker = Worker(setup, load_run(setup), self._reports.put_nowait, node=context.get_node_id()[:12])
            self._worker.open()
        except Exception as error:  # noqa: BLE001 - the driver raises it
            return msgspec.msgpack.encode(remote_error(error))
        gc.freeze()
        gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
        return msgspec.msgpack.encode(None)

    async def orders(self, data: bytes) -> None:
        assert self._worker is not None
        self._worker.take(msgspec.msgpack.decode(data, type=Orders))

    async def reports(self) -> AsyncGenerator[bytes]:
        while (report := await self._reports.get()) is not None:
            yield msgspec.msgpack.encode(report)

    async def stop(self) -> None:
        if self._worker is not None:
            await self._worker.close()
        self._reports.put_nowait(None)
