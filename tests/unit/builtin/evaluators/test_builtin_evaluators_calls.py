"""How an agent used its tools, what the answer took, and what the author's own code says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from steadyhand.builtin.evaluators.scripts import JavascriptParams
from steadyhand.builtin.plugin import EVALUATORS, script_sandbox
from steadyhand.errors import MockError, PluginError, SetupError
from steadyhand.plugins.plugin import Plugin
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import EVERYTHING_SEEN, Shows
from steadyhand.ports.evaluator import EvaluationContext, deterministic, reads_of
from steadyhand.records.chat import CallTiming, Message, Usage
from steadyhand.records.config import Price
from steadyhand.records.deed_name import OfferedTool, ToolOffer
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.event import UNREADABLE, ActionTaken, ModelCalled
from steadyhand.records.location import Place
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Mock, Scenario, Setup
from steadyhand.records.trajectory import trajectory_of
from support.evaluation import PLACE, Trial

P, F, U = "passed", "failed", "inconclusive"
SERVED = msgspec.structs.replace(EVERYTHING_SEEN, served_only=True)
NO_ARGUMENTS = msgspec.structs.replace(EVERYTHING_SEEN, arguments=False)
REGISTRY = Registry([Plugin(name="builtin", evaluators=EVALUATORS)])
INTEGER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}


def did(*calls: tuple[str, dict], status: str = "success", offer: ToolOffer | None = None) -> ExecutionResult:
    events = [
        ActionTaken(at_ms=at, id=str(at), name=name, params=params, status=status)  # pyright: ignore[reportArgumentType]
        for at, (name, params) in enumerate(calls)
    ]
    return ExecutionResult(reply="Done.", trajectory=trajectory_of(events), offer=offer)


@pytest.fixture
def check(tmp_path: Path, environment):
    async def run(
        type_: str, result: ExecutionResult, shows: Shows = EVERYTHING_SEEN, *, mocks=(), prices=None, **params
    ):
        place = Place(file=str(tmp_path / "a.scenario.yaml"))
        scenario = Scenario(
            id="s", name="s", description="", place=place, digest="", steps=(), setup=Setup(mocks=tuple(mocks))
        )
        evaluator = REGISTRY.evaluator(type_)
        sandbox = script_sandbox()
        try:
            trial = Trial(scenario, environment, shows=shows, scripts=sandbox, prices=prices or {})
            context = EvaluationContext(trial=trial, spec=EvaluationSpec(type=type_, place=place, params=params))
            return await evaluator.evaluate(evaluator.params.model_validate(params), result, context)
        finally:
            sandbox.close()

    return run


TWICE = did(("refund", {"id": 1}), ("look", {}), ("refund", {"id": 1}))


@pytest.mark.parametrize(
    ("result", "shows", "params", "expected"),
    [
        (TWICE, EVERYTHING_SEEN, {}, F),
        (TWICE, SERVED, {}, F),
        (TWICE, EVERYTHING_SEEN, {"max_count": 2}, P),
        (TWICE, EVERYTHING_SEEN, {"action": "look"}, P),
        (TWICE, EVERYTHING_SEEN, {"action": "REFUND"}, F),
        (did(("refund", {"id": 1}), ("refund", {"id": 2})), EVERYTHING_SEEN, {}, P),
        (did(("refund", {"id": 1}), ("refund", {"id": 2})), SERVED, {}, U),
        (did(("refund", {"id": 1}), ("refund", {"id": "1"})), EVERYTHING_SEEN, {}, U),
        (did(("refund", {"id": 1}), ("refund", {"id": 1.0})), EVERYTHING_SEEN, {}, F),
        (did(("refund", {"id": 1}), ("refund", {"id": True})), EVERYTHING_SEEN, {}, P),
        (did(("refund", {"to": "Ren\u00e9"}), ("refund", {"to": "Rene\u0301"})), EVERYTHING_SEEN, {}, F),
        (did(("refund", {"id": 1, "to": None}), ("refund", {"id": 1})), EVERYTHING_SEEN, {}, U),
        (did(("bank.refund", {"id": 1}), ("refund", {"id": 1})), EVERYTHING_SEEN, {}, U),
        (did(("refund", {}), ("refund", {})), NO_ARGUMENTS, {}, U),
        (did(("refund", {}), ("refund", {})), EVERYTHING_SEEN, {}, F),
        (did(("refund", {UNREADABLE: "{"}), ("refund", {UNREADABLE: "{"})), EVERYTHING_SEEN, {}, U),
        (did(("refund", {"id": 1}), ("refund", {"id": 1}), status="rejected"), EVERYTHING_SEEN, {}, F),
        (did(), EVERYTHING_SEEN, {}, P),
        (did(), SERVED, {}, U),
    ],
)
async def test_repeated_calls(check, result, shows, params, expected):
    found = await check("no_repeated_calls", result, shows, **params)
    assert found.verdict == expected, found.message


@pytest.mark.parametrize(
    ("result", "shows", "expected"),
    [
        (did(("refund", {"id": 1})), EVERYTHING_SEEN, P),
        (did(("refund", {"id": "1"})), EVERYTHING_SEEN, F),
        (did(("refund", {"id": "1"})), SERVED, F),
        (did(("refund", {"id": 1})), SERVED, U),
        (did(("refund", {UNREADABLE: "{"})), EVERYTHING_SEEN, F),
        (did(("refund", {"id": 1}), status="invalid"), EVERYTHING_SEEN, F),
        (did(("refund", {"id": 1}), ("look", {})), EVERYTHING_SEEN, U),
        (did(("look", {}), status="invalid"), EVERYTHING_SEEN, F),
        (did(("look", {}), offer=ToolOffer(tools=(OfferedTool(name="look"),), complete=True)), EVERYTHING_SEEN, P),
        (did(), EVERYTHING_SEEN, U),
        (did(("refund", {})), NO_ARGUMENTS, U),
        (did(("refund", {"id": "1"})), NO_ARGUMENTS, F),
        (did(("refund", {}), status="invalid"), NO_ARGUMENTS, F),
    ],
)
async def test_arguments_of_tools(check, result, shows, expected):
    mock = Mock(method="refund", place=PLACE, response=1, parameters=INTEGER)
    found = await check("tool_args_valid", result, shows, mocks=[mock])
    assert found.verdict == expected, found.message


COUNTED = Usage(input_tokens=10, output_tokens=5)


def said(text: str = "Done.", *, usage: Usage | None = COUNTED, model: str = "a/b", error=None) -> ModelCalled:
    return ModelCalled(at_ms=0, model=model, purpose="agent", timing=CallTiming(), text=text, usage=usage, error=error)


@pytest.mark.parametrize(
    ("calls", "value", "expected"),
    [
        ([said()], 5, P),
        ([said()], 4, F),
        ([said(usage=None)], 100, U),
        ([said(usage=Usage(input_tokens=-1, output_tokens=-1))], 100, U),
        ([said("Another text.")], 100, U),
        ([said(), said("Another text.")], 100, U),
        ([], 100, U),
    ],
)
async def test_tokens(check, calls, value, expected):
    found = await check("max_tokens", ExecutionResult(reply="Done.", calls=tuple(calls)), value=value)
    assert found.verdict == expected, found.message


PRICES = {"a/b": Price(input=1.0, output=2.0), "a/free": Price(input=0.0, output=0.0)}


@pytest.mark.parametrize(
    ("calls", "value", "expected"),
    [
        ([said()], 0.0000201, P),
        ([said()], 0.00002, F),
        ([said(), said()], 0.00003, F),
        ([said(model="a/free")], 0.000001, P),
        ([said(model="no/price")], 100, U),
        ([said(model="no/price"), said()], 0.00001, F),
        ([said(usage=None)], 100, U),
        ([], 100, U),
    ],
)
async def test_cost(check, calls, value, expected):
    found = await check("cost_below", ExecutionResult(reply="Done.", calls=tuple(calls)), prices=PRICES, value=value)
    assert found.verdict == expected, found.message


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("reply.length === 5", P),
        ("reply.length > 5", F),
        ("deeds.length === 1 && deeds[0].params.id === 1", P),
        ("deeds.some(deed => deed.name === 'look')", F),
        ("transcript.length === 1 && transcript[0].role === 'assistant'", P),
        ("await_me === undefined || reply", "await_me"),
        ("reply.length", "gave 5; expected true or false"),
        ("reply.nothing", "gave None; expected true or false"),
        ("[reply === 'Done.', 'why']", "expected true or false"),
        ("(() => { throw new Error('my ' + reply) })()", "my Done."),
        ("(() => { while (reply) {} })()", "interrupted|longer than"),
        ("reply && eval('de' + 'eds').length === 0", "deeds"),
        ("arguments.length === 1 && reply === 'Done.'", P),
        ("require('fs') && reply", "require"),
    ],
)
async def test_javascript(check, expression, expected):
    result = did(("refund", {"id": 1}))
    if expected in (P, F):
        assert (await check("javascript", result, expression=expression)).verdict == expected
        return
    with pytest.raises((MockError, PluginError), match=expected):
        await check("javascript", result, expression=expression)


async def test_javascript_over_deeds_decides_nothing_where_they_are_not_all_seen(check):
    unseen = "!deeds.some(deed => deed.name === 'refund')"
    assert (await check("javascript", did(), expression=unseen)).verdict == P
    assert (await check("javascript", did(), SERVED, expression=unseen)).verdict == U
    assert (await check("javascript", did(), NO_ARGUMENTS, expression=unseen)).verdict == U
    unreadable = did(("refund", {UNREADABLE: "{"}))
    assert (await check("javascript", unreadable, expression="deeds.every(deed => !deed.params.id)")).verdict == U


def test_javascript_reads_what_it_names():
    evaluator = REGISTRY.evaluator("javascript")
    of_the_reply = JavascriptParams(expression="reply === 'x'")
    of_deeds = JavascriptParams(expression="deeds.length === 0")
    assert not reads_of(evaluator, of_the_reply)
    assert deterministic(evaluator, of_the_reply)
    assert reads_of(evaluator, of_deeds) == {"actions"}
    assert not deterministic(evaluator, of_deeds)


def is_running(pid: int) -> bool:
    """A process that has ended may wait for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


CHECKS = """
import os, sys, subprocess, time
def short(reply): return len(reply) < 9
async def later(reply, transcript): return len(transcript) == 1, "one message"
def refunds(deeds): return [deed["params"] for deed in deeds] == [{"id": 1}]
def everything(**given): return sorted(given) == ["deeds", "reply", "transcript"]
def forgets(reply): reply == "x"
def number(reply): return 1
def breaks(reply): return {}["my key"]
def leaves(reply): sys.exit(0)
def dies(reply): os._exit(7)
def hangs(reply): time.sleep(600)
def asks_more(reply, judge): return True
def nothing(): return True
def secret(reply): return "SECRET_KEY" not in os.environ
def prints(reply): print("=true"); sys.stderr.write("x" * 100000); return False
def leaves_behind(reply):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open(os.path.join(os.path.dirname(__file__), "pid"), "w").write(str(child.pid))
    return True
value = 3
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("short", P),
        ("later", P),
        ("refunds", P),
        ("everything", P),
        ("prints", F),
        ("secret", P),
        ("forgets", "did you forget `return`"),
        ("number", "gave 1; expected true or false"),
        ("breaks", r"checks\.py:\d+: KeyError: 'my key'"),
        ("leaves", "SystemExit"),
        ("dies", "its process ended with exit code 7"),
        ("hangs", "no answer within 3 s"),
        ("asks_more", "takes 'judge'; expected reply, transcript, deeds"),
        ("nothing", "takes none of what is known"),
        ("absent", "has no 'absent'"),
        ("value", "something else than a function"),
    ],
)
async def test_python(check, tmp_path, monkeypatch, name, expected):
    monkeypatch.setenv("SECRET_KEY", "sk-123456789")
    (tmp_path / "checks.py").write_text(CHECKS)
    result = did(("refund", {"id": 1}))
    limit = {"timeout_ms": 3000} if name == "hangs" else {}
    if expected in (P, F):
        found = await check("python", result, function=f"./checks.py:{name}", **limit)
        assert found.verdict == expected, found.message
        assert ("one message" in found.message) == (name == "later")
        return
    with pytest.raises(PluginError, match=expected):
        await check("python", result, function=f"./checks.py:{name}", **limit)


async def test_what_a_python_check_starts_ends_with_it(check, tmp_path):
    (tmp_path / "checks.py").write_text(CHECKS)
    assert (await check("python", did(), function="./checks.py:leaves_behind")).verdict == P
    assert not is_running(int((tmp_path / "pid").read_text()))


async def test_a_python_check_that_takes_the_deeds_decides_nothing_where_they_are_not_all_seen(check, tmp_path):
    (tmp_path / "checks.py").write_text("def none(deeds): return not deeds\ndef short(reply): return len(reply) < 9")
    for shows in (SERVED, Shows(), msgspec.structs.replace(EVERYTHING_SEEN, actions="partly_seen")):
        assert (await check("python", did(), shows, function="./checks.py:none")).verdict == U
        assert (await check("python", did(), shows, function="./checks.py:short")).verdict == P


async def test_the_file_of_a_python_check_must_exist(check):
    with pytest.raises(SetupError, match=r"file not found: '\./checks\.py'"):
        await check(
            "python",
            ExecutionResult(reply="x", messages=(Message(role="user", content="x"),)),
            function="./checks.py:x",
        )
