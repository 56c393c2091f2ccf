"""The parts a run can use, by name. Built per run and passed in; nothing here is global."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, cast

from holdfast.errors import SetupError
from holdfast.plugins.factories import AgentFactory, EnvironmentFactory, ModelFactory
from holdfast.plugins.plugin import Plugin
from holdfast.ports.evaluator import EvaluationParams, Evaluator

ExtensionPoint = Literal["evaluators", "models", "agents", "environments"]
_NOUN: dict[ExtensionPoint, str] = {
    "evaluators": "evaluation type",
    "models": "model provider",
    "agents": "agent kind",
    "environments": "environment type",
}


class Registry:
    def __init__(self, plugins: Iterable[Plugin]) -> None:
        """Raises `SetupError` when two plugins bring the same name."""
        self._parts: dict[ExtensionPoint, dict[str, Any]] = {point: {} for point in _NOUN}
        self._owner: dict[tuple[ExtensionPoint, str], str] = {}
        self._evaluators: dict[str, Evaluator] = {}
        for plugin in plugins:
            self._add(plugin)

    def _add(self, plugin: Plugin) -> None:
        for point, noun in _NOUN.items():
            contributed = cast("Mapping[str, Any]", getattr(plugin, point))
            for name, part in contributed.items():
                owner = self._owner.get((point, name))
                if owner is not None:
                    raise SetupError(f"plugins {owner!r} and {plugin.name!r} both bring the {noun} {name!r}")
                self._owner[point, name] = plugin.name
                self._parts[point][name] = part

    def names(self, point: ExtensionPoint) -> list[str]:
        return list(self._parts[point])

    def model(self, provider: str) -> ModelFactory:
        return cast("ModelFactory", self._get("models", provider))

    def agent(self, kind: str) -> AgentFactory:
        return cast("AgentFactory", self._get("agents", kind))

    def environment(self, name: str) -> EnvironmentFactory:
        return cast("EnvironmentFactory", self._get("environments", name))

    def evaluator(self, type_: str) -> Evaluator:
        """The one instance of this evaluator."""
        found = self._evaluators.get(type_)
        if found is None:
            found = self._evaluators[type_] = cast("Evaluator", self._get("evaluators", type_)())
        return found

    def _get(self, point: ExtensionPoint, name: str) -> Any:
        parts = self._parts[point]
        if name not in parts:
            near = difflib.get_close_matches(name, parts, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SetupError(f"unknown {_NOUN[point]} {name!r}{hint} (known: {', '.join(sorted(parts))})")
        part = parts[name]
        if isinstance(part, str):
            part = parts[name] = _load(part, self._owner[point, name])
        return part


class EvaluationCatalogue(Mapping[str, type[EvaluationParams]]):
    """Evaluation types and the parameters they take, as the loader wants them."""

    def __init__(self, registry: Registry) -> None:
        self._registry: Registry = registry
        self._names: list[str] = registry.names("evaluators")

    def __getitem__(self, type_: str) -> type[EvaluationParams]:
        if type_ not in self._names:
            raise KeyError(type_)
        return self._registry.evaluator(type_).params

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _load(target: str, owner: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SetupError(f"plugin {owner!r} names {target!r}, which cannot be imported: {error}") from error
