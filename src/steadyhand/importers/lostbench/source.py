"""Reads LostBench files, YAML or JSON, as plain mappings, and writes YAML."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import yaml

from steadyhand.errors import SetupError
from steadyhand.spec.yaml import MAX_BYTES, parse_document

_ENDINGS = (".yaml", ".yml", ".json")


class SourceCase(NamedTuple):
    """One scenario as it was written. `where` names it in messages, `file` is its file below the source."""

    where: str
    file: str
    data: dict[str, Any]


class Skipped(NamedTuple):
    """What was skipped, and why."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class SourceCases(NamedTuple):
    cases: list[SourceCase]
    skipped: list[Skipped]


def read_source(source: Path) -> SourceCases:
    """Every case of a file, or of the .yaml, .yml and .json files of a folder, in order.

    Raises `SetupError` when there is no such file, or no file in the folder.
    """
    if source.is_dir():
        files = [(path, path.relative_to(source).as_posix()) for path in _walk(source)]
        if not files:
            raise SetupError(f"{source}: the folder contains no .yaml, .yml or .json files")
    elif source.is_file():
        files = [(source, source.name)]
    elif source.exists():
        raise SetupError(f"{source}: expected a file or folder, found a pipe or device")
    else:
        raise SetupError(f"{source}: no such file or folder")
    found = SourceCases([], [])
    for path, file in files:
        _read(path, file, found)
    return found


def _walk(folder: Path) -> list[Path]:
    files: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = (Path(root) / name for name in sorted(names) if not name.startswith("."))
        files.extend(path for path in inside if path.suffix.lower() in _ENDINGS and path.is_file())
    return files


def _read(path: Path, file: str, found: SourceCases) -> None:
    data, reason = _parse(path, file)
    if reason is not None:
        found.skipped.append(Skipped(file, reason))
        return
    listed = isinstance(data, list)
    for index, entry in enumerate(cast("list[Any]", data) if listed else [data]):
        where = f"{file}[{index}]" if listed else file
        if isinstance(entry, dict):
            found.cases.append(SourceCase(where, file, cast("dict[str, Any]", entry)))
        else:
            found.skipped.append(Skipped(where, f"expected a mapping, found {type(entry).__name__}"))


def _parse(path: Path, file: str) -> tuple[Any, str | None]:
    """The plain data, or why there is none."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return None, f"cannot be read: {error.strerror or error}"
    if path.suffix.lower() == ".json" and len(content) <= MAX_BYTES:
        return _parse_json(content)
    document, problems = parse_document(content, os.fspath(path), file)
    if document is None or problems:
        first = problems[0]
        line = f"line {first.place.line}: " if first.place.line else ""
        return None, f"{line}{first.message}"
    return document.data, None


def _parse_json(content: bytes) -> tuple[Any, str | None]:
    try:
        return json.loads(content.decode("utf-8-sig")), None
    except UnicodeDecodeError as error:
        return None, f"found the byte 0x{content[error.start]:02x}, which is not UTF-8; save the file as UTF-8"
    except json.JSONDecodeError as error:
        return None, f"line {error.lineno}: not valid JSON: {error.msg}"
    except (ValueError, RecursionError) as error:
        return None, f"not valid JSON: {error}"


_NUMBER_STARTS = frozenset("+-.0123456789")
_LIST_ITEM = re.compile(r"\s*(?:[-*•]|\d+[.)])\s")
_WIDTH = 110
_TEXT_TAG = "tag:yaml.org,2002:str"


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else '"' if text[:1] in _NUMBER_STARTS else None
    return dumper.represent_scalar(_TEXT_TAG, text, style=style)  # pyright: ignore[reportUnknownMemberType]  # untyped


class _Dumper(yaml.SafeDumper):
    """Block style for multi-line text; quotes around what YAML 1.2 could read as a number; no aliases."""

    yaml_representers: ClassVar[dict[Any, Any]] = {**yaml.SafeDumper.yaml_representers, str: _text_node}

    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_yaml(data: Any) -> str:
    """YAML that reads back as the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


def as_text(value: Any) -> str:
    """Text as it is, a mapping or list as readable YAML, and None as empty text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return to_yaml(value) if isinstance(value, dict | list) else str(value)


def reflow(text: str) -> str:
    """The text with wrapped lines joined; paragraphs and lists stay."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        wrapped = lines and lines[-1] and line.strip() and not _LIST_ITEM.match(line)
        if wrapped:
            lines[-1] = f"{lines[-1]} {line.strip()}"
        else:
            lines.append(line.rstrip())
    return "\n".join(lines)
