"""Faults of mocks: the scenarios they become, and every mistake at its place."""

import pytest

from steadyhand.builtin.plugin import builtin_plugin
from steadyhand.plugins.registry import EvaluationCatalogue, Registry
from steadyhand.spec.faults import failing
from steadyhand.spec.load import load

CATALOGUE = EvaluationCatalogue(Registry([builtin_plugin()]))
SCENARIO = """\
name: An order
description: d
environment: {{type: local}}
setup:
  {setup}
run: [{{input: Where is it?, evaluations: [{{type: string_contains, value: here}}]}}]
judgment: {{strategy: all_pass}}
"""
ORDER = "service: shop, method: order, response: {at: 2026-05-31}"


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(setup):
        (tmp_path / "own.yaml").write_text(SCENARIO.format(setup=setup))
        return load(["own.yaml"], catalogue=CATALOGUE)

    return read


def cells(loaded):
    assert not loaded.problems, loaded.problems
    return [shown for shown, _ in failing(loaded.scenarios[0])]


def test_each_fault_of_each_method_is_a_scenario(read):
    loaded = read(f"mocks: [{{{ORDER}, faults: [slow, timeout]}}, {{method: pay, response: ok, faults: [twice]}}]")
    assert cells(loaded) == ["shop.order timeout", "shop.order slow", "pay twice"]
    made = dict(failing(loaded.scenarios[0]))
    assert [mock.fault for mock in made["shop.order slow"].setup.mocks] == ["slow", None]
    assert [mock.fault for mock in loaded.scenarios[0].setup.mocks] == [None, None]


def test_all_mocks_of_a_method_fail_together(read):
    setup = f"mocks: [{{{ORDER}, when: {{args: [1]}}}}, {{{ORDER}}}]\n  faults: [error]"
    ((shown, made),) = failing(read(setup).scenarios[0])
    assert shown == "shop.order error"
    assert [mock.fault for mock in made.setup.mocks] == ["error", "error"]


def test_all_means_those_that_a_mock_can_have(read):
    mocks = [
        f"{{{ORDER}}}",
        "{service: a, method: text, response: done}",
        "{service: a, method: number, response: 4}",
        "{service: a, method: broken, error: {code: X}}",
        "{service: a, method: script, responseFn: '() => 1'}",
    ]
    found = cells(read(f"mocks: [{', '.join(mocks)}]\n  faults: all"))
    of = {name: [each.split()[1] for each in found if f".{name} " in each] for name in ("order", "text", "number")}
    assert of["order"] == ["timeout", "error", "empty", "truncated", "stale", "slow", "twice"]
    assert of["text"] == ["timeout", "error", "empty", "truncated", "slow", "twice"]
    assert of["number"] == ["timeout", "error", "empty", "slow", "twice"]
    assert [each for each in found if "broken" in each] == ["a.broken timeout", "a.broken error", "a.broken slow"]
    assert len([each for each in found if "script" in each]) == 7


@pytest.mark.parametrize(
    ("setup", "expected", "path"),
    [
        (f"mocks: [{{{ORDER}, faults: [timeot]}}]", "did you mean `timeout`?", "setup.mocks[0].faults[0]"),
        (f"mocks: [{{{ORDER}, faults: []}}]", "at least 1", "setup.mocks[0].faults"),
        (f"mocks: [{{{ORDER}, faults: [slow, slow]}}]", "`slow` is listed twice", "setup.mocks[0].faults[1]"),
        ("mocks: [{method: m, response: x, faults: [stale]}]", "no date, such as", "setup.mocks[0].faults[0]"),
        (
            "mocks: [{method: m, error: {code: X}, faults: [empty]}]",
            "no content that could be",
            "setup.mocks[0].faults[0]",
        ),
        (
            "mocks: [{method: m, response: 4, faults: [truncated]}]",
            "nothing that could be cut",
            "setup.mocks[0].faults[0]",
        ),
        ("mocks: [{method: m, response: '', faults: [twice]}]", "could come twice", "setup.mocks[0].faults[0]"),
        ("faults: all", "no mock could go wrong; declare `mocks`", "setup.faults"),
        (f"mocks: [{{{ORDER}}}]\n  faults: some", "(allowed: timeout, error,", "setup.faults"),
        ("mocks: [{method: m, response: x}]\n  faults: [stale]", "the mock cannot be `stale`", "setup.faults[0]"),
        (f"mocks: [{{{ORDER}, fault: [slow]}}]", "unknown key `fault`; did you mean `faults`?", "setup.mocks[0].fault"),
    ],
)
def test_a_mistake_is_one_message_at_its_place(read, setup, expected, path):
    errors = read(setup).errors
    assert len(errors) == 1, errors
    assert expected in errors[0].message
    assert errors[0].place.path == path
    assert errors[0].place.line in (5, 6)
