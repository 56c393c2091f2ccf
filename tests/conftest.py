"""What applies to all tests."""

import gc
import os
import signal
import sys
from collections.abc import Generator

import pytest
from hypothesis import settings

# A shell's background job ignores interrupts from the start, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Without bytecode, every process of a test run would compile the package again, and pytest would rewrite every test.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A busy machine may take long over an example, and over importing a library that the first one needs.
settings.register_profile("tests", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collected tests live until the end: the garbage collector need not scan them, now or in every test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def forked_agents() -> Generator[None, object, object]:
    """Processes of agents are forked. For tests of what an agent says and does, not of its process."""
    from support.forked_child import forked

    with forked("steadyhand.builtin.agents.python_child:main", "agent_process"):
        yield


@pytest.fixture
def forked_workers() -> Generator[None, object, object]:
    """Workers are forked. For tests of what workers do, not of their processes."""
    from support.forked_child import forked

    with forked("steadyhand.compose.worker_child:main", "worker_process"):
        yield
