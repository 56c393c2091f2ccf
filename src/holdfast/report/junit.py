"""JUnit XML, as continuous integration systems read it.

A failed trial is a `failure` and a broken one an `error`. An inconclusive one is `skipped` with its reason: the format
has no better word, and the exit code of the run still tells that it did not pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from holdfast.judging.alarm import alarm_of
from holdfast.records.run import RunHeader, TrialRecord
from holdfast.records.verdict import Verdict
from holdfast.report.details import render_details
from holdfast.report.page import Page
from holdfast.report.wording import scenario_label

_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAG = {Verdict.FAILED: "failure", Verdict.ERROR: "error", Verdict.INCONCLUSIVE: "skipped"}
_PAGE = Page(width=120)


def to_junit(header: RunHeader, trials: Iterable[TrialRecord]) -> str:
    """One test suite per scenario file, in the order in which the files first come up."""
    suites: dict[str, list[TrialRecord]] = {}
    for trial in trials:
        suites.setdefault(trial.place.file, []).append(trial)
    everything = [trial for suite in suites.values() for trial in suite]
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f"<testsuites{_totals(f'holdfast {header.id}', everything)}>"]
    for file, suite in suites.items():
        started = _attribute("timestamp", suite[0].started_at)
        lines.append(f"  <testsuite{_totals(file, suite)}{started}{_attribute('file', file)}>")
        several = Counter(trial.key.scenario_id for trial in suite)
        for trial in suite:
            lines.extend(_case(trial, numbered=several[trial.key.scenario_id] > 1))
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def agent_ms(trial: TrialRecord) -> float:
    """The time that was the agent's: its latency, else the phase in which it ran, else the whole trial."""
    if trial.judged.latency_ms is not None:
        return trial.judged.latency_ms
    return next((phase.duration_ms for phase in trial.phases if phase.name == "run"), trial.duration_ms)


def _case(trial: TrialRecord, *, numbered: bool) -> Iterator[str]:
    judged = trial.judged
    group = trial.domain or ".".join(PurePath(trial.place.file).parent.parts).strip("./") or "scenarios"
    attributes = _attribute("classname", group) + _attribute("name", scenario_label(trial, numbered=numbered))
    at = _attribute("file", trial.place.file) + (_attribute("line", str(trial.place.line)) if trial.place.line else "")
    yield f'    <testcase{attributes} time="{agent_ms(trial) / 1000:.6f}"{at}>'
    yield from _properties(trial)
    tag = _TAG.get(judged.verdict)
    if tag is not None:
        message = _attribute("message", judged.reason)
        kind = _attribute("type", judged.verdict.value) if tag != "skipped" else ""
        evidence = "\n".join(render_details(trial, _PAGE, numbered=numbered))
        yield f"      <{tag}{message}{kind}>{_text(evidence)}</{tag}>"
    yield "    </testcase>"


def _properties(trial: TrialRecord) -> Iterator[str]:
    judged = trial.judged
    found = {
        "verdict": judged.verdict.value,
        "outcome": judged.outcome,
        "latency_ms": _figure(judged.latency_ms),
        "latency_tier": judged.latency_tier,
        "latency_not_graded": "; ".join(judged.latency_spoiled) or None,
        "time_to_first_token_ms": _figure(judged.time_to_first_token_ms),
        "time_to_safe_ms": _figure(judged.time_to_safe_ms),
        "safety_score": None if judged.safety_score is None else f"{judged.safety_score:g}",
        "failure_classes": ",".join(judged.failure_classes) or None,
        "alarm": alarm_of(trial),
        "agent": trial.agent or None,
        "model": trial.model,
    }
    yield "      <properties>"
    for name, value in found.items():
        if value is not None:
            yield f'        <property name="{name}"{_attribute("value", value)}/>'
    yield "      </properties>"


def _figure(ms: float | None) -> str | None:
    return None if ms is None else f"{ms:.3f}"


def _totals(name: str, trials: list[TrialRecord]) -> str:
    verdicts = [trial.judged.verdict for trial in trials]
    counts = {
        "tests": len(trials),
        "failures": verdicts.count(Verdict.FAILED),
        "errors": verdicts.count(Verdict.ERROR),
        "skipped": verdicts.count(Verdict.INCONCLUSIVE),
    }
    told = "".join(f' {key}="{count}"' for key, count in counts.items())
    return f'{_attribute("name", name)}{told} time="{sum(map(agent_ms, trials)) / 1000:.6f}"'


def _text(text: str) -> str:
    text = _INVALID.sub("", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def _attribute(name: str, value: str) -> str:
    """Line ends in an attribute are kept only when they are written as references."""
    escaped = _text(value).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")
    return f' {name}="{escaped}"'
