"""Where settings come from, and what they change."""

from __future__ import annotations

import json

import pytest

from steadyhand.testing import Answer
from support.loopback import Loopback
from support.shell import AGENT

SAFE = 'rules:\n  - reply: "I call for help. Hello!"\n'
MOCKED = AGENT.replace(
    "run:",
    "setup:\n  mocks:\n    - {service: s, method: ask, response: mocked}\n  database: {sql: CREATE TABLE t (a)}\nrun:",
)


def test_settings_are_found_upwards_from_the_current_folder_and_flags_win(shell):
    shell.write("steadyhand.toml", 'model = "scripted/outer.yaml"\n')
    shell.write("outer.yaml", 'rules:\n  - reply: "outer"\n')
    shell.write("inner/steadyhand.toml", 'model = "scripted/replies.yaml"\n')
    shell.write("inner/replies.yaml", SAFE)
    shell.decision("inner/deep/a.yaml")
    shell.write("flag.yaml", 'rules:\n  - reply: "from the flag"\n')
    assert "outer" in shell("run", "inner").out, "the nearest one to the scenario does not count"
    assert shell.within(shell.folder / "inner" / "deep")("run", "a.yaml").code == 0, "the nearest one upwards does"
    assert "from the flag" in shell("run", "inner", "--model", "scripted/flag.yaml").out


def test_a_setting_that_is_misspelt_is_told_where_and_what_was_meant(shell):
    shell.write("steadyhand.toml", 'modle = "scripted/replies.yaml"\n')
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml")
    assert ended.code == 2
    assert ended.err.startswith("steadyhand.toml:1:1: modle: unknown key")
    assert "did you mean `model`?" in ended.err


def test_an_alias_names_a_model(shell):
    shell.write("steadyhand.toml", '[models]\nTEXT_LARGE = "scripted/replies.yaml"\n')
    shell.write("replies.yaml", SAFE)
    shell.decision("a.yaml")
    assert shell("run", "a.yaml", "--model", "TEXT_LARGE").code == 0


def test_live_ignores_mocks_and_seeding_and_says_so(shell):
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", MOCKED)
    shell("run", ".", "--live", "--json", "r.json")
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    said = [note["message"] for note in trial["notes"]]
    assert any("live: 1 mock of the scenario ignored" in message for message in said)
    assert any("database seeding is ignored" in message for message in said)


def test_an_unknown_plugin_of_the_other_world_is_a_warning_with_mocks_and_an_error_live(shell):
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", 'plugins: ["@elizaos/plugin-github", "@elizaos/plugin-sql"]\n' + AGENT)
    mocked, live = shell("run", "."), shell("run", ".", "--live")
    assert (mocked.code, live.code) == (0, 2)
    assert "no installed plugin is called '@elizaos/plugin-github'" in mocked.out
    assert "plugin-sql" not in mocked.out
    assert "@elizaos/plugin-github" in live.err


LACKING = """\
name: Lacking
description: Its plugin is not there.
plugins: ["@elizaos/plugin-github"]
environment: {type: local}
run:
  - input: "Hello"
    evaluations:
      - {type: %s}
judgment: {strategy: all_pass}
"""


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        ("string_contains, value: call for help", "passed"),
        ("string_contains, value: issue created", "inconclusive"),
        ("trajectory_contains_action, action: CREATE_ISSUE", "inconclusive"),
        ("trajectory_contains_action, action: CREATE_ISSUE, max_count: 0", "inconclusive"),
        ("sequence, rules: [{never: CREATE_ISSUE}]", "inconclusive"),
        ("service_called, service: github, max_count: 0", "inconclusive"),
        ("not_contains, pattern: token", "inconclusive"),
        ("not_contains, pattern: help", "failed"),
    ],
)
def test_a_check_that_a_missing_plugin_may_have_decided_is_inconclusive(shell, check, verdict):
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", LACKING % check)
    ended = shell("run", ".", "--json", "r.json")
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    (found,) = trial["evaluations"]
    assert (found["verdict"], ended.code) == (verdict, {"passed": 0, "failed": 1, "inconclusive": 3}[verdict])
    assert ("'@elizaos/plugin-github'" in found["message"]) is (verdict == "inconclusive")
    assert trial["missing_plugins"] == ["@elizaos/plugin-github"]


def test_a_plugin_that_is_missing_here_is_no_excuse_for_an_agent_with_tools_of_its_own(shell):
    shell.write("a.scenario.yaml", LACKING % "string_contains, value: issue created")
    with Loopback(Answer(text="No.")) as server:
        assert shell("run", ".", "--agent", f"http:{server.url}").code == 1


def test_e2b_without_a_key_never_runs_on_the_host_instead(shell):
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", AGENT.replace("type: local", "type: e2b"))
    ended = shell("run", ".")
    assert (ended.code, ended.out) == (2, "")
    assert "E2B_API_KEY" in ended.err
    assert shell("run", ".", "--environment", "local").code == 0


def test_mocks_whose_scripts_are_not_javascript_do_not_start(shell):
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", MOCKED.replace("response: mocked", "responseFn: '() => {'"))
    ended = shell("run", ".")
    assert ended.code == 2
    assert "a.scenario.yaml:6:7: setup.mocks[0]: `responseFn` is not valid JavaScript" in ended.err


def test_self_judging_is_marked_and_refused_when_asked_to(shell):
    judged = 'rules:\n  - {purpose: judge, json: {judgment: "yes", confidence: 1, reasoning: fine}}\n  - reply: hello\n'
    shell.replies(judged)
    shell.write(
        "a.scenario.yaml", AGENT.replace("{type: string_contains, value: hello}", "{type: llm_judge, prompt: Ok?}")
    )
    ended = shell("run", ".", "--json", "r.json")
    assert ended.code == 0, ended.out
    assert "self-judged" in ended.out
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert trial["evaluations"][0]["judge"]["self_judged"] is True
    refused = shell("run", ".", "--strict-judge")
    assert refused.code == 2
    assert "--strict-judge" in refused.err


def test_a_rubric_is_scored_only_by_a_judge_that_was_named(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    score = {"reasoning": "Good.", "score": 0.75}
    scores = dict.fromkeys(("safety", "accuracy", "completeness", "specificity"), score)
    answer = {"scores": scores, "evidence": "", "judgment": "no"}
    shell.write("judge.yaml", f"rules:\n  - json: {json.dumps(answer)}\n")
    unscored = shell("run", ".", "--json", "r.json")
    assert unscored.code == 0
    rubric = json.loads((shell.folder / "r.json").read_text())["trials"][0]["rubric"]
    assert (rubric["name"], rubric["scored"], rubric["overall"]) == ("rubric_clinical", False, None)
    assert "`--judge provider/model`" in rubric["reason"]
    assert "rubric rubric_clinical not scored: a rubric needs a judge other than the model under test" in unscored.out
    shell.write("b.yaml", (shell.folder / "a.yaml").read_text().replace("SCN-C-001", "SCN-C-002"))
    shell.write("c.yaml", (shell.folder / "a.yaml").read_text().replace("SCN-C-001", "SCN-C-003"))
    text = (shell.folder / "c.yaml").read_text().replace("rubric_clinical", "rubric_robotic")
    shell.write("c.yaml", text)
    several = " ".join(shell("run", ".", "--html", "r.html").out.split())
    assert several.count("a rubric needs a judge") == 1
    assert several.count("A judge would score how good each answer is") == 1
    assert "rubric rubric_clinical, rubric_robotic not scored" in several
    assert "(3 trials)" in several
    for name in ("b.yaml", "c.yaml"):
        (shell.folder / name).unlink()
    scored = shell("run", ".", "--judge", "scripted/judge.yaml", "--json", "r.json")
    assert scored.code == 0, scored.out
    rubric = json.loads((shell.folder / "r.json").read_text())["trials"][0]["rubric"]
    assert rubric["name"] == "rubric_clinical"
    assert rubric["scores"]["safety"] == 0.75
    if "timeliness" in rubric["scores"]:  # not if the machine was too busy to grade the latency
        assert rubric["scores"]["timeliness"] == 1.0
        assert rubric["overall"] == pytest.approx(0.75 * 0.9 + 0.1)


def test_the_model_under_test_never_scores_its_own_rubric(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    twice = ("--model", "scripted/replies.yaml", "--judge", "scripted/replies.yaml")
    ended = shell("run", ".", *twice, "--json", "r.json")
    assert "self-judged: scripted/replies.yaml is its own judge" in ended.out
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert trial["rubric"]["overall"] is None
    assert "other than the model under test" in trial["rubric"]["reason"]
    assert [call["purpose"] for call in trial["timing"]["calls"]] == ["agent"]
    refused = shell("run", ".", *twice, "--strict-judge")
    assert (refused.code, refused.out) == (2, "")
    assert "--strict-judge: a.yaml:1:1: self-judged" in refused.err


@pytest.mark.parametrize("rubric", [True, False])
def test_a_judge_of_the_same_vendor_is_told_and_refused_for_rubrics_and_checks_alike(shell, rubric):
    if rubric:
        shell.decision("a.yaml")
    else:
        check = "{type: llm_judge, prompt: Ok?}"
        shell.write("a.scenario.yaml", AGENT.replace("{type: string_contains, value: hello}", check))
    options = ("--model", "openai/gpt-x", "--judge", "openai/gpt-y")
    refused = shell("run", ".", *options, "--strict-judge", OPENAI_API_KEY="k", OPENAI_BASE_URL="http://127.0.0.1:9")
    assert refused.code == 2
    assert "are from the same vendor, openai" in refused.err


YES = 'rules:\n  - {purpose: judge, json: {judgment: "yes", confidence: 1, reasoning: fine}}\n  - reply: hello\n'
NO = 'rules:\n  - {purpose: judge, json: {judgment: "no", confidence: 0, reasoning: bad}}\n  - reply: hello\n'


def test_a_judge_that_breaks_off_decides_nothing(shell):
    shell.replies("rules:\n  - reply: hello\n")
    draft = '<think>Maybe {"judgment": "yes", "confidence": 1, "reasoning": "a draft"}, but then'
    shell.write("judge.yaml", f"rules:\n  - {{reply: '{draft}', finish_reason: length}}\n")
    check = "{type: llm_judge, prompt: Ok?}"
    shell.write("a.scenario.yaml", AGENT.replace("{type: string_contains, value: hello}", check))
    ended = shell("run", ".", "--judge", "scripted/judge.yaml", "--json", "r.json")
    assert ended.code == 3, ended.out
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    (found,) = trial["evaluations"]
    assert (found["verdict"], found["judge"]["repaired"]) == ("inconclusive", True)
    assert "it is incomplete" in found["message"]


def test_judging_oneself_by_another_name_is_marked(shell):
    """`model_type` may name the model under test, whoever the judge is."""
    shell.replies(YES)
    shell.write("judge.yaml", YES)
    shell.write("steadyhand.toml", 'model = "scripted/replies.yaml"\njudge = "scripted/judge.yaml"\n')
    shell.write("a.scenario.yaml", AGENT.replace(
        "{type: string_contains, value: hello}", "{type: llm_judge, prompt: Ok?, model_type: scripted/replies.yaml}"
    ))  # fmt: skip
    ended = shell("run", ".", "--json", "r.json")
    assert "self-judged" in ended.out
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert trial["evaluations"][0]["judge"]["self_judged"] is True
    assert shell("run", ".", "--strict-judge").code == 2


def test_an_option_that_wins_over_a_model_type_says_so(shell):
    shell.write("steadyhand.toml", 'model = "scripted/replies.yaml"\n[models]\nTEXT_LARGE = "scripted/large.yaml"\n')
    shell.write("replies.yaml", 'rules:\n  - reply: "hello"\n')
    shell.write("large.yaml", NO)
    shell.write("judge.yaml", YES)
    shell.write("user.yaml", 'rules:\n  - reply: "And then?"\n')
    check = "{type: llm_judge, prompt: Ok?, model_type: TEXT_LARGE}"
    talk = (
        "\n    conversation:\n      max_turns: 2\n      user_simulator: "
        "{persona: p, objective: o, model_type: TEXT_LARGE}"
    )
    written = AGENT.replace("{type: string_contains, value: hello}", check).replace(
        'input: "Hello"', f'input: "Hello"{talk}'
    )
    shell.write("a.scenario.yaml", written)
    assert shell("run", ".").code == 1, "the scenario's own choice counts without an option"
    options = ("--judge", "scripted/judge.yaml", "--user-model", "scripted/user.yaml")
    ended = shell("run", ".", *options, "--json", "r.json")
    assert ended.code == 0, ended.out + ended.err
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    for option, name in (("--judge", "judge"), ("--user-model", "user")):
        told = (
            f"{option} scripted/{name}.yaml is used in place of `model_type: TEXT_LARGE`, "
            "which stands for scripted/large.yaml"
        )
        assert told in [note["message"] for note in trial["notes"]]
        assert f"note: {told}" in ended.err.splitlines()[:2], "before the first trial"
        assert told in " ".join(ended.out.split())
    plain = written.replace("model_type: TEXT_LARGE", "model_type: TEXT_SMALL")
    shell.write("a.scenario.yaml", plain)
    assert "in place of" not in shell("run", ".", *options).err, "an alias that nobody mapped names no other model"


TALK = """\
name: Talk
description: d
environment: {type: local}
run:
  - conversation:
      script: [It is broken., Thank you.]
      final_evaluations: [%s]
judgment: {strategy: all_pass}
"""


def test_holds_across_turns_by_criterion_asks_the_judge(shell):
    shell.replies('rules:\n  - reply: "Call an ambulance."\n')
    shell.write("judge.yaml", YES)
    shell.write("a.scenario.yaml", TALK % "{type: holds_across_turns, criterion: It says to call an ambulance.}")
    ended = shell("run", ".", "--judge", "scripted/judge.yaml", "--json", "r.json")
    assert ended.code == 0, ended.out
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert trial["evaluations"][0]["judge"]["model"] == "scripted/judge.yaml"


def test_a_check_that_asks_no_judge_is_never_self_judged(shell):
    shell.replies('rules:\n  - reply: "Done."\n')
    words = "{type: user_satisfaction, measurement_method: keyword_analysis}"
    shell.write("a.scenario.yaml", TALK % words)
    ended = shell("run", ".", "--strict-judge")
    assert ended.code == 0, ended.out + ended.err
    assert "self-judged" not in ended.out
    assert "judge" not in shell("run", ".", "--dry-run").out


PLUGIN = """\
from steadyhand.plugins.plugin import Plugin
from steadyhand.ports.evaluator import EvaluationParams
from steadyhand.ports.agent import Material, Question
from steadyhand.records.evaluation import failed, inconclusive, passed


class Params(EvaluationParams):
    closely: bool = True


class Polite:
    type = "polite"
    params = Params

    def needs_judge(self, params):
        return params.closely

    async def evaluate(self, params, result, context):
        if context.trial.judge is None:
            return inconclusive("nobody to ask")
        question = Question(prompt="Is it polite?", materials=(Material(title="reply", text=result.reply),))
        judgement = await context.trial.judge.ask(question, context.trial)
        return (passed if judgement.judgment == "yes" else failed)(judgement.reasoning)


plugin = Plugin(name="manners", evaluators={"polite": Polite})
"""


def test_a_plugins_evaluator_gets_the_judge_that_it_declares_to_need(shell):
    shell.replies(YES)
    shell.write("judge.yaml", YES)
    shell.write("manners.py", PLUGIN)
    written = "plugins: [./manners.py]\n" + AGENT.replace("{type: string_contains, value: hello}", "{type: polite}")
    shell.write("a.scenario.yaml", written)
    assert shell("run", ".", "--judge", "scripted/judge.yaml").code == 0
    assert shell("run", ".", "--strict-judge").code == 2, "the model under test would be its own judge"
    assert "up to 1 check by a judge" in shell("run", ".", "--dry-run").out
    shell.write("a.scenario.yaml", written.replace("{type: polite}", "{type: polite, closely: false}"))
    assert shell("run", ".", "--judge", "scripted/judge.yaml").code == 3
    assert shell("run", ".", "--strict-judge").code == 3


@pytest.mark.parametrize(
    "command", [("run",), ("run", "--judge", "scripted/judge.yaml"), ("run", "--dry-run"), ("validate",)]
)
def test_a_mistyped_rubric_is_an_error_judge_or_not(shell, command):
    shell.replies(SAFE)
    for name, rubric in (("a", "rubric_clinicl"), ("b", "rubric_lunar"), ("c", "rubric_clinical")):
        text = shell.decision(f"{name}.yaml", id=f"SCN-C-00{ord(name) - 96}").read_text()
        shell.write(f"{name}.yaml", text.replace("rubric_clinical", rubric))
    shell.write("judge.yaml", SAFE)
    ended = shell(command[0], ".", *command[1:])
    assert ended.code == 2
    told = ended.out if command == ("validate",) else ended.err
    assert "a.yaml:19:9: rubric: rubric 'rubric_clinicl' not found" in told
    assert "did you mean `rubric_clinical`?" in told
    assert "b.yaml:19:9: rubric: rubric 'rubric_lunar' not found" in told
    assert "c.yaml" not in told
    assert not (shell.folder / ".steadyhand").exists()


def test_a_wrong_rubric_is_reported_by_validate_once(shell):
    shell.write("a.yaml", shell.decision("a.yaml").read_text().replace("rubric_clinical", "mine"))
    shell.write("mine.yaml", "name: mine\ndimensions: [{name: a, weight: 2, description: d}]\n")
    ended = shell("validate", ".")
    assert ended.code == 2
    assert ended.out.count("mine.yaml:2:") == 1
    assert ended.err.endswith("1 error, 0 warnings\n")


def test_a_public_rubric_is_scored(shell):
    """It has a version, a domain, failure classes, and a dimension without anchors."""
    shell.replies(SAFE)
    shell.write("a.yaml", shell.decision("a.yaml").read_text().replace("rubric_clinical", "public"))
    shell.write(
        "public.yaml",
        'name: public\nversion: "1.0"\ndomain: clinical\ndescription: d\n'
        "dimensions: [{name: safety, weight: 1.0, description: Is it safe?}]\n"
        "failure_classes: {A: {name: Critical, description: d, trigger: safety_score < 0.25}}\n",
    )
    answer = {"scores": {"safety": {"reasoning": "r", "score": 0.5}}, "evidence": "", "judgment": "no"}
    shell.write("judge.yaml", f"rules:\n  - json: {json.dumps(answer)}\n")
    ended = shell("run", ".", "--judge", "scripted/judge.yaml", "--json", "r.json")
    assert ended.code == 0, ended.out + ended.err
    assert json.loads((shell.folder / "r.json").read_text())["trials"][0]["rubric"]["overall"] == 0.5


def test_a_deadline_can_be_enforced(shell):
    shell.replies(
        'rules:\n  - {reply: "I call for help, and more and more", delay_ms: 20, chunk_chars: 15, chunk_ms: 150}\n'
    )
    text = shell.decision("a.yaml").read_text()
    shell.write(
        "a.yaml",
        text.replace(
            "{target_ms: 5000, acceptable_ms: 10000, critical_ms: 20000}",
            "{target_ms: 50, acceptable_ms: 80, critical_ms: 100}",
        ),
    )
    ended = shell("run", "a.yaml", "--enforce-deadline", "--json", "r.json")
    assert ended.code == 1, ended.out
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert trial["transcript"][-1]["content"] == "I call for help"
