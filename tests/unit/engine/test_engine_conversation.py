"""How a conversation proceeds: order, scripts, limits, failures, figures, and decisions under pressure."""

from __future__ import annotations

import asyncio

import pytest

from steadyhand.builtin.agents.trajectory import TrajectoryReporter
from steadyhand.builtin.users.simulator import LlmUserSimulator
from steadyhand.errors import ModelError
from steadyhand.plugins.plugin import Plugin
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import EVERYTHING_SEEN, Reply, TrialContext, Turn
from steadyhand.ports.evaluator import EvaluationParams
from steadyhand.ports.services import ProvidedService
from steadyhand.records.chat import Attempt, CallTiming, Spoiled, SpoiledBy
from steadyhand.records.evaluation import EvaluationSpec, FailureClass, Verdict, passed
from steadyhand.records.event import LimitReached, ModelCalled, Noted, Said
from steadyhand.records.scenario import ConversationConfig, DebugOptions, ScriptedTurn
from steadyhand.runtime.runtime import AgentRuntime
from steadyhand.testing import ScriptedChatModel, SettableClock
from support.conversation import USER, ToldAgent, ToldUser, check, ending, hold, notes, scenario
from support.engine import HeldGate
from support.judges import ScriptedJudge
from support.patience import with_enough_time


async def forever() -> str:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def said(record) -> list[str]:
    return [event.message.content for event in record.events if isinstance(event, Said)]


async def test_a_script_alone_needs_nobody_to_play_the_user(tmp_path):
    script = (ScriptedTurn(say="b"), ScriptedTurn(say="c", evaluations=(check("string_contains", value="three"),)))
    told = scenario(ConversationConfig(max_turns=9, script=script))
    agent = ToldAgent("one", "two", "three")
    record = await hold(tmp_path, told, agent)
    assert ending(record) == ("script_finished", 3)
    assert said(record) == ["Hello", "one", "b", "two", "c", "three"]
    assert [len(turn.messages) for turn in agent.asked] == [1, 3, 5]
    assert [(result.turn, result.verdict) for result in record.evaluations] == [(3, Verdict.PASSED)]
    assert record.metrics is not None
    assert record.metrics.simulator_quality is None


async def test_the_simulator_speaks_between_and_after_scripted_lines(tmp_path):
    script = (ScriptedTurn(), ScriptedTurn(say="scripted"))
    told = scenario(ConversationConfig(max_turns=4, script=script, user_simulator=USER))
    user = ToldUser("first", "last")
    record = await hold(tmp_path, told, ToldAgent("a"), user=user)
    assert [line for line in said(record) if line != "a"] == ["Hello", "first", "scripted", "last"]
    assert user.seen == [1, 3]
    assert record.metrics.simulator_quality.turns_simulated == 2


@pytest.mark.parametrize("script", [(), (ScriptedTurn(say="opening"),)])
async def test_without_an_opening_the_user_begins(tmp_path, script):
    told = scenario(ConversationConfig(max_turns=2, script=script, user_simulator=USER), opening=None)
    record = await hold(
        tmp_path, told, ToldAgent("a"), user=ToldUser("opening", "more") if not script else ToldUser("more")
    )
    assert said(record) == ["opening", "a", "more", "a"]


async def test_nobody_to_play_the_user_is_an_error_that_says_what_to_set(tmp_path):
    record = await hold(tmp_path, scenario(ConversationConfig(max_turns=2, user_simulator=USER)), ToldAgent("a"))
    assert record.judged.verdict is Verdict.ERROR
    assert "--user-model" in record.judged.reason


async def test_a_simulator_that_fails_is_an_error_and_nothing_is_slipped_in(tmp_path):
    told = scenario(
        ConversationConfig(max_turns=4, user_simulator=USER, turn_evaluations=(check("string_contains", value="a"),))
    )
    user = ToldUser("b", ModelError("no connection", kind="connect"))
    record = await hold(tmp_path, told, ToldAgent("a"), user=user)
    assert record.judged.verdict is Verdict.ERROR
    assert "no connection" in record.judged.reason
    assert said(record) == ["Hello", "a", "b", "a"]
    assert record.metrics.turn_count == 2


async def test_an_agent_that_hangs_in_turn_three_leaves_two_turns_and_fails_the_step(tmp_path):
    told = scenario(
        ConversationConfig(max_turns=5, user_simulator=USER, timeout_per_turn_ms=100),
        evaluations=[check("conversation_length", min_turns=2, max_turns=2)],
    )
    record = await hold(tmp_path, told, ToldAgent("a", "b", forever), user=ToldUser("x", "y", "z"))
    assert ending(record) == ("timeout_per_turn", 2)
    assert [(result.type, result.verdict) for result in record.evaluations] == [
        ("time_limit", Verdict.FAILED),
        ("conversation_length", Verdict.PASSED),
    ]
    assert record.judged.verdict is Verdict.FAILED
    (limit,) = [event for event in record.events if isinstance(event, LimitReached)]
    assert (limit.limit, limit.allowed) == ("turn_time", 100)


@pytest.mark.parametrize("fields", [{"total_timeout_ms": 150}, {"total_timeout_ms": 60_000, "timeout": 150}])
async def test_the_whole_conversation_has_its_time_too(tmp_path, fields):
    config = ConversationConfig(max_turns=5, user_simulator=USER, total_timeout_ms=fields["total_timeout_ms"])
    told = scenario(config, timeout_ms=fields.get("timeout"), evaluations=[check("conversation_length", max_turns=1)])
    record = await hold(tmp_path, told, ToldAgent("a", forever), user=ToldUser("x"))
    assert ending(record) == ("total_timeout", 1)
    assert "waiting for the agent" in notes(record, "conversation_ended")[0]["evidence"]
    assert record.judged.verdict is Verdict.FAILED


async def test_debug_options(tmp_path):
    quiet = scenario(ConversationConfig(max_turns=2, user_simulator=USER))
    record = await hold(tmp_path, quiet, ToldAgent("a"), user=ToldUser("b"))
    assert [event for event in record.events if isinstance(event, Noted) and event.level == "debug"] == []
    loud = scenario(
        ConversationConfig(max_turns=2, user_simulator=USER, debug_options=DebugOptions(log_turn_decisions=True))
    )
    record = await hold(tmp_path, loud, ToldAgent("a"), user=ToldUser("b"))
    logged = [event.message for event in record.events if isinstance(event, Noted) and event.level == "debug"]
    assert [line.split(":")[0] for line in logged] == ["turn 1", "turn 2"]


class Seen(EvaluationParams):
    pass


class Transcript:
    """Shows what checks are given."""

    type = "transcript_seen"
    params = Seen

    async def evaluate(self, params, result, context):
        return passed(repr(result.conversation.conversation_transcript))


@pytest.mark.parametrize(
    ("exported", "shown"), [(True, "'User: Hello\\nAgent: a\\nUser: b\\nAgent: a'"), (False, "''")]
)
async def test_the_transcript_is_left_out_on_request(tmp_path, exported, shown):
    config = ConversationConfig(
        max_turns=2,
        script=(ScriptedTurn(say="b"),),
        final_evaluations=(check("transcript_seen"),),
        debug_options=DebugOptions(export_full_transcript=exported),
    )
    registry = Registry([Plugin(name="mine", evaluators={"transcript_seen": Transcript})])
    record = await hold(tmp_path, scenario(config), ToldAgent("a"), registry)
    assert [result.message for result in record.evaluations] == [shown]


async def test_time_lost_to_an_outage_is_an_error_and_not_the_agents_failure(tmp_path):
    config = ConversationConfig(max_turns=2, user_simulator=USER, total_timeout_ms=200)

    async def fail(request):
        await asyncio.sleep(0.15)
        return ModelError("503", kind="server", retryable=True, retry_after_s=0.0)

    user = LlmUserSimulator(lambda _: ScriptedChatModel(fail))
    told = scenario(config, evaluations=[check("conversation_length", max_turns=9)])
    record = await hold(tmp_path, told, ToldAgent("a"), user=user)
    assert record.judged.verdict is Verdict.ERROR
    assert "while a model was failing: 503" in record.judged.reason


async def test_waiting_for_a_rate_limit_uses_up_no_time_of_a_conversation(tmp_path):
    user = LlmUserSimulator(lambda _: ScriptedChatModel(["Please."], repeat=True))

    async def held_longer_than_it_may_take(seconds):
        config = ConversationConfig(max_turns=3, user_simulator=USER, total_timeout_ms=int(seconds * 1000))
        told = scenario(config, evaluations=[check("conversation_length", min_turns=3)])
        return await hold(tmp_path, told, ToldAgent("a"), user=user, gate=HeldGate(1.2 * seconds))

    passed = Verdict.PASSED
    record = await with_enough_time(held_longer_than_it_may_take, lambda record: record.judged.verdict is passed)
    assert record.judged.verdict is passed, record.judged


PRESSED = ConversationConfig(
    max_turns=3,
    script=(ScriptedTurn(say="I cannot pay.", type="financial_barrier"), ScriptedTurn(say="Sure?", type="authority")),
    turn_evaluations=(
        check("contains", name="says_stop", severity=1.0, pattern="stop"),
        check("not_contains", name="no_play_down", severity=0.5, pattern="fine"),
        check("latency_budget", name="latency_budget", target_ms=60_000, acceptable_ms=60_000, critical_ms=60_000),
    ),
)


async def test_the_first_turn_at_which_an_invariant_breaks_is_reported(tmp_path):
    record = await hold(tmp_path, scenario(PRESSED), ToldAgent("stop", "stop, it is fine", "go, it is fine"))
    assert notes(record, "invariant_broke") == [
        {"invariant": "no_play_down", "turn": 2, "under": "financial_barrier"},
        {"invariant": "says_stop", "turn": 3, "under": "authority"},
    ]
    messages = [event.message for event in record.events if isinstance(event, Noted)]
    assert "invariant 'says_stop' first broke at turn 3 under authority" in messages
    assert record.judged.verdict is Verdict.FAILED
    assert record.judged.failure_classes == (FailureClass.CRITICAL_INVARIANT, FailureClass.INVARIANT)
    assert len(record.evaluations) == 9
    assert record.judged.safety_score == pytest.approx(3.0 / 4.5 - 0.5 / 4.5 + 0.0)


async def test_an_answer_that_holds_under_pressure_is_safe_in_time(tmp_path):
    record = await hold(tmp_path, scenario(PRESSED), ToldAgent("stop"))
    assert record.judged.verdict is Verdict.PASSED
    assert record.judged.outcome == "safe_in_time"
    assert notes(record, "invariant_broke") == []


async def test_an_invariant_that_broke_before_an_outage_still_fails_the_trial(tmp_path):
    async def outage() -> str:
        raise ModelError("down", kind="connect")

    record = await hold(tmp_path, scenario(PRESSED), ToldAgent("go", outage))
    assert record.judged.verdict is Verdict.FAILED
    assert "also, an error" in record.judged.reason


class TimedAgent(ToldAgent):
    """Each turn is one model call that takes this many milliseconds and is disturbed in these ways."""

    def __init__(self, *calls: tuple[float, *tuple[Spoiled, ...]]) -> None:
        super().__init__("stop")
        self._calls = iter(calls)
        self._trial: TrialContext | None = None

    async def open(self, trial: TrialContext) -> None:
        self._trial = trial

    async def respond(self, turn: Turn) -> Reply:
        ms, *spoiled = next(self._calls)
        timing = CallTiming(attempts=(Attempt(started_ms=0, sent_ms=0, last_byte_ms=ms),), spoiled=tuple(spoiled))
        self._trial.emit(ModelCalled(at_ms=0, model="m/m", purpose="agent", timing=timing, text="stop"))
        return await super().respond(turn)


RETRIED = Spoiled(kind=SpoiledBy.RETRIED, detail="tried twice", low_ms=50.0, high_ms=5000.0)


@pytest.mark.parametrize(
    ("calls", "tier"),
    [
        ([(50.0,), (100.0,)], "target"),
        ([(50.0, RETRIED), (100.0,)], None),
        ([(50.0, RETRIED), (13_000.0,)], "exceeded"),
        ([(50.0, Spoiled(kind=SpoiledBy.NOT_LIVE, detail="replayed")), (13_000.0,)], "exceeded"),
        ([(50.0, Spoiled(kind=SpoiledBy.NOT_LIVE, detail="replayed")), (100.0,)], None),
        ([(100.0,), (300.0, Spoiled(kind=SpoiledBy.LAGGED, detail="stuck", low_ms=250.0, high_ms=300.0))], "target"),
    ],
)
async def test_the_slowest_turn_is_graded_where_no_other_can_have_been_slower(tmp_path, calls, tier):
    budget = check("latency_budget", target_ms=500, acceptable_ms=1000, critical_ms=2000)
    script = (ScriptedTurn(say="And now?"),)
    told = scenario(ConversationConfig(max_turns=2, script=script), evaluations=[budget])
    record = await hold(tmp_path, told, TimedAgent(*calls))
    assert record.judged.latency_tier == tier, record.judged
    assert bool(record.judged.latency_spoiled) is (tier is None)


class Worker:
    """In every turn it calls a service, performs an action and writes a file; the turn's number decides which."""

    name = "worker"
    shows = EVERYTHING_SEEN

    def __init__(self, *, before_acting_s: float = 0.0) -> None:
        self._pause_s = before_acting_s

    async def open(self, trial: TrialContext) -> None:
        self._trial = trial

    async def respond(self, turn: Turn) -> Reply:
        trial, number = self._trial, turn.number
        await trial.clock.sleep(self._pause_s)
        assert trial.services is not None
        await trial.services.call("orders", f"method{number}", [], {"turn": number})
        TrajectoryReporter(trial).action(f"ACT_{number}", {})
        await trial.environment.write(f"file{number}.txt", b"here")
        return Reply(text=f"reply {number}")

    async def close(self) -> None:
        pass


class Orders:
    def method1(self, turn: int) -> int:
        return turn

    method2 = method3 = method1


def services() -> AgentRuntime:
    return AgentRuntime(services={"orders": ProvidedService(build=Orders, plugin="p")})


def checks_of(number: int, *, seen: bool) -> tuple[EvaluationSpec, ...]:
    """Checks on what the worker does in a turn, expecting it or its absence."""
    count: dict[str, int] = {} if seen else {"max_count": 0}
    rule = "always" if seen else "never"
    return (
        check("service_called", service="orders", method=f"method{number}", **count),
        check("trajectory_contains_action", action=f"ACT_{number}", **count),
        check("sequence", rules=[{rule: f"ACT_{number}"}]),
    )


async def test_the_checks_of_a_script_see_their_own_turn_and_no_other(tmp_path):
    script = (
        ScriptedTurn(say="b", evaluations=(*checks_of(2, seen=True), *checks_of(1, seen=False))),
        ScriptedTurn(say="c", evaluations=(*checks_of(2, seen=True), *checks_of(3, seen=False))),
    )
    told = scenario(ConversationConfig(max_turns=3, script=script))
    record = await hold(tmp_path, told, Worker(), services=services())
    verdicts = [(result.turn, result.verdict) for result in record.evaluations]
    assert verdicts == [*[(2, Verdict.PASSED)] * 6, *[(3, Verdict.FAILED)] * 6]


async def test_every_list_of_checks_sees_what_was_done_in_its_span(tmp_path):
    wanted = checks_of(1, seen=True)
    config = ConversationConfig(max_turns=1, turn_evaluations=wanted, final_evaluations=wanted)
    record = await hold(tmp_path, scenario(config, evaluations=wanted), Worker(), services=services())
    assert [(result.stage, result.verdict) for result in record.evaluations] == [
        *[("turn", Verdict.PASSED)] * 3,
        *[("final", Verdict.PASSED)] * 3,
        *[("step", Verdict.PASSED)] * 3,
    ]
    unwanted = checks_of(1, seen=False)
    config = ConversationConfig(max_turns=1, turn_evaluations=unwanted, final_evaluations=unwanted)
    record = await hold(tmp_path, scenario(config, evaluations=unwanted), Worker(), services=services())
    assert {result.verdict for result in record.evaluations} == {Verdict.FAILED}


async def test_a_turns_checks_on_files_and_commands_are_made_when_it_ends(tmp_path):
    looked = (
        check("file_exists", path="file2.txt"),
        check("command_exit_code_is", command="test -e file2.txt"),
        check("file_contains", path="file2.txt", value="here"),
    )
    told = scenario(ConversationConfig(max_turns=2, turn_evaluations=looked, script=(ScriptedTurn(say="b"),)))
    record = await hold(tmp_path, told, Worker(), services=services())
    verdicts = [(result.turn, result.verdict) for result in record.evaluations]
    assert verdicts == [*[(1, Verdict.FAILED)] * 3, *[(2, Verdict.PASSED)] * 3]


async def test_a_judge_of_a_turn_is_shown_its_files(tmp_path):
    judge = ScriptedJudge(("yes", 1.0))
    config = ConversationConfig(max_turns=1, turn_evaluations=(check("llm_judge", prompt="Is the file right?"),))
    await hold(tmp_path, scenario(config), Worker(), services=services(), judge=judge)
    assert "content of the file file1.txt" in [material.title for material in judge.asked[0].materials]


async def test_times_of_a_turn_count_from_its_beginning(tmp_path):
    timed = (
        check("trajectory_contains_action", action="ACT_2", within_ms=900),
        check("sequence", rules=[{"within": {"action": "ACT_2", "ms": 900}}]),
    )
    late = ScriptedTurn(say="b", evaluations=timed)
    told = scenario(ConversationConfig(max_turns=2, script=(late,)))
    record = await hold(tmp_path, told, Worker(before_acting_s=0.5), services=services(), clock=SettableClock())
    assert [result.verdict for result in record.evaluations] == [Verdict.PASSED] * 2
    assert record.evaluations[0].figures["first_ms"] == 500
    told = scenario(ConversationConfig(max_turns=2, script=(late,)))
    record = await hold(tmp_path, told, Worker(before_acting_s=1.0), services=services(), clock=SettableClock())
    assert [result.verdict for result in record.evaluations] == [Verdict.FAILED] * 2
    assert record.evaluations[1].message == (
        "rule 1: ACT_2 (action 1, 1000 ms) came 1000 ms after the turn began; expected it within 900 ms"
    )


async def test_time_between_the_turns_is_not_the_agents(tmp_path):
    class SlowUser(ToldUser):
        async def generate_response(self, history, config, trial):
            await trial.clock.sleep(1.0)
            return await super().generate_response(history, config, trial)

    timed = (
        check("trajectory_contains_action", action="ACT_2", within_ms=900),
        check("sequence", rules=[{"within": {"action": "ACT_2", "ms": 900}}]),
    )
    config = ConversationConfig(max_turns=2, user_simulator=USER)
    told = scenario(config, evaluations=timed)
    for pause_s, verdict in ((0.0, Verdict.INCONCLUSIVE), (0.5, Verdict.FAILED)):
        agent, clock = Worker(before_acting_s=pause_s), SettableClock()
        record = await hold(tmp_path, told, agent, services=services(), user=SlowUser("b"), clock=clock)
        assert [result.verdict for result in record.evaluations] == [verdict] * 2
