"""What a run keeps apart: workspaces, agents from what they are judged by, and the code that checks bring along.

How agents are isolated is chosen when the first process of an agent or a command is started.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from pydantic import ValidationError

from steadyhand.builtin.plugin import script_sandbox, sweep_workspaces
from steadyhand.compose.cast import Cast
from steadyhand.compose.scenarios import ScenarioRegistries
from steadyhand.compose.settings import Settings
from steadyhand.errors import FileError, SetupError
from steadyhand.plugins.registry import Registry
from steadyhand.ports.evaluator import AnyEvaluator, run_file, script_of
from steadyhand.ports.isolation import Isolation, Watch
from steadyhand.ports.services import ScriptSandbox
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.isolation import IsolationKind
from steadyhand.records.location import Problem
from steadyhand.records.scenario import Scenario, leaf_specs
from steadyhand.user_file import file_beside


class RunIsolation:
    """Implements `ports.isolation.Isolation` by what is chosen. Most decision scenarios start no process, and need to
    know neither the answer key nor what the machine can do. Every method raises `SetupError` if what the user asked for
    cannot be had."""

    def __init__(self, settings: Settings, workspaces: Path) -> None:
        self.casts: Sequence[Cast] = ()
        self.note: str = ""
        """What to say about it, once it is chosen."""
        self._settings = settings
        self._workspaces = workspaces
        self._made: list[Path] = []
        self._lock = Lock()
        self._found: Isolation | None = None

    @property
    def chosen(self) -> Isolation:
        with self._lock:
            if self._found is None:
                from steadyhand.compose.answer_key import choose_isolation  # not for a run that starts no process

                out = self._settings.out
                self._made = (
                    []
                    if self._settings.isolation == "none"
                    else [folder for folder in (out, out.parent) if not folder.exists()]
                )
                self._found, self.note = choose_isolation(self.casts, self._settings, self._workspaces)
            return self._found

    @property
    def kind(self) -> IsolationKind:
        return self.chosen.kind

    @property
    def watch(self) -> Watch | None:
        return self.chosen.watch

    def command(self, argv: Sequence[str], visible: Sequence[Path]) -> list[str]:
        return self.chosen.command(argv, visible)

    def close(self) -> None:
        """Remove the folder for records that was made only to be hidden, if the run came to nothing."""
        close = getattr(self._found, "close", None)
        if close is not None:
            close()
        for folder in self._made:
            with contextlib.suppress(OSError):  # it is in use
                folder.rmdir()


def clean_workspaces() -> Path:
    """The user's folder for workspaces, cleaned of what killed runs have left there.

    It is a temporary folder and not next to the scenarios, so that an agent's `..` does not lead to the answers. Raises
    `SetupError` if the folder belongs to another user.
    """
    root = Path(tempfile.gettempdir()) / f"steadyhand-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if root.is_symlink() or root.stat().st_uid != os.getuid():
        raise SetupError(f"{root} belongs to another user; set TMPDIR to a folder that you own")
    workspaces = root / "workspaces"
    workspaces.mkdir(mode=0o700, exist_ok=True)
    sweep_workspaces(workspaces)
    return workspaces


class CheckFile(NamedTuple):
    """A file that a check runs, as the scenario names it, and where it is looked for first."""

    spec: EvaluationSpec
    name: str
    folder: Path

    @property
    def path(self) -> Path:
        """Raises `SetupError` if it does not exist."""
        return file_beside(self.name, self.folder, wanted_by=f"{self.spec.place}: {self.spec.type}")


def check_files(scenario: Scenario, registry: Registry) -> list[CheckFile]:
    folder = Path(scenario.place.file).absolute().parent
    return [
        CheckFile(spec, name, folder)
        for spec, evaluator, params in _checks(scenario, registry, "runs_file")
        if (name := run_file(evaluator, params)) is not None
    ]


def check_scripts(scenario: Scenario, registry: Registry) -> list[tuple[EvaluationSpec, str]]:
    return [
        (spec, source)
        for spec, evaluator, params in _checks(scenario, registry, "script")
        if (source := script_of(evaluator, params)) is not None
    ]


def _checks(
    scenario: Scenario, registry: Registry, declared: str
) -> Iterator[tuple[EvaluationSpec, AnyEvaluator, Any]]:
    """The checks whose evaluator declares this, with their parameters: reading those takes time."""
    for spec in leaf_specs(scenario):
        if registry.has("evaluators", spec.type) and hasattr(evaluator := registry.evaluator(spec.type), declared):
            try:
                yield spec, evaluator, evaluator.params.model_validate(spec.params)
            except ValidationError:
                continue  # its trial reports it


def sandbox_for(scenarios: Iterable[tuple[Scenario, Registry]]) -> ScriptSandbox | None:
    """Where the scripts of checks run; None if there are none. Raises `FileError` for one that is not JavaScript."""
    found = [each for scenario, registry in scenarios for each in check_scripts(scenario, registry)]
    if not found:
        return None
    sandbox = script_sandbox()
    faults = [(spec.place, fault) for spec, source in found if (fault := sandbox.check(source)) is not None]
    if faults:
        sandbox.close()
        raise FileError(
            [
                Problem(place=place, message=f"not valid JavaScript: {fault}", code="bad-script")
                for place, fault in faults
            ]
        )
    return sandbox


class CodeFindings(NamedTuple):
    problems: list[Problem]
    not_run: list[EvaluationSpec]
    """The checks whose files were found, and not run."""


def find_code(scenarios: Sequence[Scenario], registries: ScenarioRegistries) -> CodeFindings:
    """What is wrong with the code of checks, as far as that shows without running any."""
    problems: list[Problem] = []
    not_run: list[EvaluationSpec] = []
    try:
        sandbox = sandbox_for((scenario, registries.registry(scenario)) for scenario in scenarios)
        if sandbox is not None:
            sandbox.close()
    except FileError as error:
        problems += error.problems
    for scenario in scenarios:
        for file in check_files(scenario, registries.registry(scenario)):
            try:
                not_run += [file.spec] if file.path else []
            except SetupError as error:
                message = str(error).removeprefix(f"{file.spec.place}: ")
                problems.append(Problem(place=file.spec.place, message=message, code="missing-file", level="error"))
    return CodeFindings(problems, not_run)


def check_files_apart(casts: Iterable[Cast]) -> None:
    """Raises `SetupError` if a file does not exist, or is that of the agent, which must not read what it is judged
    by."""
    for cast in casts:
        named = cast.agent.value.partition(":")[2].rpartition(":")[0]
        agent = cast.agent.folder / named
        for file in check_files(cast.scenario, cast.registry):
            if file.path.exists() and named and agent.is_file() and file.path.samefile(agent):
                raise SetupError(
                    f"{file.spec.place}: {file.name} holds both the agent and a check, and an agent cannot read what it"
                    " is judged by; move the check to a file of its own"
                )
