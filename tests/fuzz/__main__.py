"""`make fuzz`: scenarios drawn by hypothesis, then bytes for every reader; each in a process of its own.

    python -m fuzz [SECONDS]

Exit code 1 if anything broke. What broke is in `.fuzz/crashes/`: mend the code, and keep the input under its target in
`tests/fuzz/corpus/`, where `make test` tries it again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from fuzz.guided import CRASHES, MEGABYTES, SLOWEST_S, WORK
from fuzz.scenarios import SCENARIOS, Data, agree, loaded_from, mutated
from fuzz.targets import CORPUS, TARGETS

DRAWN = "scenarios"
SHARE_OF_DRAWN = 0.3
VARIANTS = 20


def draw_scenarios(seconds: float) -> None:
    """For so long. Prints how many; exits with 1 at the first that breaks something, after making it small."""
    resource.setrlimit(resource.RLIMIT_AS, (2 * MEGABYTES << 20, 2 * MEGABYTES << 20))
    end, count, last = time.monotonic() + seconds, 0, Data()
    kept = settings(
        max_examples=50,
        deadline=timedelta(seconds=SLOWEST_S),
        database=DirectoryBasedExampleDatabase(WORK / "hypothesis"),
        suppress_health_check=list(HealthCheck),
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
    )

    @kept
    @given(SCENARIOS, st.integers(0, 2**32))
    def check(data: Data, number: int) -> None:
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


def run_part(name: str, seconds: int) -> bool:
    """Run one part in a child and say what became of it in one line; whether it held."""
    module = ["fuzz", DRAWN] if name == DRAWN else ["fuzz.guided", name]
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", *module, str(seconds)], capture_output=True, text=True, errors="replace", check=False
    )
    log = WORK / f"{name}.log"
    log.write_text(ended.stdout + ended.stderr, encoding="utf-8")
    runs = re.findall(r"number_of_executed_units: (\d+)", log.read_text(encoding="utf-8"))
    reached = re.findall(r"cov: (\d+)", log.read_text(encoding="utf-8"))
    held = ended.returncode == 0
    parts = [
        f"{int(runs[-1]) if runs else 0:>9,} inputs in {time.monotonic() - began:.0f} s",
        f"coverage {reached[-1]}" if reached else "",
        "held" if held else f"BROKE: see {log} and {CRASHES}",
    ]
    print(f"{name:<18}" + ", ".join(part for part in parts if part), flush=True)
    return held


def main() -> None:
    if sys.argv[1:2] == [DRAWN]:
        draw_scenarios(float(sys.argv[2]))
        return
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    WORK.mkdir(exist_ok=True)
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed for this Python and system: using the slower fuzzer in tests/fuzz/guided.py")
    each = max(2, int(seconds * (1 - SHARE_OF_DRAWN) / len(TARGETS)))
    shares = {DRAWN: max(2, int(seconds * SHARE_OF_DRAWN)), **dict.fromkeys(TARGETS, each)}
    broke = [name for name, share in shares.items() if not run_part(name, share)]
    kept = sum(1 for _ in Path(CORPUS).glob("*/*"))
    print(f"fuzzed for {seconds} s with {kept} kept inputs: " + (f"{', '.join(broke)} broke" if broke else "all held"))
    sys.exit(1 if broke else 0)


if __name__ == "__main__":
    main()
