"""What was done: one list, each deed once, by all of its names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.records.deed import deeds_in, deeds_of
from steadyhand.records.deed_name import OfferedTool, ToolOffer, is_of_service, likeness, meaning, plain_name
from steadyhand.records.event import ActionTaken, ServiceCalled, TrajectoryStep
from steadyhand.records.trajectory import trajectory_of

BANK = ("transfer", "bank_transfer", "bank.transfer")
SHOP = ("transfer", "shop_transfer", "shop.transfer")


@pytest.mark.parametrize(
    "wanted",
    [
        "bank_transfer", "bank.transfer", "Bank-Transfer", "BANK_TRANSFER", "bank/transfer", "bank:transfer",
        "bank__transfer", "bankTransfer", "transfer", "Transfer", "mcp__bank__transfer", "mcp.bank.transfer",
        "Bank-transfer", "functions.bank_transfer", "functions.transfer", "transfer.__call__", "bank.transfer.__call__",
    ],
)  # fmt: skip
def test_every_name_of_a_deed_finds_it(wanted):
    assert likeness(wanted, BANK) == "yes"


@pytest.mark.parametrize(
    ("wanted", "names", "found"),
    [
        ("shop.transfer", BANK, "no"),
        ("ransfer", BANK, "no"),
        ("bank", BANK, "no"),
        ("transfer_back", BANK, "no"),
        ("transfer", ["wire_transfer"], "no"),
        ("transfer", ["mcp__bank__transfer"], "yes"),
        ("transfer", ["Bank-transfer"], "yes"),
        ("get_rate", ["bank-get_rate"], "yes"),
        ("transfer", ["transfer.__call__"], "yes"),
        ("bank.transfer", ["mcp__bank__transfer"], "yes"),
        # whose it is does not settle it
        ("bank.transfer", ["transfer"], "maybe"),
        ("bank.transfer", ["mcp__desk__transfer"], "maybe"),
        ("mcp__desk__transfer", BANK, "maybe"),
        ("transfer", ["bank-transfer"], "maybe"),
        ("STOP", ["E-STOP"], "maybe"),
        ("create_issue", ["mcp_github_create_issue"], "maybe"),
        ("create_issue", ["github-mcp-server-create_issue"], "maybe"),
        ("mcp_github_create_issue", ["create_issue"], "maybe"),
        ("create_issue", ["github_create_issue"], "no"),
        ("delete", ["delete\u200b"], "yes"),
        ("delete", ["d\u0435lete"], "yes"),
        ("delete user", ["delete\u2013user()"], "yes"),
        ("delete|user", ["delete\\user"], "yes"),
        ("mcp__a__transfer", ["mcp__b__transfer"], "no"),
        ("a.b.transfer", ["b.transfer"], "no"),
        ("b.transfer", ["a.b.transfer"], "yes"),
    ],
)
def test_near_misses(wanted, names, found):
    assert likeness(wanted, names) == found


@given(
    st.lists(st.from_regex(r"[A-Za-z][a-z0-9]{1,6}", fullmatch=True), min_size=1, max_size=4),
    st.lists(st.sampled_from([".", "_", "-", "/", ":", "__"]), min_size=4, max_size=4),
    st.sampled_from([str.upper, str.lower, str.title, str]),
)
def test_case_and_separators_never_hide_a_name(words, separators, case):
    written = "".join(case(word) + separator for word, separator in zip(words, separators, strict=False))
    written = written.rstrip("._-/:")
    assert plain_name(written) == "".join(words).casefold()
    assert likeness(written, ["_".join(words)]) == "yes"


@pytest.mark.parametrize(
    ("wanted", "done", "offered", "things", "deeds"),
    [
        ("transfer", [BANK], [BANK], ("bank.transfer",), (0,)),
        ("transfer", [BANK], [BANK, SHOP], ("bank.transfer", "shop.transfer"), (0,)),
        ("transfer", [BANK, SHOP], [], ("bank.transfer", "shop.transfer"), (0, 1)),
        ("bank.transfer", [BANK, SHOP], [BANK, SHOP], ("bank.transfer",), (0,)),
        # the action of that very name, not the method
        ("transfer", [BANK, ("transfer",)], [BANK, ("transfer",)], ("transfer",), (1,)),
        ("readFile", [("github.readFile", "readFile")], [("read_file",), ("github.readFile", "readFile")],
         ("github.readFile",), (0,)),
        ("READ_FILE", [], [("read_file",), ("github.readFile", "readFile")], ("github.readFile", "read_file"), ()),
        # a report without the service is that of the only service there is
        ("transfer", [("transfer",), BANK], [], ("bank.transfer",), (0, 1)),
        ("transfer", [("mcp__desk__transfer",), BANK], [BANK], ("bank.transfer",), (0, 1)),
    ],
)  # fmt: skip
def test_what_a_name_means(wanted, done, offered, things, deeds):
    found = meaning(wanted, done, offered)
    assert (found.things, found.deeds) == (things, deeds)


def test_an_offer():
    offer = ToolOffer(
        tools=(
            OfferedTool(name="bank_transfer", service="bank", method="transfer"),
            OfferedTool(name="pay"),
            OfferedTool(service="mail"),
            OfferedTool(service="", method="ping"),
        ),
        complete=True,
    )
    assert [offer.has(name) for name in ("transfer", "PAY", "mail.send", "x.ping")] == [True] * 4
    assert [offer.has(name) for name in ("banc.transfer", "payment", "send", "bank")] == [False] * 4
    assert [offer.has_call("Bank", None), offer.has_call("mail", "any"), offer.has_call("x", "ping")] == [True] * 3
    assert not offer.has_call("bank", "refund")
    assert offer.has_call("banc", None)  # `ping` of any service is mocked
    assert not ToolOffer(tools=offer.tools[:3]).has_call("banc", None)
    assert set(offer.names_of(("transfer",))) == {"bank_transfer", "bank.transfer", "transfer"}
    assert str(offer) == "*.ping, bank.transfer, mail.*, pay"


@pytest.mark.parametrize(
    ("service", "name", "found"),
    [
        ("bank", "bank_transfer", True),
        ("bank", "mcp__bank__x", True),
        ("bank", "bankrupt", False),
        ("a-b", "aB_c", True),
        ("a-b", "a_b_c", True),
        ("bank", "bank", False),
    ],
)
def test_a_name_of_a_service(service, name, found):
    assert is_of_service(service, [name]) is found


def did(name, at_ms=0.0, **fields):
    return TrajectoryStep(type="action", at_ms=at_ms, name=name, **fields)


def called(at_ms=0.0, service="bank", method="transfer", **fields):
    return ServiceCalled(at_ms=at_ms, service=service, method=method, **fields)


@pytest.mark.parametrize(
    ("action", "call", "count"),
    [
        (did("x", id="1", params={"a": 1}), called(action_id="1", input={"b": 2}), 1),
        (did("transfer", params={"a": 1}), called(input={"a": 1}), 1),
        (did("bank_transfer", params={"a": 1}), called(args=[{"a": 1}]), 1),
        (did("transfer", params={"a": 1, "b": 2}), called(args=[1, 2]), 1),
        (did("transfer"), called(input={"a": 1}), 1),
        (did("transfer", params={"a": 1}, duration_ms=9.0), called(5.0, input={"whole": 1}), 1),
        (did("transfer", params={"a": 1}), called(input={"a": 2}), 2),
        (did("transfer", params={"a": 1}, duration_ms=9.0), called(10.0, input={"a": 2}), 2),
        (did("shop.transfer", params={"a": 1}), called(input={"a": 1}), 2),
        (did("pay", params={"a": 1}), called(input={"a": 1}), 2),
        (did("transfer", id="2", params={"a": 1}), called(action_id="1", input={"a": 1}), 2),
        (did("transfer", status="rejected"), called(), 2),
    ],
)
def test_an_action_and_the_call_behind_it_are_one_deed(action, call, count):
    deeds = deeds_of([action], [call])
    assert len(deeds) == count
    if count == 1:
        assert {"bank.transfer", "transfer", action.name} <= set(deeds[0].names)


def test_what_we_saw_counts_and_not_what_was_reported():
    (deed,) = deeds_of([did("transfer", status="success")], [called(error="no funds")])
    assert deed.status == "error"


def test_each_call_is_behind_one_action_only():
    deeds = deeds_of([did("transfer"), did("transfer")], [called(), called(), called()])
    assert len(deeds) == 3


def test_calls_inside_an_action_of_that_name_are_part_of_it():
    deeds = deeds_of([did("transfer", duration_ms=9.0)], [called(1.0, error="busy"), called(5.0), called(20.0)])
    assert [(deed.name, deed.inside) for deed in deeds] == [
        ("transfer", False),
        ("bank.transfer", True),
        ("bank.transfer", False),
    ]


def test_a_report_gets_the_names_of_the_only_tool_it_can_be():
    bank, shop = (OfferedTool(service=name, method="transfer") for name in ("bank", "shop"))
    (deed,) = deeds_of([did("transfer")], [], ToolOffer(tools=(bank,)))
    assert likeness("bank_transfer", deed.names) == "yes"
    (deed,) = deeds_of([did("transfer")], [], ToolOffer(tools=(bank, shop)))
    assert likeness("bank_transfer", deed.names) == "no"
    assert likeness("bank.transfer", deed.names) == "maybe"


def test_a_tool_of_the_agents_own_that_is_only_much_alike():
    offer = ToolOffer(tools=(OfferedTool(service="github", method="readFile"),))
    (deed,) = deeds_of([did("read_file")], [], offer)
    assert likeness("github.readFile", deed.names) == "maybe"
    (deed,) = deeds_of([did("GitHub-readFile")], [], offer)
    assert likeness("github.readFile", deed.names) == "yes"


def test_three_witnesses_of_one_deed():
    """Our MCP server saw it, the trace has it under the framework's name, and the agent reports the model's."""
    events = [
        ActionTaken(at_ms=2, id="mcp-1", name="transfer", names=BANK, params={"a": 1}, witnessed=True),
        called(2.5, input={"a": 1}, action_id="mcp-1"),
        ActionTaken(at_ms=1, id="span-1", name="mcp__desk__transfer", params={"a": 1}, traced=True, agent="Desk"),
        ActionTaken(at_ms=3, id="1", name="Bank-transfer", params={"a": 1}),
    ]
    (step,) = trajectory_of(events)
    assert (step.id, step.agent) == ("mcp-1", "Desk")
    (deed,) = deeds_in(events)
    assert {"mcp__desk__transfer", "Bank-transfer", "bank.transfer"} <= set(deed.names)


def test_the_id_of_a_call_joins_what_names_and_parameters_do_not():
    witnessed = ActionTaken(at_ms=1, id="a", name="transfer", params={"a": 1}, witnessed=True, call_id="c1")
    reported = ActionTaken(at_ms=2, id="b", name="Overweisung", params={}, call_id="c1")
    other = ActionTaken(at_ms=3, id="c", name="Overweisung", params={}, call_id="c2")
    assert [step.id for step in trajectory_of([witnessed, reported, other])] == ["a", "c"]


def test_deeds_of_different_turns_are_not_joined():
    action = ActionTaken(at_ms=1, step=0, turn=1, id="1", name="transfer", params={"a": 1})
    assert len(deeds_in([action, called(2, step=0, turn=2, input={"a": 1})])) == 2


@pytest.mark.parametrize("name", ["refund", "shop.refund", "shop_refund"])
def test_a_trace_alone_does_not_prove_a_call_that_would_have_reached_us(name):
    offer = ToolOffer(tools=(OfferedTool(service="shop", method="refund"),))
    traced = TrajectoryStep(
        type="action", at_ms=1.0, name=name, status="success", duration_ms=5.0, witnesses=("trace",)
    )
    (told,) = deeds_of([traced], [], offer)
    assert told.status == "rejected"
    (seen,) = deeds_of([traced], [ServiceCalled(at_ms=2.0, service="shop", method="refund")], offer)
    assert seen.status == "success"
    (own,) = deeds_of([traced], [], ToolOffer(tools=(OfferedTool(service="shop", method="find"),)))
    assert own.status == "success"
