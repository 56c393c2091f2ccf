import signal

from holdfast.records.verdict import Verdict


def test_once_finishes_what_is_in_flight_and_reports(batch):
    batch.replies("rules:\n  - reply: I call for help now.\n    delay_ms: 300\n")
    process = batch.start("run", "untimed.yaml", "--trials", "40", "--concurrency", "4")
    batch.wait_for(4, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, out + err
    reader = batch.reader()
    done = sum(reader.counts().values())
    assert 4 <= done < 40
    assert reader.counts()[Verdict.PASSED] == done
    assert reader.status == "interrupted"
    assert "interrupt again to stop at once" in err
    assert f"holdfast resume {reader.header.id}" in err
    assert f"{done} passed" in out
    batch.replies("rules:\n  - reply: I call for help now.\n")
    assert batch("resume", "last", "--no-progress", "--force").code == 0
    assert batch.reader().counts()[Verdict.PASSED] == 40


def test_twice_stops(batch):
    quick, never = "{contains: What now, reply: I call for help.}", "{reply: I call for help., delay_ms: 600000}"
    batch.replies(f"rules:\n  - {quick}\n  - {never}\n")
    batch.decision("two.yaml", id="SCN-C-002", prompt="Never answered?")
    process = batch.start("run", "untimed.yaml", "two.yaml", "--concurrency", "2")
    batch.wait_for(1, process)
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if "interrupt again" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert batch.reader().status == "interrupted"
    assert [row.key.scenario_id for row in batch.reader().rows()] == ["untimed"]
