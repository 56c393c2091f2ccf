"""The pytest plugin: the settings of its runs, the fixture's object, and collection. pytest loads `pytest_steadyhand`,
which loads this package when a session uses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from steadyhand.api.result import RunResult
from steadyhand.api.run import Source, run

INCONCLUSIVE = ("fail", "error", "skip")
"""How pytest treats an inconclusive scenario. None of these is a pass."""


def run_options(config: pytest.Config) -> dict[str, Any]:
    """The options for `steadyhand.run` from pytest's options and ini file. Raises `pytest.UsageError`."""
    found: dict[str, Any] = {}
    for name in ("model", "agent", "judge", "config", "trials", "trust", "variants", "faults"):
        if value := config.getoption(f"steadyhand_{name}") or config.getini(f"steadyhand_{name}"):
            found[name] = value
    if "trials" in found and not str(found["trials"]).isdigit():
        raise pytest.UsageError(f"steadyhand_trials: expected a number of trials, got {found['trials']!r}")
    if "trials" in found:
        found["trials"] = int(found["trials"])
    if "config" not in found:
        found["config"] = "auto"
    elif not config.getoption("steadyhand_config"):
        found["config"] = config.rootpath / found["config"]
    return found


class Steadyhand:
    """The fixture `steadyhand`: runs scenarios with pytest's settings, from paths relative to the test's folder."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self._folder = folder
        self._options = options

    def run(self, scenarios: Source | Iterable[Source], **options: Any) -> RunResult:
        """Like `steadyhand.run`, with the same options; `assert_passed()` on the result fails the test."""
        several = isinstance(scenarios, list | tuple)
        placed = [self._placed(each) for each in scenarios] if several else self._placed(scenarios)
        return run(placed, **{**self._options, **options})

    def _placed(self, source: Any) -> Any:
        if not isinstance(source, str | Path) or str(source).startswith("@"):
            return source
        return str(self._folder / source)
