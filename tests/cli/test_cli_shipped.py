"""Every scenario that ships, in the library and the examples, meets our own standards: no finding, no useless pass.

What they accept and reject is measured in `unit/test_library.py` and `unit/test_agent_examples.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # several times faster
SHIPPED = (ROOT / "src" / "steadyhand" / "configs", ROOT / "examples")
FILES = {
    path.relative_to(ROOT).as_posix(): found
    for folder in SHIPPED
    for path in sorted(folder.rglob("*.yaml"))
    if isinstance(found := yaml.load(path.read_text(encoding="utf-8"), LOADER), dict)
}
DECISIONS = {name: found for name, found in FILES.items() if "messages" in found}


@pytest.mark.parametrize("path", ["@clinical", "@robotic", str(ROOT / "examples")])
def test_validate_lint_and_selftest_find_nothing(shell, path):
    plugins = [f"--plugin={ROOT / 'examples/plugins' / name}.py" for name in ("orders_plugin", "plant_plugin")]
    assert shell("validate", path, *plugins).out == ""
    linted = shell("lint", path)
    assert (linted.code, linted.out) == (0, ""), linted.err
    tested = shell("selftest", path)
    assert (tested.code, tested.out) == (0, ""), tested.err
    inside = f"/{path[1:]}/" if path.startswith("@") else "examples/"
    cases = 2 if path.endswith("examples") else 0  # examples/cases is one file with three cases
    assert f"{sum(inside in name for name in DECISIONS) + cases} scenarios, " in tested.err
