"""Output for a GitHub workflow: annotations on stderr, and the step summary. Neither affects the verdict."""

from __future__ import annotations

import os
from pathlib import Path

from steadyhand.cli.terminal import command_ci, say
from steadyhand.compose.run import rates_of
from steadyhand.report.github import run_annotations
from steadyhand.store.reader import RunReader

_SUMMARY_BYTES = 900_000


def tell_github(reader: RunReader) -> None:
    rates = rates_of(reader)
    folder = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    for line in run_annotations(reader.trials(), {rate.scenario_id: rate for rate in rates}, folder):
        command_ci(line)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        append_summary(Path(summary), _markdown(reader))


def append_summary(file: Path, markdown: str) -> None:
    """GitHub refuses a summary of more than a mebibyte."""
    text = markdown.encode("utf-8", "backslashreplace")[:_SUMMARY_BYTES].decode("utf-8", "ignore") + "\n"
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        say(f"steadyhand: cannot write the step summary: {error.strerror}", err=True)


def _markdown(reader: RunReader) -> str:
    from steadyhand.report.html.overview import overview
    from steadyhand.report.summary import to_markdown

    return to_markdown(overview(reader.header, reader.trials(), rates_of(reader), status=reader.status))
