"""`steadyhand gateway`: run the gateway on its own, to try out an agent with a scenario's mocks and a model."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import say
from steadyhand.compose.gateway import ManualTrial
from steadyhand.compose.run import quick_loop
from steadyhand.records.base import shorten
from steadyhand.records.chat import FinishReason
from steadyhand.records.config import RunOptions
from steadyhand.records.event import AnyEvent, ModelCalled, Noted, ServiceCalled
from steadyhand.redaction import Redactor
from steadyhand.runtime.values import as_text

_SHOWN = 200


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on this machine. [default: any]")
@click.option(
    "--scenario",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Scenario whose mocks to serve.",
)
@shared.declared("gateway")
def gateway(
    *,
    port: int,
    file: Path | None,
    model: str | None,
    env_file: Path | None,
    trust: bool,
    config: Path | None,
    plugins: tuple[str, ...],
) -> None:
    """Serve a model and a scenario's mocks on this machine, and show every call. Press Ctrl-C to stop.

    Prints the environment variables that point an agent at it.
    """
    options = RunOptions(config=config, plugins=plugins, model=model, env_file=env_file, trust=trust)
    trial = ManualTrial(file, options)
    with asyncio.Runner(loop_factory=quick_loop()) as runner:
        runner.run(_serve(trial, port))


async def _serve(trial: ManualTrial, port: int) -> None:
    shown = _TrafficPrinter(trial.settings.redactor([trial.scenario]))
    async with trial.served(port, [shown]) as addresses:
        for name, value in addresses.variables.items():
            say(f"export {name}={value}")
        sys.stdout.flush()
        say("serving; press Ctrl-C to stop", err=True)
        await asyncio.Event().wait()


class _TrafficPrinter:
    """An `EventSink` that prints calls as they end."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def emit(self, event: AnyEvent) -> None:
        if (line := _line(event)) is not None:
            say(self._redactor.text(line), err=True)


def _line(event: AnyEvent) -> str | None:
    match event:
        case ModelCalled():
            answered = event.error or event.text or ", ".join(call.name for call in event.tool_calls)
            tokens = "" if event.usage is None else f", {event.usage.input_tokens}+{event.usage.output_tokens} tokens"
            hung_up = event.finish is not None and event.finish.reason is FinishReason.HUNG_UP
            ended = " (the agent hung up)" if hung_up else ""
            return f"model    {event.model}{tokens}: {shorten(answered, _SHOWN)}{ended}"
        case ServiceCalled():
            given = ", ".join([*map(as_text, event.args), *(f"{k}={as_text(v)}" for k, v in event.input.items())])
            answered = f"error: {event.error}" if event.error else as_text(event.result)
            return f"service  {event.service}.{event.method}({shorten(given, _SHOWN)}): {shorten(answered, _SHOWN)}"
        case Noted():
            return f"note     {event.message}"
        case _:
            return None
