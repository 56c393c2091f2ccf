"""`make soak`: mixed scenarios with injected failures, again and again in one process, and what that leaves behind.

    python -m soak [SECONDS]

Every round runs decisions, agents with tools, mocks, a database and an MCP server, conversations, `python:` agents in
child processes that export spans, programs and an A2A agent, against `soak.server`. After it, nothing may be left that
was not there after the first rounds: descriptors, tasks, threads, processes, files, memory. Exit code 1
if something is, or if a trial is missing from a record.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from steadyhand import run_async

PROJECT = Path(__file__).parent / "project"
TRIALS = 8
CONCURRENCY = 16
WARM_UP = 3
"""Rounds after which everything that is kept on purpose exists: modules, caches, compiled patterns."""
GROWTH_MB = 24
"""How much memory may grow: the allocator's noise. A leak of every trial's record would exceed it within minutes."""


class Left(NamedTuple):
    """What is in use at one moment."""

    descriptors: int
    tasks: int
    threads: int
    processes: int
    files: int
    memory_mb: float


def descendants(mark: str) -> list[str]:
    """The processes that were started with `mark` in their environment, other than this one."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
            except OSError:
                continue
    return found


def look(temporary: Path) -> Left:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Left(
        descriptors=len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        processes=len(descendants(str(temporary))),
        files=sum(len(files) for _, _, files in os.walk(temporary)),
        memory_mb=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
    )


async def settled(temporary: Path, before: Left) -> Left:
    """What is left once the system has had a moment to reap what has ended."""
    now = look(temporary)
    for _ in range(40):
        if all(a <= b for a, b in zip(now[:5], before[:5], strict=True)):
            break
        await asyncio.sleep(0.05)
        now = look(temporary)
    return now


async def one_round(out: Path) -> Counter[str]:
    """Raises `AssertionError` when a trial is missing."""
    result = await run_async(
        [file for file in sorted(Path.cwd().glob("*.yaml")) if file.stem != "rubric_household"],
        config="steadyhand.toml",
        out=out,
        trials=TRIALS,
        concurrency=CONCURRENCY,
    )
    verdicts = Counter(trial.verdict.value for trial in result)
    assert result.finished, "a run did not finish"
    assert sum(verdicts.values()) == result.header.planned, "a trial is missing from the record"
    shutil.rmtree(out)
    return verdicts


async def soak(seconds: float, temporary: Path) -> int:
    end = time.monotonic() + seconds
    seen: Counter[str] = Counter()
    looks: list[Left] = []
    first = look(temporary)
    while len(looks) <= WARM_UP or time.monotonic() < end:
        seen += await one_round(Path("runs"))
        looks.append(await settled(temporary, looks[WARM_UP - 1] if len(looks) >= WARM_UP else first))
    before, after = looks[WARM_UP - 1], looks[-1]
    print(f"{'':<14}{'start':>8}{'warm':>8}{'end':>8}{'most':>8}")
    for at, name in enumerate(Left._fields):
        values = [first[at], before[at], after[at], max(each[at] for each in looks)]
        print(f"{name:<14}" + "".join(f"{value:>8.0f}" for value in values))
    # Kept from the first rounds on are the descriptors of the loop, and the empty file that rooms show in place of
    # others. The loop's pool makes its threads as it needs them, up to a limit.
    pool = first.threads + min(32, (os.cpu_count() or 1) + 4)
    allowed = first._replace(threads=max(before.threads, pool), descriptors=before.descriptors, files=before.files)
    leaked = [name for at, name in enumerate(Left._fields[:5]) if after[at] > allowed[at]]
    grown = after.memory_mb - before.memory_mb
    leaked += ["memory_mb"] if grown > GROWTH_MB else []
    for each in descendants(str(temporary)):
        print(f"still running: {each}")
    trials = ", ".join(f"{count:,} {verdict}" for verdict, count in seen.most_common())
    print(f"{sum(seen.values()):,} trials in {len(looks)} rounds: {trials}; memory grew by {grown:.1f} MB")
    print(f"soaked for {seconds:.0f} s: " + (f"LEAKED {', '.join(leaked)}" if leaked else "nothing left over"))
    return 1 if leaked else 0


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        project = Path(shutil.copytree(PROJECT, Path(folder) / "project"))
        temporary = Path(folder) / "tmp"
        temporary.mkdir()
        server = subprocess.Popen([sys.executable, "-m", "soak.server"], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url, a2a = server.stdout.readline().split()
            provider = f'[providers.weather]\nbase_url = "{url}"\n'
            (project / "steadyhand.toml").write_text(
                f'model = "weather/m"\njudge = "weather/j"\ntimeout_s = 2\nretries = 2\n{provider}', encoding="utf-8"
            )
            scenario = (project / "python_agent.scenario.yaml").read_text(encoding="utf-8")
            remote = scenario.replace("python:./agent.py:answer", f"a2a:{a2a}").replace(
                "A Python agent", "An A2A agent"
            )
            (project / "a2a_agent.scenario.yaml").write_text(remote, encoding="utf-8")
            os.chdir(project)
            os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
            return asyncio.run(soak(seconds, temporary))
        finally:
            server.kill()
            server.wait()
            os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())
