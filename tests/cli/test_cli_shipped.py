"""Every scenario that ships, in the library and the examples, meets our own standards: no finding, no useless pass.

What the decisions among them accept and reject is measured in `unit/test_library.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import regex
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
AGENTS = {name: found for name, found in FILES.items() if "run" in found}

USELESS_TO_AGENTS = {
    "examples/agents/flaky_service.scenario.yaml": ("Bolts M8 are popular.", "I cannot say."),
    "examples/agents/github_issues.scenario.yaml": ("acme/site has some open bugs on its login page.",),
    "examples/agents/greeting.scenario.yaml": ("I'm sorry, I can't help with that.", "Hello to you too!"),
    "examples/agents/orders_database.scenario.yaml": ("Order 2 was not cancelled.", "Ben has an open order."),
    "examples/agents/write_file.scenario.yaml": ("I wrote nothing yet.", "hello.txt is a file."),
    "examples/bring_your_own/help_desk.scenario.yaml": ("Late parcels are annoying.",),
    "examples/plugins/orders.scenario.yaml": ("Order 17 was not refunded.", "Refunds take three days."),
    "examples/trials/stock.scenario.yaml": ("Bolts M8 have a thread of 42 mm.", "We stock bolts."),
}


@pytest.mark.parametrize("path", ["@clinical", "@robotic", str(ROOT / "examples")])
def test_validate_lint_and_selftest_find_nothing(shell, path):
    plugins = [f"--plugin={ROOT / 'examples/plugins' / name}.py" for name in ("orders_plugin", "plant_plugin")]
    assert shell("validate", path, *plugins).out == ""
    linted = shell("lint", path)
    assert (linted.code, linted.out) == (0, ""), linted.err
    tested = shell("selftest", path)
    assert (tested.code, tested.out) == (0, ""), tested.err
    inside = f"/{path[1:]}/" if path.startswith("@") else "examples/"
    assert f"{sum(inside in name for name in DECISIONS)} scenarios, " in tested.err


@pytest.mark.parametrize("name", USELESS_TO_AGENTS)
def test_an_agent_that_only_talks_about_it_fails(name):
    """The text checks of an agent scenario, which has no example answers."""
    for answer in USELESS_TO_AGENTS[name]:
        passed = [_passes(check, answer) for check in _text_checks(AGENTS[name])]
        assert passed
        assert not all(passed), answer


def _text_checks(found: Any) -> list[dict[str, Any]]:
    """Wherever they are in the file."""
    if isinstance(found, list):
        return [check for entry in found for check in _text_checks(entry)]
    if not isinstance(found, dict):
        return []
    if found.get("type") in ("regex_match", "string_contains"):
        return [found]
    return [check for entry in found.values() for check in _text_checks(entry)]


def _passes(check: dict[str, Any], answer: str) -> bool:
    if check["type"] == "string_contains":
        return check["value"].casefold() in answer.casefold()
    return regex.search(check["pattern"], answer, regex.IGNORECASE, timeout=1) is not None
