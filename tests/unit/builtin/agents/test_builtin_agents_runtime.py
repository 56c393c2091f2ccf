from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from steadyhand.builtin.agents.runtime import RuntimeAgent
from steadyhand.errors import LimitExceeded, MockError, PluginError, SetupError
from steadyhand.plugins.plugin import AgentSettings, Plugin
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import Turn
from steadyhand.ports.services import ActionContext, ServiceFault
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message, ToolCall
from steadyhand.records.event import ActionTaken, Noted, Observed, ServiceCalled, Thought, ToolsOffered
from steadyhand.records.scenario import Character, Mock, MockFault, MockWhen
from steadyhand.runtime.runtime import AgentRuntime
from steadyhand.testing import ScriptedChatModel
from steadyhand.text_match import search_limit
from support.trial import HERE, ListedMocks, TrialStandIn, a_scenario, calls, says

USER = Message(role="user", content="please")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def refuse(why: str) -> None:
    raise ServiceFault(why, code="NO", status=403)


def broken() -> None:
    raise KeyError("bug")


PLUGIN = Plugin(name="sums", actions={"add": add, "refuse": refuse, "broken": broken})


class Played:
    """An agent opened in its own trial."""

    def __init__(
        self,
        folder: Path,
        *answers: Any,
        mocks: tuple[Mock, ...] = (),
        plugin: Plugin = PLUGIN,
        live: bool = False,
        sandboxed: bool = False,
        character: Character | None = None,
        **options: Any,
    ) -> None:
        self.model = ScriptedChatModel(answers)
        self.trial = TrialStandIn(folder, a_scenario(mocks=mocks, character=character), live=live)
        self.trial.environment.sandboxed = sandboxed
        registry = Registry([plugin])
        self.trial.services = AgentRuntime(
            mocks=ListedMocks(mocks), actions=registry.actions(), services=registry.services()
        )
        self.agent = RuntimeAgent(AgentSettings(model=self.model, folder=folder, options=options))

    async def open(self) -> Played:
        assert self.trial.services is not None
        await self.trial.services.open(self.trial)
        await self.agent.open(self.trial)
        return self

    async def turn(self, *messages: Message) -> str:
        return (await self.agent.respond(Turn(messages=messages or (USER,)))).text

    @property
    def tools(self) -> list[str]:
        return [tool.name for tool in self.model.requests[0].tools]

    def told(self, request: int = -1) -> list[str]:
        """What the tools answered in the last round before a request."""
        found: list[str] = []
        for message in reversed(self.model.requests[request].messages):
            if message.role != "tool":
                break
            found.insert(0, message.content)
        return found


async def test_a_tool_loop(tmp_path: Path):
    played = await Played(tmp_path, calls(("add", {"a": 2, "b": 3}), text="Let me see."), says("It is 5.")).open()
    assert await played.turn() == "It is 5."
    first, second = played.model.requests
    assert [message.role for message in first.messages] == ["system", "user"]
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]
    assert second.messages[2] == Message(
        role="assistant",
        content="Let me see.",
        tool_calls=(ToolCall(id="c0", name="add", arguments={"a": 2, "b": 3}),),
    )
    assert second.messages[3] == Message(role="tool", content="5", tool_call_id="c0", name="add")
    assert (first.purpose, first.seed) == ("agent", 7)
    (taken,) = played.trial.of(ActionTaken)
    (observed,) = played.trial.of(Observed)
    assert (taken.name, taken.params, taken.status) == ("add", {"a": 2, "b": 3}, "success")
    assert (observed.action_id, observed.name, observed.content) == (taken.id, "add", 5)
    assert [thought.text for thought in played.trial.of(Thought)] == ["Let me see."]


async def test_calls_run_side_by_side_and_are_answered_in_order(tmp_path: Path):
    meeting = asyncio.Barrier(2)

    async def meet(name: str) -> str:
        await meeting.wait()
        if name == "first":
            await asyncio.sleep(0.01)
        return name

    plugin = Plugin(name="p", actions={"meet": meet})
    wanted = calls(("meet", {"name": "first"}), ("meet", {"name": "second"}))
    played = await Played(tmp_path, wanted, says("ok"), plugin=plugin).open()
    await played.turn()
    assert played.told() == ["first", "second"]
    assert len({taken.id for taken in played.trial.of(ActionTaken)}) == 2


async def test_calls_without_ids_are_told_apart(tmp_path: Path):
    unnamed = [ToolCall(id="", name="add", arguments={"a": 1, "b": n}) for n in (1, 2)]
    played = await Played(tmp_path, calls(*unnamed), says("ok")).open()
    await played.turn()
    messages = played.model.requests[-1].messages
    ids = [call.id for call in messages[2].tool_calls]
    assert len(set(ids)) == 2
    assert [message.tool_call_id for message in messages[3:]] == ids


async def test_what_goes_wrong_is_handed_back(tmp_path: Path):
    played = await Played(
        tmp_path,
        calls(
            ("refuse", {"why": "not yours"}),
            ("nothing", {}),
            ("add", {"a": "two"}),
            ToolCall(id="c3", name="add", raw='{"a": 2'),
            ("read_file", {"path": "../secret"}),
            ("read_file", {"path": "missing.txt"}),
        ),
        says("I could not."),
    ).open()
    assert await played.turn() == "I could not."
    refused, unknown, misfit, malformed, outside, missing = played.told()
    assert refused == 'Error: {"error":"not yours","code":"NO","status":403}'
    assert unknown.startswith("Error: there is no tool 'nothing'; the tools are: add, refuse, broken, read_file")
    assert "$.a: 'two' is not of type 'integer'" in misfit
    assert "'b' is a required property" in misfit
    assert malformed == 'Error: the arguments are not a JSON object: {"a": 2'
    assert outside == "Error: '../secret' leads out of the workspace"
    assert missing == "Error: there is no file 'missing.txt' in the workspace"


@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.UNKNOWN, FinishReason.CONTENT_FILTER])
async def test_a_tool_call_in_an_answer_that_broke_off_is_not_carried_out(tmp_path: Path, reason: FinishReason):
    cut = msgspec.structs.replace(calls(("add", {"a": 1, "b": 2}), text="I will"), finish_reason=reason)
    played = await Played(tmp_path, cut, says("never asked for")).open()
    assert await played.turn() == "I will"
    (tried,) = played.trial.of(ActionTaken)
    assert (tried.name, tried.status) == ("add", "interrupted")


async def test_a_call_that_was_not_carried_out_was_tried(tmp_path: Path):
    malformed = ToolCall(id="m", name="add", arguments={}, raw='{"a": 2')
    asked = calls(("nothing", {"x": 1}), ("add", {}), malformed, ("refuse", {"why": "x"}))
    played = await Played(tmp_path, asked, says("")).open()
    await played.turn()
    assert [(taken.name, taken.params, taken.status) for taken in played.trial.of(ActionTaken)] == [
        ("nothing", {"x": 1}, "rejected"),
        ("add", {}, "invalid"),
        ("add", {"unreadable_arguments": '{"a": 2'}, "invalid"),
        ("refuse", {"why": "x"}, "error"),
    ]
    told = [seen.content["error"] for seen in played.trial.of(Observed)]
    assert told[0].startswith("not executed: there is no tool 'nothing'; the tools are: add, ")


async def test_a_call_that_was_cut_off_was_tried(tmp_path: Path):
    async def hang() -> None:
        await asyncio.sleep(600)

    plugin = Plugin(name="p", actions={"hang": hang})
    played = await Played(tmp_path, calls(("hang", {})), says(""), plugin=plugin).open()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(played.turn(), timeout=0.05)
    assert [(taken.name, taken.status) for taken in played.trial.of(ActionTaken)] == [("hang", "interrupted")]


async def test_what_it_offers_is_recorded_with_all_names(tmp_path: Path):
    mock = Mock(service="bank", method="transfer", when=MockWhen(), place=HERE)
    played = await Played(tmp_path, calls(("bank_transfer", {})), says(""), mocks=(mock,)).open()
    await played.turn()
    (complete,) = [event for event in played.trial.of(ToolsOffered) if event.complete]
    assert ("bank_transfer", "bank.transfer", "transfer") in [tool.names for tool in complete.tools]
    (taken,), (called,) = played.trial.of(ActionTaken), played.trial.of(ServiceCalled)
    assert (taken.name, set(taken.names)) == ("transfer", {"bank_transfer", "bank.transfer", "transfer"})
    assert called.action_id == taken.id


async def test_a_bug_in_a_plugin_ends_the_trial(tmp_path: Path):
    played = await Played(tmp_path, calls(("add", {"a": 1, "b": 1}), ("broken", {}))).open()
    with pytest.raises(PluginError, match="action 'broken' of plugin 'sums' raised KeyError: 'bug'"):
        await played.turn()


async def test_a_failing_mock_ends_the_trial(tmp_path: Path):
    played = await Played(tmp_path, calls(("bad_one", {}))).open()
    assert played.trial.services is not None
    played.trial.services.register_mock("bad.one", lambda: 1 / 0)
    await played.agent.open(played.trial)
    with pytest.raises(MockError):
        await played.turn()


async def test_an_invalid_schema_is_the_plugins_fault(tmp_path: Path):
    from steadyhand.plugins.plugin import Action

    bad = Action(name="odd", handler=lambda params, context: 1, parameters={"type": "objekt"})
    played = await Played(tmp_path, calls(("odd", {})), plugin=Plugin(name="p", actions={"odd": bad})).open()
    with pytest.raises(PluginError, match="the JSON Schema of 'odd' is not valid"):
        await played.turn()


async def test_a_schema_that_never_ends_is_the_plugins_fault(tmp_path: Path):
    from steadyhand.plugins.plugin import Action

    slow = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a|aa)+$"}}}
    odd = Action(name="odd", handler=lambda params, context: 1, parameters=slow)
    plugin = Plugin(name="p", actions={"odd": odd})
    played = await Played(tmp_path, calls(("odd", {"x": "a" * 60 + "b"})), plugin=plugin).open()
    with search_limit(0.1), pytest.raises(PluginError, match="of the JSON Schema of 'odd' takes too long to match"):
        await played.turn()


async def test_the_number_of_calls_is_limited(tmp_path: Path):
    ran: list[int] = []

    def count(n: int) -> None:
        ran.append(n)

    answers = [calls(("count", {"n": n})) for n in range(5)]
    played = await Played(tmp_path, *answers, plugin=Plugin(name="p", actions={"count": count}), max_steps=3).open()
    with pytest.raises(LimitExceeded) as raised:
        await played.turn()
    assert (raised.value.kind, raised.value.used, raised.value.allowed) == ("agent_steps", 3, 3)
    assert str(raised.value) == "agent steps limit reached: 3 of 3 calls"
    assert len(played.model.requests) == 3
    assert ran == [0, 1], "what the model would never see is not run"
    assert [taken.status for taken in played.trial.of(ActionTaken)] == ["success", "success", "rejected"]


async def test_twenty_calls_by_default(tmp_path: Path):
    answers = [calls(("add", {"a": 1, "b": n})) for n in range(30)]
    played = await Played(tmp_path, *answers).open()
    with pytest.raises(LimitExceeded):
        await played.turn()
    assert len(played.model.requests) == 20


async def test_an_empty_answer_is_an_empty_reply(tmp_path: Path):
    assert await (await Played(tmp_path, says("")).open()).turn() == ""


async def test_files_of_the_workspace(tmp_path: Path):
    (tmp_path / "image.bin").write_bytes(b"\xff\xfe\x00")
    played = await Played(
        tmp_path,
        calls(("write_file", {"path": "a/b.txt", "content": "hällo"})),
        calls(("read_file", {"path": "a/b.txt"}), ("list_files", {}), ("read_file", {"path": "image.bin"})),
        says("done"),
    ).open()
    await played.turn()
    assert (tmp_path / "a/b.txt").read_text(encoding="utf-8") == "hällo"
    assert played.told() == ["hällo", '["a/b.txt","image.bin"]', "Error: 'image.bin' is not a text file (3 bytes)"]


async def test_large_answers_are_cut(tmp_path: Path):
    (tmp_path / "large.txt").write_text("x" * 200_000)
    played = await Played(tmp_path, calls(("read_file", {"path": "large.txt"})), says("ok")).open()
    await played.turn()
    (told,) = played.told()
    assert 65_000 < len(told) < 66_000
    assert "of 200000 characters left out" in told
    assert len(played.trial.of(Observed)[0].content) < 17_000


async def test_commands_need_a_sandbox_or_leave(tmp_path: Path):
    refused = await Played(tmp_path, calls(("run_command", {"command": "touch ran"})), says("ok")).open()
    await refused.turn()
    assert "run_command" not in refused.tools
    assert refused.told()[0].startswith("Error: there is no tool 'run_command'")
    assert not (tmp_path / "ran").exists()
    (note,) = [note for note in refused.trial.of(Noted) if "--allow-commands" in note.message]
    assert "the agent cannot run commands: the environment 'folder' is not a sandbox" in note.message


@pytest.mark.parametrize("given", [{"sandboxed": True}, {"allow_commands": True}])
async def test_commands_where_they_are_allowed(tmp_path: Path, given: dict[str, bool]):
    command = {"command": "echo hi; echo oh >&2; exit 3"}
    played = await Played(tmp_path, calls(("run_command", command)), says("ok"), **given).open()
    await played.turn()
    assert played.told() == ['{"exit_code":3,"stdout":"hi\\n","stderr":"oh\\n"}']
    assert not [note for note in played.trial.of(Noted) if "cannot run commands" in note.message]
    assert [taken.status for taken in played.trial.of(ActionTaken)] == ["success"]


MOCKS = (
    Mock(service="github-service", method="listIssues", place=HERE, when=MockWhen(input={"owner": "me"}), response=[7]),
    Mock(service="mail.box", method="send", place=HERE, error=MockFault(code="E", message="mailbox full")),
)


async def test_mocked_methods_are_tools(tmp_path: Path):
    played = await Played(
        tmp_path,
        calls(
            ("github-service_listIssues", {"owner": "me"}),
            ("mail_box_send", {"args": ["a@b.c"], "urgent": True}),
            ("github-service_listIssues", {"owner": "you"}),
        ),
        says("ok"),
        mocks=MOCKS,
    ).open()
    await played.turn()
    found, full, unmatched = played.told()
    assert found == "[7]"
    assert "mailbox full" in full
    assert "no mock matches these arguments" in unmatched
    issues, mail, _ = sorted(played.trial.of(ServiceCalled), key=lambda event: event.at_ms)
    assert (issues.service, issues.method, issues.input, issues.args) == (
        "github-service", "listIssues", {"owner": "me"}, [],
    )  # fmt: skip
    assert (mail.args, mail.input) == (["a@b.c"], {"urgent": True})
    taken = [(taken.name, taken.params, taken.status) for taken in played.trial.of(ActionTaken)]
    assert ("listIssues", {"owner": "me"}, "success") in taken
    assert ("send", {"args": ["a@b.c"], "urgent": True}, "error") in taken


async def test_live_offers_no_mocks(tmp_path: Path):
    played = await Played(tmp_path, says("ok"), mocks=MOCKS, live=True).open()
    await played.turn()
    assert played.tools == ["add", "refuse", "broken", "read_file", "write_file", "list_files"]


async def test_tool_names_are_fit_for_providers_and_distinct(tmp_path: Path):
    async def other(params: Any = None) -> str:
        return "plugin's"

    long = "x" * 80
    actions = {"read_file": other, "a.b": other, "a b": other, long: other, long + "y": other}
    played = await Played(tmp_path, says("ok"), plugin=Plugin(name="p", actions=actions)).open()
    await played.turn()
    assert played.tools == ["read_file", "a_b", "a_b_2", "x" * 64, "x" * 62 + "_2", "write_file", "list_files"]


async def test_without_services_there_is_still_the_workspace(tmp_path: Path):
    played = Played(tmp_path, says("ok"))
    played.trial.services = None
    await played.agent.open(played.trial)
    await played.turn()
    assert played.tools == ["read_file", "write_file", "list_files"]


async def test_the_character_sets_prompt_and_temperature(tmp_path: Path):
    character = Character(name="Ada", bio=("Counts.", "Checks."), system="Be brief.", temperature=0.0)
    played = await Played(tmp_path, says("ok"), says("ok"), character=character).open()
    await played.turn()
    request = played.model.requests[0]
    assert request.messages[0].content == "You are Ada.\n\nBe brief.\n\nAbout you:\n- Counts.\n- Checks."
    assert request.temperature == 0.0
    own = Message(role="system", content="The scenario's own.")
    await played.turn(own, USER)
    assert [message.content for message in played.model.requests[1].messages] == ["The scenario's own.", "please"]


async def test_earlier_tool_calls_are_remembered(tmp_path: Path):
    played = await Played(
        tmp_path,
        calls(("add", {"a": 1, "b": 1})), says("2"),
        calls(("add", {"a": 2, "b": 2})), says("4"),
        says("bye"),
    ).open()  # fmt: skip
    exchange = [USER]
    for _ in range(3):
        reply = await played.turn(*exchange)
        exchange += [Message(role="assistant", content=reply), USER]
    roles = [message.role for message in played.model.requests[-1].messages]
    assert roles == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


async def test_another_exchange_begins_without_old_tool_calls(tmp_path: Path):
    played = await Played(tmp_path, calls(("add", {"a": 1, "b": 1})), says("2"), says("hm")).open()
    await played.turn()
    await played.turn(Message(role="user", content="something else"), Message(role="assistant", content="2"), USER)
    assert [message.role for message in played.model.requests[-1].messages] == ["system", "user", "assistant", "user"]


async def test_the_model_sees_its_last_answers(tmp_path: Path):
    def sum_of(request: ChatRequest) -> ChatResponse:
        return says(f"I saw {request.messages[-1].content}")

    played = await Played(tmp_path, calls(("add", {"a": 20, "b": 22})), sum_of).open()
    assert await played.turn() == "I saw 42"


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"max_steps": True}, {"allow_commands": "yes"}])
def test_bad_options(tmp_path: Path, options: dict[str, Any]):
    with pytest.raises(SetupError, match=f"option {next(iter(options))}: expected"):
        RuntimeAgent(AgentSettings(model=ScriptedChatModel([]), folder=tmp_path, options=options))


def test_it_needs_a_model(tmp_path: Path):
    with pytest.raises(SetupError, match="needs a model"):
        RuntimeAgent(AgentSettings(folder=tmp_path))


async def test_actions_reach_mocked_services(tmp_path: Path):
    async def count(context: ActionContext) -> int:
        return len(await context.get_service("github-service").listIssues(owner="me"))

    plugin = Plugin(name="p", actions={"count": count})
    played = await Played(tmp_path, calls(("count", {})), says("ok"), mocks=MOCKS, plugin=plugin).open()
    await played.turn()
    assert played.told() == ["1"]
    assert [taken.name for taken in played.trial.of(ActionTaken)] == ["count"]
    assert len(played.trial.of(ServiceCalled)) == 1
