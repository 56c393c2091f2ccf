"""What an agent does to its own process is an error of its own trial, and of no other."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
from pathlib import Path

import pytest

from steadyhand.builtin.agents.python_pool import ChildPool
from steadyhand.builtin.agents.python_process import COLD_START, ProcessAgent
from steadyhand.errors import AgentError, SetupError
from steadyhand.plugins.plugin import AgentSettings, RunScope
from steadyhand.ports.agent import Judgement, Question
from steadyhand.records.evaluation import JudgeNote
from steadyhand.records.event import ActionTaken, Noted, ServiceCalled
from steadyhand.runtime.runtime import AgentRuntime
from support.agents import a_trial, turn

pytestmark = pytest.mark.system


class Given:
    """A run with one agent in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scope = RunScope(concurrency=1)
        self.options: dict[str, object] = {}
        self.grace_s = ProcessAgent.grace_s

    def write(self, source: str) -> None:
        (self.folder / "mine.py").write_text(textwrap.dedent(source))

    def agent(self, name: str = "agent") -> ProcessAgent:
        settings = AgentSettings(target=f"./mine.py:{name}", folder=self.folder, options=self.options, run=self.scope)
        made = ProcessAgent(settings)
        made.grace_s = self.grace_s
        return made

    async def ask(self, *said: str, name: str = "agent", trial=None, deadline_s: float | None = None) -> str:
        trial = trial or a_trial(self.folder)
        agent = self.agent(name)
        deadline = None if deadline_s is None else trial.clock.now() + deadline_s
        try:
            await agent.open(trial)
            async with asyncio.timeout(deadline_s):
                return (await agent.respond(turn(*said, deadline=deadline))).text
        finally:
            await agent.close()
            await trial.environment.teardown()


@pytest.fixture
async def given(tmp_path: Path):
    made = Given(tmp_path)
    yield made
    await made.scope.close()


CRASHES = {
    "import os; os._exit(0)": "its process ended with exit code 0",
    "import os; os._exit(7)": "its process ended with exit code 7",
    "import os; os.abort()": "its process ended by SIGABRT",
    "import ctypes; ctypes.string_at(0)": "its process ended by SIGSEGV.*mine.py",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": "its process ended by SIGKILL",
    "import sys; sys.exit(0)": "mine.py:{line}: SystemExit: 0",
    "raise KeyboardInterrupt": "mine.py:{line}: KeyboardInterrupt",
    "raise GeneratorExit": "mine.py:{line}: GeneratorExit",
    "import os; os.close(1); os.close(2); print('x', flush=True)": "OSError",
    "import os; os.closerange(3, 1024); import time; time.sleep(30)": "its process",
}
LOOP_CRASHES = {
    "asyncio.get_running_loop().stop(); await asyncio.sleep(30)": "cancelled its own task|its process ended",
    "asyncio.current_task().cancel(); await asyncio.sleep(30)": "the agent cancelled its own task",
    "[task.cancel() for task in asyncio.all_tasks()]; await asyncio.sleep(30)": "cancelled|its process ended",
    "asyncio.get_running_loop().close()": "RuntimeError|its process ended",
}
STANDING = """
import asyncio, faulthandler, os, resource, signal, sys, threading, time
CRASHES = [{crashes}]
LOOP_CRASHES = [{loop_crashes}]
def called(message):
    return str(CRASHES[int(message)]() if message.isdigit() else os.getpid())
async def awaited(message):
    return called(message)
async def awaiting(message):
    return str(await LOOP_CRASHES[int(message)]() if message.isdigit() else os.getpid())
def leaving(message):
    here = os.getpid()
    exec(message)
    return str(here)
def replying(message): return eval(message)
endless = {{}}; endless["self"] = endless
def deep():
    made = {{}}
    for _ in range(100_000): made = {{"a": made}}
    return made
def reporting(message, action):
    action("X", eval(message), eval(message))
    return "done"
"""


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory):
    """A run whose agents serve one test after another. The line of each crash in the file is its number and 1."""
    made = Given(tmp_path_factory.mktemp("standing"))
    made.scope = RunScope(concurrency=6)
    crashes = [f"def crash_{at}(): {attack}" for at, attack in enumerate(CRASHES)]
    loop_crashes = [f"async def loop_crash_{at}(): {attack}" for at, attack in enumerate(LOOP_CRASHES)]
    names = {
        "crashes": ", ".join(f"crash_{at}" for at in range(len(crashes))),
        "loop_crashes": ", ".join(f"loop_crash_{at}" for at in range(len(loop_crashes))),
    }
    made.write("\n".join([*crashes, *loop_crashes]) + STANDING.format(**names))
    yield made
    asyncio.run(made.scope.close())


IMPORTED = """
import sys
imported = set(sys.modules)
def agent(): return " ".join(sorted({name.partition(".")[0] for name in imported}))
"""
LARGE = {"pydantic", "pydantic_core", "yaml", "regex", "uvloop", "click", "rich", "jsonschema", "shutil"}
PID = "import os\ndef agent(): return str(os.getpid())\n"


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z" if sys.platform == "linux" else False


async def test_the_child_imports_nothing_large(given):
    """A child is started for every agent that crashed or hung."""
    given.write(IMPORTED)
    imported = set((await given.ask("hi")).split())
    assert "msgspec" in imported
    assert not imported & LARGE


async def test_the_module_is_imported_in_the_child_only_and_the_child_is_used_again(given):
    given.write("import sys, os\nsys.modules['left_by_the_agent'] = sys\n" + PID)
    first = int(await given.ask("hi"))
    assert first != os.getpid()
    assert int(await given.ask("hi")) == first
    assert "left_by_the_agent" not in sys.modules
    await given.scope.close()
    assert _gone(first)


@pytest.mark.parametrize("attack", CRASHES)
@pytest.mark.parametrize("name", ["called", "awaited"])
async def test_a_crash_is_the_trials_error_and_the_child_is_replaced(standing, attack, name):
    number = list(CRASHES).index(attack)
    with pytest.raises(AgentError, match=f"(?s){CRASHES[attack].format(line=number + 1)}") as raised:
        await standing.ask(str(number), name=name)
    assert f"python:./mine.py:{name}" in str(raised.value)
    assert int(await standing.ask("hi", name=name)) != os.getpid()


@pytest.mark.parametrize("attack", LOOP_CRASHES)
async def test_what_a_coroutine_does_to_its_loop_is_its_own_affair(standing, attack):
    with pytest.raises(AgentError, match=LOOP_CRASHES[attack]):
        await standing.ask(str(list(LOOP_CRASHES).index(attack)), name="awaiting")
    assert int(await standing.ask("hi", name="awaiting"))


HANGS = {
    "swallows cancellation": """
        while True:
            try: await asyncio.sleep(30)
            except asyncio.CancelledError: pass
        """,
    "never awaits": "while True: yield 'x'",
    "computes": "while True: pass",
    # A C function called through `PyDLL` keeps the interpreter's lock, as matching a regular expression does.
    "holds the lock in C": "ctypes.PyDLL(None).sleep(600)",
}


@pytest.mark.parametrize("what", HANGS)
@pytest.mark.parametrize("by", ["its own limit", "the scenario's"])
async def test_a_hang_is_ended_from_outside_with_what_it_started(given, what, by):
    given.grace_s = 0.3  # until it is killed, it may use all of a processor
    given.options = {"timeout_s": 0.3} if by == "its own limit" else {"timeout_s": 60}
    head = "import asyncio, ctypes, os, subprocess, pathlib\nasync def bad(workspace):\n"
    began = "    child = subprocess.Popen(['sleep', '600'])\n"
    tell = f"    pathlib.Path({str(given.folder / 'pids')!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
    body = textwrap.indent(textwrap.dedent(HANGS[what]).strip(), "    ")
    given.write(f"{head}{began}{tell}{body}\n{PID}")
    if by == "its own limit":
        with pytest.raises(AgentError, match=r"did not answer within 0.3 s|blocked the event loop"):
            await given.ask("hi", name="bad")
    else:
        with pytest.raises(TimeoutError):
            await given.ask("hi", name="bad", deadline_s=0.3)
    await given.scope.close()
    pids = [int(pid) for pid in (given.folder / "pids").read_text().split()]
    while not all(map(_gone, pids)):  # noqa: ASYNC110 - a killed process takes a moment to die
        await asyncio.sleep(0.01)
    assert int(await given.ask("hi"))


async def test_a_mess_does_not_reach_the_next_trial(given):
    given.write("""
        import os, sys
        def agent():
            before = [os.getcwd(), os.environ.get("LEFT"), "left" in sys.path, os.getpid()]
            os.chdir("/")
            os.environ["LEFT"] = "behind"
            sys.path.append("left")
            return repr(before)
        """)
    first = await given.ask("hi")
    assert first == await given.ask("hi")
    assert Path.cwd() != Path("/")


async def test_a_thread_that_is_left_behind_costs_the_child_its_place(given):
    given.write("import threading, os\ndef agent():\n    threading.Thread(target=threading.Event().wait, "
                "daemon=True).start()\n    return str(os.getpid())")  # fmt: skip
    assert await given.ask("hi") != await given.ask("hi")


async def test_what_it_prints_is_kept_with_the_trial_and_bounded(given, capfd):
    given.write("import os\ndef agent():\n    print('x' * 3_000_000, flush=True)\n    os.system('echo from a shell')\n"
                "    print('the end', flush=True)\n    return 'done'")  # fmt: skip
    trial = a_trial(given.folder)
    assert await given.ask("hi", trial=trial) == "done"
    cold, note = [event for event in trial.events if isinstance(event, Noted)]
    assert cold.topic == COLD_START
    assert note.message.endswith("x\nfrom a shell\nthe end")
    assert len(note.message) < 20_000
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import os; os._exit(0)", "importing it ended its process with exit code 0"),
        ("print('my last words'); import ctypes; ctypes.string_at(0)", "(?s)by SIGSEGV; .*my last words"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
async def test_a_module_that_ends_its_process_is_said_before_anything_runs(given, source, said):
    given.write(source)
    with pytest.raises(SetupError, match=said):
        given.agent()


async def test_there_are_never_more_children_than_trials_at_a_time(tmp_path):
    made = Given(tmp_path)
    made.scope = RunScope(concurrency=2)
    made.write(PID + "other = agent\nthird = agent\n")
    agents = [made.agent(name) for name in ("agent", "other", "third")]
    pool = made.scope.get(ChildPool, lambda _: ChildPool(0))
    assert len(pool._idle) + len(pool._busy) == 2
    trials = [a_trial(tmp_path) for _ in range(2)]
    for agent, trial in zip(agents, trials, strict=False):
        await agent.open(trial)
    assert len(pool._idle) + len(pool._busy) == 2
    for agent in agents:
        await agent.close()
    await made.scope.close()


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff",
        b"\0\0\0\x01\xc1",
        b"\0\0\0\x05hello",
        b"\0\0\0\x04\x94\x03\x00\xa1",
        b"\0\0\0\x03\x93\x09\x01",
    ],
)
async def test_what_is_not_of_the_protocol_ends_the_child(given, frame):
    given.write(f"""
        import os, socket, time
        def bad():
            for fd in range(3, 64):
                try: found = socket.socket(fileno=os.dup(fd))
                except OSError: continue
                if found.family == socket.AF_UNIX:
                    try: found.sendall({frame!r} + bytes(20))
                    except OSError: pass
            time.sleep(30)
        """)
    with pytest.raises(AgentError, match=r"its process closed the connection|its process ended"):
        await given.ask("hi", name="bad")


class Judging:
    name, self_judged = "judges/one", False

    async def ask(self, question: Question, trial) -> Judgement:
        note = JudgeNote(model=self.name, prompt_hash="h", raw="")
        return Judgement(judgment="yes", note=note, reasoning=question.prompt, confidence=0.75)


async def test_the_whole_trial_is_there_over_the_line(given):
    given.write("""
        import json
        from steadyhand.ports.agent import Question
        from steadyhand.ports.services import ServiceFault
        from steadyhand.records.event import ActionTaken
        from steadyhand.testing import ScriptedAgent
        async def agent(trial, services, emit, environment):
            services.register_mock("own.double", lambda n: {"twice": 2 * n, "raw": b"\\xff"})
            async def refuse(): raise ServiceFault("no", code="NO", status=403)
            services.register_mock("own.refuse", refuse)
            doubled = await services.call("own", "double", [21], {})
            try: await services.get_service("own").refuse()
            except ServiceFault as fault: refused = [str(fault), fault.code, fault.status]
            emit(ActionTaken(at_ms=trial.elapsed_ms(), id="x", name="told", params={"deep": {"er": 1}}))
            ran = await environment.run("cat", stdin=b"in")
            judged = await trial.judge.ask(Question(prompt="why", materials=()), trial)
            return json.dumps([
                doubled["twice"], doubled["raw"] == b"\\xff", refused, ran.stdout, type(ran).__name__,
                judged.reasoning, judged.confidence,
                trial.scenario.id, trial.trial_id, trial.seed, trial.random.random() < 1, trial.live,
                trial.variables["scenario"], trial.shows.actions, 0 < trial.elapsed_ms() < 60_000,
                [each.method for each in await services.offered()], list(services.actions), trial.database,
            ])
        """)
    services = AgentRuntime()
    trial = a_trial(given.folder, services=services, judge=Judging())
    await trial.environment.setup([])
    await services.open(trial)
    assert json.loads(await given.ask("hi", trial=trial)) == [
        42, True, ["no", "NO", 403], "in", "CommandResult", "why", 0.75, "a", "a#0", 7, True, False, "A", "seen", True,
        ["double", "refuse"], [], None,
    ]  # fmt: skip
    assert [event.method for event in trial.events if isinstance(event, ServiceCalled)] == ["double", "refuse"]
    assert [event.params for event in trial.events if isinstance(event, ActionTaken)] == [{"deep": {"er": 1}}]


FORGED = """
import gc
from steadyhand.builtin.agents.python_child import Host
from steadyhand.records.chat import Message
from steadyhand.records.event import ActionTaken, Noted, Said, ServiceCalled, ToolsOffered

EVENTS = {
    "call": ServiceCalled(at_ms=1.0, service="shop", method="refund"),
    "thanks": Said(at_ms=1.0, message=Message(role="user", content="Thank you")),
    "offer": ToolsOffered(at_ms=1.0, complete=True),
    "action": ActionTaken(at_ms=1.0, id="x", name="refund", witnessed=True, relayed=True, also=("trace",), step=4),
    "note": Noted(at_ms=1.0, message="slow", topic="not_running", figures={"ms": 1}),
}

async def by_parameter(message, emit):
    try: emit(EVENTS[message])
    except TypeError: pass
    return "done"

async def by_trial(message, trial):
    trial.emit(EVENTS[message])
    return "done"

async def by_channel(message):
    (host,) = [each for each in gc.get_objects() if type(each) is Host]
    host.channel.post("trial.emit", [EVENTS[message]])
    await host.ask("environment.list_files")
    return "done"
"""


@pytest.mark.parametrize("way", ["by_parameter", "by_trial", "by_channel"])
async def test_it_cannot_tell_what_only_we_know(given, way):
    given.write(FORGED)
    for what in ("call", "thanks", "offer"):
        trial = a_trial(given.folder)
        await trial.environment.setup([])
        refused = (
            "its process ended" if way == "by_channel" else "an agent cannot emit a (ServiceCalled|Said|ToolsOffered)"
        )
        with pytest.raises(AgentError, match=refused):
            await given.ask(what, name=way, trial=trial)
        assert not [event for event in trial.events if not isinstance(event, Noted)]
    for what in ("action", "note"):
        trial = a_trial(given.folder)
        await trial.environment.setup([])
        assert await given.ask(what, name=way, trial=trial) == "done"
        told = [event for event in trial.events if isinstance(event, ActionTaken)]
        assert [(event.witnesses, event.step) for event in told] == ([(("agent",), None)] if what == "action" else [])
        noted = [event for event in trial.events if isinstance(event, Noted) and event.message == "slow"]
        assert [(event.topic, event.figures) for event in noted] == ([(None, {})] if what == "note" else [])


async def test_it_cannot_set_variables_for_the_commands_of_checks(given):
    given.write("""
        async def agent(environment):
            environment.export({"PATH": "."})
        """)
    with pytest.raises(AgentError, match="variables are set by the trial, not by its agent"):
        await given.ask("hi")


@pytest.mark.parametrize("value", ["{None: 1}", "{(1, 2): 3}", "{True: 1}", "endless", "deep()", "{'n': 10 ** 5000}"])
async def test_whatever_it_reports_can_be_read(standing, value):
    trial = a_trial(standing.folder)
    assert await standing.ask(value, name="reporting", trial=trial) == "done"
    (taken,) = [event for event in trial.events if isinstance(event, ActionTaken)]
    assert all(isinstance(key, str) for key in taken.params)


DAEMON = """
import os, resource, signal, sys, time

def daemon(tell, strip=False):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            if strip:
                resource.setrlimit(resource.RLIMIT_RSS, (1 << 30, 1 << 30))
            os.closerange(0, 3)
            shell = "echo $$ > %s.part; mv %s.part %s; exec sleep 600" % (tell, tell, tell)
            os.execve("/bin/sh", ["sh", "-c", shell], {})
        os._exit(0)
    os.wait()
    while not os.path.exists(tell):
        time.sleep(0.005)

"""
ENDINGS = {
    "it replies": ("", False),
    "it replies, both marks removed": ("", True),
    "it kills itself": ("os.kill(os.getpid(), signal.SIGKILL)", False),
    "it exits": ("os._exit(0)", False),
    "it hangs": ("time.sleep(600)", False),
    "it hangs, both marks removed": ("time.sleep(600)", True),
}


@pytest.mark.skipif(sys.platform != "linux", reason="found through /proc")
@pytest.mark.parametrize("how", ENDINGS)
async def test_a_daemon_that_wiped_its_environment_and_left_its_session_ends_with_the_trial(given, how):
    attack, strip = ENDINGS[how]
    tell = given.folder / "daemon.pid"
    given.options = {"timeout_s": 1.0}
    given.write(
        f"{DAEMON}def agent():\n    daemon({str(tell)!r}, {strip})\n    {attack or 'pass'}\n    return 'done'\n"
    )
    if attack:
        with pytest.raises(AgentError):
            await given.ask("hi")
    else:
        assert await given.ask("hi") == "done"
    daemon = int(tell.read_text())
    while not _gone(daemon):  # noqa: ASYNC110 - a killed process takes a moment to die
        await asyncio.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="found through /proc")
async def test_what_importing_the_agent_started_serves_all_its_trials(given):
    given.write("""
        import subprocess, os
        helper = subprocess.Popen(["sleep", "600"])
        def agent():
            ended = subprocess.Popen(["true"])
            os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it is left for somebody else to collect
            return f"{os.getpid()} {helper.pid} {helper.poll()}"
        """)
    first = await given.ask("hi")
    assert first.endswith(" None")
    assert await given.ask("hi") == first
    await given.scope.close()
    assert all(_gone(int(pid)) for pid in first.split()[:2])


LEFT = {
    "a timer": "signal.setitimer(signal.ITIMER_REAL, 60)",
    "a watchdog that exits": "faulthandler.dump_traceback_later(60, exit=True); sys.setrecursionlimit(500)",
    "a limit on files": "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
    "a limit on time": "resource.setrlimit(resource.RLIMIT_CPU, (3600, 3600))",
    "a mask": "os.umask(0o777)",
    "a recursion limit": "sys.setrecursionlimit(100)",
    "another stdout": "sys.stdout = open(os.devnull, 'w')",
    "no hook": "threading.excepthook = None",
    "a trace": "threading.settrace(lambda *_: None)",
    "no importers": "sys.meta_path.clear()",
    "another json": "sys.modules['json'] = sys",
    "a copy of itself": "os.fork() or time.sleep(600)",
}


@pytest.mark.parametrize("what", LEFT)
async def test_a_process_that_a_trial_has_changed_serves_no_other(standing, what):
    first = await standing.ask(LEFT[what], name="leaving")
    assert await standing.ask("pass", name="leaving") != first
    assert _gone(int(first))


async def test_a_copy_of_the_process_does_not_speak_for_it(given):
    given.write("import os\ndef agent():\n    pid = os.getpid()\n    os.fork()\n    return str(os.getpid() == pid)\n")
    for _ in range(5):
        assert await given.ask("hi") == "True"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("'half \\ud83d'", "half \\ud83d"),
        ("type('Marked', (str,), {'encode': None, '__str__': None})('mine')", "mine"),
        ("{'text': type('Marked', (str,), {})('mine')}", "mine"),
    ],
)
async def test_text_of_any_kind_is_a_reply(standing, written, text):
    assert await standing.ask(written, name="replying") == text


async def test_a_file_in_the_current_folder_does_not_stand_in_for_the_library(given, monkeypatch):
    for name in ("json", "socket", "asyncio"):
        (given.folder / f"{name}.py").write_text("raise SystemExit('not mine')\n")
    monkeypatch.chdir(given.folder)
    (given.folder / "agents").mkdir()
    (given.folder / "agents/mine.py").write_text("def agent(): return 'hello'\n")
    settings = AgentSettings(target="./mine.py:agent", folder=given.folder / "agents", run=given.scope)
    ProcessAgent(settings)


IDLE = """\
import queue, threading, time

WORK = queue.Queue()

def agent(message):
    if message == "idle":
        threading.Thread(target=WORK.get, daemon=True, name="worker").start()
    elif message == "busy":
        threading.Thread(target=time.sleep, args=(60,), daemon=True, name="busy").start()
    return "done"

async def of_anyio(message):
    import anyio
    return await anyio.to_thread.run_sync(lambda: "done")
"""


@pytest.mark.parametrize(
    ("name", "said", "replaced"), [("agent", "idle", False), ("of_anyio", "", False), ("agent", "busy", True)]
)
async def test_a_worker_that_waits_for_work_is_no_reason_to_replace_the_process(given, name, said, replaced):
    given.write(IDLE)
    trial = a_trial(given.folder)
    assert await given.ask(said, name=name, trial=trial) == "done"
    notes = [event.message for event in trial.events if isinstance(event, Noted) and event.level == "warning"]
    assert [note.partition(": its")[2] for note in notes] == [
        " process is not used again, so later trials start cold: a thread of the agent was still running: busy"
    ] * replaced
