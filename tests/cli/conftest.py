from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_server import CommandServer
from support.ordinary_user import OrdinaryShell, python_of_an_ordinary_user, server_of_an_ordinary_user
from support.shell import Batch, Shell


def _shared(name: str, folders: pytest.TempPathFactory) -> Path | None:
    """A file for all workers of this run; None if there are none."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    return None if run is None else folders.getbasetemp().parent / f"{name}-{run}"


@pytest.fixture(scope="session")
def command_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    server = CommandServer(shared=_shared("commands", tmp_path_factory))
    yield server
    server.close()


@pytest.fixture(scope="session")
def ordinary_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    if os.getuid() != 0:
        pytest.skip("the user of the tests is an ordinary one already")
    python = python_of_an_ordinary_user()
    if python is None:
        pytest.skip("no Python of this version that an ordinary user may start")
    server = server_of_an_ordinary_user(python, _shared("commands-of-an-ordinary-user", tmp_path_factory))
    yield server
    server.close()


@pytest.fixture(params=["the user of the tests", "an ordinary user"])
def either_shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    """Runs the command as the user who runs the tests, and as an ordinary user."""
    if request.param == "the user of the tests":
        yield Shell(tmp_path, request.getfixturevalue("command_server"))
        return
    server = request.getfixturevalue("ordinary_server")
    with tempfile.TemporaryDirectory(prefix="steadyhand-ordinary-") as top:  # others cannot enter the test's own
        Path(top).chmod(0o755)
        folder = Path(top) / "home"
        folder.mkdir()
        yield OrdinaryShell(folder, server)


@pytest.fixture
def shell(tmp_path: Path, command_server: CommandServer) -> Shell:
    return Shell(tmp_path, command_server)


@pytest.fixture
def batch(tmp_path: Path, command_server: CommandServer) -> Batch:
    made = Batch(tmp_path, command_server)
    made.fill()
    return made
