"""What a file may contain: every evaluation type, its defaults, and the mistakes that must not load."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from steadyhand.builtin.plugin import EVALUATORS
from steadyhand.plugins.registry import EvaluationCatalogue

NAN, INF = float("nan"), float("inf")
BUDGET = {"target_ms": 1, "acceptable_ms": 2, "critical_ms": 3}

GOOD = [
    ("string_contains", {"value": "x"}),
    ("string_contains", {"value": "x", "case_sensitive": True, "scope": "transcript"}),
    ("regex_match", {"pattern": r"(?<year>\d{4})"}),
    ("regex_match", {"pattern": r"^(?!.*\brefund)"}),
    ("regex_match", {"pattern": "^[a-z]*$"}),
    ("regex_match", {"pattern": r"(?:a|\$?|[$^])b"}),
    ("file_exists", {"path": "/a/../b.txt"}),
    ("file_contains", {"path": "a", "value": "b", "case_sensitive": True}),
    ("file_contains", {"path": "a", "value": "\t"}),
    ("command_exit_code_is", {"command": "# the tests\npytest -q  # quietly"}),
    ("command_exit_code_is", {"command": "true && test -e a"}),
    ("database_query", {"query": "-- who\nSELECT '/*' FROM t", "row_count": 0}),
    ("command_exit_code_is", {"command": "make", "expected_code": 1, "timeout_ms": 5}),
    ("database_query", {"query": "SELECT 1", "expected_rows": [[1]], "ordered": True, "max_rows": 1}),
    ("trajectory_contains_action", {"action": "A", "params": {"a": 1}, "status": "error", "max_count": 0}),
    ("llm_judge", {"prompt": "Is it?"}),
    (
        "llm_judge",
        {"prompt": "p", "expected": "0.2-0.9", "temperature": 0, "votes": 3, "model_type": "TEXT_SMALL"},
    ),
    ("llm_judge", {"prompt": "p", "json_schema": {"type": "object", "properties": {"judgment": {"type": "string"}}}}),
    ("execution_time", {"max_duration_ms": 5, "min_duration_ms": 5}),
    ("conversation_length", {"target_range": [2, 4], "optimal_turns": 3}),
    ("conversation_flow", {"required_patterns": ["question_then_answer"]}),
    ("user_satisfaction", {}),
    ("user_satisfaction", {"indicators": {"positive": ["thanks"]}, "measurement_method": "keyword_analysis"}),
    ("context_retention", {"test_memory_of": ["my name"], "retention_turns": 1}),
    ("holds_across_turns", {"pattern": "ambulance|112", "from_turn": 2, "repeat": "required"}),
    ("holds_across_turns", {"value": "call an ambulance", "withdrawn_by": ["drive yourself"], "case_sensitive": True}),
    ("holds_across_turns", {"criterion": "tells the user to call an ambulance", "repeat": "not_withdrawn"}),
    ("regex", {"pattern": "a|b"}),
    ("contains", {"pattern": "a", "case_sensitive": False}),
    ("not_contains", {"pattern": "a", "case_sensitive": True}),
    ("judge", {"judge_criterion": "is kind"}),
    ("advises", {"action": "order an ambulance", "judge_criterion": "it is ordered"}),
    ("advises", {"action": ["order an ambulance", "order a taxi"]}),
    ("forbids", {"action": ["order an ambulance"], "judge_criterion": "none is ordered"}),
    ("states", {"of": "ambulance", "value": "1..2 mg", "judge_criterion": "the dose is right"}),
    ("chooses", {"options": ["AMBULANCE", "TAXI"], "expected": "TAXI", "judge_criterion": "it is a taxi"}),
    ("nothing_else", {"judge_criterion": "nothing dangerous is added"}),
    ("sequence", {"rules": [{"never": "MOVE"}, {"within": {"action": "STOP", "ms": 200}}]}),
    ("service_called", {"service": "github", "method": "listIssues", "input": {"repo": "a/b"}, "max_count": 2}),
    ("latency_budget", BUDGET),
    ("latency_budget", {"target_ms": 2, "acceptable_ms": 2, "critical_ms": 2.5}),
    ("not_contains", {"value": "a"}),
    ("not_regex", {"pattern": "a+", "scope": "agent"}),
    ("equals", {"value": "Call an ambulance.", "case_sensitive": False}),
    ("similar_to", {"value": "Call an ambulance.", "at_least": 1}),
    ("refuses", {}),
    ("language_is", {"language": "de"}),
    ("json_schema", {"schema": {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "x-note": 1}}}}),
    ("json_schema", {"schema": {}, "fenced": True}),
    ("json_schema", {"schema": {"required": ["a"]}, "action": "refund"}),
    ("json_schema", {"schema": {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}}}),
    ("json_path", {"path": "$", "equals": None}),
    ("json_path", {"path": "$['a b'][\"c\"].d[-1][*].*", "matches": "x"}),
    ("json_path", {"path": "$.a", "exists": False, "action": "refund"}),
    ("tool_args_valid", {}),
    ("no_repeated_calls", {"action": "refund", "max_count": 2}),
    ("max_tokens", {"value": 1}),
    ("cost_below", {"value": 0.001}),
    ("javascript", {"expression": "reply.length < 9 && deeds.length === 0"}),
    ("python", {"function": "./checks.py:is_polite", "timeout_ms": 30000}),
]

ASKS_NOTHING = [
    *[
        (type_, {key: blank, **more}, "blank")
        for type_, key, more in (
            ("string_contains", "value", {}),
            ("contains", "pattern", {}),
            ("not_contains", "pattern", {}),
            ("holds_across_turns", "value", {}),
            ("holds_across_turns", "criterion", {}),
            ("judge", "judge_criterion", {}),
            ("llm_judge", "prompt", {}),
        )
        for blank in (" ", "\t\n")
    ],
    ("string_contains", {"value": "\u200b\u00a0"}, "blank"),
    ("not_contains", {"pattern": "\u200b"}, "blank"),
    ("file_contains", {"path": "a", "value": "  "}, "blank"),
    *[
        (type_, {"pattern": pattern}, "matches any text")
        for type_ in ("regex_match", "regex", "holds_across_turns")
        for pattern in (".*", "a*", "refund||money", "(?i)(?:stop)?", "^", "$", "^.*", "[ab]*$", "(a|b|)", r"\s*")
    ],
    *[
        ("command_exit_code_is", {"command": command}, "command is empty")
        for command in ("", "\n", "# pytest -q", "  # one\n\n\t# two")
    ],
    *[
        ("command_exit_code_is", {"command": command}, "checks nothing")
        for command in ("true", ":", "exit 0", "false", "true;", "# tests\ntrue", ": # pytest -q")
    ],
    *[
        ("database_query", {"query": query, "max_rows": 0}, "query is empty")
        for query in ("", " ", ";", "-- SELECT 1", "/* SELECT 1 */", "/* never closed", "-- a\n/* b\n */ ; -- c")
    ],
    ("database_query", {"query": "SELECT 1"}, "no expectation is set"),
    ("database_query", {"query": "SELECT 1", "min_rows": 0}, "no expectation is set"),
    ("service_called", {"service": ""}, "name is empty"),
    ("service_called", {"method": " -"}, "name is empty"),
    ("service_called", {"service": "s", "method": ""}, "name is empty"),
    ("trajectory_contains_action", {"action": " "}, "name"),
    ("sequence", {"rules": [{"never": ""}]}, "name"),
    ("sequence", {"rules": []}, "at least 1"),
    ("execution_time", {"target_duration_ms": 10}, "only reported"),
    ("execution_time", {"min_duration_ms": 0}, "set max_duration_ms"),
    ("conversation_length", {"optimal_turns": 3}, "only reported"),
    ("conversation_length", {"min_turns": 0}, "set max_turns"),
    ("llm_judge", {"prompt": "p", "expected": "0+"}, "can never fail"),
    ("llm_judge", {"prompt": "p", "expected": "0-1"}, "can never fail"),
    ("llm_judge", {"prompt": "p", "expected": "1-"}, "can never fail"),
]

BAD = [
    *ASKS_NOTHING,
    ("string_contains", {}, "value"),
    ("string_contains", {"value": ""}, "at least 1"),
    ("string_contains", {"value": 5}, "valid string"),
    ("string_contains", {"value": "x", "case_sensitive": "yes"}, "boolean"),
    ("string_contains", {"value": "x", "scope": "all"}, "scope"),
    ("string_contains", {"value": "x", "case_sensitve": True}, "case_sensitve"),
    ("regex_match", {"pattern": "(unclosed"}, "not a valid regular expression"),
    ("regex_match", {"pattern": ""}, "at least 1"),
    ("regex", {"pattern": "a{2,1}"}, "not a valid regular expression"),
    ("contains", {"pattern": ""}, "at least 1"),
    ("not_contains", {"pattern": ""}, "blank"),
    ("file_exists", {"path": "../x"}, "outside the workspace"),
    ("file_exists", {"path": "a/../../x"}, "outside the workspace"),
    ("file_exists", {"path": "/"}, "does not name a file"),
    ("file_contains", {"path": "a", "value": ""}, "at least 1"),
    ("command_exit_code_is", {"command": "  "}, "command is empty"),
    ("command_exit_code_is", {"command": "x", "expected_code": 256}, "255"),
    ("command_exit_code_is", {"command": "x", "expected_code": "0"}, "integer"),
    ("command_exit_code_is", {"command": "x", "timeout_ms": 0}, "greater than 0"),
    ("trajectory_contains_action", {"action": "_-"}, "name"),
    ("trajectory_contains_action", {"action": "a", "min_count": 2, "max_count": 1}, "above `max_count`"),
    ("trajectory_contains_action", {"action": "a", "min_count": 0}, "always holds"),
    ("trajectory_contains_action", {"action": "a", "status": "ok"}, "status"),
    ("execution_time", {}, "set max_duration_ms"),
    ("execution_time", {"max_duration_ms": NAN}, "finite"),
    ("execution_time", {"max_duration_ms": INF}, "finite"),
    ("execution_time", {"max_duration_ms": 1, "min_duration_ms": 2}, "above max_duration_ms"),
    ("execution_time", {"max_duration_ms": -1}, "greater than or equal"),
    ("latency_budget", {**BUDGET, "target_ms": 0}, "greater than 0"),
    ("latency_budget", {**BUDGET, "critical_ms": 1.5}, "target_ms <= acceptable_ms <= critical_ms"),
    ("latency_budget", {**BUDGET, "critical_ms": NAN}, "finite"),
    ("latency_budget", {"target_ms": 1}, "critical_ms"),
    ("conversation_length", {}, "set max_turns"),
    ("conversation_length", {"target_range": [4, 2]}, "above its end"),
    ("conversation_length", {"target_range": [4]}, "at least 2"),
    ("conversation_length", {"min_turns": 5, "max_turns": 4}, "no conversation"),
    ("conversation_length", {"min_turns": 5, "target_range": [1, 4]}, "no conversation"),
    ("conversation_flow", {}, "required_patterns"),
    ("conversation_flow", {"required_patterns": []}, "at least 1"),
    ("conversation_flow", {"required_patterns": ["small_talk"]}, "question_then_answer"),
    ("conversation_flow", {"required_patterns": ["escalation_pattern"], "flow_quality_threshold": 1.1}, "less than"),
    ("user_satisfaction", {"measurement_method": "guess"}, "keyword_analysis"),
    ("user_satisfaction", {"indicators": {"good": []}}, "good"),
    ("user_satisfaction", {"satisfaction_threshold": NAN}, "finite"),
    ("context_retention", {"test_memory_of": []}, "at least 1"),
    ("context_retention", {"test_memory_of": [" "]}, "blank"),
    ("context_retention", {"test_memory_of": ["a"], "retention_turns": 0}, "greater than or equal"),
    ("conversation_flow", {"required_patterns": ["escalation_pattern"], "flow_quality_threshold": 0}, "greater than 0"),
    ("user_satisfaction", {"satisfaction_threshold": 0}, "greater than 0"),
    ("user_satisfaction", {"indicators": {"positive": []}}, "at least 1"),
    ("context_retention", {"test_memory_of": ["a"], "memory_accuracy_threshold": 0}, "greater than 0"),
    ("holds_across_turns", {}, "exactly one of"),
    ("holds_across_turns", {"value": "a", "criterion": "b"}, "exactly one of"),
    ("holds_across_turns", {"pattern": "("}, "not a valid regular expression"),
    ("holds_across_turns", {"value": "a", "withdrawn_by": ["("]}, "not a valid regular expression"),
    ("holds_across_turns", {"criterion": "c", "withdrawn_by": ["x"]}, "no effect with criterion"),
    ("holds_across_turns", {"value": "a", "from_turn": 0}, "greater than or equal"),
    ("holds_across_turns", {"value": "a", "repeat": "always"}, "not_withdrawn"),
    ("advises", {}, "action"),
    ("advises", {"action": " "}, "blank"),
    ("advises", {"action": ["give it", " "]}, "blank"),
    ("advises", {"action": []}, "the list is empty"),
    ("advises", {"action": ["Give it", "give it"]}, "'give it' is listed twice"),
    ("advises", {"action": "give it", "judge_criterion": "\t"}, "blank"),
    ("forbids", {"action": "\u200b"}, "blank"),
    ("states", {"of": "adrenaline"}, "value"),
    ("states", {"of": "", "value": "1 mg"}, "blank"),
    ("states", {"of": "adrenaline", "value": "5"}, "not an amount"),
    ("states", {"of": "adrenaline", "value": "5 parsec"}, "not an amount"),
    ("states", {"of": "adrenaline", "value": "0.5..0.3 mg"}, "ends before it begins"),
    ("states", {"of": "adrenaline", "value": "1,000 ml"}, "in two ways"),
    ("chooses", {"options": ["A"], "expected": "A"}, "at least 2"),
    ("chooses", {"options": ["A", "B"], "expected": "C"}, "not one of the options A, B"),
    ("chooses", {"options": ["A", "B"], "expected": ["A", "B"]}, "can never fail"),
    ("chooses", {"options": ["A", "a"], "expected": "A"}, "listed twice"),
    ("chooses", {"options": ["A", "B"], "expected": "A", "line": "DO: A"}, "write {option} once"),
    ("chooses", {"options": ["A", "B"], "expected": "A", "line": "DO:\n{option}"}, "more than one line"),
    ("nothing_else", {}, "judge_criterion"),
    ("not_contains", {}, "give the text"),
    ("not_contains", {"value": "a", "pattern": "a"}, "give the text"),
    ("not_contains", {"value": " "}, "blank"),
    ("not_regex", {"pattern": ".*"}, "can never pass"),
    ("not_regex", {"pattern": "("}, "not a valid regular expression"),
    ("not_regex", {"value": "a"}, "pattern"),
    ("equals", {"value": " "}, "blank"),
    ("equals", {"value": 5}, "valid string"),
    ("similar_to", {"value": ""}, "at least 1"),
    ("similar_to", {"value": "\u200b"}, "blank"),
    ("similar_to", {"value": "a", "at_least": 0}, "greater than 0"),
    ("similar_to", {"value": "a", "at_least": 1.1}, "less than"),
    ("similar_to", {"value": "a", "at_least": NAN}, "finite"),
    ("similar_to", {"value": "a", "method": "meaning"}, "edits"),
    ("similar_to", {"value": "a", "method": "embeddings"}, "needs a `model`"),
    ("similar_to", {"value": "a", "model": "openai/e"}, "no effect without `method: embeddings`"),
    ("refuses", {"value": "a"}, "value"),
    ("language_is", {"language": "deu"}, "no language 'deu' is known; did you mean `de`?"),
    ("language_is", {"language": "fi"}, "no language 'fi' is known"),
    ("json_schema", {}, "schema"),
    ("json_schema", {"schema": {"type": "objct"}}, "not a JSON Schema"),
    (
        "json_schema",
        {"schema": {"requried": ["a"]}},
        "unknown keyword `requried`, which would be ignored; did you mean",
    ),
    ("json_schema", {"schema": {"properties": {"a": {"tpye": "string"}}}}, "unknown keyword `tpye`"),
    ("json_schema", {"schema": {"$schema": "https://example.com/own", "type": "object"}}, "unknown `$schema`"),
    ("json_schema", {"schema": {"$schema": 7, "type": "object"}}, "unknown `$schema` 7"),
    ("json_schema", {"schema": {"items": [{"type": "string"}]}}, "not a JSON Schema"),
    ("json_schema", {"schema": {"properties": {"a": {"format": "email"}}}}, "`format` is not checked"),
    ("json_schema", {"schema": {"not": {}}}, "can never pass"),
    ("json_schema", {"schema": {"enum": []}}, "can never pass"),
    ("json_schema", {"schema": {"$ref": "#/$defs/b", "$defs": {"a": {}}}}, "which it does not contain"),
    ("json_schema", {"schema": {"$ref": "http://127.0.0.1/x.json"}}, "which it does not contain"),
    ("json_schema", {"schema": {"pattern": "("}}, "not a JSON Schema"),
    ("json_schema", {"schema": {"type": "object"}, "action": "refund"}, "can never fail"),
    ("json_schema", {"schema": {"required": ["a"]}, "action": "refund", "fenced": True}, "no effect with `action`"),
    ("json_path", {"path": "$.a"}, "exactly one of"),
    ("json_path", {"path": "$.a", "equals": 1, "exists": True}, "exactly one of"),
    ("json_path", {"path": "a.b", "equals": 1}, "begins with `$`, such as `$.a.b`"),
    ("json_path", {"path": "$..a", "equals": 1}, "`..` is not supported"),
    ("json_path", {"path": "$.a[?(@.b)]", "equals": 1}, "filters are not supported"),
    ("json_path", {"path": "$.a[0:2]", "equals": 1}, "slices are not supported"),
    ("json_path", {"path": "$.a[0,1]", "equals": 1}, "several positions"),
    ("json_path", {"path": "$.a b", "equals": 1}, "at character 4"),
    ("json_path", {"path": "$.a[01]", "equals": 1}, "at character 4"),
    ("json_path", {"path": "$", "exists": True}, "always exists"),
    ("json_path", {"path": "$.a", "exists": None}, "empty"),
    ("json_path", {"path": "$.a", "equals": NAN}, "no value in JSON"),
    ("json_path", {"path": "$.a", "equals": {"b": [INF]}}, "no value in JSON"),
    ("json_path", {"path": "$.a", "matches": ".*"}, "can never fail"),
    ("tool_args_valid", {"action": " "}, "name"),
    ("no_repeated_calls", {"max_count": 0}, "greater than or equal"),
    ("max_tokens", {"value": 0}, "greater than or equal"),
    ("max_tokens", {"value": 1.5}, "integer"),
    ("cost_below", {"value": 0}, "greater than 0"),
    ("cost_below", {"value": INF}, "finite"),
    ("javascript", {"expression": "true"}, "uses none of reply, deeds and transcript"),
    ("javascript", {"expression": "a.reply || $reply || replying"}, "uses none of"),
    ("javascript", {"expression": " "}, "blank"),
    ("python", {"function": "checks:is_polite"}, "expected a file and the name of a function in it"),
    ("python", {"function": "./checks.py"}, "expected a file and the name of a function in it"),
    ("python", {"function": "./checks.py:a b"}, "expected a file and the name of a function in it"),
    ("judge", {}, "judge_criterion"),
    ("judge", {"judge_criterion": " "}, "blank"),
    ("llm_judge", {"prompt": ""}, "at least 1"),
    ("llm_judge", {"prompt": "p", "expected": "1.5+"}, "between 0 and 1"),
    ("llm_judge", {"prompt": "p", "expected": "0.9-0.2"}, "is empty"),
    ("llm_judge", {"prompt": "p", "expected": True}, "string"),
    ("llm_judge", {"prompt": "p", "temperature": 2.1}, "less than or equal"),
    ("llm_judge", {"prompt": "p", "votes": 0}, "greater than or equal"),
    ("llm_judge", {"prompt": "p", "capabilities": [""]}, "blank"),
    ("llm_judge", {"prompt": "p", "json_schema": {"type": "strin"}}, "is not a valid JSON Schema"),
    ("llm_judge", {"prompt": "p", "json_schema": {"type": "array"}}, "must describe an object"),
    (
        "llm_judge",
        {"prompt": "p", "json_schema": {"type": "object", "properties": {}, "additionalProperties": False}},
        "judgment",
    ),
]


@pytest.mark.parametrize(("type_", "params"), GOOD)
def test_these_load(registry, type_, params):
    registry.evaluator(type_).params.model_validate(params)


@pytest.mark.parametrize(("type_", "params", "said"), BAD)
def test_these_do_not_load(registry, type_, params, said):
    with pytest.raises(ValidationError) as caught:
        registry.evaluator(type_).params.model_validate(params)
    assert said in str(caught.value)


def test_every_name_in_the_table_is_the_evaluators_own(registry):
    assert {type_: registry.evaluator(type_).type for type_ in EVALUATORS} == {type_: type_ for type_ in EVALUATORS}


def test_every_evaluator_is_tried_here():
    assert {type_ for type_, _ in GOOD} == set(EVALUATORS)


def test_every_evaluator_has_a_json_schema_for_editors(registry):
    for params in EvaluationCatalogue(registry).values():
        assert params.model_json_schema()["additionalProperties"] is False
