"""Recorded runs for reports: one with hostile text wherever text can be, and one of as many trials as wanted."""

import msgspec

from steadyhand.compose.running import rates_of
from steadyhand.judging.rates import scenario_rates
from steadyhand.records.chat import (
    Attempt,
    CallTiming,
    Finish,
    FinishReason,
    InvariantTimeline,
    Message,
    SafetyAtDeadline,
)
from steadyhand.records.evaluation import (
    EvaluationResult,
    Evidence,
    FailureClass,
    JudgeNote,
    LatencyBounds,
    LatencyTier,
    Outcome,
    RubricScore,
    Verdict,
)
from steadyhand.records.event import (
    ActionTaken,
    CommandRan,
    ErrorHappened,
    FileChanged,
    ModelCalled,
    Noted,
    Observed,
    Said,
    ServiceCalled,
    Thought,
)
from steadyhand.records.location import Place
from steadyhand.records.result import ConversationEnding
from steadyhand.records.run import Judged, TrialKey, TrialRecord
from steadyhand.report.html.page import to_html
from steadyhand.store.reader import RunReader
from steadyhand.store.writer import RunWriter
from support.sample_trials import HEADER, typical

HOSTILE = (
    "</script></style></title><script>window.pwned = 1</script>"
    "<img src=x onerror='window.pwned = 2'><svg onload=\"window.pwned = 3\"></svg>"
    "<a href='javascript:window.pwned=4'>click</a><style>body{display:none}</style>"
    "<iframe src='https://example.org/'></iframe>--><!-- {{ 7 * 7 }} {% raw %} &lt; \u202eevil\u202c \u200b\x1b[2J\x00"
    "<meta http-equiv=refresh content='0;url=https://example.org/'><base href='https://example.org/'>\ud800"
)
LONG_LINE = "x" * 1_000_000
PLACE = Place(file=f"h{HOSTILE}.yaml", line=2, column=1, path=f"checks[0]{HOSTILE}")


def hostile_trial() -> TrialRecord:
    """Hostile text in every field that may come from a model, an agent, a service, a file or an author."""
    bad = HOSTILE
    invariant = EvaluationResult(
        verdict=Verdict.FAILED,
        message=f"found {bad}",
        type=f"type{bad}",
        name=f"name{bad}",
        description=f"says {bad}",
        severity=1.0,
        place=PLACE,
        evidence=Evidence(expected=bad, found=bad, where=bad, excerpt=bad, span=(3, 9)),
        judge=JudgeNote(
            model=bad,
            prompt_hash="h",
            raw=bad,
            reasoning=bad,
            capabilities={bad: True},
            votes=(bad, "no"),
            not_shown=(bad,),
            question=bad,
            confidence=0.5,
        ),
        budget=None,
    )
    budget = EvaluationResult(
        verdict=Verdict.PASSED,
        message="in time",
        type="latency_budget",
        budget=LatencyBounds(target_ms=100, acceptable_ms=200, critical_ms=300),
    )
    text = bad + LONG_LINE
    call = ModelCalled(
        at_ms=1.0,
        step=0,
        model=bad,
        purpose="agent",
        text=text,
        timing=CallTiming(
            attempts=(Attempt(started_ms=0, sent_ms=0, first_token_ms=50, last_byte_ms=90),),
            chunks=((50.0, len(bad)), (90.0, len(LONG_LINE))),
        ),
        finish=Finish(reason=FinishReason.STOP, raw=bad),
    )
    return TrialRecord(
        key=TrialKey(scenario_id=f"id{bad}"),
        scenario_name=f"name{bad}",
        place=PLACE,
        digest="d",
        started_at="2026-11-16T10:44:56+00:00",
        duration_ms=100.0,
        agent=bad,
        model=bad,
        domain=bad,
        tags=(bad,),
        judged=Judged(
            verdict=Verdict.FAILED,
            reason=bad,
            outcome=Outcome.UNSAFE_IN_TIME,
            latency_ms=90.0,
            latency_tier=LatencyTier.TARGET,
            time_to_first_token_ms=50.0,
            safety_at_deadline=SafetyAtDeadline(target=False, acceptable=False, critical=False),
            failure_classes=(FailureClass.CRITICAL_INVARIANT,),
            safety_score=0.0,
            time_to_safe_excludes=(bad,),
            rubric=RubricScore(name=bad, scores={bad: 0.5}, reason=bad, fabricated=True, evidence=bad),
            invariants_over_time=(InvariantTimeline(name=f"name{bad}", changes=((50.0, False),)),),
        ),
        evaluations=(invariant, budget),
        events=(
            Said(at_ms=0.0, step=0, message=Message(role="system", content=bad)),
            Said(at_ms=0.0, step=0, message=Message(role="user", content=bad), pressure=bad),
            call,
            Said(at_ms=2.0, step=0, message=Message(role="assistant", content=text)),
            Thought(at_ms=3.0, step=0, text=bad),
            ActionTaken(at_ms=3.0, step=0, id="1", name=bad, params={bad: bad}),
            Observed(at_ms=4.0, step=0, action_id="1", name=bad, content={bad: [bad, LONG_LINE]}),
            ServiceCalled(at_ms=5.0, step=0, service=bad, method=bad, args=[bad], mock=bad, error=bad),
            CommandRan(at_ms=6.0, step=0, command=bad, exit_code=1, stdout=bad, stderr=bad),
            FileChanged(at_ms=7.0, step=0, path=bad, change="modified", before=f"{bad}\nold", after=f"{bad}\nnew"),
            ErrorHappened(at_ms=8.0, phase=bad, message=bad, error_type=bad, traceback=bad),
            Noted(at_ms=9.0, message=bad, level="warning"),
        ),
    )


def hostile_talk() -> TrialRecord:
    """The same in a conversation."""
    trial = hostile_trial()
    check = msgspec.structs.replace(trial.evaluations[0], stage="turn", turn=1)
    said = [event for event in trial.events if isinstance(event, Said)]
    return msgspec.structs.replace(
        trial,
        key=TrialKey(scenario_id=f"talk{HOSTILE}"),
        evaluations=(check,),
        events=tuple(msgspec.structs.replace(event, turn=1) for event in said),
        conversations=(
            ConversationEnding(
                step=0, turns=1, terminated_early=True, termination_reason=HOSTILE, termination_evidence=HOSTILE
            ),
        ),
    )


def recorded(folder, trials, *, header=HEADER, sources=None) -> RunReader:
    """The trials as a finished run on disk."""
    header = msgspec.structs.replace(header, planned=len(trials))
    writer = RunWriter.create(folder, header, sources=sources)
    for trial in trials:
        writer.append(trial)
    writer.close("finished")
    return RunReader.open(writer.path)


def hostile_run(folder) -> RunReader:
    """The id and the command line are what the tool itself makes; everything else is hostile."""
    header = msgspec.structs.replace(HEADER, command=("run", HOSTILE))
    source = f"first: line\nsecond: {HOSTILE}\n  more: {HOSTILE}\n"
    return recorded(folder, [hostile_trial(), hostile_talk()], header=header, sources={PLACE.file: source})


def large_run(folder, count) -> RunReader:
    """Typical decisions, a tenth of which failed."""
    return recorded(folder, [typical(n, Verdict.FAILED if n % 10 == 0 else Verdict.PASSED) for n in range(count)])


def rates_for(reader):
    """What the command passes to a report; without a plan, from the trials."""
    counts = reader.counts_per_scenario()
    return rates_of(reader) if reader.plan() else scenario_rates(counts, planned={})


def page_of(reader) -> bytes:
    return b"".join(to_html(reader, rates_for(reader)))
