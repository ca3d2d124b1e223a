"""The closed vocabularies that cross the stages: backend events in, turn events out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.lib.account_limits import AccountLimits
from app.lib.errors import ProxyError
from app.lib.placement import Origin, Tier
from app.lib.tool_calls import ToolCallDelta
from app.lib.usage import NOTHING_USED, Usage


class FinishReason(StrEnum):
    TOOL_CALLS = "tool_calls"
    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class ModelActive:
    """The model has begun to answer; nothing to show yet."""

    choice: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    choice: int
    item_id: str
    text: str
    #: What came at once is one event: the deltas it was, none of them empty.
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageDone:
    """A message as a whole; the only carrier of its text when no delta came."""

    choice: int
    item_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    choice: int
    item_id: str
    part: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDone:
    choice: int
    item_id: str
    parts: tuple[str, ...]
    #: The reasoning itself, which only the model's own API can read.
    encrypted: str | None = None


class SearchKind(StrEnum):
    SEARCH = "search"
    OPEN_PAGE = "open_page"
    FIND_IN_PAGE = "find_in_page"


@dataclass(frozen=True, slots=True)
class SearchAction:
    """What a web search of codex's own did; what goes with another kind is empty."""

    kind: SearchKind
    query: str = ""
    queries: tuple[str, ...] = ()
    url: str = ""
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class SearchDone:
    choice: int
    item_id: str
    action: SearchAction


@dataclass(frozen=True, slots=True)
class ToolSignal:
    """Something about tool calls, in any accepted shape; `tool_call_shapes` reads it.

    A backend tells only of tools that it was given to offer.
    """

    choice: int
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallComing:
    """A call is there, but its response is not complete: only then it, or `CallRejected`, is told."""

    choice: int


@dataclass(frozen=True, slots=True)
class CallRejected:
    """A call that codex itself tells the model to correct: no such tool, or unreadable arguments."""

    choice: int


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """A model response is complete, its calls too; a turn may hold several."""

    choice: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class Retrying:
    """Codex lost its upstream and starts this response over."""

    choice: int
    message: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    choice: int
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class TurnFailed:
    error: ProxyError


@dataclass(frozen=True, slots=True)
class Queued:
    """The turn waits for a codex process; nothing has been asked of the model yet."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a turn runs; told before anything of the model's."""

    tier: Tier
    origin: Origin


@dataclass(frozen=True, slots=True)
class LimitsTold:
    """Codex told how much of the account's allowance is used."""

    limits: AccountLimits


@dataclass(frozen=True, slots=True)
class Tick:
    """The time, at least once a second, on a clock that only moves forward."""

    now_s: float


#: What a choice's answer is told by.
AnswerEvent = (
    ModelActive
    | TextDelta
    | MessageDone
    | ReasoningDelta
    | ReasoningDone
    | SearchDone
    | CallComing
    | ToolSignal
    | CallRejected
    | TurnEnded
)
ChoiceEvent = AnswerEvent | ResponseDone | Retrying
BackendEvent = ChoiceEvent | TurnFailed | Queued | Placed | LimitsTold | Tick


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not even started: whatever goes wrong now can still be a plain status."""


@dataclass(frozen=True, slots=True)
class Began:
    """A choice's first sign of life, before anything else of it."""

    choice: int


@dataclass(frozen=True, slots=True)
class Text:
    choice: int
    item_id: str
    text: str
    #: Each is a frame; nothing, where all of it is one.
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reasoning:
    choice: int
    item_id: str
    part: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningEnded:
    """A model's reasoning is complete, summarised or not."""

    choice: int
    item_id: str
    encrypted: str | None = None


@dataclass(frozen=True, slots=True)
class Searched:
    """A web search that codex ran."""

    choice: int
    item_id: str
    action: SearchAction


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A call of the model's, or more of one."""

    choice: int
    delta: ToolCallDelta


@dataclass(frozen=True, slots=True)
class ToolBlock:
    """The text a call was read from, verbatim, after the call itself."""

    choice: int
    item_id: str
    text: str


class NoteKind(StrEnum):
    BUFFER_STARTED = "tool_buffer_started"
    BUFFER_FLUSHED = "tool_buffer_flushed"
    BUFFER_ABORTED = "tool_buffer_aborted"
    ARGUMENTS_REPAIRED = "tool_arguments_repaired"
    CALL_FAULTY = "tool_call_faulty"
    CALLS_SENT_BACK = "tool_calls_sent_back"
    FAILED_AFTER_CALLS = "failed_after_calls"


@dataclass(frozen=True, slots=True)
class Note:
    """Something for the counters and the log; no client sees it, and no client's words are in it."""

    choice: int
    kind: NoteKind
    #: The spelling it is about (`use_tool`, `tool_call`, a registered pattern's name, `function` for none),
    #: or the error's code where that is what failed.
    row: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    choice: int
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class Completed:
    """Every choice has finished; nothing follows."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn broke; nothing follows."""

    error: ProxyError
    #: What codex told by then.
    usage: Usage = NOTHING_USED


#: What a choice's answer is made of, in order.
ShownEvent = Began | Text | Reasoning | ReasoningEnded | Searched | ToolCalled | ToolBlock | Finished
TurnEvent = Waiting | Placed | LimitsTold | ShownEvent | Note | Completed | Failed
#: What comes before the model shows itself.
PRELUDE = frozenset((Waiting, Placed, LimitsTold))
