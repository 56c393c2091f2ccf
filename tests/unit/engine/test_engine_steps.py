from __future__ import annotations

import shutil

import pytest

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.engine.steps import code_command
from steadyhand.plugins.plugin import EnvironmentSettings


@pytest.mark.parametrize(
    ("lang", "code", "printed"),
    [
        ("bash", "echo ${BASH_VERSION:+bash}", "bash"),
        ("bash", "x=(1 2); echo ${x[1]}", "2"),
        ("sh", "echo 'it is $0'", "it is $0"),
        ("python", "print(1 +\n  1)", "2"),
        ("Python", "print('\"quoted\"')", '"quoted"'),
        ("node", "console.log([1, 2].map(x => x + 1).join())", "2,3"),
        ("javascript", "console.log(`a${1}`)", "a1"),
    ],
)
async def test_code_is_run_by_its_language(tmp_path, lang, code, printed):
    argv = code_command(lang, code)
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    local = LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t"))
    ran = await local.run(argv)
    await local.teardown()
    assert (ran.exit_code, ran.stdout.strip()) == (0, printed), ran.stderr


def test_other_languages_get_their_code_with_dash_c():
    assert code_command("fish", "echo 1") == ["fish", "-c", "echo 1"]
