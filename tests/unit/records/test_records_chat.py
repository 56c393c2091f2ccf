from steadyhand.records.chat import Message
from steadyhand.records.event import ActionTaken, Observed, Said, ServiceCalled, Thought, TrajectoryStep, transcript_of
from steadyhand.records.trajectory import trajectory_of

USER = Said(at_ms=0.0, message=Message(role="user", content="hi"))
AGENT = Said(at_ms=9.0, message=Message(role="assistant", content="done"))
EVENTS = (
    USER,
    Thought(at_ms=1.0, text="look first"),
    ServiceCalled(at_ms=3.0, service="github", method="read"),
    Observed(at_ms=5.0, action_id="1", name="READ", content={"ok": True}),
    ActionTaken(at_ms=2.0, id="1", name="READ", params={"path": "a"}, status="error", duration_ms=3.0),
    AGENT,
)


def test_transcript():
    assert transcript_of(EVENTS) == (USER, AGENT)


def test_trajectory_is_in_order_of_time():
    assert trajectory_of(EVENTS) == (
        TrajectoryStep(type="thought", at_ms=1.0, content="look first"),
        TrajectoryStep(
            type="action",
            at_ms=2.0,
            name="READ",
            params={"path": "a"},
            status="error",
            duration_ms=3.0,
            id="1",
            witnesses=("agent",),
        ),
        TrajectoryStep(type="observation", at_ms=5.0, name="READ", content={"ok": True}),
    )


def test_the_same_moment_keeps_the_order_of_emission():
    at_once = (ActionTaken(at_ms=0.0, id="1", name="A"), Observed(at_ms=0.0, action_id="1", name="A"))
    assert [step.type for step in trajectory_of(at_once)] == ["action", "observation"]
