"""A small catalogue of checks, and a way to load text as a file."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from steadyhand.spec.load import Loaded, load
from steadyhand.spec.patterns import inspect_pattern


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class StringContains(Params):
    value: Annotated[str, Field(min_length=1)]
    case_sensitive: bool = False
    scope: str = "final"


class RegexMatch(Params):
    pattern: str

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        error = inspect_pattern(value).error
        if error:
            raise ValueError(f"expected a regular expression: {error}")
        return value


class LlmJudge(Params):
    prompt: str
    expected: str | float
    capabilities: list[str] = []
    json_schema: dict[str, Any] | None = None
    model_type: str | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None


class ExecutionTime(Params):
    max_duration_ms: int | None = None
    min_duration_ms: int | None = None

    @model_validator(mode="after")
    def _bounded(self) -> "ExecutionTime":
        if self.max_duration_ms is None and self.min_duration_ms is None:
            raise ValueError("expected max_duration_ms or min_duration_ms")
        return self


class FileExists(Params):
    path: str


CATALOGUE: dict[str, type[BaseModel]] = {
    "string_contains": StringContains,
    "regex_match": RegexMatch,
    "llm_judge": LlmJudge,
    "execution_time": ExecutionTime,
    "file_exists": FileExists,
}


@pytest.fixture(scope="session")
def catalogue():
    return CATALOGUE


@pytest.fixture
def load_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Loads text, or bytes, as `file.yaml` in the current directory."""
    monkeypatch.chdir(tmp_path)

    def run(content: str | bytes, name: str = "file.yaml") -> Loaded:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return load([name], catalogue=CATALOGUE, environments=("local", "e2b"))

    return run


def shown(loaded: Loaded) -> list[tuple[int, str, str]]:
    """Line, path and code of each problem."""
    return [(problem.place.line, problem.place.path, problem.code) for problem in loaded.problems]
