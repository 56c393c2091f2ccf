"""`steadyhand view`: browse recorded runs."""

from __future__ import annotations

import getpass
import sys
import webbrowser
from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.main import tell_bug
from steadyhand.cli.terminal import say
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError
from steadyhand.records.config import RunOptions
from steadyhand.viewer.labels import LabelBook
from steadyhand.viewer.pages import Viewer
from steadyhand.viewer.server import ViewerServer


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path, file_okay=False))
@shared.declared("view")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. [default: any free one]")
@click.option("--no-browser", is_flag=True, help="Print the link without opening it.")
@click.option(
    "--labels",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that labels are added to, ending in .jsonl or .csv. [default: labels.jsonl in DIR]",
)
def view(folder: Path | None, config: Path | None, port: int, *, no_browser: bool, labels: Path | None) -> None:
    """Browse the runs in DIR, compare them, and label their trials.

    DIR is a folder of run records [default: .steadyhand/runs]. The viewer listens on this machine only, and can be
    opened once with the link that it prints. It writes only labels. Press Ctrl-C to stop it.
    """
    folder = Settings(RunOptions(config=config, out=folder)).out
    if not folder.is_dir():
        raise SetupError(f"folder not found: {folder}; `steadyhand run` creates it, or give a different DIR")
    viewer = Viewer(folder, LabelBook(labels or folder / "labels.jsonl", _user()))
    server = ViewerServer(viewer, port=port, on_bug=lambda error: say(tell_bug(error), err=True))
    try:
        say(f"viewer of {folder}: {server.session.link()}")
        say("the link works once; press Ctrl-C to stop the viewer")
        sys.stdout.flush()  # a program that starts the viewer waits for the link
        if not no_browser and not webbrowser.open(server.session.link()):
            say("no browser could be opened; follow the link")
        server.serve_forever()
    except KeyboardInterrupt:
        say("viewer stopped")
    finally:
        server.server_close()
        viewer.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user without a name
        return ""
