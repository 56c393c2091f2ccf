"""How many trials per second the driver of a run with workers can take: hand out, permit a call, receive, decode and
store each.

The workers are processes that answer every trial at once with the same record, so that the driver is what limits. The
records are those of a plain decision trial, 2 KB, and of a trial with ten checks of a long answer, 13 KB. Every case
runs in its own process. Not part of `make bench`: run it with `make bench-scale`.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

import steadyhand
from benchmarks.figures import Figure
from benchmarks.scale import write_checks
from benchmarks.throughput import SCENARIO
from steadyhand.batch.local import Batch
from steadyhand.batch.local_worker import LocalWorkers
from steadyhand.batch.messages import CallEnd, FinishedTrial, LeaveRequest, Order, Orders, Report, WorkerSetup
from steadyhand.batch.provider import ProviderGate
from steadyhand.batch.worker_pool import PoolSize, WorkerPool
from steadyhand.children.channel import Channel, Frames, Kind, packed, read, receive_variables
from steadyhand.children.process import die_with_parent
from steadyhand.compose.run import Run
from steadyhand.engine.limits import SystemClock
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.run import TrialKey, TrialRecord, brief_of
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import PlanEntry, decode, encode
from steadyhand.store.writer import RunWriter

TRIALS = 20_000
PLACES = 32
ROUNDS = 3
CASES = {("plain", 2): 0.05, ("plain", 16): 0.05, ("checks", 16): 0.07}
"""The kind of record and the number of workers, and the CPU in ms that the driver may take per trial."""
_AT_ONCE = 16


def measure() -> list[Figure]:
    figures: list[Figure] = []
    for (kind, workers), at_most in CASES.items():
        found = [_apart(kind, workers) for _ in range(ROUNDS)]
        name = f"driver of {workers} workers, {kind} records"
        figures.append(Figure(name=f"{name}: a second", value=max(each["rate"] for each in found), unit="/s"))
        cpu_ms = min(each["cpu_ms"] for each in found)
        figures.append(Figure(name=f"{name}: CPU each", value=cpu_ms, unit="ms", at_most=at_most))
    return figures


def _apart(kind: str, workers: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.driver", kind, str(workers)],
            check=True, cwd=folder, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def measure_driver(kind: str, workers: int) -> dict[str, float]:
    if kind == "checks":
        write_checks(Path.cwd())
    else:
        Path("replies.yaml").write_text('rules:\n  - reply: "Stop the pump."\n')
        Path("bench.scenario.yaml").write_text(SCENARIO)
    sample = steadyhand.run("bench.scenario.yaml", model="scripted/replies.yaml", trials=2, seed=1)
    _, record = encode(list(RunReader.open(sample.path).trials())[-1])
    run = Run(
        Selection(paths=("bench.scenario.yaml",)), RunOptions(model="scripted/replies.yaml", trials=TRIALS, seed=1)
    )
    plan = (PlanEntry(key=each.key, seed=each.seed) for each in run.planned)
    writer = RunWriter.create(Path("runs"), run.header, plan)

    async def drive() -> dict[str, float]:
        setup = WorkerSetup(version="", name="", saved={"record": record})
        pool = WorkerPool(
            LocalWorkers("benchmarks.driver:answer", setup),
            PoolSize(workers, PLACES * workers),
            gate=ProviderGate(clock=SystemClock()),
            spent=lambda event: None,
            note=print,
        )

        def keep(trial: TrialRecord) -> TrialRecord:
            return writer.append(trial, pool.encoded(trial.key))

        await pool.open()
        try:
            began, cpu = time.perf_counter(), time.process_time()
            await Batch(pool, keep=keep).run(run.planned)
            writer.close()
            wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        finally:
            await pool.close()
        return {"rate": TRIALS / wall_s, "cpu_ms": cpu_s * 1000 / TRIALS}

    return uvloop.run(drive())


def answer(fd: int) -> None:
    """The process of a worker: every trial asks for a permit to call a model and then ends, with the given record."""
    die_with_parent()
    connection = socket.socket(fileno=fd)
    receive_variables(connection)
    frames, first = Frames(), []
    while not first:
        first = frames.feed(connection.recv(64 * 1024))
    record = decode(read(first[0].payload)["saved"]["record"])
    connection.sendall(packed(Kind.DONE, first[0].number, "", None))

    async def serve(name: str, payload: msgspec.Raw) -> None: ...

    async def live() -> None:
        gone = asyncio.Event()

        def hear(name: str, payload: msgspec.Raw) -> None:
            for report in desk.reports(read(payload, Orders)):
                channel.post("report", report)

        desk = _Desk(record)
        channel = Channel(connection, serve=serve, hear=hear, lost=lambda _: gone.set())
        channel.attach()
        await gone.wait()

    uvloop.run(live())
    os._exit(0)


class _Desk:
    def __init__(self, record: TrialRecord) -> None:
        self._record = record
        self._orders: dict[int, Order] = {}

    def reports(self, orders: Orders) -> list[Report]:
        self._orders.update({order.number: order for order in orders.trials})
        asks = [LeaveRequest(number=order.number, model="openai/bench", amount=300.0) for order in orders.trials]
        ends = [CallEnd(number=number, answered=True, used=30) for number, *_ in orders.granted]
        done = [self._done(number, self._orders.pop(number)) for number, *_ in orders.granted]
        parts = range(0, max(len(asks), len(done)), _AT_ONCE)
        return [
            Report(asks=asks[at : at + _AT_ONCE], ends=ends[at : at + _AT_ONCE], finished=done[at : at + _AT_ONCE])
            for at in parts
        ]

    def _done(self, number: int, order: Order) -> FinishedTrial:
        key = TrialKey(scenario_id=order.scenario_id, index=order.index)
        record = msgspec.structs.replace(self._record, key=key, seed=order.seed)
        return FinishedTrial(number, encode(record)[1], None, encode(brief_of(record))[1])


if __name__ == "__main__":
    print(json.dumps(measure_driver(sys.argv[1], int(sys.argv[2]))))
