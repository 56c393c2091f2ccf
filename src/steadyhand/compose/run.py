"""Prepares a run: loads, checks and plans it, as a new run or as a resumed one."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steadyhand.batch.plan import Plan
from steadyhand.compose.cast import Casts, target_of
from steadyhand.compose.fingerprint import Fingerprints
from steadyhand.compose.models import calls_model, needs_network, providers_of
from steadyhand.compose.rejudgement import Origin
from steadyhand.compose.scenarios import (
    NOTHING_GIVEN,
    Given,
    load_scenarios,
    open_registries,
    with_safe_ids,
)
from steadyhand.compose.settings import Settings, save_options
from steadyhand.compose.trust import trust_requests, untrusted
from steadyhand.errors import FileError, SetupError
from steadyhand.http.name_lookup import look_up
from steadyhand.judging.rates import (
    percent,
    required_of,
    sequential_tests,
    until_decided,
)
from steadyhand.judging.sequential import Decision, Decisions, fewest_passes
from steadyhand.ports.agent import agent_facts
from steadyhand.ports.model import ModelFacts
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.run import DEFAULT_ALPHA, PlannedTrial, RunHeader, RunMatrix, TrialKey
from steadyhand.records.scenario import Scenario, VariantOrigin, evaluation_specs
from steadyhand.redaction import Redactor
from steadyhand.store.reader import RunReader, new_run_id
from steadyhand.store.schema import still_to_do
from steadyhand.store.seal import Seal
from steadyhand.version import __version__

_MOST_SOURCES = 8 * 1024 * 1024


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
        registries = open_registries(self.settings, given, checking=checking)
        self.casts: Casts = Casts(self.settings, registries)
        self.notes: list[str] = []
        """What was passed over in folders."""
        loaded = load_scenarios(
            selection,
            registries,
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
        self._check_matrices(options)
        self._check_scenarios(checking=checking)
        self.providers: dict[str, ModelFacts] = providers_of(self.casts.all(self.scenarios))
        header, self.record = begun if begun is not None else (None, None)
        self.proved: Seal | None = None
        """The seal that the record was found to fit, for a resume."""
        seed = header.seed if header is not None else self.settings.seed
        self.seed: int = seed if seed is not None else secrets.randbelow(2**31)
        self.planned: Plan = Plan(self.scenarios, seed=self.seed, trials=options.trials, numbers=numbers)
        self.pending: Sequence[PlannedTrial] = self.doable(self.planned)
        if options.until is not None and any(each.variant for each in self.scenarios):
            raise SetupError("--until decided ends trials early, and --variants and --faults need them all; drop it")
        if options.live and any(each.variant is not None and each.variant.kind == "fault" for each in self.scenarios):
            raise SetupError("--live ignores mocks, and so their faults; drop --live or --faults")
        if options.alpha is not None and options.until is None:
            raise SetupError("--alpha is the error rate of --until decided; add that or leave --alpha out")
        self.saved: dict[str, Any] = save_options(selection, options, objects=any(given))
        self.header: RunHeader = header or self._header(options)

    def _check_executor(self, options: RunOptions, *, objects: bool) -> None:
        if self.uses_workers or options.ray_address is not None or options.ray_env:
            from steadyhand.compose.executors import check_executor

            check_executor(options, objects=objects)

    def _check_scenarios(self, *, checking: bool) -> None:
        with suppress(SetupError) if checking else nullcontext():  # the run itself reports what cannot be set up
            self.needs_trust = self._needs_trust()
        if self.needs_trust is not None and not checking:
            raise SetupError(self.needs_trust)
        if problems := self.casts.rubrics.check(self.scenarios, read=False):
            raise FileError(problems)

    def doable(self, planned: Sequence[PlannedTrial]) -> Sequence[PlannedTrial]:
        """The trials that can be executed: all, or those that are recorded in the run to be rejudged."""
        return planned if self.origin is None else self.origin.stored(planned)

    def _check_matrices(self, options: RunOptions) -> None:
        if not any(scenario.cell for scenario in self.scenarios):
            return
        from steadyhand.compose.matrices import check_names, check_options

        check_options(self.scenarios, options)
        problems = check_names(self.scenarios, self.casts)
        if errors := [problem for problem in problems if problem.level == "error"]:
            raise FileError(errors)

    def _needs_trust(self) -> str | None:
        settings = self.settings
        outside = [cast for cast in self.casts.all(self.scenarios) if not cast.trusted]
        found = [each for cast in outside for each in trust_requests(cast, settings)]
        return self.redactor.text(untrusted(found, settings.project)) if found else None

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
            own_servers=self.settings.own_servers(self.providers),
            free_providers=tuple(sorted(name for name, facts in self.providers.items() if facts.free)),
            pass_rate=options.pass_rate,
            matrices=self._matrices(),
            pass_rates={each.id: each.pass_rate for each in self.scenarios if each.pass_rate is not None},
            targets={scenario.id: target_of(self.casts.of(scenario)) for scenario in self.scenarios},
            until=options.until,
            alpha=options.alpha if options.alpha is not None else DEFAULT_ALPHA,
            origin=self.origin.id if self.origin is not None else None,
            failed_of=options.failed_of,
            agent_can_read=self.settings.agent_can_read,
            variants=self._variants(),
        )

    def _variants(self) -> dict[str, VariantOrigin]:
        if not any(scenario.variant for scenario in self.scenarios):
            return {}
        from steadyhand.compose.variants import variant_origins

        return variant_origins(self.scenarios, self.settings.options.margin)

    def _matrices(self) -> tuple[RunMatrix, ...]:
        if not any(scenario.cell for scenario in self.scenarios):
            return ()
        from steadyhand.compose.matrices import run_matrices

        return run_matrices(self.scenarios)

    @property
    def needs_network(self) -> bool:
        return needs_network(self.casts.all(self.scenarios), self.providers)

    def asks_judge(self, scenario: Scenario, check: EvaluationSpec) -> bool:
        """True for a check that only an unloaded plugin could define."""
        cast = self.casts.of(scenario)
        if not cast.registry.has("evaluators", check.type) and cast.plugins.unloaded:
            return True
        return calls_model(check, cast.registry)

    def asks_model(self, scenario: Scenario) -> str:
        """As declared by the scenario's agent; `unknown` also for one that only an unloaded plugin could define."""
        cast = self.casts.of(scenario)
        kind, registry = cast.agent.kind, cast.registry
        return agent_facts(registry.agent(kind) if registry.has("agents", kind) else None).asks_model

    def fingerprints(self, scenarios: Sequence[Scenario] | None = None) -> dict[str, dict[str, str]]:
        """The fingerprint of the trials of each of the run's scenarios, or of these."""
        made = Fingerprints(self.casts, self.redactor)
        return {each.id: made.parts(self.casts.of(each)) for each in scenarios or self.scenarios}

    def cannot_pass(self) -> list[str]:
        """A note for each maximum number of trials that is too low for the test ever to pass."""
        if self.header.until is None:
            return []
        short: dict[str, int] = {}
        for scenario_id, trials in self.planned.per_scenario().items():
            required = required_of(self.header, scenario_id) or 1.0
            needed = fewest_passes(required, self.header.alpha)
            if needed is not None and trials < needed:
                problem = f"--until decided can never say passed with {trials} trials: {percent(required)} at alpha "
                problem += f"{self.header.alpha:g} needs at least {needed}, all passed"
                short[problem] = short.get(problem, 0) + 1
        return [f"{message} ({count} scenarios)" if count > 1 else message for message, count in short.items()]

    def sources(self) -> dict[str, str]:
        """The text of the files that the scenarios and their checks were read from, up to a size limit."""
        places = {scenario.place.file: None for scenario in self.scenarios}
        places.update((spec.place.file, None) for scenario in self.scenarios for spec in evaluation_specs(scenario))
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


def quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop, for timed calls; None if it is not installed."""
    try:
        import uvloop
    except ImportError:
        return None

    class Loop(uvloop.Loop):  # for the clients of others, too
        async def getaddrinfo(self, host: Any, port: Any, **options: int) -> list[Any]:
            return await look_up(host, port, **options)

    return Loop
