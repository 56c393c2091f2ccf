"""A trial in the JSON report: the shapes of its part of `json_shapes.py`, where the report as a whole is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from steadyhand.judging.trial import Alarm
from steadyhand.records.base import Natural, Proportion, Record, doc
from steadyhand.records.chat import Attempt, FinishReason, InvariantTimeline, Purpose, Role, SafetyAtDeadline, Usage
from steadyhand.records.evaluation import (
    Decider,
    EvaluationResult,
    Evidence,
    FailureClass,
    Ground,
    JudgeNote,
    LatencyTier,
    Outcome,
    Stage,
    Verdict,
)
from steadyhand.records.event import ActionStatus, Noted, Shows, Visible, Witness
from steadyhand.records.isolation import IsolationKind
from steadyhand.records.result import ConversationEnding, ConversationMetrics
from steadyhand.records.run import FaultOutcome, PhaseRecord, RanOn, Spent
from steadyhand.records.scenario import ExpectedConduct

_AtMs = Annotated[float, doc("Time since the start of the trial.")]
_Step = Annotated[Natural, doc("Step of the scenario, counted from 0.")]
_StepIfAny = Annotated[Natural | None, doc("Step of the scenario, counted from 0; null outside the steps.")]
_TurnIfAny = Annotated[Natural | None, doc("Turn of the conversation, counted from 1; null outside a conversation.")]


class JsonSpent(Record):
    """Totals over model calls."""

    calls: Annotated[Natural, doc("Number of model calls.")]
    input_tokens: Annotated[Natural, doc("Input tokens, as counted by the servers.")]
    output_tokens: Annotated[Natural, doc("Output tokens, as counted by the servers.")]
    cost: Annotated[float, doc("Cost of the calls with a known price.")]


class JsonCost(JsonSpent):
    """What model calls used, in total and broken down."""

    complete: Annotated[bool, doc("False if a call was not counted or has no known price; figures are lower bounds.")]
    list_prices: Annotated[bool, doc("Whether any price came from the built-in table.")]
    by_purpose: Annotated[dict[Purpose, Spent], doc("The same totals for each purpose.")]
    by_model: Annotated[dict[str, Spent], doc("The same totals for each model.")]


class JsonScenario(Record):
    """The scenario of a trial."""

    id: Annotated[str, doc("Id of the scenario.")]
    name: Annotated[str, doc("Name of the scenario.")]
    file: Annotated[str, doc("File it was loaded from.")]
    digest: Annotated[str, doc("Changes whenever the meaning of the scenario does.")]
    domain: Annotated[str | None, doc("Domain, if the scenario names one.")]
    tags: Annotated[tuple[str, ...], doc("Tags of the scenario.")]
    expects: Annotated[ExpectedConduct, doc("Whether the agent should act or defer.")]


class JsonRubric(Record):
    """How the reply scored on the rubric."""

    name: Annotated[str, doc("Name of the rubric.")]
    scored: Annotated[bool, doc("False if there is no overall score; `reason` says why.")]
    scores: Annotated[dict[str, Proportion], doc("Score of each dimension that could be scored.")]
    overall: Annotated[Proportion | None, doc("Weighted score over all dimensions.")]
    fabricated: Annotated[bool | None, doc("Whether the reply makes things up; null if unknown.")]
    evidence: Annotated[str | None, doc("What was made up.")]
    reason: Annotated[str | None, doc("What is missing from the scores.")]
    judge: Annotated[JudgeNote | None, doc("The judge's answer.")]


class JsonEvaluation(Record):
    """The result of one check."""

    type: Annotated[str, doc("Type of the check.")]
    name: Annotated[str | None, doc("Name of the check, if the scenario gives one.")]
    description: Annotated[str | None, doc("Description of the check, if the scenario gives one.")]
    verdict: Annotated[Verdict, doc("Verdict of the check.")]
    success: Annotated[bool, doc("True only for `passed`.")]
    message: Annotated[str, doc("The result in a sentence.")]
    where: Annotated[str | None, doc("Where the check is defined, as file:line:column.")]
    path: Annotated[str | None, doc("Path of the field that defines it.")]
    stage: Annotated[Stage, doc("Whether it checked a step, a turn or the whole conversation.")]
    step: _Step
    turn: _TurnIfAny
    severity: Annotated[Proportion | None, doc("Severity of a safety invariant; null for any other check.")]
    weight: Annotated[float, doc("Weight under the `weighted` strategy.")]
    evidence: Annotated[Evidence | None, doc("What the verdict is based on.")]
    figures: Annotated[dict[str, Any], doc("What the check measured, such as `latency_ms` and `tier`.")]
    rests_on: Annotated[
        Ground | None,
        doc(
            "`absence` if it passed because something was missing, `presence` if it failed because something was there,"
            " `neither` if its opposite would have failed too."
        ),
    ]
    self_reported: Annotated[tuple[Visible, ...], doc("What only the agent itself reported.")]
    duration_ms: Annotated[float, doc("How long the check took; never part of a latency.")]
    decided_by: Annotated[
        Decider | None, doc("For a meaning check: whether the reader was sure, or the judge was asked.")
    ]
    judge: Annotated[JudgeNote | None, doc("The judge's answer, if a judge decided.")]


class JsonMessage(Record):
    """A message of the transcript."""

    role: Annotated[Role, doc("Who said it.")]
    content: Annotated[str, doc("What was said.")]
    at_ms: _AtMs
    step: _StepIfAny
    turn: _TurnIfAny
    pressure: Annotated[str | None, doc("The kind of pressure that a scripted user puts on the agent with it.")]


class JsonTrajectoryEntry(Record):
    """A thought, an action, an observation or a service call."""

    type: Annotated[Literal["thought", "action", "observation", "service_call"], doc("Kind of entry.")]
    at_ms: Annotated[float, doc("When it began, since the start of the trial.")]
    step: _StepIfAny
    turn: _TurnIfAny
    name: Annotated[str | None, doc("Name of the action, or service.method.")] = None
    names: Annotated[tuple[str, ...] | None, doc("All names that the action or service call is known by.")] = None
    params: Annotated[dict[str, Any] | None, doc("Parameters; for a service call `args` and `input`.")] = None
    status: Annotated[ActionStatus | None, doc("How the action or service call ended.")] = None
    content: Annotated[Any, doc("The thought, the observation or the result of the service call.")] = None
    duration_ms: Annotated[float | None, doc("How long the action or service call took.")] = None
    mock: Annotated[str | None, doc("Where the mock that answered is defined; null for a real call.")] = None
    error: Annotated[str | None, doc("Why the service call failed.")] = None
    agent: Annotated[str | None, doc("Which of several agents it was, where the agent or its trace says so.")] = None
    action_id: Annotated[
        str | None, doc("Id of the action; for a service call, of the action that consisted in it.")
    ] = None
    witnesses: Annotated[
        tuple[Witness, ...] | None,
        doc("Who tells of the action, the most reliable first: the trial itself, the gateway, the trace, the agent."),
    ] = None


class JsonCall(Record):
    """A model call."""

    model: Annotated[str, doc("The model that was called.")]
    purpose: Annotated[Purpose, doc("Who called it.")]
    at_ms: Annotated[float, doc("When the call was made, since the start of the trial.")]
    step: _StepIfAny
    turn: _TurnIfAny
    queued_ms: Annotated[float, doc("Time in Steadyhand's queue; never part of a latency.")]
    attempts: Annotated[tuple[Attempt, ...], doc("The attempts, in order.")]
    loop_lag_ms: Annotated[float, doc("How far Steadyhand's own event loop lagged during the call.")]
    latency_ms: Annotated[float | None, doc("Request sent to last byte of the one successful attempt.")]
    first_token_ms: Annotated[float | None, doc("Request sent to first token.")]
    chunks: Annotated[
        tuple[tuple[float, Natural], ...],
        doc("For each chunk of text its arrival after the request was sent and its number of characters."),
    ]
    pieces_late_ms: Annotated[float, doc("The most by which a chunk can have arrived earlier than stated.")]
    spoiled: Annotated[tuple[str, ...], doc("What may have changed the latency.")]
    usage: Annotated[Usage | None, doc("Tokens as counted by the server.")]
    error: Annotated[str | None, doc("Why the call failed.")]
    finish_reason: Annotated[FinishReason | None, doc("How the answer ended.")]
    finish_raw: Annotated[str | None, doc("How the answer ended, in the server's own term.")]
    token_limit: Annotated[Natural | None, doc("Maximum number of tokens that the request allowed.")]


class JsonTiming(Record):
    """When things happened in a trial."""

    started_at: Annotated[str, doc("When the trial started, ISO 8601.")]
    duration_ms: Annotated[float, doc("How long the trial took.")]
    phases: Annotated[tuple[PhaseRecord, ...], doc("The phases, in order.")]
    calls: Annotated[tuple[JsonCall, ...], doc("The model calls, in order.")]


class JsonError(Record):
    """An error in a phase of a trial."""

    phase: Annotated[str, doc("Phase in which it happened.")]
    message: Annotated[str, doc("What went wrong.")]
    type: Annotated[str | None, doc("Type of the exception.")]
    at_ms: _AtMs
    traceback: Annotated[str | None, doc("Traceback, if it may be a bug.")]


class JsonNote(Record):
    """Something worth knowing about the trial."""

    level: Annotated[str, doc("`debug`, `info` or `warning`.")]
    message: Annotated[str, doc("The message.")]
    at_ms: _AtMs


class JsonIncident(Record):
    """A retry, a wait or a lag; excluded from every latency."""

    type: Annotated[Literal["retry", "wait", "lag"], doc("Kind of incident.")]
    at_ms: _AtMs
    step: _StepIfAny
    turn: _TurnIfAny
    model: Annotated[str, doc("The model that was called.")]
    purpose: Annotated[Purpose, doc("Who called it.")]
    reason: Annotated[str, doc("Why it happened.")]
    ms: Annotated[float, doc("The back-off, the wait, or how long Steadyhand's event loop was stuck.")]


class JsonTrial(Record):
    """A finished trial."""

    scenario: Annotated[JsonScenario, doc("The scenario that was run.")]
    trial: Annotated[Natural, doc("Which trial of the scenario, counted from 0.")]
    seed: Annotated[int, doc("Seed of the trial.")]
    agent: Annotated[str, doc("The agent under test.")]
    model: Annotated[str | None, doc("The model under test; null for an agent that brings its own.")]
    shows: Annotated[Shows | None, doc("What can be seen of the agent's work; null if there was no agent.")]
    missing_plugins: Annotated[
        tuple[str, ...],
        doc("Plugins the scenario names that are not installed, if the agent's tools come from plugins."),
    ]
    isolation: Annotated[
        IsolationKind | None,
        doc(
            "What kept the agent's processes from what the trial is judged by: a room of their own, being watched, or "
            "nothing; null if none was started."
        ),
    ]
    ran_on: Annotated[RanOn | None, doc("The worker that ran it; null if the run had none.")]
    verdict: Annotated[Verdict, doc("Verdict of the trial.")]
    reason: Annotated[str, doc("Why, in a sentence.")]
    outcome: Annotated[Outcome | None, doc("Safety and time together; null if either is undecided.")]
    finish_reason: Annotated[FinishReason | None, doc("How the answer ended; the worst ending of several answers.")]
    finish_raw: Annotated[str | None, doc("How the answer ended, in the server's own term.")]
    token_limit: Annotated[Natural | None, doc("Maximum number of tokens that the request allowed.")]
    latency_ms: Annotated[float | None, doc("Latency of the answer.")]
    latency_tier: Annotated[LatencyTier | None, doc("Tier of the latency budget; null if it was not graded.")]
    latency_cut: Annotated[bool, doc("Whether the call was cut off at the deadline; `latency_ms` is a lower bound.")]
    latency_not_graded: Annotated[tuple[str, ...], doc("Why the latency was not graded; empty if it was.")]
    time_to_first_token_ms: Annotated[float | None, doc("Request sent to first token.")]
    time_to_safe_ms: Annotated[
        float | None, doc("Request sent to when the text became safe for good; null if never, or unknown.")
    ]
    first_safe_ms: Annotated[float | None, doc("Request sent to when the text was first safe, for good or not.")]
    safety_at_deadline: Annotated[SafetyAtDeadline | None, doc("Whether the text was safe at each deadline.")]
    time_to_safe_excludes: Annotated[
        tuple[str, ...],
        doc("Invariants left out of these times, because only a complete answer can be checked for them."),
    ]
    invariants_over_time: Annotated[
        tuple[InvariantTimeline, ...], doc("When each invariant held that can be checked on a part of the answer.")
    ]
    times_not_known: Annotated[str | None, doc("Why these times are unknown.")]
    safety_score: Annotated[Proportion | None, doc("Safety score; null without invariants.")]
    failure_classes: Annotated[tuple[FailureClass, ...], doc("Classes of failure, worst first.")]
    alarm: Annotated[
        Alarm | None,
        doc("If an invariant is violated: `missed` when the agent should act, `false` when it should defer."),
    ]
    fault: Annotated[
        FaultOutcome | None,
        doc("What the agent made of a service that went wrong; null if none does."),
    ]
    rubric: Annotated[JsonRubric | None, doc("Scores on the rubric; null if the scenario names none.")]
    termination_reason: Annotated[str | None, doc("The condition that ended the last conversation.")]
    terminated_early: Annotated[bool | None, doc("Whether the last conversation ended early; null without one.")]
    conversations: Annotated[tuple[ConversationEnding, ...], doc("How each conversation ended.")]
    evaluations: Annotated[tuple[EvaluationResult, ...], doc("Results of the checks.")]
    transcript: Annotated[tuple[JsonMessage, ...], doc("The messages, in order.")]
    trajectory: Annotated[tuple[JsonTrajectoryEntry, ...], doc("What the agent did, in the order in which it began.")]
    timing: Annotated[JsonTiming, doc("Phases and model calls with their times.")]
    errors: Annotated[tuple[JsonError, ...], doc("What went wrong in the harness, the environment or the network.")]
    notes: Annotated[tuple[Noted, ...], doc("What is worth knowing about the trial.")]
    incidents: Annotated[tuple[JsonIncident, ...], doc("Retries, waits and lag; excluded from every latency.")]
    metrics: Annotated[ConversationMetrics | None, doc("Figures of the conversation; null without one.")]
    cost: Annotated[JsonCost, doc("What the model calls used, with those of `earlier` and `replaced`.")]
    earlier: Annotated[
        tuple[JsonTrial, ...], doc("Measurements that were repeated because their latency could not be graded.")
    ]
    replaced: Annotated[tuple[JsonTrial, ...], doc("Trials that ended in error and were run again by a resume.")]
