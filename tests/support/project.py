"""A user's folder: scenarios, configuration, and what the program makes of them before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steadyhand.compose.cast import Cast, Casts
from steadyhand.compose.models import Judges, Models, Tape
from steadyhand.compose.run import Run
from steadyhand.compose.scenarios import ScenarioRegistries, build_registry, load_scenarios
from steadyhand.compose.settings import Settings
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.scenario import Scenario
from steadyhand.redaction import Redactor

AGENT = """\
id: one
name: One
description: It answers.
environment: {type: local}
run: [{input: Hello, evaluations: [{type: string_contains, value: hello}]}]
judgment: {strategy: all_pass}
"""
JUDGED = """\
id: one
name: One
description: A judge decides.
agent: model
environment: {type: local}
run: [{input: Hello, evaluations: [{type: llm_judge, prompt: Is it polite?, expected: "yes"}]}]
judgment: {strategy: all_pass}
"""


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registries = ScenarioRegistries(build_registry())

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def load(self, *paths: str, **selection: Any) -> list[Scenario]:
        return load_scenarios(Selection(paths=paths or (".",), **selection), self.registries)

    def one(self, text: str = AGENT, name: str = "one.scenario.yaml") -> Scenario:
        """Write a scenario and load it."""
        self.write(name, text)
        (scenario,) = self.load(name)
        return scenario

    def settings(self, **options: Any) -> Settings:
        return Settings(RunOptions(**options))

    def models(self, **options: Any) -> Models:
        settings = self.settings(**options)
        return Models(settings, Tape(settings.options, Redactor(())))

    def judges(self, **options: Any) -> Judges:
        return Judges(self.models(**options), self.casts(**options))

    def casts(self, **options: Any) -> Casts:
        return Casts(self.settings(**options), self.registries)

    def cast(self, scenario: Scenario, **options: Any) -> Cast:
        return self.casts(**options).of(scenario)

    def fingerprint(self, *paths: str, **options: Any) -> dict[str, str]:
        """The parts of the only scenario."""
        (found,) = Run(Selection(paths=paths or (".",)), RunOptions(**options)).fingerprints().values()
        return found
