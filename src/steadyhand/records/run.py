"""The record of a run: a header, one entry per finished trial, and what was spent.

Tokens are counted by the servers. Costs are known if prices are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec

from steadyhand.records.base import Record, doc, plain_text
from steadyhand.records.calibration import JudgedCase
from steadyhand.records.chat import InvariantTimeline, SafetyAtDeadline, Spoiled
from steadyhand.records.config import Price, default_of
from steadyhand.records.evaluation import (
    VIOLATION_CLASSES,
    EvaluationResult,
    FailureClass,
    LatencyTier,
    Outcome,
    RubricScore,
    Verdict,
)
from steadyhand.records.event import (
    AnyEvent,
    Lagged,
    ModelCalled,
    Noted,
    Retried,
    Said,
    Shows,
    Waited,
    transcript_of,
)
from steadyhand.records.isolation import IsolationKind
from steadyhand.records.location import Place
from steadyhand.records.result import ConversationEnding, ConversationMetrics
from steadyhand.records.scenario import ExpectedConduct, Scenario, VariantOrigin

FORMAT_VERSION = 3
SCENARIO_PART = "the scenario"
"""The digest of the scenario among the fingerprints of a run. Two runs measured the same thing only if it is equal."""
JUDGE_PART = "the judge"
"""The digest of the judge, if one is configured and has something to judge."""
DEFAULT_ALPHA: float = default_of("alpha")


class Spent(Record):
    """Sums over model calls. Nothing is estimated, so they are lower bounds where something is unknown.

    `uncounted` are attempts that may have been charged although the server reported no token count; `unpriced` are
    calls with a token count and no known price. `not_live` calls were answered from a recording or a cache: their
    tokens count, but they cost nothing.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    uncounted: int = 0
    unpriced: int = 0
    not_live: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def tokens_known(self) -> bool:
        return not self.uncounted

    @property
    def cost_known(self) -> bool:
        """Whether `cost` is complete."""
        return not self.uncounted and not self.unpriced

    def plus(self, other: Spent) -> Spent:
        return sum_of((self, other))


def sum_of(found: Sequence[Spent]) -> Spent:
    """Of at least one."""
    if len(found) == 1:
        return found[0]
    calls = input_tokens = output_tokens = uncounted = unpriced = not_live = 0
    cost = 0.0
    for each in found:
        calls += each.calls
        input_tokens += each.input_tokens
        output_tokens += each.output_tokens
        cost += each.cost
        uncounted += each.uncounted
        unpriced += each.unpriced
        not_live += each.not_live
    return Spent(
        calls=calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=cost,
        uncounted=uncounted,
        unpriced=unpriced,
        not_live=not_live,
    )


class RunAxis(Record):
    """What a matrix varies, and the values used in the run."""

    parameter: str
    values: tuple[Any, ...]


class RunMatrix(Record):
    """The combinations of a matrix by scenario id, each as the index of its value on every axis."""

    name: str
    file: str
    axes: tuple[RunAxis, ...]
    combinations: dict[str, tuple[int, ...]]

    def parameters(self, scenario_id: str) -> dict[str, Any]:
        """The values of a combination."""
        at = self.combinations[scenario_id]
        return {axis.parameter: axis.values[index] for axis, index in zip(self.axes, at, strict=True)}


class Target(Record):
    """The target of a scenario of the run.

    `scenario` is its id in the files: the same for all targets and combinations, which is how they are paired. `model`
    and `agent` are as the settings resolve them, None if the scenario uses none. `cell` is what a matrix sets besides
    these two.
    """

    scenario: str
    model: str | None = None
    agent: str | None = None
    cell: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """Such as `openai/gpt-4o` or `python:agent.py:run, openai/gpt-4o`; equal for equal targets."""
        return ", ".join(part for part in (self.agent, self.model) if part) or "no agent"


class CanaryTally(Record):
    """The results of a run's judge on the labelled cases mixed into it. They are not trials and do not count in any
    rate."""

    file: str
    cases: tuple[JudgedCase, ...] = ()
    skipped: tuple[str, ...] = ()
    spent: Spent = Spent()

    @property
    def hits(self) -> int:
        return sum(case.hit for case in self.cases)

    @property
    def false_passes(self) -> int:
        return sum(case.label == "fail" and case.judged == "pass" for case in self.cases)


class Shard(Record):
    """Which shard a run is: number `number` of `of`, counted from 1, and what the whole consists of.

    The other fields describe the whole, by scenario in planned order: `trials` planned, `digests` of what they depend
    on, and the scenario data of a header. It is the same in every shard. `together` keeps the trials of a scenario in
    one shard.
    """

    number: int
    of: int
    together: bool = False
    trials: dict[str, int] = {}
    digests: dict[str, str] = {}
    targets: dict[str, Target] = {}
    pass_rates: dict[str, float] = {}
    matrices: tuple[RunMatrix, ...] = ()
    variants: dict[str, VariantOrigin] = {}

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def numbers(self) -> dict[str, range]:
        """The trials of this shard, by scenario: every `of`th of all, or all of every `of`th scenario.

        They are counted by scenario id, so that the order of files on the command line does not matter.
        """
        found: dict[str, range] = {}
        before = 0
        for scenario_id, trials in sorted(self.trials.items()):
            first = (self.number - 1 - before) % self.of
            if self.together:
                found[scenario_id] = range(0 if first else trials)
            else:
                found[scenario_id] = range(first, trials, self.of)
            before += 1 if self.together else trials
        return {scenario_id: found[scenario_id] for scenario_id in self.trials if found[scenario_id]}


class RunHeader(Record):
    """What was requested, fixed when the run starts.

    `pass_rate` is the share of trials that must pass, as set by the user for all scenarios; `pass_rates` are those that
    scenarios set themselves. `options` is what a resume needs. `prices` are those of the configuration, `own_servers`
    the providers with a custom base URL, for which list prices do not apply, and `free_providers` those that declare
    that a call costs nothing. `fingerprints` has, for each scenario, digests of what its trials depend on, by readable
    name. `targets` has the target of each scenario. With `until` a scenario's trials end when its pass rate is decided,
    wrongly with a chance of at most `alpha`. `origin` is the id of the run whose stored trials were judged again; None
    for an ordinary run. `canaries` are the judge's results on the labelled cases mixed into the run. `failed_of` is the
    run whose failed scenarios were rerun, `shard` says which shard the run is, and `merged_from` are the shards that
    were merged. `took_ms` is how long trials were running, including resumed parts; 0 if unknown. `recorded` is how
    many trials the record had when the run ended; None in older ones. `agent_can_read` is what the user let agents read
    although trials are judged by it. `variants` are the scenarios that are variants of others.
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
    free_providers: tuple[str, ...] = ()
    pass_rate: float | None = None
    pass_rates: dict[str, float] = {}
    matrices: tuple[RunMatrix, ...] = ()
    fingerprints: dict[str, dict[str, str]] = {}
    targets: dict[str, Target] = {}
    until: Literal["decided"] | None = None
    alpha: float = DEFAULT_ALPHA
    origin: str | None = None
    canaries: CanaryTally | None = None
    failed_of: str | None = None
    shard: Shard | None = None
    merged_from: tuple[str, ...] = ()
    took_ms: float = 0.0
    recorded: int | None = None
    agent_can_read: tuple[str, ...] = ()
    variants: dict[str, VariantOrigin] = {}


class TrialKey(Record, array_like=True):
    """Which trial this is: stable across a resume."""

    scenario_id: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.scenario_id}#{self.index}"


class PhaseRecord(Record, array_like=True):
    """One phase of a trial. `error` is set when it failed."""

    name: Annotated[str, doc("Name of the phase.")]
    started_ms: Annotated[float, doc("When it started, since the start of the trial.")]
    duration_ms: Annotated[float, doc("How long it took.")]
    error: Annotated[str | None, doc("Why it failed.")] = None


FaultConduct = Literal[
    "recovered", "told_the_user", "gave_up_silently", "made_it_up", "retried_too_often", "cannot_tell"
]


class FaultOutcome(Record):
    """What the agent made of a service that went wrong."""

    conduct: Annotated[FaultConduct, doc("What it did.")]
    why: Annotated[str, doc("Why, in words.")]
    evidence: Annotated[
        str, doc("The value, the clause or the number of calls that shows it; empty if there is none.")
    ] = ""


class Judged(Record, array_like=True):
    """The verdict and everything reported alongside it. Nothing here is averaged into the verdict.

    `latency_cut` says that the call was cut off before the answer was complete: `latency_ms` is then the least it can
    have been. `latency_spoiled` says why it was not graded. The times are those of `records.timeline.SafetyTimeline`.
    `rubric` is None if the scenario names none, and `fault` unless a service of the scenario goes wrong.
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
    invariants_over_time: tuple[InvariantTimeline, ...] = ()
    fault: FaultOutcome | None = None

    @property
    def safe_ms(self) -> float | None:
        """When the answer became safe for good; infinite if it never did, None if that is not known."""
        if self.time_to_safe_ms is None:
            known = self.safety_at_deadline is not None and self.times_unknown is None
            return math.inf if known or VIOLATION_CLASSES.intersection(self.failure_classes) else None
        return self.time_to_safe_ms

    @property
    def never_safe(self) -> bool:
        """Whether the answer is known to have been safe at no time."""
        return self.safe_ms == math.inf and self.first_safe_ms is None and self.times_unknown is None


class RanOn(Record, array_like=True):
    """The worker that ran a trial, where it was not the process that recorded it.

    `lag_ms` is how late its event loop ran at worst during the trial, and `clock_ms` how far its clock was ahead of the
    driver's at the last message, including message latency.
    """

    worker: Annotated[str, doc("Its name in the run.")]
    node: Annotated[str, doc("The machine, or the node of a cluster.")]
    lag_ms: Annotated[float, doc("How late its event loop ran at worst during the trial.")]
    clock_ms: Annotated[float, doc("How far its clock was ahead of the driver's, including message latency.")] = 0.0


class TrialRecord(Record, array_like=True):
    """A finished trial.

    `earlier` has the measurements that were repeated because latency could not be graded, `replaced` the trials in
    error that a resume repeated. `conversations` says how each ended, in the order of the steps. `shows` is what we can
    see of its agent; None without an agent. `origin` is the run that the agent's part was taken from, if the trial was
    only judged again: the calls of agent and user were paid for there. `ran_on` is None if the trial ran in the process
    that recorded it. `isolation` is what kept the processes that we started from what the trial is judged by; None if
    we started none.
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
    expects: ExpectedConduct = "act"
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
    origin: str | None = None
    ran_on: RanOn | None = None
    isolation: IsolationKind | None = None

    @property
    def paid(self) -> Iterable[AnyEvent]:
        """The events of this run's own model calls."""
        if self.origin is None:
            return self.events
        return [event for event in self.events if not isinstance(event, ModelCalled) or event.purpose == "judge"]


class PlannedTrial(Record):
    """`seed` is the trial's own, which models are sent; `mock_seed` is what the random failures of mocks are drawn
    from."""

    scenario: Scenario
    key: TrialKey
    seed: int
    mock_seed: int


_TOLD = (Lagged, ModelCalled, Noted, Retried, Waited)


def brief_of(trial: TrialRecord) -> TrialRecord:
    """The trial as far as sums and displays of progress go: what it was judged, what it cost, and what went wrong on
    the way, without what was said and done."""
    return msgspec.structs.replace(
        trial,
        phases=(),
        evaluations=tuple(each for each in trial.evaluations if each.budget is not None),
        events=tuple(_without_text(each) for each in trial.events if isinstance(each, _TOLD)),
        earlier=tuple(map(brief_of, trial.earlier)),
        replaced=tuple(map(brief_of, trial.replaced)),
    )


def _without_text(event: AnyEvent) -> AnyEvent:
    if not isinstance(event, ModelCalled):
        return event
    timing = msgspec.structs.replace(event.timing, chunks=())
    return msgspec.structs.replace(event, timing=timing, text=None, tool_calls=())


def error_in_place_of(trial: TrialRecord, reason: str) -> TrialRecord:
    """A trial in *error* with nothing but its identity, for one whose content cannot be stored."""
    return TrialRecord(
        key=trial.key,
        scenario_name=trial.scenario_name,
        place=trial.place,
        digest=trial.digest,
        started_at=trial.started_at,
        duration_ms=trial.duration_ms,
        judged=Judged(verdict=Verdict.ERROR, reason=plain_text(reason)),
        agent=trial.agent,
        model=trial.model,
        seed=trial.seed,
        domain=trial.domain,
        expects=trial.expects,
        tags=trial.tags,
    )


class CallWait(Record):
    """Calls that wait for the same reason; `left_s` is the time until the first may start, if known."""

    reason: str
    calls: int
    left_s: float
    down: str | None = None
    """The provider, if it is down."""


class RunHealth(Record):
    """The state of a run. `lag_ms` is the worst recent lag of the event loop."""

    waits: tuple[CallWait, ...] = ()
    lag_ms: float = 0.0


def exported_transcript(trial: TrialRecord) -> tuple[Said, ...]:
    """The trial as reports may show it, without conversations that the author keeps out of them."""
    kept = {talk.step for talk in trial.conversations if not talk.transcript_exported}
    return tuple(said for said in transcript_of(trial.events) if said.step not in kept)
