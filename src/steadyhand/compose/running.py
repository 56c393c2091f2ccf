"""The pipeline, end to end: load, plan, execute, record; from the start, or from where a run was cut short."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from steadyhand.batch.local import Batch, InProcess, Perform, Preceded, running
from steadyhand.batch.plan import Plan, PlannedPart
from steadyhand.batch.provider import ProviderGate
from steadyhand.builtin.plugin import sweep_workspaces
from steadyhand.compose.building import Builder
from steadyhand.compose.fingerprint import Fingerprints, total
from steadyhand.compose.loading import (
    NOTHING_GIVEN,
    Given,
    Rubrics,
    ScenarioRegistries,
    load_scenarios,
    open_registries,
    target_of,
    with_safe_ids,
)
from steadyhand.compose.models import Judges, Tape, asks_judge, build_gate, free_of_limits, needs_network, providers_of
from steadyhand.compose.rejudging import Origin
from steadyhand.compose.settings import RunOptions, Selection, Settings, save_options
from steadyhand.engine.limits import LagMonitor, SpendingLimit
from steadyhand.engine.model_call import OpenGate
from steadyhand.errors import FileError, SetupError, SteadyhandError, StoreError
from steadyhand.judging.cost import Prices
from steadyhand.judging.rates import (
    ScenarioRate,
    percent,
    required_of,
    scenario_rates,
    sequential_tests,
    until_decided,
)
from steadyhand.judging.sequential import Decision, Decisions, fewest_passes
from steadyhand.ports.executor import Executor
from steadyhand.ports.model import Gate
from steadyhand.ports.observer import RunObserver
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.run import DEFAULT_ALPHA, PlannedTrial, RunHeader, RunMatrix, Standing, TrialKey, TrialRecord
from steadyhand.records.scenario import Scenario, evaluation_specs
from steadyhand.redaction import Redactor
from steadyhand.report.progress import RedactedProgress
from steadyhand.store.labels import read_labels
from steadyhand.store.reader import RunReader, new_run_id
from steadyhand.store.schema import PlanEntry, still_to_do
from steadyhand.store.writer import RunWriter
from steadyhand.version import __version__

if TYPE_CHECKING:
    from steadyhand.compose.calibration import Canaries
    from steadyhand.compose.executors import Workers


def _unattended(note: Callable[[str], None]) -> AbstractContextManager[Stops]:
    return nullcontext(_NeverStops())


def clean_workspaces() -> Path:
    """The user's own folder for workspaces, rid of what runs that were killed have left there.

    It is a temporary folder and not one beside the scenarios, so that an agent's `..` does not lead to the answers.
    Raises `SetupError` when the folder belongs to somebody else.
    """
    root = Path(tempfile.gettempdir()) / f"steadyhand-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if root.is_symlink() or root.stat().st_uid != os.getuid():
        raise SetupError(f"{root} belongs to another user; set TMPDIR to a folder of your own")
    workspaces = root / "workspaces"
    workspaces.mkdir(mode=0o700, exist_ok=True)
    sweep_workspaces(workspaces)
    return workspaces


class Stops(Protocol):
    """Says whether somebody wants the run to stop."""

    @property
    def stopping(self) -> bool: ...


class _NeverStops:
    stopping: bool = False


Attend = Callable[[Callable[[str], None]], AbstractContextManager[Stops]]
"""Entered around the trials, in the task that runs them, with a function to tell the user something."""


class Run:
    """A run that is loaded, checked and ready to go. `pending` is what it will do of what is `planned`."""

    def __init__(
        self,
        selection: Selection,
        options: RunOptions,
        *,
        begun: tuple[RunHeader, Path] | None = None,
        given: Given = NOTHING_GIVEN,
        checking: bool = False,
    ) -> None:
        """`begun` is the header and the record of a run to carry on, `given` what there is besides files.

        When `checking`, it is a plan to look at: nothing that a scenario names is imported or called, and `execute`
        must not follow. Raises `UsageError` for anything that would stop the run from starting.
        """
        self.settings: Settings = Settings(options)
        self._crewed: bool = self.settings.workers > 1 or options.engine == "ray"
        self._check_executor(options, objects=any(given))
        self._registries = open_registries(self.settings, given, checking=checking)
        loaded = load_scenarios(selection, self._registries, given, models=options.models, agents=options.agents)
        self.redactor: Redactor = self.settings.redactor(loaded)
        self.scenarios: list[Scenario] = with_safe_ids(loaded, self.redactor)
        self.origin: Origin | None = None if options.rejudge is None else Origin(options.rejudge)
        numbers: Mapping[str, Sequence[int]] = {}
        if self.origin is not None:
            self.scenarios = self.origin.scenarios(self.scenarios, options)
            numbers = self.origin.numbers
        self._whole: list[Scenario] = self.scenarios
        if options.only or options.shard is not None:
            from steadyhand.compose.shards import only_scenarios, shard_scenarios

            self._whole = only_scenarios(self.scenarios, options)
            self.scenarios, numbers = shard_scenarios(self._whole, self.settings)
        self.needs_trust: str | None = None
        """What the run would do only with --trust, in words; None when there is nothing, or it was given."""
        self._check_scenarios(options, checking=checking)
        self._providers = providers_of(self.scenarios, self.settings, self._registries)
        header, self._path = begun if begun is not None else (None, None)
        seed = header.seed if header is not None else self.settings.seed
        self.seed: int = seed if seed is not None else secrets.randbelow(2**31)
        self.planned: Plan = Plan(self.scenarios, seed=self.seed, trials=options.trials, numbers=numbers)
        self.pending: Sequence[PlannedTrial] = self.doable(self.planned)
        if options.alpha is not None and options.until is None:
            raise SetupError("--alpha is the error rate of --until decided; add that or leave --alpha out")
        self.saved: dict[str, Any] = save_options(selection, options, objects=any(given))
        self.header: RunHeader = header or self._header(options)
        prices = Prices.of_run(self.header)
        self.budget: SpendingLimit = SpendingLimit(prices, max_cost=options.max_cost, max_tokens=options.max_tokens)
        if self._path is not None and self.budget.limited:
            self.budget.count_spent(RunReader.open(self._path).trials())
        self._canaries: Canaries | None = None
        self.interrupted: bool = False
        self.broken: StoreError | None = None
        self.crashed: Exception | None = None
        self._began: float = 0.0
        self._gate: ProviderGate | OpenGate | None = None
        self._lag: LagMonitor | None = None
        self._workers: Workers | None = None

    def _check_executor(self, options: RunOptions, *, objects: bool) -> None:
        if self._crewed or options.ray_address is not None or options.ray_env:
            from steadyhand.compose.executors import check_executor

            check_executor(options, objects=objects)

    def _check_scenarios(self, options: RunOptions, *, checking: bool) -> None:
        rubrics = Rubrics(self.settings)
        with suppress(SetupError) if checking else nullcontext():  # what cannot be set up is the run's to say
            self.needs_trust = self._needs_trust(rubrics)
        if self.needs_trust is not None and not checking:
            raise SetupError(self.needs_trust)
        self._check_matrices(options)
        if problems := rubrics.check(self.scenarios, read=False):
            raise FileError(problems)

    def doable(self, planned: Sequence[PlannedTrial]) -> Sequence[PlannedTrial]:
        """Those that can be carried out: all, or those that the run to be judged again has a record of."""
        return planned if self.origin is None else self.origin.stored(planned)

    def _check_matrices(self, options: RunOptions) -> None:
        if not any(scenario.cell for scenario in self.scenarios):
            return
        from steadyhand.compose.matrices import check_names, check_options

        check_options(self.scenarios, options)
        problems = check_names(self.scenarios, self.settings, self._registries)
        if errors := [problem for problem in problems if problem.level == "error"]:
            raise FileError(errors)

    def _needs_trust(self, rubrics: Rubrics) -> str | None:
        project = self.settings.project
        outside = [scenario for scenario in self.scenarios if not project.trusts_scenario(scenario)]
        if not outside:
            return None
        from steadyhand.compose.trust import named_by, untrusted

        found = [
            named
            for scenario in outside
            for named in named_by(
                scenario, self.settings, self._registries.registry(scenario), rubric=rubrics.file(scenario)
            )
        ]
        return self.redactor.text(untrusted(found, project)) if found else None

    def _header(self, options: RunOptions) -> RunHeader:
        return RunHeader(
            id=new_run_id(datetime.now(UTC), random.SystemRandom()),
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            steadyhand_version=__version__,
            command=options.command,
            seed=self.seed,
            planned=len(self.planned),
            options=self.saved,
            prices=dict(self.settings.config.prices),
            own_servers=self.settings.own_servers(),
            free_providers=tuple(sorted(name for name, facts in self._providers.items() if facts.free)),
            pass_rate=options.pass_rate,
            matrices=self._matrices(),
            pass_rates={each.id: each.pass_rate for each in self.scenarios if each.pass_rate is not None},
            targets={scenario.id: target_of(scenario, self.settings) for scenario in self.scenarios},
            until=options.until,
            alpha=options.alpha if options.alpha is not None else DEFAULT_ALPHA,
            origin=self.origin.id if self.origin is not None else None,
            failed_of=options.failed_of,
        )

    def _matrices(self) -> tuple[RunMatrix, ...]:
        if not any(scenario.cell for scenario in self.scenarios):
            return ()
        from steadyhand.compose.matrices import run_matrices

        return run_matrices(self.scenarios)

    @property
    def registries(self) -> ScenarioRegistries:
        return self._registries

    @property
    def needs_network(self) -> bool:
        return needs_network(self.scenarios, self._providers, self.settings, self._registries)

    def asks_judge(self, scenario: Scenario, check: EvaluationSpec) -> bool:
        """Of a check that only a plugin that was not loaded knows, it may."""
        registry = self._registries.registry(scenario)
        if not registry.has("evaluators", check.type) and self._registries.unloaded(scenario):
            return True
        return asks_judge(check, registry)

    def standing(self) -> Standing:
        """What holds it up right now. May be asked from another thread, at any time."""
        return Standing(
            waits=self._gate.held_up() if isinstance(self._gate, ProviderGate) else (),
            lag_ms=self._lag_ms(),
        )

    def _lag_ms(self) -> float:
        if self._workers is not None:
            return self._workers.crew.lag_ms
        return self._lag.recent_worst_ms() if self._lag is not None else 0.0

    def free_of_limits(self) -> tuple[str, ...]:
        """The providers whose calls need no leave of the run."""
        return free_of_limits(self._providers, self.settings)

    def gate(self, note: Callable[[str], None], *, spaced: bool = True) -> ProviderGate | OpenGate:
        return build_gate(self._providers, self.settings, note, spaced=spaced)

    def builder(
        self, lag: LagMonitor, gate: Gate, *, tape: Tape | None = None, budget: SpendingLimit | None = None
    ) -> Builder:
        return Builder(
            registries=self._registries,
            settings=self.settings,
            workspaces=clean_workspaces(),
            lag=lag,
            gate=gate,
            tape=tape or Tape(RunOptions(), self.redactor),
            budget=budget or self.budget,
            doubts=self._doubts(),
        )

    def fingerprints(self) -> dict[str, dict[str, str]]:
        """By scenario, what its trials are made of."""
        made = Fingerprints(self.settings, self.redactor, self._registries)
        return {scenario.id: made.parts(scenario) for scenario in self.scenarios}

    async def execute(self, observers: Sequence[RunObserver], *, attend: Attend | None = None) -> Path:
        """Run every trial that is to be done into the record and say where that is.

        After an interrupt `interrupted` is set, `broken` when record or recording could no longer be written, and
        `crashed` when something was raised that nobody expected; the record holds what was finished. Raises
        `SetupError` or `StoreError` before anything ran. Signals and the garbage collector are the caller's, who may
        see to them with `attend`.
        """
        observers = [RedactedProgress(observer, self.redactor) for observer in observers]
        tape = Tape(self.settings.options, self.redactor, add=self._path is not None)
        try:
            return await self._execute(tape, observers, attend or _unattended)
        except SteadyhandError as error:
            error.args = (self.redactor.text(str(error)),)
            raise
        finally:
            tape.close()

    async def _execute(self, tape: Tape, observers: Sequence[RunObserver], attend: Attend) -> Path:
        def note(message: str) -> None:
            for observer in observers:
                observer.noted(message)

        self._gate = self.gate(note, spaced=not self._crewed)
        with LagMonitor() as lag:
            self._lag = lag
            builder = self.builder(lag, self._gate, tape=tape)
            try:
                if self.origin is None:
                    builder.prepare(self.scenarios)
                else:
                    builder.prepare_judging(self.scenarios)
                for message in self.settings.ignored_configs(self.scenarios):
                    note(message)
                for message in self._cannot_pass():
                    note(message)
                for message, count in builder.out_of_reach.items():
                    note(f"{message} ({count} scenarios)" if count > 1 else message)
                self._canaries = self._prepare_canaries(builder)
                with attend(note) as interrupts:
                    await self._open_workers(note)
                    lag.reset()
                    return await self._record(builder, tape, observers, interrupts)
            finally:
                if self._workers is not None:
                    await asyncio.shield(self._workers.close())
                await builder.close()

    async def _open_workers(self, note: Callable[[str], None]) -> None:
        """Raises `SetupError` when the workers cannot start."""
        if self._crewed:
            from steadyhand.compose.executors import open_workers

            assert isinstance(self._gate, ProviderGate), "a replay runs in one process"
            self._workers = await open_workers(self, self._gate, note)

    def decisions(self) -> Decisions | None:
        """What is still to be decided, with what the record holds; None for a run whose trials all run.

        A decision that stands is kept, errors among its trials or not. Otherwise errors are done again, and so have not
        entered the test yet.
        """
        if self.header.until is None:
            return None
        if self._path is None:
            return Decisions(sequential_tests(self.header, self.planned.per_scenario()))
        reader = RunReader.open(self._path)
        planned = reader.planned_per_scenario()
        verdicts = reader.verdicts_per_scenario()
        stands = until_decided(self.header, planned, verdicts) or {}
        decisions = Decisions(sequential_tests(self.header, planned))
        for scenario_id, found in verdicts.items():
            decided = scenario_id in stands and stands[scenario_id].decision is not Decision.UNDECIDED
            for index in sorted(found):
                if decided or not still_to_do(found[index]):
                    decisions.add(TrialKey(scenario_id=scenario_id, index=index), found[index])
        return decisions

    def _cannot_pass(self) -> list[str]:
        """A note for each ceiling that is too low for the test ever to say passed."""
        if self.header.until is None:
            return []
        short: dict[str, int] = {}
        for scenario_id, trials in self.planned.per_scenario().items():
            required = required_of(self.header, scenario_id) or 1.0
            needed = fewest_passes(required, self.header.alpha)
            if needed is not None and trials < needed:
                told = f"--until decided can never say passed with {trials} trials: {percent(required)} at alpha "
                told += f"{self.header.alpha:g} takes at least {needed}, all passed"
                short[told] = short.get(told, 0) + 1
        return [f"{message} ({count} scenarios)" if count > 1 else message for message, count in short.items()]

    def _writer(self) -> RunWriter:
        if self._path is not None:
            return RunWriter.open(self._path, redactor=self.redactor)
        prints = self.fingerprints()
        self.header = msgspec.structs.replace(self.header, fingerprints=prints)
        if self.settings.options.shard is not None:
            from steadyhand.compose.shards import shard_of

            made = Fingerprints(self.settings, self.redactor, self._registries)
            parts = {scenario.id: total(made.parts(scenario)) for scenario in self._whole}
            shard = shard_of(self._whole, self.settings, self.settings.options.shard, parts)
            self.header = msgspec.structs.replace(self.header, shard=shard)
        digests = {scenario_id: total(parts) for scenario_id, parts in prints.items()}
        entries = (PlanEntry(key=each.key, seed=each.seed, digest=digests[each.scenario.id]) for each in self.planned)
        return RunWriter.create(
            self.settings.out, self.header, entries, redactor=self.redactor, sources=_sources(self.scenarios)
        )

    async def _record(self, builder: Builder, tape: Tape, observers: Sequence[RunObserver], interrupts: Stops) -> Path:
        writer = self._writer()
        if self._path is not None:
            # Another process may have done some of it before this one had the record to itself.
            keys = [each.key for each in self.pending if still_to_do(writer.verdict(each.key))]
            self.pending = PlannedPart(self.planned, keys)
        for observer in observers:
            observer.run_started(msgspec.structs.replace(self.header, planned=len(self.pending)))
            for notice in builder.notices:
                observer.noted(notice)
        batch = self._batch(builder, writer, tape, observers, interrupts)
        self._began = time.monotonic()
        try:
            await batch.run(self.pending)
            await self._ask_rest(builder, interrupts)
            self.broken = tape.broken
            for message in self._last_notes(builder):
                for observer in observers:
                    observer.noted(message)
        except StoreError as error:
            self.broken = error
        except asyncio.CancelledError:
            if not interrupts.stopping:
                writer.close("interrupted")
                raise
        except Exception as error:  # noqa: BLE001 - a bug of ours: what there is will be reported
            self.crashed = error
        except BaseException:
            writer.close("interrupted")
            raise
        finally:
            for observer in observers:
                observer.run_finished()
        self.interrupted = interrupts.stopping
        self._close(writer)
        return writer.path

    def _last_notes(self, builder: Builder) -> list[str]:
        notes = [f"{trial}: {_late(count)} after the trial had ended, refused" for trial, count in builder.late.items()]
        if self.budget.exhausted is not None:
            notes.append(f"{self.budget.exhausted}; no more trials were started")
        return notes

    def _batch(
        self, builder: Builder, writer: RunWriter, tape: Tape, observers: Sequence[RunObserver], interrupts: Stops
    ) -> Batch:
        decisions = self.decisions()

        crew = self._workers.crew if self._workers is not None else None

        def keep(trial: TrialRecord) -> TrialRecord:
            data = crew.encoded(trial.key) if crew is not None else None
            if writer.verdict(trial.key) is not None:
                kept = writer.append(self._with_replaced(trial))
            else:
                kept = writer.append(trial, data)
            if decisions is not None:
                decisions.add(kept.key, kept.judged.verdict)
            return kept

        def stopping() -> bool:
            failed = crew is not None and crew.failure is not None
            return interrupts.stopping or failed or tape.broken is not None or not self.budget.may_start()

        return Batch(
            self._executor(builder, interrupts),
            keep=keep,
            observers=observers,
            stopping=stopping,
            wanted=decisions.wants if decisions is not None else None,
        )

    def _executor(self, builder: Builder, interrupts: Stops) -> Executor:
        """Where trials are carried out: by the workers, or here; run, or taken from the record and judged again."""
        executor: Executor = InProcess(self._performing(builder), places=self.settings.concurrency)
        if self._workers is not None:
            executor = self._workers.crew
        canaries, prices = self._canaries, Prices.of_run(self.header)
        if canaries is None:
            return executor

        async def before() -> None:
            if not interrupts.stopping:
                await canaries.before_trial(builder, prices)

        return Preceded(executor, before)

    def _doubts(self) -> Callable[[Scenario, Judges], Mapping[int, str]] | None:
        if not self.settings.config.calibration.required:
            return None
        from steadyhand.compose.calibration import Doubts

        return Doubts(self.settings, self.redactor, self._registries).of

    def _prepare_canaries(self, builder: Builder) -> Canaries | None:
        """Raises `UsageError` when the file is wrong."""
        file = self.settings.options.judge_canaries
        if file is None or self.header.canaries is not None:
            return None
        from steadyhand.compose.calibration import Canaries, Cases

        cases = Cases(self.settings, self._registries, self.redactor)
        found = cases.of(read_labels(file), self.scenarios)
        canaries = Canaries(file, cases, found, trials=len(self.pending), seed=self.seed)
        known = {scenario.id for scenario in self.scenarios}
        builder.prepare_judging([each for each in canaries.scenarios if each.id not in known])
        return canaries

    async def _ask_rest(self, builder: Builder, interrupts: Stops) -> None:
        if self._canaries is not None and not interrupts.stopping:
            await self._canaries.rest(builder, Prices.of_run(self.header))

    def _performing(self, builder: Builder) -> Perform:
        origin = self.origin
        if origin is None:
            return running(builder.build)

        async def perform(planned: PlannedTrial) -> TrialRecord:
            from steadyhand.engine.rejudgement import rejudge

            stored = origin.trial(planned.key)
            return await rejudge(lambda each: builder.build_stored(planned.scenario, each), stored, origin=origin.id)

        return perform

    def _with_replaced(self, trial: TrialRecord) -> TrialRecord:
        """The trial, with what it takes the place of: that was paid for as well."""
        assert self._path is not None
        before = RunReader.open(self._path).trial(trial.key)
        if before is None:
            return trial
        replaced = (*before.replaced, msgspec.structs.replace(before, replaced=()))
        return msgspec.structs.replace(trial, replaced=replaced)

    def _close(self, writer: RunWriter) -> None:
        cut_short = (
            self.interrupted or self.broken is not None or self.crashed is not None or self.budget.exhausted is not None
        ) or (self.origin is not None and not self.origin.complete)
        took_ms = self.header.took_ms + (time.monotonic() - self._began) * 1000
        header = self.header = msgspec.structs.replace(self.header, took_ms=took_ms)
        if self._canaries is not None:
            header = self.header = msgspec.structs.replace(self.header, canaries=self._canaries.tally())
        try:
            writer.close("interrupted" if cut_short else "finished", header=header)
        except StoreError as error:
            self.broken = self.broken or error


def _late(count: int) -> str:
    return "1 request reached the gateway" if count == 1 else f"{count} requests reached the gateway"


_MOST_SOURCES = 8 * 1024 * 1024


def _sources(scenarios: Sequence[Scenario]) -> dict[str, str]:
    """The text of the files that the scenarios and their checks were read from, as many as there is room for."""
    places = {scenario.place.file: None for scenario in scenarios}
    places.update((spec.place.file, None) for scenario in scenarios for spec in evaluation_specs(scenario))
    found: dict[str, str] = {}
    room = _MOST_SOURCES
    for file in places:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, ValueError):  # made in Python, or gone meanwhile
            continue
        room -= len(text)
        if room < 0:
            break
        found[file] = text
    return found


def quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop, for calls that are timed; None where it is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def rates_of(reader: RunReader) -> list[ScenarioRate]:
    """In the order of the plan."""
    planned = reader.planned_per_scenario()
    until = None
    if reader.header.until is not None:
        until = until_decided(reader.header, planned, reader.verdicts_per_scenario())
    return scenario_rates(
        reader.counts_per_scenario(),
        planned=planned,
        until=until,
        required=reader.header.pass_rates,
        required_of_all=reader.header.pass_rate,
    )
