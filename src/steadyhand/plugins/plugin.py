"""The extension points: what a plugin can provide.

Built-in parts use the same record as third-party ones. A part is the object itself or, to keep start-up fast, the
string `package.module:name`, which is imported on first use.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from steadyhand.errors import SetupError
from steadyhand.ports.agent import Agent, Judge, ReusableAddresses, TrialContext, UserSimulator
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.isolation import Isolation, NoIsolation
from steadyhand.ports.model import ChatModel
from steadyhand.ports.services import Action, ActionContext, ProvidedService, ServiceFault
from steadyhand.records.base import Record
from steadyhand.records.result import ConversationTurn
from steadyhand.spec.validation import Findings, Unlocated, validate

if TYPE_CHECKING:
    from steadyhand.ports.evaluator import AnyEvaluator


class Plugin(Record):
    """Each mapping goes from the name a user writes to the part that answers to it.

    evaluators    `type` of an evaluation     -> a class that implements `AnyEvaluator`
    models        provider, before the `/`    -> a `ModelFactory`: a class that takes `ModelSettings`
    agents        agent kind, before the `:`  -> an `AgentFactory`, from `AgentSettings`
    environments  `environment.type`          -> an `EnvironmentFactory`, from `EnvironmentSettings`
    judges        `judge_kind` of the config  -> a `JudgeFactory`, from `JudgeSettings`
    users         `user_kind` of the config   -> a `UserFactory`, from `UserSettings`
    actions       what the agent can do       -> an `Action`, or a function made one by `action`
    services      name for `get_service`      -> a `ServiceFactory`, an object, or a `Service`
    terminations  a `custom_condition`        -> a `Termination`

    `version` is compared with the scenario's `version`; left out, an installed plugin has its package's version.
    `config` is what the scenario or the configuration sets for it, and `origin` the object that it was created from;
    both are filled in when it is resolved.
    """

    name: str
    version: str = "0"
    evaluators: Mapping[str, Callable[[], AnyEvaluator] | str] = {}
    models: Mapping[str, ModelFactory | str] = {}
    agents: Mapping[str, AgentFactory | str] = {}
    environments: Mapping[str, EnvironmentFactory | str] = {}
    judges: Mapping[str, JudgeFactory | str] = {}
    users: Mapping[str, UserFactory | str] = {}
    actions: Mapping[str, Action | Callable[..., Any] | str] = {}
    services: Mapping[str, Any] = {}
    terminations: Mapping[str, Termination | str] = {}
    config: Mapping[str, Any] = {}
    origin: str = ""


class PluginFactory:
    """A function from a plugin's `config` to the plugin, declared as such with `plugin_factory`."""

    def __init__(self, make: Callable[[dict[str, Any]], Plugin]) -> None:
        self._make: Callable[[dict[str, Any]], Plugin] = make

    def __call__(self, config: dict[str, Any]) -> Plugin:
        return self._make(config)


def plugin_factory(make: Callable[[dict[str, Any]], Plugin]) -> PluginFactory:
    """Decorate a function that takes the plugin's `config` and returns the `Plugin`.

    A file can name any function that Python can import; only those declared here are called.
    """
    return PluginFactory(make)


class Service(Record):
    """A service with options.

    With `tools`, the built-in agent may call its public methods directly; without, only actions and agents that request
    the service can.
    """

    factory: Any
    tools: bool = False


class Options(BaseModel):
    """Base class for the options that a part takes from `[providers.NAME]`, `[agents.KIND]` and so on.

    A factory declares its subclass as the attribute `options`; one that declares none takes none. Types are strict and
    unknown keys are refused. An option that a command-line flag sets too (`sandbox`, `allow_commands`, `timeout_s`)
    reaches every part whose options have a field of that name.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True
    )


OptionsT = TypeVar("OptionsT", bound=Options)


def options_of(factory: object) -> type[Options] | None:
    """The options that the factory declares. Raises `SetupError` if that is not a shape of options."""
    declared: object = getattr(factory, "options", None)
    if declared is None or (inspect.isclass(declared) and issubclass(declared, BaseModel)):
        return cast("type[Options] | None", declared)
    raise SetupError(f"`options` of {factory!r} is {declared!r}; expected a subclass of Options")


def read_options(shape: type[OptionsT], given: Mapping[str, Any], owner: str) -> OptionsT:
    """`given` as the part's own options. Raises `SetupError`, which begins with `owner`, for a wrong or unknown one."""
    findings = Findings(Unlocated())
    found = validate(shape, dict(given), (), findings)
    if found is None:
        raise SetupError("; ".join(f"{owner}: option {each.place.path}: {each.message}" for each in findings.problems))
    return found


class ModelSettings(Record):
    """What a model is built from. `name` is the part after the first `/`, `provider` the part before it."""

    name: str
    folder: Path
    provider: str = ""
    variables: Mapping[str, str] = {}
    timeout_s: float = 60.0
    options: Mapping[str, Any] = {}


class EndsWithRun(Protocol):
    async def close(self) -> None: ...


K = TypeVar("K", bound=EndsWithRun)


class RunScope:
    """What the agents of one run share, such as a pool: created on first use, closed at the end of the run.

    `workspaces` is the folder for workspaces, if there is one; `isolation` is for processes that agents start.
    """

    def __init__(self, *, concurrency: int, workspaces: Path | None = None, isolation: Isolation | None = None) -> None:
        self.concurrency: int = concurrency
        self.isolation: Isolation = isolation or NoIsolation()
        self.workspaces: Path | None = workspaces
        self._made: dict[type[Any], EndsWithRun] = {}

    def get(self, kind: type[K], make: Callable[[RunScope], K]) -> K:
        """The shared instance for this key."""
        found = self._made.get(kind)
        if found is None:
            found = self._made[kind] = make(self)
        return cast("K", found)

    async def close(self) -> None:
        while self._made:
            await self._made.popitem()[1].close()


class AgentSettings(Record):
    """What an agent is built from. `target` is the part after the first `:`; `model` is the chat model it may use.

    `run` is shared with the agents of the other trials; None outside a run. `default_key` is whether the general key
    for agents of this kind may be sent to the target: false if a scenario chose the target. `gateway` provides
    addresses for an agent that declares `uses_gateway`; None if there is no gateway.
    """

    target: str = ""
    model: ChatModel | None = None
    folder: Path
    variables: Mapping[str, str] = {}
    options: Mapping[str, Any] = {}
    run: Any = None
    default_key: bool = True
    gateway: ReusableAddresses | None = None


class EnvironmentSettings(Record):
    """What an environment is built from. `root` is the folder for workspaces; `isolation` is for commands on this
    machine."""

    root: Path
    trial_id: str
    variables: Mapping[str, str] = {}
    options: Mapping[str, Any] = {}
    isolation: Isolation = NoIsolation()


class JudgeSettings(Record):
    """What a judge is built from.

    `choose` maps a check's `model_type`, None for the default, to the model to ask; it raises `SetupError`. `name` is
    the default model's name, `tested` the name of the model under test, and `votes` the number of times to ask each
    question.
    """

    choose: Callable[[str | None], ChatModel]
    name: str
    tested: str | None = None
    votes: int = 1
    options: Mapping[str, Any] = {}


class UserSettings(Record):
    """What a simulated user is built from. `choose` is as in `JudgeSettings`; it raises where there is no model."""

    choose: Callable[[str | None], ChatModel]
    options: Mapping[str, Any] = {}


class ModelFactory(Protocol):
    """Usually the model's class. It declares what `ports.model.ModelFacts` lists, and its `options`."""

    def __call__(self, settings: ModelSettings) -> ChatModel:
        """Raises `SetupError` when a key, package or file is missing. Opens no connection yet."""
        ...


class AgentFactory(Protocol):
    """Usually the agent's class. It declares `uses_network` where our event loop talks to the agent, and `options`."""

    def __call__(self, settings: AgentSettings) -> Agent: ...


class EnvironmentFactory(Protocol):
    def __call__(self, settings: EnvironmentSettings) -> EnvironmentProvider: ...


class JudgeFactory(Protocol):
    def __call__(self, settings: JudgeSettings) -> Judge: ...


class UserFactory(Protocol):
    """Usually the simulated user's class. It declares `options`, and `needs_model = False` if it needs none."""

    def __call__(self, settings: UserSettings) -> UserSimulator: ...


class ServiceFactory(Protocol):
    def __call__(self, config: Mapping[str, Any]) -> Any:
        """A service for one trial. If it has `start(trial)` and `stop()`, they are called before its first call and
        at the end of the trial."""
        ...


class Termination(Protocol):
    def __call__(self, turns: tuple[ConversationTurn, ...], trial: TrialContext) -> bool | str | Awaitable[bool | str]:
        """Whether the conversation is over after these turns. A non-empty string means yes, and is the reason."""
        ...


__all__ = ["Action", "ActionContext", "ServiceFault", "action", "make_action"]


def action(*, description: str | None = None, name: str | None = None) -> Callable[[Callable[..., Any]], Action]:
    """Decorate a function to make it an `Action`, with the function's name unless `name` is given.

    Its parameters, with their type hints and defaults, are the action's; one annotated with `ActionContext` gets the
    context. The description defaults to the first paragraph of the docstring. Raises `TypeError` for `*args`,
    `**kwargs`, positional-only parameters and parameters without a hint.
    """

    def decorate(function: Callable[..., Any]) -> Action:
        return make_action(function, name=name or function.__name__, description=description)

    return decorate


def make_action(function: Callable[..., Any], *, name: str, description: str | None = None) -> Action:
    """The `Action` for a function."""
    model, context_name = _parameters(function, name)
    described = description if description is not None else (inspect.getdoc(function) or "").split("\n\n")[0]
    schema = model.model_json_schema()
    schema.pop("title", None)

    def arguments(params: dict[str, Any], context: ActionContext) -> dict[str, Any]:
        try:
            given = model.model_validate(params)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ServiceFault(f"bad arguments: {where}: {first['msg']}", code="BAD_ARGUMENTS") from None
        values: dict[str, Any] = {field: getattr(given, field) for field in type(given).model_fields}
        if context_name is not None:
            values[context_name] = context
        return values

    async def run_async(params: dict[str, Any], context: ActionContext) -> Any:
        return await function(**arguments(params, context))

    def run_sync(params: dict[str, Any], context: ActionContext) -> Any:
        return function(**arguments(params, context))

    handler = run_async if inspect.iscoroutinefunction(function) else run_sync
    return Action(name=name, description=described, parameters=schema, handler=handler)


def _parameters(function: Callable[..., Any], name: str) -> tuple[type[BaseModel], str | None]:
    """A model of the parameters, and the name of the one that takes the context."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context_name: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"action {name!r}: parameter {parameter.name!r} must be one that can be passed by name")
        if parameter.name not in hints:
            raise TypeError(f"action {name!r}: parameter {parameter.name!r} needs a type hint")
        if hints[parameter.name] is ActionContext:
            context_name = parameter.name
            continue
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields), context_name


def provided_service(name: str, part: Any, plugin: Plugin) -> ProvidedService:
    """A factory is called with the plugin's `config`; any other object is the service itself, shared by all trials.

    Raises `SetupError` for a shared object with `start` or `stop`, because trials run concurrently.
    """
    tools = False
    if isinstance(part, Service):
        part, tools = part.factory, part.tools
    if part is None:
        raise SetupError(f"plugin {plugin.name!r}: service {name!r} is None")
    if inspect.isclass(part) or inspect.isroutine(part) or isinstance(part, functools.partial):
        build = functools.partial(cast("Callable[..., Any]", part), plugin.config)
        return ProvidedService(build=build, plugin=plugin.name, tools=tools)
    if hasattr(part, "start") or hasattr(part, "stop"):
        raise SetupError(
            f"plugin {plugin.name!r}: service {name!r} has `start` or `stop`, but is shared by all trials; "
            "give a class, or a function that takes the configuration, so that each trial gets its own"
        )
    return ProvidedService(build=lambda: part, plugin=plugin.name, tools=tools)
