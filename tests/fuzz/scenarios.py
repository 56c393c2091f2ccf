"""Random scenarios of both dialects: valid ones, and valid ones with something changed.

`agree` is what must hold for any of them: loading ends with a scenario or with located errors, and the JSON Schema that
we publish accepts whatever the loader accepts. The schema may accept what the loader refuses only where it says so:
rules about two fields at once, about the disk, or about what a text means.
"""

from __future__ import annotations

import copy
import functools
import json
import random
from collections.abc import Sequence
from typing import Any, cast

import jsonschema
from hypothesis import strategies as st

from fuzz.targets import catalogue, load_bytes
from steadyhand.spec.load import Loaded
from steadyhand.spec.schema import json_schemas

Data = dict[str, Any]

WORDS = st.sampled_from(["help", "Stop now.", "call 911", "ok", "résumé", "don\u2019t", "a\u200bb", "\U0001f691"])
WRITABLE = st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\ufeff")
TEXT = WORDS | st.text(WRITABLE, min_size=1, max_size=20).filter(str.strip)
PATTERN = st.sampled_from(["call (911|112)", r"\bstop\b", "help", "(?i)evacuate|leave", "a.{0,20}b"])
SHARE = st.floats(0, 1)
FREE = st.dictionaries(
    st.text(WRITABLE, max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | TEXT, lambda inner: st.lists(inner, max_size=2), max_leaves=4
    ),
    max_size=2,
)


def checks(*more: Data) -> st.SearchStrategy[Data]:
    fixed = st.sampled_from(
        [
            {"type": "file_exists", "path": "out.txt"},
            {"type": "file_contains", "path": "out.txt", "value": "x"},
            {"type": "command_exit_code_is", "command": "test -f out.txt", "expected_code": 0},
            {"type": "trajectory_contains_action", "action": "STOP", "min_count": 1, "status": "success"},
            {"type": "service_called", "service": "github", "method": "list", "max_count": 0},
            {"type": "execution_time", "max_duration_ms": 5000},
            {"type": "llm_judge", "prompt": "Was it polite?", "expected": "yes", "capabilities": ["Greets"]},
            *more,
        ]
    )
    said = st.fixed_dictionaries(
        {"type": st.just("string_contains"), "value": TEXT},
        optional={"case_sensitive": st.booleans(), "scope": st.sampled_from(["reply", "agent", "transcript"])},
    )
    matched = st.fixed_dictionaries({"type": st.just("regex_match"), "pattern": PATTERN}, optional={"weight": SHARE})
    return fixed | said | matched


INVARIANT = st.fixed_dictionaries(
    {"name": TEXT, "description": TEXT, "severity": SHARE, "check_type": st.just("regex"), "pattern": PATTERN}
) | st.fixed_dictionaries(
    {"name": TEXT, "description": TEXT, "severity": SHARE, "check_type": st.just("judge"), "judge_criterion": TEXT}
)
DECISIONS = st.fixed_dictionaries(
    {
        "id": st.just("SCN-C-001"),
        "name": TEXT,
        "domain": st.sampled_from(["clinical", "robotic_defer", "a-1"]),
        "description": TEXT,
        "messages": st.lists(st.fixed_dictionaries({"role": st.just("system"), "content": TEXT}), max_size=1).map(
            lambda before: [*before, {"role": "user", "content": "What now?"}]
        ),
        "latency_budget": st.tuples(*[st.integers(1, 9_000)] * 3).map(
            lambda times: dict(zip(("target_ms", "acceptable_ms", "critical_ms"), sorted(times), strict=True))
        ),
        "safety_invariants": st.lists(INVARIANT, min_size=1, max_size=3, unique_by=lambda each: each["name"]),
        "constraint": st.fixed_dictionaries(
            {
                "description": TEXT,
                "time_pressure": st.sampled_from(["immediate", "urgent", "minutes", "hours"]),
                "consequence_of_delay": TEXT,
            }
        ),
        "rubric": st.just("rubric_clinical"),
        "expected_action": TEXT,
        "severity": SHARE,
    },
    optional={
        "tags": st.lists(TEXT, max_size=2),
        "metadata": FREE,
        "trials": st.integers(1, 100_000),
        "pass_rate": st.floats(0.01, 1),
        "expects": st.sampled_from(["act", "defer"]),
        "pressure": st.lists(
            st.fixed_dictionaries({"type": st.just("autonomy"), "content": TEXT}), min_size=1, max_size=3
        ),
        "x-note": FREE,
    },
)
MOCK = st.fixed_dictionaries(
    {"method": st.just("list"), "response": FREE},
    optional={
        "service": st.just("github"),
        "when": st.fixed_dictionaries({}, optional={"input": FREE, "args": st.lists(TEXT, max_size=2)}),
        "metadata": st.fixed_dictionaries({}, optional={"delay": st.integers(0, 9), "probability": SHARE}),
    },
)
CONVERSATION = st.fixed_dictionaries(
    {
        "max_turns": st.integers(2, 20),
        "user_simulator": st.fixed_dictionaries(
            {"persona": TEXT, "objective": TEXT},
            optional={"temperature": st.floats(0, 2), "constraints": st.lists(TEXT)},
        ),
    },
    optional={
        "turn_evaluations": st.lists(checks(), max_size=2),
        "final_evaluations": st.lists(
            checks(
                {"type": "conversation_length", "max_turns": 9},
                {"type": "conversation_flow", "required_patterns": ["question_then_answer"]},
                {"type": "user_satisfaction", "satisfaction_threshold": 0.5},
            ),
            max_size=2,
        ),
        "termination_conditions": st.lists(
            st.fixed_dictionaries({"type": st.just("user_expresses_satisfaction"), "keywords": st.just(["thanks"])}),
            max_size=1,
        ),
    },
)
STEP = (
    st.fixed_dictionaries({"input": TEXT, "evaluations": st.lists(checks(), min_size=1, max_size=3)})
    | st.fixed_dictionaries(
        {"code": st.just("echo hello"), "evaluations": st.just([{"type": "string_contains", "value": "hello"}])},
        optional={"lang": st.just("bash"), "timeout": st.integers(1, 10_000)},
    )
    | st.fixed_dictionaries(
        {"input": TEXT, "conversation": CONVERSATION, "evaluations": st.lists(checks(), min_size=1, max_size=1)}
    )
)
AGENTS = st.fixed_dictionaries(
    {
        "name": TEXT,
        "description": TEXT,
        "environment": st.sampled_from([{"type": "local"}, {"type": "e2b"}]),
        "run": st.lists(STEP, min_size=1, max_size=3),
        "judgment": st.fixed_dictionaries({"strategy": st.sampled_from(["all_pass", "any_pass", "majority_pass"])}),
    },
    optional={
        "setup": st.fixed_dictionaries(
            {},
            optional={
                "mocks": st.lists(MOCK, max_size=2),
                "virtual_fs": st.dictionaries(st.sampled_from(["/a.txt", "b/c.txt"]), TEXT),
                "database": st.just({"sql": "CREATE TABLE t (a)", "records": {"t": [{"a": 1}]}}),
            },
        ),
        "character": st.fixed_dictionaries({}, optional={"name": TEXT, "system": TEXT, "temperature": st.floats(0, 2)}),
        "context": FREE,
        "tags": st.lists(TEXT, max_size=2),
        "trials": st.integers(1, 100_000),
        "x-note": FREE,
    },
)
SCENARIOS = DECISIONS | AGENTS

STRANGE: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        1.5,
        10**400,
        1e308,
        12345678901234567890,
        "",
        " ",
        "text",
        "../x",
        "a{99999999}",
        "(",
        "(?R)",
    ),
    *("\x1b[31m", "\ud83d", "x" * 5000, "1", "0.8+", "\0", "\ufeff", [], [1], [None], [[]], {}, {"a": 1}, [{}]),
    *({"type": []}, {"type": "string_contains"}, {"type": "nobody_knows", "a": 1}, {"": ""}, {"input": "i"}),
)
KEYS = ("type", "x-a", "run", "messages", "unknown", "", "id", "Name", "evaluations", "\x1b[2J")


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in _places(item, (*path, key)))]


def _at(data: Data, path: Sequence[str | int]) -> Any:
    return functools.reduce(lambda value, part: value[part], path, cast("Any", data))


def mutated(data: Data, chance: random.Random) -> Data:
    """A copy in which one to three values are replaced, removed, moved, repeated or renamed."""
    data = copy.deepcopy(data)
    for _ in range(chance.randint(1, 3)):
        places = _places(data)[1:]
        if not places:
            break
        *above, key = chance.choice(places)
        parent = _at(data, above)
        match chance.choice(("replace", "remove", "move", "repeat", "rename")):
            case "replace":
                parent[key] = copy.deepcopy(chance.choice(STRANGE))
            case "remove":
                del parent[key]
            case "move":
                parent[key] = copy.deepcopy(_at(data, chance.choice(places)))
            case "repeat" if isinstance(parent, list):
                parent.extend([copy.deepcopy(parent[key])] * chance.choice((1, 20)))
            case _ if isinstance(parent, dict):
                parent[chance.choice(KEYS)] = parent.pop(key)
            case _:
                pass
    return data


def _whole(_: object, value: object) -> bool:
    """To JSON Schema 5.0 is a whole number; to us it is not, because nobody writes that on purpose."""
    return isinstance(value, int) and not isinstance(value, bool)


@functools.cache
def validators() -> dict[str, Any]:
    base = jsonschema.Draft202012Validator
    kind = jsonschema.validators.extend(base, type_checker=base.TYPE_CHECKER.redefine("integer", _whole))
    return {
        name: kind(schema)
        for name, schema in json_schemas(catalogue(), ["local"]).items()
        if name in ("agent", "decision")
    }


# Errors that the schema does not promise to find: they depend on two fields, on the disk, or on what a text means.
NOT_IN_THE_SCHEMA = {
    "bad-pattern",
    "bad-path",
    "bad-value",
    "duplicate-name",
    "duplicate-plugin",
    "missing-file",
    "missing-key",
    "never-applies",
    "out-of-range",
    "no-evaluations",
    "no-invariants",
    "unknown-type",
    "unused-key",
}


NOT_YAML = {"bad-number", "yaml-syntax", "not-utf8", "not-text", "too-deep", "too-large"}


def loaded_from(data: Data) -> Loaded:
    return load_bytes(json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def agree(data: Data) -> None:
    loaded = loaded_from(data)
    errors = loaded.errors
    assert loaded.scenarios or loaded.problems, "neither a scenario nor a reason why not"
    dialect = "agent" if "run" in data else "decision" if "messages" in data else None
    if dialect is None or "matrix" in data or "base_scenario" in data or not isinstance(data.get(dialect, ""), str):
        return
    validator = validators()[dialect]
    if not errors:
        validator.validate(data)
    elif not {problem.code for problem in errors} & NOT_YAML and validator.is_valid(data):
        beyond = [problem for problem in errors if problem.code not in NOT_IN_THE_SCHEMA]
        assert not beyond, f"the schema accepts what the loader refuses: {beyond[0]}"
