"""Amounts in text."""

from __future__ import annotations

import pytest

from steadyhand.language.amounts import amounts, parse_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.5 mg", "500 mcg"),
        ("0.5 mg", "500 \u00b5g"),
        ("0.5 mg", "500 micrograms"),
        ("0.5 mg", "0,5 mg"),
        ("0.5 mg", ".5mg"),
        ("0.5 mg", "0.0005 g"),
        ("30 ml", "30mL"),
        ("30 ml", "thirty millilitres"),
        ("1 l", "1 000 ml"),
        ("5 min", "300 s"),
        ("5 min", "five minutes"),
        ("-5 \u00b0C", "\u22125 \u00b0C"),
        ("37 \u00b0C", "98.6 \u00b0F"),
        ("100 kPa", "750.06 mmHg"),
        ("1.5 m/s", "1500 mm/s"),
        ("1 m/s", "3.6 km/h"),
        ("15 l/min", "0.25 L/s"),
        ("10 %", "10 per cent"),
        ("0.3..0.5 mg", "0.3-0.5 mg"),
        ("0.3..0.5 mg", "0.3 to 0.5 mg"),
    ],
)
def test_the_same_amount_in_other_units(value, text):
    (found,) = amounts(f"Give {text} now.")
    assert found.sure
    assert found.dimension == parse_value(value).dimension
    assert found.within(parse_value(value)) or pytest.approx(found.low, rel=1e-4) == parse_value(value).low


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.5 mg", "5 mg"),
        ("0.5 mg", "0.5 g"),
        ("0.3..0.5 mg", "0.6 mg"),
        ("-5 \u00b0C", "5 \u00b0C"),
        ("30 ml", "3 ml"),
    ],
)
def test_an_amount_outside(value, text):
    (found,) = amounts(text)
    assert found.outside(parse_value(value))
    assert not found.within(parse_value(value))


@pytest.mark.parametrize(
    "text", ["up to 5 mg", "1,000 ml", "1.000 ml", "2 x 5 mg", "5 mg x 2", "less than 5 mg", "half a mg"]
)
def test_what_can_be_read_in_two_ways_is_not_sure(text):
    assert not any(found.sure for found in amounts(text))


@pytest.mark.parametrize("text", ["5", "BP 82/50", "1:1000", "room 5", "2026", "5 apples", "v1.5 mgx"])
def test_a_number_without_a_unit_is_no_amount(text):
    assert amounts(text) == []


def test_a_range_across_the_bounds_is_neither_inside_nor_outside():
    (found,) = amounts("0.4-1 mg")
    assert not found.within(parse_value("0.3..0.5 mg"))
    assert not found.outside(parse_value("0.3..0.5 mg"))
