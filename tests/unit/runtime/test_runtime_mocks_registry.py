"""Mocks registered by code."""

from typing import Any

import pytest

from steadyhand.errors import LimitExceeded, MockError, PluginError
from steadyhand.ports.services import ServiceFault
from steadyhand.runtime.mocks import MockCall, MockRegistry


def call(*args: Any, **named: Any) -> MockCall:
    return MockCall(service="git.hub", method="read", args=list(args), input=named)


async def test_a_function_answers_with_what_it_returns() -> None:
    registry = MockRegistry()
    registry.register("git.hub.read", lambda path, ref="main": f"{path}@{ref}")
    answer = await registry.answer(call("a.txt", ref="dev"))
    assert answer is not None
    assert answer.value == "a.txt@dev"
    assert str(answer.place) == "register_mock('git.hub.read')"


async def test_a_coroutine_function_is_awaited() -> None:
    async def read(path: str) -> None:
        assert path == "a.txt"

    registry = MockRegistry()
    registry.register("git.hub.read", read)
    answer = await registry.answer(call("a.txt"))
    assert answer is not None
    assert answer.value is None


async def test_what_is_not_registered_is_not_answered() -> None:
    registry = MockRegistry()
    registry.register("git.hub.write", lambda: 1)
    assert await registry.answer(call()) is None
    assert registry.methods() == [("git.hub", "write")]
    assert registry.covers("git.hub", "write")
    assert not registry.covers("git.hub", "read")


async def test_the_last_one_registered_counts() -> None:
    registry = MockRegistry()
    registry.register("git.hub.read", lambda: 1)
    registry.register("git.hub.read", lambda: 2)
    answer = await registry.answer(call())
    assert answer is not None
    assert answer.value == 2


def raising(error: Exception) -> MockRegistry:
    def read() -> None:
        raise error

    registry = MockRegistry()
    registry.register("git.hub.read", read)
    return registry


async def test_a_service_fault_is_the_simulated_failure() -> None:
    with pytest.raises(ServiceFault, match="gone") as caught:
        await raising(ServiceFault("gone", status=404)).answer(call())
    assert caught.value.status == 404
    assert caught.value.mock is not None


async def test_anything_else_it_raises_names_the_mock() -> None:
    with pytest.raises(MockError, match=r"mock of git\.hub\.read raised KeyError: 'x'; .*raise ServiceFault"):
        await raising(KeyError("x")).answer(call())


async def test_arguments_it_does_not_take_are_an_error_of_the_mock() -> None:
    registry = MockRegistry()
    registry.register("git.hub.read", lambda: 1)
    with pytest.raises(MockError, match="raised TypeError"):
        await registry.answer(call("surplus"))


async def test_an_error_of_the_trial_stays_what_it_is() -> None:
    with pytest.raises(LimitExceeded):
        await raising(LimitExceeded("tokens", used=2, allowed=1)).answer(call())


@pytest.mark.parametrize("key", ["", "read", ".read", "github."])
def test_a_key_names_a_service_and_a_method(key: str) -> None:
    with pytest.raises(PluginError, match=r"expected 'service\.method'"):
        MockRegistry().register(key, lambda: 1)
