"""The plugin in separate projects, as a user's pytest runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import steadyhand.builtin.models.scripted
import steadyhand.report.details
import steadyhand.report.json
import steadyhand.report.terminal  # noqa: F401 - kept loaded: an inner run in this process would load them anew
from steadyhand.api.run import run

pytestmark = pytest.mark.system

pytest_plugins = ["pytester"]

SCENARIO = """\
name: {name}
description: It answers.
tags: [{tags}]
agent: model
environment: {{type: local}}
run: [{{input: {input}, evaluations: [{check}]}}]
judgment: {{strategy: all_pass}}
"""
REPLIES = """\
rules:
  - contains: Break
    fail: {kind: server}
  - contains: Refund
    reply: Your refund is on its way.
  - reply: I cannot help with that.
"""
SAYS_REFUND = "{type: string_contains, value: refund}"
CALLS_REFUND = "{type: trajectory_contains_action, action: refund}"
# Other packages' plugins, one of which imports a whole client library.
_NOT_OURS = ("asyncio", "hypothesispytest", "anyio", "pytest_cov", "platformdirs", "langsmith_plugin")
PLAIN = tuple(word for name in _NOT_OURS for word in ("-p", f"no:{name}"))
RECORDS = ".steadyhand/runs/*.sqlite"


class Project:
    """A folder with one scenario for each verdict, and the pytest that runs in it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.folder = pytester.path
        self.write("steadyhand.toml", 'model = "scripted/replies.yaml"\nretries = 0\n')
        self.write("replies.yaml", REPLIES)
        self.scenario("a_refund", tags="money, smoke")
        self.scenario("b_refuse", asked="Something else", tags="smoke")
        self.scenario("c_unseen", check=CALLS_REFUND)
        self.scenario("d_outage", asked="Break")

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def scenario(
        self, name: str, *, asked: str = "Refund please", tags: str = "", check: str = SAYS_REFUND, more: str = ""
    ) -> Path:
        text = SCENARIO.format(name=name, tags=tags, input=asked, check=check) + more
        return self.write(f"{name}.scenario.yaml", text)

    def pytest(self, *args: str, cached: bool = False) -> pytest.RunResult:
        """In this process, without the plugins that only our own tests need."""
        uncached = () if cached else ("-p", "no:cacheprovider")
        return self.pytester.runpytest_inprocess(*PLAIN, *uncached, *args)

    def process(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(*PLAIN, *args)

    def records(self) -> list[Path]:
        return list(self.folder.glob(RECORDS))


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return Project(pytester)


def test_verdicts_are_pass_fail_and_error_with_evidence_and_one_record(project: Project):
    found = project.process("--steadyhand", "-rA", "-p", "no:cacheprovider")
    found.assert_outcomes(passed=1, failed=2, errors=1)
    assert len(project.records()) == 1
    found.stdout.fnmatch_lines(
        [
            "*ERROR at setup of d_outage*",
            "d_outage: error: *(500)",
            "*b_refuse*",
            "b_refuse: failed: the only check failed: string_contains",
            "  b_refuse.scenario.yaml:*",
            "    reply does not contain 'refund'",
            "    assistant  I cannot help with that.",
            "c_unseen: inconclusive: 1 check could not be decided*",
            "steadyhand: record *.sqlite",
            "PASSED a_refund.scenario.yaml::a_refund",
        ]
    )
    assert found.ret == pytest.ExitCode.TESTS_FAILED


def test_xdist_gives_the_same_verdicts(project: Project):
    found = project.process("--steadyhand", "-n", "2", "-p", "no:cacheprovider")
    found.assert_outcomes(passed=1, failed=2, errors=1)
    assert len(project.records()) == 4
    assert found.stdout.str().count("steadyhand: record") == 4


def test_last_failed_runs_only_what_did_not_pass(project: Project):
    project.pytest("--steadyhand", cached=True)
    (project.folder / "b_refuse.scenario.yaml").unlink()
    project.scenario("b_refuse")
    found = project.pytest("--steadyhand", "--lf", cached=True)
    found.assert_outcomes(passed=1, failed=1, errors=1)
    assert "a_refund" not in found.stdout.str()


@pytest.mark.parametrize(
    ("choice", "counts"), [("skip", {"skipped": 1}), ("error", {"errors": 1}), ("fail", {"failed": 1})]
)
def test_inconclusive_is_what_the_ini_says_and_never_a_pass(project: Project, choice: str, counts: dict[str, int]):
    found = project.pytest("--steadyhand", "-o", f"steadyhand_inconclusive={choice}", "c_unseen.scenario.yaml", "-rs")
    found.assert_outcomes(**counts)
    assert "inconclusive" in found.stdout.str()


def test_an_unknown_choice_for_inconclusive_is_refused(project: Project):
    found = project.pytest("--steadyhand", "-o", "steadyhand_inconclusive=pass")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(["*expected one of fail, error, skip; got 'pass'*"])


def test_x_stops_before_the_next_scenario_runs(project: Project):
    found = project.pytest("--steadyhand", "-x")
    found.assert_outcomes(passed=1, failed=1)
    ran = [rate.scenario_id for record in project.records() for rate in _opened(record)]
    assert sorted(ran) == ["a_refund", "b_refuse"]


def _opened(record: Path):
    from steadyhand.api.run import open_run

    return open_run(record).rates


def test_k_and_m_select_by_id_name_and_tag(project: Project):
    project.pytest("--steadyhand", "-k", "refund").assert_outcomes(passed=1, deselected=3)
    project.pytest("--steadyhand", "--strict-markers", "-m", "smoke").assert_outcomes(passed=1, failed=1, deselected=2)
    assert sorted(len(_opened(record)) for record in project.records()) == [1, 2], "only what is selected runs"


def test_a_tag_named_like_a_marker_of_pytest_neither_skips_nor_excuses(project: Project):
    project.scenario("e_tagged", asked="Something else", tags="skip, xfail, 'tier 1', _")
    found = project.pytest("--steadyhand", "--strict-markers", "-m", "tag_xfail and tier_1")
    found.assert_outcomes(failed=1, deselected=4)


def test_without_opting_in_nothing_is_collected(project: Project):
    assert project.pytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_ini_file_opts_in_and_says_which_files_and_how(project: Project):
    project.write(
        "pytest.ini",
        "[pytest]\nsteadyhand = true\nsteadyhand_files = scenarios/*.yaml\nsteadyhand_trials = 3\n"
        "steadyhand_model =\n  scripted/replies.yaml\n  scripted/always.yaml\n",
    )
    project.write("always.yaml", "rules: [{reply: No refund is due.}]\n")
    (project.folder / "a_refund.scenario.yaml").rename(project.write("scenarios/refund.yaml", ""))
    found = project.pytest("-v")
    found.assert_outcomes(passed=2)
    found.stdout.fnmatch_lines(["*refund.yaml::*model=*always.yaml* PASSED*"])
    (record,) = project.records()
    assert [rate.total for rate in _opened(record)] == [3, 3]


def test_a_broken_file_is_a_collection_error_at_its_place(project: Project):
    project.write(
        "broken.scenario.yaml", SCENARIO.format(name="x", tags="", input="x", check=SAYS_REFUND) + "runn: 1\n"
    )
    found = project.pytest("--steadyhand")
    found.assert_outcomes(errors=1)
    found.stdout.fnmatch_lines(["*broken.scenario.yaml:8:1: runn: unknown key*"])
    assert not project.records()


def test_two_files_with_one_id_are_an_error(project: Project):
    project.write("more/a_refund.scenario.yaml", (project.folder / "a_refund.scenario.yaml").read_text())
    found = project.pytest("--steadyhand")
    found.assert_outcomes(errors=1)
    found.stdout.fnmatch_lines(["*id `a_refund` is already used in *a_refund.scenario.yaml*"])


def test_what_one_scenario_lacks_does_not_decide_the_others(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    project.scenario("e_missing", more="character: {name: Bot, llm: {model: openai/some}}\n")
    found = project.pytest("--steadyhand", "a_refund.scenario.yaml", "e_missing.scenario.yaml")
    assert "OPENAI_API_KEY" in found.stdout.str()
    found.assert_outcomes(passed=1, errors=1)


def test_code_from_outside_the_project_needs_trust(project: Project, tmp_path_factory: pytest.TempPathFactory):
    outside = tmp_path_factory.mktemp("elsewhere")
    ran = outside / "ran"
    check = f"{{type: command_exit_code_is, command: 'touch {ran}', expected_code: 0}}"
    text = SCENARIO.format(name="e_code", tags="", input="Refund please", check=check)
    (outside / "e_code.scenario.yaml").write_text(text.replace("agent: model", "agent: runtime"), encoding="utf-8")
    paths = [str(project.folder / "a_refund.scenario.yaml"), str(outside)]
    rooted = ("--rootdir", str(project.folder), "--steadyhand")
    found = project.pytest(*rooted, *paths)
    found.assert_outcomes(passed=1, errors=1)
    found.stdout.fnmatch_lines([f"*--trust is needed to use command touch {ran}*here it is --steadyhand-trust*"])
    assert not ran.exists()
    project.pytest(*rooted, "--steadyhand-trust", *paths).assert_outcomes(passed=2)
    assert ran.exists()


def test_variants_and_faults_are_tests_of_their_own(project: Project):
    variants = "variants: {same: [{name: polite, append: Thank you.}]}"
    setup = "setup: {mocks: [{method: m, response: r}], faults: [error]}"
    project.scenario("e_varied", asked="Refund please", more=f"{variants}\n{setup}\n")
    project.pytest("--steadyhand", "e_varied.scenario.yaml").assert_outcomes(passed=1)
    options = ("--steadyhand", "--steadyhand-variants", "--steadyhand-faults", "--steadyhand-trials", "50")
    found = project.pytest(*options, "-v", "e_varied.scenario.yaml")
    found.stdout.fnmatch_lines(["*e_varied PASSED*", "*e_varied?polite? PASSED*", "*e_varied?m error? FAILED*"])
    project.pytest(*options, "-k", "polite", "e_varied.scenario.yaml").assert_outcomes(passed=1, deselected=2)


def test_the_fixture_runs_scenarios_beside_the_test(project: Project):
    project.write(
        "test_refund.py",
        "import pytest\n\n"
        "def my_agent(message):\n    return 'The refund is done.'\n\n"
        "def test_agent(steadyhand):\n"
        "    result = steadyhand.run('b_refuse.scenario.yaml', agent=my_agent)\n"
        "    result.assert_passed()\n"
        "    assert len(result) == 2\n\n"
        "@pytest.mark.parametrize('name', ['b_refuse', 'c_unseen', 'd_outage'])\n"
        "def test_not_passed(steadyhand, name):\n"
        "    steadyhand.run([f'{name}.scenario.yaml']).assert_passed()\n",
    )
    project.write("elsewhere/keep", "")
    found = project.pytest("--steadyhand-trials", "2", "test_refund.py")
    found.assert_outcomes(passed=1, failed=3)
    found.stdout.fnmatch_lines(
        [
            "*AssertionError: 1 of 1 scenarios did not pass*",
            "*b_refuse: failed: *",
            "*assistant  I cannot help with that.",
            "*1 more of 2 trials did not pass*",
            "*c_unseen: inconclusive: *",
            "*d_outage: error: *",
        ]
    )


def test_evidence_names_the_trial_and_the_rest(project: Project):
    result = run(str(project.folder / "b_refuse.scenario.yaml"), config=project.folder / "steadyhand.toml", trials=3)
    told = result.evidence("b_refuse")
    assert told.startswith("b_refuse: failed: ")
    assert told.endswith(f"2 more of 3 trials did not pass: steadyhand show {result.id}")
    with pytest.raises(KeyError):
        result.evidence("nobody")


def test_pytest_loads_one_module_for_the_plugin(tmp_path):
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass")
    code = (
        f"import sys, pytest; assert not pytest.main(['-q', *{PLAIN}]); "
        "print(*sorted(name for name in sys.modules if 'steadyhand' in name))"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout.splitlines()[-1] == "pytest_steadyhand"
