"""`when` without a matcher: what holds, and how specific it is."""

from typing import Any

import pytest

from steadyhand.records.scenario import MockWhen
from steadyhand.runtime.mocks import MockCall, holds, precedence
from steadyhand.runtime.values import includes, same


def call(*args: Any, context: dict[str, Any] | None = None, **named: Any) -> MockCall:
    return MockCall(service="s", method="m", args=list(args), input=named, context=context or {})


@pytest.mark.parametrize(
    ("found", "expected", "equal"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (0.5, 0.5, True),
        (1, True, False),
        (True, 1, False),
        (0, False, False),
        (True, True, True),
        (1, "1", False),
        ("a", "A", False),
        (None, None, True),
        (None, False, False),
        ("", None, False),
        ([1, [2]], [1, [2]], True),
        ((1, 2), [1, 2], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ([1, 2], [1], False),
        ("ab", ["a", "b"], False),
        ({"a": {"b": 1}}, {"a": {"b": 1.0}}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": None}, {"b": None}, False),
        ([], {}, False),
        (float("nan"), float("nan"), False),
    ],
)
def test_same(found: Any, expected: Any, equal: bool) -> None:
    assert same(found, expected) is equal


@pytest.mark.parametrize(
    ("found", "expected", "held"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1}}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"b": None}, False),
        ({"a": 1}, {}, True),
        ({"a": [{"id": 1, "x": 0}]}, {"a": [{"id": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": True}, {"a": 1}, False),
        ("text", {}, False),
        ({"a": {"b": 1}}, {"a": "b"}, False),
    ],
)
def test_includes(found: Any, expected: Any, held: bool) -> None:
    assert includes(found, expected) is held


class Odd:
    """Cannot be compared with anything, like an array of numbers."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("when", "made", "held"),
    [
        (MockWhen(), call("anything"), True),
        (MockWhen(args=["a"]), call("a"), True),
        (MockWhen(args=["a"]), call("a", "b"), False),
        (MockWhen(args=["a"]), call(), False),
        (MockWhen(args=["a"]), call(Odd()), False),
        (MockWhen(args=[]), call(), True),
        (MockWhen(args=[]), call("a"), False),
        (MockWhen(args=[["a", "b"]]), call("a", "b"), True),
        (MockWhen(args=[["a", "b"]]), call(["a", "b"]), True),
        (MockWhen(args=[["a", "b"]]), call("a"), False),
        (MockWhen(args=[["a"], ["b"]]), call("b"), True),
        (MockWhen(args=[["a"], ["b"]]), call(["a"], ["b"]), True),
        (MockWhen(args=[["a"], ["b"]]), call("c"), False),
        (MockWhen(args=[["a"], "b"]), call("a"), False),
        (MockWhen(args=[["a"], "b"]), call(["a"], "b"), True),
        (MockWhen(args=[[]]), call(), True),
        (MockWhen(args=[[["a"]]]), call(["a"]), True),
        (MockWhen(args=[1]), call(True), False),
        (MockWhen(args=[{"a": 1}]), call({"a": 1}), True),
        (MockWhen(args=[{"a": 1}]), call({"a": 1, "b": 2}), False),
        (MockWhen(args=[{"a": 1}]), call(a=1), True),
        (MockWhen(args=[{"a": 1}]), call(a=1, b=2), False),
        (MockWhen(args=["x"]), call("x", a=1), True),
        (MockWhen(args=[{"a": 1}]), call("x", a=1), False),
        (MockWhen(partial_args=["a"]), call("a", "b"), True),
        (MockWhen(partial_args=["a"]), call("ab"), False),
        (MockWhen(partial_args=["a", "b"]), call("a"), False),
        (MockWhen(partial_args=["b"]), call("a", "b"), False),
        (MockWhen(partial_args=[]), call(), True),
        (MockWhen(partial_args=[{"a": 1}]), call({"a": 1, "b": 2}, "c"), True),
        (MockWhen(partial_args=[{"a": 1}]), call(a=1, b=2), True),
        (MockWhen(partial_args=[{"a": {"b": 1}}]), call({"a": {"b": 2}}), False),
        (MockWhen(input={"a": 1}), call(a=1, b=2), True),
        (MockWhen(input={"a": 1}), call(a=2), False),
        (MockWhen(input={"a": 1}), call({"a": 1, "b": 2}), True),
        (MockWhen(input={"a": 1}), call({"a": 1}, "x"), False),
        (MockWhen(input={"a": 1}), call({"a": 1}, b=2), False),
        (MockWhen(input={"a": 1}), call(1), False),
        (MockWhen(context={"user_id": "7"}), call(context={"user_id": "7", "turn": 2}), True),
        (MockWhen(context={"user_id": "7"}), call(context={"user_id": 7}), False),
        (MockWhen(context={"user_id": "7"}), call(user_id="7"), False),
        (MockWhen(args=["a"], context={"turn": 1}), call("a", context={"turn": 1}), True),
        (MockWhen(args=["a"], context={"turn": 1}), call("a", context={"turn": 2}), False),
        (MockWhen(args=["b"], context={"turn": 1}), call("a", context={"turn": 1}), False),
    ],
)
def test_holds(when: MockWhen, made: MockCall, held: bool) -> None:
    assert holds(when, made) is held


@pytest.mark.parametrize(
    ("when", "score"),
    [
        (MockWhen(), 0),
        (MockWhen(args=[]), 10),
        (MockWhen(input={}), 8),
        (MockWhen(context={}), 6),
        (MockWhen(matcher="true"), 4),
        (MockWhen(partial_args=[]), 2),
        (MockWhen(context={}, matcher="true"), 10),
        (MockWhen(args=[], input={}, context={}, matcher="true", partial_args=[]), 30),
    ],
)
def test_precedence_is_the_sum(when: MockWhen, score: int) -> None:
    assert precedence(when) == score
