"""Spans that reach a trial, and what its checks make of them. Real trials, a real server, spans over HTTP."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from steadyhand.engine.trial import run_trial
from steadyhand.gateway.server import GatewayServer, TrialGateway
from steadyhand.gateway.traces import MOUNT, TraceReceiver
from steadyhand.ports.agent import Shows, turn_span_id
from steadyhand.records.event import ActionTaken, Noted
from steadyhand.records.run import TrialRecord
from steadyhand.testing import ScriptedAgent
from support.engine import asking, builder, check, scenario
from support.spans import a_span, a_tool, an_export

JSON = {"content-type": "application/json"}
HIDDEN = Shows()
TRACED = Shows(traced=True)
FOUND = check("trajectory_contains_action", action="find_order", params={"number": "A-1"})
NEVER = check("trajectory_contains_action", action="refund", max_count=0)


class Bench:
    """A gateway with a receiver, and trials whose agent is a function that can post spans."""

    def __init__(self, folder: Path, client: aiohttp.ClientSession, *, wait_s: float) -> None:
        self.server = GatewayServer()
        self.receiver = TraceReceiver(self.server, wait_s=wait_s)
        self.server.mount(MOUNT, self.receiver)
        self.client = client
        self._build = builder(folder)

    async def run(self, agent: Callable[..., Any], *steps: Any, shows: Shows = HIDDEN) -> TrialRecord:
        parts = self._build(scenario(*(steps or (asking("hi", FOUND, NEVER),))), gateway=TrialGateway(self.server))
        parts.agent = ScriptedAgent(agent, shows=shows)
        return await run_trial(parts)

    async def post(self, url: str, *spans: dict[str, Any], body: bytes | None = None) -> int:
        data = io.BytesIO(an_export(*spans) if body is None else body)
        async with self.client.post(f"{url}/v1/traces", data=data, headers=JSON) as answer:
            return answer.status


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with aiohttp.ClientSession() as client:
        bench = Bench(tmp_path, client, wait_s=0.3)
        yield bench
        await bench.server.close()


@pytest.fixture
async def patient(tmp_path: Path) -> AsyncIterator[Bench]:
    async with aiohttp.ClientSession() as client:
        bench = Bench(tmp_path, client, wait_s=60.0)
        yield bench
        await bench.server.close()


def _verdicts(record: TrialRecord) -> list[str]:
    return [result.verdict.value for result in record.evaluations]


def _actions(record: TrialRecord) -> list[tuple[str, dict[str, Any]]]:
    return [(event.name, event.params) for event in record.events if isinstance(event, ActionTaken)]


def _root(number: int = 9, **span: Any) -> dict[str, Any]:
    return a_span("invoke_agent", number=number, now=True, **span)


def _find(number: int = 1, **span: Any) -> dict[str, Any]:
    return a_tool("find_order", number=number, params={"number": "A-1"}, now=True, **span)


async def test_actions_in_a_trace_decide_checks_that_would_be_inconclusive(bench: Bench) -> None:
    async def good(_: Any, trial: Any) -> str:
        assert await bench.post(trial.addresses.names["otlp_endpoint"], _find(parent=9), _root()) == 200
        return "done"

    async def bad(_: Any, trial: Any) -> str:
        refund = a_tool("refund", number=2, parent=9, now=True)
        await bench.post(trial.addresses.names["otlp_endpoint"], _find(parent=9), refund, _root())
        return "done"

    record = await bench.run(good)
    assert (_verdicts(record), record.judged.verdict.value) == (["passed", "passed"], "passed")
    assert _actions(record) == [("find_order", {"number": "A-1"})]
    assert record.shows is not None
    assert record.shows.actions == "seen"
    assert _verdicts(await bench.run(bad)) == ["passed", "failed"]
    assert _verdicts(await bench.run(lambda *_: "done")) == ["inconclusive", "inconclusive"]


async def test_without_a_tool_span_absence_proves_nothing_unless_declared(bench: Bench) -> None:
    async def only_a_root(_: Any, trial: Any) -> str:
        await bench.post(trial.addresses.names["otlp_endpoint"], _root())
        return "done"

    step = asking("hi", NEVER)
    assert _verdicts(await bench.run(only_a_root, step)) == ["inconclusive"]
    assert _verdicts(await bench.run(only_a_root, step, shows=TRACED)) == ["passed"]
    nothing = await bench.run(lambda *_: "done", step, shows=TRACED)
    assert _verdicts(nothing) == ["inconclusive"]
    assert "no span of this turn has arrived" in nothing.evaluations[0].message


async def test_the_end_of_a_turn_waits_for_spans_on_their_way(patient: Bench) -> None:
    tasks: set[asyncio.Task[Any]] = set()

    async def later(url: str) -> None:
        await asyncio.sleep(0.2)
        await patient.post(url, _root())

    async def agent(_: Any, trial: Any) -> str:
        url = trial.addresses.names["otlp_endpoint"]
        await patient.post(url, _find(parent=9))
        tasks.add(asyncio.create_task(later(url)))
        return "done"

    record = await patient.run(agent)
    assert _verdicts(record) == ["passed", "passed"]
    (said,) = [event for event in record.events if type(event).__name__ == "Said" and event.message.role == "assistant"]
    assert said.at_ms < 200, "the wait is not the agent's time"


async def test_an_incomplete_trace_can_fail_a_check_but_not_pass_one(bench: Bench) -> None:
    async def agent(_: Any, trial: Any) -> str:
        await bench.post(trial.addresses.names["otlp_endpoint"], _find(parent=77))
        return "done"

    async def refunds(_: Any, trial: Any) -> str:
        refund = a_tool("refund", number=2, parent=77, now=True)
        await bench.post(trial.addresses.names["otlp_endpoint"], _find(parent=77), refund)
        return "done"

    record = await bench.run(agent)
    assert _verdicts(record) == ["inconclusive", "inconclusive"]
    assert "the span around 'execute_tool find_order' has not arrived" in record.evaluations[0].message
    assert _verdicts(await bench.run(refunds)) == ["inconclusive", "failed"]


async def test_an_export_that_cannot_be_read_leaves_the_trace_incomplete(bench: Bench) -> None:
    async def agent(_: Any, trial: Any) -> str:
        url = trial.addresses.names["otlp_endpoint"]
        await bench.post(url, _find(parent=9), _root())
        assert await bench.post(url, body=b"{") == 400
        return "done"

    record = await bench.run(agent)
    assert _verdicts(record) == ["inconclusive", "inconclusive"]
    assert any("not an export" in event.message for event in record.events if isinstance(event, Noted))


async def test_an_export_at_the_open_address_that_cannot_be_read_may_have_been_of_any_trial(bench: Bench) -> None:
    async def agent(_: Any, trial: Any) -> str:
        url = trial.addresses.names["otlp_endpoint"]
        assert await bench.post(url.rsplit("/", 2)[0], body=b"{") == 400
        await bench.post(url, _find(parent=9), _root())
        return "done"

    assert _verdicts(await bench.run(agent)) == ["inconclusive", "inconclusive"]


async def test_duplicates_count_once_and_order_does_not_matter(bench: Bench) -> None:
    async def agent(_: Any, trial: Any) -> str:
        url = trial.addresses.names["otlp_endpoint"]
        await bench.post(url, _root(), a_tool("second", number=2, parent=9, now=True, start_ms=5000))
        await bench.post(url, _find(parent=9), a_tool("second", number=2, parent=9, now=True, start_ms=5000))
        await asyncio.sleep(0.02)
        return "done"

    record = await bench.run(agent, asking("hi", FOUND))
    assert [name for name, _ in _actions(record)] == ["find_order", "second"]


async def test_a_late_action_takes_the_pass_away(bench: Bench) -> None:
    """Turn 1 had been checked by the time it arrived, and the check had passed by absence."""

    async def agent(turn: Any, trial: Any) -> str:
        url, trace = trial.addresses.names["otlp_endpoint"], trial.addresses.names["trace_id"]
        if turn.number == 2:
            await bench.post(url, a_tool("refund", number=2, parent=turn_span_id(trace, 1), now=True))
        await bench.post(url, _root(number=10 + turn.number, parent=turn_span_id(trace, turn.number)))
        return "done"

    steps = asking("hi", NEVER), asking("again", check("string_contains", value="done"), index=1)
    record = await bench.run(agent, *steps, shows=TRACED)
    assert _verdicts(record) == ["passed", "passed"]
    assert record.judged.verdict.value == "inconclusive"
    assert "refund was reported by the trace only after its turn had been checked" in str(record.judged)
    only_text = asking("hi", check("string_contains", value="done"))
    again = asking("again", check("string_contains", value="done"), index=1)
    assert (await bench.run(agent, only_text, again, shows=TRACED)).judged.verdict.value == "passed"


async def test_the_open_address_sorts_by_trace_id_and_counts_foreign_spans(bench: Bench) -> None:
    ready = asyncio.Barrier(2)

    def agent_with(tool: str) -> Callable[..., Any]:
        async def agent(_: Any, trial: Any) -> str:
            names = trial.addresses.names
            origin = names["otlp_endpoint"].rsplit("/", 2)[0]
            async with asyncio.timeout(30):
                await ready.wait()
            trace = names["trace_id"]
            spans = (
                a_tool(tool, trace=trace, parent=turn_span_id(trace, 1), now=True),
                a_tool("foreign", number=5, now=True),
            )
            assert await bench.post(origin, *spans) == 200
            return "done"

        return agent

    step = asking("hi", check("trajectory_contains_action", action="one"))
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(bench.run(agent_with(tool), step)) for tool in ("one", "two")]
    assert [_actions(run.result()) for run in runs] == [[("one", {})], [("two", {})]]
    assert [_verdicts(run.result()) for run in runs] == [["passed"], ["failed"]]
    assert bench.receiver.foreign == 2


async def test_an_action_that_is_reported_and_traced_was_taken_once(bench: Bench) -> None:
    async def agent(_: Any, trial: Any) -> str:
        trial.emit(ActionTaken(at_ms=trial.elapsed_ms(), id="action-1", name="find_order", params={"number": "A-1"}))
        await bench.post(trial.addresses.names["otlp_endpoint"], _find(parent=9), _root())
        return "done"

    once = check("trajectory_contains_action", action="find_order", max_count=1)
    told = msgspec.structs.replace(HIDDEN, actions="self_reported")
    assert _verdicts(await bench.run(agent, asking("hi", once), shows=told)) == ["passed"]


async def test_a_span_without_arguments_leaves_only_checks_on_them_undecided(bench: Bench) -> None:
    async def agent(_: Any, trial: Any) -> str:
        hidden = a_span("t", parent=9, now=True, **{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x"})
        await bench.post(trial.addresses.names["otlp_endpoint"], hidden, _root())
        return "done"

    asked = check("trajectory_contains_action", action="x", params={"n": 1})
    record = await bench.run(agent, asking("hi", NEVER, check("trajectory_contains_action", action="x"), asked))
    assert _verdicts(record) == ["passed", "passed", "inconclusive"]
    assert "its parameters are unknown: they were not reported" in record.evaluations[2].message


async def test_metrics_and_logs_are_accepted_and_dropped(bench: Bench) -> None:
    async def agent(_: Any, trial: Any) -> str:
        url = trial.addresses.names["otlp_endpoint"]
        async with bench.client.post(f"{url}/v1/metrics", data=b"{}", headers=JSON) as answer:
            return str(answer.status)

    record = await bench.run(agent, asking("hi", check("string_contains", value="200")))
    assert _verdicts(record) == ["passed"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.response.finish_reasons": ["content_filter"]},
        {"gen_ai.response.finish_reasons": ["SAFETY", "stop"]},
        {"gen_ai.output.messages": '[{"role": "assistant", "parts": [], "finish_reason": "content_filter"}]'},
        {"gen_ai.completion.0.finish_reason": "content_filter"},
    ],
)
async def test_an_answer_withheld_from_the_agent_is_an_error_also_if_only_the_trace_says_so(
    bench: Bench, attributes: dict[str, Any]
) -> None:
    async def agent(_: Any, trial: Any) -> str:
        chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **attributes}
        spans = (a_span("chat m", number=1, parent=9, now=True, **chat), _root())
        await bench.post(trial.addresses.names["otlp_endpoint"], *spans)
        return "done"

    record = await bench.run(agent, asking("hi", check("string_contains", value="done")))
    assert record.judged.verdict.value == "error"
    assert "m: the answer was withheld by the provider's filter" in record.judged.reason


async def test_a_question_without_spans_loses_no_trace(bench: Bench) -> None:
    async def agent(_: Any, trial: Any) -> str:
        url = trial.addresses.names["otlp_endpoint"]
        for each in (f"{url}/v1/traces", f"{url.rsplit('/', 2)[0]}/v1/traces"):
            async with bench.client.options(each) as answer:
                assert answer.status == 405
        await bench.post(url, _find(parent=9), _root())
        return "done"

    assert _verdicts(await bench.run(agent, shows=TRACED)) == ["passed", "passed"]


@pytest.mark.parametrize(
    "hostile",
    [
        lambda: an_export(a_tool("refund", now=True)).replace(b'Nano": "', b'Nano": "1e999'),
        lambda: b'{"resourceSpans": ' + b"[" * 200_000,
        lambda: an_export(a_tool("wipe", number=5, parent=6, now=True), a_tool("wipe", number=6, parent=5, now=True)),
        lambda: an_export(a_tool("refund", number=1, parent=9, now=True)),
    ],
    ids=["time", "nesting", "circle", "an id used twice"],
)
async def test_what_cannot_be_read_or_ordered_proves_no_absence(bench: Bench, hostile: Callable[[], bytes]) -> None:
    async def agent(_: Any, trial: Any) -> str:
        url = trial.addresses.names["otlp_endpoint"]
        await bench.post(url, _find(parent=9), _root())
        await bench.post(url, body=hostile())
        return "done"

    record = await bench.run(agent, asking("hi", NEVER), shows=TRACED)
    assert _verdicts(record) == ["inconclusive"]


async def test_two_actions_that_enclose_each_other_have_both_happened(bench: Bench) -> None:
    async def agent(_: Any, trial: Any) -> str:
        circle = (a_tool("wipe", number=1, parent=2, now=True), a_tool("wipe", number=2, parent=1, now=True))
        await bench.post(trial.addresses.names["otlp_endpoint"], *circle)
        return "done"

    never = check("trajectory_contains_action", action="wipe", max_count=0)
    assert _verdicts(await bench.run(agent, asking("hi", never), shows=TRACED)) == ["failed"]


async def test_spans_of_another_trial_do_not_count_here_and_leave_a_doubt(bench: Bench) -> None:
    ready, done = asyncio.Event(), asyncio.Event()
    victim: dict[str, str] = {}

    async def waits(_: Any, trial: Any) -> str:
        victim.update(trial.addresses.names)
        ready.set()
        await done.wait()
        return "done"

    async def posts(_: Any, trial: Any) -> str:
        await ready.wait()
        span = _find(trace=victim["trace_id"])
        await bench.post(trial.addresses.names["otlp_endpoint"], span, _root(trace=victim["trace_id"]))
        done.set()
        return "done"

    async with asyncio.TaskGroup() as group:
        one = group.create_task(bench.run(waits, asking("hi", FOUND)))
        two = group.create_task(bench.run(posts, asking("hi", FOUND, NEVER), shows=TRACED))
    assert (_actions(one.result()), _actions(two.result())) == ([], [])
    assert _verdicts(two.result()) == ["inconclusive", "inconclusive"]
    assert bench.receiver.foreign == 2


@pytest.mark.no_cover
async def test_the_exports_of_a_trial_have_a_limit(bench: Bench) -> None:
    async def agent(_: Any, trial: Any) -> str:
        large = {**_find(parent=9), "name": "x" * (12 * 1024 * 1024)}
        url = trial.addresses.names["otlp_endpoint"]
        return str([await bench.post(url, {**large, "spanId": f"{number:016x}"}) for number in range(1, 7)])

    said = check("string_contains", value="[200, 200, 200, 200, 200, 413]")
    record = await bench.run(agent, asking("hi", said, NEVER), shows=TRACED)
    assert _verdicts(record) == ["passed", "inconclusive"]
