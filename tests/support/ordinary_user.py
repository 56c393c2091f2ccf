"""Runs a test's program as a user who is bound by permissions, even if the tests run as root."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from support.command_server import CommandServer, Started
from support.shell import Ended, Shell

NOBODY = 65534
_SOURCES = Path(__file__).parents[2]


@cache
def python_of_an_ordinary_user() -> str | None:
    """An interpreter of this version that such a user can start and that finds our packages; None if there is none."""
    if os.getuid() != 0:
        return sys.executable
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            tried = run_as_ordinary_user([candidate, "-c", "import steadyhand.cli.run, support, uvloop"])
        except OSError:
            continue
        if tried.returncode == 0:
            return candidate
    return None


class OrdinaryShell(Shell):
    """Runs the command as a user who is bound by permissions and owns the folder above the working folder."""

    user = NOBODY if os.getuid() == 0 else None

    @property
    def python(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        found = python_of_an_ordinary_user()
        assert found is not None
        return found

    def behind(self, program: Path, *arguments: str, **variables: str) -> Ended:
        self._hand_over()
        return super().behind(program, *arguments, **variables)

    def environment(self, **more: str) -> dict[str, str]:
        return {**_environment(), "HOME": str(self.folder), **more}

    def __call__(self, *arguments: str, **variables: str) -> Ended:
        self._hand_over()
        return super().__call__(*arguments, **variables)

    def start(self, *arguments: str, **variables: str) -> Started:
        self._hand_over()
        return super().start(*arguments, **variables)

    def _hand_over(self) -> None:
        if os.getuid() == 0:
            for path in (self.folder.parent, *self.folder.parent.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def server_of_an_ordinary_user(python: str, shared: Path | None) -> CommandServer:
    return CommandServer(python, _environment(), NOBODY if os.getuid() == 0 else None, shared=shared)


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(_SOURCES / "src"), str(_SOURCES / "tests"), sysconfig.get_path("purelib")])
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def run_as_ordinary_user(argv: list[str], **given: str) -> subprocess.CompletedProcess[str]:
    """`given` are variables. As root, the program runs as `nobody`."""
    user = NOBODY if os.getuid() == 0 else None
    return subprocess.run(
        argv,
        env={**_environment(), **given},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
