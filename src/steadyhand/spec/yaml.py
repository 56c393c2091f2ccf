"""Reads YAML 1.2 (core schema) with PyYAML's C parser, into documents that know the position of each value.

`yes`, `no`, `on` and `off` are text, `012` is twelve, `<<` is a key like any other. Mapping keys are the text they were
written as. The composed nodes are kept so that positions can be looked up when needed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, ClassVar, NamedTuple, cast

import yaml
from yaml._yaml import CParser
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from steadyhand.records.location import Place, Problem
from steadyhand.spec.validation import FieldPath, show_path

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_ALIASED_NODES = 100_000
_TEXT = "text"
_CONSTANTS: dict[str, bool | float | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_STARTS = frozenset("+-.0123456789")
_NUMBER = re.compile(
    r"(?P<decimal>[-+]?[0-9]+)|0o(?P<octal>[0-7]+)|0x(?P<hex>[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
)
_HALF = re.compile(r"\\[uU](?:0000)?([dD][89a-fA-F][0-9a-fA-F]{2})")
_PAIR = re.compile(r"((?<!\\)(?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_TAG = "tag:yaml.org,2002:"
_CORE_TAGS = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null", "seq", "map"))


class YamlFault(NamedTuple):
    """Something wrong with the YAML itself. `line` and `column` count from 1."""

    code: str
    message: str
    line: int
    column: int
    node: Node | None = None


class YamlError(Exception):
    """The text cannot be read any further as YAML."""

    def __init__(self, code: str, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.fault: YamlFault = YamlFault(code, message, line, column)


class Document:
    """`data` is plain Python; `locate` finds a value's place in the nodes it was built from.

    Without a `root`, it does not come from a file, and places have only a path.
    """

    __slots__ = ("_pairs", "_places", "_root", "data", "digest", "file", "folder", "sources")

    def __init__(self, file: str, folder: FilePath | str, data: Any, *, root: Node | None, digest: str) -> None:
        self.file: str = file
        self.folder: FilePath | str = folder
        self.data: Any = data
        self.digest: str = digest
        self.sources: tuple[str, ...] = ()
        """Other files that the data are from."""
        self._root: Node | None = root
        self._pairs: dict[MappingNode, Mapping[str, tuple[Node, Node]]] = {}
        self._places: dict[tuple[FieldPath, bool], Place] | None = None
        """Kept where the same places are looked up for several data."""

    def with_data(self, data: Any, *, digest: str | None = None) -> Document:
        """The same places with other data, such as one combination of a matrix."""
        made = Document(self.file, self.folder, data, root=self._root, digest=digest or self.digest)
        made.sources = self.sources
        made._places = {} if self._places is None else self._places
        return made

    def locate(self, path: FieldPath, *, key: bool = False) -> Place:
        """The place of the field at `path`.

        For a scalar or list item, its own; for a collection under a key, and for anything when `key` is set, the
        key's. For a missing field, the nearest collection around it.
        """
        if self._places is None:
            return self._find(path, key)
        known = self._places.get((path, key))
        if known is None:
            known = self._places[path, key] = self._find(path, key)
        return known

    def _find(self, path: FieldPath, key: bool) -> Place:
        if self._root is None:
            return Place(file=self.file, path=show_path(path))
        node = pointed = self._root
        for part in path:
            pair = self._step(node, part)
            if pair is None:
                break
            key_node, node = pair
            at_key = key or not isinstance(node, ScalarNode)
            pointed = key_node if key_node is not None and at_key else node
        line, column = position(pointed)
        return Place(file=self.file, line=line, column=column, path=show_path(path))

    def written_in(self, path: FieldPath) -> Document:
        """The document that the value at `path` is written in."""
        return self

    def written(self, path: FieldPath) -> str | None:
        """The scalar at `path` as it stands in the file: `1.50` for 1.5."""
        node = self._root
        for part in path:
            pair = self._step(node, part) if node is not None else None
            if pair is None:
                return None
            _, node = pair
        return node.value if isinstance(node, ScalarNode) else None

    def _step(self, node: Node, part: str | int) -> tuple[Node | None, Node] | None:
        if isinstance(part, int):
            if isinstance(node, SequenceNode) and part < len(node.value):
                return None, node.value[part]
            return None
        if not isinstance(node, MappingNode):
            return None
        pairs = self._pairs.get(node)
        if pairs is None:
            # Of two equal keys, the first counts.
            pairs = {key.value: (key, value) for key, value in reversed(node.value) if isinstance(key, ScalarNode)}
            self._pairs[node] = pairs
        return pairs.get(part)


def read_document(path: str, file: str) -> tuple[Document | None, list[Problem]]:
    """Read one file, called `file` in messages. Without a document, the problems say why."""
    try:
        with open(path, "rb", opener=open_regular) as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        return None, [Problem(place=Place(file=file), message=f"cannot be read: {reason}", code="unreadable")]
    return parse_document(content, path, file)


def open_regular(path: str, flags: int) -> int:
    """Without blocking: a pipe without a writer would hang. Raises `OSError`."""
    opened = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return opened
    os.close(opened)
    raise OSError(errno.EINVAL, "expected a file, found a folder, pipe or device")


def parse_document(content: bytes, path: str, file: str) -> tuple[Document | None, list[Problem]]:
    """As `read_document`, for content already in memory."""
    try:
        root, data, faults = parse(decode(content))
    except YamlError as error:
        return None, [_problem(error.fault, file)]
    digest = hashlib.sha256(content).hexdigest()[:16]
    document = Document(file, os.path.dirname(path), data, root=root, digest=digest)  # noqa: PTH120
    return document, _located(faults, file, root)


def decode(content: bytes, *, most: int = MAX_BYTES) -> str:
    """Raises `YamlError`."""
    if len(content) > most:
        raise YamlError("too-large", f"the file is larger than the limit of {most >> 20} MiB")
    if b"\0" in content:
        line, column = _byte_position(content, content.index(b"\0"))
        raise YamlError("not-text", "found a NUL byte: the file is binary; expected UTF-8 text", line, column)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _byte_position(content, error.start)
        found = content[error.start]
        message = f"found the byte 0x{found:02x}, which is not UTF-8; save the file as UTF-8"
        raise YamlError("not-utf8", message, line, column) from None


def _byte_position(content: bytes, offset: int) -> tuple[int, int]:
    before = content[:offset]
    start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start:].decode(errors="replace")) + 1


def _problem(fault: YamlFault, file: str, path: FieldPath = ()) -> Problem:
    place = Place(file=file, line=fault.line, column=fault.column, path=show_path(path))
    return Problem(place=place, message=fault.message, code=fault.code)


def _located(faults: list[YamlFault], file: str, root: Node) -> list[Problem]:
    if not faults:
        return []
    paths: dict[int, FieldPath] = {}
    _note_paths(root, (), {id(fault.node) for fault in faults}, paths)
    return [_problem(fault, file, paths.get(id(fault.node), ())) for fault in faults]


def _note_paths(node: Node, path: FieldPath, wanted: set[int], paths: dict[int, FieldPath]) -> None:
    """The paths of the wanted keys and values, in one walk. It terminates, because alias loops were rejected before."""
    if id(node) in wanted:
        paths.setdefault(id(node), path)
    if isinstance(node, SequenceNode):
        for index, child in enumerate(cast("list[Node]", node.value)):
            _note_paths(child, (*path, index), wanted, paths)
    elif isinstance(node, MappingNode):
        for key_node, value_node in node.value:
            inner = (*path, str(key_node.value)) if isinstance(key_node, ScalarNode) else path
            if id(key_node) in wanted:
                paths.setdefault(id(key_node), inner)
            _note_paths(value_node, inner, wanted, paths)


def parse(text: str) -> tuple[Node, Any, list[YamlFault]]:
    """The root node, its plain data, and the faults that did not stop the reading. Raises `YamlError`."""
    root = _compose(text)
    if "*" in text and "&" in text:
        _measure(root, {}, set())
    builder = _Builder()
    return root, builder.build(root), builder.faults


class _Composer(CParser):
    """Nodes without resolved tags: None for plain scalars and collections, `text` for quoted scalars."""

    depth: ClassVar[int] = 0

    def resolve(self, _kind: type[Node], value: str | None, implicit: tuple[bool, bool]) -> str | None:
        return None if value is None or implicit[0] else _TEXT

    def descend_resolver(self, parent: Node | None, _index: object) -> None:
        self.depth += 1  # pyright: ignore[reportAttributeAccessIssue]  # the class holds the starting value only
        if self.depth > MAX_DEPTH:
            line, column = position(parent)
            raise YamlError("too-deep", f"nested more than {MAX_DEPTH} levels deep", line, column)

    def ascend_resolver(self) -> None:
        self.depth -= 1  # pyright: ignore[reportAttributeAccessIssue]


def _joined(pair: re.Match[str]) -> str:
    before, high, low = pair.groups()
    return f"{before}\\U{0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF):08x}"


def _compose(text: str) -> Node:
    if "\\u" in text:
        text = _with_whole_characters(text)
    try:
        root = _Composer(text).get_single_node()
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position].decode(errors="replace") if error.position > 0 else ""
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
        raise YamlError("yaml-syntax", f"not valid YAML: {error.reason}", line, column) from None
    except yaml.MarkedYAMLError as error:
        raise _half_character(error, text) or _tab(error, text) or _yaml_error(error) from None
    except yaml.YAMLError as error:
        raise YamlError("yaml-syntax", f"not valid YAML: {error}") from None
    if root is None:
        raise YamlError("empty-file", "the file is empty", 1, 1)
    return root


def _with_whole_characters(text: str) -> str:
    """JSON writes characters beyond the first plane as two escapes, where YAML has one.

    Only done to JSON: in YAML a backslash outside double quotes means itself.
    """
    if not _PAIR.search(text):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _PAIR.sub(_joined, text)


def _half_character(error: yaml.MarkedYAMLError, text: str) -> YamlError | None:
    """The problem, if that is what stopped the parser."""
    mark = error.problem_mark
    line = "".join(text.splitlines()[mark.line : mark.line + 1]) if mark is not None else ""
    found = _HALF.match(line, max(0, mark.column - 2)) if mark is not None else None
    if mark is None or found is None:
        return None
    message = f"found half a surrogate pair, {found.group()}; write the character itself, or \\U and its eight digits"
    return YamlError("half-character", message, mark.line + 1, found.start() + 1)


def _tab(error: yaml.MarkedYAMLError, text: str) -> YamlError | None:
    """The problem, if a line that stopped the parser, or the one before it, is indented with a tab.

    Between brackets a tab is allowed, and so is not the problem.
    """
    if error.context and "flow" in error.context:
        return None
    lines = text.splitlines()
    marks = [mark.line for mark in (error.problem_mark, error.context_mark) if mark is not None]
    for at in (*marks, *(mark - 1 for mark in marks)):
        line = lines[at] if 0 <= at < len(lines) else ""
        indent = line[: len(line) - len(line.lstrip())]
        if "\t" in indent:
            message = "not valid YAML: found a tab in the indentation; indent with spaces only"
            return YamlError("yaml-syntax", message, at + 1, indent.index("\t") + 1)
    return None


def _yaml_error(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    if error.context and "single document" in error.context:
        return YamlError("several-documents", "found a second document; expected one per file", line, column)
    context = f" {error.context}" if error.context else ""
    return YamlError("yaml-syntax", f"not valid YAML:{context} {error.problem}".replace("  ", " "), line, column)


def position(node: Node | None) -> tuple[int, int]:
    """Line and column of a node's first character, from 1."""
    if node is None:
        return 1, 1
    mark = node.start_mark
    return mark.line + 1, mark.column + 1


def _measure(node: Node, sizes: dict[int, tuple[int, int]], open_nodes: set[int]) -> tuple[int, int]:
    """The number of nodes and the depth with aliases expanded."""
    if isinstance(node, ScalarNode):
        return 1, 1
    key = id(node)
    known = sizes.get(key)
    if known is not None:
        return known
    if key in open_nodes:
        raise YamlError("alias-loop", "an alias refers to a collection that contains it", *position(node))
    open_nodes.add(key)
    size, depth = 1, 0
    for child in _children(node):
        child_size, child_depth = _measure(child, sizes, open_nodes)
        size += child_size
        depth = max(depth, child_depth)
    open_nodes.discard(key)
    if size > MAX_ALIASED_NODES:
        message = f"aliases expand to more than {MAX_ALIASED_NODES:,} values"
        raise YamlError("alias-bomb", message, *position(node))
    if depth >= MAX_DEPTH:
        raise YamlError("too-deep", f"nested more than {MAX_DEPTH} levels deep", *position(node))
    sizes[key] = size, depth + 1
    return size, depth + 1


def _children(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


class _Builder:
    """Builds plain data from nodes. Duplicate keys, odd keys and unknown tags become faults, and reading goes on."""

    def __init__(self) -> None:
        self.faults: list[YamlFault] = []

    def build(self, node: Node) -> Any:
        kind = node.__class__
        tag = cast("str | None", node.tag)
        if kind is ScalarNode:
            if tag is _TEXT:
                return node.value
            return self._plain(node) if tag is None else self._tagged(node)
        if tag is not None:
            self._check_collection_tag(node)
        build = self.build
        if kind is SequenceNode:
            return [build(item) for item in node.value]
        data: dict[str, Any] = {}
        first: dict[str, Node] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if key_node.__class__ is not ScalarNode:
                self._fault("complex-key", "expected text as a key, found a collection", key_node)
                continue
            if key in data:
                first = first or {k.value: k for k, _ in reversed(node.value) if k.__class__ is ScalarNode}
                line, _ = position(first[key])
                self._fault("duplicate-key", f"key `{key}` is already set on line {line}; keep one of them", key_node)
                continue
            data[key] = build(value_node)
        return data

    def _plain(self, node: Node) -> Any:
        value: str = node.value
        if value[:1] not in _STARTS:
            return _CONSTANTS.get(value, value) if len(value) < 6 else value
        return self._number(node, value)

    def _number(self, node: Node, value: str) -> Any:
        match = _NUMBER.fullmatch(value)
        if match is None:
            return _CONSTANTS.get(value, value)
        kind = match.lastgroup
        try:
            if kind == "float":
                return float(value)
            found = int(value) if kind == "decimal" else int(match[kind or 0], 8 if kind == "octal" else 16)
            float(found)
        except (ValueError, OverflowError):
            self._fault("bad-number", f"a number of {len(value)} digits is too long", node)
            return 0
        return found

    def _tagged(self, node: Node) -> Any:
        tag, value = node.tag, cast("str", node.value)
        if tag == _TAG + "str":
            return value
        if tag not in _CORE_TAGS or tag in {_TAG + "seq", _TAG + "map"}:
            self._unknown_tag(node)
            return value
        built = self._plain(node)
        if tag == _TAG + "float" and type(built) is int:
            return float(built)
        wanted = {"int": int, "float": float, "bool": bool, "null": type(None)}[tag.removeprefix(_TAG)]
        if type(built) is not wanted:
            self._fault("bad-tag", f'"{value}" does not match its tag !!{tag.removeprefix(_TAG)}', node)
        return built

    def _check_collection_tag(self, node: Node) -> None:
        wanted = _TAG + ("seq" if isinstance(node, SequenceNode) else "map")
        if node.tag != wanted:
            self._unknown_tag(node)

    def _unknown_tag(self, node: Node) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self._fault("unknown-tag", f"unknown tag `{tag}`; only the tags of YAML 1.2's core schema are allowed", node)

    def _fault(self, code: str, message: str, node: Node) -> None:
        self.faults.append(YamlFault(code, message, *position(node), node))
