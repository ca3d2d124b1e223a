"""The names of the client's tools, and the names codex is given for them."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Sequence

from app.lib.tool_registry import ToolSpec

# What codex takes; anything else makes it refuse the whole thread.
PLAIN = re.compile(r"[A-Za-z0-9_-]{1,128}")
# Refused (`mcp`), or taken and then kept from the model, or codex's own where its catalogue says so.
TAKEN = frozenset({"mcp", "exec_command", "shell_command", "apply_patch"})
TAKEN_PREFIX = "mcp__"
# A name of this form gets an alias too: so no name that stays is ever another's alias.
ALIAS = re.compile(r"fn_[A-Za-z0-9_-]*_[0-9a-f]{8}")
UNSAFE = re.compile(r"[^A-Za-z0-9-]+")
BEGINNING_CHARS = 40


class ToolNames:
    """Both ways between a client's names and codex's; the same name becomes the same alias in every request.

    The prompt cache wants that: a tool that is called otherwise is another prompt.
    """

    __slots__ = ("_by_alias", "_by_name")

    def __init__(self, specs: Sequence[ToolSpec] = ()) -> None:
        self._by_name: dict[str, str] = {}
        self._by_alias: dict[str, str] = {}
        for spec in specs:
            # Two names with one digest can be made on purpose: the later one is digested again.
            free = (alias for alias in find_aliases(spec.name) if alias not in self._by_alias)
            alias = self._by_name.setdefault(spec.name, next(free))
            self._by_alias.setdefault(alias, spec.name)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def to_codex(self, name: str) -> str:
        """Also for a past call's name that is no longer declared: the same rule holds for it."""
        return self._by_name.get(name) or next(find_aliases(name))

    def to_client(self, name: str) -> str | None:
        """The client's own name; `None`: no tool of this request."""
        return self._by_alias.get(name)


def find_aliases(name: str) -> Iterator[str]:
    """What codex may be given for a name, the best first."""
    if is_taken_as_is(name):
        yield name
    beginning = UNSAFE.sub("_", name)[:BEGINNING_CHARS].strip("_")
    for attempt in itertools.count():
        digest = hashlib.sha256(f"{attempt} {name}".encode("utf-8", "surrogatepass")).hexdigest()
        yield f"fn_{beginning}_{digest[:8]}"


def is_taken_as_is(name: str) -> bool:
    is_reserved = name in TAKEN or name.startswith(TAKEN_PREFIX)
    return bool(PLAIN.fullmatch(name)) and not is_reserved and not ALIAS.fullmatch(name)
