"""What must not be written down."""

from __future__ import annotations

import json
import time

import pytest

from app.lib.errors import InvalidRequest
from app.lib.redaction import REDACTED as X
from app.lib.redaction import Redactor, redact

redact_json = Redactor().redact_json
OURS = "sk-cgw-Zm9vYmFyLWJhei1xdXV4_0123456789"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("nothing in here", "nothing in here", id="nothing"),
        pytest.param(OURS, X, id="a-key-of-ours"),
        pytest.param(f"/v1/resp_{OURS}/x", f"/v1/resp_{X}/x", id="a-key-of-ours-in-a-word"),
        pytest.param(OURS.upper(), X, id="in-capitals"),
        pytest.param("key sk-proj-0123456789ab is bad", f"key {X} is bad", id="a-key-of-openai-s"),
        pytest.param("sk-12345678", X, id="the-shortest"),
        pytest.param("sk-1234567", "sk-1234567", id="too-short-for-a-key"),
        pytest.param("task-management, disk-0123456789", "task-management, disk-0123456789", id="a-word"),
        pytest.param("Authorization: Bearer abc.def-9", f"Authorization: {X}", id="a-bearer-token"),
        pytest.param("BEARER abc", X, id="a-bearer-token-in-capitals"),
        pytest.param("as `Bearer …`", "as `Bearer …`", id="where-a-token-would-stand"),
        pytest.param("forbearer abc", "forbearer abc", id="a-word-that-ends-so"),
        pytest.param("token eyJhbGciOiJIUzI1.eyJzdWIi.c2ln end", f"token {X} end", id="a-jwt"),
        pytest.param(f"{OURS} and {OURS}", f"{X} and {X}", id="twice"),
    ],
)
def test_what_looks_like_a_secret(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize("around", ["\n{}", "\t{}\r", "\f{}", "\b{}", '"{}"', "a {} b", "é{}é", "\\{}"])
@pytest.mark.parametrize("secret", ["sk-proj-0123456789ab", OURS, "Bearer abc.def-9", "eyJhbGciOiJIUzI1.e.c"])
def test_it_is_found_in_json_too(around: str, secret: str) -> None:
    """In JSON `\\n` ends in a letter, which a word may not begin behind."""
    lines = [
        json.dumps({"body": json.dumps(around.format(secret), ensure_ascii=is_ascii)}, ensure_ascii=is_ascii)
        for is_ascii in (False, True)
    ]
    told = [json.loads(redact(line)) for line in lines]
    assert [(X in each["body"], secret in each["body"]) for each in told] == [(True, False)] * 2


@pytest.mark.parametrize(
    ("secrets", "text", "expected"),
    [
        pytest.param(["hunter2hunter2"], "a hunter2hunter2 b", f"a {X} b", id="told"),
        pytest.param(["hunter2hunter2"], "xhunter2hunter2x", f"x{X}x", id="anywhere"),
        pytest.param(
            ["hunter2hunter2", "hunter2hunter2-longer"], "hunter2hunter2-longer", X, id="longest-first"
        ),
        pytest.param(["mod"], "model", "model", id="a-short-one-is-part-of-many-words"),
        pytest.param(["a.c*defgh"], "abcdefgh a.c*defgh", f"abcdefgh {X}", id="no-pattern"),
        pytest.param([], "hunter2hunter2", "hunter2hunter2", id="not-told"),
        pytest.param(["hunter2hunter2"], OURS, X, id="what-looks-like-one-all-the-same"),
    ],
)
def test_what_is_known_to_be_a_secret(secrets: list[str], text: str, expected: str) -> None:
    assert Redactor(secrets).redact(text) == expected


@pytest.mark.parametrize("secret", ['with"quotes"in', "with\\backslash", "with\ttab-in", "mit-ümlaut-darin"])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_secret_is_known_in_json_and_in_json_of_json(secret: str, depth: int) -> None:
    text = secret
    for _ in range(depth):
        text = json.dumps(text, ensure_ascii=False)[1:-1]
    assert Redactor([secret]).redact(f"<{text}>") == f"<{X}>"


def escape(text: str) -> str:
    return "".join(f"\\u{ord(sign):04x}" for sign in text)


@pytest.mark.parametrize(
    ("secret", "written"),
    [
        pytest.param("hunter2/hunter2", "hunter2\\/hunter2", id="a-slash"),
        pytest.param("hunter2hunter2", "hunter2\\u0068unter2", id="a-letter"),
        pytest.param("hunter2-hünter2", "hunter2\\u002Dh\\u00FCnter2", id="in-capitals"),
        pytest.param("hunter2hunter2", escape("hunter2hunter2"), id="all-of-it"),
        pytest.param("hunter2hunter2", escape("hunter2hunter2").replace("\\", "\\\\"), id="in-json-in-json"),
        pytest.param("none-of-these", escape(OURS), id="what-looks-like-one"),
    ],
)
def test_json_may_be_written_otherwise(secret: str, written: str) -> None:
    told = f'{{"a": "{written}"}}'
    assert Redactor([secret]).redact_json(told) == f'{{"a": "{X}"}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"a": "\\u0061\\/b"}', '{"a": "\\u0061\\/b"}', id="no-secret"),
        pytest.param(f'{{"a": "{OURS}"}}', f'{{"a": "{X}"}}', id="a-secret"),
    ],
)
def test_json_that_hides_nothing_stays_as_it_is(text: str, expected: str) -> None:
    assert redact_json(text) == expected


def test_a_row_of_backslashes_takes_no_time() -> None:
    began_s = time.thread_time()
    assert redact_json("\\" * 1_000_000) == "\\" * 1_000_000
    assert time.thread_time() - began_s < 1


def test_no_error_passes_a_key_on() -> None:
    """Whosever words it repeats: upstream's, or the client's own."""
    error = InvalidRequest(f"Incorrect API key provided: {OURS}.")
    assert (str(error), error.to_dict()["error"]["message"]) == (
        f"Incorrect API key provided: {X}.",
        f"Incorrect API key provided: {X}.",
    )
