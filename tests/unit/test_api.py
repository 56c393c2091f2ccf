"""Runs started from Python."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
import pytest

import steadyhand
from steadyhand.api.run import RunArguments
from steadyhand.cli.run import Reports
from steadyhand.cli.run import run as run_command
from steadyhand.plugin import (
    CapturedFile,
    CommandResult,
    Environment,
    EvaluationParams,
    Evaluator,
    ExecutionResult,
    Plugin,
    failed,
    passed,
)
from steadyhand.records.config import RunOptions, Selection

ROOT = Path(__file__).parents[2]


def scenario(value: str = "Ada", **more: Any) -> dict[str, Any]:
    checks = [{"type": "string_contains", "value": value}]
    return {
        "id": "greeting",
        "name": "Greeting",
        "description": "It greets by name.",
        "environment": {"type": "local"},
        "run": [{"input": "I am Ada.", "evaluations": checks}],
        "judgment": {"strategy": "all_pass"},
        **more,
    }


async def polite(message: str) -> str:
    return f"Good morning, {message}"


def curt(message: str) -> str:
    return f"{len(message)}?"


class Remembering:
    def __init__(self) -> None:
        self.heard: list[str] = []

    async def respond(self, message: str) -> str:
        self.heard.append(message)
        return " ".join(self.heard)


async def streaming(message: str):
    yield "Hello, "
    yield message


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _one_or_several(name: str | None) -> str | None:
    return {"models": "model", "agents": "agent"}.get(name or "", name)


def test_the_options_are_those_of_the_command() -> None:
    """`paths`, `agent`, `config` and `plugins` are separate parameters; `command` is what was typed; several models or
    agents can be given in place of one. `rejudge`, `rubric` and `votes` belong to another command. Exact ids are for
    callers that have read them from somewhere. Parts of a run, such as shards, are for CI and its command."""
    ours = set(RunArguments.__annotations__)
    rejudging = {"rejudge", "rubric", "votes"}
    records = {*Selection.__struct_fields__, *RunOptions.__struct_fields__}
    parts = {"failed_of", "only", "shard"}
    beside = {"paths", "agent", "agents", "models", "config", "ignore_config", "ignore_env_file", "plugins", "command"}
    assert ours == records - beside - rejudging - parts
    reports = {"otel", "no_progress", "dry_run", "watch", *Reports.__struct_fields__}
    assert (
        ours - {"ids"} | {"paths", "agent", "config", "plugins"}
        == {_one_or_several(each.name) for each in run_command.params} - reports - parts
    )


def test_the_page_names_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "python-api.md").read_text()
    assert [name for name in RunArguments.__annotations__ if f"`{name}`" not in page] == []


def test_the_options_have_the_types_of_the_record() -> None:
    theirs = {**get_type_hints(Selection), **get_type_hints(RunOptions)}
    for name, ours in get_type_hints(RunArguments).items():
        one_or_several = {tuple[str, ...]} if name == "model" else set()
        assert _members(ours) == _members(theirs[name]) | one_or_several, name


def _members(hint: Any) -> set[Any]:
    """The members of a union; a path may be given as text, and a tuple as a list."""
    members = set(get_args(hint)) if get_origin(hint) in (UnionType, Union) else {hint}
    if members >= {str, os.PathLike[str]}:
        members = members - {str, os.PathLike[str]} | {Path}
    return {tuple[str, ...] if each == Sequence[str] else each for each in members}


@pytest.mark.parametrize("agent", [polite, Remembering, streaming, lambda message: message])
def test_a_callable_is_the_agent(agent: Any) -> None:
    result = steadyhand.run(scenario(), agent=agent)
    assert result.exit_code is steadyhand.ExitCode.PASSED
    assert result.passed
    result.assert_passed()


class Desk:
    def respond(self, message: str) -> str:
        return message


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (Desk(), r"must be an agent kind, a function or a class, not .*; pass the class Desk, so that each trial"),
        (5, "must be an agent kind, a function or a class, not 5$"),
        ([polite, "model", polite], r"the agent .*:polite is given twice; name each target once"),
    ],
)
def test_what_cannot_be_an_agent_is_refused(agent: Any, told: str) -> None:
    with pytest.raises(steadyhand.SetupError, match=told):
        steadyhand.run(scenario(), agent=agent)


def test_a_partial_is_called_by_the_name_of_its_function() -> None:
    def greet(greeting: str, message: str) -> str:
        return f"{greeting}, {message}"

    (trial,) = steadyhand.run(scenario(), agent=functools.partial(greet, "Hello"))
    assert (trial.verdict, trial.agent.endswith("<locals>.greet")) == ("passed", True)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "found None"),
        (5, "found 5"),
        (b"a.yaml", "found b'a.yaml'"),
        ([[]], "found a list"),
        (steadyhand.Scenario, "found the class Scenario"),
        (steadyhand.Loaded(), "found a Loaded; pass its `scenarios`"),
    ],
)
def test_what_cannot_be_a_scenario_is_refused(given: Any, told: str) -> None:
    with pytest.raises(steadyhand.SetupError, match=told):
        steadyhand.run(given, agent=polite)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("steps", "hello", "`steps`: Expected `list`, got `str`"),
        ("steps", ({"input": "hello"},), r"`steps\[0\]`: Object contains unknown field `input`"),
        ("trials", "3", r"`trials`: Expected `int \| None`, got `str`"),
        ("id", 7, "the Scenario 7 is wrong: `id`"),
    ],
)
def test_a_scenario_that_was_changed_to_something_else_is_refused(field: str, value: Any, told: str) -> None:
    (loaded,) = steadyhand.load(scenario()).scenarios
    changed = msgspec.structs.replace(loaded, **{field: value})
    with pytest.raises(steadyhand.SetupError, match=told):
        steadyhand.run(changed, agent=polite)
    assert steadyhand.run(msgspec.structs.replace(loaded, context={"own": object()}), agent=polite).passed


def test_several_agents_are_several_targets() -> None:
    result = steadyhand.run(scenario(), agent=[polite, curt])
    assert [(each.scenario_id.partition("[")[0], each.verdict.value) for each in result.rates] == [
        ("greeting", "passed"),
        ("greeting", "failed"),
    ]
    assert [each.agent for each in result] == [f"python:{__name__}:polite", f"python:{__name__}:curt"]
    assert len({each.name for each in result.header.targets.values()}) == 2


def test_trials_end_when_it_is_decided() -> None:
    result = steadyhand.run(scenario(), agent=polite, trials=60, pass_rate=0.5, until="decided", concurrency=1)
    (rate,) = result.rates
    assert (result.passed, len(result) + rate.saved, rate.not_run) == (True, 60, 0)
    assert rate.saved > 30
    assert result.figures.suite is not None
    assert (result.figures.suite.rate, result.figures.suite.saved) == (1.0, rate.saved)
    with pytest.raises(steadyhand.SetupError, match="alpha"):
        steadyhand.run(scenario(), agent=polite, until="decided", alpha=1.5)


def test_trials_are_typed() -> None:
    result = steadyhand.run(scenario(), agent=polite, trials=2)
    first, second = result
    assert (len(result), first.index, second.index) == (2, 0, 1)
    assert first.verdict is steadyhand.Verdict.PASSED
    assert first.name == "Greeting"
    assert [(each.role, each.content) for each in first.transcript] == [
        ("user", "I am Ada."),
        ("assistant", "Good morning, I am Ada."),
    ]
    assert first.reply == "Good morning, I am Ada."
    assert [each.verdict for each in first.evaluations] == [steadyhand.Verdict.PASSED]
    assert first.latency_ms is not None
    assert first.latency_ms <= first.duration_ms
    assert first.agent == f"python:{__name__}:polite"
    assert result.trial("greeting", 1).record == second.record
    with pytest.raises(KeyError, match="scenarios: greeting"):
        result.trial("nobody")


def test_failing_is_said() -> None:
    result = steadyhand.run([scenario(), scenario(id="other", name="Other")], agent=curt)
    assert result.exit_code is steadyhand.ExitCode.FAILED
    with pytest.raises(AssertionError) as raised:
        result.assert_passed()
    told = str(raised.value).splitlines()
    assert told[0].startswith("2 of 2 scenarios did not pass")
    assert [line for line in told if "check failed" in line] == [
        "greeting: failed: the only check failed: string_contains",
        "other: failed: the only check failed: string_contains",
    ]
    assert sum(line.startswith("    assistant ") for line in told) == 2


def test_ids_select_exactly() -> None:
    several = [scenario(), scenario(id="greeting2", name="Other")]
    assert [rate.scenario_id for rate in steadyhand.run(several, agent=polite, ids=["greeting"]).rates] == ["greeting"]
    with pytest.raises(steadyhand.SetupError, match=r"no scenario has the id 'greting'; did you mean 'greeting'\?"):
        steadyhand.run(several, agent=polite, ids=["greeting2", "greting"])


def test_an_agent_that_raises_is_an_error_not_a_failure() -> None:
    def broken(message: str) -> str:
        raise ValueError(message)

    result = steadyhand.run(scenario(), agent=broken)
    assert [trial.verdict for trial in result] == [steadyhand.Verdict.ERROR]
    assert result.exit_code is steadyhand.ExitCode.UNDECIDED
    assert not result.passed


def test_a_result_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"use `result\.passed`"):
        assert steadyhand.run(scenario(), agent=polite)


def test_a_run_on_record_is_opened_again(elsewhere: Path) -> None:
    done = steadyhand.run(scenario(), agent=polite, out="records")
    for name, out in ((done.id, "records"), ("last", "records"), (done.path, None), (str(done.path), None)):
        again = steadyhand.open_run(name, out=out)
        assert (again.id, again.rates, again.exit_code) == (done.id, done.rates, done.exit_code)
        assert again.to_json() == done.to_json()
    done.write_json("report.json")
    assert Path("report.json").read_text() == done.to_json()
    with pytest.raises(steadyhand.StoreError, match="no run 'nothing'"):
        steadyhand.open_run("nothing", out="records")


def test_a_result_is_read_after_the_folder_was_left(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = steadyhand.run(scenario(), agent=polite)
    other = elsewhere / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    assert len(list(result)) == 1


def test_trials_are_read_one_by_one(elsewhere: Path) -> None:
    result = steadyhand.run(scenario(), agent=polite, trials=70)
    with sqlite3.connect(result.path) as connection:
        connection.execute("UPDATE trial SET body = x'00' WHERE idx = 69")
    connection.close()
    trials = iter(result)
    assert next(trials).index == 0
    assert len(result) == 70
    *_, damaged = trials
    assert (damaged.index, damaged.verdict) == (69, steadyhand.Verdict.ERROR)
    assert not steadyhand.open_run(result.path).passed


def test_files_and_scenarios_go_together(elsewhere: Path) -> None:
    Path("a.scenario.yaml").write_text(
        "name: A\ndescription: a\nenvironment: {type: local}\n"
        "run: [{input: I am Ada., evaluations: [{type: string_contains, value: Ada}]}]\n"
        "judgment: {strategy: all_pass}\n"
    )
    loaded = steadyhand.load([Path("a.scenario.yaml"), scenario()])
    assert [each.id for each in loaded.scenarios] == ["a", "greeting"]
    assert not loaded.problems
    result = steadyhand.run(["a.scenario.yaml", scenario(id="b"), loaded.scenarios[1]], agent=polite)
    assert [rate.scenario_id for rate in result.rates] == ["a", "b", "greeting"]
    with pytest.raises(steadyhand.FileError, match=r"id `a` is already used at a\.scenario\.yaml"):
        steadyhand.run(["a.scenario.yaml", loaded.scenarios[0]], agent=polite)
    chosen = steadyhand.run(loaded.scenarios, agent=polite, expression="greeting")
    assert [rate.scenario_id for rate in chosen.rates] == ["greeting"]


def test_a_matrix_is_loaded_as_its_combinations() -> None:
    loaded = steadyhand.load(ROOT / "examples/trials/stock.matrix.yaml")
    assert not loaded.problems
    assert len([each for each in loaded.scenarios if each.cell]) > 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"run": []}, "<scenario 1>: name: required key `name` is missing"),
        (scenario(plugin=[]), "<scenario 1>: plugin: unknown key `plugin`; did you mean `plugins`?"),
        (scenario(tags={"a"}), "<scenario 1>: tags: expected text, a number, true or false, None, a list or a mapping"),
        (scenario(tags=[b"a"]), r"<scenario 1>: tags\[0\]: expected text.*found a bytes"),
        ({1: 2}, "<scenario 1>: expected text as key, found int 1"),
        ("nowhere.yaml", "nowhere.yaml: no such file or folder"),
    ],
)
def test_what_is_wrong_with_a_scenario_is_located(given: Any, problem: str) -> None:
    with pytest.raises(steadyhand.FileError, match=problem):
        steadyhand.run(given, agent=polite)
    found = steadyhand.load(given)
    assert found.errors


def test_data_that_holds_itself_ends() -> None:
    loop: dict[str, Any] = scenario()
    loop["metadata"] = loop
    with pytest.raises(steadyhand.FileError, match="nested more than 64 levels deep"):
        steadyhand.run(loop, agent=polite)


def test_two_scenarios_of_one_id_are_refused() -> None:
    with pytest.raises(steadyhand.FileError, match="id `greeting` is already used at <scenario 1>"):
        steadyhand.run([scenario(), scenario()], agent=polite)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"trials": 0}, "option `trials` is 0"),
        ({"trials": "3"}, r"option `trials` is '3': expected `int \| None`, got `str`"),
        ({"pass_rate": 1.5}, "option `pass_rate` is 1.5"),
        ({"pass_rate": float("nan")}, "option `pass_rate` is nan"),
        ({"timeout_s": -1}, "option `timeout_s` is -1"),
        ({"concurrency": 0}, "option `concurrency` is 0"),
        ({"retries": 21}, "option `retries` is 21"),
        ({"max_cost": 0}, "option `max_cost` is 0"),
        ({"max_tokens": 0}, "option `max_tokens` is 0"),
        ({"tags": "a"}, "option `tags` is 'a': expected `list`, got `str`"),
        ({"ids": ["a", 5]}, r"option `ids` is \['a', 5\]: expected `str`, got `int`"),
        ({"until": "decied"}, "option `until` is 'decied': expected 'decided'"),
        ({"engine": "cloud"}, "option `engine` is 'cloud': expected 'local' or 'ray'"),
        ({"observer": 5}, "`observer` is 5, which has no method `run_started`; derive its class from"),
        ({"plugins": None}, "name of one in `plugins`; found None"),
        ({"plugins": [Plugin]}, "found the class Plugin"),
        ({"plugins": {"mine": 1}}, "found a dict"),
        ({"live": "yes"}, "option `live` is 'yes'"),
        ({"out": 5}, "option `out` is 5"),
        ({"model": polite}, "option `model` is <function polite"),
        ({"config": "missing.toml"}, "configuration file missing.toml: no such file"),
        ({"agent": "runtim"}, "did you mean 'runtime'"),
    ],
)
def test_an_impossible_option_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(steadyhand.SetupError, match=problem):
        steadyhand.run(scenario(), **{"agent": polite, **options})


@pytest.mark.parametrize(
    ("name", "near"), [("modle", "model"), ("plugin", "plugins"), ("command", None), ("paths", None)]
)
def test_an_option_that_is_none_is_a_type_error(name: str, near: str | None) -> None:
    hint = rf"; did you mean '{near}'\?" if near else ""
    with pytest.raises(TypeError, match=rf"run\(\) has no option '{name}'{hint}"):
        steadyhand.run(scenario(), **{name: "x"})


def test_what_cannot_be_a_run_is_refused() -> None:
    anything: Any = 5
    with pytest.raises(steadyhand.SetupError, match="`run` is 5; expected the path of a record, an id or `last`"):
        steadyhand.open_run(anything)
    with pytest.raises(steadyhand.SetupError, match="a run to compare is 5; expected a RunResult"):
        steadyhand.compare(anything)
    with pytest.raises(steadyhand.SetupError, match="between 0 and 1, got '95%'"):
        steadyhand.compare("last", confidence=cast("Any", "95%"))


def test_configuration_is_read_when_asked_for(elsewhere: Path) -> None:
    Path("replies.yaml").write_text("rules:\n  - reply: Hello Ada\n")
    Path("steadyhand.toml").write_text('model = "scripted/replies.yaml"\nout = "there"\n')
    Path("other").mkdir()
    Path("other/mine.toml").write_text('model = "scripted/../replies.yaml"\nout = "here"\n')
    with pytest.raises(steadyhand.SetupError, match="needs a model"):
        steadyhand.run(scenario(), agent="model")
    assert steadyhand.run(scenario(), agent=polite).path.parent == elsewhere / ".steadyhand/runs"
    found = steadyhand.run(scenario(), agent="model", config="auto")
    assert (found.passed, found.path.parent) == (True, elsewhere / "there")
    named = steadyhand.run(scenario(), agent="model", config=Path("other/mine.toml"))
    assert (named.passed, named.path.parent) == (True, elsewhere / "other/here")
    assert steadyhand.open_run("last", config="auto").id == found.id


def test_nothing_of_the_process_is_touched(capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []

    def state() -> list[Any]:
        handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
        return [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), handlers, Path.cwd(), dict(os.environ)]

    def watching(message: str) -> str:
        seen.append(state())
        return message

    before = state()
    steadyhand.run(scenario(), agent=watching)
    asyncio.run(_async_run(watching))
    assert before == state()
    assert [each[:3] for each in seen] == [before[:3]] * 2
    assert seen[0][3] == before[3]
    assert capfd.readouterr() == ("", "")


async def _async_run(agent: Any) -> None:
    await steadyhand.run_async(scenario(), agent=agent)


async def test_it_runs_on_a_running_loop() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def agent(message: str) -> str:
        loops.append(asyncio.get_running_loop())
        return message

    assert (await steadyhand.run_async(scenario(), agent=agent)).passed
    assert loops == [asyncio.get_running_loop()]
    assert steadyhand.run(scenario(), agent=agent).passed
    assert loops[1] is not loops[0]
    assert threading.active_count() >= 1


async def test_runs_go_side_by_side_in_one_loop_and_in_threads() -> None:
    both = [steadyhand.run_async(scenario(id=name), agent=polite, trials=3) for name in ("a", "b")]
    threads = [asyncio.to_thread(steadyhand.run, scenario(id=name), agent=curt) for name in ("c", "d")]
    results = await asyncio.gather(*both, *threads)
    found = [({trial.scenario_id for trial in each}, len(each), each.passed) for each in results]
    assert found == [({"a"}, 3, True), ({"b"}, 3, True), ({"c"}, 1, False), ({"d"}, 1, False)]


def test_a_result_comes_back_from_a_pool_of_processes() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        result = pool.submit(steadyhand.run, scenario(), agent="command:cat", ids=("greeting",)).result()
    assert [trial.scenario_id for trial in result] == ["greeting"]


async def test_a_cancelled_run_keeps_what_was_finished() -> None:
    asked: list[str] = []
    second = asyncio.Event()

    async def slow(message: str) -> str:
        asked.append(message)
        if len(asked) > 1:
            second.set()
            await asyncio.sleep(3600)
        return message

    task = asyncio.ensure_future(steadyhand.run_async(scenario(), agent=slow, trials=3, concurrency=1, out="runs"))
    await second.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    left = steadyhand.open_run("last", out="runs")
    assert (len(left), left.finished, left.exit_code) == (1, False, steadyhand.ExitCode.UNDECIDED)


def test_an_interrupt_cancels_the_run_and_is_raised(elsewhere: Path) -> None:
    program = (
        "import asyncio, os, signal, steadyhand\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job ignores it from the start
        "async def agent(message):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    await asyncio.sleep(3600)\n"
        f"try:\n    steadyhand.run({scenario()!r}, agent=agent)\n"
        "except KeyboardInterrupt:\n    print('interrupted', steadyhand.open_run('last').finished)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("interrupted False\n", "")


def test_a_run_of_objects_is_not_resumed_from_its_record(elsewhere: Path) -> None:
    result = steadyhand.run(scenario(), agent=polite)
    command = [str(Path(sys.executable).parent / "steadyhand"), "resume", result.id]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the run was started from Python with scenarios, an agent or plugins" in done.stderr


class Longest(EvaluationParams):
    letters: int


class AtMost(Evaluator[Longest]):
    type = "at_most"

    async def evaluate(self, params, result, context):
        found = len(result.reply)
        return passed("short") if found <= params.letters else failed(f"{found} letters")


@pytest.mark.parametrize(("letters", "verdict"), [(50, "passed"), (3, "failed")])
def test_a_plugin_is_given_as_an_object(letters: int, verdict: str) -> None:
    plugin = Plugin(name="short", evaluators={"at_most": AtMost})
    checked = scenario(run=[{"input": "I am Ada.", "evaluations": [{"type": "at_most", "letters": letters}]}])
    result = steadyhand.run(checked, agent=polite, plugins=[plugin])
    assert [trial.verdict.value for trial in result] == [verdict]
    assert not steadyhand.load(checked, plugins=[plugin]).problems
    assert steadyhand.load(checked).errors


def test_plugins_are_objects_or_names(elsewhere: Path) -> None:
    (elsewhere / "polite_plugin.py").write_text(
        "from steadyhand.plugin import Plugin, Reply, Shows\n\n\n"
        "class Polite:\n"
        "    shows = Shows()\n"
        "    name = 'polite'\n\n"
        "    def __init__(self, settings): ...\n"
        "    async def open(self, trial): ...\n"
        "    async def respond(self, turn): return Reply(text='Good day. Order 17 came to 42.50 EUR.')\n"
        "    async def close(self): ...\n\n\n"
        "plugin = Plugin(name='polite', agents={'polite': Polite})\n"
    )
    result = steadyhand.run(scenario(), agent="polite", plugins=["./polite_plugin.py", Plugin(name="empty")])
    assert next(iter(result)).reply == "Good day. Order 17 came to 42.50 EUR."
    with pytest.raises(steadyhand.SetupError, match="expected a Plugin or the name of one in `plugins`; found 17"):
        steadyhand.run(scenario(), agent="polite", plugins=[17])  # pyright: ignore[reportArgumentType]


class Bare(Environment):
    """Does nothing; every command has the result `answer`."""

    answer: Any = None

    def __init__(self, settings: object) -> None: ...

    @property
    def name(self) -> str:
        return "bare"

    @property
    def sandboxed(self) -> bool:
        return True

    async def setup(self, files) -> None: ...

    async def run(self, command, *, timeout_s=None, stdin=None, env=None):
        return self.answer

    def export(self, variables) -> None: ...

    async def read(self, path) -> None: ...

    async def write(self, path, content) -> None: ...

    async def list_files(self) -> list[str]:
        return []

    async def capture(self) -> dict[str, CapturedFile]:
        return {}

    async def teardown(self) -> None: ...


def test_a_command_result_says_how_it_ended() -> None:
    with pytest.raises(TypeError, match="Missing required argument"):
        CommandResult(stdout="done")  # pyright: ignore[reportCallIssue]


ENDED = CommandResult(exit_code=0, stdout="done", stderr="", duration_ms=1.0)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ExecutionResult(stdout="done"), "`run` returned a ExecutionResult; expected a CommandResult"),
        (None, "`run` returned a NoneType; expected a CommandResult"),
        (msgspec.structs.replace(ENDED, exit_code="0"), "`exit_code` of its CommandResult is '0'; expected int"),
        (msgspec.structs.replace(ENDED, stdout=b"done"), "`stdout` of its CommandResult is b'done'; expected str"),
    ],
)
def test_an_environment_that_answers_something_else_is_an_error(answer: Any, told: str) -> None:
    class Odd(Bare):
        pass

    Odd.answer = answer
    step = {"lang": "bash", "code": "x", "evaluations": [{"type": "string_contains", "value": "done"}]}
    ran = scenario(environment={"type": "odd"}, run=[step])
    result = steadyhand.run(ran, plugins=[Plugin(name="odd", environments={"odd": Odd})])
    [trial] = result
    assert trial.verdict is steadyhand.Verdict.ERROR
    assert f"environment 'bare': {told}" in trial.reason


def test_an_environments_output_is_what_checks_read() -> None:
    class Fine(Bare):
        answer = CommandResult(exit_code=0, stdout="pump 3: stopped\n", stderr="", duration_ms=1.0)

    step = {"lang": "bash", "code": "x", "evaluations": [{"type": "string_contains", "value": "pump 3: stopped"}]}
    ran = scenario(environment={"type": "fine"}, run=[step])
    assert steadyhand.run(ran, plugins=[Plugin(name="fine", environments={"fine": Fine})]).passed


def test_the_observer_is_told_as_it_goes() -> None:
    class Watching:
        def __init__(self) -> None:
            self.told: list[str] = []

        def run_started(self, header) -> None:
            self.told.append(f"{header.planned} planned")

        def trial_started(self, key, name) -> None:
            self.told.append(f"{key} {name}")

        def trial_finished(self, record) -> None:
            self.told.append(record.judged.verdict.value)

        def noted(self, message) -> None: ...

        def run_finished(self) -> None:
            self.told.append("finished")

    watching = Watching()
    steadyhand.run(scenario(), agent=polite, observer=watching)
    assert watching.told == ["1 planned", "greeting#0 Greeting", "passed", "finished"]


@pytest.mark.parametrize(
    ("script", "last"),
    [
        ("triage.py", "TRIAGE-2: 3 of 3 trials passed, all required"),
        ("in_a_loop.py", "greeting: failed: the only check failed: string_contains"),
    ],
)
def test_the_examples_run(script: str, last: str) -> None:
    command = [sys.executable, str(ROOT / "examples/python_api" / script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert last in done.stdout.splitlines()
    assert done.stderr == ""


def test_the_environment_of_the_docs_runs() -> None:
    result = steadyhand.run(ROOT / "examples/plugins/plant.scenario.yaml", config=ROOT / "examples/steadyhand.toml")
    result.assert_passed()


def test_runs_are_compared() -> None:
    before = steadyhand.run(scenario(), agent=polite, trials=12, out="runs")
    after = steadyhand.run(scenario(), agent=curt, trials=12, out="runs")
    found = steadyhand.compare(before, after.path)
    (each,) = found.comparisons
    assert isinstance(found, steadyhand.Comparison)
    assert (each.finding, [change.kind for change in each.changes]) == ("worse", ["regression"])
    assert steadyhand.compare(before, before).comparisons[0].finding == "cannot_tell"


def test_a_run_alone_is_compared_with_nothing() -> None:
    alone = steadyhand.run(scenario(), agent=polite, out="runs")
    with pytest.raises(steadyhand.SetupError, match="nothing to compare: the run has only one target"):
        steadyhand.compare(alone)
    with pytest.raises(steadyhand.SetupError, match="confidence between 0 and 1"):
        steadyhand.compare(alone, alone, confidence=95)
    with pytest.raises(steadyhand.SetupError, match="nothing to compare: give at least one run"):
        steadyhand.compare()
