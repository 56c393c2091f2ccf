"""Mocks registered by code, as `register_mock("service.method", function)`. They come before a scenario's own."""

from __future__ import annotations

import inspect

from steadyhand.errors import MockError, PluginError, TrialError
from steadyhand.ports.agent import MockFunction, ServiceFault
from steadyhand.records.location import Place
from steadyhand.runtime.mock_call import MockAnswer, MockCall


class MockRegistry:
    """One per trial."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], MockFunction] = {}

    def register(self, key: str, function: MockFunction) -> None:
        """Answer `service.method` with a function, sync or async; the last one registered counts.

        Raises `PluginError` when the key does not name a service and a method.
        """
        service, _, method = key.rpartition(".")
        if not service or not method:
            raise PluginError(
                f"register_mock got the key {key!r}; expected 'service.method', such as 'github.readFile'"
            )
        self._functions[service, method] = function

    def methods(self) -> list[tuple[str | None, str]]:
        """Every (service, method) registered, in order, in the form of `MockTable.methods`."""
        return list(self._functions)

    def covers(self, service: str, method: str) -> bool:
        return (service, method) in self._functions

    async def answer(self, call: MockCall) -> MockAnswer | None:
        """What the function registered for the method gives, or None when there is none.

        It is called with the arguments and named parameters of the call. A `ServiceFault` it raises is the simulated
        failure; anything else it raises is a `MockError` that names it.
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
