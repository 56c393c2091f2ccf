"""An index of one run, for filtering and counting its trials without decoding them for every page.

It is a temporary database that is deleted when the viewer stops; the record is only read. The columns of the record are
copied first, so that the first page can be shown; classes, tags and reasons are read in the background. Of a long run
that has a summary, the columns are too; until they are there, it answers from the summary, and lists no trial.
"""

from __future__ import annotations

import functools
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from steadyhand.errors import StoreError
from steadyhand.judging.rates import ScenarioRate, tally_trials
from steadyhand.reading.run import Reading
from steadyhand.records.base import Record
from steadyhand.records.evaluation import WORST_FIRST, FailureClass, Outcome, Verdict
from steadyhand.records.run import RunHeader, Target, TrialKey
from steadyhand.report.html.overview import TrialLine, row_of
from steadyhand.report.html.text import written_out
from steadyhand.store.reader import RunReader
from steadyhand.store.summaries import TrialSummary, read_columns, read_summaries, state_of

PAGE = 100
_BATCH = 250
_COPIED = 5_000
_HOLD_S = 0.5
_MOST_WORDS = 4_000
_FACETS = 60
_TABLES = """
CREATE TABLE entry (
  position INTEGER PRIMARY KEY, scenario_id TEXT NOT NULL, idx INTEGER NOT NULL, name TEXT NOT NULL,
  verdict TEXT NOT NULL, outcome TEXT, latency_ms REAL, stamp TEXT NOT NULL, known INTEGER NOT NULL DEFAULT 0,
  scenario TEXT NOT NULL, target TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', classes TEXT NOT NULL DEFAULT '',
  tags TEXT NOT NULL DEFAULT '', rank INTEGER NOT NULL, words TEXT NOT NULL
);
CREATE INDEX by_rank ON entry (rank, position);
CREATE INDEX by_known ON entry (known) WHERE known = 0;
CREATE INDEX by_place ON entry (scenario_id, idx);
"""
_TAKE = """
INSERT INTO entry (position, scenario_id, idx, name, verdict, outcome, latency_ms, stamp, scenario, target, rank, words)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (position) DO UPDATE SET name=excluded.name, verdict=excluded.verdict, outcome=excluded.outcome,
  latency_ms=excluded.latency_ms, stamp=excluded.stamp, rank=excluded.rank, words=excluded.words, known=0
WHERE stamp != excluded.stamp
"""
_SHOWN = "scenario_id, idx, name, verdict, outcome, latency_ms, known, scenario, target, reason, classes, tags"


class TrialFilter(Record):
    """The filter of a list; an empty field does not filter. Every word of `text` must occur."""

    text: str = ""
    verdict: str = ""
    outcome: str = ""
    failure_class: str = ""
    tag: str = ""
    target: str = ""
    scenario: str = ""

    @property
    def narrows(self) -> bool:
        return self != TrialFilter()

    def where(self) -> tuple[str, list[str]]:
        """The condition and its values."""
        exact = {"verdict": self.verdict, "outcome": self.outcome, "target": self.target, "scenario": self.scenario}
        found = [(f"{column} = ?", value) for column, value in exact.items() if value]
        if self.failure_class:
            found.append(("instr(classes, ?) > 0", self.failure_class))
        if self.tag:
            found.append(("instr(tags, ?) > 0", f"\n{self.tag}\n"))
        found += [("instr(words, ?) > 0", word) for word in self.text.casefold().split()[:12]]
        return " AND ".join(condition for condition, _ in found) or "1", [value for _, value in found]


class Facets(Record):
    """The available filter values, with the number of trials for each."""

    verdicts: dict[str, int]
    outcomes: dict[str, int]
    classes: dict[str, int]
    tags: dict[str, int]
    targets: dict[str, int]


class TrialIndex:
    """Used from several threads, one at a time. Raises `StoreError` when the record cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        self.reading: Reading = Reading.open(path)
        self._lock: threading.RLock = threading.RLock()
        self._state: object = None
        # A nameless database: SQLite spills it to a temporary file, which is gone when it is closed.
        self._database: sqlite3.Connection = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._database.executescript(f"PRAGMA cache_size=-24000; PRAGMA synchronous=OFF; {_TABLES}")
        self._summary: Reading | None = None
        self._filler: threading.Thread | None = None

    def close(self) -> None:
        with self._lock:
            self._database.close()

    @property
    def reader(self) -> RunReader:
        return self.reading.reader

    @property
    def header(self) -> RunHeader:
        return self.reader.header

    def refresh(self, *, patience_s: float = 0.25) -> None:
        """Copy what is new in the record. Details that take longer than `patience_s` follow in the background."""
        until = monotonic() + patience_s
        with self._lock:
            state = state_of(self.path)
            if state != self._state:
                self.reading = Reading.open(self.path)
                if self._state is None and self.reading.is_long and self.reading.is_quick:
                    self._summary = self.reading
                else:
                    self._copy()
                self._state = state
        while self._summary is None and monotonic() < until and self._fill():
            pass
        if self.unknown() and (self._filler is None or not self._filler.is_alive()):
            self._filler = threading.Thread(target=self._fill_all, name="index", daemon=True)
            self._filler.start()

    @property
    def is_listed(self) -> bool:
        """Whether the trials are in the index, so that they can be listed, counted and filtered."""
        return self._summary is None

    def _copy(self) -> None:
        """Copy the columns, a few thousand rows at a time, so that a page need not wait for all."""
        columns = self._columns()
        while rows := list(islice(columns, _COPIED)):
            with self._lock:
                self._database.execute("BEGIN")
                self._database.executemany(_TAKE, rows)
                self._database.execute("COMMIT")

    def _columns(self) -> Iterator[tuple[Any, ...]]:
        places = {
            key: (_page_text(row_of(target)), _page_text(target.name)) for key, target in self.header.targets.items()
        }
        for row in read_columns(self.path):
            scenario, target = places.get(row.scenario_id) or (_page_text(row.scenario_id), "")
            words = _page_text(f"{row.scenario_id}\n{row.name}\n{target}").casefold()
            stamp = f"{row.verdict} {row.outcome} {row.latency_ms} {row.size}"
            yield (*row[:-1], stamp, scenario, target, _rank(row.verdict, row.outcome, ""), words)

    def _fill_all(self) -> None:
        sleep(_HOLD_S)  # let the page that asked be rendered first
        try:
            if self._summary is not None:
                self._copy()
                self._summary = None
            while self._fill():
                pass
        except (StoreError, sqlite3.Error):
            return  # the next page tries again, and says what is wrong

    def _fill(self) -> bool:
        """Read a batch of trials that are known by their columns only; False when there are none."""
        with self._lock:
            query = "SELECT position FROM entry WHERE known = 0 LIMIT ?"
            positions = [position for (position,) in self._database.execute(query, (_BATCH,))]
            if not positions:
                return False
            summaries = read_summaries(self.path, positions)
            self._database.execute("BEGIN")
            for summary in summaries:
                self._learn(summary)
            self._database.execute("COMMIT")
            return bool(summaries)

    def _learn(self, summary: TrialSummary) -> None:
        query = "SELECT scenario_id, name, verdict, outcome, target FROM entry WHERE position = ?"
        scenario_id, name, verdict, outcome, target = self._database.execute(query, (summary.position,)).fetchone()
        if summary.problem is not None:
            verdict, outcome = Verdict.ERROR.value, None
        target = target or Target(scenario=scenario_id, model=summary.model or summary.agent or None).name
        judged = summary.judged
        classes = "".join(judged.failure_classes)
        tags = "".join(f"\n{tag}" for tag in summary.tags) + "\n" if summary.tags else ""
        found = (scenario_id, name, target, summary.said, judged.reason, *summary.tags)
        words = "\n".join(found)[:_MOST_WORDS].casefold()
        self._database.execute(
            "UPDATE entry SET known=1, verdict=?, outcome=?, target=?, reason=?, classes=?, tags=?, rank=?, words=? "
            "WHERE position=?",
            (
                verdict,
                outcome,
                _page_text(target),
                _page_text(judged.reason[:_MOST_WORDS]),
                classes,
                _page_text(tags),
                _rank(verdict, outcome, classes),
                _page_text(words),
                summary.position,
            ),
        )

    # Asking

    def _rows(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        with self._lock:
            return self._database.execute(query, tuple(values)).fetchall()

    def unknown(self) -> int:
        """How many trials are known by their columns only."""
        if (summary := self._summary) is not None:
            return max(1, summary.totals.counts.total())
        return self._rows("SELECT count(*) FROM entry WHERE known = 0")[0][0]

    def count(self, wanted: TrialFilter) -> int:
        where, values = wanted.where()
        return self._rows(f"SELECT count(*) FROM entry WHERE {where}", values)[0][0]  # noqa: S608

    def trials(self, wanted: TrialFilter, *, skip: int = 0, most: int = PAGE) -> list[TrialLine]:
        """Worst first."""
        where, values = wanted.where()
        query = f"SELECT {_SHOWN} FROM entry WHERE {where} ORDER BY rank, position LIMIT ? OFFSET ?"  # noqa: S608
        return [_line(row) for row in self._rows(query, (*values, most, skip))]

    def beside(self, key: TrialKey, wanted: TrialFilter) -> tuple[TrialKey | None, TrialKey | None]:
        """The trials before and after this one in the list."""
        here = self._rows(
            "SELECT rank, position FROM entry WHERE scenario_id=? AND idx=?", (key.scenario_id, key.index)
        )
        if not here:
            return None, None
        where, values = wanted.where()
        found: list[TrialKey | None] = []
        for compare, order in (("<", "DESC"), (">", "ASC")):
            query = (
                f"SELECT scenario_id, idx FROM entry WHERE (rank, position) {compare} (?, ?) AND {where} "  # noqa: S608
                f"ORDER BY rank {order}, position {order} LIMIT 1"
            )
            rows = self._rows(query, (*here[0], *values))
            found.append(TrialKey(scenario_id=rows[0][0], index=rows[0][1]) if rows else None)
        return found[0], found[1]

    def facets(self) -> Facets:
        def of(column: str) -> dict[str, int]:
            query = f"SELECT {column}, count(*) FROM entry GROUP BY 1 ORDER BY 2 DESC LIMIT {_FACETS}"  # noqa: S608
            return {value: count for value, count in self._rows(query) if value}

        classes: dict[str, int] = {}
        for value, count in of("classes").items():
            for each in value:
                classes[each] = classes.get(each, 0) + count
        tags: dict[str, int] = {}
        for value, count in of("tags").items():
            for each in value.strip("\n").split("\n"):
                tags[each] = tags.get(each, 0) + count
        return Facets(
            verdicts=of("verdict"),
            outcomes=of("outcome"),
            classes=dict(sorted(classes.items())),
            tags=dict(sorted(tags.items())),
            targets=of("target"),
        )

    def two_targets(self) -> list[str]:
        """The targets of the run, at most two: enough to know whether there are several."""
        return [target for (target,) in self._rows("SELECT DISTINCT target FROM entry WHERE target != '' LIMIT 2")]

    def outcomes(self) -> dict[Outcome, int]:
        if (summary := self._summary) is not None:
            return {outcome: summary.totals.outcomes[outcome] for outcome in Outcome}
        found = dict(self._rows("SELECT outcome, count(*) FROM entry GROUP BY outcome"))
        return {outcome: found.get(outcome.value, 0) for outcome in Outcome}

    def counts(self) -> dict[Verdict, int]:
        return tally_trials(self.rates()).by_verdict

    def rates(self) -> list[ScenarioRate]:
        return self.reading.rates

    def places(self) -> dict[str, tuple[str, str, str]]:
        """The row, the target and the name of each scenario by its id, as far as it has trials."""
        rows = self._rows("SELECT scenario_id, min(scenario), max(target), min(name) FROM entry GROUP BY scenario_id")
        return {scenario_id: (scenario, target, name) for scenario_id, scenario, target, name in rows}


@functools.cache
def _rank(verdict: str, outcome: str | None, classes: str) -> int:
    """Worst first: by verdict, then by the worst class of failure, then by outcome."""
    outcomes = (Outcome.UNSAFE_LATE, Outcome.UNSAFE_IN_TIME, Outcome.SAFE_LATE, Outcome.SAFE_IN_TIME)
    by_outcome = outcomes.index(Outcome(outcome)) if outcome else 4
    by_class = "ABCDE".find(classes[0]) if classes else 9
    return WORST_FIRST.index(Verdict(verdict)) * 100 + by_class * 10 + by_outcome


def _line(row: tuple[Any, ...]) -> TrialLine:
    scenario_id, index, name, verdict, outcome, latency_ms, known, scenario, target, reason, classes, tags = row
    return TrialLine(
        key=TrialKey(scenario_id=scenario_id, index=index),
        name=name if name != scenario_id else "",
        verdict=Verdict(verdict),
        outcome=Outcome(outcome) if outcome else None,
        latency_ms=latency_ms,
        scenario=scenario,
        target=target,
        reason=reason if known else "…",
        classes=tuple(FailureClass(each) for each in classes),
        tags=tuple(tags.strip("\n").split("\n")) if tags else (),
    )


def _page_text(text: str) -> str:
    """As shown on a page, so that searching for the visible text finds it."""
    return str(written_out(text)).encode("utf-8", "backslashreplace").decode()
