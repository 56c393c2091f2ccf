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
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

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
from steadyhand.compose.run import Run, quick_loop
from steadyhand.compose.settings import Settings, under_test
from steadyhand.errors import DamagedRecord, ExitCode, SetupError, SteadyhandError, StoreError
from steadyhand.reading.run import Reading
from steadyhand.reading.samples import TrialSamples
from steadyhand.records.base import Record
from steadyhand.records.config import HEADINGS, RunOptions, Selection
from steadyhand.report.progress import progress_for
from steadyhand.report.terminal import View, render_run, want_run
from steadyhand.report.transcript import Transcripts
from steadyhand.report.wording import JunitInconclusive
from steadyhand.store.reader import find_run

if TYPE_CHECKING:
    from steadyhand.reading.underway import Underway
    from steadyhand.report.otel import OtelExporter

_OUTPUT = HEADINGS[-1]
_REPORTING = ("run", "resume", "rejudge", "merge", "show")
T = TypeVar("T")
_YOUNG = 20_000
_MANY = 100
"""From this number of trials on, what a run adds up to is gathered while it runs."""
_LEAST_MIB = 16
_NETWORK_MIB = 48


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

    # fmt: off
    json_file: Annotated[Path | None, _OUTPUT("--json", "Write the full report as JSON; - for stdout.",
        commands=_REPORTING, opens="file")] = None
    junit_file: Annotated[Path | None, _OUTPUT("--junit", "Write a JUnit XML report; - for stdout.",
        commands=_REPORTING, opens="file")] = None
    junit_inconclusive: Annotated[JunitInconclusive | None, _OUTPUT("--junit-inconclusive",
        "How JUnit shows an inconclusive scenario.", commands=_REPORTING,
        default_text="error where CI is set, else skipped")] = None
    html_file: Annotated[Path | None, _OUTPUT("--html",
        "Write an HTML report, one file for a browser; - for stdout.", commands=_REPORTING, opens="file")] = None
    transcripts: Annotated[Transcripts | None, _OUTPUT("--transcript", "Which transcripts to show.",
        commands=_REPORTING, default_text="trials that did not pass, or a single conversation")] = None
    quiet: Annotated[bool, _OUTPUT("-q/--quiet", "Show only what did not pass, and the totals.",
        commands=_REPORTING)] = False
    verbose: Annotated[bool, _OUTPUT("-v/--verbose", "Show every trial, passed or not, in full.",
        commands=_REPORTING)] = False
    # fmt: on

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


def show_run(reading: Reading, reports: Reports, view: View | None = None) -> None:
    """Write the files and the table. Raises `Unwritten` if a file cannot be written; the record is already safe."""
    view = view or reports.view
    want_run(reading, view)
    unwritten: list[str] = []
    if reports.junit_file is not None:
        from steadyhand.report.junit import JunitCases

        reading.want(JunitCases)
    if reports.html_file is not None:
        from steadyhand.report.html.overview import want_overview

        want_overview(reading)
    if reports.json_file is not None:
        from steadyhand.report.json import to_json

        document = to_json(reading)
        unwritten += write_report(reports.json_file, map(harmless_json, document) if reports.to_stdout else document)
        document.close()  # if it could not be written to its end, the other reports still need the rest of the trials
    if reports.junit_file is not None:
        from steadyhand.report.junit import to_junit

        inconclusive = reports.junit_inconclusive or ("error" if os.environ.get("CI") else "skipped")
        unwritten += write_report(reports.junit_file, [to_junit(reading, inconclusive=inconclusive).encode()])
    if reports.html_file is not None:
        from steadyhand.report.html.page import to_html

        unwritten += write_report(reports.html_file, to_html(reading))
    err = reports.to_stdout
    show(render_run(reading, page(err=err), view=view), err=err)
    if unwritten:
        raise Unwritten("; ".join(unwritten))


def carry_out(run: Run, reports: Reports, *, silent: bool, otel: str | None = None) -> ExitCode:
    """Run it, report, and return the exit code. After an interrupt or a full disk, report whatever was recorded."""
    execution = Execution(run)
    progress = progress_for(progress_stream(), live=takes_control(), enabled=not silent, health=execution.health)
    traces = None if otel is None else _exporter(otel, run.settings.variables)
    network = run.needs_network  # may reject the name of a model, so ask before creating the coroutine
    underway = _underway(run, reports)
    observers = [each for each in (progress, traces, underway) if each is not None]
    execution.prepare_workers()
    record = run_in_loop(execution.execute(observers, attend=attended), network=network)
    if traces is not None and traces.note is not None:
        say(f"note: {run.redactor.text(traces.note)}", err=True)
    reading: Reading | None = None
    crashed = execution.crashed
    try:
        seen = None if execution.used_workers else underway
        reading = Reading.open(record) if seen is None else seen.reading(record)
        unwritten = report(reading, reports)
    except SteadyhandError as error:
        if execution.broken is None:
            say(f"steadyhand: {run.redactor.text(str(error))}", err=True)
        reading, unwritten = None, False
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
    if reading is None:
        return ExitCode.UNDECIDED
    lost = execution.broken is not None or unwritten
    return reading.exit_code or (ExitCode.UNDECIDED if lost else ExitCode.PASSED)


def _underway(run: Run, reports: Reports) -> Underway | None:
    """What gathers while a run of many trials is running, if nothing but its table is wanted."""
    if run.record is not None or len(run.pending) < _MANY or reports.files or os.environ.get("GITHUB_ACTIONS"):
        return None
    from steadyhand.reading.underway import Underway  # not for a few trials

    def want(reading: Reading) -> None:
        want_run(reading, reports.view)
        if reading.is_long:
            reading.want(TrialSamples)

    return Underway(run.settings.out, want)


def _exporter(url: str, variables: Mapping[str, str]) -> OtelExporter:
    from steadyhand.report.otel import OtelExporter, endpoint_of  # few runs export traces

    return OtelExporter(endpoint_of(url, variables))


def tell_flaws(*readings: Reading | None) -> None:
    """Say which of the records that a command has read are not whole."""
    for reading in readings:
        if reading is not None and reading.flaw is not None:
            say(f"steadyhand: the record of run {reading.header.id} is not whole: {reading.flaw}", err=True)


def report(reading: Reading, reports: Reports) -> bool:
    """Write all requested reports. Returns whether something could not be written, which does not affect the
    verdict."""
    if reading.is_long:
        reading.want(TrialSamples)
    try:
        if os.environ.get("GITHUB_ACTIONS"):
            from steadyhand.cli.github import tell_github

            want_run(reading, reports.view)
            tell_github(reading)
        show_run(reading, reports)
    except Unwritten as error:
        say(f"steadyhand: {error}", err=True)
        return True
    if reading.is_long:
        with suppress(StoreError):  # the next command reads the trials
            reading.keep()
    return False


def _resume(run: Run) -> str:
    """The command that continues the run."""
    options = run.settings.options
    out = ["--runs", str(options.out)] if options.out is not None else []
    return shlex.join(["steadyhand", "resume", run.header.id, *out, *(["--trust"] if options.trust else [])])


@click.command(cls=shared.Headed, headings=HEADINGS)
@shared.optional_paths
@shared.declared("run", Reports)
@click.option(
    "--watch",
    is_flag=True,
    cls=shared.Grouped,
    heading=HEADINGS[0],
    help="Wait for files to be saved, and run what they affect, until Ctrl-C; failures first.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    cls=shared.Grouped,
    heading=HEADINGS[0],
    help="List what would run, with an estimate of the model calls, and stop.",
)
@shared.no_progress
@click.option(
    "--otel",
    is_flag=False,
    flag_value="",
    metavar="[URL]",
    cls=shared.Grouped,
    heading="Output",
    help="Export every trial as a trace to this OTLP endpoint. [URL: OTEL_EXPORTER_OTLP_ENDPOINT, or local port 4318]",
)
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> None:
    """Run scenarios and report a verdict for each. PATH is a file, a folder or a glob.

    Exit codes: 0 all passed; 1 something failed; 2 the run could not start; 3 nothing failed, but something was
    inconclusive or ended in error; 130 interrupted.
    """
    as_given, watching = dict(given), given.pop("watch")
    chosen = {name: given.pop(name) for name in Selection.__struct_fields__ if name in given}
    otel = given.pop("otel")
    reports = Reports(**{name: given.pop(name) for name in Reports.__struct_fields__}).check()
    silent, dry_run = given.pop("no_progress"), given.pop("dry_run")
    if dry_run and reports.files:
        raise SetupError(f"--dry-run produces no report; drop it or drop {' and '.join(reports.files)}")
    given |= under_test(given.pop("models"), given.pop("agents"))
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
    if watching and (failed_of is not None or dry_run):
        raise SetupError("--watch runs what is saved; drop --failed-of and --dry-run")
    prepared = Run(selection, options, checking=dry_run or watching)
    if watching:
        from steadyhand.cli.watch import watch

        ctx.exit(watch(prepared, ctx, as_given))
    if dry_run:
        show_plan(prepared)
        if prepared.needs_trust is not None:
            say(f"note: {prepared.needs_trust}", err=True)
        return
    ctx.exit(carry_out(prepared, reports, silent=silent, otel=otel))


def show_plan(run: Run) -> None:
    """One line per scenario or combination, then the estimate."""
    redact = run.redactor.text
    for scenario_id, trials in run.planned.per_scenario().items():
        say(redact(f"{trials} x {scenario_id}" if trials > 1 else scenario_id))
    found = estimate(
        run.planned,
        asks_model=run.asks_model,
        asks_judge=run.asks_judge,
        scores_rubric=lambda scenario: scenario.rubric is not None and run.casts.of(scenario).judge is not None,
    )
    say(f"would run {'at most ' if run.header.until else ''}{found}")
    targets = list(dict.fromkeys(target.name for target in run.header.targets.values()))
    say(redact(f"{'target' if len(targets) == 1 else 'targets'}: {'; '.join(targets)}"))
    if found.judge_checks:
        casts = run.casts.all(run.scenarios)
        judges = {cast.judge.value if cast.judge is not None else "none named" for cast in casts}
        say(redact(f"judge: {', '.join(sorted(judges))}"))
    say(f"up to {run.settings.concurrency} trials at once")
