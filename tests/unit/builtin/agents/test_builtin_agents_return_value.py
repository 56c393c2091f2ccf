from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from steadyhand.builtin.agents.return_value import read_returned
from steadyhand.errors import AgentError
from steadyhand.ports.agent import Reply
from support.agents import turn

ASKED = {"role": "user", "content": "Where is A-1?"}


def _chat_call(name: str, arguments: str, number: str = "c1") -> dict[str, Any]:
    called = {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [called]}


def _told(value: Any, *said: str) -> list[tuple[Any, ...]]:
    found = read_returned(value, turn(*(said or ("Where is A-1?",))))
    return [(s.kind, s.content) if s.kind == "thought" else _step(s) for s in found.steps]


def _step(step: Any) -> tuple[Any, ...]:
    if step.kind == "call":
        return ("call", step.name, step.params)
    return ("result", step.name, step.content, "failed" if step.failed else "ok")


def test_an_openai_message_list_becomes_calls_and_results_in_order():
    value = [
        {"role": "system", "content": "You are a desk."},
        ASKED,
        _chat_call("find_order", '{"number": "A-1"}'),
        {"role": "tool", "tool_call_id": "c1", "content": "on its way"},
        _chat_call("notify", "", "c2"),
        {"role": "tool", "tool_call_id": "c2", "content": "done"},
        {"role": "assistant", "content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "on its way."}]},
    ]
    assert read_returned(value, turn("Where is A-1?")).reply.text == "It is on its way."
    assert _told(value) == [
        ("call", "find_order", {"number": "A-1"}),
        ("result", "find_order", "on its way", "ok"),
        ("call", "notify", {}),
        ("result", "notify", "done", "ok"),
    ]


def test_results_of_calls_made_at_once_find_their_own_call():
    value = [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": n, "name": "look", "arguments": {"n": n}} for n in ("a", "b")],
        },
        {"role": "tool", "tool_call_id": "b", "content": "second"},
        {"role": "tool", "tool_call_id": "a", "content": "first", "status": "error"},
        {"role": "assistant", "content": "Both."},
    ]
    steps = read_returned(value, turn("hi")).steps
    assert [(s.kind, s.id, s.failed) for s in steps] == [
        ("call", "a", None),
        ("call", "b", None),
        ("result", "b", None),
        ("result", "a", True),
    ]


EARLIER = [
    ASKED,
    _chat_call("refund", '{"number": "A-1"}'),
    {"role": "tool", "tool_call_id": "c1", "content": "refunded"},
    {"role": "assistant", "content": "Refunded."},
]


def test_what_an_agent_remembers_of_earlier_turns_is_not_done_again():
    value = [*EARLIER, {"role": "user", "content": "Thanks"}, {"role": "assistant", "content": "Bye."}]
    assert _told(value, "Where is A-1?", "Refunded.", "Thanks") == []


def test_a_call_with_the_id_of_an_earlier_one_counts():
    value = [*EARLIER, {"role": "user", "content": "Again"}, *EARLIER[1:]]
    assert _told(value, "Where is A-1?", "Refunded.", "Again")[0] == ("call", "refund", {"number": "A-1"})


def test_what_an_agent_did_before_it_spoke_to_itself_counts():
    """A message with the user's role in the middle of a turn does not begin another one."""
    value = [*EARLIER[:3], {"role": "user", "content": "Now say it kindly."}, {"role": "assistant", "content": "Done."}]
    assert _told(value)[0] == ("call", "refund", {"number": "A-1"})
    again = [*EARLIER[:3], ASKED, {"role": "assistant", "content": "Done."}]
    assert _told(again)[0] == ("call", "refund", {"number": "A-1"})


def test_the_same_words_of_the_user_begin_the_turn_they_are_said_in():
    value = [*EARLIER, ASKED, _chat_call("find_order", "{}", "c2"), {"role": "assistant", "content": "There."}]
    assert _told(value, "Where is A-1?", "Refunded.", "Where is A-1?") == [("call", "find_order", {})]


def test_a_question_in_the_agents_own_words_counts_everything():
    value = [{"role": "user", "content": "Customer says: Where is A-1?"}, *EARLIER[1:]]
    assert [step[0] for step in _told(value)] == ["call", "result"]


def test_anthropic_messages_are_read():
    use = {"type": "tool_use", "id": "t1", "name": "find_order", "input": {"number": "A-1"}}
    back = {"type": "tool_result", "tool_use_id": "t1", "content": "gone", "is_error": True}
    value = [
        ASKED,
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Look it up."}, use]},
        {"role": "user", "content": [back]},
        {"role": "assistant", "content": "It is gone."},
    ]
    assert _told(value) == [
        ("thought", "Look it up."),
        ("call", "find_order", {"number": "A-1"}),
        ("result", "find_order", "gone", "failed"),
    ]


def test_items_of_the_responses_api_are_read():
    value = [
        ASKED,
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}, {"type": "text", "text": "Look."}]},
        {"type": "function_call", "call_id": "c1", "name": "find_order", "arguments": '{"number": "A-1"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "on its way"},
        {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"query": "A-1"}},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "On its way."}]},
    ]
    assert _told(value)[1:] == [
        ("call", "find_order", {"number": "A-1"}),
        ("result", "find_order", "on its way", "ok"),
        ("call", "web_search", {"action": {"query": "A-1"}}),
    ]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (7, "it returned a int; expected a text, "),
        ([], "a list of messages that ends with nothing"),
        ([ASKED], "ends with nothing; expected the assistant's reply"),
        ([ASKED, {"role": "assistant", "content": "x"}, "y"], "entry 3 of the list it returned is a str"),
        ([{"role": "narrator", "content": "x"}], "has the unknown role 'narrator'"),
        ([{"type": "teleport", "x": 1}], "has the unknown type 'teleport' (its keys: type, x)"),
        ([{"speaker": "me"}], "has no role (its keys: speaker)"),
        ([{"role": "tool", "tool_call_id": "c9", "content": "x"}], "the result of a tool call (c9) without the call"),
        ({"messages": EARLIER, "__interrupt__": ["?"]}, "it is waiting for a person (the graph was interrupted)"),
        ({"messages": EARLIER[:3]}, "ends with a message of 'tool'"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_it(value, named):
    with pytest.raises(AgentError) as caught:
        read_returned(value, turn("Where is A-1?"))
    assert named in str(caught.value)


def test_the_rest_of_a_graphs_state_is_mentioned():
    found = read_returned({"messages": EARLIER, "order": "A-1", "empty": []}, turn("Where is A-1?"))
    assert found.notes == ("the state that the agent returned also has order; only its messages were read",)


# The shapes of run results. What the frameworks really return is tested in tests/cli/test_cli_frameworks.py.


@dataclass
class _Part:
    part_kind: str
    content: Any = None
    tool_name: str | None = None
    args: Any = None
    tool_call_id: str = ""
    outcome: str = "success"


@dataclass
class _Result:
    output: Any
    parts: list[_Part] = field(default_factory=list)
    _output_tool_name: str | None = None

    def new_messages(self) -> list[Any]:
        return [SimpleNamespace(parts=self.parts)]


def test_a_call_whose_arguments_the_framework_refused_is_an_action_that_failed():
    parts = [
        _Part("tool-call", tool_name="find_order", args="{number:", tool_call_id="1"),
        _Part("retry-prompt", content="bad JSON", tool_name="find_order", tool_call_id="1"),
        _Part("file"),
    ]
    found = read_returned(_Result(output={"a": 1}, parts=parts), turn("hi"))
    assert found.reply.text == '{"a":1}'
    assert (found.steps[0].params, found.steps[0].status) == ({"unreadable_arguments": "{number:"}, "invalid")
    assert found.notes == ("the run result has a file, which is not an action",)
    with pytest.raises(AgentError, match="a part of the unknown kind 'hologram'"):
        read_returned(_Result(output="x", parts=[_Part("hologram")]), turn("hi"))


def test_the_tool_that_carries_the_output_is_the_reply_and_no_action():
    parts = [_Part("tool-call", tool_name="final_result", args={"a": 1}, tool_call_id="1")]
    assert read_returned(_Result({"a": 1}, parts, "final_result"), turn("hi")).steps == ()
    assert len(read_returned(_Result({"a": 1}, parts), turn("hi")).steps) == 1


def test_items_of_a_run_say_which_agent_they_are_of():
    item = SimpleNamespace(
        type="tool_call_item",
        agent=SimpleNamespace(name="Refunds"),
        raw_item={"type": "function_call", "call_id": "c", "name": "refund", "arguments": "{}"},
    )
    found = read_returned(SimpleNamespace(new_items=[item], final_output="Done."), turn("hi"))
    assert [(step.name, step.agent) for step in found.steps] == [("refund", "Refunds")]
    with pytest.raises(AgentError, match="needs approval"):
        read_returned(SimpleNamespace(new_items=[], final_output=None, interruptions=["?"]), turn("hi"))


def _ended_as_message(word: str) -> Any:
    return [ASKED, {"role": "assistant", "content": "I am", "finish_reason": word}]


def _ended_in_metadata(word: str) -> Any:
    return {"messages": [{"type": "ai", "content": "I am", "response_metadata": {"stop_reason": word}}]}


def _ended_in_a_run(word: str) -> Any:
    @dataclass
    class Result(_Result):
        def new_messages(self) -> list[Any]:
            return [SimpleNamespace(kind="response", finish_reason=word, parts=self.parts)]

    return Result(output="I am")


def _ended_as_item(word: str) -> Any:
    raw = {"type": "message", "role": "assistant", "status": "incomplete", "incomplete_details": {"reason": word}}
    return SimpleNamespace(
        new_items=[SimpleNamespace(type="message_output_item", raw_item=raw)], final_output="I am", interruptions=()
    )


@pytest.mark.parametrize("made", [_ended_as_message, _ended_in_metadata, _ended_in_a_run, _ended_as_item])
def test_how_the_answers_in_a_returned_value_ended_counts(made):
    for word in ("content_filter", "SAFETY", "error"):
        with pytest.raises(AgentError, match=rf"\({word}\), according to the messages it returned"):
            read_returned(made(word), turn(ASKED["content"]))
    cut = read_returned(made("max_tokens"), turn(ASKED["content"]))
    assert cut.reply.text == "I am"
    assert cut.warnings == ("the answer was cut off by the model's own token limit (max_tokens); graded as received",)
    assert read_returned(made("end_turn"), turn(ASKED["content"])).warnings == ()


def test_how_long_it_took_is_not_the_agents_to_say():
    found = read_returned(Reply(text="Done.", duration_ms=1.0), turn("hi"))
    assert found.reply == Reply(text="Done.")
    assert found.warnings == ("the `duration_ms` of its Reply is not used: its turn is timed here",)
    assert read_returned(Reply(text="Done."), turn("hi")).warnings == ()


def test_only_the_answers_of_this_turn_count():
    earlier = {"role": "assistant", "content": "No.", "finish_reason": "content_filter"}
    value = [{"role": "user", "content": "Hi"}, earlier, ASKED, {"role": "assistant", "content": "Here."}]
    assert read_returned(value, turn("Hi", "No.", ASKED["content"])).reply.text == "Here."


BEDROCK = [
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "look", "input": {"n": 1}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "1", "status": "error", "content": [{"text": "no"}]}}]},
    {"role": "assistant", "content": [{"text": "Sorry."}]},
]
GEMINI = [
    {"role": "model", "content": [{"function_call": {"id": "1", "name": "look", "args": {"n": 1}}, "text": None}]},
    {"role": "user", "content": [{"function_response": {"id": "1", "name": "look", "response": {"error": "no"}}}]},
    {"role": "model", "content": [{"text": "Sorry.", "function_call": None}]},
]
HAYSTACK_CALL = {"tool_name": "look", "arguments": {"n": 1}, "id": "1"}
HAYSTACK = [
    {"role": "assistant", "content": [{"tool_call": HAYSTACK_CALL}]},
    {"role": "tool", "content": [{"tool_call_result": {"result": "no", "origin": HAYSTACK_CALL, "error": True}}]},
    {"role": "assistant", "content": [{"text": "Sorry."}]},
]


@pytest.mark.parametrize("messages", [BEDROCK, GEMINI, HAYSTACK], ids=["bedrock", "gemini", "haystack"])
def test_parts_without_a_type_are_told_by_their_key(messages):
    found = read_returned(messages, turn("hi"))
    assert found.reply.text == "Sorry."
    assert [(step.kind, step.name, step.params or step.failed) for step in found.steps] == [
        ("call", "look", {"n": 1}),
        ("result", "look", True),
    ]


def test_a_part_of_an_unknown_type_is_an_error():
    with pytest.raises(AgentError, match=r"a part of the unknown type 'hologram'"):
        read_returned([{"role": "assistant", "content": [{"hologram": {"x": 1}}, {"text": "Hi."}]}], turn("hi"))
