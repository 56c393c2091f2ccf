import math

import pytest

from steadyhand.spec.yaml import MAX_DEPTH, YamlError, parse


def data(text: str):
    _, value, faults = parse(text)
    assert faults == []
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("false", False),
        ("False", False),
        ("FALSE", False),
        ("null", None),
        ("Null", None),
        ("NULL", None),
        ("~", None),
        ("nULL", "nULL"),
        ("012", 12),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", "0b101"),
        ("-0o7", "-0o7"),
        ("+7", 7),
        ("-12", -12),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5E-2", -0.015),
        ("1.2.3", "1.2.3"),
        (".", "."),
        ("-", [None]),
        ("12:30:45", "12:30:45"),
        ("2020-01-01", "2020-01-01"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("+.Inf", math.inf),
        ('"012"', "012"),
        ("'true'", "true"),
        ("!!str 12", "12"),
        ("!!int 12", 12),
        ("!!float 12", 12.0),
        ("!!null ~", None),
        ("|\n  012\n", "012\n"),
        ("=", "="),
    ],
)
def test_plain_scalars_follow_the_core_schema(text, value):
    found = data(text)
    assert found == value
    assert type(found) is type(value)


def test_not_a_number():
    assert math.isnan(data(".nan"))


def test_keys_are_text_as_written_and_merge_is_an_ordinary_key():
    assert data("1: a\non: b\ntrue: c\n0.50: d\n") == {"1": "a", "on": "b", "true": "c", "0.50": "d"}
    assert data("base: &b {x: 1}\nuse:\n  <<: *b\n") == {"base": {"x": 1}, "use": {"<<": {"x": 1}}}


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate-key", 3, 1),
        ('a: 1\n"a": 3\n', "duplicate-key", 2, 1),
        ("a: !secret x\n", "unknown-tag", 1, 4),
        ("a: !!python/name:os.system x\n", "unknown-tag", 1, 4),
        ("a: !!set {x}\n", "unknown-tag", 1, 4),
        ("a: !!binary aGk=\n", "unknown-tag", 1, 4),
        ("a: !!int x\n", "bad-tag", 1, 4),
        ("? [1, 2]\n: x\n", "complex-key", 1, 3),
        ("a: " + "9" * 5000 + "\n", "bad-number", 1, 4),
        ("a: " + "9" * 400 + "\n", "bad-number", 1, 4),
        ("a: 0x" + "f" * 400 + "\n", "bad-number", 1, 4),
    ],
)
def test_faults_are_noted_and_reading_goes_on(text, code, line, column):
    _, value, faults = parse(text + "last: here\n")
    assert [(fault.code, fault.line, fault.column) for fault in faults] == [(code, line, column)]
    assert value["last"] == "here"


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join('*' + before for _ in range(10))}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (LAUGHS, "alias-bomb", 5),
        ("a: &a\n  - *a\n", "alias-loop", 1),
        ("a: 1\n---\nb: 2\n", "several-documents", 2),
        ("", "empty-file", 1),
        ("# only a comment\n", "empty-file", 1),
        ("a: [1, 2\nb: 3\n", "yaml-syntax", 2),
        ("a: *nothing\n", "yaml-syntax", 1),
        ("a: b\n\tc: d\n", "yaml-syntax", 2),
        ("a: b\nc: \x07\n", "yaml-syntax", 2),
        ("[" * (MAX_DEPTH + 1), "too-deep", 1),
        ("\n".join(" " * depth + "a:" for depth in range(MAX_DEPTH + 1)), "too-deep", MAX_DEPTH),
        ("- " * (MAX_DEPTH + 1) + "x", "too-deep", 1),
    ],
)
def test_what_cannot_be_read_is_one_located_error(text, code, line):
    with pytest.raises(YamlError) as caught:
        parse(text)
    fault = caught.value.fault
    assert (fault.code, fault.line) == (code, line)


def test_aliases_that_stay_small_are_read():
    assert data("a: &a [1, 2]\nb: [*a, *a]\n") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}


def test_aliases_do_not_get_around_the_depth_limit():
    chain = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, MAX_DEPTH + 5))
    with pytest.raises(YamlError, match="levels deep"):
        parse(chain)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"a": "x\ud83d\ude00y", "\uD83D\uDE00": 1}', {"a": "x😀y", "😀": 1}),
        (r'{"a": "\\ud83d\\ude00 \\\ud83d\ude00"}', {"a": r"\ud83d\ude00 \😀"}),
        (r"{a: '\ud83d\ude00'}", {"a": r"\ud83d\ude00"}),
        (r"\ud83d\ude00", r"\ud83d\ude00"),
    ],
)
def test_json_may_write_one_character_as_two_escapes(text, value):
    assert data(text) == value


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (r'{"a": "\ud83d"}', 8),
        (r'{"a": "\ude00\ud83d"}', 8),
        (r'{"a": "x\uD83D and \uDE00"}', 9),
        (r'a: "\ud83d\ude00"', 5),
        (r'a: "\U0000d83d"', 5),
    ],
)
def test_half_a_character_is_one_clear_error(text, column):
    with pytest.raises(YamlError, match=r"found half a surrogate pair, \\\w+; write the character itself") as raised:
        parse(text)
    assert (raised.value.fault.code, raised.value.fault.column) == ("half-character", column)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: x\nrun:\n\t- input: hi\n", (3, 1)),
        ("name: x\n\trun: 3\n", (2, 1)),
        ("a:\n  - b: 1\n \t  c: 2\n", (3, 2)),
        ("a:\n  b: 1\n\tc: 2\n", (3, 1)),
    ],
)
def test_a_tab_in_the_indentation_is_called_one(text: str, place: tuple[int, int]):
    with pytest.raises(YamlError, match="found a tab in the indentation; indent with spaces only") as caught:
        parse(text)
    assert (caught.value.fault.line, caught.value.fault.column) == place


@pytest.mark.parametrize("text", ["a: [1,\n\t2", "a: '\n", "a: 1\n  b: 2\n"])
def test_another_mistake_is_not_blamed_on_a_tab(text: str):
    with pytest.raises(YamlError) as caught:
        parse(text)
    assert "tab" not in str(caught.value)
