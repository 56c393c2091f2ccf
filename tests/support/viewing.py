"""A real viewer on loopback over recorded runs, and requests like those of a browser or an attacker."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec

from steadyhand.records.evaluation import JudgeNote, Verdict
from steadyhand.records.run import SCENARIO_PART, TrialKey
from steadyhand.viewer.labels import LabelBook
from steadyhand.viewer.pages import Viewer
from steadyhand.viewer.server import ViewerServer
from support.report_runs import SAFE_BUT_LATE, TAKEN_BACK, decision, recorded
from support.sample_trials import HEADER

FIRST, SECOND = "20261116-104455-3f9a", "20261116-114455-aaaa"


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class Viewing:
    """A viewer running in this process; `bugs` are its unexpected exceptions."""

    folder: Path
    bugs: list[BaseException] = field(default_factory=list)
    cookie: str = ""

    def __post_init__(self) -> None:
        viewer = Viewer(self.folder, LabelBook(self.folder / "labels.jsonl", "ada"))
        self.server = ViewerServer(viewer, on_bug=self.bugs.append)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()
        self.server.viewer.close()
        assert self.bugs == []

    def enter(self) -> Answer:
        """Follows a link as a browser does, and keeps the cookie."""
        link = urlsplit(self.server.session.link())
        answer = self.get(f"{link.path}?{link.query}")
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask("GET", path, None, headers)

    def post(self, form: Mapping[str, str], path: str = "/labels", **headers: str) -> Answer:
        """Posts a label; its subject is encoded as the form encodes it."""
        about = ("run", "scenario", "trial", "check")
        form = {"of": "?" + urlencode({name: form[name] for name in about}), **form}
        given = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{self.host}", **headers}
        return self._ask("POST", path, urlencode(form), given)

    def _ask(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        given = {"Host": self.host, "Cookie": self.cookie, **{k.replace("_", "-"): v for k, v in headers.items()}}
        connection.request(method, path, body, {name: value for name, value in given.items() if value})
        reply = connection.getresponse()
        answer = Answer(reply.status, dict(reply.getheaders()), reply.read().decode())
        connection.close()
        return answer


def judged(trial, model="m/judge"):
    """The trial with its first check decided by a judge."""
    note = JudgeNote(model=model, prompt_hash="h", raw="yes", reasoning="It says so.", question="Does it order a stop?")
    first, *others = trial.evaluations
    return msgspec.structs.replace(
        trial, tags=("cell", "night"), evaluations=(msgspec.structs.replace(first, judge=note), *others)
    )


def two_runs(folder: Path) -> None:
    """A run whose trials failed in two ways, and a run of the same scenarios that passed."""
    passing = decision("fine", text="STOP.", chunks=[(40.0, 5)], safe_ms=40.0, lanes={"orders_a_stop": ((40.0, True),)})
    prints = {name: {SCENARIO_PART: "d"} for name in ("late", "taken-back", "fine")}
    header = msgspec.structs.replace(HEADER, fingerprints=prints)
    recorded(folder, [SAFE_BUT_LATE, judged(TAKEN_BACK), passing], header=header)
    again = [
        msgspec.structs.replace(
            trial, judged=msgspec.structs.replace(trial.judged, verdict=Verdict.PASSED, reason="all checks passed")
        )
        for trial in (SAFE_BUT_LATE, TAKEN_BACK, passing)
    ]
    recorded(folder, again, header=msgspec.structs.replace(header, id=SECOND))


def trial_address(run: str, scenario: str, number: int = 0) -> str:
    return "/trial?" + urlencode({"run": run, "scenario": scenario, "trial": number})


def key(scenario: str, index: int = 0) -> TrialKey:
    return TrialKey(scenario_id=scenario, index=index)
