"""The mocks of a scenario: which one answers a call, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random as random_module
from collections.abc import Coroutine, Sequence
from typing import Any

from steadyhand.errors import MockError
from steadyhand.ports.agent import ScriptSandbox, ServiceFault
from steadyhand.ports.model import Clock
from steadyhand.records.base import Record
from steadyhand.records.scenario import Mock
from steadyhand.runtime.mock_call import MockAnswer, MockCall
from steadyhand.runtime.mock_matching import holds, precedence

__all__ = ["MockAnswer", "MockCall", "MockTable"]


class _Choice(Record):
    """The mock that answers, with what chance has already decided about it."""

    mock: Mock
    fails: bool
    seed: int


class MockTable:
    """One per trial. The same mocks, generator state and calls in the same order give the same answers."""

    def __init__(
        self, mocks: Sequence[Mock], *, scripts: ScriptSandbox, random: random_module.Random, clock: Clock
    ) -> None:
        self._in_file_order: tuple[Mock, ...] = tuple(mocks)
        # A stable sort keeps file order among equals, so the first that matches is the one that wins.
        self._by_precedence: list[Mock] = sorted(mocks, key=lambda mock: -precedence(mock.when))
        self._scripts: ScriptSandbox = scripts
        self._random: random_module.Random = random
        self._script_random: random_module.Random = _apart_from(random)
        self._clock: Clock = clock
        self._choosing: asyncio.Lock = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._failed: MockError | None = None

    def methods(self) -> list[tuple[str | None, str]]:
        """Every (service, method) that is mocked, in file order, once; a service of None means every service."""
        return list(dict.fromkeys((mock.service, mock.method) for mock in self._in_file_order))

    def covers(self, service: str, method: str) -> bool:
        """Whether some mock is about this method, whatever its conditions."""
        return any(_is_about(mock, service, method) for mock in self._in_file_order)

    async def settle(self) -> MockError | None:
        """Wait for scripts whose caller gave up on them, as long as they may run. The first that failed, or None."""
        for task in list(self._running):
            with contextlib.suppress(MockError):
                await asyncio.shield(task)
        return self._failed

    async def answer(self, call: MockCall) -> MockAnswer | None:
        """What the mocks answer, or None when none matches and the real service is to be asked.

        Raises `ServiceFault` for a failure that a mock simulates, `MockError` when a mock's JavaScript fails.
        """
        # One choice at a time, first come first served, or chance would depend on how long a matcher takes.
        async with self._choosing:
            choice = await self._choose(call)
        if choice is None:
            return None
        mock = choice.mock
        if mock.delay_ms > 0:
            await self._clock.sleep(mock.delay_ms / 1000)
        if choice.fails:
            raise _fault(mock, call)
        if mock.response_fn is None:
            return MockAnswer(value=copy.deepcopy(mock.response), place=mock.place)
        script = self._scripts.call(mock.response_fn, _variables(call), seed=choice.seed)
        value = await self._to_its_end(mock, call, "responseFn", script)
        return MockAnswer(value=value, place=mock.place)

    async def _choose(self, call: MockCall) -> _Choice | None:
        for mock in self._by_precedence:
            if not (_is_about(mock, call.service, call.method) and holds(mock.when, call)):
                continue
            if mock.when.matcher is not None and not await self._matcher_holds(mock, mock.when.matcher, call):
                continue
            return _Choice(mock=mock, fails=self._fails(mock), seed=self._script_random.getrandbits(32))
        return None

    async def _matcher_holds(self, mock: Mock, matcher: str, call: MockCall) -> bool:
        seed = self._script_random.getrandbits(32)
        script = self._scripts.evaluate(matcher, _variables(call), seed=seed)
        return _truthy(await self._to_its_end(mock, call, "matcher", script))

    async def _to_its_end(self, mock: Mock, call: MockCall, field: str, script: Coroutine[Any, Any, Any]) -> Any:
        """What the script gives. It goes on when the caller is cancelled: an agent that gives up on a mock which
        never answers must not hide that the mock is broken."""

        async def run() -> Any:
            try:
                return await script
            except MockError as error:
                failure = _named(mock, call, field, error)
                self._failed = self._failed or failure
                raise failure from error

        task = asyncio.create_task(run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    def _fails(self, mock: Mock) -> bool:
        if mock.probability is None:
            return mock.error is not None
        return self._random.random() < mock.probability


def _is_about(mock: Mock, service: str, method: str) -> bool:
    return mock.method == method and mock.service in (None, service)


def _apart_from(random: random_module.Random) -> random_module.Random:
    """A generator that follows from the state of the other and draws nothing from it."""
    twin = random_module.Random()  # noqa: S311 - repeatable on purpose
    twin.setstate(random.getstate())
    return random_module.Random(f"scripts of mocks: {twin.getrandbits(64)}")  # noqa: S311


def _variables(call: MockCall) -> dict[str, Any]:
    return {"args": call.positional, "input": dict(call.named), "context": call.context}


def _truthy(value: Any) -> bool:
    """As JavaScript has it: an empty list or object is true."""
    return value is not None and value is not False and value != "" and (isinstance(value, bool) or value != 0)


def _fault(mock: Mock, call: MockCall) -> ServiceFault:
    if mock.error is None:
        return ServiceFault(f"{call.name} failed (simulated)", code="MOCK_FAILURE", mock=mock.place)
    message = mock.error.message or f"{call.name} failed" + (f" with {mock.error.code}" if mock.error.code else "")
    return ServiceFault(message, code=mock.error.code, status=mock.error.status, mock=mock.place)


def _named(mock: Mock, call: MockCall, field: str, error: MockError) -> MockError:
    return MockError(
        f"{mock.place}: the {field} of the mock of {mock.service or '*'}.{mock.method}, called as {call.name}: {error}"
    )
