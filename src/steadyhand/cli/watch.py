"""`steadyhand run --watch`: runs what a saved file affects, in a process of its own, until Ctrl-C.

Files are polled: looking at a thousand takes about 8 ms, twice a second, and works the same on every system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from steadyhand.cli.terminal import say
from steadyhand.compose.run import Run
from steadyhand.errors import ExitCode, SetupError
from steadyhand.judging.cost import Prices
from steadyhand.reading.run import Reading
from steadyhand.reading.totals import TotalsFold
from steadyhand.records.base import counted
from steadyhand.records.evaluation import Verdict
from steadyhand.store.reader import find_run

_EVERY_S = 0.5
_KINDS = (".py", ".yaml", ".yml", ".toml", ".json", ".js", ".mjs", ".ts", ".md", ".txt", ".sql", ".sh", ".env")
_NOT_OURS = ("node_modules", "__pycache__", "build", "dist")
_MOST_FILES = 20_000
_Saved = tuple[int, int]


class Watched:
    """The files of the project, and when each was last saved."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self._roots: tuple[Path, ...] = tuple(dict.fromkeys(root.resolve() for root in roots))
        self._saved: dict[str, _Saved] = dict(self._look())

    def __len__(self) -> int:
        return len(self._saved)

    def changed(self) -> set[Path]:
        """The files saved, made or removed since the last look."""
        before, self._saved = self._saved, dict(self._look())
        names = before.keys() | self._saved.keys()
        return {Path(name) for name in names if before.get(name) != self._saved.get(name)}

    def _look(self) -> Iterator[tuple[str, _Saved]]:
        left = _MOST_FILES
        folders = [str(root) for root in self._roots]
        while folders and left > 0:
            try:
                entries = list(os.scandir(folders.pop()))
            except OSError:
                continue
            for entry in entries:
                if entry.name.startswith(".") or entry.name in _NOT_OURS:
                    continue
                try:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.name.endswith(_KINDS):
                        stat = entry.stat()
                        left -= 1
                        yield entry.path, (stat.st_mtime_ns, stat.st_size)
                except OSError:
                    continue


def watch(run: Run, ctx: click.Context, given: Mapping[str, Any]) -> int:
    """Returns the exit code when the user interrupts it, or `--max-cost` is spent. Raises `SetupError`."""
    budget: float | None = given["max_cost"]
    if budget is None and (paid := _paid(run)):
        raise SetupError(f"--watch runs again and again, and {paid} costs money or has no known price: add --max-cost")
    scenarios = {Path(scenario.place.file).resolve(): scenario.place.file for scenario in run.scenarios}
    watched = Watched([Path.cwd(), *(file.parent for file in scenarios)])
    _await(watched, "nothing ran yet")
    failed: list[str] = []
    spent = 0.0
    try:
        while True:
            time.sleep(_EVERY_S)
            if not (saved := watched.changed()):
                continue
            say(f"saved: {', '.join(sorted(file.name for file in saved)[:3])}{' ...' if len(saved) > 3 else ''}")
            # A scenario concerns only itself; anything else may concern every scenario.
            some = saved <= scenarios.keys()
            again = [file for whole, file in scenarios.items() if whole in saved or not some]
            ordered = list(dict.fromkeys([*(file for file in failed if file in again), *again]))
            options = words_of(ctx, {**given, "max_cost": None if budget is None else budget - spent})
            code = _child(["run", *options, "--", *(file for file in ordered if Path(file).exists())])
            if code == ExitCode.INTERRUPTED:
                return code
            if code != ExitCode.USAGE:
                reading = Reading.open(find_run(run.settings.out, "last"))
                reading.want(TotalsFold)
                fell = {trial.place.file for trial in reading.read() if trial.judged.verdict is not Verdict.PASSED}
                failed = [*fell, *(file for file in failed if file not in ordered)]
                spent += reading.totals.spent.total.cost
            if budget is not None and spent >= budget:
                say(f"steadyhand: --max-cost {budget:g} is spent", err=True)
                return ExitCode.UNDECIDED
            watched.changed()  # what the run itself has written
            _await(watched, counted(len(failed), "file") + " with failures" if failed else "no failures")
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _await(watched: Watched, state: str) -> None:
    say(f"watching {counted(len(watched), 'file')} ({state}); save one to run what it affects, Ctrl-C to end")
    sys.stdout.flush()


def _child(arguments: Sequence[str]) -> int:
    """A run in a new process, which imports the user's code as it is now. Ctrl-C reaches it, too."""
    sys.stdout.flush()
    with subprocess.Popen([sys.executable, "-m", "steadyhand", *arguments]) as process:  # noqa: S603 - ourselves
        try:
            return process.wait()
        except KeyboardInterrupt:
            return process.wait() and ExitCode.INTERRUPTED


def _paid(run: Run) -> str:
    """The first model that may cost money; empty if all are free for sure."""
    prices = Prices.of_run(run.header)
    chosen = [choice for cast in run.casts.all(run.scenarios) for choice in (cast.tested, cast.judge, cast.user)]
    for name in dict.fromkeys(choice.value for choice in chosen if choice is not None):
        price = prices.of(name)
        if price is None or price.input or price.output:
            return name
    return ""


def words_of(ctx: click.Context, given: Mapping[str, Any]) -> list[str]:
    """The options of a command as they would be typed, without its arguments and `--watch`."""
    words: list[str] = []
    for option in ctx.command.params:
        value = given.get(option.name or "")
        if not isinstance(option, click.Option) or option.name == "watch" or value in (None, (), False):
            continue
        flag = option.opts[-1]
        if option.is_flag or (value == "" and option.flag_value == ""):
            words.append(flag)
            continue
        several: Sequence[Any] = value if option.multiple else (value,)
        for each in several:
            words += [flag, str(each)]
    return words
