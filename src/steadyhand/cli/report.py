"""`steadyhand report`: write the report of a recorded run as HTML, Markdown or PDF."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import tell_flaws
from steadyhand.cli.terminal import STDOUT, Unwritten, require_own_terminal, say, watch_reading, write_report
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode, SetupError
from steadyhand.reading.run import Reading, sound
from steadyhand.records.config import RunOptions
from steadyhand.report.html.page import to_html
from steadyhand.report.pdf import find_browser, to_pdf
from steadyhand.report.summary import to_markdown
from steadyhand.store.reader import find_run

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("run", metavar="RUN")
@shared.declared("report")
@click.option("--html", "html_file", type=_FILE, help="Write one HTML file that needs no network; - for stdout.")
@click.option("--markdown", "markdown_file", type=_FILE, help="Write a short summary in Markdown; - for stdout.")
@click.option(
    "--pdf", "pdf_file", type=_FILE, help="Print the HTML report to PDF with an installed Chromium or Chrome."
)
@click.pass_context
def report(
    ctx: click.Context,
    run: str,
    *,
    config: Path | None,
    out: Path | None,
    html_file: Path | None,
    markdown_file: Path | None,
    pdf_file: Path | None,
) -> None:
    """Write the report of a recorded run as HTML, Markdown or PDF.

    RUN is an id, a unique prefix of one, `last`, or the path of a run record. Exit codes: 0 written; 3 the record is
    not whole, or a file could not be written.
    """
    wanted = [file for file in (html_file, markdown_file, pdf_file) if file is not None]
    if not wanted:
        raise SetupError("nothing to write; give --html FILE, --markdown FILE or --pdf FILE")
    if wanted.count(STDOUT) > 1 or pdf_file == STDOUT:
        raise SetupError("only one of --html and --markdown can go to stdout, and a PDF cannot")
    if html_file == STDOUT:
        require_own_terminal()
    reading = Reading.open(find_run(Settings(RunOptions(config=config, out=out)).out, run))
    watch_reading(reading)
    unwritten: list[str] = []
    if html_file is not None:
        unwritten += _write(html_file, to_html(reading))
    if markdown_file is not None:
        unwritten += _write(markdown_file, [to_markdown(reading).encode("utf-8", "backslashreplace")])
    if pdf_file is not None:
        browser = find_browser()
        unwritten += _write(pdf_file, [to_pdf(to_html(reading), browser)])
    if unwritten:
        raise Unwritten("; ".join(unwritten))
    tell_flaws(reading)
    ctx.exit(sound(ExitCode.PASSED, reading))


def _write(file: Path, content: Iterable[bytes]) -> list[str]:
    problems = write_report(file, content)
    if not problems and file != STDOUT:
        say(f"wrote {file}", err=True)
    return problems
