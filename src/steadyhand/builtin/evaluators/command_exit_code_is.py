"""`command_exit_code_is`: a command, run in the workspace when the step or turn ends, ends with a given code."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from steadyhand.builtin.evaluators.excerpt import excerpt, quoted
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, passed
from steadyhand.records.event import Visible
from steadyhand.records.result import ExecutionResult

_CONSTANT = re.compile(r"(?:true|false|:|exit(?:\s+\d+)?)\s*;?")


def _asks_something(command: str) -> str:
    lines = [line.strip() for line in command.splitlines()]
    asked = "\n".join(line for line in lines if line and not line.startswith("#"))
    if not asked or "\0" in command:
        raise ValueError("there is no command; give a shell command line such as 'pytest -q'")
    if _CONSTANT.fullmatch(re.sub(r"\s#.*", "", asked)):
        raise ValueError(f"{asked!r} looks at nothing and always ends alike; give a command such as 'pytest -q'")
    return command


class CommandExitCodeIsParams(EvaluationParams):
    command: Annotated[str, AfterValidator(_asks_something)]
    expected_code: int = Field(default=0, ge=0, le=255)
    timeout_ms: int = Field(default=60_000, gt=0)


class CommandExitCodeIs:
    type: ClassVar[str] = "command_exit_code_is"
    params: ClassVar[type[EvaluationParams]] = CommandExitCodeIsParams
    reads: ClassVar[frozenset[Visible]] = frozenset({"files"})

    async def evaluate(
        self, params: CommandExitCodeIsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """A command that does not end in time has not ended with the code expected: it fails."""
        ran = await context.environment.run(params.command, timeout_s=params.timeout_ms / 1000)
        found = f"killed after {params.timeout_ms} ms" if ran.timed_out else f"exit code {ran.exit_code}"
        evidence = Evidence(
            expected=f"exit code {params.expected_code}",
            found=found,
            where=excerpt(params.command),
            excerpt=_output(ran),
        )
        figures = {"exit_code": ran.exit_code, "duration_ms": ran.duration_ms, "timed_out": ran.timed_out}
        ended = "was" if ran.timed_out else "ended with"
        message = f"{quoted(params.command)} {ended} {found}"
        if not ran.timed_out and ran.exit_code == params.expected_code:
            # A command that is to fail asks whether something is not there, as a rule.
            ground = "absence" if params.expected_code else None
            return passed(message, evidence=evidence, figures=figures, rests_on=ground)
        return failed(f"{message}; expected exit code {params.expected_code}", evidence=evidence, figures=figures)


def _output(ran: ExecutionResult) -> str:
    """The end of what it printed, where test runners and compilers say what went wrong."""
    kept = [f"{name}: {_end(text)}" for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr)) if text.strip()]
    return "\n".join(kept) or "no output"


def _end(text: str) -> str:
    text = text.strip()
    return excerpt(text, max(0, len(text) - 200))
