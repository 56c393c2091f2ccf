"""The local environment: a folder for each trial, and commands that leave nothing behind.

By itself it keeps well-behaved programs apart, but is not a sandbox: a command can read whatever the user can. With the
option `sandbox`, every command runs under bubblewrap or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import secrets
import shutil
from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import msgspec
from pydantic import Field

from steadyhand.builtin.environments.cleanup import owner_file, remove_workspace, scratch_folder
from steadyhand.builtin.environments.files import (
    MIB,
    LocalLimits,
    OutsideWorkspace,
    capture_files,
    open_inside,
    regular_files,
    split_path,
)
from steadyhand.builtin.environments.process import Command, run_command
from steadyhand.builtin.environments.sandbox import (
    Confinement,
    SandboxLimits,
    bubblewrap,
    hand_over,
    program_folders,
    run_confined,
    sandbox_available,
)
from steadyhand.children.daemons import COMMAND_MARK, TRIAL_MARK, kill_command, marked, write_owner
from steadyhand.errors import SetupError, WorkspaceError
from steadyhand.plugins.plugin import EnvironmentSettings, Options, read_options
from steadyhand.ports.agent import AgentProcess
from steadyhand.records.base import shorten
from steadyhand.records.isolation import IsolationKind
from steadyhand.records.result import CapturedFile, CommandResult, FileSystemOperation

_INHERITED = ("PATH", "LANG", "TERM", "TZ")


class LocalEnvironmentOptions(Options):
    """`sandbox`: whether commands run under bubblewrap; the others limit them there."""

    sandbox: bool = False
    memory_mib: int = Field(default=4096, gt=0)
    processes: int = Field(default=512, gt=0)
    file_mib: int = Field(default=1024, gt=0)


_LIMITS = LocalLimits()


class LocalEnvironment:
    """Implements `ports.environment.EnvironmentProvider` on this machine.

    The workspace is `<root>/<trial id>-<random>`, made when the first file is written or the first command run.
    Option: `sandbox`, whether commands run under bubblewrap.
    """

    options: ClassVar[type[Options]] = LocalEnvironmentOptions

    def __init__(self, settings: EnvironmentSettings, limits: LocalLimits | None = None) -> None:
        """Raises `SetupError` on a system without the file calls that keep paths inside the workspace, and if a
        sandbox is asked for but not available."""
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise SetupError("the local environment needs Linux or macOS; on Windows run Steadyhand under WSL")
        self._settings: EnvironmentSettings = settings
        self._limits: LocalLimits = limits or _LIMITS
        self._made: bool = False
        self._closed: bool = False
        self._commands: int = 0
        self._exported: dict[str, str] = {}
        self._confinement: Confinement | None = None
        if settings.options:
            options = read_options(LocalEnvironmentOptions, settings.options, "environment local")
            self._confinement = _confinement(self._workspace, options) if options.sandbox else None
        self.opened_key_files: tuple[str, ...] = ()
        self._handed_out: bool = False
        self._foreign: bool = True
        """Whether something in the workspace may not belong to the user that confined commands run as."""

    @property
    def name(self) -> str:
        return "local"

    @cached_property
    def _handing_over(self) -> asyncio.Lock:
        return asyncio.Lock()

    @cached_property
    def _workspace(self) -> Path:
        """Named on first use: most trials that only ask a model never need it."""
        trial = re.sub(r"[^A-Za-z0-9._-]+", "_", self._settings.trial_id)[:80].strip(".")
        root = Path(os.path.realpath(self._settings.root))
        return root / f"{trial or 'trial'}-{secrets.token_hex(4)}"

    @property
    def sandboxed(self) -> bool:
        return self._confinement is not None

    @property
    def isolation(self) -> IsolationKind | None:
        """What keeps its commands from what the trial is judged by; None if it has run none."""
        if not self._commands:
            return None
        return "room" if self.sandboxed else self._settings.isolation.kind

    @property
    def workspace(self) -> Path:
        """Where the workspace is, or will be."""
        return self._workspace

    async def folder(self) -> Path:
        """The workspace, created if necessary, for an agent that works in it; see `OnThisMachine`."""
        await asyncio.to_thread(self._make)
        self._handed_out = True
        return self._workspace

    def marked(self, argv: Sequence[str]) -> list[str]:
        """See `ports.environment.MarksPrograms`."""
        path = os.environ.get("PATH", os.defpath)
        return marked(argv, self._workspace.name, path=path, folder=self._workspace)

    async def setup(self, files: Sequence[FileSystemOperation]) -> None:
        if files:
            await asyncio.to_thread(self._write_all, files)

    def _write_all(self, files: Sequence[FileSystemOperation]) -> None:
        for file in files:
            self._write(file.path, file.content)

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        env = {**self._exported, **(env or {})}
        argv = [_shell(), "-c", command] if isinstance(command, str) else list(command)
        if not argv:
            raise WorkspaceError("no command to run: the argument list is empty")
        # Some event loops cut the text at the NUL instead of refusing it, and so run a different command.
        if any("\0" in text for text in (*argv, *env, *env.values())):
            raise WorkspaceError(
                f"could not run {_line_of(command)}: it, or one of its environment variables, contains a NUL character"
            )
        self._make()
        self._commands += 1
        mark = f"{self._workspace.name}.{self._commands}"
        prepared = Command(
            argv=argv,
            folder=self._workspace,
            env=self._environ(env, mark),
            timeout_s=self._limits.command_timeout_s if timeout_s is None else timeout_s,
            output_limit=self._limits.output,
            stdin=stdin,
        )
        try:
            if self._confinement is not None:
                await self._hand_over(self._confinement)
                return await run_confined(prepared, self._confinement, lambda pid: kill_command(mark, after=pid))
            path = prepared.env.get("PATH", os.defpath)
            marked_argv = marked(argv, mark, path=path, folder=self._workspace)
            visible = (self._workspace, scratch_folder(self._workspace))
            isolated = await asyncio.to_thread(self._settings.isolation.command, marked_argv, visible)
            prepared = msgspec.structs.replace(prepared, argv=isolated)
            with self._watched(mark):
                return await run_command(prepared, lambda pid: kill_command(mark, after=pid))
        except (OSError, ValueError) as error:
            raise WorkspaceError(f"could not run {_line_of(command)}: {error}") from error

    @contextlib.contextmanager
    def _watched(self, mark: str) -> Generator[None]:
        """Around a command: notes what it opens of what the trial is judged by, if that is watched."""
        watch = self._settings.isolation.watch
        if watch is not None:
            watch.begin(AgentProcess(0, mark), self._workspace)
        try:
            yield
        finally:
            if watch is not None:
                self.opened_key_files += watch.end(AgentProcess(0, mark))

    async def _hand_over(self, confinement: Confinement) -> None:
        """Give the files that we, or an agent at work in the folder, wrote as root to the user of confined commands."""
        if confinement.user is None:
            return
        async with self._handing_over:  # a concurrent command must not start halfway through
            if self._foreign or self._handed_out:
                self._foreign = False
                for folder in (self._workspace, confinement.scratch):
                    await asyncio.to_thread(hand_over, folder, confinement.user)

    def _environ(self, given: Mapping[str, str], mark: str) -> dict[str, str]:
        """The command's variables, none of which could be a secret of ours."""
        inherited = {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith("LC_")}
        own = {
            "PATH": os.defpath,
            "TERM": "dumb",
            **inherited,
            "HOME": str(self._workspace),
            "PWD": str(self._workspace),
            "TMPDIR": str(scratch_folder(self._workspace)),
        }
        return {
            **(own if self._confinement is None else self._confinement.environ(own)),
            **given,
            TRIAL_MARK: self._workspace.name,
            COMMAND_MARK: mark,
        }

    def export(self, variables: Mapping[str, str]) -> None:
        self._exported.update(variables)

    async def read(self, path: str) -> bytes | None:
        return await asyncio.to_thread(self._read, path) if self._made else None

    def _read(self, path: str) -> bytes | None:
        try:
            descriptor = open_inside(self._workspace, split_path(path, self._workspace), os.O_RDONLY)
        except OutsideWorkspace:
            return None
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.EIO):
                raise WorkspaceError(f"could not read {path!r} in the workspace: {error.strerror}") from error
            return None
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(self._limits.read + 1)
        if len(content) > self._limits.read:
            raise WorkspaceError(f"could not read {path!r}: it is larger than {self._limits.read} bytes")
        return content

    async def write(self, path: str, content: bytes) -> None:
        await asyncio.to_thread(self._write, path, content)

    def _write(self, path: str, content: bytes) -> None:
        try:
            parts = split_path(path, self._workspace)
            self._make()
            self._foreign = True
            descriptor = open_inside(self._workspace, parts, os.O_WRONLY | os.O_CREAT, make_folders=True)
            with os.fdopen(descriptor, "wb") as file:
                file.truncate(0)
                file.write(content)
        except OutsideWorkspace as error:
            raise WorkspaceError(f"could not write {path!r}: it does not name a file inside the workspace") from error
        except OSError as error:
            raise WorkspaceError(f"could not write {path!r} in the workspace: {error.strerror}") from error

    async def list_files(self) -> Sequence[str]:
        if not self._made:
            return []
        return [path for path, _ in await asyncio.to_thread(regular_files, self._workspace)]

    async def capture(self) -> Mapping[str, CapturedFile]:
        return await asyncio.to_thread(capture_files, self._workspace, self._limits) if self._made else {}

    @property
    def closes_at_once(self) -> bool:
        """Without a workspace there is nothing to remove."""
        return not self._made

    async def teardown(self) -> None:
        self._closed = True
        if self._made:
            ran_commands = self._handed_out or self._commands > 0
            await asyncio.to_thread(remove_workspace, self._workspace, ran_commands=ran_commands)
            self._made = False

    def _make(self) -> None:
        if self._closed:
            raise WorkspaceError(f"the workspace {self._workspace.name} has been torn down")
        if self._made and self._workspace.is_dir():
            return
        self._foreign = True
        try:
            self._workspace.parent.mkdir(parents=True, exist_ok=True)
            if not self._made:
                self._made = True
                write_owner(owner_file(self._workspace))
            self._workspace.mkdir(mode=0o700, exist_ok=True)
            scratch_folder(self._workspace).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise WorkspaceError(f"could not create the workspace {self._workspace}: {error.strerror}") from error


def _confinement(workspace: Path, options: LocalEnvironmentOptions) -> Confinement:
    program, refusal = bubblewrap(), sandbox_available()
    if program is None or refusal is not None:
        raise SetupError(f"commands cannot be sandboxed: {refusal}")
    return Confinement(
        program=program,
        workspace=workspace,
        scratch=scratch_folder(workspace),
        programs=program_folders(os.environ.get("PATH", os.defpath)),
        limits=SandboxLimits(memory=options.memory_mib * MIB, processes=options.processes, file=options.file_mib * MIB),
    )


def _shell() -> str:
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or shutil.which("bash") or "/bin/sh"


def _line_of(command: str | Sequence[str]) -> str:
    text = command if isinstance(command, str) else " ".join(command)
    return repr(shorten(text, 200))
