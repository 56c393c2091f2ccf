"""The base of every record: frozen, compared by value, keyword-only, compact on disk."""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True)
class _RecordMeta(msgspec.StructMeta):
    """msgspec asks for `kw_only` on each class anew; every record is, so say it once."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> _RecordMeta:
        config.setdefault("kw_only", True)
        return super().__new__(mcls, name, bases, namespace, **config)


class Record(msgspec.Struct, metaclass=_RecordMeta, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A value that is passed around and stored. Fields left at their default are not written."""


def record_schema(record: type[Record], title: str) -> dict[str, Any]:
    """The JSON Schema of a record as it is written. A key that is absent has its default."""
    found = msgspec.json.schema(record)
    definitions: dict[str, Any] = found["$defs"]
    top: dict[str, Any] = definitions.pop(record.__name__)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "title": title, "$defs": definitions}
