"""What we see of each kind of agent, as configured, and what each check makes of it: one table, kind by check.

An agent that did everything and one that did nothing are both seen through what the kind declares.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from steadyhand.builtin.plugin import EVALUATORS
from steadyhand.compose.scenarios import build_registry
from steadyhand.ports.agent import Reply, Shows, shows_of
from steadyhand.ports.evaluator import reads_of
from steadyhand.records.evaluation import EvaluationSpec, Verdict
from steadyhand.records.event import VISIBLE, ActionTaken
from steadyhand.records.run import TrialRecord
from steadyhand.testing import ScriptedAgent, ScriptedChatModel
from support.agents import an_agent, gateway_of, refund_trial
from support.trial import HERE

pytestmark = pytest.mark.usefixtures("forked_agents")

PROGRAM = f"command:{shlex.quote(sys.executable)} ./mine.py"
PYTHON = "python:./mine.py:"
SOURCE = """
def reply(message): return "a text"
def reporting(message, action): return "a text"
def calling(message, get_service): return "a text"
def writing(message, workspace): return "a text"
def whole(message, trial): return "a text"
"""
HTTP = "http:http://127.0.0.1:9/chat"
MODEL = ScriptedChatModel(["never asked"])
N, R, S = "not_seen", "self_reported", "seen"

# agent, its options, whether a model is named: actions, services, files, database, model calls
DECLARED: dict[str, tuple[str, dict[str, Any], bool, tuple[str, ...]]] = {
    "model": ("model", {}, True, (N, N, N, N, S)),
    "runtime": ("runtime", {}, True, (S, S, S, S, S)),
    "python, no parameters": (f"{PYTHON}reply", {}, False, (N, N, N, N, N)),
    "python, a model": (f"{PYTHON}reply", {}, True, (N, N, N, N, S)),
    "python, action": (f"{PYTHON}reporting", {}, False, (R, N, N, N, N)),
    "python, get_service": (f"{PYTHON}calling", {}, False, (N, S, N, S, N)),
    "python, workspace": (f"{PYTHON}writing", {}, False, (N, N, S, N, N)),
    "python, trial": (f"{PYTHON}whole", {}, False, (R, S, S, S, N)),
    "python, mocks": (f"{PYTHON}reply", {"env": {"U": "{mocks_url}"}}, False, (N, S, N, S, N)),
    "python, mcp": (f"{PYTHON}reply", {"env": {"U": "{mcp_url}"}}, False, (S, S, N, S, N)),
    "python, workspace in env": (f"{PYTHON}reply", {"env": {"U": "{workspace}"}}, False, (N, N, S, N, N)),
    "python, database in env": (f"{PYTHON}reply", {"env": {"U": "{database_url}"}}, False, (N, N, N, S, N)),
    "command": (PROGRAM, {}, False, (R, S, S, S, N)),
    "command, a model": (PROGRAM, {}, True, (R, S, S, S, S)),
    "command, text": (PROGRAM, {"speaks": "text"}, False, (N, N, S, N, N)),
    "command, text, mocks": (PROGRAM, {"speaks": "text", "env": {"U": "{mocks_url}/x"}}, False, (N, S, S, S, N)),
    "command, text, mcp": (PROGRAM, {"speaks": "text", "env": {"U": "{mcp_url}"}}, False, (S, S, S, S, N)),
    "command, text, database": (
        PROGRAM, {"speaks": "text", "env": {"U": "{database_url}"}}, False, (N, N, S, S, N),
    ),
    "http": ("http:http://127.0.0.1:9/v1", {}, False, (N, N, N, N, N)),
    "http, tool_calls": (HTTP, {"reply": "text", "tool_calls": "calls"}, False, (R, N, N, N, N)),
    "http, mocks in a header": (HTTP, {"reply": "text", "headers": {"X-U": "{mocks_url}"}}, False, (N, S, N, S, N)),
    "http, mcp in the body": (HTTP, {"reply": "text", "body": {"u": ["{mcp_url}"]}}, False, (S, S, N, S, N)),
    "http, mocks in the start": (
        HTTP, {"reply": "text", "start": {"body": {"u": "{mocks_url}"}}}, False, (N, S, N, S, N),
    ),
    "elizaos": ("elizaos:http://127.0.0.1:9", {}, False, (S, N, N, N, N)),
    "elizaos, mcp": ("elizaos:http://127.0.0.1:9", {"settings": {"m": ["{mcp_url}"]}}, False, (S, S, N, S, N)),
    "elizaos, mcp, model": (
        "elizaos:http://127.0.0.1:9", {"settings": {"m": "{mcp_url}", "b": "{openai_base_url}"}}, True, (S, S, N, S, S),
    ),
}  # fmt: skip
SERVED_ONLY = {name for name in DECLARED if ", mcp" in name and not name.startswith("elizaos")}

INSERT = "INSERT INTO done VALUES (17)"
ROWS = "SELECT id FROM done"
REFUND = {"action": "refund", "params": {"id": 17}}
WIPE = {"action": "wipe"}  # not a tool of ours, and it never happens

# type, parameters, what it reads, and whether it holds for an agent that did everything and for one that did nothing
CHECKS: list[tuple[str, dict[str, Any], str, bool, bool]] = [
    ("trajectory_contains_action", REFUND, "actions", True, False),
    ("trajectory_contains_action", {**REFUND, "max_count": 0}, "actions", False, True),
    ("trajectory_contains_action", {**REFUND, "min_count": 2, "max_count": 2}, "actions", False, False),
    ("trajectory_contains_action", {**REFUND, "within_ms": 60_000}, "actions", True, False),
    ("sequence", {"rules": [{"always": REFUND}]}, "actions", True, False),
    ("sequence", {"rules": [{"never": REFUND}]}, "actions", False, True),
    ("sequence", {"rules": [{"never_until": {**REFUND, "until": "refund"}}]}, "actions", False, True),
    ("service_called", {"service": "orders", "input": {"id": 17}}, "services", True, False),
    ("service_called", {"service": "orders", "max_count": 0}, "services", False, True),
    ("file_exists", {"path": "out.txt"}, "files", True, False),
    ("file_contains", {"path": "out.txt", "value": "refunded"}, "files", True, False),
    ("command_exit_code_is", {"command": "test ! -e out.txt"}, "files", False, True),
    ("database_query", {"query": ROWS, "min_rows": 1}, "database", True, False),
    ("database_query", {"query": ROWS, "max_rows": 0}, "database", False, True),
    ("execution_time", {"max_duration_ms": 600_000}, "", True, True),
    ("latency_budget", {"target_ms": 600_000, "acceptable_ms": 600_000, "critical_ms": 600_000}, "", True, True),
    ("string_contains", {"value": "done"}, "", True, True),
    ("json_path", {"path": "$.id", "equals": 17, "action": "refund"}, "actions", True, False),
    ("json_path", {"path": "$.id", "equals": 18, "action": "refund"}, "actions", False, False),
    ("json_schema", {"schema": {"required": ["id"]}, "action": "refund"}, "actions", True, False),
]
READ_THE_MESSAGES_ONLY = {
    "regex_match", "regex", "contains", "not_contains", "judge", "llm_judge", "conversation_length",
    "conversation_flow", "user_satisfaction", "context_retention", "holds_across_turns",
    "not_regex", "equals", "similar_to", "refuses", "language_is", "python", "javascript",
    "advises", "forbids", "states", "chooses", "nothing_else",
}  # fmt: skip

DECIDE_BY_WHAT_THEY_SAW = {"tool_args_valid", "no_repeated_calls", "max_tokens", "cost_below"}
"""Tested with their own cases, because more than the visibility of actions decides what they can tell."""


async def _built(name: str, folder: Path, **more: Any) -> Shows:
    kind, options, model, _ = DECLARED[name]
    options = {**options, **more}
    (folder / "mine.py").write_text(SOURCE)
    async with gateway_of(folder) as (gateway, _):
        given = {"gateway": gateway} if kind.partition(":")[0] not in ("model", "runtime") else {}
        agent = an_agent(kind, folder, options=options, model=MODEL if model else None, **given)
        try:
            return shows_of(agent)
        finally:
            await agent.close()


@pytest.mark.parametrize("name", DECLARED)
async def test_what_is_seen_of_each_kind(name, tmp_path):
    shows = await _built(name, tmp_path)
    assert tuple(shows.of(what) for what in VISIBLE) == DECLARED[name][3]
    assert shows.served_only == (name in SERVED_ONLY)
    assert shows.arguments == (not name.startswith("elizaos"))


def test_every_check_is_in_the_table():
    registry = build_registry()
    for type_ in EVALUATORS:
        reads = {what for known, _, what, *_ in CHECKS if known == type_ and what}
        if type_ not in READ_THE_MESSAGES_ONLY | DECIDE_BY_WHAT_THEY_SAW:
            assert reads_of(registry.evaluator(type_)) == reads, type_
    assert {type_ for type_, *_ in CHECKS} | READ_THE_MESSAGES_ONLY | DECIDE_BY_WHAT_THEY_SAW == set(EVALUATORS)


async def _tried(shows: Shows, folder: Path, *, acts: bool, checks: list[tuple[str, dict[str, Any]]]) -> TrialRecord:
    """A whole trial seen this way. Without arguments, the agent performs the action as its server would report it."""

    async def say(_: Any, trial: Any) -> Reply:
        if acts:
            params = {"id": 17} if shows.arguments else {}
            trial.emit(ActionTaken(at_ms=trial.elapsed_ms(), id="1", name="refund", params=params))
            await trial.services.call("orders", "refund", [], {"id": 17})
            await trial.environment.write("out.txt", b"refunded")
            await trial.services.call("database", "execute", [], {"sql": INSERT})
        return Reply(text="done")

    specs = [EvaluationSpec(type=type_, place=HERE, params=params) for type_, params in checks]
    return await refund_trial(ScriptedAgent(say, shows=shows), folder, specs)


def _expected(shows: Shows, reads: str, params: dict[str, Any], holds: bool, *, acts: bool) -> Verdict:
    sight = shows.of(reads) if reads else "seen"  # pyright: ignore[reportArgumentType]
    if sight == "not_seen":
        return Verdict.INCONCLUSIVE
    return Verdict.PASSED if holds else Verdict.FAILED


@pytest.mark.parametrize("acts", [True, False], ids=["does it", "does nothing"])
@pytest.mark.parametrize("name", DECLARED)
async def test_every_check_on_every_kind(name, acts, tmp_path):
    shows = await _built(name, tmp_path, **({"in_process": True} if name.startswith("python") else {}))
    record = await _tried(shows, tmp_path, acts=acts, checks=[check[:2] for check in CHECKS])
    if shows.on_report and shows.actions == R and not acts:  # silence is no report
        shows = msgspec.structs.replace(shows, actions="not_seen")
    assert len(record.evaluations) == len(CHECKS)
    for (type_, params, reads, *holds), found in zip(CHECKS, record.evaluations, strict=True):
        wanted = _expected(shows, reads, params, holds[0 if acts else 1], acts=acts)
        assert found.verdict is wanted, (type_, params, found.message)
        if reads and shows.of(reads) == "not_seen":  # pyright: ignore[reportArgumentType]
            assert shows.advice in found.message
        told = (reads,) if reads and shows.of(reads) == "self_reported" else ()  # pyright: ignore[reportArgumentType]
        assert found.self_reported == told
        assert ("as the agent reports them" in found.message) == bool(told)


@pytest.mark.parametrize("served_only", [True, False])
async def test_silence_about_a_tool_that_is_not_ours_proves_nothing_where_only_ours_are_seen(served_only, tmp_path):
    """The agent may have its own tool with that name, and we would not see it used."""
    checks: list[tuple[str, dict[str, Any]]] = [
        ("trajectory_contains_action", {**WIPE, "max_count": 0}),
        ("trajectory_contains_action", WIPE),
        ("trajectory_contains_action", {**REFUND, "before": "wipe"}),
        ("sequence", {"rules": [{"never": "wipe"}]}),
        ("sequence", {"rules": [{"always": "wipe"}]}),
        ("sequence", {"rules": [{"before": ["refund", "wipe"]}]}),
        ("trajectory_contains_action", {"action": "REFUND"}),
        ("trajectory_contains_action", {"action": "execute", "max_count": 0}),  # a call of the service `database`
    ]
    shows = Shows(actions="seen", served_only=served_only)
    record = await _tried(shows, tmp_path, acts=True, checks=checks)
    verdicts = [found.verdict for found in record.evaluations]
    passed, failed, unknown = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE
    seen = [passed, failed, passed, passed, failed, passed]
    assert verdicts == [*([unknown] * 6 if served_only else seen), passed, failed]
    if served_only:
        assert all("wipe is not one of the tools served" in found.message for found in record.evaluations[:6])
