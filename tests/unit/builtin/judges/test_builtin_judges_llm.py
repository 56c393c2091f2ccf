from __future__ import annotations

import asyncio

import pytest

from steadyhand.builtin.judges.llm import LlmJudge
from steadyhand.errors import LimitExceeded, ModelError, SetupError
from steadyhand.ports.agent import Material, NoJudgement, Question
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.testing import ScriptedChatModel
from support.judges import LeastTrial, answer, judge_model, judge_with


def ask(**more: object) -> Question:
    return Question(prompt="Is it polite?", materials=(Material(title="reply", text="Good day."),), **more)


def refused(message: str = "response_format is not supported") -> ModelError:
    return ModelError(message, kind="refused", status=400)


async def test_a_plain_answer():
    model = judge_model([answer("yes", 0.9, "it greets")])
    found = await judge_with(model).ask(ask(), LeastTrial())
    assert (found.judgment, found.confidence, found.reasoning) == ("yes", 0.9, "it greets")
    note = found.note
    assert (note.model, note.raw, note.repaired, note.votes) == (
        "test/judge",
        answer("yes", 0.9, "it greets"),
        False,
        (),
    )
    assert len(note.prompt_hash) == 16
    request = model.requests[0]
    assert request.purpose == "judge"
    assert request.temperature == 0.0
    assert request.json_schema is not None


@pytest.mark.parametrize("temperature", [0, 0.0, 0.7, 2.0])
async def test_the_temperature_reaches_the_model(temperature: float):
    model = judge_model([answer()])
    await judge_with(model).ask(ask(temperature=temperature), LeastTrial())
    assert model.requests[0].temperature == temperature


async def test_limits_reach_the_model():
    model = judge_model([answer()])
    await judge_with(model, max_tokens=300, timeout_s=12.5).ask(ask(), LeastTrial())
    assert (model.requests[0].max_tokens, model.requests[0].timeout_s) == (300, 12.5)


async def test_the_model_type_picks_the_model():
    small, large = judge_model([answer()], "test/small"), judge_model([answer()], "test/large")
    judge = LlmJudge(lambda kind: large if kind == "TEXT_LARGE" else small, name="test/small", tested="test/small")
    first = await judge.ask(ask(model_type="TEXT_LARGE"), LeastTrial())
    second = await judge.ask(ask(), LeastTrial())
    assert (first.note.model, first.note.self_judged) == ("test/large", False)
    assert (second.note.model, second.note.self_judged) == ("test/small", True)


async def test_a_model_that_cannot_be_built_gives_no_judgement():
    def missing(kind: str | None) -> ScriptedChatModel:
        raise SetupError("OPENAI_API_KEY is not set")

    with pytest.raises(NoJudgement, match="OPENAI_API_KEY is not set"):
        await LlmJudge(missing, name="openai/gpt").ask(ask(), LeastTrial())


async def test_one_repair_attempt_shows_the_error_and_the_answer():
    model = judge_model(["It is polite, I think.", answer("no", 0.2)])
    found = await judge_with(model).ask(ask(), LeastTrial())
    assert found.judgment == "no"
    assert found.note.repaired
    assert "It is polite, I think." in found.note.raw
    assert answer("no", 0.2) in found.note.raw
    again = model.requests[1].messages[-1].content
    assert "could not be used: it contains no JSON object" in again
    assert "It is polite, I think." in again
    assert [message.role for message in model.requests[1].messages] == ["system", "user"]


async def test_a_repair_may_settle_on_one_of_its_own_first_answers():
    model = judge_model([f"{answer('no', 0.2)} or {answer('yes')}", answer("no", 0.2)])
    assert (await judge_with(model).ask(ask(), LeastTrial())).judgment == "no"


async def test_after_two_unreadable_answers_there_is_no_judgement():
    model = judge_model(["hm", "well", answer()])
    with pytest.raises(NoJudgement, match="no usable answer, even when asked again") as caught:
        await judge_with(model).ask(ask(), LeastTrial())
    assert len(model.requests) == 2
    assert caught.value.note is not None
    assert "hm" in caught.value.note.raw
    assert "well" in caught.value.note.raw


async def test_an_outage_gives_no_judgement():
    model = judge_model([ModelError("connection refused by test", kind="connect")])
    with pytest.raises(NoJudgement, match="could not be reached: connection refused by test"):
        await judge_with(model).ask(ask(), LeastTrial())
    assert len(model.requests) == 1


def modes(model: ScriptedChatModel) -> list[str]:
    return ["schema" if request.json_schema else "json" if request.json_mode else "text" for request in model.requests]


async def test_what_a_server_refuses_is_not_tried_again():
    model = judge_model(lambda request: refused() if request.json_schema else answer())
    judge = judge_with(model)
    await judge.ask(ask(), LeastTrial())
    await judge.ask(ask(), LeastTrial())
    assert modes(model) == ["schema", "json", "json"]


async def test_plain_text_is_the_last_resort():
    model = judge_model(lambda request: refused() if request.json_schema or request.json_mode else answer())
    judge = judge_with(model)
    await judge.ask(ask(), LeastTrial())
    await judge.ask(ask(), LeastTrial())
    assert modes(model) == ["schema", "json", "text", "text"]


async def test_a_refused_schema_of_one_scenario_does_not_spoil_ours():
    own = {"type": "object", "properties": {"judgment": {"type": "string"}, "x": {"const": 1}}}
    model = judge_model(
        lambda request: refused() if request.json_schema and "x" in request.json_schema["properties"] else answer()
    )
    judge = judge_with(model)
    await judge.ask(ask(json_schema=own), LeastTrial())
    await judge.ask(ask(), LeastTrial())
    assert modes(model) == ["schema", "json", "schema"]


async def test_a_refusal_of_everything_is_not_remembered():
    model = judge_model([refused("too long"), refused("too long"), refused("too long"), answer()])
    judge = judge_with(model)
    with pytest.raises(NoJudgement, match="too long"):
        await judge.ask(ask(), LeastTrial())
    await judge.ask(ask(), LeastTrial())
    assert modes(model) == ["schema", "json", "text", "schema"]


async def test_another_failure_is_not_taken_for_a_refusal():
    model = judge_model([ModelError("overloaded", kind="server", status=503), answer()])
    with pytest.raises(NoJudgement, match="overloaded"):
        await judge_with(model).ask(ask(), LeastTrial())
    assert modes(model) == ["schema"]


def by_seed(*lines: str | ModelError) -> ScriptedChatModel:
    """Each vote has its own seed; a repair has its vote's."""
    return judge_model(lambda request: lines[(request.seed or 0) - 7])


async def test_the_majority_of_votes_decides():
    model = by_seed(answer("yes", 0.8), answer("no", 0.1), answer("yes", 0.6, "second"))
    found = await judge_with(model).ask(ask(votes=3), LeastTrial())
    assert found.judgment == "yes"
    assert found.confidence == pytest.approx(0.7)
    assert found.note.votes == ("yes", "no", "yes")
    assert len(model.requests) == 3


async def test_the_default_number_of_votes():
    model = judge_model([answer()])
    await judge_with(model, default_votes=3).ask(ask(), LeastTrial())
    await judge_with(model, default_votes=3).ask(ask(votes=1), LeastTrial())
    assert len(model.requests) == 4


async def test_a_tie_is_not_a_judgement():
    with pytest.raises(NoJudgement, match="no majority among the judge's 2 votes: 1 'yes', 1 'no'") as caught:
        await judge_with(by_seed(answer("yes"), answer("no"))).ask(ask(votes=2), LeastTrial())
    assert caught.value.note is not None
    assert caught.value.note.votes == ("yes", "no")


@pytest.mark.parametrize("lost", ["hm", ModelError("down", kind="server")])
async def test_an_abstention_counts_against_the_majority(lost: str | ModelError):
    judge = judge_with(by_seed(answer("yes"), lost, lost))
    with pytest.raises(NoJudgement, match="no majority among the judge's 3 votes: 1 'yes', 2 abstained"):
        await judge.ask(ask(votes=3), LeastTrial())
    found = await judge_with(by_seed(answer("yes"), lost, answer("yes"))).ask(ask(votes=3), LeastTrial())
    assert found.note.votes == ("yes", "abstained", "yes")


async def test_a_plurality_is_not_a_majority():
    judge = judge_with(by_seed(answer("yes"), answer("yes"), answer("no"), "hm"))
    with pytest.raises(NoJudgement, match="2 'yes', 1 'no', 1 abstained"):
        await judge.ask(ask(votes=4), LeastTrial())


async def test_a_capability_needs_a_majority_of_its_own():
    def vote(greets: bool, explains: bool) -> str:
        entries = [
            {"capability": "greets", "achieved": greets, "reasoning": ""},
            {"capability": "explains", "achieved": explains, "reasoning": ""},
        ]
        return answer("yes", capabilities=entries)

    judge = judge_with(by_seed(vote(True, False), vote(True, True), vote(False, False)))
    found = await judge.ask(ask(votes=3, capabilities=("greets", "explains")), LeastTrial())
    assert found.achieved == {"greets": True, "explains": False}
    assert found.note.capabilities == found.achieved


async def test_votes_are_asked_for_at_once():
    everybody = asyncio.Barrier(3)

    class Meeting(LeastTrial):
        async def call(self, model: ScriptedChatModel, request: ChatRequest) -> ChatResponse:
            await everybody.wait()
            return await super().call(model, request)

    found = await judge_with(judge_model([answer()])).ask(ask(votes=3), Meeting())
    assert found.note.votes == ("yes", "yes", "yes")


async def test_what_is_not_the_models_fault_is_raised_as_it_is():
    class Limited(LeastTrial):
        async def call(self, model: ScriptedChatModel, request: ChatRequest) -> ChatResponse:
            raise LimitExceeded("tokens", used=11, allowed=10, unit="tokens")

    with pytest.raises(LimitExceeded):
        await judge_with(judge_model([answer()])).ask(ask(votes=3), Limited())


async def test_a_long_answer_is_kept_in_part():
    model = judge_model(["x" * 100_000])
    with pytest.raises(NoJudgement) as caught:
        await judge_with(model).ask(ask(), LeastTrial())
    assert caught.value.note is not None
    assert len(caught.value.note.raw) < 21_000
