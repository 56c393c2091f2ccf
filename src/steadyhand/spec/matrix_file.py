"""Matrix files, lowered to their record."""

from __future__ import annotations

import os.path
from typing import Any, cast

from steadyhand.records.scenario import Matrix, MatrixAxis
from steadyhand.spec.default_id import default_id
from steadyhand.spec.document import Document
from steadyhand.spec.findings import Findings
from steadyhand.spec.mappings import mappings
from steadyhand.spec.shapes.matrix import MatrixShape
from steadyhand.spec.validation import validate


def read_matrix(document: Document, findings: Findings) -> Matrix | None:
    """The matrix, or None when `findings` holds an error."""
    data = cast("dict[str, Any]", document.data)
    shape = validate(MatrixShape, data, (), findings)
    base = _check_base(data.get("base_scenario"), document, findings)
    _check_axes(data.get("matrix"), findings)
    if shape is None or findings.failed:
        return None
    return Matrix(
        name=shape.name or default_id(document.file),
        place=document.locate(()),
        digest=document.digest,
        base_scenario=base,
        axes=tuple(
            MatrixAxis(parameter=axis.parameter, values=tuple(axis.values), place=document.locate(("matrix", index)))
            for index, axis in enumerate(shape.matrix)
        ),
        description=shape.description,
        runs_per_combination=shape.runs_per_combination,
    )


def _check_base(base: Any, document: Document, findings: Findings) -> str:
    if not isinstance(base, str) or not base:
        return ""
    path = os.path.normpath(os.path.join(document.folder, base))  # noqa: PTH118  # `..` must go without following links
    if not os.path.isfile(path):  # noqa: PTH113
        message = f"expected a scenario file, relative to the matrix file; found none at `{path}`"
        findings.error(("base_scenario",), message, "missing-file")
    return path


def _check_axes(axes: Any, findings: Findings) -> None:
    seen: dict[str, int] = {}
    for index, axis in mappings(axes):
        parameter = axis.get("parameter")
        if not isinstance(parameter, str):
            continue
        if parameter in seen:
            line = findings.document.locate(("matrix", seen[parameter])).line
            message = f"`{parameter}` is already varied on line {line}; put all values there"
            findings.error(("matrix", index, "parameter"), message, "duplicate-parameter")
        seen.setdefault(parameter, index)
