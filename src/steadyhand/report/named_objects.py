"""Records as objects with named fields and every key present, as reports show them. Stored, many are lists of values.

Of a record that reports show as it is, the fields with a `doc()` are shown. A report's own shapes have such records in
them, so that only what reports say differently is written down twice.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from steadyhand.records.base import Record, record_schema

Appearances = Mapping[type[Record], tuple[str, str] | type[Record]]
"""Of a record its name in the schema and what it is, or else the shape it is shown in."""


class NamedObjects:
    """The objects that records become. Those that are not in `names` are shapes of the report, with all their fields.

    Bounds are for the schema: what is outside of them is shown as it is.
    """

    def __init__(self, names: Appearances) -> None:
        self._names: Appearances = names
        self._made: dict[tuple[type[Record], bool], Any] = {}
        self._types: dict[type[Record], Any] = {}

    def of(self, record: Record) -> msgspec.Struct:
        """The record as a named object, with all records in it."""
        kind = type(record)
        if kind not in self._types:
            self._types[kind] = self._object(kind, bounds=False)
        return msgspec.convert(record, self._types[kind], from_attributes=True)

    def schema(self, shape: type[Record], title: str) -> dict[str, Any]:
        return record_schema(self._object(shape, bounds=True), title)

    def _object(self, record: type[Record], *, bounds: bool) -> Any:
        key = record, bounds
        if key not in self._made:
            named = self._names.get(record, (record.__name__, record.__doc__ or ""))
            if isinstance(named, type):
                return self._object(named, bounds=bounds)
            name, description = named
            self._made[key] = name  # what it contains may contain it
            hints = get_type_hints(record, include_extras=True)
            shown = [each for each in record.__struct_fields__ if get_origin(hints[each]) is Annotated]
            fields = [(each, self._type(hints[each], bounds=bounds)) for each in shown]
            made: Any = msgspec.defstruct(
                name, fields, namespace={"__doc__": description}, kw_only=True, forbid_unknown_fields=True
            )
            setattr(made, name, made)  # where its fields refer to it
            self._made[key] = made
        return self._made[key]

    def _type(self, annotation: Any, *, bounds: bool) -> Any:
        """The type, with an object in place of each record."""
        origin, inner = get_origin(annotation), get_args(annotation)
        if origin is None or origin is Literal:
            is_record = isinstance(annotation, type(Record))
            return self._object(annotation, bounds=bounds) if is_record else annotation
        if origin is Annotated:
            held = self._type(inner[0], bounds=bounds)
            generic: Any = Annotated
            return generic[(held, *map(_enforced, inner[1:]))] if bounds else held
        args = tuple(self._type(each, bounds=bounds) for each in inner)
        generic = Union if origin is types.UnionType else origin
        return generic[args]


def _enforced(meta: msgspec.Meta) -> msgspec.Meta:
    """What `Natural` and `Proportion` only state."""
    stated = meta.extra_json_schema
    return msgspec.Meta(ge=stated.get("minimum"), le=stated.get("maximum")) if stated else meta
