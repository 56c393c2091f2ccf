"""Text out of a LostBench case, and a scenario as the YAML it is written in."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import yaml

_NUMBER_STARTS = frozenset("+-.0123456789")
_LIST_ITEM = re.compile(r"\s*(?:[-*•]|\d+[.)])\s")
_WIDTH = 110
_TEXT_TAG = "tag:yaml.org,2002:str"


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else '"' if text[:1] in _NUMBER_STARTS else None
    return dumper.represent_scalar(_TEXT_TAG, text, style=style)  # pyright: ignore[reportUnknownMemberType]  # untyped


class _Dumper(yaml.SafeDumper):
    """Blocks for texts of several lines; quotes around what YAML 1.2 could take for a number; no aliases."""

    yaml_representers: ClassVar[dict[Any, Any]] = {**yaml.SafeDumper.yaml_representers, str: _text_node}

    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_yaml(data: Any) -> str:
    """YAML that reads back as the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


def as_text(value: Any) -> str:
    """A text as it is; a mapping or list as YAML, which people can read; nothing for nothing."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return to_yaml(value) if isinstance(value, dict | list) else str(value)


def reflow(text: str) -> str:
    """The text with lines that were only wrapped joined again. Paragraphs and lists stay."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        wrapped = lines and lines[-1] and line.strip() and not _LIST_ITEM.match(line)
        if wrapped:
            lines[-1] = f"{lines[-1]} {line.strip()}"
        else:
            lines.append(line.rstrip())
    return "\n".join(lines)
