"""Arrivals stamped by the kernel: right however busy the event loop is, and not used if the clock was set."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.engine.limits import LagMonitor, SystemClock
from steadyhand.engine.model_call import Caller, OpenGate, RetryPolicy
from steadyhand.http.stamped_socket import KERNEL_STAMPS, StampedSocket, clock_offset, stamp_arrivals
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ArrivalClock, ChatRequest, Message
from steadyhand.records.event import Lagged, ModelCalled
from steadyhand.testing import RecordingSink

pytestmark = pytest.mark.skipif(not KERNEL_STAMPS, reason="only Linux stamps arrivals")

REQUEST = ChatRequest(messages=(Message(role="user", content="hi"),))
FIRST = b'data: {"choices": [{"delta": {"content": "Stop"}}]}\n\n'
LAST = b'data: {"choices": [{"delta": {"content": "."}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(FIRST + LAST)
BUSY_S = 0.03
LIMIT_MS = 10.0
CALLS = 12


class Server:
    """Answers on its own threads, and notes when it wrote the first and the last piece of each answer."""

    def __init__(self) -> None:
        self.written: list[tuple[float, float]] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        made, _ = self._listening.accept()
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with made:
            while b"\r\n\r\n" in made.recv(65536):
                time.sleep(0.017)
                first = time.perf_counter()
                made.sendall(HEAD + FIRST)
                time.sleep(0.053)
                last = time.perf_counter()
                made.sendall(LAST)
                self.written.append((first, last))

    def close(self) -> None:
        self._thread.join()
        self._listening.close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@contextlib.asynccontextmanager
async def busy_loop() -> AsyncIterator[None]:
    """Keeps the event loop busy for 30 ms at a time."""

    async def keep_busy() -> None:
        while True:
            time.sleep(BUSY_S)  # noqa: ASYNC251 - the fault under test
            await asyncio.sleep(0)

    task = asyncio.create_task(keep_busy())
    try:
        yield
    finally:
        task.cancel()


async def test_a_busy_loop_changes_no_time_and_costs_no_grade(server):
    model = OpenAIModel(ModelSettings(name="gpt", folder=Path(), variables={}, options={"base_url": server.base_url}))
    sink = RecordingSink()
    with LagMonitor() as lag:
        caller = Caller(
            policy=RetryPolicy(lag_limit_ms=LIMIT_MS),
            gate=OpenGate(),
            clock=SystemClock(),
            lag=lag,
            now_ms=lambda: 0.0,
            emit=sink.emit,
        )
        began: list[float] = []
        async with busy_loop():
            for _ in range(CALLS):
                began.append(time.perf_counter())
                await caller.call(model, REQUEST)
        await model.close()
    timings = [called.timing for called in sink.of(ModelCalled)]
    assert [timing.attempts[-1].clock for timing in timings] == [ArrivalClock.KERNEL] * CALLS
    assert min(timing.loop_lag_ms for timing in timings) > LIMIT_MS
    assert [timing.spoiled for timing in timings] == [()] * CALLS
    assert not sink.of(Lagged)
    first_errors = [
        abs(start * 1000 + timing.attempts[-1].first_token_ms - first * 1000)
        for start, timing, (first, _) in zip(began, timings, server.written, strict=True)
    ]
    last_errors = [
        abs(start * 1000 + timing.attempts[-1].last_byte_ms - last * 1000)
        for start, timing, (_, last) in zip(began, timings, server.written, strict=True)
    ]
    assert statistics.median(first_errors) < 2
    assert statistics.median(last_errors) < 2


class Receiver:
    def __init__(self) -> None:
        self.got: list[tuple[bytes, float, ArrivalClock]] = []
        self.lost: list[Exception | None] = []
        self.paused = 0

    def arrived(self, data: bytes, moment: float, clock: ArrivalClock) -> None:
        self.got.append((data, moment, clock))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.paused += 1

    def resume_writing(self) -> None:
        self.paused -= 1


@contextlib.contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    with near, far:
        stamp_arrivals(near)
        yield near, far


@pytest.fixture(scope="module", autouse=True)
def stamping() -> Iterator[None]:
    """The kernel switches stamping on with the first socket that asks for it, and off with the last."""
    with connected() as (near, far):
        stamped = False
        while not stamped:
            far.sendall(b"x")
            stamped = bool(near.recvmsg(1, 64)[1])
        yield


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with connected() as (near, far):
        near.setblocking(False)
        yield near, far


async def until(done) -> None:
    while not done():  # noqa: ASYNC110 - nothing to wait on: the socket under test tells the receiver
        await asyncio.sleep(0.001)


async def test_a_read_that_comes_late_still_has_the_time_of_the_arrival(pair):
    near, far = pair
    receiver = Receiver()
    StampedSocket(near, receiver).expect(time.perf_counter())
    sent = time.perf_counter()
    far.sendall(b"x")
    time.sleep(0.05)  # noqa: ASYNC251 - the fault under test
    await until(lambda: receiver.got)
    ((data, moment, clock),) = receiver.got
    assert (data, clock) == (b"x", ArrivalClock.KERNEL)
    assert sent - 0.0001 <= moment < sent + 0.04


@pytest.mark.parametrize("step_s", [-3600.0, -0.02, 0.02, 3600.0])
async def test_a_clock_that_was_set_is_noticed_and_our_own_stamp_is_used(pair, step_s):
    """Between the request and its answer; the new offset is used from the next request on."""
    near, far = pair
    steps = [0]
    receiver = Receiver()
    stamped = StampedSocket(near, receiver, offset=lambda: clock_offset() + steps[0])
    stamped.expect(time.perf_counter())
    steps[0] = int(step_s * 1e9)
    before = time.perf_counter()
    far.sendall(b"x")
    await until(lambda: receiver.got)
    ((_, moment, clock),) = receiver.got
    assert clock is ArrivalClock.CLOCK_SET
    assert before <= moment <= time.perf_counter()
    steps[0] = 0
    stamped.expect(time.perf_counter())
    far.sendall(b"y")
    await until(lambda: len(receiver.got) == 2)
    assert receiver.got[1][2] is ArrivalClock.KERNEL


async def test_a_stamp_from_before_the_request_or_from_the_future_is_not_believed(pair):
    near, far = pair
    receiver = Receiver()
    stamped = StampedSocket(near, receiver)
    stamped.expect(time.perf_counter() + 60)
    far.sendall(b"x")
    await until(lambda: receiver.got)
    assert receiver.got[0][2] is ArrivalClock.CLOCK_SET


async def test_more_than_the_kernel_takes_is_written_as_it_drains(pair):
    near, far = pair
    receiver = Receiver()
    stamped = StampedSocket(near, receiver)
    data = bytes(range(256)) * 40_000
    stamped.write(data)
    assert receiver.paused == 1
    assert stamped.get_write_buffer_size() > 0
    far.setblocking(False)
    read = b""
    while len(read) < len(data):
        with contextlib.suppress(BlockingIOError):
            read += far.recv(1 << 20)
        await asyncio.sleep(0)
    await until(lambda: receiver.paused == 0)
    assert (read, stamped.get_write_buffer_size()) == (data, 0)


async def test_the_end_of_a_connection_is_reported_once(pair):
    near, far = pair
    receiver = Receiver()
    stamped = StampedSocket(near, receiver)
    far.close()
    await until(lambda: receiver.lost)
    stamped.abort()
    await asyncio.sleep(0.01)
    assert receiver.lost == [None]
    assert stamped.is_closing()
