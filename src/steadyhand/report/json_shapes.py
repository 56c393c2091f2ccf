"""The shape of the JSON report, and the JSON Schema generated from it. docs/json-report.md is the guide for readers.

Every key is always present: a field that is unknown is null. Records that the report shows as they are stand in the
shapes themselves; `OBJECTS` has the names and descriptions of what they become.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from steadyhand.judging.figures import Figures, RunFigures, TimeFigures
from steadyhand.judging.invariance import VariantFindings
from steadyhand.judging.rates import Tally, UntilDecided
from steadyhand.judging.statistics import Percentile
from steadyhand.records.base import Natural, Proportion, Record, doc
from steadyhand.records.calibration import JudgedCase
from steadyhand.records.chat import Attempt, InvariantTimeline, SafetyAtDeadline, Usage
from steadyhand.records.config import Price
from steadyhand.records.evaluation import EvaluationResult, Evidence, JudgeNote, Verdict
from steadyhand.records.event import Noted, Shows
from steadyhand.records.result import ConversationEnding, ConversationMetrics, SimulatorQuality, TokenUsage
from steadyhand.records.run import FaultConduct, PhaseRecord, RanOn, Spent, Target
from steadyhand.report.json_trial_shapes import JsonCost, JsonEvaluation, JsonNote, JsonSpent, JsonTrial
from steadyhand.report.named_objects import NamedObjects

REPORT_FORMAT = 3


class JsonVerdictCounts(Record):
    """Counts by verdict."""

    passed: Annotated[Natural, doc("Number that passed.")]
    failed: Annotated[Natural, doc("Number that failed.")]
    inconclusive: Annotated[Natural, doc("Number that could not be evaluated.")]
    error: Annotated[Natural, doc("Number in which the harness, the environment or the network failed.")]
    total: Annotated[Natural, doc("The sum of these counts.")]


class JsonTrialCounts(Record):
    """Numbers of trials by verdict, and of those without one."""

    passed: Annotated[Natural, doc("Number of trials that passed.")]
    failed: Annotated[Natural, doc("Number of trials that failed.")]
    inconclusive: Annotated[Natural, doc("Number of trials that could not be evaluated.")]
    error: Annotated[Natural, doc("Number of trials in which the harness, the environment or the network failed.")]
    not_run: Annotated[Natural, doc("Number of trials that were planned but have no verdict.")]
    total: Annotated[Natural, doc("The sum of these counts.")]


class JsonPrice(Record):
    """The price of a model, per million tokens."""

    input: Annotated[float, doc("Price of a million input tokens.")]
    output: Annotated[float, doc("Price of a million output tokens.")]


class JsonCanaries(Record):
    """The judge's results on labelled cases. They are not trials and are not part of any figure."""

    file: Annotated[str, doc("The labels file.")]
    asked: Annotated[Natural, doc("Number of cases that the judge was asked about.")]
    hits: Annotated[Natural, doc("Number of cases in which it agreed with the label.")]
    false_passes: Annotated[Natural, doc("Number of cases labelled fail that it passed.")]
    cases: Annotated[tuple[JudgedCase, ...], doc("The cases.")]
    skipped: Annotated[tuple[str, ...], doc("What could not be asked, and why.")]
    cost: Annotated[Spent, doc("What asking them cost; not part of any other total.")]


class JsonRun(Record):
    """What was requested, fixed when the run started."""

    id: Annotated[str, doc("Id of the run.")]
    started_at: Annotated[str, doc("When the run started, ISO 8601.")]
    steadyhand_version: Annotated[str, doc("Version of Steadyhand that ran it.")]
    command: Annotated[tuple[str, ...], doc("The command line.")]
    seed: Annotated[int, doc("Seed of the run.")]
    planned: Annotated[Natural, doc("Number of trials planned.")]
    options: Annotated[dict[str, Any], doc("The settings a resume uses to continue the run.")]
    prices: Annotated[dict[str, Price], doc("Prices from the configuration, by model.")]
    own_servers: Annotated[tuple[str, ...], doc("Providers with a custom base URL; list prices do not apply to them.")]
    free_providers: Annotated[tuple[str, ...], doc("Providers whose calls cost nothing.")]
    pass_rate: Annotated[float | None, doc("Share of trials that must pass in every scenario, if the user set one.")]
    pass_rates: Annotated[dict[str, float], doc("Share of trials that must pass, by scenario that sets its own.")]
    fingerprints: Annotated[
        dict[str, dict[str, str]], doc("For each scenario, digests of everything its trials depend on.")
    ]
    until: Annotated[
        Literal["decided"] | None, doc("Whether trials ran only until the pass rate was decided; null if all ran.")
    ]
    alpha: Annotated[float, doc("With `until`, the chance of a wrong decision, in either direction.")]
    origin: Annotated[str | None, doc("Id of the run whose stored trials were judged again; null for an ordinary run.")]
    canaries: Annotated[
        JsonCanaries | None, doc("How the judge did on the labelled cases mixed into the run, if there were any.")
    ]
    failed_of: Annotated[
        str | None, doc("Id of the run whose scenarios that did not pass were rerun; null for any other run.")
    ]
    shard: Annotated[str | None, doc("Which shard this is, such as `2/5`; null for a whole run.")]
    merged_from: Annotated[tuple[str, ...], doc("Ids of the shards that were merged into this run.")]
    took_ms: Annotated[float, doc("How long trials were running, resumed parts included; 0 if unknown.")]
    agent_can_read: Annotated[
        tuple[str, ...], doc("What agents were allowed to read although trials are judged by it.")
    ]


class JsonScenarioMatrix(Record):
    """Where in a matrix a scenario belongs."""

    name: Annotated[str, doc("Name of the matrix.")]
    file: Annotated[str, doc("File of the matrix.")]
    parameters: Annotated[dict[str, Any], doc("The value of each parameter.")]


class JsonTarget(Record):
    """The target of a scenario."""

    scenario: Annotated[str, doc("Id of the scenario in its file: the same for all targets and combinations.")]
    model: Annotated[str | None, doc("Model under test.")]
    agent: Annotated[str | None, doc("Agent under test; null if the scenario asks none.")]
    cell: Annotated[dict[str, Any], doc("What a matrix sets besides model and agent.")]
    name: Annotated[str, doc("Name of the target, as in `figures`.")]


class JsonPercentile(Record):
    """A percentile with its interval. All null if refused; otherwise null is a time that never ended."""

    q: Annotated[float, doc("Which one: 0.95 is p95.")]
    n: Annotated[Natural, doc("Number of values: trials or, for a suite, scenarios.")]
    needed: Annotated[Natural, doc("Minimum number of values required.")]
    refused: Annotated[bool, doc("Whether there are too few values.")]
    value: Annotated[float | None, doc("The percentile, in milliseconds.")]
    low: Annotated[float | None, doc("Lower bound of its interval.")]
    high: Annotated[float | None, doc("Upper bound of its interval.")]


class JsonScenarioRate(Record):
    """The result of a scenario."""

    id: Annotated[str, doc("Id of the scenario.")]
    verdict: Annotated[Verdict, doc("Verdict of the scenario.")]
    reason: Annotated[str, doc("Why, in a sentence.")]
    required: Annotated[Proportion | None, doc("Share of trials that must pass; null means all.")]
    trials: Annotated[Tally, doc("Number of trials by verdict.")]
    share: Annotated[
        Proportion | None, doc("Share that passed of the trials that passed or failed; null if there are none.")
    ]
    interval: Annotated[tuple[Proportion, Proportion] | None, doc("95% confidence interval of the share.")]
    pass_hat_k: Annotated[dict[str, Proportion], doc("For each k, the estimated chance that k trials all pass.")]
    saved: Annotated[Natural, doc("Number of trials that were not needed, because the result was decided.")]
    until: Annotated[UntilDecided | None, doc("The test that ended its trials; null if all ran.")]
    target: Annotated[Target | None, doc("What was under test; null if the record does not say.")]
    figures: Annotated[Figures, doc("Its figures.")]
    matrix: Annotated[JsonScenarioMatrix | None, doc("Its place in a matrix; null if it is in none.")]


class JsonMatrixValue(Record):
    """One value of a parameter."""

    value: Annotated[Any, doc("The value.")]
    combinations: Annotated[JsonVerdictCounts, doc("Verdicts of the combinations with this value.")]
    trials: Annotated[Tally, doc("Verdicts of their trials.")]


class JsonMatrixAxis(Record):
    """A parameter that the matrix varies."""

    parameter: Annotated[str, doc("Path of the parameter.")]
    values: Annotated[tuple[JsonMatrixValue, ...], doc("Its values, in the order of the file.")]


class JsonMatrix(Record):
    """The results of a matrix."""

    name: Annotated[str, doc("Name of the matrix.")]
    file: Annotated[str, doc("File of the matrix.")]
    combinations: Annotated[tuple[str, ...], doc("Ids of its scenarios.")]
    axes: Annotated[tuple[JsonMatrixAxis, ...], doc("What it varies.")]


class JsonSummary(Record):
    """Counts of trials over the whole run, and the exit code."""

    passed: Annotated[Natural, doc("Number of trials that passed.")]
    failed: Annotated[Natural, doc("Number of trials that failed.")]
    inconclusive: Annotated[Natural, doc("Number of trials that could not be evaluated.")]
    error: Annotated[Natural, doc("Number of trials in which the harness, the environment or the network failed.")]
    not_run: Annotated[Natural, doc("Number of trials that were planned but have no verdict.")]
    saved: Annotated[Natural, doc("Number of trials that were not needed, because their scenario was decided.")]
    missed_alarms: Annotated[Natural, doc("Number of trials with a missed alarm.")]
    false_alarms: Annotated[Natural, doc("Number of trials with a false alarm.")]
    total: Annotated[Natural, doc("Number of trials with a verdict.")]
    scenarios: Annotated[JsonVerdictCounts, doc("Number of scenarios by verdict.")]
    exit_code: Annotated[Literal[0, 1, 3], doc("Exit code that follows from the verdicts of the scenarios.")]
    cost: Annotated[JsonCost, doc("What the model calls of the run used.")]


class JsonFault(Record):
    """A fault of a scenario, and what the agent made of it."""

    scenario: Annotated[str, doc("Id of the scenario in which it happens.")]
    original: Annotated[str, doc("Id of the scenario without it.")]
    fault: Annotated[str, doc("The service and what goes wrong with it.")]
    outcomes: Annotated[dict[FaultConduct, Natural], doc("Number of trials by what the agent did.")]


class JsonReport(Record):
    """The report of a run. Every key is present; what is unknown is null. Times are in milliseconds."""

    format: Annotated[Literal[3], doc("Version of this format.")]
    run: Annotated[JsonRun, doc("What was requested.")]
    trials: Annotated[tuple[JsonTrial, ...], doc("The finished trials, in the order of the plan.")]
    scenarios: Annotated[tuple[JsonScenarioRate, ...], doc("The planned scenarios, in order.")]
    variants: Annotated[VariantFindings, doc("What the variants of the run show.")]
    faults: Annotated[tuple[JsonFault, ...], doc("Services that went wrong, with --faults.")]
    matrices: Annotated[tuple[JsonMatrix, ...], doc("The matrices of the run.")]
    figures: Annotated[RunFigures, doc("Figures of the targets and of the suite.")]
    summary: Annotated[JsonSummary, doc("Totals and exit code.")]


OBJECTS = NamedObjects(
    {
        Attempt: (
            "JsonAttempt",
            "One attempt at a model call. Times count from when the call was queued; null if never reached.",
        ),
        ConversationEnding: ("JsonConversation", "How the conversation of a step ended."),
        ConversationMetrics: ("JsonMetrics", "Figures of a conversation."),
        EvaluationResult: JsonEvaluation,
        Evidence: ("JsonEvidence", "What a check compared."),
        Figures: (
            "JsonFigures",
            "Figures of a scenario, of a target or of the suite. Errors and inconclusive trials are in `trials` alone.",
        ),
        InvariantTimeline: ("JsonInvariantTimes", "When one invariant held on what had been received."),
        JudgeNote: ("JsonJudge", "What a judge was asked and what it answered."),
        JudgedCase: ("JsonJudgedCase", "A labelled check that the judge was asked about."),
        Noted: JsonNote,
        Percentile: JsonPercentile,
        PhaseRecord: ("JsonPhase", "A phase of a trial."),
        Price: JsonPrice,
        RanOn: ("JsonRanOn", "The worker that ran a trial, and the accuracy of its clock."),
        RunFigures: ("JsonRunFigures", "Figures of the targets and of the suite."),
        SafetyAtDeadline: (
            "JsonSafetyAtDeadline",
            "Whether the text received by each bound of the budget satisfied the invariants.",
        ),
        Shows: ("JsonShows", "How much can be seen of what the agent does."),
        SimulatorQuality: ("JsonSimulatorQuality", "How well the simulated user stayed in its role."),
        Spent: JsonSpent,
        Tally: JsonTrialCounts,
        Target: JsonTarget,
        TimeFigures: ("JsonTimes", "How long decided trials took."),
        TokenUsage: ("JsonTokenUsage", "Tokens of a conversation, by purpose."),
        UntilDecided: (
            "JsonUntil",
            "The test of a scenario whose trials ran only until its pass rate was decided.",
        ),
        Usage: ("JsonUsage", "Tokens of a model call, as counted by the server."),
    }
)


def report_schema() -> dict[str, Any]:
    return OBJECTS.schema(JsonReport, "Steadyhand report")
