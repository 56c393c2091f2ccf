"""The pipeline, end to end: load, plan, execute, record."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import holdfast
from holdfast.batch.local import LocalBatch
from holdfast.batch.plan import PlannedTrial, plan
from holdfast.compose.building import Builder
from holdfast.compose.loading import load_scenarios
from holdfast.compose.options import RunOptions, Selection
from holdfast.compose.plugins import ScenarioRegistries
from holdfast.compose.registry import build_registry
from holdfast.compose.settings import Settings
from holdfast.compose.tape import Tape
from holdfast.compose.workspaces import clean_workspaces
from holdfast.engine.budget import Budget
from holdfast.engine.calling import OpenGate
from holdfast.engine.lag import LagMonitor
from holdfast.errors import HoldfastError
from holdfast.ports.observer import RunObserver
from holdfast.records.redaction import Redactor
from holdfast.records.run import RunHeader
from holdfast.report.redacted_progress import RedactedProgress
from holdfast.store.ids import new_run_id
from holdfast.store.writer import RunWriter


class Run:
    """A run that is loaded, checked and ready to go."""

    def __init__(self, selection: Selection, options: RunOptions) -> None:
        """Raises `UsageError` for anything that would stop the run from starting."""
        self.settings: Settings = Settings(options)
        self._registries = ScenarioRegistries(build_registry(), live=options.live)
        self.scenarios = load_scenarios(selection, self._registries)
        self.redactor: Redactor = self.settings.redactor(self.scenarios)
        self.budget: Budget = Budget(
            self.settings.prices(self.scenarios), max_cost=options.max_cost, max_tokens=options.max_tokens
        )
        seed = self.settings.seed
        self.seed: int = seed if seed is not None else secrets.randbelow(2**31)
        self.planned: list[PlannedTrial] = plan(self.scenarios, seed=self.seed)
        self.header: RunHeader = RunHeader(
            id=new_run_id(datetime.now(UTC), random.SystemRandom()),
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            holdfast_version=holdfast.__version__,
            command=options.command,
            seed=self.seed,
            planned=len(self.planned),
        )

    async def execute(self, observers: Sequence[RunObserver]) -> Path:
        """Run every trial into a new record and say where it is. Raises `SetupError` before anything ran."""
        observers = [RedactedProgress(observer, self.redactor) for observer in observers]
        tape = Tape(self.settings.options, self.redactor)
        try:
            return await self._execute(tape, observers)
        except HoldfastError as error:
            error.args = (self.redactor.text(str(error)),)
            raise
        finally:
            tape.close()

    async def _execute(self, tape: Tape, observers: Sequence[RunObserver]) -> Path:
        with LagMonitor() as lag:
            builder = Builder(
                registries=self._registries,
                settings=self.settings,
                workspaces=clean_workspaces(),
                lag=lag,
                gate=OpenGate(),
                tape=tape,
                budget=self.budget,
            )
            try:
                builder.prepare(self.scenarios)
                return await self._record(builder, observers)
            finally:
                await builder.close()

    async def _record(self, builder: Builder, observers: Sequence[RunObserver]) -> Path:
        writer = RunWriter.create(self.settings.out, self.header, redactor=self.redactor)
        for observer in observers:
            observer.run_started(self.header)
        try:
            batch = LocalBatch(
                build=builder.build,
                keep=writer.append,
                observers=observers,
                concurrency=self.settings.concurrency,
                may_start=self.budget.may_start,
            )
            await batch.run(self.planned)
            if self.budget.exhausted is not None:
                for observer in observers:
                    observer.noted(f"{self.budget.exhausted}; no more trials were started")
        except BaseException:
            writer.close("interrupted")
            raise
        finally:
            for observer in observers:
                observer.run_finished()
        writer.close("finished")
        return writer.path
