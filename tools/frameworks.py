"""Installs the frameworks of docs/frameworks.md, each where the tests look for it: their dependencies conflict.

    python -m tools.frameworks FOLDER

What is installed already, in the folder or for this interpreter, is left as it is.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "frameworks.md"
_SECTION = re.compile(
    r"^##+ (?P<title>[^\n]+)\n\n<!-- not run[^\n]*\n"
    r"```console\n\$ (?:pip|npm) install (?P<packages>[^\n]+)\n```\n\n"
    r'```\w+ title="(?P<file>[^"]+)"\n(?P<code>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


class Framework(NamedTuple):
    title: str
    name: str
    packages: tuple[str, ...]
    file: str
    code: str

    @property
    def in_node(self) -> bool:
        return self.file.endswith(".mjs")


def frameworks() -> list[Framework]:
    """Those of the page, in its order."""
    return [
        Framework(
            title=each["title"],
            name=each["file"].rpartition("_agent.")[0],
            packages=tuple(shlex.split(each["packages"])),
            file=each["file"],
            code=each["code"],
        )
        for each in _SECTION.finditer(PAGE.read_text(encoding="utf-8"))
    ]


def is_here(framework: Framework) -> bool:
    """Whether this interpreter has its packages."""
    try:
        for package in framework.packages:
            version(package.partition("[")[0])
    except PackageNotFoundError:
        return False
    return not framework.in_node


def install(framework: Framework, folder: Path) -> None:
    if framework.in_node:
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        command = ["npm", "install", "--prefix", str(folder), *options]
    else:
        venv.create(folder, with_pip=True)
        options = ("--quiet", "--disable-pip-version-check", "--editable", str(ROOT))
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", *options]
    subprocess.run([*command, *framework.packages], check=True)  # noqa: S603 - as the page says


def main() -> None:
    top = Path(sys.argv[1])
    for framework in frameworks():
        ready = top / framework.name / ".ready"
        if ready.exists() or is_here(framework):
            continue
        print(f"installing {framework.title}", flush=True)
        ready.parent.mkdir(parents=True, exist_ok=True)
        install(framework, ready.parent)
        ready.touch()


if __name__ == "__main__":
    main()
