"""What a mock with a fault answers."""

import random

import pytest

from steadyhand.ports.services import ServiceFault
from steadyhand.records.scenario import FAULTS, Mock, MockFault
from steadyhand.runtime.faults import SLOW_S, faulty
from steadyhand.runtime.mocks import MockCall, MockTable
from steadyhand.testing import SettableClock
from support.trial import HERE

ORDER = {"number": "A-17", "arrives": "2024-02-29"}
CALL = MockCall(service="shop", method="order")


def table(fault, clock=None, **more):
    mock = Mock(method="order", service="shop", place=HERE, response=ORDER, fault=fault, **more)
    return MockTable([mock], scripts=None, random=random.Random(1), clock=clock or SettableClock())


@pytest.mark.parametrize(
    ("fault", "value", "expected"),
    [
        ("empty", ORDER, {}),
        ("empty", "text", ""),
        ("empty", [1], []),
        ("empty", 4, None),
        ("truncated", "four", "fo"),
        ("truncated", {"a": 1}, '{"a"'),
        ("stale", ORDER, {"number": "A-17", "arrives": "2023-02-28"}),
        ("stale", ["on 2026-05-31T10:00", 2026], ["on 2025-05-31T10:00", 2026]),
        ("twice", [1, 2], [1, 2, 1, 2]),
        ("twice", "ab", "abab"),
        ("twice", ORDER, [ORDER, ORDER]),
        ("slow", ORDER, ORDER),
    ],
)
def test_the_answer(fault, value, expected):
    assert faulty(fault, value) == expected


@pytest.mark.parametrize(
    ("fault", "code", "status"), [("timeout", "TIMEOUT", 504), ("error", "SERVICE_UNAVAILABLE", 503)]
)
async def test_no_answer(fault, code, status):
    with pytest.raises(ServiceFault) as raised:
        await table(fault, probability=0.0).answer(CALL)
    assert (raised.value.code, raised.value.status, raised.value.mock) == (code, status, HERE)


async def test_a_slow_one_takes_its_time_and_answers():
    clock = SettableClock()
    answer = await table("slow", clock, delay_ms=1000).answer(CALL)
    assert answer.value == ORDER
    assert clock.slept == [SLOW_S + 1]


async def test_a_mock_that_fails_anyway_still_fails():
    with pytest.raises(ServiceFault) as raised:
        await table("slow", error=MockFault(code="LIMIT")).answer(CALL)
    assert raised.value.code == "LIMIT"


async def test_the_response_of_the_scenario_is_left_as_it_is():
    for fault in set(FAULTS) - {"timeout", "error"}:
        await table(fault).answer(CALL)
    assert ORDER == {"number": "A-17", "arrives": "2024-02-29"}
