"""Builds the parts of a trial from a scenario and settings."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from steadyhand.builtin.plugin import make_database
from steadyhand.compose.isolation import RunIsolation
from steadyhand.compose.models import DEFAULT_KIND, Judges, Models, Tape, build_gate, providers_of
from steadyhand.compose.scenarios import (
    ScenarioRegistries,
    needs_agent,
    needs_services,
    needs_user,
    offers_tools,
    termination_functions,
)
from steadyhand.compose.services import TrialServices
from steadyhand.compose.settings import Settings, part_options
from steadyhand.engine.context import PreparedCheck, PreparedStep, ScoreRubric, TrialParts
from steadyhand.engine.limits import LagMonitor, SpendingLimit, SystemClock
from steadyhand.engine.model_call import RetryPolicy
from steadyhand.errors import SetupError
from steadyhand.judging.cost import Prices
from steadyhand.language.thoughts import Marks, marks_of
from steadyhand.plugins.plugin import (
    AgentFactory,
    AgentSettings,
    EnvironmentFactory,
    EnvironmentSettings,
    RunScope,
    UserSettings,
)
from steadyhand.plugins.registry import Registry, build_part, declared_by
from steadyhand.ports.agent import (
    Agent,
    Gateway,
    Judge,
    SeesOneFolder,
    Shows,
    UserSimulator,
    agent_facts,
    user_needs_model,
    warm_up,
)
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.model import ChatModel, Gate
from steadyhand.ports.observer import EventSink
from steadyhand.ports.services import OfferedDatabase
from steadyhand.records.run import PlannedTrial, TrialRecord
from steadyhand.records.scenario import Converse, Scenario, evaluation_specs

if TYPE_CHECKING:
    from steadyhand.gateway.server import GatewayServer


class _Shared(NamedTuple):
    """What all trials of a scenario have in common."""

    registry: Registry
    judge: Judge | None
    model_name: str | None
    score_rubric: ScoreRubric | None
    retry: RetryPolicy
    needs_services: bool
    missing_plugins: tuple[str, ...]
    doubts: Mapping[int, str]
    needs_user: bool
    thoughts: Marks | None


def no_doubts(scenario: Scenario, judges: Judges) -> Mapping[int, str]:
    """Every judge may decide."""
    return {}


class RunParts(NamedTuple):
    """What all trials of a run share. `doubts` lists the checks that the judge may not decide, and why."""

    registries: ScenarioRegistries
    settings: Settings
    workspaces: Path
    lag: LagMonitor
    gate: Gate
    tape: Tape
    budget: SpendingLimit
    doubts: Callable[[Scenario, Judges], Mapping[int, str]] = no_doubts


class Builder:
    """Builds trials. Models, judges and the script sandbox are shared by a run; everything else is built for each
    trial."""

    def __init__(self, parts: RunParts) -> None:
        settings, registries = parts.settings, parts.registries
        self._registries = registries
        self._settings = settings
        self._workspaces = parts.workspaces
        self._lag = parts.lag
        self._gate = parts.gate
        self._budget = parts.budget
        self._sinks: tuple[EventSink, ...] = (parts.budget,) if parts.budget.limited else ()
        self._models = Models(registries, settings, parts.tape)
        self._judges = Judges(self._models, settings, registries)
        self._doubts = parts.doubts
        self._services: TrialServices | None = None
        self._notes: dict[str, tuple[str, ...]] = {}
        self.notices: dict[str, None] = {}
        """Notes about the whole run to show before it starts, each once."""
        self.out_of_reach: Counter[str] = Counter()
        """What scenarios set up that their agents cannot reach, with the number of scenarios affected."""
        self._warm: set[int] = set()
        self._checks: dict[int, PreparedCheck] = {}
        self._steps: dict[int, PreparedStep] = {}
        # A run id and a counter make workspace names unique; system randomness is slow.
        self._mark: str = secrets.token_hex(4)
        self._count = itertools.count()
        self._clock = SystemClock()
        # By scenario, because a run builds thousands of trials of the same one.
        self._shared: dict[str, _Shared] = {}
        self._tested: dict[str, ChatModel | None] = {}
        self._agents: dict[str, tuple[AgentFactory, AgentSettings]] = {}
        self._isolation = RunIsolation(settings, parts.workspaces)
        self._scope = RunScope(concurrency=settings.concurrency, workspaces=parts.workspaces, isolation=self._isolation)
        self._gateway: GatewayServer | None = None
        self._environments: dict[str, tuple[EnvironmentFactory, EnvironmentSettings]] = {}

    def prepare(self, scenarios: Sequence[Scenario]) -> None:
        """Build once what every trial will need, so that a missing key, package or file is found before anything runs.

        Raises `UsageError`.
        """
        self._isolation.scenarios = scenarios
        if any(map(self._reaches_services, scenarios)):
            self._services = TrialServices(self._settings)
            self._services.check(scenarios)
        # An import in the middle of a run blocks the event loop and disturbs timed calls.
        if any(isinstance(step.task, Converse) for scenario in scenarios for step in scenario.steps):
            importlib.import_module("steadyhand.engine.conversation")
        for scenario in scenarios:
            try:
                self._prepare(scenario)
            except SetupError as error:
                if scenario.cell is None:
                    raise
                raise SetupError(f"{scenario.cell.file}: {scenario.id}: {error}") from error
        for variable in self._settings.plain_keys(self._models.names):
            self.notices[
                f"{variable} is too short or too plain to be told from ordinary text, so it is not masked in records"
            ] = None
        self._budget.check(self._models.names)
        if note := self._isolation.note:
            self.notices[note] = None

    def prepare_judging(self, scenarios: Sequence[Scenario]) -> None:
        """The same for trials that are only judged again: no agent, user or environment is built.

        Raises `UsageError`.
        """
        for scenario in scenarios:
            self._notes[scenario.id] = tuple(self._notes_on_judge(scenario))
            self._prepare_judge(scenario)
            for spec in evaluation_specs(scenario):
                self._registries.registry(scenario).evaluator(spec.type)
        self._budget.check(self._models.names)

    def build(self, planned: PlannedTrial) -> TrialParts:
        scenario = planned.scenario
        settings = self._settings
        shared = self._shared.get(scenario.id)
        if shared is None:
            shared = self._shared[scenario.id] = self._share(scenario)
        registry = shared.registry
        clock = self._clock
        agent = self._agent(scenario)
        root = agent.reserve_workspaces() if isinstance(agent, SeesOneFolder) else None
        environment = self._environment(scenario, f"{planned.key.index}-{self._mark}-{next(self._count)}", root)
        database = self._database(scenario, environment)
        services = None
        if self._services is not None and shared.needs_services:
            services = self._services.build(scenario, registry, seed=planned.mock_seed, clock=clock, database=database)
        return TrialParts(
            scenario=scenario,
            key=planned.key,
            environment=environment,
            database=database,
            evaluator=registry.evaluator,
            checks=self._checks,
            steps=self._steps,
            doubts=shared.doubts,
            termination=registry.termination,
            user=self._user(scenario) if shared.needs_user else None,
            agent=agent,
            judge=shared.judge,
            services=services,
            gateway=self._trial_gateway(scenario),
            model_name=shared.model_name,
            seed=planned.seed,
            score_rubric=shared.score_rubric,
            enforce_deadline=settings.options.enforce_deadline,
            judge_timeline=settings.options.judge_timeline,
            live=settings.options.live,
            clock=clock,
            lag=self._lag,
            gate=self._gate,
            retry=shared.retry,
            sinks=self._sinks,
            notes=self._notes.get(scenario.id, ()),
            missing_plugins=shared.missing_plugins,
            thoughts=shared.thoughts,
        )

    def build_stored(self, scenario: Scenario, stored: TrialRecord) -> TrialParts:
        """The parts that judge a stored trial of the scenario."""
        return msgspec.structs.replace(
            stored_parts(scenario, stored, self._registries.registry(scenario)),
            checks=self._checks,
            steps=self._steps,
            doubts=self._doubts(scenario, self._judges),
            judge=self._judge(scenario),
            score_rubric=self._judges.rubric_scorer(scenario),
            lag=self._lag,
            gate=self._gate,
            retry=RetryPolicy(retries=self._settings.retries, patience_s=self._settings.wait_limit_s),
            sinks=self._sinks,
            notes=self._notes.get(scenario.id, ()),
            thoughts=marks_of(self._settings.reasoning_tags(scenario)),
        )

    @property
    def late(self) -> Mapping[str, int]:
        """The number of requests that reached the gateway after their trial had ended, by trial."""
        return {} if self._gateway is None else self._gateway.late

    async def close(self) -> list[str]:
        """Close everything, and report what could not be closed."""
        if self._services is not None:
            self._services.close()
        await self._scope.close()
        self._isolation.close()
        if self._gateway is not None:
            await self._gateway.close()
        return await self._models.close()

    def _prepare(self, scenario: Scenario) -> None:
        warnings = [*self._registries.warnings(scenario), *self._notes_on_judge(scenario)]
        agent = self._agent(scenario)
        if agent is not None:
            self._note_isolation(agent)
            name, shows = declared_by(agent)
            unreached = _out_of_reach(scenario, name, shows, live=self._settings.options.live)
            self.out_of_reach.update(unreached)
            warnings += unreached
        self._notes[scenario.id] = tuple(warnings)
        self._prepare_judge(scenario)
        self._user(scenario)
        if self._services is not None:
            self._services.prepare(scenario, self._registries.registry(scenario))
        self._database(scenario, self._environment(scenario, "prepare"))
        for name in termination_functions(scenario):
            self._registries.registry(scenario).termination(name)
        for spec in evaluation_specs(scenario):
            self._registries.registry(scenario).evaluator(spec.type)

    def _note_isolation(self, agent: Agent) -> None:
        """Raises `SetupError` if the user asked for what this agent cannot have."""
        if agent_facts(agent).isolation != "none" or self._isolation.note or self._settings.isolation == "none":
            return
        reason = f"{agent.name} runs in this process, and could read what it is judged by"
        if self._settings.isolation != "auto":
            raise SetupError(f"--isolation {self._settings.isolation}: {reason}")
        self.notices[f"isolation: none: {reason}"] = None

    def _notes_on_judge(self, scenario: Scenario) -> list[str]:
        overrides = self._judges.overrides(scenario)
        unasked = self._judges.unasked(scenario)
        self.notices.update(dict.fromkeys([*overrides, unasked] if unasked else overrides))
        return [*self._judges.warnings(scenario), *overrides]

    def _prepare_judge(self, scenario: Scenario) -> None:
        judge = self._judge(scenario)
        if judge is not None:
            self._doubts(scenario, self._judges)
        if self._judges.rubric_scorer(scenario) is not None:
            judge = self._judges.get(scenario)
        if judge is not None and id(judge) not in self._warm:
            self._warm.add(id(judge))
            warm_up(judge)

    def _judge(self, scenario: Scenario) -> Judge | None:
        return self._judges.get(scenario) if self._judges.needed(scenario) else None

    def _share(self, scenario: Scenario) -> _Shared:
        model = self._model(scenario)
        return _Shared(
            registry=self._registries.registry(scenario),
            judge=self._judge(scenario),
            model_name=model.name if model else None,
            score_rubric=self._judges.rubric_scorer(scenario),
            retry=RetryPolicy(retries=self._settings.retries, patience_s=self._settings.wait_limit_s),
            needs_services=self._reaches_services(scenario),
            missing_plugins=self._missing_plugins(scenario),
            doubts=self._doubts(scenario, self._judges),
            needs_user=needs_user(scenario),
            thoughts=marks_of(self._settings.reasoning_tags(scenario)),
        )

    def _missing_plugins(self, scenario: Scenario) -> tuple[str, ...]:
        missing = self._registries.missing(scenario)
        agent = self._agent(scenario) if missing else None
        return missing if agent is not None and agent_facts(agent).uses_plugins else ()

    def _environment(self, scenario: Scenario, trial_id: str, root: Path | None = None) -> EnvironmentProvider:
        known = self._environments.get(scenario.id)
        if known is None:
            known = self._environments[scenario.id] = self._environment_parts(scenario)
        settings = msgspec.structs.replace(known[1], trial_id=trial_id, root=root or known[1].root)
        return build_part(known[0], settings, "the environment", EnvironmentProvider)

    def _environment_parts(self, scenario: Scenario) -> tuple[EnvironmentFactory, EnvironmentSettings]:
        """Raises `SetupError` if --sandbox is set and commands would not be isolated from this machine."""
        type_ = self._settings.environment(scenario)
        factory = self._registries.registry(scenario).environment(type_)
        table = self._settings.config.environments.get(type_, {})
        settings = EnvironmentSettings(
            root=self._workspaces,
            trial_id="",
            variables=self._settings.variables,
            options=part_options(factory, table, {"sandbox": True} if self._settings.sandbox else {}),
            isolation=self._isolation,
        )
        made = (
            build_part(factory, settings, f"environment {type_}", EnvironmentProvider)
            if self._settings.sandbox
            else None
        )
        if made is not None and not made.sandboxed:
            raise SetupError(f"--sandbox: the environment {type_!r} does not isolate commands from this machine")
        return factory, settings

    def _database(self, scenario: Scenario, environment: EnvironmentProvider) -> OfferedDatabase | None:
        seed = scenario.setup.database
        if seed is None:
            return None
        folder = Path(scenario.place.file).absolute().parent
        return make_database(seed, environment=environment, folder=folder, live=self._settings.options.live)

    def _user(self, scenario: Scenario) -> UserSimulator | None:
        """Who plays the user: the configured model, else the model under test. Without either, None, unless this kind
        of user needs no model."""
        if not needs_user(scenario):
            return None
        config = self._settings.config
        kind = config.user_kind or DEFAULT_KIND
        factory = self._registries.registry(scenario).user(kind)
        ref = self._settings.user_model(scenario)
        if ref is not None:
            self._models.get(ref, scenario)
        elif user_needs_model(factory):
            return None
        choose = self._models.chooser(ref, scenario, fixed=self._settings.options.user_model is not None)
        settings = UserSettings(choose=choose, options=config.users.get(kind, {}))
        return build_part(factory, settings, f"simulated user {kind}", UserSimulator)

    def _agent(self, scenario: Scenario) -> Agent | None:
        known = self._agents.get(scenario.id)
        if known is None:
            if not needs_agent(scenario):
                return None
            kind, _, target = self._settings.agent(scenario).partition(":")
            factory = self._registries.registry(scenario).agent(kind)
            chosen = self._settings.agent_is_scenarios(scenario)
            # The user's keys and headers are never sent to an address that a scenario from outside the project chose.
            own = not chosen or self._settings.project.trusts_scenario(scenario)
            table = self._settings.config.agents.get(kind, {}) if own else {}
            variable = agent_facts(factory).key_variable
            if chosen and variable in self._settings.variables and "api_key_env" not in table:
                self.notices[_withheld(variable, kind)] = None
            settings = AgentSettings(
                target=target,
                model=self._model(scenario),
                folder=self._settings.agent_folder(scenario),
                variables=self._settings.variables if own else {},
                options=part_options(factory, table, self._agent_flags()),
                run=self._scope,
                default_key=not chosen,
                gateway=self._open_gateway(scenario, factory, traced="traces" in table),
            )
            known = self._agents[scenario.id] = (factory, settings)
        return build_part(*known, "the agent", Agent)

    def _agent_flags(self) -> dict[str, Any]:
        flags: dict[str, Any] = {"allow_commands": True} if self._settings.allow_commands else {}
        if self._settings.options.in_process:
            flags["in_process"] = True
        if self._settings.options.timeout_s is not None:
            flags["timeout_s"] = self._settings.options.timeout_s
        return flags

    def _model(self, scenario: Scenario) -> ChatModel | None:
        """The model under test; None if the scenario uses none or none is configured."""
        if scenario.id not in self._tested:
            ref = self._settings.model(scenario) if needs_agent(scenario) else None
            self._tested[scenario.id] = self._models.get(ref, scenario) if ref else None
        return self._tested[scenario.id]

    def _open_gateway(self, scenario: Scenario, factory: AgentFactory, *, traced: bool) -> GatewayServer | None:
        """The gateway of the run, if an agent of this scenario needs it: for a model, services, or spans."""
        port = self._settings.options.otlp_port
        sends = traced or port is not None
        served = sends or self._model(scenario) is not None or self._reaches_services(scenario)
        if not agent_facts(factory).uses_gateway or not served:
            return None
        if self._gateway is None:
            from steadyhand.gateway.run import run_gateway  # a decision scenario does not need it

            self._gateway = run_gateway(otlp_port=port)
        if offers_tools(scenario, self._registries.registry(scenario)):
            from steadyhand.gateway.mcp_mount import import_mcp_server

            import_mcp_server()
        return self._gateway

    def _reaches_services(self, scenario: Scenario) -> bool:
        return needs_services(scenario, self._registries.registry(scenario))

    def _trial_gateway(self, scenario: Scenario) -> Gateway | None:
        known = self._agents.get(scenario.id)
        if self._gateway is None or known is None or known[1].gateway is None:
            return None
        from steadyhand.gateway.server import TrialGateway

        return TrialGateway(self._gateway, known[1].model)


def stored_parts(scenario: Scenario, stored: TrialRecord, registry: Registry) -> TrialParts:
    """The parts that look at a stored trial again, without a judge."""
    from steadyhand.engine.stored_trial import StoredAgent, StoredEnvironment

    return TrialParts(
        scenario=scenario,
        key=stored.key,
        environment=StoredEnvironment(),
        evaluator=registry.evaluator,
        agent=StoredAgent(stored.agent, stored.shows) if stored.shows is not None else None,
        model_name=stored.model,
        seed=stored.seed,
        missing_plugins=stored.missing_plugins,
    )


class Judging(NamedTuple):
    """What judges stored trials, outside a run."""

    builder: Builder
    prices: Prices
    tape: Tape


@contextlib.asynccontextmanager
async def judging(
    scenarios: Sequence[Scenario], settings: Settings, registries: ScenarioRegistries
) -> AsyncGenerator[Judging]:
    """The judge of these scenarios, ready to be asked. Raises `UsageError`."""
    providers = providers_of(scenarios, settings, registries)
    free = tuple(sorted(name for name, facts in providers.items() if facts.free))
    prices = Prices(dict(settings.config.prices), elsewhere=settings.own_servers(providers), free=free)
    tape = Tape(settings.options, settings.redactor())
    with LagMonitor() as lag:
        parts = RunParts(
            registries=registries,
            settings=settings,
            workspaces=Path(),
            lag=lag,
            gate=build_gate(providers, settings, lambda message: None),
            tape=tape,
            budget=SpendingLimit(prices, max_cost=settings.options.max_cost, max_tokens=settings.options.max_tokens),
        )
        builder = Builder(parts)
        try:
            builder.prepare_judging(scenarios)
            yield Judging(builder, prices, tape)
        finally:
            await builder.close()
            tape.close()


def _withheld(variable: str, kind: str) -> str:
    return (
        f"{variable} is not sent to a URL that a scenario chose; to send it, give the agent with --agent or as `agent` "
        f"in the configuration ({kind}:URL)"
    )


def _out_of_reach(scenario: Scenario, agent: str, shows: Shows, *, live: bool) -> list[str]:
    """Notes on what the scenario sets up for an agent that cannot reach it."""
    setup = scenario.setup
    found = [
        (bool(setup.mocks) and not live, shows.services, "mocks do", "service calls"),
        (bool(setup.services), shows.services, "`services` do", "service calls"),
        (bool(setup.virtual_fs), shows.files, "`virtual_fs` does", "files"),
        (setup.database is not None and not live, shows.database, "database does", "the database"),
    ]
    return [
        f"the scenario's {what} not reach the agent {agent}: checks on {checks} are inconclusive"
        for set_up, sight, what, checks in found
        if set_up and sight == "not_seen"
    ]
