"""The `command` agent: a program in any language that reads and writes JSON lines, and the format of the lines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from steadyhand.builtin.agents.addresses import limit_of, program_variables, reached_through, trial_places
from steadyhand.builtin.agents.message_list import tool_calls
from steadyhand.builtin.agents.options import ProgramOptions
from steadyhand.builtin.agents.trajectory import TrajectoryReporter, latest_user_text, shows_of_program
from steadyhand.children.program import LONGEST_LINE, CommandLine, LineProcess, TooLong, read_command
from steadyhand.errors import AgentError
from steadyhand.plugins.plugin import AgentSettings, Options, read_options
from steadyhand.ports.agent import Addresses, AgentProcess, Reply, ReusableAddresses, Shows, TrialContext, Turn
from steadyhand.ports.environment import MarksPrograms, OnThisMachine
from steadyhand.ports.isolation import Isolation, NoIsolation
from steadyhand.ports.services import ServiceFault
from steadyhand.records.base import plain, shorten
from steadyhand.records.event import ActionStatus, ServiceCalled
from steadyhand.records.isolation import IsolationKind

_SHOWN = 200


class ThoughtLine(msgspec.Struct, tag="thought", forbid_unknown_fields=True):
    text: str


class ActionLine(msgspec.Struct, tag="action", forbid_unknown_fields=True):
    """An action. With `result`, its observation is recorded too."""

    name: str
    params: dict[str, Any] = {}
    status: ActionStatus = "success"
    result: Any = msgspec.UNSET
    duration_ms: float = 0.0


class ObservationLine(msgspec.Struct, tag="observation", forbid_unknown_fields=True):
    """The result of the last action of this name."""

    name: str
    content: Any = None


class CallLine(msgspec.Struct, tag="call", forbid_unknown_fields=True):
    """Calls a service's method. The answer is a line of type `result` or `fault` with the same `id`."""

    service: str
    method: str
    id: Any = None
    args: list[Any] = []
    params: dict[str, Any] = {}


class ReplyLine(msgspec.Struct, tag="reply", forbid_unknown_fields=True):
    """Ends the turn. If `number` is given, it must be that of the turn. `tool_calls` are what it did in this turn and
    has not reported in lines of their own; an empty list says that there was nothing."""

    text: str
    number: int | None = None
    tool_calls: list[Any] | None = None


class FailureLine(msgspec.Struct, tag="error", forbid_unknown_fields=True):
    """The program reports that it failed."""

    message: str


OutputLine = ThoughtLine | ActionLine | ObservationLine | CallLine | ReplyLine | FailureLine
_decoder = msgspec.json.Decoder(OutputLine)
_EXPECTED = "a JSON object with a `type` of thought, action, observation, call, error or reply"


class CommandOptions(ProgramOptions):
    speaks: Literal["lines", "text"] = "lines"


class CommandAgent:
    """Starts the program in the trial's workspace, gives it each turn as a line, and reads lines until its reply.

    The command comes from the author and runs on this machine, with a clean environment. Options: `timeout_s`, the time
    limit of a turn if the scenario sets none; `env`, environment variables for the program; `speaks`: with `text`, the
    program needs no Steadyhand support. It is started for each turn, reads the user's message, and its output is the
    reply.
    """

    uses_gateway: ClassVar[bool] = True
    options: ClassVar[type[Options]] = CommandOptions

    def __init__(self, settings: AgentSettings) -> None:
        """Raises `SetupError` if the command line is wrong or the program does not exist."""
        options = read_options(CommandOptions, settings.options, "agent command")
        self._plain: bool = options.speaks == "text"
        self.shows: Shows = shows_of_program(settings)
        if self._plain and options.shows is None:
            self.shows = _shows_of_stranger(self.shows, options.env)
        self._silent: bool = False
        self._limit_s: float = options.timeout_s
        self._env: Mapping[str, str] = options.env
        self._gateway: ReusableAddresses | None = settings.gateway
        self._isolation: Isolation = NoIsolation() if settings.run is None else settings.run.isolation
        self.isolation: IsolationKind = self._isolation.kind
        self.opened_key_files: tuple[str, ...] = ()
        addresses = Addresses() if settings.gateway is None else settings.gateway.reusable(settings.model)
        program_variables(addresses, self._env, wanted_by="agent command")
        self._line: CommandLine = read_command(settings.target, folder=settings.folder, variables=settings.variables)
        self._trial: TrialContext | None = None
        self._reporter: TrajectoryReporter | None = None
        self._process: LineProcess | None = None
        self._folder: Path | None = None
        self._replied: bool = False

    @property
    def name(self) -> str:
        return f"command:{self._line.shown}"

    async def open(self, trial: TrialContext) -> None:
        environment = trial.environment
        if not isinstance(environment, OnThisMachine):
            raise AgentError(
                f"{self.name} runs on this machine, but the environment {environment.name!r} has no folder here"
            )
        self._trial = trial
        self._reporter = TrajectoryReporter(trial)
        self._folder = await environment.folder()
        if (watch := self._isolation.watch) is not None:  # before there is a process
            watch.begin(AgentProcess(0, self._folder.name), self._folder)
        if not self._plain:
            self._process = await self._start(self._folder)

    async def respond(self, turn: Turn) -> Reply:
        assert self._trial is not None, "respond before open"
        assert self._folder is not None
        if self._process is None:  # killed in the middle of an earlier turn; this turn has the whole exchange so far
            self._process = await self._start(self._folder)
        process = self._process
        self._replied = False
        limit_s = limit_of(turn, self._limit_s)
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                if self._plain:
                    return await self._run_once(process, latest_user_text(turn))
                reply = await self._exchange(process, turn, _turn_line(turn, self._trial, self._folder))
                await self._take_rest(process, turn)
                self._replied = True
                return reply
        except TimeoutError:
            if not limit.expired():
                raise
            _, said = await process.last_words()
            message = f"it did not reply within {limit_s:g} s"
            raise AgentError(self._line.hidden(f"{self.name}: {message}{_stderr(said)}")) from None
        except asyncio.CancelledError:
            # Anything it still writes would be mistaken for the answer to the next turn.
            self._process = None
            process.kill()
            await asyncio.shield(process.end())
            raise
        except AgentError as error:
            raise AgentError(self._line.hidden(f"{self.name}: {error}")) from error

    async def _run_once(self, process: LineProcess, text: str) -> Reply:
        """One turn of a program that reads the user's text and prints its reply."""
        lines: list[str] = []
        try:
            await process.tell(text.encode())
            while (raw := await process.read()) is not None:
                lines.append(raw.decode("utf-8", "replace"))
        except TooLong:
            raise AgentError(f"it wrote a line longer than {LONGEST_LINE} bytes") from None
        code, said = await process.last_words()
        self._process = None
        await process.end()
        if code is None:
            raise AgentError(f"it closed stdout but did not exit{_stderr(said)}")
        if code != 0:
            raise AgentError(f"it exited with code {code}{_stderr(said)}")
        return Reply(text="\n".join(lines).strip())

    async def close(self) -> None:
        process, self._process = self._process, None
        self._trial = self._reporter = None
        unread = await process.end() if process is not None else []
        if (watch := self._isolation.watch) is not None and self._folder is not None:
            self.opened_key_files = watch.end(AgentProcess(0, self._folder.name))
        if unread and self._replied:
            raise AgentError(self._line.hidden(f"{self.name}: {_late(unread[0])}"))

    async def _start(self, folder: Path) -> LineProcess:
        assert self._trial is not None
        own = await trial_places(self._trial, self._env, wanted_by=self.name)
        variables = program_variables(self._trial.addresses, self._env, wanted_by=self.name, own=own)
        env = self._line.environment(folder, variables)
        if self._gateway is not None:
            self._gateway.expect(self._trial)
        try:
            process = await LineProcess.start(self._argv(folder), folder=folder, env=env)
        except (OSError, ValueError) as error:
            raise AgentError(f"{self.name}: could not be started: {error}") from error
        if self._gateway is not None:
            self._gateway.claim(self._trial, AgentProcess(process.pid, folder.name))
        return process

    def _argv(self, folder: Path) -> Sequence[str]:
        environment = None if self._trial is None else self._trial.environment
        argv = environment.marked(self._line.argv) if isinstance(environment, MarksPrograms) else self._line.argv
        return self._isolation.command(argv, [folder])

    async def _exchange(self, process: LineProcess, turn: Turn, line: bytes) -> Reply:
        if process.unread:
            code, said = await process.last_words()
            if code is not None:
                raise AgentError(f"it exited with code {code} between two turns{_stderr(said)}")
            if late := process.take_unread():
                raise AgentError(_late(late[0]))
        try:
            await process.write(line)
            while True:
                raw = await process.read()
                if raw is None:
                    break
                if raw.strip() and (reply := await self._take(process, raw, turn)) is not None:
                    return reply
        except ConnectionError:
            pass
        except TooLong:
            raise AgentError(f"it wrote a line longer than {LONGEST_LINE} bytes") from None
        code, said = await process.last_words()
        how = "closed its stdout" if code is None else f"exited with code {code}"
        raise AgentError(f"it {how} before it replied{_stderr(said)}")

    async def _take_rest(self, process: LineProcess, turn: Turn) -> None:
        """Process reports that were written together with the reply: they count for this turn."""
        for raw in process.take_unread(is_report):
            await self._take(process, raw, turn)

    async def _take(self, process: LineProcess, raw: bytes, turn: Turn) -> Reply | None:
        """Handle one line; a reply ends the turn."""
        reporter = self._reporter
        assert reporter is not None
        match read_line_of(raw):
            case ThoughtLine(text=text):
                reporter.thought(text)
            case ActionLine() as line:
                reporter.action(line.name, line.params, status=line.status, duration_ms=line.duration_ms)
                if line.result is not msgspec.UNSET:
                    reporter.observation(line.name, line.result)
            case ObservationLine(name=name, content=content):
                reporter.observation(name, content)
            case CallLine() as line:
                await process.write(await self._call(line))
            case FailureLine(message=message):
                raise AgentError(f"it reported an error: {message}")
            case ReplyLine(text=text, number=number, tool_calls=calls):
                if number not in (None, turn.number):
                    raise AgentError(f"it replied to turn {number} when asked turn {turn.number}")
                reporter.taken(tool_calls(calls))
                self._silent = self._silent or calls is None
                self.shows = msgspec.structs.replace(self.shows, on_report=self.shows.on_report and self._silent)
                return Reply(text=text)
        return None

    async def _call(self, line: CallLine) -> bytes:
        assert self._trial is not None
        services = self._trial.services
        if services is None:
            message = f"no service {line.service!r}: this trial has no services"
            call = ServiceCalled(
                at_ms=self._trial.elapsed_ms(),
                service=line.service,
                method=line.method,
                args=line.args,
                input=line.params,
                error=message,
                status="rejected",
            )
            self._trial.emit(call)
            return msgspec.json.encode({"type": "fault", "id": line.id, "message": message})
        try:
            result = await services.call(line.service, line.method, line.args, line.params)
        except ServiceFault as fault:
            fields = {"message": str(fault), "code": fault.code, "status": fault.status}
            return msgspec.json.encode({"type": "fault", "id": line.id, **fields})
        return msgspec.json.encode({"type": "result", "id": line.id, "result": plain(result)})


def _turn_line(turn: Turn, trial: TrialContext, workspace: Path) -> bytes:
    remaining = None if turn.deadline is None else max(0.0, turn.deadline - trial.clock.now())
    return msgspec.json.encode(
        {
            "type": "turn",
            "number": turn.number,
            "input": latest_user_text(turn),
            "messages": [{"role": message.role, "content": message.content} for message in turn.messages],
            "seed": trial.seed,
            "workspace": str(workspace),
            "remaining_s": remaining,
        }
    )


def read_line_of(raw: bytes) -> OutputLine:
    """Raises `AgentError` for a line that does not follow the protocol."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AgentError(
            f"it wrote {_line_text(raw)} to stdout ({error}); expected {_EXPECTED}; write everything else to stderr"
        ) from error


def is_report(raw: bytes) -> bool:
    """Whether the line only reports what the program did."""
    try:
        return isinstance(_decoder.decode(raw), ThoughtLine | ActionLine | ObservationLine)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _line_text(raw: bytes) -> str:
    """A line as quoted in messages."""
    return repr(shorten(raw.decode("utf-8", "replace"), _SHOWN))


def _shows_of_stranger(shows: Shows, env: Mapping[str, str]) -> Shows:
    """What can be seen of a program without Steadyhand support: its use of the tools and services whose addresses the
    user maps for it."""
    led = reached_through(env.values())
    return msgspec.structs.replace(
        shows,
        actions="seen" if "actions" in led else "not_seen",
        services="seen" if "services" in led else "not_seen",
        database="seen" if "database" in led else "not_seen",
        served_only="actions" in led,
        advice="give the program its tools from {mcp_url}, its services from {mocks_url} or its database from "
        "{database_url}, in [agents.command.env]",
    )


def _stderr(said: str) -> str:
    return f"; stderr: {said}" if said else "; nothing on stderr"


def _late(raw: bytes) -> str:
    return f"it wrote more lines after its reply, starting with {_line_text(raw)}; a reply ends the turn"
