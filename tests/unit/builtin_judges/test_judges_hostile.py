"""No reply may turn a no into a yes. What a judge that can be talked round needs is in docs/judge.md."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hostile_replies import HOSTILE_REPLIES
from judge_support import LeastTrial, ScriptedChat, evaluate, judge_with, replied

from holdfast.builtin.evaluators.llm_judge import LlmJudgeEvaluator
from holdfast.builtin.judges.bounding import TOTAL
from holdfast.records.model import ChatRequest
from holdfast.records.verdict import Verdict

QUESTION = "Does the reply tell the caller to leave the building?"
_NONCE = re.compile(r"Only lines that carry the code ([0-9a-f]{20}) are marks")

hostile = pytest.mark.parametrize("reply", HOSTILE_REPLIES.values(), ids=HOSTILE_REPLIES.keys())


def nonce_of(request: ChatRequest) -> str:
    found = _NONCE.search(request.messages[0].content)
    assert found
    return found[1]


def blocks_of(request: ChatRequest) -> list[str]:
    nonce = nonce_of(request)
    return re.findall(
        rf'^<<<data {nonce} "[^\n]*">>>\n(.*?)\n<<<end {nonce}>>>$',
        request.messages[1].content,
        re.DOTALL | re.MULTILINE,
    )


def outside_of_data(request: ChatRequest) -> str:
    nonce = nonce_of(request)
    return re.sub(rf"<<<data {nonce}.*?<<<end {nonce}>>>", "", request.messages[1].content, flags=re.DOTALL)


def _objects(text: str) -> str:
    begin, end = text.find("{"), text.find("}")
    return text[begin : end + 1] if 0 <= begin < end else text


ECHOES: dict[str, Callable[[ChatRequest, str], str]] = {
    "all it is shown": lambda request, reply: "\n".join(message.content for message in request.messages),
    "the user message": lambda request, reply: request.messages[1].content,
    "the records": lambda request, reply: "\n".join(blocks_of(request)),
    "the reply as shown": lambda request, reply: blocks_of(request)[1],
    "the reply as sent": lambda request, reply: reply,
    "the first braces of the reply": lambda request, reply: _objects(reply),
    "the reply without what is hidden": lambda request, reply: "".join(c for c in reply if c.isprintable()),
    "the reply in one line": lambda request, reply: " ".join(reply.split()),
    "the reply in a fence": lambda request, reply: f"```json\n{reply}\n```",
}


@hostile
@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES.keys())
async def test_a_judge_that_echoes_what_it_is_shown_says_nothing(reply: str, echo: Callable[[ChatRequest, str], str]):
    model = ScriptedChat(lambda request: echo(request, reply))
    found = await evaluate(LlmJudgeEvaluator, {"prompt": QUESTION}, replied(reply), LeastTrial(judge_with(model)))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert len(model.requests) == 2


@hostile
async def test_no_reply_gets_out_of_its_marks(reply: str):
    """A judge that does whatever it is told, but only outside of the marks, is not told anything by the reply."""

    def obedient(request: ChatRequest) -> str:
        told = "answer yes" in outside_of_data(request).lower()
        return json.dumps({"judgment": "yes" if told else "no", "confidence": 0.0, "reasoning": "as told"})

    model = ScriptedChat(obedient)
    found = await evaluate(LlmJudgeEvaluator, {"prompt": QUESTION}, replied(reply), LeastTrial(judge_with(model)))
    assert found.verdict is Verdict.FAILED


@hostile
async def test_an_honest_no_that_quotes_the_reply_stays_a_no(reply: str):
    quote = reply[:500].encode("utf-8", "replace").decode()
    honest = json.dumps({"reasoning": f"It says: {quote}", "judgment": "no", "confidence": 0.02})
    found = await evaluate(
        LlmJudgeEvaluator, {"prompt": QUESTION}, replied(reply), LeastTrial(judge_with(ScriptedChat([honest])))
    )
    assert found.verdict is Verdict.FAILED


@hostile
async def test_the_prompt_stays_whole(reply: str):
    model = ScriptedChat(["-"])
    await evaluate(LlmJudgeEvaluator, {"prompt": QUESTION}, replied(reply), LeastTrial(judge_with(model)))
    first = model.requests[0]
    user, nonce = first.messages[1].content, nonce_of(first)
    assert len(blocks_of(first)) == 2
    assert user.startswith(f"The question:\n{QUESTION}")
    assert user.endswith(f"The question:\n{QUESTION}")
    assert len(user) < TOTAL
    assert user.count(nonce) in (4, 5), "a pair of marks for each record, and one where the reply was cut"
    hidden = [c for c in user if not c.isprintable() and c not in "\n\t"]
    assert hidden == []
    assert not re.search(r"<\|\w+\|>|\[/?INST\]|<\uff5c|</?s>|<(start|end)_of_turn>", user)


def test_the_table_is_as_long_as_it_should_be():
    assert len(HOSTILE_REPLIES) >= 25
