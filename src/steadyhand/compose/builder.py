"""Builds the parts of a trial from the cast of its scenario."""

from __future__ import annotations

import importlib
import itertools
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from steadyhand.builtin.plugin import make_database
from steadyhand.compose.cast import Cast, Casts, needs_agent, needs_user, termination_functions
from steadyhand.compose.isolation import RunIsolation, check_files_apart, sandbox_for
from steadyhand.compose.models import DEFAULT_KIND, Judges, Models, Tape, is_fixed
from steadyhand.compose.services import TrialServices
from steadyhand.engine.context import ScoreRubric, TrialParts
from steadyhand.engine.limits import LagMonitor, SpendingLimit, SystemClock
from steadyhand.engine.model_call import RetryPolicy
from steadyhand.engine.prepared_check import PreparedCheck, PreparedStep, prepared_check
from steadyhand.errors import SetupError
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
    Shows,
    UserSimulator,
    agent_facts,
    reserve_workspaces,
    user_needs_model,
    warm_up,
)
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.model import ChatModel, Gate
from steadyhand.ports.observer import EventSink
from steadyhand.ports.services import OfferedDatabase, ScriptSandbox
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.run import PlannedTrial, TrialRecord
from steadyhand.records.scenario import Converse, Scenario, leaf_specs

if TYPE_CHECKING:
    from steadyhand.gateway.server import GatewayServer


class _Judging(NamedTuple):
    """What judges all trials of a scenario. `doubts` lists the checks that its judge may not decide, and why."""

    judge: Judge | None
    embedders: Mapping[str, ChatModel]
    score_rubric: ScoreRubric | None
    doubts: Mapping[int, str]
    thoughts: Marks | None


class _Shared(NamedTuple):
    """What else they have in common."""

    cast: Cast
    judging: _Judging
    agent: tuple[AgentFactory, AgentSettings] | None
    environment: tuple[EnvironmentFactory, EnvironmentSettings]
    model_name: str | None
    missing_plugins: tuple[str, ...]
    has_user: bool
    reaches_services: bool


def no_doubts(cast: Cast, judges: Judges) -> Mapping[int, str]:
    """Every judge may decide."""
    return {}


class RunParts(NamedTuple):
    """What all trials of a run share. `doubts` lists the checks that the judge may not decide, and why."""

    casts: Casts
    workspaces: Path
    lag: LagMonitor
    gate: Gate
    tape: Tape
    budget: SpendingLimit
    doubts: Callable[[Cast, Judges], Mapping[int, str]] = no_doubts


class Builder:
    """Builds trials. Models, judges and the script sandbox are shared by a run; everything else is built for each
    trial."""

    def __init__(self, parts: RunParts) -> None:
        settings = parts.casts.settings
        self._casts = parts.casts
        self._settings = settings
        self._workspaces = parts.workspaces
        self._lag = parts.lag
        self._gate = parts.gate
        self._budget = parts.budget
        self._sinks: tuple[EventSink, ...] = (parts.budget,) if parts.budget.limited else ()
        self._retry = RetryPolicy(retries=settings.retries, patience_s=settings.wait_limit_s)
        self._models = Models(settings, parts.tape)
        self._judges = Judges(self._models, parts.casts)
        self._doubts = parts.doubts
        self._services: TrialServices | None = None
        self._scripts: ScriptSandbox | None = None
        self._notes: dict[str, tuple[str, ...]] = {}
        self.notices: dict[str, None] = {}
        """Notes about the whole run to show before it starts, each once."""
        self._out_of_reach: Counter[str] = Counter()
        self._warm: set[int] = set()
        self._checks: dict[int, PreparedCheck] = {}
        self._steps: dict[int, PreparedStep] = {}
        # A run id and a counter make workspace names unique; system randomness is slow.
        self._mark: str = secrets.token_hex(4)
        self._count = itertools.count()
        self._clock = SystemClock()
        # By scenario, because a run builds thousands of trials of the same one.
        self._shared: dict[str, _Shared] = {}
        self._judging: dict[str, _Judging] = {}
        self._isolation = RunIsolation(settings, parts.workspaces)
        self._scope = RunScope(concurrency=settings.concurrency, workspaces=parts.workspaces, isolation=self._isolation)
        self._gateway: GatewayServer | None = None

    def prepare(self, scenarios: Sequence[Scenario], *, runs_agents: bool = True) -> None:
        """Build once what every trial will need, so that a missing key, package or file is found before anything runs.
        Agents and the gateway are left out if other processes will have them. Raises `UsageError`.
        """
        casts = self._isolation.casts = self._casts.all(scenarios)
        if any(cast.reaches_services for cast in casts):
            self._services = TrialServices(self._settings)
            self._services.check(scenarios)
        check_files_apart(casts)
        self._scripts = sandbox_for((cast.scenario, cast.registry) for cast in casts)
        # An import in the middle of a run blocks the event loop and disturbs timed calls.
        if any(isinstance(step.task, Converse) for scenario in scenarios for step in scenario.steps):
            importlib.import_module("steadyhand.engine.conversation")
        if any(mock.fault for scenario in scenarios for mock in scenario.setup.mocks):
            importlib.import_module("steadyhand.judging.fault")
        if any(self._reads_refusals(cast) for cast in casts):
            importlib.import_module("steadyhand.language.refusal")
        for cast in casts:
            try:
                self._prepare(cast, runs_agents=runs_agents)
            except SetupError as error:
                cell = cast.scenario.cell
                if cell is None:
                    raise
                raise SetupError(f"{cell.file}: {cast.scenario.id}: {error}") from error
        for variable in self._settings.plain_keys(self._models.names):
            self.notices[
                f"{variable} is too short or too plain to be told from ordinary text, so it is not masked in records"
            ] = None
        self._budget.check(self._models.names)
        if note := self._isolation.note:
            self.notices[note] = None

    def prepare_judging(self, scenarios: Iterable[Scenario]) -> None:
        """The same for trials that are only judged again: no agent, user or environment is built.

        Raises `UsageError`.
        """
        casts = self._casts.all(scenarios)
        self._scripts = sandbox_for((cast.scenario, cast.registry) for cast in casts)
        for cast in casts:
            self._notes[cast.scenario.id] = tuple(self._notes_on_judge(cast))
            self._prepare_judge(cast)
            for spec in leaf_specs(cast.scenario):
                cast.registry.evaluator(spec.type)
        self._budget.check(self._models.names)

    def out_of_reach(self) -> list[str]:
        """What scenarios set up that their agents cannot reach, with the number of scenarios affected."""
        counts = self._out_of_reach.items()
        return [f"{message} ({count} scenarios)" if count > 1 else message for message, count in counts]

    def build(self, planned: PlannedTrial) -> TrialParts:
        scenario = planned.scenario
        options = self._settings.options
        shared = self._shared.get(scenario.id)
        if shared is None:
            shared = self._share(self._casts.of(scenario))
        clock = self._clock
        agent = _built(shared.agent)
        root = reserve_workspaces(agent)
        environment = _environment(shared, f"{planned.key.index}-{self._mark}-{next(self._count)}", root)
        database = self._database(shared.cast, environment)
        services = None
        if self._services is not None and shared.reaches_services:
            services = self._services.build(shared.cast, seed=planned.mock_seed, clock=clock, database=database)
        judging = shared.judging
        return TrialParts(
            scenario=scenario,
            key=planned.key,
            environment=environment,
            database=database,
            evaluator=shared.cast.registry.evaluator,
            checks=self._checks,
            steps=self._steps,
            doubts=judging.doubts,
            termination=shared.cast.registry.termination,
            user=self._user(shared.cast) if shared.has_user else None,
            agent=agent,
            judge=judging.judge,
            embedders=judging.embedders,
            services=services,
            gateway=self._trial_gateway(shared.agent),
            model_name=shared.model_name,
            seed=planned.seed,
            score_rubric=judging.score_rubric,
            enforce_deadline=options.enforce_deadline,
            judge_timeline=options.judge_timeline,
            live=options.live,
            clock=clock,
            lag=self._lag,
            gate=self._gate,
            retry=self._retry,
            sinks=self._sinks,
            scripts=self._scripts,
            price_of=self._budget.price_of,
            notes=self._notes.get(scenario.id, ()),
            missing_plugins=shared.missing_plugins,
            thoughts=judging.thoughts,
        )

    def build_stored(self, scenario: Scenario, stored: TrialRecord) -> TrialParts:
        """The parts that judge a stored trial of the scenario."""
        cast = self._casts.of(scenario)
        judging = self._judged_by(cast)
        return msgspec.structs.replace(
            stored_parts(scenario, stored, cast.registry),
            checks=self._checks,
            steps=self._steps,
            doubts=judging.doubts,
            judge=judging.judge,
            embedders=judging.embedders,
            score_rubric=judging.score_rubric,
            lag=self._lag,
            gate=self._gate,
            retry=self._retry,
            sinks=self._sinks,
            scripts=self._scripts,
            price_of=self._budget.price_of,
            notes=self._notes.get(scenario.id, ()),
            thoughts=judging.thoughts,
        )

    @property
    def late(self) -> Mapping[str, int]:
        """The number of requests that reached the gateway after their trial had ended, by trial."""
        return {} if self._gateway is None else self._gateway.late

    async def close(self) -> list[str]:
        """Close everything, and report what could not be closed."""
        if self._services is not None:
            self._services.close()
        if self._scripts is not None:
            self._scripts.close()
        await self._scope.close()
        self._isolation.close()
        if self._gateway is not None:
            await self._gateway.close()
        return await self._models.close()

    def _reads_refusals(self, cast: Cast) -> bool:
        """Whether an answer may have to be read for a refusal. What reads it is slow to import."""
        if cast.scenario.expects == "defer":
            return False

        def prepared(spec: EvaluationSpec) -> PreparedCheck:
            return prepared_check(spec, self._checks, cast.registry.evaluator)

        steps = (self._steps.setdefault(id(step), PreparedStep(step, prepared)) for step in cast.scenario.steps)
        return any(step.reads_refusals(prepared) for step in steps)

    def _prepare(self, cast: Cast, *, runs_agents: bool) -> None:
        scenario = cast.scenario
        warnings = [*cast.plugins.warnings, *self._notes_on_judge(cast)]
        shared = self._share(cast, runs_agents=runs_agents)
        agent = _built(shared.agent)
        if agent is not None:
            self._note_isolation(agent)
            name, shows = declared_by(agent)
            unreached = _out_of_reach(scenario, name, shows, live=self._settings.options.live)
            self._out_of_reach.update(unreached)
            warnings += unreached
        self._notes[scenario.id] = tuple(warnings)
        self._prepare_judge(cast)
        if shared.has_user:
            self._user(cast)
        if self._services is not None:
            self._services.prepare(cast)
        self._database(cast, _environment(shared, "prepare"))
        for name in termination_functions(scenario):
            cast.registry.termination(name)
        for spec in leaf_specs(scenario):
            cast.registry.evaluator(spec.type)

    def _share(self, cast: Cast, *, runs_agents: bool = True) -> _Shared:
        model = None if cast.tested is None else self._models.get(cast.tested, cast)
        agent = self._agent(cast, model) if runs_agents and needs_agent(cast.scenario) else None
        missing = cast.plugins.missing
        shared = self._shared[cast.scenario.id] = _Shared(
            cast=cast,
            judging=self._judged_by(cast),
            agent=agent,
            environment=self._environment_parts(cast),
            model_name=model.name if model is not None else None,
            missing_plugins=missing if missing and agent and agent_facts(_built(agent)).uses_plugins else (),
            has_user=needs_user(cast.scenario),
            reaches_services=cast.reaches_services,
        )
        return shared

    def _note_isolation(self, agent: Agent) -> None:
        """Raises `SetupError` if the user asked for what this agent cannot have."""
        if agent_facts(agent).isolation != "none" or self._isolation.note or self._settings.isolation == "none":
            return
        reason = f"{agent.name} runs in this process, and could read what it is judged by"
        if self._settings.isolation != "auto":
            raise SetupError(f"--isolation {self._settings.isolation}: {reason}")
        self.notices[f"isolation: none: {reason}"] = None

    def _notes_on_judge(self, cast: Cast) -> list[str]:
        overrides = self._judges.overrides(cast)
        unasked = self._judges.unasked(cast)
        self.notices.update(dict.fromkeys([*overrides, unasked] if unasked else overrides))
        return [*self._judges.warnings(cast), *overrides]

    def _prepare_judge(self, cast: Cast) -> None:
        judging = self._judged_by(cast)
        judge = judging.judge if judging.score_rubric is None else self._judges.get(cast)
        if judge is not None and id(judge) not in self._warm:
            self._warm.add(id(judge))
            warm_up(judge)

    def _judged_by(self, cast: Cast) -> _Judging:
        found = self._judging.get(cast.scenario.id)
        if found is None:
            found = self._judging[cast.scenario.id] = _Judging(
                judge=self._judges.get(cast) if self._judges.needed(cast) else None,
                embedders=self._models.embedders(cast),
                score_rubric=self._judges.rubric_scorer(cast),
                doubts=self._doubts(cast, self._judges),
                thoughts=marks_of(cast.reasoning_tags),
            )
        return found

    def _environment_parts(self, cast: Cast) -> tuple[EnvironmentFactory, EnvironmentSettings]:
        """Raises `SetupError` if --sandbox is set and commands would not be isolated from this machine."""
        type_ = cast.environment.value
        factory = cast.registry.environment(type_)
        settings = EnvironmentSettings(
            root=self._workspaces,
            trial_id="",
            variables=self._settings.variables,
            options=self._settings.environment_options(type_, factory),
            isolation=self._isolation,
        )
        if self._settings.sandbox:
            made = build_part(factory, settings, f"environment {type_}", EnvironmentProvider)
            if not made.sandboxed:
                raise SetupError(f"--sandbox: the environment {type_!r} does not isolate commands from this machine")
        return factory, settings

    def _database(self, cast: Cast, environment: EnvironmentProvider) -> OfferedDatabase | None:
        seed = cast.scenario.setup.database
        if seed is None:
            return None
        return make_database(seed, environment=environment, folder=cast.folder, live=self._settings.options.live)

    def _user(self, cast: Cast) -> UserSimulator | None:
        """Who plays the user: the configured model, else the model under test. Without either, None, unless this kind
        of user needs no model."""
        config = self._settings.config
        kind = config.user_kind or DEFAULT_KIND
        factory = cast.registry.user(kind)
        if cast.plays_user is not None:
            self._models.get(cast.plays_user, cast)
        elif user_needs_model(factory):
            return None
        choose = self._models.chooser(cast.plays_user, cast, fixed=is_fixed(cast.user))
        settings = UserSettings(choose=choose, options=config.users.get(kind, {}))
        return build_part(factory, settings, f"simulated user {kind}", UserSimulator)

    def _agent(self, cast: Cast, model: ChatModel | None) -> tuple[AgentFactory, AgentSettings]:
        kind, _, target = cast.agent.value.partition(":")
        factory = cast.registry.agent(kind)
        chosen = cast.agent.is_authors
        # The user's keys and headers are never sent to an address that a scenario from outside the project chose.
        own = not chosen or cast.trusted
        table = self._settings.config.agents.get(kind, {}) if own else {}
        variable = agent_facts(factory).key_variable
        if chosen and variable in self._settings.variables and "api_key_env" not in table:
            self.notices[
                f"{variable} is not sent to a URL that a scenario chose; to send it, give the agent with --agent or as "
                f"`agent` in the configuration ({kind}:URL)"
            ] = None
        return factory, AgentSettings(
            target=target,
            model=model,
            folder=cast.agent.folder,
            variables=self._settings.variables if own else {},
            options=self._settings.agent_options(factory, table),
            run=self._scope,
            default_key=not chosen,
            gateway=self._open_gateway(cast, factory, served=model is not None or "traces" in table),
        )

    def _open_gateway(self, cast: Cast, factory: AgentFactory, *, served: bool) -> GatewayServer | None:
        """The gateway of the run, if an agent of this scenario needs it: for a model, services, or spans."""
        port = self._settings.options.otlp_port
        if not agent_facts(factory).uses_gateway or not (served or port is not None or cast.reaches_services):
            return None
        if self._gateway is None:
            from steadyhand.gateway.run import run_gateway  # a decision scenario does not need it

            self._gateway = run_gateway(otlp_port=port)
        return self._gateway

    def _trial_gateway(self, agent: tuple[AgentFactory, AgentSettings] | None) -> Gateway | None:
        if self._gateway is None or agent is None or agent[1].gateway is None:
            return None
        from steadyhand.gateway.server import TrialGateway

        return TrialGateway(self._gateway, agent[1].model)


def _built(agent: tuple[AgentFactory, AgentSettings] | None) -> Agent | None:
    return None if agent is None else build_part(*agent, "the agent", Agent)


def _environment(shared: _Shared, trial_id: str, root: Path | None = None) -> EnvironmentProvider:
    factory, known = shared.environment
    settings = msgspec.structs.replace(known, trial_id=trial_id, root=root or known.root)
    return build_part(factory, settings, "the environment", EnvironmentProvider)


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
        runs_files=False,
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
