"""One request's place in its conversation: what it may go on from, and what may go on from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from app.lib.continuation import (
    Delivery,
    ThreadKey,
    digest_history,
    digest_terms,
    find_answered,
    split_delivery,
    split_follow_up,
)
from app.lib.placement import Origin
from app.lib.prompt import Prompt, is_told
from app.lib.request import HistoryItem, Message, PastCall, Role, TextPart
from app.lib.tool_calls import ToolCallRecord


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What a thread must hold for a request to go on in it, and what is then still to be said."""

    key: ThreadKey | None = None
    said: Sequence[HistoryItem] = ()


NO_FOLLOW_UP = FollowUp()


class Conversation:
    def __init__(self, owner: str, prompt: Prompt, may_keep: bool = True) -> None:
        self._owner = owner
        self.request = prompt.request
        # Several choices are as many conversations; and what we add to one is not its client's.
        may_keep = may_keep and prompt.request.choices == 1 and not prompt.is_amended
        self._terms = digest_terms(prompt.request) if may_keep else None

    @property
    def is_kept(self) -> bool:
        """Whether it may go on from anything, or anything from it."""
        return self._terms is not None

    def match(self, key: ThreadKey, call_ids: Collection[str]) -> Delivery | Origin:
        """What the request brings for a turn that waits for these calls, or why that is not its own."""
        if key.owner != self._owner:
            return Origin.OTHER_KEY
        if key.terms != self._terms:
            return Origin.OTHER_TERMS
        delivery = split_delivery(self.request, call_ids)
        if delivery is None:
            return Origin.OTHER_HISTORY
        if len(delivery.outputs) < len(call_ids):
            return Origin.RESULTS_MISSING
        # A client that brings the results alone leaves it to us what went before.
        is_same = not delivery.told or key.history == digest_history(delivery.told)
        return delivery if is_same else Origin.OTHER_HISTORY

    def find_follow_up(self) -> FollowUp:
        """What the request adds to a conversation that a thread may hold."""
        told, said = split_follow_up(self.request.history)
        if not told or not all(isinstance(item, Message) for item in said):
            return NO_FOLLOW_UP
        heard = [item for item in said if is_told(item)]
        return FollowUp(self._build_key(told), heard) if heard else NO_FOLLOW_UP

    def find_key_behind(self, said: str, calls: Sequence[ToolCallRecord] = ()) -> ThreadKey | None:
        """What a request has to tell that goes on from this one's answer; `None` where none may."""
        words = [Message(Role.ASSISTANT, (TextPart(said),))] if said else []
        made = [PastCall(record.id, record.function.name, record.arguments) for record in calls]
        return self._build_key((*self.request.history, *words, *made))

    def _build_key(self, history: Iterable[HistoryItem]) -> ThreadKey | None:
        if self._terms is None:
            return None
        return ThreadKey(self._owner, self._terms, digest_history(history))

    def find_answered(self) -> frozenset[str]:
        """The calls it brings results for, behind the model's last word: those before it went elsewhere."""
        return find_answered(split_follow_up(self.request.history)[1])
