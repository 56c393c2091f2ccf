"""`import steadyhand` and `steadyhand.plugin`: what they promise is there, typed, and light."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import steadyhand
import steadyhand.plugin
from steadyhand.plugin import EvaluationParams, Evaluator
from steadyhand.version import __version__

ROOT = Path(__file__).parents[2]
DOORS = ("steadyhand", "steadyhand.plugin")
TYPED = ("examples/plugins", "examples/python_api", "examples/bring_your_own/my_agent.py")


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


@pytest.mark.parametrize(
    "file", sorted(ROOT.glob("examples/plugins/*.py")) + sorted(ROOT.glob("examples/bring_your_own/*.py")), ids=str
)
def test_examples_import_from_the_front_door_only(file: Path) -> None:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert {name for name in imported if name.partition(".")[0] == "steadyhand"} <= set(DOORS)


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
