"""The run's page and the list of runs say what the exit code and the report say."""

from __future__ import annotations

import msgspec
import pytest

from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import Said
from steadyhand.records.run import TrialRecord
from steadyhand.store.schema import PlanEntry
from steadyhand.store.writer import RunWriter
from steadyhand.viewer.labels import LabelBook
from steadyhand.viewer.pages import Viewer, filter_of
from support.report_runs import TAKEN_BACK, recorded
from support.sample_trials import HEADER, typical


@pytest.fixture
def page(tmp_path):
    viewer = Viewer(tmp_path, LabelBook(tmp_path / "labels.jsonl", "root"))
    yield lambda path, **query: viewer.get(path, query).body.decode()
    viewer.close()


def trials(passed: int, of: int) -> list[TrialRecord]:
    """Trials of one scenario."""
    template = typical(0)
    found = []
    for index in range(of):
        key = msgspec.structs.replace(template.key, index=index)
        verdict = Verdict.PASSED if index < passed else Verdict.FAILED
        judged = msgspec.structs.replace(template.judged, verdict=verdict)
        found.append(msgspec.structs.replace(template, key=key, judged=judged))
    return found


def test_trials_that_have_not_run_are_pending_and_not_failed(page, tmp_path):
    found = trials(2, 2)
    plan = [PlanEntry(key=msgspec.structs.replace(found[0].key, index=index)) for index in range(5)]
    writer = RunWriter.create(tmp_path, msgspec.structs.replace(HEADER, planned=5), plan)
    for trial in found:
        writer.append(trial)
    writer.flush()
    shown = page("/run", id=writer.path.stem)
    assert "2 of 5 run, 2 passed" in shown
    assert '<li class="none">' in page("/"), "nothing is wrong, and not everything has run"
    writer.close("finished")


def test_a_run_that_reached_its_pass_rate_is_green_in_the_list_too(page, tmp_path):
    reader = recorded(tmp_path, trials(9, 10), header=msgspec.structs.replace(HEADER, pass_rate=0.9, planned=10))
    assert '<li class="passed">' in page("/")
    shown = page("/run", id=reader.path.stem)
    assert "The scenario passed" in shown
    assert "<b>1</b> passed</li>" in shown.partition('aria-label="Scenarios by verdict"')[2].partition("</ul>")[0]
    assert "<dt>failed</dt><dd>1</dd>" in shown, "the trials are counted below"
    assert "Compare" not in shown.partition("<main")[2], "there is nothing to compare it with"


def test_a_run_of_failures_only_and_one_judged_again_are_marked(page, tmp_path):
    header = msgspec.structs.replace(HEADER, failed_of="20260101-000000-aaaa", origin="20260101-000000-bbbb")
    reader = recorded(tmp_path, trials(1, 1), header=header)
    for shown in (page("/"), page("/run", id=reader.path.stem)):
        assert "only what failed in 20260101-000000-aaaa" in shown
        assert "judged again, from 20260101-000000-bbbb" in shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("verdict:failed", {"verdict": "failed"}),
        ("gas verdict:failed class:A leak", {"verdict": "failed", "failure_class": "A", "text": "gas leak"}),
        ("https://x:1 verdict:", {"text": "https://x:1 verdict:"}),
        ("outcome:safe-late", {"outcome": "safe_late"}),
    ],
)
def test_the_filter_takes_fields_in_its_text(text, found):
    wanted = filter_of({"q": text})
    assert {name: value for name, value in msgspec.structs.asdict(wanted).items() if value} == found


def test_the_filter_finds_a_word_of_the_reply(page, tmp_path):
    reader = recorded(tmp_path, [TAKEN_BACK, *trials(1, 1)])
    said = [event.message for event in TAKEN_BACK.events if isinstance(event, Said)][-1].content
    shown = page("/run", id=reader.path.stem, q=said.split()[-1])
    assert (">1 trial<" in shown or "1 trial" in shown, "taken-back" in shown) == (True, True)
    assert "No trial matches." in page("/run", id=reader.path.stem, q="nobodysaidthis")


def test_failures_come_before_the_scenarios(page, tmp_path):
    reader = recorded(tmp_path, [*trials(1, 1), TAKEN_BACK])
    shown = page("/run", id=reader.path.stem)
    assert "2 trials" in shown
    assert shown.index("Trials, worst first") < shown.index("Scenarios by target")
