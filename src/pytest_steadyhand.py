"""What pytest loads wherever Steadyhand is installed: the options, and the fixture `steadyhand`.

It is next to the package, so that loading it loads nothing else of Steadyhand. `steadyhand/pytest_plugin/` has the
rest; docs/pytest.md documents both for users.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False  # importing `typing` is not free
if TYPE_CHECKING:
    from steadyhand.pytest_plugin import Steadyhand


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("steadyhand", "scenarios (Steadyhand)")
    group.addoption("--steadyhand", action="store_true", help="Collect scenario files and run each as a test.")
    for name, metavar, help_ in (
        ("model", "NAME", "Model under test, as provider/model (repeatable: each is a separate test)."),
        ("agent", "KIND", "Agent under test (repeatable)."),
    ):
        group.addoption(f"--steadyhand-{name}", action="append", metavar=metavar, help=help_)
        parser.addini(f"steadyhand_{name}", help_, type="linelist")
    for name, metavar, help_ in (
        ("judge", "NAME", "Judge model, as provider/model."),
        ("config", "FILE", "Configuration file. [default: steadyhand.toml in this folder or the nearest parent]"),
        ("trials", "N", "Number of trials per scenario."),
    ):
        group.addoption(f"--steadyhand-{name}", metavar=metavar, help=help_)
        parser.addini(f"steadyhand_{name}", help_)
    for name, help_ in (
        ("trust", "Allow code, commands and files named by scenarios outside the project."),
        ("variants", "Also run the variants of scenarios, each as a test."),
        ("faults", "Also run scenarios with each fault of their mocks, each as a test."),
    ):
        group.addoption(f"--steadyhand-{name}", action="store_true", help=help_)
        parser.addini(f"steadyhand_{name}", help_, type="bool", default=False)
    parser.addini("steadyhand", "Collect scenario files, as --steadyhand does.", type="bool", default=False)
    parser.addini(
        "steadyhand_files",
        "Globs of the files to collect, by name or relative to the root folder.",
        type="linelist",
        default=["*.scenario.yaml", "*.scenario.yml"],
    )
    parser.addini(
        "steadyhand_inconclusive", "How to report an inconclusive scenario: fail, error or skip.", default="fail"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("steadyhand") or config.getini("steadyhand"):
        from steadyhand.pytest_plugin.collection import ScenarioCollection

        config.pluginmanager.register(ScenarioCollection(config), "steadyhand-collection")


@pytest.fixture
def steadyhand(request: pytest.FixtureRequest) -> Steadyhand:
    """Runs scenarios: `steadyhand.run("refund.scenario.yaml", agent=my_agent).assert_passed()`."""
    from steadyhand.pytest_plugin import Steadyhand, run_options

    return Steadyhand(request.path.parent, run_options(request.config))
