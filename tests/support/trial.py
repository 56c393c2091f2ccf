"""The smallest trial that services and agents can run in, with a workspace in a real folder."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steadyhand.errors import WorkspaceError
from steadyhand.ports.agent import EVERYTHING_SEEN, Addresses
from steadyhand.ports.services import ServiceFault, Services
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, Message, ToolCall
from steadyhand.records.event import AnyEvent
from steadyhand.records.location import Place
from steadyhand.records.result import CapturedFile, CommandResult
from steadyhand.records.scenario import Ask, Mock, Scenario, Setup, Step

HERE = Place(file="a.scenario.yaml", line=3, column=5)


def a_scenario(*, mocks: Sequence[Mock] = (), **fields: Any) -> Scenario:
    step = Step(index=0, name="one", place=HERE, task=Ask(messages=(Message(role="user", content="hi"),)))
    return Scenario(
        id="a", name="A", description="", place=HERE, digest="d", steps=(step,),
        setup=Setup(mocks=tuple(mocks)), **fields,
    )  # fmt: skip


class Clock:
    def now(self) -> float:
        return time.perf_counter()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class FolderEnvironment:
    """A folder. Paths cannot lead out of it."""

    def __init__(self, folder: Path, *, sandboxed: bool = False) -> None:
        self.folder = folder
        self.sandboxed = sandboxed
        self.name = "folder"

    def _path(self, path: str) -> Path:
        full = (self.folder / path.lstrip("/")).resolve()
        if not full.is_relative_to(self.folder.resolve()):
            raise WorkspaceError(f"{path!r} leads out of the workspace")
        return full

    async def setup(self, files: Sequence[Any]) -> None:
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
        assert isinstance(command, str)
        process = await asyncio.create_subprocess_shell(
            command, cwd=self.folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        return CommandResult(
            exit_code=process.returncode or 0, stdout=out.decode(), stderr=err.decode(), duration_ms=0.0
        )

    async def read(self, path: str) -> bytes | None:
        file = self._path(path)
        return file.read_bytes() if file.is_file() else None

    async def write(self, path: str, content: bytes) -> None:
        file = self._path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    async def list_files(self) -> Sequence[str]:
        return sorted(str(file.relative_to(self.folder)) for file in self.folder.rglob("*") if file.is_file())

    async def capture(self) -> Mapping[str, CapturedFile]:
        return {}

    async def teardown(self) -> None:
        pass


class TrialStandIn:
    def __init__(self, folder: Path, scenario: Scenario | None = None, *, live: bool = False) -> None:
        self.scenario = scenario or a_scenario()
        self.trial_id = "a#0"
        self.seed = 7
        self.random = random.Random(7)
        self.clock = Clock()
        self.environment: FolderEnvironment = FolderEnvironment(folder)
        self.live = live
        self.shows = EVERYTHING_SEEN
        self.addresses: Addresses = Addresses()
        self.services: Services | None = None
        self.events: list[AnyEvent] = []
        self._zero = time.perf_counter()

    @property
    def variables(self) -> Mapping[str, Any]:
        return {"scenario": self.scenario.name, "turn": None}

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self._zero) * 1000.0

    def emit(self, event: AnyEvent) -> None:
        self.events.append(event)

    async def call(self, model: Any, request: ChatRequest) -> ChatResponse:
        return await model.attempt(request, zero=self._zero)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def says(text: str) -> ChatResponse:
    return ChatResponse(text=text, attempt=Attempt(started_ms=0.0))


def calls(*wanted: tuple[str, dict[str, Any]] | ToolCall, text: str = "") -> ChatResponse:
    made = tuple(
        item if isinstance(item, ToolCall) else ToolCall(id=f"c{index}", name=item[0], arguments=item[1])
        for index, item in enumerate(wanted)
    )
    return ChatResponse(text=text, attempt=Attempt(started_ms=0.0), tool_calls=made)


class Answered:
    def __init__(self, value: Any, place: Place) -> None:
        self.value = value
        self.place = place


class ListedMocks:
    """Mocks that match exact named parameters, or any call if they name none."""

    def __init__(self, mocks: Sequence[Mock]) -> None:
        self.mocks = mocks
        self.asked: list[Any] = []

    async def answer(self, call: Any) -> Answered | None:
        self.asked.append(call)
        for mock in self.mocks:
            if mock.method != call.method or mock.service not in (None, call.service):
                continue
            if mock.when.input is not None and mock.when.input != call.named:
                continue
            if mock.error is not None:
                raise ServiceFault(mock.error.message or "", code=mock.error.code, mock=mock.place)
            return Answered(mock.response, mock.place)
        return None

    def methods(self) -> list[tuple[str | None, str]]:
        return list(dict.fromkeys((mock.service, mock.method) for mock in self.mocks))

    def covers(self, service: str, method: str) -> bool:
        return any(mock.method == method and mock.service in (None, service) for mock in self.mocks)

    async def settle(self) -> None:
        return None
