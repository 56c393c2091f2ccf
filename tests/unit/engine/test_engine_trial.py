from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.services.database import make_database
from steadyhand.engine.context import RunningTrial
from steadyhand.engine.trial import PhaseLog, run_trial
from steadyhand.errors import AgentError, ModelError, WorkspaceError
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.ports.agent import EVERYTHING_SEEN, Shows
from steadyhand.ports.evaluator import EvaluationParams
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationResult, Verdict, passed
from steadyhand.records.event import ErrorHappened, FileChanged, LimitReached, Said
from steadyhand.records.scenario import (
    ConversationConfig,
    Converse,
    DatabaseSeed,
    ScriptedTurn,
    Setup,
    Step,
    VerdictPolicy,
)
from steadyhand.testing import ScriptedAgent
from support.engine import PLACE, asking, check, coding, scenario


class Hostile(dict):
    """A mapping that cannot be read."""

    def __bool__(self):
        return True

    def items(self):
        raise RuntimeError("not for you")


def phases(record):
    return {phase.name: phase.error for phase in record.phases}


async def test_every_phase_leaves_a_record_and_the_parts_are_closed(build):
    parts = build(scenario(asking("hi", check("string_contains", value="hello"))), lambda turn, trial: "Hello there")
    record = await run_trial(parts)
    assert record.judged.verdict is Verdict.PASSED
    assert list(phases(record)) == ["set_up", "run", "evaluate", "assess", "tear_down"]
    assert (parts.agent.opened, parts.agent.closed) == (1, 1)
    assert [event.message.content for event in record.events if isinstance(event, Said)] == ["hi", "Hello there"]


async def test_one_part_that_cannot_be_closed_keeps_no_other_from_it(build):
    class Stuck(LocalEnvironment):
        closed = False

        async def teardown(self):
            await super().teardown()
            self.closed = True
            raise WorkspaceError("the workspace is stuck")

    class Sullen(ScriptedAgent):
        async def close(self):
            await super().close()
            raise AgentError("the agent will not go")

    parts = build(scenario(asking("hi")), lambda turn, trial: "x")
    parts.agent = agent = Sullen(lambda turn, trial: "x")
    parts.environment = stuck = Stuck(EnvironmentSettings(root=Path(), trial_id="t"))
    record = await run_trial(parts)
    assert phases(record)["tear_down"] == "the agent will not go"
    assert (agent.closed, stuck.closed) == (1, True)


async def test_a_scenario_that_evaluates_nothing_is_inconclusive(build):
    record = await run_trial(build(scenario(asking("hi")), lambda turn, trial: "x"))
    assert record.judged.verdict is Verdict.INCONCLUSIVE


async def test_the_exchange_goes_on_from_step_to_step(build):
    seen = []

    def answer(turn, trial):
        seen.append([message.content for message in turn.messages])
        return f"answer {turn.number}"

    steps = (asking("one"), asking("two", check("string_contains", value="answer 2"), index=1))
    record = await run_trial(build(scenario(*steps), answer))
    assert seen == [["one"], ["one", "answer 1", "two"]]
    assert record.judged.verdict is Verdict.PASSED


async def test_files_are_judged_as_each_step_left_them(build):
    steps = (
        coding("echo 1 > out.txt", check("file_contains", path="out.txt", value="1")),
        coding("rm out.txt", check("file_exists", path="out.txt"), index=1),
    )
    record = await run_trial(build(scenario(*steps)))
    assert [result.verdict for result in record.evaluations] == [Verdict.PASSED, Verdict.FAILED]
    assert [(e.path, e.change) for e in record.events if isinstance(e, FileChanged)] == [
        ("out.txt", "created"),
        ("out.txt", "deleted"),
    ]


async def test_virtual_files_are_there_and_not_reported_as_changes(build):
    of = scenario(
        coding("cat a/b.txt", check("string_contains", value="inside")), setup=Setup(virtual_fs={"a/b.txt": "inside"})
    )
    record = await run_trial(build(of))
    assert record.judged.verdict is Verdict.PASSED
    assert not [event for event in record.events if isinstance(event, FileChanged)]


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (ModelError("127.0.0.1 is down", kind="connect"), "127.0.0.1 is down"),
        (ValueError("odd"), "the agent raised ValueError: odd"),
        (TimeoutError(), "the agent raised TimeoutError"),
    ],
)
async def test_what_the_agent_raises_is_an_error_and_not_its_failure(build, failure, said):
    def answer(turn, trial):
        raise failure

    parts = build(scenario(asking("hi", check("string_contains", value="x"))), answer)
    record = await run_trial(parts)
    assert record.judged.verdict is Verdict.ERROR
    assert said in record.judged.reason
    assert record.evaluations == ()
    assert parts.agent.closed == 1
    assert [event.phase for event in record.events if isinstance(event, ErrorHappened)] == ["run"]


async def test_an_answer_of_the_wrong_kind_is_an_error(build):
    record = await run_trial(build(scenario(asking("hi", check("string_contains", value="x"))), lambda turn, trial: 5))
    assert record.judged.verdict is Verdict.ERROR
    assert "the agent returned int" in record.judged.reason


async def test_what_was_evaluated_before_an_error_still_fails(build):
    def answer(turn, trial):
        if turn.number == 2:
            raise ModelError("down", kind="connect")
        return "no"

    steps = (asking("one", check("string_contains", value="yes")), asking("two", index=1))
    record = await run_trial(build(scenario(*steps), answer))
    assert record.judged.verdict is Verdict.FAILED
    assert "down" in record.judged.reason


async def test_a_step_that_takes_too_long_has_failed(build):
    async def answer(turn, trial):
        await asyncio.sleep(3600)

    step = asking("hi", check("execution_time", max_duration_ms=10_000_000), timeout_ms=50)
    record = await run_trial(build(scenario(step), answer))
    assert record.judged.verdict is Verdict.FAILED
    assert record.evaluations[0].type == "time_limit"
    assert [event.limit for event in record.events if isinstance(event, LimitReached)] == ["step_time"]


async def test_code_that_takes_too_long_has_failed_too(build):
    record = await run_trial(build(scenario(coding("sleep 3600", check("string_contains", value="x"), timeout_ms=100))))
    assert record.judged.verdict is Verdict.FAILED
    assert record.evaluations[0].type == "time_limit"


async def test_a_check_that_raises_is_an_error_of_that_check(build):
    steps = asking("hi", check("string_contains", value="x"), check("no_such_check"))
    record = await run_trial(build(scenario(steps), lambda turn, trial: "x"))
    assert [result.verdict for result in record.evaluations] == [Verdict.PASSED, Verdict.ERROR]
    assert record.judged.verdict is Verdict.ERROR


class Returns:
    """A third party's check that returns whatever it is given."""

    type = "returns"
    params = EvaluationParams

    def __init__(self, found):
        self.found = found

    async def evaluate(self, params, result, context):
        return self.found


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "it returned None; expected `passed(...)`"),
        (True, "it returned True"),
        (EvaluationResult(verdict="passed", message="m"), "its verdict is 'passed'; expected one of `Verdict`"),
        (passed("m", figures={"it": Hostile()}), "UnreadableValue"),
    ],
)
async def test_a_check_that_returns_no_result_is_an_error_of_that_check(build, found, said):
    """Even if later steps are fine: no part of the error may be lost."""
    fine = check("string_contains", value="x")
    parts = build(scenario(asking("hi", check("returns"), fine), asking("hi", fine, index=1)), lambda turn, trial: "x")
    registry = parts.evaluator
    parts.evaluator = lambda type_: Returns(found) if type_ == "returns" else registry(type_)
    record = await run_trial(parts)
    assert [result.verdict for result in record.evaluations] == [Verdict.ERROR, Verdict.PASSED, Verdict.PASSED]
    assert said in record.evaluations[0].message
    assert record.judged.verdict is Verdict.ERROR


async def test_a_part_of_a_phase_that_succeeds_does_not_undo_the_error_of_another(build):
    async def breaks():
        raise RuntimeError("broken")

    log = PhaseLog(RunningTrial(build(scenario(asking("hi")))))
    assert [await log.run("evaluate", work) for work in (breaks(), asyncio.sleep(0))] == [False, True]
    (told,) = log.errors
    assert told.startswith(f"evaluate: unexpected RuntimeError: broken (raised at {__file__}:")


async def test_cancelling_tears_down_and_goes_on_upwards(build, tmp_path: Path):
    started = asyncio.Event()

    async def answer(turn, trial):
        await trial.environment.write("left.txt", b"x")
        started.set()
        await asyncio.sleep(3600)

    parts = build(scenario(asking("hi")), answer)
    task = asyncio.create_task(run_trial(parts))
    await started.wait()
    assert list((tmp_path / "workspaces").iterdir())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert parts.agent.closed == 1
    assert not list((tmp_path / "workspaces").iterdir())


async def test_live_state_is_checked_when_a_step_ends_and_before_the_next_begins(build, tmp_path):
    of = scenario(
        coding(
            'touch a; python3 -c "import os, sqlite3; '
            "c = sqlite3.connect(os.environ['DATABASE_URL'].removeprefix('sqlite:///')); "
            "c.execute('INSERT INTO t VALUES (1)'); c.commit()\"",
            check("file_exists", path="a"),
            check("command_exit_code_is", command="test -e a"),
            check("database_query", query="SELECT * FROM t", row_count=1),
        ),
        coding(
            'rm a; python3 -c "import os, sqlite3; '
            "c = sqlite3.connect(os.environ['DATABASE_URL'].removeprefix('sqlite:///')); "
            "c.execute('DELETE FROM t'); c.commit()\"",
            check("file_exists", path="a"),
            check("command_exit_code_is", command="test -e a"),
            check("database_query", query="SELECT * FROM t", row_count=1),
            index=1,
        ),
        setup=Setup(database=DatabaseSeed(sql="CREATE TABLE t (n INTEGER)")),
    )
    parts = build(of)
    parts.database = make_database(of.setup.database, environment=parts.environment, folder=tmp_path)
    record = await run_trial(parts)
    assert [(result.step, result.verdict) for result in record.evaluations] == [
        *[(0, Verdict.PASSED)] * 3,
        *[(1, Verdict.FAILED)] * 3,
    ], [result.message for result in record.evaluations]
    assert list(phases(record)) == ["set_up", "run", "evaluate", "assess", "tear_down"]


async def test_what_a_check_leaves_behind_is_not_the_work_of_the_next_step(build):
    steps = (
        coding("true", check("command_exit_code_is", command="touch by-the-check")),
        coding("touch by-the-step", index=1),
    )
    record = await run_trial(build(scenario(*steps)))
    assert [(e.step, e.path) for e in record.events if isinstance(e, FileChanged)] == [(1, "by-the-step")]


@pytest.mark.parametrize("strategy", ["all_pass", "any_pass", "majority_pass", "weighted"])
@pytest.mark.parametrize("kind", ["asking", "coding", "turn", "conversation"])
async def test_running_out_of_time_fails_the_trial_whatever_the_strategy(build, strategy, kind):
    async def answer(turn, trial):
        if turn.number == 2:
            await asyncio.Event().wait()
        return "yes"

    easy = [check("execution_time", max_duration_ms=10_000_000)] * 5
    if kind == "asking":
        steps = [asking("one", *easy), asking("two", index=1, timeout_ms=50)]
    elif kind == "coding":
        steps = [asking("one", *easy), coding("sleep 60", index=1, timeout_ms=50)]
    else:
        limit = {"timeout_per_turn_ms" if kind == "turn" else "total_timeout_ms": 50}
        config = ConversationConfig(max_turns=3, script=(ScriptedTurn(say="go on"),), turn_evaluations=easy, **limit)
        task = Converse(opening=(Message(role="user", content="hi"),), config=config)
        steps = [Step(index=0, name="talk", place=PLACE, task=task)]
    judgment = VerdictPolicy(strategy=strategy, threshold=0.5)
    record = await run_trial(build(scenario(*steps, judgment=judgment), answer))
    assert record.judged.verdict is Verdict.FAILED
    (cut_short,) = [result for result in record.evaluations if result.type == "time_limit"]
    assert cut_short.message.startswith("the step did not finish: ")


class NoDeletes(EvaluationParams):
    pass


class ReadsActions:
    """A third party's check that declares what it reads."""

    type = "no_deletes"
    params = NoDeletes
    reads = frozenset({"actions"})

    async def evaluate(self, params, result, context):
        return passed("nothing deleted", rests_on="absence")


@pytest.mark.parametrize(
    ("shows", "verdict"),
    [
        (Shows(), Verdict.INCONCLUSIVE),
        (Shows(files="seen"), Verdict.INCONCLUSIVE),
        (Shows(actions="self_reported"), Verdict.PASSED),
        (EVERYTHING_SEEN, Verdict.PASSED),
    ],
)
async def test_a_third_partys_check_is_not_made_on_what_the_agent_does_not_show(build, shows, verdict):
    parts = build(scenario(asking("go", check("no_deletes"))), lambda turn, trial: "done")
    parts.evaluator = lambda type_: ReadsActions()
    parts.agent.shows = shows
    (found,) = (await run_trial(parts)).evaluations
    assert found.verdict is verdict
    assert found.self_reported == (("actions",) if shows.actions == "self_reported" else ())


@pytest.mark.parametrize(("acts", "verdict"), [(True, Verdict.PASSED), (False, Verdict.INCONCLUSIVE)])
async def test_the_database_of_a_live_trial_is_one_that_an_agent_elsewhere_may_share(build, tmp_path, acts, verdict):
    file = tmp_path / "shop.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as shop:
        shop.execute("CREATE TABLE t (a)")
        shop.commit()
    seed = DatabaseSeed(url=f"sqlite:///{file}")
    of = scenario(
        asking("go", check("database_query", query="SELECT a FROM t", max_rows=0)), setup=Setup(database=seed)
    )
    parts = build(of, lambda turn, trial: "done", live=True)
    parts.database = make_database(seed, environment=parts.environment, folder=tmp_path, live=True)
    parts.agent.shows = Shows(acts=acts)
    (found,) = (await run_trial(parts)).evaluations
    assert found.verdict is verdict, found.message


async def test_a_missing_plugin_decides_nothing_about_a_program_of_the_authors(build):
    missing = check("file_exists", path="out.txt")
    steps = (coding("true", missing), asking("go", missing, index=1))
    parts = build(scenario(*steps), lambda turn, trial: "done", missing_plugins=("@acme/files",))
    record = await run_trial(parts)
    assert [each.verdict for each in record.evaluations] == [Verdict.FAILED, Verdict.INCONCLUSIVE]
    assert "'@acme/files'" in record.evaluations[1].message
    assert record.missing_plugins == ("@acme/files",)


async def test_trials_that_are_at_the_same_point_go_on_together(build):
    passed_by: list[str] = []

    class Noted:
        type = "noted"
        params = EvaluationParams

        async def evaluate(self, params, result, context):
            passed_by.append(f"check {result.reply}")
            return passed("noted")

    async def run(name):
        parts = build(scenario(asking("hi", check("noted"))), lambda turn, trial: name)
        parts.evaluator = lambda type_: Noted()
        closed = parts.agent.close

        async def close():
            passed_by.append(f"close {name}")
            await closed()

        parts.agent.close, parts.agent.closes_at_once = close, True  # otherwise it is shielded, and waits for a round
        return await run_trial(parts)

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(run(name))
    assert passed_by == ["check a", "check b", "check c", "close a", "close b", "close c"]
