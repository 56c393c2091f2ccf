"""Resolves the plugins that a scenario names."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from steadyhand.errors import SetupError, UsageError
from steadyhand.plugins.plugin import Plugin, PluginFactory
from steadyhand.plugins.registry import GROUP, InstalledPlugins, Registry
from steadyhand.records.base import Record
from steadyhand.records.location import Place
from steadyhand.records.scenario import PluginRef
from steadyhand.suggestion import nearest
from steadyhand.user_file import fault, load_file

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_NPM_NAME = re.compile(r"@[a-z0-9~-][a-z0-9._~-]*/[a-z0-9~-][a-z0-9._~-]*", re.IGNORECASE)
_SCOPES = ("@elizaos/", "@elizaos-plugins/")
_COVERED = frozenset(
    {
        "core",
        "plugin-bootstrap",
        "plugin-message-handling",
        "plugin-node",
        "plugin-sql",
        "plugin-inmemorydb",
        "plugin-e2b",
        "plugin-anthropic",
        "plugin-elizacloud",
        "plugin-google-genai",
        "plugin-google",
        "plugin-groq",
        "plugin-local-ai",
        "plugin-local-embedding",
        "plugin-mistral",
        "plugin-ollama",
        "plugin-openai",
        "plugin-openrouter",
        "plugin-redpill",
        "plugin-vercel-ai-gateway",
    }
)


def is_npm_name(name: str) -> bool:
    """Whether it has the form `@scope/name`, like npm packages."""
    return _NPM_NAME.fullmatch(name) is not None


def is_covered(name: str) -> bool:
    """Whether the runtime itself has this plugin's features: message handling, storage, model providers."""
    lowered = name.lower()
    return any(lowered.startswith(scope) and lowered[len(scope) :] in _COVERED for scope in _SCOPES)


def check_version(found: str, wanted: str) -> None:
    """`wanted` is a version (`1.2.0`), specifiers (`>=1,<2`) or `*`. Raises `SetupError` if `found` does not match."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    if wanted.strip() in ("*", "latest"):
        return
    if found == "0":
        raise SetupError(f"version {wanted} is required, but the plugin does not declare one (`Plugin.version`)")
    try:
        wanted_set = SpecifierSet(wanted if any(sign in wanted for sign in "<>=~!") else f"=={wanted}")
    except InvalidSpecifier:
        message = f"version {wanted!r} is not understood; write a version such as 1.2.0, or specifiers such as >=1,<2"
        raise SetupError(message) from None
    try:
        version = Version(found)
    except InvalidVersion:
        raise SetupError(f"its version {found!r} cannot be compared with {wanted!r}") from None
    if not wanted_set.contains(version, prereleases=True):
        raise SetupError(f"version {wanted} is required, found {found}")


_FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<attribute>[A-Za-z_]\w*))?")
_IMPORT = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<attribute>[A-Za-z_]\w*)")


class ResolvedPlugins(Record):
    """`missing` are names that were not found, so that their parts cannot be offered to an agent. `unloaded` are
    plugins that were not loaded because nothing may be executed."""

    plugins: tuple[Plugin, ...] = ()
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unloaded: tuple[str, ...] = ()


class NeedsConfig(SetupError):
    """A plugin's factory raised, and was given no configuration."""


def names_code(name: str) -> bool:
    """Whether a plugin of this name is a file or a module, which loading would execute, rather than an installed one.

    Nothing is looked up.
    """
    return _FILE.fullmatch(name) is not None or _IMPORT.fullmatch(name) is not None


def resolve_plugins(
    refs: Sequence[PluginRef],
    *,
    folder: Path,
    live: bool,
    installed: InstalledPlugins | None = None,
    execute: bool = True,
) -> ResolvedPlugins:
    """The plugins that are enabled, in the scenario's order.

    A name is a file next to the scenario (`my_plugin.py`, `./my_plugin.py:attribute`), an import path
    (`package.module:attribute`) or an entry point of the group `steadyhand.plugins`. It must refer to a `Plugin`, or a
    `PluginFactory`, which is called with the reference's `config`. npm-style names (`@scope/name`) that are not found
    cause a warning, and an error in live mode, where no mock can replace them.

    Without `execute`, files and modules are not imported and factories are not called; only installed plugins are
    considered.

    Raises `SetupError` with the location of the name for a plugin that is not found, raises on import, has the wrong
    version, or conflicts with another one. Pass one `installed` for a whole run.
    """
    installed = installed or InstalledPlugins()
    found: list[tuple[PluginRef, Plugin]] = []
    warnings: list[str] = []
    missing: list[str] = []
    unloaded: list[str] = []
    for ref in refs:
        if not ref.enabled:
            continue
        try:
            if not execute and _needs_executing(ref, folder, installed):
                unloaded.append(ref.name)
                continue
            plugin = _find(ref, folder, installed)
            if plugin is not None:
                found.append((ref, plugin))
            elif is_covered(ref.name):
                if ref.config:
                    warnings.append(f"{ref.place}: `config` of {ref.name!r} is not used: the runtime does this itself")
            elif is_npm_name(ref.name) and not live:
                missing.append(ref.name)
                warnings.append(
                    f"{ref.place}: no installed plugin is called {ref.name!r}: "
                    "the agent lacks its actions unless they are mocked"
                )
            else:
                raise SetupError(_unknown(ref.name, installed, live=live))
        except UsageError as error:
            raise SetupError(f"{ref.place}: plugin {ref.name!r}: {error}") from error
    Registry(  # refuses a part that two of them have
        [msgspec.structs.replace(plugin, name=f"{ref.name} ({ref.place})", origin="") for ref, plugin in found]
    )
    return ResolvedPlugins(
        plugins=tuple(plugin for _, plugin in found),
        warnings=tuple(warnings),
        missing=tuple(missing),
        unloaded=tuple(unloaded),
    )


def _needs_executing(ref: PluginRef, folder: Path, installed: InstalledPlugins) -> bool:
    """Whether the plugin can only be loaded by running what the reference names. Raises `SetupError` for a missing
    file."""
    file = _FILE.fullmatch(ref.name)
    if file is not None and not (folder / file["file"]).is_file():
        raise SetupError(f"there is no file {folder / file['file']}")
    if names_code(ref.name):
        return True
    entry = installed.get(ref.name)
    return entry is not None and isinstance(_entry_target(entry), PluginFactory)


def installed_plugins(installed: InstalledPlugins) -> list[Plugin]:
    """Every installed plugin that needs no configuration. Raises a `SetupError` that names a broken one."""
    found: list[Plugin] = []
    for name in installed.names():
        ref = PluginRef(name=name, place=Place(file=""))
        try:
            plugin = _find(ref, Path(), installed)
        except NeedsConfig:
            continue
        except UsageError as error:
            raise SetupError(f"installed plugin {name!r}: {error}; fix or uninstall it") from error
        if plugin is not None:
            found.append(plugin)
    return found


def _find(ref: PluginRef, folder: Path, installed: InstalledPlugins) -> Plugin | None:
    """The plugin; None if the name is neither a file nor an import path, and no installed plugin has it."""
    package_version: str | None = None
    origin = ref.name
    file, path = _FILE.fullmatch(ref.name), _IMPORT.fullmatch(ref.name)
    if file is not None:
        module = load_file(folder / file["file"])
        attribute = file["attribute"] or "plugin"
        target = _attribute(module, attribute, str(folder / file["file"]))
        origin = f"{module.__file__}:{attribute}"
    elif path is not None:
        target = _imported(path["module"], path["attribute"])
    else:
        entry = installed.get(ref.name)
        if entry is None:
            return None
        target = _entry_target(entry)
        origin = entry.value
        package_version = entry.dist.version if entry.dist is not None else None
    plugin = msgspec.structs.replace(_plugin_of(target, ref), origin=origin)
    if plugin.version == "0" and package_version is not None:
        plugin = msgspec.structs.replace(plugin, version=package_version)
    if ref.version is not None:
        check_version(plugin.version, ref.version)
    return plugin


def _entry_target(entry: EntryPoint) -> Any:
    module, _, attribute = entry.value.partition(":")
    return _imported(module.strip(), attribute.partition("[")[0].strip() or "plugin")


def _imported(module: str, attribute: str) -> Any:
    try:
        loaded = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise SetupError(f"cannot import {module}: {fault(error)}") from error
    return _attribute(loaded, attribute, module)


def _attribute(module: ModuleType, attribute: str, where: str) -> Any:
    if hasattr(module, attribute):
        return getattr(module, attribute)
    candidates = [name for name, value in vars(module).items() if isinstance(value, Plugin)]
    hint = f"; it has a plugin named {candidates[0]!r}" if candidates else f"; define `{attribute} = Plugin(...)` in it"
    raise SetupError(f"{where} has no {attribute!r}{hint}")


def _plugin_of(target: Any, ref: PluginRef) -> Plugin:
    plugin = target
    if isinstance(target, PluginFactory):
        try:
            plugin = target(dict(ref.config))
        except Exception as error:
            known = isinstance(error, UsageError)
            message = str(error) if known else f"it raised when given its config: {fault(error)}"
            raise (SetupError if ref.config else NeedsConfig)(message) from error
    if not isinstance(plugin, Plugin) and plugin is not target:
        raise SetupError(f"the plugin factory returned {type(plugin).__name__}; expected a Plugin")
    if not isinstance(plugin, Plugin):
        hint = "; to use a function that returns one, decorate it with steadyhand.plugin.plugin_factory"
        found = f"found {type(plugin).__name__}{hint if callable(target) else ''}"
        raise SetupError(f"expected a Plugin or a function declared as a plugin factory, {found}")
    return plugin if plugin.config else msgspec.structs.replace(plugin, config=dict(ref.config))


def _unknown(name: str, installed: InstalledPlugins, *, live: bool) -> str:
    names = installed.names()
    near = nearest(name, names)
    hint = f"; did you mean {near!r}?" if near else ""
    why = " and in live mode no mock replaces it" if live and is_npm_name(name) else ""
    return (
        f"plugin not found{why}{hint or '.'} Looked for an entry point {name!r} in the group {GROUP!r} "
        f"(installed: {', '.join(names) or 'none'}). Write a file next to the scenario as `./{_stem(name)}.py`, "
        "a module as `package.module:plugin`"
    )


def _stem(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_") or "my_plugin"
