"""What parts declare and what the configuration says takes effect: one configuration, options, providers, plugins."""

from __future__ import annotations

import json

import jsonschema
import pytest

from steadyhand.testing import Answer
from support.loopback import Loopback
from support.shell import AGENT, Shell

SAFE = 'rules:\n  - reply: "hello, I call for help"\n'
HELP = Answer(text="I call for help")


def trials(shell: Shell) -> list[dict]:
    return json.loads((shell.folder / "r.json").read_text())["trials"]


# One configuration


def test_a_configuration_beside_a_scenario_further_down_is_ignored_and_named(shell):
    shell.replies(SAFE)
    shell.write("deep/a.scenario.yaml", AGENT)
    shell.write("deep/steadyhand.toml", 'model = "scripted/nowhere.yaml"\n')
    ended = shell("run", ".")
    assert ended.code == 0, ended.err
    assert "deep/steadyhand.toml is ignored: this run uses steadyhand.toml" in ended.err
    assert "deep/steadyhand.toml is ignored" in shell("validate", ".").err


def test_config_chooses_the_configuration(shell):
    shell.write("other/answers.yaml", SAFE)
    shell.write("other/mine.toml", 'model = "scripted/answers.yaml"\n')
    shell.write("a.scenario.yaml", AGENT)
    assert shell("run", ".").code == 2, "no model"
    ended = shell("run", ".", "--config", "other/mine.toml")
    assert ended.code == 0, ended.err
    missing = shell("run", ".", "--config", "nowhere.toml")
    assert missing.code == 2
    assert "nowhere.toml" in missing.err


def test_the_environment_of_the_configuration_is_for_scenarios_that_name_none(shell):
    shell.replies(SAFE)
    config = (shell.folder / "steadyhand.toml").read_text()
    shell.write("steadyhand.toml", f'environment = "e2b"\n{config}')
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml")
    assert (ended.code, "E2B_API_KEY" in ended.err) == (2, True)
    assert shell("run", "a.yaml", "--environment", "local").code == 0
    shell.write("b.scenario.yaml", AGENT)
    assert shell("run", "b.scenario.yaml").code == 0, "the scenario says local itself"


# Options


def test_the_steps_of_the_runtime_agent_can_be_limited(shell):
    calls = "rules:\n  - tool_calls: [{name: list_files, arguments: {}}]\n"
    shell.replies(calls)
    config = (shell.folder / "steadyhand.toml").read_text()
    shell.write("a.scenario.yaml", AGENT)
    for steps in (1, 3):
        shell.write("steadyhand.toml", f"{config}[agents.runtime]\nmax_steps = {steps}\n")
        shell("run", ".", "--json", "r.json")
        (trial,) = trials(shell)
        assert len(trial["timing"]["calls"]) == steps


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("[agents.runtime]\nmax_stepps = 3\n", "unknown key `max_stepps`; did you mean `max_steps`?"),
        ("[agents.runtime]\nmax_steps = 0\n", "expected a number of at least 1, found 0"),
        ("[agents.runtme]\nmax_steps = 3\n", "unknown agent kind 'runtme'; did you mean 'runtime'?"),
        ("[environments.e2b]\ntemplates = 'x'\n", "unknown key `templates`; did you mean `template`?"),
        ("[environments.e2b]\nworkspace = 'here'\n", "must be an absolute path below /, not 'here'"),
        ("[environments.e2b]\ntimeout_s = 1.5\n", "expected a whole number"),
        ("[providers.openai]\nheader = {}\n", "unknown key `header`; did you mean `headers`?"),
        ("[providers.scripted]\nspeed = 3\n", "unknown key `speed`"),
        ("[providers.opnai]\nrequests_per_minute = 3\n", "unknown model provider 'opnai'; did you mean 'openai'?"),
        ("[providers.opnai]\nbase_url = 'http://h/v1'\n", "unknown model provider 'opnai'; did you mean 'openai'?"),
        ("[providers.mine]\ntype = 'anthropc'\n", "unknown model provider 'anthropc'; did you mean 'anthropic'?"),
        ("[providers.openai]\ntype = 'anthropic'\n", "openai is a built-in provider"),
        ("[judges.llm]\nmax_token = 3\n", "unknown key `max_token`; did you mean `max_tokens`?"),
        ("[users.llm]\nx = 3\n", "unknown key `x`"),
    ],
)
def test_an_option_that_no_part_takes_is_refused_at_its_line(shell, written, told):
    """Whether or not this run uses the part."""
    shell.replies(SAFE)
    shell.write("a.scenario.yaml", AGENT)
    config = (shell.folder / "steadyhand.toml").read_text()
    shell.write("steadyhand.toml", config + written)
    line = len(config.splitlines())
    for command in ("run", "validate"):
        ended = shell(command, ".")
        assert ended.code == 2
        assert told in ended.err
        assert f"steadyhand.toml:{line + 1}:" in ended.err or f"steadyhand.toml:{line + 2}:" in ended.err


# Providers


def test_several_servers_in_one_run_each_get_their_own_key_and_headers(shell):
    shell.write("a.scenario.yaml", AGENT.replace("string_contains, value: hello", "llm_judge, prompt: Ok?"))
    verdict = json.dumps({"judgment": "yes", "confidence": 1, "reasoning": "fine"})
    with Loopback(HELP) as tested, Loopback(Answer(text=verdict)) as judging:
        shell.write(
            "steadyhand.toml",
            'model = "first/m"\njudge = "second/m"\n'
            f'[providers.first]\nbase_url = "{tested.url}"\napi_key_env = "FIRST_KEY"\nheaders = {{X-Team = "red"}}\n'
            f'[providers.second]\nbase_url = "{judging.url}"\napi_key_env = "SECOND_KEY"\n',
        )
        keys = {"FIRST_KEY": "first-secret", "SECOND_KEY": "second-secret", "OPENAI_API_KEY": "openai-secret"}
        ended = shell("run", ".", "--json", "r.json", **keys)
        assert ended.code == 0, ended.out + ended.err
        assert [call["model"] for call in trials(shell)[0]["timing"]["calls"]] == ["first/m", "second/m"]
        (one,), (two,) = tested.headers, judging.headers
    assert (one["authorization"], one["x-team"]) == ("Bearer first-secret", "red")
    assert (two["authorization"], two.get("x-team")) == ("Bearer second-secret", None)


def test_a_key_goes_only_to_the_provider_it_belongs_to(shell):
    shell.write("a.scenario.yaml", AGENT.replace("value: hello", "value: help"))
    with Loopback(HELP) as server:
        shell.write("steadyhand.toml", f'model = "mine/m"\n[providers.mine]\nbase_url = "{server.url}"\n')
        ended = shell("run", ".", OPENAI_API_KEY="openai-secret", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
        assert ended.code == 0, ended.out + ended.err
        (headers,) = server.headers
    assert "authorization" not in headers
    shell.write(
        "steadyhand.toml", 'model = "mine/m"\n[providers.mine]\nbase_url = "http://h/v1"\napi_key_env = "MINE"\n'
    )
    told = shell("run", ".", OPENAI_API_KEY="openai-secret").err
    assert "mine/m needs a key: set MINE" in told


def test_an_unknown_provider_is_an_error_with_the_nearest_one(shell):
    shell.write("a.scenario.yaml", AGENT)
    ended = shell("run", ".", "--model", "opnai/gpt")
    assert ended.code == 2
    assert "unknown model provider 'opnai'; did you mean 'openai'?" in ended.err
    assert "give [providers.NAME] a base_url" in ended.err


# Plugins

POLITE = """\
from steadyhand.plugins.plugin import Options, Plugin
from steadyhand.ports.evaluator import EvaluationParams
from steadyhand.records.chat import ChatResponse
from steadyhand.records.evaluation import failed, passed
from steadyhand.records.chat import Attempt


class Params(EvaluationParams):
    word: str


class Polite:
    type = "polite"
    params = Params
    deterministic = True

    async def evaluate(self, params, result, context):
        return (passed if params.word in result.reply else failed)(f"looked for {params.word}")

    def on_text(self, params):
        async def holds(text):
            return params.word in text

        return holds


class EchoOptions(Options):
    say: str = "I call for help, please"


class Echo:
    uses_network = False
    free = True
    options = EchoOptions

    def __init__(self, settings):
        self.name = f"echo/{settings.name}"
        self._say = EchoOptions(**settings.options).say

    async def attempt(self, request, *, zero):
        import time
        at = (time.perf_counter() - zero) * 1000
        attempt = Attempt(started_ms=at, sent_ms=at, first_byte_ms=at, first_token_ms=at, last_byte_ms=at + 1)
        chunks = ((1.0, len(self._say)),)
        return ChatResponse(text=self._say, attempt=attempt, chunks=chunks, finish_reason="stop")

    async def close(self):
        pass


plugin = Plugin(name="manners", evaluators={"polite": Polite}, models={"echo": Echo})
"""
CHECK = '    check_type: regex\n    pattern: "call for help"\n'
POLITE_CHECK = "    check_type: polite\n    params: {word: please}\n"


def installed(shell: Shell, name: str = "manners") -> dict[str, str]:
    """As a wheel would leave it: the module, and metadata that names the entry point."""
    site = shell.folder / "site"
    (site / f"{name}-1.0.dist-info").mkdir(parents=True)
    (site / f"{name}_plugin.py").write_text(POLITE)
    (site / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (site / f"{name}-1.0.dist-info" / "entry_points.txt").write_text(
        f"[steadyhand.plugins]\n{name} = {name}_plugin:plugin\n"
    )
    return {"PYTHONPATH": str(site)}


@pytest.mark.parametrize("way", ["option", "configuration", "scenario", "installed"])
def test_a_decision_scenario_uses_a_plugin(shell, way):
    text = shell.decision("a.yaml").read_text().replace(CHECK, POLITE_CHECK)
    variables = installed(shell) if way == "installed" else {}
    if way != "installed":
        shell.write("manners.py", POLITE)
    shell.write("a.yaml", ("plugins: [./manners.py]\n" if way == "scenario" else "") + text)
    shell.write("steadyhand.toml", 'plugins = ["./manners.py"]\n' if way == "configuration" else "")
    more = ("--plugin", "./manners.py") if way == "option" else ()
    assert shell("validate", "a.yaml", *more, **variables).code == 0
    for say, code in (("I call for help, please", 0), ("No.", 1)):
        table = f'[providers.echo]\nsay = "{say}"\n'
        head = 'plugins = ["./manners.py"]\n' if way == "configuration" else ""
        shell.write("steadyhand.toml", head + (table if way != "scenario" else ""))
        model = "echo/any"
        if way == "scenario":
            shell.write("replies.yaml", f'rules:\n  - reply: "{say}"\n')
            model = "scripted/replies.yaml"
        ended = shell("run", "a.yaml", "--model", model, "--json", "r.json", *more, **variables)
        assert ended.code in (code, 3), ended.out + ended.err
        (trial,) = trials(shell)
        found = {check["type"]: check["verdict"] for check in trial["evaluations"]}
        assert found["polite"] == ("passed" if code == 0 else "failed")


def test_a_third_partys_parts_behave_like_ours(shell):
    """It is free, not paced, tried by selftest, has a time since which it held, and can be rejudged, compared and shown
    as a page."""
    shell.write("manners.py", POLITE)
    shell.write("steadyhand.toml", 'plugins = ["./manners.py"]\n')
    text = shell.decision("a.yaml").read_text().replace(CHECK, POLITE_CHECK)
    shell.write("a.yaml", text + "examples: {good: [Call for help please.], bad: [No.]}\n")
    tested = shell("selftest", "a.yaml")
    assert (tested.code, "1 scenario, 2 answers: 0 defects" in tested.err) == (0, True)
    ended = shell("run", "a.yaml", "--model", "echo/any", "--json", "r.json", "--html", "r.html")
    assert ended.code == 0, ended.out + ended.err
    (trial,) = trials(shell)
    assert (trial["verdict"], trial["time_to_safe_ms"], trial["time_to_safe_excludes"]) == ("passed", 1.0, [])
    assert (trial["latency_tier"], trial["cost"]["cost"]) == ("target", 0.0)
    assert json.loads((shell.folder / "r.json").read_text())["run"]["free_providers"] == ["echo"]
    page = (shell.folder / "r.html").read_text()
    assert "looked for please" in page
    again = shell("rejudge", "last", "--json", "again.json")
    assert again.code == 0, again.out + again.err
    (rejudged,) = json.loads((shell.folder / "again.json").read_text())["trials"]
    assert [check["verdict"] for check in rejudged["evaluations"]] == [
        check["verdict"] for check in trial["evaluations"]
    ]
    compared = shell("compare", "r.json", "again.json")
    assert compared.code == 0, compared.out + compared.err


def test_an_unknown_check_type_names_the_nearest(shell):
    text = shell.decision("a.yaml").read_text()
    shell.write("a.yaml", text.replace("check_type: regex", "check_type: regx"))
    ended = shell("validate", "a.yaml")
    assert ended.code == 2
    assert 'unknown check type "regx"; did you mean `regex`?' in ended.out


def test_the_schema_accepts_what_validate_accepts(shell):
    import yaml

    shell.write("manners.py", POLITE)
    agent = "plugins: [./manners.py]\n" + AGENT.replace("string_contains, value: hello", "polite, word: hello")
    decision = shell.decision("a.yaml").read_text().replace(CHECK, POLITE_CHECK)
    shell.write("a.scenario.yaml", agent)
    shell.write("a.yaml", f"plugins: [./manners.py]\n{decision}")
    assert shell("validate", ".").code == 0
    schemas = json.loads(shell("schema").out)
    for name, text in (("agent", agent), ("decision", decision)):
        jsonschema.Draft202012Validator(schemas[name]).validate(yaml.safe_load(text))
    known = json.loads(shell("schema", "agent", "--plugin", "./manners.py").out)
    wrong = yaml.safe_load(agent.replace("word: hello", "wrod: hello"))
    assert not jsonschema.Draft202012Validator(known).is_valid(wrong), "the plugin's own parameters are in it"
    unknown = yaml.safe_load(AGENT.replace("string_contains, value: hello", "string_contains, valu: hello"))
    assert not jsonschema.Draft202012Validator(schemas["agent"]).is_valid(unknown)


def test_a_plugin_that_is_configured_and_named_by_the_scenario_is_one(shell):
    shell.replies(SAFE)
    shell.write("manners.py", POLITE)
    config = (shell.folder / "steadyhand.toml").read_text()
    shell.write("steadyhand.toml", f'plugins = ["./manners.py"]\n{config}')
    shell.write(
        "a.scenario.yaml", "plugins: [./manners.py]\n" + AGENT.replace("string_contains, value", "polite, word")
    )
    assert shell("run", ".").code == 0
