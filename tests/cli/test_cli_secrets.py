"""Planted canaries come out of no end of the command: record, JSON, JUnit, terminal, stderr."""

from holdfast.store.reader import RunReader

SHAPED = "sk-proj-shaped0123456789"


def outputs(shell, ended) -> dict[str, str]:
    """Everything the command left behind, unpacked where it is packed."""
    runs = [RunReader.open(file) for file in (shell.folder / ".holdfast/runs").glob("*.sqlite")]
    assert runs
    return {
        "stdout": ended.out,
        "stderr": ended.err,
        "json": (shell.folder / "r.json").read_text(),
        "junit": (shell.folder / "r.xml").read_text(),
        "record": "".join(repr(reader.header) + repr(list(reader.trials())) for reader in runs),
        "files": "".join(reader.path.read_bytes().decode("latin-1") for reader in runs),
    }


def test_what_looks_like_a_key_is_in_no_report(shell):
    shell.replies(f"rules:\n  - reply: Take {SHAPED} and run.\n")
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml", "--json", "r.json", "--junit", "r.xml")
    assert ended.code == 1
    found = outputs(shell, ended)
    assert [name for name, text in found.items() if SHAPED in text] == []
    assert "Take " + "*" * len(SHAPED) in found["json"]
