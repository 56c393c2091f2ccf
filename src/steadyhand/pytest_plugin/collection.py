"""Scenario files as pytest items: one for each scenario and target, run together and reported one by one."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import pytest

from steadyhand.api.run import prepare, run
from steadyhand.errors import SteadyhandError, UsageError
from steadyhand.pytest_plugin import INCONCLUSIVE, run_options
from steadyhand.records.evaluation import Verdict
from steadyhand.records.scenario import Scenario

_OF_PYTEST = frozenset(("skip", "skipif", "xfail", "usefixtures", "parametrize", "filterwarnings"))
_NOT_IN_MARKER = re.compile(r"[^\w.+-]+")
_RECORD = "steadyhand_record"
NodeT = TypeVar("NodeT", bound=pytest.Collector | pytest.Item)


class ItemOutcome(NamedTuple):
    """The result of a scenario; `text` says why it did not pass, `record` is the path of its run record."""

    verdict: Verdict
    text: str = ""
    record: Path | None = None


class ScenarioCollection:
    """Collects scenario files as items, and runs them. Registered if collection is enabled."""

    def __init__(self, config: pytest.Config) -> None:
        """Raises `pytest.UsageError` for an invalid setting."""
        self.options: dict[str, Any] = run_options(config)
        self.inconclusive: str = config.getini("steadyhand_inconclusive")
        if self.inconclusive not in INCONCLUSIVE:
            expected = ", ".join(INCONCLUSIVE)
            raise pytest.UsageError(f"steadyhand_inconclusive: expected one of {expected}; got {self.inconclusive!r}")
        self._config = config
        self._root: Path = config.rootpath
        self._globs: Sequence[str] = config.getini("steadyhand_files")
        self._one_by_one: bool = _stops_early(config) or hasattr(config, "workerinput")
        self._outcomes: dict[str, ItemOutcome] = {}
        self._files: dict[str, Path] = {}
        self._markers: set[str] = set()

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        named = [file_path.name]
        if file_path.is_relative_to(self._root):
            named.append(file_path.relative_to(self._root).as_posix())
        if not any(fnmatchcase(name, glob) for glob in self._globs for name in named):
            return None
        return _node(ScenarioFile, parent, path=file_path, collection=self)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The paths of the records; with xdist, they are known only from the reports."""
        reports = (report for found in terminalreporter.stats.values() for report in found)
        properties = (pair for report in reports for pair in getattr(report, "user_properties", ()))
        for record in dict.fromkeys(value for name, value in properties if name == _RECORD):
            terminalreporter.write_line(f"steadyhand: record {record}")

    def claim(self, scenario: Scenario, file: Path) -> None:
        """Raises `CollectError` for a duplicate id: ids must be unique within a run."""
        earlier = self._files.setdefault(scenario.id, file)
        if earlier != file:
            raise pytest.Collector.CollectError(f"{scenario.place}: id `{scenario.id}` is already used in {earlier}")

    def marker(self, tag: str) -> str | None:
        """The name of the tag's marker, registered. Names with a meaning in pytest get a prefix: a tag must not skip a
        scenario or excuse its failure."""
        name = _NOT_IN_MARKER.sub("_", tag.strip()).lstrip("_")
        if not name:
            return None
        name = f"tag_{name}" if name in _OF_PYTEST else name
        if name not in self._markers:
            self._markers.add(name)
            self._config.addinivalue_line("markers", f"{name}: a tag of scenarios")
        return name

    def outcome(self, item: ScenarioItem) -> ItemOutcome:
        """The result of the scenario. Runs it together with all that are still to come, unless pytest may stop at a
        failure or another process may run them. Called again, it reruns the scenario."""
        if item.name not in self._outcomes:
            self._run([item] if self._one_by_one else [item, *self._to_come(item)])
        return self._outcomes.pop(item.name)

    def _to_come(self, item: ScenarioItem) -> Iterator[ScenarioItem]:
        others = (each for each in item.session.items if isinstance(each, ScenarioItem) and each is not item)
        return (each for each in others if not each.begun and each.needs_trust is None)

    def _run(self, items: Sequence[ScenarioItem]) -> None:
        ids = [item.name for item in items]
        try:
            result = run(list(dict.fromkeys(str(item.path) for item in items)), ids=ids, **self.options)
        except UsageError as error:
            if len(items) == 1:
                self._all_errors(ids, str(error))
            else:  # a missing setting of one must not affect the others
                for item in items:
                    self._run([item])
            return
        except SteadyhandError as error:
            self._all_errors(ids, str(error))
            return
        except Exception as error:  # noqa: BLE001 - told of every item; trying again would repeat the calls
            trace = "".join(traceback.format_exception(error))
            self._all_errors(ids, f"unexpected {type(error).__name__}, a bug in Steadyhand\n{trace}")
            return
        rates = {rate.scenario_id: rate for rate in result.rates}
        for scenario_id in ids:
            rate = rates.get(scenario_id)
            if rate is None or (rate.verdict is Verdict.PASSED and not result.complete):
                reason = "the record of the run is not complete, so the outcome is unknown"
                self._outcomes[scenario_id] = ItemOutcome(Verdict.ERROR, f"error: {reason}", result.path)
            else:
                text = "" if rate.verdict is Verdict.PASSED else result.evidence(scenario_id)
                self._outcomes[scenario_id] = ItemOutcome(rate.verdict, text, result.path)

    def _all_errors(self, ids: Iterable[str], reason: str) -> None:
        self._outcomes |= {scenario_id: ItemOutcome(Verdict.ERROR, f"error: {reason}") for scenario_id in ids}


class ScenarioFile(pytest.File):
    """A scenario, or a matrix with its combinations."""

    def __init__(self, *, collection: ScenarioCollection, **node: Any) -> None:
        super().__init__(**node)
        self._collection = collection

    def collect(self) -> Iterator[ScenarioItem]:
        """Nothing that the file names is imported or run. Raises `CollectError` with all its problems."""
        try:
            planned = prepare(str(self.path), checking=True, **self._collection.options)
        except UsageError as error:
            raise self.CollectError(str(error)) from None
        for scenario in planned.scenarios:
            self._collection.claim(scenario, self.path)
            item = _node(ScenarioItem, self, name=scenario.id, collection=self._collection)
            item.needs_trust = planned.needs_trust
            item.describe(scenario)
            yield item


class ScenarioItem(pytest.Item):
    """One scenario with one target, however many trials it has. Its name is the scenario's id."""

    def __init__(self, *, collection: ScenarioCollection, **node: Any) -> None:
        super().__init__(**node)  # pyright: ignore[reportUnknownMemberType]
        self._collection = collection
        self._line: int = 0
        self._outcome: ItemOutcome | None = None
        self.begun: bool = False
        self.needs_trust: str | None = None

    def describe(self, scenario: Scenario) -> None:
        """Take the line, and what `-k` and `-m` select by."""
        self._line = max(scenario.place.line - 1, 0)
        self.extra_keyword_matches.add(scenario.name)
        for marker in filter(None, map(self._collection.marker, scenario.tags)):
            self.add_marker(marker)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self._line, self.name

    def setup(self) -> None:
        """Errors are raised here, where pytest counts them as errors and not as failures."""
        self.begun = True
        if self.needs_trust is not None:
            pytest.fail(f"error: {self.needs_trust} (here it is --steadyhand-trust)", pytrace=False)
        found = self._outcome = self._collection.outcome(self)
        self.user_properties = [("steadyhand_verdict", found.verdict.value)]
        if found.record is not None:
            self.user_properties.append((_RECORD, str(found.record)))
        if found.verdict is Verdict.ERROR or (self._inconclusive and self._collection.inconclusive == "error"):
            pytest.fail(found.text, pytrace=False)

    @property
    def _inconclusive(self) -> bool:
        return self._outcome is not None and self._outcome.verdict is Verdict.INCONCLUSIVE

    def runtest(self) -> None:
        assert self._outcome is not None, "setup comes first"
        if self._inconclusive and self._collection.inconclusive == "skip":
            pytest.skip(self._outcome.text.partition("\n")[0])
        if self._outcome.verdict is not Verdict.PASSED:
            pytest.fail(self._outcome.text, pytrace=False)


def _node(kind: type[NodeT], parent: pytest.Collector, **given: Any) -> NodeT:
    return cast("Any", kind).from_parent(parent, **given)  # pytest does not say what it takes


def _stops_early(config: pytest.Config) -> bool:
    """Whether a failure may end the session, so that later scenarios must not run early."""
    return bool(config.getoption("maxfail", 0) or config.getoption("stepwise", default=False))
