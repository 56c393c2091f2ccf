"""Output to the terminal, for all commands.

The text comes from files, models and agents: it is untrusted, and must not control the terminal. A stream that cannot
be written to must not affect the verdict.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from steadyhand.errors import ExitCode, SetupError

if TYPE_CHECKING:
    from steadyhand.reading.run import Reading
    from steadyhand.records.base import Record
    from steadyhand.report.table import Page


class Unwritten(Exception):
    """A requested report could not be written; the message says which and why."""


STDOUT = Path("-")
"""The file name that means standard output."""
_READ_BY_CI = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
_COMMAND = re.compile(r"^([ \t]*)(?=::)|##(?=\w*\[)", re.MULTILINE)


class Outlet:
    """Replaces `sys.stdout` or `sys.stderr`, and keeps working if the stream is closed, full or no longer read.

    In CI, a line that the service would treat as a command, such as `::error::`, is escaped, because it may come from
    an agent.
    """

    def __init__(self, stream: TextIO | None, name: str) -> None:
        self._stream = stream
        self._obeyed: bool = read_by_ci()
        self.fault: OSError | None = None if stream is not None else OSError(errno.EBADF, f"{name} is closed")

    def write(self, text: str) -> int:
        """Write untrusted text: control characters are escaped."""
        return self.write_styled(_harmless(text))

    def write_styled(self, text: str) -> int:
        """Write text formatted by `report`, including colours."""
        return self._try("write", _disobeyed(text) if self._obeyed else text) or len(text)

    def write_command(self, text: str) -> None:
        """Write one of our own commands for the CI service."""
        self._try("write", text)

    def write_bytes(self, content: Iterable[bytes]) -> list[str]:
        """Write a report unchanged, and return an error, if any."""
        self.flush()
        if self.fault is None and self._stream is not None:
            try:
                self._stream.buffer.writelines(content)
                self._stream.buffer.flush()
            except OSError as error:
                self.fault = error
        if self.fault is None or self.fault.errno == errno.EPIPE:
            return []
        return [f"cannot write the report to stdout: {self.fault.strerror}"]

    def flush(self) -> None:
        self._try("flush")

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        """Any other attribute of a text stream, such as its encoding."""
        return getattr(self._stream, name)

    def _try(self, method: str, *arguments: str) -> Any:
        if self.fault is not None:
            return None
        try:
            return getattr(self._stream, method)(*arguments)
        except OSError as error:
            self.fault = error
            return None


def read_by_ci() -> bool:
    """Whether a CI service reads the output and would execute commands in it."""
    return any(os.environ.get(name) for name in _READ_BY_CI)


def require_own_terminal() -> None:
    """For HTML on stdout. Raises `SetupError` in CI."""
    if read_by_ci():
        raise SetupError("--html - would print unescaped agent output to the CI log; write to a file instead")


def _disobeyed(text: str) -> str:
    return _COMMAND.sub(lambda found: "## " if found.group() == "##" else f"{found.group()}| ", text)


def _harmless(text: str) -> str:
    if text.replace("\n", "").isprintable():
        return text
    from steadyhand.report.table import visible  # help and most messages do without

    return visible(text)


class _Styled:
    """An outlet as a stream for text with colours, as progress bars write it."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def write(self, text: str) -> int:
        return self._outlet.write_styled(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outlet, name)


def take_over() -> None:
    """Replace this process's streams with outlets, and closed descriptors with harmless ones.

    A descriptor that is closed would be given to the next file that is opened: the run record would then receive what a
    child process prints.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, Outlet(stream, name))


def say(text: str, *, err: bool = False) -> None:
    """Print a line of untrusted text."""
    (sys.stderr if err else sys.stdout).write(f"{text}\n")


def show(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines that `report` formatted for `page`."""
    stream = sys.stderr if err else sys.stdout
    for line in lines:
        write = getattr(stream, "write_styled", stream.write)
        write(f"{line}\n")


def command_ci(line: str) -> None:
    """A workflow command, on stderr. Its text must be escaped."""
    write = getattr(sys.stderr, "write_command", sys.stderr.write)
    write(f"{line}\n")


def say_json(value: Any) -> None:
    """A value as JSON, with control characters escaped."""
    show([harmless_json(json.dumps(value, indent=2, ensure_ascii=False).encode()).decode()])


def harmless_json(text: bytes) -> bytes:
    """The same JSON, with anything that a terminal or a CI service would interpret escaped."""
    from steadyhand.report.table import CONTROL

    written = CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text.decode("utf-8", "surrogatepass"))
    return written.replace("##", "#\\u0023").encode("utf-8", "surrogatepass")


def write_report(file: Path, content: Iterable[bytes]) -> list[str]:
    """Write a report completely or not at all; `-` is stdout. Returns an error, if any."""
    if file == STDOUT:
        outlet: Any = sys.stdout
        if isinstance(outlet, Outlet):
            return outlet.write_bytes(content)
        outlet.write(b"".join(content).decode())
        return []
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            with file.open("wb") as stream:  # a pipe or device
                stream.writelines(content)
            return []
        part = file.with_name(f".{file.name}.{os.getpid()}.part")
        try:
            with part.open("wb", buffering=1 << 20) as stream:
                stream.writelines(content)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        return [f"cannot write the report {file}: {error.strerror}"]
    return []


def write_result(
    record: Record,
    markdown: Callable[[], Iterable[str]],
    *,
    json_file: str | None,
    markdown_file: str | None,
) -> None:
    """Write the requested JSON and Markdown; `-` is stdout. Raises `Unwritten` if a file cannot be written."""
    import msgspec

    unwritten: list[str] = []
    if json_file is not None:
        encoded = msgspec.json.encode(record)
        if json_file == "-":
            say_json(msgspec.json.decode(encoded))
        else:
            unwritten += write_report(Path(json_file), [msgspec.json.format(encoded, indent=1), b"\n"])
    if markdown_file == "-":
        show(markdown())
    elif markdown_file is not None:
        unwritten += write_report(Path(markdown_file), (f"{line}\n".encode() for line in markdown()))
    if unwritten:
        raise Unwritten("; ".join(unwritten))


def page(*, err: bool = False) -> Page:
    """As wide as the terminal; coloured only on a terminal that allows colours."""
    from steadyhand.report.table import Page

    stream = sys.stderr if err else sys.stdout
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Page(width=shutil.get_terminal_size((100, 24)).columns, colour=stream.isatty() and not plain)


def progress_stream() -> TextIO:
    """Where progress goes: stderr, with its control sequences unless the terminal takes none."""
    plain: Any = sys.stderr
    return cast("TextIO", _Styled(plain) if isinstance(plain, Outlet) else plain)


def watch_reading(reading: Reading) -> None:
    """Where the trials of a long run have to be read first, say so, and show at a terminal how many have been."""
    if reading.is_quick:
        return
    planned = reading.header.planned
    say(f"reading up to {planned:,} trials: the record has no usable summary", err=True)
    if takes_control():
        from rich.console import Console
        from rich.progress import track

        console = Console(file=progress_stream(), force_terminal=True)
        reading.watch = partial(track, description="reading", total=planned, console=console, transient=True)


def takes_control() -> bool:
    """Whether stderr is a terminal that can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def leave_with(code: int) -> int:
    """The exit code, once everything is written. Failing to write does not change the verdict; only 0 becomes 3.

    A closed pipe is ignored: its reader has read enough.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    fault = sys.stdout.fault if isinstance(sys.stdout, Outlet) else None
    if fault is None or fault.errno == errno.EPIPE:
        return code
    say(f"steadyhand: the output could not be written: {fault.strerror or fault}", err=True)
    sys.stderr.flush()
    return code or ExitCode.UNDECIDED
