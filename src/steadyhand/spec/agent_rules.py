"""What an agent scenario must be beside well-shaped. Reads plain data, so that one mistake hides no other."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from steadyhand.spec.agent_shapes import RunStepShape
from steadyhand.spec.conversation_rules import check_conversation
from steadyhand.spec.findings import Findings, describe
from steadyhand.spec.mappings import mappings
from steadyhand.spec.naming import Path, advice, nearest
from steadyhand.spec.shapes.setup import MockShape

_ANSWERS = ("response", "responseFn", "error")


def check_agent_rules(data: dict[str, Any], environments: Collection[str], findings: Findings) -> None:
    _check_environment(data.get("environment"), environments, findings)
    _check_plugins(data.get("plugins"), findings)
    setup = data.get("setup")
    if isinstance(setup, dict):
        for index, mock in mappings(cast("dict[str, Any]", setup).get("mocks")):
            _check_mock(mock, ("setup", "mocks", index), findings)
    for index, step in mappings(data.get("run")):
        _check_step(step, ("run", index), findings)
    _check_judgment(data, findings)


def _check_environment(environment: Any, environments: Collection[str], findings: Findings) -> None:
    if not isinstance(environment, dict):
        return
    type_ = cast("dict[str, Any]", environment).get("type")
    if isinstance(type_, str) and type_ and type_ not in environments:
        message = f"unknown environment type {describe(type_)}{advice(type_, sorted(environments))}"
        findings.error(("environment", "type"), message, "bad-value")


def _check_plugins(plugins: Any, findings: Findings) -> None:
    if not isinstance(plugins, list):
        return
    seen: dict[str, int] = {}
    for index, entry in enumerate(cast("list[Any]", plugins)):
        name = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else entry
        if not isinstance(name, str):
            continue
        if name in seen:
            first = findings.document.locate(("plugins", seen[name]))
            message = f"plugin `{name}` is already listed on line {first.line}; keep one of them"
            findings.error(("plugins", index), message, "duplicate-plugin")
        seen.setdefault(name, index)


def _check_mock(mock: dict[str, Any], path: Path, findings: Findings) -> None:
    if any(key in mock for key in _ANSWERS):
        return
    known = [field.alias or name for name, field in MockShape.model_fields.items()]
    if any(key not in known and nearest(key, known) in _ANSWERS for key in mock):
        return
    message = "the mock answers nothing; expected at least one of `response`, `responseFn` and `error`"
    findings.error(path, message, "missing-key")


def _check_step(step: dict[str, Any], path: Path, findings: Findings) -> None:
    given = [key for key in ("input", "code", "conversation") if step.get(key) is not None]
    if not given:
        known = RunStepShape.model_fields
        if not any(key not in known and nearest(key, known) in {"input", "code", "conversation"} for key in step):
            message = "the step does nothing; expected `input`, `code` or `conversation`"
            findings.error(path, message, "missing-key")
    elif "code" in given and len(given) > 1:
        message = f"found `code` beside `{given[0] if given[0] != 'code' else given[1]}`; make it a step of its own"
        findings.error((*path, "code"), message, "conflict", key=True)
    if step.get("lang") is not None and "code" not in given:
        findings.warning((*path, "lang"), "is not used without `code`", "unused-key", key=True)
    conversation = step.get("conversation")
    if isinstance(conversation, dict):
        opened = bool(step.get("input"))
        check_conversation(cast("dict[str, Any]", conversation), (*path, "conversation"), findings, opened=opened)


def _check_judgment(data: dict[str, Any], findings: Findings) -> None:
    judgment = data.get("judgment")
    if not isinstance(judgment, dict):
        return
    strategy = cast("dict[str, Any]", judgment).get("strategy")
    threshold = cast("dict[str, Any]", judgment).get("threshold")
    if strategy == "weighted" and threshold is None:
        keys = set(cast("dict[str, Any]", judgment)) - {"strategy", "threshold"}
        if not any(nearest(key, ["threshold"]) for key in keys):
            message = "required key `threshold` is missing: the strategy weighted needs it"
            findings.error(("judgment", "threshold"), message, "missing-key")
    elif isinstance(strategy, str) and strategy in {"all_pass", "any_pass", "majority_pass"} and threshold is not None:
        message = f"is not used by the strategy {strategy}; only weighted has a threshold"
        findings.error(("judgment", "threshold"), message, "conflict", key=True)
