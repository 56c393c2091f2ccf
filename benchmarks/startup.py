"""Start-up times, as multiples of the bare interpreter's in the same run."""

from __future__ import annotations

import os
import shutil
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
            "run": [steadyhand, "run", scenario, "--model", model, "--no-progress", "--runs", f"{folder}/runs"],
        }
        pytest_ = _pytest_in(Path(folder))
        with_plugin, without = _installed_in(Path(folder))
        commands |= {
            "pytest": [
                "env",
                "-u",
                "PYTHONDONTWRITEBYTECODE",
                f"PYTHONPATH={without}",
                *pytest_,
                "-p",
                "no:steadyhand",
            ],
            "plugin": ["env", "-u", "PYTHONDONTWRITEBYTECODE", f"PYTHONPATH={with_plugin}", *pytest_],
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                times[name].append(_seconds(command))
    bare, import_, help_, run, *_ = (statistics.median(took for took, _ in times[name]) for name in commands)
    # A difference of a few percent is lost in the wall-clock times of a busy machine.
    plugin = _best_of(times["plugin"]) / _best_of(times["pytest"])
    return [
        Figure(name="python -c pass", value=bare * 1000, unit="ms"),
        Figure(name="import steadyhand / python -c pass", value=import_ / bare, unit="x", at_most=1.5),
        Figure(name="steadyhand --help / python -c pass", value=help_ / bare, unit="x", at_most=8),
        Figure(name="steadyhand run, one scripted scenario / python -c pass", value=run / bare, unit="x", at_most=25),
        Figure(name="pytest with Steadyhand installed / without", value=plugin, unit="x", at_most=1.05),
    ]


def _write_scenario(folder: Path) -> tuple[str, str]:
    """An example with an instant model: thinking time would not be ours."""
    (folder / "stemi.yaml").write_text(EXAMPLE.read_text())
    reply = "Activate the cath lab now. Give aspirin 300 mg."
    (folder / "instant.yaml").write_text(f"rules:\n  - reply: {reply}\n")
    return str(folder / "stemi.yaml"), f"scripted/{folder}/instant.yaml"


def _pytest_in(folder: Path) -> list[str]:
    """A session with one test that has nothing to do with scenarios, without other people's plugins."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    others = ("asyncio", "hypothesispytest", "anyio", "xdist", "pytest_cov", "cacheprovider")
    without = [word for name in others for word in ("-p", f"no:{name}")]
    return [sys.executable, "-m", "pytest", "-q", *without, str(folder / "test_nothing.py")]


def _installed_in(folder: Path) -> tuple[Path, Path]:
    """Two folders with Steadyhand as a wheel installs it, with and without the plugin's entry point.

    pytest reads the list of files of every package that has one.
    """
    root, site = Path(__file__).parent.parent, folder / "site"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=root, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (wheel,) = (folder / "dist").glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    without = folder / "site-without"
    shutil.copytree(site, without)
    for entry_points in without.glob("*.dist-info/entry_points.txt"):
        entry_points.unlink()
    return site, without


def _seconds(command: list[str]) -> tuple[float, float]:
    """The wall time and the CPU time of a command."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - started, used.ru_utime + used.ru_stime


def _best_of(times: list[tuple[float, float]]) -> float:
    """The mean CPU time of the best third."""
    used = sorted(used for _, used in times)
    return statistics.fmean(used[: len(used) // 3])
