from __future__ import annotations

import dataclasses
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand.records.base import (
    MAX_DEPTH,
    UnreadableValue,
    ms_of,
    plain,
    plain_fields,
    plain_object,
    rounded_ms,
    shorten,
    too_deep,
)
from steadyhand.records.event import ActionTaken, Noted, Observed, ServiceCalled
from steadyhand.redaction import Redactor
from steadyhand.store.schema import decode, encode
from support.sample_trials import typical


@dataclasses.dataclass(frozen=True)
class Foreign:
    held: object


class Spelt:
    def __str__(self) -> str:
        return "spelt \ud800"


_atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**400), max_value=10**400),
    st.floats(),
    st.text(st.characters()),
    st.binary(max_size=20),
    st.dates(),
    st.uuids(),
    st.decimals(allow_nan=False),
    st.complex_numbers(),
    st.builds(Spelt),
)
_keys = st.one_of(_atoms, st.tuples(_atoms, _atoms), st.frozensets(st.integers(), max_size=2))
_values = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(_keys, inner, max_size=4),
        st.builds(Foreign, inner),
        st.sets(st.integers() | st.text(), max_size=3),
    ),
    max_leaves=15,
)


@settings(database=None)
@given(value=_values, named=st.dictionaries(_keys, _values, max_size=4))
def test_whatever_comes_from_outside_can_be_written_and_read_again(value, named):
    copy = plain(value)
    assert msgspec.json.decode(msgspec.json.encode(copy)) == copy
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(copy)) == copy
    assert plain(copy) == copy
    assert len(plain_object(named)) == len(named), "no entry is lost"
    events = (
        ActionTaken(at_ms=1.0, id="1", name="a", params=plain_object(named)),
        plain_fields(Observed(at_ms=1.0, action_id="1", name="a", content=value)),
        plain_fields(ServiceCalled(at_ms=1.0, service="s", method="m", args=[value], input=named, result=value)),
        plain_fields(Noted(at_ms=1.0, message="m", figures=named)),
    )
    record = Redactor(["a-secret-of-the-run"]).value(msgspec.structs.replace(typical(0), events=events))
    read, data = encode(record)
    assert read == decode(data) == record


@pytest.mark.parametrize(
    ("value", "copy"),
    [
        ({None: 1, True: 2, False: 3, 4: 5, 1.5: 6}, {"null": 1, "true": 2, "false": 3, "4": 5, "1.5": 6}),
        ({(1, 2): 3}, {"(1, 2)": 3}),
        ({1: "a", "1": "b"}, {"1": "a", "1 (str)": "b"}),
        ({"1": "b", 1: "a", Spelt(): 0}, {"1": "b", "1 (int)": "a", "spelt \\ud800": 0}),
        ([math.nan, math.inf, -math.inf, 1.5], ["nan", "inf", "-inf", 1.5]),
        (2**64, "18446744073709551616"),
        (2**64 - 1, 2**64 - 1),
        ("half \ud83d", "half \\ud83d"),
        (Foreign({None: 1}), {"held": {"null": 1}}),
        (b"\xff", "/w=="),
    ],
)
def test_how_strange_values_are_spelt(value, copy):
    assert plain(value) == copy


@pytest.mark.parametrize(
    "held",
    [1.5, "text", 3, True, None, math.inf, math.nan, "\ud800", 2**64, -(2**63) - 1, b"x", [1], {"a": math.inf}],
)
def test_a_flat_object_is_copied_as_one_inside_another(held):
    value = {"a": held, "b": 1}
    copy = plain(value)
    assert copy is not value
    assert copy == plain([value])[0]
    named = {held: 1} if isinstance(held, str | int | float | None) else {}
    assert plain(named) == plain([named])[0]


@pytest.mark.parametrize("seconds", [0.0, 0.0123456, 1.0005, -0.0123456, 12345.6789012, 3e-7])
def test_milliseconds_have_three_decimals(seconds):
    assert ms_of(seconds) == pytest.approx(round(seconds * 1000, 3), abs=0.00101)
    assert len(repr(ms_of(seconds)).partition(".")[2]) <= 3
    assert rounded_ms(seconds * 1000) == pytest.approx(ms_of(seconds), abs=0.00101)


def test_an_integer_of_a_million_digits_is_spelt_in_hexadecimal():
    assert plain(16**100_000) == "0x1" + "0" * 100_000


def test_what_contains_itself_is_cut_where_it_does():
    endless: dict[str, object] = {"a": 1}
    endless["self"] = [endless]
    twice = [1]
    assert plain(endless) == {"a": 1, "self": ["[contains itself]"]}
    assert plain([twice, twice]) == [[1], [1]]


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 500, 100_000])
@pytest.mark.parametrize("make", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: (inner,)])
def test_deep_nesting_is_cut_and_says_so(depth, make):
    deep: object = 1
    for _ in range(depth):
        deep = make(deep)
    assert too_deep(deep)
    copy = plain(deep)
    assert not too_deep(copy)
    assert b"nested more than 100 levels deep" in msgspec.json.encode(copy)


def test_what_would_not_end_is_refused():
    doubling: list[object] = [1]
    for _ in range(60):
        doubling = [doubling, doubling]
    with pytest.raises(UnreadableValue, match="more than 1,000,000 values"):
        plain(doubling)


def test_a_value_that_is_held_often_is_counted_as_often():
    ten = [0] * 10
    thousand = [[ten] * 10] * 10
    assert plain([thousand] * 50) == [[[[0] * 10] * 10] * 10] * 50
    with pytest.raises(UnreadableValue, match="more than 1,000,000 values"):
        plain([thousand] * 1_000)


def test_many_values_that_contain_themselves_are_cut_where_they_do():
    endless: list[object] = []
    endless.extend([endless] * 20_000)
    assert plain([endless, [endless]]) == [["[contains itself]"] * 20_000, [["[contains itself]"] * 20_000]]


def test_what_cannot_say_what_it_is_is_refused():
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(UnreadableValue, match="a value of type dict cannot be read: RuntimeError"):
        plain({"a": Mute()})


@pytest.mark.parametrize(
    ("text", "limit", "how", "shortened"),
    [
        ("short", 5, {}, "short"),
        ("", 0, {}, ""),
        ("abcdefghij", 4, {}, "abcd..."),
        ("abcdefghij", 4, {"keep": "end"}, "...ghij"),
        ("abcdefghij", 5, {"keep": "both"}, "abc...ij"),
        ("abcdefghij", 1, {"keep": "both"}, "a..."),
        ("abcdefghij", 0, {"keep": "both"}, "..."),
        ("abcdefghij", 4, {"keep": (4, 6)}, "...defg..."),
        ("abcdefghij", 4, {"keep": (0, 1)}, "abcd..."),
        ("abcdefghij", 4, {"keep": (9, 10)}, "...ghij"),
        ("abcdefghij", 4, {"keep": (2, 9)}, "...cdef..."),
        ("abcdefghij", 4, {"count": True}, "abcd\n[... 6 of 10 characters left out ...]"),
        ("abcdefghij", 4, {"keep": "end", "count": True}, "[... 6 of 10 characters left out ...]\nghij"),
        ("abcdefghij", 4, {"keep": "both", "count": True}, "ab\n[... 6 of 10 characters left out ...]\nij"),
    ],
)
def test_a_text_is_shortened_at_the_place_asked_for(text, limit, how, shortened):
    assert shorten(text, limit, **how) == shortened
