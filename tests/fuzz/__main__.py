"""`make fuzz`: scenarios drawn by hypothesis, then bytes for every reader; each in a process of its own.

    python -m fuzz [SECONDS]

Exit code 1 if anything broke. What broke is in `.fuzz/crashes/`: mend the code, and keep the input under its target in
`tests/fuzz/corpus/`, where `make test` tries it again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from fuzz.guided import CRASHES, MEGABYTES, SLOWEST_S, WORK, import_targets, with_atheris, without_atheris

DRAWN = "scenarios"
SHARE_OF_DRAWN = 0.3
VARIANTS = 20


def draw_scenarios(seconds: float) -> None:
    """For so long. Prints how many; raises at the first that breaks something, after making it small."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st
    from hypothesis.database import DirectoryBasedExampleDatabase

    # Not at the top: atheris has to see our modules being imported.
    from fuzz.scenarios import SCENARIOS, agree, loaded_from, mutated

    resource.setrlimit(resource.RLIMIT_AS, (2 * MEGABYTES << 20, 2 * MEGABYTES << 20))
    end, count, last = time.monotonic() + seconds, 0, dict[str, Any]()
    kept = settings(
        max_examples=50,
        deadline=timedelta(seconds=SLOWEST_S),
        database=DirectoryBasedExampleDatabase(WORK / "hypothesis"),
        suppress_health_check=list(HealthCheck),
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
    )

    @kept
    @given(SCENARIOS, st.integers(0, 2**32))
    def check(data: dict[str, Any], number: int) -> None:
        nonlocal count, last
        last = data
        assert loaded_from(data).errors == (), loaded_from(data).errors[0]
        agree(data)
        for variant in range(VARIANTS):
            last = mutated(data, random.Random(number + variant))
            agree(last)
        count += 1 + VARIANTS

    try:
        while time.monotonic() < end:
            seed(int.from_bytes(os.urandom(4)))(check)()
    except BaseException:
        text = json.dumps(last, indent=1)
        CRASHES.mkdir(parents=True, exist_ok=True)
        file = CRASHES / f"{DRAWN}-{hashlib.sha1(text.encode()).hexdigest()}.json"
        file.write_text(text, encoding="utf-8")
        print(f"left in {file}")
        raise
    print(f"stat::number_of_executed_units: {count}")


def run_part(name: str, work: Callable[[], None]) -> bool:
    """Do it in a child and say what became of it in one line; whether it held."""
    began, log = time.monotonic(), WORK / f"{name}.log"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with log.open("wb") as out:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
            work()
            code = 0
        except BaseException:  # noqa: BLE001 -- the parent tells by the exit code, the log by what is in it
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    held = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    said = log.read_text(encoding="utf-8", errors="replace")
    runs = re.findall(r"number_of_executed_units: (\d+)", said)
    reached = re.findall(r"cov: (\d+)", said)
    parts = [
        f"{int(runs[-1]) if runs else 0:>9,} inputs in {time.monotonic() - began:.0f} s",
        f"coverage {reached[-1]}" if reached else "",
        "held" if held else f"BROKE: see {log} and {CRASHES}",
    ]
    print(f"{name:<18}" + ", ".join(part for part in parts if part), flush=True)
    return held


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    WORK.mkdir(exist_ok=True)
    held = {DRAWN: run_part(DRAWN, lambda: draw_scenarios(max(2.0, seconds * SHARE_OF_DRAWN)))}
    fuzz = with_atheris if import_targets() else without_atheris
    if fuzz is without_atheris:
        print("atheris is not installed for this Python and system: using the slower fuzzer in tests/fuzz/guided.py")
    from fuzz.targets import CORPUS, TARGETS, scratch

    scratch()  # one for all children, removed with this process
    each = max(2, int(seconds * (1 - SHARE_OF_DRAWN) / len(TARGETS)))
    held |= {name: run_part(name, functools.partial(fuzz, name, each)) for name in TARGETS}
    broke = [name for name, well in held.items() if not well]
    kept = sum(1 for _ in CORPUS.glob("*/*"))
    print(f"fuzzed for {seconds} s with {kept} kept inputs: " + (f"{', '.join(broke)} broke" if broke else "all held"))
    sys.exit(1 if broke else 0)


if __name__ == "__main__":
    main()
