"""The process of a worker. Started by `batch.local_worker`, never imported for its effects."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import os
import socket
import sys
import traceback
from collections.abc import Callable

import msgspec

from steadyhand.batch.messages import Orders, Report, WorkerSetup
from steadyhand.children.channel import (
    Channel,
    Frames,
    Kind,
    MalformedMessage,
    packed,
    read,
    receive_variables,
    remote_error,
)
from steadyhand.children.process import die_with_parent
from steadyhand.compose.run import Run, quick_loop
from steadyhand.compose.worker import Worker, load_run
from steadyhand.privacy import close_to_others

_YOUNG = 20_000


def main(fd: int) -> None:
    """A process that starts from nothing."""
    die_with_parent()
    close_to_others(keep=os.environ)  # it contains only what an interpreter needs
    connection = socket.socket(fileno=fd)
    os.environ.update(receive_variables(connection))
    _work(connection, load_run)


def main_of_copies(run: Run) -> Callable[[int], None]:
    """For copies of a process that has loaded the run."""
    return lambda fd: _work(socket.socket(fileno=fd), lambda _: run)


def _work(connection: socket.socket, run_of: Callable[[WorkerSetup], Run]) -> None:
    code = 0
    faulthandler.enable(file=2, all_threads=False)
    try:
        number, setup = _first_call(connection)
        try:
            run = run_of(setup)
            factory = quick_loop() if run.needs_network else None
        except BaseException as error:  # noqa: BLE001 - the driver raises it
            connection.sendall(packed(Kind.FAIL, number, "", remote_error(error)))
            return
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_live(connection, number, lambda send: Worker(setup, run, send)))
    except BaseException:  # noqa: BLE001 - our parent tells of it
        traceback.print_exc()
        code = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _first_call(connection: socket.socket) -> tuple[int, WorkerSetup]:
    frames = Frames()
    while data := connection.recv(64 * 1024):
        for frame in frames.feed(data):
            return frame.number, read(frame.payload, WorkerSetup)
    raise EOFError("the connection was closed")


async def _live(
    connection: socket.socket, number: int, worker_of: Callable[[Callable[[Report], None]], Worker]
) -> None:
    gone = asyncio.Event()
    worker: Worker

    async def serve(name: str, payload: msgspec.Raw) -> None:
        if name != "stop":
            raise MalformedMessage(f"unexpected request from the driver: {name}")
        await worker.close()

    def hear(name: str, payload: msgspec.Raw) -> None:
        worker.take(read(payload, Orders))

    channel = Channel(connection, serve=serve, hear=hear, lost=lambda _: gone.set())
    worker = worker_of(lambda report: channel.post("report", report))
    try:
        worker.open()
    except BaseException as error:  # noqa: BLE001 - the driver raises it
        connection.sendall(packed(Kind.FAIL, number, "", remote_error(error)))
        return
    connection.sendall(packed(Kind.DONE, number, "", None))
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    channel.attach()
    await gone.wait()
    await worker.close()
