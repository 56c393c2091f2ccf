"""YAML as a rules file uses it: the 1.2 core rules, so that `judgment: yes` is a word and not a truth value."""

from __future__ import annotations

import re
from typing import Any

import yaml

_KINDS = (
    ("null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("int", re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")),
    (
        "float",
        re.compile(
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        list("-+0123456789."),
    ),
)


class _Loader(yaml.CSafeLoader):
    """The safe loader with the scalars of YAML 1.2, and no key twice: the first of two would silently be lost."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        text = node.value
        base = 8 if text.startswith("0o") else 16 if text.startswith("0x") else 10
        return int(text, base)


for _name, _pattern, _firsts in _KINDS:
    for _first in _firsts:
        _Loader.yaml_implicit_resolvers.setdefault(_first, []).append((f"tag:yaml.org,2002:{_name}", _pattern))
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_integer)


def read_yaml(raw: bytes) -> Any:
    """Raises `yaml.YAMLError` or `UnicodeDecodeError`."""
    return yaml.load(raw.decode("utf-8-sig"), Loader=_Loader)  # noqa: S506 -- a subclass of the safe loader
