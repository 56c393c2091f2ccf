"""The settings of a project: `steadyhand.toml`, or `[tool.steadyhand]` in `pyproject.toml`."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from steadyhand.errors import FileError
from steadyhand.records.config import Config
from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import Scenario
from steadyhand.spec.discovery import show_file
from steadyhand.spec.validation import FieldPath, Findings, Shape, describe, show_path, validate
from steadyhand.spec.yaml import Document

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
    import tomllib  # as in `read_config`

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
    import tomllib  # with the shapes, a twentieth of the start-up time; many a project has no such file

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
    from steadyhand.spec.config_shapes import ConfigShape

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


def _lower(shape: Shape, file: Path) -> Config:
    from steadyhand.spec.config_shapes import ProviderShape

    settings, known = shape.model_dump(exclude_unset=True), ProviderShape.model_fields
    for provider in settings.get("providers", {}).values():
        options = [name for name in provider if name not in known]
        provider["options"] = {name: provider.pop(name) for name in options}
    tags = {kind: table.pop("reasoning_tags", None) for kind, table in settings.get("agents", {}).items()}
    settings["reasoning_tags"] = {kind: each for kind, each in tags.items() if each is not None}
    return msgspec.convert({**settings, "folder": file.absolute().parent, "file": file.absolute()}, Config)


def config_problem(config: Config, path: FieldPath, message: str, code: str) -> Problem:
    """A problem with a value of the configuration, at its line."""
    if config.file is None:
        return Problem(place=Place(file="", path=show_path(path)), message=message, code=code)
    shown = show_file(str(config.file), os.getcwd())  # noqa: PTH109
    prefix = _TABLE if config.file.name == PROJECT else ()
    place = TomlText(shown, _read_text(config.file, shown)).locate((*prefix, *path))
    return Problem(place=place, message=message, code=code)


def read_defaults(config: Config) -> Document | None:
    """What the configuration says for scenarios that do not say otherwise, if anything."""
    return _Defaults(config) if config.defaults else None


class _Defaults(Document):
    """Located in the configuration file."""

    __slots__ = ("_text",)

    def __init__(self, config: Config) -> None:
        file = config.file or config.folder
        shown = show_file(str(file), os.getcwd())  # noqa: PTH109
        super().__init__(shown, config.folder, config.defaults, root=None, digest="")
        self._text: TomlText = TomlText(shown, _read_text(file, shown))

    def locate(self, path: FieldPath, *, key: bool = False) -> Place:
        prefix = _TABLE if self.file.endswith(PROJECT) else ()
        return self._text.locate((*prefix, "defaults", *path), key=key)


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
