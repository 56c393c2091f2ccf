"""Sets up the workers of a run, for runs outside this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from steadyhand.batch.local_worker import LocalWorkers
from steadyhand.batch.messages import WorkerSetup
from steadyhand.batch.provider import ProviderGate
from steadyhand.batch.worker_pool import PoolSize, WorkerPool
from steadyhand.children.nursery import Nursery, can_be_copied
from steadyhand.compose.fingerprint import total
from steadyhand.compose.models import free_of_limits
from steadyhand.compose.run import Run
from steadyhand.compose.settings import restore_options
from steadyhand.engine.limits import SpendingLimit
from steadyhand.errors import SetupError
from steadyhand.records.config import RunOptions
from steadyhand.version import __version__

_MAIN = "steadyhand.compose.worker_child:main"
_ACTOR = "steadyhand.compose.ray_actor:RayTrialActor"


def check_executor(options: RunOptions, *, objects: bool) -> None:
    """Raises `SetupError` for features that need a single process. `objects` is whether the run was given Python
    objects."""
    if options.engine != "ray" and (options.ray_address is not None or options.ray_env):
        raise SetupError("--ray-address and --ray-env are for --engine ray; add that or leave them out")
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
            f"{chosen}: scenarios, agents and plugins that are Python objects cannot be passed to other processes; "
            f"name files, such as python:agent.py:answer, or {instead}"
        )


class Workers:
    """The workers of a run, and what they run on."""

    def __init__(self, pool: WorkerPool, close: Callable[[], Any] | None = None) -> None:
        self.pool: WorkerPool = pool
        self._close = close

    async def close(self) -> None:
        try:
            await self.pool.close()
        finally:
            if self._close is not None:
                await self._close()


def open_nursery(run: Run) -> Nursery | None:
    """Copies of this process as it is now, with the run loaded, to be workers; None where that is not safe.

    Called before the event loop runs and before any thread starts.
    """
    if run.settings.options.engine == "ray" or not can_be_copied():
        return None
    from steadyhand.compose.worker_child import main_of_copies

    try:
        return Nursery(main_of_copies(run))
    except OSError:
        return None  # the start of a worker will say why


async def open_workers(
    run: Run, gate: ProviderGate, budget: SpendingLimit, note: Callable[[str], None], nursery: Nursery | None = None
) -> Workers:
    """Start the workers, and wait until trials can run. Raises `SetupError` if they cannot start."""
    settings = run.settings
    setup = WorkerSetup(
        version=__version__,
        saved=run.saved,
        name="",
        trust=settings.options.trust,
        free=free_of_limits(run.providers, settings),
        counts_spending=budget.limited,
        concurrency=settings.concurrency,
    )
    given: dict[str, Any] = {
        "gate": gate,
        "spent": budget.emit,
        "note": note,
    }
    if settings.options.engine == "ray":
        return await _on_ray(run, setup, given)
    workers = settings.options.workers or processors()
    size = PoolSize(min(workers, settings.concurrency), settings.concurrency, ahead=not may_stop_early(run))
    pool = WorkerPool(LocalWorkers(_MAIN, setup, nursery), size, **given)
    workers = Workers(pool)
    try:
        await pool.open()
    except BaseException:
        await workers.close()
        raise
    return workers


async def _on_ray(run: Run, setup: WorkerSetup, given: dict[str, Any]) -> Workers:
    from steadyhand.batch.ray_worker import RayWorkers

    settings = run.settings
    options = settings.options
    root = settings.config.folder if settings.config.file is not None else Path.cwd()
    root = root.resolve()
    here = Path.cwd().resolve()
    if not here.is_relative_to(root):
        root = here
    digests = {scenario_id: total(parts) for scenario_id, parts in run.fingerprints().items()}
    setup = msgspec.structs.replace(
        setup,
        saved=_for_a_copy(setup.saved, root, here),
        folder=str(here.relative_to(root)),
        digests=digests,
        trusted=False,
    )
    workers = options.workers
    missing = [name for name in options.ray_env if name not in settings.variables]
    if missing:
        raise SetupError(f"--ray-env {missing[0]}: the variable is not set here, so it cannot be sent to the nodes")
    # Environment files are not copied.
    config = settings.config
    files = [settings.options.env_file, config.folder / config.env_file if config.env_file else None]
    found = [file.resolve() for file in files if file is not None]
    ray = RayWorkers(
        _ACTOR,
        setup,
        folder=root,
        left_out=tuple(f"/{file.relative_to(root)}" for file in found if file.is_relative_to(root)),
        address=options.ray_address,
        variables={name: settings.variables[name] for name in options.ray_env},
        cpus=workers or os.cpu_count() or 1,
    )
    processors = await ray.open()
    size = PoolSize(
        min(workers or processors, settings.concurrency),
        settings.concurrency,
        elastic=True,
        ahead=not may_stop_early(run),
    )
    pool = WorkerPool(ray, size, trusted=False, **given)
    opened = Workers(pool, ray.close)
    try:
        await pool.open()
    except BaseException:
        await opened.close()
        raise
    return opened


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def may_stop_early(run: Run) -> bool:
    """Whether any trial may turn out to have been the last: trials that workers already have are paid for."""
    options = run.settings.options
    return options.max_cost is not None or options.max_tokens is not None or options.until is not None


def _for_a_copy(saved: dict[str, Any], root: Path, here: Path) -> dict[str, Any]:
    """The same for a copy of the folder elsewhere: paths relative to `here`, and only the node's own variables.

    Raises `SetupError` for a file that is not in the folder and so is not in the copy either.
    """
    _, selection, options = restore_options(saved)

    def moved(path: str) -> str:
        there = Path(path).absolute()
        if not there.resolve().is_relative_to(root):
            raise SetupError(
                f"--engine ray: {path} is outside {root}, the folder that is copied to the nodes; start the run in a "
                "folder that contains everything it needs"
            )
        return os.path.relpath(there.resolve(), here) if Path(path).is_absolute() else path

    selection = msgspec.structs.replace(selection, paths=tuple(moved(path) for path in selection.paths))
    config = None if options.config is None else Path(moved(str(options.config)))
    options = msgspec.structs.replace(options.without("copy"), config=config, ignore_env_file=True)
    return msgspec.to_builtins({"folder": here, "selection": selection, "options": options}, enc_hook=str)
