"""Looking for forbidden text in answers without it, as multiples of lower-casing an answer and searching it."""
# ruff: noqa: RUF001

from __future__ import annotations

import time

from benchmarks.figures import Figure
from steadyhand.text_match import is_forbidden

PIECES = ("not that urgent", "don't worry", "it can wait", "take a painkiller", "\u4e0d\u7528\u62c5\u5fc3")
SENTENCES = {
    "ASCII": "Please call an ambulance now and keep the patient still. Give aspirin if not allergic. ",
    "typographic": "Don\u2019t wait \u2014 call 112 now; the caf\u00e9\u2019s first-aid kit has an AED. ",
    "Japanese": "すぐに救急車を呼んでください。（意識）を確認します！ ",
    "Arabic": "اتصل بالإسعاف فورًا، من فضلك. ",
}
SIZES = {"short": 200, "20 KB": 20_000}
ROUNDS = 9
AT_MOST = {("ASCII", "short"): 20, ("ASCII", "20 KB"): 5}


def measure() -> list[Figure]:
    figures: list[Figure] = []
    for script, sentence in SENTENCES.items():
        for size, characters in SIZES.items():
            bare, folded = _times((sentence * (characters // len(sentence) + 1))[:characters])
            name = f"{len(PIECES)} forbidden texts in a {size} answer, {script}"
            figures.append(Figure(name=name, value=folded * 1e6, unit="us"))
            if (at_most := AT_MOST.get((script, size))) is not None:
                figures.append(
                    Figure(name="  / lower-casing and searching", value=folded / bare, unit="x", at_most=at_most)
                )
    return figures


def _times(text: str) -> tuple[float, float]:
    """The best times for one new answer, in seconds: the bare search, and ours."""
    bare: list[float] = []
    folded: list[float] = []
    for number in range(ROUNDS):
        answers = [f"{text}{number}{at}" for at in range(20)]  # new ones: an answer's fold is kept
        started = time.perf_counter()
        for answer in answers:
            lowered = answer.lower()
            assert not any(piece in lowered for piece in PIECES)
        halfway = time.perf_counter()
        for answer in answers:
            assert not any(is_forbidden(answer, piece, case_sensitive=False) for piece in PIECES)
        bare.append((halfway - started) / len(answers))
        folded.append((time.perf_counter() - halfway) / len(answers))
    return min(bare), min(folded)
