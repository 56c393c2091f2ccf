"""Commands under bubblewrap: no network, a read-only system, and of the host's files only the workspace.

Nothing of the user's is to be seen inside: no home folder, no other workspace, and of `/etc` what programs need to
start. Commands of one trial share a private `/tmp`.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from steadyhand.builtin.environments.process import Command, run_command
from steadyhand.errors import WorkspaceError
from steadyhand.records.base import Record
from steadyhand.records.result import CommandResult

_TIMEOUT_S = 20.0
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SETTINGS = (
    "alternatives",
    "bash.bashrc",
    "crypto-policies",
    "debian_version",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/tls/certs",
    "profile",
    "protocols",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
_INSTALL = "install it (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)"
_REFUSED = (
    "in a container, allow it to make namespaces (Docker: --privileged, or a seccomp profile that permits it); on "
    "Ubuntu 24.04 and later, an AppArmor profile for bwrap or sysctl kernel.apparmor_restrict_unprivileged_userns=0"
)


class Confinement(Record):
    """How the commands of one trial are confined. `scratch` becomes their `/tmp`."""

    program: str
    workspace: Path
    scratch: Path
    programs: tuple[Path, ...] = ()

    def argv(self, command: Sequence[str], *, status: int) -> list[str]:
        """The command line that runs `command` confined, and reports on the descriptor `status`.

        A shell starts the program, since bubblewrap would not say "no such program" as a shell does.
        """
        return [
            *_frame(self.program),
            *("--bind", str(self.scratch), "/tmp"),  # noqa: S108 - a folder of the trial's own, inside the sandbox
            # After /tmp, which would hide those below it.
            *(part for folder in self.programs for part in ("--ro-bind-try", str(folder), str(folder))),
            *("--bind", str(self.workspace), str(self.workspace)),
            *("--chdir", str(self.workspace)),
            *("--json-status-fd", str(status)),
            *("--", "/bin/sh", "-c", 'exec "$@"', "sh", *command),
        ]

    def environ(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables a command gets: those given, with what does not hold inside replaced."""
        path = os.pathsep.join(str(folder) for folder in search_path(given.get("PATH", os.defpath)))
        return {**given, "PATH": path, "TMPDIR": "/tmp"}  # noqa: S108


def sandbox_available(search: str | None = None) -> str | None:
    """Why commands cannot be sandboxed here, with what to do about it; None when they can.

    `search` is where to look for the program, `PATH` unless given. Each program found is tried once, which takes some
    milliseconds.
    """
    program = bubblewrap(search)
    if not sys.platform.startswith("linux"):
        return "the sandbox needs Linux, since it is made of bubblewrap; use the e2b environment instead"
    if program is None:
        return f"the sandbox needs bubblewrap, and there is no program `bwrap` on the PATH; {_INSTALL}"
    return _refusal(program)


@functools.cache  # it holds for the machine, and trying it for each trial would hold up the others' event loop
def _refusal(program: str) -> str | None:
    try:
        tried = subprocess.run(  # noqa: S603 - our own command line
            [*_frame(program), "--", "/bin/sh", "-c", "exit 0"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the sandbox cannot be used: {program} could not be run: {error}"
    if tried.returncode == 0:
        return None
    said = tried.stderr.decode("utf-8", "replace").strip() or f"exit code {tried.returncode}"
    return f"the sandbox cannot be used: bubblewrap is refused by this system ({said}); {_REFUSED}"


def bubblewrap(search: str | None = None) -> str | None:
    """The path of the program, if there is one."""
    return shutil.which("bwrap", path=search)


def search_path(path: str) -> list[Path]:
    """The folders of `PATH` that can be shown inside, then where this Python's programs are.

    Launchers of version managers (`shims`) are left out: they would look for files that are not there.
    """
    folders = [Path(entry) for entry in path.split(os.pathsep) if entry.startswith("/")]
    kept = [folder for folder in folders if folder.name != "shims" and _may_be_shown(folder)]
    return list(dict.fromkeys([*kept, Path(sys.base_prefix) / "bin"]))


def program_folders(path: str) -> tuple[Path, ...]:
    """The folders outside the system's own that programs on `path` need."""
    wanted = [*search_path(path), Path(sys.prefix), Path(sys.base_prefix)]
    for name in ("python3", "node"):
        found = shutil.which(name, path=os.pathsep.join(str(folder) for folder in search_path(path)))
        if found:
            wanted.append(Path(os.path.realpath(found)).parent.parent)
    shown: list[Path] = []
    for folder in sorted(set(wanted), key=lambda folder: len(folder.parts)):
        covered = any(folder.is_relative_to(above) for above in (*shown, Path("/usr"), *_system_folders()))
        if not covered and folder.is_dir() and _may_be_shown(folder):
            shown.append(folder)
    return tuple(shown)


def _may_be_shown(folder: Path) -> bool:
    """Not a folder that holds somebody's home, nor one of settings right below it, which may hold keys."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where there is none
    if home.is_relative_to(folder) or folder in (Path("/"), Path("/etc"), Path("/tmp"), Path("/var")):  # noqa: S108
        return False
    return not (folder.parent == home and folder.name.startswith(".") and folder.name not in (".venv", ".pyenv"))


def _system_folders() -> list[Path]:
    return [Path("/") / name for name in _SYSTEM]


def _frame(program: str) -> list[str]:
    """The part of the command line that is the same for every trial."""
    argv = [program, "--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    argv += ["--unshare-cgroup-try", "--hostname", "steadyhand", "--cap-drop", "ALL", "--die-with-parent"]
    argv += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm"]  # noqa: S108
    for folder in _system_folders():
        if folder.is_symlink():
            argv += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            argv += ["--ro-bind", str(folder), str(folder)]
    for name in _SETTINGS:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return argv


async def run_confined(command: Command, confinement: Confinement, kill_strays: Callable[[int], None]) -> CommandResult:
    """As `run_command`. Raises `WorkspaceError` when the sandbox could not be made: the command has not run then.

    Bubblewrap says on a pipe of its own that the command ended, which nothing inside can reach; the exit code and the
    output alone could be the command's as well.
    """
    report, status = os.pipe()
    try:
        try:
            argv = confinement.argv(command.argv, status=status)
            confined = msgspec.structs.replace(command, argv=argv, pass_fds=(status,))
            result = await run_command(confined, kill_strays)
        finally:
            os.close(status)
        os.set_blocking(report, False)
        if not result.timed_out and b'"exit-code"' not in _said(report):
            reason = result.stderr.strip() or f"bubblewrap ended with exit code {result.exit_code}"
            raise WorkspaceError(f"the sandbox could not be made: {reason}")
        return result
    finally:
        os.close(report)


def _said(report: int) -> bytes:
    try:
        return os.read(report, 65536)
    except BlockingIOError:
        return b""
