"""The HTML report as PDF, printed by an installed Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from steadyhand.errors import SetupError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "msedge")
_APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
_QUIET = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-extensions",
    "--no-pdf-header-footer",
    "--window-size=1000,1400",
)
_TIMEOUT_S = 180


def find_browser() -> str:
    """Raises `SetupError` if there is no Chromium, Chrome or Edge."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    found = found or next((path for path in _APPLICATIONS if Path(path).is_file()), None)
    if found is None:
        raise SetupError(
            "a PDF is printed by Chromium, Chrome or Edge, and none of them is installed; install one, or write the "
            "report with --html and print it from a browser"
        )
    return found


def to_pdf(page: Iterable[bytes], browser: str) -> bytes:
    """Print the page. The browser uses a temporary profile. Raises `SetupError`."""
    with tempfile.TemporaryDirectory(prefix="steadyhand-pdf-", ignore_cleanup_errors=True) as folder:
        source, printed = Path(folder, "report.html"), Path(folder, "report.pdf")
        with source.open("wb") as file:
            file.writelines(page)
        # Chromium refuses to run its sandbox as root. The page can run no script but ours and load nothing.
        root = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
        command = [browser, *_QUIET, *root, f"--user-data-dir={folder}/profile", f"--print-to-pdf={printed}"]
        try:
            subprocess.run(  # noqa: S603 - the browser that was found, with arguments of our own
                [*command, f"{source.as_uri()}#print"],
                check=True,
                capture_output=True,
                timeout=_TIMEOUT_S,
                env={**os.environ, "HOME": folder},
            )
            found = printed.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise SetupError(f"{browser} could not print the report: {_reason(error)}; use --html instead") from error
    if not found.startswith(b"%PDF"):
        raise SetupError(f"{browser} printed something that is not a PDF; use --html instead")
    return found


def _reason(error: OSError | subprocess.SubprocessError) -> str:
    match error:
        case subprocess.TimeoutExpired():
            return f"it took more than {_TIMEOUT_S} s"
        case subprocess.CalledProcessError():
            said = error.stderr.decode("utf-8", "replace").strip().splitlines()
            return said[-1][:300] if said else f"exit code {error.returncode}"
        case _:
            return str(error)
