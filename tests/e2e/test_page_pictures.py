"""The views with something in them, as docs/images shows them; `PICTURES=docs/images` makes those anew."""

from __future__ import annotations

import json
import math
import pathlib
import random
import time
from typing import Any

import pytest
import requests

from tests.e2e.browser import expect
from tests.e2e.conftest import PICTURES, OpenPage
from tests.e2e.first_page import FirstPage, LiveView, Playground
from tests.support.gateway import ROOT, Gateway

pytestmark = pytest.mark.real

LONGEST_BYTES = 200_000
DESK = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
HERE = {"locale": "en-GB", "timezone_id": "UTC"}
PAST_HOUR = (pathlib.Path(__file__).parent / "past_hour.js").read_text("utf-8")
HOUR_S, PERIOD_S = 3600, 10
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def show_start(page: FirstPage, gateway: Gateway) -> None:
    expect(page.codex).to_contain_text("Codex 0.")
    page.page.get_by_role("tab", name="OpenAI Python").click()


def show_playground(page: FirstPage, gateway: Gateway) -> None:
    playground = Playground(page)
    page.page.get_by_role("checkbox", name="get_weather").check()
    playground.send("Use get_weather for Lisbon")
    call = playground.call("get_weather")
    call.get_by_role("button", name="Fill in an example").click()
    page.button("Send results").click()
    expect(playground.answers).to_have_count(2)
    playground.wait_for_end()


def show_live(page: FirstPage, gateway: Gateway) -> None:
    live = LiveView(page)
    expect(live.rows.first).to_be_visible()
    live.wait_for(Streams="0")
    expect(page.page.get_by_role("figure", name="Tokens per minute")).to_contain_text("k")


VIEWS = {"start": show_start, "playground": show_playground, "live": show_live}


@pytest.fixture(scope="module")
def busy(demo: Gateway) -> Gateway:
    """One that had a few requests."""
    for words in ("Hello!", "Think step by step: why is the sky blue?", "Use get_weather for Lisbon"):
        talk(demo, "chat/completions", messages=[{"role": "user", "content": words}], tools=[WEATHER])
    for model in ("demo", "no-such-model"):
        talk(demo, "responses", model=model, input="Why is the sky blue?")
    return demo


def talk(gateway: Gateway, path: str, **more: Any) -> None:
    body = {"model": "demo", "stream": True} | more
    assert requests.post(f"{gateway.base_url}/v1/{path}", json=body, timeout=30).content


@pytest.mark.parametrize(
    ("view", "options", "name"),
    [
        pytest.param("start", DESK, "start", id="start"),
        pytest.param("start", DESK | {"color_scheme": "dark"}, "start-dark", id="start-dark"),
        pytest.param("start", PHONE, None, id="start-phone"),
        pytest.param("playground", DESK, "playground", id="playground"),
        pytest.param("playground", PHONE, "playground-phone", id="playground-phone"),
        pytest.param("live", DESK, "live", id="live"),
        pytest.param("live", PHONE, None, id="live-phone"),
    ],
)
def test_pictures(
    busy: Gateway, open_page: OpenPage, view: str, options: dict[str, Any], name: str | None
) -> None:
    """None is wider than what shows it."""
    page = open_page(
        busy, view.capitalize(), script=f"({PAST_HOUR})({json.dumps(build_hour())})", **HERE | options
    )
    VIEWS[view](page, busy)
    assert page.overflow() == 0
    if PICTURES and name:
        picture = page.page.screenshot(animations="disabled", caret="hide")
        assert len(picture) < LONGEST_BYTES
        (ROOT / PICTURES / f"{name}.png").write_bytes(picture)


def build_hour() -> dict[str, Any]:
    """An hour of a small office's, as `/ui/live` would tell it."""
    chance = random.Random(7)
    began = time.time() - HOUR_S
    samples = [build_sample(began + at, at / HOUR_S, chance) for at in range(0, HOUR_S, PERIOD_S)]
    return {"type": "history", "period_s": PERIOD_S, "samples": samples}


def build_sample(at: float, share: float, chance: random.Random) -> dict[str, Any]:
    bustle = 1.5 + math.sin(share * 7) + share
    asked = chance.randrange(math.ceil(bustle * 2))
    blocks = chance.randrange(asked + 1)
    aborted = int(blocks > 0 and chance.random() > 0.97)
    owned = round(bustle * 1.2)
    said, answered = asked * chance.randrange(2400), asked * chance.randrange(600)
    return {
        "at": at,
        "requests_open": owned,
        "streams_open": owned,
        "idle": max(1, 5 - owned),
        "owned": owned,
        "parked": round(max(0, math.sin(share * 19))),
        "ending": 0,
        "queued": 0,
        "requests": asked,
        "errors": int(chance.random() > 0.98),
        "input_tokens": said,
        "cached_tokens": said * 7 // 10,
        "output_tokens": answered,
        "reasoning_tokens": answered // 3,
        "tool_calls": blocks,
        "tool_buffer_started": blocks,
        "tool_buffer_flushed": blocks - aborted,
        "tool_buffer_aborted": aborted,
        "first_tokens": asked,
        "first_token_s": asked * (0.4 + 0.2 * chance.random() + 0.1 * bustle),
    }
