"""`steadyhand doctor`: one turn of an agent, what could be seen of it, and how to make the rest visible."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import page, say
from steadyhand.errors import ExitCode, SetupError
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import (
    VISIBLE,
    ActionTaken,
    AnyEvent,
    FileChanged,
    ModelCalled,
    ServiceCalled,
    Shows,
    Sight,
    Visible,
    last_reply,
)
from steadyhand.records.run import TrialRecord
from steadyhand.report.table import clip, one_line
from steadyhand.store.reader import RunReader

_TASK = "Use each of your tools once, then say in one sentence what you did."
_SHOWN = 72
_MOST = 4
_MOST_LINES = 20
_NOUNS: dict[Visible, str] = {
    "actions": "actions",
    "services": "services",
    "files": "files",
    "database": "database",
    "model_calls": "model calls",
}
_SIGHTS: dict[Sight, str] = {
    "seen": "seen",
    "partly_seen": "partly seen",
    "self_reported": "self-reported",
    "not_seen": "not seen",
}
_HOW: dict[Visible, str] = {
    "actions": "",  # each kind of agent says it itself
    "services": "let it call the trial's own: over {mcp_url} or {mocks_url}, or `get_service` in a python: agent",
    "files": "run it in the trial's workspace: as command:, or as python: with the parameter `workspace`",
    "database": "give it {database_url}, or the service `database` as any other service",
    "model_calls": "name its model with --model; its client then gets the address of the gateway (OPENAI_BASE_URL)",
}


def scenario(task: str) -> dict[str, Any]:
    """One turn with a service, a workspace and a database, in which nothing can fail but the agent itself."""
    mock = {"service": "doctor", "method": "ping", "response": "pong", "description": "Answers `pong`."}
    return {
        "name": "Doctor",
        "description": "What can be seen of an agent.",
        "environment": {"type": "local"},
        "setup": {"mocks": [mock], "database": {"sql": "CREATE TABLE doctor (note TEXT)"}},
        "run": [{"input": task, "evaluations": [{"type": "execution_time", "max_duration_ms": 3_600_000}]}],
        "judgment": {"strategy": "all_pass"},
    }


@click.command()
@click.option("--agent", required=True, metavar="KIND[:REST]", help="Agent to look at, as for `run`.")
@click.option("--task", default=_TASK, metavar="TEXT", help="What to ask it; something that makes it act.")
@click.option("--model", metavar="PROVIDER/MODEL", help="Model that it uses, as for `run`.")
@click.option("--environment", metavar="NAME", help="Where its workspace is. [default: local]")
@click.option("--allow-commands", is_flag=True, help="Allow commands written by a model to run on this machine.")
@click.option("--env-file", type=click.Path(path_type=Path, dir_okay=False), help="File with environment variables.")
@shared.declared("doctor")
@click.pass_context
def doctor(ctx: click.Context, agent: str, task: str, config: Path | None, **options: Any) -> None:
    """Run one turn of an agent, and say what could be seen of it, what not, and how to make it visible.

    A check on what cannot be seen is inconclusive, whatever the agent did. Exit codes: 0 everything can be seen; 2 the
    agent could not be started; 3 something cannot be seen.
    """
    from steadyhand.api.run import run  # not for --help

    with tempfile.TemporaryDirectory(prefix="steadyhand-doctor-") as folder:
        result = run(scenario(task), agent=agent, config=config or "auto", out=folder, **options)
        (trial,) = RunReader.open(result.path).trials()
    ctx.exit(_tell(agent, trial))


def _tell(agent: str, trial: TrialRecord) -> int:
    """Raises `SetupError` if there was no turn."""
    if trial.judged.verdict is Verdict.ERROR:
        raise SetupError(f"{agent} could not be tried: {one_line(trial.judged.reason)}")
    shows = trial.shows or Shows()
    said = last_reply(trial.events)
    say(f"{agent} answered: {clip(one_line(said.message.content), _SHOWN) if said else 'nothing'}")
    if not shows.acts:
        say("it only replies: it has no tools, so it does nothing that could be hidden")
        return ExitCode.PASSED
    for what in VISIBLE:
        say(f"  {_NOUNS[what].ljust(13)}{_SIGHTS[shows.of(what)].ljust(15)}{_seen_in_turn(trial, what)}".rstrip())
    unseen: list[Visible] = [what for what in VISIBLE if shows.of(what) in ("not_seen", "partly_seen")]
    if not unseen:
        say("checks on all of these can be decided")
        return ExitCode.PASSED
    say("checks on what is not seen are inconclusive; to make it visible:")
    for what in unseen:
        first, *more = page().wrap(_HOW[what] or shows.advice, indent=15, most=_MOST_LINES)
        say(f"  {_NOUNS[what].ljust(13)}{first}")
        for line in more:
            say(f"{' ' * 15}{line}")
    return ExitCode.UNDECIDED


def _seen_in_turn(trial: TrialRecord, what: Visible) -> str:
    """What was seen of it in this turn, such as `doctor.ping, lookup (2)`."""
    times = Counter(name for event in trial.events if (name := _seen_of(event, what)) is not None)
    listed = [one_line(name) + (f" ({count})" if count > 1 else "") for name, count in times.most_common(_MOST)]
    return ", ".join(listed) + (" ..." if len(times) > _MOST else "") or "nothing in this turn"


def _seen_of(event: AnyEvent, what: Visible) -> str | None:
    match what, event:
        case "actions", ActionTaken():
            return event.name
        case "services", ServiceCalled():
            return f"{event.service}.{event.method}"
        case "database", ServiceCalled(service="database"):
            return event.method
        case "files", FileChanged():
            return event.path
        case "model_calls", ModelCalled(purpose="agent"):
            return event.model
        case _:
            return None
