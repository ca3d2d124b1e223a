"""Every knob: its values, its complaints, and its line in the documentation."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import Any

import pytest

from app.knobs import (
    ALLOWED,
    parse_bytes,
    parse_count,
    parse_delay,
    parse_flag,
    parse_hosts,
    parse_kilos,
    parse_level,
    parse_list,
    parse_models,
    parse_natural,
    parse_optional_path,
    parse_origins,
    parse_path,
    parse_pin,
    parse_port,
    parse_seconds,
    parse_size,
    parse_whole_seconds,
)
from app.lib.models import parse_model
from app.lib.obsidian import EscapePolicy
from app.lib.output_mode import OutputMode
from app.lib.request import ToolTransport
from app.lib.stop_policy import StopMode, StopPolicy
from app.settings import Settings, SettingsError

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "configuration.md"
KNOBS = [each for each in dataclasses.fields(Settings) if each.metadata]
MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        *(pytest.param(parse_flag, text, True, id=f"flag-{text}") for text in ("true", "TRUE", "1", "yes")),
        *(pytest.param(parse_flag, text, False, id=f"flag-{text}") for text in ("false", "False", "0", "no")),
        pytest.param(parse_list, "a, b ,,c", ("a", "b", "c"), id="list"),
        pytest.param(parse_list, " , ", (), id="list-of-nothing"),
        pytest.param(
            parse_origins,
            "*,null,HTTPS://App.Example:8443,http://[::1]:*,chrome-extension://abc,file://",
            ("*", "null", "https://app.example:8443", "http://[::1]:*", "chrome-extension://abc", "file://"),
            id="origins",
        ),
        pytest.param(
            parse_hosts,
            "GW.example,gw.example:443,[::1]",
            ("GW.example", "gw.example:443", "[::1]"),
            id="hosts",
        ),
        pytest.param(parse_path, "/a/b", pathlib.Path("/a/b"), id="path"),
        pytest.param(parse_optional_path, "/a/b", pathlib.Path("/a/b"), id="a-path-after-all"),
        pytest.param(parse_optional_path, "", None, id="no-path"),
        pytest.param(parse_bytes, "64", 64 * 1024, id="bytes-most"),
        pytest.param(parse_path, "~/b", pathlib.Path.home() / "b", id="path-at-home"),
        pytest.param(parse_seconds, "1", 0.001, id="seconds-least"),
        pytest.param(parse_seconds, "1500", 1.5, id="seconds"),
        pytest.param(parse_count, "1", 1, id="count-least"),
        pytest.param(parse_natural, "0", 0, id="natural-least"),
        pytest.param(parse_size, "2", 2 * MIB, id="size"),
        pytest.param(parse_delay, "0", 0.0, id="delay-least"),
        pytest.param(parse_delay, "300", 0.3, id="delay"),
        pytest.param(parse_kilos, "2", 2048, id="kilos"),
        pytest.param(StopMode, "all", StopMode.ALL, id="mode"),
        pytest.param(parse_pin, "Auto", None, id="pin-left-open"),
        pytest.param(parse_pin, "no", False, id="pin"),
        pytest.param(parse_port, "0", 0, id="port-least"),
        pytest.param(parse_port, "65535", 65535, id="port-most"),
        *(
            pytest.param(parse_level, text, text.upper(), id=f"level-{text}")
            for text in ("debug", "info", "Warning", "ERROR")
        ),
    ],
)
def test_good_values(parse: Any, text: str, expected: Any) -> None:
    assert parse(text) == expected


FLAG, COUNT, PORT = "true or false", "a whole number, at least 1", "a port number"
MILLISECONDS = "a whole number of milliseconds, at least 1"
ORIGINS = "origins as browsers name them (`https://app.example`, `http://localhost:*`), or `*`"
HOSTS = "names of hosts, without scheme or path, separated by commas"
MEGABYTES = "a whole number of megabytes, at least 1"
NATURAL = "a whole number, 0 or more"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *(pytest.param("PROXY_DEMO", value, FLAG, id=f"flag-{value}") for value in ("on", "2", "maybe")),
        *(pytest.param("WEB_CONCURRENCY", value, COUNT, id=f"count-{value}") for value in ("0", "-1", "two")),
        *(
            pytest.param("PROXY_TIMEOUT_MS", value, MILLISECONDS, id=f"ms-{value}")
            for value in ("0", "-5", "1.5", "5s")
        ),
        *(pytest.param("PROXY_MAX_BODY_MB", value, MEGABYTES, id=f"mb-{value}") for value in ("0", "16M")),
        *(
            pytest.param("PROXY_WARM_PROCESSES", value, NATURAL, id=f"natural-{value}")
            for value in ("-1", "x")
        ),
        *(pytest.param("PROXY_PORT", value, PORT, id=f"port-{value}") for value in ("-1", "65536", "http")),
        pytest.param("PROXY_STOP_AFTER_TOOLS_MODE", "last", "first or all", id="mode"),
        pytest.param("PROXY_OUTPUT_MODE", "xml", "obsidian-xml or openai-json", id="output-mode"),
        pytest.param("PROXY_OBSIDIAN_ESCAPE", "raw", "xml or copilot", id="escape"),
        pytest.param("PROXY_TOOL_TRANSPORT", "text", "native or sentinel", id="transport"),
        pytest.param("PROXY_ENABLE_PARALLEL_TOOL_CALLS", "2", "auto, true or false", id="pin"),
        pytest.param(
            "PROXY_STOP_AFTER_TOOLS_GRACE_MS", "-1", "a whole number of milliseconds, 0 or more", id="delay"
        ),
        pytest.param("PROXY_TOOL_BUFFER_MAX_KB", "0", "a whole number of kilobytes, at least 1", id="kilos"),
        *(
            pytest.param(
                "PROXY_MAX_HEADER_KB", value, "a whole number of kilobytes, 1 to 64", id=f"header-{value}"
            )
            for value in ("0", "65")
        ),
        *(
            pytest.param("PROXY_CORS_ALLOWED_ORIGINS", value, ORIGINS, id=f"origins-{value}")
            for value in (
                *("app.example", "https://app.example/", "https://*.example", "https://a.example b"),
                *("http://a.example:*0", "http://localhost:*,on"),
            )
        ),
        *(
            pytest.param("PROXY_ALLOWED_HOSTS", value, HOSTS, id=f"hosts-{value}")
            for value in ("https://gw.example", "gw.example/v1", "*.example", "*", "a.example b.example")
        ),
        pytest.param("PROXY_API_KEYS_FILE", "~nobody-of-this-name/keys", "a path", id="optional-path"),
        pytest.param("PROXY_PARK_TTL_S", "0", "a whole number of seconds, at least 1", id="whole-seconds"),
        pytest.param("PROXY_LOG_LEVEL", "loud", "debug, info, warning or error", id="level"),
        pytest.param(
            "PROXY_STATE_DIR",
            "~nobody-of-this-name/state",
            "a path",
            id="path-in-an-unknown-home",
        ),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_env({name: value})
    assert str(raised.value) == f"{name}={value}: must be {allowed}"


#: A value of its own for each kind of knob.
EXAMPLES: dict[Any, tuple[str, Any]] = {
    parse_flag: ("true", True),
    parse_seconds: ("1234", 1.234),
    parse_count: ("77", 77),
    parse_natural: ("77", 77),
    parse_size: ("77", 77 * MIB),
    parse_delay: ("77", 0.077),
    parse_kilos: ("77", 77 * 1024),
    parse_whole_seconds: ("77", 77.0),
    StopMode: ("all", StopMode.ALL),
    OutputMode: ("openai-json", OutputMode.OPENAI_JSON),
    EscapePolicy: ("copilot", EscapePolicy.COPILOT),
    ToolTransport: ("sentinel", ToolTransport.SENTINEL),
    parse_bytes: ("63", 63 * 1024),
    parse_optional_path: ("/x", pathlib.Path("/x")),
    parse_pin: ("false", False),
    parse_port: ("77", 77),
    parse_level: ("debug", "DEBUG"),
    parse_origins: ("https://a.example,*", ("https://a.example", "*")),
    parse_hosts: ("localhost,::1", ("localhost", "::1")),
    parse_list: ("key-of-one,key-of-two", ("key-of-one", "key-of-two")),
    parse_models: ("x,y=z:low", (parse_model("x"), parse_model("y=z:low"))),
    parse_path: ("/x", pathlib.Path("/x")),
    str: ("localhost", "localhost"),
}


@pytest.mark.parametrize("knob", [pytest.param(knob, id=knob.name) for knob in KNOBS])
def test_every_knob_is_read_from_its_variable(knob: dataclasses.Field[Any]) -> None:
    text, value = EXAMPLES[knob.metadata["parse"]]
    if knob.metadata["default"] == text:  # a switch that is on
        text, value = "false", False
    changed = Settings.from_env({knob.metadata["name"]: text})
    assert changed == dataclasses.replace(Settings(), **{knob.name: value}) != Settings()


@pytest.mark.parametrize("knob", [pytest.param(knob, id=knob.name) for knob in KNOBS])
def test_every_knob_says_what_it_is(knob: dataclasses.Field[Any]) -> None:
    about = knob.metadata
    assert re.fullmatch(r"[A-Z][A-Z_]+", about["name"])
    assert re.fullmatch(r"\S.*\.", about["meaning"])
    assert about["parse"] in ALLOWED


def test_names_are_unique() -> None:
    names = [knob.metadata["name"] for knob in KNOBS]
    assert sorted(set(names)) == sorted(names)


def test_only_knobs_and_the_environment_are_settings() -> None:
    assert [each.name for each in dataclasses.fields(Settings) if not each.metadata] == ["environ"]


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="nothing-set"),
        pytest.param({knob.metadata["name"]: "" for knob in KNOBS}, id="everything-empty"),
        pytest.param(
            {k.metadata["name"]: k.metadata["default"] for k in KNOBS}, id="everything-set-to-its-default"
        ),
    ],
)
def test_defaults(environ: dict[str, str]) -> None:
    assert Settings.from_env(environ) == Settings()


@pytest.mark.parametrize(
    ("host", "key", "opens"),
    [
        pytest.param("127.0.0.1", "", True, id="loopback"),
        pytest.param("::1", "", True, id="loopback-6"),
        pytest.param("localhost", "", True, id="localhost"),
        pytest.param("0.0.0.0", "", False, id="everywhere"),
        pytest.param("192.168.1.2", "", False, id="a-network"),
        pytest.param("0.0.0.0", "a-secret", True, id="everywhere-with-a-key"),
    ],
)
def test_an_open_gateway_stays_on_loopback(host: str, key: str, opens: bool) -> None:
    environ = {"PROXY_HOST": host, "PROXY_API_KEY": key}
    complaint = (
        f"PROXY_HOST={host}: an open gateway listens on loopback only; "
        "set PROXY_API_KEY or PROXY_HOST=127.0.0.1"
    )
    try:
        told = Settings.from_env(environ).host
    except SettingsError as error:
        told = str(error)
    assert told == (host if opens else complaint)


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        pytest.param({"PROXY_API_KEY": " , "}, "PROXY_API_KEY: holds no key", id="a-key-that-is-none"),
        pytest.param({"PROXY_ADMIN_KEY": ","}, "PROXY_ADMIN_KEY: holds no key", id="an-admin's-that-is-none"),
        pytest.param(
            {"PROXY_API_KEY": "long-enough,hunter2"},
            "PROXY_API_KEY: a key must have at least 8 characters",
            id="a-short-key",
        ),
        *(
            pytest.param(
                {"PROXY_ADMIN_KEY": f"long-enough,odd{sign}secret"},
                "PROXY_ADMIN_KEY: a key has signs that no client can send",
                id=f"a-key-with-{name}",
            )
            for name, sign in (("bytes-that-are-no-text", "\udcff"), ("an-end-of-a-line", "\n"))
        ),
        pytest.param(
            {"PROXY_API_KEY": "one-of-both", "PROXY_ADMIN_KEY": "one-of-both"},
            "PROXY_ADMIN_KEY: shares a key with PROXY_API_KEY; a key has one role",
            id="a-key-of-two-roles",
        ),
        pytest.param(
            {"PROXY_ALLOWED_HOSTS": "localhost:11435,my.domain"},
            "PROXY_ALLOWED_HOSTS=my.domain: an open gateway has loopback's names only; set PROXY_API_KEY",
            id="open-under-a-name-of-the-world",
        ),
    ],
)
def test_what_does_not_go_together_stops_the_start(environ: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_env(environ)
    assert str(raised.value) == complaint


def test_what_looks_like_a_setting_and_is_none() -> None:
    environ = {
        "PROXY_API_KEYS": "misspelt",
        "PROXY_PORT": "1",
        "PROXY_DEMO": "",
        "HTTPS_PROXY": "x",
        "PROXY_": "",
    }
    assert Settings.from_env(environ).strange == ["PROXY_", "PROXY_API_KEYS"]


def test_a_gateway_with_keys_has_any_name() -> None:
    environ = {"PROXY_API_KEY": "long-enough", "PROXY_ALLOWED_HOSTS": "my.domain"}
    assert Settings.from_env(environ).allowed_hosts == ("my.domain",)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, 1.0, id="once-a-second"),
        pytest.param({"commit_after_s": 0.4}, 0.1, id="four-times-before-the-commit"),
        pytest.param({"keepalive_s": 2.0}, 0.5, id="four-times-before-a-keepalive"),
        pytest.param({"stop_mode": StopMode.ALL, "stop_grace_s": 0.4}, 0.1, id="four-times-in-a-grace"),
        pytest.param({"stop_mode": StopMode.ALL, "stop_grace_s": 0.0}, 0.025, id="a-grace-of-nothing"),
        pytest.param({"stop_grace_s": 0.4}, 1.0, id="a-grace-nobody-waits-for"),
        pytest.param({"stop_mode": StopMode.ALL, "stop_after_tools": False}, 1.0, id="no-stop-no-grace"),
    ],
)
def test_tick(changes: dict[str, Any], expected: float) -> None:
    assert Settings(**changes).tick_s == expected


def test_the_stop_policy_is_made_of_its_knobs() -> None:
    environ = {
        "PROXY_STOP_AFTER_TOOLS": "false",
        "PROXY_STOP_AFTER_TOOLS_MODE": "all",
        "PROXY_STOP_AFTER_TOOLS_GRACE_MS": "50",
        "PROXY_SUPPRESS_TAIL_AFTER_TOOLS": "false",
        "PROXY_TOOL_BLOCK_DEDUP": "true",
        "PROXY_TOOL_BLOCK_MAX": "3",
    }
    expected = StopPolicy(False, StopMode.ALL, 0.05, False, True, 3)
    assert (Settings.from_env(environ).stop_policy, Settings().stop_policy) == (expected, StopPolicy())


def read_table() -> dict[str, tuple[str, str]]:
    rows = re.findall(
        r"^\| `(?P<name>\w+)` \| (?P<default>.*?) \| (?P<meaning>.*) \|$", DOCUMENT.read_text("utf-8"), re.M
    )
    return {name: (default, meaning) for name, default, meaning in rows}


def test_the_documentation_lists_exactly_the_knobs() -> None:
    expected = {
        knob.metadata["name"]: (
            f"`{knob.metadata['default']}`" if knob.metadata["default"] else "*(empty)*",
            knob.metadata["meaning"],
        )
        for knob in KNOBS
    }
    assert read_table() == expected
