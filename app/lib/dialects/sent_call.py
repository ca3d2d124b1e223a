"""A call on its way to a client that adds up what it gets: what of the arguments is still to be sent."""

from __future__ import annotations

from app.lib.tool_calls import ArgumentsView, ToolCallDelta

# A call without arguments has an empty object of them: clients parse the text.
NO_ARGUMENTS = "{}"


class SentCall:
    """Begins with a delta all of whose arguments go out.

    Nothing that went out can be taken back. So where arguments are replaced, those sent stand, and what the
    new ones add is sent once they are complete. New ones that begin otherwise add nothing: the stream then
    keeps the old ones, and only a body has the new ones. That is the one way the two can differ.
    """

    __slots__ = ("_sent", "told")

    def __init__(self, delta: ToolCallDelta) -> None:
        #: The call as it was told last.
        self.told = delta
        #: What went out; the very view of `told` as long as that says the same.
        self._sent: ArgumentsView | str = delta.view

    def take(self, delta: ToolCallDelta) -> str:
        """What of a delta goes out at once."""
        is_next = delta.added is not None and self._sent is self.told.view
        self.told = delta
        if not is_next:
            return ""
        self._sent = delta.view
        return delta.added or ""

    def complete(self) -> str:
        """What goes out once all the arguments were told."""
        text, sent = self.told.arguments or NO_ARGUMENTS, str(self._sent)
        if not text.startswith(sent):
            return ""
        self._sent = self.told.view if self.told.arguments else NO_ARGUMENTS
        return text[len(sent) :]
