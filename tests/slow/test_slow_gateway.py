"""The gateway with many agents, and with a Node agent, whose packages npm installs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.gateway_load import wrong_trials

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[2] / "examples" / "gateway"


async def test_ten_thousand_trials_and_no_event_in_the_wrong_one(tmp_path: Path) -> None:
    assert await wrong_trials(tmp_path, trials=10_000) == []


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its packages: the MCP SDK and OpenAI's client for Node."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("node") / "gateway"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules"))
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize(
    ("model", "code", "failed"),
    [("careful", 0, []), ("hasty", 1, ["trajectory_contains_action", "service_called"])],
)
def test_an_agent_of_nodes_own_packages(desk: Path, model: str, code: int, failed: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "steadyhand", "run", "refund_desk.scenario.yaml", "--model", f"scripted/{model}.yaml",
         "--json", f"{model}.json", "--trials", "3"],
        cwd=desk, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == code, ran.stdout + ran.stderr
    for trial in json.loads((desk / f"{model}.json").read_text())["trials"]:
        assert [each["type"] for each in trial["evaluations"] if each["verdict"] == "failed"] == failed
        assert len(trial["timing"]["calls"]) == 2
        assert trial["shows"]["actions"] == trial["shows"]["model_calls"] == "seen"
