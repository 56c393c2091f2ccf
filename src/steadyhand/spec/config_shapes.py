"""What `steadyhand.toml` may say, made from the records that it is read into."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

import msgspec
from pydantic import ConfigDict, Field, create_model

from steadyhand.records.base import Record
from steadyhand.records.config import (
    REASONING_TAGS,
    CalibrationConfig,
    Config,
    PluginConfig,
    Price,
    ProviderConfig,
    RunOptions,
    bounds_of,
    declared_by,
)
from steadyhand.spec.shared_shapes import PluginShape
from steadyhand.spec.validation import ReasoningTags, Shape

_BOUNDS = ("ge", "gt", "le", "lt", "min_length")


class _Open(Shape):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")


class AgentTableShape(_Open):
    """Options of a kind of agent. Any other key is an option of the agent."""

    reasoning_tags: ReasoningTags | None = Field(default=None, description=REASONING_TAGS)


def _shape_of(
    record: type[Record], name: str, words: str = "", base: type[Shape] = Shape, **written: Any
) -> type[Shape]:
    """What a file may say of the fields that the record describes, or that an option of a run with their name does.

    `words` replace the record's own, and `written` are the types of fields that the file writes differently.
    """
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(record):
        metadata = getattr(field.type, "__metadata__", ())
        about = next((each.description for each in metadata if each.description), None)
        option, bounds = declared_by(RunOptions).get(field.name), dict[str, Any]()
        if about is None and option is not None:
            default, bounds = option.shown_default, bounds_of(field.name)
            about = f"{option.help} Default: {default}" if default else option.help.removesuffix(".")
        if about is not None:
            start = ... if field.required else field.default
            start = field.default_factory() if callable(field.default_factory) else start
            start = _SHAPES[type(start)]() if isinstance(start, Record) else start
            kind = written.get(field.name) or _as_written(field.type)
            fields[field.name] = (kind, Field(default=start, description=about, **bounds))
    return create_model(name, __base__=base, __doc__=words or record.__doc__, **fields)


def _as_written(annotation: Any) -> Any:
    """The type of a record's field, as that of a shape."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        kind, bounds = _as_written(arguments[0]), dict[str, Any]()
        for meta in arguments[1:]:
            bounds |= {name: bound for name in _BOUNDS if (bound := getattr(meta, name)) is not None}
        return Annotated[kind, Field(**bounds)] if bounds else kind
    if origin in (Union, UnionType):
        return _as_written(arguments[0]) | None
    if origin is tuple:
        return list[_as_written(arguments[0])]
    if origin is dict:
        return dict[str, _as_written(arguments[1])]
    return _SHAPES.get(annotation, annotation)


_SHAPES: dict[Any, type[Shape]] = {PluginConfig: PluginShape}
PriceShape = _SHAPES[Price] = _shape_of(Price, "PriceShape")
ProviderShape = _SHAPES[ProviderConfig] = _shape_of(
    ProviderConfig,
    "ProviderShape",
    "How to reach a model provider. Any other key is an option of the provider.",
    _Open,
    reasoning_tags=ReasoningTags | None,
)
CalibrationShape = _SHAPES[CalibrationConfig] = _shape_of(CalibrationConfig, "CalibrationShape")
ConfigShape = _shape_of(
    Config,
    "ConfigShape",
    "Settings of a project. Paths are relative to the file; command-line flags override it.",
    agents=dict[str, AgentTableShape],
)
