"""A recorded run and its trials, as the Python API presents them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from steadyhand.errors import ExitCode
from steadyhand.judging.figures import RunFigures
from steadyhand.judging.rates import ScenarioRate, tally_trials
from steadyhand.reading.run import Reading
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationResult, FailureClass, LatencyTier, Outcome, Verdict
from steadyhand.records.event import AnyEvent, TrajectoryStep, last_reply, transcript_of
from steadyhand.records.run import RunHeader, TrialKey, TrialRecord
from steadyhand.records.trajectory import trajectory_of
from steadyhand.store.reader import RunReader
from steadyhand.store.summaries import state_of

StrPath = str | os.PathLike[str]
_SHOWN = 20
_WIDTH = 100


class Trial:
    """One trial of a scenario, read from the record. `record` is the complete record."""

    __slots__ = ("record",)

    def __init__(self, record: TrialRecord) -> None:
        self.record: TrialRecord = record

    def __repr__(self) -> str:
        return f"<Trial {self.record.key}: {self.verdict.value}, {self.reason}>"

    @property
    def scenario_id(self) -> str:
        return self.record.key.scenario_id

    @property
    def index(self) -> int:
        """The number of the trial within its scenario, from 0."""
        return self.record.key.index

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self.record.scenario_name

    @property
    def tags(self) -> tuple[str, ...]:
        return self.record.tags

    @property
    def agent(self) -> str:
        return self.record.agent

    @property
    def model(self) -> str | None:
        return self.record.model

    @property
    def seed(self) -> int:
        return self.record.seed

    @property
    def verdict(self) -> Verdict:
        return self.record.judged.verdict

    @property
    def reason(self) -> str:
        """The reason for the verdict."""
        return self.record.judged.reason

    @property
    def outcome(self) -> Outcome | None:
        return self.record.judged.outcome

    @property
    def evaluations(self) -> tuple[EvaluationResult, ...]:
        """What each check found, in the order of the file."""
        return self.record.evaluations

    @property
    def transcript(self) -> tuple[Message, ...]:
        """Everything that was said, in order, from the system prompt to the last reply."""
        return tuple(said.message for said in transcript_of(self.record.events))

    @property
    def reply(self) -> str:
        """The agent's last message; empty if it said nothing."""
        said = last_reply(self.record.events)
        return "" if said is None else said.message.content

    @property
    def trajectory(self) -> tuple[TrajectoryStep, ...]:
        """Thoughts, actions and observations, in the order in which they began."""
        return trajectory_of(self.record.events)

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        return self.record.events

    @property
    def duration_ms(self) -> float:
        """The duration of the whole trial, including set-up, judging and tear-down."""
        return self.record.duration_ms

    @property
    def latency_ms(self) -> float | None:
        """How long the answer took, from request sent to last byte; None if unknown. `latency_tier` is its grade, and
        None if something may have changed the latency."""
        return self.record.judged.latency_ms

    @property
    def latency_tier(self) -> LatencyTier | None:
        return self.record.judged.latency_tier

    @property
    def time_to_safe_ms(self) -> float | None:
        """The time from which the text received so far satisfied every invariant."""
        return self.record.judged.time_to_safe_ms

    @property
    def safety_score(self) -> float | None:
        return self.record.judged.safety_score

    @property
    def failure_classes(self) -> tuple[FailureClass, ...]:
        return self.record.judged.failure_classes


class RunResult:
    """A recorded run. Iterate over it to get its trials in planned order; each is read when it is needed.

    Everything is read from the record, so a run that another process is still writing shows its current state. Raises
    `StoreError` if the record cannot be read.
    """

    def __init__(self, reader: RunReader) -> None:
        self._reader: RunReader = reader
        self._read: Reading = Reading(reader)
        self._state: object = state_of(reader.path)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {verdict.value}" for verdict, count in self.counts.items() if count)
        return f"<RunResult {self.id}: {counts or 'no trials'}>"

    @property
    def _reading(self) -> Reading:
        """The reading of the record as it is now."""
        state = state_of(self._reader.path)
        if state != self._state:
            self._state, self._read = state, Reading(RunReader.open(self._reader.path))
        return self._read

    @property
    def id(self) -> str:
        return self._reader.header.id

    @property
    def path(self) -> Path:
        """The path of the record."""
        return self._reader.path

    @property
    def header(self) -> RunHeader:
        return self._reader.header

    @property
    def finished(self) -> bool:
        """Whether the run is finished: all planned trials were run."""
        return self._reader.finished

    @property
    def counts(self) -> dict[Verdict, int]:
        """Number of trials by verdict."""
        return tally_trials(self.rates).by_verdict

    @property
    def rates(self) -> list[ScenarioRate]:
        """One entry per scenario, in planned order: its verdict and its counts of trials."""
        return self._reading.rates

    @property
    def figures(self) -> RunFigures:
        """Pass rates, times and their intervals, for each scenario, each target and the suite. Reads every trial."""
        return self._reading.figures

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that the command would have: 0 only for a finished record whose trials were all read back."""
        return self._reading.exit_code

    @property
    def complete(self) -> bool:
        """Whether the run is finished, no trial is missing, and every trial can be read."""
        return self._reading.flaw is None

    @property
    def passed(self) -> bool:
        """Whether every scenario passed. Also false if one could not be decided; `rates` distinguishes the two."""
        return self.exit_code is ExitCode.PASSED

    def to_pandas(self, table: Literal["trials", "evaluations", "calls"] = "trials") -> Any:
        """A table of the run as a pandas `DataFrame`, with the columns of docs/export.md.

        Raises `SetupError` when pandas is not installed.
        """
        from steadyhand.report.export import frame_of

        return frame_of(table, self._reading)

    def __iter__(self) -> Iterator[Trial]:
        return map(Trial, self._reader.trials())

    def __len__(self) -> int:
        """The number of finished trials."""
        return sum(self.counts.values())

    def __bool__(self) -> bool:
        """Raises `TypeError`: `if result:` could mean that there are trials, or that they passed."""
        raise TypeError("a RunResult has no truth value; use `result.passed` or `len(result)`")

    def trial(self, scenario_id: str, index: int = 0) -> Trial:
        """One trial. Raises `KeyError` if it is not in the record."""
        found = self._reader.trial(TrialKey(scenario_id=scenario_id, index=index))
        if found is None:
            known = ", ".join(list(self._reading.planned)[:_SHOWN])
            raise KeyError(f"no trial {index} of scenario {scenario_id!r} (scenarios: {known})")
        return Trial(found)

    def assert_passed(self) -> None:
        """Raises `AssertionError` with the evidence of every scenario that did not pass, whatever the reason."""
        __tracebackhide__ = True
        if self.passed:
            return
        undone = [rate.scenario_id for rate in self.rates if rate.verdict is not Verdict.PASSED]
        paragraphs = [f"{len(undone)} of {len(self.rates)} scenarios did not pass ({self.path})"]
        if not self.complete:
            paragraphs.append("the record is incomplete")
        paragraphs += [self.evidence(scenario_id) for scenario_id in undone[:_SHOWN]]
        if len(undone) > _SHOWN:
            paragraphs.append(f"and {len(undone) - _SHOWN} more")
        raise AssertionError("\n\n".join(paragraphs))

    def evidence(self, scenario_id: str) -> str:
        """Why a scenario has its verdict: a summary line, then the checks and transcript of a trial that did not pass,
        if any. Raises `KeyError` for a scenario that was not planned."""
        from steadyhand.report.details import render_details
        from steadyhand.report.table import Page

        rate = self._reading.rate.get(scenario_id)
        if rate is None:
            raise KeyError(f"no scenario {scenario_id!r} in this run")
        verdicts = self._reader.verdicts_per_scenario().get(scenario_id, {})
        undone = [index for index, verdict in sorted(verdicts.items()) if verdict is not Verdict.PASSED]
        example = next((index for index in undone if verdicts[index] is rate.verdict), next(iter(undone), None))
        if example is None:
            return f"{scenario_id}: {rate.verdict.value}: {rate.reason}"
        record = self.trial(scenario_id, example).record
        page = Page(width=_WIDTH, colour=False)
        several = rate.total > 1
        details = list(render_details(record, page, numbered=several))
        if several:
            lines = [f"{scenario_id}: {rate.verdict.value}: {rate.reason}", *details]
        else:  # the first line already contains the heading and the reason
            reason = record.judged.reason
            said = {f"  {line}" for line in page.wrap(reason, indent=2)}
            lines = [
                f"{scenario_id}: {rate.verdict.value}: {reason}",
                *(each for each in details[1:] if each not in said),
            ]
        if len(undone) > 1:
            lines.append(f"  {len(undone) - 1} more of {rate.total} trials did not pass: steadyhand show {self.id}")
        return "\n".join(lines)

    def to_json(self) -> str:
        """The complete JSON report. For a run with many trials, use `write_json`."""
        return b"".join(self._json()).decode()

    def write_json(self, file: StrPath) -> None:
        """Write the JSON report to a file, trial by trial. Raises `OSError`."""
        with Path(file).open("wb") as stream:
            stream.writelines(self._json())

    def _json(self) -> Iterator[bytes]:
        from steadyhand.report.json import to_json

        return to_json(self._reading)

    def to_text(self, *, width: int = 100) -> str:
        """What `steadyhand show` prints, without colours."""
        from steadyhand.report.table import Page
        from steadyhand.report.terminal import render_run

        page = Page(width=width, colour=False)
        return "\n".join(render_run(self._reading, page))
