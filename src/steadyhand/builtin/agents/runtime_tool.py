"""A tool as the built-in agent holds it, and the names that model providers take."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from steadyhand.errors import PluginError
from steadyhand.records.chat import ToolSpec

_LONGEST = 64
_ANY_OBJECT: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


class ToolRefusal(Exception):
    """The tool could not do it, and the model is to read why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """`action` is the name it has in the trajectory; `spec.name` the one the model calls it by."""

    action: str
    spec: ToolSpec
    run: Callable[[dict[str, Any]], Awaitable[Any]]

    def complaint(self, arguments: dict[str, Any]) -> str | None:
        """What is wrong with the arguments, or None. Raises `PluginError` when the tool's own schema is broken."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError, ValidationError, relevance

        try:
            Draft202012Validator.check_schema(self.spec.parameters)
        except SchemaError as error:
            raise PluginError(f"the parameters of {self.action!r} are not a JSON Schema: {error.message}") from error
        validator: Any = Draft202012Validator(self.spec.parameters)
        errors: list[ValidationError] = sorted(validator.iter_errors(arguments), key=relevance)
        return "; ".join(f"{error.json_path}: {error.message}" for error in errors[:5]) or None


class ToolBox:
    """Tools under names that are unique and that every provider takes."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.tools

    def add(
        self,
        wanted: str,
        run: Callable[[dict[str, Any]], Awaitable[Any]],
        *,
        action: str,
        description: str = "",
        parameters: dict[str, Any] | None = None,
    ) -> None:
        name = self._free(wanted)
        spec = ToolSpec(name=name, description=description, parameters=parameters or _ANY_OBJECT)
        self.tools[name] = Tool(action=action, spec=spec, run=run)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.tools.values())

    def _free(self, wanted: str) -> str:
        name = tool_name(wanted)
        number = 2
        while name in self.tools:
            ending = f"_{number}"
            name = tool_name(wanted)[: _LONGEST - len(ending)] + ending
            number += 1
        return name


def tool_name(wanted: str) -> str:
    """The name with everything that providers refuse replaced by `_`, at most 64 characters."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", wanted)[:_LONGEST] or "tool"
