"""One YAML file: its plain data, and where each value of it stands."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path as FilePath
from typing import Any, cast

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from steadyhand.records.location import Place, Problem
from steadyhand.spec.naming import Path, show_path
from steadyhand.spec.yaml import Unreadable, YamlFault, parse, position

MAX_BYTES = 1 << 20


class Document:
    """`data` is plain Python; `locate` finds a value's place in the nodes it was built from."""

    __slots__ = ("_root", "data", "digest", "file", "folder")

    def __init__(self, file: str, folder: FilePath | str, data: Any, *, root: Node, digest: str) -> None:
        self.file: str = file
        self.folder: FilePath | str = folder
        self.data: Any = data
        self.digest: str = digest
        self._root: Node = root

    def with_data(self, data: Any) -> Document:
        """The same places over other data, such as one combination of a matrix."""
        return Document(self.file, self.folder, data, root=self._root, digest=self.digest)

    def locate(self, path: Path, *, key: bool = False) -> Place:
        """Where the field at `path` stands.

        A scalar and a list item are pointed to themselves; a collection under a key, and anything when `key` is
        set, at its key. A field that is not there is pointed to at the nearest collection around it that is.
        """
        node = pointed = self._root
        for part in path:
            pair = _step(node, part)
            if pair is None:
                break
            key_node, node = pair
            at_key = key or not isinstance(node, ScalarNode)
            pointed = key_node if key_node is not None and at_key else node
        line, column = position(pointed)
        return Place(file=self.file, line=line, column=column, path=show_path(path))


def _step(node: Node, part: str | int) -> tuple[Node | None, Node] | None:
    if isinstance(part, int):
        if isinstance(node, SequenceNode) and part < len(node.value):
            return None, node.value[part]
        return None
    if isinstance(node, MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == part:
                return key_node, value_node
    return None


def read_document(path: str, file: str) -> tuple[Document | None, list[Problem]]:
    """Read one file, called `file` in messages. Without a document the problems say why it could not be read."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123  # a Path object for each file costs as much as opening it
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        return None, [Problem(place=Place(file=file), message=f"cannot be read: {reason}", code="unreadable")]
    return parse_document(content, path, file)


def parse_document(content: bytes, path: str, file: str) -> tuple[Document | None, list[Problem]]:
    """As `read_document`, for content already in memory."""
    try:
        root, data, faults = parse(_decode(content))
    except Unreadable as error:
        return None, [_problem(error.fault, file)]
    digest = hashlib.sha256(content).hexdigest()[:16]
    document = Document(file, os.path.dirname(path), data, root=root, digest=digest)  # noqa: PTH120
    return document, _located(faults, file, root)


def _decode(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise Unreadable("too-large", "the file is larger than 1 MiB; expected a scenario of at most that")
    if b"\0" in content:
        line, column = _byte_position(content, content.index(b"\0"))
        raise Unreadable("not-text", "found a NUL byte: the file is binary; expected UTF-8 text", line, column)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _byte_position(content, error.start)
        found = content[error.start]
        message = f"found the byte 0x{found:02x}, which is not UTF-8; save the file as UTF-8"
        raise Unreadable("not-utf8", message, line, column) from None


def _byte_position(content: bytes, offset: int) -> tuple[int, int]:
    before = content[:offset]
    start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start:].decode(errors="replace")) + 1


def _problem(fault: YamlFault, file: str, path: Path = ()) -> Problem:
    place = Place(file=file, line=fault.line, column=fault.column, path=show_path(path))
    return Problem(place=place, message=fault.message, code=fault.code)


def _located(faults: list[YamlFault], file: str, root: Node) -> list[Problem]:
    if not faults:
        return []
    paths: dict[int, Path] = {}
    _note_paths(root, (), {id(fault.node) for fault in faults}, paths)
    return [_problem(fault, file, paths.get(id(fault.node), ())) for fault in faults]


def _note_paths(node: Node, path: Path, wanted: set[int], paths: dict[int, Path]) -> None:
    """The paths of the wanted keys and values, found in one walk. Aliases were measured before, so it ends."""
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
