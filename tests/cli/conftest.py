from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_server import CommandServer
from support.shell import Batch, Shell


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    server = CommandServer()
    yield server
    server.close()


@pytest.fixture
def shell(tmp_path: Path, command_server: CommandServer) -> Shell:
    return Shell(tmp_path, command_server)


@pytest.fixture
def batch(tmp_path: Path, command_server: CommandServer) -> Batch:
    made = Batch(tmp_path, command_server)
    made.fill()
    return made
