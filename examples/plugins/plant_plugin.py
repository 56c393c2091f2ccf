"""An environment in one file: a simulated pumping station, whose only program is `plantctl`.

Files are kept in memory and nothing runs on this machine, so commands that a model wrote need no extra permission.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence

from steadyhand.plugin import (
    CapturedFile,
    CommandResult,
    Environment,
    EnvironmentSettings,
    FileSystemOperation,
    Plugin,
    WorkspaceError,
)


class PumpingStation(Environment):
    """One instance per trial, with three running pumps."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._id = settings.trial_id
        self._files: dict[str, bytes] = {}
        self._pumps: dict[str, str] = {}

    @property
    def name(self) -> str:
        return "plant"

    @property
    def sandboxed(self) -> bool:
        return True

    async def setup(self, files: Sequence[FileSystemOperation]) -> None:
        self._pumps = {"1": "running", "2": "running", "3": "running"}
        for file in files:
            await self.write(file.path, file.content)

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        if not self._pumps:
            raise WorkspaceError(f"pumping station {self._id} is not set up")
        began = time.perf_counter()
        words = shlex.split(command) if isinstance(command, str) else list(command)
        exit_code, out, err = self._plantctl(words)
        took_ms = (time.perf_counter() - began) * 1000
        return CommandResult(exit_code=exit_code, stdout=out, stderr=err, duration_ms=took_ms)

    def _plantctl(self, words: list[str]) -> tuple[int, str, str]:
        """Exit code, output and error output."""
        match words:
            case ["plantctl", "-c", code]:  # a step with `lang: plantctl`
                return self._plantctl(["plantctl", *shlex.split(code)])
            case ["plantctl", "status", pump] if pump in self._pumps:
                return 0, f"pump {pump}: {self._pumps[pump]}\n", ""
            case ["plantctl", "stop" | "start" as verb, pump] if pump in self._pumps:
                self._pumps[pump] = "stopped" if verb == "stop" else "running"
                return 0, f"pump {pump}: {self._pumps[pump]}\n", ""
            case ["plantctl", *_]:
                return 2, "", "usage: plantctl status|stop|start PUMP, with PUMP 1, 2 or 3\n"
            case _:
                return 127, "", f"{words[0] if words else ''}: command not found\n"

    def export(self, variables: Mapping[str, str]) -> None:
        """`plantctl` reads no variables."""

    async def read(self, path: str) -> bytes | None:
        return self._files.get(_inside(path))

    async def write(self, path: str, content: bytes) -> None:
        self._files[_inside(path)] = content

    async def list_files(self) -> Sequence[str]:
        return sorted(self._files)

    async def capture(self) -> Mapping[str, CapturedFile]:
        return {path: CapturedFile(size=len(content), content=content) for path, content in self._files.items()}

    async def teardown(self) -> None:
        self._files.clear()
        self._pumps.clear()


def _inside(path: str) -> str:
    """`out.txt`, `./out.txt` and `/out.txt` are the same file, and none leads out."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise WorkspaceError(f"{path!r} leads out of the workspace")
    return "/".join(parts)


plugin = Plugin(name="plant", version="1.0.0", environments={"plant": PumpingStation})
