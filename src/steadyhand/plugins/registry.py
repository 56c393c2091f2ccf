"""The parts a run can use, by name, and plugins that are installed packages.

Built per run and passed in; nothing here is global.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

import msgspec

from steadyhand.errors import SetupError, SteadyhandError
from steadyhand.plugins.plugin import (
    AgentFactory,
    EnvironmentFactory,
    JudgeFactory,
    ModelFactory,
    Plugin,
    Termination,
    UserFactory,
    make_action,
    provided_service,
)
from steadyhand.ports.agent import Agent, shows_of
from steadyhand.ports.evaluator import AnyEvaluator, EvaluationParams, reads_of
from steadyhand.ports.services import Action, ProvidedService
from steadyhand.records.event import Shows, Visible
from steadyhand.spec.validation import advice
from steadyhand.suggestion import nearest
from steadyhand.user_file import fault

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ExtensionPoint = Literal[
    "evaluators", "models", "agents", "environments", "judges", "users", "actions", "services", "terminations"
]
_NOUN: dict[ExtensionPoint, str] = {
    "evaluators": "evaluation type",
    "models": "model provider",
    "agents": "agent kind",
    "environments": "environment type",
    "judges": "judge kind",
    "users": "user kind",
    "actions": "action",
    "services": "service",
    "terminations": "termination condition",
}
_OFFERED: tuple[ExtensionPoint, ...] = ("actions", "services")
"""Extension points that are offered to agents without being named. Only explicitly chosen plugins provide these."""
GROUP = "steadyhand.plugins"
S = TypeVar("S")
P = TypeVar("P")


class Registry:
    """Parts of chosen plugins, and of those from `installed`, which is used for unknown names."""

    def __init__(self, plugins: Iterable[Plugin], installed: Callable[[], Sequence[Plugin]] | None = None) -> None:
        """Raises `SetupError` if two plugins provide the same name."""
        self._parts: dict[ExtensionPoint, dict[str, Any]] = {point: {} for point in _NOUN}
        self._owner: dict[tuple[ExtensionPoint, str], Plugin] = {}
        self._evaluators: dict[str, AnyEvaluator] = {}
        self._unchosen: set[tuple[ExtensionPoint, str]] = set()
        """Parts that are only there because their plugin is installed. A plugin that a user names takes precedence."""
        self._installed: Callable[[], Sequence[Plugin]] | None = installed
        for plugin in plugins:
            self._add(plugin)

    def extended(self, plugins: Iterable[Plugin]) -> Registry:
        """A registry with these plugins added; loaded parts are shared. Raises `SetupError`."""
        wider = Registry((), self._installed)
        wider._parts = {point: dict(parts) for point, parts in self._parts.items()}
        wider._owner = dict(self._owner)
        wider._evaluators = dict(self._evaluators)
        wider._unchosen = set(self._unchosen)
        for plugin in plugins:
            wider._add(plugin)
        return wider

    def _add(self, plugin: Plugin) -> None:
        if not isinstance(plugin.name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - not every plugin is typed
            raise SetupError(f"`name` of a plugin is {plugin.name!r}; expected a text")
        for point, noun in _NOUN.items():
            contributed: object = getattr(plugin, point)
            if not isinstance(contributed, Mapping):
                found = type(contributed).__name__
                raise SetupError(f"plugin {plugin.name!r}: `{point}` must map names to parts, but is a {found}")
            for name, part in cast("Mapping[str, Any]", contributed).items():
                owner = self._owner.get((point, name))
                if (point, name) in self._unchosen:
                    self._unchosen.discard((point, name))
                elif owner is not None and not _same(owner, plugin):
                    raise SetupError(f"plugins {owner.name!r} and {plugin.name!r} both provide the {noun} {name!r}")
                if point == "evaluators" and owner is not None:
                    self._evaluators.pop(name, None)
                self._owner[point, name] = plugin
                self._parts[point][name] = part

    def add_installed(self) -> None:
        """Add all installed plugins. Chosen plugins take precedence. Raises `SetupError`."""
        if self._installed is None:
            return
        found, self._installed = self._installed(), None
        chosen = set(self._owner)
        for plugin in found:
            news = {
                point: {name: part for name, part in getattr(plugin, point).items() if (point, name) not in chosen}
                for point in _NOUN
                if point not in _OFFERED
            }
            self._add(msgspec.structs.replace(plugin, actions={}, services={}, **news))
        self._unchosen = set(self._owner) - chosen

    def has(self, point: ExtensionPoint, name: str) -> bool:
        """Whether a plugin provides it; loads nothing except, if necessary, the installed plugins."""
        if name not in self._parts[point]:
            self.add_installed()
        return name in self._parts[point]

    def names(self, point: ExtensionPoint) -> list[str]:
        return list(self._parts[point])

    def model(self, provider: str) -> ModelFactory:
        return cast("ModelFactory", self._get("models", provider))

    def agent(self, kind: str) -> AgentFactory:
        return cast("AgentFactory", self._get("agents", kind))

    def environment(self, name: str) -> EnvironmentFactory:
        return cast("EnvironmentFactory", self._get("environments", name))

    def judge(self, kind: str) -> JudgeFactory:
        return cast("JudgeFactory", self._get("judges", kind))

    def user(self, kind: str) -> UserFactory:
        return cast("UserFactory", self._get("users", kind))

    def part(self, point: ExtensionPoint, name: str) -> Any:
        """The part with this name, loaded. Raises `SetupError`."""
        return self._get(point, name)

    def termination(self, name: str) -> Termination:
        return cast("Termination", self._get("terminations", name))

    def evaluator(self, type_: str) -> AnyEvaluator:
        """The one instance of this evaluator."""
        found = self._evaluators.get(type_)
        if found is None:
            found = self._evaluators[type_] = self._made_evaluator(type_)
        return found

    def _made_evaluator(self, type_: str) -> AnyEvaluator:
        make, owner = self._get("evaluators", type_), self._owner["evaluators", type_].name
        try:
            found: AnyEvaluator = make()
        except Exception as error:
            raise SetupError(f"plugin {owner!r}: evaluator {type_!r} cannot be created: {fault(error)}") from error
        params: object = getattr(found, "params", None)
        if not (isinstance(params, type) and issubclass(params, EvaluationParams)):
            hint = "derive the class from Evaluator[...], or set it to a subclass of EvaluationParams"
            raise SetupError(f"plugin {owner!r}: `params` of the evaluator {type_!r} is {params!r}; {hint}")
        wrong = sorted(set(map(str, reads_of(found))) - set(get_args(Visible)))
        if wrong:
            near = advice(wrong[0], get_args(Visible))
            raise SetupError(f"plugin {owner!r}: evaluator {type_!r} reads {wrong[0]!r}, which does not exist{near}")
        return found

    def actions(self) -> dict[str, Action]:
        """Every action, loaded, with its plugin and that plugin's `config`. Raises `SetupError`."""
        return {name: self._action(name) for name in self._parts["actions"]}

    def services(self) -> dict[str, ProvidedService]:
        """Every service, loaded and not yet built. Raises `SetupError`."""
        return {
            name: provided_service(name, self._get("services", name), self._owner["services", name])
            for name in self._parts["services"]
        }

    def _action(self, name: str) -> Action:
        part = self._get("actions", name)
        owner = self._owner["actions", name]
        if not isinstance(part, Action):
            if not callable(part):
                raise SetupError(f"plugin {owner.name!r}: action {name!r} is a {type(part).__name__}, not an Action")
            try:
                part = make_action(part, name=name)
            except Exception as error:
                raise SetupError(f"plugin {owner.name!r}: action {name!r} cannot be created: {error}") from error
        part = msgspec.structs.replace(part, name=name, plugin=owner.name, config=owner.config)
        self._parts["actions"][name] = part
        return part

    def require(self, point: ExtensionPoint, name: str) -> None:
        """Raises `SetupError` for an unknown name. Loads nothing."""
        if not self.has(point, name):
            raise SetupError(unknown_part(point, name, self._parts[point]))

    def _get(self, point: ExtensionPoint, name: str) -> Any:
        self.require(point, name)
        parts = self._parts[point]
        part = parts[name]
        if isinstance(part, str):
            part = parts[name] = _load(part, self._owner[point, name].name)
        if point not in _OFFERED and not callable(part):
            owner, found = self._owner[point, name].name, type(part).__name__
            raise SetupError(f"plugin {owner!r}: the {_NOUN[point]} {name!r} is a {found}, not a class or a function")
        return part


def _same(one: Plugin, other: Plugin) -> bool:
    """Whether they are the same plugin, named by the configuration and by a scenario; the scenario's `config`
    counts.

    A factory may create a different plugin from a different `config`, so the objects that they were created from are
    compared, where they are known.
    """
    if one.origin and one.origin == other.origin:
        return True
    return msgspec.structs.replace(one, config={}, origin="") == msgspec.structs.replace(other, config={}, origin="")


class EvaluationCatalogue(Mapping[str, type[EvaluationParams]]):
    """Evaluation types and their parameters, for the loader."""

    def __init__(self, registry: Registry) -> None:
        self._registry: Registry = registry

    def __getitem__(self, type_: str) -> type[EvaluationParams]:
        if not self._registry.has("evaluators", type_):
            raise KeyError(type_)
        return self._registry.evaluator(type_).params

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry.names("evaluators"))

    def __len__(self) -> int:
        return len(self._registry.names("evaluators"))


class EnvironmentNames(Collection[str]):
    """The valid values of `environment.type`, for the loader."""

    def __init__(self, registry: Registry) -> None:
        self._registry: Registry = registry

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._registry.has("environments", name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry.names("environments"))

    def __len__(self) -> int:
        return len(self._registry.names("environments"))


def unknown_part(point: ExtensionPoint, name: str, known: Iterable[str]) -> str:
    """The message for a name that no plugin provides."""
    names = sorted(known)
    near = nearest(name, names)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"unknown {_NOUN[point]} {name!r}{hint} (known: {', '.join(names) or 'none'})"


def _load(target: str, owner: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SetupError(f"plugin {owner!r} names {target!r}, which cannot be imported: {error}") from error


def build_part(factory: Callable[[S], P], settings: S, what: str, port: type[P]) -> P:
    """Call a factory. Raises `SetupError`, which begins with `what`, whatever the factory raises, and if the part lacks
    something that its `port` requires."""
    try:
        part = factory(settings)
        missing = [name for name in _not_of_the_class(type(part), port) if not hasattr(part, name)]
    except SteadyhandError:
        raise
    except Exception as error:
        raise SetupError(f"{what} cannot be created: {fault(error)}") from error
    if missing:
        lacks = " and ".join(f"`{name}`" for name in missing)
        raise SetupError(f"{what} has no {lacks}, which every part of its kind needs (class {type(part).__qualname__})")
    name: object = getattr(part, "name", "")
    if not isinstance(name, str):
        raise SetupError(f"`name` of {what} is {name!r}; expected a text")
    return part


@lru_cache(maxsize=256)
def _not_of_the_class(kind: type, port: type) -> tuple[str, ...]:
    """The members of the port that only an instance may have."""
    return tuple(name for name in vars(port) if not name.startswith("_") and not hasattr(kind, name))


def declared_by(agent: Agent) -> tuple[str, Shows]:
    """Its name and what it shows. Raises `SetupError` for an agent that does not keep to the port."""
    name, shows = agent.name, cast("object", shows_of(agent))
    if not isinstance(shows, Shows):
        raise SetupError(f"`shows` of the agent {name} is {shows!r}; expected a Shows")
    return name, shows


class InstalledPlugins:
    """The entry points of the group `steadyhand.plugins`, read on first use and then cached. Create one per run:
    reading them scans every installed package.
    """

    def __init__(self) -> None:
        self._found: dict[str, EntryPoint] | None = None

    def _entries(self) -> dict[str, EntryPoint]:
        if self._found is None:
            from importlib.metadata import entry_points

            self._found = {entry.name: entry for entry in entry_points(group=GROUP)}
        return self._found

    def get(self, name: str) -> EntryPoint | None:
        return self._entries().get(name)

    def names(self) -> list[str]:
        return sorted(self._entries())
