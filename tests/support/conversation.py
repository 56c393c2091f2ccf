"""A trial with a conversation whose parts are told what to say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.plugin import EVALUATORS
from steadyhand.engine.context import TrialParts
from steadyhand.engine.trial import run_trial
from steadyhand.plugins.plugin import EnvironmentSettings, Plugin
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import EVERYTHING_SEEN, Reply, TrialContext, Turn
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.event import Noted
from steadyhand.records.location import Place
from steadyhand.records.result import ConversationTurn
from steadyhand.records.run import TrialKey, TrialRecord
from steadyhand.records.scenario import ConversationConfig, Converse, Scenario, Step, UserSimulatorConfig, VerdictPolicy

PLACE = Place(file="talk.scenario.yaml", line=7, column=3)
USER = UserSimulatorConfig(persona="a customer", objective="a refund")


class ToldAgent:
    """Answers in turn; an answer may be a function to be awaited."""

    name = "told"
    shows = EVERYTHING_SEEN

    def __init__(self, *replies: str | Callable[[], Awaitable[str]]) -> None:
        self.replies = replies
        self.asked: list[Turn] = []

    async def open(self, trial: TrialContext) -> None:
        pass

    async def respond(self, turn: Turn) -> Reply:
        self.asked.append(turn)
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        return Reply(text=reply if isinstance(reply, str) else await reply())

    async def close(self) -> None:
        pass


class ToldUser:
    def __init__(self, *lines: str | Exception) -> None:
        self.lines = list(lines)
        self.seen: list[int] = []

    async def generate_response(
        self, history: tuple[ConversationTurn, ...], config: UserSimulatorConfig, trial: TrialContext
    ) -> str:
        self.seen.append(len(history))
        line = self.lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return line


def check(type_: str, name: str | None = None, severity: float | None = None, **params: Any) -> EvaluationSpec:
    return EvaluationSpec(type=type_, place=PLACE, params=params, name=name, severity=severity)


def scenario(
    config: ConversationConfig, opening: str | None = "Hello", evaluations: Sequence[EvaluationSpec] = (), **step: Any
) -> Scenario:
    said = (Message(role="user", content=opening),) if opening else ()
    steps = (
        Step(
            index=0,
            name="talk",
            place=PLACE,
            task=Converse(opening=said, config=config),
            evaluations=tuple(evaluations),
            **step,
        ),
    )
    return Scenario(id="t", name="t", description="", place=PLACE, digest="", steps=steps, judgment=VerdictPolicy())


async def hold(folder: Path, told: Scenario, agent: Any, registry: Registry | None = None, **parts: Any) -> TrialRecord:
    known = registry or Registry([Plugin(name="builtin", evaluators=EVALUATORS)])
    return await run_trial(
        TrialParts(
            scenario=told,
            key=TrialKey(scenario_id="t"),
            environment=LocalEnvironment(EnvironmentSettings(root=folder, trial_id="t")),
            evaluator=known.evaluator,
            agent=agent,
            **parts,
        )
    )


def notes(record: TrialRecord, topic: str) -> list[dict[str, Any]]:
    return [event.figures for event in record.events if isinstance(event, Noted) and event.topic == topic]


def ending(record: TrialRecord) -> tuple[str, int]:
    """The reason it ended, and after how many turns."""
    (figures,) = notes(record, "conversation_ended")
    return figures["reason"], figures["turns"]
