"""The services of trials: mocks, actions and what plugins bring, with one sandbox for the scripts of a run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from steadyhand.builtin.plugin import script_sandbox
from steadyhand.errors import FileError
from steadyhand.plugins.registry import Registry
from steadyhand.ports.model import Clock
from steadyhand.ports.services import OfferedDatabase, Services
from steadyhand.records.location import Problem
from steadyhand.records.scenario import Mock, Scenario
from steadyhand.runtime.mocks import MockSource, MockTable
from steadyhand.runtime.runtime import AgentRuntime


class TrialServices:
    """Builds the runtime of each trial. The JavaScript sandbox is one for the run, made when a mock has a script."""

    def __init__(self) -> None:
        self._sandbox = script_sandbox()

    def check(self, scenarios: Sequence[Scenario]) -> None:
        """Raises `FileError` for every script that is not JavaScript."""
        problems: list[Problem] = []
        for scenario in scenarios:
            for mock in scenario.setup.mocks:
                for field, source in _scripts(mock):
                    fault = self._sandbox.check(source)
                    if fault is not None:
                        message = f"`{field}` is not valid JavaScript: {fault}"
                        problems.append(Problem(place=mock.place, message=message, code="bad-script"))
        if problems:
            raise FileError(problems)

    def build(
        self, scenario: Scenario, registry: Registry, *, seed: int, clock: Clock, database: OfferedDatabase | None
    ) -> Services:
        generator = random.Random(seed)  # noqa: S311 - repeatability, not secrecy
        mocks: MockSource | None = None
        if scenario.setup.mocks:
            mocks = MockTable(scenario.setup.mocks, scripts=self._sandbox, random=generator, clock=clock)
        services = registry.services()
        if database is not None:
            services["database"] = database.service()
        return AgentRuntime(mocks=mocks, actions=registry.actions(), services=services)

    def close(self) -> None:
        self._sandbox.close()


def _scripts(mock: Mock) -> Iterator[tuple[str, str]]:
    if mock.when.matcher is not None:
        yield "matcher", mock.when.matcher
    if mock.response_fn is not None:
        yield "responseFn", mock.response_fn
