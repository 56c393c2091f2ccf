"""The exception tree and the exit codes.

    SteadyhandError
    +-- UsageError              the user's side: printed without a traceback, exit 2
    |   +-- FileError           a scenario, rubric, matrix or configuration file is wrong
    |   +-- SetupError          an option, a setting, a key or a package is missing or wrong
    +-- TrialError              one trial could not be carried out: its verdict is *error*
    |   +-- ModelError          a model call failed (network, status, broken stream, timeout)
    |   +-- AgentError          the agent under test raised, died, or answered nonsense
    |   +-- WorkspaceError      the workspace, sandbox or database failed
    |   +-- MockError           a mock's JavaScript threw, looped or ran out of memory
    |   +-- ServiceError        a real service behind the mocks is unreachable, died or does not answer
    |   +-- PluginError         a plugin raised where it should have answered
    |   +-- LimitExceeded       a limit on time, steps or tokens was reached
    +-- StoreError              the run record cannot be read or written
        +-- DamagedRecord       it is there, but not whole: exit 3

Anything else that escapes is a bug in Steadyhand: one line says where the traceback was written, exit 3.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # every command imports the errors, and few need the records
    from steadyhand.records.chat import Attempt, ServerAnswer
    from steadyhand.records.location import Problem

ModelErrorKind = Literal["connect", "timeout", "rate_limit", "auth", "refused", "server", "stream", "malformed"]
LimitKind = Literal["step_time", "turn_time", "conversation_time", "agent_steps", "tokens", "cost"]


class ExitCode(enum.IntEnum):
    """The exit code of the process."""

    PASSED = 0
    FAILED = 1
    USAGE = 2
    UNDECIDED = 3
    INTERRUPTED = 130


class SteadyhandError(Exception):
    """Everything Steadyhand raises on purpose."""


class UsageError(SteadyhandError):
    """The user can fix it; the message says how."""


class FileError(UsageError):
    """One or more files are wrong; `problems` holds every finding, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SetupError(UsageError):
    """An option, a setting, a key or a package is missing or wrong."""


class TrialError(SteadyhandError):
    """A trial could not be run. This is never the agent's failure, and never a pass."""


class ModelError(TrialError):
    """A model call failed. `retryable` says whether the same call may succeed later.

    `answer` is the server's own answer, if the request was forwarded from an agent's client.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind,
        retryable: bool = False,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.retryable: bool = retryable
        self.status: int | None = status
        self.retry_after_s: float | None = retry_after_s
        self.attempt: Attempt | None = None
        self.answer: ServerAnswer | None = None


class AgentError(TrialError):
    """The agent under test raised, died, or returned something that is not a reply."""


class WorkspaceError(TrialError):
    """The workspace, sandbox or database failed."""


class MockError(TrialError):
    """A mock could not answer; the message names it."""


class ServiceError(TrialError):
    """A real service behind the mocks failed: it is unreachable, died, hangs, or sent something unreadable."""


class PluginError(TrialError):
    """A plugin raised instead of answering."""


class LimitExceeded(TrialError):
    """A limit was reached: `kind`, how much was `used` and how much was `allowed`."""

    def __init__(self, kind: LimitKind, *, used: float, allowed: float, unit: str = "ms") -> None:
        super().__init__(f"{kind.replace('_', ' ')} limit reached: {used:g} of {allowed:g} {unit}")
        self.kind: LimitKind = kind
        self.unit: str = unit
        self.used: float = used
        self.allowed: float = allowed


class StoreError(SteadyhandError):
    """The run record cannot be read or written."""


class DamagedRecord(StoreError):
    """A run record is damaged, so that nothing in it may count."""
