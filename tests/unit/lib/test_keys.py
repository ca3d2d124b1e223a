"""Access keys: the keys file read and written, and a key found by its hash."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.keys import (
    ANYBODY,
    GENERAL,
    NAME,
    STRANGER,
    AccessKey,
    KeyLimits,
    KeysFault,
    Role,
    build_entry,
    digest_key,
    find_key,
    name_keys,
    parse_keys,
)

A, B = "a" * 64, "b" * 64
CLIENT, ADMIN = Role.CLIENT, Role.ADMIN


def entry(*lines: str, name: str = "alice", digest: str = A) -> str:
    return "\n".join([f"[{name}]", f'hash = "sha256:{digest}"', *lines, ""])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (), id="nobody"),
        pytest.param("# nobody yet\n", (), id="a-comment"),
        pytest.param(entry(), (AccessKey("alice", A, CLIENT, GENERAL),), id="a-client-by-default"),
        pytest.param(entry('role = "client"'), (AccessKey("alice", A, CLIENT),), id="a-client"),
        pytest.param(entry('role = "admin"'), (AccessKey("alice", A, ADMIN),), id="an-admin"),
        pytest.param(
            entry("requests_per_minute = 60", "max_streams = 4"),
            (AccessKey("alice", A, CLIENT, KeyLimits(60, 4)),),
            id="both-limits",
        ),
        pytest.param(
            entry("max_streams = 0"), (AccessKey("alice", A, CLIENT, KeyLimits(None, 0)),), id="no-limit"
        ),
        pytest.param(
            entry() + entry(name="a-b_9", digest=B),
            (AccessKey("alice", A, CLIENT), AccessKey("a-b_9", B, CLIENT)),
            id="two",
        ),
        pytest.param(
            f'alice = {{hash = "sha256:{A}"}}', (AccessKey("alice", A, CLIENT),), id="a-table-in-a-line"
        ),
        pytest.param(entry(name="x" * 64), (AccessKey("x" * 64, A, CLIENT),), id="the-longest-name"),
    ],
)
def test_parse_keys(text: str, expected: tuple[AccessKey, ...]) -> None:
    assert parse_keys(text) == expected


NAME_RULE = "a name has up to 64 letters, digits, `-` and `_`"
HASH_RULE = "[alice]: hash must be `sha256:` and 64 hex digits"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("[alice", "Expected ']' at the end of a table declaration", id="no-toml"),
        pytest.param("x = " + "[" * 5000, "nested too deeply", id="lists-without-an-end"),
        pytest.param(entry() + entry(digest=B), "Cannot declare ('alice',) twice", id="one-name-twice"),
        pytest.param(entry() + entry(name="bob"), "two names have the same hash", id="one-hash-twice"),
        pytest.param(f'hash = "sha256:{A}"', f"[hash]: {NAME_RULE}", id="no-table"),
        pytest.param(entry(name='""'), f"[]: {NAME_RULE}", id="no-name"),
        pytest.param(entry(name='"a b"'), f"[a b]: {NAME_RULE}", id="a-space-in-a-name"),
        pytest.param(entry(name='"env:1"'), f"[env:1]: {NAME_RULE}", id="a-name-like-one-of-ours"),
        pytest.param(entry(name='"(open)"'), f"[(open)]: {NAME_RULE}", id="a-name-like-nobody-s"),
        pytest.param(entry(name="x" * 65), f"[{'x' * 65}]: {NAME_RULE}", id="a-name-too-long"),
        pytest.param("[a.b]\nhash = 1", "[a]: knows no b", id="a-dotted-name"),
        pytest.param(entry("rpm = 1", 'note = ""'), "[alice]: knows no note, rpm", id="unknown-fields"),
        pytest.param("[alice]", HASH_RULE, id="no-hash"),
        pytest.param(entry(digest="a" * 63), HASH_RULE, id="a-hash-cut"),
        pytest.param(entry(digest="A" * 64), HASH_RULE, id="a-hash-in-capitals"),
        pytest.param('[alice]\nhash = "sk-cgw-secret"', HASH_RULE, id="a-key-instead-of-its-hash"),
        pytest.param("[alice]\nhash = 1", HASH_RULE, id="a-number-for-a-hash"),
        pytest.param(entry('role = "owner"'), "[alice]: role must be client or admin", id="a-role-of-none"),
        pytest.param(entry("role = 1"), "[alice]: role must be client or admin", id="a-number-for-a-role"),
        *(
            pytest.param(
                entry(f"{name} = {value}"), f"[alice]: {name} must be a whole number, 0 or more", id=about
            )
            for name, value, about in [
                ("requests_per_minute", "-1", "fewer-than-none"),
                ("requests_per_minute", "1.5", "half-a-request"),
                ("max_streams", '"4"', "a-text-for-a-number"),
                ("max_streams", "true", "a-switch-for-a-number"),
            ]
        ),
    ],
)
def test_a_file_that_cannot_be_meant(text: str, complaint: str) -> None:
    with pytest.raises(KeysFault, match=re.escape(complaint)):
        parse_keys(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('[alice]\nhash = "{key}"', id="for-its-hash"),
        pytest.param("[{key}]", id="for-a-name"),
        pytest.param("[{key}]\n[{key}]", id="for-two-names"),
        pytest.param("[alice]\n{key} = 1", id="for-a-field"),
    ],
)
def test_no_complaint_repeats_a_key(text: str) -> None:
    """One that was put in the place of something else must not get into a log."""
    with pytest.raises(KeysFault) as caught:
        parse_keys(text.replace("{key}", "sk-cgw-0123456789abcdef"))
    assert "0123456789abcdef" not in str(caught.value)


LIMIT = st.none() | st.integers(0, 10**6)


@given(
    st.dictionaries(
        st.from_regex(NAME, fullmatch=True),
        st.tuples(st.binary(min_size=1), st.sampled_from(Role), LIMIT, LIMIT),
        max_size=5,
    )
)
def test_law_what_is_written_is_read(wanted: dict[str, tuple[bytes, Role, int | None, int | None]]) -> None:
    keys = {
        digest_key(key): AccessKey(name, digest_key(key), role, KeyLimits(*limits))
        for name, (key, role, *limits) in wanted.items()
    }
    assert parse_keys("\n".join(map(build_entry, keys.values()))) == tuple(keys.values())


TWO = name_keys(["one", "two"], "env", CLIENT)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param(b"one", "env:7692c3", id="first"),
        pytest.param(b"two", "env:3fc4cc", id="second"),
        pytest.param(b"One", None, id="another-case"),
        pytest.param(b"on", None, id="shorter"),
        pytest.param(b"one ", None, id="longer"),
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"\xff\x00", None, id="no-text"),
        pytest.param(digest_key(b"one").encode(), None, id="the-hash-is-no-key"),
    ],
)
def test_find_key(given: bytes, name: str | None) -> None:
    found = find_key(TWO, given)
    assert (found and found.name) == name


@given(st.binary(max_size=40))
def test_law_no_other_key_will_do(given: bytes) -> None:
    assert (find_key(TWO, given) is None) is (given not in (b"one", b"two"))


def test_two_keys_that_are_one_have_the_first_ones_role() -> None:
    keys = name_keys(["one"], "admin", ADMIN) + name_keys(["one"], "env", CLIENT)
    assert find_key(keys, b"one") == AccessKey("admin:7692c3", digest_key(b"one"), ADMIN)


def test_nobody_s_keys_are_found_by_no_key() -> None:
    """Those two have no hash; nothing that can be sent has none."""
    assert find_key([STRANGER, ANYBODY], b"") is None


@pytest.mark.parametrize(
    ("own", "general", "expected"),
    [
        pytest.param(KeyLimits(), KeyLimits(60, 4), KeyLimits(60, 4), id="none-of-its-own"),
        pytest.param(KeyLimits(9, 1), KeyLimits(60, 4), KeyLimits(9, 1), id="its-own"),
        pytest.param(KeyLimits(9, None), KeyLimits(60, 4), KeyLimits(9, 4), id="one-of-its-own"),
        pytest.param(KeyLimits(None, 0), KeyLimits(60, 4), KeyLimits(60, 0), id="none-is-a-limit-of-its-own"),
    ],
)
def test_own_limits_stand_over_general_ones(own: KeyLimits, general: KeyLimits, expected: KeyLimits) -> None:
    assert own.over(general) == expected


@pytest.mark.parametrize(
    ("limits", "workers", "expected"),
    [
        pytest.param(KeyLimits(60, 4), 1, KeyLimits(60, 4), id="one-worker"),
        pytest.param(KeyLimits(60, 4), 2, KeyLimits(30, 2), id="two"),
        pytest.param(KeyLimits(7, 5), 2, KeyLimits(3, 2), id="what-does-not-divide"),
        pytest.param(KeyLimits(2, 1), 4, KeyLimits(1, 1), id="never-nothing"),
        pytest.param(KeyLimits(0, 0), 4, KeyLimits(0, 0), id="no-limit-stays-none"),
        pytest.param(KeyLimits(None, None), 4, KeyLimits(0, 0), id="not-said-is-none"),
    ],
)
def test_a_worker_grants_its_share(limits: KeyLimits, workers: int, expected: KeyLimits) -> None:
    assert limits.share(workers) == expected
