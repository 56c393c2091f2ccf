"""Digests of everything a trial depends on: a resume must not mix different trials in one record.

Digests cover contents, not locations, so that a run can be resumed in a copy of its folder. They exclude keys, because
a different key is still the same trial, and limits, retries and timeouts, which users change before a resume.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from steadyhand.compose.cast import Cast, Casts, Choice, Rubrics, model_types, needs_agent, needs_user
from steadyhand.compose.isolation import check_files
from steadyhand.compose.models import DEFAULT_KIND, needs_judge
from steadyhand.compose.scenarios import config_plugins
from steadyhand.compose.settings import Settings
from steadyhand.language.thoughts import DEFAULT_TAGS
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import agent_facts
from steadyhand.ports.model import model_facts
from steadyhand.records.run import JUDGE_PART, SCENARIO_PART
from steadyhand.records.scenario import PluginRef
from steadyhand.redaction import Redactor

_SAMPLE = 1024 * 1024
_LENGTH = 12


class Sources:
    """A digest of a file. A file that cannot be read has none; the code that needs the file reports the error."""

    def __init__(self) -> None:
        self._digests: dict[Path, str | None] = {}

    def digest(self, file: Path) -> str | None:
        """A digest of the whole file; for a very large one, of its size, beginning and end."""
        if file not in self._digests:
            self._digests[file] = _digest(file)
        return self._digests[file]

    def python(self, file: Path) -> str | None:
        """A digest of a Python file and of everything it imports from its own folder, recursively."""
        found = sorted(_with_neighbours(file))
        if not found:
            return None
        folder = file.resolve().parent
        return short([[each.relative_to(folder).as_posix(), self.digest(each)] for each in found])

    def module(self, name: str, folder: Path) -> str | None:
        """The same for a module name, resolved from `folder`."""
        file = _file_of(name, folder)
        return None if file is None else self.python(file)


def short(value: object) -> str:
    """A digest of a value made of strings, numbers, lists and dictionaries."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:_LENGTH]


def _digest(file: Path) -> str | None:
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            if size <= 64 * _SAMPLE:
                return hashlib.file_digest(stream, "sha256").hexdigest()[:_LENGTH]
            sampled = hashlib.sha256(str(size).encode())
            sampled.update(stream.read(_SAMPLE))
            stream.seek(-_SAMPLE, 2)
            sampled.update(stream.read(_SAMPLE))
            return sampled.hexdigest()[:_LENGTH]
    except OSError:
        return None


def _file_of(name: str, folder: Path) -> Path | None:
    """Where a module is, without importing it; only its parent packages are imported."""
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    finally:
        sys.path.remove(entry)
    origin = None if spec is None else spec.origin
    return Path(origin) if origin and origin.endswith(".py") else None


def _with_neighbours(file: Path) -> set[Path]:
    """The file, and every file of its folder and below that it imports, directly or not."""
    start = file.resolve()
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        each = waiting.pop()
        if each in found or not each.is_file():
            continue
        found.add(each)
        try:
            tree = ast.parse(each.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for name in _imported(tree):
            waiting += _places(name, each.parent, start.parent)
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    """The names of statically imported modules; `from a import b` may mean the module `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _places(name: str, *folders: Path) -> list[Path]:
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return []
    return [
        place
        for folder in folders
        for place in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py"))
        if place.is_file()
    ]


_NOT_OF_THE_TRIAL = ("headers", "api_key_env")
_CASSETTE = "cassette.jsonl"


class Fingerprints:
    """Computes the fingerprints of the scenarios of a run."""

    def __init__(self, casts: Casts, redactor: Redactor) -> None:
        self._settings: Settings = casts.settings
        self._rubrics: Rubrics = casts.rubrics
        self._redactor: Redactor = redactor
        self._sources: Sources = Sources()

    def parts(self, cast: Cast) -> dict[str, str]:
        """The digests of a scenario's parts, by a readable name."""
        settings, config, environment = self._settings, self._settings.config, cast.environment.value
        tags = cast.reasoning_tags
        parts: dict[str, Any] = {
            "the model": self._model(cast.tested, cast),
            "the agent": self._agent(cast) if needs_agent(cast.scenario) else None,
            JUDGE_PART: self._judge(cast),
            "the model that plays the user": self._model(cast.plays_user, cast) if needs_user(cast.scenario) else None,
            "the simulated user": self._user(cast),
            "a model that the scenario names": self._named_models(cast),
            "a real service": self._real_services(cast),
            "the code of a check": [
                self._python(file.name, file.folder) for file in check_files(cast.scenario, cast.registry)
            ],
            "the rubric": self.rubric(cast),
            "a plugin": self._plugins(cast),
            "the marks of thoughts": tags if tags != DEFAULT_TAGS else None,
            "the environment": [
                environment,
                self._clean(sorted(config.environments.get(environment, {}).items())),
                settings.sandbox,
                settings.allow_commands,
                settings.options.live,
                settings.options.enforce_deadline,
            ],
            "the recording that is replayed": self._replayed(settings.options.replay),
        }
        return {SCENARIO_PART: cast.scenario.digest, **{name: short(what) for name, what in parts.items() if what}}

    def judge(self, chosen: Choice, cast: Cast) -> str:
        """A digest of a judge: the model, its address and its options."""
        return short(self._model(chosen, cast))

    def judge_settings(self) -> str:
        """A digest of how judges are asked: kind, options and votes."""
        kind, options = self._judge_options()
        return short([kind, self._settings.votes, options])

    def rubric(self, cast: Cast) -> str | None:
        """None if no rubric is scored."""
        rubric = self._rubrics.get(cast.scenario) if cast.judge is not None else None
        return None if rubric is None else rubric.digest

    def _model(self, chosen: Choice | None, cast: Cast) -> list[Any] | None:
        """Its name, address and options, or the contents of the file that it answers from."""
        if chosen is None:
            return None
        provider, _, name = chosen.value.partition("/")
        config = self._settings.config.providers.get(provider)
        options = (
            {key: value for key, value in config.options.items() if key not in _NOT_OF_THE_TRIAL} if config else {}
        )
        base_url = options.pop("base_url", None) or self._base_url(provider, name, cast.registry)
        return [
            chosen.value,
            self._address(str(base_url)) if base_url else "",
            self._clean(sorted(options.items())),
            config.type if config else None,
            self._sources.digest(chosen.folder / name),
            self._replayed(chosen.folder / name),
        ]

    def _base_url(self, provider: str, name: str, registry: Registry) -> str | None:
        """The base URL from a variable: the one that the provider declares or, with a bridge, the one of the vendor in
        the name, such as OPENAI_BASE_URL."""
        if not registry.has("models", provider):
            return None
        vendor = name.partition(":")[0] if ":" in name else provider
        variable = model_facts(registry.model(provider)).base_url_variable
        return self._settings.variables.get(variable or f"{vendor.upper().replace('-', '_')}_BASE_URL")

    def _agent(self, cast: Cast) -> list[Any]:
        given, folder, registry = cast.agent.value, cast.agent.folder, cast.registry
        kind, _, target = given.partition(":")
        table = self._settings.config.agents.get(kind, {})
        options = self._clean(sorted((key, value) for key, value in table.items() if key not in _NOT_OF_THE_TRIAL))
        facts = agent_facts(registry.agent(kind) if registry.has("agents", kind) else None)
        if not target:
            return [self._clean(given), options]
        if not facts.runs_target:
            return [kind, self._address(target), options]
        if facts.names_python:
            return [given, self._python(target.rpartition(":")[0], folder), options]
        return [self._clean(given), [self._beside(word, folder) for word in _files_in(target)], options]

    def _real_services(self, cast: Cast) -> list[Any]:
        """The files next to the scenario that their command lines name; the command lines are part of the scenario."""
        return [
            [self._beside(word, cast.folder) for word in _files_in(service.mcp)]
            for service in cast.scenario.setup.services
            if not service.has_url
        ]

    def _judge(self, cast: Cast) -> list[Any] | None:
        """The configured judge, if it has something to judge; else the model under test, or none."""
        if cast.judge is None or not (cast.scenario.rubric or needs_judge(cast.scenario, cast.registry)):
            return None
        kind, options = self._judge_options()
        return [self._model(cast.judge, cast), self._settings.votes, kind, options]

    def _judge_options(self) -> tuple[str | None, Any]:
        config = self._settings.config
        kind = config.judge_kind
        return kind, self._clean(config.judges.get(kind, {}) if kind else config.judges)

    def _user(self, cast: Cast) -> list[Any] | None:
        """Its kind and options, where the configuration sets any."""
        kind = self._settings.config.user_kind or DEFAULT_KIND
        options = self._settings.config.users.get(kind, {})
        is_set = needs_user(cast.scenario) and (options or kind != DEFAULT_KIND)
        return [kind, self._clean(sorted(options.items()))] if is_set else None

    def _named_models(self, cast: Cast) -> list[Any]:
        aliases = self._settings.config.models
        known = [name for name in model_types(cast) if name in aliases or "/" in name]
        return [self._model(cast.named(name), cast) for name in known]

    def _plugins(self, cast: Cast) -> list[Any]:
        """The scenario's own, the configuration's and those of the command line."""
        settings = self._settings
        named = [(ref, cast.folder) for ref in cast.scenario.plugins]
        named += [(ref, settings.config.folder) for ref in config_plugins(settings.config)]
        named += [(PluginRef(name=name, place=cast.scenario.place), Path.cwd()) for name in settings.options.plugins]
        return [self._plugin(ref, folder) for ref, folder in named if ref.enabled]

    def _plugin(self, ref: PluginRef, folder: Path) -> list[Any]:
        file, colon, attribute = ref.name.rpartition(":")
        place = file if colon and attribute.isidentifier() else ref.name
        return [ref.name, self._python(place, folder), self._clean(ref.config)]

    def _python(self, place: str, folder: Path) -> str | None:
        """A digest of the sources: a file next to the scenario, or a module by its name."""
        if place.endswith(".py") or "/" in place:
            return self._first(place, folder)
        beside = folder / f"{place}.py"
        return self._sources.python(beside) if beside.is_file() else self._sources.module(place, folder)

    def _first(self, name: str, folder: Path) -> str | None:
        for base in (folder, Path.cwd()):
            if (base / name).is_file():
                return self._sources.python(base / name)
        return None

    def _beside(self, name: str, folder: Path) -> str | None:
        return self._sources.digest(folder / name) or self._sources.digest(Path.cwd() / name)

    def _replayed(self, folder: Path | None) -> str | None:
        return None if folder is None else self._sources.digest(folder / _CASSETTE)

    def _address(self, url: str) -> list[Any]:
        """The URL without user, password, and parameters with secret-like names."""
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
        query = self._redactor.value(dict(parse_qsl(parts.query, keep_blank_values=True)))
        return [parts.scheme, place, self._clean(parts.path), self._clean(sorted(query.items())), parts.fragment]

    def _clean(self, value: Any) -> Any:
        """The value without secrets or any hint of their length."""
        return re.sub(r"\*+", "*", repr(self._redactor.value(value)))


def total(parts: dict[str, str]) -> str:
    """All parts in one: the scenario's own digest, a dash, and one of everything else."""
    return f"{parts[SCENARIO_PART]}-{short(sorted(parts.items()))}"


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """A description of what changed."""
    names = dict.fromkeys([*before, *now])
    return [f"{name} has changed" for name in names if before.get(name) != now.get(name)]


def _files_in(line: str) -> list[str]:
    """The words of a command that are files next to the scenario."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    return [word for word in words if word.startswith(("./", "../"))]
