from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from steadyhand.builtin.evaluators.service_called import ServiceCalledEvaluator, ServiceCalledParams
from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec
from steadyhand.records.event import ServiceCalled
from steadyhand.records.result import ExecutionResult
from support.trial import HERE, TrialStandIn

CALLS = (
    ServiceCalled(
        at_ms=1.0, service="github-service", method="listIssues", input={"owner": "me", "page": {"n": 1, "m": 5}}
    ),
    ServiceCalled(at_ms=2.0, service="github-service", method="listIssues", args=["me", True], error="rate limit"),
    ServiceCalled(at_ms=3.0, service="mail", method="send", args=[{"to": "a", "cc": "b"}]),
)


async def evaluate(folder: Path, **params: Any) -> EvaluationResult:
    context = EvaluationContext(trial=TrialStandIn(folder), spec=EvaluationSpec(type="service_called", place=HERE))
    checked = ServiceCalledParams.model_validate(params)
    return await ServiceCalledEvaluator().evaluate(checked, ExecutionResult(service_calls=CALLS), context)


@pytest.mark.parametrize(
    ("params", "success", "count"),
    [
        ({"service": "github-service", "method": "listIssues"}, True, 2),
        ({"service": "GitHub_Service", "method": "LIST_ISSUES"}, True, 2),
        ({"method": "listIssues", "max_count": 1}, False, 2),
        ({"method": "listIssues", "min_count": 3}, False, 2),
        ({"method": "listIssues", "status": "success"}, True, 1),
        ({"method": "listIssues", "status": "error", "min_count": 2}, False, 1),
        ({"service": "mail"}, True, 1),
        ({"service": "mail", "max_count": 0}, False, 1),
        ({"service": "slack", "max_count": 0}, True, 0),
        ({"service": "slack"}, False, 0),
        ({"method": "list"}, False, 0),
        ({"method": "listIssues", "input": {"page": {"n": 1}}}, True, 1),
        ({"method": "listIssues", "input": {"page": {"n": 2}}}, False, 0),
        ({"method": "listIssues", "input": {"page": {"n": True}}}, False, 0),
        ({"method": "listIssues", "input": {"missing": None}}, False, 0),
        ({"method": "listIssues", "args": ["me", True]}, True, 1),
        ({"method": "listIssues", "args": ["me", 1]}, False, 0),
        ({"method": "listIssues", "args": ["me"]}, False, 0),
        ({"method": "send", "args": [{"to": "a"}]}, True, 1),
        ({"method": "send", "input": {"to": "a"}}, True, 1),
        ({"method": "send", "input": {"to": "a"}, "max_count": 0}, False, 1),
        ({"method": "listIssues", "args": [{"owner": "me"}]}, True, 1),
    ],
)
async def test_counting(tmp_path: Path, params: dict[str, Any], success: bool, count: int):
    result = await evaluate(tmp_path, **params)
    assert (result.success, result.figures["count"]) == (success, count)


async def test_the_message_and_the_evidence(tmp_path: Path):
    result = await evaluate(tmp_path, service="mail", method="send", min_count=2, args=[{"to": "a"}])
    assert result.message == "mail.send was called once with args [{'to': 'a'}]; expected at least twice"
    assert result.evidence is not None
    assert result.evidence.expected == "mail.send called at least twice with args [{'to': 'a'}]"
    assert result.evidence.found == "1 of 3 service calls matched"
    assert "github-service.listIssues('me', True) -> error: rate limit" in (result.evidence.excerpt or "")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"service": "mail", "method": "send", "input": {"to": "c"}},
            "mail.send was called once, but not with input {'to': 'c'}: to was 'a', not 'c'; expected at least once",
        ),
        (
            {"service": "mail", "method": "send", "input": {"bcc": "c"}, "min_count": 2},
            "mail.send was called once, but not with input {'bcc': 'c'}: bcc was not given; expected at least twice",
        ),
        (
            {"method": "listIssues", "input": {"page": {"n": 2}}},
            (
                "listIssues of any service was called twice, but not with input {'page': {'n': 2}}: page.n was 1, "
                "not 2; expected at least once"
            ),
        ),
        (
            {"service": "mail", "args": [], "status": "error"},
            (
                "any method of mail was called once, but not with args [] and status error: args had 1 entry, not 0, "
                "and it succeeded; expected at least once"
            ),
        ),
        ({"service": "slack", "method": "post"}, "slack.post was never called; expected at least once"),
        ({"service": "mail", "max_count": 0}, "any method of mail was called once; expected never"),
        (
            {"method": "listIssues", "status": "error", "max_count": 0},
            "listIssues of any service was called once with status error (of 2 calls); expected never",
        ),
        ({"service": "mail", "method": "send", "max_count": 0, "input": {"to": "c"}}, None),
    ],
)
async def test_what_was_called_and_what_was_different(tmp_path: Path, params: dict[str, Any], message: str | None):
    result = await evaluate(tmp_path, **params)
    if message is None:
        assert result.success
        message = "mail.send was called once, but not with input {'to': 'c'}: to was 'a', not 'c'"
    assert result.message == message
    assert result.evidence is not None
    assert "expected" not in (result.evidence.expected or "")


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"min_count": 1},
        {"method": "x", "min_count": 0},
        {"method": "x", "min_count": 3, "max_count": 2},
        {"method": "x", "max_count": -1},
        {"method": "x", "min_count": True},
        {"method": "x", "count": 1},
    ],
)
def test_what_means_nothing_does_not_load(params: dict[str, Any]):
    with pytest.raises(ValidationError):
        ServiceCalledParams.model_validate(params)


@pytest.mark.parametrize(
    ("params", "verdict"),
    [
        ({"input": {"owner": "Me"}}, "inconclusive"),
        ({"input": {"page": {"n": "1"}}}, "inconclusive"),
        ({"args": ["ME", True]}, "inconclusive"),
        ({"args": ["ME", True], "status": "success"}, "passed"),
        ({"input": {"owner": "you"}}, "passed"),
        ({"args": ["ME", 1]}, "passed"),
    ],
)
async def test_the_absence_of_a_call_is_not_a_matter_of_spelling(tmp_path, params, verdict):
    result = await evaluate(tmp_path, method="listIssues", max_count=0, **params)
    assert result.verdict == verdict, result.message
