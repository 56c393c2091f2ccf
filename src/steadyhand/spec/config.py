"""The settings of a project: `steadyhand.toml`, or `[tool.steadyhand]` in `pyproject.toml`."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from pydantic import ConfigDict, Field

from steadyhand.errors import FileError
from steadyhand.language.thoughts import tags_of
from steadyhand.records.config import (
    CalibrationConfig,
    Config,
    PluginConfig,
    Price,
    ProviderConfig,
    RunOptions,
    bounds_of,
    declared_by,
)
from steadyhand.records.isolation import IsolationChoice
from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import Scenario
from steadyhand.spec.agent_shapes import PluginShape
from steadyhand.spec.discovery import show_file
from steadyhand.spec.validation import (
    REASONING_TAGS,
    FieldPath,
    Findings,
    FreeForm,
    Name,
    ReasoningTags,
    Shape,
    describe,
    show_path,
    validate,
)

FILE = "steadyhand.toml"
PROJECT = "pyproject.toml"
SHIPPED = Path(__file__).parent.parent / "configs"
_TABLE = ("tool", "steadyhand")
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_LINE_OF_ERROR = re.compile(r"(.*?) \(at line (\d+), column (\d+)\)", re.DOTALL)


class ProviderShape(Shape):
    """How to reach a model provider. Any other key is an option of the provider."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    type: Name | None = Field(default=None, description="For a custom provider: the interface it uses. Default: openai")
    requests_per_minute: float | None = Field(default=None, gt=0, description="Maximum number of requests per minute")
    tokens_per_minute: float | None = Field(default=None, gt=0, description="Maximum number of tokens per minute")
    reasoning_tags: ReasoningTags | None = Field(default=None, description=REASONING_TAGS)


class AgentTableShape(Shape):
    """Options of a kind of agent. Any other key is an option of the agent."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    reasoning_tags: ReasoningTags | None = Field(default=None, description=REASONING_TAGS)


class PriceShape(Shape):
    """Price per million tokens."""

    input: float = Field(ge=0, description="Price of a million input tokens")
    output: float = Field(ge=0, description="Price of a million output tokens")


class CalibrationShape(Shape):
    """Whether a judge must be calibrated before it decides, and how good it must be."""

    required: bool = Field(
        default=False, description="If true, the checks of a judge without a good enough calibration are inconclusive"
    )
    file: Name | None = Field(default=None, description="Where calibrations are kept. Default: calibration.json")
    min_labels: int = Field(
        default=CalibrationConfig().min_labels, ge=1, description="Minimum number of labels for a calibration"
    )
    min_kappa: float | None = Field(
        default=CalibrationConfig().min_kappa,
        ge=-1,
        le=1,
        description="Minimum agreement with people's labels (Cohen's kappa)",
    )
    max_false_pass: float | None = Field(
        default=CalibrationConfig().max_false_pass,
        ge=0,
        le=1,
        description="Maximum share of bad answers that the judge may pass",
    )
    max_false_fail: float | None = Field(
        default=CalibrationConfig().max_false_fail,
        ge=0,
        le=1,
        description="Maximum share of good answers that the judge may fail",
    )


def _as_option(name: str) -> Any:
    """A setting that is described, and bounded, as the option that overrides it."""
    option = declared_by(RunOptions)[name]
    told = f"{option.help} Default: {option.told_default}" if option.told_default else option.help.removesuffix(".")
    return Field(default=None, description=told, **bounds_of(name))


class ConfigShape(Shape):
    """Settings of a project. Paths are relative to the file; command-line flags override it."""

    model: Name | None = Field(default=None, description="Model under test, provider/model")
    judge: Name | None = Field(default=None, description="Model that judges, provider/model")
    user_model: Name | None = Field(default=None, description="Model that plays the user, provider/model")
    agent: Name | None = Field(
        default=None, description="Agent under test, for scenarios that name none, such as python:package.module:name"
    )
    environment: Name | None = Field(default=None, description="For scenarios that name none. Default: local")
    env_file: Name | None = Field(
        default=None,
        description="File with environment variables for runs, such as .env. Without it, none is read",
    )
    out: Name | None = Field(default=None, description="Folder of run records")
    seed: int | None = Field(default=None, description="Random seed. Default: a new one for each run")
    concurrency: int | None = _as_option("concurrency")
    timeout_s: float | None = _as_option("timeout_s")
    retries: int | None = _as_option("retries")
    wait_limit_s: float | None = _as_option("wait_limit_s")
    stall_limit_s: float | None = _as_option("stall_limit_s")
    rubrics: Name | None = Field(default=None, description="Folder of rubrics")
    sandbox: bool | None = _as_option("sandbox")
    isolation: IsolationChoice | None = Field(
        default=None,
        description="What keeps agents that Steadyhand starts from what they are judged by. Default: auto, the best "
        "that this machine can do",
    )
    agent_can_read: list[Name] = Field(
        default=[], description="Files and folders that agents may read although trials are judged by them"
    )
    allow_commands: bool | None = _as_option("allow_commands")
    strict_judge: bool | None = _as_option("strict_judge")
    votes: int | None = Field(
        default=None, ge=1, description="Number of times a judge is asked about each check; the majority decides"
    )
    judge_kind: Name | None = Field(default=None, description="A plugin's kind of judge. Default: llm")
    user_kind: Name | None = Field(default=None, description="A plugin's kind of simulated user. Default: llm")
    plugins: list[PluginShape] = Field(default=[], description="Plugins of the project; files are relative to this one")
    models: dict[str, Name] = Field(default={}, description="Aliases, such as TEXT_SMALL, to provider/model")
    providers: dict[str, ProviderShape] = Field(default={}, description="How to reach model providers, by name")
    agents: dict[str, AgentTableShape] = Field(default={}, description="Options of agents, by kind")
    environments: dict[str, FreeForm] = Field(default={}, description="Options of environments, by type")
    services: dict[str, FreeForm] = Field(
        default={}, description="Options of the real services that scenarios name in `setup.services`, by name"
    )
    judges: dict[str, FreeForm] = Field(default={}, description="Options of judges, by kind")
    users: dict[str, FreeForm] = Field(default={}, description="Options of simulated users, by kind")
    prices: dict[str, PriceShape] = Field(default={}, description="By provider/model")
    calibration: CalibrationShape = Field(
        default=CalibrationShape(), description="Whether a judge must be calibrated before it decides, and how well"
    )


def find_config(folder: Path) -> Config:
    """The settings that apply in a folder: from its own file or the nearest above it, else the defaults.

    Raises `FileError` when that file is wrong.
    """
    start = folder.absolute()
    for place in (start, *start.parents):
        file = _config_in(place)
        if file is not None:
            return read_config(file)
    return Config(folder=start)


def other_configs(folders: Iterable[Path], top: Path, *, used: Path | None) -> list[Path]:
    """The configuration files in these folders and above them, up to `top`, other than the one `used`.

    For a folder outside `top`, only the nearest one.
    """
    found: set[Path] = set()
    for folder in folders:
        inside = folder.is_relative_to(top)
        for place in (folder, *folder.parents):
            if place == top:
                break
            file = _config_in(place)
            if file is not None:
                found.add(file)
                if not inside:
                    break
    return sorted(file for file in found if used is None or not file.samefile(used))


def _config_in(folder: Path) -> Path | None:
    """Raises `FileError` for something of that name that is no file: it would be ignored, or waited for without end."""
    own, project = folder / FILE, folder / PROJECT
    if own.is_file():
        return own
    if os.path.lexists(own):
        raise FileError([_not_a_file(own)])
    return project if project.is_file() and _mentions_us(project) else None


def _not_a_file(file: Path) -> Problem:
    try:
        mode = file.stat().st_mode
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    except OSError as error:
        kind = f"a link that leads nowhere ({error.strerror})"
    shown = show_file(str(file), os.getcwd())  # noqa: PTH109
    return Problem(place=Place(file=shown), message=f"expected a file, found {kind}", code="unreadable")


def _mentions_us(project: Path) -> bool:
    """Whether the file has our table. A broken file counts if it names the table, so that it is not ignored."""
    content = project.read_bytes()
    if b"steadyhand" not in content:
        return False
    try:
        data = tomllib.loads(content.decode())
    except (ValueError, RecursionError):
        return b"tool.steadyhand" in content
    tool = data.get("tool")
    return isinstance(tool, dict) and "steadyhand" in tool


def read_config(file: Path) -> Config:
    """The settings in one file; a `pyproject.toml` is read at `[tool.steadyhand]`. Raises `FileError`."""
    shown = show_file(str(file), os.getcwd())  # noqa: PTH109
    if not file.is_file() and os.path.lexists(file):
        raise FileError([_not_a_file(file)])
    text = _read_text(file, shown)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _LINE_OF_ERROR.fullmatch(str(error))
        message, line, column = (match[1], int(match[2]), int(match[3])) if match else (str(error), 0, 0)
        place = Place(file=shown, line=line, column=column)
        raise FileError([Problem(place=place, message=f"not valid TOML: {message}", code="toml-syntax")]) from None
    except RecursionError:
        raise FileError([Problem(place=Place(file=shown), message="nested too deeply", code="toml-syntax")]) from None
    prefix: FieldPath = ()
    table: Any = data
    if file.name == PROJECT:
        prefix = _TABLE
        for key in _TABLE:
            table = cast("dict[str, Any]", table).get(key, {}) if isinstance(table, dict) else {}
    findings = Findings(TomlText(shown, text))
    if not isinstance(table, dict):
        findings.error(prefix, f"expected a table, found {describe(table)}", "wrong-type")
        raise FileError(findings.problems)
    shape = validate(ConfigShape, table, prefix, findings)
    if shape is None:
        raise FileError(findings.problems)
    return _lower(shape, file)


def _read_text(file: Path, shown: str) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        problem = Problem(place=Place(file=shown), message=f"cannot be read: {error.strerror}", code="unreadable")
    except UnicodeDecodeError:
        problem = Problem(place=Place(file=shown), message="not UTF-8 text", code="not-utf8")
    raise FileError([problem])


def _lower(shape: ConfigShape, file: Path) -> Config:
    shaped = {"providers", "agents", "agent_can_read", "prices", "plugins", "calibration"}
    plain = {name: getattr(shape, name) for name in ConfigShape.model_fields if name not in shaped}
    return Config(
        folder=file.absolute().parent,
        file=file.absolute(),
        providers={name: _provider(provider) for name, provider in shape.providers.items()},
        agents={kind: dict(table.model_extra or {}) for kind, table in shape.agents.items()},
        agent_can_read=tuple(shape.agent_can_read),
        reasoning_tags={
            kind: tags_of(table.reasoning_tags)
            for kind, table in shape.agents.items()
            if table.reasoning_tags is not None
        },
        plugins=tuple(
            PluginConfig(name=each.name, version=each.version, enabled=each.enabled, config=each.config)
            for each in shape.plugins
        ),
        prices={name: Price(input=price.input, output=price.output) for name, price in shape.prices.items()},
        calibration=CalibrationConfig(**shape.calibration.model_dump()),
        **plain,
    )


def _provider(shape: ProviderShape) -> ProviderConfig:
    own = {name: getattr(shape, name) for name in ProviderShape.model_fields}
    if shape.reasoning_tags is not None:
        own["reasoning_tags"] = tags_of(shape.reasoning_tags)
    return ProviderConfig(**own, options=dict(shape.model_extra or {}))


def config_problem(config: Config, path: FieldPath, message: str, code: str) -> Problem:
    """A problem with a value of the configuration, at its line."""
    if config.file is None:
        return Problem(place=Place(file="", path=show_path(path)), message=message, code=code)
    shown = show_file(str(config.file), os.getcwd())  # noqa: PTH109
    prefix = _TABLE if config.file.name == PROJECT else ()
    place = TomlText(shown, _read_text(config.file, shown)).locate((*prefix, *path))
    return Problem(place=place, message=message, code=code)


class Project:
    """The user's own files: the current folder, the folder of the configuration, and what ships with Steadyhand.

    The real location of a file counts: a symbolic link in the project to a file elsewhere does not include that file.
    """

    def __init__(self, config: Config, *, trust: bool) -> None:
        """With `trust`, everything is treated as the user's own."""
        self.folder: Path = config.folder.resolve()
        self._trust: bool = trust
        self._folders: tuple[Path, ...] = (self.folder, Path.cwd().resolve(), SHIPPED.resolve())

    def trusts(self, *files: str | Path) -> bool:
        """Whether all of the files are the user's own."""
        return self._trust or all(is_below(file, self._folders) for file in files)

    def trusts_scenario(self, scenario: Scenario) -> bool:
        return self.trusts(*files_of(scenario))


def files_of(scenario: Scenario) -> tuple[str, ...]:
    """The files that the scenario is made from: its own and those of its matrix, of its cases and of its parts."""
    return (*own_files(scenario), *scenario.sources)


def own_files(scenario: Scenario) -> tuple[str, ...]:
    """Its own file, and that of its matrix, if any."""
    return (scenario.place.file,) if scenario.cell is None else (scenario.place.file, scenario.cell.file)


def is_below(file: str | Path, folders: Sequence[Path]) -> bool:
    """Whether the file, with links followed, is in or below one of the folders."""
    try:
        real = Path(os.path.realpath(file))
    except (OSError, ValueError):  # a path that no file can have
        return False
    return any(real.is_relative_to(folder) for folder in folders)


class TomlText:
    """Locates a field by searching the text for its table and key, since `tomllib` keeps no positions.

    A key inside an inline table is located at the line of that table.
    """

    def __init__(self, file: str, text: str) -> None:
        self._file: str = file
        self._lines: list[str] = text.splitlines()

    def locate(self, path: FieldPath, *, key: bool = False) -> Place:  # a value is on its key's line
        names = [str(part) for part in path if isinstance(part, str)]
        for count in range(len(names), 0, -1):
            found = self._find(names[:count])
            if found:
                return Place(file=self._file, line=found[0], column=found[1], path=show_path(path))
        return Place(file=self._file, line=1, column=1, path=show_path(path))

    def _find(self, names: list[str]) -> tuple[int, int] | None:
        table: list[str] = []
        for number, line in enumerate(self._lines, start=1):
            text = line.strip()
            if text.startswith("["):
                table = _split_key(text.strip("[] \t").split("]")[0])
                reached = table
            else:
                key, equals, _ = text.partition("=")
                if not equals or text.startswith("#"):
                    continue
                reached = [*table, *_split_key(key)]
            if reached[: len(names)] == names:
                return number, len(line) - len(line.lstrip()) + 1
        return None


def _split_key(text: str) -> list[str]:
    """The parts of a dotted TOML key, without quotes."""
    return [a or b or c for a, b, c in re.findall(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)", text)]
