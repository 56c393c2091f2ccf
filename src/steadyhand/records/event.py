"""What happens in a trial, one type per kind of event. Everything shown or stored comes from these.

`at_ms` counts from the start of the trial; `step` and `turn` say where in the scenario it happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args

import msgspec

from steadyhand.records.base import Record, doc
from steadyhand.records.chat import CallTiming, Finish, Message, Purpose, ToolCall, Usage
from steadyhand.records.deed_name import OfferedTool, ToolOffer, one_each
from steadyhand.records.evaluation import EvaluationResult

ActionStatus = Literal["success", "error", "rejected", "invalid", "interrupted", "unknown"]
"""How it ended. *rejected*: the tool was not offered, or a limit refused the call; *invalid*: its arguments are not
JSON or do not fit the schema; *interrupted*: it was cut off; *unknown*: no outcome came back."""
UNREADABLE = "unreadable_arguments"
"""The parameter that holds the arguments of a tool call that are not a JSON object."""
Witness = Literal["trial", "gateway", "trace", "agent"]
"""Who tells of an action, the most reliable first. *trial*: it went through us, as a tool that we serve or an action
that the trial performed; *gateway*: the model's call of the tool passed the gateway; *trace*: a span; *agent*: what the
agent reports or returns."""
WITNESSES: tuple[Witness, ...] = get_args(Witness)
Sight = Literal["seen", "partly_seen", "self_reported", "not_seen"]
Visible = Literal["actions", "services", "files", "database", "model_calls"]
VISIBLE: tuple[Visible, ...] = get_args(Visible)


class Shows(Record):
    """What we can see of an agent's actions, apart from its reply.

    *seen*: it goes through us, and we record it. *partly_seen*: the same, but something is missing; recorded actions
    were done, but absence proves nothing. *self_reported*: the agent reports it, and that counts. *not_seen*: we cannot
    know, so absence proves nothing. `services`, `files` and `database` are the trial's own (mocks, workspace, seeded
    database); where the agent cannot reach them, they are not seen.

    `traced` declares that every tool call of the agent is exported as a span: its actions are seen where the trace is
    complete, and its trace is waited for. With `on_report`, what it reports itself counts from the first action that is
    known of it: until then, silence is no report. With `served_only`, actions are seen where they use tools that we
    serve to the agent; the absence of any other action proves nothing. Without `arguments`, an action is seen without
    its parameters.

    With `acts` false the agent can only reply: nothing is hidden, and a check on its actions could only ever have one
    result. `advice` says how to make actions visible.
    """

    actions: Annotated[Sight, doc("Visibility of the agent's actions.")] = "not_seen"
    services: Annotated[Sight, doc("Visibility of its calls to services.")] = "not_seen"
    files: Annotated[Sight, doc("Visibility of its changes to files.")] = "not_seen"
    database: Annotated[Sight, doc("Visibility of its changes to the database.")] = "not_seen"
    model_calls: Annotated[Sight, doc("Visibility of its model calls.")] = "not_seen"
    acts: bool = True
    traced: bool = False
    served_only: bool = False
    arguments: bool = True
    on_report: bool = False
    advice: str = "if the agent does show it, declare that in `shows` of its class"

    def of(self, what: Visible) -> Sight:
        sight: Sight = getattr(self, what)
        return sight

    def only(self, sight: Sight, among: Iterable[Visible] = VISIBLE) -> tuple[Visible, ...]:
        """Those that are `sight`, always in the same order."""
        wanted = frozenset(among)
        return tuple(what for what in VISIBLE if what in wanted and self.of(what) == sight)


EVERYTHING_SEEN = Shows(actions="seen", services="seen", files="seen", database="seen", model_calls="seen")


class TrajectoryStep(Record):
    """A thought, an action or an observation.

    `at_ms` counts from the start of the trial. An action has `name`, `params` and `status`, its other `names`, and the
    `witnesses` who tell of it; an observation has the `name` of the action it answers and its
    `content`, of which only the beginning was kept when it was `cut`; a thought has `content`. `agent` says whose it
    is, where several work together and the trace knows.
    """

    type: Literal["thought", "action", "observation"]
    at_ms: float
    name: str | None = None
    params: dict[str, Any] = {}
    status: ActionStatus | None = None
    content: Any = None
    duration_ms: float | None = None
    cut: bool = False
    agent: str | None = None
    id: str = ""
    names: tuple[str, ...] = ()
    witnesses: tuple[Witness, ...] = ()


class Event(Record, tag_field="kind", array_like=True):
    at_ms: float
    step: int | None = None
    turn: int | None = None


class Said(Event, tag="message"):
    """A message of the transcript. `pressure` is the kind that a scripted user puts on the agent with it."""

    message: Message
    pressure: str | None = None


class ModelCalled(Event, tag="model_call"):
    """A finished model call, successful or not (`error`). `finish` is None if the server did not say.

    A call that was `relayed` was made by the agent's own program, through the gateway.
    """

    model: str
    purpose: Purpose
    timing: CallTiming
    text: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    error: str | None = None
    finish: Finish | None = None
    relayed: bool = False
    agent: str | None = None


class Thought(Event, tag="thought"):
    text: str
    agent: str | None = None


class ActionTaken(Event, tag="action"):
    """An action, done or only tried; `at_ms` is when it began. `agent` is the one of several that took it, if known.

    One that is `witnessed` went through us, one that is `relayed` is a model's tool call that passed the gateway, one
    that is `traced` comes from the agent's own trace, and any other from the agent. Several may tell of the same
    action: `without_repeated_actions` joins what they say, and `also` are the others. `names` are others that it is
    known by, such as the one that the model saw. `call_id` is the id that the model gave the tool call, if known.
    """

    id: str
    name: str
    params: dict[str, Any] = {}
    status: ActionStatus = "success"
    duration_ms: float = 0.0
    agent: str | None = None
    traced: bool = False
    witnessed: bool = False
    names: tuple[str, ...] = ()
    call_id: str | None = None
    relayed: bool = False
    also: tuple[Witness, ...] = ()

    @property
    def witnesses(self) -> tuple[Witness, ...]:
        """The most reliable first."""
        own: Witness = "trace" if self.traced else "agent"
        return ("trial" if self.witnessed else "gateway" if self.relayed else own, *self.also)


class Observed(Event, tag="observation"):
    """The result of an action. `cut` means that only the start of the content was kept."""

    action_id: str
    name: str
    content: Any = None
    cut: bool = False
    agent: str | None = None


class ServiceCalled(Event, tag="service_call"):
    """A call to a service's method, mocked (`mock` is its place in the file) or real, done or only tried.

    `action_id` is the action that consisted in this call, if there was one. Without a `status`, the call succeeded
    unless it has an `error`.
    """

    service: str
    method: str
    args: list[Any] = []
    input: dict[str, Any] = {}
    mock: str | None = None
    result: Any = None
    error: str | None = None
    duration_ms: float = 0.0
    action_id: str | None = None
    status: ActionStatus | None = None

    @property
    def outcome(self) -> ActionStatus:
        return self.status or ("success" if self.error is None else "error")


class ToolsOffered(Event, tag="offer"):
    """What the agent can do from here on. With `complete`, these are all its tools; otherwise it may have others that
    we do not know. The one source of what a check may expect: see `offer_of`."""

    tools: tuple[OfferedTool, ...] = ()
    complete: bool = False


class FileChanged(Event, tag="file_change"):
    """A file of the workspace that a step changed, with its text `before` and `after`.

    Both are None where there was no file, and where it is not text or too long to keep.
    """

    path: str
    change: str
    size: int = 0
    before: str | None = None
    after: str | None = None


class CommandRan(Event, tag="command"):
    """A command that the scenario or an evaluation ran in the environment."""

    command: str
    exit_code: int
    stdout: str = ""
    stderr: str = ""
    duration_ms: float = 0.0
    timed_out: bool = False
    truncated: bool = False


class Evaluated(Event, tag="evaluation"):
    result: EvaluationResult


class LimitReached(Event, tag="limit"):
    limit: str
    used: float
    allowed: float
    unit: str = "ms"


class Retried(Event, tag="retry"):
    """A model call is retried after `wait_ms`."""

    model: str
    purpose: Purpose
    reason: str
    wait_ms: float
    attempt: int


class Waited(Event, tag="wait"):
    """A model call waited `wait_ms` before it was sent; `at_ms` is the end of the wait."""

    model: str
    purpose: Purpose
    reason: str
    wait_ms: float


class Lagged(Event, tag="lag"):
    """The event loop was blocked for more than `limit_ms` during a model call, so its latency may not be graded.

    For a turn with no model call, or several, `model` is the name of the agent.
    """

    model: str
    purpose: Purpose
    lag_ms: float
    limit_ms: float


class ErrorHappened(Event, tag="error"):
    phase: str
    message: str
    error_type: str
    traceback: str | None = None


class Noted(Event, tag="note"):
    """Something the user should know about this trial; `level` is `debug`, `info` or `warning`.

    A note for programs also has a `topic`, and `figures` with the same information as the message.
    """

    message: str
    level: str = "info"
    topic: str | None = None
    figures: dict[str, Any] = {}


AnyEvent = (
    Said
    | ModelCalled
    | Thought
    | ActionTaken
    | Observed
    | ServiceCalled
    | ToolsOffered
    | FileChanged
    | CommandRan
    | Evaluated
    | LimitReached
    | Retried
    | Waited
    | Lagged
    | ErrorHappened
    | Noted
)


DEEDS = frozenset((Thought, ActionTaken, Observed, ServiceCalled))
"""The kinds of events that tell what the agent did, and what it thought of it."""


def told_by_agent(event: Event) -> AnyEvent:
    """The event as the word of the agent under test, which cannot pass for what was seen by us, the gateway or a trace.

    Raises `TypeError` for what only we can know.
    """
    here: dict[str, Any] = {"step": None, "turn": None}
    match event:
        case ActionTaken():
            return msgspec.structs.replace(event, witnessed=False, relayed=False, traced=False, also=(), **here)
        case Noted():
            return msgspec.structs.replace(event, topic=None, figures={}, **here)
        case Thought() | Observed():
            return msgspec.structs.replace(event, **here)
        case _:
            raise TypeError(f"an agent cannot emit a {type(event).__name__}, which is recorded where it happens")


def offer_of(events: Iterable[AnyEvent]) -> ToolOffer | None:
    """What the agent was offered, all together; None if that is not known."""
    found = [event for event in events if type(event) is ToolsOffered]
    if not found:
        return None
    tools = one_each(tool for event in found for tool in event.tools)
    return ToolOffer(tools=tools, complete=any(event.complete for event in found))


def transcript_of(events: Iterable[AnyEvent]) -> tuple[Said, ...]:
    """The messages, in the order in which they were said."""
    return tuple(event for event in events if isinstance(event, Said))


def last_reply(events: Iterable[AnyEvent]) -> Said | None:
    """The agent's last message."""
    return next((said for said in reversed(transcript_of(events)) if said.message.role == "assistant"), None)


def answers_finish(events: Iterable[AnyEvent]) -> Finish | None:
    """How the agent's answers ended, the worst end of several. An answer that called tools which were then run does not
    count."""
    found = [
        event for event in events if type(event) is ModelCalled and event.purpose == "agent" and event.error is None
    ]
    if len(found) < 2:
        return found[0].finish if found else None
    ends: dict[tuple[int | None, int | None], list[Finish | None]] = {}
    for event in found:
        ends.setdefault((event.step, event.turn), []).append(event.finish)
    last = [calls[-1] for calls in ends.values()]
    broken = [finish for calls in ends.values() for finish in calls if finish is not None and finish.is_error]
    return worst_finish((*broken, *last))


def worst_finish(finishes: Iterable[Finish | None]) -> Finish | None:
    """The end that leaves most in doubt, ignoring unknown ones."""
    known = [finish for finish in finishes if finish is not None]
    return min(known, key=lambda each: (not each.is_error, not each.undecided, each.reason.rank), default=None)


def action_names(action: ActionTaken | TrajectoryStep) -> tuple[str, ...]:
    """All of them; the first is the one that it is shown by."""
    return (action.name or "", *action.names)
