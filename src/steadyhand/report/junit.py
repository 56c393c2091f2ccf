"""JUnit XML, for continuous integration.

A test case is a scenario and agrees with the exit code: a failed scenario is a `failure`, one in error an `error`. The
format has no status for inconclusive: it is `skipped`, a `failure` or an `error` with its reason, as the caller
chooses. If a scenario has several trials its pass rate decides, and trials that did not pass are included even if it
passed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from steadyhand.errors import ExitCode
from steadyhand.judging.rates import ScenarioRate, percent
from steadyhand.judging.trial import alarm_of
from steadyhand.reading.run import Reading
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import answers_finish
from steadyhand.records.run import TrialRecord
from steadyhand.report.details import render_details
from steadyhand.report.table import Page
from steadyhand.report.wording import JunitInconclusive, axis_value, scenario_label

_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OBEYED = re.compile(
    r"(?:(?<=\n)|(?<=^)|(?<=[ \t])):(?=:)|(?<=#)#(?=\w*\[)|[\r\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}
_PAGE = Page(width=120)
_DETAILED = 20


class JunitCases:
    """The test cases of a run, built from its trials as they are read."""

    def __init__(self, reading: Reading) -> None:
        self._cases: dict[str, _Case] = {}
        self._reading: Reading = reading

    def add(self, trial: TrialRecord) -> None:
        scenario_id = trial.key.scenario_id
        case = self._cases.get(scenario_id)
        if case is None:
            case = self._cases[scenario_id] = _Case(scenario_id, several=self._reading.expected[scenario_id] > 1)
        case.add(trial)

    def cases(self, inconclusive: JunitInconclusive) -> list[_Case]:
        """In the order of the plan, and after them those that were not run."""
        tags = {Verdict.FAILED: "failure", Verdict.ERROR: "error", Verdict.INCONCLUSIVE: inconclusive}
        found: list[_Case] = []
        for rate in self._reading.rates:
            scenario_id = rate.scenario_id
            several = self._reading.expected[scenario_id] > 1
            case = self._cases.get(scenario_id) or _Case(scenario_id, several=several)
            matrix = self._reading.matrices.get(scenario_id)
            case.settle(rate, tags.get(rate.verdict), {} if matrix is None else matrix.parameters(scenario_id))
            found.append(case)
        return sorted(found, key=lambda case: not case.file)


def to_junit(reading: Reading, *, inconclusive: JunitInconclusive = "skipped") -> str:
    """One test suite per scenario file, in the order of the plan, then one for scenarios that were not run. There is a
    failure, an error or a skipped case unless the exit code is 0."""
    cases = reading.gathered(JunitCases).cases(inconclusive)
    if reading.scenarios.exit_code is ExitCode.PASSED and reading.flaw is not None:
        cases.append(_Flaw(f"the record of the run is not whole: {reading.flaw}"))
    suites: dict[str, list[_Case]] = {}
    for case in cases:
        suites.setdefault(case.file, []).append(case)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f"<testsuites{_totals(f'steadyhand {reading.header.id}', cases)}>",
    ]
    for file, suite in suites.items():
        lines.append(f"  <testsuite{_totals(file or 'not run', suite)}{suite[0].suite_attributes}>")
        for case in suite:
            lines.extend(case.lines())
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


class _Case:
    """A scenario, built from its trials as they are read; none of them is kept."""

    def __init__(self, scenario_id: str, *, several: bool) -> None:
        self.rate: ScenarioRate = ScenarioRate(scenario_id=scenario_id)
        self.tag: str | None = None
        self._several: bool = several
        self._parameters: dict[str, Any] = {}
        self.file: str = ""
        self.seconds: float = 0.0
        self.suite_attributes: str = ""
        self._attributes: str = _attribute("classname", "scenarios") + _attribute("name", scenario_id)
        self._place: str = ""
        self._properties: dict[str, str | None] = {}
        self._reasons: dict[Verdict, str] = {}
        self._evidence: list[str] = []
        self._left_out: int = 0

    def add(self, trial: TrialRecord) -> None:
        if not self.file:
            self._open(trial)
        self.seconds += _duration_ms(trial) / 1000
        verdict = trial.judged.verdict
        if verdict is Verdict.PASSED:
            return
        self._reasons.setdefault(verdict, f"{f'#{trial.key.index}: ' if self._several else ''}{trial.judged.reason}")
        if len(self._evidence) < _DETAILED:
            self._evidence.append("\n".join(render_details(trial, _PAGE, numbered=self._several)))
        else:
            self._left_out += 1

    def settle(self, rate: ScenarioRate, tag: str | None, parameters: dict[str, Any]) -> None:
        """Take the result of the scenario, which is known once all of its trials were read."""
        self.rate, self.tag, self._parameters = rate, tag, parameters

    def _open(self, trial: TrialRecord) -> None:
        self.file = file = trial.place.file
        group = trial.domain or ".".join(PurePath(file).parent.parts).strip("./") or "scenarios"
        name = scenario_label(trial, numbered=False)
        line = _attribute("line", str(trial.place.line)) if trial.place.line else ""
        self._attributes = _attribute("classname", group) + _attribute("name", name)
        self._place = _attribute("file", file) + line
        self.suite_attributes = _attribute("timestamp", trial.started_at) + _attribute("file", file)
        self._properties = {"agent": trial.agent or None, "model": trial.model}
        if not self._several:
            self._properties = {**_figures(trial), **self._properties}

    def lines(self) -> Iterator[str]:
        yield f'    <testcase{self._attributes} time="{self.seconds:.6f}"{self._place}>'
        yield "      <properties>"
        for name, value in self._all_properties().items():
            if value is not None:
                yield f"        <property{_attribute('name', name)}{_attribute('value', value)}/>"
        yield "      </properties>"
        told = "\n\n".join(self._evidence)
        if self._left_out:
            told += f"\n\n{self._left_out} more trials did not pass; details are in the run record"
        tag = self.tag
        if tag is not None:
            kind = _attribute("type", self.rate.verdict.value) if tag != "skipped" else ""
            yield f"      <{tag}{_attribute('message', self._message())}{kind}>{_text(told)}</{tag}>"
        elif told:
            yield f"      <system-out>{_text(told)}</system-out>"
        yield "    </testcase>"

    def _message(self) -> str:
        """The reason of the scenario, and that of the first trial with the same verdict."""
        reason = self._reasons.get(self.rate.verdict)
        if reason is None:
            return self.rate.reason
        return f"{self.rate.reason}; {reason}" if self._several else reason

    def _all_properties(self) -> dict[str, str | None]:
        rate = self.rate
        found: dict[str, str | None] = {"verdict": rate.verdict.value}
        if self._several:
            counts = {name: getattr(rate, name) for name in ("total", *Verdict, "not_run")}
            counts |= {"saved": rate.saved} if rate.until is not None else {}
            found |= {f"trials_{name}": str(count) for name, count in counts.items()}
            found["pass_rate"] = percent(rate.required)
        found |= {f"matrix.{parameter}": axis_value(value) for parameter, value in self._parameters.items()}
        return {**found, **self._properties}


class _Flaw(_Case):
    """A case that is in error because the record is not whole, although every scenario in it passed."""

    def __init__(self, told: str) -> None:
        super().__init__("the record of the run", several=True)
        self.settle(ScenarioRate(scenario_id="the record of the run", error=1), "error", {})
        self._told = told

    def _message(self) -> str:
        return self._told


def _duration_ms(trial: TrialRecord) -> float:
    """How long the trial took from set-up to verdict, repeated measurements included."""
    return trial.duration_ms + sum(_duration_ms(earlier) for earlier in trial.earlier)


def _figures(trial: TrialRecord) -> dict[str, str | None]:
    judged = trial.judged
    finish = answers_finish(trial.events)
    return {
        "outcome": judged.outcome,
        "finish_reason": None if finish is None else finish.reason,
        "latency_ms": _figure(judged.latency_ms),
        "latency_tier": judged.latency_tier,
        "latency_not_graded": "; ".join(map(str, judged.latency_spoiled)) or None,
        "time_to_first_token_ms": _figure(judged.time_to_first_token_ms),
        "time_to_safe_ms": _figure(judged.time_to_safe_ms),
        "safety_score": None if judged.safety_score is None else f"{judged.safety_score:g}",
        "failure_classes": ",".join(judged.failure_classes) or None,
        "alarm": alarm_of(trial),
    }


def _figure(ms: float | None) -> str | None:
    return None if ms is None else f"{ms:.3f}"


def _totals(name: str, cases: Sequence[_Case]) -> str:
    tags = Counter(case.tag for case in cases)
    counts = {"tests": len(cases)} | {name: tags[tag] for name, tag in _COUNTED.items()}
    told = "".join(f' {key}="{count}"' for key, count in counts.items())
    return f'{_attribute("name", name)}{told} time="{sum(case.seconds for case in cases):.6f}"'


def _text(text: str) -> str:
    """Escaped, including text that a terminal or a CI service would interpret."""
    text = _INVALID.sub("", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _OBEYED.sub(lambda found: f"&#{ord(found.group())};", text)


def _attribute(name: str, value: str) -> str:
    """Line breaks survive in an attribute only as character references."""
    escaped = _text(value).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")
    return f' {name}="{escaped}"'
