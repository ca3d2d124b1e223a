"""The script language both doubles play: what the model does, as JSON in the user's text."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

Item = dict[str, Any]

# The first of these among a step's keys is its name: `http` before `error`, which is also an option of it.
STEP_NAMES = (
    *(
        "say",
        "say_whole",
        "think",
        "wait",
        "usage",
        "limits",
        "http",
        "fail",
        "incomplete",
        "drop",
        "call",
        "search",
        "repeat",
        "then",
    ),
    *("die", "raw", "half", "huge", "hang", "request", "retry", "error"),
    *("unknown_notification", "reply_twice", "stop_reading", "babble"),
)
ITEM_KINDS = {"function_call": "call", "function_call_output": "result"}
#: How the gateway tells a result to a model that has no tools of its own.
TOLD_RESULT = "[function_call_output call_id="
DEFAULT_USAGE = {"input_tokens": 120, "output_tokens": 20, "cached_tokens": 100, "reasoning_tokens": 5}


class Step(NamedTuple):
    """One thing the model does; options are its other keys (`pause_s`, `open`, `error`, `headers`)."""

    name: str
    value: Any
    options: dict[str, Any] = {}  # noqa: RUF012 (a default of a tuple's field, never written to)


class Failure(NamedTuple):
    """What codex tells its client about a failed upstream response."""

    message: str
    info: str | dict[str, Any]


def parse_script(text: str) -> list[Step]:
    """Read the steps in a text; a text that is no script is echoed."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list) and all(map(find_name, found)):
        return build_steps(found)
    return [Step("say", ["echo: ", text])]


def find_name(found: Any) -> str | None:
    """The step's name, or None when this is no step."""
    if not isinstance(found, dict):
        return None
    return next((name for name in STEP_NAMES if name in found), None)


def build_steps(found: Iterable[dict[str, Any]]) -> list[Step]:
    """Objects to steps; a repeat becomes the long `say` it stands for."""
    return [build_step(each) for each in found]


def build_step(found: dict[str, Any]) -> Step:
    name = find_name(found)
    if name is None:
        raise ValueError(f"no such step: {found}")
    if name == "repeat":
        repeat = found["repeat"]
        return Step("say", repeat["say"] * repeat["times"], repeat)
    return Step(name, found[name], {key: value for key, value in found.items() if key != name})


def plan_answer(items: Sequence[Item]) -> list[Step]:
    """The steps of the next response: one `then` deeper for each time the model was answered since then.

    It is answered by tool results, and by instructions that follow what it said; without a `then` it tells
    the results, or says the same once more.
    """
    last_user = max((i for i, item in enumerate(items) if find_kind(item) == "user"), default=-1)
    since = items[last_user + 1 :]
    steps = parse_script(read_text(items[last_user].get("content")) if last_user >= 0 else "")
    for answer in find_answers(since):
        told = [Step("say", ["Tool said: ", read_results(since)])]
        steps = next(
            (build_steps(step.value) for step in steps if step.name == "then"),
            told if answer == "result" else steps,
        )
    return [step for step in steps if step.name != "then"]


def find_kind(item: Item) -> str | None:
    """What an item is in the conversation; a result that is told as text is no word of the user's."""
    if item.get("role") == "user" and read_text(item.get("content")).startswith(TOLD_RESULT):
        return "result"
    return ITEM_KINDS.get(item.get("type", "")) or item.get("role")


def find_answers(items: Iterable[Item]) -> list[str]:
    """How the model was answered, each time: results that follow one another are one answer."""
    kinds = [kind for kind in map(find_kind, items) if kind in ("call", "result", "assistant", "developer")]
    return [
        after
        for before, after in pairwise([None, *kinds])
        if (after == "result" and before != "result") or (before, after) == ("assistant", "developer")
    ]


def read_results(items: Sequence[Item]) -> str:
    """The tool results of the last batch, a line each."""
    kinds = [find_kind(item) for item in items]
    last_word = max((i for i, kind in enumerate(kinds) if kind in ("call", "assistant")), default=-1)
    return "\n".join(
        read_result(item)
        for item, kind in zip(items[last_word + 1 :], kinds[last_word + 1 :], strict=True)
        if kind == "result"
    )


def read_result(item: Item) -> str:
    if "output" in item:
        return read_text(item["output"])
    return read_text(item.get("content")).partition(" output=")[2].removesuffix("]")


def read_text(content: Any) -> str:
    """The text of a message's content or a tool's output, in either of its two shapes."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


def build_usage(value: dict[str, int] | None = None) -> dict[str, Any]:
    """Usage as the Responses API reports it."""
    usage = DEFAULT_USAGE | (value or {})
    return {
        "input_tokens": usage["input_tokens"],
        "input_tokens_details": {"cached_tokens": usage["cached_tokens"]},
        "output_tokens": usage["output_tokens"],
        "output_tokens_details": {"reasoning_tokens": usage["reasoning_tokens"]},
        "total_tokens": usage["input_tokens"] + usage["output_tokens"],
    }


def build_error_body(step: Step) -> str:
    """The body of an upstream HTTP error, which codex passes on verbatim for a 400."""
    return json.dumps({"error": step.options.get("error", {})})


# What codex 0.163 says of a failed response, with retries off; test_doubles.py holds it to that.
REASONS = {
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    413: "Payload Too Large",
    429: "Too Many Requests",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
DISCONNECTED = "stream disconnected before completion: "
DROPPED = Failure(DISCONNECTED + "stream closed before response.completed", "other")
OVERLOADED = Failure("Selected model is at capacity. Please try a different model.", "serverOverloaded")
USAGE_LIMIT = Failure(
    "You\u2019ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit "
    "https://chatgpt.com/settings/usage to purchase more credits or try again later.",
    "usageLimitExceeded",
)
HIGH_DEMAND = Failure(
    "We\u2019re currently experiencing high demand, which may cause temporary errors.", "internalServerError"
)
FAILED_CODES = {
    "rate_limit_exceeded": Failure("rate limit exceeded: {}", "rateLimitExceeded"),
    "slow_down": Failure("rate limit exceeded: {}", "rateLimitExceeded"),
    "context_length_exceeded": Failure(
        "Codex ran out of room in the model's context window. "
        "Start a new thread or clear earlier history before retrying.",
        "contextWindowExceeded",
    ),
    "insufficient_quota": Failure(
        "Quota exceeded. Check your plan and billing details.", "usageLimitExceeded"
    ),
    "server_is_overloaded": OVERLOADED,
    "invalid_prompt": Failure("{}", "other"),
    "cyber_policy": Failure("{}", "cyberPolicy"),
}


def explain_http(step: Step) -> Failure:
    """What codex says when upstream answered with this HTTP error."""
    status, error, body = step.value, step.options.get("error", {}), build_error_body(step)
    if status == 429 and error.get("type") == "usage_limit_reached":
        return USAGE_LIMIT
    if status == 503 and error.get("code") == "server_is_overloaded":
        return OVERLOADED
    text = f"{status} {REASONS.get(status, '')}"
    known = {
        400: Failure(body, "other"),
        429: Failure(
            f"exceeded retry limit, last status: {text}", _with_status("responseTooManyFailedAttempts", 429)
        ),
        500: HIGH_DEMAND,
    }
    message = f"unexpected status {text}: {error.get('message', body)}, url: http://127.0.0.1:9/v1/responses"
    return known.get(status) or Failure(message, _with_status("httpConnectionFailed", status))


def _with_status(name: str, status: int) -> dict[str, Any]:
    return {name: {"httpStatusCode": status}}


def explain_failed(error: dict[str, str]) -> Failure:
    """What codex says when the stream ended with response.failed."""
    found = FAILED_CODES.get(error.get("code", ""), Failure(DISCONNECTED + "{}", "other"))
    return Failure(found.message.replace("{}", error.get("message", "")), found.info)


def explain_incomplete(reason: str) -> Failure:
    """What codex says when the stream ended with response.incomplete."""
    prefix = DISCONNECTED if reason == "content_filter" else ""
    return Failure(f"{prefix}Incomplete response returned, reason: {reason}", "other")
