"""Output for a GitHub workflow: annotations on stderr, and the step summary. Neither affects the verdict."""

from __future__ import annotations

import os
from pathlib import Path

from steadyhand.cli.terminal import command_ci, say
from steadyhand.reading.run import Reading
from steadyhand.report.github import run_annotations
from steadyhand.report.summary import to_markdown

_SUMMARY_BYTES = 900_000


def tell_github(reading: Reading) -> None:
    folder = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    for line in run_annotations(reading, folder):
        command_ci(line)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_summary(Path(summary), to_markdown(reading))


def append_summary(file: Path, markdown: str) -> None:
    """GitHub refuses a summary of more than a mebibyte."""
    text = markdown.encode("utf-8", "backslashreplace")[:_SUMMARY_BYTES].decode("utf-8", "ignore") + "\n"
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        say(f"steadyhand: cannot write the step summary: {error.strerror}", err=True)
