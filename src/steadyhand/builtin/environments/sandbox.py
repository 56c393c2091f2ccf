"""Commands under bubblewrap: no network, no privileges, a read-only system, and no host files but the workspace.

Nothing of the user's is visible inside: no home folder, no other workspace, no other process, and of `/etc` only what
programs need to start. The commands of a trial share a private `/tmp`.

When we are root, the command runs as a user ID that belongs to nobody else: the kernel goes by the real user when it
guards its settings in `/proc/sys` and counts processes, so a user namespace alone would not confine root.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

import msgspec

from steadyhand.builtin.environments.files import MIB
from steadyhand.builtin.environments.process import Command, run_command
from steadyhand.builtin.environments.seccomp import system_call_filter
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
_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
_HIDDEN = ("keys", "key-users", "timer_list")
_TOOLS = "/usr/bin:/bin:/usr/sbin:/sbin"
_NOBODY = 65534
_FREE_USERS = range(0x70000000, 0x7FF00000)  # not assigned to people, services or containers
_COUNTS_PER_NAMESPACE = (5, 14)  # the Linux release from which processes are counted in each user namespace
_INSTALL = "install it (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)"
_REFUSED = (
    "in a container, allow it to create namespaces (Docker: --privileged, or run as an ordinary user with a seccomp "
    "profile that permits it); on Ubuntu 24.04 and later, add an AppArmor profile for bwrap or set sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0"
)


class SandboxLimits(Record):
    """`memory` and `file` are in bytes: what one process may allocate, and how large one file may grow."""

    memory: int = 4096 * MIB
    processes: int = 512
    file: int = 1024 * MIB

    def argv(self, *, counted_alone: bool) -> list[str]:
        """The program that sets the limits, to go in front of a command. No limit is raised above our own.

        Processes are limited only where the kernel counts those of this sandbox alone: elsewhere everything the user
        has running would count.
        """
        return [
            _tool("prlimit"),
            "--core=0",
            f"--data={_within(self.memory, resource.RLIMIT_DATA)}",
            f"--fsize={_within(self.file, resource.RLIMIT_FSIZE)}",
            *([f"--nproc={_within(self.processes, resource.RLIMIT_NPROC)}"] if counted_alone else []),
            "--",
        ]


def _within(limit: int, which: int) -> int:
    ours = resource.getrlimit(which)[1]
    return limit if ours == resource.RLIM_INFINITY else min(limit, ours)


def _tool(name: str) -> str:
    return shutil.which(name, path=_TOOLS) or name


def unused_user() -> int | None:
    """A user ID for one trial's commands when we are root, so that they own nothing else; None when we are not."""
    if os.geteuid() != 0:
        return None
    if _users_here() <= _FREE_USERS.stop:
        return _NOBODY  # in a container with few users
    return secrets.choice(_FREE_USERS)


def _users_here() -> int:
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
        return max(int(start) + int(count) for start, _, count in (line.split() for line in lines))
    except (OSError, ValueError):
        return 0


class Confinement(Record):
    """How the commands of one trial are confined. `scratch` becomes their `/tmp`; `user` is the user they run as if we
    are root, and must own both folders."""

    program: str
    workspace: Path
    scratch: Path
    programs: tuple[Path, ...] = ()
    limits: SandboxLimits = SandboxLimits()
    user: int | None = msgspec.field(default_factory=unused_user)

    def argv(self, command: Sequence[str], lent: Descriptors) -> list[str]:
        """The command line that runs `command` confined.

        A shell starts the program, since bubblewrap would not say "no such program" as a shell does. It also enters
        the workspace, since the root that bubblewrap has left by then may not.
        """
        return [
            *_frame(self.program, self.user, lent),
            *("--bind", str(self.scratch), "/tmp"),  # noqa: S108 - a folder of the trial's own, inside the sandbox
            # Not in memory, where the limit on memory would not count it.
            *("--bind", str(self.scratch), "/dev/shm"),  # noqa: S108
            # After /tmp, which would hide those below it.
            *_open_folders_above([*self.programs, self.workspace]),
            *(part for folder in self.programs for part in ("--ro-bind-try", str(folder), str(folder))),
            *("--bind", str(self.workspace), str(self.workspace)),
            *_closing(self.user, self.limits),
            *("/bin/sh", "-c", 'cd -- "$0" && exec "$@"', str(self.workspace), *command),
        ]

    def environ(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables a command gets: those given, with what does not hold inside replaced."""
        path = os.pathsep.join(str(folder) for folder in search_path(given.get("PATH", os.defpath)))
        return {**given, "PATH": path, "TMPDIR": "/tmp"}  # noqa: S108


def sandbox_available(search: str | None = None) -> str | None:
    """Why commands cannot be sandboxed here, with what to do about it; None when they can.

    `search` is where to look for the program, `PATH` unless given. Each program found is tried once, which takes a few
    milliseconds.
    """
    program = bubblewrap(search)
    if not sys.platform.startswith("linux"):
        return "the sandbox needs Linux, because it uses bubblewrap; use the e2b environment instead"
    if program is None:
        return f"the sandbox needs bubblewrap, but `bwrap` is not on the PATH; {_INSTALL}"
    for name in ("prlimit", "setpriv"):
        if shutil.which(name, path=_TOOLS) is None:
            return f"the sandbox needs the program `{name}`; install util-linux"
    return _refusal(program)


@functools.cache  # it is the same for the whole machine, and trying it for every trial would block the event loop
def _refusal(program: str) -> str | None:
    user = unused_user()
    try:
        with lending(user) as lent:
            tried = subprocess.run(  # noqa: S603 - our own command line
                [*_frame(program, user, lent), *_closing(user, SandboxLimits()), "/bin/sh", "-c", "exit 0"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                pass_fds=lent.passed,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the sandbox cannot be used: {program} could not be run: {error}"
    if tried.returncode == 0:
        return None
    said = tried.stderr.decode("utf-8", "replace").strip() or f"exit code {tried.returncode}"
    return f"the sandbox cannot be used: this system does not permit bubblewrap ({said}); {_REFUSED}"


def bubblewrap(search: str | None = None) -> str | None:
    """The path of the program, if there is one."""
    return shutil.which("bwrap", path=search)


def search_path(path: str) -> list[Path]:
    """The folders of `PATH` that can be shown inside, then where this Python's programs are.

    Version managers' launchers (`shims`) are left out: they look for files that are not there.
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
        # `Path.is_dir` would raise for a folder that we may not look at.
        if not covered and os.path.isdir(folder) and _may_be_shown(folder):  # noqa: PTH112
            shown.append(folder)
    return tuple(shown)


def _may_be_shown(folder: Path) -> bool:
    """Not a folder that contains the user's home, nor a settings folder right below it, which may hold keys."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where there is none
    if home.is_relative_to(folder) or folder in (Path("/"), Path("/etc"), Path("/tmp"), Path("/var")):  # noqa: S108
        return False
    return not (folder.parent == home and folder.name.startswith(".") and folder.name not in (".venv", ".pyenv"))


def _system_folders() -> list[Path]:
    return [Path("/") / name for name in _SYSTEM]


class Descriptors(Record):
    """What bubblewrap reads from and reports to. `report` is our end."""

    status: int
    report: int
    users: int
    groups: int
    calls: int | None

    @property
    def passed(self) -> tuple[int, ...]:
        read = (self.status, self.users, self.groups)
        return read if self.calls is None else (*read, self.calls)


@contextlib.contextmanager
def lending(user: int | None) -> Generator[Descriptors]:
    """The descriptors for one run of bubblewrap, closed afterwards."""
    uid, gid = (os.getuid(), os.getgid()) if user is None else (user, user)
    people = f"root:x:0:0:root:/:/bin/sh\nuser:x:{uid}:{gid}:user:/:/bin/sh\n" if uid else "root:x:0:0:root:/:/bin/sh\n"
    groups = f"root:x:0:\nuser:x:{gid}:\n" if gid else "root:x:0:\n"
    with contextlib.ExitStack() as opened:
        report, status = os.pipe()
        opened.callback(os.close, report)
        opened.callback(os.close, status)
        calls = system_call_filter()
        yield Descriptors(
            status=status,
            report=report,
            users=_readable(people.encode(), opened),
            groups=_readable(groups.encode(), opened),
            calls=None if calls is None else _readable(calls, opened),
        )


def _readable(content: bytes, opened: contextlib.ExitStack) -> int:
    """A pipe that holds `content`, which is small enough for its buffer."""
    reading, writing = os.pipe()
    opened.callback(os.close, reading)
    os.write(writing, content)
    os.close(writing)
    return reading


def _frame(program: str, user: int | None, lent: Descriptors) -> list[str]:
    """The part of the command line that comes first and is the same for every trial."""
    argv = [program, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    argv += ["--hostname", "steadyhand", "--die-with-parent", "--cap-drop", "ALL"]
    if user is None:
        argv += ["--unshare-user"]
    else:
        argv += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
    argv += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for name in _READ_ONLY:
        argv += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    for name in _HIDDEN:
        if Path("/proc", name).exists():
            argv += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    for folder in _system_folders():
        if folder.is_symlink():
            argv += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            argv += ["--ro-bind", str(folder), str(folder)]
    argv += _open_folders_above([Path("/etc", name) for name in _SETTINGS])
    for name in _SETTINGS:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    argv += ["--perms", "0444", "--ro-bind-data", str(lent.users), "/etc/passwd"]
    argv += ["--perms", "0444", "--ro-bind-data", str(lent.groups), "/etc/group"]
    argv += ["--json-status-fd", str(lent.status)]
    return argv if lent.calls is None else [*argv, "--seccomp", str(lent.calls)]


def _open_folders_above(shown: Sequence[Path]) -> list[str]:
    """The parent folders of what is shown. Bubblewrap would create them with the permissions that they have outside."""
    above = {parent for folder in shown for parent in folder.parents if parent != parent.parent}
    made = [folder for folder in above if folder not in (Path("/tmp"), Path("/usr"))]  # noqa: S108
    made = [folder for folder in made if not any(folder.is_relative_to(other) for other in shown)]
    return [part for folder in sorted(made) for part in ("--perms", "0755", "--dir", str(folder))]


def _closing(user: int | None, limits: SandboxLimits) -> list[str]:
    """The part that comes last, up to the command: from here on, only what was bound as writable can be written."""
    argv = ["--remount-ro", "/dev", "--remount-ro", "/", "--"]
    if user is not None:
        argv += [_tool("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
        argv += ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--"]
    return [*argv, *limits.argv(counted_alone=user is not None or _counts_per_namespace())]


def _counts_per_namespace() -> bool:
    release = os.uname().release.split(".")
    with contextlib.suppress(ValueError, IndexError):
        return (int(release[0]), int(release[1])) >= _COUNTS_PER_NAMESPACE
    return False


async def run_confined(
    command: Command, confinement: Confinement, kill_daemons: Callable[[int], None]
) -> CommandResult:
    """As `run_command`. Raises `WorkspaceError` when the sandbox could not be set up: the command has not run then.

    Bubblewrap reports the command's end on a separate pipe that nothing inside can reach; the exit code and the output
    alone could be the command's own.
    """
    with lending(confinement.user) as lent:
        argv = confinement.argv(command.argv, lent)
        confined = msgspec.structs.replace(command, argv=argv, pass_fds=lent.passed)
        result = await run_command(confined, kill_daemons)
        os.set_blocking(lent.report, False)
        if not result.timed_out and b'"exit-code"' not in _read_report(lent.report):
            reason = result.stderr.strip() or f"bubblewrap ended with exit code {result.exit_code}"
            raise WorkspaceError(f"the sandbox could not be set up: {reason}")
        return result


def _read_report(report: int) -> bytes:
    try:
        return os.read(report, 65536)
    except BlockingIOError:
        return b""


def hand_over(folder: Path, user: int) -> None:
    """Make `user`, as whom the sandboxed commands run, the owner of everything in the folder. Links are not
    followed."""
    os.chown(folder, user, user, follow_symlinks=False)
    for _, folders, files, here in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                os.chown(name, user, user, dir_fd=here, follow_symlinks=False)
