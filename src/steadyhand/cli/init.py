"""`steadyhand init`: create a small project that runs as is, as a starting point."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.schema import file_schemas, schema_text
from steadyhand.cli.terminal import say
from steadyhand.errors import SetupError

STARTER = Path(__file__).parent.parent / "starter"
_CI = ".github/workflows/steadyhand.yml"
_MOVED = {"ci.yml": _CI}
_SCHEMAS = ("agent", "decision", "configuration")
_WHAT = {
    "steadyhand.toml": "configuration",
    "scenarios/refund.scenario.yaml": "a task for an agent",
    "scenarios/broken_lamp.scenario.yaml": "a conversation",
    "scenarios/person_in_reach.scenario.yaml": "a decision under time pressure",
    "agent.py": "the agent under test, for you to replace",
    "replies.yaml": "answers for the scripted model",
    "test_agent.py": "a test for pytest",
    _CI: "CI on GitHub",
}


@click.command()
@click.argument("folder", metavar="[DIR]", default=".", type=shared.FOLDER)
def init(folder: Path) -> None:
    """Write a small project to DIR: configuration, one scenario of each kind, an agent, a test, and a CI file.

    It runs as is, without a key. Nothing is overwritten: if one of the files exists, nothing is written.
    """
    files = _files()
    above = {parent for name in files for parent in Path(name).parents if parent != Path()}
    if linked := sorted(str(name) for name in above if (folder / name).is_symlink()):
        raise SetupError(
            f"{', '.join(linked)} in {folder} is a link to another folder; nothing was written. Choose another folder"
        )
    if taken := [name for name in files if (folder / name).exists() or (folder / name).is_symlink()]:
        listed = ", ".join(taken)
        raise SetupError(f"{listed} in {folder} would be overwritten; nothing was written. Choose another folder")
    try:
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as stream:
                stream.write(text)
            what = _WHAT.get(name, "for completion in your editor")
            say(f"wrote {file}: {what}")
    except OSError as error:
        raise SetupError(f"cannot write {error.filename}: {error.strerror}") from error
    there = "" if folder.resolve() == Path.cwd().resolve() else f"cd {shlex.quote(str(folder))} && "
    say(f"next: {there}steadyhand run scenarios")


def _files() -> dict[str, str]:
    """The files to write, by name: the starter's files, and the schemas with the types of the installed plugins."""
    texts = {
        file.relative_to(STARTER).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(STARTER.rglob("*"))
        if file.is_file() and file.suffix != ".pyc"
    }
    texts = {_MOVED.get(name, name): text for name, text in texts.items()}
    ordered = {name: texts.pop(name) for name in _WHAT if name in texts} | texts
    schemas = file_schemas(ignore_config=True)
    return ordered | {f"schemas/{name}.schema.json": schema_text(schemas[name]) for name in _SCHEMAS}
