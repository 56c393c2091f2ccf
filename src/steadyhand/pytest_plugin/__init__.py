"""The pytest plugin: `pytest --steadyhand` collects scenario files, and the fixture `steadyhand` runs them in a test.

pytest imports this module wherever Steadyhand is installed, so it imports next to nothing. `collection.py` has the
rest, and docs/pytest.md is the user's side of both.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TYPE_CHECKING = False  # importing `typing` is not free
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from steadyhand.api.result import RunResult
    from steadyhand.api.run import Source

INCONCLUSIVE = ("fail", "error", "skip")
"""What an inconclusive scenario is to pytest. None of them is a pass."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("steadyhand", "scenarios (Steadyhand)")
    group.addoption("--steadyhand", action="store_true", help="Collect scenario files and run each as a test.")
    for name, metavar, help_ in (
        ("model", "NAME", "Model under test, as provider/model (repeatable: each is a test of its own)."),
        ("agent", "KIND", "Agent under test (repeatable)."),
    ):
        group.addoption(f"--steadyhand-{name}", action="append", metavar=metavar, help=help_)
        parser.addini(f"steadyhand_{name}", help_, type="linelist")
    for name, metavar, help_ in (
        ("judge", "NAME", "Judge model, as provider/model."),
        ("config", "FILE", "Configuration file. [default: the nearest steadyhand.toml upwards]"),
        ("trials", "N", "Number of trials per scenario."),
    ):
        group.addoption(f"--steadyhand-{name}", metavar=metavar, help=help_)
        parser.addini(f"steadyhand_{name}", help_)
    trust = "Allow code, commands and files that scenarios from outside the project name."
    group.addoption("--steadyhand-trust", action="store_true", help=trust)
    parser.addini("steadyhand_trust", trust, type="bool", default=False)
    parser.addini("steadyhand", "Collect scenario files, as --steadyhand does.", type="bool", default=False)
    parser.addini(
        "steadyhand_files",
        "Globs of the files to collect, by name or relative to the root folder.",
        type="linelist",
        default=["*.scenario.yaml", "*.scenario.yml"],
    )
    parser.addini("steadyhand_inconclusive", "What an inconclusive scenario is: fail, error or skip.", default="fail")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("steadyhand") or config.getini("steadyhand"):
        from steadyhand.pytest_plugin.collection import ScenarioCollection

        config.pluginmanager.register(ScenarioCollection(config), "steadyhand-collection")


def run_options(config: pytest.Config) -> dict[str, Any]:
    """What pytest's options and ini file say of a run, as `steadyhand.run` takes it. Raises `pytest.UsageError`."""
    given = {name: _given(config, name) for name in ("model", "agent", "judge", "config", "trials", "trust")}
    found: dict[str, Any] = {name: value for name, value in given.items() if value}
    if "trials" in found and not str(found["trials"]).isdigit():
        raise pytest.UsageError(f"steadyhand_trials: expected a number of trials, got {found['trials']!r}")
    if "trials" in found:
        found["trials"] = int(found["trials"])
    if "config" not in found:
        found["config"] = "auto"
    elif not config.getoption("steadyhand_config"):
        found["config"] = config.rootpath / found["config"]
    return found


def _given(config: pytest.Config, name: str) -> Any:
    return config.getoption(f"steadyhand_{name}") or config.getini(f"steadyhand_{name}")


class Steadyhand:
    """The fixture `steadyhand`: runs scenarios with pytest's settings, from paths relative to the test's folder."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self._folder = folder
        self._options = options

    def run(self, scenarios: Source | Iterable[Source], **options: Any) -> RunResult:
        """As `steadyhand.run`, whose options these are; `assert_passed()` of what it gives fails the test."""
        from steadyhand.api.run import run

        several = isinstance(scenarios, list | tuple)
        placed = [self._placed(each) for each in scenarios] if several else self._placed(scenarios)
        return run(placed, **{**self._options, **options})

    def _placed(self, source: Any) -> Any:
        if not isinstance(source, str | Path) or str(source).startswith("@"):
            return source
        return str(self._folder / source)


@pytest.fixture
def steadyhand(request: pytest.FixtureRequest) -> Steadyhand:
    """Runs scenarios: `steadyhand.run("refund.scenario.yaml", agent=my_agent).assert_passed()`."""
    return Steadyhand(request.path.parent, run_options(request.config))
