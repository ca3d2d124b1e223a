"""The tools a request declares, and which of them its `tool_choice` lets the model call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolSpec:
    name: str
    description: str | None = None
    #: The client's own JSON schema; `None` allows any object.
    parameters: dict[str, Any] | None = None
    #: `None` where the client left it open, which is not strict (D5).
    strict: bool | None = None


class ChoiceMode(Enum):
    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    mode: ChoiceMode = ChoiceMode.AUTO
    #: The one tool of `NAMED`.
    name: str | None = None
    #: What `allowed_tools` narrows the functions to; `None` means all of them.
    allowed: frozenset[str] | None = None
    #: Whether codex's own web search is named beside them.
    names_search: bool = False

    @property
    def allows_search(self) -> bool:
        is_left = self.allowed is None or self.names_search
        return is_left and self.mode not in (ChoiceMode.NONE, ChoiceMode.NAMED)

    def allows(self, name: str) -> bool:
        match self.mode:
            case ChoiceMode.NONE:
                return False
            case ChoiceMode.NAMED:
                return name == self.name
            case _:
                return self.allowed is None or name in self.allowed


class ToolRegistry:
    """Tools by name, in the order of the request; of two with one name the first counts.

    A later tool can so never take the place of one the client listed before it.
    """

    __slots__ = ("_by_name", "_callable", "any_strict", "choice")

    def __init__(self, specs: Iterable[ToolSpec] = (), choice: ToolChoice | None = None) -> None:
        self._by_name: dict[str, ToolSpec] = {}
        for spec in specs:
            self._by_name.setdefault(spec.name, spec)
        self.choice = choice or ToolChoice()
        self._callable = tuple(spec for spec in self if self.choice.allows(spec.name))
        #: Whether a call that cannot be told apart might have been one of a strict tool.
        self.any_strict = bool(self._callable) and any(spec.strict for spec in self)

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self._by_name.values())

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolRegistry):
            return NotImplemented
        return tuple(self) == tuple(other) and self.choice == other.choice

    def __hash__(self) -> int:
        return hash(self.names)  # schemas have none

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    @property
    def callable(self) -> tuple[ToolSpec, ...]:
        """The tools the model may call now."""
        return self._callable

    @property
    def demands_call(self) -> bool:
        """Whether the answer has to be a call, and nothing else."""
        return self.choice.mode in (ChoiceMode.NAMED, ChoiceMode.REQUIRED) and bool(self._callable)

    def get(self, name: str) -> ToolSpec | None:
        return self._by_name.get(name)

    def allows(self, name: str) -> bool:
        return name in self._by_name and self.choice.allows(name)


#: What a request declares that declares nothing.
NO_TOOLS = ToolRegistry()
