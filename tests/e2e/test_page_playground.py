"""The playground in a browser: through codex to the demo model, and to scripted answers of every odd kind."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import requests

from tests.e2e.browser import expect
from tests.e2e.conftest import KEY, OpenPage, read_pipe_log
from tests.e2e.first_page import Playground
from tests.support.gateway import Gateway, wait_until

pytestmark = pytest.mark.real

ENDPOINTS = ["Chat Completions", "Responses"]
WORDS = 'Every byte — 🌍 <b> & "quotes"\n  and  spaces'
OWN_TOOL = {
    "name": "find_colleague",
    "description": "Who does what here",
    "parameters": {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]},
}
BLOCK = "<use_tool>\n<name>readNote</name>\n<notePath>a.md</notePath>\n</use_tool>"
#: How far each of two lines ends from its block, left and right.
LINE_ENDS = """(block) => {
    const { left, right } = block.getBoundingClientRect();
    const text = block.firstChild;
    const cut = text.data.indexOf("\\n");
    return [[0, cut], [cut + 1, text.length]].map(([start, end]) => {
        const range = document.createRange();
        range.setStart(text, start);
        range.setEnd(text, end);
        const line = range.getBoundingClientRect();
        return [line.left - left, right - line.right];
    });
}"""
REPLY = re.compile("/v1/(chat/completions|responses)$")
#: What no two requests have in common.
ITS_OWN = [
    (r'"(chatcmpl|resp|msg|fc|rs|tool|req)_?-?[\w-]+"', '"ID"'),
    (r'"(created|created_at|completed_at)":[\d.]+', r'"\1":0'),
]


@pytest.fixture(params=ENDPOINTS)
def endpoint(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def playground(demo: Gateway, open_page: OpenPage, endpoint: str) -> Playground:
    """On the demo model, by either endpoint."""
    return open_playground(open_page, demo, endpoint, "demo")


@pytest.fixture
def scripted(standing: Gateway, open_page: OpenPage, endpoint: str) -> Playground:
    """On the model whose answers are scripts."""
    return open_playground(open_page, standing, endpoint, "scripted-model", KEY)


def open_playground(
    open_page: OpenPage, gateway: Gateway, endpoint: str, model: str, key: str = "", **options: Any
) -> Playground:
    # A status that is an error is told to the console.
    overlooked = {"overlooks": r" (401|503) "} if key else {}
    playground = Playground(open_page(gateway, "Playground", key, **overlooked | options))
    playground.choose(endpoint=endpoint, model=model)
    return playground


def send_script(playground: Playground, *steps: dict[str, Any]) -> None:
    playground.send(json.dumps(steps))


def test_a_streamed_answer(playground: Playground) -> None:
    playground.send(f"say exactly: {WORDS}")
    playground.wait_for_end()
    expect(playground.answers).to_have_count(1)
    assert WORDS in (playground.answers.text_content() or "")
    expect(playground.log.get_by_role("article", name="You")).to_contain_text("say exactly:")
    assert len(playground.frames()) > 4
    figures = playground.figures()
    assert [
        name for name in ("First token", "Total") if not re.fullmatch(r"[\d.,]+\s?m?s", figures[name])
    ] == []
    assert [
        name for name in ("Input tokens", "Output tokens") if not int(figures[name].replace(",", ""))
    ] == []
    assert figures["Request id"].startswith("req_")
    assert figures["Finish reason"] in ("stop", "completed")


def test_a_tool_round_trip(playground: Playground) -> None:
    page = playground.page
    page.get_by_role("checkbox", name="get_weather").check()
    playground.send("Use get_weather for Berlin")
    call = playground.call("get_weather")
    expect(call).to_contain_text("Berlin")
    send = page.get_by_role("button", name="Send results")
    expect(send).to_be_disabled()
    call.get_by_role("button", name="Fill in an example").click()
    expect(call.get_by_label("Result")).not_to_be_empty()
    call.get_by_label("Result").fill("Frogs, 🐸 raining")
    send.click()
    expect(playground.answers).to_have_count(2)
    playground.wait_for_end()
    expect(playground.answers.last).to_contain_text("Frogs, 🐸 raining")
    expect(playground.answers.last).to_contain_text("get_weather")


def test_a_tool_of_ones_own(playground: Playground) -> None:
    """What cannot be meant is told before anything is sent; so is what would be left out unseen."""
    page = playground.page
    page.get_by_role("checkbox", name="Own tool").check()
    for text, complaint in (('{"name": ', "JSON"), ('{"name": "f", "inputSchema": {}}', "inputSchema")):
        page.get_by_label("Own tool's JSON").fill(text)
        playground.send("Use find_colleague for billing")
        expect(page.get_by_role("alert").filter(has_text=complaint)).to_be_visible()
    expect(playground.answers).to_have_count(0)
    page.get_by_label("Own tool's JSON").fill(json.dumps(OWN_TOOL))
    playground.send("Use find_colleague for billing")
    expect(playground.call("find_colleague")).to_contain_text("billing")


def test_reasoning_is_folded(playground: Playground) -> None:
    playground.send("Think step by step: why is the sky blue?")
    playground.wait_for_end()
    details = playground.answers.get_by_role("group")
    expect(details).not_to_have_attribute("open", "")
    playground.answers.get_by_text("Reasoning", exact=True).click()
    expect(details).to_have_attribute("open", "")
    assert int(playground.figures()["Reasoning tokens"]) > 0


def test_a_conversation_goes_on(playground: Playground) -> None:
    """It is sent with what was said before, until a new one is begun."""
    for number in (1, 2):
        playground.send(f"say exactly: words {number}")
        playground.wait_for_end()
        expect(playground.answers).to_have_count(number)
    request = playground.page.get_by_role("group").filter(has_text="Request")
    request.get_by_text("Request", exact=True).click()
    expect(request).to_contain_text(re.compile("words 1|previous_response_id"))
    playground.page.get_by_role("button", name="New conversation").click()
    expect(playground.answers).to_have_count(0)
    assert playground.frames() == []
    playground.send("say exactly: anew")
    playground.wait_for_end()
    expect(playground.answers).to_contain_text("anew")
    expect(request).not_to_contain_text(re.compile("words 1|previous_response_id"))


def test_by_keyboard(demo: Gateway, open_page: OpenPage) -> None:
    playground = open_playground(open_page, demo, "Chat Completions", "demo")
    message = playground.page.get_by_label("Message", exact=True)
    message.fill("say exactly: by keyboard")
    message.press("Control+Enter")
    expect(playground.answers).to_contain_text("by keyboard")
    playground.wait_for_end()


def test_stop_interrupts_codex(scripted: Playground, standing: Gateway) -> None:
    """The answer stays as far as it came, and the conversation can go on."""
    before = read_pipe_log(standing).count('"turn/interrupt"')
    send_script(scripted, {"say": ["so far "]}, {"hang": True})
    expect(scripted.answers).to_contain_text("so far")
    scripted.stop.click()
    expect(scripted.answers).to_contain_text("Stopped")
    wait_until(lambda: read_pipe_log(standing).count('"turn/interrupt"') == before + 1)
    scripted.wait_for_end()
    expect(scripted.answers).to_contain_text("so far")
    send_script(scripted, {"say": ["and further"]})
    expect(scripted.answers.last).to_contain_text("and further")
    scripted.wait_for_end()


def test_frames_are_the_bytes_that_came(scripted: Playground, standing: Gateway) -> None:
    """Those of the reply, and but for ids and times those that any client gets."""
    with scripted.page.expect_response(REPLY) as caught:
        send_script(scripted, {"think": ["hm"]}, {"say": ["日本 ", "🎹", "\n\n", "data: x"], "pause_s": 0.01})
    scripted.wait_for_end()
    shown = "".join(scripted.frames())
    assert shown == caught.value.body().decode()
    request = caught.value.request
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    again = requests.post(request.url, data=request.post_data_buffer, headers=headers, timeout=20)
    assert blank(shown) == blank(again.content.decode())


def blank(text: str) -> str:
    for pattern, replacement in ITS_OWN:
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.parametrize(
    ("steps", "shown", "code"),
    [
        pytest.param(
            [{"say": ["as far ", "as it "], "pause_s": 0.05, "open": True}, {"drop": True}],
            "as far as it ",
            "backend_unavailable",
            id="in-the-stream",
        ),
        pytest.param(
            [{"error": {"message": "busy", "codexErrorInfo": "serverOverloaded"}}],
            "",
            "backend_unavailable",
            id="before-it",
        ),
    ],
)
def test_a_failure_is_told(scripted: Playground, steps: list[dict[str, Any]], shown: str, code: str) -> None:
    send_script(scripted, *steps)
    alert = scripted.log.get_by_role("alert")
    expect(alert).to_contain_text(code)
    scripted.wait_for_end()
    assert shown in (scripted.answers.text_content() or "")


def test_a_login_that_is_no_longer_valid(standing: Gateway, open_page: OpenPage) -> None:
    """Codex takes itself for logged in still, so that Start offers no login: it is told what to do there."""
    overlooked = {"overlooks": " (401|502) "}
    playground = open_playground(open_page, standing, "Chat Completions", "scripted-model", KEY, **overlooked)
    send_script(playground, {"error": {"message": "revoked", "codexErrorInfo": "unauthorized"}})
    alert = playground.log.get_by_role("alert")
    expect(alert).to_contain_text("log out")
    expect(alert.get_by_role("link", name="Start")).to_have_attribute("href", "#start")


def test_a_refusal_is_shown_as_it_came(scripted: Playground) -> None:
    """Status, headers and body: what a client's developer has to deal with."""
    with scripted.page.expect_response(REPLY) as caught:
        send_script(scripted, {"error": {"message": "busy", "codexErrorInfo": "serverOverloaded"}})
    expect(scripted.log.get_by_role("alert")).to_be_visible()
    scripted.page.get_by_text("Request", exact=True).click()
    request = scripted.page.get_by_role("group").filter(has_text="Request")
    for text in ("Reply: 503", f"retry-after: {caught.value.headers['retry-after']}", caught.value.text()):
        expect(request).to_contain_text(text)
    assert scripted.figures()["Continuation"] == caught.value.headers["x-proxy-continuation"]


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param({"tool_calls": [{"index": 0, "id": "call_1"}]}, id="call-without-function"),
        pytest.param({"tool_calls": [None]}, id="no-call"),
        pytest.param({"tool_calls": 1}, id="no-calls"),
    ],
)
def test_a_frame_that_nobody_foresaw(demo: Gateway, open_page: OpenPage, reply: dict[str, Any]) -> None:
    """It ends the answer as a failure, with the message there to be sent again."""
    odd = "data: " + json.dumps({"choices": [{"delta": reply}]}) + "\n\n"
    page = open_page(demo, "Playground", overlooks="^error: TypeError")
    check_odd_reply(Playground(page), "page_fault", body=odd)


@pytest.mark.parametrize("kind", ["delta", "done"])
def test_arguments_of_no_call(demo: Gateway, open_page: OpenPage, kind: str) -> None:
    event = {"type": f"response.function_call_arguments.{kind}", "output_index": 3, "delta": "{}"}
    playground = Playground(open_page(demo, "Playground", overlooks="^error: TypeError"))
    playground.choose(endpoint="Responses")
    check_odd_reply(playground, "page_fault", body=f"data: {json.dumps(event)}\n\n")


def test_an_error_that_is_cut(demo: Gateway, open_page: OpenPage) -> None:
    """The status has come, and is told."""
    cut = """const ask = window.fetch;
        window.fetch = async (path, options) => path.startsWith("/v1/chat")
            ? new Response(new ReadableStream({ start: (it) => it.error(new Error("cut")) }), { status: 502 })
            : ask(path, options);"""
    playground = Playground(open_page(demo, "Playground", script=cut))
    check_odd_reply(playground, "HTTP 502")


def check_odd_reply(playground: Playground, code: str, **reply: Any) -> None:
    if reply:
        headers = {"content-type": "text/event-stream"}
        playground.page.route(REPLY, lambda route: route.fulfill(headers=headers, **reply))
    playground.send("Hello!")
    expect(playground.log.get_by_role("alert")).to_contain_text(code)
    playground.wait_for_end()
    expect(playground.answers).to_contain_text("Failed")
    expect(playground.answers).not_to_have_attribute("aria-busy", "true")
    expect(playground.page.get_by_label("Message", exact=True)).to_have_value("Hello!")


def test_blocks_of_obsidian(standing: Gateway, open_page: OpenPage) -> None:
    """The text shows the block as it came, the card the call that it spells."""
    playground = open_playground(open_page, standing, "Chat Completions", "scripted-model", KEY)
    playground.choose(output_mode="obsidian-xml")
    send_script(playground, {"say": ["First.\n", BLOCK]})
    expect(playground.call("readNote")).to_contain_text("a.md")
    playground.wait_for_end()
    answer = playground.answers.text_content() or ""
    assert (answer.count("First.\n"), answer.count(BLOCK), answer.count("use_tool>")) == (1, 1, 2)
    assert playground.figures()["Finish reason"] == "tool_calls"


def test_each_paragraph_runs_its_own_way(standing: Gateway, open_page: OpenPage) -> None:
    """Of which end a line stands tells its own first letter, whatever the page's language."""
    playground = open_playground(open_page, standing, "Chat Completions", "scripted-model", KEY)
    send_script(playground, {"say": ["left\n", "\u05e9\u05dc\u05d5\u05dd"]})
    playground.wait_for_end()
    ends = playground.answers.locator(".play-text").evaluate(LINE_ENDS)
    assert [(round(left) == 0, round(right) == 0) for left, right in ends] == [(True, False), (False, True)]


def test_long_names_fit_a_phone(standing: Gateway, open_page: OpenPage) -> None:
    """As tools have that come from afar."""
    phone = {"viewport": {"width": 360, "height": 740}}
    playground = open_playground(open_page, standing, "Chat Completions", "scripted-model", KEY, **phone)
    playground.page.get_by_role("checkbox", name="Own tool").check()
    name = "search_" * 9
    playground.page.get_by_label("Own tool's JSON").fill(json.dumps(OWN_TOOL | {"name": name}))
    send_script(playground, {"call": {"name": name, "arguments": "{}"}})
    expect(playground.call(name)).to_be_visible()
    playground.wait_for_end()
    assert playground.log.evaluate("(node) => node.scrollWidth - node.clientWidth") == 0


def test_a_long_stream(standing: Gateway, open_page: OpenPage) -> None:
    """The newest frames are shown, and the text is whole."""
    playground = open_playground(open_page, standing, "Chat Completions", "scripted-model", KEY)
    deltas = [f"{number} " for number in range(2500)]
    send_script(playground, {"say": deltas})
    expect(playground.page.get_by_text("newest 2,000")).to_be_visible()
    playground.wait_for_end()
    frames = playground.frames()
    assert (len(frames), frames[-1]) == (2000, "data: [DONE]\n\n")
    assert "".join(deltas) in (playground.answers.text_content() or "")
