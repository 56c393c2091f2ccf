"""`steadyhand run`: run scenarios, report the verdicts, and write the report files that were asked for.

The command sets the event loop, the signal handlers and the garbage collector. The Python API does not; see
`steadyhand.api.run`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from steadyhand.batch.local import Interrupts
from steadyhand.batch.plan import estimate
from steadyhand.cli import options as shared
from steadyhand.cli.main import tell_bug
from steadyhand.cli.terminal import (
    STDOUT,
    Unwritten,
    harmless_json,
    page,
    progress_stream,
    require_own_terminal,
    say,
    show,
    takes_control,
    write_report,
)
from steadyhand.compose.execution import Execution
from steadyhand.compose.run import Run, quick_loop, rates_of
from steadyhand.compose.settings import Settings, under_test
from steadyhand.errors import DamagedRecord, ExitCode, SetupError, SteadyhandError
from steadyhand.judging.rates import rates_exit_code
from steadyhand.records.base import Record
from steadyhand.records.config import RunOptions, Selection
from steadyhand.report.progress import progress_for
from steadyhand.report.terminal import View, render_stored_run
from steadyhand.report.transcript import Transcripts
from steadyhand.report.wording import JunitInconclusive
from steadyhand.store.reader import RunReader, find_run

if TYPE_CHECKING:
    from steadyhand.report.otel import OtelExporter

_FILE = click.Path(path_type=Path, dir_okay=False)
_DIR = click.Path(path_type=Path, file_okay=False)
T = TypeVar("T")
_YOUNG = 20_000
_LEAST_MIB = 16
_NETWORK_MIB = 48
F = TypeVar("F", bound=Callable[..., Any])


def run_in_loop(main: Coroutine[Any, Any, T], *, network: bool) -> T:
    """Run to completion, on uvloop if there are calls to time; a scripted run would finish before uvloop is loaded."""
    try:
        _require_memory(_NETWORK_MIB if network else _LEAST_MIB)
    except SetupError:
        main.close()
        raise
    with suppress(AttributeError, ValueError, OSError, RuntimeError):  # no stderr
        # A run that the system ends without a word (a truncated `-shm` file: SIGBUS) says where it was.
        faulthandler.enable(all_threads=False)
    with asyncio.Runner(loop_factory=quick_loop() if network else None) as runner, _seldom_collecting():
        return runner.run(main)


def _require_memory(mib: int) -> None:
    """Raises `SetupError` if the address space is limited and almost used up: the event loop's library would abort the
    process when it cannot start a thread."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return
    if limit != resource.RLIM_INFINITY and limit - used < mib * 2**20:
        raise SetupError(
            f"memory is limited to {limit // 1024} KiB (ulimit -v), of which {max(0, limit - used) // 1024} are left; "
            f"a run needs at least {mib * 1024} more: raise the limit"
        )


@contextmanager
def attended(note: Callable[[str], None]) -> Generator[Interrupts]:
    """Used around the trials of a run: installs signal handlers, and turns the garbage collector on, ignoring existing
    objects."""
    gc.freeze()
    gc.enable()
    with Interrupts(note) as interrupts:
        yield interrupts


@contextmanager
def _seldom_collecting() -> Generator[None]:
    """Modules and scenarios live for the whole run: scanning them repeatedly would block the event loop.

    Trials are freed by reference counting; reference cycles are collected less often.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class Reports(Record):
    """Which reports to write, and where. If one is written to stdout (`-`), everything else goes to stderr."""

    json_file: Path | None = None
    junit_file: Path | None = None
    junit_inconclusive: JunitInconclusive | None = None
    html_file: Path | None = None
    transcripts: Transcripts | None = None
    quiet: bool = False
    verbose: bool = False

    @property
    def files(self) -> dict[str, Path]:
        """The reports to write, by option."""
        given = {"--json": self.json_file, "--junit": self.junit_file, "--html": self.html_file}
        return {option: file for option, file in given.items() if file is not None}

    @property
    def to_stdout(self) -> bool:
        return STDOUT in self.files.values()

    @property
    def view(self) -> View:
        detail = "quiet" if self.quiet else "everything" if self.verbose else "normal"
        return View(detail=detail, transcripts=self.transcripts)

    def check(self) -> Self:
        """Raises `SetupError` for conflicting options."""
        dashed = [option for option, file in self.files.items() if file == STDOUT]
        if len(dashed) > 1:
            raise SetupError(f"only one of {' and '.join(dashed)} can be written to stdout; give the other a file")
        if self.html_file == STDOUT:
            require_own_terminal()
        if self.quiet and self.verbose:
            raise SetupError("-q and -v cannot be used together")
        return self


def report_options(command: F) -> F:
    """--json, --junit, --junit-inconclusive, --html, --transcript, -q and -v: the fields of `Reports`."""
    command = click.option("-v", "--verbose", is_flag=True, help="Show every trial, passed or not, in full.")(command)
    command = click.option("-q", "--quiet", is_flag=True, help="Show only what did not pass, and the totals.")(command)
    command = click.option(
        "--transcript",
        "transcripts",
        type=click.Choice(["all", "failed", "none"]),
        help="Which transcripts to show. [default: trials that did not pass, or a single conversation]",
    )(command)
    command = click.option(
        "--html", "html_file", type=_FILE, help="Write an HTML report, one file for a browser; - for stdout."
    )(command)
    command = click.option(
        "--junit-inconclusive",
        type=click.Choice(["skipped", "failure", "error"]),
        help="How JUnit shows an inconclusive scenario. [default: error where CI is set, else skipped]",
    )(command)
    command = click.option("--junit", "junit_file", type=_FILE, help="Write a JUnit XML report; - for stdout.")(command)
    return click.option("--json", "json_file", type=_FILE, help="Write the full report as JSON; - for stdout.")(command)


def show_run(reader: RunReader, reports: Reports, view: View | None = None) -> None:
    """Write the files and the table. Raises `Unwritten` if a file cannot be written; the record is already safe."""
    rates = rates_of(reader)
    unwritten: list[str] = []
    if reports.json_file is not None:
        from steadyhand.report.json import to_json

        told = to_json(reader.header, reader.trials(), rates)
        unwritten += write_report(reports.json_file, map(harmless_json, told) if reports.to_stdout else told)
    if reports.junit_file is not None:
        from steadyhand.report.junit import to_junit

        inconclusive = reports.junit_inconclusive or ("error" if os.environ.get("CI") else "skipped")
        xml = to_junit(reader.header, reader.trials(), rates, inconclusive=inconclusive)
        unwritten += write_report(reports.junit_file, [xml.encode()])
    if reports.html_file is not None:
        from steadyhand.report.html.page import to_html

        unwritten += write_report(reports.html_file, to_html(reader, rates))
    err = reports.to_stdout
    show(render_stored_run(reader, rates, page(err=err), view=view or reports.view), err=err)
    if unwritten:
        raise Unwritten("; ".join(unwritten))


def carry_out(run: Run, reports: Reports, *, silent: bool, otel: str | None = None) -> ExitCode:
    """Run it, report, and return the exit code. After an interrupt or a full disk, report whatever was recorded."""
    execution = Execution(run)
    progress = progress_for(progress_stream(), live=takes_control(), enabled=not silent, health=execution.health)
    traces = None if otel is None else _exporter(otel, run.settings.variables)
    network = run.needs_network  # may reject the name of a model, so ask before creating the coroutine
    observers = [progress] if traces is None else [progress, traces]
    record = run_in_loop(execution.execute(observers, attend=attended), network=network)
    if traces is not None and traces.note is not None:
        say(f"note: {run.redactor.text(traces.note)}", err=True)
    reader: RunReader | None = None
    crashed = execution.crashed
    try:
        reader = RunReader.open(record)
        unwritten = report(reader, reports)
    except SteadyhandError as error:
        if execution.broken is None:
            say(f"steadyhand: {run.redactor.text(str(error))}", err=True)
        reader, unwritten = None, False
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - a bug of ours in a report: the others and the record are there
        crashed = crashed or error
        unwritten = True
    if execution.broken is not None:
        next_step = "" if isinstance(execution.broken, DamagedRecord) else f": {_resume(run)}"
        say(f"steadyhand: {run.redactor.text(str(execution.broken))}{next_step}", err=True)
    if execution.stalled is not None:
        say(f"steadyhand: {run.redactor.text(execution.stalled)}; to continue: {_resume(run)}", err=True)
    if execution.interrupted:
        say(f"interrupted; to continue: {_resume(run)}", err=True)
        return ExitCode.INTERRUPTED
    if crashed is not None:
        say(f"{tell_bug(crashed, run.redactor)}: {_resume(run)}", err=True)
        return ExitCode.UNDECIDED
    return exit_code(reader, lost=execution.broken is not None or unwritten)


def _exporter(url: str, variables: Mapping[str, str]) -> OtelExporter:
    from steadyhand.report.otel import OtelExporter, target_of  # few runs export traces

    return OtelExporter(target_of(url, variables))


def exit_code(reader: RunReader | None, *, lost: bool) -> ExitCode:
    """A run counts as passed only if its record is finished and every trial was read back."""
    if reader is None:
        return ExitCode.UNDECIDED
    code = rates_exit_code(rates_of(reader))
    sound = not lost and reader.flaw() is None
    return code if sound or code is not ExitCode.PASSED else ExitCode.UNDECIDED


def whole_exit_code(code: int, *readers: RunReader | None) -> int:
    """The exit code of a command that reads records: 3 if one of them is not whole, which is told."""
    for reader in readers:
        if reader is not None and (flaw := reader.flaw()) is not None:
            say(f"steadyhand: the record of run {reader.header.id} is not whole: {flaw}", err=True)
            code = ExitCode.UNDECIDED
    return code


def report(reader: RunReader, reports: Reports) -> bool:
    """Write all requested reports. Returns whether something could not be written, which does not affect the
    verdict."""
    try:
        if os.environ.get("GITHUB_ACTIONS"):
            from steadyhand.cli.github import tell_github

            tell_github(reader)
        show_run(reader, reports)
    except Unwritten as error:
        say(f"steadyhand: {error}", err=True)
        return True
    return False


def _resume(run: Run) -> str:
    """The command that continues the run."""
    options = run.settings.options
    out = ["--out", str(options.out)] if options.out is not None else []
    return shlex.join(["steadyhand", "resume", run.header.id, *out, *(["--trust"] if options.trust else [])])


_HEADINGS = {
    "What to run": ("--tag", "-k", "--filter", "--failed-of", "--shard", "--dry-run"),
    "Agent, models and judge": (
        *("--model", "--agent", "--judge", "--user-model", "--strict-judge", "--judge-canaries", "--judge-timeline"),
        *("--environment", "--live", "--plugin", "--config", "--env-file"),
    ),
    "Trials": ("--trials", "--pass-rate", "--until", "--alpha", "--seed"),
    "Safety": (
        *("--sandbox", "--allow-commands", "--trust", "--in-process"),
        *("--isolation", "--agent-can-read"),
    ),
    "Time and cost": (
        *("--concurrency", "--timeout", "--retries", "--wait-limit", "--stall-limit", "--enforce-deadline"),
        *("--max-cost", "--max-tokens", "--record", "--replay", "--replay-time"),
    ),
    "Workers": ("--workers", "--engine", "--ray-address", "--ray-env"),
    "Output": (
        *("--out", "--json", "--junit", "--junit-inconclusive", "--html", "--transcript"),
        *("--quiet", "--verbose", "--no-progress", "--otel", "--otlp-port"),
    ),
}


@click.command(cls=shared.Headed, headings=_HEADINGS)
@shared.optional_paths
@shared.filters
@shared.project
@click.option("--failed-of", metavar="RUN", help="Rerun the scenarios of RUN that did not pass, with its options.")
@click.option("--shard", metavar="N/TOTAL", help="Run only this shard; `steadyhand merge` joins the shards.")
@click.option(
    "--model",
    multiple=True,
    metavar="NAME",
    help="Model under test, as provider/model (repeatable: each is a separate target).",
)
@click.option("--judge", metavar="NAME", help="Judge model, as provider/model.")
@click.option("--user-model", metavar="NAME", help="Model that simulates the user.")
@click.option("--agent", multiple=True, metavar="KIND", help="Agent under test (repeatable).")
@click.option("--environment", metavar="TYPE", help="Environment to run in, overriding the scenario.")
@shared.strict_judge
@click.option(
    "--judge-canaries",
    type=_FILE,
    metavar="LABELS",
    help="Ask the judge about these labelled cases too, and report how many it got right.",
)
@click.option(
    "--judge-timeline",
    is_flag=True,
    help="Ask the judge about parts of an answer too, where only it can tell when the answer became safe.",
)
@click.option("--sandbox", is_flag=True, help="Run commands in a sandbox without network access.")
@click.option("--allow-commands", is_flag=True, help="Allow commands written by a model to run on this machine.")
@shared.trust
@click.option("--enforce-deadline", is_flag=True, help="Cut off calls at critical_ms and grade what has arrived.")
@click.option("--in-process", is_flag=True, help="Run `python:` agents in this process, for debugging.")
@click.option(
    "--isolation",
    type=click.Choice(["auto", "room", "watched", "none"]),
    help="What keeps agents from what they are judged by. [default: auto, the best this machine can do]",
)
@click.option(
    "--agent-can-read",
    multiple=True,
    metavar="PATH",
    help="Let agents read this, although trials are judged by it (repeatable).",
)
@click.option("--live", is_flag=True, help="Ignore mocks and database seeding; use the real services.")
@click.option("--env-file", type=_FILE, help="File with environment variables for this run.")
@click.option("--seed", type=int, help="Random seed. [default: a new one, recorded with the run]")
@click.option(
    "--trials",
    type=click.IntRange(1, 100_000),
    help="Number of trials per scenario. [default: set by the scenario, or 1]",
)
@click.option(
    "--pass-rate",
    type=shared.PassRateRange(0, 1, min_open=True),
    help="Share of trials that must pass. [default: set by the scenario, or 1]",
)
@click.option(
    "--until",
    type=click.Choice(["decided"]),
    help="Stop a scenario's trials once its pass rate is decided; --trials is the maximum.",
)
@click.option(
    "--alpha",
    type=shared.PassRateRange(0, 1, min_open=True, max_open=True),
    help="With --until, the chance of a wrong decision. [default: 0.05]",
)
@click.option("--dry-run", is_flag=True, help="List what would run, with an estimate of the model calls, and stop.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Number of trials to run at once. [default: 8]")
@shared.workers
@shared.timeout
@shared.retries
@shared.wait_limit
@shared.stall_limit
@click.option("--record", type=shared.FOLDER, metavar="DIR", help="Record every model call to this folder.")
@click.option(
    "--replay", type=_DIR, metavar="DIR", help="Answer model calls from a recording, without using the network."
)
@click.option(
    "--replay-time",
    type=click.Choice(["zero", "original"]),
    default="zero",
    help="How long replayed answers take. [default: zero]",
)
@shared.max_cost
@click.option(
    "--otlp-port",
    type=click.IntRange(1, 65535),
    help="Receive spans from services that are already running, as OTLP over HTTP on this loopback port.",
)
@click.option(
    "--otel",
    is_flag=False,
    flag_value="",
    metavar="[URL]",
    help="Export every trial as a trace to this OTLP endpoint. [URL: OTEL_EXPORTER_OTLP_ENDPOINT, or local port 4318]",
)
@shared.max_tokens
@shared.out
@report_options
@shared.no_progress
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> None:
    """Run scenarios and report a verdict for each. PATH is a file, a folder or a glob.

    Exit codes: 0 all passed; 1 something failed; 2 the run could not start; 3 nothing failed, but something was
    inconclusive or ended in error; 130 interrupted.
    """
    chosen = {name: given.pop(name) for name in ("paths", "tags", "expression", "filters")}
    otel = given.pop("otel")
    reports = Reports(**{name: given.pop(name) for name in Reports.__struct_fields__}).check()
    silent, dry_run = given.pop("no_progress"), given.pop("dry_run")
    if dry_run:
        _refuse_reports(reports)
    given |= under_test(given.pop("model"), given.pop("agent"))
    failed_of = given.pop("failed_of")
    selection, options = Selection(**chosen), RunOptions(command=tuple(sys.argv[1:]), **given)
    if failed_of is not None:
        if any(chosen.values()):
            raise SetupError("--failed-of runs the scenarios of that run; leave out paths, --tag, -k and --filter")
        from steadyhand.compose.shards import failed_of_options

        here = Settings(options)
        selection, options = failed_of_options(find_run(here.out, failed_of), options, here)
    elif not selection.paths:
        raise click.UsageError("Missing argument 'PATH...'.", ctx)
    prepared = Run(selection, options, checking=dry_run)
    if dry_run:
        show_plan(prepared)
        if prepared.needs_trust is not None:
            say(f"note: {prepared.needs_trust}", err=True)
        return
    ctx.exit(carry_out(prepared, reports, silent=silent, otel=otel))


def _refuse_reports(reports: Reports) -> None:
    if reports.files:
        raise SetupError(f"--dry-run produces no report; drop it or drop {' and '.join(reports.files)}")


def show_plan(run: Run) -> None:
    """One line per scenario or combination, then the estimate."""
    redact = run.redactor.text
    for scenario_id, trials in run.planned.per_scenario().items():
        say(redact(f"{trials} x {scenario_id}" if trials > 1 else scenario_id))
    settings = run.settings
    found = estimate(
        run.planned,
        asks_model=run.asks_model,
        asks_judge=run.asks_judge,
        scores_rubric=lambda scenario: scenario.rubric is not None and settings.judge(scenario) is not None,
    )
    say(f"would run {'at most ' if run.header.until else ''}{found}")
    targets = list(dict.fromkeys(target.name for target in run.header.targets.values()))
    say(redact(f"{'target' if len(targets) == 1 else 'targets'}: {'; '.join(targets)}"))
    if found.judge_checks:
        judges = {ref.name if (ref := settings.judge(each)) else "none named" for each in run.scenarios}
        say(redact(f"judge: {', '.join(sorted(judges))}"))
    say(f"up to {settings.concurrency} trials at once")
