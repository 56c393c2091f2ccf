"""The plugins that a scenario names, and the words they add."""

from __future__ import annotations

from typing import Any, cast

from pydantic import ValidationError

from steadyhand.errors import UsageError
from steadyhand.records.scenario import PluginRef
from steadyhand.spec.agent_shapes import PluginShape
from steadyhand.spec.document import Document
from steadyhand.spec.findings import Findings
from steadyhand.spec.vocabulary import Extend, Vocabulary


def plugin_refs(document: Document) -> tuple[PluginRef, ...]:
    """Those that are written as they should be; the others are for the shape of the file to report."""
    data = cast("dict[str, Any]", document.data)
    entries = data.get("plugins")
    if not isinstance(entries, list):
        return ()
    found: list[PluginRef] = []
    for index, entry in enumerate(cast("list[Any]", entries)):
        try:
            shape = PluginShape.model_validate({"name": entry} if isinstance(entry, str) else entry)
        except ValidationError:
            continue
        found.append(
            PluginRef(
                name=shape.name,
                place=document.locate(("plugins", index)),
                version=shape.version,
                enabled=shape.enabled,
                config=shape.config,
            )
        )
    return tuple(found)


def vocabulary_of(document: Document, findings: Findings, base: Vocabulary, extend: Extend | None) -> Vocabulary:
    """The base, extended by the scenario's plugins. A plugin that cannot be had is a finding at its place."""
    refs = plugin_refs(document)
    if extend is None or not refs:
        return base
    try:
        return extend(refs, document.file)
    except UsageError as error:
        findings.error(("plugins",), str(error), "plugin")
        return base
