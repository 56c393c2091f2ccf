"""Where the trials of a run are to run, when it is not in this process."""

from __future__ import annotations

from collections.abc import Callable

from steadyhand.batch.crew import Crew, Launch
from steadyhand.batch.local_worker import LocalWorkers
from steadyhand.batch.messages import WorkerSetup
from steadyhand.batch.provider import ProviderGate
from steadyhand.compose.running import Run
from steadyhand.compose.settings import RunOptions
from steadyhand.errors import SetupError
from steadyhand.version import __version__

_MAIN = "steadyhand.compose.worker_child:main"


def check_executor(options: RunOptions, *, objects: bool) -> None:
    """Raises `SetupError` for what only one process can do. `objects` says that the run was given Python objects."""
    chosen = "--engine ray" if options.engine == "ray" else "--workers"
    instead = f"leave {chosen} out"
    if options.record is not None:
        raise SetupError(f"{chosen}: a recording is written by one process; {instead}, or leave --record out")
    if options.replay is not None:
        raise SetupError(f"{chosen}: a recording is replayed by one process; {instead}, or leave --replay out")
    if options.rejudge is not None:
        raise SetupError(f"{chosen}: stored trials are judged again in one process; {instead}")
    if objects:
        raise SetupError(
            f"{chosen}: other processes cannot be given the scenarios, agents or plugins that are objects of this "
            f"program; name files, such as python:agent.py:answer, or {instead}"
        )


def make_crew(run: Run, gate: ProviderGate, note: Callable[[str], None]) -> Crew:
    """Raises `SetupError` when the engine cannot be had."""
    settings = run.settings
    setup = WorkerSetup(
        version=__version__,
        saved=run.saved,
        name="",
        trust=settings.options.trust,
        free=run.free_of_limits(),
        counts_spending=run.budget.limited,
    )
    workers = settings.workers
    launch: Launch = LocalWorkers(_MAIN, setup)
    return Crew(
        launch,
        workers=min(workers, settings.concurrency),
        concurrency=settings.concurrency,
        gate=gate,
        spent=run.budget.emit,
        note=note,
    )
