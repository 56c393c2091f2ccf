"""What the configuration says of parts: providers under names of one's own, and the options that parts take."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from steadyhand.errors import FileError, SetupError
from steadyhand.plugins.plugin import ModelFactory, Options, options_of
from steadyhand.plugins.registry import ExtensionPoint, Registry, unknown_part
from steadyhand.records.config import Config, ProviderConfig
from steadyhand.records.location import Place, Problem
from steadyhand.spec.config import config_problem
from steadyhand.spec.validation import FieldPath, Findings, validate

DEFAULT_TYPE = "openai"
"""The interface that a provider of one's own speaks unless its `type` says otherwise."""

_TABLES: tuple[ExtensionPoint, ...] = ("agents", "environments", "judges", "users")
_SIMILAR = 0.75


def provider_part(provider: str, config: Config, registry: Registry) -> ModelFactory:
    """The factory of a provider: one that a plugin brings, or one that the configuration defines.

    Raises `SetupError` for one that is neither.
    """
    own = config.providers.get(provider)
    if own is not None and _is_own(provider, own, registry):
        return registry.model(own.type or DEFAULT_TYPE)
    if not registry.has("models", provider):
        known = {*registry.names("models"), *config.providers}
        defined = "; to define a provider, give [providers.NAME] a base_url"
        raise SetupError(unknown_part("models", provider, known) + defined)
    return registry.model(provider)


def _is_own(provider: str, config: ProviderConfig, registry: Registry) -> bool:
    return not registry.has("models", provider) and (config.type is not None or config.base_url is not None)


def part_options(part: object, table: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a part: its table in the configuration, and over that the flags that it has an option for."""
    shape = options_of(part)
    known = shape.model_fields if shape is not None else {}
    return {**table, **{name: value for name, value in flags.items() if name in known}}


def check_parts(config: Config, registry: Registry) -> None:
    """Check every table of options against the part that it is for, used in this run or not.

    Raises `FileError` with every problem, each at its line.
    """
    problems = [*_provider_problems(config, registry)]
    for point in _TABLES:
        tables: dict[str, dict[str, Any]] = getattr(config, point)
        for name, table in tables.items():
            if not registry.has(point, name):
                message = unknown_part(point, name, registry.names(point))
                problems.append(config_problem(config, (point, name), message, "unknown-name"))
            else:
                problems += _option_problems(config, (point, name), options_of(registry.part(point, name)), table)
    if problems:
        raise FileError(problems)


def _provider_problems(config: Config, registry: Registry) -> Iterator[Problem]:
    for name, provider in config.providers.items():
        path = ("providers", name)
        if provider.type is not None and not registry.has("models", provider.type):
            message = unknown_part("models", provider.type, registry.names("models"))
            yield config_problem(config, (*path, "type"), message, "unknown-name")
            continue
        if not registry.has("models", name):
            problem = _own_problem(name, provider, registry)
            if problem is not None:
                yield config_problem(config, path, problem, "unknown-name")
                continue
        elif provider.type is not None and provider.type != name:
            message = f"{name} is a provider of its own and speaks no other one's interface; give this one another name"
            yield config_problem(config, (*path, "type"), message, "bad-value")
            continue
        factory = provider_part(name, config, registry)
        yield from _option_problems(config, path, options_of(factory), provider.options, also=ProviderConfig)


def _own_problem(name: str, provider: ProviderConfig, registry: Registry) -> str | None:
    """Why a name that no plugin brings cannot be a provider of the user's own."""
    names = registry.names("models")
    if provider.type is None and provider.base_url is None:
        return unknown_part("models", name, names) + "; a provider of your own needs a base_url"
    near = difflib.get_close_matches(name, names, n=1, cutoff=_SIMILAR)
    if provider.type is None and near and near[0] not in name:
        return (
            f"unknown model provider {name!r}; did you mean {near[0]!r}? "
            f'If it is one of your own, say which interface it speaks: type = "{DEFAULT_TYPE}"'
        )
    return None


class _InConfig:
    """Locates the options of a table in the configuration file."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def locate(self, path: FieldPath, *, key: bool = False) -> Place:
        return config_problem(self._config, path, "", "").place


class _NoOptions(BaseModel, extra="forbid"):
    pass


def _option_problems(
    config: Config,
    path: FieldPath,
    shape: type[Options] | None,
    table: Mapping[str, Any],
    *,
    also: type[ProviderConfig] | None = None,
) -> list[Problem]:
    findings = Findings(_InConfig(config))
    beside = [name for name in also.__struct_fields__ if name != "options"] if also is not None else ()
    validate(shape or _NoOptions, dict(table), path, findings, also=beside)
    return findings.problems
