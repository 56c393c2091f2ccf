"""The record of a run: a header, and one entry per finished trial."""

from __future__ import annotations

from typing import Any

from steadyhand.records.base import Record
from steadyhand.records.config import Price
from steadyhand.records.conversation import ConversationEnding, ConversationMetrics
from steadyhand.records.evaluation import EvaluationResult
from steadyhand.records.event import AnyEvent
from steadyhand.records.location import Place
from steadyhand.records.rubric import RubricScore
from steadyhand.records.scenario import Expected
from steadyhand.records.timeline import SafetyAtDeadline
from steadyhand.records.timing import Spoiled
from steadyhand.records.trajectory import Shows
from steadyhand.records.verdict import FailureClass, LatencyTier, Outcome, Verdict

FORMAT_VERSION = 3


class RunAxis(Record):
    """What a matrix varies, and the values that take part in the run."""

    parameter: str
    values: tuple[Any, ...]


class RunMatrix(Record):
    """The combinations of a matrix, by scenario id; each is the position of its value on every axis."""

    name: str
    file: str
    axes: tuple[RunAxis, ...]
    combinations: dict[str, tuple[int, ...]]

    def parameters(self, scenario_id: str) -> dict[str, Any]:
        """What a combination sets."""
        at = self.combinations[scenario_id]
        return {axis.parameter: axis.values[index] for axis, index in zip(self.axes, at, strict=True)}


class RunHeader(Record):
    """What was asked for, fixed when the run starts.

    `pass_rate` is the share of trials that must pass as the user asked of all scenarios, `pass_rates` as single ones
    ask of themselves. `options` is what it takes to carry the run on. `prices` are those of the configuration, and
    `own_servers` the providers behind a base URL of the user's own, for which list prices do not hold. `fingerprints`
    has, for each scenario, digests of what its trials are made of, by what a person calls that.
    """

    id: str
    started_at: str
    steadyhand_version: str
    command: tuple[str, ...] = ()
    seed: int = 0
    planned: int = 0
    options: dict[str, Any] = {}
    prices: dict[str, Price] = {}
    own_servers: tuple[str, ...] = ()
    pass_rate: float | None = None
    pass_rates: dict[str, float] = {}
    matrices: tuple[RunMatrix, ...] = ()
    fingerprints: dict[str, dict[str, str]] = {}


class TrialKey(Record, array_like=True):
    """Which trial this is: stable across a resume."""

    scenario_id: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.scenario_id}#{self.index}"


class PhaseRecord(Record, array_like=True):
    """One phase of a trial. `error` is set when it failed."""

    name: str
    started_ms: float
    duration_ms: float
    error: str | None = None


class Judged(Record, array_like=True):
    """The verdict and everything that stands beside it. Nothing here is averaged into the verdict.

    `latency_cut` says that the call was cut off before the answer was complete: `latency_ms` is then the least it can
    have been. `latency_spoiled` says why it was not graded. The times are those of `records.timeline.SafetyTimeline`. A
    `rubric` of None is one that nobody named.
    """

    verdict: Verdict
    reason: str
    outcome: Outcome | None = None
    latency_ms: float | None = None
    latency_cut: bool = False
    latency_tier: LatencyTier | None = None
    latency_spoiled: tuple[Spoiled, ...] = ()
    time_to_first_token_ms: float | None = None
    time_to_safe_ms: float | None = None
    first_safe_ms: float | None = None
    safety_at_deadline: SafetyAtDeadline | None = None
    time_to_safe_excludes: tuple[str, ...] = ()
    times_unknown: str | None = None
    safety_score: float | None = None
    failure_classes: tuple[FailureClass, ...] = ()
    rubric: RubricScore | None = None


class TrialRecord(Record, array_like=True):
    """A finished trial, whole.

    `earlier` holds measurements that were repeated because latency was not gradable, `replaced` what a resume did again
    because it was in error. `conversations` says how each ended, in the order of the steps. `shows` is what its agent
    lets us see; None where there was no agent.
    """

    key: TrialKey
    scenario_name: str
    place: Place
    digest: str
    started_at: str
    duration_ms: float
    judged: Judged
    agent: str = ""
    model: str | None = None
    seed: int = 0
    domain: str | None = None
    expects: Expected = "act"
    tags: tuple[str, ...] = ()
    phases: tuple[PhaseRecord, ...] = ()
    evaluations: tuple[EvaluationResult, ...] = ()
    events: tuple[AnyEvent, ...] = ()
    metrics: ConversationMetrics | None = None
    earlier: tuple[TrialRecord, ...] = ()
    replaced: tuple[TrialRecord, ...] = ()
    conversations: tuple[ConversationEnding, ...] = ()
    shows: Shows | None = None
    missing_plugins: tuple[str, ...] = ()
