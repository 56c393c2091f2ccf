"""The standalone gateway, for trying out agents: one trial that lasts until the user ends it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from steadyhand.compose.cast import DEFAULT_ENVIRONMENT, Cast, Casts
from steadyhand.compose.models import Models, Tape
from steadyhand.compose.run import Run
from steadyhand.compose.scenarios import open_registries
from steadyhand.compose.services import TrialServices
from steadyhand.compose.settings import Settings
from steadyhand.engine.context import RunningTrial, TrialParts
from steadyhand.engine.limits import SystemClock
from steadyhand.engine.model_call import RetryPolicy
from steadyhand.engine.stored_trial import StoredEnvironment
from steadyhand.errors import SetupError
from steadyhand.gateway.run import run_gateway
from steadyhand.gateway.server import TrialGateway
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.ports.agent import Addresses
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.model import ChatModel
from steadyhand.ports.observer import EventSink
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.location import Place
from steadyhand.records.run import TrialKey
from steadyhand.records.scenario import Scenario


class ManualTrial:
    """What the standalone gateway serves: a scenario's mocks, and a model."""

    def __init__(self, file: Path | None, options: RunOptions) -> None:
        """Raises `UsageError` for an invalid file, or a model that cannot be built."""
        if file is None:
            self.settings: Settings = Settings(options)
            scenario = Scenario(
                id="gateway", name="Gateway", description="", place=Place(file="gateway"), digest="", steps=()
            )
            cast = Casts(self.settings, open_registries(self.settings)).of(scenario)
        else:
            run = Run(Selection(paths=(str(file),)), options)
            if len(run.scenarios) != 1:
                raise SetupError(f"{file} has {len(run.scenarios)} scenarios; the gateway serves the mocks of one")
            self.settings, cast = run.settings, run.casts.of(run.scenarios[0])
        self.scenario: Scenario = cast.scenario
        self._cast: Cast = cast
        self._tape = Tape(options, self.settings.redactor([self.scenario]))
        self._models = Models(self.settings, self._tape)
        self.model: ChatModel | None = None if cast.model is None else self._models.get(cast.model, cast)
        self._services = TrialServices(self.settings)
        self._services.check([self.scenario])
        self._services.prepare(cast)

    def _environment(self) -> EnvironmentProvider:
        """A workspace only for the programs of real services; nothing else here uses one."""
        if not self.scenario.setup.services:
            return StoredEnvironment()
        factory = self._cast.registry.environment(DEFAULT_ENVIRONMENT)
        root = Path(tempfile.mkdtemp(prefix="steadyhand-gateway-"))
        return factory(EnvironmentSettings(root=root, trial_id="gateway", variables=self.settings.variables))

    @asynccontextmanager
    async def served(self, port: int, sinks: Sequence[EventSink]) -> AsyncGenerator[Addresses]:
        """Serve until the context is left. Raises `SetupError` if the port is in use."""
        clock = SystemClock()
        services = self._services.build(self._cast, seed=0, clock=clock, database=None)
        environment = self._environment()
        server = run_gateway(port)
        gateway = TrialGateway(server, self.model)
        trial = RunningTrial(
            TrialParts(
                scenario=self.scenario,
                key=TrialKey(scenario_id=self.scenario.id),
                environment=environment,
                evaluator=self._cast.registry.evaluator,
                services=services,
                gateway=gateway,
                clock=clock,
                live=self.settings.options.live,
                retry=RetryPolicy(retries=self.settings.retries, patience_s=self.settings.wait_limit_s),
                sinks=sinks,
            )
        )
        try:
            await environment.setup([])
            await services.open(trial)
            yield await gateway.open(trial)
        finally:
            await server.close()
            await services.close()
            await environment.teardown()
            self._services.close()
            await self._models.close()
            self._tape.close()
