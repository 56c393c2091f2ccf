"""A stored trial is read by the position of its fields, so their order is part of the format."""

from __future__ import annotations

import hashlib
import sqlite3

import msgspec
import pytest

from steadyhand.errors import StoreError
from steadyhand.records.run import FORMAT_VERSION, TrialRecord
from steadyhand.store.reader import RunReader
from steadyhand.store.writer import RunWriter
from support.sample_trials import HEADER

SHAPE = "718dbb65c857"
"""The digest of format 3. A field added at the end with a default, or an added kind of event, gives a new digest for
the same format; anything else is a new format."""


def shape_of(kind: type) -> list[str]:
    """Every record that is stored by position, with its fields in order."""
    lines: dict[str, str] = {}

    def walk(found: object) -> None:
        if isinstance(found, msgspec.inspect.StructType):
            name = found.cls.__name__
            if name in lines:
                return
            lines[name] = f"{name}: {', '.join(field.name for field in found.fields)}" if found.array_like else name
            for field in found.fields:
                walk(field.type)
        for part in ("types", "item_types"):
            for inner in getattr(found, part, ()):
                walk(inner)
        for part in ("item_type", "key_type", "value_type"):
            if hasattr(found, part):
                walk(getattr(found, part))

    walk(msgspec.inspect.type_info(kind))
    return sorted(line for line in lines.values() if ":" in line)


def test_the_shape_of_a_stored_trial_changes_only_on_purpose():
    shape = shape_of(TrialRecord)
    assert [line.partition(":")[0] for line in shape if line.startswith(("Trial", "Judged", "Attempt"))] == [
        "Attempt",
        "Judged",
        "TrialKey",
        "TrialRecord",
    ]
    digest = hashlib.sha256("\n".join(shape).encode()).hexdigest()[:12]
    assert (FORMAT_VERSION, digest) == (3, SHAPE), "\n".join(shape)


@pytest.mark.parametrize(("version", "said"), [(FORMAT_VERSION - 1, "an older"), (FORMAT_VERSION + 1, "upgrade")])
def test_a_record_of_another_format_is_refused(tmp_path, version, said):
    writer = RunWriter.create(tmp_path, HEADER)
    writer.close()
    connection = sqlite3.connect(writer.path)
    connection.execute(f"PRAGMA user_version={version}")
    connection.close()
    with pytest.raises(StoreError, match=said):
        RunReader.open(writer.path)
