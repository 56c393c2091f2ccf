"""Workers that are actors of a Ray cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from steadyhand.batch.messages import Orders, Report, WorkerSetup
from steadyhand.batch.worker_pool import Link, StartFailed
from steadyhand.children.channel import RemoteError, raised
from steadyhand.errors import SetupError, SteadyhandError

_CONNECT_S = 10.0
_HEAD_LOOK_S = 5.0
_HEAD_MISSES = 5
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS = 4
_NO_SETTINGS = bytes((0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0))
T = TypeVar("T")
_LEFT_OUT = (".git", ".venv", "venv", "node_modules", "__pycache__", ".steadyhand", ".env", "*.env")
_INSTALL = "install it with `pip install 'steadyhand[ray]'`"


class RayWorkers:
    """Implements `Launch`. `actor` is the `module:class` of a worker; `folder` is copied to the nodes.

    Without an address, Ray is started on this machine, and stopped by `close`. Only `variables` are sent to the nodes
    from the environment.
    """

    def __init__(
        self,
        actor: str,
        setup: WorkerSetup,
        *,
        folder: Path,
        left_out: tuple[str, ...] = (),
        address: str | None = None,
        variables: Mapping[str, str] | None = None,
        cpus: int = 1,
    ) -> None:
        self._actor = actor
        self._setup = setup
        self._folder = folder
        self._left_out = left_out
        self._address = address
        self._variables = dict(variables or {})
        self._cpus = cpus
        self._ray: Any = None
        self._thread: _RayThread = _RayThread()
        self._watching: asyncio.Task[None] | None = None
        self._workers: list[_RayWorker] = []
        self._head_lost: str | None = None

    async def open(self) -> int:
        """Connect, and return the number of processors in the cluster. Raises `SetupError`."""
        if self._address is not None:
            await self._thread.call(partial(_check_address, self._address))
        processors = await self._thread.call(self._connect)
        if threading.current_thread() is threading.main_thread():
            # Ray's own handler, which prints a stack trace, has replaced ours.
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        self._watching = asyncio.get_running_loop().create_task(
            self._watch(self._ray.get_runtime_context().gcs_address)
        )
        return processors

    async def _watch(self, address: str) -> None:
        """Ends all workers when the head of the cluster is gone: Ray would end this process a little later."""
        host, _, port = address.rpartition(":")
        misses = 0
        while misses < _HEAD_MISSES:
            await asyncio.sleep(_HEAD_LOOK_S)
            try:
                async with asyncio.timeout(_HEAD_LOOK_S):
                    _, writer = await asyncio.open_connection(host, int(port))
                writer.close()
                misses = 0
            except OSError:
                misses += 1
        self._head_lost = f"the head of the Ray cluster at {address} no longer answers"
        for worker in self._workers:
            worker.end(self._head_lost)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        if self._ray is not None and self._head_lost is None:  # without its head, Ray would wait for it
            await self._thread.call(self._ray.shutdown)

    def _connect(self) -> int:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray: Any = import_module("ray")
        except ImportError as error:
            raise SetupError(f"--engine ray: Ray is not installed; {_INSTALL}") from error
        environment: dict[str, Any] = {
            "working_dir": str(self._folder),
            "excludes": [*_LEFT_OUT, *self._left_out],
            "env_vars": self._variables,
        }
        given: dict[str, Any] = {"address": self._address} if self._address is not None else {
            "address": "local", "num_cpus": self._cpus, "include_dashboard": False, "_node_ip_address": "127.0.0.1",
        }  # fmt: skip
        try:
            ray.init(runtime_env=environment, log_to_driver=False, logging_level="ERROR", **given)
        except Exception as error:
            where = f"the cluster at {self._address}" if self._address is not None else "Ray on this machine"
            raise SetupError(f"--engine ray: {where} cannot be used: {_first_line(error)}") from error
        self._ray = ray
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    async def __call__(
        self, number: int, places: int, hear: Callable[[Report], None], lost: Callable[[str], None]
    ) -> Link:
        if self._head_lost is not None:
            raise SetupError(self._head_lost)
        name = f"worker {number}"
        module, _, kind = self._actor.partition(":")
        actor: Any = self._ray.remote(getattr(import_module(module), kind))
        handle: Any = actor.options(num_cpus=1, max_restarts=0, max_concurrency=1000).remote()
        setup = msgspec.structs.replace(self._setup, name=name, places=places)
        try:
            answer: bytes = await handle.start.remote(msgspec.msgpack.encode(setup))
        except Exception as error:
            raise StartFailed(f"{name} did not start: {_first_line(error)}") from error
        fault = msgspec.msgpack.decode(answer, type=RemoteError | None)
        if fault is not None:
            error = raised(fault)
            with contextlib.suppress(Exception):
                self._ray.kill(handle)
            if isinstance(error, SteadyhandError):
                raise error
            raise StartFailed(f"{name} did not start: {fault.type}: {fault.message}")
        worker = _RayWorker(name, handle, self._ray, hear, lost)
        self._workers.append(worker)
        return worker


class _RayWorker:
    def __init__(
        self, name: str, handle: Any, ray: Any, hear: Callable[[Report], None], lost: Callable[[str], None]
    ) -> None:
        self.name: str = name
        self._handle = handle
        self._ray = ray
        self._hear = hear
        self._lost = lost
        self._decode = msgspec.msgpack.Decoder(Report).decode
        self._listening: asyncio.Task[None] = asyncio.get_running_loop().create_task(self._listen())

    def send(self, orders: Orders) -> None:
        with contextlib.suppress(Exception):  # it is gone, which the listener reports
            self._handle.orders.remote(msgspec.msgpack.encode(orders))

    def end(self, reason: str) -> None:
        if not self._listening.done():
            self._listening.cancel()
            self._lost(reason)

    async def close(self, within_s: float) -> None:
        self._listening.cancel()
        if within_s > 0:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(within_s):
                    await self._handle.stop.remote()
        with contextlib.suppress(Exception):
            self._ray.kill(self._handle)

    async def _listen(self) -> None:
        try:
            async for reference in self._handle.reports.options(num_returns="streaming").remote():
                self._hear(self._decode(await reference))
            reason = "it ended"
        except Exception as error:  # noqa: BLE001 - whatever Ray says of an actor or a node that is gone
            reason = _first_line(error)
        self._lost(reason)


class _RayThread:
    """The thread that talks to Ray while it connects and disconnects: in the main one, Ray would take over the signals.

    Nobody waits for it at the end, since connecting may take forever and cannot be cancelled. It lives as long as the
    process: what Ray starts on this machine is killed by the kernel when the thread that started it ends.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    async def call(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(set_outcome: Callable[[], None]) -> None:
            if not done.done():
                set_outcome()

        def run() -> None:
            try:
                found = work()
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                outcome = partial(done.set_exception, error)
            else:
                outcome = partial(done.set_result, found)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, outcome)

        self._work.put(run)
        return await done

    def _run(self) -> None:
        while True:
            self._work.get()()


def _check_address(address: str) -> None:
    """Raises `SetupError` if no gRPC server answers; Ray itself would take minutes to notice, or hang."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        if address == "auto":
            return
        raise SetupError(f"--ray-address {address}: expected host:port, such as 10.0.0.5:6379, ray://host:port or auto")
    instead = "start the head node with `ray start --head`, or leave the address out to use this machine"
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_S) as connection:
            greeted = os.environ.get("RAY_USE_TLS", "0") != "0" or _speaks_http2(connection)
    except OSError as error:
        raise SetupError(f"--ray-address {address}: nothing answers there ({error}); {instead}") from error
    if not greeted:
        raise SetupError(f"--ray-address {address}: the server there is not Ray; {instead}")


def _speaks_http2(connection: socket.socket) -> bool:
    """Whether it answers the preface of HTTP/2 with its settings, as every gRPC server does. Raises `OSError`."""
    connection.sendall(_PREFACE + _NO_SETTINGS)
    answer = b""
    while len(answer) < len(_NO_SETTINGS):
        data = connection.recv(64)
        if not data:
            return False
        answer += data
    return answer[3] == _SETTINGS


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
