"""A benchmark that uses a name that is gone is noticed here, not when somebody measures."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

BENCHMARKS = sorted(Path("benchmarks").glob("*.py"))


def imported_from_us(program: Path) -> list[tuple[str, str]]:
    return [
        (node.module, name.name)
        for node in ast.walk(ast.parse(program.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("steadyhand")
        for name in node.names
    ]


@pytest.mark.parametrize("program", BENCHMARKS, ids=lambda program: program.stem)
def test_what_a_benchmark_imports_is_there(program: Path):
    missing = [
        f"{module}.{name}"
        for module, name in imported_from_us(program)
        if not hasattr(importlib.import_module(module), name)
    ]
    assert missing == []


def test_the_benchmarks_are_found():
    assert sum(len(imported_from_us(program)) for program in BENCHMARKS) > 20
