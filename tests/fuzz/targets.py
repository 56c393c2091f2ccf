"""What is fuzzed with bytes: everything that reads what others wrote.

A target takes any bytes and returns. It lets through only what the reader promises to raise; anything else is a fault.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from steadyhand.builtin.agents.command import is_report, read_line_of
from steadyhand.builtin.judges.answer import UnreadableAnswer, answer_schema, read_answer, read_object
from steadyhand.compose.scenarios import build_registry
from steadyhand.errors import AgentError, StoreError
from steadyhand.gateway.otlp import PROTOBUF, UnreadableExport, read_export
from steadyhand.gateway.spans import read_spans
from steadyhand.lint.scenario import lint_scenario
from steadyhand.plugins.registry import EvaluationCatalogue
from steadyhand.ports.agent import Question
from steadyhand.reading.run import Reading
from steadyhand.records.event import ActionTaken
from steadyhand.records.run import RunHeader
from steadyhand.report.json import to_json
from steadyhand.spec.load import Loaded, load
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import decode, encode
from steadyhand.wire.anthropic_messages import MessagesReader
from steadyhand.wire.openai_chat import ChatReader
from steadyhand.wire.openai_responses import ResponsesReader
from steadyhand.wire.stream import (
    AnswerReader,
    ErrorInAnswer,
    UnreadableResponse,
    error_code,
    error_text,
)
from support.sample_run import reading_of

HEADER = RunHeader(id="fuzzed", started_at="2026-11-16T00:00:00Z", steadyhand_version="0")
SCHEMA = {"type": "object", "properties": {"judgment": {"enum": ["good", "bad"]}}, "required": ["judgment"]}
QUESTIONS = (
    Question(prompt="Is it?", materials=()),
    Question(prompt="Is it?", materials=(), capabilities=("Asks", "Answers"), unseen=("actions",)),
    Question(prompt="Is it?", materials=(), json_schema=SCHEMA, capabilities=("Asks",)),
)


@functools.cache
def scratch() -> Path:
    """A folder, in memory where there is one; removed at the end."""
    folder = tempfile.mkdtemp(prefix="steadyhand-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def catalogue() -> EvaluationCatalogue:
    return EvaluationCatalogue(build_registry())


def load_bytes(data: bytes) -> Loaded:
    """Loads and lints a file; every problem has a location."""
    file = scratch() / "fuzzed.scenario.yaml"
    file.write_bytes(data)
    loaded = load([file], catalogue=catalogue())
    for problem in loaded.problems:
        assert problem.place.file, problem
        assert problem.message, problem
        str(problem)
    for scenario in loaded.scenarios:
        lint_scenario(scenario)
    return loaded


def yaml_file(data: bytes) -> None:
    load_bytes(data)


def _read(reader: AnswerReader, blocks: list[bytes]) -> tuple[Any, ...]:
    """The content of the blocks, or the kind of error."""
    try:
        for block in blocks:
            if reader.feed(block):
                break
        said = (reader.text, reader.tool_calls, reader.finish(streamed=True), reader.usage, reader.ended)
    except (UnreadableResponse, ErrorInAnswer) as error:
        return (type(error),)
    assert sum(length for _, length in reader.pieces) == len(reader.text)
    return said


def _stream(data: bytes, kind: Callable[[], AnswerReader]) -> None:
    """The first byte says where the stream is cut; where it is cut must not change what it says."""
    size, body = (data[0] if data else 0) + 1, data[1:]
    whole = _read(kind(), [body])
    pieces = _read(kind(), [body[at : at + size] for at in range(0, len(body), size)])
    # Events that are not JSON by themselves but are when joined may be read in one block.
    assert pieces in (whole, (UnreadableResponse,)), (whole, pieces)
    reader = kind()
    try:
        reader.whole(body)
    except (UnreadableResponse, ErrorInAnswer):
        pass
    else:
        assert (reader.text, reader.tool_calls, reader.finish(streamed=False)) is not None
    error_text(body)
    error_code(body)


def chat_stream(data: bytes) -> None:
    _stream(data, ChatReader)


def responses_stream(data: bytes) -> None:
    _stream(data, ResponsesReader)


def messages_stream(data: bytes) -> None:
    _stream(data, MessagesReader)


def program_line(data: bytes) -> None:
    """A line written by the program of a `command:` agent."""
    try:
        read_line_of(data)
    except AgentError:
        assert not is_report(data)


def judge_answer(data: bytes) -> None:
    """The first byte chooses the question; what follows a 0 byte is the material shown to the judge."""
    question = QUESTIONS[(data[0] if data else 0) % len(QUESTIONS)]
    answer, _, shown = data[1:].decode("utf-8", "surrogateescape").partition("\0")
    answer_schema(question)
    try:
        found = read_answer(read_object(answer, shown=shown, nonce="7f3a"), question)
    except UnreadableAnswer:
        return
    assert set(found.achieved) == set(question.capabilities)
    assert found.confidence is None or 0 <= found.confidence <= 1
    if question.json_schema is None:
        assert found.judgment in ("yes", "no")


def record_file(data: bytes) -> None:
    """The bytes are the record of a run: all of it is read and reported."""
    file = scratch() / "fuzzed.sqlite"
    file.write_bytes(data)
    try:
        reader = RunReader.open(file)
        list(reader.trials())
        reader.rows(), reader.plan(), reader.to_do(), reader.sums_per_scenario(), reader.status
        b"".join(to_json(Reading(reader)))
    except StoreError:
        pass


def record_trial(data: bytes) -> None:
    """The bytes are one trial, as a record holds it before compression: if it can be read, it is kept and shown."""
    try:
        trial = decode(data)
    except StoreError:
        return
    b"".join(to_json(reading_of([trial], HEADER)))
    again, written = encode(trial)
    assert repr(decode(written)) == repr(again) == repr(trial)


def trace_export(data: bytes) -> None:
    """The first byte chooses JSON or protobuf; what can be read of an agent's spans becomes events."""
    try:
        spans = read_export(data[1:], "application/json" if not data or data[0] % 2 == 0 else PROTOBUF)
    except UnreadableExport:
        return
    told = read_spans(spans, {span.span_id: span for span in spans}, at_ms=lambda ns: ns / 1e6)
    assert told.tools or not any(isinstance(event, ActionTaken) for event in told.events)


def mcp_answer(data: bytes) -> None:
    """What an MCP server answers to a call: a result that is kept as a value, or one kind of error."""
    from steadyhand.builtin.services.mcp import answer_of
    from steadyhand.builtin.services.mcp_session import NOT_A_MESSAGE, ListedTool, ToolResult, read_message

    try:
        result = msgspec.convert(read_message(data).result, ToolResult)
    except NOT_A_MESSAGE:
        return
    tool = ListedTool(name="t", input_schema={}, output_schema={"properties": {"result": {}}})
    msgspec.json.encode(answer_of(tool, result).value)


def a2a_answer(data: bytes) -> None:
    """The events of an A2A agent's turn, one to a line."""
    from a2a.types import StreamResponse
    from google.protobuf.json_format import ParseDict, ParseError

    from steadyhand.builtin.agents.a2a_task import TurnSoFar

    turn = TurnSoFar()
    for line in data.split(b"\n"):
        try:
            turn.add(ParseDict(msgspec.json.decode(line), StreamResponse(), ignore_unknown_fields=True))
        except (ValueError, ParseError, TypeError, AttributeError, RecursionError):  # told as an unreadable answer
            return
    assert sum(length for _, length in turn.pieces) >= len(turn.text) - len(turn.files)
    assert turn.over in (True, False)


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        yaml_file,
        chat_stream,
        responses_stream,
        messages_stream,
        program_line,
        judge_answer,
        record_file,
        record_trial,
        trace_export,
        mcp_answer,
        a2a_answer,
    )
}
CORPUS = Path(__file__).parent / "corpus"
