"""The sandbox against scripts that behave, throw, and try to take the machine down."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from steadyhand.builtin.mocks.javascript import QuickJsSandbox, ScriptLimits
from steadyhand.errors import MockError

CALL = {"args": ["a test", 3], "input": {"city": "Oslo", "tags": ["x"]}, "context": {"user_id": "7"}}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[QuickJsSandbox]:
    sandbox = QuickJsSandbox(ScriptLimits(time_s=0.5, grace_s=0.3), workers=1)
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def impatient() -> Iterator[QuickJsSandbox]:
    sandbox = QuickJsSandbox(ScriptLimits(time_s=0.1, grace_s=0.3), workers=1)
    yield sandbox
    sandbox.close()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("args[0].includes('test')", True),
        ("args[1] + 1", 4),
        ("input.city", "Oslo"),
        ("context.user_id === '7' && input.tags.length === 1", True),
        ("input.absent", None),
        ("undefined", None),
        ("null", None),
        ("NaN", None),
        ("1.5", 1.5),
        ("({ a: [1, { b: undefined }] })", {"a": [1, {}]}),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("'a\\u0000b \\u00e9 \\ud83d\\ude00'", "a\0b é 😀"),
        ("args[0] // a comment", "a test"),
        ("1;", 1),
        ("Promise.resolve(4)", 4),
        ("(async () => { await null; return input.city })()", "Oslo"),
        ("[typeof require, typeof process, typeof std, typeof os, typeof fetch].join()", ",".join(["undefined"] * 5)),
        ("(() => { try { return input.list.length } catch { return -1 } })()", -1),
    ],
)
async def test_an_expression_has_its_value(sandbox: QuickJsSandbox, expression: str, value: Any) -> None:
    assert await sandbox.evaluate(expression, CALL) == value


@pytest.mark.parametrize(
    ("function", "value"),
    [
        ("() => ({ fixed: 1 })", {"fixed": 1}),
        ("(args, input, context) => [args[1], input.city, context.user_id]", [3, "Oslo", "7"]),
        ("function (args) { return args.length }", 2),
        ("() => args[1]", 3),
        ("(a, i) => { i.tags.push('y'); return i.tags }", ["x", "y"]),
        ("async (args) => args[1]", 3),
        ("() => {}", None),
    ],
)
async def test_a_function_is_called_with_the_variables(sandbox: QuickJsSandbox, function: str, value: Any) -> None:
    assert await sandbox.call(function, CALL) == value


LOOP = "(() => { for (;;); })()"
TIME, MEMORY = r"time limit of 0\.1 s", r"memory; the limit is 64 MiB|ran longer than the time limit"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("(() => { const a = []; for (;;) a.push(new Array(1000).fill(1)) })()", MEMORY),
        ("(() => { let s = 'a'; for (;;) s += s })()", MEMORY),
        ("(function f() { return f() + 1 })()", "Maximum call stack"),
        ("(() => { let a = []; for (let i = 0; i < 1e4; i++) a = [a]; return a })()", "Maximum call stack"),
        ("'x'.repeat(5 * 2 ** 20)", "5242882 characters of JSON, more than the limit of 4194304"),
        ("(() => { throw new Error('no such city') })()", "^Error: no such city$"),
        ("(() => { throw { code: 7 } })()", '^threw {"code":7}$'),
        ("(() => { throw 'text' })()", "^threw text$"),
        ("(() => { throw null })()", "threw null"),
        ("(() => { throw new Error('x'.repeat(1e6)) })()", r"x\.\.\.$"),
        ("(() => { throw new Error('half \\ud800') })()", "half [?]"),
        ("Promise.reject(new Error('later'))", "^Error: later$"),
        ("new Promise(() => {})", "never settles"),
        ("({ a: Promise.resolve(1) })", 'at "a", a promise'),
        ("input.absent.name", "TypeError"),
        ("unknown > 1", "unknown is not defined"),
        ("typo = 1", "ReferenceError"),
        ("args[0] = 'a test'", "read-only"),
        ("input.city = 'Oslo'", "read-only"),
        ("() => true", "a function, which is not JSON"),
        ("({ a: { b: () => 1 } })", 'at "b", a function'),
        ("Symbol('s')", "a symbol"),
        ("(() => { const a = {}; a.a = a; return a })()", "circular"),
        ("1n", "BigInt"),
        ("'\\ud800'", "is not JSON"),
        ("1 +", "SyntaxError"),
        ("", "SyntaxError"),
        ("if (args) 1", "SyntaxError"),
        ("import('/etc/hostname')", "could not load module"),
    ],
)
async def test_what_goes_wrong_is_an_error(sandbox: QuickJsSandbox, expression: str, message: str) -> None:
    with pytest.raises(MockError, match=message):
        await sandbox.evaluate(expression, CALL)
    assert await sandbox.evaluate("1 + 1", {}) == 2


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (LOOP, TIME),
        ("(() => { for (;;) { try { (function f() { f() })() } catch {} } })()", TIME),
        ("/^(a+)+$/.test('a'.repeat(40) + 'b')", TIME),
        ("new Array(2 ** 30).join('x')", TIME + " and had to be killed"),
        ("Promise.resolve().then(() => { for (;;); })", TIME),
    ],
)
async def test_what_takes_too_long_is_an_error(impatient: QuickJsSandbox, expression: str, message: str) -> None:
    with pytest.raises(MockError, match=message):
        await impatient.evaluate(expression, CALL)
    assert await impatient.evaluate("1 + 1", {}) == 2


@pytest.mark.parametrize("length", [100, 1000, 10_000, 100_000, 4_000_000])
async def test_a_long_value_comes_out_whole(sandbox: QuickJsSandbox, length: int) -> None:
    built = f"(() => {{ let s = ''; while (s.length < {length}) s += 'abcdefghij'; return [s, s + s.at(-1)] }})()"
    if length < 1_000_000:
        text = "abcdefghij" * (length // 10)
        assert await sandbox.evaluate(built, {}) == [text, text + "j"]
    assert await sandbox.evaluate(f"'é'.repeat({length})", {}) == "é" * length


async def test_a_long_argument_goes_in_whole(sandbox: QuickJsSandbox) -> None:
    text = "é\n" * 500_000
    assert await sandbox.call("(args) => [args[0].length, args[0].slice(-2)]", {"args": [text]}) == [1_000_000, "é\n"]


async def test_a_source_that_is_not_a_function_cannot_be_called(sandbox: QuickJsSandbox) -> None:
    with pytest.raises(MockError, match="not a function but object"):
        await sandbox.call("({ a: 1 })", CALL)


async def test_nothing_is_left_behind_for_the_next_script(sandbox: QuickJsSandbox) -> None:
    await sandbox.call("() => { globalThis.left = 1; Array.prototype.left = 1; JSON.parse = null }", {})
    assert await sandbox.evaluate("[typeof left, typeof [].left, typeof JSON.parse]", {}) == [
        "undefined",
        "undefined",
        "function",
    ]


async def test_a_seed_repeats_the_random_numbers(sandbox: QuickJsSandbox) -> None:
    three = "() => [Math.random(), Math.random(), Math.random()]"
    first = await sandbox.call(three, {}, seed=11)
    assert first == await sandbox.call(three, {}, seed=11)
    assert first != await sandbox.call(three, {}, seed=12)
    assert first != await sandbox.call(three, {}, seed=11 + 2**40)
    assert len(set(first)) == 3
    assert all(0 <= number < 1 for number in first)
    assert await sandbox.call(three, {}) != await sandbox.call(three, {})


async def test_the_clock_can_be_stopped(sandbox: QuickJsSandbox) -> None:
    script = "[Date.now(), new Date(), new Date(5).getTime(), new Date() instanceof Date]"
    assert await sandbox.evaluate(script, {}, now_ms=1000) == [1000, "1970-01-01T00:00:01.000Z", 5, True]
    assert await sandbox.evaluate("Date.now() > 1.6e12", {})


async def test_keys_that_javascript_knows_are_only_data(sandbox: QuickJsSandbox) -> None:
    value = {"__proto__": {"admin": True}, "constructor": 1}
    assert await sandbox.evaluate("[input.admin === undefined, input]", {"input": value}) == [True, value]


@pytest.mark.parametrize("value", [object(), {1: {2, object()}}, "\ud800"])
async def test_a_value_that_is_not_json_is_refused(sandbox: QuickJsSandbox, value: Any) -> None:
    with pytest.raises(MockError, match="cannot be passed to JavaScript"):
        await sandbox.evaluate("args", {"args": value})


async def test_a_variable_must_be_an_identifier(sandbox: QuickJsSandbox) -> None:
    with pytest.raises(MockError, match="not a valid variable name"):
        await sandbox.evaluate("1", {"a){": 1})


def test_check_reads_the_syntax_and_runs_nothing(sandbox: QuickJsSandbox) -> None:
    assert sandbox.check("args[0] === 1") is None
    assert sandbox.check("() => ({ a: 1 })") is None
    assert sandbox.check(LOOP) is None
    assert "SyntaxError" in (sandbox.check("args[0] ===") or "")
    assert "SyntaxError" in (sandbox.check("return 1") or "")


async def test_the_event_loop_goes_on_while_a_script_runs(impatient: QuickJsSandbox) -> None:
    script = asyncio.ensure_future(impatient.evaluate(LOOP, {}))
    turns = 0
    while not script.done():
        await asyncio.sleep(0.001)
        turns += 1
    with pytest.raises(MockError, match="time limit"):
        script.result()
    assert turns > 20


async def test_one_endless_script_does_not_hold_up_another() -> None:
    sandbox = QuickJsSandbox(ScriptLimits(time_s=0.3), workers=2)
    await asyncio.gather(*(sandbox.evaluate("1", {}) for _ in range(2)))  # starting a process takes long enough
    endless = asyncio.ensure_future(sandbox.evaluate(LOOP, {}))
    assert await sandbox.evaluate("1", {}) == 1
    assert not endless.done()
    with pytest.raises(MockError):
        await endless
    sandbox.close()


def children() -> set[int]:
    command = ["ps", "-ww", "-A", "-o", "pid=,ppid=,args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return {int(pid) for pid, parent, args in rows if int(parent) == os.getpid() and "javascript_child" in args}


async def test_a_process_serves_many_scripts_and_ends_with_its_sandbox() -> None:
    before = children()
    sandbox = QuickJsSandbox(workers=2)
    assert children() == before
    for number in range(5):
        assert await sandbox.evaluate("n", {"n": number}) == number
    assert len(children() - before) == 1
    sandbox.close()
    assert children() == before


async def test_a_forgotten_sandbox_ends_its_processes() -> None:
    before = children()
    sandbox = QuickJsSandbox()
    await sandbox.evaluate("1", {})
    assert children() != before
    del sandbox
    gc.collect()
    assert children() == before


def test_a_process_killed_from_outside_is_replaced() -> None:
    before = children()
    sandbox = QuickJsSandbox(workers=1)
    assert sandbox.check("1") is None
    (process,) = children() - before
    os.kill(process, signal.SIGKILL)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert sandbox.check("2") is None
    sandbox.close()


PARENT = """
import asyncio, sys
from steadyhand.builtin.mocks.javascript import QuickJsSandbox, ScriptLimits
sandbox = QuickJsSandbox(ScriptLimits(time_s=0.3, grace_s=0.1), workers=1)
sandbox.check("1")
pid = sandbox._idle[0]._process.pid
async def main():
    script = asyncio.ensure_future(sandbox.evaluate(sys.argv[1], {}))
    await asyncio.sleep(0.2)
    print(pid, flush=True)
    await script
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize("script", ["1", "new Array(2 ** 30).join('x')"])
def test_a_process_does_not_outlive_a_parent_that_was_killed(script: str) -> None:
    command = [sys.executable, "-c", PARENT, script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    for _ in range(100):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True, text=True, check=False)
        if state.stdout.strip().startswith(("Z", "X")) or not state.stdout.strip():
            return
        time.sleep(0.1)
    pytest.fail(f"process {child} is still there")


def test_it_can_be_used_from_one_event_loop_after_another() -> None:
    sandbox = QuickJsSandbox()
    assert [asyncio.run(sandbox.evaluate("1", {})) for _ in range(2)] == [1, 1]
    sandbox.close()
