"""Secrets are redacted by value, by shape and by name; nothing else is touched."""

import base64
from urllib.parse import quote_plus

import msgspec
import pytest

from steadyhand.records.chat import CallTiming, Spoiled, SpoiledBy
from steadyhand.records.evaluation import EvaluationResult, Evidence, Verdict
from steadyhand.records.event import ActionTaken, AnyEvent, ModelCalled, Observed, ServiceCalled
from steadyhand.redaction import Redactor, maskable, names_secret, secrets_of

CANARY = "canary-Zq7f93kd02mmx81"


def test_a_known_value_goes_and_the_length_stays():
    text = f"the key is {CANARY}, he said; {CANARY}!"
    mask = "*" * len(CANARY)
    assert Redactor([CANARY]).text(text) == f"the key is {mask}, he said; {mask}!"


def test_a_text_without_secrets_is_the_same_object():
    text = "Call the risk-averse task-force; the bearer immediately waits at https://example.org:8080/a@b."
    assert Redactor([CANARY]).text(text) is text


def test_doing_it_twice_changes_nothing():
    redactor = Redactor([CANARY])
    once = redactor.text(f"postgres://user:{CANARY}@db/x Authorization: Bearer abc123def456 sk-abcdefgh12345678ij")
    assert redactor.text(once) is once
    assert "abc123def456" not in once
    assert "abcdefgh12345678ij" not in once


@pytest.mark.parametrize("cut", [f"...{CANARY[:-4]}", f"{CANARY[5:]}...", CANARY[: len(CANARY) // 2]])
def test_half_of_a_secret_is_enough(cut):
    found = Redactor([CANARY]).text(cut)
    assert set(found) == {"*"} or set(found) == {"*", "."}


@pytest.mark.parametrize(
    "spelt",
    ['pass"word\n1234', 'pass\\"word\\n1234', "pass%22word%0A1234", 'pass"word\\n1234'],
)
def test_other_spellings_of_a_value_go_too(spelt):
    assert set(Redactor(['pass"word\n1234']).text(spelt)) == {"*"}


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcd1234efgh5678",
        "sk-ant-api03-AbCdEf0123456789",
        "ghp_abcdefghijklmnopqrst1234",
        "github_pat_11ABCDEFG0abcdefghij",
        "glpat-abcdefghij1234567890",
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "a1B2-" * 7,
        "xoxb-1234567890-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3.SflKxwRJSMeKKF2QT4",
    ],
)
def test_what_looks_like_a_secret_goes(secret):
    redactor = Redactor()
    mask = "*" * len(secret)
    assert redactor.text(f"see {secret} there") == f"see {mask} there"
    assert redactor.text(f'{{"k":"{secret}"}}') == f'{{"k":"{mask}"}}'
    assert redactor.suspects(msgspec.msgpack.encode({"a": f"x {secret}"}))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer canary12345", "canary12345"),
        ("authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
        ("header 'x-api-key': 'canaryabcdefgh'", "canaryabcdefgh"),
        ("https://api.example.org/v1?api_key=canaryabcdefgh&q=1", "canaryabcdefgh"),
        ("bearer abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz"),
        ("mysql://root:canary@db:3306/shop", "canary"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----", "\nMIIEow\nIBAAKC\n"),
    ],
)
def test_only_the_secret_itself_is_redacted(text, secret):
    assert Redactor().text(text) == text.replace(secret, "*" * len(secret))
    assert Redactor().suspects(msgspec.msgpack.encode(text))


@pytest.mark.parametrize(
    "text",
    [
        "the disk-based-cache-of-the-task-queue-42-and-more",
        "a stretcher bearer immediately",
        "tokens: 1234567890",
        "ask-me-anything-about-2026-please",
        "https://example.org:443/path?x=1",
        "Eastasia and Australasia",
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert Redactor().text(text) is text


def test_which_variables_are_secrets():
    variables = {
        "OPENAI_API_KEY": " canary-one-1 ",
        "DB_PASSWORD": "canary-two-1",
        "aws_secret_access": "canary-three-1",
        "MY_LLM": "canary-four-1",
        "PATH": "/usr/bin:/bin",
        "TOKEN": "short",
    }
    assert secrets_of(variables, ["MY_LLM"]) == {"canary-one-1", "canary-two-1", "canary-three-1", "canary-four-1"}


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("api_key", True),
        ("apiKey", True),
        ("X-Auth-Token", True),
        ("password", True),
        ("accessToken", True),
        ("Authorization", True),
        ("credentials", True),
        ("max_tokens", False),
        ("monkey", False),
        ("key", False),
        ("secretary", False),
        ("first_token_ms", False),
    ],
)
def test_which_entries_are_secrets(name, is_secret):
    assert names_secret(name) is is_secret
    if is_secret:
        assert Redactor().suspects(msgspec.msgpack.encode({name: "x"}))


class Thing:
    def __repr__(self) -> str:
        return f"<Thing {CANARY}>"


def test_every_depth_and_kind_of_a_record_is_reached():
    redactor = Redactor([CANARY])
    events: list[AnyEvent] = [
        ActionTaken(
            at_ms=1, id="1", name="login", params={"user": "ann", "password": "short", "deep": [{"x": (CANARY,)}]}
        ),
        Observed(at_ms=2, action_id="1", name="login", content={"body": CANARY.encode(), CANARY: 1, "thing": Thing()}),
        ServiceCalled(at_ms=3, service="db", method="open", args=[f"postgres://u:{CANARY}@h/d"], error=CANARY),
        ModelCalled(
            at_ms=4,
            model="m",
            purpose="agent",
            timing=CallTiming(spoiled=(Spoiled(kind=SpoiledBy.FAILED, detail=CANARY),)),
            text=CANARY,
        ),
    ]
    assert redactor.suspects(msgspec.msgpack.encode(events, enc_hook=repr))
    clean = redactor.value(events)
    data = msgspec.msgpack.encode(clean, enc_hook=repr)
    assert CANARY.encode() not in data
    assert CANARY[:11].encode() not in data
    read = msgspec.msgpack.decode(data, type=list[AnyEvent])
    assert isinstance(read[0], ActionTaken)
    assert read[0].params["user"] == "ann"
    assert read[0].params["password"] == "*****"
    assert [type(event) for event in read] == [type(event) for event in events]


def test_words_of_the_format_survive_a_variable_that_holds_one():
    redactor = Redactor(["inconclusive", "agent_turn", "model_call", "observation", "successful"])
    result = EvaluationResult(verdict=Verdict.INCONCLUSIVE, message="it is inconclusive", evidence=Evidence())
    event = ActionTaken(at_ms=0, id="observation", name="model_call", status="success")
    assert redactor.value([result, event]) == [result, event]


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        *((word, False) for word in ("x", "call", "know", "index", "activate", "not-needed", "no_key", "Password")),
        *((word, False) for word in ("OLLAMA", "LM-STUDIO", "local key", "no key needed")),
        *((word, True) for word in ("k-123456", "sk-very-secret", "abcDEFghi", "p@ssword", "correct-horse-battery")),
        *((word, True) for word in ("0123456789abcdef", "chat.completion.chunk")),
    ],
)
def test_only_what_is_told_apart_from_ordinary_text_is_masked(value, masked):
    assert maskable(value) is masked
    assert (value in Redactor([value]).text(f"it says {value} here")) is not masked


def test_a_clean_record_is_the_same_object_and_not_suspected():
    event = ActionTaken(at_ms=0, id="1", name="look", params={"tokens": 3, "tool": ["a", {"b": None}]})
    assert Redactor([CANARY]).value(event) is event
    assert not Redactor([CANARY]).suspects(msgspec.msgpack.encode(event))


SECRET = "p@ss/w+rd?~of mine"


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode], ids=["standard", "for URLs"])
@pytest.mark.parametrize("before", ["", "a", "ab", "user:", "Aladdin:"])
@pytest.mark.parametrize("after", ["", "x", "xy", " and more"])
def test_a_known_secret_is_found_in_base64_wherever_it_stands(encode, before, after):
    sent = encode((before + SECRET + after).encode()).decode()
    shown = Redactor([SECRET]).text(f"Basic {sent}")
    padding = "=" * (-len(shown.removeprefix("Basic ").rstrip("=")) % 4)
    left = base64.b64decode(shown.removeprefix("Basic ").replace("*", "A").rstrip("=") + padding, altchars=b"-_")
    assert not any(SECRET.encode()[start : start + 4] in left for start in range(1, len(SECRET) - 5))
    assert Redactor([SECRET]).suspects(sent.encode())


@pytest.mark.parametrize("form", [SECRET.encode().hex(), SECRET.encode().hex().upper(), quote_plus(SECRET)])
def test_a_known_secret_is_found_in_other_forms(form):
    assert Redactor([SECRET]).text(f"a {form} b") == f"a {'*' * len(form)} b"


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("DB_PASS", True), ("PASS", True), ("GITHUB_PAT", True), ("DB_PWD", True), ("PROXY_AUTH", True),
        ("COOKIE", True), ("SESSION_COOKIE", True), ("PWD", False), ("OLDPWD", False), ("PATH", False),
        ("SSH_AUTH_SOCK", False), ("AUTHOR", False), ("COMPASS", False),
    ],
)  # fmt: skip
def test_variables_that_are_called_like_a_secret(name, is_secret):
    assert bool(secrets_of({name: "long enough to count"})) is is_secret


@pytest.mark.parametrize(
    "secret", ["p\u00e4ss w\u00f6rd #1", "UPPER-lower-12", "a\tb\nc<d>|(e)*", "x" * 300, "\u0130stanbul99"]
)
def test_a_secret_of_any_characters_is_suspected(secret):
    held = msgspec.msgpack.encode({"said": f"it is {secret}."})
    assert Redactor([secret]).suspects(held)
    assert not Redactor([secret]).suspects(msgspec.msgpack.encode({"said": "it is nothing."}))


@pytest.mark.no_cover
def test_any_number_of_secrets_is_looked_for():
    secrets = [f"{number:06}-{'ab' * 200}-{number:06}" for number in range(500)]
    redactor = Redactor(secrets)
    assert redactor.suspects(msgspec.msgpack.encode(f"it is {secrets[234]}"))
    assert redactor.suspects(msgspec.msgpack.encode({"password": "x"}))
