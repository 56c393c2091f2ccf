"""How reports word figures and names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from steadyhand.judging.cost import PRICES_AS_OF, CostSummary
from steadyhand.judging.rates import ScenarioRate, Tally, percent
from steadyhand.judging.statistics import pass_hat_k
from steadyhand.records.base import counted
from steadyhand.records.chat import FinishReason
from steadyhand.records.evaluation import EvaluationResult, LatencyTier, RubricScore
from steadyhand.records.event import ModelCalled, answers_finish
from steadyhand.records.run import Judged, Spent, Target, TrialRecord
from steadyhand.report.table import Cell, clip, one_line

JunitInconclusive = Literal["skipped", "failure", "error"]
"""How an inconclusive scenario is reported in JUnit, which has no such status."""
_LONGEST_VALUE = 40
_ENDED = {
    FinishReason.TOOL_CALLS: "tool call",
    FinishReason.LENGTH: "cut short",
    FinishReason.REFUSAL: "refusal",
    FinishReason.CONTENT_FILTER: "filtered",
    FinishReason.ERROR: "error",
    FinishReason.PAUSE_TURN: "paused",
    FinishReason.DEADLINE: "deadline",
    FinishReason.HUNG_UP: "hung up",
    FinishReason.UNKNOWN: "unknown",
}
_YES = {True: "yes", False: "no", None: "?"}


def milliseconds(ms: float) -> str:
    """Rounded up, so that a figure never looks better than it is: 500.2 is not within 500."""
    if not math.isfinite(ms):
        return f"{ms} ms"
    return f"{math.ceil(ms)} ms" if ms >= 10 else f"{math.ceil(ms * 10) / 10:g} ms"


def seconds(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{int(ms // 60_000)} min {int(ms % 60_000 // 1000)} s"


def latency(judged: Judged, evaluations: Iterable[EvaluationResult]) -> str:
    """The latency and its tier, such as `480 ms  target <=500`."""
    if judged.latency_ms is None:
        return ""
    figure = milliseconds(judged.latency_ms)
    if judged.latency_cut:
        return f"over {figure}, cut off"
    if judged.latency_spoiled:
        return f"{figure}  not graded"
    tier = judged.latency_tier
    if tier is None:
        return figure
    if tier is LatencyTier.EXCEEDED:
        bound = _bound(evaluations, LatencyTier.CRITICAL)
        return f"{figure}  over {bound:g}" if bound is not None else f"{figure}  exceeded"
    bound = _bound(evaluations, tier)
    return f"{figure}  {tier} <={bound:g}" if bound is not None else f"{figure}  {tier}"


def proxied(trial: TrialRecord) -> str:
    """Shown next to a latency that includes a proxy."""
    calls = (event for event in trial.events if type(event) is ModelCalled and event.purpose == "agent")
    through = any(attempt.proxied for call in calls for attempt in call.timing.attempts)
    return "  through a proxy" if through and trial.judged.latency_ms is not None else ""


def milliseconds_or_nothing(ms: float | None) -> str:
    return "" if ms is None else milliseconds(ms)


def time_to_safe(judged: Judged) -> str:
    """The time, `never`, or nothing if unknown. A star marks that some invariants are not included."""
    safe_ms = judged.safe_ms
    if safe_ms is None:
        return ""
    return "never" if safe_ms == math.inf else milliseconds(safe_ms) + ("*" if judged.time_to_safe_excludes else "")


def safe_by_deadline(judged: Judged) -> str:
    """Such as `no/yes/yes`: at the target, acceptable and critical time."""
    at = judged.safety_at_deadline
    return "" if at is None else "/".join(_YES[held] for held in (at.target, at.acceptable, at.critical))


def ended(trial: TrialRecord) -> str:
    """How the answer ended, unless the model simply finished."""
    finish = answers_finish(trial.events)
    if finish is None or finish.plain:
        return ""
    return "our limit" if finish.our_limit else _ENDED[finish.reason]


def rubric_score(score: RubricScore | None) -> str:
    """Empty if no judge was asked: that is reported once, below the table."""
    if score is None or (score.overall is None and score.note is None):
        return ""
    return "not scored" if score.overall is None else f"{score.overall:.2f}"


def _bound(evaluations: Iterable[EvaluationResult], tier: LatencyTier) -> float | None:
    budget = next((evaluation.budget for evaluation in evaluations if evaluation.budget is not None), None)
    if budget is None:
        return None
    bounds = {
        LatencyTier.TARGET: budget.target_ms,
        LatencyTier.ACCEPTABLE: budget.acceptable_ms,
        LatencyTier.CRITICAL: budget.critical_ms,
    }
    return bounds.get(tier)


def axis_value(value: Any) -> str:
    """A value of a matrix parameter, on one line."""
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return clip(one_line(text), _LONGEST_VALUE)


def scenario_label(trial: TrialRecord, *, numbered: bool) -> str:
    """Id and name, with the number of the trial if the scenario has several."""
    mark = f"#{trial.key.index}" if numbered else ""
    name = " ".join(trial.scenario_name.split()) if trial.scenario_name != trial.key.scenario_id else ""
    return f"{trial.key.scenario_id}{mark}  {name}".rstrip()


def told_apart(
    scenario_ids: Sequence[str], targets: Mapping[str, Target], *, among: Sequence[str]
) -> dict[str, dict[str, str]]:
    """What differs between the targets of these scenarios, by id: those `among` scenario, agent and model that do."""
    known = {each: targets[each] for each in scenario_ids if each in targets}
    if len(known) < len(scenario_ids):
        return {}
    found = {name: {each: getattr(target, name) or "" for each, target in known.items()} for name in among}
    differing = {name: values for name, values in found.items() if len(set(values.values())) > 1}
    return {each: {name: values[each] for name, values in differing.items()} for each in known} if differing else {}


def headline(found: Tally, *, whole: bool) -> str:
    """The result of a run in one sentence, from its scenarios. It is passed only if its record is whole."""
    total = counted(found.total, "scenario")
    if found.failed:
        return f"{found.failed} of {total} failed"
    undecided = found.error + found.inconclusive
    if undecided or not found.total:
        return f"{undecided} of {total} could not be decided"
    if not whole:
        return "The record of the run is not whole"
    return f"All {total} passed" if found.total > 1 else "The scenario passed"


def cost_line(summary: CostSummary) -> str:
    """Such as `4 model calls: 1200 tokens (agent 1000, judge 200), cost 0.0031`. Says what is unknown."""
    total = summary.total
    if not total.calls:
        return "no model calls"
    if not (total.tokens_known or total.tokens or total.cost_known or total.cost):
        parts = [f"{counted(total.calls, 'model call')}: tokens and cost unknown"]
    else:
        parts = [f"{counted(total.calls, 'model call')}: {_tokens(summary)}", _cost(total)]
    if summary.list_prices:
        parts.append(f"at list prices of {PRICES_AS_OF}")
    if total.not_live:
        parts.append(f"{total.not_live} not live (free)")
    return ", ".join(parts)


def _tokens(summary: CostSummary) -> str:
    total = summary.total
    at_least = "" if total.tokens_known else "at least "
    purposes = ", ".join(f"{purpose} {spent.tokens}" for purpose, spent in summary.by_purpose.items() if spent.tokens)
    if not total.tokens_known and not total.tokens:
        return "tokens unknown"
    text = f"{at_least}{total.tokens} tokens" + (f" ({purposes})" if len(summary.by_purpose) > 1 and purposes else "")
    return text + (f" ({total.uncounted} not counted by the server)" if total.uncounted else "")


def _cost(total: Spent) -> str:
    if total.cost_known:
        return f"cost {total.cost:.4f}"
    return f"cost at least {total.cost:.4f}" if total.cost else "cost unknown"


RATE_COLUMNS = ("passed", "required", "95% interval", "pass^k", "undecided")
_LARGEST_K = 5


def rate_cells(rate: ScenarioRate) -> tuple[Cell, ...]:
    """A cell for each of `RATE_COLUMNS`. A single trial has no rate worth showing."""
    undecided = rate.total - rate.decided
    interval, hat = None, None
    k = min(_LARGEST_K, rate.decided - 1)
    if rate.total > 1:
        interval, hat = rate.interval, pass_hat_k(rate.passed, rate.decided, k)
    return (
        Cell(text=f"{rate.passed}/{rate.total}"),
        Cell(text=percent(rate.required) if rate.total > 1 else ""),
        Cell(text=f"{interval[0]:.0%} to {interval[1]:.0%}" if interval else ""),
        Cell(text=f"k={k}: {hat:.0%}" if hat is not None else ""),
        Cell(text=str(undecided) if undecided else ""),
    )
