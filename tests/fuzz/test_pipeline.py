"""Any turn, told by any backend to any client: a state machine over the core, both dialects and `collect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from hypothesis import event as note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.lib.account_limits import AccountLimits
from app.lib.answer_rules import AnswerRules, ChatReading, ResponsesReading
from app.lib.deadlines import Deadlines
from app.lib.dialects.chat import ChatIdentity, ChatStream, ChatStyle, build_completion
from app.lib.dialects.response_body import ResponseIdentity
from app.lib.dialects.responses import ResponsesStream
from app.lib.errors import BackendUnavailable, ClientGone, ContextTooLong, ProxyError
from app.lib.events import (
    BackendEvent,
    Began,
    CallComing,
    CallRejected,
    Completed,
    Failed,
    Finished,
    FinishReason,
    LimitsTold,
    MessageDone,
    ModelActive,
    Note,
    NoteKind,
    Placed,
    Queued,
    ReasoningDelta,
    ReasoningDone,
    ResponseDone,
    Retrying,
    SearchAction,
    SearchDone,
    SearchKind,
    Text,
    TextDelta,
    Tick,
    ToolBlock,
    ToolCalled,
    ToolSignal,
    TurnEnded,
    TurnEvent,
    TurnFailed,
)
from app.lib.orders import AskAgain, AwaitResults, Order, RefuseCall, StopChoice
from app.lib.output_mode import OutputMode
from app.lib.placement import Origin, Tier
from app.lib.request import TurnRequest
from app.lib.result import collect
from app.lib.stop_policy import StopMode, StopPolicy
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec
from app.lib.turn import TurnCore
from app.lib.usage import Usage
from app.pipeline import run_turn
from tests.fuzz.effort import effort
from tests.fuzz.judge import ChatJudge, ResponseJudge, read_completion, read_response
from tests.support.plain import to_plain
from tests.support.scripted_backend import tell_in_chat, tell_in_responses

DEADLINES = Deadlines(100, 100, 1000)
#: Pieces of what is held and read, and of what only looks like it.
FRAGMENTS = (
    *("a", " ", "\n", "é字🙂", "<", "1,", "stop", "st", "op", "So. "),
    *("<use_tool>", "</use_tool>", "<use_tool", "_tool>", "<name>f</name>", "<name>h</name>", "<a>1</a>"),
    *("<use_tool>\n<name>f</name>\n<a>é</a>\n</use_tool>", "<use_tool><name>g</name></use_tool>"),
    *("<tool_call>", "</tool_call>", '{"name":"f","arguments":"{}"}', '{"a":1}', "[]", "{"),
    *('<tool_call>{"name":"f","arguments":"{\\"a\\":1}"}</tool_call>', '<tool_call>{"name":"h"}</tool_call>'),
    '{"calls":[{"name":"f","arguments":{}}]}',
)
ARGUMENTS = ("", "{}", '{"a":1}', '{"a": "é字🙂"}', "[]", "{", '{"a":1e999}')
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
F, G = ToolSpec("f", "F.", PARAMETERS), ToolSpec("g")
STRICT = ToolSpec("f", "F.", PARAMETERS, strict=True)
REGISTRIES = {
    "none": ToolRegistry(),
    "two": ToolRegistry([F, G]),
    "strict": ToolRegistry([STRICT, G]),
    "required": ToolRegistry([F, G], ToolChoice(ChoiceMode.REQUIRED)),
    "named": ToolRegistry([STRICT], ToolChoice(ChoiceMode.NAMED, "f")),
    "not-to-be-called": ToolRegistry([F], ToolChoice(ChoiceMode.NONE)),
}
POLICIES = (
    *(StopPolicy(), StopPolicy(mode=StopMode.ALL), StopPolicy(stop=False), StopPolicy(dedup=True)),
    *(StopPolicy(stop=False, suppress_tail=False),) * 3,
    StopPolicy(mode=StopMode.ALL, max_blocks=2),
)


@dataclass(frozen=True, slots=True)
class Setup:
    """What was asked for, by which dialect."""

    dialect: str
    choices: int
    tools: str
    policy: StopPolicy
    parallel: bool
    stop: tuple[str, ...]
    max_tokens: int | None
    expects_blocks: bool
    #: The events before anything ends it from outside.
    length: int

    @property
    def is_chat(self) -> bool:
        return self.dialect != "responses"

    @property
    def style(self) -> ChatStyle:
        mode = OutputMode.OBSIDIAN_XML if self.dialect == "xml" else OutputMode.OPENAI_JSON
        return ChatStyle(mode, legacy=self.dialect == "functions")

    def build_rules(self) -> AnswerRules:
        request = TurnRequest(
            "m",
            (),
            choices=self.choices,
            tools=REGISTRIES[self.tools],
            parallel=self.parallel,
            stop=self.stop,
            max_tokens=self.max_tokens,
        )
        if not self.is_chat:
            return ResponsesReading(self.policy).suit(request)
        return ChatReading(self.policy).suit(request, self.style.mode, self.expects_blocks)


@st.composite
def setups(draw: st.DrawFn, dialects: Sequence[str]) -> Setup:
    dialect = draw(st.sampled_from(dialects))
    few = st.booleans() if draw(st.booleans()) else st.just(False)  # most requests ask for nothing odd
    return Setup(
        dialect,
        draw(st.integers(1, 3)) if dialect != "responses" else 1,
        draw(st.sampled_from([*REGISTRIES])),
        draw(st.sampled_from(POLICIES)),
        not draw(few),
        ("stop",) if draw(few) else (),
        draw(st.sampled_from([1, 4])) if draw(few) else None,
        draw(st.booleans()),
        draw(st.sampled_from([0, 5, 20, 60])),
    )


CHOICES = st.integers(0, 2)
ITEMS = st.sampled_from(["m1", "m1", "m1", "m2"])
CALL_IDS = st.sampled_from(["c1", "c2", "c3"])
USAGES = st.builds(Usage, *[st.integers(0, 9)] * 4)
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=3).map("".join)


def build_call(name: str, arguments: str, call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


NAMES = st.sampled_from(["f", "g", "h"])
PAYLOADS = st.one_of(
    st.builds(build_call, NAMES, st.sampled_from(ARGUMENTS), CALL_IDS),
    st.builds(tell_in_chat, NAMES, st.sampled_from(ARGUMENTS), CALL_IDS, st.integers(0, 2)).flatmap(
        st.sampled_from
    ),
    st.builds(tell_in_responses, NAMES, st.sampled_from(ARGUMENTS), st.integers(0, 2)).flatmap(
        st.sampled_from
    ),
)
OF_A_CHOICE = st.one_of(
    st.builds(ModelActive, CHOICES),
    st.builds(TextDelta, CHOICES, ITEMS, TEXTS),
    st.builds(MessageDone, CHOICES, ITEMS, TEXTS),
    st.builds(
        ReasoningDelta, CHOICES, st.sampled_from(["r1", "r2"]), st.integers(0, 1), st.sampled_from("ab")
    ),
    st.builds(
        ReasoningDone, CHOICES, st.sampled_from(["r1", "r2"]), st.just(("a",)) | st.just(()), st.just("E")
    ),
    st.builds(SearchDone, CHOICES, st.just("ws"), st.just(SearchAction(SearchKind.SEARCH, "q"))),
    st.builds(CallComing, CHOICES),
    st.builds(ToolSignal, CHOICES, PAYLOADS),
    st.builds(CallRejected, CHOICES),
    st.builds(ResponseDone, CHOICES, USAGES),
    st.builds(Retrying, CHOICES, st.just("…")),
    st.builds(TurnEnded, CHOICES, st.sampled_from(FinishReason)),
)
OF_THE_TURN = st.one_of(
    st.builds(Queued),
    st.just(Placed(Tier.WARM, Origin.NEW)),
    st.just(LimitsTold(AccountLimits("plus"))),
)
#: As codex does it: text in one item, its whole form behind it; calls, and the end of their response.
SAID = st.builds(
    lambda choice, item, texts, is_whole: [
        *(TextDelta(choice, item, text) for text in texts),
        *([MessageDone(choice, item, "".join(texts))] if is_whole else []),
    ],
    CHOICES,
    ITEMS,
    st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=8),
    st.booleans(),
)
CALLED = st.builds(
    lambda choice, call, usage: [CallComing(choice), ToolSignal(choice, call), ResponseDone(choice, usage)],
    CHOICES,
    st.builds(build_call, NAMES, st.sampled_from(ARGUMENTS), CALL_IDS),
    USAGES,
)


class FedTurn:
    """A backend's turn that says what the machine has it say."""

    def __init__(self) -> None:
        self.fed: list[list[BackendEvent] | ProxyError] = []
        self.orders: list[Order] = []

    def batches(self) -> Iterator[list[BackendEvent]]:
        while self.fed:
            batch = self.fed.pop()
            if isinstance(batch, ProxyError):
                raise batch
            yield batch

    def order(self, orders: Sequence[Order]) -> None:
        self.orders += orders

    def close(self) -> None:
        """There is no process."""


class Pipeline(RuleBasedStateMachine):
    def _ask(self, setup: Setup) -> None:
        self.setup = setup
        self.turn = FedTurn()
        self.core = TurnCore(setup.choices, DEADLINES, setup.build_rules(), "x")
        self.batches = run_turn(self.turn, self.core)
        self.now_s = 0.0
        #: All that the backend said, and all that the core made of it.
        self.said: list[BackendEvent] = []
        self.told: list[TurnEvent] = []
        self.error: ProxyError | None = None
        #: Whether the client reads no more.
        self.has_left = False
        self.chat = ChatStream(ChatIdentity("chatcmpl-x", 1, "m"), setup.choices, True, setup.style)
        self.responses = ResponsesStream(ResponseIdentity("x", 1, "m", shows_encrypted=True))
        self.chat_judge, self.response_judge = ChatJudge(setup.choices), ResponseJudge()
        self._read(self.chat.open() if setup.is_chat else self.responses.open())
        note(f"{setup.dialect}, tools {setup.tools}")

    @property
    def has_come_far(self) -> bool:
        """Whether enough was said for an end: most turns are to be about something."""
        return len(self.said) >= self.setup.length

    # What a backend does

    @rule(events=st.lists(OF_A_CHOICE | OF_THE_TURN, min_size=1, max_size=6))
    def do_anything(self, events: list[BackendEvent]) -> None:
        # Where one call is wanted, a text behind it could still spell another: codex tells calls at the end.
        is_free = self.setup.parallel
        self._say([each for each in events if is_free or not isinstance(each, ToolSignal)])

    @rule(parts=st.lists(SAID, min_size=1, max_size=4))
    def say(self, parts: list[list[BackendEvent]]) -> None:
        self._say([each for part in parts for each in part])

    @rule(parts=st.lists(SAID, min_size=1, max_size=4))
    def say_more(self, parts: list[list[BackendEvent]]) -> None:
        """Most of what a backend does is to say something."""
        for part in parts:
            self._say(part)

    @rule(parts=st.lists(CALLED | SAID, min_size=1, max_size=3))
    def call(self, parts: list[list[BackendEvent]]) -> None:
        self._say([each for part in parts for each in part])

    @rule(seconds=st.sampled_from([0.1, 0.5, 5]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self._feed([Tick(self.now_s)])

    @rule(name=NAMES, arguments=st.sampled_from(ARGUMENTS))
    @precondition(lambda self: self._find_wishes())
    def carry_out_an_order(self, name: str, arguments: str) -> None:
        """The model tries again, as the core has it ordered."""
        order = self._find_wishes().pop(0)
        self.turn.orders.remove(order)
        match order:
            case RefuseCall(choice, call_id):
                call = build_call(name, arguments, f"{call_id}+")
                events = [CallComing(choice), ToolSignal(choice, call), ResponseDone(choice, Usage(1))]
            case AskAgain(choice):
                events = [
                    TextDelta(choice, f"again{len(self.said)}", arguments),
                    ResponseDone(choice, Usage(1)),
                ]
                events.append(TurnEnded(choice, FinishReason.STOP))
        self._feed(events)

    @rule(choice=CHOICES, reason=st.sampled_from(FinishReason))
    @precondition(lambda self: self.has_come_far)
    def end(self, choice: int, reason: FinishReason) -> None:
        self._feed([ResponseDone(index, Usage(1, 1, 1, 1)) for index in range(self.setup.choices)])
        self._feed([TurnEnded(min(choice, self.setup.choices - 1), reason)])

    @rule(how=st.sampled_from(["told", "raised", "silence", "the client"]))
    @precondition(lambda self: self.has_come_far)
    def break_off(self, how: str) -> None:
        match how:
            case "told":
                self._feed([TurnFailed(ContextTooLong("It broke."))])
            case "raised":
                self._feed(BackendUnavailable("It broke."))
            case "silence":
                self._fall_silent()
            case _:
                self._leave()

    # What must be true throughout

    @invariant()
    def ends_once(self) -> None:
        ends = [place for place, each in enumerate(self.told) if isinstance(each, Completed | Failed)]
        assert ends == ([len(self.told) - 1] if self.core.ended else [])

    @invariant()
    def choices_begin_and_end_once(self) -> None:
        for index in range(self.setup.choices):
            own = [each for each in self.told if getattr(each, "choice", None) == index]
            shown = [each for each in own if not isinstance(each, Note)]
            assert [each for each in shown if isinstance(each, Began)] == shown[:1]
            ends = [place for place, each in enumerate(own) if isinstance(each, Finished)]
            assert ends in ([], [len(own) - 1])

    @invariant()
    def calls_are_known_apart(self) -> None:
        seen: dict[tuple[int, int], tuple[str, str]] = {}
        for each in self.told:
            if isinstance(each, ToolCalled):
                key, name = (each.choice, each.delta.index), (each.delta.id, each.delta.function.name)
                assert seen.setdefault(key, name) == name
        assert len({id_ for id_, _ in seen.values()}) == len(seen)
        for index in range(self.setup.choices):
            places = [place for choice, place in seen if choice == index]
            assert places == [*range(len(places))]

    @invariant()
    def orders_make_sense(self) -> None:
        finished = {each.choice for each in self.told if isinstance(each, Finished)}
        ended = [each.choice for each in self.turn.orders if isinstance(each, StopChoice | AwaitResults)]
        assert finished >= set(ended) or self.core.ended
        assert len(set(ended)) == len(ended)
        for order in self.turn.orders:
            if isinstance(order, AwaitResults):
                told = [each.delta.to_record() for each in self.told_calls(order.choice)]
                assert list(order.calls) == told
                assert all(record.call_id for record in order.calls)

    def told_calls(self, choice: int) -> list[ToolCalled]:
        """Each as it was told last."""
        last: dict[int, ToolCalled] = {}
        for each in self.told:
            if isinstance(each, ToolCalled) and each.choice == choice:
                last[each.delta.index] = each
        return [*last.values()]

    def teardown(self) -> None:
        if not hasattr(self, "setup"):
            return
        if not self.core.ended:
            self._feed(None)
        if not self.core.ended:  # a fault of one choice, behind the ends of all the others
            raise AssertionError("the turn has no end")
        self.ends_once()
        self.choices_begin_and_end_once()
        self.orders_make_sense()
        end = self.told[-1]
        note("completed" if isinstance(end, Completed) else f"failed: {type(self.told[-1].error).__name__}")
        self._check_holds()
        self._check_again()
        if isinstance(end, Completed):
            self._check_completed()
        else:
            self._check_failed()

    # How it is done

    def _fall_silent(self) -> None:
        """Nothing but the time."""
        for _ in range(5):
            self.now_s += 99
            self._feed([Tick(self.now_s)])

    def _leave(self) -> None:
        """As the request's account does it: the generator is closed, and what is owed is counted."""
        self.batches.close()
        self._tell(self.core.fail(ClientGone("The client left.")))
        self.error = self.error or ClientGone("The client left.")
        self.has_left = True

    def _say(self, events: list[BackendEvent]) -> None:
        """All that is of this turn: a backend tells only of tools that it was given to offer."""
        known, tools = range(self.setup.choices), REGISTRIES[self.setup.tools]
        offers = bool(tools.callable) and not tools.demands_call
        told = [each for each in events if offers or not isinstance(each, CallComing | ToolSignal)]
        self._feed([each for each in told if getattr(each, "choice", 0) in known])

    def _feed(self, batch: list[BackendEvent] | ProxyError | None) -> None:
        """Have the backend say this, raise it, or say nothing any more; and read what comes of it."""
        if self.core.ended or self.has_left:
            assert self.core.feed_all(batch if isinstance(batch, list) else []) == []
            return
        self.turn.fed += [] if batch is None else [batch]
        if isinstance(batch, list):
            self.said += batch
        else:
            self.error = batch or BackendUnavailable("Codex ended the turn without an answer.")
        told = next(self.batches, [])
        self._tell(told)
        if self.core.ended:
            assert next(self.batches, None) is None

    def _tell(self, events: list[TurnEvent]) -> None:
        self.told += events
        stream = self.chat if self.setup.is_chat else self.responses
        data = stream.feed(events)
        if not self.setup.is_chat and self.responses.final is not None and events:
            data += self.responses.close(self.responses.final)
        self._read(data)

    def _read(self, data: bytes) -> None:
        (self.chat_judge if self.setup.is_chat else self.response_judge).feed(data)

    def _find_wishes(self) -> list[RefuseCall | AskAgain]:
        wishes = [each for each in self.turn.orders if isinstance(each, RefuseCall | AskAgain)]
        return [] if self.core.ended else wishes

    def _check_holds(self) -> None:
        """Every text that was held was let go, one way or the other, and once."""
        kinds = Counter(each.kind for each in self.told if isinstance(each, Note))
        ends = kinds[NoteKind.BUFFER_FLUSHED] + kinds[NoteKind.BUFFER_ABORTED]
        assert kinds[NoteKind.BUFFER_STARTED] == ends
        sent_back = kinds[NoteKind.CALLS_SENT_BACK]
        assert sent_back <= 2 * self.setup.choices

    def _check_again(self) -> None:
        """The same, said one event at a time, comes to the same; and no text was lost or made up."""
        core = TurnCore(self.setup.choices, DEADLINES, self.setup.build_rules(), "x")
        heard = [Heard() for _ in range(self.setup.choices)]
        told: list[TurnEvent] = []
        for each in self.said:
            if not core.ended and hasattr(each, "choice"):
                heard[each.choice].hear(each)
            told += (new := core.feed(each))
            for end in new:
                if isinstance(end, Finished):
                    heard[end.choice].is_over = True
        if not core.ended:
            told += core.fail(self.error) if self.error else core.finish()
        assert to_plain(told) == to_plain(self.told)
        for index, what in enumerate(heard):
            self._check_text(index, what)

    def _check_text(self, index: int, heard: Heard) -> None:
        rules = self.setup.build_rules()
        if rules.registry.demands_call or heard.has_calls or (rules.escape and "<tool_call>" in heard.text):
            return
        shown = [each for each in self.told if isinstance(each, Text | ToolBlock) and each.choice == index]
        text = "".join(each.text for each in shown)
        policy, is_limited = rules.policy, bool(rules.stop) or rules.max_bytes is not None
        is_refused = any(map(is_refusal, self.told))
        if policy.stop or policy.suppress_tail or policy.dedup or policy.max_blocks:
            rest = iter(heard.text)
            assert all(letter in rest for letter in text), (text, heard.text)
        elif is_limited or is_refused:
            assert heard.text.startswith(text)
        else:
            assert heard.text == text

    def _check_completed(self) -> None:
        """A stream, as it is added up, is the body."""
        if self.setup.is_chat:
            assert self.chat_judge.is_done
            assert self.chat_judge.error is None
            body = build_completion(
                ChatIdentity("chatcmpl-x", 1, "m"), collect([self.told], self.setup.choices), self.setup.style
            )
            assert self._settle(self.chat_judge.to_list()) == self._settle(
                read_completion(orjson.loads(orjson.dumps(body)))
            )
            assert self.chat_judge.usage == body["usage"]
            return
        assert self.response_judge.is_done
        final = self.response_judge.final
        assert final is not None
        [result] = collect([self.told], 1).choices
        read = read_response(final)
        assert read["text"] == result.text
        assert read["reasoning"] == "".join(result.reasoning)
        if not self._has_replaced:
            calls = [(call.id, call.function.name, call.arguments or "{}") for call in result.calls]
            assert sorted(read["calls"]) == sorted(calls)

    def _check_failed(self) -> None:
        judge = self.chat_judge if self.setup.is_chat else self.response_judge
        assert judge.is_done
        assert self.has_left or judge.error
        with pytest.raises(ProxyError) as raised:
            collect([self.told], self.setup.choices)
        assert raised.value is self.told[-1].error

    @property
    def _has_replaced(self) -> bool:
        """Arguments that were told otherwise later: what went out cannot be taken back."""
        return any(isinstance(each, ToolCalled) and each.delta.added is None for each in self.told)

    def _settle(self, choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not self._has_replaced:
            return choices
        return [each | {"calls": [call[:2] for call in each["calls"]]} for each in choices]


def is_refusal(told: TurnEvent) -> bool:
    """Whether a call broke the client's own schema: nothing goes out behind it, be that an error or not."""
    match told:
        case Failed(error):
            return error.code == "invalid_tool_call"
        case Note(kind=NoteKind.FAILED_AFTER_CALLS):
            return True
        case _:
            return False


@dataclass(slots=True)
class Heard:
    """What a choice was told as text."""

    text: str = ""
    items: set[str] = field(default_factory=set)
    has_calls: bool = False
    is_over: bool = False

    def hear(self, said: BackendEvent) -> None:
        match said:
            case _ if self.is_over:
                pass
            case TextDelta(_, item, text) if text:
                self._add(item, text)
            case MessageDone(_, item, text) if text and item not in self.items:
                self._add(item, text)
            case ToolSignal():
                self.has_calls = True

    def _add(self, item: str, text: str) -> None:
        self.items.add(item)
        self.text += text


class ChatPipeline(Pipeline):
    @initialize(setup=setups(("json", "xml", "functions")))
    def ask(self, setup: Setup) -> None:
        self._ask(setup)


class ResponsesPipeline(Pipeline):
    @initialize(setup=setups(("responses",)))
    def ask(self, setup: Setup) -> None:
        self._ask(setup)


TestChat, TestResponses = ChatPipeline.TestCase, ResponsesPipeline.TestCase
TestChat.settings = TestResponses.settings = effort(200, steps=30)
