"""The `steadyhand` command: dispatches to subcommands and turns errors into messages and exit codes.

The module of a subcommand is imported only when it is called, so that `steadyhand --help` stays fast.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import Unwritten, leave_with, say, take_over
from steadyhand.errors import DamagedRecord, ExitCode, FileError, SetupError, StoreError, UsageError
from steadyhand.privacy import close_to_others
from steadyhand.suggestion import did_you_mean
from steadyhand.version import __version__

if TYPE_CHECKING:
    from steadyhand.redaction import Redactor

_COMMANDS = {
    "init": ("steadyhand.cli.init:init", "Create a small starter project."),
    "run": ("steadyhand.cli.run:run", "Run scenarios and report verdicts."),
    "validate": ("steadyhand.cli.validate:validate", "Check files for errors without running anything."),
    "lint": ("steadyhand.cli.lint:lint", "Find checks that are valid but probably wrong."),
    "selftest": ("steadyhand.cli.selftest:selftest", "Test a scenario's checks against its own example answers."),
    "doctor": ("steadyhand.cli.doctor:doctor", "Show what can be seen of an agent, and how to see more."),
    "mutate": ("steadyhand.cli.mutate:mutate", "Make good answers bad, and show which ones the checks miss."),
    "list": ("steadyhand.cli.scenario_list:list_scenarios", "List scenarios."),
    "plan": ("steadyhand.cli.plan:plan", "Calculate how many trials it takes to bound the failure rate."),
    "resume": ("steadyhand.cli.resume:resume", "Finish an interrupted run and retry its errors."),
    "merge": ("steadyhand.cli.merge:merge", "Merge the shards of a run into one."),
    "rejudge": ("steadyhand.cli.rejudge:rejudge", "Judge the stored trials of a run again."),
    "labels": ("steadyhand.cli.labels:labels", "Write a file for people to label a run's judged checks."),
    "calibrate": ("steadyhand.cli.calibrate:calibrate", "Compare a judge with people's labels."),
    "export": ("steadyhand.cli.export:export", "Export a run as tables or as an Inspect log."),
    "matrix": ("steadyhand.cli.run:run", "Run every combination of a matrix (same as `run`)."),
    "runs": ("steadyhand.cli.runs:runs", "List recorded runs."),
    "show": ("steadyhand.cli.show:show", "Show the report of a recorded run."),
    "report": ("steadyhand.cli.report:report", "Write the report of a run as HTML, Markdown or PDF."),
    "view": ("steadyhand.cli.view:view", "View runs in a browser, compare them and label trials."),
    "compare": ("steadyhand.cli.compare:compare", "Compare runs or targets: what differs, and is it chance?"),
    "gate": ("steadyhand.cli.gate:gate", "Check a run against a baseline, for CI."),
    "baseline": ("steadyhand.cli.baseline:baseline", "Write a run's results to a small file, for `gate`."),
    "gateway": ("steadyhand.cli.gateway:gateway", "Serve a model and a scenario's mocks, to try out an agent."),
    "mcp": ("steadyhand.cli.mcp:mcp", "Serve a trial's MCP tools over stdin and stdout."),
    "import": ("steadyhand.cli.importer:import_scenarios", "Convert scenarios from other benchmarks."),
    "schema": ("steadyhand.cli.schema:schema", "Print JSON Schemas, for editors and other tools."),
    "scenario": ("steadyhand.cli.main:scenario", "Run and check scenario files (the same commands)."),
}
_MARKS = ("STEADYHAND_TRIAL", "STEADYHAND_COMMAND")
_HEADINGS = {
    "Write scenarios": ("init", "validate", "lint", "selftest", "mutate", "list", "import", "schema"),
    "Connect an agent": ("doctor", "gateway", "mcp"),
    "Run scenarios": ("run", "matrix", "plan", "resume", "merge", "scenario"),
    "Read results": ("runs", "show", "report", "view", "compare", "gate", "baseline", "export"),
    "Check judges": ("rejudge", "labels", "calibrate"),
}
_NO_MEMORY = b"steadyhand: out of memory; raise the limit (ulimit -v), or lower --concurrency\n"
_SCENARIO_COMMANDS = {"Commands": ("run", "validate", "lint", "selftest", "mutate", "list", "matrix")}


class LazyGroup(shared.Group):
    """A group that knows the names and short help of its commands, and imports each one on demand."""

    def __init__(self, *, headings: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(**options)
        self._headings = headings
        self._names: tuple[str, ...] = tuple(name for names in headings.values() for name in names)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._names:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        return shared.name_numbers(getattr(importlib.import_module(module), attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in self._headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name, _COMMANDS[name][1]) for name in names])


@click.command(cls=LazyGroup, headings=_HEADINGS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="steadyhand")
def cli() -> None:
    """Run scenarios against AI agents and models, and check that they do the right thing, safely and in time."""


@click.command(cls=LazyGroup, headings=_SCENARIO_COMMANDS)
def scenario() -> None:
    """Run and check scenario files."""


def main() -> None:
    """Entry point of the process. A user error ends in one message and exit code 2, without a traceback."""
    # Collecting garbage while modules and files load costs a tenth of the start-up time and finds nothing. A run turns
    # the collector on again when its trials begin.
    gc.disable()
    # Before any untrusted file is read, so that nothing it starts can find our keys. The marks by which an outer run
    # finds its processes stay readable.
    close_to_others(keep=_MARKS)
    take_over()
    try:
        _require_folder()
        code = cli.main(prog_name="steadyhand", standalone_mode=False)
    except click.exceptions.Exit as leave:
        code = leave.exit_code
    except MemoryError:
        code = _out_of_memory()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - explained, or raised again
        try:
            code = explain(error)
        except MemoryError:
            code = _out_of_memory()
    # Everything is closed by now; shutting the interpreter down would cost a tenth of a short run.
    os._exit(leave_with(code if isinstance(code, int) else 0))


def _out_of_memory() -> int:
    """Say so in a way that needs none."""
    os.write(2, _NO_MEMORY)
    return ExitCode.UNDECIDED


def _require_folder() -> None:
    """Raises `SetupError` if the current folder was removed."""
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError as error:
        raise SetupError("the current folder no longer exists; change to another one") from error


def explain(error: BaseException) -> int:
    """Print the error to stderr and return the exit code. A bug in Steadyhand is never a failed scenario."""

    def redact(text: str) -> str:
        return _redactor().text(text)

    match error:
        case click.Abort() | KeyboardInterrupt():
            say("interrupted", err=True)
            return ExitCode.INTERRUPTED
        case click.ClickException():
            say(f"steadyhand: {redact(_usage(error))}", err=True)
            return ExitCode.USAGE
        case FileError():
            say(redact(str(error)), err=True)
            return ExitCode.USAGE
        case Unwritten():
            say(f"steadyhand: {error}", err=True)
            return ExitCode.UNDECIDED
        case DamagedRecord():
            say(redact(f"steadyhand: {error}"), err=True)
            return ExitCode.UNDECIDED
        case UsageError() | StoreError():
            say(redact(f"steadyhand: {error}"), err=True)
            return ExitCode.USAGE
        case _:
            say(redact(tell_bug(error)), err=True)
            return ExitCode.UNDECIDED


def _usage(error: click.ClickException) -> str:
    """Click's message in one line, with a pointer to the help."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    message = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error, click.NoSuchOption):
        known = [name for param in ctx.command.get_params(ctx) for name in param.opts] if ctx is not None else []
        message = f"no such option {error.option_name!r}{did_you_mean(error.option_name, known)}"
    message = message.replace("a valid integer range", "a whole number").replace("a valid float range", "a number")
    if message[1:2].islower():
        message = message[0].lower() + message[1:]
    see = " See" if message.endswith("?") else "; see"
    return f"{message}{see} `{ctx.command_path if ctx else 'steadyhand'} --help`"


def _redactor() -> Redactor:
    """A redactor for the secrets in the environment and on the command line. A run knows more."""
    from steadyhand.redaction import Redactor, secrets_in_command, secrets_of_process  # for errors only

    found = secrets_of_process(os.environ)
    for word in sys.argv[1:]:
        found |= secrets_in_command(word) | secrets_in_command(word.partition(":")[2])
    return Redactor(found | _configured_secrets())


def _configured_secrets() -> frozenset[str]:
    """The secrets in the configuration that would be used here. Errors in it are ignored, because they are reported
    elsewhere."""
    with contextlib.suppress(Exception):
        from steadyhand.compose.settings import Settings
        from steadyhand.records.config import RunOptions

        given = {option: Path(file) for option, file in pairwise(sys.argv[1:])}
        options = RunOptions(config=given.get("--config"), env_file=given.get("--env-file"))
        return Settings(options).secrets()
    return frozenset()


def tell_bug(error: BaseException, redactor: Redactor | None = None) -> str:
    """One line about an unexpected error. The traceback is written to a file, or included here if that fails.

    `redactor` is the run's redactor, if there is a run.
    """
    import tempfile  # for errors only
    import traceback

    text = _redactor().text("".join(traceback.format_exception(error)))
    text = text if redactor is None else redactor.text(text)
    what = f"steadyhand: unexpected {type(error).__name__}, a bug in Steadyhand"
    try:
        handle, path = tempfile.mkstemp(prefix="steadyhand-traceback-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        return f"{what}:\n{text}"
    return f"{what}; the traceback is in {path}"
