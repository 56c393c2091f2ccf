from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from steadyhand.errors import AgentError, MockError, PluginError
from steadyhand.ports.services import Action, ActionContext, ProvidedService, ServiceFault
from steadyhand.records.event import ActionTaken, Noted, ServiceCalled
from steadyhand.records.scenario import Mock, MockFault, MockWhen
from steadyhand.runtime.runtime import AgentRuntime
from support.trial import HERE, ListedMocks, TrialStandIn, a_scenario

LIST = Mock(service="github", method="listIssues", place=HERE, response=[{"id": 1}])


class Weather:
    """Logs when it is started and stopped."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.thread: int | None = None

    async def start(self, trial: Any) -> None:
        self.log.append(f"start {trial.trial_id}")

    async def stop(self) -> None:
        self.log.append("stop")

    async def today(self, city: str, *, unit: str = "C") -> dict[str, Any]:
        """The weather of today."""
        return {"city": city, "unit": unit}

    def slow(self) -> str:
        self.thread = threading.get_ident()
        return "done"

    def refuses(self) -> None:
        raise ServiceFault("too many requests", code="RATE", status=429)

    def breaks(self) -> None:
        raise KeyError("oops")

    @property
    def expensive(self) -> Any:
        raise AssertionError("a property must not be evaluated")


async def opened(folder: Path, *, mocks: tuple[Mock, ...] = (), live: bool = False, **parts: Any):
    trial = TrialStandIn(folder, a_scenario(mocks=mocks), live=live)
    runtime = AgentRuntime(mocks=ListedMocks(mocks), **parts)
    trial.services = runtime
    await runtime.open(trial)
    return runtime, trial


def weather(service: Weather, *, tools: bool = False) -> dict[str, ProvidedService]:
    return {"weather": ProvidedService(build=lambda: service, plugin="sky", tools=tools)}


async def test_a_mock_answers_and_the_call_is_an_event(tmp_path: Path):
    runtime, trial = await opened(tmp_path, mocks=(LIST,))
    assert await runtime.get_service("github").listIssues("me", state="open") == [{"id": 1}]
    (event,) = trial.of(ServiceCalled)
    assert (event.service, event.method, event.args, event.input) == ("github", "listIssues", ["me"], {"state": "open"})
    assert (event.mock, event.result, event.error) == ("a.scenario.yaml:3:5", [{"id": 1}], None)
    assert event.duration_ms >= 0


async def test_a_lone_object_counts_as_named_parameters(tmp_path: Path):
    mock = Mock(service="github", method="get", place=HERE, when=MockWhen(input={"id": 4}), response="four")
    runtime, _ = await opened(tmp_path, mocks=(mock,))
    assert await runtime.get_service("github").get({"id": 4}) == "four"
    assert await runtime.get_service("github").get(id=4) == "four"


async def test_a_simulated_error_is_a_fault_with_the_mocks_place(tmp_path: Path):
    mock = Mock(method="push", place=HERE, error=MockFault(code="E", message="rate limit exceeded"))
    runtime, trial = await opened(tmp_path, mocks=(mock,))
    with pytest.raises(ServiceFault, match="rate limit exceeded"):
        await runtime.get_service("git").push()
    (event,) = trial.of(ServiceCalled)
    assert (event.mock, event.error) == ("a.scenario.yaml:3:5", "rate limit exceeded")


async def test_nobody_answers(tmp_path: Path):
    runtime, trial = await opened(tmp_path, mocks=(LIST,))
    with pytest.raises(ServiceFault) as raised:
        await runtime.get_service("github").close(3)
    assert str(raised.value) == (
        "cannot call github.close: it is not mocked, and no plugin provides the service 'github' "
        "(mocked here: github.listIssues)"
    )
    assert trial.of(ServiceCalled)[0].error == str(raised.value)


async def test_mocked_but_not_for_these_arguments(tmp_path: Path):
    mock = Mock(service="github", method="get", place=HERE, when=MockWhen(input={"id": 4}), response="four")
    runtime, _ = await opened(tmp_path, mocks=(mock,))
    with pytest.raises(ServiceFault, match="no mock matches these arguments"):
        await runtime.get_service("github").get(id=5)


async def test_what_no_mock_matches_goes_to_the_real_service(tmp_path: Path):
    service = Weather()
    runtime, trial = await opened(tmp_path, mocks=(LIST,), services=weather(service))
    assert service.log == []
    assert await runtime.get_service("weather").today("Bern", unit="F") == {"city": "Bern", "unit": "F"}
    assert await runtime.get_service("weather").today("Genf") == {"city": "Genf", "unit": "C"}
    assert trial.of(ServiceCalled)[0].mock is None
    await runtime.close()
    await runtime.close()
    assert service.log == ["start a#0", "stop"]


async def test_a_service_that_is_not_called_is_never_built(tmp_path: Path):
    def build() -> Any:
        raise AssertionError("built")

    runtime, _ = await opened(tmp_path, services={"x": ProvidedService(build=build, plugin="p")})
    assert await runtime.offered() == []
    await runtime.close()


async def test_concurrent_first_calls_build_one_service(tmp_path: Path):
    built: list[Weather] = []

    def build() -> Weather:
        built.append(Weather())
        return built[-1]

    runtime, _ = await opened(tmp_path, services={"weather": ProvidedService(build=build, plugin="sky")})
    async with asyncio.TaskGroup() as group:
        for city in "abc":
            group.create_task(runtime.call("weather", "today", [city], {}))
    assert len(built) == 1
    assert built[0].log == ["start a#0"]


async def test_a_service_is_built_where_the_event_loop_is(tmp_path: Path):
    class NeedsLoop(Weather):
        def __init__(self) -> None:
            super().__init__()
            self.loop = asyncio.get_running_loop()

    runtime, _ = await opened(tmp_path, services={"n": ProvidedService(build=NeedsLoop, plugin="p")})
    assert await runtime.call("n", "slow", [], {}) == "done"


async def test_plain_methods_run_in_a_thread(tmp_path: Path):
    service = Weather()
    runtime, _ = await opened(tmp_path, services=weather(service))
    assert await runtime.get_service("weather").slow() == "done"
    assert service.thread not in (None, threading.get_ident())


async def test_faults_pass_and_anything_else_is_the_plugins(tmp_path: Path):
    runtime, trial = await opened(tmp_path, services=weather(Weather()))
    with pytest.raises(ServiceFault) as fault:
        await runtime.get_service("weather").refuses()
    assert (fault.value.code, fault.value.status) == ("RATE", 429)
    with pytest.raises(PluginError, match=r"weather\.breaks of plugin 'sky' raised KeyError: 'oops' .*test_runtime_s"):
        await runtime.get_service("weather").breaks()
    assert [event.error is not None for event in trial.of(ServiceCalled)] == [True, True]


@pytest.mark.parametrize("method", ["start", "stop", "expensive", "missing"])
async def test_only_public_methods_can_be_called(tmp_path: Path, method: str):
    runtime, _ = await opened(tmp_path, services=weather(Weather()))
    with pytest.raises(ServiceFault, match=f"no method {method!r} \\(it has: breaks, refuses, slow, today\\)"):
        await runtime.call("weather", method, [], {})


async def test_a_proxy_has_no_private_methods(tmp_path: Path):
    runtime, _ = await opened(tmp_path)
    with pytest.raises(AttributeError):
        _ = runtime.get_service("x")._secret


async def test_a_service_that_cannot_start_or_stop(tmp_path: Path):
    class Bad:
        async def start(self, trial: Any) -> None:
            raise OSError("no route")

    class Stuck(Weather):
        async def stop(self) -> None:
            raise OSError("busy")

    good = Weather()
    runtime, trial = await opened(
        tmp_path,
        services={
            "bad": ProvidedService(build=Bad, plugin="p"),
            "good": ProvidedService(build=lambda: good, plugin="p"),
            "stuck": ProvidedService(build=Stuck, plugin="p"),
        },
    )
    with pytest.raises(PluginError, match="could not start its service 'bad': OSError: no route"):
        await runtime.call("bad", "x", [], {})
    await runtime.call("good", "slow", [], {})
    await runtime.call("stuck", "slow", [], {})
    with pytest.raises(PluginError, match="could not stop 'stuck': OSError: busy"):
        await runtime.close()
    assert good.log[-1] == "stop"
    assert len(trial.of(ServiceCalled)) == 3


async def test_live_ignores_mocks_and_says_so(tmp_path: Path):
    mock = Mock(service="weather", method="today", place=HERE, response="mocked")
    runtime, trial = await opened(tmp_path, mocks=(mock, LIST), live=True, services=weather(Weather()))
    runtime.register_mock("weather.today", lambda city: "registered")
    assert await runtime.get_service("weather").today("Bern") == {"city": "Bern", "unit": "C"}
    with pytest.raises(ServiceFault, match="mocks are off in live mode"):
        await runtime.get_service("github").listIssues()
    assert await runtime.offered() == []
    assert [note.message for note in trial.of(Noted)] == ["live: 2 mocks of the scenario ignored"]


async def test_registered_functions_go_before_the_scenarios_mocks(tmp_path: Path):
    runtime, trial = await opened(tmp_path, mocks=(LIST,))

    async def two(owner: str, *, state: str) -> str:
        return f"{owner} {state}"

    runtime.register_mock("github.listIssues", two)
    assert await runtime.get_service("github").listIssues("me", state="open") == "me open"
    assert trial.of(ServiceCalled)[0].mock == "register_mock('github.listIssues')"

    runtime.register_mock("bad.one", lambda: 1 / 0)
    with pytest.raises(MockError, match=r"mock of bad\.one raised ZeroDivisionError"):
        await runtime.get_service("bad").one()
    for key in ("github.", ".listIssues", "listIssues"):
        with pytest.raises(PluginError, match=r"expected 'service\.method'"):
            runtime.register_mock(key, two)


async def test_large_and_strange_results_are_bounded_in_the_event_only(tmp_path: Path):
    runtime, trial = await opened(tmp_path)
    loop: list[Any] = []
    loop.append(loop)
    values: dict[str, Any] = {"large": "x" * 100_000, "object": object(), "loop": loop, "pair": {(1, 2): {3}}}
    for name, value in values.items():
        runtime.register_mock(f"s.{name}", lambda value=value: value)
        assert await runtime.call("s", name, [], {}) is value
    results = [event.result for event in trial.of(ServiceCalled)]
    assert len(results[0]) < 20_000
    assert "of 100000 characters left out" in results[0]
    assert results[2:] == [["[contains itself]"], {"(1, 2)": [3]}]


async def test_an_interrupted_call_is_an_event_too(tmp_path: Path):
    runtime, trial = await opened(tmp_path)
    begun = asyncio.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    runtime.register_mock("s.wait", forever)
    task = asyncio.create_task(runtime.call("s", "wait", [], {}))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert trial.of(ServiceCalled)[0].error == "interrupted before it answered"


async def test_what_is_offered_to_agents(tmp_path: Path):
    mocks = (
        Mock(service="github", method="listIssues", place=HERE, when=MockWhen(input={"owner": "secret"})),
        Mock(service="github", method="read", place=HERE, when=MockWhen(matcher="args[0].includes('x')")),
        Mock(method="read", place=HERE),
        Mock(service="github", method="get", place=HERE, when=MockWhen(args=[{"id": 3}])),
        Mock(service="github", method="put", place=HERE, when=MockWhen(args=[["a", "b"]])),
        Mock(method="ping", place=HERE, response_fn="(args) => 1"),
        Mock(service="weather", method="today", place=HERE),
        Mock(service="quiet", method="hidden", place=HERE),
    )
    provided = {
        **weather(Weather(), tools=True),
        "quiet": ProvidedService(build=Weather, plugin="p"),
    }
    runtime, _ = await opened(tmp_path, mocks=mocks, services=provided)
    offered = {(item.service, item.method): item for item in await runtime.offered()}
    assert list(offered) == [
        ("weather", "breaks"), ("weather", "refuses"), ("weather", "slow"), ("weather", "today"),
        ("github", "listIssues"), ("github", "read"), ("github", "get"), ("github", "put"), ("", "ping"),
    ]  # fmt: skip
    assert offered["weather", "today"].description == "The weather of today."
    assert set(offered["weather", "today"].parameters["properties"]) == {"city", "unit", "args"}
    listing = offered["github", "listIssues"].parameters
    assert set(listing["properties"]) == {"owner", "args"}
    assert "required" not in listing
    assert "secret" not in str(offered)
    assert offered["github", "read"].parameters["required"] == ["args"]
    assert "id" in offered["github", "get"].parameters["properties"]
    assert "required" not in offered["github", "get"].parameters
    assert offered["github", "put"].parameters["required"] == ["args"]
    assert "required" not in offered["", "ping"].parameters
    await runtime.close()


async def test_actions_get_their_context(tmp_path: Path):
    async def handler(params: dict[str, Any], context: ActionContext) -> Any:
        issues = await context.get_service("github").listIssues()
        return [params, issues, context.config["key"], context.trial.trial_id]

    def broken(params: dict[str, Any], context: ActionContext) -> Any:
        raise TypeError("bad")

    actions = {
        "list": Action(name="list", handler=handler, config={"key": "k"}),
        "broken": Action(name="broken", handler=broken, plugin="p"),
    }
    runtime, trial = await opened(tmp_path, mocks=(LIST,), actions=actions)
    assert await runtime.perform("list", {"a": 1}) == [{"a": 1}, [{"id": 1}], "k", "a#0"]
    assert len(trial.of(ServiceCalled)) == 1
    with pytest.raises(PluginError, match="action 'broken' of plugin 'p' raised TypeError: bad"):
        await runtime.perform("broken", {})


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


async def test_a_call_with_what_cannot_be_recorded_is_an_event_and_an_error(tmp_path):
    trial, runtime = TrialStandIn(tmp_path), AgentRuntime(mocks=ListedMocks([LIST]))
    await runtime.open(trial)
    with pytest.raises(AgentError, match=r"called with values that cannot be recorded.*no words"):
        await runtime.call("github", "listIssues", [Unspeakable()], {})
    (called,) = trial.of(ServiceCalled)
    assert (called.service, called.method) == ("github", "listIssues")
    assert "no words" in called.error


async def test_a_result_that_cannot_be_recorded_does_not_hide_the_call(tmp_path):
    trial, runtime = TrialStandIn(tmp_path), AgentRuntime()
    runtime.register_mock("s.m", lambda *_: Unspeakable())
    await runtime.open(trial)
    await runtime.call("s", "m", [{("a", 1): 2}], {})
    (called,) = trial.of(ServiceCalled)
    assert called.args == [{"('a', 1)": 2}]
    assert "no words" in called.result


async def test_an_action_that_an_agent_performs_is_an_event_by_itself(tmp_path):
    def refuse(params, context):
        raise ServiceFault("not today")

    actions = {
        "delete": Action(name="delete", handler=lambda params, context: "gone"),
        "refuse": Action(name="refuse", handler=refuse),
    }
    trial, runtime = TrialStandIn(tmp_path), AgentRuntime(actions=actions)
    await runtime.open(trial)
    assert await runtime.perform("delete", {"id": 17}) == "gone"
    with pytest.raises(ServiceFault):
        await runtime.perform("refuse", {})
    await runtime.perform("delete", {}, recorded=True)
    with pytest.raises(AgentError, match="no words"):
        await runtime.perform("delete", {"id": Unspeakable()})
    taken = [(event.name, event.params, event.status) for event in trial.of(ActionTaken)]
    assert taken == [("delete", {"id": 17}, "success"), ("refuse", {}, "error")]
