"""A model under test that sends values nested too deeply: the trial is still recorded, without its secrets."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from steadyhand.builtin.agents.runtime import RuntimeAgent
from steadyhand.builtin.models.anthropic import AnthropicModel
from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.engine.trial import run_trial
from steadyhand.plugins.plugin import AgentSettings, ModelSettings
from steadyhand.reading.run import Reading
from steadyhand.records.chat import ToolCall
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import ModelCalled
from steadyhand.redaction import Redactor
from steadyhand.report.json import to_json
from steadyhand.store.writer import RunWriter
from steadyhand.testing import Answer, ModelServer, Served
from steadyhand.wire.stream import error_code, error_text
from support.agents import a_trial
from support.sample_trials import HEADER

SECRET = "canary-Zq7f93kd02mmx81"


def _nested(depth: int) -> str:
    return '{"api_key": "' + SECRET + '", "path": "out.txt", "content": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize("depth", [50, 98, 99, 150, 500, 1_200, 100_000])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_tool_call_arguments_of_any_depth_are_recorded_without_their_secrets(
    tmp_path: Path, depth, provider, streamed
):
    def serve(request: Served) -> Answer:
        if len(request.body["messages"]) > 2:
            return Answer(text="done")
        raw = _nested(depth)
        whole = provider == "anthropic" and not streamed  # which sends an object instead of its text
        call = ToolCall(id="1", name="write_file", arguments=json.loads(raw)) if whole and depth < 200 else None
        return Answer(tool_calls=(call or ToolCall(id="1", name="write_file", raw=raw),))

    kind = {"openai": OpenAIModel, "anthropic": AnthropicModel}[provider]
    async with ModelServer(serve) as server:
        base_url = server.base_url if provider == "openai" else server.base_url.removesuffix("/v1")
        options = {"base_url": base_url, "stream": streamed}
        model = kind(ModelSettings(name="m", folder=tmp_path, options=options, variables={"ANTHROPIC_API_KEY": "k"}))
        try:
            agent = RuntimeAgent(AgentSettings(model=model, folder=tmp_path))
            record = await run_trial(a_trial(tmp_path, agent=agent).parts)
        finally:
            await model.close()
    writer = RunWriter.create(tmp_path / "runs", HEADER, redactor=Redactor([SECRET]))
    kept = writer.append(record)
    writer.close()
    reading = Reading.open(writer.path)
    (found,) = reading.read()
    assert found == kept
    assert (found.judged.verdict, found.judged.reason) == (Verdict.INCONCLUSIVE, "nothing was evaluated")
    assert any(isinstance(event, ModelCalled) for event in found.events)
    told = b"".join(to_json(reading))
    assert SECRET.encode() not in told
    msgspec.json.decode(told)


@pytest.mark.parametrize("depth", [500, 100_000])
def test_an_error_body_of_any_depth_is_read(depth):
    body = b'{"error":' * depth + b'"no"' + b"}" * depth
    assert error_text(body).startswith('{"error"')
    assert error_code(body) is None
