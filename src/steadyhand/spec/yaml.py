"""YAML 1.2 core schema on the C parser of PyYAML.

`yes`, `no`, `on` and `off` are text, `012` is twelve, `<<` is a key like any other. Mapping keys are taken as the text
they were written as. The composed nodes are kept, since positions are looked up in them when they are needed.
"""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar, NamedTuple, cast

import yaml
from yaml._yaml import CParser
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

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
_TAG = "tag:yaml.org,2002:"
_CORE_TAGS = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null", "seq", "map"))


class YamlFault(NamedTuple):
    """Something wrong with the YAML itself. `line` and `column` count from 1."""

    code: str
    message: str
    line: int
    column: int
    node: Node | None = None


class Unreadable(Exception):
    """The text is no YAML that can be read any further."""

    def __init__(self, code: str, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.fault: YamlFault = YamlFault(code, message, line, column)


def parse(text: str) -> tuple[Node, Any, list[YamlFault]]:
    """The root node, its plain data, and what is wrong but did not stop the reading. Raises `Unreadable`."""
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
            raise Unreadable("too-deep", f"nested more than {MAX_DEPTH} levels deep", line, column)

    def ascend_resolver(self) -> None:
        self.depth -= 1  # pyright: ignore[reportAttributeAccessIssue]


def _compose(text: str) -> Node:
    try:
        root = _Composer(text).get_single_node()
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position].decode(errors="replace") if error.position > 0 else ""
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
        raise Unreadable("yaml-syntax", f"not valid YAML: {error.reason}", line, column) from None
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error) from None
    except yaml.YAMLError as error:
        raise Unreadable("yaml-syntax", f"not valid YAML: {error}") from None
    if root is None:
        raise Unreadable("empty-file", "the file is empty; expected a scenario", 1, 1)
    return root


def _unreadable(error: yaml.MarkedYAMLError) -> Unreadable:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    if error.context and "single document" in error.context:
        return Unreadable("several-documents", "found a second document; expected one per file", line, column)
    context = f" {error.context}" if error.context else ""
    return Unreadable("yaml-syntax", f"not valid YAML:{context} {error.problem}".replace("  ", " "), line, column)


def position(node: Node | None) -> tuple[int, int]:
    """Line and column of a node's first character, from 1."""
    if node is None:
        return 1, 1
    mark = node.start_mark
    return mark.line + 1, mark.column + 1


def _measure(node: Node, sizes: dict[int, tuple[int, int]], open_nodes: set[int]) -> tuple[int, int]:
    """How many nodes, and how deep, the node is with its aliases written out."""
    if isinstance(node, ScalarNode):
        return 1, 1
    key = id(node)
    known = sizes.get(key)
    if known is not None:
        return known
    if key in open_nodes:
        raise Unreadable("alias-loop", "an alias stands inside what it names", *position(node))
    open_nodes.add(key)
    size, depth = 1, 0
    for child in _children(node):
        child_size, child_depth = _measure(child, sizes, open_nodes)
        size += child_size
        depth = max(depth, child_depth)
    open_nodes.discard(key)
    if size > MAX_ALIASED_NODES:
        message = f"aliases expand to more than {MAX_ALIASED_NODES:,} values"
        raise Unreadable("alias-bomb", message, *position(node))
    if depth >= MAX_DEPTH:
        raise Unreadable("too-deep", f"nested more than {MAX_DEPTH} levels deep", *position(node))
    sizes[key] = size, depth + 1
    return size, depth + 1


def _children(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


class _Builder:
    """Nodes to plain data. Duplicate keys, odd keys and unknown tags are noted, and reading goes on."""

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
        for key_node, value_node in node.value:
            key = key_node.value
            if key_node.__class__ is not ScalarNode:
                self._fault("complex-key", "a key must be a plain word or text, not a collection", key_node)
                continue
            if key in data:
                first = next(k for k, _ in node.value if k.__class__ is ScalarNode and k.value == key)
                line, _ = position(first)
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
            if kind == "decimal":
                return int(value)
            if kind == "float":
                return float(value)
            return int(match[kind or 0], 8 if kind == "octal" else 16)
        except ValueError:
            self._fault("bad-number", f"a number of {len(value)} digits is too long to read", node)
            return 0

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
            self._fault("bad-tag", f'"{value}" is not what its tag !!{tag.removeprefix(_TAG)} says', node)
        return built

    def _check_collection_tag(self, node: Node) -> None:
        wanted = _TAG + ("seq" if isinstance(node, SequenceNode) else "map")
        if node.tag != wanted:
            self._unknown_tag(node)

    def _unknown_tag(self, node: Node) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self._fault("unknown-tag", f"unknown tag `{tag}`; only the tags of YAML 1.2's core schema are read", node)

    def _fault(self, code: str, message: str, node: Node) -> None:
        self.faults.append(YamlFault(code, message, *position(node), node))
