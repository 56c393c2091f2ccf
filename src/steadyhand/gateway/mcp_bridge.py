"""Between an MCP client that starts its servers as programs and our MCP server at a URL: messages pass unchanged."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

from steadyhand.errors import SetupError

_AT_ONCE = 16
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def bridge(url: str, stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Post each line of `stdin` to `url` and write the answers to `stdout`, until `stdin` closes and all are answered.

    Requests overlap: a client tells their answers apart by id. Raises `SetupError` if `url` does not answer.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # this machine is reached without a proxy
    writing = threading.Lock()

    def carry(line: bytes) -> None:
        try:
            with opener.open(urllib.request.Request(url, line, _HEADERS)) as response:  # noqa: S310 - http or https
                answer: bytes = response.read()
        except urllib.error.HTTPError as error:
            with error:
                answer = error.read()
            if b'"jsonrpc"' not in answer:
                raise SetupError(f"{url} answered with status {error.code}") from error
        except OSError as error:
            raise SetupError(f"no answer from {url}: {getattr(error, 'reason', error)}") from error
        if answer:
            with writing:
                stdout.write(answer + b"\n")
                stdout.flush()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        sent: list[Future[None]] = []
        for line in stdin:
            if line.strip():
                sent = [each for each in sent if not each.done() or each.result() is not None]
                sent.append(pool.submit(carry, line))
        for each in sent:
            each.result()
