"""Amounts in text: numbers with units, compared across units of one dimension."""

from __future__ import annotations

import re

from steadyhand.records.base import Record

Dimension = tuple[str, str]
"""What the unit measures, and per what: ("mass", "") for mg, ("length", "time") for mm/s."""

_UNITS: dict[str, dict[str, float]] = {
    "mass": {"kg": 1e3, "kilogram": 1e3, "g": 1, "gram": 1, "gramme": 1, "gm": 1, "mg": 1e-3, "milligram": 1e-3,
             "milligramme": 1e-3, "\u00b5g": 1e-6, "\u03bcg": 1e-6, "ug": 1e-6, "mcg": 1e-6, "microgram": 1e-6,
             "microgramme": 1e-6, "ng": 1e-9},
    "volume": {"l": 1, "litre": 1, "liter": 1, "dl": 0.1, "cl": 1e-2, "ml": 1e-3, "cc": 1e-3, "millilitre": 1e-3,
               "milliliter": 1e-3},
    "time": {"ms": 1e-3, "millisecond": 1e-3, "s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600,
             "hr": 3600, "hour": 3600, "day": 86400, "week": 604800},
    "substance": {"mol": 1, "mmol": 1e-3, "\u00b5mol": 1e-6, "\u03bcmol": 1e-6, "umol": 1e-6, "meq": 1e-3},
    "units": {"u": 1, "iu": 1, "unit": 1},
    "energy": {"j": 1, "joule": 1, "kj": 1e3, "kwh": 3.6e6},
    "length": {"km": 1e3, "m": 1, "metre": 1, "meter": 1, "cm": 1e-2, "centimetre": 1e-2, "centimeter": 1e-2,
               "mm": 1e-3, "millimetre": 1e-3, "millimeter": 1e-3},
    "share": {"%": 1, "percent": 1},
    "force": {"n": 1, "newton": 1, "kn": 1e3},
    "pressure": {"pa": 1, "kpa": 1e3, "mpa": 1e6, "mmhg": 133.322, "mbar": 100, "bar": 1e5},
    "temperature": {"\u00b0c": 1, "celsius": 1, "c": 1},
    "fahrenheit": {"\u00b0f": 1, "fahrenheit": 1},
    "voltage": {"v": 1, "volt": 1, "mv": 1e-3, "kv": 1e3},
    "current": {"ampere": 1, "amp": 1, "ma": 1e-3},
    "power": {"w": 1, "watt": 1, "kw": 1e3},
    "frequency": {"hz": 1, "khz": 1e3, "rpm": 1 / 60, "bpm": 1 / 60},
}  # fmt: skip
_BY_NAME = {name: (kind, factor) for kind, names in _UNITS.items() for name, factor in names.items()}
UNIT_NAMES = frozenset(_BY_NAME)
_SIGNED = frozenset({"temperature", "fahrenheit", "pressure", "voltage", "share"})
_WORDS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100,
}  # fmt: skip
_NAMES = "|".join(re.escape(name) for name in sorted(_BY_NAME, key=len, reverse=True))
_UNIT = (
    rf"(?:(?:degrees?|deg)\s+)?(?P<unit>{_NAMES}|per\s+cent)s?(?:\s*(?:/|\bper\b)\s*(?P<per>{_NAMES})s?)?(?![\w\u00b5])"
)
_NUMBER = r"[-+\u2212]?(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+|\d+(?:[.,]\d+)?|[.]\d+)"
_AMOUNT = re.compile(
    rf"(?<![\w.,:/])(?P<low>{_NUMBER}|{'|'.join(_WORDS)})"
    rf"(?:\s*(?:-|\u2013|\u2014|\.\.\.?|\bto\b|\u2026)\s*(?P<high>{_NUMBER}|{'|'.join(_WORDS)}))?\s*-?{_UNIT}",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"(?:up to|at (?:most|least)|no (?:more|less) than|(?:less|more|fewer|greater|higher|lower) than"
    r"|(?:max|min)(?:imum)?(?: of)?|under|over|above|below|beyond|exceed(?:s|ing)?|half(?: an?)?|another|total(?: of)?"
    r"|[<>\u2264\u2265\u00d7*]|\d\s*x)\s*$",
    re.IGNORECASE,
)
_TIMES = re.compile(r"\s*(?:x|\u00d7|\*|times)\s*\d", re.IGNORECASE)
_VALUE = re.compile(rf"(?P<low>{_NUMBER})(?:\s*\.\.\s*(?P<high>{_NUMBER}))?\s*{_UNIT}", re.IGNORECASE)


class Measure(Record):
    """An amount at `text[start:end]`, in the basic unit of its dimension: one value, or all from `low` to `high`.

    It is not `sure` if it is only a bound or part of a product, or if its separator may be a decimal point or not.
    """

    low: float
    high: float
    dimension: Dimension
    start: int = 0
    end: int = 0
    sure: bool = True

    def within(self, other: Measure) -> bool:
        """Whether it lies wholly inside `other`, give or take a rounding error."""
        slack = 1e-6 * max(abs(other.low), abs(other.high))
        return other.low - slack <= self.low and self.high <= other.high + slack

    def outside(self, other: Measure) -> bool:
        """Whether no part of it lies inside `other`."""
        slack = 1e-6 * max(abs(other.low), abs(other.high))
        return self.high < other.low - slack or self.low > other.high + slack


def amounts(text: str) -> list[Measure]:
    """All amounts with a known unit, in order. A number without a unit is none."""
    found: list[Measure] = []
    for match in _AMOUNT.finditer(text):
        amount = _amount(match)
        before = text[max(0, match.start() - 20) : match.start()]
        unsure = _BOUND.search(before) is not None or _TIMES.match(text, match.end()) is not None
        found.append(_placed(amount, match, sure=amount.sure and not unsure))
    return found


def parse_value(text: str) -> Measure:
    """`0.3..0.5 mg` or `30 ml`. Raises `ValueError` with what is wrong."""
    match = _VALUE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an amount; write a number or a range with a unit: `30 ml`, `0.3..0.5 mg`")
    amount = _amount(match)
    if not amount.sure:
        raise ValueError(f"{text!r} can be read in two ways; write the number without a separator of thousands")
    if amount.low > amount.high:
        raise ValueError(f"the range {text!r} ends before it begins")
    return amount


def _placed(amount: Measure, match: re.Match[str], *, sure: bool) -> Measure:
    low, high = sorted((amount.low, amount.high))
    return Measure(low=low, high=high, dimension=amount.dimension, start=match.start(), end=match.end(), sure=sure)


def _amount(match: re.Match[str]) -> Measure:
    unit, per = re.sub(r"per\s+cent", "percent", match["unit"].lower()), (match["per"] or "").lower()
    kind, factor = _BY_NAME[unit]
    of, divisor = _BY_NAME[per] if per else ("", 1.0)
    low, low_sure = _number(match["low"], signed=kind in _SIGNED)
    high, high_sure = (low, True) if match["high"] is None else _number(match["high"], signed=kind in _SIGNED)
    if kind == "fahrenheit":
        kind, low, high = "temperature", (low - 32) / 1.8, (high - 32) / 1.8
    scale = factor / divisor
    return Measure(low=low * scale, high=high * scale, dimension=(kind, of), sure=low_sure and high_sure)


def _number(text: str, *, signed: bool) -> tuple[float, bool]:
    """The number, and whether it can be read in one way only: `1,000` and `1.000` cannot."""
    if (word := _WORDS.get(text.lower())) is not None:
        return word, True
    sign = -1.0 if signed and text[0] in "-\u2212" else 1.0
    digits = re.sub(r"[-+\u2212 \u00a0\u202f]", "", text)
    whole, _, decimals = digits.replace(",", ".").partition(".")
    sure = not (len(decimals) == 3 and whole.strip("0"))
    return sign * float(f"{whole or 0}.{decimals or 0}"), sure
