"""The process that a `python:` agent runs in. Started by `python_process`, never imported for its effects.

The agent itself is a `CallableAgent`, as without a child process. It is given a proxy of its trial, which
forwards every call to the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import pickle
import queue
import random
import resource
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import thread as executors
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from steadyhand.builtin.agents.python_callable import CallableAgent, CallLimits
from steadyhand.builtin.agents.python_wire import (
    AGENT_VERBS,
    TRIAL_VERBS,
    ActionCard,
    Kept,
    Moment,
    Opening,
    Present,
    Verb,
)
from steadyhand.children.channel import Channel, read, receive_variables
from steadyhand.children.daemons import children, collect
from steadyhand.children.process import die_with_parent, keep_together
from steadyhand.errors import AgentError
from steadyhand.ports.agent import Addresses, Reply, Shows, Turn
from steadyhand.ports.model import ChatModel
from steadyhand.ports.services import Action, ActionContext, ServiceAnswer
from steadyhand.privacy import close_to_others
from steadyhand.records.base import plain_fields
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.records.event import AnyEvent, told_by_agent
from steadyhand.records.scenario import Scenario
from steadyhand.runtime.runtime import ServiceProxy

_ENDING_S = 1.0
_THREAD_S = 0.1
_LIMITS = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_STACK")


class RemoteClock:
    def __init__(self) -> None:
        self._moment: Moment = Moment(elapsed_ms=0.0, now=0.0, stamp=time.perf_counter())

    def set(self, moment: Moment) -> None:
        self._moment = moment

    def now(self) -> float:
        return self._moment.now + time.perf_counter() - self._moment.stamp

    def elapsed_ms(self) -> float:
        return round(self._moment.elapsed_ms + (time.perf_counter() - self._moment.stamp) * 1000.0, 3)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RemotePart:
    """A part of the trial. Its methods are the verbs of this name."""

    def __init_subclass__(cls, *, verbs: str = "", without: tuple[str, ...] = ()) -> None:
        for name, verb in TRIAL_VERBS.items():
            part, _, method = name.partition(".")
            if part == verbs and method not in (*vars(cls), *without):
                setattr(cls, method, _method(name, verb))

    def __init__(self, host: Host) -> None:
        self.host: Host = host


def _method(name: str, verb: Verb) -> Callable[..., Any]:
    def post(self: RemotePart, *args: Any, **named: Any) -> None:
        self.host.post(name, *args, **named)

    async def ask(self: RemotePart, *args: Any, **named: Any) -> Any:
        return await self.host.ask(name, *args, **named)

    return post if verb.posted else ask


def _refused(what: str) -> Callable[..., Any]:
    async def refuse(self: RemotePart, *args: Any, **named: Any) -> None:
        raise AgentError(f"{what} by the trial, not by its agent")

    return refuse


class RemoteEnvironment(RemotePart, verbs="environment", without=("folder",)):
    setup = _refused("the environment is set up")
    teardown = _refused("the environment is torn down")

    def __init__(self, host: Host, opening: Opening) -> None:
        super().__init__(host)
        self.name: str = opening.environment
        self.sandboxed: bool = opening.sandboxed

    def export(self, variables: Mapping[str, str]) -> None:
        raise AgentError("variables are set by the trial, not by its agent")


class RemoteFolder(RemoteEnvironment):
    """An environment whose workspace is a folder on this machine."""

    async def folder(self) -> Path:
        return Path(await self.host.ask("environment.folder"))


class RemoteServices(RemotePart, verbs="services"):
    open = _refused("the services are opened")
    close = _refused("the services are closed")

    def __init__(self, host: Host, cards: Sequence[ActionCard]) -> None:
        super().__init__(host)
        self.actions: Mapping[str, Action] = {card.name: self._action(card) for card in cards}

    def _action(self, card: ActionCard) -> Action:
        async def handler(params: dict[str, Any], _: ActionContext) -> Any:
            return await self.host.ask("services.perform", card.name, params, recorded=True)

        return Action(
            name=card.name,
            handler=handler,
            description=card.description,
            parameters=card.parameters,
            plugin=card.plugin,
        )

    def get_service(self, name: str) -> Any:
        return ServiceProxy(name, partial(self.host.ask, "services.call"))

    async def answer(
        self, service: str, method: str, args: list[Any], named: dict[str, Any], *, action_id: str | None = None
    ) -> ServiceAnswer:
        return ServiceAnswer(value=await self.host.ask("services.call", service, method, args, named))

    async def broken(self) -> Exception | None:
        found: str | None = await self.host.ask("services.broken")
        return None if found is None else AgentError(found)


class RemoteJudge(RemotePart, verbs="judge"):
    def __init__(self, host: Host, name: str, self_judged: bool) -> None:
        super().__init__(host)
        self.name: str = name
        self.self_judged: bool = self_judged


class RemoteDatabase(RemotePart, verbs="database"):
    pass


class RemoteTrial:
    """Implements `ports.agent.TrialContext` for the agent of one trial. It sends nothing after the trial."""

    def __init__(self, host: Host, opening: Opening) -> None:
        self._host = host
        self._over = False
        self.scenario: Scenario = pickle.loads(opening.scenario)  # noqa: S301 - our own parent pickled it
        self.trial_id: str = opening.trial_id
        self.seed: int = opening.seed
        self.random: random.Random = random.Random(opening.seed)  # noqa: S311 - repeatability, not secrecy
        self.live: bool = opening.live
        self.clock: RemoteClock = RemoteClock()
        environment = RemoteFolder if opening.on_this_machine else RemoteEnvironment
        self.environment: RemoteEnvironment = environment(host, opening)
        self.services: RemoteServices | None = RemoteServices(host, opening.actions) if opening.services else None
        self.database: RemoteDatabase | None = RemoteDatabase(host) if opening.database else None
        self.judge: RemoteJudge | None = RemoteJudge(host, *opening.judge) if opening.judge else None
        self.addresses: Addresses = opening.addresses
        self.shows: Shows = Shows()
        self.variables: Mapping[str, Any] = {}

    def set(self, present: Present) -> None:
        self.clock.set(present.moment)
        self.shows = present.shows
        self.variables = present.variables

    def elapsed_ms(self) -> float:
        return self.clock.elapsed_ms()

    def emit(self, event: AnyEvent) -> None:
        if not self._over:
            self._host.post("trial.emit", told_by_agent(event))

    async def call(self, model: ChatModel, request: ChatRequest) -> ChatResponse:
        number = self._host.keep(model)
        try:
            return await self._host.ask("trial.call", Kept(number=number, name=str(model.name)), request)
        except Exception:
            # The original was raised on this side, and has the line in the agent's code.
            if (own := self._host.failed.get(number)) is not None:
                raise own from None
            raise
        finally:
            await self._host.let_go(number)

    def end(self) -> None:
        self._over = True


class _ProcessState:
    """The state of the process that trials share, as it was at the start."""

    def __init__(self) -> None:
        self._folder = os.getcwd()  # noqa: PTH109 - raises if the folder is gone; `Path` does not
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._threads = set(threading.enumerate())
        self._children: set[int] = set()
        self._settings: tuple[Any, ...] | None = None

    def restore(self) -> None:
        if self._settings is None:  # what importing the agent changed holds for all its trials
            self._settings = _settings()
        self._children = children()  # those that importing the agent started serve all its trials
        os.chdir(self._folder)
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        sys.path[:] = self._path

    def clean_up(self) -> str:
        """Collect what the agent started. The reason not to reuse the process, such as what still runs; else empty."""
        pooled: Mapping[Any, Any] = getattr(executors, "_threads_queues", {})  # idle executor threads are harmless
        others = [each for each in threading.enumerate() if each not in self._threads and each not in pooled]
        for each in others:  # one that has just handed over its result needs a moment to end
            if not _waits_for_work(each):
                each.join(_THREAD_S)
        running = [each.name for each in others if each.is_alive() and not _waits_for_work(each)]
        try:
            os.fstat(1)
            os.fstat(2)
            closed = sys.stdout.closed or sys.stderr.closed
        except (OSError, AttributeError):
            closed = True
        faulthandler.cancel_dump_traceback_later()
        changed = _settings() != self._settings
        started = collect(children() - self._children)
        if running:
            return f"a thread of the agent was still running: {running[0]}"
        if closed:
            return "its stdout or stderr is closed"
        if changed:
            return "it changed a timer, signal handler, limit or trace function"
        return "a process that it started was still running" if started else ""


def _waits_for_work(thread: threading.Thread) -> bool:
    """Whether it is a worker of a pool that has nothing to do: it waits for a queue, without a time limit, or is the
    idle event loop of one. Such threads are kept by AnyIO, LiteLLM and LlamaIndex, among others."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented, and the only way to another thread's stack
    if frame is None:
        return False
    inner, outer = frame, frame.f_back
    if inner.f_code.co_filename == threading.__file__ and outer is not None:
        return outer.f_code.co_filename == queue.__file__ and outer.f_locals.get("timeout") is None
    if inner.f_code.co_filename != selectors.__file__ or outer is None:
        return False
    loop = outer.f_locals.get("self")
    return isinstance(loop, asyncio.BaseEventLoop) and not asyncio.all_tasks(loop)


def _settings() -> tuple[Any, ...]:
    """State that a trial could leave behind for the next one: a pending timer, a limit, a handler, a trace function."""
    mask = os.umask(0o077)
    os.umask(mask)
    return (
        mask,
        [signal.getitimer(timer)[0] > 0 for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)],
        [signal.getsignal(number) for number in range(1, 32)],
        [resource.getrlimit(getattr(resource, name)) for name in _LIMITS if hasattr(resource, name)],
        (sys.getrecursionlimit(), sys.gettrace(), sys.getprofile(), threading.gettrace(), sys.getswitchinterval()),
        [id(each) for each in (sys.stdout, sys.stderr, sys.excepthook, threading.excepthook, sys.modules)],
        [id(each) for each in (sys.modules.get("os"), sys.modules.get("json"), *sys.meta_path)],
    )


class Host:
    """Serves the parent process: opens, asks and closes one agent at a time."""

    def __init__(self, connection: socket.socket, done: asyncio.Event) -> None:
        self.channel: Channel = Channel(connection, serve=self._serve, hear=self._hear, lost=lambda _: done.set())
        self._process_state = _ProcessState()
        self._loaded: tuple[str, Path, CallLimits] | None = None
        self._agent: CallableAgent | None = None
        self._trial: RemoteTrial | None = None
        self._kept: dict[int, Any] = {}
        self._attempts: dict[int, set[asyncio.Task[Any]]] = {}
        self._numbers = 0
        self.failed: dict[int, Exception] = {}
        """What the last attempt of a model on this side raised."""

    def keep(self, thing: Any) -> int:
        """A number by which the parent can refer to it."""
        self._numbers += 1
        self._kept[self._numbers] = thing
        return self._numbers

    async def let_go(self, number: int) -> None:
        self._kept.pop(number, None)
        self.failed.pop(number, None)
        for task in self._attempts.pop(number, set()):
            task.cancel()
            await asyncio.wait([task])

    def _hear(self, name: str, payload: msgspec.Raw) -> None:
        """The parent posts nothing."""

    async def _serve(self, name: str, payload: msgspec.Raw) -> Any:
        verb = AGENT_VERBS[name]
        return await verb.answered(getattr(self, name), read(payload, verb.arguments))

    async def ask(self, name: str, *args: Any, **named: Any) -> Any:
        verb = TRIAL_VERBS[name]
        return read(await self.channel.call(name, verb.packed(args, named, self.keep)), verb.result)

    def post(self, name: str, *args: Any, **named: Any) -> None:
        self.channel.post(name, TRIAL_VERBS[name].packed(args, named, self.keep))

    # What the parent asks for

    async def load(self, target: str, folder: str, limits: CallLimits) -> list[str]:
        """What the agent asks for. Raises `SetupError`."""
        self._loaded = (target, Path(folder), limits)
        return sorted(CallableAgent(*self._loaded).names)

    async def open(self, opening: Opening, present: Present) -> None:
        assert self._loaded is not None
        self._process_state.restore()
        os.environ.update(opening.variables)
        trial = self._trial = RemoteTrial(self, opening)
        trial.set(present)
        agent = self._agent = CallableAgent(*self._loaded)
        await agent.open(cast("Any", trial))

    async def respond(self, turn: Turn, present: Present) -> tuple[Reply, bool]:
        """The reply, and whether it reports the agent's actions too."""
        assert self._agent is not None
        assert self._trial is not None
        self._trial.set(present)
        reply = await self._agent.respond(turn)
        return reply, self._agent.reports_actions

    async def close(self) -> str:
        """Why the process cannot be reused; empty if it can."""
        agent, self._agent = self._agent, None
        trial, self._trial = self._trial, None
        try:
            if agent is not None:
                await agent.close()
        finally:
            if trial is not None:
                trial.end()
            self._kept.clear()
        me = asyncio.current_task()
        rest = [task for task in asyncio.all_tasks() if task is not me and task.get_name() != "steadyhand"]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=_ENDING_S)
        if not all(task.done() for task in rest):
            return "a task of the agent did not end"
        return self._process_state.clean_up()

    async def attempt(self, number: int, request: ChatRequest, zero: float) -> ChatResponse:
        model: ChatModel = self._kept[number]
        task = asyncio.ensure_future(model.attempt(request, zero=zero))
        self._attempts.setdefault(number, set()).add(task)
        self.failed.pop(number, None)
        try:
            response = await task
        except asyncio.CancelledError:
            task.cancel()
            raise
        except Exception as error:
            self.failed[number] = error
            raise
        return msgspec.structs.replace(response, tool_calls=tuple(map(plain_fields, response.tool_calls)))

    async def mock(self, number: int, args: list[Any], named: dict[str, Any]) -> Any:
        value = self._kept[number](*args, **named)
        return await value if asyncio.iscoroutine(value) else value


async def _live(connection: socket.socket) -> None:
    done = asyncio.Event()
    task = asyncio.current_task()
    assert task is not None
    task.set_name("steadyhand")
    Host(connection, done).channel.attach()
    await done.wait()


def main(fd: int) -> None:
    die_with_parent()
    keep_together()
    close_to_others(keep=os.environ)  # the block holds no more than an interpreter needs
    faulthandler.enable(all_threads=False)
    connection = socket.socket(fileno=fd)
    os.register_at_fork(after_in_child=connection.close)  # a forked copy must not use our connection
    os.environ.update(receive_variables(connection))
    try:
        asyncio.run(_live(connection))
    except BaseException:  # noqa: BLE001 - the agent stopped the loop or cancelled everything; the parent reports it
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)
