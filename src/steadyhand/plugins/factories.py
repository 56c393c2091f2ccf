"""How contributed parts are built. A factory is any callable of this shape, a class included."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, Protocol

from steadyhand.ports.agent import Agent, TrialContext
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.model import ChatModel
from steadyhand.records.base import Record
from steadyhand.records.result import ConversationTurn


class ModelSettings(Record):
    """What a model is built from. `name` is what stands after the first `/`."""

    name: str
    folder: Path
    variables: Mapping[str, str] = {}
    timeout_s: float = 60.0
    options: Mapping[str, Any] = {}


class AgentSettings(Record):
    """What an agent is built from. `target` is what stands after the first `:`; `model` the chat model it may use."""

    target: str = ""
    model: Any = None
    folder: Path
    variables: Mapping[str, str] = {}
    options: Mapping[str, Any] = {}


class EnvironmentSettings(Record):
    """What an environment is built from. `root` is the folder that workspaces are made in."""

    root: Path
    trial_id: str
    variables: Mapping[str, str] = {}
    options: Mapping[str, Any] = {}


class ModelFactory(Protocol):
    def __call__(self, settings: ModelSettings) -> ChatModel:
        """Raises `SetupError` when a key, package or file is missing. Opens no connection yet."""
        ...


class AgentFactory(Protocol):
    def __call__(self, settings: AgentSettings) -> Agent: ...


class EnvironmentFactory(Protocol):
    def __call__(self, settings: EnvironmentSettings) -> EnvironmentProvider: ...


class ServiceFactory(Protocol):
    def __call__(self, config: Mapping[str, Any]) -> Any:
        """A service for one trial. If it has `start(trial)` and `stop()`, they are called before its first call and
        at the end of the trial."""
        ...


class Termination(Protocol):
    def __call__(self, turns: tuple[ConversationTurn, ...], trial: TrialContext) -> bool | str | Awaitable[bool | str]:
        """Whether the conversation is over after these turns. A text that is not empty means yes, and says why."""
        ...
