"""pydantic-evals: a dataset, a task function with the call, two evaluators, the report dumped as JSON.

It has neither a model client nor a record of its own. The call is made by pydantic-ai, its companion, or by the plain
aiohttp client, which isolates the tool's own share; the record is its report, written by its own adapter.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator, EvaluatorContext
from pydantic_evals.reporting import EvaluationReportAdapter

from benchmarks import peer_run


@dataclass
class Stops(Evaluator[str, str]):
    def evaluate(self, ctx: EvaluatorContext[str, str]) -> bool:
        return peer_run.STOP.search(ctx.output) is not None


@dataclass
class NoWait(Evaluator[str, str]):
    def evaluate(self, ctx: EvaluatorContext[str, str]) -> bool:
        return "wait" not in ctx.output.lower()


def run(base_url: str, cases: list[str]) -> Any:
    dataset = Dataset(
        name="pump", cases=[Case(name=case, inputs=case) for case in cases], evaluators=[Stops(), NoWait()]
    )
    report = asyncio.run(_evaluate(dataset, base_url))
    (peer_run.RECORD / "report.json").write_bytes(EvaluationReportAdapter.dump_json(report))
    return report


async def _evaluate(dataset: Any, base_url: str) -> Any:
    async with (_pydantic_ai if "pydantic-ai" in sys.argv else _plain)(base_url) as decide:
        return await dataset.evaluate(decide, max_concurrency=peer_run.IN_FLIGHT, progress=False)


@contextlib.asynccontextmanager
async def _plain(base_url: str) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def decide(prompt: str) -> str:
            return await peer_run.ask(session, base_url, prompt)

        yield decide


@contextlib.asynccontextmanager
async def _pydantic_ai(base_url: str) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=base_url, api_key="none")
    agent = Agent(OpenAIChatModel("bench", provider=provider), instructions=peer_run.SYSTEM)

    async def decide(prompt: str) -> str:
        return (await agent.run(prompt)).output

    yield decide


def reported(report: Any) -> dict[int, float]:
    """The duration of the task, which a user reads as its latency."""
    return {
        peer_run.number_of(case.inputs): case.task_duration * 1000
        for case in report.cases
        if len(case.assertions) == 2 and all(each.value for each in case.assertions.values())
    }


if __name__ == "__main__":
    peer_run.main(run, reported)
