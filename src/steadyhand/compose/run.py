"""Prepares a run: loads, checks and plans it, as a new run or as a resumed one."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steadyhand.batch.plan import Plan
from steadyhand.batch.provider import ProviderGate
from steadyhand.builtin.plugin import sweep_workspaces
from steadyhand.compose.builder import Builder, RunParts, no_doubts
from steadyhand.compose.fingerprint import Fingerprints
from steadyhand.compose.models import Judges, Tape, asks_judge, build_gate, free_of_limits, needs_network, providers_of
from steadyhand.compose.rejudgement import Origin
from steadyhand.compose.scenarios import (
    NOTHING_GIVEN,
    Given,
    Rubrics,
    ScenarioRegistries,
    load_scenarios,
    open_registries,
    target_of,
    with_safe_ids,
)
from steadyhand.compose.settings import Settings, save_options
from steadyhand.compose.trust import named_by, untrusted
from steadyhand.engine.limits import LagMonitor, SpendingLimit
from steadyhand.engine.model_call import OpenGate
from steadyhand.errors import FileError, SetupError
from steadyhand.judging.cost import Prices
from steadyhand.judging.rates import (
    ScenarioRate,
    scenario_rates,
    sequential_tests,
    until_decided,
)
from steadyhand.judging.sequential import Decision, Decisions
from steadyhand.ports.agent import agent_facts
from steadyhand.ports.model import Gate
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.run import DEFAULT_ALPHA, PlannedTrial, RunHeader, RunMatrix, TrialKey
from steadyhand.records.scenario import Scenario
from steadyhand.redaction import Redactor
from steadyhand.store.reader import RunReader, new_run_id
from steadyhand.store.schema import still_to_do
from steadyhand.version import __version__


class Run:
    """A run that is loaded, checked and ready to execute. `pending` are the `planned` trials that it will run."""

    def __init__(
        self,
        selection: Selection,
        options: RunOptions,
        *,
        begun: tuple[RunHeader, Path] | None = None,
        given: Given = NOTHING_GIVEN,
        checking: bool = False,
    ) -> None:
        """`begun` is the header and the record of a run to resume, `given` are inputs other than files. With
        `checking`, it is a plan for inspection only: nothing that a scenario names is imported or called, and it must
        not be executed. Raises `UsageError` for anything that would prevent the run from starting.
        """
        self.settings: Settings = Settings(options)
        self.uses_workers: bool = self.settings.workers > 1 or options.engine == "ray"
        self._check_executor(options, objects=any(given))
        self._registries = open_registries(self.settings, given, checking=checking)
        self.notes: list[str] = []
        """What was passed over in folders."""
        loaded = load_scenarios(
            selection,
            self._registries,
            given,
            models=options.models,
            agents=options.agents,
            note=self.notes.append,
        )
        self.redactor: Redactor = self.settings.redactor(loaded)
        self.scenarios: list[Scenario] = with_safe_ids(loaded, self.redactor)
        self.origin: Origin | None = None if options.rejudge is None else Origin(options.rejudge)
        numbers: Mapping[str, Sequence[int]] = {}
        if self.origin is not None:
            self.scenarios = self.origin.scenarios(self.scenarios, options)
            numbers = self.origin.numbers
        self.unsharded: list[Scenario] = self.scenarios
        if options.only or options.shard is not None:
            from steadyhand.compose.shards import only_scenarios, shard_scenarios

            self.unsharded = only_scenarios(self.scenarios, options)
            self.scenarios, numbers = shard_scenarios(self.unsharded, self.settings)
        self.needs_trust: str | None = None
        """A description of what needs --trust; None if there is nothing, or --trust was given."""
        self._check_scenarios(options, checking=checking)
        self._providers = providers_of(self.scenarios, self.settings, self._registries)
        header, self.record = begun if begun is not None else (None, None)
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
        if self.record is not None and self.budget.limited:
            self.budget.count_spent(RunReader.open(self.record).trials())

    def _check_executor(self, options: RunOptions, *, objects: bool) -> None:
        if self.uses_workers or options.ray_address is not None or options.ray_env:
            from steadyhand.compose.executors import check_executor

            check_executor(options, objects=objects)

    def _check_scenarios(self, options: RunOptions, *, checking: bool) -> None:
        rubrics = Rubrics(self.settings)
        with suppress(SetupError) if checking else nullcontext():  # the run itself reports what cannot be set up
            self.needs_trust = self._needs_trust(rubrics)
        if self.needs_trust is not None and not checking:
            raise SetupError(self.needs_trust)
        self._check_matrices(options)
        if problems := rubrics.check(self.scenarios, read=False):
            raise FileError(problems)

    def doable(self, planned: Sequence[PlannedTrial]) -> Sequence[PlannedTrial]:
        """The trials that can be executed: all, or those that are recorded in the run to be rejudged."""
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
            own_servers=self.settings.own_servers(self._providers),
            free_providers=tuple(sorted(name for name, facts in self._providers.items() if facts.free)),
            pass_rate=options.pass_rate,
            matrices=self._matrices(),
            pass_rates={each.id: each.pass_rate for each in self.scenarios if each.pass_rate is not None},
            targets={scenario.id: target_of(scenario, self.settings) for scenario in self.scenarios},
            until=options.until,
            alpha=options.alpha if options.alpha is not None else DEFAULT_ALPHA,
            origin=self.origin.id if self.origin is not None else None,
            failed_of=options.failed_of,
            agent_can_read=self.settings.agent_can_read,
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
        """True for a check that only an unloaded plugin could define."""
        registry = self._registries.registry(scenario)
        if not registry.has("evaluators", check.type) and self._registries.unloaded(scenario):
            return True
        return asks_judge(check, registry)

    def asks_model(self, scenario: Scenario) -> str:
        """As declared by the scenario's agent; `unknown` also for one that only an unloaded plugin could define."""
        kind, registry = self.settings.agent(scenario).partition(":")[0], self._registries.registry(scenario)
        return agent_facts(registry.agent(kind) if registry.has("agents", kind) else None).asks_model

    def free_of_limits(self) -> tuple[str, ...]:
        """The providers whose calls need no permit."""
        return free_of_limits(self._providers, self.settings)

    def gate(self, note: Callable[[str], None], *, spaced: bool = True) -> ProviderGate | OpenGate:
        return build_gate(self._providers, self.settings, note, spaced=spaced)

    def builder(
        self, lag: LagMonitor, gate: Gate, *, tape: Tape | None = None, budget: SpendingLimit | None = None
    ) -> Builder:
        parts = RunParts(
            registries=self._registries,
            settings=self.settings,
            workspaces=clean_workspaces(),
            lag=lag,
            gate=gate,
            tape=tape or Tape(RunOptions(), self.redactor),
            budget=budget or self.budget,
            doubts=self._doubts(),
        )
        return Builder(parts)

    def fingerprints(self) -> dict[str, dict[str, str]]:
        """The fingerprint of each scenario's trials."""
        made = Fingerprints(self.settings, self.redactor, self._registries)
        return {scenario.id: made.parts(scenario) for scenario in self.scenarios}

    def decisions(self) -> Decisions | None:
        """The sequential decisions, based on the record so far; None for a run in which all trials run.

        A decision that has been reached is kept, even if some of its trials are errors. Otherwise errors are rerun, and
        have not entered the test yet.
        """
        if self.header.until is None:
            return None
        if self.record is None:
            return Decisions(sequential_tests(self.header, self.planned.per_scenario()))
        reader = RunReader.open(self.record)
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

    def _doubts(self) -> Callable[[Scenario, Judges], Mapping[int, str]]:
        if not self.settings.config.calibration.required:
            return no_doubts
        from steadyhand.compose.calibration import Doubts

        return Doubts(self.settings, self.redactor, self._registries).of


def clean_workspaces() -> Path:
    """The user's folder for workspaces, cleaned of what killed runs have left there.

    It is a temporary folder and not next to the scenarios, so that an agent's `..` does not lead to the answers. Raises
    `SetupError` if the folder belongs to another user.
    """
    root = Path(tempfile.gettempdir()) / f"steadyhand-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if root.is_symlink() or root.stat().st_uid != os.getuid():
        raise SetupError(f"{root} belongs to another user; set TMPDIR to a folder that you own")
    workspaces = root / "workspaces"
    workspaces.mkdir(mode=0o700, exist_ok=True)
    sweep_workspaces(workspaces)
    return workspaces


def rates_of(reader: RunReader) -> list[ScenarioRate]:
    """In planned order."""
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


def quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop, for timed calls; None if it is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
