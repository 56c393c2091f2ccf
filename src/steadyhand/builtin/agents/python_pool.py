"""The child processes of `python:` agents.

A pool holds at most as many children as trials run at a time. A child serves one trial at a time and is reused while it
is healthy; one that died, hung or was left in a bad state is killed with everything it started, and replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import shutil
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from steadyhand.builtin.agents.addresses import program_variables
from steadyhand.builtin.agents.python_callable import CallLimits
from steadyhand.builtin.agents.python_wire import TrialRequests
from steadyhand.children.channel import Channel, Kind, MalformedMessage, RemoteError, packed, raised, read
from steadyhand.children.daemons import write_owner
from steadyhand.children.process import ChildProcess, Output
from steadyhand.errors import AgentError, SetupError
from steadyhand.ports.agent import Addresses, AgentProcess, ReusableAddresses, TrialContext
from steadyhand.ports.isolation import Isolation, NoIsolation, Watch
from steadyhand.records.base import Record

LOAD_S: Final = 120.0
"""How long importing an agent may take."""

_MAIN = "steadyhand.builtin.agents.python_child:main"


class LoadedAgent(Record):
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


class Child:
    """One child process, and our end of the channel to it."""

    def __init__(self, spec: LoadedAgent, mark: str, isolation: Isolation, folder: Path | None) -> None:
        """`folder` is for the workspaces of its trials, if it sees no others. Raises `SetupError` when no process can
        be started."""
        self.spec: LoadedAgent = spec
        self.folder: Path | None = folder
        self._watch: Watch | None = isolation.watch
        self.requests: TrialRequests | None = None
        self.loaded: bool = False
        self.trials: int = 0
        self.names: frozenset[str] = frozenset()
        """The agent's parameters; known once it is loaded."""
        self._addresses: Addresses = spec.addresses()
        variables = {**os.environ, **spec.variables, **spec.addressed(self._addresses)}
        try:
            visible = () if folder is None else (folder,)
            self._process: ChildProcess = ChildProcess(
                _MAIN, variables, mark=mark, room=lambda argv: isolation.command(argv, visible)
            )
        except OSError as error:
            raise SetupError(f"agent python:{spec.target}: cannot start its process: {error}") from error
        self.identity: AgentProcess = AgentProcess(self._process.pid, mark)
        self._socket = self._process.connection
        self.output: Output = self._process.output
        self.channel: Channel = Channel(self._socket, serve=self._serve, hear=self._hear, lost=lambda _: None)

    def load(self) -> None:
        """Block until the agent is imported and checked. Raises `SetupError`."""
        name = f"agent python:{self.spec.target}"
        deadline = time.monotonic() + LOAD_S
        try:
            self.watched()
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
        self.unwatched()

    @property
    def alive(self) -> bool:
        return self.channel.gone is None and self._process.alive

    def begin(self, trial: TrialContext, own: Mapping[str, str]) -> TrialRequests:
        addresses = trial.addresses
        if self.spec.gateway is not None:
            addresses = self.spec.gateway.point(self._addresses, trial, self.identity)
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

    def watched(self, workspace: Path | None = None) -> None:
        """From here on it counts what it opens of what its trials are judged by, if that is watched."""
        if self._watch is not None:
            self._watch.begin(self.identity, workspace)

    def unwatched(self) -> tuple[str, ...]:
        """What it has opened, since its start: it may have kept it."""
        return () if self._watch is None else self._watch.end(self.identity)

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
    If each child has a room, it sees one folder in there, and serves the trials that have their workspaces in it.
    """

    def __init__(self, limit: int, workspaces: Path | None = None, isolation: Isolation | None = None) -> None:
        self._limit = max(1, limit)
        self._family: str = f"agents-{secrets.token_hex(8)}"
        self._started: int = 0
        self.isolation: Isolation = isolation or NoIsolation()
        self._folder: Path | None = None
        self._taken: set[Path] = set()
        if workspaces is not None and self.isolation.kind == "room":
            self._folder = workspaces / self._family
        self._owner: Path | None = None if workspaces is None else workspaces / f"{self._family}.owner"
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._dead: list[Child] = []
        self._checked: dict[tuple[Any, ...], frozenset[str]] = {}
        self._warned: set[str] = set()
        weakref.finalize(self, _end_all, self._idle, self._busy, self._dead)

    def check(self, spec: LoadedAgent) -> frozenset[str]:
        """Check once, blocking, that the agent can be imported and used: what it asks for. Raises `SetupError`."""
        if spec.key not in self._checked:
            child = self._start(spec, self.free_folder(spec))
            try:
                child.load()
            except BaseException:
                child.bury()
                raise
            watch = self.isolation.watch
            if watch is None or watch.names_processes:
                self._idle.append(child)
            else:  # we read files ourselves before the first trial, and it could too
                child.bury()
            self._checked[spec.key] = child.names
        return self._checked[spec.key]

    def is_news(self, why: str) -> bool:
        """Whether a reason for replacing a process has not been told in this run."""
        new = why not in self._warned
        self._warned.add(why)
        return new

    def free_folder(self, spec: LoadedAgent) -> Path | None:
        """A folder for the workspace of a trial, which nothing else is in; that of an idle child, if there is one. None
        if children see all workspaces."""
        if self._folder is None:
            return None
        idle = [child.folder for child in self._idle if child.folder is not None]
        own = [child.folder for child in self._idle if child.folder is not None and child.spec.key == spec.key]
        numbered = (self._folder / str(number) for number in itertools.count())
        first = itertools.chain(own, (each for each in numbered if each not in idle or len(idle) >= self._limit))
        found = next(each for each in first if each not in self._taken and _is_empty(each))
        found.mkdir(mode=0o700, parents=True, exist_ok=True)
        return found

    def hold(self, folder: Path | None) -> Path | None:
        """Keep the folder for one trial, until its child is given back."""
        if folder is not None:
            self._taken.add(folder)
        return folder

    def release(self, folder: Path | None) -> None:
        if folder is not None:
            self._taken.discard(folder)

    def take(self, spec: LoadedAgent, folder: Path | None) -> Child:
        """An idle child, or a new one that has loaded nothing yet; one that sees this folder for workspaces."""
        for child in [each for each in self._idle if each.spec.key == spec.key and each.folder == folder]:
            self._idle.remove(child)
            if child.alive:
                self._busy.add(child)
                return child
            self._drop(child)
        child = self._start(spec, folder)
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
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        if self._owner is not None:
            self._owner.unlink(missing_ok=True)

    def _start(self, spec: LoadedAgent, folder: Path | None) -> Child:
        while self._idle and len(self._idle) + len(self._busy) >= self._limit:
            self._drop(self._idle.pop(0))
        if self._owner is not None and self._started == 0:
            with contextlib.suppress(OSError):  # a trial that needs the folder says so
                write_owner(self._owner)
        self._started += 1
        return Child(spec, f"{self._family}.{self._started}", self.isolation, folder)

    def _drop(self, child: Child) -> None:
        child.kill()
        self._dead.append(child)


def _end_all(*children: list[Child] | set[Child]) -> None:
    for some in children:
        while some:
            some.pop().bury()


def _is_empty(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is None
    except FileNotFoundError:
        return True
