"""The mocks of a scenario: which one answers a call, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import random as random_module
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, cast

from steadyhand.errors import MockError, PluginError, TrialError
from steadyhand.ports.model import Clock
from steadyhand.ports.services import MockFunction, ScriptSandbox, ServiceFault
from steadyhand.records.base import Record
from steadyhand.records.location import Place
from steadyhand.records.scenario import Mock, MockWhen
from steadyhand.runtime.faults import FAILURES, SLOW_S, faulty
from steadyhand.runtime.values import as_list, includes, same


class MockCall(Record):
    """One call of a service's method: positional `args`, named parameters as `input`, and the trial's `context`.

    Agents differ in whether they pass one object as named parameters or as the only argument; mocks treat both alike.
    """

    service: str
    method: str
    args: list[Any] = []
    input: dict[str, Any] = {}
    context: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return f"{self.service}.{self.method}"

    @property
    def named(self) -> Mapping[str, Any]:
        """The named parameters, or the only argument if it is an object."""
        if not self.input and len(self.args) == 1 and isinstance(self.args[0], Mapping):
            return cast("Mapping[str, Any]", self.args[0])
        return self.input

    @property
    def positional(self) -> list[Any]:
        """The positional arguments, or the named parameters as the only one."""
        return [self.input] if self.input and not self.args else self.args


class MockAnswer(Record):
    """What a mock returned, and which mock it was."""

    value: Any
    place: Place


_WEIGHTS = {"args": 10, "input": 8, "context": 6, "matcher": 4, "partial_args": 2}


def precedence(when: MockWhen) -> int:
    """How specific the mock is: the sum over its conditions, 0 if it has none."""
    return sum(weight for field, weight in _WEIGHTS.items() if getattr(when, field) is not None)


def holds(when: MockWhen, call: MockCall) -> bool:
    """Whether every condition except the matcher holds."""
    begin = when.partial_args
    return (
        (when.args is None or _args_match(when.args, call))
        and (when.input is None or includes(call.named, when.input))
        and (when.context is None or includes(call.context, when.context))
        and (begin is None or (len(call.positional) >= len(begin) and all(map(includes, call.positional, begin))))
    )


def _args_match(expected: list[Any], call: MockCall) -> bool:
    """Whether the whole list matches or, if every element is a list, any one of them."""
    choices: list[Any] = [expected]
    if expected and all(as_list(element) is not None for element in expected):
        choices.extend(expected)
    return any(same(given, choice) for choice in choices for given in (call.args, call.positional))


class _Choice(Record):
    """The mock that answers, and what was already drawn for it at random."""

    mock: Mock
    fails: bool
    seed: int


class MockTable:
    """One per trial. The same mocks, generator state and calls in the same order give the same answers."""

    def __init__(
        self, mocks: Sequence[Mock], *, scripts: ScriptSandbox, random: random_module.Random, clock: Clock
    ) -> None:
        self._in_file_order: tuple[Mock, ...] = tuple(mocks)
        # The sort is stable, so the first match in file order wins among equals.
        self._by_precedence: list[Mock] = sorted(mocks, key=lambda mock: -precedence(mock.when))
        self._scripts: ScriptSandbox = scripts
        self._random: random_module.Random = random
        # A new generator seeded from the state of another, without advancing it.
        twin = random_module.Random()  # noqa: S311 - repeatable on purpose
        twin.setstate(random.getstate())
        self._script_random: random_module.Random = random_module.Random(f"scripts of mocks: {twin.getrandbits(64)}")  # noqa: S311
        self._clock: Clock = clock
        self._choosing: asyncio.Lock = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._failed: MockError | None = None

    def methods(self) -> list[tuple[str | None, str]]:
        """Every mocked (service, method) once, in file order; a service of None means every service."""
        return list(dict.fromkeys((mock.service, mock.method) for mock in self._in_file_order))

    def covers(self, service: str, method: str) -> bool:
        """Whether any mock covers this method, whatever its conditions."""
        return any(_is_about(mock, service, method) for mock in self._in_file_order)

    async def settle(self) -> MockError | None:
        """Wait for scripts whose caller was cancelled. Returns the first failure, or None."""
        for task in list(self._running):
            with contextlib.suppress(MockError):
                await asyncio.shield(task)
        return self._failed

    async def answer(self, call: MockCall) -> MockAnswer | None:
        """The answer of the mock that matches, or None if none does and the real service has to answer.

        Raises `ServiceFault` for a simulated failure, and `MockError` if a mock's JavaScript fails.
        """
        # Choose one at a time, first come first served, so that random draws do not depend on how long matchers take.
        async with self._choosing:
            choice = await self._choose(call)
        if choice is None:
            return None
        mock = choice.mock
        if mock.delay_ms > 0 or mock.fault == "slow":
            await self._clock.sleep(mock.delay_ms / 1000 + (SLOW_S if mock.fault == "slow" else 0.0))
        if mock.fault is not None and mock.fault in FAILURES:
            told, code, status = FAILURES[mock.fault]
            raise ServiceFault(f"{call.name} {told}", code=code, status=status, mock=mock.place)
        if choice.fails:
            raise _fault(mock, call)
        if mock.response_fn is None:
            value = copy.deepcopy(mock.response)
        else:
            script = self._scripts.call(mock.response_fn, _variables(call), seed=choice.seed)
            value = await self._to_its_end(mock, call, "responseFn", script)
        return MockAnswer(value=value if mock.fault is None else faulty(mock.fault, value), place=mock.place)

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
        # Truth as in JavaScript: an empty list or object is true.
        value = await self._to_its_end(mock, call, "matcher", script)
        return value is not None and value is not False and value != "" and (isinstance(value, bool) or value != 0)

    async def _to_its_end(self, mock: Mock, call: MockCall, field: str, script: Coroutine[Any, Any, Any]) -> Any:
        """The result of the script. It keeps running if the caller is cancelled: an agent that gives up on a hanging
        mock must not hide that the mock is broken."""

        async def run() -> Any:
            try:
                return await script
            except MockError as error:
                failure = _with_mock_named(mock, call, field, error)
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


def _variables(call: MockCall) -> dict[str, Any]:
    return {"args": call.positional, "input": dict(call.named), "context": call.context}


def _fault(mock: Mock, call: MockCall) -> ServiceFault:
    if mock.error is None:
        return ServiceFault(f"{call.name} failed (simulated)", code="MOCK_FAILURE", mock=mock.place)
    message = mock.error.message or f"{call.name} failed" + (f" with {mock.error.code}" if mock.error.code else "")
    return ServiceFault(message, code=mock.error.code, status=mock.error.status, mock=mock.place)


def _with_mock_named(mock: Mock, call: MockCall, field: str, error: MockError) -> MockError:
    return MockError(
        f"{mock.place}: the {field} of the mock of {mock.service or '*'}.{mock.method}, called as {call.name}: {error}"
    )


class MockRegistry:
    """One per trial."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], MockFunction] = {}

    def register(self, key: str, function: MockFunction) -> None:
        """Answer `service.method` with a function, sync or async. A later registration replaces an earlier one.

        Raises `PluginError` unless the key names a service and a method.
        """
        service, _, method = key.rpartition(".")
        if not service or not method:
            raise PluginError(
                f"register_mock got the key {key!r}; expected 'service.method', such as 'github.readFile'"
            )
        self._functions[service, method] = function

    def methods(self) -> list[tuple[str | None, str]]:
        """Every registered (service, method), in order, as in `MockTable.methods`."""
        return list(self._functions)

    def covers(self, service: str, method: str) -> bool:
        return (service, method) in self._functions

    async def answer(self, call: MockCall) -> MockAnswer | None:
        """The result of the function registered for the method, or None if there is none.

        The function gets the arguments and named parameters of the call. It may raise `ServiceFault` to simulate a
        failure; anything else it raises becomes a `MockError` that names it.
        """
        function = self._functions.get((call.service, call.method))
        if function is None:
            return None
        place = Place(file=f"register_mock({call.name!r})")
        try:
            value = function(*call.args, **call.input)
            if inspect.isawaitable(value):
                value = await value
        except ServiceFault as fault:
            fault.mock = fault.mock or place
            raise
        except TrialError:
            raise
        except Exception as error:
            raise MockError(
                f"the function registered as mock of {call.name} raised {type(error).__name__}: {error}; "
                "to simulate a failure of the service, raise ServiceFault"
            ) from error
        return MockAnswer(value=value, place=place)


class MockSource(Protocol):
    """The scenario's mocks."""

    async def answer(self, call: MockCall) -> MockAnswer | None:
        """The answer of the mock that matches best, or None. Raises `ServiceFault` for a simulated failure, and
        `MockError` if a mock's JavaScript fails."""
        ...

    def methods(self) -> Sequence[tuple[str | None, str]]:
        """The mocked methods as (service, method); no service means every service."""
        ...

    def covers(self, service: str, method: str) -> bool:
        """Whether any mock may answer this method."""
        ...

    async def settle(self) -> MockError | None:
        """Wait for JavaScript whose caller was cancelled. Returns the first failure, or None."""
        ...


class NoMocks:
    async def answer(self, call: MockCall) -> MockAnswer | None:
        return None

    def methods(self) -> Sequence[tuple[str | None, str]]:
        return ()

    def covers(self, service: str, method: str) -> bool:
        return False

    async def settle(self) -> MockError | None:
        return None
