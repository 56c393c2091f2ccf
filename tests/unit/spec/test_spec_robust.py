"""Whatever a file contains, loading it reports located problems and never raises."""

import copy
import json
import random

import pytest

from unit.spec.test_spec_validation_bounds import AGENT, DECISION

VALUES = (
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "text",
    "all_pass",
    [],
    [1],
    {},
    {"a": 1},
    [[]],
    [{}],
    [None],
    {"type": []},
    "../x",
)


def places(data, path=()):
    yield path
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        yield from places(value, (*path, key))


def put(data, path, value):
    data = copy.deepcopy(data)
    inner = data
    for part in path[:-1]:
        inner = inner[part]
    if isinstance(inner, dict) and isinstance(value, tuple):
        inner[value[0]] = inner.pop(path[-1])
    else:
        inner[path[-1]] = None if isinstance(value, tuple) else value
    return data


def test_every_value_replaced_by_every_kind_of_value(load_text):
    extra = {
        "plugins": ["a", {"name": "b", "config": {}}],
        "setup": {
            "mocks": [
                {"method": "m", "response": 1, "error": {"code": "x"}, "metadata": {"delay": 1}, "when": {"args": []}}
            ],
            "virtual_fs": {"a": "b"},
            "database": {"sql": "x", "records": {"t": [{"a": 1}]}},
        },
        "character": {"bio": ["x"], "llm": {"model": "m"}},
    }
    matrix = {"base_scenario": "file.yaml", "matrix": [{"parameter": "p", "values": [1]}]}
    rubric = {"name": "r", "dimensions": [{"name": "d", "weight": 1, "description": "d", "anchors": {"1": "x"}}]}
    for base in (DECISION, {**AGENT, **extra}, matrix, rubric):
        for path in places(base):
            if path:
                for value in VALUES:
                    loaded = load_text(json.dumps(put(base, path, value), indent=1))
                    assert all(problem.place.line for problem in loaded.problems)
                renamed = load_text(json.dumps(put(base, path, ("strange",)), indent=1))
                assert all(problem.place.line for problem in renamed.problems)


def test_broken_text(load_text):
    chance = random.Random(3)
    text = json.dumps(AGENT, indent=1)
    for _ in range(300):
        start = chance.randrange(len(text))
        broken = text[:start] + chance.choice(["", "{", "]", ":", "\t", "&a ", "*a", "!x ", "---\n", "\u2028", "|\n"])
        load_text(broken + text[start + chance.randrange(4) :])


@pytest.mark.no_cover
def test_many_faults_are_found_in_one_walk(load_text):
    text = "run: 1\n" + "".join(f"k{n % 4000}: !x {n}\n" for n in range(8000))
    loaded = load_text(text)
    codes = [problem.code for problem in loaded.problems]
    assert codes.count("duplicate-key") == 4000
    assert codes.count("unknown-tag") == 4000
    repeated = [problem for problem in loaded.problems if problem.code == "duplicate-key"]
    assert all(f"already set on line {problem.place.line - 4000};" in problem.message for problem in repeated)
