"""`steadyhand init`: create a small project that runs as is, as a starting point."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.schema import file_schemas, schema_text
from steadyhand.cli.terminal import say
from steadyhand.errors import SetupError

STARTER = Path(__file__).parent.parent / "starter"
_CI = ".github/workflows/steadyhand.yml"
_IGNORE = ".gitignore"
_MOVED = {"ci.yml": _CI, "gitignore": _IGNORE}
_TO_INSTALL = re.compile(r"(?m)(?:^ +#.*\n)+(^ +- run: )echo .*$")
"""The step of the CI file that asks for the command that installs Steadyhand."""
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
    _IGNORE: "keeps run records out of Git",
}


@click.command()
@click.argument("folder", metavar="[DIR]", default=".", type=shared.FOLDER)
@click.option("--install", metavar="COMMAND", help="Command for the CI file that installs Steadyhand.")
def init(folder: Path, install: str | None) -> None:
    """Write a small project to DIR: configuration, one scenario of each kind, an agent, a test, and a CI file.

    It runs as is, without a key. Nothing is overwritten: if one of the files exists, nothing is written. An existing
    .gitignore stays as it is.
    """
    files = _files()
    if install is not None:
        if not install.strip():
            raise SetupError("--install needs a command, such as `pip install` and the URL of a wheel")
        step = json.dumps(install, ensure_ascii=False)
        files[_CI] = _TO_INSTALL.sub(lambda found: found[1] + step, files[_CI])
    ignoring = (folder / _IGNORE).exists() or (folder / _IGNORE).is_symlink()
    to_ignore = files.pop(_IGNORE).splitlines()[-1] if ignoring else None
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
    if to_ignore is not None:
        say(f"kept {folder / _IGNORE}: add a line `{to_ignore}`, which keeps run records out of Git")
    if install is None:
        say(f"to do: put the command that installs Steadyhand into {folder / _CI} (or use --install)")
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
