"""What a trial's agent can call: mocks, plugins' services and actions, and the real services behind the mocks."""

from __future__ import annotations

import random
from collections.abc import Sequence

from steadyhand.builtin.plugin import real_service, script_sandbox
from steadyhand.compose.cast import Cast
from steadyhand.compose.settings import Settings
from steadyhand.errors import FileError, SetupError
from steadyhand.ports.model import Clock
from steadyhand.ports.services import OfferedDatabase, ProvidedService, Services
from steadyhand.records.location import Problem
from steadyhand.records.scenario import Scenario
from steadyhand.runtime.mocks import MockSource, MockTable
from steadyhand.runtime.runtime import AgentRuntime


class TrialServices:
    """Builds the runtime of each trial. The JavaScript sandbox is shared by the run, and created when a mock has a
    script."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sandbox = script_sandbox()
        self._real: dict[str, dict[str, ProvidedService]] = {}

    def check(self, scenarios: Sequence[Scenario]) -> None:
        """Raises `FileError` for every script that is not JavaScript."""
        problems: list[Problem] = []
        for scenario in scenarios:
            for mock in scenario.setup.mocks:
                for field, source in (("matcher", mock.when.matcher), ("responseFn", mock.response_fn)):
                    if source is not None and (fault := self._sandbox.check(source)) is not None:
                        message = f"`{field}` is not valid JavaScript: {fault}"
                        problems.append(Problem(place=mock.place, message=message, code="bad-script"))
        if problems:
            raise FileError(problems)

    def prepare(self, cast: Cast) -> None:
        """Find the actions and services of the scenario, without starting any. Raises `SetupError`."""
        scenario, registry = cast.scenario, cast.registry
        registry.actions()
        registry.services()
        if not scenario.setup.services or scenario.id in self._real:
            return
        settings = self._settings
        # The user's keys and variables are never sent to an address that a scenario from outside the project chose.
        own = cast.trusted
        found: dict[str, ProvidedService] = {}
        for service in scenario.setup.services:
            if registry.has("services", service.name):
                raise SetupError(
                    f"{service.place}: a plugin also provides the service {service.name!r}; rename this one"
                )
            try:
                found[service.name] = real_service(
                    service,
                    folder=cast.folder,
                    variables=settings.variables if own else {},
                    options=settings.config.services.get(service.name, {}) if own else {},
                )
            except SetupError as error:
                raise SetupError(f"{service.place}: {error}") from error
        self._real[scenario.id] = found

    def build(self, cast: Cast, *, seed: int, clock: Clock, database: OfferedDatabase | None) -> Services:
        scenario, registry = cast.scenario, cast.registry
        generator = random.Random(seed)  # noqa: S311 - repeatability, not secrecy
        mocks: MockSource | None = None
        if scenario.setup.mocks:
            mocks = MockTable(scenario.setup.mocks, scripts=self._sandbox, random=generator, clock=clock)
        self.prepare(cast)
        services = {**registry.services(), **self._real.get(scenario.id, {})}
        if database is not None:
            services["database"] = database.service()
        return AgentRuntime(mocks=mocks, actions=registry.actions(), services=services)

    def close(self) -> None:
        self._sandbox.close()
