"""The inside of a stand-in E2B sandbox: a folder for its file system, and real processes in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

HOME = "/home/user"
_CHUNK = 16 * 1024


class Machine:
    """The sandbox's absolute paths are below a temporary folder; commands run on this machine, in that folder."""

    def __init__(self) -> None:
        self.root: Path = Path(os.path.realpath(tempfile.mkdtemp(prefix="steadyhand-e2b-")))
        self.place(HOME).mkdir(parents=True)
        self.gone: bool = False
        self._processes: dict[int, asyncio.subprocess.Process] = {}

    def place(self, path: str) -> Path:
        """Where a path of the sandbox is. Relative paths start at the home folder."""
        absolute = os.path.normpath(f"{HOME}/{path}" if not path.startswith("/") else path)
        return Path(f"{self.root}/{absolute.lstrip('/')}")

    def shown(self, place: Path) -> str:
        return "/" + str(place.relative_to(self.root))

    async def start(self, config: dict[str, Any], *, stdin: bool) -> AsyncGenerator[dict[str, Any]]:
        """Runs a program and reports what happens as envd does: start, data, end. No end if the machine is gone before
        that."""
        process = await asyncio.create_subprocess_exec(
            config["cmd"],
            *config.get("args", []),
            cwd=self.place(config.get("cwd") or HOME),
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(self.place(HOME)),
                "USER": "user",
                **config.get("envs", {}),
            },
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._processes[process.pid] = process
        try:
            yield {"start": {"pid": process.pid}}
            async for name, chunk in _output(process):
                yield {"data": {name: chunk}}
            ending = _ending(await process.wait())
            if not self.gone:
                yield {"end": ending}
        finally:
            await self._end(process)

    async def write_stdin(self, pid: int, data: bytes) -> bool:
        process = self._processes.get(pid)
        if process is None or process.stdin is None:
            return False
        process.stdin.write(data)
        with contextlib.suppress(OSError):
            await process.stdin.drain()
        return True

    def close_stdin(self, pid: int) -> bool:
        process = self._processes.get(pid)
        if process is None or process.stdin is None:
            return False
        process.stdin.close()
        return True

    def send_signal(self, pid: int, number: int) -> bool:
        process = self._processes.get(pid)
        if process is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        return True

    async def close(self) -> None:
        self.gone = True
        for process in list(self._processes.values()):
            await self._end(process)
        await asyncio.to_thread(shutil.rmtree, self.root, ignore_errors=True)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        self._processes.pop(process.pid, None)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()


async def _output(process: asyncio.subprocess.Process) -> AsyncIterator[tuple[str, bytes]]:
    """What it prints, as it is printed, until both of its pipes are closed."""
    chunks: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(maxsize=16)

    async def pump(name: str, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(_CHUNK):
            await chunks.put((name, chunk))
        await chunks.put((name, b""))

    assert process.stdout is not None
    assert process.stderr is not None
    pumps = [asyncio.create_task(pump("stdout", process.stdout)), asyncio.create_task(pump("stderr", process.stderr))]
    try:
        open_pipes = 2
        while open_pipes:
            name, chunk = await chunks.get()
            if chunk:
                yield name, chunk
            else:
                open_pipes -= 1
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.wait(pumps)


def _ending(returncode: int) -> dict[str, Any]:
    """Death by a signal is exit code -1 and described in words, as in Go."""
    if returncode >= 0:
        ending: dict[str, Any] = {"exitCode": returncode, "exited": True, "status": f"exit status {returncode}"}
    else:
        name = (signal.strsignal(-returncode) or str(-returncode)).lower()
        ending = {"exitCode": -1, "exited": False, "status": f"signal: {name}"}
    if returncode:
        ending["error"] = ending["status"]
    return ending
