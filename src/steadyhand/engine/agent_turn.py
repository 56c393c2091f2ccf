"""One turn of the agent: send it the messages, take its reply, and time only what the agent itself took."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from types import CoroutineType
from typing import Any

from steadyhand.engine.context import RunningTrial
from steadyhand.engine.limits import AgentTimeout, Lost, lost_lately, lost_so_far
from steadyhand.engine.model_call import awaited
from steadyhand.errors import AgentError, LimitExceeded, TrialError
from steadyhand.ports.agent import Agent, Reply, Turn, shows_of
from steadyhand.records.base import Record, rounded_ms
from steadyhand.records.chat import Finish, FinishReason, Message, Spoiled, SpoiledBy
from steadyhand.records.event import Lagged, ModelCalled, Retried, Said, Thought
from steadyhand.records.result import Latency
from steadyhand.records.scenario import Ask
from steadyhand.records.trajectory import disagreements
from steadyhand.user_file import raised

_NOT_THE_AGENTS = frozenset((401, 403, 408, 409, 429))


class AgentTurn(Record):
    """The result of a turn: the reply, how it ended, the agent's own share of the time, and its model calls."""

    reply: str
    duration_ms: float
    calls: tuple[ModelCalled, ...]
    latency: Latency
    finish: Finish | None = None
    duration_bounds: tuple[float, float] | None = None


def ask(
    trial: RunningTrial, messages: tuple[Message, ...], *, number: int, timeout_ms: float | None
) -> CoroutineType[Any, Any, AgentTurn]:
    """One turn. Raises `AgentError`, `ModelError`, or `LimitExceeded("step_time")`.

    The error of a mock or plugin that broke is raised no matter what the agent did: replied anyway, failed, or ran out
    of time.
    """
    take = _take_turn if trial.parts.services is None else _take_turn_with_services
    return take(trial, messages, number=number, timeout_ms=timeout_ms)


async def _take_turn_with_services(
    trial: RunningTrial, messages: tuple[Message, ...], *, number: int, timeout_ms: float | None
) -> AgentTurn:
    try:
        turn = await _take_turn(trial, messages, number=number, timeout_ms=timeout_ms)
    except TrialError:
        await trial.raise_broken()
        raise
    await trial.raise_broken()
    return turn


async def _take_turn(
    trial: RunningTrial, messages: tuple[Message, ...], *, number: int, timeout_ms: float | None
) -> AgentTurn:
    """One turn, without checking the services.

    If time ran out while the model was failing, the model's error is raised as an `AgentError`: an outage does not make
    the agent slow. An answer that the provider withheld or cut off raises an `AgentError` too.
    """
    agent = trial.parts.agent
    if agent is None:
        raise AgentError("the scenario needs an agent, but none was built for it")
    mark = len(trial.events)
    start_ms = trial.elapsed_ms()
    began = time.perf_counter()
    waited_before = trial.caller.waits.settled_ms
    deadline = None if timeout_ms is None else trial.clock.now() + timeout_ms / 1000.0
    cut_after_ms = _cut_after_ms(trial) if trial.parts.enforce_deadline else None
    turn = Turn(messages=messages, number=number, deadline=deadline, cut_after_ms=cut_after_ms)
    limit = None if timeout_ms is None else AgentTimeout(timeout_ms, trial.caller.waits, trial.parts.lag)
    lost_before = lost_lately(trial.parts.lag)
    try:
        if limit is None:
            reply = await _respond(agent, turn)
        else:
            async with limit:
                reply = await _respond(agent, turn)
    except TimeoutError:
        used = limit.used_ms() if limit is not None else 0.0
        faults = trial.since(mark, Retried)
        if faults:
            raise AgentError(
                f"out of time after {used:.0f} ms while the model was failing: {faults[-1].reason}"
            ) from None
        if limit is not None and (doubt := limit.doubt()) is not None:
            trial.disturbed(doubt)
            raise TrialError(doubt) from None
        if trial.parts.gateway is not None:
            await trial.parts.gateway.settle()
        raise LimitExceeded("step_time", used=round(used), allowed=timeout_ms or 0) from None
    end_ms = trial.elapsed_ms()
    lost = lost_so_far(trial.parts.lag).since(lost_before)
    if limit is not None and (doubt := limit.doubt()) is not None:
        trial.disturbed(doubt)
    if trial.parts.gateway is not None:
        await trial.parts.gateway.hear_out()
    text = _without_thoughts(trial, reply.text, end_ms)
    said = Message(role="assistant", content=text)
    trial.emit(Said(at_ms=end_ms, step=trial.step, turn=trial.turn, message=said))
    calls = tuple([call for call in trial.since(mark, ModelCalled) if call.purpose == "agent"])
    duration_ms = max(0.0, end_ms - start_ms - (trial.caller.waits.settled_ms - waited_before))
    if reply.duration_ms is not None:
        duration_ms = min(duration_ms, max(0.0, reply.duration_ms))
    taken = AgentTurn(
        reply=text,
        duration_ms=rounded_ms(duration_ms),
        duration_bounds=duration_bounds(trial, duration_ms, lost),
        calls=calls,
        latency=_latency(trial, calls, duration_ms, began, lost),
        finish=_finish(trial, calls),
    )
    if trial.parts.gateway is not None:  # waiting for what its program still has to report is not the agent's time
        await trial.parts.gateway.settle()
        _refuse_withheld([call for call in trial.since(mark, ModelCalled) if call.purpose == "agent"])
        declared = shows_of(agent)
        silent = declared.actions == "self_reported" and not declared.on_report
        for disagreement in disagreements(trial.events[mark:], reported=silent):
            trial.warn(f"{disagreement}; what passed the gateway counts")
    return taken


async def _respond(agent: Agent, turn: Turn) -> Reply:
    try:
        reply = await awaited(agent.respond(turn), "respond")
    except TrialError:
        raise
    except Exception as error:
        raise AgentError(f"the agent raised {raised(error)}") from error
    if not isinstance(reply, Reply):  # pyright: ignore[reportUnnecessaryIsInstance] - a third-party agent may not follow the port
        raise AgentError(f"the agent returned {type(reply).__name__}; expected a Reply")
    if not isinstance(reply.text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - likewise
        raise AgentError(f"the text of the agent's Reply has type {type(reply.text).__name__}; expected str")
    return reply


def _without_thoughts(trial: RunningTrial, text: str, at_ms: float) -> str:
    """The answer in what the agent said. Its thoughts are recorded; nothing reads them as an answer."""
    marks = trial.parts.thoughts
    split = None if marks is None else marks.split(text)
    if split is None:
        return text
    for thought in split.thoughts:
        if thought.strip():
            trial.emit(Thought(at_ms=at_ms, step=trial.step, turn=trial.turn, text=thought.strip()))
    return split.answer


def _finish(trial: RunningTrial, calls: Sequence[ModelCalled]) -> Finish | None:
    """How the last answer of a turn ended, with a warning unless it ended normally.

    Raises `AgentError` if the provider withheld an answer or cut it off: whatever the agent made of that, the test was
    not carried out as written. The same holds if an outage left the agent's own program without an answer.
    """
    _refuse_withheld(calls)
    if calls and calls[-1].relayed and _is_outage(calls[-1]):
        raise AgentError(f"{calls[-1].model}: {calls[-1].error}")
    if (waited_in_vain := _waited_in_vain(calls)) is not None:
        raise AgentError(f"{waited_in_vain.model}: the agent hung up before any of the answer arrived")
    if not calls or calls[-1].error is not None:
        return None
    finish = calls[-1].finish
    if calls[-1].relayed and (finish is None or not finish.undecided):
        return None  # the reply is whatever the agent made of the model's last answer
    if finish is None:
        trial.warn(f"{calls[-1].model}: the server did not say how the answer ended; assuming it is complete")
        return None
    if finish.plain or finish.reason is FinishReason.DEADLINE:
        return finish
    if finish.undecided:
        trial.undecided.append(f"{calls[-1].model}: {finish}")
    graded = "it cannot pass" if finish.undecided else "graded as received"
    trial.warn(f"{calls[-1].model}: {finish}; {graded}")
    return finish


def _refuse_withheld(calls: Sequence[ModelCalled]) -> None:
    for call in calls:
        if call.finish is not None and call.finish.is_error:
            raise AgentError(f"{call.model}: {call.finish}")


def _is_outage(call: ModelCalled) -> bool:
    """Whether the call failed through no fault of the agent. A rejected request is the agent's fault.

    An answer that broke off has a success status.
    """
    if call.error is None:
        return False
    status = call.timing.attempts[-1].status if call.timing.attempts else None
    return status is None or status < 400 or status in _NOT_THE_AGENTS or status >= 500


def _waited_in_vain(calls: Sequence[ModelCalled]) -> ModelCalled | None:
    """The call at which the agent gave up waiting for the model, if no other call was answered since it began.

    A model that does not answer is not the agent's failure, and what an agent does without a model tests nothing. An
    agent that asks twice and drops the slower answer, or stops reading early, did get an answer.
    """
    relayed = [call for call in calls if call.relayed]
    if not relayed:
        return None
    last = max(relayed, key=lambda call: call.at_ms)
    if last.finish is None or last.finish.reason is not FinishReason.HUNG_UP or last.text:
        return None
    return None if any(_answered_ms(call) >= last.at_ms for call in calls) else last


def _answered_ms(call: ModelCalled) -> float:
    """When the answer was complete, in milliseconds of the trial; minus infinity if there was no answer."""
    ended = call.timing.attempts[-1].last_byte_ms if call.timing.attempts else None
    return -math.inf if call.error is not None or ended is None else call.at_ms + ended


def _cut_after_ms(trial: RunningTrial) -> float | None:
    """The longest critical time among the step's latency budgets. A conversation is never cut off."""
    if trial.step is None:
        return None
    step = trial.scenario.steps[trial.step]
    if not isinstance(step.task, Ask):
        return None
    return max((budget.critical_ms for budget in trial.prepared_step(step).budgets), default=None)


def duration_bounds(trial: RunningTrial, duration_ms: float, lost: Lost) -> tuple[float, float] | None:
    """The least and the most that the agent can have taken; None if too little was lost to matter."""
    return None if lost.total_ms <= trial.parts.retry.lag_limit_ms else lost.bounds(duration_ms)


def _latency(
    trial: RunningTrial, calls: tuple[ModelCalled, ...], duration_ms: float, began: float, lost: Lost
) -> Latency:
    """The call's latency if the turn was a single call, otherwise the agent's time for the turn.

    A relayed call is only part of its turn.
    """
    if len(calls) == 1 and calls[0].error is None and not calls[0].relayed:
        timing = calls[0].timing
        return Latency(ms=_rounded(timing.latency_ms), spoiled=timing.spoiled, cut=timing.cut)
    # A call's bounds say nothing about the whole turn, so lag is measured again over all of it.
    spoiled = dict.fromkeys(
        Spoiled(kind=each.kind, detail=each.detail)
        for call in calls
        for each in call.timing.spoiled
        if each.kind is not SpoiledBy.LAGGED
    )
    lagged = _lagged(trial, began, duration_ms, lost)
    return Latency(ms=_rounded(duration_ms), spoiled=(*spoiled, *lagged), source="agent_turn")


def _lagged(trial: RunningTrial, began: float, duration_ms: float, lost: Lost) -> tuple[Spoiled, ...]:
    """How lag may have distorted the time of a turn that began at `began`. The lag is also recorded as an event."""
    ended = time.perf_counter()
    lag_ms = 0.0 if trial.parts.lag is None else trial.parts.lag.worst_ms(began, ended)
    lag_ms = max(lag_ms, lost.asleep_s * 1000.0)
    limit_ms = trial.parts.retry.lag_limit_ms
    if lag_ms <= limit_ms:
        return ()
    name = trial.parts.agent.name if trial.parts.agent else ""
    event = Lagged(at_ms=trial.elapsed_ms(), model=name, purpose="agent", lag_ms=round(lag_ms, 3), limit_ms=limit_ms)
    trial.emit(event)
    held_up_ms = math.inf if trial.parts.lag is None else trial.parts.lag.total_ms(began, ended)
    detail = f"the event loop lagged {lag_ms:.0f} ms during the turn"
    low_ms = max(0.0, duration_ms - held_up_ms - lost.asleep_s * 1000.0)
    high_ms = _rounded(duration_ms + lost.asleep_s * 1000.0)
    return (Spoiled(kind=SpoiledBy.LAGGED, detail=detail, low_ms=low_ms, high_ms=high_ms),)


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else rounded_ms(ms)
