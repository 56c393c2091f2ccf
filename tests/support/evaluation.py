"""A trial to run evaluations in: a real local workspace, no agent, no model."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steadyhand.ports.agent import EVERYTHING_SEEN, Shows
from steadyhand.ports.environment import Database, EnvironmentProvider
from steadyhand.ports.model import ChatModel
from steadyhand.ports.services import ScriptSandbox
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.records.config import Price
from steadyhand.records.event import AnyEvent
from steadyhand.records.location import Place
from steadyhand.records.scenario import Scenario

PLACE = Place(file="test.yaml")


class RealClock:
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Trial:
    """Implements `ports.agent.TrialContext` for evaluations that ask no model."""

    scenario: Scenario
    environment: EnvironmentProvider
    trial_id: str = "t"
    seed: int = 0
    live: bool = False
    services: None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    random: random.Random = field(default_factory=lambda: random.Random(0))
    clock: RealClock = field(default_factory=RealClock)
    database: Database | None = None
    events: list[AnyEvent] = field(default_factory=list)
    judge: Any = None
    shows: Shows = EVERYTHING_SEEN
    scripts: ScriptSandbox | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)

    def price_of(self, model: str) -> Price | None:
        return self.prices.get(model)

    def elapsed_ms(self) -> float:
        return 0.0

    def emit(self, event: AnyEvent) -> None:
        self.events.append(event)

    async def call(self, model: ChatModel, request: ChatRequest) -> ChatResponse:
        raise AssertionError("no evaluation here may ask a model")
