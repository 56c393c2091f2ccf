"""`python:` agents in child processes: an agent that crashes, hangs or corrupts its process costs one trial.

A pool holds at most as many children as trials run at a time. A child serves one trial at a time and is reused while it
is healthy; one that died, hung or was left in a bad state is killed with everything it started, and replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import msgspec

from steadyhand.builtin.agents.addresses import limit_of, program_variables, trial_places
from steadyhand.builtin.agents.python import PythonAgent, PythonOptions, PythonSight
from steadyhand.builtin.agents.python_callable import CallLimits
from steadyhand.builtin.agents.python_requests import TrialRequests
from steadyhand.builtin.agents.python_target import read_target
from steadyhand.builtin.agents.python_wire import portable
from steadyhand.children.channel import (
    Channel,
    Kind,
    MalformedMessage,
    RemoteError,
    packed,
    raised,
    read,
)
from steadyhand.children.daemons import write_owner
from steadyhand.children.process import ChildProcess, Output
from steadyhand.errors import AgentError, SetupError, TrialError
from steadyhand.plugins.plugin import AgentSettings, Options, RunScope, read_options
from steadyhand.ports.agent import Addresses, Agent, AgentProcess, Reply, ReusableAddresses, Shows, TrialContext, Turn
from steadyhand.records.base import Record
from steadyhand.records.event import Noted

LOAD_S: Final = 120.0
"""How long importing an agent may take."""

_MAIN = "steadyhand.builtin.agents.python_child:main"


class Spec(Record):
    """What a child has loaded: an agent, and the environment variables it was started with.

    `gateway` provides the addresses that the child keeps for its life, because clients cache them. They lead to
    whichever trial it serves.
    """

    target: str
    folder: str
    options: dict[str, Any]
    limits: CallLimits
    variables: dict[str, str]
    env: dict[str, str] = {}
    gateway: Any = None
    model: Any = None

    def addresses(self) -> Addresses:
        """New addresses. Raises `SetupError` if `env` names an unknown one."""
        gateway: ReusableAddresses | None = self.gateway
        return Addresses() if gateway is None else gateway.reusable(self.model)

    def addressed(self, addresses: Addresses, own: Mapping[str, str] | None = None) -> dict[str, str]:
        return program_variables(addresses, self.env, wanted_by=f"agent python:{self.target}", own=own)

    @property
    def load(self) -> list[Any]:
        return [self.target, self.folder, self.limits]

    @property
    def key(self) -> tuple[Any, ...]:
        options = repr(sorted(self.options.items()))
        return (self.target, self.folder, options, hash(frozenset(self.variables.items())), id(self.model))


class PythonAgentFactory:
    """Builds the agent in a child process, or in ours if the option `in_process` is set."""

    uses_gateway: ClassVar[bool] = True
    names_python: ClassVar[bool] = True
    options: ClassVar[type[Options]] = PythonOptions

    def __call__(self, settings: AgentSettings) -> Agent:
        """Raises `SetupError`."""
        read = read_options(PythonOptions, settings.options, f"agent python:{settings.target}")
        return cast("Agent", PythonAgent(settings) if read.in_process else ProcessAgent(settings))


python_agent = PythonAgentFactory()


class Child:
    """One child process, and our end of the channel to it."""

    def __init__(self, spec: Spec, mark: str) -> None:
        """Raises `SetupError` when no process can be started."""
        self.spec: Spec = spec
        self.requests: TrialRequests | None = None
        self.loaded: bool = False
        self.names: frozenset[str] = frozenset()
        """The agent's parameters; known once it is loaded."""
        self._addresses: Addresses = spec.addresses()
        self._mark: str = mark
        variables = {**os.environ, **spec.variables, **spec.addressed(self._addresses)}
        try:
            self._process: ChildProcess = ChildProcess(_MAIN, variables, mark=mark)
        except OSError as error:
            raise SetupError(f"agent python:{spec.target}: cannot start its process: {error}") from error
        self._socket = self._process.connection
        self.output: Output = self._process.output
        self.channel: Channel = Channel(self._socket, serve=self._serve, hear=self._hear, lost=lambda _: None)

    def load(self) -> None:
        """Block until the agent is imported and checked. Raises `SetupError`."""
        name = f"agent python:{self.spec.target}"
        deadline = time.monotonic() + LOAD_S
        try:
            self._socket.setblocking(True)
            self._socket.sendall(packed(Kind.CALL, 0, "load", self.spec.load))
            self._socket.setblocking(False)
            answer = self._process.first_frame(deadline)
        except (BrokenPipeError, ConnectionResetError):
            answer = None
        except (MalformedMessage, TimeoutError) as error:
            self.kill()
            why = error if isinstance(error, MalformedMessage) else f"importing it took longer than {LOAD_S:g} s"
            raise SetupError(f"{name}: {why}{self.last_words()}") from error
        if answer is None:
            ended = self._process.how_it_ended(wait_s=0.2)
            raise SetupError(f"{name}: importing it ended its process{ended}{self.last_words()}")
        if answer.kind is Kind.FAIL:
            fault: RemoteError = read(answer.payload, RemoteError)
            self.kill()
            error = raised(fault)
            raise error if isinstance(error, SetupError) else SetupError(f"{name}: {fault.type}: {fault.message}")
        self.loaded = True
        self.names = frozenset(read(answer.payload, list[str]))

    @property
    def alive(self) -> bool:
        return self.channel.gone is None and self._process.alive

    def begin(self, trial: TrialContext, own: Mapping[str, str]) -> TrialRequests:
        addresses = trial.addresses
        if self.spec.gateway is not None:
            process = AgentProcess(self._process.pid, self._mark)
            addresses = self.spec.gateway.point(self._addresses, trial, process)
        variables = self.spec.addressed(addresses, own)
        requests = self.requests = TrialRequests(self.channel, trial, addresses, variables)
        self.channel.attach()
        self.output.attach()
        return requests

    def end(self) -> None:
        if self.spec.gateway is not None:
            self.spec.gateway.rest(self._addresses)
        self.channel.detach()
        self.output.detach()
        self.requests = None

    def kill(self) -> None:
        """Kill it with everything it started. Safe to call twice."""
        self._process.kill()
        self.channel.close("its process was killed")

    def bury(self) -> None:
        """Release what a killed process leaves behind, after a short wait for it to end."""
        self.kill()
        self._process.bury()

    async def cause_of_death(self) -> str:
        """After the channel closed: what happened to the process, and the end of what it printed."""
        ended = await self._process.ended()
        said, words = self.channel.gone, self.last_words()
        self.kill()
        if not ended:
            return f"its process closed the connection{f' ({said})' if said else ''}{words}"
        return f"its process ended{ended}{words}"

    def last_words(self) -> str:
        return self._process.last_words()

    def _hear(self, name: str, payload: msgspec.Raw) -> None:
        if self.requests is not None:
            self.requests.hear(name, payload)

    async def _serve(self, name: str, payload: msgspec.Raw) -> Any:
        if self.requests is None:
            raise AgentError("the trial is over")
        return await self.requests.serve(name, payload)


class ChildPool:
    """The children of a run: at most `limit`, including those in use.

    With a folder for `workspaces`, it leaves a file there by which the next run finds what is left, if we are killed.
    """

    def __init__(self, limit: int, workspaces: Path | None = None) -> None:
        self._limit = max(1, limit)
        self._family: str = f"agents-{secrets.token_hex(8)}"
        self._started: int = 0
        self._owner: Path | None = None if workspaces is None else workspaces / f"{self._family}.owner"
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._dead: list[Child] = []
        self._checked: dict[tuple[Any, ...], frozenset[str]] = {}
        weakref.finalize(self, _end_all, self._idle, self._busy, self._dead)

    def check(self, spec: Spec) -> frozenset[str]:
        """Check once, blocking, that the agent can be imported and used: what it asks for. Raises `SetupError`."""
        if spec.key not in self._checked:
            child = self._start(spec)
            try:
                child.load()
            except BaseException:
                child.bury()
                raise
            self._idle.append(child)
            self._checked[spec.key] = child.names
        return self._checked[spec.key]

    def take(self, spec: Spec) -> Child:
        """An idle child, or a new one that has loaded nothing yet."""
        for child in [each for each in self._idle if each.spec.key == spec.key]:
            self._idle.remove(child)
            if child.alive:
                self._busy.add(child)
                return child
            self._drop(child)
        child = self._start(spec)
        self._busy.add(child)
        return child

    async def give_back(self, child: Child, *, healthy: bool) -> None:
        """Take it back. One that is not reused ends here and now, with everything it started."""
        self._busy.discard(child)
        child.end()
        if healthy and child.alive:
            self._idle.append(child)
        else:
            self._drop(child)
            await asyncio.to_thread(_end_all, self._dead)

    async def close(self) -> None:
        for child in [*self._idle, *self._busy]:
            self._drop(child)
        self._idle.clear()
        self._busy.clear()
        await asyncio.to_thread(_end_all, self._dead)
        if self._owner is not None:
            self._owner.unlink(missing_ok=True)

    def _start(self, spec: Spec) -> Child:
        while self._idle and len(self._idle) + len(self._busy) >= self._limit:
            self._drop(self._idle.pop(0))
        if self._owner is not None and self._started == 0:
            with contextlib.suppress(OSError):  # a trial that needs the folder says so
                write_owner(self._owner)
        self._started += 1
        return Child(spec, f"{self._family}.{self._started}")

    def _drop(self, child: Child) -> None:
        child.kill()
        self._dead.append(child)


def _end_all(*children: list[Child] | set[Child]) -> None:
    for some in children:
        while some:
            some.pop().bury()


class ProcessAgent:
    """A `python:` agent in a child process, where `CallableAgent` calls it.

    The child enforces the time limit itself, because it can tell where the code hung. Ours comes `grace_s` later and
    works even if the child does not respond.
    """

    grace_s: float = 1.0
    """How long a child may overrun its own limit, or take to stop a turn, before it is killed."""

    def __init__(self, settings: AgentSettings) -> None:
        """Raises `SetupError` if the target cannot be imported, or has a required parameter that we do not provide."""
        self._name: str = f"python:{settings.target}"
        options = read_options(PythonOptions, settings.options, f"agent python:{settings.target}")
        self._limit_s: float = options.timeout_s
        read_target(settings.target, settings.folder)  # starting a process for nothing takes long
        self._spec = _spec(settings, options.limits)
        self._own: ChildPool | None = None
        if settings.run is None:
            self._own = self._pool = ChildPool(1)
        else:
            self._pool = settings.run.get(ChildPool, _pool_of)
        self._sight: PythonSight = PythonSight(settings, options, self._pool.check(self._spec))
        self._child: Child | None = None
        self._trial: TrialContext | None = None
        self._call: asyncio.Future[Any] | None = None
        self._hung: bool = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def shows(self) -> Shows:
        return self._sight.shows

    async def open(self, trial: TrialContext) -> None:
        self._trial = trial
        own = await trial_places(trial, self._spec.env, wanted_by=self._name)
        child = self._child = self._pool.take(self._spec)
        requests = child.begin(trial, own)
        if not child.loaded:
            await self._ask(child, "load", self._spec.load, LOAD_S)
            child.loaded = True
        await self._ask(child, "open", [requests.opening(), requests.present()], self._limit_s * 2)

    async def respond(self, turn: Turn) -> Reply:
        assert self._trial is not None, "respond before open"
        child = self._ready()
        requests = child.requests
        assert requests is not None
        limit_s = limit_of(turn, self._limit_s)
        reply, told = read(await self._ask(child, "respond", [turn, requests.present()], limit_s), tuple[Reply, bool])
        self._sight.ended(told=told)
        return reply

    async def close(self) -> None:
        child, self._child = self._child, None
        trial, self._trial = self._trial, None
        try:
            if child is None:
                return
            healthy = False
            try:
                if child.alive:
                    healthy = read(await self._ask(child, "close", None, self._limit_s), bool)
            finally:
                printed = child.output.text()
                if trial is not None and printed:
                    note = f"the agent printed: {printed}"
                    trial.emit(Noted(at_ms=trial.elapsed_ms(), message=note, level="debug"))
                await self._pool.give_back(child, healthy=healthy)
        finally:
            if self._own is not None:
                await self._own.close()

    def _ready(self) -> Child:
        if self._child is None:
            raise AgentError(f"{self._name}: it is closed")
        if self._hung:
            raise AgentError(f"{self._name}: it did not stop its previous turn, so its process was killed")
        return self._child

    async def _settle(self, child: Child) -> None:
        """Wait for a cancelled call to end, or kill the child."""
        call, self._call = self._call, None
        if call is None or call.done():
            return
        await asyncio.wait([call], timeout=self.grace_s)
        if not call.done():
            self._hung = True
            child.kill()

    async def _ask(self, child: Child, what: str, payload: Any, limit_s: float | None) -> msgspec.Raw:
        """The child's answer. Raises `AgentError`, or a `TrialError` that passed through the agent's code.

        If we are cancelled, the child is asked to stop, and killed if it has not done so after `grace_s`.
        """
        try:
            number, call = child.channel.begin(what, payload)
        except ConnectionError as error:
            raise AgentError(f"{self._name}: {await child.cause_of_death()}") from error
        self._call = call
        call.add_done_callback(_looked_at)
        try:
            done, _ = await asyncio.wait([call], timeout=None if limit_s is None else limit_s + self.grace_s)
        except asyncio.CancelledError:
            # An agent that keeps running could change what is evaluated next.
            child.channel.cancel(number)
            try:
                await self._settle(child)
            except asyncio.CancelledError:
                child.kill()
            raise
        if not done:
            child.kill()
            raise AgentError(
                f"{self._name}: it did not answer within {limit_s or 0:g} s and did not stop when asked; its "
                f"process was killed{child.last_words()}"
            )
        self._call = None
        try:
            return call.result()
        except ConnectionError as error:
            raise AgentError(f"{self._name}: {await child.cause_of_death()}") from error
        except TrialError:
            raise
        except Exception as error:
            raise AgentError(f"{self._name}: raised {type(error).__name__}: {error}") from error


def _looked_at(call: asyncio.Future[Any]) -> None:
    """Silence asyncio's warning about an exception that nobody is waiting for."""
    if not call.cancelled():
        call.exception()


def _pool_of(run: RunScope) -> ChildPool:
    return ChildPool(run.concurrency, run.workspaces)


def _spec(settings: AgentSettings, limits: CallLimits) -> Spec:
    own = {name: value for name, value in settings.variables.items() if os.environ.get(name) != value}
    options = {name: portable(value) for name, value in settings.options.items()}
    return Spec(
        target=settings.target,
        folder=str(settings.folder),
        options=options,
        limits=limits,
        variables=own,
        env=dict(options.get("env", {})),
        gateway=settings.gateway,
        model=settings.model,
    )
