"""One conversation with a gateway: asks in one dialect, remembers, and judges every answer."""

import random
import time
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from tests.soak.answers import READERS, Answer, Choice, Item, MalformedError, read_error, read_part
from tests.soak.door import ANSWER_WITHIN_S, Departure, Door, NoAnswerError, Reply
from tests.soak.ledger import Asked, Ledger, Outcome
from tests.soak.watch import Watch

MODEL = "scripted-model"
TIER_HEADER = "x-proxy-continuation"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "look", "description": "Looks.", "parameters": PARAMETERS}
#: Statuses that say when to come back.
RETRIED = (429, 503)


class DroppedError(Exception):
    """The question was not answered, for a reason that counts: the conversation ends here."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a question must be answered with; an error by its code, after the choices or in their place."""

    choices: tuple[Choice, ...] = ()
    error: str | None = None


class Dialect(Protocol):
    path: str
    tools: list[Item]

    def say(self, role: str, text: str) -> Item: ...
    def tell_result(self, call_id: str, text: str) -> Item: ...
    def build_body(self, items: list[Item]) -> Item: ...


class Chat:
    path = "/v1/chat/completions"
    tools: list[Item] = [{"type": "function", "function": TOOL}]  # noqa: RUF012 (never written to)

    def say(self, role: str, text: str) -> Item:
        return {"role": role, "content": text}

    def tell_result(self, call_id: str, text: str) -> Item:
        return {"role": "tool", "tool_call_id": call_id, "content": text}

    def build_body(self, items: list[Item]) -> Item:
        return {"model": MODEL, "messages": items}


class Responses:
    path = "/v1/responses"
    tools: list[Item] = [{"type": "function", **TOOL}]  # noqa: RUF012 (never written to)

    def say(self, role: str, text: str) -> Item:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    def tell_result(self, call_id: str, text: str) -> Item:
        return {"type": "function_call_output", "call_id": call_id, "output": text}

    def build_body(self, items: list[Item]) -> Item:
        return {"model": MODEL, "input": items}


class Talk:
    """A conversation; `items` is all that was said, as the next question would repeat it."""

    def __init__(self, door: Door, ledger: Ledger, watch: Watch, rng: random.Random) -> None:
        self.door = door
        self.ledger = ledger
        self.watch = watch
        self.rng = rng
        self.kind = ""
        self.dialect: Dialect = rng.choice((Chat(), Responses()))
        self.items: list[Item] = []
        #: How the next question refers to what was said, if it does not repeat it.
        self.previous_id: str | None = None

    def fork(self) -> "Talk":
        """The same conversation, going on another way."""
        fork = Talk(self.door, self.ledger, self.watch, random.Random(self.rng.random()))
        fork.kind, fork.dialect, fork.previous_id = self.kind, self.dialect, self.previous_id
        fork.items = list(self.items)
        return fork

    def make_nonce(self) -> str:
        return self.watch.make_nonce()

    def ask(self, nonce: str, new: list[Item], expected: Expected, **more: Any) -> Answer:
        """Put a question that brings this nonce; what comes back is as expected, or the talk is dropped."""
        body = self._build_body(nonce, new, more)
        began_s = time.monotonic()
        try:
            reply = self.door.post(self.dialect.path, body, f"soak-{nonce}")
            got = read_reply(reply, self.dialect.path, body["stream"])
        except (NoAnswerError, MalformedError, AssertionError, LookupError, ValueError) as error:
            self._fail(nonce, began_s, f"{type(error).__name__}: {error}")
        self._judge(nonce, began_s, reply, expected, got)
        self.items += got.echo
        self.previous_id = got.id or None
        return got

    def leave(self, nonce: str, new: list[Item], text: str, departure: Departure) -> None:
        """Put a question and go away; what came until then is the beginning of the text."""
        stream = departure.after_bytes > 0 or self.rng.random() < 0.5
        body = self._build_body(nonce, new, {"stream": stream})
        began_s = time.monotonic()
        try:
            reply = self.door.leave(self.dialect.path, body, f"soak-{nonce}", departure)
            code = read_error(reply.data) if reply.status not in (0, 200) else None
            got = read_part(reply.data) if code is None else ""
        except (NoAnswerError, MalformedError, LookupError, ValueError) as error:
            self._fail(nonce, began_s, f"{type(error).__name__}: {error}")
        if code is not None:
            self._weigh(nonce, began_s, reply, Expected(), Answer(error=code))
        elif text.startswith(got):
            self._note(nonce, began_s, Outcome.LEFT)
        else:
            self._fail(nonce, began_s, f"came before it was left: {got[-200:]!r}")

    def _build_body(self, nonce: str, new: list[Item], more: Item) -> Item:
        self.items += new
        self.watch.expect(nonce, self.items)
        asked = {"stream": self.rng.random() < 0.6} | more
        if self.previous_id and self.rng.random() < 0.5:
            return self.dialect.build_body(new) | {"previous_response_id": self.previous_id} | asked
        return self.dialect.build_body(self.items) | asked

    def _judge(self, nonce: str, began_s: float, reply: Reply, expected: Expected, got: Answer) -> None:
        headers = {name.lower(): value for name, value in reply.headers.items()}
        tier = headers.get(TIER_HEADER)
        if (got.choices, got.error) == (expected.choices, expected.error):
            self._note(nonce, began_s, Outcome.ANSWERED, got.error, tier)
        elif got.error is None:
            self._fail(nonce, began_s, f"got {shorten(got.choices)}, not {shorten(expected)}")
        else:
            self._weigh(nonce, began_s, reply, expected, got)
        if reply.status in RETRIED and not int(headers.get("retry-after", "0")):
            self.ledger.complain(f"a {reply.status} without Retry-After ({self._name(nonce)})")
        if got.error is not None:
            raise DroppedError

    def _weigh(self, nonce: str, began_s: float, reply: Reply, expected: Expected, got: Answer) -> None:
        """An error where none was expected: allowed, if it has a cause, and what came before it is right."""
        outcome = self.ledger.excuse(got.error, began_s)
        if outcome is Outcome.WRONG:
            self._fail(nonce, began_s, f"{reply.status} {got.error}, with no cause: {reply.data[-300:]!r}")
        if not all(
            given.text.startswith(each.text)
            for each, given in zip(got.choices, expected.choices, strict=False)
        ):
            self._fail(nonce, began_s, f"before its error came {shorten(got.choices)}")
        self._note(nonce, began_s, outcome, got.error)

    def _note(
        self,
        nonce: str,
        began_s: float,
        outcome: Outcome,
        code: str | None = None,
        tier: str | None = None,
    ) -> None:
        now_s = time.monotonic()
        self.ledger.note(Asked(self.kind, f"soak-{nonce}", began_s, now_s, outcome, code, tier))
        if now_s - began_s > ANSWER_WITHIN_S:
            self.ledger.complain(f"took {now_s - began_s:.1f} s ({self._name(nonce)})")

    def _fail(self, nonce: str, began_s: float, why: str) -> NoReturn:
        self._note(nonce, began_s, Outcome.WRONG)
        self.ledger.complain(f"{why} ({self._name(nonce)})")
        raise DroppedError

    def _name(self, nonce: str) -> str:
        return f"{self.kind}, {self.dialect.path}, request id soak-{nonce}"


def read_reply(reply: Reply, path: str, stream: bool) -> Answer:
    if reply.status != 200:
        return Answer(error=read_error(reply.data))
    return READERS[path][stream](reply.data)


def shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) < 600 else f"{text[:250]} ... {text[-300:]} ({len(text)} characters)"
