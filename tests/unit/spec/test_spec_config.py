import pytest

from steadyhand.errors import FileError
from steadyhand.records.config import Config, Price, ProviderConfig
from steadyhand.spec.config import find_config, read_config

FULL = """\
model = "openai/gpt"
judge = "anthropic/claude"
user_model = "openai/mini"
agent = "runtime"
environment = "local"
env_file = ".env"
out = "runs"
seed = 7
concurrency = 8
timeout_s = 30
retries = 0
rubrics = "rubrics"
sandbox = true
allow_commands = false
strict_judge = true
votes = 3

[models]
TEXT_SMALL = "openai/mini"

[providers.openai]
base_url = "http://localhost:1"
api_key_env = "KEY"
stream = false
requests_per_minute = 60
tokens_per_minute = 1000.5

[prices."openai/gpt"]
input = 1
output = 2.5
"""


def test_every_key(tmp_path):
    file = tmp_path / "steadyhand.toml"
    file.write_text(FULL)
    assert find_config(tmp_path) == Config(
        folder=tmp_path,
        file=file,
        model="openai/gpt",
        judge="anthropic/claude",
        user_model="openai/mini",
        agent="runtime",
        environment="local",
        env_file=".env",
        out="runs",
        seed=7,
        concurrency=8,
        timeout_s=30,
        retries=0,
        rubrics="rubrics",
        sandbox=True,
        allow_commands=False,
        strict_judge=True,
        votes=3,
        models={"TEXT_SMALL": "openai/mini"},
        providers={
            "openai": ProviderConfig(
                requests_per_minute=60,
                tokens_per_minute=1000.5,
                options={"base_url": "http://localhost:1", "api_key_env": "KEY", "stream": False},
            )
        },
        prices={"openai/gpt": Price(input=1, output=2.5)},
    )


def test_the_nearest_file_upwards_counts(tmp_path):
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (tmp_path / "steadyhand.toml").write_text("seed = 1\n")
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.steadyhand]\nseed = 2\n")
    (tmp_path / "a" / "b" / "pyproject.toml").write_text("[tool.other]\nname = 'steadyhand'\n")
    assert find_config(inner).seed == 2
    assert find_config(inner).folder == tmp_path / "a"
    (tmp_path / "a" / "steadyhand.toml").write_text("seed = 3\n")
    assert find_config(inner).seed == 3
    assert find_config(tmp_path).seed == 1


def test_no_file_means_defaults(tmp_path):
    assert find_config(tmp_path) == Config(folder=tmp_path)


def test_mistakes_with_their_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "steadyhand.toml"
    file.write_text(
        "# settings\nmodle = 'openai/gpt'\nconcurrency = 0\nretries = 21\n[providers.openai]\nrequests_per_minute = 0\n"
        "stream = 'yes'\n[prices.\"openai/gpt\"]\ninput = 1\n[unknown]\nx = 1\n"
    )
    with pytest.raises(FileError) as caught:
        read_config(file)
    problems = caught.value.problems
    assert [(p.place.line, p.place.path, p.code) for p in problems] == [
        (2, "modle", "unknown-key"),
        (3, "concurrency", "out-of-range"),
        (4, "retries", "out-of-range"),
        (6, "providers.openai.requests_per_minute", "out-of-range"),
        (8, "prices['openai/gpt'].output", "missing-key"),
        (10, "unknown", "unknown-key"),
    ]
    assert "did you mean `model`?" in str(problems[0])
    assert str(problems[0]).startswith("steadyhand.toml:2:1: ")


@pytest.mark.parametrize(
    "text",
    ["timeout_s = 0", "votes = 0", "retries = -1", "sandbox = 1", "seed = 1.5", "model = ''", "concurrency = '2'"],
)
def test_bounds(text, tmp_path):
    file = tmp_path / "steadyhand.toml"
    file.write_text(text)
    with pytest.raises(FileError):
        read_config(file)


def test_syntax_error_and_project_table(tmp_path):
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.steadyhand]\nseed = \n")
    with pytest.raises(FileError) as caught:
        find_config(tmp_path)
    assert (caught.value.problems[0].code, caught.value.problems[0].place.line) == ("toml-syntax", 2)
    file.write_text("[project]\nname = 'x'\n[tool.steadyhand]\nsed = 1\n")
    with pytest.raises(FileError) as caught:
        find_config(tmp_path)
    (problem,) = caught.value.problems
    assert (problem.place.line, problem.place.path) == (4, "tool.steadyhand.sed")


def test_a_file_that_is_nested_too_deeply_is_one_message(tmp_path):
    file = tmp_path / "steadyhand.toml"
    file.write_text(f"a = {'[' * 5000}{']' * 5000}\n")
    with pytest.raises(FileError, match="nested too deeply"):
        read_config(file)
