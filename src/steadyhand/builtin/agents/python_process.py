"""`python:` agents in child processes: an agent that crashes, hangs or corrupts its process costs one trial."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec

from steadyhand.builtin.agents.addresses import limit_of, trial_places, workspace_of
from steadyhand.builtin.agents.python import PythonAgent, PythonOptions, PythonSight
from steadyhand.builtin.agents.python_callable import CallLimits
from steadyhand.builtin.agents.python_pool import LOAD_S, Child, ChildPool, LoadedAgent
from steadyhand.builtin.agents.python_target import read_target
from steadyhand.builtin.agents.python_wire import AGENT_VERBS, portable
from steadyhand.children.channel import read
from steadyhand.errors import AgentError, TrialError
from steadyhand.plugins.plugin import AgentSettings, Options, RunScope, read_options
from steadyhand.ports.agent import Agent, Reply, Shows, TrialContext, Turn
from steadyhand.ports.environment import OnThisMachine
from steadyhand.records.event import Noted
from steadyhand.records.isolation import IsolationKind

COLD_START = "cold_start"
"""The topic of the note that a trial is the first of its agent's process: what it loads and connects to counts."""


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


class ProcessAgent:
    """A `python:` agent in a child process, where `CallableAgent` calls it.

    The child enforces the time limit itself, because it can tell where the code hung. Ours comes `grace_s` later and
    works even if the child does not respond.
    """

    grace_s: float = 1.0
    """How long a child may overrun its own limit, or take to stop a turn, before it is killed."""

    def __init__(self, settings: AgentSettings) -> None:
        """Raises `SetupError` if the target cannot be imported, or has a required parameter that we do not provide."""
        self.name: str = f"python:{settings.target}"
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
        self.isolation: IsolationKind = self._pool.isolation.kind
        self.opened_key_files: tuple[str, ...] = ()
        self._child: Child | None = None
        self._folder: Path | None = None
        self._trial: TrialContext | None = None
        self._call: asyncio.Future[Any] | None = None
        self._hung: bool = False

    @property
    def shows(self) -> Shows:
        return self._sight.shows

    def reserve_workspaces(self) -> Path | None:
        """See `ports.agent.reserve_workspaces`."""
        if self._folder is None:
            self._folder = self._pool.hold(self._pool.free_folder(self._spec))
        return self._folder

    async def open(self, trial: TrialContext) -> None:
        self._trial = trial
        own = await trial_places(trial, self._spec.env, wanted_by=self.name)
        child = self._child = self._pool.take(self._spec, self.reserve_workspaces())
        if self.isolation == "watched":
            here = isinstance(trial.environment, OnThisMachine)
            child.watched(await workspace_of(trial, self.name) if here else None)
        requests = child.begin(trial, own)
        child.trials += 1
        if child.trials == 1:
            note = f"{self.name}: the first trial of its process"
            trial.emit(Noted(at_ms=trial.elapsed_ms(), message=note, level="debug", topic=COLD_START))
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
        answer = await self._ask(child, "respond", [turn, requests.present()], limit_s)
        reply, reports = read(answer, AGENT_VERBS["respond"].result)
        self._sight.ended(reports=reports)
        return reply

    async def close(self) -> None:
        child, self._child = self._child, None
        trial, self._trial = self._trial, None
        folder, self._folder = self._folder, None
        try:
            if child is None:
                return
            healthy = False
            try:
                if child.alive:
                    why = read(await self._ask(child, "close", [], self._limit_s), str)
                    healthy = not why
                    if trial is not None and why and self._pool.is_news(why):
                        note = f"{self.name}: its process is not used again, so later trials start cold: {why}"
                        trial.emit(Noted(at_ms=trial.elapsed_ms(), message=note, level="warning"))
            finally:
                printed = child.output.text()
                if trial is not None and printed:
                    note = f"the agent printed: {printed}"
                    trial.emit(Noted(at_ms=trial.elapsed_ms(), message=note, level="debug"))
                self.opened_key_files = child.unwatched()
                await self._pool.give_back(child, healthy=healthy and not self.opened_key_files)
        finally:
            self._pool.release(folder)
            if self._own is not None:
                await self._own.close()

    def _ready(self) -> Child:
        if self._child is None:
            raise AgentError(f"{self.name}: it is closed")
        if self._hung:
            raise AgentError(f"{self.name}: it did not stop its previous turn, so its process was killed")
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
            raise AgentError(f"{self.name}: {await child.cause_of_death()}") from error
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
                f"{self.name}: it did not answer within {limit_s or 0:g} s and did not stop when asked; its "
                f"process was killed{child.last_words()}"
            )
        self._call = None
        try:
            return call.result()
        except ConnectionError as error:
            raise AgentError(f"{self.name}: {await child.cause_of_death()}") from error
        except TrialError:
            raise
        except Exception as error:
            raise AgentError(f"{self.name}: raised {type(error).__name__}: {error}") from error


def _looked_at(call: asyncio.Future[Any]) -> None:
    """Silence asyncio's warning about an exception that nobody is waiting for."""
    if not call.cancelled():
        call.exception()


def _pool_of(run: RunScope) -> ChildPool:
    return ChildPool(run.concurrency, run.workspaces, run.isolation)


def _spec(settings: AgentSettings, limits: CallLimits) -> LoadedAgent:
    own = {name: value for name, value in settings.variables.items() if os.environ.get(name) != value}
    options = {name: portable(value) for name, value in settings.options.items()}
    return LoadedAgent(
        target=settings.target,
        folder=str(settings.folder),
        options=options,
        limits=limits,
        variables=own,
        env=dict(options.get("env", {})),
        gateway=settings.gateway,
        model=settings.model,
    )
