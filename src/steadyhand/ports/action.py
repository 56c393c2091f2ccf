"""An action: something an agent can do, brought by a plugin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from steadyhand.records.base import Record

if TYPE_CHECKING:
    from steadyhand.ports.agent import TrialContext
    from steadyhand.ports.services import Services


class ActionContext:
    """What an action may use: the trial it runs in, its services, and its plugin's `config`."""

    def __init__(self, *, trial: TrialContext, services: Services, config: Mapping[str, Any]) -> None:
        self.trial: TrialContext = trial
        self.config: Mapping[str, Any] = config
        self._services: Services = services

    def get_service(self, name: str) -> Any:
        """An object whose methods are the service's, as coroutines; mocked or real, every call an event."""
        return self._services.get_service(name)


ActionHandler = Callable[[dict[str, Any], ActionContext], Any | Awaitable[Any]]


class Action(Record):
    """`parameters` is a JSON Schema of an object, empty for any object; what an agent sends is checked against it
    before `handler` runs.

    The handler, a coroutine or a plain function (run in a thread), answers with something that JSON can hold. To
    refuse, it raises `ports.services.ServiceFault`, which the agent gets to read; anything else it raises is the
    plugin's fault and ends the trial as an error. `plugin` and `config` are filled in by the registry.
    """

    name: str
    handler: ActionHandler
    description: str = ""
    parameters: dict[str, Any] = {}
    plugin: str = ""
    config: Mapping[str, Any] = {}
