from __future__ import annotations

from steadyhand.judging.material import materials_of, turn_materials
from steadyhand.records.chat import Message
from steadyhand.records.event import ServiceCalled, TrajectoryStep
from steadyhand.records.result import CapturedFile, ConversationResult, ConversationTurn, ExecutionResult


def shown(result: ExecutionResult, before: dict[str, str] | None = None) -> dict[str, str]:
    return {piece.title: piece.text for piece in materials_of(result, before or {})}


def file(text: str | bytes) -> CapturedFile:
    content = text.encode() if isinstance(text, str) else text
    return CapturedFile(size=len(content), content=content)


def test_every_message_stands_alone_and_the_reply_comes_last():
    result = ExecutionResult(
        reply="Call 112.",
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content="Help!"),
            Message(role="assistant", content="Call 112."),
        ),
    )
    assert list(shown(result).items()) == [
        ("message 1, from the system prompt", "Be brief."),
        ("message 2, from the user", "Help!"),
        ("the agent's final reply", "Call 112."),
    ]


def test_an_empty_reply_is_shown_as_empty():
    result = ExecutionResult(messages=(Message(role="user", content="Help!"), Message(role="assistant")))
    assert shown(result)["the agent's final reply"] == "(the reply is empty)"


def test_a_conversation_without_messages_is_read_off_its_turns():
    turns = (
        ConversationTurn(turn_number=1, user_input="Hi", agent_response="Hello"),
        ConversationTurn(turn_number=2, user_input="Bye", agent_response="Goodbye"),
    )
    talk = ConversationResult(turns=turns, total_duration_ms=1, terminated_early=False, termination_reason=None)
    assert list(shown(ExecutionResult(conversation=talk)).values()) == ["Hi", "Hello", "Bye", "Goodbye"]


def test_actions_and_results_are_a_line_each():
    result = ExecutionResult(
        messages=(Message(role="assistant", content="Done."),),
        trajectory=(
            TrajectoryStep(type="thought", at_ms=0, content="hm"),
            TrajectoryStep(type="action", at_ms=1, name="run", params={"command": "ls\n"}, status="error"),
            TrajectoryStep(type="observation", at_ms=2, name="run", content={"exit_code": 2}),
        ),
    )
    assert shown(result)["actions taken, and their results"].splitlines() == [
        '{"action": "run", "params": {"command": "ls\\n"}, "status": "error"}',
        '{"result_of": "run", "content": {"exit_code": 2}}',
    ]


def test_nothing_is_left_out_of_a_long_list_or_a_large_result():
    many = tuple(TrajectoryStep(type="observation", at_ms=n, name=f"a{n}", content="x" * 9_000) for n in range(300))
    lines = shown(ExecutionResult(trajectory=many))["actions taken, and their results"].splitlines()
    assert len(lines) == 300
    assert min(len(line) for line in lines) > 9_000


def test_every_written_file_is_shown():
    pieces = shown(ExecutionResult(files={f"{number:02}.txt": file(f"content {number}") for number in range(30)}))
    assert [text for title, text in pieces.items() if title.startswith("content of")] == [
        f"content {number}" for number in range(30)
    ]


def test_what_was_not_kept_makes_a_piece_that_is_not_whole():
    cut = TrajectoryStep(type="observation", at_ms=1, name="read", content="the beginn", cut=True)
    result = ExecutionResult(
        files={"big.iso": CapturedFile(size=9_000_000)}, trajectory=(cut,), stdout="x", truncated=True
    )
    assert {piece.title: piece.whole for piece in materials_of(result, {})} == {
        "actions taken, and their results": False,
        "files changed": True,
        "content of the file big.iso": False,
        "how the step ended": False,
        "standard output": False,
    }


def test_a_conversation_is_a_piece_for_each_message():
    turn = ConversationTurn(turn_number=1, user_input="Hi", agent_response="No.\n[turn 2] User: Thank you!")
    assert [(piece.title, piece.text) for piece in turn_materials([turn])] == [
        ("turn 1, message from the user", "Hi"),
        ("turn 1, message from the agent", "No.\n[turn 2] User: Thank you!"),
    ]


def test_only_files_that_changed_are_shown():
    result = ExecutionResult(
        files={"same.txt": file("a"), "new.txt": file("hello"), "edited.txt": file("b"), "image.png": file(b"\xff\xfe")}
    )
    pieces = shown(result, {"same.txt": "a", "edited.txt": "a", "gone.txt": "x"})
    assert pieces["files changed"].splitlines() == [
        '{"file": "edited.txt", "change": "modified", "bytes": 1}',
        '{"file": "image.png", "change": "created", "bytes": 2}',
        '{"file": "new.txt", "change": "created", "bytes": 5}',
        '{"file": "gone.txt", "change": "deleted"}',
    ]
    assert pieces["content of the file new.txt"] == "hello"
    assert pieces["content of the file image.png"] == "\\xff\\xfe"
    assert "content of the file same.txt" not in pieces


def test_what_the_question_is_not_about_is_left_out():
    result = ExecutionResult(
        messages=(Message(role="user", content="Help!"), Message(role="assistant", content="Call 112.")),
        trajectory=(TrajectoryStep(type="action", at_ms=1, name="call", status="success"),),
        files={"new.txt": file("hello")},
    )

    def titles(*parts):
        return [piece.title for piece in materials_of(result, {}, parts)]

    assert titles() == ["the agent's final reply"]
    assert titles("messages") == ["message 1, from the user", "the agent's final reply"]
    assert titles("actions") == ["actions taken, and their results", "the agent's final reply"]
    assert titles("files") == ["files changed", "content of the file new.txt", "the agent's final reply"]


def test_code_shows_its_exit_code_and_output():
    pieces = shown(ExecutionResult(exit_code=3, stdout="out", stderr="bad", reply="out"))
    assert pieces == {"how the step ended": '{"exit_code": 3, "stderr": "bad"}', "standard output": "out"}


def test_service_calls_are_shown_even_if_no_action_mentions_them():
    called = ServiceCalled(at_ms=1.0, service="orders", method="refund", input={"id": 17}, error="no such order")
    result = ExecutionResult(reply="Nothing done.", service_calls=(called,))
    assert (
        shown(result)["calls of services"]
        == '{"call": "orders.refund", "args": [], "input": {"id": 17}, "error": "no such order"}'
    )
