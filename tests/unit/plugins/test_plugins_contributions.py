from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import Action, ActionContext, Plugin, Service, ServiceFault, action
from steadyhand.plugins.registry import Registry
from steadyhand.ports.evaluator import EvaluationParams
from steadyhand.runtime.runtime import AgentRuntime
from support.trial import TrialStandIn


@action(description="Find things.")
async def find(
    query: str, context: ActionContext, limit: Annotated[int, Field(ge=1)] = 5, kind: Literal["a", "b"] = "a"
) -> Any:
    return [query, limit, kind, context.config]


def plain(number: float) -> float:
    """Double it.

    More words.
    """
    return number * 2


class Store:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    def read(self) -> Any:
        return self.config


async def opened(registry: Registry, folder: Path) -> AgentRuntime:
    runtime = AgentRuntime(actions=registry.actions(), services=registry.services())
    await runtime.open(TrialStandIn(folder))
    return runtime


def test_the_schema_comes_from_the_hints():
    assert isinstance(find, Action)
    assert (find.name, find.description) == ("find", "Find things.")
    assert find.parameters["required"] == ["query"]
    assert find.parameters["additionalProperties"] is False
    assert find.parameters["properties"]["limit"] == {"default": 5, "minimum": 1, "title": "Limit", "type": "integer"}
    assert set(find.parameters["properties"]) == {"query", "limit", "kind"}


async def test_actions_of_a_plugin_get_its_config_and_the_name_it_gives_them(tmp_path: Path):
    plugin = Plugin(name="p", actions={"search": find, "double": plain}, config={"k": 1})
    registry = Registry([plugin])
    actions = registry.actions()
    assert (actions["search"].name, actions["search"].plugin) == ("search", "p")
    assert actions["double"].description == "Double it."
    runtime = await opened(registry, tmp_path)
    assert await runtime.perform("search", {"query": "x", "kind": "b"}) == ["x", 5, "b", {"k": 1}]
    assert await runtime.perform("double", {"number": 2.5}) == 5.0
    with pytest.raises(ServiceFault, match="bad arguments: limit"):
        await runtime.perform("search", {"query": "x", "limit": 0})


@pytest.mark.parametrize(
    "function",
    [lambda a: a, lambda *a: a, 3, "steadyhand.plugins.plugin:nothing"],
)
def test_what_cannot_be_an_action(function: Any):
    with pytest.raises(SetupError, match="'p'"):
        Registry([Plugin(name="p", actions={"x": function})]).actions()


async def test_services_are_factories_objects_or_described(tmp_path: Path):
    shared = Store({"shared": True})
    plugin = Plugin(
        name="p",
        config={"k": 1},
        services={
            "made": Store,
            "function": lambda config: Store({**config, "more": 2}),
            "shared": shared,
            "told": Service(factory=Store, tools=True),
        },
    )
    runtime = await opened(Registry([plugin]), tmp_path)
    assert await runtime.get_service("made").read() == {"k": 1}
    assert await runtime.get_service("function").read() == {"k": 1, "more": 2}
    assert await runtime.get_service("shared").read() is shared.config
    assert [(item.service, item.method) for item in await runtime.offered()] == [("told", "read")]


def test_a_shared_object_may_not_want_to_be_started():
    class Started(Store):
        async def start(self, trial: Any) -> None: ...

    with pytest.raises(SetupError, match="each trial gets its own"):
        Registry([Plugin(name="p", services={"s": Started({})})]).services()


def test_a_registry_is_extended_without_changing_it():
    base = Registry([Plugin(name="base", terminations={"a": max}, evaluators={"e": Checks})])
    checks = base.evaluator("e")
    wider = base.extended([Plugin(name="mine", terminations={"b": min}, actions={"find": find})])
    assert wider.termination("b") is min
    assert wider.termination("a") is max
    assert wider.evaluator("e") is checks
    assert list(wider.actions()) == ["find"]
    assert base.names("terminations") == ["a"]
    assert base.actions() == {}
    with pytest.raises(SetupError, match="plugins 'base' and 'mine' both provide the termination condition 'a'"):
        base.extended([Plugin(name="mine", terminations={"a": min})])
    with pytest.raises(SetupError, match=r"unknown termination condition 'bb'; did you mean 'b'\? \(known: a, b\)"):
        wider.termination("bb")


def test_a_plugin_whose_name_is_not_text():
    with pytest.raises(SetupError, match="`name` of a plugin is 5; expected a text"):
        Registry([Plugin(name=5)])  # type: ignore[arg-type]


def test_a_plugin_whose_parts_are_not_a_mapping():
    with pytest.raises(SetupError, match="`actions` must map names to parts, but is a list"):
        Registry([Plugin(name="p", actions=[find])])  # type: ignore[arg-type]


class Checks:
    params = EvaluationParams
