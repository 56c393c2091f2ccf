"""Writes the comment of the GitHub action on a pull request, or updates the one that is there.

Reads what the step `Run` of the action left in the folder of the reports. Never fails the job: where a token may not
write, as that of a fork, the comment is only missing.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

RESULTS = {"0": "passed", "1": "failed", "2": "could not start", "3": "could not be decided"}
PARTS = {"gate.md": "", "changes.md": "What changed since the baseline", "summary.md": "All results"}
MOST = 60_000
"""GitHub takes 65,536 characters."""
PAGES = 20


def comment(name: str, code: str, folder: Path, artifact: str) -> str:
    """The gate's result first, then what changed and all results, each folded, and the link."""
    parts = [mark(name), f"### Steadyhand: {RESULTS.get(code, f'exit code {code}')}"]
    if artifact:
        parts.append(f"[Reports]({artifact})")
    room = MOST
    for file, title in PARTS.items():
        if not (folder / file).is_file():
            continue
        text = (folder / file).read_text(encoding="utf-8").strip()
        if len(text) > room:
            text = text[:room].rpartition("\n")[0] + "\n\n(cut; the reports have all of it)"
        room = max(room - len(text), 0)
        parts.append(f"<details><summary>{title}</summary>\n\n{text}\n\n</details>" if title else text)
    return "\n\n".join(parts) + "\n"


def mark(name: str) -> str:
    """By which the comment is found again; nobody sees it."""
    return f"<!-- steadyhand {name.replace('--', '- -')} -->"


def ask(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    api = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    request = urllib.request.Request(  # noqa: S310 - GitHub's own address
        f"{api}/repos/{os.environ['GITHUB_REPOSITORY']}{path}",
        None if body is None else json.dumps(body).encode(),
        {
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Accept": "application/vnd.github+json",
            "Content-Type": "application/json",
        },
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def existing(number: str, name: str) -> int | None:
    for page in range(1, PAGES + 1):
        found = ask("GET", f"/issues/{number}/comments?per_page=100&page={page}")
        for each in found:
            if str(each.get("body", "")).startswith(mark(name)):
                return each["id"]
        if len(found) < 100:
            break
    return None


def main() -> None:
    number, name = os.environ["PULL_REQUEST"], os.environ["NAME"]
    text = comment(name, os.environ["CODE"], Path(os.environ["REPORT"]), os.environ.get("ARTIFACT", ""))
    try:
        known = existing(number, name)
        if known is None:
            ask("POST", f"/issues/{number}/comments", {"body": text})
        else:
            ask("PATCH", f"/issues/comments/{known}", {"body": text})
    except (OSError, ValueError) as error:
        why = "it may not write to pull requests" if getattr(error, "code", 0) in (403, 404) else str(error)
        print(f"::warning title=steadyhand::the comment on the pull request could not be written: {why}")


if __name__ == "__main__":
    main()
