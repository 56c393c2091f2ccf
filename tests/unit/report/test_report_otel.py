"""Trials as traces: what is sent, read back with our own receiver, and what happens if nobody accepts it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

from steadyhand.errors import SetupError
from steadyhand.gateway.otlp import read_export
from steadyhand.gateway.spans import read_spans
from steadyhand.records.event import ActionTaken, ModelCalled, Observed
from steadyhand.records.run import RunHeader, TrialRecord
from steadyhand.report.otel import OtelEndpoint, OtelExporter, endpoint_of, export_of, trial_spans
from support.collector import Collector, collecting
from support.loopback import free_port
from support.sample_trials import typical

HEADER = RunHeader(id="r1", started_at="2026-01-01T00:00:00+00:00", steadyhand_version="0")


def a_trial_record() -> TrialRecord:
    record = typical(1)
    actions = (
        ActionTaken(at_ms=5.0, id="action-1", name="FIND", params={"n": [1, {"a": None}]}, duration_ms=2.0),
        Observed(at_ms=7.0, action_id="action-1", name="FIND", content={"state": "late"}),
        ActionTaken(at_ms=8.0, id="action-2", name="REFUND", status="error"),
    )
    return msgspec.structs.replace(record, events=(*record.events, *actions))


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


def test_a_trial_is_one_trace_that_says_what_the_trial_was():
    record = a_trial_record()
    spans = read_export(json.dumps(export_of(trial_spans(record, "r1"))).encode(), "application/json")
    root, *below = spans
    assert len({span.trace_id for span in spans}) == 1
    assert {span.parent_id for span in below} == {root.span_id}
    assert root.attributes["steadyhand.verdict"] == record.judged.verdict.value
    results = [attributes for name, attributes in root.events if name == "gen_ai.evaluation.result"]
    assert [each["gen_ai.evaluation.score.label"] for each in results] == [
        each.verdict.value for each in record.evaluations
    ]
    told = read_spans(below, {span.span_id: span for span in spans}, at_ms=float).events
    for kind, fields in ((ActionTaken, ("name", "params", "status")), (ModelCalled, ("model", "text", "usage"))):
        ours = [tuple(getattr(event, field) for field in fields) for event in record.events if type(event) is kind]
        theirs = [tuple(getattr(event, field) for field in fields) for event in told if type(event) is kind]
        assert ours == theirs
        assert ours
    assert trial_spans(record, "r1") == trial_spans(record, "r1")


def test_trials_are_sent_in_batches_and_to_the_end(collector):
    exporter = OtelExporter(OtelEndpoint(url=f"{collector.url}/v1/traces", headers={"X-Key": "k"}))
    exporter.run_started(HEADER)
    record = a_trial_record()
    for _ in range(100):
        exporter.trial_finished(record)
    exporter.run_finished()
    assert exporter.note is None
    assert exporter.sent == 100
    assert len(collector.exports) < 10
    assert len(collector.spans) == 100 * len(trial_spans(record, "r1"))
    path, headers, _ = collector.exports[0]
    assert (path, headers["X-Key"]) == ("/v1/traces", "k")


def test_a_collector_that_is_not_there_is_a_note():
    exporter = OtelExporter(OtelEndpoint(url=f"http://127.0.0.1:{free_port()}/v1/traces"))
    exporter.run_started(HEADER)
    exporter.trial_finished(a_trial_record())
    exporter.run_finished()
    assert exporter.note is not None
    assert exporter.note.startswith("--otel: 1 trial was not exported to http://127.0.0.1:")


@pytest.mark.parametrize(
    ("url", "variables", "expected", "headers"),
    [
        ("", {}, "http://127.0.0.1:4318/v1/traces", {}),
        ("http://c:1/", {}, "http://c:1/v1/traces", {}),
        ("http://c:1/v1/traces", {}, "http://c:1/v1/traces", {}),
        (
            "",
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c", "OTEL_EXPORTER_OTLP_HEADERS": "a=b%20c, d=e"},
            "https://c/v1/traces",
            {"a": "b c", "d": "e"},
        ),
        ("", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c/x"}, "https://c/x", {}),
        (
            "",
            {"OTEL_EXPORTER_OTLP_HEADERS": "a=b", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "c=d"},
            "http://127.0.0.1:4318/v1/traces",
            {"c": "d"},
        ),
        ("http://other", {"OTEL_EXPORTER_OTLP_HEADERS": "key=secret"}, "http://other/v1/traces", {}),
    ],
)
def test_where_traces_go(url, variables, expected, headers):
    assert endpoint_of(url, variables) == OtelEndpoint(url=expected, headers=headers)


def test_an_invalid_url_is_refused():
    with pytest.raises(SetupError, match="--otel: 'ftp://x/v1/traces' is not a URL"):
        endpoint_of("ftp://x", {})


def test_a_timeout_of_the_environment_is_in_milliseconds():
    assert endpoint_of("", {"OTEL_EXPORTER_OTLP_TIMEOUT": "250"}).timeout_s == 0.25
    with pytest.raises(SetupError, match="OTEL_EXPORTER_OTLP_TIMEOUT is '5s'; expected milliseconds"):
        endpoint_of("", {"OTEL_EXPORTER_OTLP_TIMEOUT": "5s"})


def test_a_collector_that_never_answers_costs_what_was_to_be_sent_and_no_more():
    with collecting(answers=False) as collector:
        exporter = OtelExporter(OtelEndpoint(url=f"{collector.url}/v1/traces", timeout_s=0.2))
        exporter.run_started(HEADER)
        for _ in range(3):
            exporter.trial_finished(a_trial_record())
        exporter.run_finished()
        collector.let_go()
    assert exporter.note == f"--otel: 3 trials were not exported to {collector.url}/v1/traces: timed out"
