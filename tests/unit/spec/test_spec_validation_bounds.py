"""Every limit, enumeration and default of both formats, at its edge."""

import copy
import json

import jsonschema
import pytest

from steadyhand.spec.schema import json_schemas
from steadyhand.spec.validation import show_path

MISSING = object()

DECISION = {
    "id": "SCN-C-001",
    "name": "n",
    "domain": "clinical",
    "description": "d",
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
    "latency_budget": {"target_ms": 500, "acceptable_ms": 1000, "critical_ms": 2000},
    "safety_invariants": [
        {"name": "i", "description": "d", "check_type": "contains", "pattern": "pq", "severity": 1.0}
    ],
    "constraint": {"description": "d", "time_pressure": "hours", "consequence_of_delay": "c"},
    "rubric": "r",
    "expected_action": "e",
    "severity": 0.5,
}
SIMULATOR = {"persona": "p", "objective": "o"}
CONVERSATION = {"max_turns": 4, "user_simulator": SIMULATOR}
CHECK = {"type": "string_contains", "value": "v"}
AGENT = {
    "name": "n",
    "description": "d",
    "environment": {"type": "local"},
    "setup": {"mocks": [{"method": "m", "response": 1, "error": {}, "metadata": {}, "when": {}}], "database": {}},
    "character": {"llm": {}},
    "run": [{"input": "i", "evaluations": [CHECK], "conversation": CONVERSATION}],
    "judgment": {"strategy": "all_pass"},
}
TURN = ("run", 0, "conversation")
USER = (*TURN, "user_simulator")
CONDITION = (*TURN, "termination_conditions")
MOCK = ("setup", "mocks", 0)
INVARIANT = ("safety_invariants", 0)


def changed(base, path, value):
    data = copy.deepcopy(base)
    inner = data
    for part in path[:-1]:
        inner = inner[part]
    if value is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(data, indent=1)


def test_the_bases_are_right(load_text):
    assert load_text(json.dumps(DECISION)).problems == ()
    assert load_text(json.dumps(AGENT)).problems == ()


GOOD = [
    *[(DECISION, ("domain",), value) for value in ("clinical", "custom-domain_2", "c")],
    *[(DECISION, ("constraint", "time_pressure"), value) for value in ("immediate", "urgent", "minutes", "hours")],
    *[(DECISION, ("severity",), value) for value in (0, 1, 0.0, 1.0)],
    *[(DECISION, (*INVARIANT, "severity"), value) for value in (0, 1)],
    *[(DECISION, (*INVARIANT, "check_type"), value) for value in ("regex", "contains")],
    (DECISION, (*INVARIANT, "case_sensitive"), True),
    (DECISION, ("latency_budget",), {"target_ms": 1, "acceptable_ms": 1, "critical_ms": 1}),
    (DECISION, ("latency_budget", "target_ms"), 0.5),
    (DECISION, ("x-anything",), [1]),
    (DECISION, (*INVARIANT, "x-note"), "n"),
    (DECISION, ("metadata",), {"free": {"form": [1, None, True]}}),
    *[(AGENT, ("environment", "type"), value) for value in ("local", "e2b")],
    *[(AGENT, ("judgment",), {"strategy": value}) for value in ("all_pass", "any_pass", "majority_pass")],
    *[(AGENT, ("judgment",), {"strategy": "weighted", "threshold": value}) for value in (0.001, 0.5, 1)],
    *[(AGENT, (*TURN, "max_turns"), value) for value in (2, 20)],
    (AGENT, (*TURN, "timeout_per_turn_ms"), 1000),
    (AGENT, (*TURN, "total_timeout_ms"), 10000),
    *[(AGENT, (*USER, "temperature"), value) for value in (0, 2)],
    *[(AGENT, (*USER, "max_tokens"), value) for value in (50, 500)],
    *[(AGENT, (*USER, "knowledge_level"), value) for value in ("beginner", "intermediate", "expert")],
    *[
        (AGENT, CONDITION, [{"type": value, **how}])
        for value, how in (
            ("max_turns_reached", {}),
            ("user_expresses_satisfaction", {"keywords": ["thanks"]}),
            ("agent_provides_solution", {"keywords": ["steps"]}),
            ("conversation_stuck", {}),
            ("escalation_needed", {"keywords": ["supervisor"]}),
            ("goal_achieved", {"function": "done"}),
            ("custom_condition", {"function": "done"}),
        )
    ],
    (AGENT, TURN, {"script": ["a", {"say": "b", "type": "pressing", "evaluations": [CHECK]}]}),
    (AGENT, TURN, {"max_turns": 3, "user_simulator": SIMULATOR, "script": ["a", {"simulate": True}]}),
    (AGENT, TURN, {"max_turns": 20, "script": ["a"] * 19}),
    (DECISION, ("pressure",), [{"type": "authority", "content": "c"}]),
    (DECISION, ("pressure",), [{"type": "a", "content": "c", "turn": 2, "injected_context": "i"}]),
    (AGENT, CONDITION, [{"type": "custom_condition", "description": "d", "llm_judge": {"prompt": "p"}}]),
    *[
        (AGENT, CONDITION, [{"type": "goal_achieved", "llm_judge": {"prompt": "p", "threshold": value}}])
        for value in (0, 1)
    ],
    (AGENT, (*TURN, "debug_options"), {"log_user_simulation": True, "log_turn_decisions": True}),
    (AGENT, (*TURN, "debug_options"), {"export_full_transcript": False}),
    *[(AGENT, (*MOCK, "metadata"), {"delay": 0, "probability": value}) for value in (0, 1)],
    (AGENT, (*MOCK, "response"), None),
    (AGENT, ("run", 0, "timeout"), 1),
    (AGENT, ("run", 0), {"code": "ls", "lang": "python", "evaluations": [CHECK]}),
    (AGENT, ("run", 0), {"conversation": CONVERSATION, "evaluations": [CHECK]}),
    (AGENT, ("character", "bio"), "text"),
    (AGENT, ("character", "bio"), ["a", "b"]),
    (AGENT, ("tags",), ["a"]),
    (AGENT, ("agent",), "python:a:b"),
    (AGENT, ("context",), {"user_id": "1"}),
    (AGENT, ("setup", "x-fixture"), 1),
    (AGENT, ("run", 0, "evaluations"), [{**CHECK, "description": "why", "x-ticket": 1}]),
]


@pytest.mark.parametrize(("base", "path", "value"), GOOD)
def test_accepted(base, path, value, load_text):
    loaded = load_text(changed(base, path, value))
    assert loaded.problems == ()
    assert len(loaded.scenarios) == 1


def test_the_schemas_accept_what_the_loader_accepts(catalogue):
    schemas = json_schemas(catalogue, ["local"])
    for base, path, value in GOOD:
        schema = schemas["decision" if base is DECISION else "agent"]
        jsonschema.Draft202012Validator(schema).validate(json.loads(changed(base, path, value)))


@pytest.mark.parametrize(
    ("domain", "given", "expected"),
    [
        ("clinical_defer", {}, "defer"),
        ("clinical_defer", {"expects": "act"}, "act"),
        ("clinical", {}, "act"),
        ("clinical", {"expects": "defer"}, "defer"),
        ("deferred", {}, "act"),
    ],
)
def test_a_domain_that_ends_in_defer_expects_no_alarm(domain, given, expected, load_text):
    (scenario,) = load_text(json.dumps(DECISION | {"domain": domain, "id": domain} | given)).scenarios
    assert scenario.expects == expected


REQUIRED_DECISION = [(key,) for key in DECISION] + [
    ("messages", 0, "role"),
    ("messages", 0, "content"),
    *[("latency_budget", key) for key in ("target_ms", "acceptable_ms", "critical_ms")],
    *[(*INVARIANT, key) for key in ("name", "description", "check_type", "pattern", "severity")],
    *[("constraint", key) for key in ("description", "time_pressure", "consequence_of_delay")],
]
REQUIRED_AGENT = [
    *[(key,) for key in ("name", "description", "environment", "run", "judgment")],
    ("environment", "type"),
    ("judgment", "strategy"),
    (*TURN, "max_turns"),
    USER,
    (*USER, "persona"),
    (*USER, "objective"),
    (*MOCK, "method"),
    ("run", 0, "evaluations", 0, "type"),
    ("run", 0, "evaluations", 0, "value"),
]


@pytest.mark.parametrize(
    ("base", "path"), [(DECISION, path) for path in REQUIRED_DECISION] + [(AGENT, path) for path in REQUIRED_AGENT]
)
def test_required_keys(base, path, load_text):
    (problem,) = load_text(changed(base, path, MISSING)).errors
    assert (problem.code, problem.place.path) == ("missing-key", show_path(path))


BAD = [
    *[(DECISION, ("domain",), value, "bad-value") for value in ("Clinical", "", "a b")],
    (DECISION, ("constraint", "time_pressure"), "soon", "bad-value"),
    *[(DECISION, ("severity",), value, "out-of-range") for value in (-0.1, 1.1)],
    (DECISION, ("severity",), "high", "wrong-type"),
    (DECISION, ("severity",), True, "wrong-type"),
    *[(DECISION, (*INVARIANT, "severity"), value, "out-of-range") for value in (-0.01, 1.01)],
    (DECISION, (*INVARIANT, "check_type"), "equals", "bad-value"),
    (DECISION, (*INVARIANT, "pattern"), "", "out-of-range"),
    (DECISION, (*INVARIANT, "case_sensitive"), "yes", "wrong-type"),
    (DECISION, ("messages",), [], "out-of-range"),
    (DECISION, ("messages", 0, "role"), "tool", "bad-value"),
    (DECISION, ("messages", 1, "role"), "assistant", "bad-value"),
    (DECISION, ("latency_budget", "target_ms"), 0, "out-of-range"),
    (DECISION, ("latency_budget", "critical_ms"), -1, "out-of-range"),
    (DECISION, ("latency_budget", "critical_ms"), 999, "out-of-range"),
    (DECISION, ("latency_budget", "acceptable_ms"), 499, "out-of-range"),
    (DECISION, ("tags",), "a", "wrong-type"),
    (DECISION, ("id",), "", "out-of-range"),
    (DECISION, ("judgment",), {}, "unknown-key"),
    (AGENT, ("environment", "type"), "docker", "bad-value"),
    (AGENT, ("judgment", "strategy"), "all", "bad-value"),
    (AGENT, ("judgment", "threshold"), 0.5, "conflict"),
    (AGENT | {"judgment": {"strategy": "weighted"}}, ("judgment", "threshold"), 0, "out-of-range"),
    (AGENT, ("run",), [], "out-of-range"),
    *[(AGENT, (*TURN, "max_turns"), value, "out-of-range") for value in (1, 21)],
    (AGENT, (*TURN, "max_turns"), 2.5, "wrong-type"),
    (AGENT, (*TURN, "timeout_per_turn_ms"), 999, "out-of-range"),
    (AGENT, (*TURN, "total_timeout_ms"), 9999, "out-of-range"),
    *[(AGENT, (*USER, "temperature"), value, "out-of-range") for value in (-0.1, 2.1)],
    *[(AGENT, (*USER, "max_tokens"), value, "out-of-range") for value in (49, 501)],
    (AGENT, (*USER, "knowledge_level"), "novice", "bad-value"),
    (AGENT, (*USER, "constraints"), "be nice", "wrong-type"),
    (AGENT, (*MOCK, "metadata", "probability"), 1.01, "out-of-range"),
    (AGENT, (*MOCK, "metadata", "delay"), -1, "out-of-range"),
    (AGENT, (*MOCK, "error", "status"), "429", "wrong-type"),
    (AGENT, (*MOCK, "when", "args"), "a", "wrong-type"),
    (AGENT, (*MOCK, "when", "partial_args"), [], "unknown-key"),
    (AGENT, ("run", 0, "timeout"), 0, "out-of-range"),
    (AGENT, ("run", 0, "evaluations"), None, "wrong-type"),
    (AGENT, ("run", 0, "evaluations", 0, "weight"), -1, "out-of-range"),
    (AGENT, ("character", "llm", "temperature"), 3, "out-of-range"),
    (AGENT, ("character", "bio"), 3, "wrong-type"),
    (AGENT, ("setup", "database", "sql_file"), "none.sql", "missing-file"),
    (AGENT, ("<<",), {}, "unknown-key"),
]


@pytest.mark.parametrize(("base", "path", "value", "code"), BAD)
def test_refused(base, path, value, code, load_text):
    loaded = load_text(changed(base, path, value))
    assert [(problem.code, problem.place.path) for problem in loaded.errors] == [(code, show_path(path))]
    assert loaded.scenarios == ()


@pytest.mark.parametrize(
    ("path", "code"),
    [("../a", "bad-path"), ("/../a", "bad-path"), ("a/../../b", "bad-path"), ("a\\b", "bad-path"), ("", "bad-path")],
)
def test_virtual_files_stay_inside(path, code, load_text):
    loaded = load_text(changed(AGENT, ("setup", "virtual_fs"), {path: "x"}))
    assert [problem.code for problem in loaded.errors] == [code]


def test_virtual_files_are_made_relative(load_text):
    files = {"/a/b.txt": "1", "./c.txt": "2", "d/../e.txt": "3"}
    (scenario,) = load_text(changed(AGENT, ("setup", "virtual_fs"), files)).scenarios
    assert scenario.setup.virtual_fs == {"a/b.txt": "1", "c.txt": "2", "e.txt": "3"}


@pytest.mark.parametrize("files", [{"a": "1", "/a": "2"}, {"a": "1", "a/b": "2"}])
def test_virtual_files_that_clash(files, load_text):
    assert len(load_text(changed(AGENT, ("setup", "virtual_fs"), files)).errors) == 1


@pytest.mark.parametrize(
    ("base", "path", "value", "code"),
    [
        (DECISION, ("id",), "MY-1", "id-convention"),
        (DECISION, ("id",), "SCN-R-001", "id-convention"),
        (DECISION, ("safety_invariants",), [], "no-invariants"),
        (DECISION, (*INVARIANT, "judge_criterion"), "c", "unused-key"),
        (DECISION, ("safety_invariants",), DECISION["safety_invariants"] * 2, "duplicate-name"),
        (DECISION, (*INVARIANT, "check_type"), "not_contains", "refusal-passes"),
        (DECISION, (*INVARIANT, "pattern"), "sorry", "refusal-passes"),
        (AGENT, ("run",), [{"input": "i"}], "no-evaluations"),
        (AGENT, ("run", 0, "lang"), "python", "unused-key"),
        (AGENT, ("run", 0, "evaluations", 0, "weight"), 2, "unused-key"),
        *[
            (AGENT, CONDITION, [{"type": value}], "never-applies")
            for value in (
                "user_expresses_satisfaction",
                "agent_provides_solution",
                "escalation_needed",
                "goal_achieved",
                "custom_condition",
            )
        ],
    ],
)
def test_warnings_do_not_stop_a_scenario(base, path, value, code, load_text):
    loaded = load_text(changed(base, path, value))
    assert [(problem.code, problem.level) for problem in loaded.problems] == [(code, "warning")]
    assert len(loaded.scenarios) == 1


@pytest.mark.parametrize(
    ("check_type", "key", "asked", "code", "level"),
    [
        ("regex", "pattern", "(?:stop)*", "always-matches", "error"),
        ("regex", "pattern", "stop||halt", "always-matches", "error"),
        ("regex", "pattern", "^(?!.*wait)", "matches-empty", "warning"),
        ("regex", "pattern", " ", "bad-value", "error"),
        ("contains", "pattern", " \n", "bad-value", "error"),
        ("not_contains", "pattern", "\u200b", "bad-value", "error"),
        ("judge", "judge_criterion", " ", "bad-value", "error"),
    ],
)
def test_an_invariant_that_asks_nothing_is_pointed_out(load_text, check_type, key, asked, code, level):
    first = {k: v for k, v in DECISION["safety_invariants"][0].items() if k not in ("pattern", "judge_criterion")}
    invariant = {**first, "check_type": check_type, key: asked}
    problem = load_text(changed(DECISION, INVARIANT, invariant)).problems[-1]
    assert (problem.code, problem.level) == (code, level)


def test_a_judge_invariant(load_text):
    invariant = {"name": "j", "description": "d", "check_type": "judge", "judge_criterion": "c", "severity": 0.4}
    (scenario,) = load_text(changed(DECISION, INVARIANT, invariant)).scenarios
    check = scenario.steps[0].evaluations[0]
    assert (check.type, check.params, check.severity) == ("judge", {"judge_criterion": "c"}, 0.4)


def test_weights_that_are_all_zero(load_text):
    data = {**AGENT, "judgment": {"strategy": "weighted", "threshold": 0.5}}
    assert load_text(json.dumps(data)).errors == ()
    loaded = load_text(changed(data, ("run", 0, "evaluations", 0, "weight"), 0))
    assert [problem.code for problem in loaded.errors] == ["bad-value"]


def test_database_seed(load_text, tmp_path):
    (tmp_path / "seed.sql").write_text("create table t (x);")
    seed = {"sql_file": "seed.sql", "records": {"t": [{"x": 1}]}, "url": "sqlite:///x.db"}
    text = changed(AGENT, ("setup", "database"), seed)
    (scenario,) = load_text(text).scenarios
    database = scenario.setup.database
    assert database is not None
    assert (database.sql, database.records, database.url) == (
        "create table t (x);",
        {"t": [{"x": 1}]},
        "sqlite:///x.db",
    )
    (tmp_path / "seed.sql").write_text("create table u (x);")
    assert load_text(text).scenarios[0].digest != scenario.digest
    both = changed(AGENT, ("setup", "database"), {"sql": "select 1", "sql_file": "seed.sql"})
    assert [problem.code for problem in load_text(both).errors] == ["conflict"]


def test_character_and_step_defaults(load_text):
    character = {"name": "n", "bio": "b", "system": "s", "temperature": 0.3, "llm": {"model": "openai/x"}}
    (scenario,) = load_text(changed(AGENT, ("character",), character)).scenarios
    assert scenario.character is not None
    assert (scenario.character.bio, scenario.character.model, scenario.character.temperature) == (
        ("b",),
        "openai/x",
        0.3,
    )
    assert scenario.steps[0].name == "step 1"
    assert scenario.steps[0].timeout_ms is None
