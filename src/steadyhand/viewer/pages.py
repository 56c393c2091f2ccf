"""The pages of the viewer: the runs of a folder, one run, one trial, two runs side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from steadyhand.compose.comparison import compare_sources, read_source
from steadyhand.errors import StoreError, UsageError
from steadyhand.judging.rates import ScenarioRate, Tally, tally_scenarios
from steadyhand.judging.run_comparison import Comparison
from steadyhand.reading.run import Reading
from steadyhand.records.base import Record, counted
from steadyhand.records.evaluation import WORST_FIRST, Outcome, Verdict
from steadyhand.records.run import RunHeader, Target, TrialKey
from steadyhand.report import comparison as words
from steadyhand.report.html.overview import is_sparse, row_of
from steadyhand.report.html.trial import trial_part, trial_view
from steadyhand.report.wording import headline
from steadyhand.store.reader import RunEntry, RunReader, list_runs
from steadyhand.store.summaries import record_named, state_of
from steadyhand.viewer.labels import LabelBook
from steadyhand.viewer.response import PageResponse, address, asset_response, part, problem_page, rendered
from steadyhand.viewer.trial_index import PAGE, TrialFilter, TrialIndex

_RUNS = 50
_KEPT = 3
_GRID_ROWS = 200
_TOLD = 40
_FIELDS = {
    "q": "text",
    "verdict": "verdict",
    "outcome": "outcome",
    "class": "failure_class",
    "tag": "tag",
    "target": "target",
    "scenario": "scenario",
}
Query = Mapping[str, str]


class ViewedCell(Record):
    """The trials of a scenario on a target, and the link to their list."""

    verdict: Verdict
    passed: int
    total: int
    pending: int
    link: str


class ViewedRow(Record):
    scenario: str
    name: str
    cells: tuple[ViewedCell | None, ...]
    rank: int


class Viewer:
    """Handles page requests. It caches the indexes of a few runs, and writes only labels."""

    def __init__(self, folder: Path, label_book: LabelBook) -> None:
        self.folder: Path = folder
        self.label_book: LabelBook = label_book
        self._indexes: dict[str, TrialIndex] = {}
        self._comparisons: dict[object, Comparison] = {}
        self._flaws: dict[Path, tuple[object, str | None]] = {}
        self._lock: threading.Lock = threading.Lock()

    def get(self, path: str, query: Query) -> PageResponse:
        """Raises `StoreError` or `UsageError` for a page that does not exist."""
        if path.startswith("/assets/"):
            return asset_response(path.removeprefix("/assets/")) or problem_page(404, "There is no such file.")
        pages: dict[str, Callable[[Query], PageResponse]] = {
            "/": self._runs,
            "/run": self._run,
            "/run/part": self._run_part,
            "/trial": self._trial,
            "/compare": self._compare,
        }
        page = pages.get(path)
        return problem_page(404, "There is no such page.") if page is None else page(query)

    def post(self, path: str, form: Mapping[str, str]) -> PageResponse:
        if path != "/labels":
            return problem_page(404, "There is no such page.")
        # Encoded, since a field of a form may not keep every character of a name.
        about = dict(parse_qsl(form.get("of", "").removeprefix("?"), max_num_fields=10))
        reader, key, trial = self._stored(about)
        self.label_book.add(reader.header.id, trial, {**form, "check": about.get("check", "")})
        return PageResponse(body=self._labels(reader, key).encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        for index in self._indexes.values():
            index.close()

    # The runs of the folder

    def _runs(self, query: Query) -> PageResponse:
        skip = _number(query.get("skip"))
        runs = list_runs(self.folder, skip=skip, most=_RUNS + 1)
        page = "runs_part.html" if query.get("part") else "runs.html"
        return rendered(
            page,
            folder=str(self.folder),
            runs=[_RunLine.of(run, self._verdict(run)) for run in runs[:_RUNS]],
            live=any(run.status == "running" for run in runs),
            newer=address("/", skip=max(skip - _RUNS, 0) or None) if skip else None,
            older=address("/", skip=skip + _RUNS) if len(runs) > _RUNS else None,
        )

    def _verdict(self, run: RunEntry) -> Verdict | None:
        """That of the run's scenarios, as its exit code has it; None while nothing is wrong and not everything has run,
        and of a long run until its page has proved that it passed."""
        if run.header is None:
            return None
        reading = Reading.open(run.path)
        found = reading.scenarios.by_verdict
        worst = next((verdict for verdict in WORST_FIRST if found[verdict]), None)
        if run.status == "running" and worst is not Verdict.FAILED:
            return None
        if worst is not Verdict.PASSED:
            return worst
        if reading.is_long and not self._is_proved(reading):
            return None
        return worst if self._flaw(reading) is None else Verdict.INCONCLUSIVE

    def _is_proved(self, reading: Reading) -> bool:
        """Whether the record was read since it last changed."""
        known = self._flaws.get(reading.path)
        return known is not None and known[0] == state_of(reading.path)

    def _flaw(self, reading: Reading) -> str | None:
        """Why nobody should rely on the record; None if it is whole. Reads all of it, once."""
        if not self._is_proved(reading):
            state = state_of(reading.path)
            self._flaws[reading.path] = state, reading.flaw
        return self._flaws[reading.path][1]

    # One run

    def _index(self, run_id: str) -> TrialIndex:
        """An up-to-date index. The least recently used one is evicted. Raises `StoreError`."""
        path = record_named(self.folder, run_id)
        if path is None:
            raise StoreError("There is no such run in this folder.")
        with self._lock:
            index = self._indexes.pop(run_id, None) or TrialIndex(path)
            self._indexes[run_id] = index
            # An evicted index may still be in use by another thread, and is closed when that thread releases it.
            for old in list(self._indexes)[:-_KEPT]:
                del self._indexes[old]
        index.refresh()
        return index

    def _run(self, query: Query) -> PageResponse:
        index = self._index(query.get("id", ""))
        wanted = filter_of(query)
        given = self._parts(index, query)
        return rendered(
            "run.html",
            **given,
            wanted=wanted,
            facets=index.facets(),
            outcomes=[outcome.value for outcome in Outcome],
            others=[each for each in self._choices() if each[0] != index.path.stem],
        )

    def _run_part(self, query: Query) -> PageResponse:
        """The part of the page that changes while the user types, or while the run continues."""
        index = self._index(query.get("id", ""))
        if query.get("only") == "list":
            return rendered("trial_list.html", **self._list(index, query))
        return rendered("run_part.html", **self._parts(index, query))

    def _list(self, index: TrialIndex, query: Query) -> dict[str, Any]:
        wanted, skip = filter_of(query), _number(query.get("skip"))
        count = index.count(wanted)
        kept = {"id": index.path.stem, **_query_of(wanted)}
        inside = _query_of(wanted, "in_")

        def link(key: TrialKey) -> str:
            return address("/trial", run=index.path.stem, scenario=key.scenario_id, trial=key.index, **inside)

        return {
            "run_id": index.path.stem,
            "listed": index.is_listed,
            "count": count,
            "first": skip + 1,
            "trials": [(each, link(each.key)) for each in index.trials(wanted, skip=skip)],
            "narrowed": wanted.narrows,
            "clear": address("/run", id=index.path.stem),
            "several": len(index.two_targets()) > 1,
            "newer": address("/run", **kept, skip=max(skip - PAGE, 0) or None) if skip else None,
            "older": address("/run", **kept, skip=skip + PAGE) if skip + PAGE < count else None,
        }

    def _parts(self, index: TrialIndex, query: Query) -> dict[str, Any]:
        status, unknown = index.reader.status, index.unknown()
        rates = index.rates()
        targets, rows = _grid(index, rates)
        outcomes = index.outcomes()
        tally = tally_scenarios(rates)
        return {
            **self._list(index, query),
            "header": index.header,
            "started": index.header.started_at[:16].replace("T", " "),
            "state": status,
            "live": status == "running" or bool(unknown),
            "unknown": unknown,
            "headline": self._headline(index, tally, status, unknown),
            "flaw": None if status != "finished" or unknown else self._flaw(index.reading),
            "scenarios": None if status == "running" else tally.by_verdict,
            "counts": index.counts(),
            "not_run": sum(rate.not_run for rate in rates),
            "trials_found": sum(index.counts().values()),
            "marks": _marks(index.header),
            "outcomes_found": outcomes,
            "decided": sum(outcomes.values()),
            "targets": targets,
            "rows": rows[:_GRID_ROWS],
            "sparse": is_sparse([row.cells for row in rows]),
            "more_rows": max(len(rows) - _GRID_ROWS, 0),
        }

    def _headline(self, index: TrialIndex, tally: Tally, status: str, unknown: int) -> tuple[str, str]:
        """The headline of the run and its style. A run is shown as passed only after every record was read."""
        total = counted(tally.total, "scenario")
        if tally.failed:
            return f"{tally.failed} of {total} failed" + (" so far" if status == "running" else ""), "failed"
        if status == "running":
            return f"Running: none of {total} has failed so far", ""
        if unknown:
            return "Reading the records", "inconclusive"
        whole = self._flaw(index.reading) is None
        return headline(tally, whole=whole), "passed" if whole and tally.passed == tally.total else "inconclusive"

    # One trial

    def _stored(self, query: Query) -> tuple[RunReader, TrialKey, Any]:
        path = record_named(self.folder, query.get("run", ""))
        if path is None:
            raise StoreError("There is no such run in this folder.")
        reader = RunReader.open(path)
        key = TrialKey(scenario_id=query.get("scenario", ""), index=_number(query.get("trial")))
        trial = reader.trial(key)
        if trial is None:
            raise StoreError(f"Run {path.stem} has no trial {key}.")
        return reader, key, trial

    def _trial(self, query: Query) -> PageResponse:
        reader, key, trial = self._stored(query)
        wanted = filter_of(query, "in_")
        before, after = self._index(query["run"]).beside(key, wanted)
        view = trial_view(trial, Reading(reader))
        kept = _query_of(wanted, "in_")

        def link(other: TrialKey | None) -> str | None:
            run = query["run"]
            return other and address("/trial", run=run, scenario=other.scenario_id, trial=other.index, **kept)

        return rendered(
            "trial_page.html",
            run_id=reader.path.stem,
            line=view.line,
            content=trial_part(view, heading=2),
            labels=self._labels(reader, key),
            back=address("/run", id=query["run"], **_query_of(wanted)),
            before=link(before),
            after=link(after),
        )

    def _labels(self, reader: RunReader, key: TrialKey) -> Any:
        trial = reader.trial(key)
        assert trial is not None
        given = self.label_book.of(reader.header.id, trial)
        return part("labels.html", run_id=reader.path.stem, key=key, labelling=given, by=self.label_book.by)

    # Two runs

    def _compare(self, query: Query) -> PageResponse:
        chosen = [query[name] for name in ("a", "b") if query.get(name)]
        given: dict[str, Any] = {"runs": self._choices(), "a": query.get("a"), "b": query.get("b")}
        if not chosen:
            return rendered("compare.html", **given, found=None, problem=None)
        try:
            found = self._compared(chosen)
        except (StoreError, UsageError) as error:
            return rendered("compare.html", status=404, **given, found=None, problem=str(error))
        sides = [(side, dict(zip(words.SIDE_COLUMNS, words.side_cells(side), strict=True))) for side in found.sides]
        return rendered(
            "compare.html",
            **given,
            problem=None,
            found=found,
            sides=sides,
            letters="ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            notes=[each for each in words.front_notes(found, str) if not each.startswith(words.STAR)],
            star_means=words.STAR_MEANS,
            comparisons=[_view_of(at, found) for at in range(len(found.comparisons))],
            columns=words.CHANGE_COLUMNS,
            headings=words.HEADINGS,
            files={side.run_id: self._file_of(side.run_id, chosen) for side in found.sides},
        )

    def _choices(self) -> list[tuple[str, str]]:
        """The names of the newest runs, with words that differ from their start on: a narrow field shows no more."""
        choices: list[tuple[str, str]] = []
        for run in list_runs(self.folder, most=_RUNS):
            if (header := run.header) is not None:
                at = header.started_at[5:16].replace("T", " ")
                targets = dict.fromkeys(target.name for target in header.targets.values())
                choices.append((run.id, " · ".join((run.id[-4:], at, *list(targets)[:2]))))
        return choices

    def _file_of(self, run_id: str, chosen: list[str]) -> str:
        """The name of the file of a run, which may have been renamed."""
        return run_id if record_named(self.folder, run_id) is not None else chosen[0]

    def _compared(self, names: list[str]) -> Comparison:
        paths = [record_named(self.folder, name) for name in names]
        if None in paths:
            raise StoreError("There is no such run in this folder.")
        found = [path for path in paths if path is not None]
        state = tuple((path, state_of(path)) for path in found)
        known = self._comparisons.get(state)
        if known is None:
            known = compare_sources([read_source(Reading.open(path)) for path in found])
            self._comparisons = {state: known}
        return known


class _RunLine(Record):
    """A run in the list."""

    id: str
    link: str
    status: str
    started: str
    command: str
    verdict: Verdict | None
    counts: dict[Verdict, int]
    planned: int
    targets: tuple[str, ...]
    marks: tuple[str, ...]
    problem: str | None

    @classmethod
    def of(cls, run: RunEntry, verdict: Verdict | None) -> _RunLine:
        header = run.header
        targets = dict.fromkeys(target.name for target in header.targets.values()) if header else {}
        return cls(
            id=run.id,
            link=address("/run", id=run.id),
            status=run.status,
            started=header.started_at[:16].replace("T", " ") if header else "",
            command=" ".join(header.command) if header else "",
            verdict=verdict,
            counts=run.counts,
            planned=header.planned if header else 0,
            targets=tuple(targets),
            marks=_marks(header) if header else (),
            problem=run.problem,
        )


def _marks(header: RunHeader) -> tuple[str, ...]:
    """What keeps a run from standing for the whole suite, or for what the agent did in it."""
    origins = [f"only what failed in {header.failed_of}"] if header.failed_of else []
    origins += [f"shard {header.shard}"] if header.shard else []
    origins += [f"judged again, from {header.origin}"] if header.origin else []
    return (*origins, *([f"merged from {len(header.merged_from)} shards"] if header.merged_from else []))


def filter_of(query: Query, prefix: str = "") -> TrialFilter:
    """Words such as `verdict:failed` in the text count as the field that they name, unless it has its own value."""
    given = {name: query.get(f"{prefix}{name}", "")[:500] for name in _FIELDS}
    words: list[str] = []
    for word in given["q"].split():
        name, colon, value = word.partition(":")
        if colon and value and name in _FIELDS and name != "q" and not given[name]:
            given[name] = value.replace("-", "_") if name == "outcome" else value
        else:
            words.append(word)
    return TrialFilter(**{field: given[name] for name, field in _FIELDS.items() if name != "q"}, text=" ".join(words))


def _query_of(wanted: TrialFilter, prefix: str = "") -> dict[str, str]:
    return {f"{prefix}{name}": value for name, field in _FIELDS.items() if (value := getattr(wanted, field))}


def _number(text: str | None) -> int:
    """0 for an invalid number."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _grid(index: TrialIndex, rates: list[ScenarioRate]) -> tuple[list[str], list[ViewedRow]]:
    """Scenarios by target, worst first."""
    places = index.places()
    cells: dict[str, dict[str, list[ScenarioRate]]] = {}
    names: dict[str, str] = {}
    targets: dict[str, None] = {}
    for rate in rates:
        known = index.header.targets.get(rate.scenario_id) or Target(scenario=rate.scenario_id)
        scenario, target, name = places.get(rate.scenario_id) or (row_of(known), known.name, "")
        cells.setdefault(scenario, {}).setdefault(target, []).append(rate)
        targets[target] = None
        names[scenario] = name if name != rate.scenario_id else ""
    rows = [
        ViewedRow(
            scenario=scenario,
            name=names[scenario],
            cells=tuple(_cell(index, scenario, target, found.get(target)) for target in targets),
            rank=min(WORST_FIRST.index(rate.verdict) for each in found.values() for rate in each),
        )
        for scenario, found in cells.items()
    ]
    return list(targets), sorted(rows, key=lambda row: row.rank)


def _cell(index: TrialIndex, scenario: str, target: str, rates: list[ScenarioRate] | None) -> ViewedCell | None:
    if not rates:
        return None
    return ViewedCell(
        verdict=min((rate.verdict for rate in rates), key=WORST_FIRST.index),
        passed=sum(rate.passed for rate in rates),
        total=sum(rate.total for rate in rates),
        pending=sum(rate.not_run for rate in rates) if index.reader.status == "running" else 0,
        link=address("/run", id=index.path.stem, scenario=scenario, target=target) + "#trials",
    )


def _view_of(at: int, found: Comparison) -> dict[str, Any]:
    """One comparison in words and figures, as `steadyhand compare` has them."""
    each = found.comparisons[at]
    figures = {one.pair.scenario_id: one for one in each.rates.scenarios}
    picture = [
        {
            "name": change.unit,
            "kind": change.kind,
            "difference": figures[change.unit].difference,
            "low": figures[change.unit].low,
            "high": figures[change.unit].high,
        }
        for change in each.changes[:_TOLD]
    ]
    return {
        "comparison": each,
        "a_run": found.sides[0].run_id,
        "b_run": found.sides[at + 1].run_id,
        "findings": list(words.findings(each, found.confidence, str)),
        "groups": [
            (kind, [(change, words.change_cells(one), at < _TOLD) for at, (change, one) in enumerate(changes)])
            for kind, changes in words.grouped(each)
        ],
        "apart": list(words.apart(each)),
        "picture": picture,
        "last_reply": words.last_reply,
    }
