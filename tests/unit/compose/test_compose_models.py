"""From a name to a model: built once, with its provider's settings, recorded or replayed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from steadyhand.compose.models import Tape
from steadyhand.errors import SetupError
from steadyhand.records.chat import ChatRequest, Message
from steadyhand.records.config import RunOptions
from steadyhand.redaction import Redactor
from steadyhand.testing import Answer, ModelServer
from support.project import JUDGED

SCRIPT = "rules:\n  - reply: hello\n"
REQUEST = ChatRequest(messages=(Message(role="user", content="hi"),))


def get(project, models, name=None, **options):
    cast = project.cast(project.one(JUDGED), **options)
    return models.get(cast.named(name) if name else cast.model, cast)


async def test_a_model_is_built_once_for_its_name_and_folder(project):
    project.write("m.yaml", SCRIPT)
    project.write("inner/m.yaml", SCRIPT)
    models = project.models()
    outer = project.cast(project.one(JUDGED))
    inner = project.cast(project.one(JUDGED, "inner/one.scenario.yaml"))
    first, again, other = (models.get(each.named("scripted/m.yaml"), outer) for each in (outer, outer, inner))
    assert first is again
    assert first is not other
    assert models.names == ["scripted/m.yaml", "scripted/m.yaml"]
    await models.close()


@pytest.mark.parametrize(
    ("name", "message"), [("opneai/m", "opneai"), ("scripted/nowhere.yaml", "nowhere.yaml"), ("openai/m", "KEY")]
)
def test_what_is_missing_is_an_error_of_the_setup(project, monkeypatch, name, message):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(SetupError, match=message):
        get(project, project.models(), name)


async def test_the_providers_settings_reach_its_models(project, monkeypatch):
    monkeypatch.setenv("MY_KEY", "the-key-of-the-test")
    seen = []

    def answer(request):
        seen.append(request)
        return Answer(text="hello")

    async with ModelServer(answer) as server:
        settings = f'[providers.openai]\nbase_url = "{server.base_url}"\napi_key_env = "MY_KEY"\n'
        project.write("steadyhand.toml", settings)
        models = project.models()
        await get(project, models, "openai/m").attempt(REQUEST, zero=time.perf_counter())
        await models.close()
    (request,) = seen
    assert request.headers["authorization"] == "Bearer the-key-of-the-test"


def test_a_model_of_the_command_line_wins_over_what_a_scenario_asks_for(project):
    for name in ("m.yaml", "small.yaml"):
        project.write(name, SCRIPT)
    project.write("steadyhand.toml", '[models]\nTEXT_SMALL = "scripted/small.yaml"\n')
    cast, models = project.cast(project.one(JUDGED), model="scripted/m.yaml"), project.models()
    followed, fixed = (models.chooser(cast.model, cast, fixed=fixed) for fixed in (False, True))
    assert [choose("TEXT_SMALL").name for choose in (followed, fixed)] == ["scripted/small.yaml", "scripted/m.yaml"]
    assert [choose("TEXT_LARGE").name for choose in (followed, fixed)] == ["scripted/m.yaml"] * 2
    assert followed(None).name == "scripted/m.yaml"


async def test_what_was_recorded_is_replayed_without_the_model(project):
    script = project.write("m.yaml", SCRIPT)
    options = RunOptions(record=Path("tape"))
    tape = Tape(options, Redactor(()))
    made = tape.model("scripted/m.yaml", lambda: get(project, project.models(), "scripted/m.yaml"))
    answer = await made.attempt(REQUEST, zero=time.perf_counter())
    tape.close()
    script.unlink()

    def build():
        raise AssertionError("a replayed model is never built")

    replayed = Tape(RunOptions(replay=Path("tape")), Redactor(())).model("scripted/m.yaml", build)
    again = await replayed.attempt(REQUEST, zero=time.perf_counter())
    assert (again.text, again.source) == (answer.text, "replayed")


def test_recording_and_replaying_exclude_each_other():
    with pytest.raises(SetupError, match="cannot be used together"):
        Tape(RunOptions(record=Path("a"), replay=Path("b")), Redactor(()))
