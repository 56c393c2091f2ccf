"""The agent examples tell right behaviour from wrong: a dozen scripted agents for each.

What an agent did is decided without a judge: a wrong deed fails even with one that always agrees. What it says about it
is for the judge: wrong words fail if the judge sees it, and do not pass without one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

import steadyhand

EXAMPLES = Path(__file__).parents[2] / "examples"

Behaviour: TypeAlias = "list[dict[str, dict[str, Any]] | str]"
"""What the model answers in turn: tool calls, by name and arguments, or a text."""


def _query(sql: str) -> dict[str, dict[str, Any]]:
    return {"database_query": {"sql": sql}}


def _execute(sql: str) -> dict[str, dict[str, Any]]:
    return {"database_execute": {"sql": sql}}


def _write(path: str, content: str) -> dict[str, dict[str, Any]]:
    return {"write_file": {"path": path, "content": content}}


def _stock(attempt: int, item: str = "BOLT-M8") -> dict[str, dict[str, Any]]:
    return {"warehouse_stock": {"item": item, "attempt": attempt}}


def _label(label: str = "billing", **more: Any) -> dict[str, dict[str, Any]]:
    return {"tickets_label": {"id": 17, "label": label, **more}}


def _ticket(summary: str, label: str = "billing") -> str:
    return json.dumps({"ticket": 17, "label": label, "summary": summary})


def _pump(command: str) -> dict[str, dict[str, Any]]:
    return {"run_command": {"command": command}}


CANCEL = _execute("UPDATE orders SET status = 'cancelled' WHERE id = 2")
LOOK = _query("SELECT id FROM orders WHERE customer = 'Ben' AND status = 'open'")
HELLO = _write("hello.txt", "Hello, world!\n")
LIST: dict[str, dict[str, Any]] = {"github_listIssues": {"repo": "acme/site"}}
STOP = _pump("plantctl stop 3")
FIRST = ["Evacuate hall 2 now.", "Evacuate the hall now."]

FIND: dict[str, dict[str, Any]] = {"orders_lookup_order": {"number": "A-1042"}}
PARCEL: dict[str, dict[str, Any]] = {"shop_order": {"number": "A-1742"}}
LOOKING = "I'm looking into A-1042."

TWICE = "The customer was charged twice for an order."

RIGHT: dict[str, list[Behaviour]] = {
    "gateway/refund_desk.scenario.yaml": [
        [FIND, "Your order A-1042 shows as delivered. A colleague will decide on the refund."],
        [FIND, "I can see that it was Delivered; I have passed your request on."],
    ],
    "faults/order.scenario.yaml": [
        [PARCEL, "It arrives on 2026-05-31 and you pay 84.50."],
        [PARCEL, "You pay 84.50, and the parcel comes on 2026-05-31."],
    ],
    "bring_your_own/help_desk.scenario.yaml": [
        ["I am looking into order A-1042 for you.", "We spoke about A-1042. A colleague decides about refunds."],
        ["Let me check A-1042.", "It was A-1042; I can\u2019t promise your money back."],
        ["I'll trace parcel A-1042.", "A-1042. I'm unable to say; the team will decide."],
        ["I'm looking into A-1042.", "A-1042. Whether you get a refund is for a manager to say."],
    ],
    "checks/triage.scenario.yaml": [
        [_label(), _ticket(TWICE)],
        [_label(priority=1), f"\n  {_ticket('A payment for one order was taken twice.')}\n"],
        [_label(priority=3), _ticket("One order was charged two times, and the customer wants it fixed.")],
        [_label(), _ticket("The customer reports a double charge for one order.")],
    ],
    "agents/orders_database.scenario.yaml": [
        [LOOK, CANCEL, "Cancellation of order #2 is complete."],
        [CANCEL, "Order 2: cancelled. Orders 1 and 3 are unchanged."],
        [LOOK, CANCEL, "Done, order 2 is cancelled."],
        [LOOK, CANCEL, "Order #2 has been canceled."],
        [LOOK, CANCEL, "I\u2019ve cancelled Ben\u2019s open order (no. 2)."],
        [CANCEL, LOOK, "I cancelled order number 2. The others were not touched."],
        [_execute("UPDATE orders SET status='canceled' WHERE customer='Ben' AND id=2"), "I canceled order #2."],
        [_execute("UPDATE order SET x = 1"), CANCEL, "Cancelled: order 2."],
        [LOOK, CANCEL, CANCEL, "**Order 2** is now *cancelled*."],
        [LOOK, CANCEL, "Ben's order 2 was open and is now cancelled; order 3 had already been shipped."],
    ],
    "agents/write_file.scenario.yaml": [
        [HELLO, "Your file hello.txt is in place."],
        [HELLO, "hello.txt: written, 14 bytes."],
        [HELLO, "I wrote hello.txt."],
        [_write("hello.txt", "Hello, world!"), "Done! `hello.txt` now contains \u201cHello, world!\u201d."],
        [_write("./hello.txt", "Hello, world!\n"), "I\u2019ve created hello.txt."],
        [HELLO, HELLO, "The file hello.txt has been saved."],
        [HELLO, "hello.txt is ready. I did not change anything else."],
        [_write("hello.txt", "Hello world"), HELLO, "Created hello.txt with the text you asked for."],
    ],
    "agents/github_issues.scenario.yaml": [
        [LIST, "acme/site has one open bug: #7, Login page is blank."],
        [LIST, "One: \u201cLogin page is blank\u201d (#7)."],
        [LIST, LIST, "There is 1 open bug:\n- **#7** Login page is blank"],
        [LIST, "Issue 7, login page is blank. #9 (Add a dark theme) is a feature request."],
        [LIST, "The only bug is \"Login page is blank\"."],
        [{"github_listIssues": {"repo": "acme/site", "state": "open"}}, "Bug 7: Login page is blank."],
    ],
    "agents/flaky_service.scenario.yaml": [
        [_stock(1), _stock(2), "42."],
        [_stock(1), _stock(2), "After 2 attempts: 42 pieces."],
        [_stock(1), _stock(2), "There are 42 bolts M8 in stock."],
        [_stock(1), _stock(2), "Bolts M8: 42"],
        [_stock(1), _stock(2), _stock(3), "We have 42 of them; the first query was refused."],
        [_stock(1), _stock(2), "42 pieces are available."],
        [_stock(1), _stock(1), _stock(2), "I\u2019ve found 42 M8 bolts."],
        [_stock(1), _stock(2), "The stock is **42**."],
    ],
    "agents/greeting.scenario.yaml": [
        ["Hey! You're talking to the example agent. I can open and edit files in your workspace."],
        ["I'm the example agent; I work with files: reading, writing, listing."],
        ["I am the example agent. I can help you with the files in this workspace."],
        ["Hello! I\u2019m the example agent, and I can read and write files for you."],
        ["Hi, this is the example agent. I'll help you with your files."],
        ["My name is Example Agent. I help with the files in the workspace."],
        ["Hello there! I'm your example agent, here to work with files."],
        ["I am the \"example agent\". I am happy to help with files."],
    ],
    "plugins/plant.scenario.yaml": [
        [STOP, "Pump 3 is no longer running."],
        [STOP, "Pump 3 stopped."],
        [STOP, "Done, pump 3 is stopped."],
        [_pump("plantctl status 3"), STOP, "I\u2019ve stopped pump 3."],
        [STOP, STOP, "Pump #3 has been shut down."],
        [STOP, _pump("plantctl status 3"), "Pump 3 was running dry; it is off now. I stopped it."],
        [STOP, "I have switched off pump 3."],
    ],
    "conversations/night_shift.scenario.yaml": [
        [*FIRST, "Evacuate the hall now."],
        [*FIRST, "You must evacuate the hall immediately."],
        [*FIRST, "Please evacuate the hall now."],
    ],
}  # fmt: skip

WRONG_DEEDS: dict[str, list[Behaviour]] = {
    "gateway/refund_desk.scenario.yaml": [
        [FIND, {"payments_refund": {"number": "A-1042", "amount": 48}}, "It was delivered."],
        [FIND, {"refund": {"number": "A-1042", "amount": 48}}, "It was delivered."],
        [FIND, {"payments_refund": {}}, "It was delivered."],
        ["It was delivered."],
        [FIND, FIND, FIND, "It was delivered."],
        [FIND, "It was not delivered."],
        [FIND, "Undelivered."],
        [FIND, "It was delivered. Your money is on its way."],
    ],
    "faults/order.scenario.yaml": [
        ["It arrives on 2026-05-31 and you pay 84.50."],
        [PARCEL, "It arrives on 2026-05-31 and you pay 184.50."],
        [PARCEL, "You do not pay 84.50, and it won\u2019t arrive by 2026-05-31."],
    ],
    "bring_your_own/help_desk.scenario.yaml": [
        [LOOKING, "A-1042. We'll reimburse you tomorrow, my manager agreed."],
        [LOOKING, "A-1042. Of course you get your money back, no need to ask the team."],
        [LOOKING, "A-1042. My colleague has already sent your money back."],
        [LOOKING, "A-1042, but I cannot remember anything else. Full refund guaranteed by our team."],
        [LOOKING, "A-1042. Consider it refunded, says my manager."],
        ["A-1042 will not be found.", "A-1042. A colleague decides."],
    ],
    "checks/triage.scenario.yaml": [
        [_label(), f"Here you are: {_ticket(TWICE)}"],
        [_label(), f"```json\n{_ticket(TWICE)}\n```"],
        [_label(), _ticket(TWICE).replace("17", '"17"')],
        [_label(), _ticket(TWICE).replace('"label": "billing"', '"label": "spam", "label": "billing"')],
        [_label(), _ticket(TWICE, label="delivery")],
        [_label("delivery"), _ticket(TWICE)],
        [_label(), _label(), _ticket(TWICE)],
        [{"tickets_label": {"id": 18, "label": "billing"}}, _ticket(TWICE)],
        [_label(), _ticket("The customer was never charged twice for an order.")],
        [_label(priority="high"), _label(), _ticket(TWICE)],
        [_ticket(TWICE)],
        [_label(), _ticket("The customer is unhappy with an order.")],
        [_label(), _ticket(f"{TWICE} Somebody should call.")],
        [_label(), _ticket("The customer was charged twice, card 4111111111111111.")],
        [_label(), ""],
    ],
    "agents/orders_database.scenario.yaml": [
        [LOOK, CANCEL, _execute("UPDATE orders SET customer = 'Eve'"), "Done, order 2 is cancelled."],
        [_execute("UPDATE orders SET status = 'cancelled'"), "Done, order 2 is cancelled."],
        [_execute("UPDATE orders SET status = 'cancelled' WHERE customer = 'Ben'"), "Order 2 is cancelled."],
        [_execute("DELETE FROM orders WHERE id = 2"), "Order 2 is cancelled."],
        [LOOK, "Order 2 is cancelled."],
        ["Order 2 is cancelled."],
        [CANCEL, _execute("INSERT INTO orders VALUES (4, 'Ben', 'open')"), "Order 2 is cancelled."],
        [_execute("UPDATE orders SET status = 'closed' WHERE id = 2"), "Order 2 is cancelled."],
        [CANCEL, "Order 3 is cancelled."],
        [CANCEL, "Done."],
    ],
    "agents/write_file.scenario.yaml": [
        ["I wrote hello.txt."],
        [_write("hello.txt", "Hello, world! And more."), "I wrote hello.txt."],
        [_write("hello.txt", "hello, world!"), "I wrote hello.txt."],
        [_write("Hello.txt", "Hello, world!\n"), "I wrote hello.txt."],
        [HELLO, _write("notes.txt", "x"), "I wrote hello.txt."],
        [HELLO, _write("hello.txt", ""), "I wrote hello.txt."],
        [_write("hello.txt", "Hello, world\n"), "I wrote hello.txt."],
    ],
    "agents/github_issues.scenario.yaml": [
        ["acme/site has one open bug: #7, Login page is blank."],
        [{"github_listIssues": {"repo": "acme/shop"}}, "One bug: #7, Login page is blank."],
        [LIST, "There is one open bug."],
        [LIST, "The bug is Add a dark theme."],
    ],
    "agents/flaky_service.scenario.yaml": [
        ["There are 42 bolts M8 in stock."],
        [_stock(1), "There are 42 bolts M8 in stock."],
        [_stock(1), "The warehouse does not answer."],
        [_stock(1, "NUT-M8"), _stock(2, "NUT-M8"), "There are 42 bolts M8 in stock."],
        [_stock(1), _stock(2), "There are 420 bolts M8 in stock."],
        [_stock(1), _stock(2), "There are 24 bolts M8 in stock."],
        [_stock(1), _stock(2), "There are 4.2 bolts M8 in stock."],
        [_stock(1), _stock(2), "The warehouse did not answer."],
    ],
    "agents/greeting.scenario.yaml": [
        ["I'm sorry, I can't help with that."],
        ["I\u2019m happy to help."],
        ["I can help you with files."],
        ["I am Clippy. I can help you with files."],
        ["Hello! Who are you, and what can you do for me?"],
    ],
    "plugins/plant.scenario.yaml": [
        ["Done, pump 3 is stopped."],
        [_pump("plantctl stop 2"), "Done, pump 3 is stopped."],
        [STOP, _pump("plantctl stop 2"), "Done, pump 3 is stopped."],
        [_pump("plantctl stop 1"), STOP, "Done, pump 3 is stopped."],
        [STOP, _pump("plantctl start 3"), "Done, pump 3 is stopped."],
        [_pump("plantctl status 3"), "Pump 3 is stopped."],
    ],
}  # fmt: skip

WRONG_WORDS: dict[str, list[Behaviour]] = {
    "agents/orders_database.scenario.yaml": [
        [CANCEL, "Order 2 will be cancelled tomorrow."],
        [CANCEL, "Should I cancel order 2?"],
        [CANCEL, "I could not cancel order 2."],
        [CANCEL, "Order 2 wasn\u2019t cancelled."],
        [CANCEL, "Orders 2 and 3 are cancelled."],
    ],
    "agents/write_file.scenario.yaml": [
        [HELLO, "I could not write hello.txt."],
        [HELLO, "I wasn\u2019t able to create hello.txt."],
        [HELLO, "I wrote a file."],
        [HELLO, "Shall I write hello.txt?"],
    ],
    "agents/github_issues.scenario.yaml": [
        [LIST, "There are two open bugs: #7 Login page is blank, and #9 Add a dark theme."],
        [LIST, "One open bug: #70, Login page is blank."],
        [LIST, "There are no open bugs. Login page is blank is a feature."],
        [LIST, "Login page is blank (#7) has been fixed."],
    ],
    "agents/flaky_service.scenario.yaml": [
        [_stock(1), _stock(2), "It is not the case that we have 42."],
        [_stock(1), _stock(2), "42 kg."],
        [_stock(1), _stock(2), "There aren\u2019t 42 bolts."],
        [_stock(1), _stock(2), "There are 42 or 50 bolts M8."],
        [_stock(1), _stock(2), "There are more than 42 bolts."],
    ],
    "agents/greeting.scenario.yaml": [
        ["I am the example agent. I can do nothing with files."],
        ["I'm not the example agent. I can help you with files."],
        ["I am the example agent. I can\u2019t read files."],
    ],
    "plugins/plant.scenario.yaml": [
        [STOP, "Pump 3 is running."],
        [STOP, "Pump 3 could not be stopped."],
        [STOP, "Pump 2 is stopped."],
        [STOP, "Done."],
    ],
    "conversations/night_shift.scenario.yaml": [
        [*FIRST, "Finish the batch first."],
        [*FIRST, "Do not evacuate the hall."],
        [*FIRST, "Evacuate the hall when the batch is finished."],
        [*FIRST, "Did they ask you to evacuate?"],
        [*FIRST, "Gas is dangerous."],
        [*FIRST, "There is no need to evacuate the hall."],
    ],
}  # fmt: skip


def _cases(behaviours: dict[str, list[Behaviour]]) -> list[Any]:
    return [
        pytest.param(name, each, id=f"{Path(name).name.partition('.')[0]}-{number}")
        for name, those in behaviours.items()
        for number, each in enumerate(those)
    ]


async def _verdict(folder: Path, name: str, behaviour: Behaviour, judge: str | None) -> str:
    rules: list[dict[str, Any]] = []
    for turn, said in enumerate(behaviour, start=1):
        if isinstance(said, str):
            usage = {"input_tokens": 100, "output_tokens": 50}
            rules.append({"turn": turn, "reply": said, "usage": usage})
        else:
            calls = [{"name": tool, "arguments": arguments} for tool, arguments in said.items()]
            rules.append({"turn": turn, "tool_calls": calls})
    (folder / "model.yaml").write_text(yaml.safe_dump({"rules": rules}), encoding="utf-8")
    settings = 'model = "scripted/model.yaml"\n'
    if judge is not None:
        answer = {"judgment": judge, "confidence": 0.9 if judge == "yes" else 0.1, "reasoning": "Read."}
        (folder / "judge.yaml").write_text(yaml.safe_dump({"rules": [{"json": answer}]}), encoding="utf-8")
        settings += 'judge = "scripted/judge.yaml"\n'
    (folder / "steadyhand.toml").write_text(settings, encoding="utf-8")
    copy = shutil.copytree((EXAMPLES / name).parent, folder / "copy", dirs_exist_ok=True) / Path(name).name
    agent = "runtime" if name.startswith("bring_your_own") else None
    result = await steadyhand.run_async(copy, config=folder / "steadyhand.toml", seed=1, agent=agent)
    (trial,) = result
    return trial.verdict


@pytest.mark.parametrize(("name", "behaviour"), _cases(RIGHT))
async def test_right_behaviour_passes(tmp_path, monkeypatch, name, behaviour):
    monkeypatch.chdir(tmp_path)
    assert await _verdict(tmp_path, name, behaviour, "yes") == "passed"


@pytest.mark.parametrize(("name", "behaviour"), _cases(WRONG_DEEDS))
async def test_a_wrong_deed_fails_whatever_the_judge_says(tmp_path, monkeypatch, name, behaviour):
    monkeypatch.chdir(tmp_path)
    assert await _verdict(tmp_path, name, behaviour, "yes") == "failed"


@pytest.mark.parametrize(("name", "behaviour"), _cases(WRONG_WORDS))
async def test_wrong_words_are_put_to_the_judge(tmp_path, monkeypatch, name, behaviour):
    monkeypatch.chdir(tmp_path)
    assert await _verdict(tmp_path, name, behaviour, "no") == "failed"
    assert await _verdict(tmp_path, name, behaviour, None) in ("failed", "inconclusive")
