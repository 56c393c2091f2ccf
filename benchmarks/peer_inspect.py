"""inspect_ai: a task of one system message and one generation, two scorers, its own log file."""

from __future__ import annotations

from typing import Any

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import get_model
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer
from inspect_ai.solver import generate, system_message

from benchmarks import peer_run


@scorer(metrics=[accuracy()])
def stops() -> Any:
    async def score(state: Any, target: Any) -> Score:
        del target
        return Score(value=CORRECT if peer_run.STOP.search(state.output.completion) else INCORRECT)

    return score


@scorer(metrics=[accuracy()])
def no_wait() -> Any:
    async def score(state: Any, target: Any) -> Score:
        del target
        return Score(value=INCORRECT if "wait" in state.output.completion.lower() else CORRECT)

    return score


def run(base_url: str, cases: list[str]) -> EvalLog:
    task = Task(
        dataset=[Sample(input=case) for case in cases],
        solver=[system_message(peer_run.SYSTEM), generate()],
        scorer=[stops(), no_wait()],
    )
    model = get_model("openai-api/loopback/bench", base_url=base_url, api_key="none")
    [log] = inspect_ai.eval(
        task,
        model=model,
        max_connections=peer_run.IN_FLIGHT,
        max_samples=peer_run.IN_FLIGHT,
        log_dir=str(peer_run.RECORD),
        display="none",
    )
    return log


def reported(log: EvalLog) -> dict[int, float]:
    """The time of the generation, which a user reads as the latency of the call."""
    latency: dict[int, float] = {}
    for sample in read_eval_log(log.location).samples or []:
        if all(score.value == CORRECT for score in (sample.scores or {}).values()) and sample.output.time is not None:
            latency[peer_run.number_of(str(sample.input))] = sample.output.time * 1000
    return latency


if __name__ == "__main__":
    peer_run.main(run, reported)
