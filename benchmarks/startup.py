"""Start-up, as multiples of the bare interpreter in the same run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure

ROUNDS = 15
EXAMPLE = Path(__file__).parent.parent / "examples" / "decisions" / "stemi.yaml"


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        scenario, model = _write_scenario(Path(folder))
        steadyhand = str(Path(sys.executable).parent / "steadyhand")
        commands = {
            "bare": [sys.executable, "-c", "pass"],
            "import": [sys.executable, "-c", "import steadyhand"],
            "help": [steadyhand, "--help"],
            "run": [steadyhand, "run", scenario, "--model", model, "--no-progress", "--out", f"{folder}/runs"],
        }
        pytest_ = _pytest_in(Path(folder))
        installed = ["env", f"PYTHONPATH={_installed_in(Path(folder))}", *pytest_]
        commands |= {"pytest": [*pytest_, "-p", "no:steadyhand"], "plugin": installed}
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                times[name].append(_seconds(command))
    bare, import_, help_, run, pytest_s, plugin = (statistics.median(times[name]) for name in commands)
    return [
        Figure(name="python -c pass", value=bare * 1000, unit="ms"),
        Figure(name="import steadyhand / python -c pass", value=import_ / bare, unit="x", at_most=1.5),
        Figure(name="steadyhand --help / python -c pass", value=help_ / bare, unit="x", at_most=8),
        Figure(name="steadyhand run, one scripted scenario / python -c pass", value=run / bare, unit="x", at_most=25),
        Figure(name="pytest with Steadyhand installed / without", value=plugin / pytest_s, unit="x", at_most=1.15),
    ]


def _write_scenario(folder: Path) -> tuple[str, str]:
    """An example with an instant model: the answer's thinking time would not be ours."""
    (folder / "stemi.yaml").write_text(EXAMPLE.read_text())
    reply = "Activate the cath lab now and give aspirin."
    (folder / "instant.yaml").write_text(f"rules:\n  - reply: {reply}\n")
    return str(folder / "stemi.yaml"), f"scripted/{folder}/instant.yaml"


def _pytest_in(folder: Path) -> list[str]:
    """A session of one test that has nothing to do with scenarios, without other people's plugins."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    others = ("asyncio", "hypothesispytest", "anyio", "xdist", "pytest_cov", "cacheprovider")
    without = [word for name in others for word in ("-p", f"no:{name}")]
    return [sys.executable, "-m", "pytest", "-q", *without, str(folder / "test_nothing.py")]


def _installed_in(folder: Path) -> Path:
    """A folder with Steadyhand as a wheel installs it: pytest reads the list of files of every plugin's package."""
    root, site = Path(__file__).parent.parent, folder / "site"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=root, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (wheel,) = (folder / "dist").glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return site


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ))
    return time.perf_counter() - started
