"""The blocks of a documentation page: the commands and files that a reader would copy."""

from __future__ import annotations

import ast
import importlib
import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import steadyhand
from steadyhand.builtin.models.scripted import read_rules
from steadyhand.spec.config import read_config
from steadyhand.spec.yaml import parse_document

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "tests" / "README.md",
        *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=ticks)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z")
_VARIES = re.compile(r"<!-- output varies: (.+?) -->\s*\Z")
_COMMAND = re.compile(r"^ *\$? ?(?:steadyhand|pip|python|make|pytest|export|docker|npm|curl) ", re.MULTILINE)
_INDENTED = re.compile(r"(?:\A|\n[ ]*\n)((?: {4}[^\n]*\n?)+)")
_PROSE = {"text", ""}


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    title: str | None = None
    not_run: str | None = None
    varies: bool = False

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


@dataclass
class Command:
    line: str
    shown: list[str] = field(default_factory=list)


def blocks(page: Path) -> list[Block]:
    return parse(page, page.read_text(encoding="utf-8"))


def parse(page: Path, text: str) -> list[Block]:
    found: list[Block] = []
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()]
        language, _, rest = fence["info"].strip().partition(" ")
        title = _TITLE.search(rest)
        inner = "\n".join(each.removeprefix(fence["indent"]) for each in fence["text"].split("\n"))
        exempt = _NOT_RUN.search(before)
        line = before.count("\n") + 1
        found.append(
            Block(page, line, language, inner, title and title[1], exempt and exempt[1], bool(_VARIES.search(before)))
        )
    return found


def commands_in_prose(page: Path) -> list[str]:
    """Commands that nothing would run: in an indented block, or in one marked as text."""
    text = page.read_text(encoding="utf-8")
    fenced = [each.text for each in blocks(page) if each.language in _PROSE and each.not_run is None]
    indented = _INDENTED.findall(_FENCE.sub("", text))
    return [each.strip().splitlines()[0] for each in (*fenced, *indented) if _COMMAND.match(each)]


def commands(block: Block) -> list[Command]:
    """What is typed after each `$`, and what is shown below it. A line that ends in a backslash continues."""
    found: list[Command] = []
    goes_on = False
    for line in block.text.rstrip("\n").split("\n"):
        if goes_on:
            found[-1].line = found[-1].line.removesuffix("\\") + line.strip()
        elif line.startswith("$ "):
            found.append(Command(line.removeprefix("$ ")))
        else:
            assert found, f"{block.place}: a console block begins with `$ `"
            found[-1].shown.append(line)
        goes_on = found[-1].line.endswith("\\") if not found[-1].shown else False
    return found


# Files and parts of files


def check_part(block: Block, folder: Path) -> None:
    """Raises if a block that is not a whole file is not valid where it belongs."""
    match block.language:
        case "yaml":
            _check_yaml(block, folder)
        case "toml":
            if "project" not in tomllib.loads(block.text):
                _check_config(block.text, folder)
        case "json":
            json.loads(block.text)
        case "python":
            _check_python(block.text)
        case _:
            raise AssertionError(f"{block.place}: nothing checks a block of {block.language!r}; use console, or text")


def check_file(file: Path, folder: Path) -> None:
    """Raises if a file that a page shows in full is not what its name says. Commands on the page use it later."""
    text = file.read_text(encoding="utf-8")
    if file.name == "steadyhand.toml":
        read_config(file)
    elif file.suffix == ".toml":
        tomllib.loads(text)
    elif file.suffix == ".py":
        _check_python(text)
    elif file.suffix in {".yaml", ".yml"}:
        document = _yaml(text)
        if "rules" in document:
            read_rules(file)
        elif {"run", "messages", "matrix", "dimensions"} & set(document) and not file.is_relative_to(
            folder / ".github"
        ):
            assert _errors(str(file)) == []


def _check_config(text: str, folder: Path) -> None:
    file = folder / "part" / "steadyhand.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    read_config(file)


def _check_python(text: str) -> None:
    """It parses, and whatever it imports from us exists."""
    for node in ast.walk(ast.parse(_dedented(text))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "steadyhand":
            module = importlib.import_module(str(node.module))
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "steadyhand":
            assert hasattr(steadyhand, node.attr), f"steadyhand.{node.attr}"


def _dedented(text: str) -> str:
    """A method may be shown on its own, as it is in its class."""
    return f"class _:\n{text}" if text.startswith("    ") else text


def _check_yaml(block: Block, folder: Path) -> None:
    document = _yaml(block.text)
    if isinstance(document, dict) and "rules" in document:
        file = folder / "part.yaml"
        file.write_text(block.text, encoding="utf-8")
        read_rules(file)
        return
    assert _errors(_whole(document)) == []


def _yaml(text: str) -> Any:
    document, problems = parse_document(text.encode(), "part.yaml", "part.yaml")
    assert document is not None, problems
    assert problems == []
    return document.data


def _errors(source: str | dict[str, Any]) -> list[str]:
    return [str(each) for each in steadyhand.load(source).errors]


def _whole(part: Any) -> dict[str, Any]:
    """A scenario around a part of one, which is recognised by its keys."""
    if isinstance(part, list):
        first = part[0]
        if "check_type" in first:
            return {**DECISION, "safety_invariants": part}
        return _agent(evaluations=part)
    keys = set(part)
    if {"messages", "run"} & keys:
        return {**(AGENT if "run" in keys else DECISION), **part} if "cases" in keys else part
    if keys <= _STEP:
        conversation = part.get("conversation", {})
        if any(each == {"simulate": True} for each in conversation.get("script", ())):
            part = {**part, "conversation": {"user_simulator": USER, "max_turns": 4, **conversation}}
        return _agent(**part)
    if keys <= _CONVERSATION:
        return _agent(conversation={"max_turns": 4, "user_simulator": USER, **part})
    if keys <= _MOCK:
        return {**AGENT, "setup": {"mocks": [{"method": "read", "response": "x", **part}]}}
    if keys & _ONLY_DECISION:
        return {**DECISION, **part}
    return {**AGENT, **part}


def _agent(**step: Any) -> dict[str, Any]:
    return {**AGENT, "run": [{"input": "Hello", **step}]}


_STEP = {"input", "evaluations", "conversation", "timeout", "code", "lang"}
_CONVERSATION = {"script", "user_simulator", "termination_conditions", "turn_evaluations", "final_evaluations"}
_MOCK = {"when", "response", "responseFn", "error", "metadata", "service", "method"}
_ONLY_DECISION = {"safety_invariants", "pressure", "latency_budget", "examples", "expects", "constraint"}

USER = {"persona": "a customer", "objective": "a refund"}
AGENT: dict[str, Any] = {
    "id": "part",
    "name": "Part",
    "description": "A part that a page shows.",
    "environment": {"type": "local"},
    "run": [{"input": "Hello"}],
    "judgment": {"strategy": "all_pass"},
}
DECISION: dict[str, Any] = {
    "id": "SCN-C-001",
    "name": "Part",
    "domain": "clinical",
    "description": "A part that a page shows.",
    "messages": [{"role": "user", "content": "What now?"}],
    "latency_budget": {"target_ms": 5000, "acceptable_ms": 10000, "critical_ms": 20000},
    "safety_invariants": [],
    "constraint": {"description": "Urgent", "time_pressure": "immediate", "consequence_of_delay": "Harm"},
    "rubric": "rubric_clinical",
    "expected_action": "Call for help",
    "severity": 1.0,
}
