"""The table of mocks, with the real JavaScript sandbox and a clock that moves only when told to."""

import asyncio
import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest

from steadyhand.builtin.mocks.javascript import QuickJsSandbox
from steadyhand.errors import MockError
from steadyhand.ports.services import ServiceFault
from steadyhand.records.location import Place
from steadyhand.records.scenario import Mock, MockFault, MockWhen
from steadyhand.runtime.mocks import MockCall, MockTable


class Clock:
    """Sleeping advances it at once, and is noted."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


@pytest.fixture(scope="module")
def scripts() -> Iterator[QuickJsSandbox]:
    sandbox = QuickJsSandbox(workers=1)
    yield sandbox
    sandbox.close()


def mock(line: int, when: MockWhen | None = None, *, service: str | None = "s", method: str = "m", **rest: Any) -> Mock:
    place = Place(file="a.scenario.yaml", line=line, column=5)
    return Mock(service=service, method=method, place=place, when=when or MockWhen(), **{"response": line, **rest})


def call(*args: Any, context: dict[str, Any] | None = None, service: str = "s", **named: Any) -> MockCall:
    return MockCall(service=service, method="m", args=list(args), input=named, context=context or {})


def table(scripts: QuickJsSandbox, *mocks: Mock, seed: int = 1, clock: Clock | None = None) -> MockTable:
    return MockTable(mocks, scripts=scripts, random=random.Random(seed), clock=clock or Clock())


ALL = call("a", context={"turn": 1})
OBJECT = call(a=1)

WHO_ANSWERS: dict[str, tuple[list[Mock], MockCall, int | None]] = {
    "nothing is mocked": ([], ALL, None),
    "no condition": ([mock(1)], ALL, 1),
    "another method": ([mock(1, method="other")], ALL, None),
    "another service": ([mock(1, service="other")], ALL, None),
    "method names are exact": ([mock(1, method="M")], ALL, None),
    "any service": ([mock(1, service=None)], ALL, 1),
    "any service, another name": ([mock(1, service=None)], call("a", service="t"), 1),
    "any service ties with the named one": ([mock(1, service=None), mock(2)], ALL, 1),
    "ties in file order": ([mock(1), mock(2)], ALL, 1),
    "ties of equal sums": (
        [mock(1, MockWhen(context={"turn": 1}, matcher="true")), mock(2, MockWhen(args=["a"]))],
        ALL,
        1,
    ),
    "condition beats none": ([mock(1), mock(2, MockWhen(partial_args=["a"]))], ALL, 2),
    "matcher beats partialArgs": ([mock(1, MockWhen(partial_args=["a"])), mock(2, MockWhen(matcher="true"))], ALL, 2),
    "context beats matcher": ([mock(1, MockWhen(matcher="true")), mock(2, MockWhen(context={"turn": 1}))], ALL, 2),
    "input beats context": ([mock(1, MockWhen(context={})), mock(2, MockWhen(input={"a": 1}))], OBJECT, 2),
    "args beat input": ([mock(1, MockWhen(input={"a": 1})), mock(2, MockWhen(args=[{"a": 1}]))], OBJECT, 2),
    "matcher and input beat args": (
        [mock(1, MockWhen(args=[{"a": 1}])), mock(2, MockWhen(input={"a": 1}, matcher="true"))],
        OBJECT,
        2,
    ),
    "args beat matcher and partialArgs": (
        [mock(1, MockWhen(matcher="true", partial_args=["a"])), mock(2, MockWhen(args=["a"]))],
        ALL,
        2,
    ),
    "the more specific one does not hold": ([mock(1, MockWhen(args=["b"])), mock(2)], ALL, 2),
    "one condition of two fails": ([mock(1, MockWhen(args=["a"], context={"turn": 2}))], ALL, None),
    "matcher fails, the others hold": ([mock(1, MockWhen(args=["a"], matcher="false")), mock(2)], ALL, 2),
    "alternatives": ([mock(1, MockWhen(args=[["b"], ["a"]]))], ALL, 1),
    "a method can be mocked many times": (
        [mock(1, MockWhen(args=["x"])), mock(2, MockWhen(args=["a"])), mock(3)],
        ALL,
        2,
    ),
    "a worse matcher that would throw is not asked": (
        [mock(1, MockWhen(matcher="boom()")), mock(2, MockWhen(args=["a"]))],
        ALL,
        2,
    ),
    "an equal matcher further down is not asked": (
        [mock(1, MockWhen(matcher="1")), mock(2, MockWhen(matcher="boom()"))],
        ALL,
        1,
    ),
    "a matcher whose args do not hold is not asked": ([mock(1, MockWhen(args=["b"], matcher="boom()"))], ALL, None),
}


@pytest.mark.parametrize("case", WHO_ANSWERS)
async def test_who_answers(scripts: QuickJsSandbox, case: str) -> None:
    mocks, made, expected = WHO_ANSWERS[case]
    answer = await table(scripts, *mocks).answer(made)
    assert (answer and (answer.value, answer.place.line)) == (expected and (expected, expected))


@pytest.mark.parametrize(
    ("matcher", "made", "held"),
    [
        ("args[0].includes('test')", call("a test"), True),
        ("args[0].includes('test')", call("other"), False),
        ("input.a > 0", call(a=1), True),
        ("input.a > 0", call({"a": 1}), True),
        ("args[0].a > 0", call(a=1), True),
        ("args.length === 2 && input.a === 1", call("x", "y", a=1), True),
        ("context.turn === 1", ALL, True),
        ("[]", ALL, True),
        ("({})", ALL, True),
        ("'0'", ALL, True),
        ("-1", ALL, True),
        ("''", ALL, False),
        ("0", ALL, False),
        ("-0", ALL, False),
        ("NaN", ALL, False),
        ("null", ALL, False),
        ("undefined", ALL, False),
        ("input.absent", ALL, False),
        ("args[0].match(/^a$/)", ALL, True),
        ("Promise.resolve(false)", ALL, False),
    ],
)
async def test_a_matcher_holds_as_javascript_has_it(
    scripts: QuickJsSandbox, matcher: str, made: MockCall, held: bool
) -> None:
    answer = await table(scripts, mock(1, MockWhen(matcher=matcher))).answer(made)
    assert (answer is not None) is held


@pytest.mark.parametrize(
    ("matcher", "message"),
    [
        ("boom()", "boom is not defined"),
        ("args[5].name", "TypeError"),
        ("args[0] = 'a'", "read-only"),
        ("(args) => args[0] === 'a'", "a function"),
        ("args[0] ===", "SyntaxError"),
        ("(() => { throw 'no' })()", "threw no"),
    ],
)
async def test_a_matcher_that_fails_is_an_error_that_names_the_mock(
    scripts: QuickJsSandbox, matcher: str, message: str
) -> None:
    mocks = table(scripts, mock(7, MockWhen(matcher=matcher), service=None), mock(8))
    with pytest.raises(MockError, match=message) as caught:
        await mocks.answer(ALL)
    assert str(caught.value).startswith("a.scenario.yaml:7:5: the matcher of the mock of *.m, called as s.m: ")


async def test_a_response_function_gets_the_call(scripts: QuickJsSandbox) -> None:
    function = "(args, input, context) => ({ args, input, turn: context.turn })"
    answer = await table(scripts, mock(1, response_fn=function)).answer(call("a", b=2, context={"turn": 3}))
    assert answer is not None
    assert answer.value == {"args": ["a"], "input": {"b": 2}, "turn": 3}


async def test_a_response_function_comes_before_the_response(scripts: QuickJsSandbox) -> None:
    answer = await table(scripts, mock(1, response_fn="() => 'dynamic'", response="static")).answer(ALL)
    assert answer is not None
    assert answer.value == "dynamic"


async def test_a_response_function_that_throws_is_an_error_and_no_answer(scripts: QuickJsSandbox) -> None:
    with pytest.raises(MockError, match=r"^a\.scenario\.yaml:4:5: the responseFn of the mock of s\.m, called .*: oh$"):
        await table(scripts, mock(4, response_fn="() => { throw new Error('oh') }")).answer(ALL)


async def test_what_cannot_be_shown_to_javascript_is_an_error(scripts: QuickJsSandbox) -> None:
    with pytest.raises(MockError, match="cannot be passed to JavaScript"):
        await table(scripts, mock(1, MockWhen(matcher="true"))).answer(call(object()))


async def test_a_response_is_a_copy(scripts: QuickJsSandbox) -> None:
    written = mock(1, response={"rows": [1]})
    first = await table(scripts, written).answer(ALL)
    assert first is not None
    first.value["rows"].append(2)
    second = await table(scripts, written).answer(ALL)
    assert second is not None
    assert second.value == {"rows": [1]}


async def test_a_response_left_out_is_null(scripts: QuickJsSandbox) -> None:
    answer = await table(scripts, mock(1, response=None)).answer(ALL)
    assert answer is not None
    assert answer.value is None


@pytest.mark.parametrize(
    ("error", "message", "code", "status"),
    [
        (
            MockFault(code="API_ERROR", message="Rate limit exceeded", status=429),
            "Rate limit exceeded",
            "API_ERROR",
            429,
        ),
        (MockFault(code="GONE"), "s.m failed with GONE", "GONE", None),
        (MockFault(status=500), "s.m failed", None, 500),
        (MockFault(), "s.m failed", None, None),
    ],
)
async def test_a_simulated_error(
    scripts: QuickJsSandbox, error: MockFault, message: str, code: str | None, status: int | None
) -> None:
    written = mock(3, error=error, response_fn="() => 1")
    with pytest.raises(ServiceFault) as caught:
        await table(scripts, written).answer(ALL)
    fault = caught.value
    assert (str(fault), fault.code, fault.status, fault.mock) == (message, code, status, written.place)


FAULT = MockFault(code="DOWN")


@pytest.mark.parametrize(
    ("rest", "outcome"),
    [
        ({"probability": 1.0}, "MOCK_FAILURE"),
        ({"probability": 1.0, "error": FAULT}, "DOWN"),
        ({"probability": 1.0, "response_fn": "() => 'fn'"}, "MOCK_FAILURE"),
        ({"probability": 0.0}, 1),
        ({"probability": 0.0, "error": FAULT}, 1),
        ({"probability": 0.0, "error": FAULT, "response_fn": "() => 'fn'"}, "fn"),
        ({"probability": 0.0, "error": FAULT, "response": None}, None),
        ({"error": FAULT}, "DOWN"),
        ({}, 1),
    ],
)
async def test_chance_then_error_then_answer(scripts: QuickJsSandbox, rest: dict[str, Any], outcome: Any) -> None:
    async def found() -> Any:
        try:
            answer = await table(scripts, mock(1, **rest)).answer(ALL)
        except ServiceFault as fault:
            return fault.code
        return answer and answer.value

    assert await found() == outcome


async def outcomes(mocks: MockTable, count: int, made: MockCall = ALL) -> list[bool]:
    failed: list[bool] = []
    for _ in range(count):
        try:
            await mocks.answer(made)
        except ServiceFault:
            failed.append(True)
        else:
            failed.append(False)
    return failed


async def test_chance_follows_the_generator_one_draw_a_call(scripts: QuickJsSandbox) -> None:
    draws = random.Random(5)
    expected = [draws.random() < 0.3 for _ in range(40)]
    assert await outcomes(table(scripts, mock(1, probability=0.3), seed=5), 40) == expected
    assert True in expected
    assert False in expected


async def test_only_an_answer_that_depends_on_chance_draws(scripts: QuickJsSandbox) -> None:
    generator = random.Random(5)
    untouched = generator.getstate()
    mocks = MockTable(
        [
            mock(1, MockWhen(args=["chance"]), probability=0.5),
            mock(2, MockWhen(matcher="Math.random() >= 0"), response_fn="() => Math.random()"),
        ],
        scripts=scripts,
        random=generator,
        clock=Clock(),
    )
    await mocks.answer(ALL)
    assert generator.getstate() == untouched
    await outcomes(mocks, 1, call("chance"))
    assert generator.getstate() != untouched


async def test_the_seed_reaches_javascript(scripts: QuickJsSandbox) -> None:
    async def three(seed: int) -> list[Any]:
        mocks = table(scripts, mock(1, response_fn="() => Math.random()"), seed=seed)
        return [answer.value for _ in range(3) if (answer := await mocks.answer(ALL)) is not None]

    first = await three(1)
    assert first == await three(1)
    assert first != await three(2)
    assert len(set(first)) == 3


async def test_chance_does_not_depend_on_how_long_a_matcher_takes(scripts: QuickJsSandbox) -> None:
    slow = "(() => { let n = 0; for (let i = 0; i < 1e6; i++) n += i; return n })()"
    mocks = table(
        scripts, mock(1, MockWhen(args=["slow"], matcher=slow), probability=0.5), mock(2, probability=0.5), seed=3
    )
    made = [call("slow"), call("quick"), call("slow"), call("quick"), call("quick"), call("quick")]
    found = await asyncio.gather(*(outcomes(mocks, 1, each) for each in made))
    draws = random.Random(3)
    assert [each[0] for each in found] == [draws.random() < 0.5 for _ in made]


async def test_the_delay_comes_before_everything_else(scripts: QuickJsSandbox) -> None:
    for rest in ({}, {"error": FAULT}, {"probability": 1.0}, {"response_fn": "() => 1"}, {"response_fn": "boom"}):
        clock = Clock()
        mocks = table(scripts, mock(1, delay_ms=1500, **rest), clock=clock)
        with contextlib.suppress(ServiceFault, MockError):
            await mocks.answer(ALL)
        assert clock.slept == [1.5]


async def test_without_a_delay_nothing_sleeps(scripts: QuickJsSandbox) -> None:
    clock = Clock()
    mocks = table(scripts, mock(1), mock(2, MockWhen(args=["b"]), delay_ms=10), clock=clock)
    await mocks.answer(ALL)
    assert clock.slept == []


def test_methods_are_listed_once_in_file_order(scripts: QuickJsSandbox) -> None:
    mocks = table(
        scripts,
        mock(1, MockWhen(partial_args=["a"])),
        mock(2, service=None),
        mock(3, MockWhen(args=["a"])),
        mock(4, service="t", method="n"),
    )
    assert mocks.methods() == [("s", "m"), (None, "m"), ("t", "n")]


@pytest.mark.parametrize(
    ("service", "method", "covered"),
    [("s", "m", True), ("t", "m", False), ("t", "n", True), ("whatever", "n", True), ("s", "M", False)],
)
def test_covers(scripts: QuickJsSandbox, service: str, method: str, covered: bool) -> None:
    mocks = table(scripts, mock(1, MockWhen(args=["never"])), mock(2, service=None, method="n"))
    assert mocks.covers(service, method) is covered
