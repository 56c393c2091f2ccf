"""Every known way out of the sandbox, tried by the user who runs the tests and by an ordinary one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from steadyhand.builtin.environments.sandbox import sandbox_available
from support.escapes import HARMLESS_OUTSIDE, INSIDE, attempt_all
from support.ordinary_user import NOBODY, python_of_an_ordinary_user, run_as_ordinary_user

pytestmark = pytest.mark.system

REFUSAL = sandbox_available()


@pytest.fixture(scope="module")
def places():
    """A folder to work in and a file to steal, which any user may enter and read."""
    top = Path(tempfile.mkdtemp(prefix="steadyhand-escapes-"))
    work, host = top / "work", top / "host"
    for folder in (top, work, host):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    secret = host / "secret.txt"
    secret.write_text("mine")
    secret.chmod(0o644)
    yield work, secret
    shutil.rmtree(top)


@pytest.fixture(scope="module", params=["the user of the tests", "an ordinary user"])
def said(request, places):
    if REFUSAL is not None:
        pytest.skip(REFUSAL)
    work, secret = places
    if request.param == "the user of the tests":
        return asyncio.run(attempt_all(work, secret, sandbox=True))
    if os.getuid() != 0:
        pytest.skip("the user of the tests is an ordinary one already")
    python = python_of_an_ordinary_user()
    if python is None:
        pytest.skip("no Python of this version that an ordinary user may start")
    own = work / "ordinary"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    done = run_as_ordinary_user([python, "-m", "support.escapes", str(own), str(secret), "sandbox"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("escape", [*HARMLESS_OUTSIDE, *INSIDE])
def test_no_way_out_of_the_sandbox(said, escape):
    assert "PWNED" not in said[escape]
    # A run that stopped halfway would prove nothing.
    assert "tried everything" in said[escape]


async def test_the_attacks_succeed_without_a_sandbox(places):
    work, secret = places
    said = await attempt_all(work, secret, sandbox=False)
    assert [name for name, text in said.items() if "PWNED" not in text] == []
