"""The e2b environment: a sandbox in the E2B cloud for each trial."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import shlex
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypedDict

from pydantic import AfterValidator, Field

from steadyhand.builtin.environments.files import LocalLimits, OutsideWorkspace, split_path
from steadyhand.builtin.environments.process import BoundedOutput
from steadyhand.children.daemons import COMMAND_MARK
from steadyhand.errors import SetupError, WorkspaceError
from steadyhand.plugins.plugin import EnvironmentSettings, Options, read_options
from steadyhand.records.base import Record
from steadyhand.records.result import CapturedFile, CommandResult, FileSystemOperation

if TYPE_CHECKING:
    from e2b import AsyncCommandHandle, AsyncSandbox


_LOCATE = """\
at=$(readlink -f -- "$1") && here=$(pwd -P) && [ -f "$at" ] || exit 1
case $at in "$here"/*) printf '%s %s' "$(stat -c %s -- "$at")" "${at#"$here"/}" ;; *) exit 1 ;; esac"""


def command_line(command: str | Sequence[str], env: Mapping[str, str], mark: str) -> str:
    """A shell command that runs `command`, kills what it left running, and ends with its exit code.

    Everything it starts has the mark in its environment. The shell turns death by signal n into 128 + n, and is kept
    from reporting it in the command's output. Variables are set here, because the sandbox's login shell would replace
    some of them. Raises `WorkspaceError` for what cannot be passed on.
    """
    words = [command] if isinstance(command, str) else list(command)
    if not words:
        raise WorkspaceError("no command to run: the argument list is empty")
    if any("\0" in text for text in (*words, *env, *env.values())):
        raise WorkspaceError(
            "could not run the command: it, or one of its environment variables, contains a NUL character"
        )
    if any(not name or "=" in name for name in env):
        raise WorkspaceError(
            "could not run the command: one of its environment variables has an empty name, or a name that contains `=`"
        )
    run = ["bash", "-c", command] if isinstance(command, str) else ["bash", "-c", 'exec "$@"', "bash", *words]
    variables = [f"{name}={value}" for name, value in {**env, COMMAND_MARK: mark}.items()]
    started = shlex.join(["env", *variables, *run])
    return f"exec 3>&2 2>/dev/null; {started} 2>&3 3>&-; code=$?; exec 3>&-; {kill_line(mark)}; exit $code"


def kill_line(mark: str) -> str:
    """A shell command that kills everything with the mark."""
    entry = shlex.quote(f"{COMMAND_MARK}={mark}")
    return (
        f"for number in $(grep -lzsxF {entry} /proc/[0-9]*/environ | cut -d/ -f3); do "
        "kill -KILL $number 2>/dev/null; done; true"
    )


def locate_line(path: str) -> str:
    """A shell command that prints the size and resolved path of the regular file at `path`.

    It fails if the file is not below the current folder.
    """
    return shlex.join(["bash", "-c", _LOCATE, "bash", path])


_KEY = "E2B_API_KEY"


class SandboxConnection(TypedDict):
    api_key: str
    domain: str | None
    api_url: str | None
    sandbox_url: str | None
    debug: bool


def _absolute(folder: str) -> str:
    if not folder.rstrip("/").startswith("/"):
        raise ValueError(f"must be an absolute path below /, not {folder!r}")
    return folder.rstrip("/")


class E2BOptions(Options):
    """`timeout_s` is how long E2B lets the sandbox live; `internet` whether commands reach the network."""

    template: str | None = None
    timeout_s: int = Field(default=3600, gt=0)
    internet: bool = True
    workspace: Annotated[str, AfterValidator(_absolute)] = "/home/user/workspace"


class E2BSetup(Record):
    """The options, and how to reach the service."""

    options: E2BOptions
    api_key: str
    domain: str | None = None
    api_url: str | None = None
    sandbox_url: str | None = None

    def connection(self) -> SandboxConnection:
        """Every setting is explicit, so that the SDK looks up nothing in the process's environment."""
        return SandboxConnection(
            api_key=self.api_key,
            domain=self.domain,
            api_url=self.api_url,
            sandbox_url=self.sandbox_url,
            debug=False,  # would connect to a port on this machine, which is not a sandbox
        )


def read_setup(settings: EnvironmentSettings) -> E2BSetup:
    """Raises `SetupError` for a missing package or key and for a wrong option."""
    try:
        import e2b  # noqa: F401  # pyright: ignore[reportUnusedImport] - here, since it takes a while
    except ImportError as error:
        raise SetupError(
            f"the e2b environment needs the package e2b ({error}): pip install 'steadyhand[e2b]', "
            "or use --environment local"
        ) from error
    key = settings.variables.get(_KEY, "").strip()
    if not key:
        raise SetupError(
            f"the e2b environment needs a key: set {_KEY} in the environment or the --env-file (keys: "
            "https://e2b.dev/dashboard), or use --environment local"
        )
    return E2BSetup(
        options=read_options(E2BOptions, settings.options, "environment e2b"),
        api_key=key,
        domain=settings.variables.get("E2B_DOMAIN"),
        api_url=settings.variables.get("E2B_API_URL"),
        sandbox_url=settings.variables.get("E2B_SANDBOX_URL"),
    )


_STDIN_CHUNK = 64 * 1024
_DEEPEST = 1000
_DEATH_S = 10.0
_DOWNLOADS = 8


class E2BEnvironment:
    """Implements `ports.environment.EnvironmentProvider` with the `e2b` package.

    The sandbox gets none of our variables, and commands get only those passed to `run`. It is created in `setup` and
    killed in `teardown`; if we die first, E2B ends it after `timeout_s`.
    """

    options: ClassVar[type[Options]] = E2BOptions

    def __init__(self, settings: EnvironmentSettings, limits: LocalLimits | None = None) -> None:
        """Raises `SetupError` when the package or the key is missing or an option is wrong. Connects to nothing."""
        self._setup: E2BSetup = read_setup(settings)
        self._options: E2BOptions = self._setup.options
        self._trial: str = settings.trial_id
        self._limits: LocalLimits = limits or LocalLimits()
        self._root: Path = Path(self._options.workspace)
        self._box: AsyncSandbox | None = None
        self._closed: bool = False
        self._commands: int = 0
        self._exported: dict[str, str] = {}
        self._name: str = re.sub(r"[^A-Za-z0-9]+", "-", settings.trial_id)[:40] + "-" + secrets.token_hex(4)

    @property
    def name(self) -> str:
        return "e2b"

    @property
    def sandboxed(self) -> bool:
        return True

    async def setup(self, files: Sequence[FileSystemOperation]) -> None:
        from e2b import AsyncSandbox

        if self._closed or self._box is not None:
            raise WorkspaceError("an e2b environment is set up once, before anything else")
        places = [self._place(file.path) for file in files]
        options = self._options
        with _named_errors("create a sandbox"):
            self._box = await AsyncSandbox.create(
                template=options.template,
                timeout=options.timeout_s,
                metadata={"steadyhand_trial": self._trial},
                allow_internet_access=options.internet,
                **self._setup.connection(),
            )
        with _named_errors("create the workspace"):
            await self._box.files.make_dir(options.workspace)
        for place, file in zip(places, files, strict=True):
            with _named_errors(f"write {file.path!r}"):
                await self._upload(self._box, place, file.content)

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        box = self._running()
        self._commands += 1
        mark = f"{self._name}.{self._commands}"
        line = command_line(command, {**self._exported, **(env or {})}, mark)
        stdout, stderr = BoundedOutput(self._limits.output), BoundedOutput(self._limits.output)
        began = time.perf_counter()
        with _named_errors("start a command"):
            handle = await box.commands.run(
                line,
                background=True,
                cwd=self._options.workspace,
                on_stdout=lambda text: stdout.add(text.encode()),
                on_stderr=lambda text: stderr.add(text.encode()),
                stdin=stdin is not None,
                timeout=0,
                retain_output=False,
            )
        limit = self._limits.command_timeout_s if timeout_s is None else timeout_s
        exit_code = await self._end(handle, stdin, limit - (time.perf_counter() - began), mark)
        return CommandResult(
            exit_code=128 + 9 if exit_code is None else exit_code,
            stdout=stdout.text(),
            stderr=stderr.text(),
            duration_ms=(time.perf_counter() - began) * 1000,
            timed_out=exit_code is None,
            truncated=stdout.truncated or stderr.truncated,
        )

    async def _end(self, handle: AsyncCommandHandle[None], stdin: bytes | None, limit: float, mark: str) -> int | None:
        """The exit code; None when the time was up and the command was killed."""
        waiting = asyncio.create_task(_exit_code(handle))
        feeding = asyncio.create_task(_feed(handle, stdin))
        try:
            await asyncio.wait({waiting}, timeout=max(0.0, limit))
            if waiting.done():
                with _named_errors("follow a command"):
                    return waiting.result()
            await self._kill(mark)
            await asyncio.wait({waiting}, timeout=_DEATH_S)
        except asyncio.CancelledError:
            await asyncio.shield(self._kill(mark))
            raise
        finally:
            for task in (waiting, feeding):
                task.cancel()
            await asyncio.wait({waiting, feeding})
            for task in (waiting, feeding):
                if not task.cancelled():
                    task.exception()
        return None

    async def _kill(self, mark: str) -> None:
        with _named_errors("kill a command"):
            await self._running().commands.run(kill_line(mark), timeout=_DEATH_S)

    def export(self, variables: Mapping[str, str]) -> None:
        self._exported.update(variables)

    async def read(self, path: str) -> bytes | None:
        if self._box is None:
            return None
        try:
            parts = split_path(path, self._root)
        except OutsideWorkspace:
            return None
        found = await self._locate("/".join(parts))
        if found is None:
            return None
        size, inside = found
        if size > self._limits.read:
            raise WorkspaceError(f"could not read {path!r}: it is larger than {self._limits.read} bytes")
        return await self._download(self._box, inside)

    async def _locate(self, path: str) -> tuple[int, str] | None:
        """Size and resolved path of a regular file in the workspace; None if there is no such file."""
        from e2b import CommandExitException

        with _named_errors(f"look for {path!r}"):
            try:
                located = await self._running().commands.run(locate_line(path), cwd=self._options.workspace)
            except CommandExitException:
                return None
        size, _, inside = located.stdout.partition(" ")
        return int(size), inside

    async def _download(self, box: AsyncSandbox, path: str) -> bytes | None:
        from e2b import FileNotFoundException

        with _named_errors(f"read {path!r}"):
            try:
                return bytes(await box.files.read(f"{self._root}/{path}", format="bytes"))
            except FileNotFoundException:
                return None

    async def write(self, path: str, content: bytes) -> None:
        place = self._place(path)
        with _named_errors(f"write {path!r}"):
            await self._upload(self._running(), place, content)

    async def _upload(self, box: AsyncSandbox, place: str, content: bytes) -> None:
        await box.files.write(place, content)  # pyright: ignore[reportUnknownMemberType] - the SDK's `IO` has no type

    async def list_files(self) -> Sequence[str]:
        return [path for path, _ in await self._files()]

    async def _files(self) -> list[tuple[str, int]]:
        """Relative path and size of every regular file, sorted by path. Links are not followed."""
        from e2b import FileNotFoundException, FileType

        if self._box is None:
            return []
        with _named_errors("list the files"):
            try:
                entries = await self._box.files.list(self._options.workspace, depth=_DEEPEST)
            except FileNotFoundException:
                return []
        own = f"{self._root}/"
        return sorted(
            (entry.path.removeprefix(own), entry.size)
            for entry in entries
            if entry.type is FileType.FILE and entry.symlink_target is None
        )

    async def capture(self) -> Mapping[str, CapturedFile]:
        files = await self._files()
        kept: dict[str, bytes | None] = {}
        at_once = asyncio.Semaphore(_DOWNLOADS)

        async def keep(box: AsyncSandbox, path: str) -> None:
            async with at_once:
                kept[path] = await self._download(box, path)

        room = self._limits.captured_total
        async with _first_error_alone(), asyncio.TaskGroup() as group:
            for number, (path, size) in enumerate(files):
                fits = number < self._limits.captured_files and size <= min(self._limits.captured_file, room)
                if fits and self._box is not None:
                    room -= size
                    group.create_task(keep(self._box, path))
        return {path: CapturedFile(size=size, content=kept.get(path)) for path, size in files}

    async def teardown(self) -> None:
        self._closed = True
        box, self._box = self._box, None
        if box is not None:
            with _named_errors("kill the sandbox"):
                await box.kill()

    def _running(self) -> AsyncSandbox:
        if self._box is None:
            state = "has been torn down" if self._closed else "is not set up"
            raise WorkspaceError(f"the e2b environment {state}")
        return self._box

    def _place(self, path: str) -> str:
        try:
            return "/".join([self._options.workspace, *split_path(path, self._root)])
        except OutsideWorkspace as error:
            raise WorkspaceError(f"could not write {path!r}: it does not name a file inside the workspace") from error


async def _exit_code(handle: AsyncCommandHandle[None]) -> int:
    from e2b import CommandExitException

    try:
        return (await handle.wait()).exit_code
    except CommandExitException as ended:
        # -1 is death by a signal, of the shell around the command: the command may have killed it.
        return ended.exit_code if ended.exit_code >= 0 else 128 + 9


async def _feed(handle: AsyncCommandHandle[None], stdin: bytes | None) -> None:
    """Send the input. A program that ends without reading all of it is not an error."""
    from e2b import SandboxException

    if stdin is None:
        return
    with contextlib.suppress(SandboxException):
        for start in range(0, len(stdin), _STDIN_CHUNK):
            await handle.send_stdin(stdin[start : start + _STDIN_CHUNK])
        await handle.close_stdin()


@contextlib.contextmanager
def _named_errors(doing: str) -> Generator[None]:
    """Turn any failure of the SDK into a `WorkspaceError` that says what was being done."""
    try:
        yield
    except WorkspaceError:
        raise
    except Exception as error:
        # `Exception` is the only base its errors share with those of its HTTP and RPC libraries.
        raise WorkspaceError(f"e2b could not {doing}: {type(error).__name__}: {error}") from error


@contextlib.asynccontextmanager
async def _first_error_alone() -> AsyncGenerator[None]:
    try:
        yield
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
