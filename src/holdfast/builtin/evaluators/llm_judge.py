"""`llm_judge`: a judge answers a question about the agent's words."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, cast

from pydantic import AfterValidator, Field

from holdfast.builtin.evaluators.excerpt import excerpt
from holdfast.builtin.evaluators.no_judge import no_judge
from holdfast.ports.evaluator import EvaluationContext, EvaluationParams
from holdfast.records.evaluation import EvaluationResult
from holdfast.records.execution import ExecutionResult

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_RANGE = re.compile(rf"(?P<low>{_NUMBER})\s*(?:\+|-\s*(?P<high>{_NUMBER})?)")


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank")
    return text


def _reachable(expected: str) -> str:
    """A score that no answer can have would be a check that cannot pass."""
    match = _RANGE.fullmatch(_not_blank(expected).strip())
    if match is None:
        return expected
    bounds = [float(bound) for bound in match.groups() if bound is not None]
    if any(bound > 1 for bound in bounds) or bounds != sorted(bounds):
        raise ValueError(f"{expected!r} is not a range of scores; write one within 0 to 1, such as '0.8+' or '0.2-0.9'")
    return expected


def _allows_judgment(schema: dict[str, Any]) -> dict[str, Any]:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"is not a valid JSON Schema: {error.message}") from error
    if schema.get("type", "object") != "object":
        raise ValueError(f"must describe an object, not {schema['type']!r}")
    properties = cast("dict[str, Any]", schema.get("properties", {}))
    if properties.get("judgment", False) is False:
        raise ValueError("must have the property 'judgment', which the judge's answer is read from")
    return schema


Text = Annotated[str, AfterValidator(_not_blank)]


class LlmJudgeParams(EvaluationParams):
    prompt: Text
    expected: Annotated[str, AfterValidator(_reachable)] = "yes"
    capabilities: list[Text] = Field(default_factory=list)
    json_schema: Annotated[dict[str, Any], AfterValidator(_allows_judgment)] | None = None
    model_type: Text | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    votes: int = Field(default=1, ge=1)


class LlmJudge:
    type: ClassVar[str] = "llm_judge"
    params: ClassVar[type[EvaluationParams]] = LlmJudgeParams

    async def evaluate(
        self, params: LlmJudgeParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        return no_judge(f"{params.expected} to: {excerpt(params.prompt)}")
