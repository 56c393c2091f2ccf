"""Which other tools are available, and how each is started. Installs nothing; `make peers` does that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_VERSIONS = """
import importlib.metadata, importlib.util, json, sys
names = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
print(json.dumps({name: importlib.metadata.version(name) for name in names}))
"""
# deepeval rewrites its whole run file after every case unless told not to: minutes for a thousand cases.
_PYTHON_PEERS = (
    ("inspect_ai", "", "peer_inspect", ()),
    ("deepeval", "", "peer_deepeval", ("write-each",)),
    ("deepeval", ", write_cache=False", "peer_deepeval", ("write-once",)),
    ("pydantic_evals", " and pydantic-ai", "peer_pydantic_evals", ("pydantic-ai",)),
    ("pydantic_evals", " and a plain call", "peer_pydantic_evals", ("aiohttp",)),
)
_ANY = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """`command` gets the server's base URL, the number of cases and a folder for `found.json`. More than `most` cases
    would take too long; in a full run, more than `most_in_full`."""

    name: str
    command: tuple[str, ...]
    most: int = _ANY
    most_in_full: int = _ANY


def find() -> tuple[list[Tool], list[str]]:
    """The available tools, named with their versions, and the names of the missing ones."""
    python = _python()
    versions = _versions(python)
    tools: list[Tool] = []
    missing: list[str] = []
    for package, how, module, arguments in _PYTHON_PEERS:
        if package not in versions:
            missing.append(package)
            continue
        slow = "write-each" in arguments
        tools.append(
            Tool(
                name=f"{package} {versions[package]}{how}",
                command=(python, "-m", f"benchmarks.{module}", *arguments),
                most=100 if slow else _ANY,
                most_in_full=1_000 if slow else _ANY,
            )
        )
    promptfoo = _promptfoo(python)
    if promptfoo is None:
        missing.append("promptfoo")
    else:
        tools.append(promptfoo)
    return tools, list(dict.fromkeys(missing))


def environment(folder: str) -> dict[str, str]:
    """What a peer gets to see: none of the user's keys or settings, telemetry off, all its files below `folder`."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": folder,
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
        "DEEPEVAL_CACHE_FOLDER": "record",
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_CONFIG_DIR": str(Path(folder) / "record"),
        # Its command line sets this from -j; its Node interface would open only 4 connections, whatever it is told.
        "PROMPTFOO_FETCH_CONNECTIONS": "64",
    }


def _python() -> str:
    own = ROOT / ".venv-peers" / "bin" / "python"
    return os.environ.get("STEADYHAND_BENCH_PEERS_PYTHON") or (str(own) if own.exists() else sys.executable)


def _versions(python: str) -> dict[str, str]:
    names = dict.fromkeys(package for package, *_ in _PYTHON_PEERS)
    try:
        said = subprocess.run([python, "-c", _VERSIONS, *names], check=True, stdout=subprocess.PIPE, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"  the interpreter for the peers does not run: {error}", flush=True)
        return {}
    return json.loads(said)


def _promptfoo(python: str) -> Tool | None:
    """Next to the peers' interpreter, else on the PATH."""
    beside = Path(python).parent.parent / "node_modules" / ".bin"
    program = shutil.which("promptfoo", path=os.pathsep.join((str(beside), os.environ.get("PATH", os.defpath))))
    node = shutil.which("node")
    if program is None or node is None:
        return None
    for folder in Path(program).resolve().parents:
        if (folder / "package.json").is_file() and (folder / "dist/src/index.js").is_file():
            version = json.loads((folder / "package.json").read_text())["version"]
            script = str(ROOT / "benchmarks" / "peer_promptfoo.mjs")
            return Tool(name=f"promptfoo {version}", command=(node, script, str(folder / "dist/src/index.js")))
    return None
