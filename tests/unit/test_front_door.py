"""`import steadyhand` and `steadyhand.plugin`: what they promise is there, typed, and quick to import."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import steadyhand
import steadyhand.plugin
from steadyhand.plugin import EvaluationParams, Evaluator
from steadyhand.records.base import Record
from steadyhand.version import __version__

ROOT = Path(__file__).parents[2]
DOORS = ("steadyhand", "steadyhand.plugin")
TYPED = (
    "examples/plugins",
    "examples/python_api",
    "examples/bring_your_own/my_agent.py",
    "tests/support/third_party.py",
)
THIRD_PARTY = (
    *sorted(ROOT.glob("examples/plugins/*.py")),
    *sorted(ROOT.glob("examples/bring_your_own/*.py")),
    ROOT / "tests/support/third_party.py",
)


@pytest.mark.parametrize("name", DOORS)
def test_all_is_what_is_importable(name: str) -> None:
    module = importlib.import_module(name)
    assert len(module.__all__) == len(set(module.__all__))
    for each in module.__all__:
        assert getattr(module, each) is not None
    assert set(module.__all__) <= set(dir(module))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        _ = steadyhand.runn


def test_importing_it_imports_nothing_else_of_ours_or_of_others() -> None:
    program = "import sys; before = set(sys.modules); import steadyhand; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["steadyhand", "steadyhand.version"]


def test_the_version_is_one_string() -> None:
    assert steadyhand.__version__ == __version__
    assert f'"{__version__}"' not in (ROOT / "pyproject.toml").read_text()


@pytest.mark.types
def test_type_checkers_see_every_name_and_pass_the_examples(tmp_path: Path) -> None:
    for door in DOORS:
        lines = [f"from {door} import {name} as {name}\n" for name in importlib.import_module(door).__all__]
        (tmp_path / f"names_{door.replace('.', '_')}.py").write_text("".join(lines))
    given = [str(tmp_path), *(str(ROOT / each) for each in TYPED)]
    config = {
        "include": given,
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "venvPath": str(Path(sys.prefix).parent),
        "venv": Path(sys.prefix).name,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    _clean("basedpyright", "--project", str(tmp_path / "pyrightconfig.json"))
    _clean("mypy", "--strict", "--cache-dir", os.devnull, *given)


def _clean(tool: str, *arguments: str) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / tool), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", THIRD_PARTY, ids=lambda file: file.name)
def test_examples_import_from_the_front_door_only(file: Path) -> None:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert {name for name in imported if name.partition(".")[0] == "steadyhand"} <= set(DOORS)


def test_a_plugin_can_name_whatever_its_parts_are_given_and_answer_with() -> None:
    """Every type in the signature of a port, and every type that its answers contain, can be imported from one
    place."""
    exported = {name: getattr(steadyhand.plugin, name) for name in steadyhand.plugin.__all__}
    events = set(typing.get_args(steadyhand.plugin.AnyEvent))
    named: set[type] = set()
    for port in exported.values():
        if inspect.isclass(port) and getattr(port, "_is_protocol", False):
            for method in vars(port).values():
                function = method.fget if isinstance(method, property) else method
                if inspect.isfunction(function):
                    named |= _types_of(function)
    assert len(named) > 40, "the walk no longer finds the types"
    missing = {each.__name__ for each in named - events if each not in exported.values()}
    assert missing == set()


def _types_of(function: types.FunctionType) -> set[type]:
    hints = typing.get_type_hints(function, globalns={**_ALL_NAMES, **function.__globals__})
    answer = hints.pop("return", None)
    found = {each for hint in hints.values() for each in _ours(hint)}
    unread = list(_ours(answer))
    while unread:
        each = unread.pop()
        if each not in found:
            found.add(each)
            if issubclass(each, Record) and each is not steadyhand.plugin.Scenario:  # plugins do not make scenarios
                fields = typing.get_type_hints(each, globalns={**_ALL_NAMES, **vars(sys.modules[each.__module__])})
                unread += [inner for hint in fields.values() for inner in _ours(hint)]
    return found


def _ours(hint: Any) -> Iterator[type]:
    """Our own classes in a type hint."""
    for inner in typing.get_args(hint):
        yield from (each for one in (inner if isinstance(inner, list) else [inner]) for each in _ours(one))
    named = typing.get_origin(hint) or hint
    if inspect.isclass(named) and named.__module__.startswith("steadyhand."):
        yield named


_ALL_NAMES = {
    name: value
    for module in ("ports.agent", "ports.environment", "ports.services", "records.chat")
    for name, value in vars(importlib.import_module(f"steadyhand.{module}")).items()
}
"""For hints that name what is imported only for type checkers."""


class Limit(EvaluationParams):
    words: int


class Short(Evaluator[Limit]):
    type = "short"

    async def evaluate(self, params, result, context):
        raise NotImplementedError


class Shorter(Short):
    type = "shorter"


def test_an_evaluator_takes_its_parameters_from_its_type_argument() -> None:
    assert Short().params is Limit
    assert Shorter().params is Limit
    assert Short().reads == frozenset()


def test_an_evaluator_without_evaluate_cannot_be_made() -> None:
    class Forgotten(Evaluator[Limit]):
        type = "forgotten"

    with pytest.raises(TypeError, match="evaluate"):
        Forgotten()
